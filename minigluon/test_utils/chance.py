"""Whether numbers are drawn as they should be: mean, variance, chi-square."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base import ArgumentValueError

__all__ = ["chi_square_check", "gen_buckets_probs_with_ppf", "mean_check", "var_check",
           "verify_generator"]

Generator = Callable[[int], Any]


def _drawn(generator: Generator, count: int) -> np.ndarray[Any, Any]:
    found = generator(count)
    return np.asarray(found.asnumpy() if hasattr(found, "asnumpy") else found).reshape(-1)


def gen_buckets_probs_with_ppf(ppf: Callable[[float], float], nbuckets: int
                               ) -> tuple[list[tuple[float, float]], list[float]]:
    """Buckets of equal chance, from the inverse of a distribution function.

    >>> gen_buckets_probs_with_ppf(lambda chance: 2 * chance, 2)
    ([(0.0, 1.0), (1.0, 2.0)], [0.5, 0.5])
    """
    if nbuckets < 1:
        raise ArgumentValueError(f"gen_buckets_probs_with_ppf: nbuckets: expected 1 or more, got "
                                 f"{nbuckets}")
    chance = 1.0 / nbuckets
    return ([(ppf(at * chance), ppf((at + 1) * chance)) for at in range(nbuckets)],
            [chance] * nbuckets)


def mean_check(generator: Generator, mu: float, sigma: float, nsamples: int = 1000000) -> bool:
    """Whether the mean of what is drawn is within three of its own deviations from `mu`.

    Args:
        generator: gives so many numbers. mu, sigma: mean and deviation that they should have.
    """
    away = abs(float(_drawn(generator, nsamples).mean()) - mu)
    return away < 3 * sigma / math.sqrt(nsamples)


def var_check(generator: Generator, sigma: float, nsamples: int = 1000000) -> bool:
    """Whether the variance of what is drawn is within three of its own deviations from sigma^2."""
    away = abs(float(_drawn(generator, nsamples).var(ddof=1)) - sigma**2)
    return away < 3 * math.sqrt(2 * sigma**4 / (nsamples - 1))


def chi_square_check(generator: Generator, buckets: Sequence[Any], probs: Sequence[float],
                     nsamples: int = 1000000
                     ) -> tuple[float, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Pearson's chi-square test of what is drawn.

    Args:
        generator: gives so many numbers.
        buckets: ranges (low, high), ascending and apart; or single values.
        probs: the chance of each. nsamples: how many to draw.

    Returns:
        The chance of a result as far off as this, the counts found and those expected.
    """
    if len(buckets) != len(probs):
        raise ArgumentValueError(f"chi_square_check: expected one chance for each bucket, got "
                                 f"{len(probs)} for {len(buckets)}")
    values = _drawn(generator, nsamples)
    if isinstance(buckets[0], (list, tuple)):
        edges = np.array(buckets, dtype=float).reshape(-1)
        if (np.diff(edges) < 0).any():
            raise ArgumentValueError(f"chi_square_check: expected ascending buckets that do not "
                                     f"meet, got {list(buckets)}")
        places = np.searchsorted(edges, values, side="right")
        found = np.array([(places == 2 * at + 1).sum() for at in range(len(buckets))])
    else:
        found = np.array([(values == value).sum() for value in buckets])
    expected = np.asarray(probs, dtype=float) * nsamples
    statistic = float(((found - expected) ** 2 / expected).sum())
    return _chi_square_tail(statistic, len(buckets) - 1), found, expected


def _chi_square_tail(statistic: float, freedom: int) -> float:
    """The chance that a chi-square variable is larger: Q(freedom / 2, statistic / 2).

    Series and continued fraction of the incomplete gamma function: Abramowitz and Stegun 6.5.29
    and 6.5.31, the latter by the method of Lentz.
    """
    a, x = freedom / 2, statistic / 2
    if freedom < 1 or x <= 0:
        return 1.0
    front = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1:
        term = total = 1 / a
        for step in range(1, 1000):
            term *= x / (a + step)
            total += term
            if term < total * 1e-16:
                break
        return 1 - front * total
    b = x + 1 - a
    c, d = 1e300, 1 / b
    value = d
    for step in range(1, 1000):
        factor = -step * (step - a)
        b += 2
        d = 1 / (factor * d + b)
        c = b + factor / c
        value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return front * value


def verify_generator(generator: Generator, buckets: Sequence[Any], probs: Sequence[float],
                     nsamples: int = 1000000, nrepeat: int = 5, success_rate: float = 0.2,
                     alpha: float = 0.05) -> list[float]:
    """Fail unless a share `success_rate` of `nrepeat` chi-square tests pass at level `alpha`.

    Returns:
        The chances that the tests found.
    """
    results, counts = [], []
    for _ in range(nrepeat):
        chance, found, expected = chi_square_check(generator, buckets, probs, nsamples)
        results.append(chance)
        counts.append(found)
    passed = sum(chance > alpha for chance in results)
    if passed < nrepeat * success_rate:
        raise AssertionError(
            f"Generator test fails, Chi-square p={results}, obs_freq={counts}, "
            f"expected_freq={expected}.\nbuckets={list(buckets)}, probs={list(probs)}")
    return results
