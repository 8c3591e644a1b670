"""Operators that fold axes away: sums, products, extremes, norms, places of extremes."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base import ArgumentValueError
from .attrs import Axes, DType
from .operator import Attrs, Operator, operator
from .rules import (
    DTypes,
    Shapes,
    axes_of,
    fixed_dtype,
    like_shape,
    no_gradient,
    reduce_shape,
    reduced,
)

__all__: list[str] = []

Array = Any


def _fold(xp: Any, data: Array, axes: tuple[int, ...], keepdims: bool,
          function: Callable[..., Array], **options: Any) -> Array:
    """`function` over `axes`; a result without axes gets shape (1,)."""
    result = function(data, axis=axes, keepdims=keepdims, **options)
    return xp.asarray(result).reshape(reduced(data.shape, axes, keepdims))


def _wide(data: Array) -> str:
    """The type to add up in: float16 sums would stall, integers must not change their type."""
    return "float32" if data.dtype == "float16" else data.dtype.name


def _add(xp: Any, data: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return _fold(xp, data, axes, keepdims, xp.sum, dtype=_wide(data))


def _mean(xp: Any, data: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    count = 1
    for axis in axes:
        count *= data.shape[axis]
    total = _add(xp, data, axes, keepdims)
    if total.dtype.kind == "f":
        return total / total.dtype.type(count)
    whole = total // count
    return whole + ((total < 0) & (whole * count != total))  # towards zero, as C++ divides


def _multiply(xp: Any, data: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return _fold(xp, data, axes, keepdims, xp.prod, dtype=_wide(data))


def _zero_nan(xp: Any, data: Array, value: float) -> Array:
    return xp.where(data == data, data, data.dtype.type(value))


def _reduction(
    name: str,
    function: Callable[..., Array],
    gradient: Callable[..., Sequence[Any]],
    words: str,
    printed: str,
    aliases: Sequence[str] = (),
) -> Operator:
    """Enter a reduction; `printed` is its value at [[1, 2], [3, 4]] along axis 1."""

    def body(xp: Any, data: Array, *, axis: Axes = None, keepdims: bool = False,
             exclude: bool = False) -> Array:
        axes = axes_of(axis, data.ndim, exclude)
        result = function(xp, data, axes, keepdims)
        return result if result.dtype == data.dtype else result.astype(data.dtype)

    body.__doc__ = (
        f"{words} over axes.\n\nArgs:\n    data: any array.\n"
        "    axis: axis or axes; None or () means all of them, the result has shape (1,).\n"
        "    keepdims: leave the axes with size 1.\n"
        "    exclude: take the axes that are not in `axis`.\n\n"
        "Shapes: data (*S) -> S without the axes.\n\n>>> import minigluon as mx\n"
        f">>> print(mx.nd.{name}(mx.nd.array([[1, 2], [3, 4]]), axis=1).asnumpy())\n{printed}\n"
    )
    return operator(name, infer=reduce_shape, gradient=gradient, aliases=aliases,
                    methods=(name,))(body)


def _extreme_gradient(F: Any, dy: Any, out: Any, data: Any, **how: Any) -> list[Any]:
    chosen = F.broadcast_equal(data, F._unreduce(out, data, **how))
    return [F.elemwise_mul(F._unreduce(dy, data, **how), chosen)]


def _product_gradient(ignore_nan: bool) -> Callable[..., Sequence[Any]]:
    return lambda F, dy, out, data, **how: [F.elemwise_mul(
        F._unreduce(dy, data, **how),
        F._prod_others(data, ignore_nan=ignore_nan, **how))]


_reduction("sum", _add, lambda F, dy, out, data, **how: [F._unreduce(dy, data, **how)],
           "Sum", "[3. 7.]", aliases=("sum_axis",))
_reduction("mean", _mean,
           lambda F, dy, out, data, **how: [F._unreduce(dy, data, mean=True, **how)],
           "Mean", "[1.5 3.5]")
_reduction("prod", _multiply, _product_gradient(False), "Product", "[ 2. 12.]")
_reduction("nansum", lambda xp, x, axes, keep: _add(xp, _zero_nan(xp, x, 0), axes, keep),
           lambda F, dy, out, data, **how: [F.elemwise_mul(
               F._unreduce(dy, data, **how), F.broadcast_equal(data, data))],
           "Sum, nan counting as 0,", "[3. 7.]")
_reduction("nanprod", lambda xp, x, axes, keep: _multiply(xp, _zero_nan(xp, x, 1), axes, keep),
           _product_gradient(True), "Product, nan counting as 1,", "[ 2. 12.]")
_reduction("max", lambda xp, x, axes, keep: _fold(xp, x, axes, keep, xp.max), _extreme_gradient,
           "Largest value (its gradient goes to every element equal to it)", "[2. 4.]",
           aliases=("max_axis",))
_reduction("min", lambda xp, x, axes, keep: _fold(xp, x, axes, keep, xp.min), _extreme_gradient,
           "Smallest value (its gradient goes to every element equal to it)", "[1. 3.]",
           aliases=("min_axis",))


@operator("_unreduce", infer=like_shape(1),
          gradient=lambda F, dy, out, data, like, *, mean, **how: [
              F.mean(dy, **how) if mean else F.sum(dy, **how), None])
def _unreduce(xp: Any, data: Array, like: Array, *, axis: Axes = None, keepdims: bool = False,
              exclude: bool = False, mean: bool = False) -> Array:
    """The reduced `data` stretched back to the shape of `like`; divided by the count if `mean`."""
    axes = axes_of(axis, like.ndim, exclude)
    full = data.reshape(reduced(like.shape, axes, True))
    if mean:
        count = 1
        for one in axes:
            count *= like.shape[one]
        full = full / full.dtype.type(count)
    return xp.broadcast_to(full, like.shape).copy()


def _others_gradient(F: Any, dy: Any, out: Any, data: Any, *, ignore_nan: bool, **how: Any
                     ) -> list[Any]:
    # d out_i / d x_j = out_i / x_j for i != j, so sum_i dy_i out_i less its own part, over x_j
    part = F.elemwise_mul(dy, out)
    total = F._unreduce(F.sum(part, **how), data, **how)
    return [F.elemwise_div(F.elemwise_sub(total, part), data)]


@operator("_prod_others", infer=like_shape(0), gradient=_others_gradient)
def _prod_others(xp: Any, data: Array, *, axis: Axes = None, keepdims: bool = False,
                 exclude: bool = False, ignore_nan: bool = False) -> Array:
    """For each element the product of all others it is multiplied with; exact where some are 0."""
    axes = axes_of(axis, data.ndim, exclude)
    rest = tuple(one for one in range(data.ndim) if one not in axes)
    moved = data.transpose(rest + axes)
    rows = moved.reshape(-1, _count(data.shape, axes))
    valid = rows == rows
    if ignore_nan:
        rows = xp.where(valid, rows, rows.dtype.type(1))
    before, after = xp.ones_like(rows), xp.ones_like(rows)
    before[:, 1:] = xp.cumprod(rows[:, :-1], axis=1)
    after[:, :-1] = xp.cumprod(rows[:, :0:-1], axis=1)[:, ::-1]
    others = before * after
    if ignore_nan:
        others = xp.where(valid, others, others.dtype.type(0))
    back = [0] * data.ndim
    for place, one in enumerate(rest + axes):
        back[one] = place
    return others.reshape(moved.shape).transpose(back)


def _count(shape: Sequence[int], axes: Sequence[int]) -> int:
    count = 1
    for axis in axes:
        count *= shape[axis]
    return count


# -- norm ------------------------------------------------------------------------------------------

def _norm_dtype(dtypes: DTypes, attrs: Attrs) -> tuple[DTypes, DTypes]:
    return dtypes, [attrs["out_dtype"] or dtypes[0]]


def _norm_gradient(F: Any, dy: Any, out: Any, data: Any, *, ord: int, out_dtype: Any, **how: Any
                   ) -> list[Any]:
    grad, norm = F._cast_like(dy, data), F._cast_like(out, data)
    full = F._unreduce(grad, data, **how)
    if ord == 1:
        return [F.elemwise_mul(full, F.sign(data))]
    # a norm of 0 has no direction: the gradient there is 0
    direction = F.elemwise_mul(data, F._reciprocal_or_zero(F._unreduce(norm, data, **how)))
    return [F.elemwise_mul(full, direction)]


@operator("norm", infer=reduce_shape, infer_dtype=_norm_dtype, gradient=_norm_gradient,
          methods=("norm",))
def norm(xp: Any, data: Array, *, ord: int = 2, axis: Axes = None,
         out_dtype: DType | None = None, keepdims: bool = False) -> Array:
    """Sum of absolute values (ord 1) or root of the sum of squares (ord 2) over axes.

    Args:
        data: any array. ord: 1 or 2. axis: axis or axes, None means all. keepdims: leave the axes
            with size 1. out_dtype: element type of the result.

    Shapes: data (*S) -> S without the axes; (1,) if none is left.

    >>> import minigluon as mx
    >>> print(mx.nd.norm(mx.nd.array([3, 4])).asnumpy())
    [5.]
    """
    if ord not in (1, 2):
        raise ArgumentValueError(f"norm: ord: expected 1 or 2, got {ord}")
    axes = axes_of(axis, data.ndim)
    real = data.astype(_wide(data), copy=False)
    total = _add(xp, xp.abs(real) if ord == 1 else real * real, axes, keepdims)
    return (total if ord == 1 else xp.sqrt(total)).astype(out_dtype or data.dtype, copy=False)


# -- places of extremes ----------------------------------------------------------------------------

def _place(name: str, words: str, printed: str) -> Operator:
    def body(xp: Any, data: Array, *, axis: int | None = None, keepdims: bool = False) -> Array:
        axes = axes_of(axis, data.ndim)
        found = getattr(xp, name)(data, axis=None if axis is None else axes[0])
        return xp.asarray(found).astype("float32").reshape(reduced(data.shape, axes, keepdims))

    body.__doc__ = (
        f"{words} along an axis, as float32; the first one of equals.\n\n"
        "Args:\n    data: any array.\n    axis: the axis; None counts through the whole array.\n"
        "    keepdims: leave the axis with size 1.\n\n"
        "Shapes: data (*S) -> S without the axis.\n\n>>> import minigluon as mx\n"
        f">>> print(mx.nd.{name}(mx.nd.array([[1, 5, 2], [9, 3, 4]]), axis=1).asnumpy())\n"
        f"{printed}\n"
    )
    return operator(name, infer=reduce_shape, infer_dtype=fixed_dtype("float32"),
                    gradient=no_gradient, methods=(name,))(body)


_place("argmax", "The place of the largest value", "[1. 0.]")
_place("argmin", "The place of the smallest value", "[0. 1.]")


def _channel_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    shape = shapes[0]
    return shapes, [None if shape is None else reduced(shape, axes_of(1, len(shape)), False)]


@operator("argmax_channel", infer=_channel_shape, infer_dtype=fixed_dtype("float32"),
          gradient=no_gradient, methods=("argmax_channel",))
def argmax_channel(xp: Any, data: Array) -> Array:
    """The place of the largest value along axis 1.

    Args:
        data: an array with two or more axes.

    Shapes: data (N, C, *S) -> (N, *S).

    >>> import minigluon as mx
    >>> print(mx.nd.argmax_channel(mx.nd.array([[1, 5, 2], [9, 3, 4]])).asnumpy())
    [1. 0.]
    """
    return xp.argmax(data, axis=1).astype("float32")
