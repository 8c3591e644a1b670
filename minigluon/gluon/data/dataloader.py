"""DataLoader: batches of a dataset, made in this process, in threads, or in worker processes."""
from __future__ import annotations

import itertools
import weakref
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ... import random
from ...base import ArgumentValueError
from ...context import Context, cpu_pinned
from ._workers import LoaderTimeout, WorkerPool, note_sample
from .batchify import as_in_context, default_batchify_fn, default_mp_batchify_fn, wrap_batch
from .dataset import Dataset
from .pooliter import PoolIterator
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["DataLoader", "default_batchify_fn", "default_mp_batchify_fn"]

_MultiWorkerIter = PoolIterator  # MXNet's name, which gluoncv derives from


class DataLoader:
    """Batches of a dataset, in the order of its sampler; iterate once for each epoch.

    Args:
        dataset: a Dataset, a NumPy array, an NDArray, or a list of samples.
        batch_size: samples in a batch.
        shuffle: take the samples in random order.
        sampler: takes the place of `shuffle`.
        last_batch: 'keep' (when None), 'discard' or 'rollover', as in BatchSampler.
        batch_sampler: takes the place of the four above.
        batchify_fn: ``fn(list of samples) -> batch``; None stacks them (`default_batchify_fn`).
        num_workers: processes that make batches ahead of their use; 0 makes each one when it is
            asked for. The processes keep the dataset as it was when the loader was made. Batches
            made in workers have random streams of their own, repeated by ``mx.random.seed``.
        pin_memory: arrays on context cpu_pinned(`pin_device_id`).
        prefetch: batches made ahead; None is twice `num_workers`.
        thread_pool: threads instead of processes, for datasets that cannot be forked.
        timeout: seconds to wait for a batch of a worker; None or 0 waits for ever.
        auto_reload: begin with the next epoch's batches when an epoch ends.

    >>> import numpy as np
    >>> loader = DataLoader(np.arange(5.0), batch_size=2)
    >>> [batch.asnumpy().tolist() for batch in loader]
    [[0.0, 1.0], [2.0, 3.0], [4.0]]
    """

    _pool: WorkerPool | None = None

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = None,
        shuffle: bool = False,
        sampler: Sampler | Sequence[int] | None = None,
        last_batch: str | None = None,
        batch_sampler: Any = None,
        batchify_fn: Callable[[Sequence[Any]], Any] | None = None,
        num_workers: int = 0,
        pin_memory: bool = False,
        pin_device_id: int = 0,
        prefetch: int | None = None,
        thread_pool: bool = False,
        timeout: float | None = 120,
        auto_reload: bool = False,
    ) -> None:
        # read by loaders that derive from this one, as those of gluoncv do; MXNet's names
        self._dataset, self._pin_memory = dataset, pin_memory
        self._batchify_fn = batchify_fn or default_batchify_fn
        self._batch_sampler = _batches(dataset, batch_size, shuffle, sampler, last_batch,
                                       batch_sampler)
        self._job = _Job(dataset, batchify_fn)
        self._num_workers = max(0, num_workers)
        self._pinned = cpu_pinned(pin_device_id) if pin_memory else None
        self._prefetch = max(0, int(2 * self._num_workers if prefetch is None else prefetch))
        self._thread_pool = thread_pool
        self._timeout = timeout
        self._epoch = 0
        self._next: Iterator[Any] | None = None
        self._auto_reload = auto_reload and self._num_workers > 0
        if self._num_workers and not thread_pool:
            self._pool = WorkerPool(self._job, self._num_workers)
        if self._auto_reload:
            self._next = self._begin()

    def __len__(self) -> int:
        return len(self._batch_sampler)

    def __iter__(self) -> Iterator[Any]:
        begun, self._next = self._next, None
        return self._yield(begun or self._begin())

    def _begin(self) -> Iterator[Any]:
        """The batches of one epoch; workers set about them at once."""
        self._epoch += 1
        batches = iter(self._batch_sampler)
        if not self._num_workers:
            return map(self._job, batches)
        if self._thread_pool:
            return _in_threads(self._job, batches, self._num_workers, self._prefetch,
                               self._timeout)
        if self._pool is None or not self._pool.close.alive:  # a worker died in an earlier epoch
            self._pool = WorkerPool(self._job, self._num_workers)
        return _ProcessIterator(self._pool, batches, self._prefetch, self._timeout,
                                _stream_seed(self._epoch))

    def _yield(self, batches: Iterator[Any]) -> Iterator[Any]:
        """A generator, which keeps this loader, and with it the workers, alive."""
        pinned = self._pinned
        for batch in batches:
            yield batch if pinned is None else _as_in_context(batch, pinned)
        if self._auto_reload:
            self._next = self._begin()


