"""Python's operators on arrays and numbers, as functions and as methods."""
from __future__ import annotations

from typing import Any

import numpy as np

from ..base import DTypeError
from ..device import device_of
from ..device.cpu import native
from ..dispatch import observing
from ..ops import BINARY, PLAIN, find_operator
from .calls import invoke
from .kinds import ArrayBase, known, wrap

__all__ = ["attach_operators", "binary"]

_BINARY_OPS = {word: tuple(find_operator(name) for name in names)
               for word, names in BINARY.items()}
_NUMBERS = (int, float, np.generic)


def binary(word: str, lhs: Any, rhs: Any) -> Any:
    """``lhs word rhs`` for arrays and numbers in any mix (numbers only: plain Python)."""
    if known.numpy is not None and (type(lhs) is known.numpy or type(rhs) is known.numpy):
        return known.binary(word, lhs, rhs)
    both, right_scalar, left_scalar = _BINARY_OPS[word]
    if isinstance(lhs, ArrayBase):
        if isinstance(rhs, ArrayBase):
            return invoke(both, [lhs, rhs], both.defaults)
        if isinstance(rhs, _NUMBERS):
            return invoke(right_scalar, [lhs], right_scalar.parse({"scalar": rhs}))
        if isinstance(rhs, np.ndarray):
            return invoke(both, [lhs, _beside(lhs, rhs)], both.defaults)
    elif isinstance(rhs, ArrayBase):
        if isinstance(lhs, _NUMBERS):
            return invoke(left_scalar, [rhs], left_scalar.parse({"scalar": lhs}))
        if isinstance(lhs, np.ndarray):
            return invoke(both, [_beside(rhs, lhs), rhs], both.defaults)
    elif isinstance(lhs, _NUMBERS) and isinstance(rhs, _NUMBERS):
        return PLAIN[word](lhs, rhs)
    raise DTypeError(f"{word}: expected NDArrays or numbers, got {type(lhs)} and {type(rhs)}")


def _beside(x: Any, values: np.ndarray[Any, Any]) -> Any:
    """NumPy values as an array beside `x`, of its type."""
    return wrap(device_of(x._ctx).array(values, x.dtype), x._ctx)


def _follows_numpy(x: Any, other: Any) -> bool:
    """Lists, too, are values beside an ``np.ndarray``."""
    return type(x) is known.numpy and isinstance(other, (list, tuple))


def attach_operators(cls: Any) -> None:
    """Give the class NDArray its operators."""
    operands = (cls, *_NUMBERS, np.ndarray)

    def forward(word: str) -> Any:
        def method(self: Any, other: Any) -> Any:
            if isinstance(other, operands) or _follows_numpy(self, other):
                return binary(word, self, other)
            return NotImplemented

        return method

    def reflected(word: str) -> Any:
        def method(self: Any, other: Any) -> Any:
            if isinstance(other, (*_NUMBERS, np.ndarray)) or _follows_numpy(self, other):
                return binary(word, other, self)
            return NotImplemented

        return method

    def general(word: str, lhs: Any, rhs: Any) -> Any:
        both = isinstance(lhs, operands) and isinstance(rhs, operands)
        if both or _follows_numpy(lhs, rhs) or _follows_numpy(rhs, lhs):
            return binary(word, lhs, rhs)
        return NotImplemented

    arithmetic = {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide",
                  "mod": "modulo", "pow": "power"}
    if native.enabled:  # the core has these itself, and calls `general` for all but the simplest
        short = [arithmetic.pop(name) for name in ("add", "sub", "mul", "truediv")]
        records = [_BINARY_OPS[word] for word in short]
        native.core.setup(cls, device_of, general, [
            (word, both, both.defaults, right, left)
            for word, (both, right, left) in zip(short, records, strict=True)])
        methods = {f"__{side}{name}__": make(word)
                   for side, make in (("", forward), ("r", reflected))
                   for name, word in zip(("add", "sub", "mul", "truediv"), short, strict=True)}

        def observed(on: bool) -> None:
            """The core's own arithmetic tells nobody what it does."""
            for name, method in methods.items():
                if on:
                    setattr(cls, name, method)
                elif name in cls.__dict__:
                    delattr(cls, name)

        observing.changed.append(observed)
    for name, word in arithmetic.items():
        setattr(cls, f"__{name}__", forward(word))
        setattr(cls, f"__r{name}__", reflected(word))
    compared = {"gt": "greater", "ge": "greater_equal", "lt": "lesser", "le": "lesser_equal"}
    for name, word in compared.items():
        setattr(cls, f"__{name}__", forward(word))

    def equality(word: str, unlike: bool) -> Any:
        def method(self: Any, other: Any) -> Any:
            return unlike if other is None else forward(word)(self, other)

        return method

    # `x == None` is asked by code that tests for missing inputs: a plain answer, not an array
    cls.__eq__ = equality("equal", False)
    cls.__ne__ = equality("not_equal", True)
