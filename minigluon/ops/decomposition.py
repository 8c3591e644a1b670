"""Decompositions, inverses and determinants of stacks of matrices: the rest of ``linalg``."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base import MXNetError, ShapeError
from .operator import Attrs, operator
from .rules import Shapes, merge_shapes
from .triangular import computable, matrix_of, matrix_shape, square

__all__: list[str] = []

Array = Any


# -- a number for each matrix ----------------------------------------------------------------------

def _per_matrix_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    return [square(shapes[0])], [matrix_of(shapes[0])]


def _spread_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    return shapes, [shapes[1]]


@operator("_linalg_spread", infer=_spread_shape,
          gradient=lambda F, u, out, values, like: [
              F.reshape_like(F._sum_like(u, F._linalg_column(values, like)), values), None])
def spread(xp: Any, values: Array, like: Array) -> Array:
    """Each value at every element of the matrix it belongs to; `like` gives the shape."""
    return xp.broadcast_to(values.reshape(*like.shape[:-2], 1, 1), like.shape).copy()


def _column_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    like = shapes[1]
    return shapes, [None if like is None else (*like[:-2], 1, 1)]


@operator("_linalg_column", infer=_column_shape,
          gradient=lambda F, u, out, values, like: [F.reshape_like(u, values), None])
def column(xp: Any, values: Array, like: Array) -> Array:
    """One value for each matrix, as a stack of matrices of one element."""
    return values.reshape(*like.shape[:-2], 1, 1).copy()


def _sumlogdiag_back(F: Any, dy: Any, out: Any, A: Any) -> list[Any]:
    slopes = F._linalg_makediag(F.reciprocal(F._linalg_extractdiag(A)))
    return [F.elemwise_mul(F._linalg_spread(dy, A), slopes)]


@operator("_linalg_sumlogdiag", infer=_per_matrix_shape, gradient=_sumlogdiag_back,
          aliases=("linalg_sumlogdiag",))
def sumlogdiag(xp: Any, A: Array) -> Array:
    """The sum of the logarithms of each matrix's diagonal.

    Args:
        A: square matrices with a positive diagonal.

    Shapes: A (*S, N, N) -> (*S), (1,) for one matrix.

    >>> import minigluon as mx
    >>> mx.nd.linalg_sumlogdiag(mx.nd.array([[1, 5], [5, 1]])).asnumpy().tolist()
    [0.0]
    """
    diagonal = xp.diagonal(A, axis1=-2, axis2=-1)
    return xp.log(diagonal).sum(axis=-1, dtype=A.dtype).reshape(A.shape[:-2] or (1,))


def _det_back(F: Any, dy: Any, out: Any, A: Any) -> list[Any]:
    slopes = F._linalg_transpose(F._linalg_inverse(A))
    return [F.elemwise_mul(F._linalg_spread(F.elemwise_mul(dy, out), A), slopes)]


@operator("_linalg_det", infer=_per_matrix_shape, gradient=_det_back, aliases=("linalg_det",),
          output_names=("output0",))
def det(xp: Any, A: Array) -> Array:
    """The determinant of each matrix. The gradient needs matrices that can be inverted.

    Args:
        A: square matrices.

    Shapes: A (*S, N, N) -> (*S), (1,) for one matrix.

    >>> import minigluon as mx
    >>> mx.nd.linalg_det(mx.nd.array([[2, 0], [0, 3]])).asnumpy().round(4).tolist()
    [6.0]
    """
    found = xp.asarray(xp.linalg.det(computable(xp, A)))
    return found.astype(A.dtype, copy=False).reshape(A.shape[:-2] or (1,))


def _slogdet_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    return [square(shapes[0])], [matrix_of(shapes[0])] * 2


def _slogdet_back(F: Any, dy: Sequence[Any], out: Sequence[Any], A: Any) -> list[Any]:
    if dy[1] is None:
        return [None]
    slopes = F._linalg_transpose(F._linalg_inverse(A))
    return [F.elemwise_mul(F._linalg_spread(dy[1], A), slopes)]


@operator("_linalg_slogdet", infer=_slogdet_shape, gradient=_slogdet_back, num_outputs=2,
          aliases=("linalg_slogdet",), infer_dtype=lambda dtypes, attrs: (dtypes, dtypes * 2))
def slogdet(xp: Any, A: Array) -> tuple[Array, Array]:
    """Sign of the determinant of each matrix, and the logarithm of its absolute value.

    Args:
        A: square matrices.

    Shapes: A (*S, N, N) -> (*S) twice, (1,) for one matrix.

    >>> import minigluon as mx
    >>> sign, log = mx.nd.linalg_slogdet(mx.nd.array([[0, 1], [1, 0]]))
    >>> sign.asnumpy().tolist(), log.asnumpy().tolist()
    ([-1.0], [0.0])
    """
    shape = A.shape[:-2] or (1,)
    sign, log = xp.linalg.slogdet(computable(xp, A))
    return (xp.asarray(sign).astype(A.dtype, copy=False).reshape(shape),
            xp.asarray(log).astype(A.dtype, copy=False).reshape(shape))


def _inverse_back(F: Any, dy: Any, out: Any, A: Any) -> list[Any]:
    left = F._linalg_gemm2(out, dy, transpose_a=True)
    return [F._linalg_gemm2(left, out, transpose_b=True, alpha=-1.0)]


@operator("_linalg_inverse", infer=matrix_shape, gradient=_inverse_back,
          aliases=("linalg_inverse",))
def inverse(xp: Any, A: Array) -> Array:
    """The inverse of each matrix.

    Args:
        A: square matrices.

    Shapes: A (*S, N, N) -> (*S, N, N).

    >>> import minigluon as mx
    >>> mx.nd.linalg_inverse(mx.nd.array([[2, 0], [0, 4]])).asnumpy().tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    try:
        return xp.linalg.inv(computable(xp, A)).astype(A.dtype, copy=False)
    except xp.linalg.LinAlgError:
        raise MXNetError("_linalg_inverse: A is singular: it has no inverse") from None


