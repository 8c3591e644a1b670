"""Operators on axes: order, add, drop; and what a shape is."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base import ShapeError
from .attrs import Axes, Shape
from .operator import Attrs, operator
from .rules import (
    Shapes,
    axes_of,
    axis_of,
    fixed_dtype,
    merge_shapes,
    no_gradient,
    reshape_back,
)

__all__: list[str] = []

Array = Any


# -- order of axes ---------------------------------------------------------------------------------

def _permutation(axes: Sequence[int], ndim: int) -> tuple[int, ...]:
    if not axes:
        return tuple(range(ndim))[::-1]
    order = tuple(axis_of(axis, ndim, "axes") for axis in axes)
    if sorted(order) != list(range(ndim)):
        raise ShapeError(f"axes: expected every axis of {ndim} once, got {tuple(axes)}")
    return order


def _transpose_shape(shapes: Shapes, attrs: Attrs, outs: Shapes | None = None
                     ) -> tuple[Shapes, Shapes]:
    source, out = shapes[0], outs[0] if outs else None
    if source is None and out is None:
        return shapes, [None]
    order = _permutation(attrs["axes"], len(source if source is not None else out or ()))
    if source is not None:
        out = merge_shapes(tuple(source[axis] for axis in order), out)
    assert out is not None
    return [tuple(out[order.index(axis)] for axis in range(len(order)))], [out]


def _transpose_back(F: Any, dy: Any, out: Any, data: Any, *, axes: Sequence[int]) -> list[Any]:
    order = [axis % len(axes) for axis in axes]
    return [F.transpose(dy, axes=tuple(order.index(axis) for axis in range(len(order))))]


@operator("transpose", infer=_transpose_shape, gradient=_transpose_back, methods=("transpose",))
def transpose(xp: Any, data: Array, *, axes: Shape = ()) -> Array:
    """Reorder the axes.

    Args:
        data: any array. axes: for each new axis the old one; () reverses them.

    Shapes: data (*S) -> S in the order of axes.

    >>> import minigluon as mx
    >>> mx.nd.transpose(mx.nd.zeros((2, 3, 4)), axes=(2, 0, 1)).shape
    (4, 2, 3)
    """
    return data.transpose(_permutation(axes, data.ndim)).copy()


def _swapped(shape: Sequence[int], dim1: int, dim2: int) -> tuple[int, ...]:
    result = list(shape)
    first, second = axis_of(dim1, len(shape), "dim1"), axis_of(dim2, len(shape), "dim2")
    result[first], result[second] = result[second], result[first]
    return tuple(result)


def _swap_shape(shapes: Shapes, attrs: Attrs, outs: Shapes | None = None
                ) -> tuple[Shapes, Shapes]:
    source, out = shapes[0], outs[0] if outs else None
    if source is not None:
        out = merge_shapes(_swapped(source, **attrs), out)
    return [None if out is None else _swapped(out, **attrs)], [out]


@operator("SwapAxis", infer=_swap_shape, aliases=("swapaxes",), methods=("swapaxes",),
          gradient=lambda F, dy, out, data, **attrs: [F.SwapAxis(dy, **attrs)])
def swapaxes(xp: Any, data: Array, *, dim1: int = 0, dim2: int = 0) -> Array:
    """Exchange two axes.

    Args:
        data: any array. dim1, dim2: the axes.

    Shapes: data (*S) -> S with two sizes exchanged.

    >>> import minigluon as mx
    >>> mx.nd.SwapAxis(mx.nd.zeros((2, 3, 4)), dim1=0, dim2=2).shape
    (4, 3, 2)
    """
    axis_of(dim1, data.ndim, "SwapAxis: dim1")
    axis_of(dim2, data.ndim, "SwapAxis: dim2")
    return xp.swapaxes(data, dim1, dim2).copy()


# -- axes of size 1 --------------------------------------------------------------------------------

def _expanded(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    place = axis_of(axis, len(shape) + 1)
    return (*shape[:place], 1, *shape[place:])


def _expand_shape(shapes: Shapes, attrs: Attrs, outs: Shapes | None = None
                  ) -> tuple[Shapes, Shapes]:
    source, out = shapes[0], outs[0] if outs else None
    if source is not None:
        out = merge_shapes(_expanded(source, attrs["axis"]), out)
    if out is None:
        return shapes, [None]
    place = axis_of(attrs["axis"], len(out))
    return [(*out[:place], *out[place + 1:])], [out]


@operator("expand_dims", infer=_expand_shape, gradient=reshape_back, methods=("expand_dims",))
def expand_dims(xp: Any, data: Array, *, axis: int) -> Array:
    """Insert an axis of size 1.

    Args:
        data: any array. axis: its place in the result.

    Shapes: data (*S) -> S with 1 at axis.

    >>> import minigluon as mx
    >>> mx.nd.expand_dims(mx.nd.zeros((2, 3)), axis=1).shape
    (2, 1, 3)
    """
    return data.reshape(_expanded(data.shape, axis)).copy()


def _squeezed(shape: Sequence[int], axis: int | Sequence[int] | None) -> tuple[int, ...]:
    """Without the named axes of size 1, or without all of them; never ()."""
    if axis is None:
        return tuple(dim for dim in shape if dim != 1) or (1,)
    axes = axes_of(axis, len(shape))
    for one in axes:
        if shape[one] not in (0, 1):
            raise ShapeError(f"expected size 1 on axis {one}, got {shape[one]} "
                             f"in shape {tuple(shape)}")
    return tuple(dim for place, dim in enumerate(shape) if place not in axes) or (1,)


def _squeeze_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    shape, axis = shapes[0], attrs["axis"]
    if shape is None or (axis is None and 0 in shape):
        return shapes, [None]
    return shapes, [_squeezed(shape, axis)]


@operator("squeeze", infer=_squeeze_shape, gradient=reshape_back, methods=("squeeze",))
def squeeze(xp: Any, data: Array, *, axis: Axes = None) -> Array:
    """Drop axes of size 1.

    Args:
        data: any array. axis: which; None means all. If none is left the result has shape (1,).

    Shapes: data (*S) -> S without axes of size 1.

    >>> import minigluon as mx
    >>> mx.nd.squeeze(mx.nd.zeros((1, 3, 1)), axis=0).shape
    (3, 1)
    """
    return data.reshape(_squeezed(data.shape, axis)).copy()


# -- asking ----------------------------------------------------------------------------------------

@operator("shape_array", infer_dtype=fixed_dtype("int64"), gradient=no_gradient,
          methods=("shape_array",),
          infer=lambda shapes, attrs: (
              shapes, [None if shapes[0] is None else (len(shapes[0]),)]))
def shape_array(xp: Any, data: Array) -> Array:
    """The shape, as an int64 array.

    Args:
        data: any array.

    Shapes: data (*S) -> (number of axes,).

    >>> import minigluon as mx
    >>> mx.nd.shape_array(mx.nd.zeros((2, 3))).asnumpy().tolist()
    [2, 3]
    """
    return xp.asarray(data.shape, dtype="int64")


@operator("size_array", infer_dtype=fixed_dtype("int64"), gradient=no_gradient,
          methods=("size_array",), infer=lambda shapes, attrs: (shapes, [(1,)]))
def size_array(xp: Any, data: Array) -> Array:
    """The number of elements, as an int64 array.

    Args:
        data: any array.

    Shapes: data (*S) -> (1,).

    >>> import minigluon as mx
    >>> mx.nd.size_array(mx.nd.zeros((2, 3))).asnumpy().tolist()
    [6]
    """
    return xp.asarray([data.size], dtype="int64")
