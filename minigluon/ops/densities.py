"""Densities of the distributions that ``nd.random`` draws from: ``random_pdf_X``.

One formula each, the logarithm of the density at x, with its derivatives by x and by each
parameter (textbook forms; N. Johnson, S. Kotz, "Distributions in Statistics"). The density is its
exponential.
"""
from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ..base import ShapeError
from .operator import Attrs, Operator, operator
from .rules import DTypes, Shapes, merge_shapes
from .special import digamma, lgamma

__all__: list[str] = []

Array = Any
# (xp, x, *parameters) -> (log density, its derivatives by x and by each parameter)
Formula = Callable[..., tuple[Array, Sequence[Array]]]


def _uniform(xp: Any, x: Array, low: Array, high: Array) -> tuple[Array, Sequence[Array]]:
    width = high - low
    none = xp.zeros_like(x)
    return -xp.log(width) + none, [none, 1 / width + none, -1 / width + none]


def _normal(xp: Any, x: Array, mu: Array, sigma: Array) -> tuple[Array, Sequence[Array]]:
    away = (x - mu) / sigma
    value = -away * away / 2 - xp.log(sigma * (2 * xp.pi) ** 0.5)
    return value, [-away / sigma, away / sigma, (away * away - 1) / sigma]


def _gamma(xp: Any, x: Array, alpha: Array, beta: Array) -> tuple[Array, Sequence[Array]]:
    value = alpha * xp.log(beta) + (alpha - 1) * xp.log(x) - beta * x - lgamma(xp, alpha)
    return value, [(alpha - 1) / x - beta, xp.log(beta) + xp.log(x) - digamma(xp, alpha),
                   alpha / beta - x]


def _exponential(xp: Any, x: Array, lam: Array) -> tuple[Array, Sequence[Array]]:
    return xp.log(lam) - lam * x, [-lam + xp.zeros_like(x), 1 / lam - x]


def _poisson(xp: Any, x: Array, lam: Array) -> tuple[Array, Sequence[Array]]:
    return x * xp.log(lam) - lgamma(xp, x + 1) - lam, [xp.zeros_like(x), x / lam - 1]


def _failures(xp: Any, x: Array, k: Array, p: Array) -> tuple[Array, Sequence[Array]]:
    value = (lgamma(xp, x + k) - lgamma(xp, x + 1) - lgamma(xp, k) + k * xp.log(p)
             + x * xp.log(1 - p))
    return value, [xp.zeros_like(x), digamma(xp, x + k) - digamma(xp, k) + xp.log(p),
                   k / p - x / (1 - p)]


def _spread_counts(xp: Any, x: Array, mu: Array, alpha: Array) -> tuple[Array, Sequence[Array]]:
    """Negative binomial counts of k = 1 / alpha and p = 1 / (1 + mu alpha)."""
    k, p = 1 / alpha, 1 / (1 + mu * alpha)
    value, (none, by_k, by_p) = _failures(xp, x, k, p)
    return value, [none, -by_p * p * p * alpha, -by_k * k * k - by_p * p * p * mu]


def _dirichlet(xp: Any, x: Array, alpha: Array) -> tuple[Array, Sequence[Array]]:
    """The last axis holds the parts of one draw."""
    total = alpha.sum(axis=-1, keepdims=True)
    value = (((alpha - 1) * xp.log(x)).sum(axis=-1) + lgamma(xp, total)[..., 0]
             - lgamma(xp, alpha).sum(axis=-1))
    return value, [(alpha - 1) / x, xp.log(x) + digamma(xp, total) - digamma(xp, alpha)]


def _entered(name: str, parameters: Sequence[str], formula: Formula, words: str, example: str
             ) -> Operator:
    vector = int(name == "dirichlet")  # axes that belong to one draw

    def placed(xp: Any, sample: Array, given: Sequence[Array]) -> list[Array]:
        """Parameters in double precision, with axes of size 1 where only the sample has some."""
        extra = (1,) * (sample.ndim - given[0].ndim)
        return [p.astype("float64").reshape(*p.shape[:p.ndim - vector], *extra,
                                            *p.shape[p.ndim - vector:]) for p in given]

    def shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
        sample, own = shapes[0], shapes[1]
        for other in shapes[2:]:
            own = merge_shapes(own, other, "shapes of the parameters")
        if sample is not None and own is not None:
            lead = own[:len(own) - vector]
            both = (*sample[:len(lead)], *sample[len(sample) - vector:])
            if len(sample) < len(own) or any(a and b and a != b for a, b in
                                             zip(both, own, strict=False)):
                raise ShapeError(f"expected a sample whose shape begins as the parameters' {own}"
                                 f"{' and ends with their last size' if vector else ''}, "
                                 f"got {sample}")
        out = sample if sample is None or not vector else sample[:-1]
        return [sample, *[own] * len(parameters)], [out]

    def body(xp: Any, *arrays: Array, is_log: bool = False) -> Array:
        sample = arrays[0]
        value, _ = formula(xp, sample.astype("float64"), *placed(xp, sample, arrays[1:]))
        return (value if is_log else xp.exp(value)).astype(sample.dtype)

    def slopes(xp: Any, *arrays: Array, is_log: bool = False) -> tuple[Array, ...]:
        dy, sample, given = arrays[0].astype("float64"), arrays[1], arrays[2:]
        value, found = formula(xp, sample.astype("float64"), *placed(xp, sample, given))
        weight = dy if is_log else dy * xp.exp(value)
        weight = weight[..., None] if vector else weight
        extra = tuple(range(given[0].ndim - vector, sample.ndim - vector))
        return (_typed(weight * found[0], sample),
                *(_typed((weight * slope).sum(axis=extra), p)
                  for slope, p in zip(found[1:], given, strict=True)))

    def gradient(F: Any, dy: Any, out: Any, *arrays: Any, is_log: bool) -> Any:
        return getattr(F, f"_pdf_{name}_grad")(dy, *arrays, is_log=is_log)

    body.__doc__ = (
        f"{words}.\n\nArgs:\n    sample: where. {', '.join(parameters)}: arrays of one shape, with "
        "which that of\n        sample begins. is_log: its logarithm instead.\n\nShapes: "
        + ("alpha (*S, K), sample (*S, *T, K) -> (*S, *T)." if vector else
           f"{', '.join(parameters)} (*S), sample (*S, *T) -> (*S, *T).")
        + f"\n\n>>> import minigluon as mx\n{example}\n")
    _hidden(f"_pdf_{name}_grad", _fixed(slopes, ("dy", "sample", *parameters)),
            len(parameters) + 1)
    return operator(f"_random_pdf_{name}", infer=shape, infer_dtype=_dtype, gradient=gradient,
                    aliases=(f"random_pdf_{name}",))(_fixed(body, ("sample", *parameters)))


