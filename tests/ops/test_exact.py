"""Corners that samples do not show: large values, many rows, special functions, warnings."""
from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from minigluon import autograd, nd


def test_order_of_long_rows_is_exact() -> None:
    row = np.random.default_rng(0).permutation(300096).astype("float32")
    x = nd.array(row)
    places = nd.topk(x, k=3, dtype="int32").asnumpy()
    np.testing.assert_array_equal(row[places], [300095, 300094, 300093])
    order = nd.argsort(x, dtype="int32").asnumpy()
    np.testing.assert_array_equal(row[order], np.arange(300096))
    np.testing.assert_array_equal(nd.topk(x, k=0, is_ascend=True).asnumpy(), order)


def test_large_integers_survive() -> None:
    x = nd.array([50000001, 16800001], dtype="int32")
    for name in ("floor", "round", "ceil", "trunc", "rint", "fix", "abs"):
        assert getattr(nd, name)(x).asnumpy().tolist() == [50000001, 16800001]
    assert (x + 1).asnumpy().tolist() == [50000002, 16800002]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_erf_is_accurate_everywhere(dtype: str) -> None:
    x = np.concatenate([np.linspace(-7, 7, 2001), 10.0 ** np.arange(-20, 0)]).astype(dtype)
    exact = np.array([math.erf(value) for value in x.astype("float64")])
    found = nd.erf(nd.array(x, dtype=dtype)).asnumpy()
    np.testing.assert_allclose(found, exact, rtol=10 * np.finfo(dtype).eps)


def test_gamma_family() -> None:
    x = np.concatenate([np.linspace(0.05, 30, 500), np.linspace(-5.9, -5.1, 9)])
    values = nd.array(x, dtype="float64")
    np.testing.assert_allclose(nd.gamma(values).asnumpy(), [math.gamma(v) for v in x], rtol=1e-12)
    np.testing.assert_allclose(nd.gammaln(values).asnumpy(), [math.lgamma(v) for v in x],
                               rtol=1e-12, atol=1e-12)
    poles = nd.array([0, -1, -2])
    assert np.isinf(nd.gammaln(poles).asnumpy()).all()


def test_infinite_and_missing_numbers_give_no_warnings() -> None:
    x = nd.array([0, -1, float("inf"), float("nan")])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("log", "sqrt", "reciprocal", "exp", "tan", "arcsin", "gamma", "sigmoid"):
            getattr(nd, name)(x).asnumpy()
        (x / 0).asnumpy()
        nd.broadcast_power(x, x).asnumpy()


def test_relu_and_maximum_pass_nan_on() -> None:
    x = nd.array([float("nan"), 1, -1])
    x.attach_grad()
    with autograd.record():
        y = nd.relu(x)
    y.backward()
    np.testing.assert_array_equal(y.asnumpy(), [np.nan, 1, 0])
    np.testing.assert_array_equal(x.grad.asnumpy(), [np.nan, 1, 0])


def test_product_has_a_gradient_at_zero() -> None:
    x = nd.array([[0, 2, 3], [0, 0, 4]])
    x.attach_grad()
    with autograd.record():
        y = nd.prod(x, axis=1)
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [[6, 0, 0], [0, 0, 0]])


def test_half_sums_do_not_stall() -> None:
    x = nd.ones((40000,), dtype="float16")
    assert nd.mean(x).asscalar() == 1
    assert nd.sum(x).asscalar() == np.float16(40000)


def test_picked_twice_counts_twice() -> None:
    x = nd.zeros((3, 2))
    x.attach_grad()
    with autograd.record():
        y = nd.take(x, nd.array([0, 2, 2, 2]))
    y.backward()
    assert x.grad.asnumpy().tolist() == [[1, 1], [0, 0], [3, 3]]


def test_arrays_without_axes_stay_arrays() -> None:
    x = nd.array(np.array(0.5))
    for y in (x + 1, x + x, nd.exp(x), nd.sigmoid(x), nd.relu(x), nd.erf(x), nd.clip(x, 0, 1)):
        assert y.shape == ()
        y[...] = 3
        assert y.asnumpy() == 3


def test_means_of_integers_are_cut_towards_zero() -> None:
    rows = nd.array([[-1, -2, 0], [3, 4, 4], [-3, -3, -3]], dtype="int32")
    assert rows.mean(axis=1).asnumpy().tolist() == [-1, 3, -3]
    assert rows[:1, :2].mean().asnumpy().tolist() == [-1]
