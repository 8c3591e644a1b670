"""``np.random``: draws from a device's stream, which ``mx.random.seed`` restarts.

Locations and scales may be arrays; gradients flow to them, because a draw is location + scale
times a standard draw.
"""
from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as onp

from ..base import ArgumentError, ArgumentValueError, dtype_name
from ..context import Context, current_context
from ..device import device_of
from ..ndarray import NDArray
from ..random import host_generator
from ..random import seed as seed
from .array import array, shape_of
from .elementwise import FUNCTIONS, into

__all__ = [
    "beta", "chisquare", "choice", "exponential", "f", "gamma", "gumbel", "laplace", "logistic",
    "lognormal", "multinomial", "multivariate_normal", "normal", "pareto", "permutation", "poisson",
    "power", "rand", "randint", "randn", "rayleigh", "seed", "shuffle", "uniform", "weibull",
]


def _generator(ctx: Context | None) -> tuple[Any, Context]:
    ctx = current_context() if ctx is None else Context(ctx)
    device = device_of(ctx)
    return (device.rng if ctx.device_type != "gpu" else host_generator()), ctx


def _host(value: Any) -> Any:
    return value.asnumpy() if isinstance(value, NDArray) else value


def _numbers(value: Any) -> Any:
    """Lists as NumPy's arrays, anything else as it is."""
    return onp.asarray(value) if isinstance(value, (list, tuple)) else value


def _checked(name: str, word: str, value: Any) -> None:
    if bool((onp.asarray(_host(value)) < 0).any()):
        raise ArgumentValueError(f"np.random.{name}: {word}: expected values of 0 or more, got "
                                 f"{_host(value)}")


def _standard(draw: Callable[[Any, tuple[int, ...]], Any], place: Any, scale: Any, size: Any,
              dtype: Any, ctx: Context | None, out: Any) -> Any:
    """``place + scale * draw``, where both may be arrays."""
    place, scale = _numbers(place), _numbers(scale)
    for each in (place, scale):
        if isinstance(each, NDArray):
            ctx = ctx or each.ctx
    generator, ctx = _generator(ctx)
    shape = shape_of(size) if size is not None else onp.broadcast_shapes(
        onp.shape(_host(place)), onp.shape(_host(scale)))
    kind = dtype_name(dtype or "float32")
    if isinstance(place, NDArray) or isinstance(scale, NDArray):
        drawn = array(draw(generator, shape), kind, ctx)
        return into(out, drawn * scale + place)
    return into(out, array(draw(generator, shape) * scale + place, kind, ctx))


def normal(loc: Any = 0.0, scale: Any = 1.0, size: Any = None, dtype: Any = None,
           ctx: Context | None = None, out: Any = None, device: Context | None = None) -> Any:
    """From the normal distribution.

    Args:
        loc: mean. scale: standard deviation, not negative. size: shape; None: that of loc and
            scale. dtype: float32 unless said otherwise. ctx: where. out: array to write into.

    >>> normal(0, 1, (2, 3)).shape
    (2, 3)
    """
    _checked("normal", "scale", scale)
    return _standard(lambda g, shape: g.standard_normal(shape), loc, scale, size, dtype,
                     ctx or device, out)


def uniform(low: Any = 0.0, high: Any = 1.0, size: Any = None, dtype: Any = None,
            ctx: Context | None = None, out: Any = None, device: Context | None = None) -> Any:
    """Evenly from [low, high)."""
    low, high = _numbers(low), _numbers(high)
    return _standard(lambda g, shape: g.random(shape), low, high - low, size, dtype,
                     ctx or device, out)


def gumbel(loc: Any = 0.0, scale: Any = 1.0, size: Any = None, ctx: Context | None = None,
           out: Any = None) -> Any:
    """From Gumbel's distribution."""
    return _standard(lambda g, shape: g.gumbel(size=shape), loc, scale, size, None, ctx, out)


def logistic(loc: Any = 0.0, scale: Any = 1.0, size: Any = None, ctx: Context | None = None,
             out: Any = None) -> Any:
    """From the logistic distribution."""
    return _standard(lambda g, shape: g.logistic(size=shape), loc, scale, size, None, ctx, out)


def laplace(loc: Any = 0.0, scale: Any = 1.0, size: Any = None, dtype: Any = None,
            ctx: Context | None = None, out: Any = None) -> Any:
    """From Laplace's distribution."""
    return _standard(lambda g, shape: g.laplace(size=shape), loc, scale, size, dtype, ctx, out)


