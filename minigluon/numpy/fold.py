"""Reductions, statistics, order: what folds axes away or sorts along them."""
from __future__ import annotations

from collections.abc import Callable
from operator import index
from typing import Any

import numpy as onp

from ..base import ArgumentError, ArgumentValueError, OutOfRangeError, dtype_name
from ..ndarray import NDArray
from ..symbol import Symbol
from .array import array, face, lower, ndarray
from .elementwise import FUNCTIONS as ELEMENTWISE
from .elementwise import binary, floating, into, lifted
from .told import numeric

FUNCTIONS: dict[str, Callable[..., Any]] = {}


def _enter(function: Callable[..., Any]) -> Callable[..., Any]:
    FUNCTIONS[function.__name__] = function
    function.__module__ = "minigluon.numpy"
    return function


def _axis(name: str, x: Any, axis: Any) -> Any:
    """`axis` as Python's integers, checked where the number of axes is known."""
    if axis is None:
        return None
    several = isinstance(axis, (tuple, list))
    try:
        places = tuple([index(one) for one in axis]) if several else (index(axis),)
    except TypeError:
        raise ArgumentError(f"np.{name}: axis: expected an integer, a tuple of them, or None, got "
                            f"{axis!r}") from None
    if not isinstance(x, Symbol):
        for one in places:
            if not -x.ndim <= one < x.ndim:
                raise OutOfRangeError(f"np.{name}: axis {one} is out of bounds for an array with "
                                      f"{x.ndim} axes")
    return places if several else places[0]


def _empty(x: Any, axis: Any) -> bool:
    """Whether there is nothing to pick from along `axis`."""
    if axis is None:
        return bool(x.size == 0)
    return 0 in [x.shape[one] for one in (axis if isinstance(axis, tuple) else (axis,))]


def _drop(x: Any, axis: Any) -> Any:
    """Without the axes that were folded to size 1; nothing is left of all of them but a scalar."""
    if isinstance(x, ndarray):
        gone = range(x.ndim) if axis is None else {
            each % x.ndim for each in (axis if isinstance(axis, tuple) else (axis,))}
        return x.reshape(tuple(size for place, size in enumerate(x.shape) if place not in gone))
    if axis is None:
        return face(x)._npi_arrange(x, function="reshape", args=((),))
    return face(x)._npi_arrange(x, function="squeeze", named=(("axis", axis),))


def _fold(name: str, target: str, x: Any, axis: Any, keepdims: bool, initial: Any = None) -> Any:
    axis = _axis(name, x, axis)
    if axis == ():
        return _begun(target, face(x)._copy(x), initial)
    if not isinstance(x, Symbol):
        if x.ndim == 0:
            return _begun(target, face(x)._copy(x), initial)
        if target in ("max", "min") and _empty(x, axis):
            if initial is None:
                raise ArgumentValueError(f"np.{name}: an array of shape {x.shape} has no elements")
            return array(getattr(onp, name)(x.asnumpy(), axis, keepdims=keepdims,
                                            initial=initial), x.dtype, x.ctx)
    folded = getattr(face(x), target)(x, axis=axis, keepdims=True)
    return _begun(target, folded if keepdims else _drop(folded, axis), initial)


_WORDS = {"sum": "add", "nansum": "add", "prod": "multiply", "nanprod": "multiply",
          "max": "maximum", "min": "minimum"}


def _begun(target: str, found: Any, initial: Any) -> Any:
    """What was folded, and the value it begins with."""
    return found if initial is None else binary(_WORDS[target], found, initial)


def _options(name: str, out: Any, keepdims: Any, where: Any = None) -> tuple[Any, bool]:
    """out and keepdims; MXNet's functions take keepdims by place where NumPy's take out."""
    if where is not None and where is not True:
        raise NotImplementedError(f"np.{name}: where=: not built; use np.where")
    if isinstance(out, bool):
        keepdims, out = out, keepdims or None
    return out, bool(keepdims)


