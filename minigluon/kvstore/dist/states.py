"""Optimizer states between a file and the servers: parts joined for the file, cut for the servers.

The file is that of a store of one process, whole arrays by key. So states may be saved with one
number of servers and loaded with another, or without any.
"""
from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ... import optimizer as opt
from ...base import KVStoreError
from ...context import cpu
from ...ndarray import NDArray
from ..api import Key
from . import messages as say
from .messages import Item, Placement
from .placement import part_shape
from .rule import fill

__all__ = ["cut", "load", "save"]

Array = np.ndarray[Any, Any]


def save(
    fname: str, optimizer: opt.Optimizer, replies: Sequence[say.States],
    places: dict[Key, Placement], dump_optimizer: bool,
) -> None:
    """Join what the servers sent, and write it."""
    pieces: dict[Key, dict[int, Any]] = {}
    for reply in replies:
        arrays = iter([item.data for item in reply.items])
        for key, part, outline in reply.layout["states"]:
            pieces.setdefault(key, {})[part] = fill(outline, arrays)
    updater = opt.Updater(_counted(optimizer, replies))
    for key, parts in pieces.items():
        ordered = [parts[part] for part in sorted(parts)]
        updater.states[key] = _join(ordered, places[key].shape)
        updater.states_synced[key] = False
    opt.save_states(fname, [updater], dump_optimizer)


def _counted(optimizer: opt.Optimizer, replies: Sequence[say.States]) -> opt.Optimizer:
    """The optimizer with the servers' counts of updates: those of this process say nothing."""
    counts = {key: n for reply in replies for key, n in reply.layout["counts"]}
    counted = copy.copy(optimizer)
    counted.__setstate__({"_begin_counts": counts})
    counted.num_update = max(counts.values(), default=optimizer.begin_num_update)
    return counted


def load(fname: str, optimizer: opt.Optimizer) -> tuple[dict[Key, Any], opt.Updater]:
    """The states in a file, and the Updater they were read into, with its optimizer if saved."""
    updater = opt.Updater(optimizer)
    opt.load_states(fname, [updater])
    return dict(updater.states), updater


def cut(
    loaded: dict[Key, Any], places: dict[Key, Placement], store: int
) -> Iterator[tuple[int, say.LoadStates]]:
    """(server, message) for each part of each key."""
    for key, state in loaded.items():
        place = places.get(key)
        if place is None:
            raise KVStoreError(
                f"load_optimizer_states: the file has a state of key {key!r}, which this store "
                "does not have; initialise the keys first"
            )
        for part, server in enumerate(place.servers):
            arrays: list[Array] = []
            outline = _outline(state, place, part, arrays)
            items = tuple(
                Item(place.ident, part, 0, a.size, a.dtype.name, a.shape, a) for a in arrays
            )
            layout = {"states": [[key, part, outline]]}
            yield server, say.LoadStates(0, store, layout, items)


def _join(parts: list[Any], shape: tuple[int, ...]) -> Any:
    first = parts[0]
    if isinstance(first, tuple):
        columns = zip(*parts, strict=True)
        return tuple(_join(list(column), shape) for column in columns)
    if first is None:
        return None
    if len(parts) == 1:
        return NDArray(first, cpu())
    return NDArray(np.concatenate([part.reshape(-1) for part in parts]).reshape(shape), cpu())


def _outline(state: Any, place: Placement, part: int, arrays: list[Array]) -> Any:
    if isinstance(state, (tuple, list)):
        return [_outline(one, place, part, arrays) for one in state]
    if not isinstance(state, NDArray):
        return None
    raw = state.asnumpy()
    if len(place.servers) > 1:
        flat = raw.reshape(-1)[place.bounds[part] : place.bounds[part + 1]]
        raw = flat.reshape(part_shape(place, part))
    arrays.append(np.ascontiguousarray(raw))
    return "array"
