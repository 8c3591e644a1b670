"""The memory plan of a native program: which outputs share memory, and where everything lies.

Every entry of a graph gets a slot. Slots that show the same memory (a reshape and what it
reshapes, an output written over an input that nobody needs any more) form one storage. Storages
of temporaries get places in one arena, so that what is not needed at the same time may overlap;
what the graph returns gets an array of its own, and no result ever lies in the arena. Inputs that
the caller gives up (`spent`) lie in one block, which is memory for temporaries as they are read.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from math import prod
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Call", "Desc", "Place", "Plan", "Slot", "bytes_of", "plan"]

Desc = tuple[str, tuple[int, ...]]
"""Element type and shape."""

_ALIGN = 64


class Place(IntEnum):
    """Where a slot's memory is (the numbers are those of src/program.h)."""

    INPUT = 0
    OUTPUT = 1
    ARENA = 2
    OBJECT = 3
    ALIAS = 4
    KEPT = 5


class Call(NamedTuple):
    """One step to plan for.

    Attributes:
        step: a native Step; None for a Python callback; the string 'alias' where the single
            output shows the memory of input 0.
        inputs, outputs: slots (an output of a callback may be -1: nobody wants it).
        does: what the program calls: the Step or the callback.
    """

    step: Any
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    does: Any


class Slot(NamedTuple):
    """A slot as src/program.h has it; the type's name is None where nothing is promised."""

    place: Place
    where: int
    dtype: str | None
    shape: tuple[int, ...]


class Plan(NamedTuple):
    """What a native Program is made from."""

    slots: list[Slot]
    calls: list[tuple[Any, list[int], list[int], list[int], int]]
    returned: list[int]
    arena_bytes: int


class _Storage:
    """One piece of memory, from the step that first writes it to the last that reads it."""

    __slots__ = ("bytes", "first", "home", "last", "offset", "output", "place")

    def __init__(self, place: Place, home: int, size: int, first: int) -> None:
        self.place = place
        self.home = home  # the slot whose input, output or object array it is
        self.bytes = size
        self.first = self.last = first
        self.offset = 0
        self.output = -1


def bytes_of(desc: Desc) -> int:
    """How much memory an array takes."""
    return prod(desc[1]) * int(np.dtype(desc[0]).itemsize)


def plan(calls: Sequence[Call], inputs: int, descs: Sequence[Desc | None],
         returned: Sequence[int], spent: Sequence[tuple[int, int]] = ()) -> Plan:
    """Lay out the memory of a program.

    Args:
        calls: the steps in order.
        inputs: how many inputs there are; they have the first slots.
        descs: of every slot; native steps and aliases need theirs known.
        returned: the slots that are handed out.
        spent: inputs whose memory nobody needs after their last reader here, and where they
            lie in the one block that they share.
    """
    storages = _storages(calls, inputs, descs, spent)
    _live(calls, storages, returned)
    results = set(returned)
    kept = {id(storages[slot]) for slot in results}
    _hand_out(storages, results, descs)
    _share(calls, storages, kept, descs)
    _move_in(storages, [storages[slot] for slot, _ in spent])
    scratch, arena_bytes = _lay(calls, storages)
    slots = [_slot(i, storage, descs[i], results) for i, storage in enumerate(storages)]
    slots = _promises(slots, calls)
    free = _free(calls, storages, kept)
    return Plan(slots, [(call.does, list(call.inputs), list(call.outputs), free[i], scratch[i])
                        for i, call in enumerate(calls) if call.step != "alias"],
                list(returned), arena_bytes)


def _storages(calls: Sequence[Call], inputs: int, descs: Sequence[Desc | None],
              spent: Sequence[tuple[int, int]]) -> list[_Storage]:
    """The storage of every slot, before anything shares but aliases."""
    storages: dict[int, _Storage] = {i: _Storage(Place.INPUT, i, 0, -1) for i in range(inputs)}
    for slot, offset in spent:
        desc = descs[slot]
        assert desc is not None
        storages[slot].bytes, storages[slot].offset = bytes_of(desc), offset
    for at, call in enumerate(calls):
        for slot in call.outputs:
            if slot < 0:
                continue
            if call.step == "alias":
                storages[slot] = storages[call.inputs[0]]
                continue
            desc = descs[slot]
            place = Place.OBJECT if call.step is None else Place.ARENA
            size = bytes_of(desc) if desc is not None else 0
            storages[slot] = _Storage(place, slot, size, at)
    return [storages[i] for i in range(len(storages))]


def _live(calls: Sequence[Call], storages: Sequence[_Storage], returned: Iterable[int]) -> None:
    for at, call in enumerate(calls):
        for slot in call.inputs:
            storages[slot].last = max(storages[slot].last, at)
    for slot in returned:
        storages[slot].last = len(calls)


def _hand_out(storages: Sequence[_Storage], results: set[int], descs: Sequence[Desc | None]
              ) -> None:
    """What native steps compute and the graph returns lies in an array of its own.

    It has the shape of the slot that is returned first; others of the storage are views.
    """
    for slot in sorted(results):
        storage = storages[slot]
        if storage.place is Place.ARENA:
            storage.place = Place.OUTPUT
            storage.home = slot


