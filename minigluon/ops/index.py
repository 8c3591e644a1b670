"""Operators that pick elements by indices held in an array, and one-hot codes."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ..base import ArgumentValueError, ShapeError
from .attrs import DType, Shape
from .operator import Attrs, operator
from .rules import (
    DTypes,
    Shapes,
    attr_dtype,
    axis_of,
    follow_dtype,
    like_shape,
    merge_shapes,
    no_gradient,
    reduced,
    size_of,
)

__all__: list[str] = []

Array = Any


def _fitted(name: str, xp: Any, indices: Array, size: int, mode: str) -> Array:
    """Indices as integers in [0, size): clipped, wrapped, or refused."""
    places = indices.astype("int64")
    if mode == "wrap":
        return xp.mod(places, size)
    if mode == "clip":
        return xp.clip(places, 0, size - 1)
    outside = (places < 0) | (places >= size)
    if bool(outside.any()):
        first = int(places[outside].reshape(-1)[0])
        raise ArgumentValueError(
            f"{name}: index {first} is out of range for size {size}; use mode='clip' or 'wrap' to "
            "allow it").at_run_time()
    return places


# -- take ------------------------------------------------------------------------------------------

def _take_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data, indices = shapes
    if data is None or indices is None:
        return shapes, [None]
    axis = axis_of(attrs["axis"], len(data))
    return shapes, [(*data[:axis], *indices, *data[axis + 1:])]


@operator("take", infer=_take_shape, infer_dtype=follow_dtype(0), methods=("take",),
          gradient=lambda F, dy, out, a, indices, **attrs: [
              F._take_grad(dy, a, indices, **attrs), None])
def take(xp: Any, a: Array, indices: Array, *, axis: int = 0,
         mode: Literal["clip", "wrap", "raise"] = "clip") -> Array:
    """Slices of `a` along an axis, in the order of `indices`.

    Args:
        a: any array. indices: which; floats are cut to integers. axis: along which axis.
        mode: what an index outside does: take the nearest, wrap around, or fail.

    Shapes: a (*S), indices (*I) -> S with I in place of axis.

    >>> import minigluon as mx
    >>> mx.nd.take(mx.nd.array([10, 20, 30]), mx.nd.array([-1, 2, 7])).asnumpy().tolist()
    [10.0, 30.0, 30.0]
    """
    axis = axis_of(axis, a.ndim, "take: axis")
    return xp.take(a, _fitted("take", xp, indices, a.shape[axis], mode), axis=axis)


@operator("_take_grad", infer=like_shape(1), infer_dtype=follow_dtype(0),
          gradient=lambda F, dy, out, grad, a, indices, **attrs: [
              F.take(dy, indices, **attrs), None, None])
def _take_grad(xp: Any, grad: Array, a: Array, indices: Array, *, axis: int = 0,
               mode: str = "clip") -> Array:
    """Zeros like `a` with the slices of `grad` added where they were taken."""
    axis = axis % a.ndim
    places = _fitted("take", xp, indices, a.shape[axis], mode)
    result = xp.zeros_like(a, dtype=grad.dtype)
    xp.add.at(result, (*[slice(None)] * axis, places), grad)
    return result


def _batch_take_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data, indices = shapes
    if data is not None and len(data) < 2:
        raise ShapeError(f"expected a with two axes, got {data}")
    rows = None if data is None else data[:-1]
    rows = merge_shapes(rows, indices, "rows of a and indices")
    return [data, rows], [rows]


@operator("batch_take", infer=_batch_take_shape, infer_dtype=follow_dtype(0))
def batch_take(xp: Any, a: Array, indices: Array) -> Array:
    """One element of each row; not differentiable (``pick`` is).

    Args:
        a: rows. indices: the place in each row, clipped to it.

    Shapes: a (N, K), indices (N,) -> (N,).

    >>> import minigluon as mx
    >>> mx.nd.batch_take(mx.nd.array([[1, 2], [3, 4]]), mx.nd.array([1, 0])).asnumpy().tolist()
    [2.0, 3.0]
    """
    if a.shape[:-1] != indices.shape:
        raise ShapeError(f"batch_take: expected one index for each row of a {a.shape}, "
                         f"got indices {indices.shape}")
    places = _fitted("batch_take", xp, indices, a.shape[-1], "clip")
    return xp.take_along_axis(a, places[..., None], axis=-1)[..., 0]


# -- pick ------------------------------------------------------------------------------------------

def _pick_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data, index = shapes
    if data is None:
        return shapes, [index]
    axis = axis_of(-1 if attrs["axis"] is None else attrs["axis"], len(data))
    if attrs["axis"] is None:
        return shapes, [index]
    short, kept = reduced(data, (axis,), False), reduced(data, (axis,), True)
    if index is None:  # it may have the axis with size 1, but has it not where nobody says so
        index = short
    elif len(index) == len(kept) and index[axis] in (0, 1) and short != index:
        merge_shapes(kept, index, "shapes of data without the axis and of index")
    else:
        index = merge_shapes(short, index, "shapes of data without the axis and of index")
    return [data, index], [kept if attrs["keepdims"] else short]


def _pick_parts(xp: Any, data: Array, index: Array, axis: int, mode: str) -> Array:
    """Integer places with size 1 on `axis`."""
    shape = reduced(data.shape, (axis,), True)
    return _fitted("pick", xp, index, data.shape[axis], mode).reshape(shape)


@operator("pick", infer=_pick_shape, infer_dtype=follow_dtype(0), methods=("pick",),
          aliases=("choose_element_0index",),
          gradient=lambda F, dy, out, data, index, **attrs: [
              F._pick_grad(dy, data, index, **attrs), None])
def pick(xp: Any, data: Array, index: Array, *, axis: int | None = -1, keepdims: bool = False,
         mode: Literal["clip", "wrap"] = "clip") -> Array:
    """One element along an axis for each place of the others.

    Args:
        data: any array. index: which element; floats are cut to integers.
        axis: along which axis; None: index counts through the whole array.
        keepdims: leave the axis with size 1. mode: take the nearest, or wrap around.

    Shapes: data (*S), index (S without axis) -> S without axis.

    >>> import minigluon as mx
    >>> mx.nd.pick(mx.nd.array([[1, 2], [3, 4]]), mx.nd.array([0, 1])).asnumpy().tolist()
    [1.0, 4.0]
    """
    if axis is None:
        return data.reshape(-1)[_fitted("pick", xp, index, data.size, mode)]
    axis = axis_of(axis, data.ndim, "pick: axis")
    places = _pick_parts(xp, data, index, axis, mode)
    return xp.take_along_axis(data, places, axis=axis).reshape(
        reduced(data.shape, (axis,), keepdims))


@operator("_pick_grad", infer=like_shape(1), infer_dtype=follow_dtype(0),
          gradient=lambda F, dy, out, grad, data, index, **attrs: [
              F.pick(dy, index, **attrs), None, None])
def _pick_grad(xp: Any, grad: Array, data: Array, index: Array, *, axis: int | None = -1,
               keepdims: bool = False, mode: str = "clip") -> Array:
    """Zeros like `data` with `grad` at the picked elements."""
    if axis is None:
        flat = xp.zeros(data.size, dtype=grad.dtype)
        xp.add.at(flat, _fitted("pick", xp, index, data.size, mode), grad)
        return flat.reshape(data.shape)
    axis = axis % data.ndim
    places = _pick_parts(xp, data, index, axis, mode)
    line = xp.arange(data.shape[axis]).reshape((-1,) + (1,) * (data.ndim - axis - 1))
    return xp.where(line == places, grad.reshape(places.shape), grad.dtype.type(0))


# -- one-hot, where --------------------------------------------------------------------------------

def _length(depth: int) -> int:
    if depth < 0:
        raise ArgumentValueError(f"one_hot: depth: expected 0 or more, got {depth}")
    return depth


@operator("one_hot", infer_dtype=attr_dtype(), gradient=no_gradient, methods=("one_hot",),
          infer=lambda shapes, attrs: (
              shapes, [None if shapes[0] is None else (*shapes[0], _length(attrs["depth"]))]))
def one_hot(xp: Any, indices: Array, *, depth: int, on_value: float = 1.0,
            off_value: float = 0.0, dtype: DType = "float32") -> Array:  # type: ignore[assignment]
    """Vectors that are on_value at the index and off_value elsewhere.

    Args:
        indices: which; outside of [0, depth) gives a vector of off_value. depth: their length.
        on_value, off_value: the two values. dtype: element type of the result.

    Shapes: indices (*S) -> (*S, depth).

    >>> import minigluon as mx
    >>> mx.nd.one_hot(mx.nd.array([1, 5]), depth=3).asnumpy().tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    on = indices.astype("int64")[..., None] == xp.arange(_length(depth))
    kind = xp.dtype(dtype).type
    return xp.where(on, kind(on_value), kind(off_value))


