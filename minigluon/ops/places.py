"""Places of elements: numbers of places, rows chosen by a mask, rows replaced."""
from __future__ import annotations

from typing import Any

from ..base import ArgumentValueError, NotForThisError, ShapeError
from .attrs import Shape
from .operator import Attrs, operator
from .rules import (
    Shapes,
    axes_of,
    axis_of,
    fixed_dtype,
    follow_dtype,
    like_shape,
    merge_shapes,
    no_gradient,
    size_of,
)

__all__: list[str] = []

Array = Any


# -- one number and several ------------------------------------------------------------------------

def _sizes(attrs: Attrs) -> tuple[int, ...]:
    sizes = attrs["shape"]
    if not sizes or any(size < 1 for size in sizes[1:]):
        raise ArgumentValueError(f"shape: expected sizes >= 1 (the first may be -1), got {sizes}")
    return tuple(sizes)


def _unravel_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    count = len(_sizes(attrs))
    return shapes, [None if shapes[0] is None else (count, *shapes[0])]


@operator("_unravel_index", infer=_unravel_shape, gradient=no_gradient,
          aliases=("unravel_index",))
def unravel_index(xp: Any, data: Array, *, shape: Shape) -> Array:
    """Places in a flat array as one number for each axis.

    Args:
        data: the places. shape: of the array; the first size may be -1.

    Shapes: data (*S) -> (len(shape), *S).

    >>> import minigluon as mx
    >>> mx.nd.unravel_index(mx.nd.array([22, 41]), shape=(7, 6)).asnumpy().tolist()
    [[3.0, 6.0], [4.0, 5.0]]
    """
    sizes = _sizes({"shape": shape})
    rest = data.astype("int64")
    found = []
    for size in sizes[:0:-1]:
        found.append(rest % size)
        rest = rest // size
    found.append(rest % sizes[0] if sizes[0] > 0 else rest)
    return xp.stack(found[::-1]).astype(data.dtype)


def _ravel_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    count = len(_sizes(attrs))
    data = shapes[0]
    if data is None:
        return shapes, [None]
    if not data or data[0] not in (0, count):
        raise ShapeError(f"expected {count} numbers for each place on axis 0, got data {data}")
    return [(count, *data[1:])], [data[1:] or (1,)]


@operator("_ravel_multi_index", infer=_ravel_shape, gradient=no_gradient,
          aliases=("ravel_multi_index",))
def ravel_multi_index(xp: Any, data: Array, *, shape: Shape) -> Array:
    """Places given by one number for each axis as places in the flat array.

    Args:
        data: the numbers of each place, along axis 0. shape: of the array; the first size may be
            -1.

    Shapes: data (len(shape), *S) -> (*S).

    >>> import minigluon as mx
    >>> mx.nd.ravel_multi_index(mx.nd.array([[3, 6], [4, 5]]), shape=(7, 6)).asnumpy().tolist()
    [22.0, 41.0]
    """
    _ravel_shape([data.shape], {"shape": shape})
    total = xp.zeros(data.shape[1:] or (1,), "int64")
    for numbers, size in zip(data.astype("int64"), shape, strict=True):
        total = total * size + numbers
    return total.astype(data.dtype)


def _index_array_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data = shapes[0]
    if data is None:
        return shapes, [None]
    return shapes, [(*data, len(axes_of(attrs["axes"], len(data))))]


@operator("_contrib_index_array", infer=_index_array_shape, gradient=no_gradient,
          infer_dtype=fixed_dtype("int64"))
def index_array(xp: Any, data: Array, *, axes: Shape | None = None) -> Array:
    """For each element its own place.

    Args:
        data: only its shape counts. axes: the numbers for these axes only.

    Shapes: data (*S) -> (*S, rank), or (*S, len(axes)).

    >>> import minigluon as mx
    >>> mx.nd.contrib.index_array(mx.nd.ones((2, 1))).asnumpy().tolist()
    [[[0, 0]], [[1, 0]]]
    """
    grid = xp.meshgrid(*[xp.arange(n) for n in data.shape], indexing="ij")
    order = axes if axes is not None else range(data.ndim)
    return xp.stack([grid[axis_of(axis, data.ndim)] for axis in order], axis=-1).astype("int64")


def _arange_like_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data, axis = shapes[0], attrs["axis"]
    if attrs["repeat"] < 1:
        raise ArgumentValueError(f"repeat: expected 1 or more, got {attrs['repeat']}")
    if data is None:
        return shapes, [None]
    return shapes, [data if axis is None else (data[axis_of(axis, len(data))],)]


@operator("_contrib_arange_like", infer=_arange_like_shape, gradient=no_gradient)
def arange_like(xp: Any, data: Array, *, start: float = 0.0, step: float = 1.0, repeat: int = 1,
                axis: int | None = None) -> Array:
    """Evenly spaced numbers, as many as `data` has elements, or as its axis is long.

    Args:
        data: only its shape and type count. start, step: the numbers. repeat: how often each
            comes. axis: which axis says how many; None: all elements.

    Shapes: data (*S) -> (*S), or (S[axis],).

    >>> import minigluon as mx
    >>> mx.nd.contrib.arange_like(mx.nd.ones((2, 3)), axis=1).asnumpy().tolist()
    [0.0, 1.0, 2.0]
    """
    shape = _arange_like_shape([data.shape], {"axis": axis, "repeat": repeat})[1][0]
    assert shape is not None
    numbers = xp.arange(size_of(shape)) // repeat * step + start
    return numbers.astype(data.dtype).reshape(shape)


