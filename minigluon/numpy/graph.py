"""``F.np`` where F is ``mx.sym``: ``mx.np``, but what makes new arrays makes nodes of a graph.

A constant of values (``np.array``) is not among them: a graph has none; MXNet's has none, either.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as onp

from .. import numpy as _eager
from .. import symbol as _sym
from ..symbol import Symbol
from . import batches
from .array import shape_of
from .symbolic import SymbolicArray

__all__ = ["Face", "extension_random", "room"]


def _zeros(shape: Any, dtype: Any = None, order: str = "C", ctx: Any = None) -> Symbol:
    return _sym.zeros(shape_of(shape), dtype)


def _ones(shape: Any, dtype: Any = None, order: str = "C", ctx: Any = None) -> Symbol:
    return _sym.ones(shape_of(shape), dtype)


def _full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", ctx: Any = None,
          out: Any = None) -> Symbol:
    if isinstance(fill_value, Symbol):
        wide = _eager.broadcast_to(fill_value, shape_of(shape))
        return wide if dtype is None else wide.astype(dtype)  # type: ignore[no-any-return]
    truth = dtype is None and isinstance(fill_value, (bool, onp.bool_))
    return _sym.full(shape_of(shape), fill_value, "bool" if truth else dtype)


def _arange(start: float, stop: float | None = None, step: float = 1, dtype: Any = None,
            ctx: Any = None) -> Symbol:
    return _sym.arange(start, stop, step, dtype=dtype)


def _linspace(start: float, stop: float, num: int = 50, endpoint: bool = True,
              dtype: Any = None, ctx: Any = None) -> Symbol:
    return _sym.linspace(start, stop, num, endpoint=endpoint, dtype=dtype or "float32")


def _eye(N: int, M: int | None = None, k: int = 0, dtype: Any = None, ctx: Any = None) -> Symbol:
    return _sym.eye(N, M or 0, k, dtype)


def _identity(n: int, dtype: Any = None, ctx: Any = None) -> Symbol:
    return _sym.eye(n, dtype=dtype)


def _logspace(start: float, stop: float, num: int = 50, endpoint: bool = True, base: float = 10.0,
              dtype: Any = None, axis: int = 0, ctx: Any = None) -> Symbol:
    found = base ** SymbolicArray(_linspace(start, stop, num, endpoint).entries)
    return found if dtype is None else found.astype(dtype)  # type: ignore[no-any-return]


def _tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None, ctx: Any = None) -> Symbol:
    whole = SymbolicArray(_ones((N, N if M is None else M), dtype).entries)
    return _eager.tril(whole, k)  # type: ignore[no-any-return]


def _indices(dimensions: Any, dtype: Any = None, ctx: Any = None) -> Symbol:
    sizes = shape_of(dimensions)
    rows = [SymbolicArray(_arange(size, dtype=dtype or "int32").entries).reshape(
        tuple([-1 if place == axis else 1 for place in range(len(sizes))]))
        for axis, size in enumerate(sizes)]
    return _eager.stack([_eager.broadcast_to(row, sizes) for row in rows])  # type: ignore[no-any-return]


def _window(*parts: float) -> Callable[..., Symbol]:
    """A sum of cosines over one turn of M points (as NumPy's windows): parts of 1, 2 ... waves."""
    def function(M: int, dtype: Any = None, ctx: Any = None) -> Symbol:
        if M <= 1:
            return _ones((max(M, 0),), dtype)
        turn = SymbolicArray(_arange(M).entries) * (2 * onp.pi / (M - 1))
        found = parts[0] - parts[1] * _eager.cos(turn)
        for waves, part in enumerate(parts[2:], 2):
            found = found + part * _eager.cos(waves * turn)
        return found if dtype is None else found.astype(dtype)  # type: ignore[no-any-return]

    return function


def _drawn(name: str, size: Any, dtype: Any, *parameters: Any) -> Any:
    """A standard draw, of the shape of the parameters where none is asked for."""
    like = next((each for each in parameters if isinstance(each, Symbol)), None)
    if size is None and like is not None:
        for each in parameters:
            like = like + 0 * each
        drawn = getattr(_sym.random, f"{name}_like")(like)
    else:
        drawn = getattr(_sym.random, name)(shape=shape_of(size), dtype=dtype or "float32")
    return SymbolicArray(drawn.entries)


def _placed(name: str, place: Any, scale: Any, size: Any, dtype: Any) -> Symbol:
    return _drawn(name, size, dtype, place, scale) * scale + place  # type: ignore[no-any-return]


def _normal(loc: Any = 0.0, scale: Any = 1.0, size: Any = None, dtype: Any = None,
            ctx: Any = None, out: Any = None) -> Symbol:
    return _placed("normal", loc, scale, size, dtype)


def _uniform(low: Any = 0.0, high: Any = 1.0, size: Any = None, dtype: Any = None,
             ctx: Any = None, out: Any = None) -> Symbol:
    return _placed("uniform", low, high - low, size, dtype)


def _exponential(scale: Any = 1.0, size: Any = None, ctx: Any = None, out: Any = None) -> Symbol:
    return _placed("exponential", 0, scale, size, None)


def _randint(low: int, high: int | None = None, size: Any = None, dtype: Any = None,
             ctx: Any = None, out: Any = None) -> Symbol:
    low, high = (0, low) if high is None else (low, high)
    return _sym.random.randint(low, high, shape=shape_of(size), dtype=dtype or "int64")


# Draws from standard distributions, and with one parameter a, of a number u from (0, 1).
_STANDARD: dict[str, Callable[[Any], Any]] = {
    "gumbel": lambda u: -(-u.log()).log(),
    "logistic": lambda u: (u / (1 - u)).log(),
    "laplace": lambda u: _eager.where(u < 0.5, (2 * u).log(), -(2 - 2 * u).log()),
}
_SHAPED: dict[str, Callable[[Any, Any], Any]] = {
    "weibull": lambda u, a: (-u.log()) ** (1 / a),
    "pareto": lambda u, a: u ** (-1 / a) - 1,
    "power": lambda u, a: u ** (1 / a),
}


def _inner(size: Any, *parameters: Any) -> Any:
    """Numbers evenly from (0, 1), without the ends, which have no logarithm."""
    return _drawn("uniform", size, None, *parameters) * (1 - 2e-7) + 1e-7


def _by_place(transform: Callable[[Any], Any]) -> Callable[..., Symbol]:
    def function(loc: Any = 0.0, scale: Any = 1.0, size: Any = None, dtype: Any = None,
                 ctx: Any = None, out: Any = None) -> Symbol:
        return transform(_inner(size, loc, scale)) * scale + loc  # type: ignore[no-any-return]

    return function


def _by_shape(transform: Callable[[Any, Any], Any]) -> Callable[..., Symbol]:
    def function(a: Any, size: Any = None, ctx: Any = None, out: Any = None) -> Symbol:
        return transform(_inner(size, a), a)  # type: ignore[no-any-return]

    return function


def _rayleigh(scale: Any = 1.0, size: Any = None, ctx: Any = None, out: Any = None) -> Symbol:
    return (-2 * _inner(size, scale).log()).sqrt() * scale  # type: ignore[no-any-return]


def _lognormal(mean: Any = 0.0, sigma: Any = 1.0, size: Any = None, dtype: Any = None,
               ctx: Any = None, out: Any = None) -> Symbol:
    return _placed("normal", mean, sigma, size, dtype).exp()  # type: ignore[no-any-return]


def _gamma(shape: float, scale: Any = 1.0, size: Any = None, dtype: Any = None, ctx: Any = None,
           out: Any = None) -> Symbol:
    drawn = _sym.random.gamma(shape, 1.0, shape=shape_of(size), dtype=dtype or "float32")
    return SymbolicArray(drawn.entries) * scale


def _chisquare(df: float, size: Any = None, dtype: Any = None, ctx: Any = None) -> Symbol:
    return _gamma(df / 2, 2.0, size, dtype)


def _beta(a: float, b: float, size: Any = None, dtype: Any = None, ctx: Any = None) -> Symbol:
    first, second = _gamma(a, 1.0, size, dtype), _gamma(b, 1.0, size, dtype)
    return first / (first + second)  # type: ignore[no-any-return]


def _batched(name: str, batch_shape: Any, dtype: Any, place: Any, scale: Any) -> Any:
    """A batch of draws for each element of the parameters; their shape need not be known."""
    batch = () if batch_shape is None else shape_of(batch_shape)
    if not batch or not (isinstance(place, Symbol) or isinstance(scale, Symbol)):
        return _placed(name, place, scale, batch or None, dtype)
    zeros = 0 * place + 0 * scale
    drawn = getattr(_sym, f"sample_{name}")(zeros, zeros + 1, shape=batch)
    axes = range(len(batch))
    drawn = _eager.moveaxis(SymbolicArray(drawn.entries), [-1 - axis for axis in axes][::-1],
                            list(axes))  # sample_X puts the batch behind
    return drawn * scale + place


def _normal_n(loc: Any = 0.0, scale: Any = 1.0, batch_shape: Any = None, dtype: Any = None,
              ctx: Any = None) -> Symbol:
    return _batched("normal", batch_shape, dtype, loc, scale)  # type: ignore[no-any-return]


def _uniform_n(low: Any = 0.0, high: Any = 1.0, batch_shape: Any = None, dtype: Any = None,
               ctx: Any = None) -> Symbol:
    return _batched("uniform", batch_shape, dtype, low, high - low)  # type: ignore[no-any-return]


def _bernoulli(prob: Any = None, logit: Any = None, size: Any = None, dtype: Any = None,
               ctx: Any = None, out: Any = None) -> Symbol:
    if (prob is None) == (logit is None):
        batches.bernoulli(prob, logit)  # which says what is wrong
    given = prob if logit is None else logit
    drawn = _inner(size, given)
    if logit is not None:  # u < p just where log(u / (1 - u)) < log(p / (1 - p))
        drawn = (drawn / (1 - drawn)).log()
    return (drawn < given).astype(dtype or "float32")  # type: ignore[no-any-return]


def _of_numpy(made: Callable[..., Symbol], eager: Any) -> Callable[..., Symbol]:
    """`made`, whose Symbols follow NumPy, with name and words of the function for arrays."""
    def function(*args: Any, **kwargs: Any) -> Symbol:
        return SymbolicArray(made(*args, **kwargs).entries)

    function.__name__ = function.__qualname__ = eager.__name__
    function.__doc__ = eager.__doc__
    return function


class Face:
    """The functions of `room`, those in `made` in their place."""

    def __init__(self, room: Any, made: dict[str, Any]) -> None:
        self._room = room
        vars(self).update(made)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._room, name)

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._room), *vars(self)})


