"""Graph to graph: common subexpressions merged, single patterns replaced by one call.

(What nothing needs is gone by itself.)
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..ops import Attrs, find_operator
from .ir import Entry, Node, impure, substitute, topological
from .plan import Desc

__all__ = ["join_picks", "merge_common"]

_PLAIN = (int, float, bool, str, type(None))


def merge_common(entries: Sequence[Entry], training: bool) -> list[Entry]:
    """The same graph in which equal calls on equal inputs are one node.

    Calls that draw random numbers or write to their inputs are never merged.
    """
    stands_for: dict[Node, Node] = {}
    by_key: dict[Any, Node] = {}

    def moved(entry: Entry) -> Entry:
        node = stands_for[entry.node]
        return entry if node is entry.node else Entry(node, entry.index)

    for node in topological(entries):
        inputs = [moved(entry) for entry in node.inputs]
        same = node
        if any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
            same = Node(node.op, node.name, inputs, node.attrs, node.extra_attrs)
        if node.op is not None and not impure(node, training):
            key = _identity(node.attrs)
            if key is not None:
                same = by_key.setdefault((node.op, key, tuple(inputs)), same)
        stands_for[node] = same
    return [moved(entry) for entry in entries]


def _identity(attrs: Attrs) -> tuple[Any, ...] | None:
    """A key that tells attributes apart, also 1 from 1.0 from True; None for exotic values."""
    parts = []
    for name in sorted(attrs):
        value = attrs[name]
        if not isinstance(value, _PLAIN) and not (
                isinstance(value, tuple) and all(isinstance(item, _PLAIN) for item in value)):
            return None
        parts.append((name, repr(value)))
    return tuple(parts)


def join_picks(entries: Sequence[Entry], descs: Mapping[Entry, Desc], training: bool
               ) -> list[Entry]:
    """The gradient of ``pick(log_softmax(x), label)`` as one call.

    By the rules it is an array of zeros with one number a row, as large as x, from which the next
    call makes another.
    """
    given: dict[Entry, Entry] = {}
    for node in topological(entries):
        if node.op is None or node.op.name != "_log_softmax_grad":
            continue
        spread, out = node.inputs[0].node, node.inputs[1]
        if spread.op is None or spread.op.name != "_pick_grad" or out not in descs:
            continue
        ndim, axis = len(descs[out][1]), spread.attrs["axis"]
        if axis is None or (axis - node.attrs["axis"]) % ndim:
            continue
        op = find_operator("_log_softmax_pick_grad")
        attrs = op.parse({"axis": axis, "mode": spread.attrs["mode"]})
        joined = Node(op, f"{node.name}_pick", [spread.inputs[0], spread.inputs[2], out], attrs)
        given[Entry(node, 0)] = Entry(joined, 0)
    return substitute(entries, given) if given else list(entries)
