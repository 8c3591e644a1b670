"""Operators of NumPy's interface that choose or combine elements, with its broadcasting."""
from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ...base import DTypeError, ShapeError
from ..operator import Attrs, operator
from ..rules import DTypes, Shapes, known, no_gradient, same_shape

__all__: list[str] = []

Array = Any


def _spread(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    if not all(known(shape) for shape in shapes):
        return shapes, [None]
    try:
        return shapes, [np.broadcast_shapes(*[tuple(shape or ()) for shape in shapes])]
    except ValueError:
        raise ShapeError("shapes cannot be broadcast together: "
                         f"{', '.join(str(shape) for shape in shapes)}") from None


def _of_branches(dtypes: DTypes, attrs: Attrs) -> tuple[DTypes, DTypes]:
    found = dtypes[1] or dtypes[2]
    return [dtypes[0], found, found], [found]


@operator("_npi_where", infer=_spread, infer_dtype=_of_branches,
          gradient=lambda F, dy, out, condition, x, y: [
              None,
              F._sum_like(F._npi_where(condition, dy, F.zeros_like(dy)), x),
              F._sum_like(F._npi_where(condition, F.zeros_like(dy), dy), y)])
def where(xp: Any, condition: Array, x: Array, y: Array) -> Array:
    """x where the condition is not 0, else y; all three are broadcast to one shape."""
    return xp.where(condition != 0, x, y)


def _arctan2_slopes(F: Any, dy: Any, out: Any, lhs: Any, rhs: Any) -> list[Any]:
    # d atan2(y, x) = (x dy - y dx) / (x^2 + y^2)
    part = F.broadcast_div(dy, F.broadcast_add(F.square(lhs), F.square(rhs)))
    return [F._sum_like(F.broadcast_mul(part, rhs), lhs),
            F._sum_like(F.negative(F.broadcast_mul(part, lhs)), rhs)]


@operator("_npi_around", infer=same_shape, gradient=no_gradient)
def around(xp: Any, data: Array, *, decimals: int = 0) -> Array:
    """Rounded to places behind the point (before it, if negative), halves to the even neighbour."""
    return xp.round(data, decimals)


@operator("_npi_arctan2", infer=_spread, gradient=_arctan2_slopes)
def arctan2(xp: Any, lhs: Array, rhs: Array) -> Array:
    """The angle of the point (rhs, lhs), in (-pi, pi]."""
    return xp.arctan2(lhs, rhs)


def _of_bits(name: str, x: Array) -> Array:
    if x.dtype.kind == "f":
        raise DTypeError(f"np.{name}: expected integers or truth values, got {x.dtype}; say "
                         ".astype('int64')")
    return x


def _together(dtypes: DTypes, attrs: Attrs) -> tuple[DTypes, DTypes]:
    data, other = dtypes
    if data is None or other is None:
        return dtypes, [None]
    return dtypes, [other if np.dtype(other).kind == "f" else np.result_type(data, other).name]


@operator("_npi_alike", infer=lambda shapes, attrs: (shapes, [shapes[0]]), infer_dtype=_together,
          gradient=no_gradient)
def alike(xp: Any, data: Array, other: Array) -> Array:
    """`data`, of integers, in the type that it has together with `other`: that of floats."""
    floats = other.dtype.kind == "f"
    return data.astype(other.dtype if floats else xp.result_type(data.dtype, other.dtype))


@operator("_npi_bits", infer=_spread, gradient=no_gradient)
def bits(xp: Any, lhs: Array, rhs: Array, *,
         kind: Literal["bitwise_and", "bitwise_or", "bitwise_xor", "lcm", "gcd"]) -> Array:
    """NumPy's function `kind` of two arrays of integers or truth values."""
    return getattr(xp, kind)(_of_bits(kind, lhs), _of_bits(kind, rhs))


@operator("_npi_bitwise_not", infer=same_shape, gradient=no_gradient)
def bitwise_not(xp: Any, data: Array) -> Array:
    """The bits that the elements do not have; of truth values the other one."""
    return xp.invert(_of_bits("bitwise_not", data))
