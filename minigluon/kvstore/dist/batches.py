"""From keys to messages, and from messages into arrays."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ...device import device_of
from ...device.engine import Ticket, begin
from ...ndarray import NDArray
from ...ops.storage import Stored, fill
from ..api import Key
from ..compression import Residuals, packed_size
from .messages import Item, Placement
from .placement import parts
from .wire import PACKED

__all__ = ["BATCH_BYTES", "Batch", "Home", "Sink", "batches", "host", "sinks"]

BATCH_BYTES = 4 << 20   # small keys are gathered into messages of about this size


def host(array: NDArray) -> Any:
    """The numbers of an array in host memory, once they are there."""
    raw = array._sync()
    return raw if isinstance(raw, np.ndarray) else array.asnumpy()


class Home:
    """Where a key lives, worked out once: its parts, each with its server."""

    def __init__(self, place: Placement) -> None:
        self.place = place
        self.parts: list[tuple[int, Item]] = list(parts(place))
        self.itemsize = np.dtype(place.dtype).itemsize


class Batch:
    """Items that travel to one server in one message."""

    def __init__(self, server: int) -> None:
        self.server = server
        self.keys: list[Key] = []
        self.items: list[Item] = []
        self.buffers: list[np.ndarray[Any, Any]] = []
        self.size = 0


def batches(
    homes: Iterable[Home],
    values: dict[Key, Any] | None,
    copy: Callable[[int], np.ndarray[Any, Any]] | None = None,
    own: set[Key] | frozenset[Key] = frozenset(),
    residuals: Residuals | None = None,
    limit: int = BATCH_BYTES,
) -> Iterator[Batch]:
    """Messages for parts of keys, one part after the other, gathered until they are big enough.

    Args:
        homes: the keys.
        values: their numbers; None makes items without numbers.
        copy: where to get memory for numbers that must not change later; None: no need.
        own: keys whose numbers nobody else will change.
        residuals: quantise float32 numbers with these.
        limit: bytes of a message with several parts; 0: each part has its own.
    """
    open_batches: dict[int, Batch] = {}
    for home in homes:
        key = home.place.key
        array = None if values is None else np.ascontiguousarray(values[key])
        packs = residuals if home.place.dtype == "float32" and array is not None else None
        for server, item in home.parts:
            elements, codec = item.stop - item.start, 0
            size = elements * home.itemsize
            if packs is not None:
                codec = packs.codec.number
                size = packed_size(codec, elements)
            batch = open_batches.get(server)
            if batch is None or (batch.items and batch.size + size > limit):
                if batch is not None:
                    yield batch
                batch = open_batches[server] = Batch(server)
            if array is not None:
                if len(home.parts) > 1:
                    numbers = array.reshape(-1)[item.start : item.stop].reshape(item.shape)
                else:
                    numbers = array
                if packs is not None:
                    buffer = np.empty(size, np.uint8) if copy is None else copy(size)
                    batch.buffers.append(buffer)
                    numbers = packs.quantize(key, numbers, item.start, array.size, buffer)
                elif copy is not None and size > PACKED and key not in own:
                    buffer = copy(size)
                    batch.buffers.append(buffer)
                    kept = buffer.view(item.dtype).reshape(item.shape)
                    np.copyto(kept, numbers)
                    numbers = kept
                elif copy is not None and not limit and key not in own:
                    numbers = numbers.copy()  # encoding copies it, too late: P3 holds it back
                item = Item(
                    item.key, item.part, item.start, item.stop, item.dtype, item.shape, numbers,
                    codec,
                )
            batch.keys.append(key)
            batch.items.append(item)
            batch.size += size
    yield from open_batches.values()


class Arrival:
    """What the arrays of one or several keys wait for together: `left` more parts.

    Keys that come in one message share one; a key that comes in parts has its own.
    """

    def __init__(self, arrays: Iterable[NDArray], left: int, what: str) -> None:
        self.left = left
        self.ticket: Ticket = begin([array._variable() for array in arrays], what)


class Sink:
    """The arrays that one key is written into."""

    def __init__(self, arrays: list[NDArray], parts: int, arrival: Arrival) -> None:
        self.arrival = arrival
        self._left = parts
        self._targets: list[np.ndarray[Any, Any]] = []
        self._late: list[tuple[NDArray, np.ndarray[Any, Any]]] = []
        for array in arrays:
            raw = array._data
            if not isinstance(raw, np.ndarray) or not raw.flags.c_contiguous:
                raw = np.empty(array.shape, array.dtype)
                self._late.append((array, raw))
            self._targets.append(raw)

    def put(self, item: Item) -> None:
        """A part has come (network thread)."""
        assert item.data is not None
        for target in self._targets:
            if item.data.size != target.size:
                target = target.reshape(-1)[item.start : item.stop].reshape(item.shape)
            np.copyto(target, item.data, casting="unsafe")
        self._left -= 1
        if not self._left:
            for array, raw in self._late:  # not plain memory: written as a whole
                _write(array, raw)
        self.arrival.left -= 1
        if not self.arrival.left:
            self.arrival.ticket.done()


def sinks(
    sent: Sequence[Batch], outs: dict[Key, list[NDArray]], homes: dict[Key, Home]
) -> list[list[Sink]]:
    """For each message, the sinks of its items; the arrays wait from now on."""
    cut: dict[Key, Sink] = {}
    for key in outs:
        count = len(homes[key].parts)
        if count > 1:
            arrival = Arrival(outs[key], count, f"pull of key {key!r}")
            cut[key] = Sink(outs[key], count, arrival)
    found: list[list[Sink]] = []
    for batch in sent:
        single = [key for key in batch.keys if key not in cut]
        together: Arrival | None = None
        if single:
            what = f"pull of key {single[0]!r}" + (" and others" if len(single) > 1 else "")
            arrays = [array for key in single for array in outs[key]]
            together = Arrival(arrays, len(single), what)
        found.append([
            cut[key] if together is None or key in cut else Sink(outs[key], 1, together)
            for key in batch.keys
        ])
    return found


def _write(array: NDArray, value: np.ndarray[Any, Any]) -> None:
    raw = array._data
    if isinstance(raw, Stored):
        device = device_of(array.context)
        fill(device.xp, raw, device.array(value))
        return
    if isinstance(raw, np.ndarray):
        raw[...] = value
    else:  # a GPU array: its module turns host numbers into its own
        raw.set(np.ascontiguousarray(value))
