"""What is under way for a list of keys: who awaits numbers, and arrays that servers may read."""
from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ...base import KVStoreError
from ...device.cpu.native import core
from ...device.engine import Ticket
from ...ndarray import NDArray
from . import messages as say
from .batches import Arrival
from .messages import Message, Node
from .moving import Landing, Release
from .pages import address_of
from .plans import Array, Plan
from .record import Record
from .requests import Pending
from .wire import MAX_FRAME, Frame

__all__ = ["Answer", "Lent", "awaited"]

_BLANK = memoryview(mmap.mmap(-1, MAX_FRAME)).toreadonly()  # no memory: nobody looks at it
_BLANK_AT = address_of(np.frombuffer(_BLANK, np.uint8))


class Answer:
    """Puts what comes for one message where it belongs (network thread).

    Args:
        targets, arrivals: arrays for the numbers, and what waits for them.
        failed: whom else to tell that there will be none.
        landing, start, size, keep: bytes where the numbers can appear without being copied.
    """

    def __init__(
        self, targets: list[Array], arrivals: list[Arrival],
        failed: Callable[[KVStoreError], None] | None = None, landing: Landing | None = None,
        start: int = 0, size: int = 0, keep: Callable[[], Release] | None = None,
    ) -> None:
        self.targets, self.arrivals, self._failed = targets, arrivals, failed
        self._landing, self._start, self._size, self._keep = landing, start, size, keep
        self.reading: Ticket | None = None  # held while a server may read the pushed arrays
        self.held: Array | None = None      # the pages it reads, if the arrays have others by now
        self.learn: Callable[[Message], None] | None = None  # gets the answer first

    def __call__(self, values: Message) -> None:
        if self.learn is not None:
            self.learn(values)
        if self.reading is not None:
            self.reading.done()
        if not self.arrivals:
            return
        assert isinstance(values, say.Values)
        items = values.items
        if not items or not _blank(items[0].data):  # else they are where they belong
            if len(items) != 1:  # the server did not hold these parts as one
                for target, item in zip(self.targets, items, strict=True):
                    _scatter(item.data, [target])
            elif not self._shown(items[0].data):
                _scatter(items[0].data, self.targets)
        if self._landing is not None:
            self._landing.arrived(self._start, self._size)
        for arrival in self.arrivals:
            arrival.left -= 1
            if not arrival.left:
                arrival.ticket.done()

    def place(self, size: int) -> tuple[Frame, list[memoryview]] | None:
        """Where bytes can come that are all the numbers of an answer; what decoding reads instead.

        They are overwritten as they come: whoever reads the arrays waits for the whole answer.
        """
        if size != sum(target.nbytes for target in self.targets):
            return None
        return _BLANK[:size], [target.reshape(-1).view(np.uint8).data for target in self.targets]

    def _shown(self, data: Array | None) -> bool:
        return (self._landing is not None and self._keep is not None and data is not None
                and self._landing.take(self._start, data, self._keep))

    def failed(self, error: KVStoreError) -> None:
        """There will be none."""
        if self.reading is not None:
            self.reading.done()
        if self._landing is not None:
            self._landing.lost(self._start, self._size)
        for arrival in self.arrivals:
            arrival.ticket.fail(error)
        if self._failed is not None:
            self._failed(error)


def awaited(
    plan: Plan, outs: list[NDArray], landings: list[Landing | None],
    keep: Callable[[], Release],
) -> list[Answer]:
    """What awaits the answers; the arrays wait from now on."""
    raws = [out._data for out in outs]
    places = [flat.start * raws[flat.indices[0]].itemsize for flat in plan.flats]
    for flat, landing, start in zip(plan.flats, landings, places, strict=True):
        if landing is not None:
            landing.awaits(start, flat.size)
    found: list[Answer] = []
    try:
        own = {index: Arrival([outs[index]], parts, "pull of a big key")
               for index, parts in plan.parts.items()}
        for flat, landing, start in zip(plan.flats, landings, places, strict=True):
            arrivals = [own[flat.indices[at]] for at in flat.cut]
            whole = [index for index in flat.indices if index not in own] if own else flat.indices
            if whole:
                arrivals.append(Arrival([outs[index] for index in whole], 1, "pull of keys"))
            found.append(
                Answer(flat.pieces(raws), arrivals, None, landing, start, flat.size, keep))
    except BaseException:
        for flat, landing, start in zip(plan.flats, landings, places, strict=True):
            if landing is not None:
                landing.lost(start, flat.size)
        raise
    return found


def _blank(data: Array | None) -> bool:
    return (data is not None and data.size > 0
            and _BLANK_AT <= address_of(data) < _BLANK_AT + len(_BLANK))


def _scatter(flat: Any, targets: list[Array]) -> None:
    if core is not None and core.kv_scatter(flat, targets):
        return
    flat, at = flat.reshape(-1), 0
    for target in targets:
        np.copyto(target.reshape(-1), flat[at : at + target.size])
        at += target.size


class Lent(Record, frozen=False):
    """Numbers of a message that are not copied: a server may be reading them until it answers."""

    since: float
    plan: Plan
    answer: Answer
    data: Array
    pending: Pending

    def open(self) -> bool:
        """Whether the arrays cannot be written yet."""
        return self.answer.reading is not None and not self.pending.ended

    def take_back(
        self, detach: Callable[[Node, Array], Array | None], others: Iterable[Lent]
    ) -> bool:
        """Let the arrays be written again: the server goes on with what it was sent.

        Args:
            detach: as `Client.detach`.
            others: later messages; those with the same numbers have the same pages.
        """
        copy = detach(self.pending.node, self.data) if self.open() else None
        if copy is None:
            return False
        here = address_of(self.data)
        for one in (self, *others):
            if one.open() and address_of(one.data) == here:
                one.hold(copy)
        return True

    def hold(self, copy: Array) -> None:
        """The pages that the server reads lie in `copy` from now on."""
        head, *numbers = self.pending.frames or (b"",)
        if sum(map(len, numbers)) == self.data.nbytes:
            raw, at = copy.reshape(-1).view(np.uint8).data, 0
            for i, frame in enumerate(numbers):
                numbers[i] = raw[at : at + len(frame)]
                at += len(frame)
            self.pending.frames = [head, *numbers]
        reading, self.answer.reading, self.answer.held = self.answer.reading, None, copy
        assert reading is not None
        reading.done()
