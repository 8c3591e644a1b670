"""One number for each channel: how a (C,) array meets data whose channels lie on some axis."""
from __future__ import annotations

from typing import Any

from ..operator import Attrs, MaybeShape, operator
from ..rules import axis_of, follow_dtype, like_shape, merge_shapes

__all__ = ["along", "along_axis", "axis_shape", "channel_mean", "channel_shapes",
           "channel_spread", "plus", "statistics_dtype"]


def axis_shape(shape: tuple[int, ...], ndim: int, axis: int) -> tuple[int, ...]:
    """The shape under which an array of `shape` broadcasts along `axis` of `ndim` dimensions.

    >>> axis_shape((3,), 4, 1), axis_shape((1,), 4, 1), axis_shape((3, 5), 3, 1)
    ((3, 1, 1), (1, 1, 1), (3, 5))
    """
    if len(shape) != 1 or ndim == 1:
        return shape
    return (shape[0], *(1,) * (ndim - 1 - axis % ndim))


def along(values: Any, ndim: int, axis: int) -> Any:
    """A (C,) array reshaped so that it broadcasts along `axis` of data of `ndim` dimensions."""
    return values.reshape(axis_shape(values.shape, ndim, axis))


def channel_shapes(shapes: list[MaybeShape], axis: int, count: int) -> tuple[list[MaybeShape], int]:
    """The shapes with `count` (C,) inputs behind the data filled in, and C (0: unknown)."""
    data = shapes[0]
    if data is None:
        return shapes, 0
    merged: MaybeShape = (data[axis_of(axis, len(data))],)
    for shape in shapes[1:count + 1]:
        merged = merge_shapes(merged, shape, "channel counts (of data and inputs)")
    assert merged is not None
    if merged[0]:
        axis %= len(data)
        data = (*data[:axis], merged[0], *data[axis + 1:])
    return [data, *[merged] * count], merged[0]


def statistics_dtype(xp: Any, dtype: Any) -> Any:
    """Sums of half precision numbers are taken in single precision."""
    return xp.float32 if dtype == xp.float16 else dtype


def plus(F: Any, first: Any, second: Any) -> Any:
    """The sum of two gradients of which the first may be None."""
    return second if first is None else F.elemwise_add(first, second)


def _along_shape(shapes: list[MaybeShape], attrs: Attrs) -> tuple[list[MaybeShape],
                                                                  list[MaybeShape]]:
    values, like = shapes
    if values is None or like is None:
        return shapes, [None]
    return shapes, [axis_shape(values, len(like), attrs["axis"])]


@operator("_along", infer=_along_shape, infer_dtype=follow_dtype(),
          gradient=lambda F, dy, out, values, like, axis: [F.reshape_like(dy, values), None])
def along_axis(xp: Any, values: Any, like: Any, *, axis: int = 1) -> Any:
    """Reshape (C,) so that it broadcasts along `axis` of `like`; other shapes stay."""
    return along(values, like.ndim, axis).copy()


@operator("_channel_spread", infer=like_shape(1),
          gradient=lambda F, u, out, values, like, axis: [
              F._channel_mean(u, values, axis=axis), None])
def channel_spread(xp: Any, values: Any, like: Any, *, axis: int = 1) -> Any:
    """Each value (one a channel, or `like` with 1 in some dimensions) shared out evenly among the
    elements of `like` that it stands for."""
    share = values / values.dtype.type(max(like.size // max(values.size, 1), 1))
    return xp.broadcast_to(along(share, like.ndim, axis), like.shape).copy()


@operator("_channel_mean", infer=like_shape(1),
          gradient=lambda F, u, out, data, values, axis: [
              F._channel_spread(u, data, axis=axis), None])
def channel_mean(xp: Any, data: Any, values: Any, *, axis: int = 1) -> Any:
    """The mean of those elements of `data` that each of `values` stands for."""
    shape = axis_shape(values.shape, data.ndim, axis)
    shape = (1,) * (data.ndim - len(shape)) + shape
    axes = tuple(place for place, n in enumerate(shape) if n == 1)
    return data.mean(axis=axes, dtype=data.dtype, keepdims=True).reshape(values.shape)