def _reduction(name: str, target: str, smooth: bool, words: str) -> None:
    def function(a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
                 keepdims: bool = False, initial: Any = None, where: Any = None) -> Any:
        out, keepdims = _options(name, out, keepdims, where)
        a = lifted(a)
        if dtype is not None:
            a = a.astype(dtype_name(dtype))
        elif smooth:
            a = floating(a)
        elif not isinstance(a, Symbol) and a._data.dtype.kind == "b":
            a = a.astype("int64")
        return into(out, _fold(name, target, a, axis, keepdims, initial))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{words} over axes.

        Args:
            a: an array. axis: axis or axes; None: all of them. dtype: element type to compute in.
            keepdims: leave the axes with size 1. out: an array to write the result into.
            initial: a value to begin with.

        Shapes: a (*S) -> S without the axes; () without any.
        """
    _enter(function)


_reduction("sum", "sum", False, "Sum")
_reduction("mean", "mean", True, "Mean (integers count as float32)")
_reduction("prod", "prod", False, "Product")
_reduction("nansum", "nansum", False, "Sum, nan counting as 0,")
_reduction("nanprod", "nanprod", False, "Product, nan counting as 1,")
FUNCTIONS["product"] = FUNCTIONS["prod"]


def _extreme(name: str, target: str, words: str) -> None:
    def function(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False,
                 initial: Any = None, where: Any = None) -> Any:
        out, keepdims = _options(name, out, keepdims, where)
        return into(out, _fold(name, target, lifted(a), axis, keepdims, initial))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{words} over axes (None: all of them)."
    _enter(function)


for _name, _target, _words in (("max", "max", "Largest value"), ("amax", "max", "Largest value"),
                               ("min", "min", "Smallest value"),
                               ("amin", "min", "Smallest value")):
    _extreme(_name, _target, _words)


def _truth(name: str, target: str, words: str) -> None:
    def function(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        out, keepdims = _options(name, out, keepdims)
        a = ELEMENTWISE["not_equal"](lifted(a), 0)
        if isinstance(a, Symbol):
            return _fold(name, target, numeric(a), axis, keepdims).astype("bool")
        if a.size == 0:
            found = getattr(onp, name)(a.asnumpy(), axis, keepdims=keepdims)
            return into(out, array(found, "bool"))
        found = _fold(name, target, a.astype("float32"), axis, keepdims)
        return into(out, found.astype("bool"))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Whether {words} of the elements along the axes are not 0."
    _enter(function)


_truth("all", "min", "all")
_truth("any", "max", "any")
FUNCTIONS["alltrue"], FUNCTIONS["sometrue"] = FUNCTIONS["all"], FUNCTIONS["any"]


@_enter
def var(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 0,
        keepdims: bool = False) -> Any:
    """Mean squared distance from the mean; the sum is divided by the count less `ddof`."""
    a = lifted(a)
    a = floating(a) if dtype is None else a.astype(dtype_name(dtype))
    center = FUNCTIONS["mean"](a, axis, keepdims=True)
    squares = ELEMENTWISE["square"](binary("subtract", a, center))
    found = FUNCTIONS["mean"](squares, axis, keepdims=keepdims)
    if ddof and isinstance(a, Symbol):  # the count is known when it runs
        count = FUNCTIONS["sum"](face(a).ones_like(a), axis, keepdims=keepdims)
        found = binary("divide", binary("multiply", found, count),
                       binary("subtract", count, ddof))
    elif ddof:
        count = a.size // max(found.size, 1)
        found = found * (count / (count - ddof)) if count != ddof else found * float("nan")
    return into(out, found)


@_enter
def std(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 0,
        keepdims: bool = False) -> Any:
    """Root of the mean squared distance from the mean."""
    return into(out, ELEMENTWISE["sqrt"](var(a, axis, dtype, None, ddof, keepdims)))


@_enter
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False,
            out: Any = None) -> Any:
    """Mean with weights; with `returned` also the sum of the weights."""
    a = floating(lifted(a))
    if weights is None:
        found = FUNCTIONS["mean"](a, axis)
        total = found * 0 + a.size // max(found.size, 1) if returned else None
    else:
        weights = lifted(weights)
        if weights.shape != a.shape:
            if axis is None or isinstance(axis, tuple) or weights.ndim != 1:
                raise ArgumentError("np.average: weights of another shape need one axis, and one "
                                    f"weight for each of its elements; got {weights.shape} for "
                                    f"{a.shape}")
            weights = weights.reshape([-1 if place == axis % a.ndim else 1
                                       for place in range(a.ndim)])
        total = FUNCTIONS["sum"](weights + a * 0, axis)
        found = FUNCTIONS["sum"](a * weights, axis) / total
    return (into(out, found), total) if returned else into(out, found)


def _place(name: str, target: str) -> None:
    def function(a: Any, axis: int | None = None, out: Any = None, keepdims: bool = False) -> Any:
        a = lifted(a)
        ndim = None if isinstance(a, Symbol) else a.ndim
        flat = face(a)._npi_arrange(a, function="ravel") if axis is None else a
        axis = _axis(name, flat, axis)
        if not isinstance(a, Symbol) and _empty(a, axis):
            raise ArgumentValueError(f"np.{name}: an array of shape {a.shape} has no elements")
        found = getattr(face(a), target)(flat, axis=0 if axis is None else axis, keepdims=True)
        found = found.astype("int64")
        if axis is None and keepdims and ndim is not None:
            return into(out, found.reshape((1,) * ndim))
        return into(out, found if keepdims else _drop(found, 0 if axis is None else axis))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Places of the {'largest' if target == 'argmax' else 'smallest'} values
        along an axis, as int64 (None: of the flattened array)."""
    _enter(function)