# -- rows ------------------------------------------------------------------------------------------

def _rows_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    lhs, mhs, rhs = shapes
    if lhs is not None and len(lhs) != 2:
        raise ShapeError(f"expected lhs with 2 axes, got {lhs}")
    rows = merge_shapes(merge_shapes(lhs[:1] if lhs else None, mhs), rhs,
                        "lengths of lhs, mhs and rhs")
    return [lhs, rows, rows], [lhs]


@operator("fill_element_0index", infer=_rows_shape)
def fill_element_0index(xp: Any, lhs: Array, mhs: Array, rhs: Array) -> Array:
    """A copy of `lhs` in which row i has mhs[i] in column rhs[i].

    Args:
        lhs: a matrix. mhs: the new values. rhs: their columns.

    Shapes: lhs (N, M), mhs (N,), rhs (N,) -> (N, M).

    >>> import minigluon as mx
    >>> x, new, where = mx.nd.zeros((1, 2)), mx.nd.array([5]), mx.nd.array([1])
    >>> mx.nd.fill_element_0index(x, new, where).asnumpy().tolist()
    [[0.0, 5.0]]
    """
    _rows_shape([lhs.shape, mhs.shape, rhs.shape], {})
    filled = lhs.copy()
    filled[xp.arange(len(lhs)), rhs.astype("int64")] = mhs
    return filled


def _mask_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data, index = shapes
    if attrs["axis"] != 0:
        raise NotForThisError(f"axis={attrs['axis']} is not built; swap axes so that it is 0")
    if data is None:
        return shapes, [None]
    index = merge_shapes(data[:1], index, "lengths of data and index")
    return [data, index], [(0, *data[1:])]


@operator("_contrib_boolean_mask", infer=_mask_shape, infer_dtype=follow_dtype(),
          gradient=lambda F, dy, out, data, index, axis: [
              F._boolean_mask_grad(dy, data, index), None])
def boolean_mask(xp: Any, data: Array, index: Array, *, axis: int = 0) -> Array:
    """The rows of `data` for which `index` is not 0; how many that are depends on the values.

    Args:
        data: any array. index: 0 or not, for each row. axis: only 0.

    Shapes: data (N, *S), index (N,) -> (M, *S).

    >>> import minigluon as mx
    >>> x = mx.nd.array([[1], [2], [3]])
    >>> mx.nd.contrib.boolean_mask(x, mx.nd.array([1, 0, 1])).asnumpy().tolist()
    [[1.0], [3.0]]
    """
    _mask_shape([data.shape, index.shape], {"axis": axis})
    return data[index != 0]


@operator("_boolean_mask_grad", infer=like_shape(1), infer_dtype=follow_dtype(),
          gradient=lambda F, u, out, dy, data, index: [F._contrib_boolean_mask(u, index), None,
                                                       None])
def boolean_mask_grad(xp: Any, dy: Array, data: Array, index: Array) -> Array:
    """The gradient of boolean_mask: zero in the rows left out."""
    grad = xp.zeros(data.shape, dy.dtype)
    grad[index != 0] = dy
    return grad


def _copy_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    old, index, new = shapes
    if old is None:
        return shapes, [None]
    new = merge_shapes(((index or (0,))[0], *old[1:]), new, "shapes of new_tensor")
    assert new is not None
    return [old, merge_shapes(new[:1], index), new], [old]


def _copy_back(F: Any, dy: Any, out: Any, old: Any, index: Any, new: Any) -> list[Any]:
    return [F._contrib_index_copy(dy, index, F.zeros_like(new)), None, F.take(dy, index)]


@operator("_contrib_index_copy", infer=_copy_shape, infer_dtype=follow_dtype(),
          gradient=_copy_back)
def index_copy(xp: Any, old_tensor: Array, index_vector: Array, new_tensor: Array) -> Array:
    """A copy of `old_tensor` in which the rows at `index_vector` are those of `new_tensor`.

    Args:
        old_tensor: any array. index_vector: rows, each at most once. new_tensor: what they become.

    Shapes: old_tensor (N, *S), index_vector (M,), new_tensor (M, *S) -> (N, *S).

    >>> import minigluon as mx
    >>> x, rows = mx.nd.zeros((3, 1)), mx.nd.array([2, 0], dtype="int64")
    >>> mx.nd.contrib.index_copy(x, rows, mx.nd.array([[5], [6]])).asnumpy().tolist()
    [[6.0], [0.0], [5.0]]
    """
    _copy_shape([old_tensor.shape, index_vector.shape, new_tensor.shape], {})
    copied = old_tensor.copy()
    copied[index_vector.astype("int64")] = new_tensor
    return copied
