"""Arrays with a part replaced, and what only MXNet's own files and inner calls ask for."""
from __future__ import annotations

from typing import Any

from ..base import ArgumentValueError, ShapeError
from .attrs import Scalar, Shape
from .operator import Attrs, operator
from .rules import (
    Shapes,
    fixed_dtype,
    follow_dtype,
    known,
    merge_shapes,
    no_gradient,
    no_inputs_shape,
    same_shape,
)
from .slicing import slice_key, sliced

__all__: list[str] = []

Array = Any


# -- boxes -----------------------------------------------------------------------------------------

def _box_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    lhs, rhs = shapes
    if lhs is None:
        return shapes, [None]
    box = sliced(lhs, slice_key(len(lhs), attrs["begin"], attrs["end"], attrs["step"]))
    if known(lhs) and rhs is not None:
        rhs = merge_shapes(rhs, box, f"shapes of rhs and of the box {box} of lhs {lhs}")
    return [lhs, rhs or box], [lhs]


def _box_back(F: Any, dy: Any, out: Any, lhs: Any, rhs: Any, **attrs: Any) -> list[Any]:
    return [F._slice_assign_scalar(dy, scalar=0.0, **attrs), F.slice(dy, **attrs)]


@operator("_slice_assign", infer=_box_shape, infer_dtype=follow_dtype(0, fill=True),
          gradient=_box_back, aliases=("_crop_assign",))
def slice_assign(xp: Any, lhs: Array, rhs: Array, *, begin: tuple, end: tuple,  # type: ignore[type-arg]
                 step: tuple = ()) -> Array:  # type: ignore[type-arg]
    """`lhs` with a box replaced by `rhs`.

    Args:
        lhs: any array. rhs: an array of the shape of the box. begin, end, step: the box, as for
            `slice`.

    Shapes: lhs (*S), rhs (*T) -> (*S).

    >>> import minigluon as mx
    >>> lhs, rhs = mx.nd.zeros((4,)), mx.nd.ones((2,))
    >>> mx.nd._internal._slice_assign(lhs, rhs, begin=(1,), end=(3,)).asnumpy().tolist()
    [0.0, 1.0, 1.0, 0.0]
    """
    result = lhs.copy()
    result[slice_key(lhs.ndim, begin, end, step)] = rhs
    return result


def _fill_back(F: Any, dy: Any, out: Any, data: Any, *, scalar: float, **attrs: Any) -> list[Any]:
    return [F._slice_assign_scalar(dy, scalar=0.0, **attrs)]


@operator("_slice_assign_scalar", infer=same_shape, gradient=_fill_back,
          aliases=("_crop_assign_scalar",))
def slice_assign_scalar(xp: Any, data: Array, *, scalar: Scalar = 0.0,  # type: ignore[assignment]
                        begin: tuple, end: tuple, step: tuple = ()) -> Array:  # type: ignore[type-arg]
    """`data` with a box filled with one number.

    Args:
        data: any array. scalar: the number. begin, end, step: the box, as for `slice`.

    Shapes: data (*S) -> (*S).

    >>> import minigluon as mx
    >>> x = mx.nd.zeros((4,))
    >>> y = mx.nd._internal._slice_assign_scalar(x, scalar=5, begin=(3,), end=(None,))
    >>> y.asnumpy().tolist()
    [0.0, 0.0, 0.0, 5.0]
    """
    result = data.copy()
    result[slice_key(data.ndim, begin, end, step)] = scalar
    return result


def _points_back(F: Any, dy: Any, out: Any, lhs: Any, rhs: Any, indices: Any, *, shape: Any
                 ) -> list[Any]:
    return [F._scatter_set_nd(dy, F.zeros_like(rhs), indices, shape=shape),
            F.gather_nd(dy, indices), None]


@operator("_scatter_set_nd", infer=lambda shapes, attrs: (
              [merge_shapes(shapes[0], attrs["shape"], "shapes of lhs"), *shapes[1:]],
              [attrs["shape"]]),
          infer_dtype=follow_dtype(0), gradient=_points_back)
