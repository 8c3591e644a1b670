"""How a batch is divided among contexts."""
from __future__ import annotations

from collections.abc import Sequence

from .base import ArgumentValueError

__all__ = ["split_input_slice"]


def split_input_slice(batch_size: int, work_load_list: Sequence[float]) -> list[slice]:
    """The part of a batch for each context, in proportion to its work load.

    >>> split_input_slice(10, [1, 1, 1])
    [slice(0, 3, None), slice(3, 6, None), slice(6, 10, None)]
    """
    total = sum(work_load_list)
    parts = [round(load * batch_size / total) for load in work_load_list]
    parts[-1] = batch_size - sum(parts[:-1])
    slices, begin = [], 0
    for size in parts:
        if size <= 0:
            raise ArgumentValueError(
                f"Too many slices: a batch of {batch_size} cannot be divided among "
                f"{len(parts)} contexts with loads {list(work_load_list)}; "
                "some splits are empty")
        slices.append(slice(begin, begin + size))
        begin += size
    return slices


_split_input_slice = split_input_slice