def _where_shape(shapes: Shapes, attrs: Attrs, outs: Shapes | None = None
                 ) -> tuple[Shapes, Shapes]:
    condition, x, y = shapes
    both = merge_shapes(x, y, "shapes of x and y")
    both = merge_shapes(both, outs[0], "shapes of x and the output") if outs else both
    if condition is not None and both is not None and (
            len(condition) != 1 or len(both) == 1):
        both = merge_shapes(both, condition, "shapes of condition and x")
    elif condition is not None and both and both[0] and condition[0] not in (0, both[0]):
        raise ShapeError(f"expected a condition like x {both} or one value for each row, "
                         f"got {condition}")
    return [condition, both, both], [both]


def _where_dtype(dtypes: DTypes, attrs: Attrs) -> tuple[DTypes, DTypes]:
    found = dtypes[1] or dtypes[2]
    return [dtypes[0], found, found], [found]


@operator("where", infer=_where_shape, infer_dtype=_where_dtype,
          gradient=lambda F, dy, out, condition, x, y: [
              None, F.where(condition, dy, F.zeros_like(dy)),
              F.where(condition, F.zeros_like(dy), dy)])
def where(xp: Any, condition: Array, x: Array, y: Array) -> Array:
    """x where the condition is not 0, else y.

    Args:
        condition: of the shape of x, or a vector that chooses whole rows. x, y: of one shape.

    Shapes: condition (*S) or (S[0],), x (*S), y (*S) -> (*S).

    >>> import minigluon as mx
    >>> x, y = mx.nd.array([1, 2]), mx.nd.array([3, 4])
    >>> mx.nd.where(mx.nd.array([1, 0]), x, y).asnumpy().tolist()
    [1.0, 4.0]
    """
    if x.shape != y.shape or (condition.shape != x.shape and condition.shape != x.shape[:1]):
        raise ShapeError(f"where: expected x and y of one shape and a condition of that shape or "
                         f"one value for each row, got condition {condition.shape}, x {x.shape}, "
                         f"y {y.shape}")
    if condition.ndim < x.ndim:
        condition = condition.reshape((-1,) + (1,) * (x.ndim - 1))
    return xp.where(condition != 0, x, y)


