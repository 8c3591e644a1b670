"""Running sums, moments, sums over many arrays, questions whether numbers are sound."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base import ArgumentValueError, ShapeError
from .attrs import DType, Shape
from .operator import Attrs, operator
from .rules import (
    DTypes,
    Shapes,
    axes_of,
    axis_of,
    fixed_dtype,
    follow_dtype,
    like_shape,
    no_gradient,
    reduced,
    size_of,
)

__all__: list[str] = []

Array = Any


# -- cumsum ----------------------------------------------------------------------------------------

def _cumsum_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data, axis = shapes[0], attrs["axis"]
    if data is None:
        return shapes, [(0,) if axis is None else None]
    if axis is None:
        return shapes, [(size_of(data),)]
    axis_of(axis, len(data))
    return shapes, [data]


def _cumsum_dtype(dtypes: DTypes, attrs: Attrs) -> tuple[DTypes, DTypes]:
    return dtypes, [attrs["dtype"] or dtypes[0]]


@operator("_np_cumsum", infer=_cumsum_shape, infer_dtype=_cumsum_dtype, aliases=("cumsum",),
          methods=("cumsum",),
          gradient=lambda F, dy, out, a, axis, dtype: [F._cumsum_grad(dy, a, axis=axis)])
def cumsum(xp: Any, a: Array, *, axis: int | None = None, dtype: DType | None = None) -> Array:
    """Running sums along an axis.

    Args:
        a: any array. axis: along which; None sums over all elements in order.
        dtype: element type of the sums; None: that of `a`.

    Shapes: a (*S) -> (*S), or (size,) when axis is None.

    >>> import minigluon as mx
    >>> mx.nd.cumsum(mx.nd.array([[1, 2], [3, 4]]), axis=1).asnumpy().tolist()
    [[1.0, 3.0], [3.0, 7.0]]
    """
    if axis is not None:
        axis_of(axis, a.ndim)
    return xp.cumsum(a, axis=axis, dtype=dtype or a.dtype)


@operator("_cumsum_grad", infer=like_shape(1), infer_dtype=follow_dtype(1),
          gradient=lambda F, u, out, dy, a, axis: [
              F._cast_like(F._np_cumsum(u, axis=axis), dy), None])
def cumsum_grad(xp: Any, dy: Array, a: Array, *, axis: int | None = None) -> Array:
    """The gradient of cumsum: sums from the other end."""
    if axis is None:
        total = xp.cumsum(dy[::-1])[::-1].reshape(a.shape)
    else:
        total = xp.flip(xp.cumsum(xp.flip(dy, axis), axis=axis), axis)
    return xp.ascontiguousarray(total.astype(a.dtype, copy=False))


# -- moments ---------------------------------------------------------------------------------------

def _moments_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data = shapes[0]
    if not attrs["axes"]:
        raise ArgumentValueError("axes: expected at least one; give all axes for moments of "
                                 "everything")
    if data is None:
        return shapes, [None, None]
    return shapes, [reduced(data, axes_of(attrs["axes"], len(data)), attrs["keepdims"])] * 2


def _moments_back(F: Any, dy: Sequence[Any], out: Any, data: Any, *, axes: Shape,
                  keepdims: bool) -> list[Any]:
    how = {"axis": axes, "keepdims": keepdims, "exclude": False}
    parts = []
    if dy[0] is not None:
        parts.append(F._unreduce(dy[0], data, mean=True, **how))
    if dy[1] is not None:
        centred = F.elemwise_sub(data, F._unreduce(out[0], data, **how))
        pull = F.elemwise_mul(F._unreduce(dy[1], data, mean=True, **how), centred)
        parts.append(F._mul_scalar(pull, scalar=2))
    return [None if not parts else parts[0] if len(parts) == 1 else F.elemwise_add(*parts)]


@operator("moments", infer=_moments_shape, num_outputs=2, gradient=_moments_back,
          infer_dtype=lambda dtypes, attrs: (dtypes, dtypes * 2))
def moments(xp: Any, data: Array, *, axes: Shape | None = None, keepdims: bool = False
            ) -> tuple[Array, Array]:
    """Mean and (biased) variance over some axes.

    Args:
        data: any array. axes: over which. keepdims: they stay, with size 1.

    Shapes: data (*S) -> S without the axes, twice.

    >>> import minigluon as mx
    >>> mean, var = mx.nd.moments(mx.nd.array([[1, 3], [2, 2]]), axes=1)
    >>> mean.asnumpy().tolist(), var.asnumpy().tolist()
    ([2.0, 2.0], [1.0, 0.0])
    """
    shape = _moments_shape([data.shape], {"axes": axes, "keepdims": keepdims})[1][0]
    over = axes_of(axes, data.ndim)
    work = data.astype(xp.float32) if data.dtype == xp.float16 else data
    mean = work.mean(axis=over, keepdims=True)
    var = xp.square(work - mean).mean(axis=over)
    return (mean.astype(data.dtype, copy=False).reshape(shape),
            var.astype(data.dtype, copy=False).reshape(shape))


# -- many arrays -----------------------------------------------------------------------------------

def _count_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    if attrs["num_arrays"] != len(shapes):
        raise ArgumentValueError(f"num_arrays: expected {len(shapes)}, the number of arrays, got "
                                 f"{attrs['num_arrays']}")
    return shapes, [(len(shapes),)]


@operator("multi_sum_sq", infer=_count_shape, infer_dtype=fixed_dtype("float32"))
def multi_sum_sq(xp: Any, *data: Array, num_arrays: int) -> Array:
    """For each array the sum of its squares: the norms of all gradients at once.

    Args:
        data: arrays of any shapes. num_arrays: how many.

    Shapes: any number of arrays -> (num_arrays,).

    >>> import minigluon as mx
    >>> mx.nd.multi_sum_sq(mx.nd.ones((3,)), mx.nd.ones((2,)), num_arrays=2).asnumpy().tolist()
    [3.0, 2.0]
    """
    _count_shape([array.shape for array in data], {"num_arrays": num_arrays})
    return xp.stack([xp.asarray(xp.square(array.astype(xp.float32, copy=False)).sum())
                     for array in data])


def _one_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    return shapes, [(1,)]


def _sound(xp: Any, arrays: Sequence[Array]) -> Array:
    return xp.stack([xp.asarray(xp.isfinite(array).all()) for array in arrays]).all().reshape(
        1).astype(xp.float32)


@operator("all_finite", infer=_one_shape, infer_dtype=fixed_dtype("float32"),
          gradient=no_gradient)
def all_finite(xp: Any, data: Array, *, init_output: bool = True) -> Array:
    """1 if no element is infinite or nan, else 0.

    Args:
        data: any array. init_output: accepted and ignored.

    Shapes: data (*S) -> (1,).

    >>> import minigluon as mx
    >>> mx.nd.all_finite(mx.nd.array([1, float("nan")])).item()
    0.0
    """
    return _sound(xp, [data])


@operator("multi_all_finite", infer=lambda shapes, attrs: (_count_shape(shapes, attrs)[0], [(1,)]),
          infer_dtype=fixed_dtype("float32"), gradient=no_gradient)
def multi_all_finite(xp: Any, *data: Array, num_arrays: int = 1, init_output: bool = True
                     ) -> Array:
    """1 if no element of any of the arrays is infinite or nan, else 0.

    Args:
        data: arrays of any shapes. num_arrays: how many. init_output: accepted and ignored.

    Shapes: any number of arrays -> (1,).

    >>> import minigluon as mx
    >>> mx.nd.multi_all_finite(mx.nd.ones((3,)), mx.nd.ones((2,)), num_arrays=2).item()
    1.0
    """
    _count_shape([array.shape for array in data], {"num_arrays": num_arrays})
    return _sound(xp, data)


@operator("_contrib_allclose", infer=_one_shape, infer_dtype=fixed_dtype("uint8"),
          gradient=no_gradient)
def allclose(xp: Any, a: Array, b: Array, *, rtol: float = 1e-5, atol: float = 1e-8,
             equal_nan: bool = True) -> Array:
    """1 if all elements of two arrays are close: |a - b| <= atol + rtol |b|.

    Args:
        a, b: arrays of one shape. rtol, atol: how close. equal_nan: nan is close to nan.

    Shapes: a (*S), b (*S) -> (1,).

    >>> import minigluon as mx
    >>> mx.nd.contrib.allclose(mx.nd.ones((2,)), mx.nd.ones((2,))).item()
    1
    """
    close = xp.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)
    return xp.asarray(close.all()).reshape(1).astype(xp.uint8)


# -- Khatri-Rao ------------------------------------------------------------------------------------

def _khatri_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    rows, columns = 1, 0
    for shape in shapes:
        if shape is None:
            return shapes, [None]
        if len(shape) != 2 or (columns and shape[1] and shape[1] != columns):
            raise ShapeError(f"expected matrices with as many columns, got {shapes}")
        rows, columns = rows * shape[0], columns or shape[1]
    return [(shape[0], columns) if shape else shape for shape in shapes], [(rows, columns)]


@operator("khatri_rao", infer=_khatri_shape)
def khatri_rao(xp: Any, *args: Array) -> Array:
    """The column-wise Kronecker product of matrices.

    Args:
        args: matrices with as many columns.

    Shapes: (N1, K), (N2, K), ... -> (N1 N2 ..., K).

    >>> import minigluon as mx
    >>> mx.nd.khatri_rao(mx.nd.array([[1], [2]]), mx.nd.array([[3], [4]])).asnumpy().ravel()
    array([3., 4., 6., 8.], dtype=float32)
    """
    _khatri_shape([array.shape for array in args], {})
    product = args[0].copy()
    for other in args[1:]:
        product = (product[:, None, :] * other[None, :, :]).reshape(-1, product.shape[1])
    return product
