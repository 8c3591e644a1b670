"""Linear algebra on triangles and diagonals of stacks of matrices: ``linalg.trsm`` and its kin.

Wherever a matrix is called triangular only that triangle is read, and only it has a gradient.
"""
from __future__ import annotations

from typing import Any

from ..base import MXNetError, ShapeError
from .operator import Attrs, operator
from .rules import Shapes, merge_shapes, same_shape

__all__ = ["computable", "matrix_of", "matrix_shape", "square"]

Array = Any


# -- shapes and words ------------------------------------------------------------------------------

def square(shape: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """The shape of a stack of square matrices, as far as `shape` tells it.

    >>> square((2, 3, 0))
    (2, 3, 3)
    """
    if shape is None:
        return None
    if len(shape) < 2 or (shape[-1] and shape[-2] and shape[-1] != shape[-2]):
        raise ShapeError(f"expected square matrices as the last two axes, got {shape}")
    size = shape[-1] or shape[-2]
    return (*shape[:-2], size, size)


def matrix_shape(shapes: Shapes, attrs: Attrs, outs: Shapes | None = None
                 ) -> tuple[Shapes, Shapes]:
    """A shape rule: every array is a stack of square matrices of one shape."""
    found, results = same_shape([square(shape) for shape in shapes], attrs, outs)
    return [square(shape) for shape in found], [square(shape) for shape in results]


def matrix_of(shape: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """The shape of one number for each matrix of a stack; (1,) for a single matrix."""
    full = square(shape)
    return None if full is None else full[:-2] or (1,)


def computable(xp: Any, array: Array) -> Array:
    """The array in a type that LAPACK has: halves become singles."""
    return array.astype(xp.float32) if array.dtype == xp.float16 else array


def _triangle(xp: Any, array: Array, lower: bool) -> Array:
    return xp.tril(array) if lower else xp.triu(array)


def _swap(array: Array, flag: bool) -> Array:
    return array.swapaxes(-1, -2) if flag else array


def _transposed(F: Any, array: Any) -> Any:
    return F._linalg_transpose(array)


def _transpose_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    shape = shapes[0]
    if shape is None:
        return shapes, [None]
    if len(shape) < 2:
        raise ShapeError(f"expected matrices, got {shape}")
    return shapes, [(*shape[:-2], shape[-1], shape[-2])]


@operator("_linalg_transpose", infer=_transpose_shape,
          gradient=lambda F, dy, out, A: [F._linalg_transpose(dy)])
def transpose(xp: Any, A: Array) -> Array:
    """Each matrix of a stack transposed."""
    return A.swapaxes(-1, -2).copy()


@operator("_linalg_triangle", infer=same_shape,
          gradient=lambda F, dy, out, A, **attrs: [F._linalg_triangle(dy, **attrs)])
def triangle(xp: Any, A: Array, *, lower: bool = True, diagonal: float = 1.0) -> Array:
    """One triangle of each matrix, zeros elsewhere; its diagonal multiplied by `diagonal`."""
    part = _triangle(xp, A, lower)
    if diagonal != 1:
        places = xp.arange(min(A.shape[-2:]))
        part[..., places, places] *= part.dtype.type(diagonal)
    return part


# -- products and solutions ------------------------------------------------------------------------

def _sided_shape(shapes: Shapes, attrs: Attrs, outs: Shapes | None = None
                 ) -> tuple[Shapes, Shapes]:
    matrix, other = square(shapes[0]), shapes[1]
    if outs:
        other = merge_shapes(other, outs[0])
    if matrix is None or other is None:
        return [matrix, other], [other]
    if len(matrix) != len(other):
        raise ShapeError(f"expected A and B with as many axes, got {matrix} and {other}")
    place = -1 if attrs["rightside"] else -2
    size = merge_shapes((matrix[-1],), (other[place],), "sizes of A and B where they meet")
    batch = merge_shapes(matrix[:-2], other[:-2], "leading axes of A and B")
    assert size is not None and batch is not None
    sides = list(other[-2:])
    sides[place] = size[0]
    return [(*batch, *size, *size), (*batch, *sides)], [(*batch, *sides)]


def _trmm_back(F: Any, dy: Any, out: Any, A: Any, B: Any, *, transpose: bool, rightside: bool,
               lower: bool, alpha: float) -> list[Any]:
    other = F._linalg_trmm(A, dy, transpose=not transpose, rightside=rightside, lower=lower,
                           alpha=alpha)
    left, right = (B, dy) if rightside else (dy, B)
    # op(A) B has the gradient dy B' for op(A); B op(A) has B' dy
    grad = F._linalg_gemm2(left, right, transpose_a=rightside, transpose_b=not rightside,
                           alpha=alpha)
    if transpose:
        grad = _transposed(F, grad)
    return [F._linalg_triangle(grad, lower=lower), other]


@operator("_linalg_trmm", infer=_sided_shape, gradient=_trmm_back, aliases=("linalg_trmm",))
def trmm(xp: Any, A: Array, B: Array, *, transpose: bool = False, rightside: bool = False,
         lower: bool = True, alpha: float = 1.0) -> Array:
    """Multiply matrices by triangular ones: alpha op(A) B, or alpha B op(A).

    Args:
        A: triangular matrices. B: matrices. transpose: op transposes. rightside: A stands right.
        lower: A is lower triangular, else upper. alpha: a factor.

    Shapes: A (*S, N, N), B (*S, N, M) -> (*S, N, M); B (*S, M, N) with rightside.

    >>> import minigluon as mx
    >>> mx.nd.linalg_trmm(mx.nd.array([[1, 9], [1, 1]]), mx.nd.ones((2, 2))).asnumpy().tolist()
    [[1.0, 1.0], [2.0, 2.0]]
    """
    _sided_shape([A.shape, B.shape], {"rightside": rightside})
    part = _swap(_triangle(xp, A, lower), transpose)
    product = xp.matmul(B, part) if rightside else xp.matmul(part, B)
    return product * product.dtype.type(alpha)


def _trsm_back(F: Any, dy: Any, out: Any, A: Any, B: Any, *, transpose: bool, rightside: bool,
               lower: bool, alpha: float) -> list[Any]:
    G = F._linalg_trsm(A, dy, transpose=not transpose, rightside=rightside, lower=lower)
    left, right = (out, G) if rightside else (G, out)
    grad = F._linalg_gemm2(left, right, transpose_a=rightside, transpose_b=not rightside,
                           alpha=-1.0)
    if transpose:
        grad = _transposed(F, grad)
    return [F._linalg_triangle(grad, lower=lower), F._mul_scalar(G, scalar=alpha)]


@operator("_linalg_trsm", infer=_sided_shape, gradient=_trsm_back, aliases=("linalg_trsm",))
def trsm(xp: Any, A: Array, B: Array, *, transpose: bool = False, rightside: bool = False,
         lower: bool = True, alpha: float = 1.0) -> Array:
    """Solve op(A) X = alpha B, or X op(A) = alpha B, for triangular A.

    Args:
        A: triangular matrices. B: matrices. transpose: op transposes. rightside: A stands right.
        lower: A is lower triangular, else upper. alpha: a factor.

    Shapes: A (*S, N, N), B (*S, N, M) -> (*S, N, M); B (*S, M, N) with rightside.

    >>> import minigluon as mx
    >>> mx.nd.linalg_trsm(mx.nd.array([[1, 9], [1, 1]]), mx.nd.ones((2, 1)) * 2).asnumpy().tolist()
    [[2.0], [0.0]]
    """
    _sided_shape([A.shape, B.shape], {"rightside": rightside})
    part = _swap(_triangle(xp, computable(xp, A), lower), transpose != rightside)
    given = computable(xp, _swap(B, rightside))
    found = _swap(_solved(xp, part, given), rightside).astype(B.dtype, copy=False)
    return found * found.dtype.type(alpha)


def _solved(xp: Any, A: Array, B: Array) -> Array:
    try:
        return xp.linalg.solve(A, B)
    except xp.linalg.LinAlgError:
        raise MXNetError("_linalg_trsm: A has a zero on its diagonal") from None


# -- Cholesky --------------------------------------------------------------------------------------

def _potrf_back(F: Any, dy: Any, out: Any, A: Any, *, lower: bool) -> list[Any]:
    if not lower:
        dy, out = _transposed(F, dy), _transposed(F, out)
    inner = F._linalg_triangle(F._linalg_gemm2(out, dy, transpose_a=True), diagonal=0.5)
    left = F._linalg_trsm(out, inner, transpose=True)
    both = F._linalg_trsm(out, left, rightside=True)
    return [F._mul_scalar(F.elemwise_add(both, _transposed(F, both)), scalar=0.5)]


@operator("_linalg_potrf", infer=matrix_shape, gradient=_potrf_back, aliases=("linalg_potrf",))
def potrf(xp: Any, A: Array, *, lower: bool = True) -> Array:
    """The Cholesky factor: lower triangular L with L L' = A, or upper triangular U with U' U = A.

    Args:
        A: symmetric positive definite matrices, of which the lower (upper) triangle is read. The
            gradient is symmetric: half of it for each of the two equal elements.
        lower: L is wanted, else U.

    Shapes: A (*S, N, N) -> (*S, N, N).

    >>> import minigluon as mx
    >>> mx.nd.linalg_potrf(mx.nd.array([[4, 2], [2, 5]])).asnumpy().tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    square(A.shape)
    try:
        factor = xp.linalg.cholesky(_swap(computable(xp, A), not lower))
        return _swap(factor, not lower).astype(A.dtype, copy=False)
    except xp.linalg.LinAlgError:
        raise MXNetError("_linalg_potrf: A is not positive definite; add a small multiple of the "
                         "identity") from None


def _potri_back(F: Any, dy: Any, out: Any, A: Any, *, lower: bool) -> list[Any]:
    if not lower:
        [grad] = _potri_back(F, dy, out, _transposed(F, A), lower=True)
        return [_transposed(F, grad)]
    both = F.elemwise_add(dy, _transposed(F, dy))
    product = F._linalg_trsm(A, F._linalg_gemm2(out, both), transpose=True, rightside=True,
                             alpha=-1.0)
    return [F._linalg_triangle(product)]


@operator("_linalg_potri", infer=matrix_shape, gradient=_potri_back, aliases=("linalg_potri",))
def potri(xp: Any, A: Array, *, lower: bool = True) -> Array:
    """The inverse of A A' for lower triangular A: of a matrix given by its Cholesky factor.

    Args:
        A: triangular matrices. lower: they are lower triangular; upper ones stand for A' A.

    Shapes: A (*S, N, N) -> (*S, N, N).

    >>> import minigluon as mx
    >>> mx.nd.linalg_potri(mx.nd.array([[2, 0], [0, 1]])).asnumpy().tolist()
    [[0.25, 0.0], [0.0, 1.0]]
    """
    part = xp.tril(_swap(computable(xp, A), not lower))
    inner = _solved(xp, part, xp.broadcast_to(xp.eye(A.shape[-1], dtype=part.dtype), part.shape))
    return xp.matmul(inner.swapaxes(-1, -2), inner).astype(A.dtype, copy=False)


# -- diagonals -------------------------------------------------------------------------------------

def _inner_size(shape: tuple[int, ...], offset: int) -> int:
    size = shape[-1] - abs(offset) if shape[-1] else 0
    if shape[-1] and size < 1:
        raise ShapeError(f"expected an offset within the matrices, got {offset} for {shape}")
    return size


def _extract_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    shape = square(shapes[0])
    if shape is None:
        return shapes, [None]
    return [shape], [(*shape[:-2], _inner_size(shape, attrs["offset"]))]


def _make_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    shape = shapes[0]
    if shape is None:
        return shapes, [None]
    if not shape:
        raise ShapeError("expected diagonals along the last axis, got shape ()")
    size = shape[-1] + abs(attrs["offset"]) if shape[-1] else 0
    return shapes, [(*shape[:-1], size, size)]


def _diagonal(xp: Any, length: int, offset: int) -> tuple[Array, Array]:
    """Rows and columns of a diagonal."""
    places = xp.arange(length)
    return places + max(-offset, 0), places + max(offset, 0)


@operator("_linalg_extractdiag", infer=_extract_shape, aliases=("linalg_extractdiag",),
          gradient=lambda F, dy, out, A, offset: [F._linalg_makediag(dy, offset=offset)])
def extractdiag(xp: Any, A: Array, *, offset: int = 0) -> Array:
    """A diagonal of each matrix.

    Args:
        A: square matrices. offset: which diagonal; positive ones lie above the main one.

    Shapes: A (*S, N, N) -> (*S, N - |offset|).

    >>> import minigluon as mx
    >>> mx.nd.linalg_extractdiag(mx.nd.array([[1, 2], [3, 4]])).asnumpy().tolist()
    [1.0, 4.0]
    """
    rows, columns = _diagonal(xp, _inner_size(A.shape, offset), offset)
    return A[..., rows, columns]


@operator("_linalg_makediag", infer=_make_shape, aliases=("linalg_makediag",),
          gradient=lambda F, dy, out, A, offset: [F._linalg_extractdiag(dy, offset=offset)])
def makediag(xp: Any, A: Array, *, offset: int = 0) -> Array:
    """Matrices that are zero but for one diagonal.

    Args:
        A: the diagonals, along the last axis. offset: which one; positive ones lie above.

    Shapes: A (*S, N) -> (*S, N + |offset|, N + |offset|).

    >>> import minigluon as mx
    >>> mx.nd.linalg_makediag(mx.nd.array([1, 2])).asnumpy().tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    size = A.shape[-1] + abs(offset)
    rows, columns = _diagonal(xp, A.shape[-1], offset)
    made = xp.zeros((*A.shape[:-1], size, size), A.dtype)
    made[..., rows, columns] = A
    return made


# -- triangles as vectors --------------------------------------------------------------------------

def _places(xp: Any, size: int, offset: int, lower: bool) -> tuple[Array, Array]:
    """Rows and columns of a triangle: lower row by row, or upper (positive offsets) by columns."""
    if offset > 0 or (offset == 0 and not lower):
        columns, rows = xp.tril_indices(size, -offset)
    else:
        rows, columns = xp.tril_indices(size, offset)
    return rows, columns


def _triangle_length(size: int) -> int:
    return size * (size + 1) // 2


def _extracttrian_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    shape = square(shapes[0])
    if shape is None:
        return shapes, [None]
    return [shape], [(*shape[:-2], _triangle_length(_inner_size(shape, attrs["offset"])))]


def _maketrian_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    shape = shapes[0]
    if shape is None:
        return shapes, [None]
    if not shape:
        raise ShapeError("expected triangles along the last axis, got shape ()")
    size = _side(shape[-1])
    if shape[-1]:
        if _triangle_length(size) != shape[-1]:
            raise ShapeError(f"expected n (n + 1) / 2 elements of a triangle, got {shape[-1]}")
        size += abs(attrs["offset"])
    return shapes, [(*shape[:-1], size, size)]


def _side(length: int) -> int:
    """The largest n whose triangle has at most `length` elements."""
    size = 0
    while _triangle_length(size + 1) <= length:
        size += 1
    return size


@operator("_linalg_extracttrian", infer=_extracttrian_shape, aliases=("linalg_extracttrian",),
          gradient=lambda F, dy, out, A, **attrs: [F._linalg_maketrian(dy, **attrs)])
def extracttrian(xp: Any, A: Array, *, offset: int = 0, lower: bool = True) -> Array:
    """A triangle of each matrix as a vector: a lower one row by row, an upper one by columns.

    Args:
        A: square matrices. offset: the diagonal at which the triangle begins; positive: the upper
            triangle above it, negative: the lower one below it.
        lower: which triangle when offset is 0.

    Shapes: A (*S, N, N) -> (*S, K (K + 1) / 2), K = N - |offset|.

    >>> import minigluon as mx
    >>> mx.nd.linalg_extracttrian(mx.nd.array([[1, 2], [3, 4]])).asnumpy().tolist()
    [1.0, 3.0, 4.0]
    """
    rows, columns = _places(xp, A.shape[-1], offset, lower)
    return A[..., rows, columns]


@operator("_linalg_maketrian", infer=_maketrian_shape, aliases=("linalg_maketrian",),
          gradient=lambda F, dy, out, A, **attrs: [F._linalg_extracttrian(dy, **attrs)])
def maketrian(xp: Any, A: Array, *, offset: int = 0, lower: bool = True) -> Array:
    """Matrices that are zero but for one triangle, given as a vector.

    Args:
        A: the triangles, along the last axis. offset, lower: where, as in extracttrian.

    Shapes: A (*S, K (K + 1) / 2) -> (*S, N, N), N = K + |offset|.

    >>> import minigluon as mx
    >>> mx.nd.linalg_maketrian(mx.nd.array([1, 2, 3])).asnumpy().tolist()
    [[1.0, 0.0], [2.0, 3.0]]
    """
    size = _side(A.shape[-1]) + abs(offset)
    rows, columns = _places(xp, size, offset, lower)
    made = xp.zeros((*A.shape[:-1], size, size), A.dtype)
    made[..., rows, columns] = A
    return made
