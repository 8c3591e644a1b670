"""Operators of one array, element by element."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from . import special
from .attrs import Scalar
from .operator import Operator, operator
from .rules import no_gradient, same_shape

__all__ = ["as_dtype_of"]

Array = Any
Gradient = Callable[..., Sequence[Any]]


def as_dtype_of(result: Array, data: Array) -> Array:
    """`result` in the element type of `data`: NumPy widens integers, MXNet does not."""
    return result if result.dtype == data.dtype else result.astype(data.dtype)


def _unary(
    name: str,
    function: Callable[[Any, Array], Array],
    gradient: Gradient | None,
    words: str,
    example: tuple[str, str],
    aliases: Sequence[str] = (),
    method: bool = True,
) -> Operator:
    """Enter one function of one array; `example` is (input list, printed result)."""

    def body(xp: Any, data: Array) -> Array:
        return as_dtype_of(function(xp, data), data)

    values, printed = example
    body.__doc__ = (
        f"{words}\n\nArgs:\n    data: any array; integers give integers.\n\n"
        f"Shapes: data (*S) -> (*S).\n\n>>> import minigluon as mx\n"
        f">>> print(mx.nd.{name}(mx.nd.array({values})).asnumpy().round(3))\n{printed}\n"
    )
    methods = (name,) if method else ()
    return operator(name, infer=same_shape, gradient=gradient, aliases=aliases,
                    methods=methods)(body)


def _times(slope: Callable[[Any, Any, Any], Any]) -> Gradient:
    """The gradient rule dy * slope(F, x, y)."""
    return lambda F, dy, out, data: [F.elemwise_mul(dy, slope(F, data, out))]


def _scaled(factor: float) -> Gradient:
    """The gradient rule of a function with one slope everywhere."""
    return lambda F, dy, out, data: [F._mul_scalar(dy, scalar=factor)]


def _one_minus_square(F: Any, value: Any) -> Any:
    return F._rminus_scalar(F.square(value), scalar=1)


def _one_plus_square(F: Any, value: Any) -> Any:
    return F._plus_scalar(F.square(value), scalar=1)


# -- signs and rounding ----------------------------------------------------------------------------

def _round(xp: Any, x: Array) -> Array:
    if x.dtype.kind != "f":
        return x.copy()
    whole = xp.trunc(x)
    return whole + xp.where(xp.abs(x - whole) >= 0.5, xp.sign(x), xp.zeros_like(x))


def _rint(xp: Any, x: Array) -> Array:
    if x.dtype.kind != "f":
        return x.copy()
    low, high = xp.floor(x), xp.ceil(x)
    return xp.where(x - low <= high - x, low, high)


def _whole(name: str) -> Callable[[Any, Array], Array]:
    return lambda xp, x: getattr(xp, name)(x) if x.dtype.kind == "f" else x.copy()


_unary("abs", lambda xp, x: xp.abs(x), _times(lambda F, x, y: F.sign(x)),
       "Absolute value.", ("[-2, 0, 3]", "[2. 0. 3.]"))
_unary("negative", lambda xp, x: xp.negative(x), _scaled(-1),
       "The number with the other sign.", ("[-2, 3]", "[ 2. -3.]"), aliases=("_np_negative",))
_unary("sign", lambda xp, x: xp.sign(x), no_gradient,
       "-1, 0 or 1.", ("[-2, 0, 3]", "[-1.  0.  1.]"))
_unary("round", _round, no_gradient, "The nearest whole number; halves away from zero.",
       ("[-0.5, 1.4, 2.5]", "[-1.  1.  3.]"))
_unary("rint", _rint, no_gradient, "The nearest whole number; halves go down.",
       ("[0.5, 1.5, 2.5]", "[0. 1. 2.]"))
_unary("ceil", _whole("ceil"), no_gradient, "The next whole number up.",
       ("[1.1, 1.9, 2]", "[2. 2. 2.]"))
_unary("floor", _whole("floor"), no_gradient, "The next whole number down.",
       ("[1.1, 1.9, 2]", "[1. 1. 2.]"))
_unary("trunc", _whole("trunc"), no_gradient, "The whole part, toward zero.",
       ("[-2.5, 1.9]", "[-2.  1.]"))
_unary("fix", _whole("trunc"), no_gradient, "The whole part, toward zero.",
       ("[-2.5, 1.9]", "[-2.  1.]"))


# -- exponentials, logarithms, roots ---------------------------------------------------------------

_unary("exp", lambda xp, x: xp.exp(x), _times(lambda F, x, y: y),
       "e to the power of x.", ("[0, 1]", "[1.    2.718]"))
_unary("expm1", lambda xp, x: xp.expm1(x),
       _times(lambda F, x, y: F._plus_scalar(y, scalar=1)),
       "exp(x) - 1, exact near zero.", ("[0, 1]", "[0.    1.718]"))
_unary("log", lambda xp, x: xp.log(x), _times(lambda F, x, y: F.reciprocal(x)),
       "Natural logarithm.", ("[1, 4]", "[0.    1.386]"))
_unary("log2", lambda xp, x: xp.log2(x),
       _times(lambda F, x, y: F._rdiv_scalar(x, scalar=1 / math.log(2))),
       "Logarithm to base 2.", ("[1, 8]", "[0. 3.]"))
_unary("log10", lambda xp, x: xp.log10(x),
       _times(lambda F, x, y: F._rdiv_scalar(x, scalar=1 / math.log(10))),
       "Logarithm to base 10.", ("[1, 100]", "[0. 2.]"))
_unary("log1p", lambda xp, x: xp.log1p(x),
       _times(lambda F, x, y: F.reciprocal(F._plus_scalar(x, scalar=1))),
       "log(1 + x), exact near zero.", ("[0, 3]", "[0.    1.386]"))
_unary("sqrt", lambda xp, x: xp.sqrt(x),
       _times(lambda F, x, y: F._rdiv_scalar(y, scalar=0.5)),
       "Square root.", ("[4, 9]", "[2. 3.]"))
_unary("rsqrt", lambda xp, x: 1 / xp.sqrt(x),
       _times(lambda F, x, y: F._mul_scalar(F._power_scalar(y, scalar=3), scalar=-0.5)),
       "One over the square root.", ("[4, 16]", "[0.5  0.25]"))
_unary("cbrt", lambda xp, x: xp.cbrt(x),
       _times(lambda F, x, y: F._rdiv_scalar(F.square(y), scalar=1 / 3)),
       "Cube root.", ("[1, 8]", "[1. 2.]"))
_unary("rcbrt", lambda xp, x: 1 / xp.cbrt(x),
       _times(lambda F, x, y: F._mul_scalar(F._power_scalar(y, scalar=4), scalar=-1 / 3)),
       "One over the cube root.", ("[1, 8]", "[1.  0.5]"))
_unary("square", lambda xp, x: xp.square(x),
       _times(lambda F, x, y: F._mul_scalar(x, scalar=2)),
       "x times x.", ("[2, -3]", "[4. 9.]"))
_unary("reciprocal", lambda xp, x: 1 / x,
       _times(lambda F, x, y: F.negative(F.square(y))),
       "One over x.", ("[2, -4]", "[ 0.5  -0.25]"))


# -- trigonometry ----------------------------------------------------------------------------------

_unary("sin", lambda xp, x: xp.sin(x), _times(lambda F, x, y: F.cos(x)),
       "Sine of an angle in radians.", ("[0, 1]", "[0.    0.841]"))
_unary("cos", lambda xp, x: xp.cos(x), _times(lambda F, x, y: F.negative(F.sin(x))),
       "Cosine of an angle in radians.", ("[0, 1]", "[1.   0.54]"))
_unary("tan", lambda xp, x: xp.tan(x), _times(lambda F, x, y: _one_plus_square(F, y)),
       "Tangent of an angle in radians.", ("[0, 1]", "[0.    1.557]"))
_unary("arcsin", lambda xp, x: xp.arcsin(x),
       _times(lambda F, x, y: F.rsqrt(_one_minus_square(F, x))),
       "The angle whose sine is x.", ("[0, 1]", "[0.    1.571]"))
_unary("arccos", lambda xp, x: xp.arccos(x),
       _times(lambda F, x, y: F.negative(F.rsqrt(_one_minus_square(F, x)))),
       "The angle whose cosine is x.", ("[1, 0]", "[0.    1.571]"))
_unary("arctan", lambda xp, x: xp.arctan(x),
       _times(lambda F, x, y: F.reciprocal(_one_plus_square(F, x))),
       "The angle whose tangent is x.", ("[0, 1]", "[0.    0.785]"))
_unary("sinh", lambda xp, x: xp.sinh(x), _times(lambda F, x, y: F.cosh(x)),
       "Hyperbolic sine.", ("[0, 1]", "[0.    1.175]"))
_unary("cosh", lambda xp, x: xp.cosh(x), _times(lambda F, x, y: F.sinh(x)),
       "Hyperbolic cosine.", ("[0, 1]", "[1.    1.543]"))
_unary("tanh", lambda xp, x: xp.tanh(x), _times(lambda F, x, y: _one_minus_square(F, y)),
       "Hyperbolic tangent.", ("[0, 1]", "[0.    0.762]"))
_unary("arcsinh", lambda xp, x: xp.arcsinh(x),
       _times(lambda F, x, y: F.rsqrt(_one_plus_square(F, x))),
       "Inverse hyperbolic sine.", ("[0, 1]", "[0.    0.881]"))
_unary("arccosh", lambda xp, x: xp.arccosh(x),
       _times(lambda F, x, y: F.rsqrt(F._minus_scalar(F.square(x), scalar=1))),
       "Inverse hyperbolic cosine.", ("[1, 2]", "[0.    1.317]"))
_unary("arctanh", lambda xp, x: xp.arctanh(x),
       _times(lambda F, x, y: F.reciprocal(_one_minus_square(F, x))),
       "Inverse hyperbolic tangent.", ("[0, 0.5]", "[0.    0.549]"))
_unary("degrees", lambda xp, x: xp.degrees(x), _scaled(180 / math.pi),
       "Radians to degrees.", ("[0, 1]", "[ 0.    57.296]"))
_unary("radians", lambda xp, x: xp.radians(x), _scaled(math.pi / 180),
       "Degrees to radians.", ("[0, 180]", "[0.    3.142]"))


# -- special functions -----------------------------------------------------------------------------

_unary("erf", special.erf,
       _times(lambda F, x, y: F._mul_scalar(F.exp(F.negative(F.square(x))),
                                            scalar=2 / math.sqrt(math.pi))),
       "The Gauss error function.", ("[0, 1]", "[0.    0.843]"))
_unary("erfinv", special.erfinv,
       _times(lambda F, x, y: F._mul_scalar(F.exp(F.square(y)), scalar=math.sqrt(math.pi) / 2)),
       "The inverse of the Gauss error function.", ("[0, 0.5]", "[0.    0.477]"))
_unary("gamma", special.gamma, _times(lambda F, x, y: F.elemwise_mul(y, F._digamma(x))),
       "The gamma function, (x - 1)! at whole numbers.", ("[1, 5]", "[ 1. 24.]"))
_unary("gammaln", special.lgamma, _times(lambda F, x, y: F._digamma(x)),
       "The logarithm of |gamma(x)|.", ("[3, 4]", "[0.693 1.792]"))
_unary("_digamma", special.digamma, _times(lambda F, x, y: F._trigamma(x)),
       "The slope of gammaln.", ("[1, 2]", "[-0.577  0.423]"), method=False)
_unary("_trigamma", special.trigamma, None,
       "The slope of digamma.", ("[1]", "[1.645]"), method=False)


# -- activations -----------------------------------------------------------------------------------

def _sigmoid(xp: Any, x: Array) -> Array:
    # in place, as new arrays cost more than the arithmetic; where exp overflows 1 / inf is the 0
    # that is due, except in float16, whose range ends too early
    wide = xp.negative(x, dtype="float32" if x.dtype == "float16" else None)
    result = xp.asarray(xp.exp(wide))
    result += 1
    return xp.reciprocal(result, out=result)


def _relu(xp: Any, x: Array) -> Array:
    return xp.maximum(x, x.dtype.type(0))


_unary("sigmoid", _sigmoid,
       _times(lambda F, x, y: F.elemwise_mul(y, F._rminus_scalar(y, scalar=1))),
       "1 / (1 + exp(-x)).", ("[0, 2]", "[0.5   0.881]"))
_unary("relu", _relu, lambda F, dy, out, data: [F._relu_grad(dy, out)],
       "max(x, 0); the slope at 0 is 0.", ("[-1, 2]", "[0. 2.]"))
_unary("softsign", lambda xp, x: x / (1 + xp.abs(x)),
       _times(lambda F, x, y: F.reciprocal(F.square(F._plus_scalar(F.abs(x), scalar=1)))),
       "x / (1 + |x|).", ("[-1, 3]", "[-0.5   0.75]"))


@operator("_relu_grad", infer=same_shape,
          gradient=lambda F, dy, out, grad, y: [F._relu_grad(dy, y), None])
def _relu_grad(xp: Any, grad: Array, y: Array) -> Array:
    """`grad` where the output y of relu is positive, nan where it is nan, else 0."""
    result = xp.sign(y)  # y is never negative; a choice by `where` is slower
    result *= grad
    return result


@operator("hard_sigmoid", infer=same_shape, methods=("hard_sigmoid",),
          gradient=lambda F, dy, out, data, *, alpha, beta: [
              F.elemwise_mul(dy, F._mul_scalar(_inside(F, out), scalar=alpha))])
def hard_sigmoid(xp: Any, data: Array, *, alpha: float = 0.2, beta: float = 0.5) -> Array:
    """max(0, min(1, alpha * x + beta)).

    Args:
        data: any array. alpha: slope. beta: value at 0.

    Shapes: data (*S) -> (*S).

    >>> import minigluon as mx
    >>> print(mx.nd.hard_sigmoid(mx.nd.array([-5, 0, 1])).asnumpy())
    [0.  0.5 0.7]
    """
    kind = data.dtype.type
    return as_dtype_of(xp.clip(data * kind(alpha) + kind(beta), kind(0), kind(1)), data)


def _inside(F: Any, out: Any) -> Any:
    return F.elemwise_mul(F._greater_scalar(out, scalar=0), F._lesser_scalar(out, scalar=1))


@operator("smooth_l1", infer=same_shape, methods=("smooth_l1",),
          gradient=lambda F, dy, out, data, *, scalar: [F.elemwise_mul(dy, F.clip(
              F._mul_scalar(data, scalar=scalar * scalar), a_min=-1.0, a_max=1.0))])
def smooth_l1(xp: Any, data: Array, *, scalar: float = 1.0) -> Array:
    """(scalar x)^2 / 2 where |x| < 1 / scalar^2, else |x| - 1 / (2 scalar^2).

    Args:
        data: any array. scalar: where the square ends.

    Shapes: data (*S) -> (*S).

    >>> import minigluon as mx
    >>> print(mx.nd.smooth_l1(mx.nd.array([0.5, -3])).asnumpy())
    [0.125 2.5  ]
    """
    size = xp.abs(data)
    square = scalar * scalar
    return as_dtype_of(xp.where(size < 1 / square, (0.5 * square) * data * data,
                                size - 0.5 / square), data)


# -- questions, bounds -----------------------------------------------------------------------------

_unary("logical_not", lambda xp, x: xp.logical_not(x), no_gradient,
       "1 where x is 0, else 0.", ("[0, 2]", "[1. 0.]"), method=False)
_unary("_contrib_isnan", lambda xp, x: xp.isnan(x), no_gradient,
       "1 where x is not a number, else 0.", ("[0, float('nan')]", "[0. 1.]"), method=False)
_unary("_contrib_isinf", lambda xp, x: xp.isinf(x), no_gradient,
       "1 where x is infinite, else 0.", ("[0, float('inf')]", "[0. 1.]"), method=False)
_unary("_contrib_isfinite", lambda xp, x: xp.isfinite(x), no_gradient,
       "1 where x is finite, else 0.", ("[0, float('inf')]", "[1. 0.]"), method=False)


def _bound(data: Array, value: float) -> Any:
    """`value` as a scalar of the array's type; beyond the range of an integer type its end."""
    if data.dtype.kind == "f":
        return data.dtype.type(value)
    bits = 8 * data.dtype.itemsize
    low, high = (0, 2 ** bits - 1) if data.dtype.kind == "u" else (-(2 ** (bits - 1)),
                                                                   2 ** (bits - 1) - 1)
    return data.dtype.type(low if value <= low else high if value >= high else int(value))


@operator("clip", infer=same_shape, methods=("clip",),
          gradient=lambda F, dy, out, data, **bounds: [F._clip_grad(dy, data, **bounds)])
def clip(xp: Any, data: Array, *, a_min: Scalar, a_max: Scalar) -> Array:
    """Values below a_min become a_min, above a_max become a_max; the slope is 1 on both ends.

    Args:
        data: any array. a_min, a_max: the bounds.

    Shapes: data (*S) -> (*S).

    >>> import minigluon as mx
    >>> print(mx.nd.clip(mx.nd.array([-1, 2, 9]), 0, 5).asnumpy())
    [0. 2. 5.]
    """
    return xp.clip(data, _bound(data, a_min), _bound(data, a_max))


@operator("_clip_grad", infer=same_shape,
          gradient=lambda F, dy, out, grad, data, **bounds: [
              F._clip_grad(dy, data, **bounds), None])
def _clip_grad(xp: Any, grad: Array, data: Array, *, a_min: Scalar, a_max: Scalar) -> Array:
    """`grad` where a_min <= data <= a_max, else 0."""
    inside = data >= _bound(data, a_min)
    inside &= data <= _bound(data, a_max)
    return grad * inside
