"""New arrays: constants, ranges, grids."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as onp

from .. import ndarray as nd
from ..base import ArgumentError, ArgumentValueError, dtype_name
from ..context import Context, current_context
from ..ndarray import NDArray
from ..symbol import Symbol
from .array import array, face, lift, of, shape_of
from .elementwise import into, lifted

FUNCTIONS: dict[str, Callable[..., Any]] = {}


def _enter(function: Callable[..., Any]) -> Callable[..., Any]:
    FUNCTIONS[function.__name__] = function
    function.__module__ = "minigluon.numpy"
    return function


def _made(name: str, *args: Any, **named: Any) -> Any:
    """What NumPy's function `name` makes; its complaints in our classes."""
    try:
        return getattr(onp, name)(*args, **named)
    except (TypeError, ValueError) as error:
        kind = ArgumentError if isinstance(error, TypeError) else ArgumentValueError
        raise kind(f"np.{name}: {error}") from None


def _filled(shape: Any, value: Any, dtype: Any, ctx: Context | None) -> Any:
    host = _made("full", shape_of(shape), value, dtype_name(dtype or "float32"))
    return array(host, host.dtype, ctx)


@_enter
def zeros(shape: Any, dtype: Any = None, order: str = "C", ctx: Context | None = None,
          device: Context | None = None) -> Any:
    """Zeros, float32 unless said otherwise.

    >>> zeros((2, 2))
    array([[0., 0.],
           [0., 0.]])
    """
    return _filled(shape, 0, dtype, ctx or device)


@_enter
def ones(shape: Any, dtype: Any = None, order: str = "C", ctx: Context | None = None,
         device: Context | None = None) -> Any:
    """Ones, float32 unless said otherwise."""
    return _filled(shape, 1, dtype, ctx or device)


@_enter
def empty(shape: Any, dtype: Any = None, order: str = "C", ctx: Context | None = None,
          device: Context | None = None) -> Any:
    """An array whose values are not set."""
    return lift(nd.empty(shape_of(shape) or (1,), ctx or device, dtype)).reshape(shape_of(shape))


@_enter
def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C",
         ctx: Context | None = None, out: Any = None, device: Context | None = None) -> Any:
    """An array full of one value (or of an array that is broadcast)."""
    if isinstance(fill_value, NDArray):
        wide = lifted(fill_value).broadcast_to(shape_of(shape))
        return into(out, wide if dtype is None else wide.astype(dtype_name(dtype), copy=False))
    if dtype is None and isinstance(fill_value, (bool, onp.bool_)):
        dtype = "bool"
    return into(out, _filled(shape, fill_value, dtype, ctx or device))


def _like(name: str, value: float) -> None:
    def function(a: Any, dtype: Any = None, order: str = "C", ctx: Context | None = None,
                 out: Any = None) -> Any:
        a = lifted(a)
        found = getattr(face(a), name)(a)
        return into(out, found if dtype is None else found.astype(dtype_name(dtype)))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"An array of {value} of the shape and type of `a`."
    _enter(function)


_like("zeros_like", 0)
_like("ones_like", 1)


@_enter
def empty_like(prototype: Any, dtype: Any = None, order: str = "C", subok: bool = False,
               shape: Any = None) -> Any:
    """An array of the shape and type of `prototype` (or of those given), its values not set."""
    prototype = lifted(prototype)
    if shape is not None:
        return empty(shape, dtype or prototype.dtype, ctx=prototype.ctx)
    return FUNCTIONS["zeros_like"](prototype, dtype)


@_enter
def full_like(a: Any, fill_value: Any, dtype: Any = None, order: str = "C",
              ctx: Context | None = None, out: Any = None) -> Any:
    """An array full of one value, of the shape and type of `a`."""
    a = lifted(a)
    filled = FUNCTIONS["zeros_like"](a, dtype) + fill_value
    if dtype is None and isinstance(a, NDArray):  # a Symbol's type is not known yet
        dtype = a.dtype
    return into(out, filled if dtype is None else filled.astype(dtype_name(dtype), copy=False))


@_enter
def arange(start: float, stop: float | None = None, step: float = 1, dtype: Any = None,
           ctx: Context | None = None, device: Context | None = None) -> Any:
    """Numbers from start (0 when one argument is given) to below stop, float32 by default.

    >>> arange(3)
    array([0., 1., 2.])
    """
    start, stop = (0, start) if stop is None else (start, stop)
    host = _made("arange", start, stop, step)
    return array(host, dtype_name(dtype or "float32"), ctx or device)


def _range_of(name: str) -> None:
    def function(start: Any, stop: Any, num: int = 50, endpoint: bool = True, *args: Any,
                 dtype: Any = None, axis: int = 0, ctx: Context | None = None,
                 **more: Any) -> Any:
        ends = [each.asnumpy() if isinstance(each, NDArray) else each for each in (start, stop)]
        made = _made(name, *ends, int(num), endpoint, *args, axis=axis, **more)
        kind = dtype_name(dtype or "float32")
        if isinstance(made, tuple):
            return array(made[0], kind, ctx), float(made[1])
        return array(made, kind, ctx)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"``numpy.{name}``, float32 by default."
    _enter(function)


for _name in ("linspace", "logspace", "geomspace"):
    _range_of(_name)


@_enter
def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = None,
        ctx: Context | None = None, device: Context | None = None) -> Any:
    """Ones on a diagonal."""
    return array(_made("eye", N, M, k), dtype_name(dtype or "float32"), ctx or device)


@_enter
def identity(n: int, dtype: Any = None, ctx: Context | None = None) -> Any:
    """The unit matrix."""
    return eye(n, dtype=dtype, ctx=ctx)


@_enter
def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None,
        ctx: Context | None = None) -> Any:
    """Ones on and below a diagonal."""
    return array(_made("tri", N, M, k), dtype_name(dtype or "float32"), ctx)


@_enter
def indices(dimensions: Any, dtype: Any = None, ctx: Context | None = None) -> Any:
    """The coordinates of every element of an array of this shape."""
    return array(_made("indices", shape_of(dimensions)), dtype_name(dtype or "int32"), ctx)


@_enter
def copy(a: Any, out: Any = None) -> Any:
    """A new array with the same values."""
    a = lifted(a)
    return into(out, face(a)._copy(a))


@_enter
def meshgrid(*xi: Any, indexing: str = "xy", sparse: bool = False, copy: bool = True) -> list[Any]:
    """Coordinate arrays from coordinate vectors.

    >>> meshgrid(arange(2), arange(2))[1]
    array([[0., 0.],
           [1., 1.]])
    """
    arrays = [lifted(x) for x in xi]
    grids = onp.meshgrid(*[x.asnumpy() for x in arrays], indexing=indexing, sparse=sparse)
    return [array(grid, x.dtype, x.ctx) for grid, x in zip(grids, arrays, strict=True)]


def _window(name: str) -> None:
    def function(M: int, dtype: Any = None, ctx: Context | None = None) -> Any:
        return array(_made(name, M), dtype_name(dtype or "float32"), ctx)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"``numpy.{name}``: the window of M points, float32 by default."
    _enter(function)


for _name in ("blackman", "hamming", "hanning"):
    _window(_name)


def scalar(value: Any, like: Any) -> Any:
    """A number as an array of shape () beside `like`."""
    if isinstance(like, Symbol):
        return value
    ctx = like.ctx if isinstance(like, NDArray) else current_context()
    return of(onp.asarray(value), ctx)
