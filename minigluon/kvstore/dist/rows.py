"""Rows on the wire: which rows of a key go to which server, and how they come back.

A key whose parts are cut along axis 0 travels by rows: of a row_sparse gradient only the rows it
has, with their numbers counted from the beginning of the part. In a message each part has two
items: the numbers (int64) and the rows; a request for rows has the numbers alone, its answer the
rows.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...device import device_of
from ...device.engine import Ticket, begin
from ...ndarray import NDArray
from ...ops.storage import RowSparse, row_sums
from .actions import Refusal
from .batches import Home
from .messages import Item

__all__ = ["RowSink", "checked", "cut", "numbered", "rowwise", "span", "sum_of_rows"]

Array = np.ndarray[Any, Any]
Piece = tuple[int, list[Item], int, int]
"""A server, what it is sent, and which of all rows (from, to) that is."""


def rowwise(home: Home) -> bool:
    """Whether every part of the key is a number of whole rows."""
    shape = home.place.shape
    return bool(shape) and all(len(item.shape) == len(shape) and item.shape[1:] == shape[1:]
                               for _, item in home.parts)


def span(home: Home, item: Item) -> tuple[int, int]:
    """The rows of the key that a part covers: from, to."""
    width = item.stop - item.start
    first = item.start // (width // item.shape[0]) if width else 0
    return first, first + item.shape[0]


def _item(part: Item, data: Array) -> Item:
    return Item(part.key, part.part, 0, data.size, data.dtype.name, data.shape, data)


def cut(home: Home, rows: Array, values: Array | None) -> Iterator[Piece]:
    """Row numbers (sorted, each once) and maybe their rows, cut into what each part is sent.

    With values every part gets something, if only nothing: a step needs a push to each part.
    """
    for server, part in home.parts:
        first, last = span(home, part)
        begin_, end = np.searchsorted(rows, (first, last)).tolist()
        if values is None and begin_ == end:
            continue
        items = [_item(part, rows[begin_:end] - first)]
        if values is not None:
            items.append(_item(part, np.array(values[begin_:end], order="C")))
        yield server, items, begin_, end


def numbered(array: NDArray) -> tuple[Array, Array]:
    """(row numbers, rows) of a row_sparse array in host memory, once they are there."""
    raw = array._sync().each(device_of(array.context).to_host)
    return row_sums(np, raw.indices, raw.data)


class RowSink:
    """A row_sparse array that is filled when all its rows have come."""

    def __init__(self, array: NDArray, rows: Array, dtype: str, left: int, what: str) -> None:
        self._array = array
        self._rows = rows
        self._data = np.zeros((rows.shape[0], *array.shape[1:]), dtype)
        self._left = left
        self.ticket: Ticket = begin([array._variable()], what)
        if not left:
            self._done()

    def put(self, item: Item, first: int, last: int) -> None:
        """Rows first .. last have come (network thread)."""
        assert item.data is not None
        self._data[first:last] = item.data
        self._left -= 1
        if not self._left:
            self._done()

    def _done(self) -> None:
        made = RowSparse(self._array.shape, self._rows, self._data)
        context = self._array.context
        if context.device_type == "gpu":
            made = made.each(device_of(context).array)
        self._array._data.assign(made)
        self.ticket.done()


# -- on the server -------------------------------------------------------------------------------


def checked(shape: tuple[int, ...], dtype: str, name: str, numbers: Item,
            values: Item | None) -> Any:
    """The row numbers of a part, or with `values` a row_sparse array; Refusal for what is none."""
    rows = numbers.data
    if rows is None or rows.dtype != np.int64 or rows.ndim != 1:
        raise Refusal(f"key {name}: row numbers must be a vector of int64")
    if rows.size and (rows[0] < 0 or rows[-1] >= shape[0] or not (rows[1:] > rows[:-1]).all()):
        raise Refusal(f"key {name}: row numbers must be sorted, each once, in [0, {shape[0]})")
    if values is None:
        return rows
    data = values.data
    if (values.key, values.part) != (numbers.key, numbers.part) or data is None or (
            data.shape != (rows.size, *shape[1:]) or data.dtype.name != dtype):
        got = "nothing" if data is None else f"{data.shape} of {data.dtype.name}"
        raise Refusal(f"key {name}: expected {rows.size} rows of shape {shape[1:]} and type "
                      f"{dtype}, got {got}")
    return RowSparse(shape, rows, data)


def sum_of_rows(pieces: Sequence[Any], dtype: Any) -> RowSparse:
    """The sum of row_sparse arrays in an element type, each row added up from left to right."""
    rows, sums = row_sums(np, np.concatenate([piece.indices for piece in pieces]),
                          np.concatenate([piece.data.astype(dtype, copy=False)
                                          for piece in pieces]))
    return RowSparse(pieces[0].shape, rows, sums)
