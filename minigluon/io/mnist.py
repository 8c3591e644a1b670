"""MNISTIter: batches of the digits in MNIST's files."""
from __future__ import annotations

import gzip
import os
from typing import Any

import numpy as np

from ..base import MXNetError
from ..dataiter import part_of
from .fileiter import MXDataIter, unused_settings

__all__ = ["MNISTIter", "read_idx"]

Host = np.ndarray[Any, Any]


def read_idx(path: str | os.PathLike[str]) -> Host:
    """The uint8 array in an IDX file, gzipped or not; tried with '.gz' where it is not there."""
    path = os.fspath(path)
    if not os.path.exists(path) and os.path.exists(path + ".gz"):
        path += ".gz"
    try:
        with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise MXNetError(f"cannot read {path}: {error}") from error
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise MXNetError(f"{path}: not an IDX file of bytes (it begins with {data[:4]!r})")
    start = 4 + 4 * data[3]
    shape = tuple(np.frombuffer(data, ">u4", data[3], 4).tolist())
    if len(data) - start != int(np.prod(shape)):
        raise MXNetError(f"{path}: its header says {shape}, but {len(data) - start} bytes follow")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape).copy()


class MNISTIter(MXDataIter):
    """Batches of digits, pixels 0 up to 255/256; samples that fill no batch are left out.

    Args:
        image, label: paths of the files, as published (gzipped or not).
        batch_size: samples in a batch.
        shuffle: in random order, the same in each epoch.
        flat: samples of 784 numbers, else (1, 28, 28).
        seed: of the order. num_parts, part_index: read one of equal parts.
    """

    def __init__(self, image: Any = "./train-images-idx3-ubyte",
                 label: Any = "./train-labels-idx1-ubyte", batch_size: int = 128,
                 shuffle: bool = True, flat: bool = False, seed: int = 0, num_parts: int = 1,
                 part_index: int = 0, dtype: Any = None, data_name: str = "data",
                 label_name: str = "softmax_label", **kwargs: Any) -> None:
        unused_settings("MNISTIter", kwargs, list(MNISTIter.__init__.__annotations__))
        pixels, numbers = read_idx(image), read_idx(label)
        if pixels.ndim != 3 or numbers.shape != pixels.shape[:1]:
            raise MXNetError(f"MNISTIter: {image} holds shape {pixels.shape} and {label} "
                             f"{numbers.shape}; expected (n, height, width) and (n,)")
        order = np.arange(len(pixels))
        if shuffle:
            order = np.random.Generator(np.random.Philox(abs(int(seed)))).permutation(len(pixels))
        order = order[part_of(len(order), num_parts, part_index)]
        self._order, self._pixels, self._numbers = order, pixels, numbers
        self._kind = np.dtype(dtype or "float32")
        self._shape = (pixels[0].size,) if flat else (1, *pixels.shape[1:])
        full = len(order) // int(batch_size) * int(batch_size) if batch_size else len(order)
        super().__init__(full, batch_size,
                         ((self._shape, self._kind.type), ((), self._kind.type)), True, data_name,
                         label_name)

    def _load(self, indices: Host) -> tuple[Host, Host]:
        chosen = self._order[indices]
        data = self._pixels[chosen].astype(self._kind)
        data *= 1 / 256
        return data.reshape(-1, *self._shape), self._numbers[chosen].astype(self._kind)

    def getindex(self) -> Host:
        return self._order[self._indices].astype(np.uint64)
