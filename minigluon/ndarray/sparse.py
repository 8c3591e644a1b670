"""Sparse arrays: RowSparseNDArray keeps some rows, CSRNDArray some elements of each row.

``mx.nd.sparse`` also has every operator that MXNet lists there. Operators without a sparse form
work as well: they make their inputs dense.

>>> import minigluon as mx
>>> rows = mx.nd.sparse.row_sparse_array(([[1, 2]], [3]), shape=(5, 2))
>>> rows.indices.asnumpy().tolist(), (rows * 2).data.asnumpy().tolist()
([3], [[2.0, 4.0]])
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base import ArgumentError, ArgumentValueError, did_you_mean, dtype_name
from ..context import Context, current_context
from ..device import device_of
from ..ops import find_operator
from ..ops import namespace as _namespace
from ..ops import subspaces as _subspaces
from ..ops.storage import Csr, RowSparse, Stored, stored_as
from .calls import nd_call
from .creation import BINARY_FUNCTIONS as _BINARY
from .creation import zeros as _zeros
from .kinds import sparse_class, wrap
from .ndarray import NDArray
from .stored import BaseSparseNDArray, CSRNDArray, RowSparseNDArray

__all__ = ["BaseSparseNDArray", "CSRNDArray", "RowSparseNDArray", "array", "csr_matrix", "empty",
           "multiply", "row_sparse_array", "zeros"]

_TIMES = find_operator("elemwise_mul")

_INDEX = np.int64


def _context(ctx: Context | None) -> Context:
    ctx = ctx or current_context()
    if not isinstance(ctx, Context):
        raise ArgumentError(f"ctx: expected a Context like mx.cpu(0), got {ctx!r}")
    return ctx


def _values(source: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """Values on the host: lists become float32, arrays keep their type."""
    if isinstance(source, NDArray):
        host = source.asnumpy()
    else:
        host = np.asarray(source)
        if dtype is None and not hasattr(source, "dtype"):
            dtype = "float32"
    return host if dtype is None else host.astype(dtype_name(dtype), copy=False)


def _numbers(source: Any) -> np.ndarray[Any, Any]:
    host = source.asnumpy() if isinstance(source, NDArray) else np.asarray(source)
    return host.astype(_INDEX)


def _placed(raw: Stored, ctx: Context | None) -> Any:
    ctx = _context(ctx)
    return wrap(raw.each(device_of(ctx).array), ctx)


def _is_shape(arg: Any) -> bool:
    return isinstance(arg, tuple) and all(isinstance(size, (int, np.integer)) for size in arg)


def _copied(source: NDArray, ctx: Context | None, dtype: Any) -> Any:
    made = source.copyto(_context(ctx))
    return made if dtype is None else made.astype(dtype)


def _from_dense(source: Any, stype: str, ctx: Context | None, dtype: Any) -> Any:
    if isinstance(source, BaseSparseNDArray):
        raise ArgumentValueError(f"Unexpected input type: {type(source).__name__}")
    host = _values(source, dtype)
    if host.dtype.kind not in "biuf":
        raise ArgumentError(f"{stype}: expected an array-like source, got {type(source).__name__}")
    if host.ndim < (2 if stype == "csr" else 1):
        raise ArgumentValueError(f"{stype}: expected "
                                 f"{'a matrix' if stype == 'csr' else 'an array'}, got shape "
                                 f"{host.shape}")
    return _placed(stored_as(np, host, stype), ctx)


def csr_matrix(arg1: Any, shape: Sequence[int] | None = None, ctx: Context | None = None,
               dtype: Any = None) -> CSRNDArray:
    """A CSRNDArray.

    Args:
        arg1: ``(data, indices, indptr)``; ``(data, (row, col))``, where equal places are added up;
            a shape ``(M, N)`` for one of zeros; a matrix (NDArray, NumPy, lists), of which what is
            not 0 is kept; a CSRNDArray or a SciPy csr matrix.
        shape: (M, N); taken from the largest numbers where it is None.
        ctx: context. dtype: element type; that of the data (of lists: float32) when None.

    >>> import minigluon as mx
    >>> mx.nd.sparse.csr_matrix(([5, 7], [1, 0], [0, 1, 2]), shape=(2, 2)).asnumpy().tolist()
    [[0.0, 5.0], [7.0, 0.0]]
    """
    if isinstance(arg1, CSRNDArray):
        return _copied(arg1, ctx, dtype)  # type: ignore[no-any-return]
    if hasattr(arg1, "tocsr"):
        return CSRNDArray.from_scipy(arg1, ctx, dtype)  # type: ignore[no-any-return]
    if isinstance(arg1, tuple):
        if len(arg1) == 3:
            return _csr_of(*arg1, shape=shape, ctx=ctx, dtype=dtype)
        if _is_shape(arg1) and len(arg1) == 2:
            return CSRNDArray.empty(arg1, ctx, dtype)  # type: ignore[no-any-return]
        if len(arg1) == 2 and isinstance(arg1[1], (tuple, list)) and len(arg1[1]) == 2 and (
                np.ndim(arg1[1][0]) == 1 or isinstance(arg1[1][0], NDArray)):
            return _csr_of_places(arg1[0], *arg1[1], shape=shape, ctx=ctx, dtype=dtype)
        raise ArgumentValueError("csr_matrix: expected (data, indices, indptr), (data, (row, col)) "
                                 f"or a shape (M, N), got a tuple of {len(arg1)}")
    made = _from_dense(arg1, "csr", ctx, dtype)
    _same(shape, made)
    return made  # type: ignore[no-any-return]


def _same(shape: Any, made: NDArray) -> None:
    if shape is not None and tuple(shape) != made.shape:
        raise ArgumentValueError(f"Shape mismatch detected: {tuple(shape)} was asked for, the "
                                 f"source has {made.shape}")


def _csr_of(data: Any, indices: Any, indptr: Any, *, shape: Any, ctx: Any, dtype: Any
            ) -> CSRNDArray:
    values, columns, ends = _values(data, dtype), _numbers(indices), _numbers(indptr)
    if values.ndim != 1 or columns.ndim != 1 or ends.ndim != 1 or not ends.size:
        raise ArgumentValueError(f"csr_matrix: data, indices and indptr must be vectors, got "
                                 f"{values.shape}, {columns.shape}, {ends.shape}")
    if shape is None:
        shape = (ends.size - 1, int(columns.max()) + 1 if columns.size else 0)
    raw = Csr(tuple(map(int, shape)), values, columns, ends)
    if raw.ndim != 2 or raw.shape[0] != ends.size - 1:
        raise ArgumentValueError(f"csr_matrix: indptr of {ends.size} numbers is for "
                                 f"{ends.size - 1} rows, got shape {raw.shape}")
    return _placed(raw, ctx)  # type: ignore[no-any-return]


def _csr_of_places(data: Any, row: Any, col: Any, *, shape: Any, ctx: Any, dtype: Any
                   ) -> CSRNDArray:
    values, rows, columns = _values(data, dtype), _numbers(row), _numbers(col)
    if not values.shape == rows.shape == columns.shape:
        raise ArgumentValueError(f"csr_matrix: data, row and col must be vectors of one length, "
                                 f"got {values.shape}, {rows.shape}, {columns.shape}")
    if shape is None:
        shape = (int(rows.max()) + 1, int(columns.max()) + 1) if rows.size else (0, 0)
    size = tuple(map(int, shape))
    keys, places = np.unique(rows * size[1] + columns, return_inverse=True)
    sums = np.zeros(keys.shape, values.dtype)
    np.add.at(sums, places.reshape(-1), values)
    ends = np.searchsorted(keys // max(size[1], 1), np.arange(size[0] + 1)).astype(_INDEX)
    return _placed(Csr(size, sums, keys % max(size[1], 1), ends), ctx)  # type: ignore[no-any-return]


def row_sparse_array(arg1: Any, shape: Sequence[int] | None = None, ctx: Context | None = None,
                     dtype: Any = None) -> RowSparseNDArray:
    """A RowSparseNDArray.

    Args:
        arg1: ``(data, indices)``: rows and their numbers; a shape for one of zeros; an array
            (NDArray, NumPy, lists), of which rows that are not 0 are kept; a RowSparseNDArray.
        shape: taken from the largest row number where it is None.
        ctx: context. dtype: element type; that of the data (of lists: float32) when None.

    >>> import minigluon as mx
    >>> x = mx.nd.sparse.row_sparse_array(([[1, 2]], [2]), shape=(3, 2))
    >>> x.asnumpy().tolist()
    [[0.0, 0.0], [0.0, 0.0], [1.0, 2.0]]
    """
    if isinstance(arg1, RowSparseNDArray):
        return _copied(arg1, ctx, dtype)  # type: ignore[no-any-return]
    if isinstance(arg1, tuple):
        if _is_shape(arg1) and len(arg1) >= 2:
            return RowSparseNDArray.empty(arg1, ctx, dtype)  # type: ignore[no-any-return]
        if len(arg1) == 2:
            return _rows_of(*arg1, shape=shape, ctx=ctx, dtype=dtype)
        raise ArgumentValueError("row_sparse_array: expected (data, indices) or a shape, got a "
                                 f"tuple of {len(arg1)}")
    made = _from_dense(arg1, "row_sparse", ctx, dtype)
    _same(shape, made)
    return made  # type: ignore[no-any-return]


def _rows_of(data: Any, indices: Any, *, shape: Any, ctx: Any, dtype: Any) -> RowSparseNDArray:
    values, rows = _values(data, dtype), _numbers(indices)
    if rows.ndim != 1 or values.ndim < 1 or values.shape[0] != rows.shape[0]:
        raise ArgumentValueError(f"row_sparse_array: {values.shape[:1]} rows of data need as many "
                                 f"numbers, got {rows.shape}")
    if shape is None:
        shape = (int(rows.max()) + 1 if rows.size else 0, *values.shape[1:])
    size = tuple(map(int, shape))
    if values.ndim != len(size) or (rows.size and values.shape[1:] != size[1:]):
        raise ArgumentValueError(f"row_sparse_array: rows of shape {values.shape[1:]} do not fit "
                                 f"into an array of shape {size}")
    return _placed(RowSparse(size, rows, values), ctx)  # type: ignore[no-any-return]


def zeros(stype: str, shape: Any, ctx: Context | None = None, dtype: Any = None) -> NDArray:
    """An array of zeros. Args: stype ('row_sparse', 'csr', 'default'), shape, ctx, dtype."""
    if stype == "default":
        return _zeros(shape, _context(ctx), dtype)
    return sparse_class(stype).empty(shape, _context(ctx), dtype)  # type: ignore[no-any-return]


def empty(stype: str, shape: Any, ctx: Context | None = None, dtype: Any = None) -> NDArray:
    """As `zeros`: what is not kept is zero."""
    return zeros(stype, shape, ctx, dtype)


def array(source_array: Any, ctx: Context | None = None, dtype: Any = None) -> NDArray:
    """A copy of a sparse array.

    Args:
        source_array: a CSRNDArray, a RowSparseNDArray, or a SciPy matrix (it becomes csr).
        ctx: context. dtype: element type; that of the source when None.
    """
    if isinstance(source_array, BaseSparseNDArray):
        return _copied(source_array, ctx, dtype)  # type: ignore[no-any-return]
    if hasattr(source_array, "tocsr"):
        return CSRNDArray.from_scipy(source_array, ctx, dtype)  # type: ignore[no-any-return]
    raise ArgumentValueError(f"nd.sparse.array: expected a sparse array, got "
                             f"{type(source_array).__name__}; use nd.array(x).tostype(...)")


def multiply(lhs: Any, rhs: Any) -> Any:
    """lhs * rhs of arrays or numbers: stored as the sparse one, where the shapes are equal."""
    if (isinstance(lhs, NDArray) and lhs.stype == "default"
            and isinstance(rhs, BaseSparseNDArray) and lhs.shape == rhs.shape):
        return nd_call(_TIMES, (lhs, rhs), {})
    return _BINARY["multiply"](lhs, rhs)


_space = _subspaces(_namespace(nd_call, ("out", "name"), "_sparse_"))["sparse"]
for _name, _function in {**{word: _BINARY[word] for word in (
        "add", "subtract", "divide")}, **vars(_space)}.items():
    globals().setdefault(_name, _function)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"there is no operator '{name}' in 'sparse', or it is not built yet"
                         f"{did_you_mean(name, globals())}")
