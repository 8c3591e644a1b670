"""What Python's operators, their words (``sym.add``) and methods mean on Symbols."""
from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..base import ArgumentError, DTypeError
from ..ops import BINARY, PLAIN, find_operator, registry
from ..ops.face import function, methods
from .create import call, create, split_v2
from .symbol import Symbol

__all__ = ["BINARY_FUNCTIONS", "binary", "pow"]

_NUMBERS = (int, float, np.generic)
_WORDS = {**BINARY, "hypot": ("_hypot", "_hypot_scalar", "_hypot_scalar")}
# word -> the operator for two symbols, which must have equal shapes (MXNet: ``_plus0`` and so on)
_SAME_SHAPE = {"add": "elemwise_add", "subtract": "elemwise_sub", "multiply": "elemwise_mul",
               "divide": "elemwise_div", "modulo": "_mod", "power": "_power",
               "maximum": "_maximum", "minimum": "_minimum", "equal": "_equal",
               "not_equal": "_not_equal", "greater": "_greater",
               "greater_equal": "_greater_equal", "lesser": "_lesser",
               "lesser_equal": "_lesser_equal", "logical_and": "_logical_and",
               "logical_or": "_logical_or", "logical_xor": "_logical_xor", "hypot": "_hypot"}
_COMPARISONS = frozenset(f"_{word}_scalar" for word in (
    "equal", "not_equal", "greater", "greater_equal", "lesser", "lesser_equal"))
_HINTS = {"add": "_plus", "subtract": "_minus", "multiply": "_mul", "divide": "_div"}


def binary(word: str, lhs: Any, rhs: Any, name: str | None = None) -> Any:
    """``lhs word rhs`` for symbols and numbers in any mix (numbers only: plain Python)."""
    both, right_scalar, left_scalar = _WORDS[word]
    hint = _HINTS.get(word, _SAME_SHAPE[word])
    settings = {} if name is None else {"name": name}
    if isinstance(lhs, Symbol) and isinstance(rhs, Symbol):
        op = find_operator(_SAME_SHAPE[word] if _SAME_SHAPE[word] in registry else both)
        return create(hint, op, (lhs, rhs), settings)
    if isinstance(lhs, Symbol) and isinstance(rhs, _NUMBERS):
        return _with_scalar(right_scalar, lhs, rhs, settings)
    if isinstance(rhs, Symbol) and isinstance(lhs, _NUMBERS):
        return _with_scalar(left_scalar, rhs, lhs, settings)
    if isinstance(lhs, _NUMBERS) and isinstance(rhs, _NUMBERS):
        return PLAIN[word](lhs, rhs)
    raise DTypeError(f"{word}: expected Symbols or numbers, got {type(lhs).__name__} and "
                     f"{type(rhs).__name__}")


def _with_scalar(name: str, data: Symbol, scalar: Any, settings: dict[str, Any]) -> Symbol:
    # MXNet's nodes: `_plusscalar0`, but `_equal_scalar0`
    hint = name if name in _COMPARISONS else name.removesuffix("_scalar") + "scalar"
    return create(hint, find_operator(name), (data,), {**settings, "scalar": scalar})


# What MXNet calls the two arguments where it does not say lhs and rhs.
_SIDES = {"power": ("base", "exp"), **dict.fromkeys(("maximum", "minimum", "hypot"),
                                                    ("left", "right"))}


def _binary_function(word: str) -> Callable[..., Any]:
    first, second = _SIDES.get(word, ("lhs", "rhs"))

    def of_two(*args: Any, name: str | None = None, **sides: Any) -> Any:
        given = {**dict(zip((first, second), args, strict=False)), **sides}
        if len(args) + len(sides) != 2 or set(given) != {first, second}:
            raise ArgumentError(f"{word}: expected {first} and {second}, got {len(args)} "
                                f"arguments{''.join(f' and {side}=' for side in sides)}")
        return binary(word, given[first], given[second], name)

    of_two.__name__ = of_two.__qualname__ = word
    of_two.__doc__ = f"{word} of two symbols of equal shape, or of a symbol and a number."
    return of_two