class _ProcessIterator:
    """One epoch of a WorkerPool: keeps `prefetch` batches under way, from the start on."""

    def __init__(self, pool: WorkerPool, batches: Iterator[Sequence[int]], prefetch: int,
                 timeout: float | None, seed: int) -> None:
        self._pool = pool
        self._batches = batches
        self._ahead = min(max(prefetch, 1), pool.most_tasks)
        self._timeout = timeout
        self._seed = seed
        self._sent = self._taken = 0
        self._mailbox = pool.open()
        weakref.finalize(self, pool.discard, self._mailbox).atexit = False
        self._fill()

    def _fill(self) -> None:
        while self._sent - self._taken < self._ahead:
            indices = next(self._batches, None)
            if indices is None:
                return
            self._pool.submit(self._mailbox, self._sent, indices, self._seed)
            self._sent += 1

    def __iter__(self) -> _ProcessIterator:
        return self

    def __next__(self) -> Any:
        if self._taken == self._sent:
            raise StopIteration
        number = self._taken
        batch = self._pool.take(self._mailbox, number, self._timeout)
        self._taken += 1
        self._fill()
        return batch


def _in_threads(job: Callable[[Sequence[int]], Any], batches: Iterator[Sequence[int]],
                num_workers: int, prefetch: int, timeout: float | None) -> Iterator[Any]:
    """One epoch by threads."""
    # here, as it is seldom needed and slow to import
    from concurrent.futures import Future, ThreadPoolExecutor, wait

    with ThreadPoolExecutor(num_workers, "minigluon-data") as threads:
        ahead: deque[Future[Any]] = deque()
        try:
            while True:
                for indices in itertools.islice(batches, prefetch + 1 - len(ahead)):
                    ahead.append(threads.submit(job, indices))
                if not ahead:
                    return
                future = ahead.popleft()
                if not wait([future], timeout or None).done:
                    raise LoaderTimeout(
                        f"DataLoader: no batch after {timeout:g} seconds in a thread; samples "
                        "that take long need a larger timeout= (None waits for ever)"
                    )
                yield future.result()
        finally:
            for future in ahead:
                future.cancel()


class _Job:
    """Makes the batch of given indices: all at once where the dataset can, else one by one."""

    def __init__(self, dataset: Any, batchify_fn: Callable[[Sequence[Any]], Any] | None) -> None:
        self._dataset = dataset
        self._batchify = batchify_fn or default_batchify_fn
        usual = batchify_fn in (None, default_batchify_fn, default_mp_batchify_fn)
        self._at_once = dataset._get_batch if usual and isinstance(dataset, Dataset) else None

    def __call__(self, indices: Sequence[int]) -> Any:
        if self._at_once is not None:
            batch = self._at_once(indices)
            if batch is not None:
                return wrap_batch(batch)
        samples = []
        for index in indices:
            try:
                samples.append(self._dataset[index])
            except Exception as error:
                note_sample(error, index)
                raise
        return self._batchify(samples)


def _batches(dataset: Any, batch_size: int | None, shuffle: bool, sampler: Any,
             last_batch: str | None, batch_sampler: Any) -> Any:
    if batch_sampler is not None:
        if batch_size is not None or shuffle or sampler is not None or last_batch is not None:
            raise ArgumentValueError(
                "DataLoader: batch_size, shuffle, sampler and last_batch must not be specified "
                "if batch_sampler is specified"
            )
        return batch_sampler
    if batch_size is None:
        raise ArgumentValueError(
            "DataLoader: batch_size must be specified unless batch_sampler is specified"
        )
    if sampler is not None and shuffle:
        raise ArgumentValueError("DataLoader: shuffle must not be specified if sampler is")
    if sampler is None:
        sampler = RandomSampler(len(dataset)) if shuffle else SequentialSampler(len(dataset))
    return BatchSampler(sampler, batch_size, last_batch or "keep")


def _as_in_context(data: Any, ctx: Context) -> Any:
    """`data` with every array in its lists, tuples and dicts moved to `ctx`."""
    return as_in_context(data, lambda array: array.as_in_context(ctx))


def _stream_seed(epoch: int) -> int:
    """A seed for the workers of this epoch that ``mx.random.seed`` repeats.

    Looks at the host's stream without drawing, so that shuffling is the same with any num_workers.
    """
    state = random.host_generator().bit_generator.state
    return zlib.crc32(f"{epoch}:{state}".encode())


def __getattr__(name: str) -> Any:
    """``ForkingPickler``, which gluonnlp imports from here; loaded when asked for."""
    if name == "ForkingPickler":
        from multiprocessing.reduction import ForkingPickler

        return ForkingPickler
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
