"""In which order samples are taken: samplers of indices, and of batches of indices."""
from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ... import random
from ...base import ArgumentValueError

__all__ = ["BatchSampler", "FilterSampler", "RandomSampler", "Sampler", "SequentialSampler",
           "SplitSampler"]


class Sampler:
    """Which samples to take, in which order: iterating yields indices, ``len`` says how many."""

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} must define __len__")

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__")


class SequentialSampler(Sampler):
    """The indices start, start + 1, ..., start + length - 1.

    >>> list(SequentialSampler(3, start=5))
    [5, 6, 7]
    """

    def __init__(self, length: int, start: int = 0) -> None:
        self._length = length
        self._start = start

    def __iter__(self) -> Iterator[int]:
        return iter(range(self._start, self._start + self._length))

    def __len__(self) -> int:
        return self._length


class RandomSampler(Sampler):
    """A new permutation of 0 ... length - 1 each time; ``mx.random.seed`` makes them repeat.

    >>> sorted(RandomSampler(4))
    [0, 1, 2, 3]
    """

    def __init__(self, length: int) -> None:
        self._length = length

    def __iter__(self) -> Iterator[int]:
        return iter(random.host_generator().permutation(self._length).tolist())

    def __len__(self) -> int:
        return self._length


class FilterSampler(Sampler):
    """The indices of the samples for which `fn` is true, found once, when it is made.

    >>> list(FilterSampler(lambda x: x > 15, [10, 20, 30]))
    [1, 2]
    """

    def __init__(self, fn: Callable[[Any], Any], dataset: Any) -> None:
        self._indices = [i for i in range(len(dataset)) if fn(dataset[i])]

    def __iter__(self) -> Iterator[int]:
        return iter(self._indices)

    def __len__(self) -> int:
        return len(self._indices)


class SplitSampler(Sampler):
    """One part of a dataset, for one of several workers; all parts together cover every sample.

    Each iteration is an epoch. Every epoch shuffles the whole dataset anew, in the same order on
    all parts, and each part takes its own share of that order. So no sample is seen twice or never
    within an epoch, and all parts have the same number of samples, hence of steps: a worker with
    more steps than the others would wait for them for ever in a synchronous KVStore.

    Args:
        length: number of samples of the whole dataset.
        num_parts: number of parts, usually ``kv.num_workers``.
        part_index: which one this is, usually ``kv.rank``.
        shuffle: False takes the parts as consecutive ranges.
        seed: an integer that must be equal on all parts. When None, several parts use the job's
            identity (``MINIGLUON_JOB_ID``, set by tools/launch.py), which differs from job to
            job, or 0 where there is none; a single part draws from ``mx.random``.
        last: where `length` does not divide evenly, 'wrap' fills up the short parts with samples
            from the front of the epoch's order (these are seen twice), 'drop' leaves the last few
            of the order out (others in each epoch, when shuffled).

    The epochs are counted by each sampler itself: iterate equally often on all workers, or say
    which epoch comes next by ``set_epoch``.

    >>> parts = [SplitSampler(8, 4, i, seed=1) for i in range(4)]
    >>> sorted(index for part in parts for index in part)
    [0, 1, 2, 3, 4, 5, 6, 7]
    """

    def __init__(self, length: int, num_parts: int = 1, part_index: int = 0, shuffle: bool = True,
                 seed: int | None = None, last: str = "wrap") -> None:
        if num_parts < 1 or not 0 <= part_index < num_parts:
            raise ArgumentValueError(
                f"SplitSampler: part_index: expected 0 to num_parts - 1, got part {part_index} "
                f"of {num_parts}"
            )
        if last not in ("wrap", "drop"):
            raise ArgumentValueError(f"SplitSampler: last: expected 'wrap' or 'drop', got {last!r}")
        if length < 1:
            raise ArgumentValueError(f"SplitSampler: length: expected 1 or more, got {length}")
        self._length = length
        self._parts = num_parts
        self._part = part_index
        self._shuffle = shuffle
        self._seed = _common_seed() if seed is None and num_parts > 1 else seed
        self._size = length // num_parts if last == "drop" else -(-length // num_parts)
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch the next iteration is, e.g. when training goes on from a checkpoint."""
        self._epoch = epoch

    def _order(self) -> np.ndarray[Any, Any]:
        if not self._shuffle:
            return np.arange(self._length)
        if self._seed is None:
            return random.host_generator().permutation(self._length)
        source = np.random.SeedSequence([abs(int(self._seed)), self._epoch])
        return np.random.Generator(np.random.Philox(source)).permutation(self._length)

    def __iter__(self) -> Iterator[int]:
        order = self._order()
        self._epoch += 1
        places = np.arange(self._part * self._size, (self._part + 1) * self._size)
        return iter(order[places % self._length].tolist())

    def __len__(self) -> int:
        return self._size


def _common_seed() -> int:
    """A seed that all workers of a job know without talking to each other."""
    return zlib.crc32(os.environ.get("MINIGLUON_JOB_ID", "").encode())


class BatchSampler(Sampler):
    """Lists of `batch_size` indices of another sampler.

    Args:
        sampler: where the indices come from.
        batch_size: indices in a batch.
        last_batch: what becomes of a last batch that is not full: 'keep' yields it as it is,
            'discard' drops it, 'rollover' puts its indices in front of the next epoch.

    >>> list(BatchSampler(SequentialSampler(5), 2, "keep"))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Sampler | Sequence[int], batch_size: int,
                 last_batch: str = "keep") -> None:
        if last_batch not in ("keep", "discard", "rollover"):
            raise ArgumentValueError(
                "BatchSampler: last_batch: expected 'keep', 'discard' or 'rollover', "
                f"got {last_batch!r}"
            )
        if batch_size < 1:
            raise ArgumentValueError(
                f"BatchSampler: batch_size: expected 1 or more, got {batch_size}"
            )
        self._sampler = sampler
        self._batch_size = int(batch_size)
        self._last_batch = last_batch
        self._rest: list[int] = []

    def __iter__(self) -> Iterator[list[int]]:
        batch, self._rest = self._rest, []
        for index in self._sampler:
            batch.append(index)
            if len(batch) == self._batch_size:
                yield batch
                batch = []
        if batch and self._last_batch == "keep":
            yield batch
        elif self._last_batch == "rollover":
            self._rest = batch

    def __len__(self) -> int:
        count = len(self._sampler)
        if self._last_batch == "keep":
            return -(-count // self._batch_size)
        if self._last_batch == "discard":
            return count // self._batch_size
        return (count + len(self._rest)) // self._batch_size
