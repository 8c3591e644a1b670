"""Classes of sparse arrays: RowSparseNDArray keeps some rows, CSRNDArray some elements."""
from __future__ import annotations

from typing import Any

import numpy as np

from .. import tape
from ..base import (
    ArgumentError,
    ArgumentValueError,
    MXNetError,
    NotSupportedForSparseNDArray,
    OutOfRangeError,
    dtype_name,
)
from ..context import Context, current_context
from ..device import device_of
from ..ops import find_operator
from ..ops.sparse.arith import empty_like
from ..ops.sparse.reduction import csr_rows
from ..ops.storage import STYPES, Csr, RowSparse, fill
from .calls import nd_call
from .creation import array
from .kinds import enter_class, wrap
from .ndarray import NDArray, raw_on

__all__ = ["BaseSparseNDArray", "CSRNDArray", "RowSparseNDArray"]


class BaseSparseNDArray(NDArray):
    """What RowSparseNDArray and CSRNDArray share."""

    __slots__ = ()

    @property
    def stype(self) -> str:
        """'row_sparse' or 'csr'."""
        return self._data.stype  # type: ignore[no-any-return]

    def _write(self, value: Any) -> None:
        fill(device_of(self._ctx).xp, self._to_write(), value)

    def _part(self, part: Any) -> NDArray:
        """One of the arrays this one is made of; it shares their memory."""
        return NDArray(part, self._ctx)

    @property
    def data(self) -> NDArray:
        """The values that are kept."""
        return self._part(self._sync().data)

    @property
    def indices(self) -> NDArray:
        """Numbers of the rows (row_sparse), or columns of the values (csr); int64."""
        return self._part(self._sync().indices)

    def __repr__(self) -> str:
        shape = "x".join(str(size) for size in self.shape)
        return f"\n<{type(self).__name__} {shape} @{self._ctx}>"

    def __reduce__(self) -> tuple[Any, ...]:
        device = device_of(self._ctx)
        return _rebuild, (_host(self._sync().each(device.to_host)), self._ctx)

    @classmethod
    def empty(cls, shape: Any, ctx: Context | None = None, dtype: Any = None) -> Any:
        """An array of zeros: nothing is kept."""
        ctx = ctx or current_context()
        sizes = (shape,) if isinstance(shape, int) else tuple(int(size) for size in shape)
        if cls is CSRNDArray and len(sizes) != 2:
            raise ArgumentValueError(f"csr: expected a matrix, got shape {sizes}")
        kind = "csr" if cls is CSRNDArray else "row_sparse"
        return cls(empty_like(device_of(ctx).xp, kind, sizes, dtype_name(dtype or "float32")), ctx)

    # -- leaving and moving ------------------------------------------------------------------------

    def asnumpy(self) -> np.ndarray[Any, Any]:
        """All elements as a NumPy array."""
        device = device_of(self._ctx)
        return np.array(device.to_host(self._sync().dense(device.xp)), copy=True)

    def copyto(self, other: NDArray | Context) -> NDArray:
        """Copy into an array of the same shape and storage type or a dense one, or to a context."""
        failure = self._lost()
        if isinstance(other, Context):
            copied = wrap(raw_on(self, other).copy(), other)
            if failure is not None:
                copied._variable().fail(failure)
            return copied
        if isinstance(other, NDArray) and other.stype not in ("default", self.stype):
            raise ArgumentError(f"copyto: a {self.stype} array cannot be copied into a "
                                f"{other.stype} one; use tostype('default') first")
        return super().copyto(other)

    def astype(self, dtype: Any, copy: bool = True) -> NDArray:
        """The array with another element type, stored alike."""
        name = dtype_name(dtype)
        if not copy and self._data.dtype.name == name:
            return self
        return super().astype(dtype, copy)

    def tostype(self, stype: str) -> NDArray:
        """The array dense ('default'), or a copy of it."""
        if stype in STYPES and stype not in ("default", self.stype):
            raise ArgumentValueError(f"cast_storage from {self.stype} to {stype} is not supported")
        return nd_call(_CAST, (self,), {"stype": stype})  # type: ignore[no-any-return]

    def check_format(self, full_check: bool = True) -> None:
        """Complain (MXNetError) unless the parts fit together.

        Args:
            full_check: look at every number, too: in range, in order, each once.
        """
        self._sync().check(full_check)

    def reshape(self, *shape: Any, **kwargs: Any) -> NDArray:
        """Refused: sparse arrays keep their shape."""
        raise NotSupportedForSparseNDArray(
            f"reshape of a {self.stype} array; use tostype('default') first")

    _at = _slice = reshape

    def dot(self, other: NDArray, **kwargs: Any) -> NDArray:
        """``nd.sparse.dot(self, other)``."""
        return nd_call(_DOT, (self, other), kwargs)  # type: ignore[no-any-return]

    # -- assignment --------------------------------------------------------------------------------

    def __setitem__(self, key: Any, value: Any) -> None:
        if not (isinstance(key, slice) and key == slice(None)):
            raise MXNetError(f"{type(self).__name__} only supports [:] for assignment, got {key!r}")
        if tape.state.recording and self._ag is not None:
            raise MXNetError("assignment to a variable inside autograd.record() is not supported")
        if isinstance(value, NDArray):
            if value.stype not in ("default", self.stype):
                raise ArgumentError(f"a {value.stype} array cannot be assigned to a {self.stype} "
                                    "one; use tostype('default') first")
            if value is not self:
                value.copyto(self)
        elif isinstance(value, (int, float, np.number)):
            self._assign_number(value)
        else:
            array(value, self._ctx, self.dtype).copyto(self)

    def _assign_number(self, value: Any) -> None:
        raise ArgumentValueError("Assigning numeric types to CSRNDArray is not implemented: csr "
                                 "arrays keep what is not zero")

    def __iter__(self) -> Any:
        raise NotSupportedForSparseNDArray(f"iterating over a {self.stype} array; use "
                                           "tostype('default') first")


