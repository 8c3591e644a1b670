"""Element by element: functions of one array, of two, comparisons, and the Python operators."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as onp

from .. import symbol, tape
from ..base import ArgumentError, ArgumentValueError, DTypeError, ShapeError
from ..ndarray import NDArray
from ..ops import BINARY
from ..symbol import Symbol
from .array import array, face, ndarray
from .told import integers, met, numeric

Function = Callable[..., Any]

NUMBERS = (bool, int, float, onp.generic)

# NumPy's name -> the operator's; integers become float32 first.
_SMOOTH = {name: name for name in (
    "exp", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt", "sin", "cos", "tan",
    "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh",
    "degrees", "radians", "reciprocal",
)} | {"rad2deg": "degrees", "deg2rad": "radians"}
# These keep integers.
_PLAIN = {name: name for name in ("abs", "sign", "square", "negative", "rint", "ceil", "floor",
                                  "trunc", "fix")}
_PLAIN |= {"absolute": "abs", "fabs": "abs", "positive": "_copy"}
_ARITHMETIC = {
    "add": "add", "subtract": "subtract", "multiply": "multiply", "mod": "modulo",
    "remainder": "modulo", "power": "power", "maximum": "maximum", "minimum": "minimum",
}
_COMPARED = {
    "equal": "equal", "not_equal": "not_equal", "greater": "greater",
    "greater_equal": "greater_equal", "less": "lesser", "less_equal": "lesser_equal",
    "logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor",
}


def into(out: Any, value: Any, mask: Any = True) -> Any:
    """`value`, written into `out` where one was given (and there, where `mask` is true).

    While autograd records, `out` takes the value's place in what is remembered, too.
    """
    if out is None:
        if mask is not True:
            raise ArgumentError("where=: say out=, too: what else should the others be?")
        return value
    out = out[0] if isinstance(out, tuple) else out
    if not isinstance(out, NDArray):
        raise ArgumentError(f"out=: expected an np.ndarray, got {type(out).__name__}")
    if isinstance(value, Symbol):
        raise ArgumentError("out=: a Symbol has no array to write into")
    if mask is not True:
        value = where(mask, value, out)
    source = tape.alive(value._ag) if isinstance(value, NDArray) else None
    if source is None or not tape.state.recording or not isinstance(out, ndarray):
        out[...] = value
        return out
    if value.shape != out.shape:
        raise ShapeError(f"out= has shape {out.shape}, the result {value.shape}")
    out._become(value)
    return out


def lifted(x: Any) -> Any:
    """An array or a Symbol from anything like an array."""
    if isinstance(x, ndarray):
        return x
    if isinstance(x, Symbol):
        return numeric(x)
    return x.as_np_ndarray() if isinstance(x, NDArray) else array(x)


def floating(x: Any) -> Any:
    """`x` with elements that are not integers: those become float32."""
    whole = bool(integers(x)) if isinstance(x, Symbol) else x._data.dtype.kind != "f"
    return x.astype("float32") if whole else x


def _single(name: str, target: str, smooth: bool) -> Function:
    def function(x: Any, out: Any = None, where: Any = True) -> Any:
        if isinstance(x, NUMBERS) and out is None:
            return getattr(onp, name)(x)
        x = lifted(x)
        if smooth:
            x = floating(x)
        return into(out, getattr(face(x), target)(x), where)

    function.__doc__ = f"""``numpy.{name}`` of an array{
        ' (integers count as float32)' if smooth else ''}.

        Args:
            x: an array, or a number. out: an array to write the result into. where: places of
                `out` to write to.

        Shapes: x (*S) -> (*S).
        """
    return named(function, name)


def named(function: Function, name: str) -> Function:
    function.__name__ = function.__qualname__ = name
    function.__module__ = "minigluon.numpy"
    return function


def common(x1: Any, x2: Any) -> onp.dtype:
    """The element type of what is computed of two arrays.

    A floating type wins over integers, the wider one over the narrower.

    >>> common(array([1], dtype="int64"), array([1.5])).name
    'float32'
    """
    first, second = x1._data.dtype, x2._data.dtype
    if (first.kind == "f") != (second.kind == "f"):
        return first if first.kind == "f" else second
    return onp.result_type(first, second)


def binary(word: str, x1: Any, x2: Any, name: str = "") -> Any:
    """``x1 word x2`` of arrays, Symbols and numbers in any mix, with NumPy's rules of types."""
    both, right, left = BINARY[word]
    F = face(x1, x2)
    if isinstance(x1, NUMBERS) and isinstance(x2, NUMBERS):
        return getattr(onp, name or word)(x1, x2)
    if isinstance(x2, NUMBERS):
        x1 = _for_number(word, lifted(x1), x2)
        return getattr(F, right)(x1, scalar=plain(x2))
    if isinstance(x1, NUMBERS):
        x2 = _for_number(word, lifted(x2), x1)
        return getattr(F, left)(x2, scalar=plain(x1))
    x1, x2 = lifted(x1), lifted(x2)
    if not (isinstance(x1, Symbol) or isinstance(x2, Symbol)):
        if x1._data.dtype != x2._data.dtype:
            wanted = common(x1, x2).name
            x1, x2 = x1.astype(wanted, copy=False), x2.astype(wanted, copy=False)
        if word == "divide":
            x1, x2 = floating(x1), floating(x2)
        elif x1._data.dtype.kind == "b" and word not in _ON_BOOL:
            x1, x2 = x1.astype("int64"), x2.astype("int64")
    elif isinstance(x1, Symbol) and isinstance(x2, Symbol):
        x1, x2 = met(x1, x2)
        if word == "divide":
            x1, x2 = floating(x1), floating(x2)
    return getattr(F, both)(x1, x2)


