"""Batches from a pool of the caller's: the iterator that loaders of other libraries derive from."""
from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...context import cpu_pinned
from .batchify import as_in_context

__all__ = ["PoolIterator"]


class PoolIterator:
    """``worker_fn(indices, batchify_fn, dataset)``, run by `worker_pool` for each batch, in order.

    Args:
        worker_pool: a pool with ``apply_async``, such as ``multiprocessing.Pool``.
        worker_fn: returns a pickled batch. A subclass that overrides `_push_next` may call it
            with other arguments.
        prefetch: batches asked for before the first is taken.
        timeout: seconds to wait for one batch.
    """

    def __init__(
        self,
        worker_pool: Any,
        batchify_fn: Callable[[Sequence[Any]], Any],
        batch_sampler: Any,
        pin_memory: bool = False,
        pin_device_id: int = 0,
        worker_fn: Callable[..., bytes] | None = None,
        prefetch: int = 0,
        dataset: Any = None,
        data_loader: Any = None,
        timeout: float | None = 120,
    ) -> None:
        self._worker_pool, self._worker_fn = worker_pool, worker_fn
        self._batchify_fn, self._batch_sampler = batchify_fn, batch_sampler
        self._pin_memory, self._pin_device_id = pin_memory, pin_device_id
        self._dataset, self._timeout = dataset, timeout
        self._data_loader = data_loader  # keeps the pool alive
        self._iter = iter(batch_sampler)
        self._data_buffer: dict[int, Any] = {}
        self._sent_idx = self._rcvd_idx = 0
        for _ in range(prefetch):
            self._push_next()

    def __len__(self) -> int:
        return len(self._batch_sampler)

    def __iter__(self) -> Iterator[Any]:
        return self

    def _push_next(self) -> None:
        """Ask for one more batch, if there is one."""
        indices = next(self._iter, None)
        if indices is None:
            return
        arguments = (indices, self._batchify_fn, self._dataset)
        self._data_buffer[self._sent_idx] = self._worker_pool.apply_async(
            self._worker_fn, arguments)
        self._sent_idx += 1

    def __next__(self) -> Any:
        self._push_next()
        if self._rcvd_idx == self._sent_idx:
            raise StopIteration
        batch = pickle.loads(self._data_buffer.pop(self._rcvd_idx).get(self._timeout))
        self._rcvd_idx += 1
        if not self._pin_memory:
            return batch
        pinned = cpu_pinned(self._pin_device_id)
        return as_in_context(batch, lambda array: array.as_in_context(pinned))

    next = __next__