# -- products --------------------------------------------------------------------------------------

def _syrk_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    shape = shapes[0]
    if shape is None:
        return shapes, [None]
    if len(shape) < 2:
        raise ShapeError(f"expected matrices, got {shape}")
    size = shape[-1 if attrs["transpose"] else -2]
    return shapes, [(*shape[:-2], size, size)]


def _syrk_back(F: Any, dy: Any, out: Any, A: Any, *, transpose: bool, alpha: float) -> list[Any]:
    both = F.elemwise_add(dy, F._linalg_transpose(dy))
    left, right = (A, both) if transpose else (both, A)
    return [F._linalg_gemm2(left, right, alpha=alpha)]


@operator("_linalg_syrk", infer=_syrk_shape, gradient=_syrk_back, aliases=("linalg_syrk",))
def syrk(xp: Any, A: Array, *, transpose: bool = False, alpha: float = 1.0) -> Array:
    """Each matrix times its own transpose: alpha A A', or alpha A' A.

    Args:
        A: matrices. transpose: the second form. alpha: a factor.

    Shapes: A (*S, N, M) -> (*S, N, N); (*S, M, M) with transpose.

    >>> import minigluon as mx
    >>> mx.nd.linalg_syrk(mx.nd.array([[1, 2]]), alpha=2).asnumpy().tolist()
    [[10.0]]
    """
    other = A.swapaxes(-1, -2)
    product = xp.matmul(other, A) if transpose else xp.matmul(A, other)
    return product * product.dtype.type(alpha)


# -- eigenvalues -----------------------------------------------------------------------------------

def _syevd_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    shape = square(shapes[0])
    return [shape], [shape, None if shape is None else shape[:-1]]


def _syevd_back(F: Any, dy: Sequence[Any], out: Sequence[Any], A: Any) -> list[Any]:
    U, values = out
    inner = F._linalg_makediag(F.zeros_like(values) if dy[1] is None else dy[1])
    if dy[0] is not None:
        # dU turns the vectors into one another, the faster the closer their values are
        turns = F._linalg_gemm2(dy[0], U, transpose_b=True)
        inner = F.elemwise_add(inner, F.elemwise_mul(turns, F._linalg_gaps(values)))
    full = F._linalg_gemm2(F._linalg_gemm2(U, inner, transpose_a=True), U)
    return [F._mul_scalar(F.elemwise_add(full, F._linalg_transpose(full)), scalar=0.5)]


