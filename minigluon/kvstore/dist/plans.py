"""A list of keys worked out once: its messages, and where their numbers lie."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...device.cpu.native import core
from ...ndarray import NDArray
from .batches import BATCH_BYTES, Home
from .forms import MOST, Form
from .messages import Item, Node, Role
from .moving import Landing, Moved, Release, Shown
from .pages import PAGE
from .record import Record, field

__all__ = ["Array", "Flat", "Plan"]

_OWN = 1 << 20     # a key that is cut has messages of its own from so many bytes on
_MOVED = 16 << 10  # arrays are moved if they have so many bytes on the average
_Stretch = tuple[list[int], list[int], str]  # which arrays lie side by side, their sizes, type
Array = np.ndarray[Any, Any]


class Flat(Record, frozen=False):
    """One message: parts of keys that travel to one server as one array.

    Args:
        items: the parts; `indices` says of which key of the plan each is.
        cut: which of them are not a whole key.
        item: what travels, without its numbers.
        stretch, start: the memory the numbers would lie in, moved, and where; None: such parts are
            not moved.
        request, reply: the forms of a `PushPull` of it and of the answer, once they are known.
    """

    server: Node
    stretch: int | None = None
    start: int = 0
    indices: list[int] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)
    size: int = 0
    item: Item | None = None
    request: Form | None = None
    reply: Form | None = None

    @property
    def short(self) -> bool:
        """Whether a message and its answer can have forms."""
        return self.size <= MOST and self.stretch is None and not self.cut

    @property
    def elements(self) -> int:
        """How many numbers travel."""
        return sum(item.stop - item.start for item in self.items)

    def pieces(self, raws: Sequence[Array]) -> list[Array]:
        """Where the numbers of the parts are."""
        found = [raws[index] for index in self.indices]
        for at in self.cut:
            found[at] = found[at].reshape(-1)[self.items[at].start : self.items[at].stop]
        return found


class Plan:
    """A list of keys: what arrays are expected, and the messages."""

    def __init__(self, homes: list[Home]) -> None:
        self.like = [np.broadcast_to(np.zeros((), home.place.dtype), home.place.shape)
                     for home in homes]
        self.parts = {i: len(home.parts) for i, home in enumerate(homes) if len(home.parts) > 1}
        self.flats: list[Flat] = []
        self._stretches: list[_Stretch] = []
        last: dict[tuple[int, str, bool], Flat] = {}
        for index, home in enumerate(homes):
            cut = len(home.parts) > 1
            if cut and home.parts[-1][1].stop * home.itemsize >= _OWN:
                self._cut(index, home)
                continue
            for server, item in home.parts:
                size = (item.stop - item.start) * home.itemsize
                flat = last.get((server, item.dtype, cut))
                if flat is None or flat.size + size > BATCH_BYTES:
                    flat = last[server, item.dtype, cut] = Flat(Node(Role.SERVER, server))
                    self.flats.append(flat)
                if cut:
                    flat.cut.append(len(flat.items))
                flat.indices.append(index)
                flat.items.append(item)
                flat.size += size
        self.late = 0  # grows when servers are still reading after a while
        for flat in self.flats:
            if not flat.cut and flat.size >= _MOVED * len(flat.items):
                flat.stretch = len(self._stretches)
                sizes = [item.stop - item.start for item in flat.items]
                self._stretches.append((flat.indices, sizes, flat.items[0].dtype))
        self._values: list[Moved] = []
        self._outs: list[Shown] = []

    def _cut(self, index: int, home: Home) -> None:
        """The messages of one big key."""
        flat: Flat | None = None
        elements = 0
        for server, item in home.parts:
            size = (item.stop - item.start) * home.itemsize
            if flat is None or flat.server.rank != server or flat.size + size > BATCH_BYTES:
                flat = Flat(Node(Role.SERVER, server), len(self._stretches), item.start)
                self.flats.append(flat)
            flat.cut.append(len(flat.items))
            flat.indices.append(index)
            flat.items.append(item)
            flat.size += size
            elements = item.stop
        self._stretches.append(([index], [elements], home.place.dtype))

    def paged(self, flat: Flat) -> bool:
        """Whether the numbers of a message would have pages of their own."""
        assert flat.stretch is not None
        _, sizes, dtype = self._stretches[flat.stretch]
        size = np.dtype(dtype).itemsize
        end = flat.start + flat.elements
        return flat.start * size % PAGE == 0 and (end * size % PAGE == 0 or end == sum(sizes))

    def moved_values(self, arrays: Sequence[NDArray], make: Callable[..., Array]) -> list[bool]:
        """For each stretch, whether these values lie in it."""
        if not self._values:
            self._values = [Moved(*stretch, make) for stretch in self._stretches]
        return [moved.here(arrays) for moved in self._values]

    def landings(
        self, arrays: Sequence[NDArray], returned: Callable[[Release], None]
    ) -> list[Landing | None]:
        """For each message, where its numbers can appear in these arrays."""
        if not self._outs:
            self._outs = [Shown(*stretch, returned) for stretch in self._stretches]
        found = [shown.landing if shown.here(arrays) else None for shown in self._outs]
        return [None if flat.stretch is None else found[flat.stretch] for flat in self.flats]

    def where(self, flat: Flat) -> Array | None:
        """The numbers of a message where they lie."""
        assert flat.stretch is not None
        return self._values[flat.stretch].flat(flat.start, flat.elements)

    def takes(
        self, arrays: list[NDArray] | None, ready: Callable[[NDArray], Any]
    ) -> bool:
        """Whether these are arrays in plain memory, of the types and shapes of the keys; or None.

        Args:
            ready: waits until an array may be used, and gives its memory.
        """
        if arrays is None:
            return True
        raws = list(map(ready, arrays))
        if core is not None:
            return bool(core.kv_fits(raws, self.like))
        return all(type(raw) is np.ndarray and raw.flags.c_contiguous and raw.dtype == one.dtype
                   and raw.shape == one.shape for raw, one in zip(raws, self.like, strict=True))
