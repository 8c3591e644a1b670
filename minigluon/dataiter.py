"""What an iterator over data gives and says of it: DataBatch, DataDesc, DataIter."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .base import ArgumentValueError
from .ndarray import NDArray

__all__ = ["DataBatch", "DataDesc", "DataIter", "part_of"]


class _Desc(NamedTuple):
    name: str
    shape: tuple[int, ...]


class DataDesc(_Desc):
    """Name and shape of an array (as a pair), and its `dtype` and `layout`.

    >>> name, shape = DataDesc("data", (32, 3, 28, 28))
    >>> DataDesc.get_batch_axis("TNC")
    1
    """

    dtype: Any
    layout: str

    def __new__(cls, name: str, shape: Sequence[int], dtype: Any = np.float32,
                layout: str = "NCHW") -> DataDesc:
        self = super().__new__(cls, name, tuple(shape))
        self.dtype = dtype
        self.layout = layout
        return self

    def __repr__(self) -> str:
        return f"DataDesc[{self.name},{self.shape},{self.dtype},{self.layout}]"

    def __reduce__(self) -> tuple[Any, ...]:
        return DataDesc, (self.name, self.shape, self.dtype, self.layout)

    @staticmethod
    def get_list(shapes: Any, types: Any) -> list[DataDesc]:
        """Descriptions from pairs (name, shape) and, unless None, pairs (name, element type).

        >>> DataDesc.get_list([("x", (2, 3))], [("x", "float16")])
        [DataDesc[x,(2, 3),float16,NCHW]]
        """
        kinds = {} if types is None else dict(types)
        return [DataDesc(name, shape, kinds.get(name, np.float32)) for name, shape in shapes]

    @staticmethod
    def get_batch_axis(layout: str | None) -> int:
        """Where the batch lies in a layout; 0 for None."""
        return 0 if layout is None else layout.find("N")


class DataBatch:
    """The arrays of one batch.

    Attributes:
        data, label: lists of NDArrays; `label` may be None.
        pad: how many samples at the end only fill the batch up.
        index: numbers of the samples, where known.
        bucket_key, provide_data, provide_label: for bucketing iterators.
    """

    def __init__(self, data: list[NDArray] | None, label: list[NDArray] | None = None,
                 pad: int | None = None, index: Any = None, bucket_key: Any = None,
                 provide_data: list[DataDesc] | None = None,
                 provide_label: list[DataDesc] | None = None) -> None:
        for word, arrays in (("data", data), ("label", label)):
            if arrays is not None:
                assert isinstance(arrays, (list, tuple)), (
                    f"DataBatch: {word}: expected a list of NDArrays, got {type(arrays).__name__}"
                )
        self.data = data
        self.label = label
        self.pad = pad
        self.index = index
        self.bucket_key = bucket_key
        self.provide_data = provide_data
        self.provide_label = provide_label

    def __str__(self) -> str:
        data = [array.shape for array in self.data or ()]
        label = [array.shape for array in self.label] if self.label else None
        return f"{type(self).__name__}: data shapes: {data} label shapes: {label}"


class DataIter:
    """Batches, epoch by epoch: iterate, then ``reset()`` for the next epoch.

    Subclasses define ``iter_next`` and the four ``get`` functions, or ``next`` alone.
    """

    def __init__(self, batch_size: int = 0) -> None:
        self.batch_size = batch_size

    def __iter__(self) -> DataIter:
        return self

    def __next__(self) -> DataBatch:
        return self.next()

    def reset(self) -> None:
        """Go back to the beginning."""

    def next(self) -> DataBatch:
        """The next batch; StopIteration at the end of the epoch."""
        if not self.iter_next():
            raise StopIteration
        return DataBatch(self.getdata(), self.getlabel(), self.getpad(), self.getindex())

    def iter_next(self) -> bool:
        """Go to the next batch; False when there is none."""
        raise NotImplementedError(f"{type(self).__name__} must define iter_next or next")

    def getdata(self) -> list[NDArray]:
        """The data of the current batch."""
        raise NotImplementedError(f"{type(self).__name__} must define getdata")

    def getlabel(self) -> list[NDArray] | None:
        """The labels of the current batch."""
        raise NotImplementedError(f"{type(self).__name__} must define getlabel")

    def getindex(self) -> Any:
        """The numbers of the samples of the current batch, or None."""
        return None

    def getpad(self) -> int | None:
        """How many samples at the end of the current batch only fill it up."""
        raise NotImplementedError(f"{type(self).__name__} must define getpad")


def part_of(count: int, num_parts: int, part_index: int) -> np.ndarray[Any, Any]:
    """Which of `count` samples belong to one of several equally long parts.

    Every sample belongs to a part. Where they do not divide evenly the last parts take some
    again from the beginning, so that all workers of a job have equally many batches.

    >>> [part_of(5, 2, i).tolist() for i in range(2)]
    [[0, 1, 2], [3, 4, 0]]
    """
    if num_parts < 1 or not 0 <= part_index < num_parts:
        raise ArgumentValueError(
            f"part_index: expected 0 to num_parts - 1, got part {part_index} of {num_parts}"
        )
    size = -(-count // num_parts)
    return np.arange(part_index * size, (part_index + 1) * size) % max(count, 1)
