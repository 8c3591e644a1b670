"""Linear equations and singular values of NumPy's interface."""
from __future__ import annotations

from typing import Any

import numpy as np

from ...base import MXNetError, ShapeError
from ..operator import Attrs, operator
from ..rules import Shapes
from ..triangular import computable

__all__: list[str] = []

Array = Any


def _turned(x: Array) -> Array:
    return x.swapaxes(-1, -2)


def _solve_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    a, b = shapes
    if a is not None and b is not None and (len(b) < 2 or len(a) != len(b) or any(
            size and other and size != other
            for size, other in zip(a, (*b[:-1], b[-2]), strict=True))):
        raise ShapeError(f"np.linalg.solve: expected (..., n, n) and (..., n, k), got {a} and {b}")
    return shapes, [b]


def _solve_back(F: Any, dy: Any, out: Any, a: Any, b: Any, *, transpose: bool) -> list[Any]:
    # a x = b: db = a^-T dx, da = -db x^T; for a^T x = b, da is that turned
    db = F._npi_solve(a, dy, transpose=not transpose)
    left, right = (out, db) if transpose else (db, out)
    return [F.negative(F.linalg_gemm2(left, right, transpose_b=True)), db]


@operator("_npi_solve", infer=_solve_shape, gradient=_solve_back)
def solve(xp: Any, a: Array, b: Array, *, transpose: bool = False) -> Array:
    """x with a x = b (or a.T x = b) for each pair of matrices.

    Shapes: a (..., n, n), b (..., n, k) -> (..., n, k).
    """
    left, right = computable(xp, a), computable(xp, b)
    try:
        found = xp.linalg.solve(_turned(left) if transpose else left, right)
    except np.linalg.LinAlgError as error:
        raise MXNetError(f"np.linalg.solve: {error}").at_run_time() from None
    return found.astype(a.dtype, copy=False)


def _svd_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    [a] = shapes
    if a is None or len(a) < 2:
        return shapes, [None] * 3
    *lead, m, n = a
    k = min(m, n)
    return shapes, [(*lead, m, k), (*lead, k), (*lead, k, n)]


@operator("_npi_svd", num_outputs=3, infer=_svd_shape,
          gradient=lambda F, dys, outs, a: [F._npi_svd_grad(
              *[F.zeros_like(out) if dy is None else dy
                for dy, out in zip(dys, outs, strict=True)], *outs)])
def svd(xp: Any, a: Array) -> tuple[Array, Array, Array]:
    """(u, s, v) with a = u diag(s) v; s falls.

    Shapes: a (..., m, n), k = min(m, n) -> u (..., m, k), s (..., k), v (..., k, n).
    """
    try:
        parts = xp.linalg.svd(computable(xp, a), full_matrices=False)
    except np.linalg.LinAlgError as error:
        raise MXNetError(f"np.linalg.svd: {error}").at_run_time() from None
    return tuple(part.astype(a.dtype, copy=False) for part in parts)


def _svd_grad_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    u, v = shapes[3], shapes[5]
    return shapes, [None if u is None or v is None else (*u[:-1], v[-1])]


@operator("_npi_svd_grad", infer=_svd_grad_shape)
def _svd_grad(xp: Any, du: Array, ds: Array, dv: Array, u: Array, s: Array, v: Array) -> Array:
    """The gradient of a. Singular values must differ from one another, and from 0, for what
    depends on u and v; what depends on s alone has a gradient everywhere.

    J. Townsend, "Differentiating the Singular Value Decomposition", 2016: with
    F[i, j] = 1 / (s[j]^2 - s[i]^2) off the diagonal and K(x) = x - x^T,
    u ((F * K(u^T du)) diag(s) + diag(s) (F * K(v dv^T)) + diag(ds)) v, and what du and dv have
    outside the spaces of u and v, divided by s.
    """
    squares = s * s
    gaps = squares[..., None, :] - squares[..., :, None]
    gaps[gaps == 0] = xp.inf
    left, right = _turned(u) @ du, v @ _turned(dv)
    inner = ((left - _turned(left)) / gaps * s[..., None, :]
             + s[..., :, None] * (right - _turned(right)) / gaps)
    inner[..., range(s.shape[-1]), range(s.shape[-1])] += ds
    total = u @ inner @ v
    if u.shape[-2] > s.shape[-1]:
        total += (du - u @ left) / s[..., None, :] @ v
    if v.shape[-1] > s.shape[-1]:
        total += u / s[..., None, :] @ (dv - _turned(right) @ v)
    return total
