"""Linear algebra: gradients along symmetric directions, identities that must hold."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minigluon import autograd, nd

Scalar = Callable[[Any], Any]


def _definite(size: int) -> np.ndarray:
    drawn = np.random.default_rng(0).uniform(-1, 1, (2, size, size))
    return drawn @ drawn.transpose(0, 2, 1) + np.eye(size)


def _weights(array: Any) -> Any:
    return nd.array(np.random.default_rng(1).uniform(0.5, 1.5, array.shape), dtype="float64")


def _eigen(A: Any) -> Any:
    U, L = nd.linalg_syevd(A)
    return (U * _weights(U)).sum() + (L * _weights(L)).sum()


def _cholesky(A: Any) -> Any:
    L = nd.linalg_potrf(A)
    return (L * _weights(L)).sum()


@pytest.mark.parametrize("function", [_eigen, _cholesky])
def test_gradient_of_symmetric_matrices(function: Scalar) -> None:
    start = _definite(3)
    along = np.random.default_rng(2).uniform(-1, 1, start.shape)
    along = along + along.transpose(0, 2, 1)
    upper, lower = (float(function(nd.array(start + step * along, dtype="float64")).asscalar())
                    for step in (1e-6, -1e-6))
    A = nd.array(start, dtype="float64")
    A.attach_grad()
    with autograd.record():
        value = function(A)
    value.backward()
    grad = A.grad.asnumpy()
    np.testing.assert_allclose(grad, grad.transpose(0, 2, 1), rtol=1e-12)
    np.testing.assert_allclose((grad * along).sum(), (upper - lower) / 2e-6, rtol=1e-6)


def test_eigenvectors_rebuild_the_matrix() -> None:
    A = nd.array(_definite(4), dtype="float64")
    U, L = nd.linalg.syevd(A)
    rebuilt = nd.linalg.gemm2(U, nd.broadcast_mul(U, L.expand_dims(-1)), transpose_a=True)
    np.testing.assert_allclose(rebuilt.asnumpy(), A.asnumpy(), rtol=1e-10)
    assert (np.diff(L.asnumpy()) >= 0).all()
    rows = U.asnumpy()
    assert (np.take_along_axis(rows, np.abs(rows).argmax(-1)[..., None], -1) > 0).all()


def test_lq_rebuilds_the_matrix() -> None:
    A = nd.array(np.random.default_rng(3).uniform(-1, 1, (2, 3, 5)), dtype="float64")
    Q, L = nd.linalg.gelqf(A)
    np.testing.assert_allclose(nd.linalg.gemm2(L, Q).asnumpy(), A.asnumpy(), rtol=1e-10)
    np.testing.assert_allclose(nd.linalg.gemm2(Q, Q, transpose_b=True).asnumpy(),
                               np.broadcast_to(np.eye(3), (2, 3, 3)), atol=1e-12)
    assert not np.triu(L.asnumpy(), 1).any()


def test_inverse_from_the_factor() -> None:
    A = nd.array(_definite(3), dtype="float64")
    found = nd.linalg.potri(nd.linalg.potrf(A))
    np.testing.assert_allclose(found.asnumpy(), np.linalg.inv(A.asnumpy()), rtol=1e-10)