def exponential(scale: Any = 1.0, size: Any = None, ctx: Context | None = None,
                out: Any = None) -> Any:
    """From the exponential distribution of mean `scale`."""
    _checked("exponential", "scale", scale)
    return _standard(lambda g, shape: g.standard_exponential(shape), 0.0, scale, size, None, ctx,
                     out)


def rayleigh(scale: Any = 1.0, size: Any = None, ctx: Context | None = None,
             out: Any = None) -> Any:
    """From Rayleigh's distribution."""
    _checked("rayleigh", "scale", scale)
    return _standard(lambda g, shape: g.rayleigh(size=shape), 0.0, scale, size, None, ctx, out)


def lognormal(mean: Any = 0.0, sigma: Any = 1.0, size: Any = None, dtype: Any = None,
              ctx: Context | None = None, out: Any = None) -> Any:
    """The exponential of a draw from the normal distribution."""
    found = normal(mean, sigma, size, dtype, ctx)
    return into(out, found.exp())


def _shaped(name: str, words: str, *parameters: str, integers: bool = False) -> Any:
    """A distribution that NumPy's generator draws from parameters it is given."""

    def function(*args: Any, size: Any = None, dtype: Any = None, ctx: Context | None = None,
                 out: Any = None, **named: Any) -> Any:
        if len(args) == len(parameters) + 1:
            args, size = args[:-1], args[-1]
        args = (*args, *[named.pop(word) for word in parameters[len(args):] if word in named])
        if len(args) != len(parameters) or named:
            raise ArgumentError(f"np.random.{name}: expected {', '.join(parameters)} and size, got "
                                f"{len(args)} arguments" + f" and {sorted(named)}" * bool(named))
        for each in args:
            ctx = ctx or (each.ctx if isinstance(each, NDArray) else None)
        generator, ctx = _generator(ctx)
        values = [onp.asarray(_host(each), "float64") for each in args]
        try:
            drawn = getattr(generator, name)(*values, size=None if size is None
                                             else shape_of(size))
        except ValueError as error:
            raise ArgumentValueError(f"np.random.{name}: {error}") from None
        kind = dtype_name(dtype or ("int64" if integers else "float32"))
        return into(out, array(drawn, kind, ctx))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{words}; parameters {', '.join(parameters)}, then size."
    return function


beta = _shaped("beta", "From the beta distribution", "a", "b")
chisquare = _shaped("chisquare", "From the chi-square distribution", "df")
f = _shaped("f", "From Fisher's distribution", "dfnum", "dfden")
poisson = _shaped("poisson", "From Poisson's distribution", "lam", integers=True)


_NP = SimpleNamespace(**FUNCTIONS)


def _of_exponential(name: str, words: str, compute: Callable[[Any, Any, Any], Any]) -> Any:
    """A distribution of one parameter: ``compute(np, draw, a)`` of a standard exponential draw."""

    def function(a: Any, size: Any = None, ctx: Context | None = None, out: Any = None,
                 dtype: Any = None) -> Any:
        a, kind = _numbers(a), dtype_name(dtype or "float32")
        if not bool((onp.asarray(_host(a)) > 0).all()):
            raise ArgumentValueError(f"np.random.{name}: a: expected values above 0, got "
                                     f"{_host(a)}")
        generator, ctx = _generator(ctx or (a.ctx if isinstance(a, NDArray) else None))
        drawn = generator.standard_exponential(
            onp.shape(_host(a)) if size is None else shape_of(size))
        if isinstance(a, NDArray):
            found = compute(_NP, array(drawn, kind, ctx), a.astype(kind, copy=False))
            return into(out, found)
        return into(out, array(compute(onp, drawn, a), kind, ctx))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{words} with parameter a, which may be an array and has gradients."
    return function


pareto = _of_exponential("pareto", "From Pareto's second distribution",
                         lambda np, drawn, a: np.expm1(drawn / a))
power = _of_exponential("power", "From the power distribution",
                        lambda np, drawn, a: np.exp(-drawn / a))
weibull = _of_exponential("weibull", "From Weibull's distribution",
                          lambda np, drawn, a: drawn ** (1 / a))


def gamma(shape: Any, scale: Any = 1.0, size: Any = None, dtype: Any = None,
          ctx: Context | None = None, out: Any = None) -> Any:
    """From the gamma distribution."""
    found = _shaped("standard_gamma", "", "shape")(
        shape, size=size if size is not None else onp.broadcast_shapes(
            onp.shape(_host(shape)), onp.shape(_host(scale))), dtype=dtype, ctx=ctx)
    return into(out, found * scale)