_place("argmax", "argmax")
_place("argmin", "argmin")


@_enter
def cumsum(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """Sums of all elements up to each (None: of the flattened array)."""
    a = lifted(a)
    if dtype is None and isinstance(a, NDArray) and a._data.dtype.kind == "b":
        dtype = "int64"
    a = a if dtype is None else a.astype(dtype_name(dtype))
    if axis is None:
        a, axis = face(a)._npi_arrange(a, function="ravel"), 0
    return into(out, face(a).cumsum(a, axis=_axis("cumsum", a, axis)))


@_enter
def sort(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None) -> Any:
    """The elements in rising order along an axis (None: of the flattened array)."""
    a = lifted(a)
    if axis is None:
        a, axis = face(a)._npi_arrange(a, function="ravel"), 0
    return face(a).sort(a, axis=_axis("sort", a, axis))


@_enter
def argsort(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None) -> Any:
    """The places, as int64, that put the elements in rising order."""
    a = lifted(a)
    if axis is None:
        a, axis = face(a)._npi_arrange(a, function="ravel"), 0
    return face(a).argsort(a, axis=_axis("argsort", a, axis), dtype="int64")


@_enter
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    """Largest less smallest value."""
    return into(out, FUNCTIONS["max"](a, axis, keepdims=keepdims)
                - FUNCTIONS["min"](a, axis, keepdims=keepdims))


@_enter
def count_nonzero(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """How many elements are not 0: a Python number, or an array of int64 along an axis."""
    found = FUNCTIONS["sum"](ELEMENTWISE["not_equal"](lifted(a), 0), axis, dtype="int64",
                             keepdims=keepdims)
    return int(found) if axis is None and not keepdims else found


@_enter
def size(a: Any, axis: int | None = None) -> int:
    """How many elements, or how many along an axis."""
    shape = onp.shape(a) if not isinstance(a, NDArray) else a.shape
    return int(onp.prod(shape, dtype=int)) if axis is None else int(shape[axis])


@_enter
def shape(a: Any) -> tuple[int, ...]:
    """The sizes of the axes."""
    return a.shape if isinstance(a, NDArray) else onp.shape(a)


@_enter
def ndim(a: Any) -> int:
    """The number of axes."""
    return len(shape(a))


def _quantiles(name: str, whole: str) -> None:
    def function(a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: Any = None,
                 interpolation: str = "linear", keepdims: bool = False,
                 method: str | None = None) -> Any:
        a = floating(lifted(a))
        try:
            found = lower(getattr(onp, name))(a, q, _axis(name, a, axis), keepdims=keepdims,
                                              method=method or interpolation)
        except ValueError as error:
            raise ArgumentValueError(f"np.{name}: {error}") from None
        return into(out, found)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Values below which a part q of the elements lies, {whole} being all.

        Args:
            a: an array; integers count as float32. q: a number or an array. axis: axis or axes;
                None: all of them. interpolation (or method): 'linear', 'lower', 'higher',
                'midpoint', 'nearest', or what else NumPy knows. keepdims: leave the axes with
                size 1. out: an array to write the result into.

        Without gradient, as in MXNet.
        """
    _enter(function)


_quantiles("percentile", "100")
_quantiles("quantile", "1")