# -- points ----------------------------------------------------------------------------------------

def _gather_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data, indices = shapes
    if data is None or indices is None:
        return shapes, [None]
    _check_points(data, indices)
    if not indices[0]:
        return shapes, [None]
    return shapes, [(*indices[1:], *data[indices[0]:])]


def _check_points(data: Sequence[int], indices: Sequence[int]) -> None:
    if len(indices) < 2 or indices[0] > len(data):
        raise ShapeError(f"expected indices (M, *I) with M up to the {len(data)} axes of data, "
                         f"got {tuple(indices)}")


@operator("gather_nd", infer=_gather_shape, infer_dtype=follow_dtype(0),
          gradient=lambda F, dy, out, data, indices: [F._gather_nd_grad(dy, data, indices), None])
def gather_nd(xp: Any, data: Array, indices: Array) -> Array:
    """Elements or slices at points.

    Args:
        data: any array. indices: column i holds the first M coordinates of point i.

    Shapes: data (*S), indices (M, *I) -> (*I, *S[M:]).

    >>> import minigluon as mx
    >>> x = mx.nd.array([[1, 2], [3, 4]])
    >>> mx.nd.gather_nd(x, mx.nd.array([[0, 1], [1, 0]])).asnumpy().tolist()
    [2.0, 3.0]
    """
    return data[tuple(indices.astype("int64"))]


@operator("_gather_nd_grad", infer=like_shape(1), infer_dtype=follow_dtype(0),
          gradient=lambda F, dy, out, grad, data, indices: [
              F.gather_nd(dy, indices), None, None])
def _gather_nd_grad(xp: Any, grad: Array, data: Array, indices: Array) -> Array:
    """Zeros like `data` with `grad` added at the points."""
    result = xp.zeros_like(data, dtype=grad.dtype)
    xp.add.at(result, tuple(indices.astype("int64")), grad)
    return result


def _scatter_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data, indices = shapes
    wanted = tuple(attrs["shape"])
    if indices is not None:
        _check_points(wanted, indices)
        if indices[0]:
            data = merge_shapes(data, (*indices[1:], *wanted[indices[0]:]),
                                "shapes of data and of what the indices address")
    return [data, indices], [wanted]


@operator("scatter_nd", infer=_scatter_shape, infer_dtype=follow_dtype(0),
          gradient=lambda F, dy, out, data, indices, **attrs: [F.gather_nd(dy, indices), None])
def scatter_nd(xp: Any, data: Array, indices: Array, *, shape: Shape) -> Array:
    """Zeros with `data` written at points; of equal points the last one stays.

    Args:
        data: the values. indices: column i holds the first M coordinates of point i.
        shape: shape of the result.

    Shapes: data (*I, *shape[M:]), indices (M, *I) -> shape.

    >>> import minigluon as mx
    >>> points = mx.nd.array([[0, 1], [1, 0]])
    >>> mx.nd.scatter_nd(mx.nd.array([5, 6]), points, shape=(2, 2)).asnumpy().tolist()
    [[0.0, 5.0], [6.0, 0.0]]
    """
    result = xp.zeros(shape, dtype=data.dtype)
    if size_of(data.shape):
        result[tuple(indices.astype("int64"))] = data
    return result
