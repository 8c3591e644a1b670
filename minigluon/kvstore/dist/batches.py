"""From keys to messages, and from messages into arrays."""
from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ...device.engine import Ticket
from ...ndarray import NDArray
from ..api import Key
from .messages import Item, Placement
from .placement import part_shape, parts
from .wire import PACKED

__all__ = ["Batch", "Sink", "batches", "host"]

BATCH_BYTES = 4 << 20   # small keys are gathered into messages of about this size


def host(array: NDArray) -> Any:
    """The numbers of an array in host memory, once they are there."""
    raw = array._sync()
    return raw if isinstance(raw, np.ndarray) else array.asnumpy()


class Batch:
    """Items that travel to one server in one message."""

    def __init__(self, server: int) -> None:
        self.server = server
        self.keys: list[Key] = []
        self.items: list[Item] = []
        self.buffers: list[np.ndarray[Any, Any]] = []
        self.size = 0


def batches(
    places: Iterable[Placement],
    values: dict[Key, Any] | None,
    copy: Callable[[int], np.ndarray[Any, Any]] | None,
    own: set[Key] | frozenset[Key] = frozenset(),
) -> Iterator[Batch]:
    """Messages for parts of keys, one part after the other, gathered until they are big enough.

    Args:
        places: the keys.
        values: their numbers; None makes items without numbers.
        copy: where to get memory for numbers that must not change later; None: no need.
        own: keys whose numbers nobody else will change.
    """
    openbatches: dict[int, Batch] = {}
    for place in places:
        flat = None if values is None else np.ascontiguousarray(values[place.key]).reshape(-1)
        itemsize = np.dtype(place.dtype).itemsize
        for server, bare in parts(place):
            batch = openbatches.setdefault(server, Batch(server))
            size = (bare.stop - bare.start) * itemsize
            if batch.items and batch.size + size > BATCH_BYTES:
                yield batch
                batch = openbatches[server] = Batch(server)
            item = bare
            if flat is not None:
                numbers = flat[bare.start : bare.stop]
                if copy is not None and size > PACKED and place.key not in own:
                    buffer = copy(size)
                    batch.buffers.append(buffer)
                    numbers = buffer.view(place.dtype)
                    np.copyto(numbers, flat[bare.start : bare.stop])
                item = Item(
                    bare.key, bare.part, bare.start, bare.stop, bare.dtype, bare.shape,
                    numbers.reshape(part_shape(place, bare.part)),
                )
            batch.keys.append(place.key)
            batch.items.append(item)
            batch.size += size
    yield from (batch for batch in openbatches.values() if batch.items)


class Sink:
    """Arrays that wait for the value of one key, which may come in parts."""

    def __init__(self, arrays: list[NDArray], count: int, ticket: Ticket) -> None:
        self.ticket = ticket
        self._left = count
        self._late: list[tuple[Any, np.ndarray[Any, Any]]] = []
        self._flats: list[np.ndarray[Any, Any]] = []
        for array in arrays:
            raw = array._data
            if isinstance(raw, np.ndarray) and raw.flags.c_contiguous:
                self._flats.append(raw.reshape(-1))
            else:
                flat = np.empty(math.prod(raw.shape), raw.dtype)
                self._flats.append(flat)
                self._late.append((array, flat))

    def put(self, item: Item) -> None:
        """A part has come (network thread)."""
        assert item.data is not None
        for flat in self._flats:
            np.copyto(flat[item.start : item.stop], item.data.reshape(-1), casting="unsafe")
        self._left -= 1
        if not self._left:
            for array, flat in self._late:
                _write(array, flat.reshape(array.shape))
            self.ticket.done()


def _write(array: NDArray, value: np.ndarray[Any, Any]) -> None:
    raw = array._data
    if isinstance(raw, np.ndarray):
        raw[...] = value
    else:  # a GPU array: its module turns host numbers into its own
        raw.set(np.ascontiguousarray(value))
