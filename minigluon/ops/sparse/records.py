"""Operators made for sparse arrays: changing the storage type, keeping rows, squares."""
from __future__ import annotations

from typing import Any

from ...base import MXNetError
from ..attrs import Axes
from ..operator import Attrs, operator
from ..rules import Shapes, axes_of, reduce_shape, reduced, same_shape
from ..storage import RowSparse, rows_of, stored_as
from .form import form

__all__: list[str] = []


@operator("cast_storage", infer=same_shape, gradient=lambda F, dy, out, data, *, stype: [dy],
          gives_stored=True)
def cast_storage(xp: Any, data: Any, *, stype: str) -> Any:
    """The same array in another storage type.

    Args:
        stype: 'default', 'row_sparse' or 'csr'; between the last two there is no way.

    Shapes: data (*S) -> (*S); csr needs a matrix.

    >>> import minigluon as mx
    >>> mx.nd.cast_storage(mx.nd.array([[0, 0], [0, 5]]), "row_sparse").indices.asnumpy().tolist()
    [1]
    """
    return data.copy() if stype == "default" else stored_as(xp, data, stype)


@form("cast_storage", "sparse")
def _cast(xp: Any, data: Any, *, stype: str) -> Any:
    if stype not in ("default", data.stype):
        raise MXNetError(f"cast_storage from {data.stype} to {stype} is not supported; "
                         "go by way of 'default'")
    return data.copy() if data.stype == stype else stored_as(xp, data, stype)


def _retain_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    return shapes, [shapes[0]]


def _retain_back(F: Any, dy: Any, out: Any, data: Any, indices: Any) -> list[Any]:
    return [F._sparse_retain(dy, indices), None]


@operator("_sparse_retain", infer=_retain_shape, gradient=_retain_back,
          infer_dtype=lambda dtypes, attrs: ([dtypes[0], dtypes[1]], [dtypes[0]]))
def _sparse_retain(xp: Any, data: Any, indices: Any) -> Any:
    """The rows `indices` of `data`; all others are zero. For a row_sparse array, a row_sparse one.

    Shapes: data (N, *S), indices (K,) -> (N, *S).

    >>> import minigluon as mx
    >>> mx.nd.sparse.retain(mx.nd.ones((3, 1)).tostype("row_sparse"), mx.nd.array([2])).asnumpy()
    array([[0.],
           [0.],
           [1.]], dtype=float32)
    """
    wanted = indices.astype(xp.int64)
    kept = xp.zeros_like(data)
    kept[wanted] = data[wanted]
    return kept


@form("_sparse_retain", "row_sparse", "default")
def _retain(xp: Any, data: RowSparse, indices: Any) -> RowSparse:
    wanted = xp.unique(indices.astype(xp.int64))  # rows that are not kept are named, too (MXNet)
    return RowSparse(data.shape, wanted, rows_of(xp, data, wanted))


@form("_sparse_retain", "csr", "*")
def _retain_csr(xp: Any, data: Any, indices: Any) -> Any:
    raise MXNetError("retain: expected a row_sparse array, got a csr one; slice its rows instead")


def _square_back(F: Any, dy: Any, out: Any, data: Any, **how: Any) -> list[Any]:
    return [F._mul_scalar(F.elemwise_mul(data, F._unreduce(dy, data, **how)), scalar=2)]


@operator("_square_sum", infer=reduce_shape, gradient=_square_back)
def _square_sum(xp: Any, data: Any, *, axis: Axes = None, keepdims: bool = False,
                exclude: bool = False) -> Any:
    """Sums of squares over axes: ``sum(square(data))``, a row_sparse array's rows only.

    Shapes: data (*S) -> S without the axes.

    >>> import minigluon as mx
    >>> mx.nd._internal._square_sum(mx.nd.array([[1, 2], [3, 4]]), axis=1).asnumpy().tolist()
    [5.0, 25.0]
    """
    axes = axes_of(axis, data.ndim, exclude)
    total = xp.asarray((data * data).sum(axis=axes, keepdims=keepdims), dtype=data.dtype)
    return total.reshape(reduced(data.shape, axes, keepdims))


@form("_square_sum", "row_sparse", when=lambda attrs: attrs["axis"] in (1, (1,)))
def _square_rows(xp: Any, data: RowSparse, *, axis: Any, keepdims: bool, exclude: bool) -> Any:
    if data.ndim != 2 or exclude:
        return _square_sum.body(xp, data.dense(xp), axis=axis, keepdims=keepdims, exclude=exclude)
    sums = (data.data * data.data).sum(axis=1, keepdims=True)
    rows = RowSparse((data.shape[0], 1), data.indices.copy(), sums)
    return rows if keepdims else rows.dense(xp).reshape(-1)