_ON_BOOL = frozenset((*_COMPARED.values(), "add", "multiply", "maximum", "minimum"))


def plain(number: Any) -> Any:
    return number.item() if isinstance(number, onp.generic) else number


def beside(x: Any, like: Any) -> Any:
    """The Symbol `x`; a number becomes one of the shape and type of the Symbol `like`."""
    F: Any = symbol
    return x if isinstance(x, Symbol) else F._plus_scalar(F.zeros_like(like), scalar=plain(x))


def _for_number(word: str, x: Any, number: Any) -> Any:
    """`x` with elements that can be computed with this number."""
    if word == "divide" or isinstance(number, (float, onp.floating)):
        return floating(x)
    if isinstance(x, Symbol):
        return x
    if x._data.dtype.kind == "b" and (word not in _ON_BOOL or not (
            word in _COMPARED.values() or isinstance(number, (bool, onp.bool_)))):
        return x.astype("int64")
    return x


def compare(word: str, x1: Any, x2: Any, name: str = "") -> Any:
    """A comparison; arrays (or Symbols) of bool."""
    found = binary(word, x1, x2, name)
    return found.astype("bool") if isinstance(found, (NDArray, Symbol)) else found


def _pair(name: str, word: str, compute: Function) -> Function:
    def function(x1: Any, x2: Any, out: Any = None, where: Any = True) -> Any:
        return into(out, compute(word, x1, x2, name), where)

    function.__doc__ = f"""``numpy.{name}`` of two arrays, which are broadcast to one shape.

        Args:
            x1, x2: arrays or numbers. out: an array to write the result into. where: places of
                `out` to write to.
        """
    return named(function, name)


FUNCTIONS: dict[str, Function] = {}
for _name, _target in _SMOOTH.items():
    FUNCTIONS[_name] = _single(_name, _target, True)
for _name, _target in _PLAIN.items():
    FUNCTIONS[_name] = _single(_name, _target, False)
for _name, _word in _ARITHMETIC.items():
    FUNCTIONS[_name] = _pair(_name, _word, binary)
for _name in ("divide", "true_divide"):
    FUNCTIONS[_name] = _pair(_name, "divide", binary)
for _name, _word in _COMPARED.items():
    FUNCTIONS[_name] = _pair(_name, _word, compare)


def _enter(function: Function) -> Function:
    FUNCTIONS[function.__name__] = function
    return function


