"""The functions of ``nd.random`` and ``sym.random``: parameters may be numbers or arrays.

With numbers an operator ``_random_X`` draws an array of some shape; with arrays ``_sample_X`` draws
so many numbers for each of their elements.
"""
from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from ..base import ArgumentError, ArgumentValueError, did_you_mean
from .operator import Operator, find_operator

__all__ = ["drawing_functions", "zipfian_function"]

Call = Callable[[Operator, tuple[Any, ...], dict[str, Any]], Any]

# name -> (parameters and their defaults, what it draws)
_KINDS: dict[str, tuple[dict[str, float], str]] = {
    "uniform": ({"low": 0, "high": 1}, "Numbers spread evenly over [low, high)"),
    "normal": ({"loc": 0, "scale": 1}, "Numbers from the normal distribution"),
    "poisson": ({"lam": 1}, "Counts from the Poisson distribution of mean lam, as floats"),
    "exponential": ({"scale": 1}, "Numbers from the exponential distribution of mean scale"),
    "gamma": ({"alpha": 1, "beta": 1}, "Numbers from the gamma distribution of shape alpha and "
                                       "scale beta"),
    "negative_binomial": ({"k": 1, "p": 1}, "Counts of failures before the k-th success"),
    "generalized_negative_binomial": (
        {"mu": 1, "alpha": 1}, "Counts with mean mu and variance mu + alpha mu^2"),
}
_SETTINGS = ("shape", "dtype", "ctx", "out")


def drawing_functions(call: Call, arrays: type) -> dict[str, Callable[..., Any]]:
    """The functions for one face.

    Args:
        call: what calling an operator means there. arrays: the class of its arrays.
    """
    made = {name: _drawer(name, call, arrays) for name in _KINDS}
    made["randn"] = _randn(made["normal"])
    return made


def _drawer(name: str, call: Call, arrays: type) -> Callable[..., Any]:
    defaults, words = _KINDS[name]
    order = (*defaults, *_SETTINGS)

    def draw(*args: Any, **kwargs: Any) -> Any:
        given = _bound(name, order, args, kwargs)
        values = [given.pop(word, default) for word, default in defaults.items()]
        settings = {word: value for word, value in given.items() if value is not None}
        if isinstance(settings.get("shape"), list):
            settings["shape"] = tuple(settings["shape"])
        if not any(isinstance(value, arrays) for value in values):
            if name == "exponential":
                values = [1 / values[0] if values[0] else float("inf")]
            op = find_operator(f"_random_{name}")
            names = ("lam",) if name == "exponential" else tuple(defaults)
            return call(op, (), {**dict(zip(names, values, strict=True)), **settings})
        if not all(isinstance(value, arrays) for value in values):
            raise ArgumentValueError(f"random.{name}: expected {', '.join(defaults)} to be all "
                                     f"numbers or all arrays, got "
                                     f"{', '.join(type(value).__name__ for value in values)}")
        settings.pop("ctx", None)  # the parameters say where
        if name == "exponential":
            values = [call(find_operator("reciprocal"), (values[0],), {})]
        return call(find_operator(f"_sample_{name}"), tuple(values), settings)

    draw.__name__ = draw.__qualname__ = name
    draw.__doc__ = (
        f"{words}.\n\nArgs:\n    {', '.join(defaults)}: numbers, or arrays of one shape: then "
        "so many draws for each element.\n    shape: sizes of what is drawn. dtype: element type. "
        "ctx: where. out: an array to write to.\n")
    parameters = [inspect.Parameter(word, inspect.Parameter.POSITIONAL_OR_KEYWORD,
                                    default=defaults.get(word)) for word in order]
    draw.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return draw


def _bound(name: str, order: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
           ) -> dict[str, Any]:
    """Arguments by name; ``name`` and ``attr`` of symbols are let through."""
    known = (*order, "name", "attr")
    if len(args) > len(order):
        raise ArgumentError(f"random.{name}: {len(args)} positional arguments are too many; "
                            f"expected {', '.join(order)}")
    given = dict(zip(order, args, strict=False))
    for word, value in kwargs.items():
        if word in given:
            raise ArgumentError(f"random.{name}: '{word}' given twice")
        if word not in known:
            raise ArgumentError(f"random.{name}: unknown argument '{word}'"
                                f"{did_you_mean(word, known)}; expected {', '.join(order)}")
        given[word] = value
    return given


def _randn(normal: Callable[..., Any]) -> Callable[..., Any]:
    def randn(*shape: int, loc: Any = 0, scale: Any = 1, **kwargs: Any) -> Any:
        """Numbers from the normal distribution, sizes as arguments: ``randn(2, 3)``.

        Args:
            shape: sizes. loc, scale: mean and deviation. dtype, ctx, out: as in normal.
        """
        return normal(loc, scale, shape=shape, **kwargs)

    return randn


def zipfian_function(call: Call) -> Callable[..., Any]:
    """``contrib.rand_zipfian`` for one face; `call` is what calling an operator means there."""

    def apply(name: str, *args: Any, **attrs: Any) -> Any:
        return call(find_operator(name), args, attrs)

    def rand_zipfian(true_classes: Any, num_sampled: int, range_max: int, ctx: Any = None
                     ) -> tuple[Any, Any, Any]:
        """Classes drawn so that class c comes with chance log((c + 2) / (c + 1)) / log(n + 1).

        Args:
            true_classes: classes whose expected counts are wanted, too. num_sampled: how many to
                draw, with repetition. range_max: the number of classes n. ctx: where.

        Returns:
            The classes drawn (int64), the expected counts of true_classes and of those drawn.
        """
        width = math.log(range_max + 1)
        where = {} if ctx is None else {"ctx": ctx}
        drawn = apply("_random_uniform", low=0.0, high=width, shape=(num_sampled,),
                      dtype="float64", **where)
        whole = apply("Cast", apply("expm1", drawn), dtype="int64")
        classes = apply("_mod_scalar", whole, scalar=range_max)

        def expected(listed: Any) -> Any:
            wide = apply("Cast", listed, dtype="float64")
            ratio = apply("elemwise_div", apply("_plus_scalar", wide, scalar=2.0),
                          apply("_plus_scalar", wide, scalar=1.0))
            return apply("_mul_scalar", apply("log", ratio), scalar=num_sampled / width)

        return classes, expected(true_classes), expected(classes)

    return rand_zipfian
