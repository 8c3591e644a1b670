"""dot with csr and row_sparse operands, and its gradients."""
from __future__ import annotations

from typing import Any

from ...base import ShapeError
from ..operator import find_operator
from ..storage import Csr, Delayed, RowSparse, dense_of, found_rows, stored_as
from .form import form

__all__: list[str] = []

_STEP = 1 << 22  # elements of a product at a time: what a dot takes beside its result


def _gathered(xp: Any, matrix: Csr, rhs: Any) -> Any:
    """matrix @ rhs: (rows, *). Rows with equally many values are one stack of small products."""
    out = xp.zeros((matrix.shape[0], rhs.shape[1]), rhs.dtype)
    counts = xp.diff(matrix.indptr)
    if not counts.shape[0]:
        return out
    order = xp.argsort(counts, kind="stable")
    found, starts = xp.unique(counts[order], return_index=True)
    ends = [*starts.tolist()[1:], int(order.shape[0])]
    for count, start, end in zip(found.tolist(), starts.tolist(), ends, strict=True):
        most = max(1, _STEP // max(1, count * rhs.shape[1]))
        for begin in range(start if count else end, end, most):
            rows = order[begin:min(begin + most, end)]
            places = matrix.indptr[rows][:, None] + xp.arange(count)
            factors, terms = matrix.data[places], rhs[matrix.indices[places]]
            if count == 1:  # a stack of so small products costs more than it does
                out[rows] = factors * terms[:, 0]
            else:
                out[rows] = xp.matmul(factors[:, None, :], terms)[:, 0]
    return out


def _spread(xp: Any, matrix: Csr, rhs: Any) -> RowSparse:
    """matrix.T @ rhs: only the columns that the matrix has become rows."""
    order = xp.argsort(matrix.indices, kind="stable")
    columns, starts = xp.unique(matrix.indices[order], return_index=True)
    ends = xp.concatenate((starts, xp.asarray([order.shape[0]]))).astype(xp.int64)
    turned = Csr((columns.shape[0], matrix.shape[0]), matrix.data[order],
                 matrix.rows(xp)[order], ends)
    return RowSparse((matrix.shape[1], rhs.shape[1]), columns.astype(xp.int64),
                     _gathered(xp, turned, rhs))


def _fits(left: int, right: int, lhs: Any, rhs: Any) -> None:
    if left != right:
        raise ShapeError(f"cannot multiply shapes {lhs.shape} and {rhs.shape} (as transposed)")


@form("dot", "csr", "default", when=lambda attrs: not attrs["transpose_b"])
def _csr_dense(xp: Any, lhs: Csr, rhs: Any, *, transpose_a: bool, transpose_b: bool,
               forward_stype: str | None) -> Any:
    """A csr matrix, maybe transposed, times a dense matrix or vector."""
    _fits(lhs.shape[0 if transpose_a else 1], rhs.shape[0], lhs, rhs)
    columns = rhs.reshape(rhs.shape[0], -1)
    if not transpose_a:
        out = _gathered(xp, lhs, columns).reshape(lhs.shape[0], *rhs.shape[1:])
        return stored_as(xp, out, forward_stype or "default")
    rows = _spread(xp, lhs, columns)
    rows = RowSparse((rows.shape[0], *rhs.shape[1:]), rows.indices,
                     rows.data.reshape(-1, *rhs.shape[1:]))
    if forward_stype == "csr":
        return stored_as(xp, rows.dense(xp), "csr")
    # MXNet: a matrix of columns comes as row_sparse, a vector dense
    wanted = forward_stype or ("row_sparse" if rhs.ndim == 2 else "default")
    return stored_as(xp, rows, wanted)


@form("dot", "csr", "row_sparse", when=lambda attrs: not attrs["transpose_b"])
def _csr_rows(xp: Any, lhs: Csr, rhs: RowSparse, *, transpose_a: bool, transpose_b: bool,
              forward_stype: str | None) -> Any:
    """A csr matrix times a row_sparse one: only the rows that are kept count."""
    if transpose_a:
        return _csr_dense(xp, lhs, rhs.dense(xp), transpose_a=True, transpose_b=False,
                          forward_stype=forward_stype)
    _fits(lhs.shape[1], rhs.shape[0], lhs, rhs)
    places, kept = found_rows(xp, rhs, lhs.indices)
    ends = xp.concatenate((xp.zeros(1, xp.int64), xp.cumsum(kept)))[lhs.indptr]
    inner = Csr((lhs.shape[0], rhs.indices.shape[0]), lhs.data[kept], places[kept], ends)
    return stored_as(xp, _gathered(xp, inner, rhs.data), forward_stype or "default")


@form("dot", "default", "csr")
def _dense_csr(xp: Any, lhs: Any, rhs: Csr, *, transpose_a: bool, transpose_b: bool,
               forward_stype: str | None) -> Any:
    """A dense matrix times a csr one: csr, as in MXNet, unless the dense one is transposed."""
    left = lhs.T if transpose_a and lhs.ndim > 1 else lhs
    _fits(left.shape[-1], rhs.shape[1 if transpose_b else 0], lhs, rhs)
    flat = xp.ascontiguousarray(left.reshape(-1, left.shape[-1]).T)
    if transpose_b:
        product = _gathered(xp, rhs, flat).T
    else:
        product = _spread(xp, rhs, flat).dense(xp).T
    product = product.reshape(*left.shape[:-1], product.shape[-1])
    usual = "csr" if product.ndim == 2 and not transpose_a else "default"
    return stored_as(xp, product, forward_stype or usual)


@form("dot", "*", "*")
def _any_dot(xp: Any, lhs: Any, rhs: Any, *, forward_stype: str | None, **flags: bool) -> Any:
    """No way round the zeros: dense, given back as the storage type asked for."""
    out = find_operator("dot").body(xp, dense_of(xp, lhs), dense_of(xp, rhs), **flags)
    return stored_as(xp, out, forward_stype or "default")


@form("_dot_grad", "*", "csr", "*", when=lambda attrs: attrs["side"] == "lhs")
def _grad_of_csr(xp: Any, grad: Any, lhs: Csr, rhs: Any, **how: Any) -> Delayed:
    """As large as the csr operand would be dense: computed only if somebody wants it."""
    body = find_operator("_dot_grad").body
    return Delayed(lhs.shape, lhs.data, lambda: body(
        xp, dense_of(xp, grad), lhs.dense(xp), dense_of(xp, rhs), **how))


@form("_dot_grad", "*", "csr", "*",
      when=lambda attrs: attrs["side"] == "rhs" and not attrs["transpose_b"])
def _grad_of_factor(xp: Any, grad: Any, lhs: Csr, rhs: Any, *, side: str, transpose_a: bool,
                    transpose_b: bool) -> Any:
    """lhs.T @ grad: the rows of rhs that lhs has columns for."""
    grad = dense_of(xp, grad)
    columns = grad.reshape(grad.shape[0], -1)
    if transpose_a:
        return _gathered(xp, lhs, columns).reshape(rhs.shape)
    rows = _spread(xp, lhs, columns)
    return RowSparse(rhs.shape, rows.indices, rows.data.reshape(-1, *rhs.shape[1:]))