def scatter_set_nd(xp: Any, lhs: Array, rhs: Array, indices: Array, *, shape: Shape) -> Array:
    """`lhs` with `rhs` written at points; of equal points the last one stays.

    Args:
        lhs: any array. rhs: the values. indices: column i holds the coordinates of point i.
        shape: the shape of lhs.

    Shapes: lhs (*shape), rhs (*I, *shape[M:]), indices (M, *I) -> shape.

    >>> import minigluon as mx
    >>> lhs, rhs, points = mx.nd.zeros((3,)), mx.nd.array([5]), mx.nd.array([[2]])
    >>> mx.nd._internal._scatter_set_nd(lhs, rhs, points, shape=(3,)).asnumpy().tolist()
    [0.0, 0.0, 5.0]
    """
    if tuple(lhs.shape) != tuple(shape):
        raise ShapeError(f"expected shape to be that of lhs, {tuple(lhs.shape)}, got {shape}")
    result = lhs.copy()
    result[tuple(indices.astype("int64"))] = rhs
    return result


# -- counts ----------------------------------------------------------------------------------------

def _histogram_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data, bins = shapes[0], shapes[1] if len(shapes) > 1 else None
    count = attrs["bin_cnt"]
    if count is not None:
        return shapes, [(count,), (count + 1,)]
    return [data, bins], [None, None] if bins is None else [(max(bins[0] - 1, 0),), bins]


@operator("_histogram", infer=_histogram_shape, gradient=no_gradient, num_outputs=2,
          infer_dtype=lambda dtypes, attrs: (dtypes, ["int64", dtypes[0] if attrs["bin_cnt"]
                                                      else dtypes[1]]),
          inputs=lambda attrs: ("data",) if attrs["bin_cnt"] else ("data", "bins"))
def histogram(xp: Any, data: Array, bins: Array = None, *, bin_cnt: int | None = None,
              range: tuple | None = None) -> tuple[Array, Array]:  # type: ignore[type-arg]
    """How many elements fall into each bin, and the bins' edges.

    Args:
        data: any array. bins: the edges, ascending. bin_cnt: so many equal bins instead.
        range: the outermost edges of these.

    Shapes: data (*S), bins (B,) -> counts (B - 1,), edges (B,).

    >>> import minigluon as mx
    >>> counts, edges = mx.nd.histogram(mx.nd.array([1, 2, 2, 4]), bins=3, range=(1, 4))
    >>> counts.asnumpy().tolist(), edges.asnumpy().tolist()
    ([1, 2, 1], [1.0, 2.0, 3.0, 4.0])
    """
    if bin_cnt is not None:
        if bin_cnt < 1 or range is None or len(range) != 2 or not range[0] < range[1]:
            raise ArgumentValueError("histogram: expected a bin_cnt of 1 or more and a range "
                                     f"(low, high), got {bin_cnt} and {range}")
        counts, edges = xp.histogram(data, bin_cnt, tuple(map(float, range)))
        return counts.astype("int64"), edges.astype(data.dtype)
    counts, edges = xp.histogram(data, bins)
    return counts.astype("int64"), bins.copy()


# -- what inner calls ask for ----------------------------------------------------------------------

@operator("_identity_with_attr_like_rhs", infer=same_shape,
          infer_dtype=follow_dtype(0, fill=True),
          gradient=lambda F, dy, out, lhs, rhs: [dy, F.zeros_like(rhs)])
def identity_with_attr_like_rhs(xp: Any, lhs: Array, rhs: Array) -> Array:
    """`lhs`, which has the shape of `rhs`.

    Shapes: lhs (*S), rhs (*S) -> (*S).
    """
    return lhs.copy()


@operator("_zeros_without_dtype", infer=no_inputs_shape, infer_dtype=fixed_dtype("float32"),
          gradient=no_gradient)
def zeros_without_dtype(xp: Any, *, shape: Shape = (), dtype: int = -1) -> Array:
    """Zeros whose type nobody named: float32.

    Shapes: -> shape.
    """
    return xp.zeros(shape, "float32")
