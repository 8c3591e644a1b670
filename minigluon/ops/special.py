"""Error and gamma functions for arrays: plain mathematics, no operators.

erf: Chebyshev interpolants taken once through ``math.erf``: of erf(x)/x in x*x near zero, and of
exp(x*x) erfc(x) in t = (x - 3.75)/(x + 3.75) further out (the mapping of M. M. Shepherd and
J. G. Laframboise, Math. Comp. 36, 1981). Gamma family: Stirling's series after shifting the
argument up, and the reflection formulas (Abramowitz and Stegun 6.1.17, 6.1.40, 6.3.7, 6.3.18,
6.4.7, 6.4.12).
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

__all__ = ["digamma", "erf", "gamma", "lgamma", "trigamma"]

_NEAR, _FAR = 1.0, 6.0  # between: exp(x*x) erfc(x); beyond _FAR erf is 1 in float64
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_SHIFT = 10  # where Stirling's series with these terms is exact to float64


def _working(xp: Any, x: Any) -> Any:
    """float64 stays, everything else is computed in float64 where cheap accuracy matters."""
    return x.astype(xp.float64, copy=False)


# -- erf -------------------------------------------------------------------------------------------

def _interpolant(f: Callable[[float], float], count: int) -> tuple[float, ...]:
    """Chebyshev coefficients of the polynomial that equals f(s), -1 <= s <= 1, at `count` nodes."""
    # cos(term * angle) at whole multiples of pi / (2 count), brought into one turn as integers:
    # rounding the product of term and angle would cost a digit
    cosines = [math.cos(math.pi * turn / (2 * count)) for turn in range(4 * count)]
    values = [f(cosines[2 * node + 1]) for node in range(count)]
    return tuple(
        (2.0 if term else 1.0) / count
        * math.fsum(value * cosines[term * (2 * node + 1) % (4 * count)]
                    for node, value in enumerate(values))
        for term in range(count)
    )


def _mapped(x: float) -> float:
    return (x - 3.75) / (x + 3.75)


@cache
def _erf_tables(double: bool) -> tuple[tuple[float, ...], tuple[float, ...]]:
    low, high = _mapped(_NEAR), _mapped(_FAR)

    def near(s: float) -> float:
        x = math.sqrt(max((s + 1) / 2, 1e-30)) * _NEAR
        return math.erf(x) / x

    def far(s: float) -> float:
        t = low + (s + 1) / 2 * (high - low)
        x = 3.75 * (1 + t) / (1 - t)
        return math.erfc(x) * math.exp(x * x)

    return _interpolant(near, 14 if double else 8), _interpolant(far, 20 if double else 10)


def _clenshaw(xp: Any, coefficients: Sequence[float], s: Any) -> Any:
    """The Chebyshev sum at s; in place, as new arrays cost more than the arithmetic."""
    twice, product = s + s, xp.empty_like(s)
    later, last = xp.zeros_like(s), xp.full_like(s, coefficients[-1])
    for coefficient in coefficients[-2:0:-1]:
        xp.multiply(twice, last, out=product)
        xp.subtract(product, later, out=later)
        later += coefficient
        later, last = last, later
    xp.multiply(s, last, out=product)
    product -= later
    product += coefficients[0]
    return product


def erf(xp: Any, x: Any) -> Any:
    """The error function, element by element, in x's float type (accurate to its last digits)."""
    double = x.dtype == xp.float64
    near_table, far_table = _erf_tables(double)
    real = x if x.dtype in (xp.float32, xp.float64) else x.astype(xp.float32)
    size = xp.abs(real)
    small = xp.minimum(size, _NEAR)
    near = _clenshaw(xp, near_table, 2 * small * small - 1) * small
    large = xp.clip(size, _NEAR, _FAR)
    low, high = _mapped(_NEAR), _mapped(_FAR)
    place = ((large - 3.75) / (large + 3.75) - low) * (2 / (high - low)) - 1
    far = 1 - xp.exp(-large * large) * _clenshaw(xp, far_table, place)
    return xp.copysign(xp.where(size > _NEAR, far, near), real).astype(x.dtype, copy=False)


# -- gamma and its relatives -----------------------------------------------------------------------

