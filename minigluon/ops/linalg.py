"""Products of matrices."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ..base import ShapeError
from .operator import Attrs, MaybeShape, operator
from .rules import Shapes, axis_of, merge_shapes, size_of

__all__: list[str] = []

Array = Any


# -- dot -------------------------------------------------------------------------------------------

def _lead(shape: Sequence[int], transposed: bool) -> tuple[int, ...]:
    """The axes of lhs that stay, in front."""
    return tuple(shape[1:] if transposed and len(shape) > 1 else shape[:-1])


def _trail(shape: Sequence[int], transposed: bool) -> tuple[int, ...]:
    """The axes of rhs that stay, behind."""
    return tuple(shape[:-1] if transposed and len(shape) > 1 else shape[1:])


def _left_matrix(lhs: Array, transposed: bool) -> Array:
    """lhs as (kept, contracted)."""
    if transposed and lhs.ndim > 1:
        return lhs.reshape(lhs.shape[0], size_of(lhs.shape[1:])).T
    return lhs.reshape(size_of(lhs.shape[:-1]), lhs.shape[-1])


def _right_matrix(rhs: Array, transposed: bool) -> Array:
    """rhs as (contracted, kept)."""
    if transposed and rhs.ndim > 1:
        return rhs.reshape(size_of(rhs.shape[:-1]), rhs.shape[-1]).T
    return rhs.reshape(rhs.shape[0], size_of(rhs.shape[1:]))


def _dot_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    lhs, rhs = shapes
    if lhs is None or rhs is None:
        return shapes, [None]
    if not lhs or not rhs:
        raise ShapeError(f"expected arrays with one axis or more, got {lhs} and {rhs}")
    left = lhs[0] if attrs["transpose_a"] else lhs[-1]
    right = rhs[-1] if attrs["transpose_b"] else rhs[0]
    if left and right and left != right:
        raise ShapeError(f"expected the {'first' if attrs['transpose_a'] else 'last'} axis of lhs "
                         f"{lhs} to equal the {'last' if attrs['transpose_b'] else 'first'} axis "
                         f"of rhs {rhs}, got {left} and {right}")
    return shapes, [(*_lead(lhs, attrs["transpose_a"]), *_trail(rhs, attrs["transpose_b"]))
                    or (1,)]


def _dot_back(F: Any, dy: Any, out: Any, lhs: Any, rhs: Any, *, forward_stype: Any,
              **flags: bool) -> list[Any]:
    return [F._dot_grad(dy, lhs, rhs, side="lhs", **flags),
            F._dot_grad(dy, lhs, rhs, side="rhs", **flags)]


@operator("dot", infer=_dot_shape, gradient=_dot_back, methods=("dot",))
def dot(xp: Any, lhs: Array, rhs: Array, *, transpose_a: bool = False, transpose_b: bool = False,
        forward_stype: str | None = None) -> Array:
    """The product of matrices; of more axes the last of lhs with the first of rhs.

    Args:
        lhs, rhs: arrays. transpose_a: contract the first axis of lhs instead. transpose_b: the
            last axis of rhs instead. forward_stype: accepted, everything is dense.

    Shapes: lhs (*A, K), rhs (K, *B) -> (*A, *B); two vectors -> (1,).

    >>> import minigluon as mx
    >>> mx.nd.dot(mx.nd.array([[1, 2]]), mx.nd.array([[3], [4]])).asnumpy().tolist()
    [[11.0]]
    """
    if lhs.ndim == rhs.ndim == 2:
        return xp.dot(lhs.T if transpose_a else lhs, rhs.T if transpose_b else rhs)
    shape = (*_lead(lhs.shape, transpose_a), *_trail(rhs.shape, transpose_b)) or (1,)
    return xp.dot(_left_matrix(lhs, transpose_a), _right_matrix(rhs, transpose_b)).reshape(shape)


def _dot_grad_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    return shapes, [shapes[1 if attrs["side"] == "lhs" else 2]]


def _dot_grad_back(F: Any, dy: Any, out: Any, grad: Any, lhs: Any, rhs: Any, *, side: str,
                   **flags: bool) -> list[Any]:
    # <dy, G(grad, other)> is <grad, dot> with dy standing for the side the gradient was for
    if side == "lhs":
        return [F.dot(dy, rhs, **flags), None, F._dot_grad(grad, dy, rhs, side="rhs", **flags)]
    return [F.dot(lhs, dy, **flags), F._dot_grad(grad, lhs, dy, side="lhs", **flags), None]


@operator("_dot_grad", infer=_dot_grad_shape, gradient=_dot_grad_back)
def _dot_grad(xp: Any, grad: Array, lhs: Array, rhs: Array, *, side: Literal["lhs", "rhs"],
              transpose_a: bool = False, transpose_b: bool = False) -> Array:
    """The gradient of dot for one of its operands."""
    left, right = _left_matrix(lhs, transpose_a), _right_matrix(rhs, transpose_b)
    flat = grad.reshape(left.shape[0], right.shape[1])
    if side == "lhs":
        if transpose_a and lhs.ndim > 1:
            return xp.dot(right, flat.T).reshape(lhs.shape)
        return xp.dot(flat, right.T).reshape(lhs.shape)
    if transpose_b and rhs.ndim > 1:
        return xp.dot(flat.T, left).reshape(rhs.shape)
    return xp.dot(left.T, flat).reshape(rhs.shape)


# -- stacks of matrices ----------------------------------------------------------------------------

def _swap(array: Array, flag: bool) -> Array:
    return array.swapaxes(-1, -2) if flag else array


def _batch_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    lhs, rhs = shapes
    if lhs is None or rhs is None:
        return shapes, [None]
    if len(lhs) < 2 or len(lhs) != len(rhs):
        raise ShapeError(f"expected stacks of matrices with as many axes, got {lhs} and {rhs}")
    batch: MaybeShape = merge_shapes(lhs[:-2], rhs[:-2], "leading axes")
    rows, inner = lhs[:-3:-1] if attrs["transpose_a"] else lhs[-2:]
    other, columns = rhs[:-3:-1] if attrs["transpose_b"] else rhs[-2:]
    if inner and other and inner != other:
        raise ShapeError(f"expected matrices whose inner sizes agree, got {lhs} and {rhs} with "
                         f"transpose_a={attrs['transpose_a']}, transpose_b={attrs['transpose_b']}")
    if not inner and not other:
        return shapes, [None]
    return shapes, [(*(batch or ()), rows, columns)]


def _product_back(call: Any, dy: Any, lhs: Any, rhs: Any, a: bool, b: bool) -> list[Any]:
    """Gradients of op(lhs) @ op(rhs), with ``call(x, y, transpose x, transpose y)``."""
    left = call(rhs, dy, b, True) if a else call(dy, rhs, False, not b)
    right = call(dy, lhs, True, a) if b else call(lhs, dy, not a, False)
    return [left, right]


def _batch_back(F: Any, dy: Any, out: Any, lhs: Any, rhs: Any, *, transpose_a: bool,
                transpose_b: bool, forward_stype: Any) -> list[Any]:
    def call(x: Any, y: Any, a: bool, b: bool) -> Any:
        return F.batch_dot(x, y, transpose_a=a, transpose_b=b)

    return _product_back(call, dy, lhs, rhs, transpose_a, transpose_b)


@operator("batch_dot", infer=_batch_shape, gradient=_batch_back, methods=("batch_dot",))
def batch_dot(xp: Any, lhs: Array, rhs: Array, *, transpose_a: bool = False,
              transpose_b: bool = False, forward_stype: str | None = None) -> Array:
    """The product of each pair of matrices in two stacks.

    Args:
        lhs, rhs: stacks with as many matrices. transpose_a, transpose_b: transpose each matrix
            first. forward_stype: accepted, everything is dense.

    Shapes: lhs (B, N, K), rhs (B, K, M) -> (B, N, M).

    >>> import minigluon as mx
    >>> mx.nd.batch_dot(mx.nd.ones((5, 2, 3)), mx.nd.ones((5, 3, 4))).shape
    (5, 2, 4)
    """
    if lhs.shape[:-2] != rhs.shape[:-2]:
        _batch_rule("batch_dot", lhs, rhs, transpose_a, transpose_b)
    return xp.matmul(_swap(lhs, transpose_a), _swap(rhs, transpose_b))


def _batch_rule(name: str, lhs: Array, rhs: Array, a: bool, b: bool) -> None:
    try:
        _batch_shape([lhs.shape, rhs.shape], {"transpose_a": a, "transpose_b": b})
    except ShapeError as error:
        raise ShapeError(f"{name}: {error}") from None


def _matrices(array: Array, axis: int) -> Array:
    """A view whose last two axes are the matrices, if `axis` has their rows."""
    return array if axis % array.ndim == array.ndim - 2 else array.swapaxes(axis, -2)


def _matrix_axes(shape: MaybeShape, axis: int) -> MaybeShape:
    """The shape of that view; the same again turns it back."""
    if shape is None:
        return None
    if len(shape) < 2 or axis_of(axis, len(shape)) == len(shape) - 1:
        raise ShapeError(f"expected matrices with rows on axis {axis} and columns on the last, "
                         f"got {shape}")
    sizes = list(shape)
    sizes[axis], sizes[-2] = sizes[-2], sizes[axis]
    return tuple(sizes)


def _gemm2_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    axis = attrs["axis"]
    moved, outs = _batch_shape([_matrix_axes(shape, axis) for shape in shapes], attrs)
    return [_matrix_axes(shape, axis) for shape in moved], [_matrix_axes(outs[0], axis)]


def _gemm2_back(F: Any, dy: Any, out: Any, A: Any, B: Any, *, transpose_a: bool,
                transpose_b: bool, alpha: float, axis: int) -> list[Any]:
    def call(x: Any, y: Any, a: bool, b: bool) -> Any:
        return F._linalg_gemm2(x, y, transpose_a=a, transpose_b=b, alpha=alpha, axis=axis)

    return _product_back(call, dy, A, B, transpose_a, transpose_b)


@operator("_linalg_gemm2", infer=_gemm2_shape, gradient=_gemm2_back, aliases=("linalg_gemm2",))
def gemm2(xp: Any, A: Array, B: Array, *, transpose_a: bool = False, transpose_b: bool = False,
          alpha: float = 1.0, axis: int = -2) -> Array:
    """alpha times the product of each pair of matrices in two stacks.

    Args:
        A, B: matrices, or stacks of them. transpose_a, transpose_b: transpose each matrix first.
        alpha: a factor. axis: where the rows are; the columns are on the last axis.

    Shapes: A (*S, N, K), B (*S, K, M) -> (*S, N, M).

    >>> import minigluon as mx
    >>> mx.nd.linalg_gemm2(mx.nd.ones((2, 3)), mx.nd.ones((3, 1)), alpha=2).asnumpy().tolist()
    [[6.0], [6.0]]
    """
    left, right = _matrices(A, axis), _matrices(B, axis)
    if left.shape[:-2] != right.shape[:-2]:
        _batch_rule("_linalg_gemm2", left, right, transpose_a, transpose_b)
    product = xp.matmul(_swap(left, transpose_a), _swap(right, transpose_b))
    if alpha != 1:
        product *= product.dtype.type(alpha)
    return _matrices(product, axis)


def _gemm_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    two, outs = _gemm2_shape(shapes[:2], attrs)
    made = merge_shapes(outs[0], shapes[2], "shapes of A B and C")
    return [*two, made], [made]


def _gemm_back(F: Any, dy: Any, out: Any, A: Any, B: Any, C: Any, *, beta: float,
               **attrs: Any) -> list[Any]:
    return [*_gemm2_back(F, dy, None, A, B, **attrs), F._mul_scalar(dy, scalar=beta)]


@operator("_linalg_gemm", infer=_gemm_shape, gradient=_gemm_back, aliases=("linalg_gemm",))
def gemm(xp: Any, A: Array, B: Array, C: Array, *, transpose_a: bool = False,
         transpose_b: bool = False, alpha: float = 1.0, beta: float = 1.0,
         axis: int = -2) -> Array:
    """alpha A B + beta C for each triple of matrices in three stacks.

    Args:
        A, B, C: matrices, or stacks of them. transpose_a, transpose_b: transpose A or B first.
        alpha, beta: factors. axis: where the rows are; the columns are on the last axis.

    Shapes: A (*S, N, K), B (*S, K, M), C (*S, N, M) -> (*S, N, M).

    >>> import minigluon as mx
    >>> one = mx.nd.ones((1, 1))
    >>> mx.nd.linalg_gemm(one, one, one, alpha=2, beta=10).asnumpy().tolist()
    [[12.0]]
    """
    attrs = {"transpose_a": transpose_a, "transpose_b": transpose_b, "axis": axis}
    if C.shape != _gemm2_shape([A.shape, B.shape], attrs)[1][0]:
        _gemm_shape([A.shape, B.shape, C.shape], attrs)
    return gemm2.body(xp, A, B, alpha=alpha, **attrs) + C * C.dtype.type(beta)