_draws = {name: _of_numpy(made, getattr(_eager.random, name)) for name, made in (
    ("normal", _normal), ("uniform", _uniform), ("exponential", _exponential),
    ("randint", _randint), ("rand", lambda *size, **more: _uniform(size=size, **more)),
    ("randn", lambda *size, **more: _normal(size=size, **more)),
    ("rayleigh", _rayleigh), ("lognormal", _lognormal), ("gamma", _gamma),
    ("chisquare", _chisquare), ("beta", _beta),
    *((name, _by_place(transform)) for name, transform in _STANDARD.items()),
    *((name, _by_shape(transform)) for name, transform in _SHAPED.items()))}
room = Face(_eager, {
    **{name: _of_numpy(made, getattr(_eager, name)) for name, made in (
        ("zeros", _zeros), ("ones", _ones), ("empty", _zeros), ("full", _full),
        ("arange", _arange), ("linspace", _linspace), ("logspace", _logspace), ("eye", _eye),
        ("identity", _identity), ("tri", _tri), ("indices", _indices),
        ("hanning", _window(0.5, 0.5)), ("hamming", _window(0.54, 0.46)),
        ("blackman", _window(0.42, 0.5, 0.08)))},
    "random": Face(_eager.random, _draws), "_Symbol": SymbolicArray,
})
extension_random = Face(batches, {name: _of_numpy(made, getattr(batches, name)) for name, made in (
    ("normal_n", _normal_n), ("uniform_n", _uniform_n), ("bernoulli", _bernoulli))})
