"""Graph to graph: common subexpressions merged. (What nothing needs is gone by itself.)"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ops import Attrs
from .ir import Entry, Node, impure, topological

__all__ = ["merge_common"]

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
