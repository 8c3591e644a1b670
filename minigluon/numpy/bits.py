"""Bit by bit: functions and Python's operators of integers and truth values."""
from __future__ import annotations

from typing import Any

import numpy as onp

from ..base import DTypeError
from ..ndarray import NDArray
from ..symbol import Symbol
from .array import array, face, ndarray
from .elementwise import NUMBERS, Function, beside, into, lifted, named

FUNCTIONS: dict[str, Function] = {}


def _whole(name: str, x: Any) -> Any:
    """`x`, of integers or truth values."""
    x = lifted(x)
    if isinstance(x, NDArray) and x._data.dtype.kind == "f":
        raise DTypeError(f"np.{name}: expected integers or truth values, got {x.dtype}; say "
                         ".astype('int64')")
    return x


def _bits(name: str, words: str) -> None:
    def function(x1: Any, x2: Any, out: Any = None, where: Any = True) -> Any:
        if isinstance(x1, NUMBERS) and isinstance(x2, NUMBERS):
            return getattr(onp, name)(x1, x2)
        x1, x2 = _whole_pair(name, x1, x2)
        return into(out, face(x1, x2)._npi_bits(x1, x2, kind=name), where)

    function.__doc__ = f"{words} of two arrays of integers or truth values, broadcast together."
    FUNCTIONS[name] = named(function, name)


def _whole_pair(name: str, x1: Any, x2: Any) -> tuple[Any, Any]:
    """Both as arrays of one type, or as Symbols; a number takes the type of the other."""
    like = x2 if isinstance(x1, NUMBERS) else x1
    if isinstance(x1, Symbol) or isinstance(x2, Symbol):
        return beside(x1, like), beside(x2, like)
    kind = _whole(name, like)._data.dtype
    found = []
    for x in (x1, x2):
        if isinstance(x, NUMBERS):
            host = onp.asarray(x)
            if host.dtype.kind in "iu" and kind.kind != "b":  # wraps around
                host = host.astype(kind)
            x = array(host, host.dtype)
        found.append(_whole(name, x))
    wanted = onp.result_type(found[0]._data.dtype, found[1]._data.dtype).name
    return found[0].astype(wanted, copy=False), found[1].astype(wanted, copy=False)


for _name, _words in (("bitwise_and", "Bits set in both"), ("bitwise_or", "Bits set in one"),
                      ("bitwise_xor", "Bits set in just one"),
                      ("lcm", "Least common multiples"), ("gcd", "Greatest common divisors")):
    _bits(_name, _words)


def bitwise_not(x: Any, out: Any = None, where: Any = True) -> Any:
    """The other bits; of truth values the other one."""
    if isinstance(x, NUMBERS) and out is None:
        return onp.invert(x)
    x = _whole("bitwise_not", x)
    return into(out, face(x)._npi_bitwise_not(x), where)


FUNCTIONS["bitwise_not"] = FUNCTIONS["invert"] = bitwise_not


def attach_operators() -> None:
    """``&``, ``|``, ``^`` and ``~`` of ``np.ndarray``."""
    cls: Any = ndarray
    cls.__invert__ = lambda self: bitwise_not(self)
    for name in ("and", "or", "xor"):
        _attach_bits(name)


def _attach_bits(name: str) -> None:
    compute = FUNCTIONS[f"bitwise_{name}"]

    def method(self: Any, other: Any) -> Any:
        return compute(self, other)

    def inplace(self: Any, other: Any) -> Any:
        self[...] = compute(self, other)
        return self

    for side in ("", "r"):
        setattr(ndarray, f"__{side}{name}__", method)
    setattr(ndarray, f"__i{name}__", inplace)
