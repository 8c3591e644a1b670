"""Calls with a list of keys that repeat: worked out once, then one flat array for each server.

A training step calls the store with the same keys again and again. From the second call on (the first
counts as one if `init` had the same list), which part lies in which message, and where, is known; each
server has been told (`messages.Bundle`). What is left to do for each key is to look at its array and to
copy it; big arrays are moved to where not even that is needed (`moving.py`).

Only plain arrays of synchronous stores without server-side optimizer, codes or P3 go this way; for
anything else `run` returns False before anything has happened, and the caller goes the long way.
"""
from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base import KVStoreError
from ...device.cpu.native import core
from ...device.engine import Ticket, begin
from ...ndarray import NDArray
from . import messages as say
from .batches import BATCH_BYTES, Arrival, Home
from .messages import Item, Message, Node, Role
from .moving import Landing, Moved, Release, Shown
from .requests import Pending
from .segments import PAGE, address_of
from .wire import PACKED

if TYPE_CHECKING:
    from .exchange import Exchange

__all__ = ["Repeats"]

_PLANS = 64        # lists of keys that are remembered
_OWN = 1 << 20     # a key that is cut has messages of its own from so many bytes on
_MOVED = 16 << 10  # arrays are moved if they have so many bytes on the average
_PATIENCE = 1.0    # seconds for which a server may read what a script wants to write
_LATE, _MOST_LATE = 6, 12  # how a plan's count grows when that was not enough (else it falls by 1)
_Stretch = tuple[list[int], list[int], str]  # which arrays lie side by side, their sizes, their type
Array = np.ndarray[Any, Any]
Names = tuple[Any, ...]


@dataclass
class _Flat:
    """One message: parts of keys that travel to one server as one array.

    Args:
        items: the parts; `indices` says of which key of the plan each is.
        cut: which of them are not a whole key.
        item: what travels, without its numbers.
        stretch, start: the memory the numbers would lie in, moved, and where; None: such parts are not.
    """

    server: Node
    stretch: int | None = None
    start: int = 0
    indices: list[int] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)
    size: int = 0
    item: Item | None = None

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


class _Plan:
    """A list of keys: what arrays are expected, and the messages."""

    def __init__(self, homes: list[Home]) -> None:
        self.like = [np.broadcast_to(np.zeros((), home.place.dtype), home.place.shape)
                     for home in homes]
        self.parts = {i: len(home.parts) for i, home in enumerate(homes) if len(home.parts) > 1}
        self.flats: list[_Flat] = []
        self._stretches: list[_Stretch] = []
        last: dict[tuple[int, str, bool], _Flat] = {}
        for index, home in enumerate(homes):
            cut = len(home.parts) > 1
            if cut and home.parts[-1][1].stop * home.itemsize >= _OWN:
                self._cut(index, home)
                continue
            for server, item in home.parts:
                size = (item.stop - item.start) * home.itemsize
                flat = last.get((server, item.dtype, cut))
                if flat is None or flat.size + size > BATCH_BYTES:
                    flat = last[server, item.dtype, cut] = _Flat(Node(Role.SERVER, server))
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
        flat: _Flat | None = None
        elements = 0
        for server, item in home.parts:
            size = (item.stop - item.start) * home.itemsize
            if flat is None or flat.server.rank != server or flat.size + size > BATCH_BYTES:
                flat = _Flat(Node(Role.SERVER, server), len(self._stretches), item.start)
                self.flats.append(flat)
            flat.cut.append(len(flat.items))
            flat.indices.append(index)
            flat.items.append(item)
            flat.size += size
            elements = item.stop
        self._stretches.append(([index], [elements], home.place.dtype))

    def paged(self, flat: _Flat) -> bool:
        """Whether the numbers of a message would have pages of their own."""
        assert flat.stretch is not None
        indices, sizes, dtype = self._stretches[flat.stretch]
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

    def where(self, flat: _Flat) -> Array | None:
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


@dataclass
class _Lent:
    """Numbers of a message that are not copied: a server may be reading them until it answers."""

    since: float
    plan: _Plan
    answer: _Answer
    data: Array
    pending: Pending

    def open(self) -> bool:
        """Whether the arrays cannot be written yet."""
        return self.answer.reading is not None and not self.pending.ended

    def take_back(self, arena: Any, others: Iterable[_Lent]) -> bool:
        """Let the arrays be written again: the server goes on reading the pages it knows.

        Args:
            others: later messages; those with the same numbers have the same pages.
        """
        copy = arena.exchange(self.data) if self.open() else None
        if copy is None:
            return False
        here = address_of(self.data)
        for one in (self, *others):
            if one.open() and address_of(one.data) == here:
                one.hold(copy)
        return True

    def hold(self, copy: Array) -> None:
        """The pages that the server reads lie in `copy` from now on."""
        if len(self.pending.frames) == 2:
            self.pending.frames = [self.pending.frames[0], copy[: self.data.nbytes].data]
        reading, self.answer.reading, self.answer.held = self.answer.reading, None, copy
        assert reading is not None
        reading.done()


