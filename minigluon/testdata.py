"""Data for trying things out, as scripts ask ``mx.test_utils`` for it: MNIST, CIFAR, downloads."""
from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from typing import Any

from .base import MXNetError
from .gluon.data.vision import MNIST
from .gluon.utils import download as _download
from .io import DataBatch, DataDesc, DataIter, MNISTIter, read_idx

__all__ = [
    "DummyIter", "download", "get_cifar10", "get_mnist_iterator", "get_mnist_ubyte",
    "get_zip_data",
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
                with open(target, "wb") as file:
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
