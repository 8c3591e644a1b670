"""Division, remainder and power with MXNet's meaning for integers and zeros; no operators.

Shared by the operators of two arrays and those of an array and a number; `a` or `b` may be a
scalar of the element type.
"""
from __future__ import annotations

from typing import Any

__all__ = ["divide", "modulo", "power"]


def divide(xp: Any, a: Any, b: Any) -> Any:
    """a / b; of integers the whole part, as in C (-7 / 2 is -3); by the integer 0 it is 0."""
    if a.dtype.kind == "f":
        return a / b
    if a.dtype.kind == "b":
        return (a & b).astype(bool)
    quotient = xp.floor_divide(a, b)
    rest = a - quotient * b
    return quotient + ((rest != 0) & ((a < 0) != (b < 0)) & (b != 0)).astype(a.dtype)


def modulo(xp: Any, a: Any, b: Any) -> Any:
    """The rest of a / b with the sign of b; 0 where b is 0."""
    return xp.where(b == 0, a.dtype.type(0), xp.mod(a, b))


def power(xp: Any, a: Any, b: Any) -> Any:
    """a to the power of b; of integers the whole part, also for negative b."""
    if a.dtype.kind == "f":
        return xp.power(a, b)
    result = xp.power(xp.asarray(a).astype(xp.float64), b)
    return xp.trunc(result).astype(a.dtype)