class Repeats:
    """What a store remembers of its calls."""

    def __init__(self, store: Exchange) -> None:
        self.store = store
        self._plans: dict[Names, _Plan | None] = {}
        self._lent: deque[_Lent] = deque()  # what servers may be reading, oldest first
        self._lending = threading.Lock()    # while something is sent that has to be noted there
        store._client.ticking.append(weakref.WeakMethod(self._tick))

    def run(self, kind: type[Message], key: Any, value: Any, out: Any, priority: Any) -> bool:
        """Do a call if it repeats an earlier one and is plain; False: nothing has been done."""
        names: Names = tuple(key) if isinstance(key, (list, tuple)) else (key,)
        single = not isinstance(key, (list, tuple))
        values = None if value is None else _arrays(value, single)
        outs = None if out is None else _arrays(out, single)
        wrong = [found for asked, found in ((value, values), (out, outs))
                 if asked is not None and (found is None or len(found) != len(names))]
        if wrong or not self.store._plain_traffic():
            return False
        if isinstance(priority, list) and len(priority) != len(names):
            return False
        plan = self._plan(names)
        if plan is None:
            return False
        self.store._check_open()
        client = self.store._client
        if not plan.takes(values, NDArray._sync) or not plan.takes(outs, NDArray._to_write):
            return False
        if not self._name(plan):
            return False
        if values is not None:
            client.make_room()
            self.store._count_steps(names)
        still = [False] * len(plan.flats) if values is None else self._still(plan, values, outs)
        sent = None if values is None else [value._data for value in values]
        what = f"{kind.__name__.lower()} of {self.store._what(names)}"
        if outs is None:
            answers = [_Answer([], [], client.push_failed) for _ in plan.flats]
        else:
            answers = _answers(plan, outs, self._landings(plan, outs), client.keep)
        for flat, answer, stays in zip(plan.flats, answers, still, strict=True):
            item, buffers = flat.item, list[Array]()
            assert item is not None
            try:
                if sent is not None and values is not None:
                    data = plan.where(flat) if stays else None
                    if data is None:
                        data = self._gather(flat, sent, buffers)
                    elif outs is None or outs[flat.indices[0]] is not values[flat.indices[0]]:
                        answer.reading = begin((), what, [values[i]._variable()
                                                          for i in dict.fromkeys(flat.indices)])
                    item = item.holding(data)
                message = kind(0, (item,))  # type: ignore[call-arg]
                with self._lending:
                    pending = client.request(
                        flat.server, message, what, answer, answer.failed, buffers)
                    if answer.reading is not None and item.data is not None:
                        self._lent.append(
                            _Lent(time.monotonic(), plan, answer, item.data, pending))
            except KVStoreError as error:  # the arrays must not wait for ever
                for one in answers:
                    one.failed(error)
                raise
        return True

    def _still(
        self, plan: _Plan, values: list[NDArray], outs: list[NDArray] | None
    ) -> list[bool]:
        """For each message, whether its numbers can be read where they lie, until it is answered."""
        client = self.store._client
        lends = plan.late < _MOST_LATE and all(client.near(flat.server) for flat in plan.flats)
        if lends and plan.late:
            plan.late -= 1
        if not lends and (outs is None or outs[0] is not values[0]):
            return [False] * len(plan.flats)
        here = plan.moved_values(values, client.requests.allocate)
        if not any(here):
            return [False] * len(plan.flats)
        # what is read shall not be written, but in its place
        written = {id(out._variable()): i for i, out in enumerate(outs or ())}
        found: list[bool] = []
        for flat in plan.flats:
            first = flat.indices[0]
            same = outs is not None and outs[first] is values[first]
            found.append(
                flat.stretch is not None and here[flat.stretch]
                and (same or (lends and plan.paged(flat)))
                and all(written.get(id(values[i]._variable())) == (i if same else None)
                        and (not same or (outs is not None and outs[i] is values[i]))
                        for i in flat.indices))
        return found

    def _tick(self, now: float) -> None:
        """Nobody shall have to wait for other workers to write what it has pushed (network thread).

        Once a server has kept us waiting for a while (it waits for others), arrays get other pages; a
        plan to which this happens again and again is copied from then on.
        """
        if not self._lending.acquire(blocking=False):
            return  # the next time; the connections must not wait for a script
        late: list[_Plan] = []
        try:
            while self._lent and now - self._lent[0].since > _PATIENCE:
                lent = self._lent.popleft()
                arena = self.store._client.transport.arena  # type: ignore[attr-defined]
                if lent.take_back(arena, self._lent) and lent.plan not in late:
                    late.append(lent.plan)
        finally:
            self._lending.release()
        for plan in late:
            plan.late += _LATE

    def _landings(self, plan: _Plan, outs: list[NDArray]) -> list[Landing | None]:
        """For each message, where its answer can appear."""
        client = self.store._client
        if getattr(client.transport, "arena", None) is None:
            return [None] * len(plan.flats)
        return plan.landings(outs, client.give_back)

    def _plan(self, names: Names) -> _Plan | None:
        """The plan of a list that has come before."""
        try:
            if names not in self._plans:
                self.expect(names)  # the next call will repeat this one
                return None
        except TypeError:  # no keys: the long way says so
            return None
        plan = self._plans[names]
        if plan is not None:
            return plan
        homes = [self.store._homes.get(name) for name in names]
        found = [home for home in homes if home is not None]
        if len(found) != len(names) or len(set(names)) != len(names) or not names:
            return None
        self.store._client.requests.drop_spare()  # messages will have other sizes
        plan = self._plans[names] = _Plan(found)
        return plan

    def expect(self, names: Names) -> None:
        """Calls with this list will come."""
        if len(self._plans) >= _PLANS:
            self._plans.clear()
        self._plans.setdefault(names, None)

    def forget(self, keys: Iterable[Any]) -> None:
        """These keys have moved."""
        moved = set(keys)
        self._plans = {names: plan for names, plan in self._plans.items()
                       if plan is None or moved.isdisjoint(names)}

    def _name(self, plan: _Plan) -> bool:
        """Have servers know which parts come together; False: they know too many lists already."""
        for flat in plan.flats:
            if flat.item is not None:
                continue
            if len(flat.items) == 1:
                flat.item = flat.items[0]
                continue
            number = self.store._client.bundle(flat.server, flat.items)
            if number is None:
                return False
            count = flat.elements
            flat.item = Item(number, 0, 0, count, flat.items[0].dtype, (count,))
        return True

    def _gather(self, flat: _Flat, raws: list[Array], buffers: list[Array]) -> Array:
        """The numbers of a message, in memory that does not change."""
        item, pieces = flat.item, flat.pieces(raws)
        assert item is not None
        if flat.size <= PACKED and len(pieces) == 1:
            return pieces[0].reshape(item.shape)  # encoding copies it
        if flat.size <= PACKED:
            made = np.empty(item.shape, item.dtype)
        else:
            buffers.append(self.store._client.requests.buffer(flat.size))
            made = buffers[0].view(item.dtype).reshape(item.shape)
        if core is None or not core.kv_gather(made, pieces):
            np.concatenate([piece.reshape(-1) for piece in pieces], out=made.reshape(-1))
        return made


