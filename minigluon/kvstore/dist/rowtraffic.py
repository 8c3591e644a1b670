"""The worker's side of row_sparse values: pushes of rows, and rows asked for by number."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ... import ndarray as nd
from ...base import KVStoreError
from ...ndarray import NDArray
from ..api import Key
from ..rows import Asked
from . import messages as say
from .messages import Item, Message, Node, Role
from .rows import RowSink, cut, numbered, rowwise

if TYPE_CHECKING:
    from .exchange import Exchange

__all__ = ["RowTraffic"]

_Place = tuple[RowSink, int, int]


class RowTraffic:
    """What a store sends and receives row by row.

    Attributes:
        sent_bytes, pulled_bytes: of numbers and rows, so far.
    """

    def __init__(self, store: Exchange) -> None:
        self._store = store
        self.sent_bytes = self.pulled_bytes = 0

    def takes(self, key: Key) -> bool:
        """Whether rows of this key can travel by themselves: no slices, no pieces of a row."""
        return not self._store._client.job.slice and rowwise(self._store._homes[key])

    def push(self, grouped: dict[Key, list[NDArray]]) -> None:
        """Give row_sparse gradients, as they are now; each server gets one message."""
        if not grouped:
            return
        store, client = self._store, self._store._client
        messages: dict[int, list[Item]] = {}
        for key, arrays in grouped.items():
            store._check(store._known(key), arrays, "push")
        client.make_room()
        store._count_steps(list(grouped))
        for key, arrays in grouped.items():
            rows, values = numbered(arrays[0] if len(arrays) == 1 else store._sum(arrays))
            for server, items, _, _ in cut(store._homes[key], rows, values):
                messages.setdefault(server, []).extend(items)
        what = f"push of rows of {store._what(list(grouped))}"
        for server, items in messages.items():
            self.sent_bytes += _bytes(items)
            store._pushed(client.request(Node(Role.SERVER, server), say.PushRows(0, tuple(items)),
                                         what, None, client.push_failed))

    def pull(self, asked: Asked) -> None:
        """Fill each array with its rows; reading it waits for them."""
        store, client = self._store, self._store._client
        messages: dict[int, tuple[list[Item], list[_Place]]] = {}
        for key, pairs in asked.items():
            for array, rows in pairs:
                if not self.takes(key):
                    self._whole(key, array, rows)
                    continue
                home = store._homes[key]
                pieces = list(cut(home, rows, None))
                sink = RowSink(array, rows, home.place.dtype, len(pieces),
                               f"row_sparse_pull of key {key!r}")
                for server, items, first, last in pieces:
                    wanted, places = messages.setdefault(server, ([], []))
                    wanted += items
                    places.append((sink, first, last))
        what = f"row_sparse_pull of {store._what(list(asked))}"
        for server, (wanted, places) in messages.items():
            self.sent_bytes += _bytes(wanted)
            try:
                client.request(Node(Role.SERVER, server), say.PullRows(0, tuple(wanted)), what,
                               self._filling(places), _failing(places))
            except KVStoreError as error:  # the arrays must not wait for ever
                for _, several in messages.values():
                    _failing(several)(error)
                raise

    def _whole(self, key: Key, array: NDArray, rows: Any) -> None:
        """Where rows cannot travel by themselves: the value, then its rows."""
        value = nd.zeros(array.shape, array.context, array.dtype)
        self._store.pull(key, value)
        kept = nd.sparse.row_sparse_array(
            (value.asnumpy()[rows], rows), array.shape, array.context)
        kept.copyto(array)

    def _filling(self, places: list[_Place]) -> Any:
        def answer(values: Message) -> None:
            assert isinstance(values, say.Values)
            self.pulled_bytes += _bytes(values.items)
            for (sink, first, last), item in zip(places, values.items, strict=True):
                sink.put(item, first, last)

        return answer


def _failing(places: list[_Place]) -> Any:
    def failed(error: KVStoreError) -> None:
        for ticket in {sink.ticket for sink, _, _ in places}:
            ticket.fail(error)

    return failed


def _bytes(items: Any) -> int:
    return sum(np.asarray(item.data).nbytes for item in items)
