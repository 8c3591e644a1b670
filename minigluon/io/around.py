"""Iterators around other iterators: ResizeIter, PrefetchingIter."""
from __future__ import annotations

from typing import Any

from ..base import ArgumentError
from ..dataiter import DataBatch, DataIter
from ..ndarray import NDArray

__all__ = ["ResizeIter"]


class ResizeIter(DataIter):
    """Another iterator with epochs of `size` batches: cut short, or begun again as often as needed.

    Args:
        data_iter: the iterator.
        size: batches in an epoch.
        reset_internal: ``reset`` also resets `data_iter`.
    """

    def __init__(self, data_iter: DataIter, size: int, reset_internal: bool = True) -> None:
        if not isinstance(data_iter, DataIter):
            raise ArgumentError(f"ResizeIter: expected a DataIter, got {type(data_iter).__name__}")
        super().__init__(data_iter.batch_size)
        self.data_iter = data_iter
        self.size = size
        self.reset_internal = reset_internal
        self.cur = 0
        self.current_batch: DataBatch | None = None
        for word in ("provide_data", "provide_label", "default_bucket_key"):
            if hasattr(data_iter, word):
                setattr(self, word, getattr(data_iter, word))

    def reset(self) -> None:
        self.cur = 0
        if self.reset_internal:
            self.data_iter.reset()

    def next(self) -> DataBatch:
        if self.cur == self.size:
            raise StopIteration
        try:
            batch = self.data_iter.next()
        except StopIteration:
            self.data_iter.reset()
            batch = self.data_iter.next()
        self.cur += 1
        self.current_batch = batch
        return batch

    def iter_next(self) -> bool:
        try:
            self.next()
        except StopIteration:
            return False
        return True

    def _current(self) -> DataBatch:
        assert self.current_batch is not None, "ResizeIter: no batch yet; call iter_next() first"
        return self.current_batch

    def getdata(self) -> list[NDArray]:
        return self._current().data or []

    def getlabel(self) -> list[NDArray] | None:
        return self._current().label

    def getindex(self) -> Any:
        return self._current().index

    def getpad(self) -> int | None:
        return self._current().pad
