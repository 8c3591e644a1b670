"""Draws: their distributions, and that a seed repeats them."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minigluon as mx
from minigluon import autograd, nd
from minigluon.base import MXNetError

COUNT = 40000


@pytest.fixture(autouse=True)
def seeded() -> None:
    mx.random.seed(11)


@pytest.mark.parametrize(("name", "attrs", "mean", "variance"), [
    ("random_uniform", {"low": -1, "high": 3}, 1, 16 / 12),
    ("random_uniform", {"low": -1, "high": 3, "dtype": "float64"}, 1, 16 / 12),
    ("random_uniform", {"low": -1, "high": 3, "dtype": "float16"}, 1, 16 / 12),
    ("random_normal", {"loc": 2, "scale": 3}, 2, 9),
    ("random_gamma", {"alpha": 3, "beta": 2}, 6, 12),
    ("random_exponential", {"lam": 2}, 0.5, 0.25),
    ("random_poisson", {"lam": 4}, 4, 4),
    ("random_randint", {"low": -2, "high": 5}, 1, 4),
])
def test_mean_and_variance(name: str, attrs: dict[str, Any], mean: float, variance: float) -> None:
    drawn = getattr(nd, name)(shape=(COUNT,), **attrs).asnumpy().astype("float64")
    assert abs(drawn.mean() - mean) < 5 * (variance / COUNT) ** 0.5
    assert abs(drawn.var() - variance) < 0.1 * variance


def test_a_seed_repeats() -> None:
    def draws() -> list[Any]:
        mx.random.seed(5)
        x = nd.arange(50)
        return [nd.random_uniform(shape=9), nd.random_normal(shape=9), nd.shuffle(x),
                nd.sample_multinomial(nd.ones((50,)) / 50, shape=9)]

    for first, second in zip(draws(), draws(), strict=True):
        np.testing.assert_array_equal(first.asnumpy(), second.asnumpy())


def test_randint_reaches_both_ends_and_no_further() -> None:
    drawn = nd.random_randint(-3, 3, shape=(1000,)).asnumpy()
    assert sorted(set(drawn.tolist())) == [-3, -2, -1, 0, 1, 2]
    large = nd.random_randint(2 ** 40, 2 ** 40 + 2, shape=(100,), dtype="int64").asnumpy()
    assert set(large.tolist()) == {2 ** 40, 2 ** 40 + 1}


def test_shuffle_gives_every_order_equally_often() -> None:
    x = nd.arange(3)
    found: dict[tuple[float, ...], int] = {}
    for _ in range(3000):
        order = tuple(nd.shuffle(x).asnumpy().tolist())
        found[order] = found.get(order, 0) + 1
    assert len(found) == 6
    assert all(abs(count / 3000 - 1 / 6) < 0.04 for count in found.values())


def test_multinomial_follows_the_probabilities() -> None:
    chances = np.array([[0.1, 0.0, 0.9], [0.5, 0.25, 0.25]], "float32")
    drawn = nd.sample_multinomial(nd.array(chances), shape=(COUNT,)).asnumpy()
    assert drawn.shape == (2, COUNT)
    for row, chance in zip(drawn, chances, strict=True):
        np.testing.assert_allclose(np.bincount(row, minlength=3) / COUNT, chance, atol=0.015)


def test_multinomial_log_probability_is_differentiable() -> None:
    chances = nd.array([[0.5, 0.5], [0.2, 0.8]])
    chances.attach_grad()
    with autograd.record():
        places, logs = nd.sample_multinomial(chances, get_prob=True)
        loss = nd.sum(logs)
    loss.backward()
    rows, picked = np.arange(2), places.asnumpy()
    expected = np.zeros((2, 2))
    expected[rows, picked] = 1 / chances.asnumpy()[rows, picked]
    np.testing.assert_allclose(chances.grad.asnumpy(), expected, rtol=1e-6)


def test_bad_settings_are_named() -> None:
    with pytest.raises(MXNetError, match="normal: scale: expected 0 or more, got -1"):
        nd.random_normal(0, -1, shape=(2,)).asnumpy()
