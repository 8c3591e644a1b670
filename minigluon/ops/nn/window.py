"""Sliding windows: what convolution and pooling share. Spatial axes are everything after (N, C)."""
from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache

from ...base import ArgumentValueError
from ..operator import MaybeShape

__all__ = ["channels_first", "channels_last", "per_axis", "reach", "spatial_rank",
           "window_slices"]

_LAYOUTS = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


def per_axis(op: str, name: str, value: Sequence[int], rank: int, default: int) -> tuple[int, ...]:
    """One number for each spatial axis: `value`, or `default` for each where it is empty."""
    if not value:
        return (default,) * rank
    if len(value) != rank or min(value) < min(default, 1):
        raise ArgumentValueError(
            f"{op}: {name}: expected {rank} numbers >= {default}, one for each in kernel, "
            f"got {tuple(value)}"
        )
    return tuple(value)


def spatial_rank(op: str, kernel: Sequence[int]) -> int:
    """How many spatial axes a kernel has; ArgumentValueError unless 1, 2 or 3."""
    if len(kernel) not in _LAYOUTS or min(kernel) < 1:
        raise ArgumentValueError(
            f"{op}: kernel: expected 1, 2 or 3 positive sizes, got {tuple(kernel)}"
        )
    return len(kernel)


def channels_last(op: str, layout: str | None, rank: int) -> bool:
    """Whether `layout` has the channels last; ArgumentValueError for one that does not exist."""
    if layout is None:
        return False
    if layout not in _LAYOUTS[rank]:
        raise ArgumentValueError(
            f"{op}: layout: expected {' or '.join(_LAYOUTS[rank])} for {rank} spatial axes, "
            f"got {layout!r}"
        )
    return layout == _LAYOUTS[rank][1]


def channels_first(shape: MaybeShape, last: bool) -> MaybeShape:
    """A (N, *S, C) shape as (N, C, *S) where `last`; otherwise as it is."""
    if shape is None or not last:
        return shape
    return (shape[0], shape[-1], *shape[1:-1])


def reach(size: int, dilate: int) -> int:
    """How many elements a dilated kernel spans."""
    return (size - 1) * dilate + 1


@lru_cache(maxsize=256)
def window_slices(
    kernel: tuple[int, ...], stride: tuple[int, ...], dilate: tuple[int, ...],
    out: tuple[int, ...],
) -> list[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """For each kernel position the slices of the padded input that it meets, over all outputs.

    >>> for position, where in window_slices((2,), (2,), (1,), (3,)):
    ...     print(position, where)
    (0,) (slice(0, 5, 2),)
    (1,) (slice(1, 6, 2),)
    """
    return [
        (position, tuple(
            slice(p * d, p * d + s * (o - 1) + 1, s)
            for p, d, s, o in zip(position, dilate, stride, out, strict=True)))
        for position in itertools.product(*(range(size) for size in kernel))
    ]