@operator("_linalg_syevd", infer=_syevd_shape, gradient=_syevd_back, num_outputs=2,
          aliases=("linalg_syevd",), infer_dtype=lambda dtypes, attrs: (dtypes, dtypes * 2))
def syevd(xp: Any, A: Array) -> tuple[Array, Array]:
    """Eigenvectors and eigenvalues: U and L with A = U' diag(L) U, L ascending.

    Args:
        A: symmetric matrices. The largest element of each row of U is made positive. The gradient
            exists where the eigenvalues differ; it is symmetric.

    Shapes: A (*S, N, N) -> (*S, N, N) with an eigenvector a row, and (*S, N).

    >>> import minigluon as mx
    >>> U, L = mx.nd.linalg_syevd(mx.nd.array([[2, 0], [0, 1]]))
    >>> U.asnumpy().tolist(), L.asnumpy().tolist()
    ([[0.0, 1.0], [1.0, 0.0]], [1.0, 2.0])
    """
    values, vectors = xp.linalg.eigh(computable(xp, A))
    rows = vectors.swapaxes(-1, -2)
    largest = xp.argmax(xp.abs(rows), axis=-1)[..., None]
    signs = xp.where(xp.take_along_axis(rows, largest, axis=-1) < 0, -1, 1)
    return (rows * signs).astype(A.dtype, copy=False), values.astype(A.dtype, copy=False)


def _gaps_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    shape = shapes[0]
    return shapes, [None if shape is None else (*shape, shape[-1])]


@operator("_linalg_gaps", infer=_gaps_shape)
def gaps(xp: Any, values: Array) -> Array:
    """1 / (values[i] - values[j]), 0 on the diagonal."""
    apart = values[..., :, None] - values[..., None, :]
    same = xp.eye(values.shape[-1], dtype=bool)
    return xp.where(same, values.dtype.type(0), 1 / xp.where(same, values.dtype.type(1), apart))


# -- LQ --------------------------------------------------------------------------------------------

def _gelqf_shape(shapes: Shapes, attrs: Attrs, outs: Shapes | None = None
                 ) -> tuple[Shapes, Shapes]:
    shape = merge_shapes(shapes[0], outs[0]) if outs else shapes[0]
    if shape is None:
        return [shape], [None, None]
    if len(shape) < 2 or (shape[-1] and shape[-2] > shape[-1]):
        raise ShapeError(f"expected matrices with at least as many columns as rows, got {shape}")
    return [shape], [shape, (*shape[:-1], shape[-2])]


def _gelqf_back(F: Any, dy: Sequence[Any], out: Sequence[Any], A: Any) -> list[Any]:
    Q, L = out
    dQ = F.zeros_like(Q) if dy[0] is None else dy[0]
    dL = F.zeros_like(L) if dy[1] is None else dy[1]
    M = F.elemwise_sub(F._linalg_gemm2(L, dL, transpose_a=True),
                       F._linalg_gemm2(dQ, Q, transpose_b=True))
    half = F._linalg_triangle(M, diagonal=0.5)
    both = F.elemwise_add(half, F._linalg_transpose(half))
    inner = F.elemwise_add(dQ, F._linalg_gemm2(both, Q))
    return [F._linalg_trsm(L, inner, transpose=True)]


@operator("_linalg_gelqf", infer=_gelqf_shape, gradient=_gelqf_back, num_outputs=2,
          aliases=("linalg_gelqf",), infer_dtype=lambda dtypes, attrs: (dtypes, dtypes * 2))
def gelqf(xp: Any, A: Array) -> tuple[Array, Array]:
    """Q with orthonormal rows and lower triangular L, such that A = L Q.

    Args:
        A: matrices of full rank with at least as many columns as rows.

    Shapes: A (*S, N, M) -> (*S, N, M) and (*S, N, N).

    >>> import minigluon as mx
    >>> Q, L = mx.nd.linalg_gelqf(mx.nd.array([[3, 4]]))
    >>> mx.nd.dot(L, Q).asnumpy().round(4).tolist()
    [[3.0, 4.0]]
    """
    _gelqf_shape([A.shape], {})
    other, upper = xp.linalg.qr(computable(xp, A).swapaxes(-1, -2))
    return (other.swapaxes(-1, -2).astype(A.dtype, copy=False).copy(),
            upper.swapaxes(-1, -2).astype(A.dtype, copy=False).copy())
