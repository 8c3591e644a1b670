"""IntervalSampler: every so manieth sample."""
from __future__ import annotations

from collections.abc import Iterator

from ...data import Sampler

__all__ = ["IntervalSampler"]


class IntervalSampler(Sampler):
    """The indices 0, interval, 2 * interval, ..., then 1, 1 + interval, ... and so on.

    Args:
        length: how many samples there are. interval: the step.
        rollover: also those that the first pass skipped; else the first pass alone.

    >>> list(IntervalSampler(7, 3)), list(IntervalSampler(7, 3, rollover=False))
    ([0, 3, 6, 1, 4, 2, 5], [0, 3, 6])
    """

    def __init__(self, length: int, interval: int, rollover: bool = True) -> None:
        assert 1 <= interval <= length, (
            f"IntervalSampler: interval: expected 1 up to the length {length}, got {interval}"
        )
        self._length, self._interval, self._rollover = length, interval, rollover

    def __iter__(self) -> Iterator[int]:
        for start in range(self._interval if self._rollover else 1):
            yield from range(start, self._length, self._interval)

    def __len__(self) -> int:
        return self._length if self._rollover else -(-self._length // self._interval)
