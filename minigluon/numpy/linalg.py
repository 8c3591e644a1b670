"""``np.linalg``: norms, inverses, determinants, equations and singular values with gradients.

The rest (cond, matrix_rank, qr, eig, eigvals, multi_dot, lstsq) is NumPy's.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as onp

from ..base import ArgumentValueError, MXNetError
from ..ops.rules import axis_of
from ..symbol import Symbol
from .arrange import FUNCTIONS as ARRANGE
from .array import face, lower
from .elementwise import FUNCTIONS as ELEMENTWISE
from .elementwise import floating, lifted
from .fold import FUNCTIONS as FOLDS
from .product import matmul

__all__ = [
    "cholesky", "cond", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq",
    "matrix_power", "matrix_rank", "multi_dot", "norm", "pinv", "qr", "slogdet", "solve", "svd",
    "tensorinv", "tensorsolve",
]


def _by_numpy(name: str) -> Any:
    compute = lower(getattr(onp.linalg, name))

    def function(*args: Any, **kwargs: Any) -> Any:
        try:
            return compute(*[floating(lifted(x)) if hasattr(x, "asnumpy") else x for x in args],
                           **kwargs)
        except onp.linalg.LinAlgError as error:
            raise MXNetError(f"np.linalg.{name}: {error}") from None

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"``numpy.linalg.{name}``, computed by NumPy on the host, without gradient."
    return function


cond, matrix_rank, qr = map(_by_numpy, ("cond", "matrix_rank", "qr"))
eig, eigvals, multi_dot = map(_by_numpy, ("eig", "eigvals", "multi_dot"))


def _square(name: str, a: Any) -> Any:
    a = floating(lifted(a))
    if not isinstance(a, Symbol) and (a.ndim < 2 or a.shape[-1] != a.shape[-2]):
        raise ArgumentValueError(f"np.linalg.{name}: expected square matrices in the last two "
                                 f"axes, got shape {a.shape}")
    return a


def _each(name: str, target: str, a: Any) -> Any:
    """One number for each matrix; shape () for one matrix alone."""
    a = _square(name, a)
    compute = getattr(face(a), target)
    if not isinstance(a, Symbol) and a.ndim > 2:
        return compute(a)
    found = compute(a.expand_dims(0))  # of a Symbol it is not known whether there are several
    return [x.squeeze(axis=0) for x in found] if name == "slogdet" else found.squeeze(axis=0)


def inv(a: Any) -> Any:
    """The inverse of each matrix in the last two axes."""
    a = _square("inv", a)
    return face(a).linalg_inverse(a)


def det(a: Any) -> Any:
    """The determinant of each matrix in the last two axes."""
    return _each("det", "linalg_det", a)


def slogdet(a: Any) -> Any:
    """Sign and logarithm of the determinant of each matrix."""
    return tuple(_each("slogdet", "linalg_slogdet", a))


def cholesky(a: Any) -> Any:
    """The lower triangle whose product with its transpose is the matrix."""
    a = _square("cholesky", a)
    return face(a).linalg_potrf(a)


def solve(a: Any, b: Any) -> Any:
    """x with a x = b, for each matrix in the last two axes of `a`; b: matrices or vectors.

    >>> from minigluon import np
    >>> solve(np.array([[2, 0], [0, 4]]), np.array([2, 2]))
    array([1. , 0.5])
    """
    a, b = _square("solve", a), floating(lifted(b))
    if isinstance(b, Symbol) or b.ndim != a.ndim - 1:
        return face(a, b)._npi_solve(a, b)
    return face(a, b)._npi_solve(a, b.expand_dims(-1)).squeeze(axis=-1)


def tensorinv(a: Any, ind: int = 2) -> Any:
    """The inverse with respect to ``tensordot(a, x, ind)``: of the matrix whose rows are the first
    `ind` axes.
    """
    if ind < 1:
        raise ArgumentValueError(f"np.linalg.tensorinv: ind: expected 1 or more, got {ind}")
    a = floating(lifted(a))
    rows = math.prod(a.shape[:ind])
    return inv(a.reshape((rows, -1))).reshape((*a.shape[ind:], *a.shape[:ind]))


def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    """x with ``tensordot(a, x, x.ndim) == b``; `axes` of a are moved to its end before."""
    a, b = floating(lifted(a)), floating(lifted(b))
    if axes is not None:
        moved = [axis_of(axis, a.ndim, "np.linalg.tensorsolve: axes")
                 for axis in ((axes,) if isinstance(axes, int) else axes)]
        a = a.transpose([*(axis for axis in range(a.ndim) if axis not in moved), *moved])
    columns = a.shape[b.ndim:]
    return solve(a.reshape((-1, math.prod(columns))), b.reshape((-1,))).reshape(columns)


def svd(a: Any) -> Any:
    """Singular values: (ut, l, v) with a = ut diag(l) v, as MXNet has it (v: rows)."""
    a = floating(lifted(a))
    return tuple(face(a)._npi_svd(a))


def pinv(a: Any, rcond: Any = 1e-15, hermitian: bool = False) -> Any:
    """The pseudo-inverse of each matrix (Moore and Penrose's), by its singular values.

    Args:
        a: matrices in the last two axes. rcond: singular values below this part of the largest
            count as 0; a number, or one for each matrix. hermitian: nothing depends on it.

    Shapes: a (..., m, n) -> (..., n, m).
    """
    left, values, right = svd(a)
    rcond = rcond if isinstance(rcond, float) else lifted(rcond).expand_dims(-1)
    kept = ELEMENTWISE["greater"](values, FOLDS["max"](values, -1, keepdims=True) * rcond)
    where = ELEMENTWISE["where"]
    inverse = where(kept, 1 / where(kept, values, 1.0), 0.0 * values)
    return matmul(right.swapaxes(-1, -2) * inverse.expand_dims(-2), left.swapaxes(-1, -2))


def eigh(a: Any, UPLO: str = "L") -> Any:
    """Eigenvalues, rising, and eigenvectors (in columns) of symmetric matrices.

    Args:
        a: matrices, of which one triangle is read. UPLO: which: 'L', the lower one, or 'U'. The
            gradient exists where the eigenvalues differ.

    Shapes: a (..., n, n) -> (..., n) and (..., n, n).
    """
    a = _square("eigh", a)
    if UPLO not in ("L", "U"):
        raise ArgumentValueError(f"np.linalg.eigh: UPLO: expected 'L' or 'U', got {UPLO!r}")
    rows, values = face(a).linalg_syevd(a if UPLO == "L" else a.swapaxes(-1, -2))
    return values, rows.swapaxes(-1, -2)


def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    """Eigenvalues of symmetric matrices, rising; arguments as `eigh`'s."""
    return eigh(a, UPLO)[0]


def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """The least-squares solution: (x, residuals, rank, singular values)."""
    return _by_numpy("lstsq")(a, b, rcond=None if rcond == "warn" else rcond)


def matrix_power(a: Any, n: int) -> Any:
    """The matrix times itself, `n` times; negative: of its inverse."""
    a = _square("matrix_power", a)
    base = inv(a) if n < 0 else a
    if n == 0:
        return a * 0 + lifted(onp.eye(a.shape[-1])).astype(a.dtype).as_in_ctx(a.ctx)
    found = base
    for _ in range(abs(n) - 1):
        found = matmul(found, base)
    return found


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Length of vectors or norm of matrices.

    Args:
        x: an array. ord: None (root of the sum of squares), 1, 2, inf, -inf, 0 or any number for
            vectors; 'fro', 'nuc', 1, -1, 2, -2, inf, -inf for matrices.
        axis: one axis: vectors; two: matrices; None: all of it.

    >>> from minigluon import np
    >>> norm(np.array([3, 4]))
    array(5.)
    """
    x = floating(lifted(x))
    ord = {"inf": onp.inf, "-inf": -onp.inf}.get(ord, ord)
    size, total = ELEMENTWISE["abs"], FOLDS["sum"]
    if ord is None or (ord == "fro" and (axis is None or isinstance(axis, tuple))):
        return ELEMENTWISE["sqrt"](total(ELEMENTWISE["square"](x), axis, keepdims=keepdims))
    if axis is None:
        axis = (x.ndim - 2, x.ndim - 1) if x.ndim >= 2 else 0
    if isinstance(axis, (tuple, list)) and len(axis) == 2:
        row, column = axis
        if ord in (2, -2, "nuc"):
            return _by_values(x, ord, row, column, keepdims)
        along = {1: (row, column), -1: (row, column), onp.inf: (column, row),
                 -onp.inf: (column, row)}.get(ord)
        if along is None:
            raise ArgumentValueError(f"np.linalg.norm: ord: expected 'fro', 'nuc', 1, -1, 2, -2, "
                                     f"inf or -inf for matrices, got {ord!r}")
        sums = total(size(x), along[0], keepdims=True)
        found = FOLDS["max" if ord > 0 else "min"](sums, along[1], keepdims=True)
        return found if keepdims else found.squeeze(axis=tuple(axis))
    axis = axis[0] if isinstance(axis, (tuple, list)) else axis
    if ord in (onp.inf, -onp.inf):
        return FOLDS["max" if ord > 0 else "min"](size(x), axis, keepdims=keepdims)
    if ord == 0:
        return total(ELEMENTWISE["not_equal"](x, 0).astype(x.dtype), axis, keepdims=keepdims)
    if isinstance(ord, str):
        raise ArgumentValueError(f"np.linalg.norm: ord {ord!r} is for matrices, axis {axis} names "
                                 "vectors")
    return total(size(x) ** ord, axis, keepdims=keepdims) ** (1.0 / ord)


def _by_values(x: Any, ord: Any, row: int, column: int, keepdims: bool) -> Any:
    """The largest, the smallest or the sum of the singular values."""
    values = svd(ARRANGE["moveaxis"](x, (row, column), (-2, -1)))[1]
    found = FOLDS[{2: "max", -2: "min", "nuc": "sum"}[ord]](values, -1)
    if not keepdims:
        return found
    if (row < 0) != (column < 0):
        row, column = row % x.ndim, column % x.ndim
    for axis in sorted((row, column), reverse=row < 0):
        found = found.expand_dims(axis)
    return found
