"""Data for trying things out, as scripts ask ``mx.test_utils`` for it: MNIST, CIFAR, downloads."""
from __future__ import annotations

import bz2
import gzip
import os
import pickle
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .base import ArgumentValueError, MXNetError
from .files import replacing
from .gluon.data.vision import MNIST
from .gluon.utils import download as _download
from .io import DataBatch, DataDesc, DataIter, MNISTIter, read_idx

__all__ = [
    "DummyIter", "download", "download_model", "get_bz2_data", "get_cifar10", "get_mnist",
    "get_mnist_iterator", "get_mnist_pkl", "get_mnist_ubyte", "get_zip_data",
]

_CIFAR10 = "http://data.mxnet.io/mxnet/data/cifar10.zip"


def download(url: str, fname: str | None = None, dirname: str | None = None,
             overwrite: bool = False, retries: int = 5) -> str:
    """Fetch a file, unless it is there; returns its path.

    Args:
        fname: its name; None takes it from the address. dirname: the folder to put it in.
        overwrite: fetch it even if it is there. retries: how many further times to try.
    """
    fname = fname or url.split("/")[-1]
    if dirname is not None:
        fname = os.path.join(dirname, fname)
    return _download(url, fname, overwrite, retries=retries)


def get_zip_data(data_dir: str, url: str, data_origin_name: str) -> None:
    """Fetch an archive into a folder, unless it is there, and unpack it."""
    path = os.path.join(data_dir, data_origin_name)
    if not os.path.exists(path):
        download(url, data_origin_name, data_dir)
    with zipfile.ZipFile(path) as packed:
        packed.extractall(data_dir)


def get_bz2_data(data_dir: str, data_name: str, url: str, data_origin_name: str) -> None:
    """Fetch a bz2 file into a folder and unpack it there as `data_name`, unless that exists."""
    target = os.path.join(data_dir, data_name)
    if os.path.exists(target):
        return
    packed = os.path.join(data_dir, data_origin_name)
    download(url, packed)
    with bz2.open(packed, "rb") as source, replacing(target, "get_bz2_data") as file:
        shutil.copyfileobj(source, file)
    os.remove(packed)


def get_mnist() -> dict[str, np.ndarray[Any, Any]]:
    """The digits as arrays: images (n, 1, 28, 28) float32 in [0, 1], labels int32."""
    result = {}
    for word, train in (("train", True), ("test", False)):
        digits = MNIST(train=train)
        pixels = digits._data.asnumpy().transpose(0, 3, 1, 2)
        result[f"{word}_data"] = pixels.astype(np.float32) / 255
        result[f"{word}_label"] = digits._label
    return result


def get_mnist_pkl() -> None:
    """Put the digits into ``data/mnist.pkl.gz``, unless they are there: (images, labels) thrice.

    Training, validation and test: images (n, 784) in [0, 1], the last sixth of the training
    samples held back for validation.
    """
    target = Path("data", "mnist.pkl.gz")
    if target.exists():
        return
    digits = get_mnist()
    images = {word: digits[f"{word}_data"].reshape(-1, 784) for word in ("train", "test")}
    cut = len(images["train"]) * 5 // 6
    parts = ((images["train"][:cut], digits["train_label"][:cut]),
             (images["train"][cut:], digits["train_label"][cut:]),
             (images["test"], digits["test_label"]))
    target.parent.mkdir(exist_ok=True)
    with replacing(str(target), "get_mnist_pkl") as raw, gzip.open(raw, "wb") as file:
        pickle.dump(parts, file)


def get_mnist_ubyte() -> None:
    """Put the digits as four files into the folder ``data`` (of the bundled ones, if no others)."""
    for train in (True, False):
        for path in MNIST(train=train).files:
            target = os.path.join("data", os.path.basename(path).removesuffix(".gz"))
            if not os.path.exists(target):
                os.makedirs("data", exist_ok=True)
                values = read_idx(path)
                header = bytes([0, 0, 8, values.ndim]) + b"".join(
                    size.to_bytes(4, "big") for size in values.shape)
                with replacing(target, "get_mnist_ubyte") as file:
                    file.write(header + values.tobytes())


def get_mnist_iterator(batch_size: int, input_shape: Sequence[int], num_parts: int = 1,
                       part_index: int = 0) -> tuple[MNISTIter, MNISTIter]:
    """Iterators over the digits, to train and to validate.

    Args:
        batch_size: digits in a batch. input_shape: (784,) for flat digits, else (1, 28, 28).
        num_parts, part_index: one of equal parts of the training digits.
    """
    flat = len(input_shape) == 1
    train, test = (MNIST(train=word).files for word in (True, False))
    return (MNISTIter(train[0], train[1], batch_size, True, flat, num_parts=num_parts,
                      part_index=part_index),
            MNISTIter(test[0], test[1], batch_size, False, flat))


def get_cifar10() -> None:
    """See that ``data/cifar`` holds CIFAR-10 as RecordIO files, fetched if need be."""
    wanted = [os.path.join("data", "cifar", f"{word}.rec") for word in ("train", "test")]
    if all(map(os.path.exists, wanted)):
        return
    try:
        get_zip_data("data", _CIFAR10, "cifar10.zip")
    except Exception as error:
        raise MXNetError(f"get_cifar10: {wanted} are not there and {_CIFAR10} cannot be fetched "
                         f"({error}); put the files there") from error


def download_model(model_name: str, dst_dir: str = "./", meta_info: Any = None
                   ) -> tuple[str, int]:
    """Fetch the symbol and the parameters of a model; returns its path and its epoch.

    Args:
        model_name: its name. dst_dir: where to. meta_info: for each name a dict of addresses:
            'symbol' and 'params'.
    """
    if not meta_info or model_name not in meta_info:
        raise ArgumentValueError(f"download_model: no addresses for '{model_name}' in meta_info; "
                                 "give {name: {'symbol': url, 'params': url}}")
    path = os.path.join(dst_dir, model_name)
    for kind, ending in (("symbol", "-symbol.json"), ("params", "-0000.params")):
        download(meta_info[model_name][kind], path + ending)
    return path, 0


class DummyIter(DataIter):
    """The first batch of an iterator again and again without end, to measure speed."""

    def __init__(self, real_iter: DataIter) -> None:
        super().__init__(real_iter.batch_size)
        self.real_iter = real_iter
        self.provide_data: list[DataDesc] = real_iter.provide_data  # type: ignore[attr-defined]
        self.provide_label: list[DataDesc] = real_iter.provide_label  # type: ignore[attr-defined]
        self.the_batch = real_iter.next()

    def next(self) -> DataBatch:
        return self.the_batch

    def iter_next(self) -> bool:
        return True

    def getdata(self) -> Any:
        return self.the_batch.data

    def getlabel(self) -> Any:
        return self.the_batch.label

    def getpad(self) -> int | None:
        return self.the_batch.pad