def _share(calls: Sequence[Call], storages: list[_Storage], kept: set[int],
           descs: Sequence[Desc | None]) -> None:
    """Outputs take the memory of inputs whose last reader is the step itself, where it allows."""
    for at, call in enumerate(calls):
        if call.step is None or call.step == "alias":
            continue
        taken: set[int] = set()
        for number, out in enumerate(call.outputs):
            target = storages[out]
            for slot in dict.fromkeys(call.inputs):
                source = storages[slot]
                if (source.place is Place.OBJECT or not source.bytes
                        or id(source) in kept or id(source) in taken or source is target
                        or source.last != at or source.bytes != target.bytes
                        or (source.place is not Place.ARENA and target.place is Place.OUTPUT)):
                    continue
                places = [i for i, s in enumerate(call.inputs) if storages[s] is source]
                if not all(call.step.inplace(i, number) for i in places):
                    continue
                _merge(storages, source, target)
                taken.add(id(source))
                if id(target) in kept:
                    kept.add(id(source))
                break


def _merge(storages: list[_Storage], source: _Storage, target: _Storage) -> None:
    """`target` (new) moves into `source`; if it is handed out, so is now what lies under it."""
    source.last = target.last
    if target.place is Place.OUTPUT:
        source.place = Place.OUTPUT
        source.home = target.home
    for i, storage in enumerate(storages):
        if storage is target:
            storages[i] = source


def _move_in(storages: Sequence[_Storage], spent: Sequence[_Storage]) -> None:
    """Temporaries move into the block of the spent inputs, as far as they find room there."""
    end = max((storage.offset + storage.bytes for storage in spent), default=0)
    placed = list(spent)
    wanted = {id(s): s for s in storages if s.place is Place.ARENA}
    for storage in sorted(wanted.values(), key=lambda s: (-s.bytes, s.first)):
        offset = _room(storage, placed)
        if offset + storage.bytes <= end:
            storage.place, storage.offset = Place.KEPT, offset
            placed.append(storage)


def _lay(calls: Sequence[Call], storages: Sequence[_Storage]) -> tuple[list[int], int]:
    """Offsets in the arena, the largest first: each at the lowest place free for its whole life."""
    wanted = list({id(s): s for s in storages if s.place is Place.ARENA}.values())
    scratch: dict[int, _Storage] = {}
    for at, call in enumerate(calls):
        size = 0 if call.step in (None, "alias") else int(call.step.scratch())
        if size:
            scratch[at] = _Storage(Place.ARENA, -1, size, at)
    placed: list[_Storage] = []
    total = 0
    for storage in sorted([*wanted, *scratch.values()], key=lambda s: (-s.bytes, s.first)):
        storage.offset = _room(storage, placed)
        placed.append(storage)
        total = max(total, _aligned(storage.offset + storage.bytes))
    return [scratch[at].offset if at in scratch else 0 for at in range(len(calls))], total


def _room(storage: _Storage, placed: Sequence[_Storage]) -> int:
    """The lowest offset at which nothing lies while this storage lives."""
    offset = 0
    for other in sorted((o for o in placed
                         if o.first <= storage.last and storage.first <= o.last),
                        key=lambda o: o.offset):
        if offset + storage.bytes <= other.offset:
            break
        offset = max(offset, _aligned(other.offset + other.bytes))
    return offset


def _aligned(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


def _slot(index: int, storage: _Storage, desc: Desc | None, results: set[int]) -> Slot:
    dtype, shape = desc if desc is not None else (None, ())
    if storage.place is Place.ARENA or storage.place is Place.KEPT:
        return Slot(storage.place, storage.offset, dtype, shape)
    if storage.home != index:
        return Slot(Place.ALIAS, storage.home, dtype, shape)
    where = index if storage.place is Place.INPUT else 0
    return Slot(storage.place, where, dtype, shape)


def _promises(slots: list[Slot], calls: Sequence[Call]) -> list[Slot]:
    """What a callback returns is only checked where a native step or an alias relies on it."""
    relied = {slot.where for slot in slots if slot.place is Place.ALIAS}
    relied.update(slot for call in calls if call.step not in (None, "alias")
                  for slot in call.inputs)
    return [slot._replace(dtype=None, shape=()) if slot.place is Place.OBJECT and i not in relied
            else slot for i, slot in enumerate(slots)]


def _free(calls: Sequence[Call], storages: Sequence[_Storage], kept: set[int]
          ) -> list[list[int]]:
    """For every step, the callbacks' arrays that nobody reads after it."""
    free: list[list[int]] = [[] for _ in calls]
    objects = {id(s): s for s in storages if s.place is Place.OBJECT and id(s) not in kept}
    at_end = [i for i, call in enumerate(calls) if call.step != "alias"]
    for storage in objects.values():
        step = storage.last
        while step < len(calls) and calls[step].step == "alias":
            step += 1
        if step < len(calls) and at_end:
            free[step].append(storage.home)
    return free