def _stirling(xp: Any, x: Any) -> Any:
    """log gamma(x) for x >= _SHIFT."""
    inverse = 1 / x
    square = inverse * inverse
    series = xp.zeros_like(x)
    for term in range(len(_BERNOULLI), 0, -1):
        series = series * square + _BERNOULLI[term - 1] / (2 * term * (2 * term - 1))
    return (x - 0.5) * xp.log(x) - x + 0.5 * math.log(2 * math.pi) + series * inverse


def _lgamma_right(xp: Any, x: Any) -> Any:
    """log gamma(x) for x >= 0.5, shifting small x up by the recurrence."""
    product = xp.ones_like(x)
    shifted = x
    for _ in range(_SHIFT):
        low = shifted < _SHIFT
        product = xp.where(low, product * shifted, product)
        shifted = xp.where(low, shifted + 1, shifted)
    return _stirling(xp, shifted) - xp.log(product)


def lgamma(xp: Any, x: Any) -> Any:
    """log |gamma(x)|, element by element; inf at 0, -1, -2, ..."""
    real = _working(xp, x)
    left = real < 0.5
    right = _lgamma_right(xp, xp.where(left, 1 - real, real))
    sine = xp.abs(xp.sin(math.pi * (real - xp.floor(real))))
    mirrored = math.log(math.pi) - xp.log(xp.where(left, sine, 1)) - right
    result = xp.where(left, mirrored, right)
    return xp.where(xp.isinf(real), xp.inf, result).astype(x.dtype, copy=False)


def gamma(xp: Any, x: Any) -> Any:
    """gamma(x), element by element; nan at the negative integers."""
    real = _working(xp, x)
    left = real < 0.5
    flipped = xp.where(left, 1 - real, real)
    shifted, product = flipped, xp.ones_like(real)
    for _ in range(_SHIFT):
        low = shifted < _SHIFT
        product = xp.where(low, product * shifted, product)
        shifted = xp.where(low, shifted + 1, shifted)
    right = xp.exp(_stirling(xp, shifted)) / product
    floor = xp.floor(real)
    sine = xp.sin(math.pi * (real - floor)) * xp.where(floor % 2 == 0, 1, -1)
    mirrored = math.pi / (sine * right)
    result = xp.where(left, mirrored, right)
    pole = (real < 0) & (real == floor)
    return xp.where(pole, xp.nan, result).astype(x.dtype, copy=False)


def digamma(xp: Any, x: Any) -> Any:
    """The derivative of log gamma(x)."""
    real = _working(xp, x)
    left = real < 0.5
    shifted = xp.where(left, 1 - real, real)
    total = xp.zeros_like(real)
    for _ in range(_SHIFT):
        low = shifted < _SHIFT
        total = xp.where(low, total - 1 / shifted, total)
        shifted = xp.where(low, shifted + 1, shifted)
    square = 1 / (shifted * shifted)
    series = xp.zeros_like(real)
    for term in range(len(_BERNOULLI), 0, -1):
        series = (series + _BERNOULLI[term - 1] / (2 * term)) * square
    right = total + xp.log(shifted) - 0.5 / shifted - series
    angle = xp.where(left, math.pi * (real - xp.floor(real)), 1)
    return xp.where(left, right - math.pi / xp.tan(angle), right).astype(x.dtype, copy=False)


def trigamma(xp: Any, x: Any) -> Any:
    """The second derivative of log gamma(x)."""
    real = _working(xp, x)
    left = real < 0.5
    shifted = xp.where(left, 1 - real, real)
    total = xp.zeros_like(real)
    for _ in range(_SHIFT):
        low = shifted < _SHIFT
        total = xp.where(low, total + 1 / (shifted * shifted), total)
        shifted = xp.where(low, shifted + 1, shifted)
    inverse = 1 / shifted
    square = inverse * inverse
    series = xp.zeros_like(real)
    for term in range(len(_BERNOULLI), 0, -1):
        series = (series + _BERNOULLI[term - 1]) * square
    right = total + inverse * (1 + 0.5 * inverse + series)
    sine = xp.sin(xp.where(left, math.pi * (real - xp.floor(real)), 1))
    mirrored = (math.pi / sine) ** 2 - right
    return xp.where(left, mirrored, right).astype(x.dtype, copy=False)
