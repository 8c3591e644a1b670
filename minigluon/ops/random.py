"""Operators that draw: each takes the device's generator `rng`, so a seed repeats the draws."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base import ArgumentValueError, ShapeError
from .attrs import DType, Shape
from .operator import Attrs, Operator, operator
from .rules import (
    DTypes,
    Shapes,
    attr_dtype,
    follow_dtype,
    no_gradient,
    no_inputs_shape,
    same_shape,
)

__all__: list[str] = []

Array = Any
_FLOAT = DType("float32")


def _drawn(shape: Sequence[int], dtype: str | None) -> tuple[tuple[int, ...], str]:
    """The shape, () meaning (1,), and the type to draw in: halves are drawn as singles."""
    return tuple(shape) or (1,), "float64" if dtype == "float64" else "float32"


def _positive(op: str, **values: float) -> None:
    for word, value in values.items():
        if not value > 0:
            raise ArgumentValueError(
                f"{op}: {word}: expected a positive number, got {value}").at_run_time()


def _not_negative(op: str, **values: float) -> None:
    for word, value in values.items():
        if not value >= 0:
            raise ArgumentValueError(
                f"{op}: {word}: expected 0 or more, got {value}").at_run_time()


def _uniform(rng: Any, low: float, high: float, shape: Shape, dtype: str | None) -> Array:
    if not low <= high:
        raise ArgumentValueError(
            f"uniform: expected low up to high, got {low} and {high}").at_run_time()
    sizes, kind = _drawn(shape, dtype)
    return (rng.random(sizes, dtype=kind) * (high - low) + low).astype(dtype or kind, copy=False)


def _normal(rng: Any, loc: float, scale: float, shape: Shape, dtype: str | None) -> Array:
    _not_negative("normal", scale=scale)
    sizes, kind = _drawn(shape, dtype)
    return (rng.standard_normal(sizes, dtype=kind) * scale + loc).astype(dtype or kind, copy=False)


def _drawer(name: str, aliases: Sequence[str]) -> Callable[[Callable[..., Array]], Operator]:
    return operator(name, infer=no_inputs_shape, infer_dtype=attr_dtype(), gradient=no_gradient,
                    aliases=aliases)


@_drawer("_random_uniform", ("random_uniform", "uniform"))
def uniform(xp: Any, *, low: float = 0.0, high: float = 1.0, shape: Shape = (),
            dtype: DType | None = _FLOAT, rng: Any) -> Array:
    """Numbers spread evenly over [low, high).

    Args:
        low, high: the range. shape: sizes; () means (1,). dtype: element type.

    Shapes: -> shape.

    >>> import minigluon as mx
    >>> mx.nd.random_uniform(0, 1, shape=(2, 3)).shape
    (2, 3)
    """
    return _uniform(rng, low, high, shape, dtype)


@_drawer("_random_normal", ("random_normal", "normal"))
def normal(xp: Any, *, loc: float = 0.0, scale: float = 1.0, shape: Shape = (),
           dtype: DType | None = _FLOAT, rng: Any) -> Array:
    """Numbers from the normal distribution.

    Args:
        loc: mean. scale: standard deviation. shape: sizes; () means (1,). dtype: element type.

    Shapes: -> shape.

    >>> import minigluon as mx
    >>> mx.nd.random_normal(0, 1, shape=(2, 3)).shape
    (2, 3)
    """
    return _normal(rng, loc, scale, shape, dtype)


@_drawer("_random_gamma", ("random_gamma",))
def gamma(xp: Any, *, alpha: float = 1.0, beta: float = 1.0, shape: Shape = (),
          dtype: DType | None = _FLOAT, rng: Any) -> Array:
    """Numbers from the gamma distribution.

    Args:
        alpha: its shape. beta: its scale. shape: sizes; () means (1,). dtype: element type.

    Shapes: -> shape.

    >>> import minigluon as mx
    >>> mx.nd.random_gamma(2, 1, shape=(2, 3)).shape
    (2, 3)
    """
    _positive("gamma", alpha=alpha, beta=beta)
    sizes, kind = _drawn(shape, dtype)
    drawn = rng.standard_gamma(alpha, size=sizes, dtype=kind) * beta
    return drawn.astype(dtype or kind, copy=False)


@_drawer("_random_exponential", ("random_exponential",))
def exponential(xp: Any, *, lam: float = 1.0, shape: Shape = (), dtype: DType | None = _FLOAT,
                rng: Any) -> Array:
    """Numbers from the exponential distribution.

    Args:
        lam: its rate; the mean is 1 / lam. shape: sizes; () means (1,). dtype: element type.

    Shapes: -> shape.

    >>> import minigluon as mx
    >>> mx.nd.random_exponential(2, shape=(2, 3)).shape
    (2, 3)
    """
    _positive("exponential", lam=lam)
    sizes, kind = _drawn(shape, dtype)
    drawn = rng.standard_exponential(sizes, dtype=kind) / lam
    return drawn.astype(dtype or kind, copy=False)


@_drawer("_random_poisson", ("random_poisson",))
def poisson(xp: Any, *, lam: float = 1.0, shape: Shape = (), dtype: DType | None = _FLOAT,
            rng: Any) -> Array:
    """Counts from the Poisson distribution, as floats.

    Args:
        lam: its mean. shape: sizes; () means (1,). dtype: element type.

    Shapes: -> shape.

    >>> import minigluon as mx
    >>> mx.nd.random_poisson(2, shape=(2, 3)).shape
    (2, 3)
    """
    _not_negative("poisson", lam=lam)
    return rng.poisson(lam, tuple(shape) or (1,)).astype(dtype or "float32")


@operator("_random_randint", infer=no_inputs_shape, gradient=no_gradient,
          infer_dtype=attr_dtype(default="int32"), aliases=("random_randint", "randint"))
def randint(xp: Any, *, low: int, high: int, shape: Shape = (),
            dtype: DType | None = DType("int32"), rng: Any) -> Array:
    """Integers spread evenly over low, ..., high - 1.

    Args:
        low, high: the range, without high. shape: sizes; () means (1,). dtype: int32 or int64.

    Shapes: -> shape.

    >>> import minigluon as mx
    >>> mx.nd.random_randint(0, 10, shape=(2, 3)).dtype.__name__
    'int32'
    """
    if not low < high:
        raise ArgumentValueError(
            f"randint: expected low below high, got {low} and {high}").at_run_time()
    return rng.integers(low, high, tuple(shape) or (1,)).astype(dtype or "int32", copy=False)


# -- like another array ----------------------------------------------------------------------------

@operator("_random_uniform_like", infer=same_shape, gradient=no_gradient,
          aliases=("random_uniform_like", "uniform_like"))
def uniform_like(xp: Any, data: Array, *, low: float = 0.0, high: float = 1.0, rng: Any) -> Array:
    """Numbers spread evenly over [low, high), in the shape and type of `data`.

    Args:
        data: only its shape and type count. low, high: the range.

    Shapes: data (*S) -> (*S).

    >>> import minigluon as mx
    >>> mx.nd.random_uniform_like(mx.nd.zeros((2, 3))).shape
    (2, 3)
    """
    return _uniform(rng, low, high, data.shape, data.dtype.name).reshape(data.shape)


@operator("_random_normal_like", infer=same_shape, gradient=no_gradient,
          aliases=("random_normal_like", "normal_like"))
def normal_like(xp: Any, data: Array, *, loc: float = 0.0, scale: float = 1.0, rng: Any) -> Array:
    """Numbers from the normal distribution, in the shape and type of `data`.

    Args:
        data: only its shape and type count. loc: mean. scale: standard deviation.

    Shapes: data (*S) -> (*S).

    >>> import minigluon as mx
    >>> mx.nd.random_normal_like(mx.nd.zeros((2, 3))).shape
    (2, 3)
    """
    return _normal(rng, loc, scale, data.shape, data.dtype.name).reshape(data.shape)


# -- orders and choices ----------------------------------------------------------------------------

@operator("_shuffle", infer=same_shape, aliases=("_random_shuffle", "shuffle"))
def shuffle(xp: Any, data: Array, *, rng: Any) -> Array:
    """The rows in a random order, each order equally likely.

    Args:
        data: any array; axis 0 is shuffled.

    Shapes: data (*S) -> (*S).

    >>> import minigluon as mx
    >>> sorted(mx.nd.shuffle(mx.nd.array([1, 2, 3])).asnumpy().tolist())
    [1.0, 2.0, 3.0]
    """
    return data[xp.argsort(rng.random(data.shape[0]))]


def _choice_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    shape, count = shapes[0], 2 if attrs["get_prob"] else 1
    if shape is None:
        return shapes, [None] * count
    if not shape:
        raise ShapeError("expected probabilities along the last axis, got shape ()")
    return shapes, [(*shape[:-1], *attrs["shape"]) or (1,)] * count


def _choice_dtype(dtypes: DTypes, attrs: Attrs) -> tuple[DTypes, DTypes]:
    places = attrs["dtype"] or "int32"
    return dtypes, [places, dtypes[0]] if attrs["get_prob"] else [places]


def _choice_back(F: Any, dy: Sequence[Any], out: Sequence[Any], data: Any, **attrs: Any
                 ) -> list[Any]:
    if len(dy) < 2 or dy[1] is None:
        return [None]
    return [F._multinomial_grad(dy[1], data, out[0])]


@operator("_sample_multinomial", infer=_choice_shape, infer_dtype=_choice_dtype,
          gradient=_choice_back, num_outputs=lambda attrs: 2 if attrs["get_prob"] else 1,
          aliases=("sample_multinomial", "multinomial", "_random_multinomial"))
def sample_multinomial(xp: Any, data: Array, *, shape: Shape = (), get_prob: bool = False,
                       dtype: DType | None = DType("int32"), rng: Any) -> Any:
    """Draw places with the probabilities along the last axis.

    Args:
        data: probabilities; each row sums to 1. shape: how many draws from each row, () means one.
        get_prob: also return the logarithm of the probability of each draw (differentiable).
        dtype: element type of the places.

    Shapes: data (*S, K) -> (*S, *shape).

    >>> import minigluon as mx
    >>> mx.nd.sample_multinomial(mx.nd.array([0, 1, 0]), shape=3).asnumpy().tolist()
    [1, 1, 1]
    """
    rows = data.reshape(-1, data.shape[-1]).astype("float64")
    draws = 1
    for size in shape:
        draws *= size
    bounds = xp.cumsum(rows, axis=1)
    bounds = bounds / bounds[:, -1:]
    offset = xp.arange(len(rows))[:, None]
    # row i covers (i, i + 1]: one search in one sorted line serves all rows
    points = rng.random((len(rows), draws)) + offset
    found = xp.searchsorted((bounds + offset).reshape(-1), points.reshape(-1), side="right")
    places = xp.clip(found.reshape(points.shape) - offset * rows.shape[1], 0, rows.shape[1] - 1)
    result = (*data.shape[:-1], *shape) or (1,)
    chosen = places.reshape(result).astype(dtype or "int32")
    if not get_prob:
        return chosen
    logs = xp.log(xp.take_along_axis(rows, places, axis=1))
    return chosen, logs.reshape(result).astype(data.dtype)


def _multinomial_grad_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    return shapes, [shapes[1]]


@operator("_multinomial_grad", infer=_multinomial_grad_shape, infer_dtype=follow_dtype(1))
def _multinomial_grad(xp: Any, grad: Array, data: Array, places: Array) -> Array:
    """The gradient of the drawn log probabilities: `grad` / probability at the drawn places."""
    rows = data.reshape(-1, data.shape[-1])
    chosen = places.reshape(len(rows), -1).astype("int64")
    slope = grad.reshape(chosen.shape) / xp.take_along_axis(rows, chosen, axis=1)
    result = xp.zeros_like(rows)
    xp.add.at(result, (xp.arange(len(rows))[:, None], chosen), slope)
    return result.reshape(data.shape)
