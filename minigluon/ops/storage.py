"""Raw arrays that keep only some of their elements: row_sparse and csr, and how they change form.

`Stored` stands where a dense raw array could stand. Its parts are arrays of one array module
(NumPy or CuPy), handed in as ``xp`` where something is computed. ``assign`` replaces the content
in place, so that everybody who holds the object sees the new one.
"""
from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ..base import ArgumentValueError, MXNetError, ShapeError

__all__ = ["STORED", "STYPES", "Csr", "Delayed", "RowPatch", "RowSparse", "Stored", "dense_of",
           "fill", "found_rows", "put_rows", "row_sums", "rows_of", "stored_as", "stype_of"]

STYPES = ("default", "row_sparse", "csr")


class Stored:
    """What all storage types share.

    Attributes:
        shape, dtype: of the array it stands for. data: the values that are kept.
        base: always None: it owns its memory.
    """

    stype = "default"
    base = None

    def __init__(self, shape: tuple[int, ...], data: Any) -> None:
        self.shape = tuple(shape)
        self.data = data

    @property
    def dtype(self) -> Any:
        """Element type."""
        return self.data.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements, kept or not."""
        count = 1
        for length in self.shape:
            count *= length
        return count

    @property
    def nbytes(self) -> int:
        """Bytes of the values that are kept."""
        return int(self.data.nbytes)

    def __len__(self) -> int:
        return self.shape[0]

    def with_data(self, data: Any) -> Any:
        """The same places with other values."""
        raise NotImplementedError

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        """The same places with another element type."""
        if not copy and self.dtype == dtype:
            return self
        return self.with_data(self.data.astype(dtype))

    def each(self, change: Callable[[Any], Any]) -> Any:
        """The same array of other parts: ``change(part)`` for each, e.g. moved to a device."""
        raise NotImplementedError

    def copy(self) -> Any:
        """A copy that shares nothing."""
        return self.each(lambda part: part.copy())

    def dense(self, xp: Any) -> Any:
        """All elements, as an array of `xp`."""
        raise NotImplementedError


class RowSparse(Stored):
    """Some rows (slices along axis 0) of an array; those left out are zero.

    Attributes:
        indices: numbers of the rows, int64 (n,); operators give them sorted, each once.
        data: the rows, (n, *shape[1:]).
    """

    stype = "row_sparse"

    def __init__(self, shape: tuple[int, ...], indices: Any, data: Any) -> None:
        super().__init__(shape, data)
        self.indices = indices

    def with_data(self, data: Any) -> RowSparse:
        return RowSparse(self.shape, self.indices.copy(), data)

    def each(self, change: Callable[[Any], Any]) -> RowSparse:
        return RowSparse(self.shape, change(self.indices), change(self.data))

    def assign(self, other: RowSparse) -> None:
        """Take over the content of `other`, in this element type."""
        self.indices = other.indices.copy()
        self.data = other.data.astype(self.data.dtype)

    def dense(self, xp: Any) -> Any:
        whole = xp.zeros(self.shape, self.dtype)
        inside = self.indices < self.shape[0]  # rows past the end do not exist (MXNet)
        if bool(inside.all()):
            whole[self.indices] = self.data
        else:
            whole[self.indices[inside]] = self.data[inside]
        return whole

    def check(self, full: bool) -> None:
        """Complain about parts that do not fit together; `full` looks at every number."""
        count = self.data.shape[0] if self.data.ndim else -1
        if self.indices.ndim != 1 or self.data.shape != (count, *self.shape[1:]) or (
                self.indices.shape[0] != count):
            raise ShapeError(f"row_sparse array of shape {self.shape}: indices "
                             f"{self.indices.shape} and data {self.data.shape} do not fit")
        if full and count:
            self._check_numbers()

    def _check_numbers(self) -> None:
        rows = self.indices
        if int(rows.min()) < 0 or int(rows.max()) >= self.shape[0]:
            raise MXNetError(f"row_sparse array of shape {self.shape}: row numbers must be in "
                             f"[0, {self.shape[0]}), found {int(rows.min())} .. {int(rows.max())}")
        if not bool((rows[1:] > rows[:-1]).all()):
            raise MXNetError("row_sparse array: row numbers must be sorted, each once")


class Csr(Stored):
    """A matrix row by row: the values that are kept and their columns.

    Attributes:
        data: values, (n,). indices: their columns, int64 (n,).
        indptr: row i has the values indptr[i] .. indptr[i + 1]; int64 (rows + 1,).
    """

    stype = "csr"

    def __init__(self, shape: tuple[int, ...], data: Any, indices: Any, indptr: Any) -> None:
        super().__init__(shape, data)
        self.indices = indices
        self.indptr = indptr

    def with_data(self, data: Any) -> Csr:
        return Csr(self.shape, data, self.indices.copy(), self.indptr.copy())

    def each(self, change: Callable[[Any], Any]) -> Csr:
        return Csr(self.shape, change(self.data), change(self.indices), change(self.indptr))

    def assign(self, other: Csr) -> None:
        """Take over the content of `other`, in this element type."""
        self.indices, self.indptr = other.indices.copy(), other.indptr.copy()
        self.data = other.data.astype(self.data.dtype)

    def rows(self, xp: Any) -> Any:
        """The row of each value."""
        return xp.repeat(xp.arange(self.shape[0]), xp.diff(self.indptr))

    def dense(self, xp: Any) -> Any:
        whole = xp.zeros(self.shape, self.dtype)
        whole[self.rows(xp), self.indices] = self.data
        return whole

    def check(self, full: bool) -> None:
        """Complain about parts that do not fit together; `full` looks at every number."""
        if self.indptr.shape != (self.shape[0] + 1,) or self.indices.shape != self.data.shape:
            raise ShapeError(f"csr array of shape {self.shape}: data {self.data.shape}, indices "
                             f"{self.indices.shape} and indptr {self.indptr.shape} do not fit")
        ends = self.indptr
        if int(ends[0]) != 0 or int(ends[-1]) != self.data.shape[0]:
            raise MXNetError(f"csr array: indptr must go from 0 to the {self.data.shape[0]} "
                             f"values, found {int(ends[0])} .. {int(ends[-1])}")
        if not full:
            return
        if not bool((ends[1:] >= ends[:-1]).all()):
            raise MXNetError("csr array: indptr must not decrease")
        self._check_columns()

    def _check_columns(self) -> None:
        columns = self.indices
        if not columns.shape[0]:
            return
        if int(columns.min()) < 0 or int(columns.max()) >= self.shape[1]:
            raise MXNetError(f"csr array of shape {self.shape}: columns must be in [0, "
                             f"{self.shape[1]}), found {int(columns.min())} .. "
                             f"{int(columns.max())}")
        falls = (columns[1:] <= columns[:-1]).nonzero()[0] + 1
        starts = set(self.indptr.tolist())
        if any(place not in starts for place in falls.tolist()):
            raise MXNetError("csr array: columns of a row must be sorted, each once")


class Delayed(Stored):
    """A dense array that is computed when somebody asks for it.

    The gradient of a product for its csr operand is as large as the operand would be dense, and
    mostly nobody wants it.
    """

    def __init__(self, shape: tuple[int, ...], like: Any, compute: Callable[[], Any]) -> None:
        super().__init__(shape, like)
        self._compute = compute

    def with_data(self, data: Any) -> Any:
        return data

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        return self._compute().astype(dtype)

    def each(self, change: Callable[[Any], Any]) -> Any:
        return change(self._compute())

    def dense(self, xp: Any) -> Any:
        return self._compute()


class RowPatch(Stored):
    """What an update of some rows makes of `whole`: new values for the rows `indices`."""

    def __init__(self, whole: Any, indices: Any, data: Any) -> None:
        super().__init__(whole.shape, data)
        self.whole = whole
        self.indices = indices

    def each(self, change: Callable[[Any], Any]) -> Any:
        xp = sys.modules[type(self.indices).__module__.partition(".")[0]]  # whose array it is
        return change(self.applied(xp))

    def dense(self, xp: Any) -> Any:
        return dense_of(xp, self.applied(xp))

    def applied(self, xp: Any) -> Any:
        """`whole` with these rows, as a new array."""
        made = self.whole.copy()
        put_rows(xp, made, self.indices, self.data)
        return made


STORED = frozenset((RowSparse, Csr, Delayed, RowPatch))


def stype_of(array: Any) -> str:
    """'default', 'row_sparse' or 'csr'."""
    return array.stype if isinstance(array, Stored) else "default"


def dense_of(xp: Any, array: Any) -> Any:
    """`array` itself, or all elements of a sparse one."""
    return array.dense(xp) if isinstance(array, Stored) else array


def _rows_kept(xp: Any, array: Any) -> RowSparse:
    flat = array.reshape(array.shape[0], -1)
    rows = xp.flatnonzero((flat != 0).any(axis=1)).astype(xp.int64)
    return RowSparse(array.shape, rows, array[rows])


def _values_kept(xp: Any, array: Any) -> Csr:
    if array.ndim != 2:
        raise ShapeError(f"csr: expected a matrix, got shape {array.shape}")
    rows, columns = xp.nonzero(array)
    ends = xp.searchsorted(rows, xp.arange(array.shape[0] + 1)).astype(xp.int64)
    return Csr(array.shape, array[rows, columns], columns.astype(xp.int64), ends)


def stored_as(xp: Any, array: Any, stype: str) -> Any:
    """`array` in another storage type: zeros (rows of zeros) are left out.

    >>> import numpy as np
    >>> kept = stored_as(np, np.array([[0., 0.], [0., 5.]]), "row_sparse")
    >>> kept.indices.tolist(), kept.data.tolist()
    ([1], [[0.0, 5.0]])
    """
    if stype == stype_of(array) and type(array) is not Delayed:
        return array
    if stype == "default":
        return dense_of(xp, array)
    if isinstance(array, (RowSparse, Csr)):
        raise ArgumentValueError(f"cast_storage from {array.stype} to {stype} is not supported")
    if stype == "row_sparse":
        return _rows_kept(xp, dense_of(xp, array))
    if stype == "csr":
        return _values_kept(xp, dense_of(xp, array))
    raise MXNetError(f"storage type: expected one of {', '.join(STYPES)}, got '{stype}'")


def row_sums(xp: Any, rows: Any, values: Any, dtype: Any = None) -> tuple[Any, Any]:
    """Equal row numbers come together: (the numbers, sorted and each once; their values' sums).

    Values of one number are added in the order in which they are given.

    >>> import numpy as np
    >>> [part.tolist() for part in row_sums(np, np.array([3, 1, 3]), np.array([[1.], [2.], [4.]]))]
    [[1, 3], [[2.0], [5.0]]]
    """
    rows = rows.astype(xp.int64, copy=False)
    if bool((rows[1:] > rows[:-1]).all()):
        return rows, values
    order = xp.argsort(rows, kind="stable")
    rows = rows[order]
    starts = xp.concatenate((xp.zeros(1, xp.int64), xp.flatnonzero(xp.diff(rows)) + 1))
    return rows[starts], xp.add.reduceat(values[order], starts, axis=0, dtype=dtype)


def found_rows(xp: Any, array: RowSparse, wanted: Any) -> tuple[Any, Any]:
    """Where the rows `wanted` are kept in a sorted `array`, and whether they are there at all."""
    if not array.indices.shape[0]:
        return xp.zeros(wanted.shape, xp.int64), xp.zeros(wanted.shape, bool)
    places = xp.minimum(xp.searchsorted(array.indices, wanted), array.indices.shape[0] - 1)
    return places, array.indices[places] == wanted


def rows_of(xp: Any, array: Any, wanted: Any) -> Any:
    """The rows `wanted` of a dense or row_sparse array, as a new dense one; absent ones are 0."""
    if not isinstance(array, RowSparse):
        return array[wanted]
    if not array.indices.shape[0]:
        return xp.zeros((wanted.shape[0], *array.shape[1:]), array.dtype)
    places, there = found_rows(xp, array, wanted)
    taken = array.data[places]
    if not bool(there.all()):
        taken[~there] = 0
    return taken


def put_rows(xp: Any, array: Any, rows: Any, values: Any) -> None:
    """Write `values` into the rows `rows` (sorted, each once) of a dense or row_sparse array."""
    if not isinstance(array, RowSparse):
        array[rows] = values
        return
    places, there = found_rows(xp, array, rows)
    if bool(there.all()):
        array.data[places] = values
        return
    keep = ~found_rows(xp, RowSparse(array.shape, rows, values), array.indices)[1]
    merged = row_sums(xp, xp.concatenate((array.indices[keep], rows)),
                      xp.concatenate((array.data[keep], values)))
    array.assign(RowSparse(array.shape, *merged))


def fill(xp: Any, target: Any, value: Any, add: bool = False) -> None:
    """Write a raw array or a number into `target` (or add it), whatever the storage of each.

    >>> import numpy as np
    >>> total, rows = np.ones((2, 1)), RowSparse((2, 1), np.array([1]), np.array([[2.0]]))
    >>> fill(np, total, rows, add=True)
    >>> fill(np, rows, total)
    >>> total.tolist(), rows.indices.tolist()
    ([[1.0], [3.0]], [0, 1])
    """
    if isinstance(target, Stored):
        _fill_stored(xp, target, value, add)
    elif add and type(value) is RowSparse:
        target[value.indices] += value.data.astype(target.dtype, copy=False)
    elif add:
        target += dense_of(xp, value)
    else:
        target[...] = dense_of(xp, value)


def _fill_stored(xp: Any, target: Any, value: Any, add: bool) -> None:
    if not getattr(value, "shape", ()):
        value = xp.full(target.shape, value, target.dtype)
    if value.shape != target.shape:
        value = xp.broadcast_to(dense_of(xp, value), target.shape)
    if add and type(value) is type(target) is RowSparse:
        sums = row_sums(xp, xp.concatenate((target.indices, value.indices)),
                        xp.concatenate((target.data, value.data.astype(target.dtype))))
        target.assign(RowSparse(target.shape, *sums))
        return
    if add:
        value = target.dense(xp) + dense_of(xp, value)
    if type(value) is not type(target):
        value = stored_as(xp, dense_of(xp, value), target.stype)
    target.assign(value)