def randint(low: int, high: int | None = None, size: Any = None, dtype: Any = None,
            ctx: Context | None = None, out: Any = None) -> Any:
    """Whole numbers evenly from [low, high), or from [0, low) when high is None; int64."""
    generator, ctx = _generator(ctx)
    low, high = (0, low) if high is None else (low, high)
    if high <= low:
        raise ArgumentValueError(f"np.random.randint: expected low < high, got {low} and {high}")
    kind = dtype_name(dtype or "int64")
    return into(out, array(generator.integers(low, high, shape_of(size)), kind, ctx))


def rand(*size: int, **kwargs: Any) -> Any:
    """Evenly from [0, 1), of the shape given."""
    return uniform(size=size, **kwargs)


def randn(*size: int, **kwargs: Any) -> Any:
    """From the standard normal distribution, of the shape given."""
    return normal(size=size, **kwargs)


def multinomial(n: int, pvals: Any, size: Any = None) -> Any:
    """How often each of the outcomes came in `n` draws, as int64.

    Args:
        n: number of draws. pvals: probabilities, which must not sum to more than 1.
        size: shape of independent experiments.
    """
    generator, ctx = _generator(pvals.ctx if isinstance(pvals, NDArray) else None)
    chances = onp.asarray(_host(pvals), "float64")
    total = float(chances.sum())
    if (chances < 0).any() or total > 1 + 1e-5:
        raise ArgumentValueError(f"np.random.multinomial: expected probabilities that sum to 1, "
                                 f"got a sum of {total}")
    drawn = generator.multinomial(n, chances / max(total, 1.0) if total > 1 else chances,
                                  None if size is None else shape_of(size))
    return array(drawn, "int64", ctx)


def multivariate_normal(mean: Any, cov: Any, size: Any = None, check_valid: str | None = None,
                        tol: float | None = None) -> Any:
    """From the normal distribution of several variables.

    Args:
        mean: means. cov: covariances, symmetric and without negative eigenvalues. size: shape of
            independent draws. check_valid, tol: NumPy's; nothing depends on them.

    Shapes: mean (*B, n), cov (*B, n, n), broadcast to one B -> (*size, *B, n).
    """
    generator, ctx = _generator(mean.ctx if isinstance(mean, NDArray) else None)
    mean, cov = onp.asarray(_host(mean), "float64"), onp.asarray(_host(cov), "float64")
    count = mean.shape[-1] if mean.ndim else 0
    if not count or cov.shape[-2:] != (count, count):
        raise ArgumentValueError("np.random.multivariate_normal: expected mean (..., n) and cov "
                                 f"(..., n, n), got {mean.shape} and {cov.shape}")
    values, vectors = onp.linalg.eigh(cov)
    root = vectors * onp.sqrt(onp.maximum(values, 0))[..., None, :]
    batch = onp.broadcast_shapes(mean.shape[:-1], cov.shape[:-2])
    drawn = generator.standard_normal(
        (*(() if size is None else shape_of(size)), *batch, count))
    return array((root @ drawn[..., None])[..., 0] + mean, "float32", ctx)


def choice(a: Any, size: Any = None, replace: bool = True, p: Any = None,
           ctx: Context | None = None, out: Any = None) -> Any:
    """Elements of `a` (or of range(a)), with or without putting back."""
    generator, ctx = _generator(ctx or (a.ctx if isinstance(a, NDArray) else None))
    values = _host(a)
    chances = None
    if p is not None:
        chances = onp.asarray(_host(p), "float64")
        chances = chances / chances.sum()
    try:
        drawn = generator.choice(values, None if size is None else shape_of(size), replace, chances)
    except ValueError as error:
        raise ArgumentValueError(f"np.random.choice: {error}") from None
    kind = "int64" if isinstance(a, (int, onp.integer)) else onp.asarray(
        values).dtype.name if isinstance(a, NDArray) else "float32"
    return into(out, array(drawn, kind, ctx))


def shuffle(x: Any) -> None:
    """Put the slices along the first axis in another order, in place."""
    if not isinstance(x, NDArray):
        raise ArgumentError(f"np.random.shuffle: expected an np.ndarray, got {type(x).__name__}")
    generator, _ = _generator(x.ctx)
    x[:] = x.asnumpy()[generator.permutation(len(x))]


def permutation(x: Any, ctx: Context | None = None) -> Any:
    """The slices of `x` along the first axis, or range(x), in another order."""
    if isinstance(x, (int, onp.integer)):
        generator, ctx = _generator(ctx)
        return array(generator.permutation(int(x)), "int64", ctx)
    generator, _ = _generator(x.ctx)
    return array(x.asnumpy()[generator.permutation(len(x))], x.dtype, x.ctx)
