"""Operators that take a part of an array by position: slices, and the indexing of NDArray."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base import ArgumentValueError, ShapeError
from .attrs import Axes, Key
from .operator import Attrs, operator
from .rules import Shapes, axes_of, axis_of, follow_dtype, known, like_shape

__all__ = ["slice_key", "sliced"]

Array = Any
Box = tuple[slice, ...]


def _placed(xp: Any, dy: Array, like: Array, key: Box) -> Array:
    """Zeros like `like` with `dy` at `key`."""
    result = xp.zeros_like(like, dtype=dy.dtype)
    result[key] = dy
    return result


def sliced(shape: Sequence[int], key: Box) -> tuple[int, ...]:
    """The shape of an array of `shape` indexed by slices; 0 where the size is unknown."""
    return tuple(len(range(*part.indices(dim))) if dim else 0
                 for dim, part in zip(shape, (*key, *[slice(None)] * len(shape)), strict=False))


# -- slice -----------------------------------------------------------------------------------------

def slice_key(ndim: int, begin: Sequence[Any], end: Sequence[Any], step: Sequence[Any] | None
              ) -> Box:
    """The slices that begin, end and step describe; an error where they do not fit."""
    steps = tuple(step or ()) + (None,) * (len(begin) - len(step or ()))
    if len(begin) != len(end) or len(begin) != len(steps) or len(begin) > ndim:
        raise ShapeError(f"expected begin, end and step of one length up to {ndim}, "
                         f"got {tuple(begin)}, {tuple(end)}, {step}")
    if 0 in steps:
        raise ArgumentValueError("step: expected numbers other than 0, got 0")
    return tuple(slice(*part) for part in zip(begin, end, steps, strict=True))


def _slice_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    shape = shapes[0]
    return shapes, [None if shape is None else sliced(shape, slice_key(len(shape), **attrs))]


@operator("slice", infer=_slice_shape, aliases=("crop",), methods=("slice",),
          gradient=lambda F, dy, out, data, **attrs: [F._slice_grad(dy, data, **attrs)])
def slice_(xp: Any, data: Array, *, begin: tuple, end: tuple, step: tuple | None = None  # type: ignore[type-arg]
           ) -> Array:
    """A box cut out, as Python's ``data[b0:e0:s0, b1:e1:s1]``.

    Args:
        data: any array. begin, end, step: for the first axes; None as in Python.

    Shapes: data (*S) -> (*T), T at most S.

    >>> import minigluon as mx
    >>> mx.nd.slice(mx.nd.arange(6), begin=(4,), end=(None,), step=(-2,)).asnumpy().tolist()
    [4.0, 2.0, 0.0]
    """
    return data[slice_key(data.ndim, begin, end, step)].copy()


@operator("_slice_grad", infer=like_shape(1), infer_dtype=follow_dtype(0),
          gradient=lambda F, dy, out, grad, data, **attrs: [F.slice(dy, **attrs), None])
def _slice_grad(xp: Any, grad: Array, data: Array, *, begin: tuple, end: tuple,  # type: ignore[type-arg]
                step: tuple | None = None) -> Array:  # type: ignore[type-arg]
    """Zeros with `grad` in the box."""
    return _placed(xp, grad, data, slice_key(data.ndim, begin, end, step))


def _axis_key(shape: Sequence[int], axis: int, begin: int | None, end: int | None) -> Box:
    place = axis_of(axis, len(shape))
    return (*[slice(None)] * place, slice(begin, end))


def _slice_axis_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    shape = shapes[0]
    return shapes, [None if shape is None else sliced(shape, _axis_key(shape, **attrs))]


@operator("slice_axis", infer=_slice_axis_shape, methods=("slice_axis",),
          gradient=lambda F, dy, out, data, **attrs: [F._slice_axis_grad(dy, data, **attrs)])
def slice_axis(xp: Any, data: Array, *, axis: int, begin: int | None, end: int | None) -> Array:
    """A slice along one axis.

    Args:
        data: any array. axis: which. begin, end: as in Python, negative ones count from the end.

    Shapes: data (*S) -> S with end - begin at axis.

    >>> import minigluon as mx
    >>> mx.nd.slice_axis(mx.nd.zeros((2, 5)), axis=1, begin=1, end=-1).shape
    (2, 3)
    """
    return data[_axis_key(data.shape, axis, begin, end)].copy()


@operator("_slice_axis_grad", infer=like_shape(1), infer_dtype=follow_dtype(0),
          gradient=lambda F, dy, out, grad, data, **attrs: [F.slice_axis(dy, **attrs), None])
def _slice_axis_grad(xp: Any, grad: Array, data: Array, *, axis: int, begin: int | None,
                     end: int | None) -> Array:
    """Zeros with `grad` in the slice."""
    return _placed(xp, grad, data, _axis_key(data.shape, axis, begin, end))


def _like_key(shape: Sequence[int], like: Sequence[int], axes: Any) -> Box:
    if axes in (None, ()) and len(shape) != len(like):
        raise ShapeError(f"expected shapes with as many axes, got {tuple(shape)} and "
                         f"{tuple(like)}; name the axes to cut with axes=")
    key = [slice(None)] * len(shape)
    for axis in axes_of(axes, len(shape)):
        if axis >= len(like) or (shape[axis] and like[axis] > shape[axis]):
            raise ShapeError(f"expected a size up to {shape[axis]} on axis {axis}, "
                             f"got shape_like {tuple(like)}")
        key[axis] = slice(0, like[axis])
    return tuple(key)


def _slice_like_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    shape, like = shapes
    if shape is None or like is None:
        return shapes, [None]
    key = _like_key(shape, like, attrs["axes"])
    return shapes, [tuple(dim if part.stop is None else part.stop
                          for dim, part in zip(shape, key, strict=True))]


@operator("slice_like", infer=_slice_like_shape, infer_dtype=follow_dtype(0),
          methods=("slice_like",), gradient=lambda F, dy, out, data, shape_like, **attrs: [
              F._slice_like_grad(dy, data, shape_like, **attrs), None])
def slice_like(xp: Any, data: Array, shape_like: Array, *, axes: Axes = ()) -> Array:
    """The first elements along the axes, as many as `shape_like` has.

    Args:
        data: any array. shape_like: only its shape counts. axes: which axes; () means all.

    Shapes: data (*S), shape_like (*T) -> S with the sizes of T at axes.

    >>> import minigluon as mx
    >>> mx.nd.slice_like(mx.nd.zeros((4, 5)), mx.nd.zeros((2, 3))).shape
    (2, 3)
    """
    return data[_like_key(data.shape, shape_like.shape, axes)].copy()


@operator("_slice_like_grad", infer=like_shape(1), infer_dtype=follow_dtype(0),
          gradient=lambda F, dy, out, grad, data, shape_like, **attrs: [
              F.slice_like(dy, shape_like, **attrs), None, None])
def _slice_like_grad(xp: Any, grad: Array, data: Array, shape_like: Array, *, axes: Axes = ()
                     ) -> Array:
    """Zeros with `grad` in front."""
    return _placed(xp, grad, data, _like_key(data.shape, shape_like.shape, axes))


# -- indexing of NDArray ---------------------------------------------------------------------------

def _getitem_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    shape = shapes[0]
    if not known(shape):
        return shapes, [None]
    elements = np.broadcast_to(np.zeros((), "bool"), shape or ())  # one element, stretched
    return shapes, [elements[attrs["key"]].shape or (() if attrs["scalars"] else (1,))]


def _basic(key: Any) -> bool:
    parts = key if isinstance(key, tuple) else (key,)
    return all(part is None or part is Ellipsis or isinstance(part, (int, slice))
               for part in parts)


@operator("_getitem", infer=_getitem_shape,
          gradient=lambda F, dy, out, data, *, key, scalars: [
              F._getitem_grad(dy, data, key=key)])
def _getitem(xp: Any, data: Array, *, key: Key, scalars: bool = False) -> Array:
    """``data[key]`` with NumPy's rules; a single element has shape (1,), or () if `scalars`."""
    result = xp.array(data[key], copy=True)
    return result if result.ndim or scalars else result.reshape(1)


@operator("_getitem_grad", infer=like_shape(1), infer_dtype=follow_dtype(0),
          gradient=lambda F, dy, out, grad, data, *, key: [F._getitem(dy, key=key), None])
def _getitem_grad(xp: Any, grad: Array, data: Array, *, key: Key) -> Array:
    """Zeros like `data` with `grad` added at `key`; what was read twice gets both."""
    result = xp.zeros_like(data, dtype=grad.dtype)
    place = result[key]
    if _basic(key):
        result[key] = grad.reshape(place.shape)
    else:
        xp.add.at(result, key, grad.reshape(place.shape))
    return result


@operator("_setitem_like", infer=like_shape(0),
          gradient=lambda F, dy, out, data, value, *, key: [
              F._setitem_like(dy, F.zeros_like(value), key=key),
              F._sum_like(F._getitem(dy, key=key), value)])
def _setitem_like(xp: Any, data: Array, value: Array, *, key: Key) -> Array:
    """A copy of `data` in which ``copy[key] = value`` was done."""
    result = data.copy()
    result[key] = value
    return result
