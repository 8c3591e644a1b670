"""``npx.random``: draws by batch shape, and Bernoulli's."""
from __future__ import annotations

from typing import Any

import numpy as onp

from ..base import ArgumentError, ArgumentValueError, dtype_name
from ..context import Context
from ..ndarray import NDArray
from .array import array, shape_of
from .elementwise import into
from .random import normal, seed, uniform

__all__ = ["bernoulli", "normal_n", "seed", "uniform_n"]


def _batched(batch_shape: Any, *given: Any) -> tuple[int, ...]:
    """The batch before the shape that the parameters have together."""
    shape = onp.broadcast_shapes(*[tuple(getattr(each, "shape", ())) for each in given])
    return (*(() if batch_shape is None else shape_of(batch_shape)), *shape)


def normal_n(loc: Any = 0.0, scale: Any = 1.0, batch_shape: Any = None, dtype: Any = None,
             ctx: Context | None = None) -> Any:
    """From the normal distribution, a batch for each element of loc and scale.

    Shapes: loc and scale, together S -> (*batch_shape, *S).

    >>> from minigluon import np, npx
    >>> npx.random.normal_n(np.zeros((2,)), 1.0, batch_shape=(3,)).shape
    (3, 2)
    """
    return normal(loc, scale, _batched(batch_shape, loc, scale), dtype, ctx)


def uniform_n(low: Any = 0.0, high: Any = 1.0, batch_shape: Any = None, dtype: Any = None,
              ctx: Context | None = None) -> Any:
    """Evenly from [low, high), a batch for each element of low and high.

    Shapes: low and high, together S -> (*batch_shape, *S).
    """
    return uniform(low, high, _batched(batch_shape, low, high), dtype, ctx)


def bernoulli(prob: Any = None, logit: Any = None, size: Any = None, dtype: Any = None,
              ctx: Context | None = None, out: Any = None) -> Any:
    """1 with probability `prob`, else 0; without gradient.

    Args:
        prob: the probability, or `logit`: log(p / (1 - p)); numbers or arrays, one of them.
        size: shape; None: that of prob or logit. dtype: float32 unless said otherwise.
        ctx: where. out: array to write into.

    Raises:
        ValueError: a probability outside [0, 1], or both or none given.

    >>> from minigluon import npx
    >>> npx.random.bernoulli(1.0, size=(2,))
    array([1., 1.])
    """
    if (prob is None) == (logit is None):
        raise ArgumentValueError("npx.random.bernoulli: expected one of prob and logit, got "
                                 f"{'none' if prob is None else 'both'}")
    given = prob if logit is None else logit
    if isinstance(given, NDArray):
        ctx = ctx or given.ctx
        given = given.asnumpy()
    try:
        value = onp.asarray(given, "float64")
    except (TypeError, ValueError):
        raise ArgumentError("npx.random.bernoulli: expected numbers or arrays, got "
                            f"{type(given).__name__}") from None
    if logit is not None:
        value = 0.5 * (1 + onp.tanh(value / 2))
    elif not ((value >= 0) & (value <= 1)).all():
        raise ArgumentValueError(f"npx.random.bernoulli: prob: expected 0 to 1, got {given}")
    shape = value.shape if size is None else shape_of(size)
    drawn = uniform(size=shape, dtype="float64", ctx=ctx)
    return into(out, array(drawn.asnumpy() < value, dtype_name(dtype or "float32"), drawn.ctx))
