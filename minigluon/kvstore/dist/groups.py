"""Parts of keys that always come together, held by a server as one flat array.

A worker names a list of parts once (`messages.Bundle`) and then pushes and pulls it as one item. As
long as everybody does so, the parts are one `Shard`: one sum, one reply, no work for each key. As
soon as a part is used by itself the group is split into its members, open steps included; what is
computed is the same either way, to the bit.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .messages import BUNDLE, Item
from .shard import Shard, Step, Want

__all__ = ["Groups", "Place", "cut"]

Place = tuple[int, int]
_SPLITS = 3  # a list that has been split as often is not put together again


class Groups:
    """The groups of one server.

    Args:
        allocate: makes the memory of values, from a shape and a type.
    """

    def __init__(self, allocate: Callable[..., np.ndarray[Any, Any]]) -> None:
        self.allocate = allocate
        self._groups: dict[tuple[Place, ...], Shard] = {}
        self._splits: dict[tuple[Place, ...], int] = {}  # of lists that workers have named only
        self._count = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the values that are held here instead of in their shards."""
        return sum(group.value.nbytes for group in self._groups.values())

    def of(self, store: int) -> list[Shard]:
        """The groups of a store."""
        return [group for group in self._groups.values() if group.store == store]

    def find(self, places: tuple[Place, ...], shards: list[Shard]) -> Shard | None:
        """The group of these shards, made if they can be one; None if not."""
        group = self._groups.get(places)
        if group is None and self._splits.get(places, 0) < _SPLITS and _alike(shards):
            group = self._groups[places] = self._join(shards)
        return group

    def _join(self, shards: list[Shard]) -> Shard:
        first = shards[0]
        flat = np.concatenate([shard.value.reshape(-1) for shard in shards])
        item = Item(BUNDLE | self._count, 0, 0, flat.size, first.place.dtype, flat.shape, flat)
        name = f"{first.name} and {len(shards) - 1} more"
        group = Shard(name, item, first.store, len(first.pushed), first.sync, self.allocate)
        group.version, group.pushed, group.seen = first.version, first.pushed, first.seen
        group.members = shards
        self._count += 1
        for shard in shards:
            shard.group, shard.value = group, np.empty(0, flat.dtype)
            shard.forget()
        return group

    def split(self, group: Shard, busy: dict[Place, Shard]) -> None:
        """Turn a group into its members again, with all that is open about it."""
        members, group.members = group.members, []
        places = tuple((shard.place.key, shard.place.part) for shard in members)
        del self._groups[places]
        self._splits[places] = self._splits.get(places, 0) + 1
        values = cut(group.value, members)
        steps = {number: {rank: cut(piece, members) for rank, piece in step.pieces.items()}
                 for number, step in group.steps.items()}
        for index, shard in enumerate(members):
            shard.value = shard.copied(values[index])
            shard.version = group.version
            shard.pushed, shard.seen = list(group.pushed), list(group.seen)
            for number, step in group.steps.items():
                pieces = {rank: several[index] for rank, several in steps[number].items()}
                acks = [(want, index) for want, _ in step.acks]
                shard.steps[number] = Step(
                    step.began, pieces, dict(step.ranks), acks, step.warned)  # type: ignore[arg-type]
            shard.pulls = [(want, index, *rest) for want, _, *rest in group.pulls]  # type: ignore[misc]
            shard.group = None
            if shard.steps:
                busy[shard.place.key, shard.part] = shard
        wants: list[Want] = [want for step in group.steps.values() for want, _ in step.acks]
        for want in (*wants, *(pull[0] for pull in group.pulls)):
            want.open = len(members)
            if want.values is not None:
                want.values = [None] * len(members)
        busy.pop((group.place.key, group.part), None)


def cut(flat: Any, shards: list[Shard]) -> list[np.ndarray[Any, Any]]:
    """The numbers of each shard in a flat array of all."""
    found, at = [], 0
    for shard in shards:
        end = at + shard.place.stop - shard.place.start
        found.append(flat[at:end].reshape(shard.place.shape))
        at = end
    return found


def _alike(shards: list[Shard]) -> bool:
    """Whether nothing tells these shards apart: one store, type and version, nothing open."""
    first = shards[0]
    return len({id(shard) for shard in shards}) == len(shards) and all(
        shard.group is None and not shard.steps and not shard.pulls and shard.sync
        and shard.store == first.store and shard.place.dtype == first.place.dtype
        and shard.version == first.version and shard.pushed == first.pushed
        for shard in shards
    )