@_enter
def floor_divide(x1: Any, x2: Any, out: Any = None) -> Any:
    """The largest whole number not above x1 / x2; integers stay integers."""
    x1, x2 = (lifted(x) if isinstance(x, (onp.ndarray, list, tuple)) else x for x in (x1, x2))
    kinds = [integers(x) if isinstance(x, Symbol) else x._data.dtype.name for x in (x1, x2)
             if isinstance(x, (NDArray, Symbol))]
    whole = all(kind.startswith(("int", "uint")) for kind in kinds) and not any(
        isinstance(x, (float, onp.floating)) for x in (x1, x2))
    if whole:  # float32 is too short for them
        x1, x2 = (x.astype("float64") if isinstance(x, (NDArray, Symbol)) else x
                  for x in (x1, x2))
    found = FUNCTIONS["floor"](binary("divide", x1, x2, "true_divide"))
    if kinds and whole:
        found = found.astype(onp.result_type(*kinds).name)
    return into(out, found)


def _both(x1: Any, x2: Any) -> tuple[Any, Any]:
    """Two floating arrays, or two Symbols: a number becomes one like the other."""
    like = next((x for x in (x1, x2) if isinstance(x, Symbol)), None)
    if like is None:
        floats = [x if isinstance(x, NUMBERS) else floating(lifted(x)) for x in (x1, x2)]
        kinds = {x._data.dtype for x in floats if isinstance(x, NDArray)}
        kind = onp.result_type(*kinds).name if kinds else "float32"
        first, second = (array(x, kind) if isinstance(x, NUMBERS) else x.astype(kind, copy=False)
                         for x in floats)
        return first, second
    like = floating(like)
    return floating(beside(x1, like)), floating(beside(x2, like))


@_enter
def hypot(x1: Any, x2: Any, out: Any = None, where: Any = True) -> Any:
    """The length of the vector (x1, x2)."""
    x1, x2 = _both(x1, x2)
    return into(out, face(x1, x2).broadcast_hypot(x1, x2), where)


@_enter
def arctan2(x1: Any, x2: Any, out: Any = None, where: Any = True) -> Any:
    """The angle of the point (x2, x1), in (-pi, pi]."""
    x1, x2 = _both(x1, x2)
    return into(out, face(x1, x2)._npi_arctan2(x1, x2), where)


@_enter
def copysign(x1: Any, x2: Any, out: Any = None, where: Any = True) -> Any:
    """The size of x1 with the sign of x2 (a zero counts as positive)."""
    x1, x2 = _both(x1, x2)
    size = FUNCTIONS["abs"](x1)
    return into(out, FUNCTIONS["where"](binary("lesser", x2, 0), -size, size), where)


@_enter
def ldexp(x1: Any, x2: Any, out: Any = None, where: Any = True) -> Any:
    """x1 times two to the power of x2."""
    return into(out, binary("multiply", x1, binary("power", 2.0, x2)), where)


@_enter
def float_power(x1: Any, x2: Any, out: Any = None, where: Any = True) -> Any:
    """x1 to the power of x2, as float64."""
    x1, x2 = (x if isinstance(x, NUMBERS) else lifted(x).astype("float64") for x in (x1, x2))
    return into(out, binary("power", x1, x2, "float_power"), where)


def _test(name: str, words: str, compute: Function) -> None:
    def function(x: Any, out: Any = None, where: Any = True) -> Any:
        if isinstance(x, NUMBERS) and out is None:
            return getattr(onp, name)(x)
        return into(out, compute(lifted(x)), where)

    function.__doc__ = f"Whether each element is {words}."
    FUNCTIONS[name] = named(function, name)


_INFINITE = float("inf")
_test("logical_not", "0", lambda x: compare("equal", x, 0))
_test("isnan", "not a number", lambda x: compare("not_equal", x, x))
_test("isinf", "plus or minus infinity",
      lambda x: compare("equal", FUNCTIONS["abs"](x), _INFINITE))
_test("isposinf", "plus infinity", lambda x: compare("equal", x, _INFINITE))
_test("isneginf", "minus infinity", lambda x: compare("equal", x, -_INFINITE))
_test("isfinite", "a finite number",
      lambda x: compare("lesser", FUNCTIONS["abs"](x), _INFINITE))


@_enter
def clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None) -> Any:
    """Elements below `a_min` become `a_min`, above `a_max` become `a_max`; None is no limit.

    >>> clip(array([1, 5, 9]), 2, 6)
    array([2., 5., 6.])
    """
    if a_min is None and a_max is None:
        raise ArgumentValueError("np.clip: expected a_min, a_max or both, got neither")
    a = lifted(a)
    if isinstance(a_min, NUMBERS) and isinstance(a_max, NUMBERS):
        return into(out, face(a).clip(a, a_min=plain(a_min), a_max=plain(a_max)))
    if a_min is not None:
        a = binary("maximum", a, a_min)
    return into(out, a if a_max is None else binary("minimum", a, a_max))


