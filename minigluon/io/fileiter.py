"""What the iterators over files have in common: rounds of batches, parts, settings."""
from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base import ArgumentValueError, did_you_mean
from ..dataiter import DataBatch, DataDesc, DataIter
from ..ndarray import NDArray, array

__all__ = ["MXDataIter", "unused_settings"]

Host = np.ndarray[Any, Any]

# Settings of MXNet's iterators that change nothing here: they tune or silence what it does.
_IDLE = frozenset({
    "ctx", "device_id", "input_shape", "prefetch_buffer", "preprocess_threads", "silent",
    "shuffle_chunk_seed", "shuffle_chunk_size", "verbose",
})


def unused_settings(who: str, given: dict[str, Any], known: Sequence[str]) -> None:
    """Warn of arguments that `who` does not know, as MXNet takes them in silence."""
    for name in given:
        if name not in _IDLE:
            warnings.warn(f"{who}: unknown argument '{name}'{did_you_mean(name, known)} (ignored)",
                          stacklevel=3)


class MXDataIter(DataIter):
    """Base of the iterators over files: numbered samples, batch after batch.

    With `round_batch` the last batch of an epoch is filled up with samples from the beginning, and
    the next epoch goes on behind those. Without, it keeps samples of the batch before. Either way
    ``batch.pad`` says how many. Subclasses define ``_load(indices) -> (data, label)``.

    Args:
        count: number of samples.
        shapes: ((data shape, dtype), (label shape, dtype)) of a sample.
    """

    def __init__(self, count: int, batch_size: int, shapes: Sequence[tuple[Any, Any]],
                 round_batch: bool = True, data_name: str = "data",
                 label_name: str = "softmax_label") -> None:
        super().__init__(int(batch_size))
        if self.batch_size < 1:
            raise ArgumentValueError(
                f"{type(self).__name__}: batch_size: expected 1 or more, got {batch_size}")
        if count < 1 or (round_batch and count < self.batch_size):
            raise ArgumentValueError(
                f"{type(self).__name__}: a batch of {batch_size} needs as many samples, got {count}"
            )
        self._count = count
        self._round = round_batch
        self._first = 0  # where this epoch begins
        self._descs = [
            DataDesc(name, (self.batch_size, *shape), dtype)
            for name, (shape, dtype) in zip((data_name, label_name), shapes, strict=True)
        ]
        self._batch: tuple[Any, Any] | None = None
        self._begin()

    def _load(self, indices: Host) -> tuple[Any, Any]:
        raise NotImplementedError(f"{type(self).__name__} must define _load")

    def _begin(self) -> None:
        self._next = self._first
        self._indices: Host = np.arange(0)
        self._pad = 0

    @property
    def provide_data(self) -> list[DataDesc]:
        """Name and shape of the data of a batch."""
        return self._descs[:1]

    @property
    def provide_label(self) -> list[DataDesc]:
        """Name and shape of the labels of a batch."""
        return self._descs[1:]

    def reset(self) -> None:
        """Begin the next epoch."""
        over = self._next - self._count
        self._first = over if self._round and over > 0 else 0
        self._begin()

    def _coming(self) -> Host | None:
        """The samples of the next batch; None at the end of the epoch."""
        if self._next >= self._count:
            return None
        places = np.arange(self._next, self._next + self.batch_size)
        before = self._indices if len(self._indices) else places
        kept = places % self._count if self._round else before % self._count
        return np.where(places < self._count, places, kept)

    def iter_next(self) -> bool:
        indices = self._coming()
        if indices is None:
            return False
        self._pad = max(0, self._next + self.batch_size - self._count)
        self._next += self.batch_size
        self._indices = indices
        self._batch = self._load(indices)
        return True

    def next(self) -> DataBatch:
        if not self.iter_next():
            raise StopIteration
        return DataBatch([self.getdata()], [self.getlabel()], self.getpad(), self.getindex())

    def _current(self) -> tuple[Any, Any]:
        assert self._batch is not None, f"{type(self).__name__}: no batch yet; call next() first"
        return self._batch

    def getdata(self) -> Any:
        """The data of the current batch, one array."""
        return _array(self._current()[0])

    def getlabel(self) -> Any:
        """The labels of the current batch, one array."""
        return _array(self._current()[1])

    def getpad(self) -> int:
        return self._pad

    def getindex(self) -> Host:
        return self._indices.astype(np.uint64)


def _array(values: Any) -> Any:
    if isinstance(values, np.ndarray):
        return array(values, dtype=values.dtype)
    assert isinstance(values, NDArray)
    return values