def _typed(value: Array, like: Array) -> Array:
    return value.astype(like.dtype).reshape(like.shape)


def _dtype(dtypes: DTypes, attrs: Attrs) -> tuple[DTypes, DTypes]:
    known = next((dtype for dtype in dtypes if dtype is not None), None)
    return [dtype or known for dtype in dtypes], [dtypes[0] or known]


def _hidden(name: str, body: Callable[..., Any], count: int) -> None:
    body.__doc__ = "The gradients of a density for the sample and each parameter."
    operator(name, infer=lambda shapes, attrs: (shapes, list(shapes[1:])), num_outputs=count)(body)


def _fixed(body: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """`body`, which takes any number of arrays, with a signature that names them."""
    kind = inspect.Parameter
    parameters = [kind(word, kind.POSITIONAL_OR_KEYWORD) for word in ("xp", *names)]
    parameters.append(kind("is_log", kind.KEYWORD_ONLY, default=False, annotation=bool))
    body.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return body


_ROWS: tuple[tuple[str, Sequence[str], Formula, str, str], ...] = (
    ("uniform", ("low", "high"), _uniform, "Density of the uniform distribution over [low, high]",
     ">>> two = mx.nd.array([2.0])\n"
     ">>> mx.nd.random_pdf_uniform(mx.nd.ones((1, 2)), mx.nd.zeros((1,)), two).asnumpy().tolist()\n"
     "[[0.5, 0.5]]"),
    ("normal", ("mu", "sigma"), _normal, "Density of the normal distribution",
     ">>> zero, one = mx.nd.zeros((1,)), mx.nd.ones((1,))\n"
     ">>> round(mx.nd.random_pdf_normal(mx.nd.zeros((1, 1)), zero, one).item(), 4)\n0.3989"),
    ("gamma", ("alpha", "beta"), _gamma,
     "Density of the gamma distribution of shape alpha and rate beta",
     ">>> one = mx.nd.ones((1,))\n"
     ">>> round(mx.nd.random_pdf_gamma(mx.nd.ones((1, 1)), one, one).item(), 4)\n0.3679"),
    ("exponential", ("lam",), _exponential, "Density of the exponential distribution of rate lam",
     ">>> mx.nd.random_pdf_exponential(mx.nd.zeros((1, 1)), mx.nd.ones((1,))).asnumpy().tolist()\n"
     "[[1.0]]"),
    ("poisson", ("lam",), _poisson, "Chance of a count in the Poisson distribution of mean lam",
     ">>> found = mx.nd.random_pdf_poisson(mx.nd.ones((1, 1)), mx.nd.ones((1,)))\n"
     ">>> round(found.item(), 4)\n0.3679"),
    ("negative_binomial", ("k", "p"), _failures,
     "Chance of so many failures before the k-th success of chance p",
     ">>> k, p = mx.nd.ones((1,)), mx.nd.array([0.5])\n"
     ">>> found = mx.nd.random_pdf_negative_binomial(mx.nd.ones((1, 1)), k, p)\n"
     ">>> round(found.item(), 4)\n0.25"),
    ("generalized_negative_binomial", ("mu", "alpha"), _spread_counts,
     "Chance of a count in the distribution of mean mu and variance mu + alpha mu^2",
     ">>> one = mx.nd.ones((1,))\n"
     ">>> found = mx.nd.random_pdf_generalized_negative_binomial(mx.nd.ones((1, 1)), one, one)\n"
     ">>> round(found.item(), 4)\n0.25"),
    ("dirichlet", ("alpha",), _dirichlet, "Density of the Dirichlet distribution",
     ">>> half = mx.nd.array([[0.5, 0.5]])\n"
     ">>> mx.nd.random_pdf_dirichlet(half, mx.nd.ones((1, 2))).asnumpy().tolist()\n[1.0]"),
)

for _row in _ROWS:
    _entered(*_row)