@_enter
def around(x: Any, decimals: int = 0, out: Any = None) -> Any:
    """Rounded to `decimals` places, halves to the even neighbour."""
    if isinstance(x, NUMBERS) and out is None:
        return onp.around(x, decimals)
    x = lifted(x)
    return into(out, face(x)._npi_around(x, decimals=decimals))


FUNCTIONS["round"] = FUNCTIONS["round_"] = around


@_enter
def nan_to_num(x: Any, copy: bool = True, nan: float = 0.0, posinf: float | None = None,
               neginf: float | None = None) -> Any:
    """Numbers in place of nan and the infinities (None: the type's largest and smallest)."""
    if isinstance(x, NUMBERS):
        return onp.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)
    x = lifted(x)
    limits = onp.finfo("float32" if isinstance(x, Symbol) else floating(x)._data.dtype)
    top = float(limits.max) if posinf is None else posinf
    bottom = float(limits.min) if neginf is None else neginf
    found = where(FUNCTIONS["isneginf"](x), bottom, x)
    found = where(FUNCTIONS["isnan"](x), nan, where(FUNCTIONS["isposinf"](x), top, found))
    return found if copy or isinstance(x, Symbol) else into(x, found)


@_enter
def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """x where the condition holds, else y; all broadcast. Without x and y: ``nonzero``.

    >>> a = array([1, 2, 3])
    >>> where(a > 1, a, 0)
    array([0., 2., 3.])
    """
    if (x is None) != (y is None):
        raise ArgumentError("np.where: expected both x and y, or neither")
    if x is None:
        return nonzero(condition)
    condition = lifted(condition)
    F = face(condition, x, y)
    if F is face():
        x, y = _branches(condition, x, y)
    else:
        like = x if isinstance(x, Symbol) else y if isinstance(y, Symbol) else condition
        x, y = beside(x, like), beside(y, like)
    return F._npi_where(condition, x, y)


def _branches(condition: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Both as arrays of one type; a number takes the type of the other."""
    numbers = [isinstance(each, NUMBERS) for each in (x, y)]
    if all(numbers):
        return tuple(array(each, "float32", condition.ctx) for each in (x, y))  # type: ignore
    if numbers[0]:
        y = lifted(y)
        return array(x, y.dtype, y.ctx), y
    x = lifted(x)
    if numbers[1]:
        return x, array(y, x.dtype, x.ctx)
    y = lifted(y)
    wanted = common(x, y).name
    return x.astype(wanted, copy=False), y.astype(wanted, copy=False)


@_enter
def nonzero(a: Any) -> tuple[Any, ...]:
    """The places of elements that are not 0: one array of integers for each axis."""
    a = lifted(a)
    if isinstance(a, Symbol):
        raise DTypeError("np.nonzero: how many there are is not known before a Symbol runs")
    return tuple(array(each, "int64", a.ctx) for each in onp.nonzero(a.asnumpy()))


def attach_operators() -> None:
    """Python's operators of ``np.ndarray`` beside arithmetic."""
    known = (NDArray, Symbol, *NUMBERS, onp.ndarray, list, tuple)

    def comparison(name: str, word: str) -> None:
        def forward(self: Any, other: Any) -> Any:
            if isinstance(other, Symbol) or not isinstance(other, known):
                return NotImplemented
            return compare(word, self, other)

        setattr(ndarray, f"__{name}__", forward)

    # arithmetic is NDArray's, which asks `binary` for arrays of this class
    for name, word in (("gt", "greater"), ("ge", "greater_equal"), ("lt", "lesser"),
                       ("le", "lesser_equal")):
        comparison(name, word)

    def equality(word: str, unlike: bool) -> Function:
        def method(self: Any, other: Any) -> Any:
            if other is None or not isinstance(other, known):
                return unlike
            return compare(word, self, other)

        return method

    cls: Any = ndarray
    cls.__eq__, cls.__ne__ = equality("equal", False), equality("not_equal", True)
    cls.__floordiv__ = lambda self, other: floor_divide(self, other)
    cls.__rfloordiv__ = lambda self, other: floor_divide(other, self)