class RowSparseNDArray(BaseSparseNDArray):
    """Some rows of an array; the others are zero.

    Gradients of big tables are such arrays: their size is that of the rows that were looked up.
    Made by `row_sparse_array`, ``x.tostype('row_sparse')`` and operators.

    Attributes:
        indices: numbers of the rows that are kept, int64, sorted. data: these rows.
    """

    __slots__ = ()

    def __getitem__(self, key: Any) -> NDArray:
        if isinstance(key, slice) and key == slice(None):
            return self
        if isinstance(key, tuple):
            raise ArgumentValueError("Multi-dimension indexing of a row_sparse array is not "
                                     "supported; use tostype('default') first")
        raise NotSupportedForSparseNDArray(f"RowSparseNDArray only supports [:], got [{key!r}]; "
                                           "use retain(rows) or tostype('default')")

    def _assign_number(self, value: Any) -> None:
        fill(device_of(self._ctx).xp, self._to_write(), _all_rows(self, value))

    def retain(self, indices: Any) -> RowSparseNDArray:
        """The rows `indices` alone; all others become zero.

        Args:
            indices: row numbers, an NDArray or a list.
        """
        if not isinstance(indices, NDArray):
            indices = array(indices, self._ctx, "int64")
        return nd_call(_RETAIN, (self, indices), {})  # type: ignore[no-any-return]


class CSRNDArray(BaseSparseNDArray):
    """A matrix of which each row keeps some elements (compressed sparse rows).

    Made by `csr_matrix`, ``x.tostype('csr')`` and operators. ``x[i]`` and ``x[i:j]`` are rows, as
    csr arrays.

    Attributes:
        data: values row by row. indices: their columns, int64.
        indptr: row i has the values indptr[i] .. indptr[i + 1]; int64.
    """

    __slots__ = ()

    @property
    def indptr(self) -> NDArray:
        """Where each row begins and ends; int64."""
        return self._part(self._sync().indptr)

    def __getitem__(self, key: Any) -> NDArray:
        if isinstance(key, tuple):
            raise ArgumentValueError("Multi-dimension indexing of a csr array is not supported; "
                                     "use slice() or tostype('default')")
        rows = self.shape[0]
        if isinstance(key, (int, np.integer)):
            if not -rows <= key < rows:
                raise OutOfRangeError(f"row {key} of a csr array with {rows} rows")
            first = int(key) % rows
            return wrap(csr_rows(self._sync(), first, first + 1), self._ctx)
        if not isinstance(key, slice) or key.step not in (None, 1):
            raise ArgumentValueError(f"CSRNDArray: expected a row number or x[i:j], got [{key!r}]")
        if key == slice(None):
            return self
        first, last, _ = key.indices(rows)
        return wrap(csr_rows(self._sync(), first, max(first, last)), self._ctx)

    @classmethod
    def from_scipy(cls, source: Any, ctx: Context | None = None, dtype: Any = None) -> Any:
        """A CSRNDArray of a SciPy sparse matrix (of anything that has ``tocsr()``)."""
        csr = source.tocsr()
        csr.sort_indices()
        name = dtype_name(csr.data.dtype if dtype is None else dtype)
        parts = Csr(csr.shape, csr.data.astype(name), csr.indices.astype(np.int64),
                    csr.indptr.astype(np.int64))
        ctx = ctx or current_context()
        return cls(parts.each(device_of(ctx).array), ctx)

    def asscipy(self) -> Any:
        """A ``scipy.sparse.csr_matrix`` with the same values (SciPy has to be installed)."""
        import scipy.sparse  # what asks for it brings it along

        raw = _host(self._sync().each(device_of(self._ctx).to_host))
        return scipy.sparse.csr_matrix((raw.data, raw.indices, raw.indptr), shape=raw.shape)


def _host(raw: Any) -> Any:
    return raw.each(np.array)


def _all_rows(like: BaseSparseNDArray, value: Any) -> Any:
    """All rows with one value; for 0 none: rows that are left out are zero."""
    xp = device_of(like._ctx).xp
    if value == 0:
        return empty_like(xp, "row_sparse", like.shape, like.dtype)
    return RowSparse(like.shape, xp.arange(like.shape[0], dtype=xp.int64),
                     xp.full(like.shape, value, like.dtype))


def _rebuild(raw: Any, ctx: Context) -> NDArray:
    """Unpickle; an array saved on a GPU loads on the CPU where that GPU cannot be used."""
    try:
        device = device_of(ctx)
    except MXNetError:
        ctx = Context("cpu", 0)
        device = device_of(ctx)
    return wrap(raw.each(device.array), ctx)


_CAST, _DOT = find_operator("cast_storage"), find_operator("dot")
_RETAIN = find_operator("_sparse_retain")
enter_class("row_sparse", RowSparseNDArray)
enter_class("csr", CSRNDArray)
