"""Calls with a list of keys that repeat: worked out once, then one flat array for each server.

A training step calls the store with the same keys again and again. From the second call on (the
first counts as one if `init` had the same list), which part lies in which message, and where, is
known (`plans.py`); each server has been told (`messages.Bundle`). What is left to do for each key
is to look at its array and to copy it; big arrays are moved to where not even that is needed
(`moving.py`), and lent to servers until they have answered (`lending.py`).

Only plain arrays of synchronous stores without server-side optimizer, codes or P3 go this way; for
anything else `run` returns False before anything has happened, and the caller goes the long way.
"""
from __future__ import annotations

import functools
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base import KVStoreError
from ...device.cpu.native import core
from ...device.engine import begin
from ...ndarray import NDArray
from .forms import form_of
from .lending import Answer, Lent, awaited
from .messages import Item, Message, PushPull, Values
from .moving import Landing
from .plans import Array, Flat, Plan
from .wire import PACKED

if TYPE_CHECKING:
    from .exchange import Exchange

__all__ = ["Repeats"]

_PLANS = 64        # lists of keys that are remembered
_PATIENCE = 1.0    # seconds for which a server may read what a script wants to write
_LATE, _MOST_LATE = 6, 12  # how a plan's count grows when that was not enough (else it falls by 1)
Names = tuple[Any, ...]


class Repeats:
    """What a store remembers of its calls."""

    def __init__(self, store: Exchange) -> None:
        self.store = store
        self._plans: dict[Names, Plan | None] = {}
        self._lent: deque[Lent] = deque()  # what servers may be reading, oldest first
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
            answers = [Answer([], [], client.push_failed) for _ in plan.flats]
        else:
            answers = awaited(plan, outs, self._landings(plan, outs), client.keep)
        for flat, answer, stays in zip(plan.flats, answers, still, strict=True):
            item, buffers = flat.item, list[Array]()
            assert item is not None
            try:
                if (sent is not None and outs is not None and flat.short
                        and self._directly(flat, what, sent, answer)):
                    continue
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
                        flat.server, message, what, answer, answer.failed, buffers,
                        place=answer.place)
                    if answer.reading is not None and item.data is not None:
                        self._lent.append(
                            Lent(time.monotonic(), plan, answer, item.data, pending))
            except KVStoreError as error:  # the arrays must not wait for ever
                for one in answers:
                    one.failed(error)
                raise
        return True

    def _directly(self, flat: Flat, what: str, sent: list[Array], answer: Answer) -> bool:
        """Have native code exchange a short message for its answer; False: not yet, or not now."""
        client = self.store._client
        if client.transport.lanes is None:
            return False
        answer.learn = functools.partial(self._learn, flat)  # if Python gets to see it
        if flat.request is None or flat.reply is None:
            assert flat.item is not None
            blank = np.zeros(flat.item.shape, flat.item.dtype)
            flat.request = client.form(PushPull(0, (flat.item.holding(blank),)))
            return False
        ticket = answer.arrivals[0].ticket
        request = (*flat.request, flat.pieces(sent), *flat.reply, answer.targets, ticket)
        return client.call(flat.server, what, request, answer, answer.failed)

    def _learn(self, flat: Flat, values: Message) -> None:
        """What the answer to a short message looks like (network thread)."""
        items = values.items if isinstance(values, Values) else ()
        if len(items) == 1 and items[0].data is not None and items[0].data.nbytes == flat.size:
            flat.reply = form_of(self.store._client.heard())

    def _still(
        self, plan: Plan, values: list[NDArray], outs: list[NDArray] | None
    ) -> list[bool]:
        """For each message, whether its numbers may be read where they lie until it is answered."""
        client = self.store._client
        lends = plan.late < _MOST_LATE and all(client.lends(flat.server) for flat in plan.flats)
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

        Once a server has kept us waiting for a while (it waits for others), arrays get other pages;
        a plan to which this happens again and again is copied from then on.
        """
        if not self._lending.acquire(blocking=False):
            return  # the next time; the connections must not wait for a script
        late: list[Plan] = []
        try:
            while self._lent and now - self._lent[0].since > _PATIENCE:
                lent = self._lent.popleft()
                if lent.take_back(self.store._client.detach, self._lent) and lent.plan not in late:
                    late.append(lent.plan)
        finally:
            self._lending.release()
        for plan in late:
            plan.late += _LATE

    def _landings(self, plan: Plan, outs: list[NDArray]) -> list[Landing | None]:
        """For each message, where its answer can appear."""
        client = self.store._client
        if client.transport.arena is None:
            return [None] * len(plan.flats)
        return plan.landings(outs, client.give_back)

    def _plan(self, names: Names) -> Plan | None:
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
        plan = self._plans[names] = Plan(found)
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

    def _name(self, plan: Plan) -> bool:
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

    def _gather(self, flat: Flat, raws: list[Array], buffers: list[Array]) -> Array:
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
