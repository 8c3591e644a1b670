"""Index keys: what ``x[key]`` may be, turned into keys NumPy understands."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..base import ArgumentError, ArgumentValueError

__all__ = ["fit", "index_key", "scalar_view", "stays_contiguous", "whole"]


def _index_part(part: Any, truths: bool) -> tuple[Any, bool]:
    if part is None or part is Ellipsis:
        return part, True
    if isinstance(part, (bool, np.bool_)):
        if truths:
            return part, False
        raise ArgumentError("indexing with a single bool is not supported; use an integer")
    if isinstance(part, (int, np.integer)):
        return int(part), True
    if isinstance(part, slice):
        ends = (part.start, part.stop, part.step)
        return slice(*(None if end is None else int(end) for end in ends)), True
    if hasattr(part, "asnumpy"):
        part = part.asnumpy()
    if isinstance(part, (list, tuple, range)):
        part = np.array([p.asnumpy() if hasattr(p, "asnumpy") else p for p in part])
        if part.size == 0:
            part = part.astype(np.int64)
    if not isinstance(part, np.ndarray):
        raise ArgumentValueError(f"cannot index an NDArray with {part!r}")
    if part.dtype.kind == "f":
        part = part.astype(np.int64)
    if part.dtype.kind not in "iub":
        raise IndexError(f"an index array must hold integers, got {part.dtype}")
    return part, False


def index_key(key: Any, truths: bool = False) -> tuple[Any, bool]:
    """A key NumPy understands, and whether it is a basic one (integers, slices, None, ...).

    A single True or False is refused, or is one of the key's parts if `truths`.
    """
    if isinstance(key, tuple):
        parts = [_index_part(part, truths) for part in key]
        return tuple(part for part, _ in parts), all(basic for _, basic in parts)
    return _index_part(key, truths)


def stays_contiguous(slices: tuple[slice, ...], shape: tuple[int, ...]) -> bool:
    """Whether one slice for each axis cuts a piece out of memory that has no gaps.

    >>> stays_contiguous((slice(1, 3), slice(None)), (4, 5))
    True
    >>> stays_contiguous((slice(1, 3), slice(0, 2)), (4, 5))
    False
    """
    if len(slices) != len(shape):
        raise ArgumentError(f"expected a slice for each of {len(shape)} axes, got {slices}")
    strides = [math.prod(shape[axis + 1:]) for axis in range(len(shape))]
    memory = np.lib.stride_tricks.as_strided(np.empty(1, "b"), shape, strides, writeable=False)
    return bool(memory[tuple(slices)].flags.c_contiguous)


def whole(key: Any, raw: Any) -> Any:
    """`key`, with ``[:]`` meaning all of an array of shape (), too, as initializers write it."""
    return ... if raw.ndim == 0 and key == slice(None) else key


def scalar_view(raw: Any, key: Any) -> Any:
    """A view of shape (1,) on the one element that a full integer index names."""
    parts = [part for part in (key if isinstance(key, tuple) else (key,)) if part is not Ellipsis]
    last = parts[-1]
    stop = last + 1 if last != -1 else None
    return raw[(*parts[:-1], slice(last, stop))]


def fit(value: Any, raw: Any, key: Any) -> Any:
    """Drop leading axes of size 1 that the target does not have (MXNet allows them)."""
    ndim = getattr(value, "ndim", 0)
    if ndim == 0:
        return value
    target = raw[key].ndim if isinstance(key, (tuple, slice, int)) or key is Ellipsis else ndim
    while value.ndim > target and value.shape[0] == 1:
        value = value[0]
    return value
