"""Iterators around other iterators: ResizeIter, PrefetchingIter."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base import ArgumentError
from ..dataiter import DataBatch, DataDesc, DataIter
from ..ndarray import NDArray

__all__ = ["PrefetchingIter", "ResizeIter"]


class _Around(DataIter):
    """An iterator that shows whole batches of others: ``current_batch``."""

    current_batch: DataBatch | None = None

    def _current(self) -> DataBatch:
        assert self.current_batch is not None, (
            f"{type(self).__name__}: no batch yet; call next() first")
        return self.current_batch

    def getdata(self) -> list[NDArray]:
        return self._current().data or []

    def getlabel(self) -> list[NDArray] | None:
        return self._current().label

    def getindex(self) -> Any:
        return self._current().index

    def getpad(self) -> int | None:
        return self._current().pad


class ResizeIter(_Around):
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


class PrefetchingIter(_Around):
    """Iterators side by side, each making its next batch in a thread while this one is used.

    Args:
        iters: an iterator or a list of them; their batches are joined to one, array after array.
        rename_data, rename_label: for each iterator a dict from its names to new ones.

    >>> import minigluon as mx
    >>> ahead = PrefetchingIter(mx.io.NDArrayIter(mx.nd.arange(4), batch_size=2))
    >>> [batch.data[0].asnumpy().tolist() for batch in ahead]
    [[0.0, 1.0], [2.0, 3.0]]
    """

    def __init__(self, iters: Any, rename_data: Sequence[dict[str, str]] | None = None,
                 rename_label: Sequence[dict[str, str]] | None = None) -> None:
        # here, as it is seldom needed and slow to import
        from concurrent.futures import Future, ThreadPoolExecutor

        self.iters = list(iters) if isinstance(iters, (list, tuple)) else [iters]
        if not self.iters:
            raise ArgumentError("PrefetchingIter: expected at least one iterator")
        self.n_iter = len(self.iters)
        self.rename_data, self.rename_label = rename_data, rename_label
        super().__init__(self.provide_data[0][1][0])
        self._threads = ThreadPoolExecutor(self.n_iter, "minigluon-io")
        self._ahead: list[Future[DataBatch]] = []
        self._go_on()

    def __del__(self) -> None:
        if hasattr(self, "_threads"):
            self._threads.shutdown(wait=False)

    @property
    def provide_data(self) -> list[DataDesc]:
        """Names and shapes of the data of a batch."""
        return self._descriptions("provide_data", self.rename_data)

    @property
    def provide_label(self) -> list[DataDesc]:
        """Names and shapes of the labels of a batch."""
        return self._descriptions("provide_label", self.rename_label)

    def _descriptions(self, word: str, names: Sequence[dict[str, str]] | None) -> list[DataDesc]:
        listed = []
        for place, one in enumerate(self.iters):
            new = names[place] if names else {}
            for desc in getattr(one, word):
                extra = (desc.dtype, desc.layout) if isinstance(desc, DataDesc) else ()
                listed.append(DataDesc(new.get(desc[0], desc[0]), desc[1], *extra))
        return listed

    def _go_on(self) -> None:
        self._ahead = [self._threads.submit(one.next) for one in self.iters]

    def reset(self) -> None:
        """Begin the next epoch."""
        for future in self._ahead:
            future.exception()  # wait; what came of it belongs to the old epoch
        for one in self.iters:
            one.reset()
        self._go_on()

    def iter_next(self) -> bool:
        failed = [error for future in self._ahead if (error := future.exception())]
        ended = [error for error in failed if isinstance(error, StopIteration)]
        for error in failed:
            if not isinstance(error, StopIteration):
                raise error
        if ended:
            assert len(ended) == self.n_iter, "PrefetchingIter: iterators of different length"
            return False
        batches = [future.result() for future in self._ahead]
        assert len({batch.pad for batch in batches}) == 1, (
            "PrefetchingIter: iterators whose batches have different padding"
        )
        first = batches[0]
        self.current_batch = DataBatch(
            [array for batch in batches for array in batch.data or []],
            [array for batch in batches for array in batch.label or []],
            first.pad, first.index, provide_data=self.provide_data,
            provide_label=self.provide_label)
        self._go_on()
        return True

    def next(self) -> DataBatch:
        if not self.iter_next():
            raise StopIteration
        return self._current()
