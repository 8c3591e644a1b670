"""Draws whose parameters are arrays: for each element of them so many numbers; rarer draws."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base import ArgumentValueError
from .attrs import DType, Shape
from .operator import Attrs, Operator, operator
from .rules import (
    DTypes,
    Shapes,
    attr_dtype,
    merge_shapes,
    no_gradient,
    no_inputs_shape,
    same_shape,
)

__all__: list[str] = []

Array = Any
_FLOAT = DType("float32")


def _sample_shape(shapes: Shapes, attrs: Attrs, outs: Shapes | None = None
                  ) -> tuple[Shapes, Shapes]:
    merged = shapes[0]
    for shape in shapes[1:]:
        merged = merge_shapes(merged, shape, "shapes of the parameters")
    extra = tuple(attrs["shape"])
    if merged is None and outs and outs[0] is not None and len(outs[0]) > len(extra):
        merged = outs[0][:len(outs[0]) - len(extra)]
    return [merged] * len(shapes), [None if merged is None else (*merged, *extra)]


def _sample_dtype(dtypes: DTypes, attrs: Attrs) -> tuple[DTypes, DTypes]:
    known = next((dtype for dtype in dtypes if dtype is not None), None)
    return [dtype or known for dtype in dtypes], [attrs["dtype"] or "float32"]


def _sampler(name: str) -> Callable[[Callable[..., Array]], Operator]:
    return operator(f"_sample_{name}", infer=_sample_shape, infer_dtype=_sample_dtype,
                    gradient=no_gradient, aliases=(f"sample_{name}",))


def _wide(parameters: Sequence[Array], shape: Shape) -> list[Array]:
    """Parameters in double precision, with axes of size 1 for the draws."""
    return [p.astype("float64").reshape(*p.shape, *(1,) * len(shape)) for p in parameters]


def _size(first: Array, shape: Shape) -> tuple[int, ...]:
    return (*first.shape, *shape)


def _given(xp: Any, ok: Array, words: str) -> None:
    if not bool(xp.asarray(ok).all()):
        raise ArgumentValueError(f"expected {words}")


def _result(drawn: Array, dtype: str | None) -> Array:
    return drawn.astype(dtype or "float32")


@_sampler("uniform")
def sample_uniform(xp: Any, low: Array, high: Array, *, shape: Shape = (),
                   dtype: DType | None = None, rng: Any) -> Array:
    """Numbers spread evenly over [low, high), for each pair of bounds.

    Args:
        low, high: arrays of one shape. shape: how many for each. dtype: element type.

    Shapes: low (*S), high (*S) -> (*S, *shape).

    >>> import minigluon as mx
    >>> mx.nd.sample_uniform(mx.nd.zeros((2,)), mx.nd.ones((2,)), shape=(3,)).shape
    (2, 3)
    """
    a, b = _wide([low, high], shape)
    return _result(rng.random(_size(low, shape)) * (b - a) + a, dtype)


@_sampler("normal")
def sample_normal(xp: Any, mu: Array, sigma: Array, *, shape: Shape = (),
                  dtype: DType | None = None, rng: Any) -> Array:
    """Numbers from normal distributions, for each mean and deviation.

    Args:
        mu, sigma: arrays of one shape. shape: how many for each. dtype: element type.

    Shapes: mu (*S), sigma (*S) -> (*S, *shape).

    >>> import minigluon as mx
    >>> mx.nd.sample_normal(mx.nd.zeros((2,)), mx.nd.ones((2,)), shape=(3,)).shape
    (2, 3)
    """
    _given(xp, sigma >= 0, "sigma of 0 or more")
    mean, deviation = _wide([mu, sigma], shape)
    return _result(rng.standard_normal(_size(mu, shape)) * deviation + mean, dtype)


@_sampler("gamma")
def sample_gamma(xp: Any, alpha: Array, beta: Array, *, shape: Shape = (),
                 dtype: DType | None = None, rng: Any) -> Array:
    """Numbers from gamma distributions, for each shape alpha and scale beta.

    Args:
        alpha, beta: arrays of one shape. shape: how many for each. dtype: element type.

    Shapes: alpha (*S), beta (*S) -> (*S, *shape).

    >>> import minigluon as mx
    >>> mx.nd.sample_gamma(mx.nd.ones((2,)), mx.nd.ones((2,)), shape=(3,)).shape
    (2, 3)
    """
    _given(xp, (alpha > 0) & (beta > 0), "positive alpha and beta")
    a, b = _wide([alpha, beta], shape)
    return _result(rng.standard_gamma(a, size=_size(alpha, shape)) * b, dtype)


@_sampler("exponential")
def sample_exponential(xp: Any, lam: Array, *, shape: Shape = (), dtype: DType | None = None,
                       rng: Any) -> Array:
    """Numbers from exponential distributions, for each rate.

    Args:
        lam: the rates. shape: how many for each. dtype: element type.

    Shapes: lam (*S) -> (*S, *shape).

    >>> import minigluon as mx
    >>> mx.nd.sample_exponential(mx.nd.ones((2,)), shape=(3,)).shape
    (2, 3)
    """
    _given(xp, lam > 0, "positive lam")
    return _result(rng.standard_exponential(_size(lam, shape)) / _wide([lam], shape)[0], dtype)


@_sampler("poisson")
def sample_poisson(xp: Any, lam: Array, *, shape: Shape = (), dtype: DType | None = None,
                   rng: Any) -> Array:
    """Counts from Poisson distributions, for each mean, as floats.

    Args:
        lam: the means. shape: how many for each. dtype: element type.

    Shapes: lam (*S) -> (*S, *shape).

    >>> import minigluon as mx
    >>> mx.nd.sample_poisson(mx.nd.ones((2,)), shape=(3,)).shape
    (2, 3)
    """
    _given(xp, lam >= 0, "lam of 0 or more")
    return _result(rng.poisson(_wide([lam], shape)[0], _size(lam, shape)), dtype)


def _failures(rng: Any, k: Array, p: Array, size: Sequence[int]) -> Array:
    """Failures before the k-th success: Poisson counts whose mean is drawn from a gamma."""
    return rng.poisson(rng.standard_gamma(k, size=tuple(size)) * ((1 - p) / p))


@_sampler("negative_binomial")
def sample_negative_binomial(xp: Any, k: Array, p: Array, *, shape: Shape = (),
                             dtype: DType | None = None, rng: Any) -> Array:
    """Counts of failures before the k-th success, for each k and chance of success p.

    Args:
        k, p: arrays of one shape. shape: how many for each. dtype: element type.

    Shapes: k (*S), p (*S) -> (*S, *shape).

    >>> import minigluon as mx
    >>> mx.nd.sample_negative_binomial(mx.nd.ones((2,)), mx.nd.ones((2,)), shape=(3,)).shape
    (2, 3)
    """
    _given(xp, (k > 0) & (p > 0) & (p <= 1), "positive k and 0 < p <= 1")
    count, chance = _wide([k, p], shape)
    return _result(_failures(rng, count, chance, _size(k, shape)), dtype)


def _spread_counts(xp: Any, rng: Any, mu: Array, alpha: Array, size: Sequence[int]) -> Array:
    """Counts of mean mu and variance mu + alpha mu^2; Poisson counts where alpha is 0."""
    positive = xp.where(alpha > 0, alpha, 1.0)
    drawn = rng.standard_gamma(1 / positive, size=tuple(size)) * positive
    return rng.poisson(mu * xp.where(alpha > 0, drawn, 1.0), tuple(size))


@_sampler("generalized_negative_binomial")
def sample_generalized_negative_binomial(xp: Any, mu: Array, alpha: Array, *, shape: Shape = (),
                                         dtype: DType | None = None, rng: Any) -> Array:
    """Counts with mean mu and variance mu + alpha mu^2, for each mu and alpha.

    Args:
        mu, alpha: arrays of one shape. shape: how many for each. dtype: element type.

    Shapes: mu (*S), alpha (*S) -> (*S, *shape).

    >>> import minigluon as mx
    >>> one = mx.nd.ones((2,))
    >>> mx.nd.sample_generalized_negative_binomial(one, one, shape=(3,)).shape
    (2, 3)
    """
    _given(xp, (mu >= 0) & (alpha >= 0), "mu and alpha of 0 or more")
    mean, wider = _wide([mu, alpha], shape)
    return _result(_spread_counts(xp, rng, mean, wider, _size(mu, shape)), dtype)


# -- one distribution ------------------------------------------------------------------------------

@operator("_random_negative_binomial", infer=no_inputs_shape, infer_dtype=attr_dtype(),
          gradient=no_gradient, aliases=("random_negative_binomial",))
def negative_binomial(xp: Any, *, k: int = 1, p: float = 1.0, shape: Shape = (),
                      dtype: DType | None = _FLOAT, rng: Any) -> Array:
    """Counts of failures before the k-th success, as floats.

    Args:
        k: successes. p: chance of one. shape: sizes; () means (1,). dtype: element type.

    Shapes: -> shape.

    >>> import minigluon as mx
    >>> mx.nd.random_negative_binomial(3, 0.5, shape=(2, 3)).shape
    (2, 3)
    """
    _given(xp, k > 0 and 0 < p <= 1, f"positive k and 0 < p <= 1, got {k} and {p}")
    return _result(_failures(rng, k, p, tuple(shape) or (1,)), dtype)


@operator("_random_generalized_negative_binomial", infer=no_inputs_shape,
          infer_dtype=attr_dtype(), gradient=no_gradient,
          aliases=("random_generalized_negative_binomial",))
def generalized_negative_binomial(xp: Any, *, mu: float = 1.0, alpha: float = 1.0,
                                  shape: Shape = (), dtype: DType | None = _FLOAT, rng: Any
                                  ) -> Array:
    """Counts with mean mu and variance mu + alpha mu^2, as floats.

    Args:
        mu: mean. alpha: how much wider than Poisson. shape: sizes; () means (1,).
        dtype: element type.

    Shapes: -> shape.

    >>> import minigluon as mx
    >>> mx.nd.random_generalized_negative_binomial(3, 0.5, shape=(2, 3)).shape
    (2, 3)
    """
    _given(xp, mu >= 0 and alpha >= 0, f"mu and alpha of 0 or more, got {mu} and {alpha}")
    return _result(_spread_counts(xp, rng, xp.asarray(float(mu)), xp.asarray(float(alpha)),
                                  tuple(shape) or (1,)), dtype)


def _unique_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    shape = tuple(attrs["shape"])
    if len(shape) != 2 or shape[1] > attrs["range_max"]:
        raise ArgumentValueError(f"shape: expected (rows, how many up to range_max "
                                 f"{attrs['range_max']}), got {shape}")
    return shapes, [shape, shape[:1]]


@operator("_sample_unique_zipfian", infer=_unique_shape, gradient=no_gradient, num_outputs=2,
          infer_dtype=lambda dtypes, attrs: (dtypes, ["int64", "int64"]))
def sample_unique_zipfian(xp: Any, *, range_max: int, shape: Shape = (), rng: Any
                          ) -> tuple[Array, Array]:
    """Different classes in each row, class c with chance about 1 / (c + 1); and the draws it took.

    Args:
        range_max: the number of classes. shape: (rows, classes in each).

    Shapes: -> shape, (rows,).
    """
    _unique_shape([], {"range_max": range_max, "shape": shape})
    found, tries = xp.empty(shape, "int64"), xp.zeros(shape[:1], "int64")
    width = float(xp.log(xp.float64(range_max + 1)))
    for row in range(shape[0]):
        seen: dict[int, None] = {}
        while len(seen) < shape[1]:
            drawn = int(xp.expm1(rng.random((1,))[0] * width)) % range_max
            seen.setdefault(drawn)
            tries[row] += 1
        found[row] = xp.asarray(list(seen))
    return found, tries


# -- like another array ----------------------------------------------------------------------------

def _like(name: str) -> Callable[[Callable[..., Array]], Operator]:
    return operator(f"_random_{name}_like", infer=same_shape, gradient=no_gradient,
                    aliases=(f"random_{name}_like", f"{name}_like"))


@_like("exponential")
def exponential_like(xp: Any, data: Array, *, lam: float = 1.0, rng: Any) -> Array:
    """Numbers from the exponential distribution, in the shape and type of `data`.

    Args:
        data: only its shape and type count. lam: the rate.

    Shapes: data (*S) -> (*S).

    >>> import minigluon as mx
    >>> mx.nd.exponential_like(mx.nd.zeros((2, 3))).shape
    (2, 3)
    """
    _given(xp, lam > 0, f"positive lam, got {lam}")
    return (rng.standard_exponential(data.shape) / lam).astype(data.dtype)


@_like("gamma")
def gamma_like(xp: Any, data: Array, *, alpha: float = 1.0, beta: float = 1.0, rng: Any) -> Array:
    """Numbers from the gamma distribution, in the shape and type of `data`.

    Args:
        data: only its shape and type count. alpha: its shape. beta: its scale.

    Shapes: data (*S) -> (*S).

    >>> import minigluon as mx
    >>> mx.nd.gamma_like(mx.nd.zeros((2, 3))).shape
    (2, 3)
    """
    _given(xp, alpha > 0 and beta > 0, f"positive alpha and beta, got {alpha} and {beta}")
    return (rng.standard_gamma(alpha, size=data.shape) * beta).astype(data.dtype)


@_like("poisson")
def poisson_like(xp: Any, data: Array, *, lam: float = 1.0, rng: Any) -> Array:
    """Counts from the Poisson distribution, in the shape and type of `data`.

    Args:
        data: only its shape and type count. lam: the mean.

    Shapes: data (*S) -> (*S).

    >>> import minigluon as mx
    >>> mx.nd.poisson_like(mx.nd.zeros((2, 3))).shape
    (2, 3)
    """
    _given(xp, lam >= 0, f"lam of 0 or more, got {lam}")
    return rng.poisson(lam, data.shape).astype(data.dtype)


@_like("negative_binomial")
def negative_binomial_like(xp: Any, data: Array, *, k: int = 1, p: float = 1.0, rng: Any) -> Array:
    """Counts of failures before the k-th success, in the shape and type of `data`.

    Args:
        data: only its shape and type count. k: successes. p: chance of one.

    Shapes: data (*S) -> (*S).

    >>> import minigluon as mx
    >>> mx.nd.random.negative_binomial_like(mx.nd.zeros((2, 3)), k=2, p=0.5).shape
    (2, 3)
    """
    _given(xp, k > 0 and 0 < p <= 1, f"positive k and 0 < p <= 1, got {k} and {p}")
    return _failures(rng, k, p, data.shape).astype(data.dtype)


@_like("generalized_negative_binomial")
def generalized_negative_binomial_like(xp: Any, data: Array, *, mu: float = 1.0,
                                       alpha: float = 1.0, rng: Any) -> Array:
    """Counts with mean mu and variance mu + alpha mu^2, in the shape and type of `data`.

    Args:
        data: only its shape and type count. mu: mean. alpha: how much wider than Poisson.

    Shapes: data (*S) -> (*S).

    >>> import minigluon as mx
    >>> mx.nd.random.generalized_negative_binomial_like(mx.nd.zeros((2, 3)), 2, 0.5).shape
    (2, 3)
    """
    _given(xp, mu >= 0 and alpha >= 0, f"mu and alpha of 0 or more, got {mu} and {alpha}")
    return _spread_counts(xp, rng, xp.asarray(float(mu)), xp.asarray(float(alpha)),
                          data.shape).astype(data.dtype)
