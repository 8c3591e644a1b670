"""Calls with a list of keys that repeat: worked out once, then one flat array for each server.

A training step calls the store with the same keys again and again. From the second call on, which
part lies in which message, and where, is known; each server has been told (`messages.Bundle`). What is left
to do for each key is to look at its array and to copy it.

Only plain arrays of synchronous stores without server-side optimizer, codes or P3 go this way; for
anything else `run` returns False before anything has happened, and the caller goes the long way.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base import KVStoreError
from ...device.cpu.native import core
from ...ndarray import NDArray
from . import messages as say
from .batches import BATCH_BYTES, Arrival, Home
from .messages import Item, Message, Node, Role
from .wire import PACKED

if TYPE_CHECKING:
    from .worker import DistKVStore

__all__ = ["Repeats"]

_PLANS = 64       # lists of keys that are remembered
Array = np.ndarray[Any, Any]
Names = tuple[Any, ...]


@dataclass
class _Flat:
    """One message: parts of keys that travel to one server as one array.

    Args:
        items: the parts; `indices` says of which key of the plan each is.
        cut: which of them are not a whole key.
        item: what travels, without its numbers.
    """

    server: Node
    indices: list[int] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)
    size: int = 0
    item: Item | None = None

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
        last: dict[tuple[int, str], _Flat] = {}
        for index, home in enumerate(homes):
            for server, item in home.parts:
                size = (item.stop - item.start) * home.itemsize
                flat = last.get((server, item.dtype))
                if flat is None or flat.size + size > BATCH_BYTES:
                    flat = last[server, item.dtype] = _Flat(Node(Role.SERVER, server))
                    self.flats.append(flat)
                if len(home.parts) > 1:
                    flat.cut.append(len(flat.items))
                flat.indices.append(index)
                flat.items.append(item)
                flat.size += size

    def fits(self, raws: list[Any]) -> bool:
        """Whether these are arrays in plain memory, of the types and shapes of the keys."""
        if core is not None:
            return bool(core.kv_fits(raws, self.like))
        return all(type(raw) is np.ndarray and raw.flags.c_contiguous and raw.dtype == one.dtype
                   and raw.shape == one.shape for raw, one in zip(raws, self.like, strict=True))


class Repeats:
    """What a store remembers of its calls."""

    def __init__(self, store: DistKVStore) -> None:
        self.store = store
        self._plans: dict[tuple[Names, Any], _Plan | None] = {}

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
        plan = self._plan(names, tuple(priority) if isinstance(priority, list) else priority)
        if plan is None:
            return False
        self.store._check_open()
        sent = None if values is None else list(map(NDArray._sync, values))
        filled = None if outs is None else list(map(NDArray._to_write, outs))
        if not all(plan.fits(raws) for raws in (sent, filled) if raws is not None):
            return False
        if not self._name(plan):
            return False
        client = self.store._client
        if sent is not None:
            client.make_room()
            self.store._count_steps(names)
        what = f"{kind.__name__.lower()} of {self.store._what(names)}"
        answers = _answers(plan, outs, filled) if outs and filled else [None] * len(plan.flats)
        for flat, answer in zip(plan.flats, answers, strict=True):
            item, buffers = flat.item, list[Array]()
            assert item is not None
            try:
                if sent is not None:
                    item = replace(item, data=self._gather(flat, sent, buffers))
                failed = client.push_failed if answer is None else answer.failed
                message = kind(0, (item,))  # type: ignore[call-arg]
                client.request(flat.server, message, what, answer, failed, buffers)
            except KVStoreError as error:  # the arrays must not wait for ever
                for one in answers:
                    if one is not None:
                        one.failed(error)
                raise
        return True

    def _plan(self, names: Names, priority: Any) -> _Plan | None:
        """The plan of a list that has come before."""
        try:
            if (names, priority) in self._plans:
                plan = self._plans[names, priority]
                if plan is not None:
                    return plan
            else:
                if len(self._plans) >= _PLANS:
                    self._plans.clear()
                self._plans[names, priority] = None  # the next call will repeat this one
                return None
        except TypeError:  # no keys: the long way says so
            return None
        homes = [self.store._homes.get(name) for name in names]
        found = [home for home in homes if home is not None]
        if len(found) != len(names) or len(set(names)) != len(names) or not names:
            return None
        if isinstance(priority, tuple) and len(priority) != len(names):
            return None
        self.store._client.requests.drop_spare()  # messages will have other sizes
        plan = self._plans[names, priority] = _Plan(found)
        return plan

    def forget(self) -> None:
        """Keys have moved."""
        self._plans.clear()

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
            count = sum(item.stop - item.start for item in flat.items)
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
    """Puts what comes for one message where it belongs (network thread)."""

    def __init__(self, targets: list[Array], arrivals: list[Arrival]) -> None:
        self.targets, self.arrivals = targets, arrivals

    def __call__(self, values: Message) -> None:
        assert isinstance(values, say.Values)
        if len(values.items) == 1:
            _scatter(values.items[0].data, self.targets)
        else:  # the server did not hold these parts as one
            for target, item in zip(self.targets, values.items, strict=True):
                _scatter(item.data, [target])
        for arrival in self.arrivals:
            arrival.left -= 1
            if not arrival.left:
                arrival.ticket.done()

    def failed(self, error: KVStoreError) -> None:
        """There will be none."""
        for arrival in self.arrivals:
            arrival.ticket.fail(error)


def _answers(plan: _Plan, outs: list[NDArray], raws: list[Array]) -> list[_Answer]:
    """What awaits the answers; the arrays wait from now on."""
    own = {index: Arrival([outs[index]], parts, "pull of a big key")
           for index, parts in plan.parts.items()}
    found: list[_Answer] = []
    for flat in plan.flats:
        arrivals = [own[flat.indices[at]] for at in flat.cut]
        whole = [index for index in flat.indices if index not in own] if own else flat.indices
        if whole:
            arrivals.append(Arrival([outs[index] for index in whole], 1, "pull of keys"))
        found.append(_Answer(flat.pieces(raws), arrivals))
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
