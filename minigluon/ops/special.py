"""Error and gamma functions for arrays: plain mathematics, no operators.

erf: Chebyshev interpolants taken once through ``math.erf``: of erf(x)/x in x*x near zero, and of
exp(x*x) erfc(x) in t = (x - 3.75)/(x + 3.75) further out (the mapping of M. M. Shepherd and
J. G. Laframboise, Math. Comp. 36, 1981). Gamma family: Stirling's series after shifting the
argument up, and the reflection formulas (Abramowitz and Stegun 6.1.17, 6.1.40, 6.3.7, 6.3.18,
6.4.7, 6.4.12). erfinv: algorithm AS 241 (M. J. Wichura, Applied Statistics 37, 1988).
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

__all__ = ["digamma", "erf", "erfinv", "gamma", "lgamma", "trigamma"]

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


# -- the inverse of erf ----------------------------------------------------------------------------

# AS 241: numerator and denominator, ascending powers, for the middle, the tails, the far tails
_MIDDLE = (
    (3.3871328727963666080, 133.14166789178437745, 1971.5909503065514427, 13731.693765509461125,
     45921.953931549871457, 67265.770927008700853, 33430.575583588128105, 2509.0809287301226727),
    (1.0, 42.313330701600911252, 687.18700749205790830, 5394.1960214247511077,
     21213.794301586595867, 39307.895800092710610, 28729.085735721942674, 5226.4952788528545610))
_TAIL = (
    (1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550,
     3.64784832476320460504, 1.27045825245236838258, 0.241780725177450611770,
     0.0227238449892691845833, 7.74545014278341407640e-4),
    (1.0, 2.05319162663775882187, 1.67638483018380384940, 0.689767334985100004550,
     0.148103976427480074590, 0.0151986665636164571966, 5.47593808499534494600e-4,
     1.05075007164441684324e-9))
_FAR_TAIL = (
    (6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580,
     0.296560571828504891230, 0.0265321895265761230930, 0.00124266094738807843860,
     2.71155556874348757815e-5, 2.01033439929228813265e-7),
    (1.0, 0.599832206555887937690, 0.136929880922735805310, 0.0148753612908506148525,
     7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
     2.04426310338993978564e-15))


def _ratio(tables: Sequence[Sequence[float]], x: Any) -> Any:
    above, below = (_polynomial(table, x) for table in tables)
    return above / below


def _polynomial(table: Sequence[float], x: Any) -> Any:
    total = 0 * x + table[-1]
    for coefficient in table[-2::-1]:
        total = total * x + coefficient
    return total


def erfinv(xp: Any, x: Any) -> Any:
    """The y with erf(y) = x: the normal distribution's quantile at (x + 1) / 2, over sqrt(2)."""
    real = _working(xp, x)
    half = real / 2
    middle = half * _ratio(_MIDDLE, 0.180625 - half * half)
    depth = xp.sqrt(-xp.log(xp.where(xp.abs(real) < 1, (1 - xp.abs(real)) / 2, 0.25)))
    tail = xp.where(depth <= 5, _ratio(_TAIL, depth - 1.6), _ratio(_FAR_TAIL, depth - 5))
    quantile = xp.where(xp.abs(half) <= 0.425, middle, xp.sign(real) * tail)
    ends = xp.where(real == 1, xp.inf, xp.where(real == -1, -xp.inf, xp.nan))
    result = xp.where(xp.abs(real) < 1, quantile / math.sqrt(2), ends)
    return result.astype(x.dtype, copy=False)
