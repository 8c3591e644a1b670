"""Sums, means, norms and slices of sparse arrays."""
from __future__ import annotations

from typing import Any

from ...base import ShapeError
from ..operator import Attrs, find_operator
from ..storage import Csr, RowSparse, rows_of
from .form import form

__all__: list[str] = []


def _one_axis(attrs: Attrs) -> bool:
    return attrs["axis"] in (0, 1, (0,), (1,)) and not attrs["exclude"]


def _totals(xp: Any, data: Csr, axis: int) -> Any:
    if axis == 0:
        wide = xp.bincount(data.indices, weights=data.data, minlength=data.shape[1])
    else:
        wide = xp.bincount(data.rows(xp), weights=data.data, minlength=data.shape[0])
    return wide.astype(data.dtype)


def _reduced(name: str) -> None:
    @form(name, "csr", when=_one_axis)
    def along(xp: Any, data: Csr, *, axis: Any, keepdims: bool, exclude: bool) -> Any:
        where = axis if isinstance(axis, int) else axis[0]
        total = _totals(xp, data, where)
        if name == "mean":
            total = total / total.dtype.type(data.shape[where])
        return xp.expand_dims(total, where) if keepdims else total


_reduced("sum")
_reduced("mean")


@form("norm", "sparse", when=lambda attrs: attrs["axis"] is None and not attrs["keepdims"])
def _norm(xp: Any, data: Any, **attrs: Any) -> Any:
    return find_operator("norm").body(xp, data.data.reshape(-1), **attrs)


def _span(part: Any, length: int, default: int) -> int:
    if part is None:
        return default
    return max(0, min(length, part + length if part < 0 else part))


@form("slice", "csr", when=lambda attrs: not any(s not in (None, 1) for s in attrs["step"] or ()))
def _slice(xp: Any, data: Csr, *, begin: Any, end: Any, step: Any) -> Csr:
    first, last = _span(begin[0], data.shape[0], 0), _span(end[0], data.shape[0], data.shape[0])
    rows = csr_rows(data, first, max(first, last))
    if len(begin) < 2:
        return rows
    left, right = (_span(begin[1], data.shape[1], 0), _span(end[1], data.shape[1], data.shape[1]))
    inside = (rows.indices >= left) & (rows.indices < right)
    kept = xp.concatenate((xp.zeros(1, xp.int64), xp.cumsum(inside)))
    return Csr((rows.shape[0], max(0, right - left)), rows.data[inside],
               rows.indices[inside] - left, kept[rows.indptr])


def csr_rows(data: Csr, first: int, last: int) -> Csr:
    """Rows first .. last of a csr matrix, as a copy."""
    begin, end = int(data.indptr[first]), int(data.indptr[last])
    return Csr((last - first, data.shape[1]), data.data[begin:end].copy(),
               data.indices[begin:end].copy(), data.indptr[first:last + 1] - begin)


@form("take", "csr", "default", when=lambda attrs: attrs["axis"] == 0 and attrs["mode"] != "raise")
def _take(xp: Any, data: Csr, indices: Any, *, axis: int, mode: str) -> Csr:
    """Rows of a csr matrix, as one."""
    if indices.ndim != 1:
        raise ShapeError(f"take from csr: expected a vector of row numbers, got {indices.shape}")
    number = indices.astype(xp.int64)
    rows = number % data.shape[0] if mode == "wrap" else xp.clip(number, 0, data.shape[0] - 1)
    counts = xp.diff(data.indptr)[rows]
    ends = xp.concatenate((xp.zeros(1, xp.int64), xp.cumsum(counts)))
    places = xp.repeat(data.indptr[rows] - ends[:-1], counts) + xp.arange(int(ends[-1]))
    return Csr((rows.shape[0], data.shape[1]), data.data[places], data.indices[places], ends)


@form("Concat", "csr", when=lambda attrs: attrs["dim"] == 0)
def _stacked(xp: Any, *data: Csr, dim: int = 0, num_args: int = 0) -> Csr:
    ends = [data[0].indptr]
    for one in data[1:]:
        ends.append(one.indptr[1:] + ends[-1][-1])
    return Csr((sum(one.shape[0] for one in data), data[0].shape[1]),
               xp.concatenate([one.data for one in data]),
               xp.concatenate([one.indices for one in data]), xp.concatenate(ends))


@form("_contrib_SparseEmbedding", "default", "row_sparse")
@form("Embedding", "default", "row_sparse")
def _looked_up(xp: Any, data: Any, weight: RowSparse, *, input_dim: int, output_dim: int,
               **attrs: Any) -> Any:
    """Rows of a table that keeps only some; the others are zero."""
    rows = xp.clip(data, 0, input_dim - 1).astype(xp.int64)
    wanted, places = xp.unique(rows, return_inverse=True)
    return rows_of(xp, weight, wanted)[places.reshape(rows.shape)]