BINARY_FUNCTIONS = {word: _binary_function(word) for word in _WORDS}
pow = BINARY_FUNCTIONS["power"]


def _attach_operators() -> None:
    """Python's operators and the operators' methods, on Symbol."""
    def forward(word: str, unlike: bool | None = None) -> Callable[[Symbol, Any], Any]:
        def method(self: Symbol, other: Any) -> Any:
            if isinstance(other, (Symbol, *_NUMBERS)):
                return binary(word, self, other)
            # `x == None` is asked by code that tests for missing inputs
            return unlike if unlike is not None and other is None else NotImplemented

        return method

    def reflected(word: str) -> Callable[[Symbol, Any], Any]:
        def method(self: Symbol, other: Any) -> Any:
            return binary(word, other, self) if isinstance(other, _NUMBERS) else NotImplemented

        return method

    Symbol.__array_ufunc__ = None  # type: ignore[attr-defined]  # NumPy leaves `array + x` to us
    for name, word in {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide",
                       "mod": "modulo", "pow": "power"}.items():
        setattr(Symbol, f"__{name}__", forward(word))
        setattr(Symbol, f"__r{name}__", reflected(word))
    Symbol.__rpow__ = _rpow  # type: ignore[attr-defined]
    for name, word in {"gt": "greater", "ge": "greater_equal", "lt": "lesser",
                       "le": "lesser_equal"}.items():
        setattr(Symbol, f"__{name}__", forward(word))
    Symbol.__eq__ = forward("equal", False)  # type: ignore[method-assign, assignment]
    Symbol.__ne__ = forward("not_equal", True)  # type: ignore[method-assign, assignment]
    for name, function_ in {"__neg__": lambda self: binary("multiply", self, -1.0),
                            "__abs__": lambda self: call("abs", self),
                            "reshape": _reshape, "split_v2": split_v2, "expand_dims": _expand_dims,
                            "flatten": _flatten, "squeeze": _squeeze, "astype": _astype}.items():
        setattr(Symbol, name, function_)
    for name, op in methods():
        if name not in Symbol.__dict__:
            setattr(Symbol, name, function(op, partial(create, name.lower()), name))


def _rpow(self: Symbol, other: Any) -> Symbol:
    """``number ** symbol``, which MXNet names unlike ``sym.power(number, symbol)``."""
    if not isinstance(other, _NUMBERS):
        return NotImplemented
    return call("_rpower_scalar", self, scalar=other)


def _reshape(self: Symbol, *shape: Any, **kwargs: Any) -> Symbol:
    """The array with another shape: ``x.reshape((2, -1))``, ``x.reshape(2, -1)``, ``shape=``."""
    if shape:
        kwargs["shape"] = shape if isinstance(shape[0], int) else shape[0]
    return create("reshape", find_operator("Reshape"), (self,), kwargs)


def _expand_dims(self: Symbol, axis: int, inplace: bool = False, **kwargs: Any) -> Symbol:
    """The array with an axis of size 1 at `axis`; `inplace` means nothing to a Symbol."""
    return create("expand_dims", find_operator("expand_dims"), (self,), {"axis": axis, **kwargs})


def _flatten(self: Symbol, inplace: bool = False, **kwargs: Any) -> Symbol:
    """The array with two axes: the first, and all others as one."""
    return create("flatten", find_operator("Flatten"), (self,), kwargs)


def _squeeze(self: Symbol, axis: Any = None, inplace: bool = False, **kwargs: Any) -> Symbol:
    """The array without its axes of size 1, or without those of `axis`."""
    return create("squeeze", find_operator("squeeze"), (self,), {"axis": axis, **kwargs})


def _astype(self: Symbol, dtype: Any, **kwargs: Any) -> Symbol:
    """The array with another element type."""
    return create("cast", find_operator("Cast"), (self,), {"dtype": dtype, **kwargs})


_attach_operators()