class _Answer:
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

    def __call__(self, values: Message) -> None:
        if self.reading is not None:
            self.reading.done()
        if not self.arrivals:
            return
        assert isinstance(values, say.Values)
        if len(values.items) != 1:  # the server did not hold these parts as one
            for target, item in zip(self.targets, values.items, strict=True):
                _scatter(item.data, [target])
        elif not self._shown(values.items[0].data):
            _scatter(values.items[0].data, self.targets)
        if self._landing is not None:
            self._landing.arrived(self._start, self._size)
        for arrival in self.arrivals:
            arrival.left -= 1
            if not arrival.left:
                arrival.ticket.done()

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


def _answers(
    plan: _Plan, outs: list[NDArray], landings: list[Landing | None],
    keep: Callable[[], Release],
) -> list[_Answer]:
    """What awaits the answers; the arrays wait from now on."""
    raws = [out._data for out in outs]
    places = [flat.start * raws[flat.indices[0]].itemsize for flat in plan.flats]
    for flat, landing, start in zip(plan.flats, landings, places, strict=True):
        if landing is not None:
            landing.awaits(start, flat.size)
    found: list[_Answer] = []
    try:
        own = {index: Arrival([outs[index]], parts, "pull of a big key")
               for index, parts in plan.parts.items()}
        for flat, landing, start in zip(plan.flats, landings, places, strict=True):
            arrivals = [own[flat.indices[at]] for at in flat.cut]
            whole = [index for index in flat.indices if index not in own] if own else flat.indices
            if whole:
                arrivals.append(Arrival([outs[index] for index in whole], 1, "pull of keys"))
            found.append(
                _Answer(flat.pieces(raws), arrivals, None, landing, start, flat.size, keep))
    except BaseException:
        for flat, landing, start in zip(plan.flats, landings, places, strict=True):
            if landing is not None:
                landing.lost(start, flat.size)
        raise
    return found


def _scatter(flat: Any, targets: list[Array]) -> None:
    if core is not None and core.kv_scatter(flat, targets):
        return
    flat, at = flat.reshape(-1), 0
    for target in targets:
        np.copyto(target.reshape(-1), flat[at : at + target.size])
        at += target.size


def _arrays(value: Any, single: bool) -> list[NDArray] | None:
    """One array for each key; None if there are others."""
    several = [value] if single and not isinstance(value, (list, tuple)) else value
    if not isinstance(several, (list, tuple)):
        return None
    found, kinds = list(several), set(map(type, several))
    if not kinds.isdisjoint((list, tuple)):
        found = [one[0] if isinstance(one, (list, tuple)) and len(one) == 1 else one
                 for one in several]
        kinds = set(map(type, found))
    return found if all(issubclass(kind, NDArray) for kind in kinds) else None
