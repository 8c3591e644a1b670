"""Operators of an array and a number: what ``x + 2`` and ``2 - x`` mean.

The number takes the array's element type: int32 + 1.5 is int32 + 1.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .arithmetic import divide, modulo, power
from .attrs import Scalar
from .operator import Operator, operator
from .rules import no_gradient, same_shape

__all__: list[str] = []

Array = Any


def _typed(data: Array, scalar: float) -> Any:
    dtype = data.dtype
    if dtype.kind == "f":
        return dtype.type(scalar)
    if dtype.kind == "b":
        return dtype.type(int(scalar))
    span = 2 ** (8 * dtype.itemsize)  # too big a number wraps around, as in MXNet
    number = int(scalar) % span
    return dtype.type(number - span if dtype.kind == "i" and 2 * number >= span else number)


def _with_scalar(
    name: str,
    function: Callable[[Any, Array, Any], Array],
    gradient: Callable[..., Sequence[Any]],
    words: str,
    printed: str,
    aliases: Sequence[str] = (),
) -> Operator:
    """Enter one function of an array and a number; `printed` is its value at [1, 2, 3] and 2."""

    def body(xp: Any, data: Array, *, scalar: Scalar) -> Array:
        result = function(xp, data, _typed(data, scalar))
        return result if result.dtype == data.dtype else result.astype(data.dtype)

    body.__doc__ = (
        f"{words}, element by element.\n\n"
        f"Args:\n    data: any array.\n    scalar: a number, taken in the array's type.\n\n"
        f"Shapes: data (*S) -> (*S).\n\n>>> import minigluon as mx\n"
        f">>> print(mx.nd.{name}(mx.nd.array([1, 2, 3]), scalar=2).asnumpy().round(3))\n{printed}\n"
    )
    return operator(name, infer=same_shape, gradient=gradient, aliases=aliases)(body)


def _scaled(factor: Callable[[float], float]) -> Callable[..., Sequence[Any]]:
    def rule(F: Any, dy: Any, out: Any, data: Any, *, scalar: float) -> list[Any]:
        by = factor(scalar)
        return [dy if by == 1 else F._mul_scalar(dy, scalar=by)]

    return rule


def _times(slope: Callable[[Any, Any, Any, float], Any]) -> Callable[..., Sequence[Any]]:
    return lambda F, dy, out, data, *, scalar: [
        F.elemwise_mul(dy, slope(F, data, out, scalar))]


def _log(scalar: float) -> float:
    return math.log(scalar) if scalar > 0 else -math.inf if scalar == 0 else math.nan


def _raise(xp: Any, data: Array, scalar: Any) -> Array:
    return data * data if scalar == 2 else power(xp, data, scalar)  # xp.power is far slower


def _power_gradient(F: Any, dy: Any, out: Any, data: Any, *, scalar: float) -> list[Any]:
    if scalar in (0, 1):
        return [None if scalar == 0 else dy]
    if scalar == 2:
        return [F.elemwise_mul(dy, F._mul_scalar(data, scalar=2))]
    slope = F._mul_scalar(F._power_scalar(data, scalar=scalar - 1), scalar=scalar)
    return [F.elemwise_mul(dy, slope)]


def _division_factor(scalar: float) -> float:
    return 1 / scalar if scalar else math.inf


_with_scalar("_plus_scalar", lambda xp, x, s: x + s, _scaled(lambda s: 1),
             "x + scalar", "[3. 4. 5.]", aliases=("_PlusScalar",))
_with_scalar("_minus_scalar", lambda xp, x, s: x - s, _scaled(lambda s: 1),
             "x - scalar", "[-1.  0.  1.]", aliases=("_MinusScalar",))
_with_scalar("_rminus_scalar", lambda xp, x, s: s - x, _scaled(lambda s: -1),
             "scalar - x", "[ 1.  0. -1.]", aliases=("_RMinusScalar",))
_with_scalar("_mul_scalar", lambda xp, x, s: x * s, _scaled(lambda s: s),
             "x * scalar", "[2. 4. 6.]", aliases=("_MulScalar",))
_with_scalar("_div_scalar", divide, _scaled(_division_factor),
             "x / scalar", "[0.5 1.  1.5]", aliases=("_DivScalar",))
_with_scalar("_rdiv_scalar", lambda xp, x, s: divide(xp, s, x),
             _times(lambda F, x, y, s: F._rdiv_scalar(F.square(x), scalar=-s)),
             "scalar / x", "[2.    1.    0.667]", aliases=("_RDivScalar",))
_with_scalar("_mod_scalar", modulo, _scaled(lambda s: 1),
             "The rest of x / scalar, with the sign of scalar", "[1. 0. 1.]",
             aliases=("_ModScalar",))
_with_scalar("_rmod_scalar", lambda xp, x, s: modulo(xp, s, x),
             _times(lambda F, x, y, s: F.negative(F.floor(F._rdiv_scalar(x, scalar=s)))),
             "The rest of scalar / x, with the sign of x", "[0. 0. 2.]",
             aliases=("_RModScalar",))
_with_scalar("_power_scalar", _raise, _power_gradient,
             "x to the power of scalar", "[1. 4. 9.]", aliases=("_PowerScalar",))
_with_scalar("_rpower_scalar", lambda xp, x, s: power(xp, s, x),
             _times(lambda F, x, y, s: F._mul_scalar(y, scalar=_log(s))),
             "scalar to the power of x", "[2. 4. 8.]", aliases=("_RPowerScalar",))
_with_scalar("_maximum_scalar", lambda xp, x, s: xp.maximum(x, s),
             _times(lambda F, x, y, s: F._greater_equal_scalar(x, scalar=s)),
             "The larger of x and scalar", "[2. 2. 3.]", aliases=("_MaximumScalar",))
_with_scalar("_minimum_scalar", lambda xp, x, s: xp.minimum(x, s),
             _times(lambda F, x, y, s: F._lesser_equal_scalar(x, scalar=s)),
             "The smaller of x and scalar", "[1. 2. 2.]", aliases=("_MinimumScalar",))
_with_scalar("_hypot_scalar", lambda xp, x, s: xp.hypot(x, s),
             _times(lambda F, x, y, s: F.elemwise_div(x, y)),
             "sqrt(x^2 + scalar^2)", "[2.236 2.828 3.606]", aliases=("_HypotScalar",))
_with_scalar("_equal_scalar", lambda xp, x, s: x == s, no_gradient,
             "1 where x equals scalar, else 0", "[0. 1. 0.]", aliases=("_EqualScalar",))
_with_scalar("_not_equal_scalar", lambda xp, x, s: x != s, no_gradient,
             "1 where x differs from scalar, else 0", "[1. 0. 1.]", aliases=("_NotEqualScalar",))
_with_scalar("_greater_scalar", lambda xp, x, s: x > s, no_gradient,
             "1 where x > scalar, else 0", "[0. 0. 1.]", aliases=("_GreaterScalar",))
_with_scalar("_greater_equal_scalar", lambda xp, x, s: x >= s, no_gradient,
             "1 where x >= scalar, else 0", "[0. 1. 1.]", aliases=("_GreaterEqualScalar",))
_with_scalar("_lesser_scalar", lambda xp, x, s: x < s, no_gradient,
             "1 where x < scalar, else 0", "[1. 0. 0.]", aliases=("_LesserScalar",))
_with_scalar("_lesser_equal_scalar", lambda xp, x, s: x <= s, no_gradient,
             "1 where x <= scalar, else 0", "[1. 1. 0.]", aliases=("_LesserEqualScalar",))
_with_scalar("_logical_and_scalar", lambda xp, x, s: xp.logical_and(x, s), no_gradient,
             "1 where x and scalar are not 0, else 0", "[1. 1. 1.]",
             aliases=("_LogicalAndScalar",))
_with_scalar("_logical_or_scalar", lambda xp, x, s: xp.logical_or(x, s), no_gradient,
             "1 where x or scalar is not 0, else 0", "[1. 1. 1.]", aliases=("_LogicalOrScalar",))
_with_scalar("_logical_xor_scalar", lambda xp, x, s: xp.logical_xor(x, s), no_gradient,
             "1 where one of x and scalar is not 0, else 0", "[0. 0. 0.]",
             aliases=("_LogicalXorScalar",))
