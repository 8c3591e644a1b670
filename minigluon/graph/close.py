"""Arrays from nothing whose sizes only their use tells: ``zeros(shape=(0, 8))`` in a graph.

MXNet writes the first states of recurrent cells that way, 0 for the batch size that is not known
when the graph is made. Before such a graph runs, shape inference fills the sizes in.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .infer import infer_shape
from .ir import Entry, Node, substitute, topological

__all__ = ["close_shapes", "has_open_shapes"]


def _open(entries: Sequence[Entry]) -> list[Node]:
    return [node for node in topological(entries)
            if node.op is not None and not node.inputs and 0 in node.attrs.get("shape", ())]


def has_open_shapes(entries: Sequence[Entry]) -> bool:
    """Whether something in the graph makes an array of a shape with unknown sizes."""
    return bool(_open(entries))


def close_shapes(entries: Sequence[Entry], known: Mapping[Any, Sequence[int] | None]
                 ) -> list[Entry]:
    """The same graph with these shapes filled in, as far as the shapes of the variables tell.

    Args:
        entries: what to compute. known: shapes of variables by name or node.

    >>> from minigluon.graph import Entry, F, Node
    >>> x = Entry(Node(None, "x"), 0)
    >>> entry = F.elemwise_add(x, F._zeros(shape=(0, 3)))
    >>> close_shapes([entry], {"x": (2, 3)})[0].node.inputs[1].node.attrs["shape"]
    (2, 3)
    """
    nodes = _open(entries)
    if not nodes:
        return list(entries)
    found = infer_shape(entries, known)
    closed = {}
    for node in nodes:
        shape = found.entries[Entry(node, 0)] or node.attrs["shape"]
        closed[Entry(node, 0)] = Entry(
            Node(node.op, node.name, (), {**node.attrs, "shape": tuple(shape)}, node.extra_attrs),
            0)
    return substitute(entries, closed)
