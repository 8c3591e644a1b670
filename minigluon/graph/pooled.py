"""Pooling by two joined to the convolution before it, and its gradient to those behind it.

Runs on a graph that is about to be executed. A convolution then writes a quarter of its numbers,
and its gradients read that quarter; whoever adds up a spread gradient adds up what was spread.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ..device.cpu import native
from ..ops import find_operator
from .ir import Entry, Node, topological
from .plan import Desc

__all__ = ["join_pooled"]

_BACKWARD = {"_conv_grad_data": "_conv_pool_grad_data",
             "_conv_grad_weight": "_conv_pool_grad_weight"}


def join_pooled(entries: Sequence[Entry], descs: Mapping[Entry, Desc], training: bool
                ) -> list[Entry]:
    """The same graph with ``_pool_two`` and its gradient joined to convolutions that take them.

    Args:
        entries: what is computed. descs: type and shape of every entry. training: the mode.

    >>> from minigluon.graph import F
    >>> x = Entry(Node(None, "x"), 0)
    >>> join_pooled([F.relu(x)], {}, False)[0].node.op.name
    'relu'
    """
    nodes = topological(entries)
    if not any(node.op and node.op.name.startswith("_pool_two") for node in nodes):
        return list(entries)
    uses = Counter([*entries, *(entry for node in nodes for entry in node.inputs)])
    made: dict[Entry, Entry] = {}
    for node in nodes:
        joined = _joined(node, uses, descs)
        name, inputs = joined or ("", node.inputs)
        inputs = [made.get(entry, entry) for entry in inputs]
        new = node
        if name:
            attrs = _source(node).attrs if name == "_conv_pool" else node.attrs
            new = Node(find_operator(name), node.name, inputs, attrs, node.extra_attrs)
        elif inputs != list(node.inputs):
            new = Node(node.op, node.name, inputs, node.attrs, node.extra_attrs)
        made.update((entry, Entry(new, entry.index)) for entry in node.outputs(hidden=True))
    return [made.get(entry, entry) for entry in entries]


def _source(node: Node) -> Node:
    return node.inputs[0].node


def _joined(node: Node, uses: Mapping[Entry, int], descs: Mapping[Entry, Desc]
            ) -> tuple[str, list[Entry]] | None:
    """The operator that a node becomes part of, and what that reads; None: it stays."""
    if node.op is None or not node.inputs or _source(node).op is None:
        return None
    source, name = _source(node), node.op.name
    before = source.op.name if source.op is not None else ""
    if name == "_pool_two" and before == "Convolution" and uses[node.inputs[0]] == 1:
        return _taken("_conv_pool", source.inputs, node, source, descs)
    if before != "_pool_two_spread":
        return None
    if name == "sum" and node.attrs["axis"] in (1, (1,)) and node.attrs["exclude"]:
        return "sum", [source.inputs[0]]
    if name in _BACKWARD:
        return _taken(_BACKWARD[name], [*source.inputs, *node.inputs[1:]], node, node, descs)
    return None


def _taken(name: str, inputs: Sequence[Entry], node: Node, settings: Node,
           descs: Mapping[Entry, Desc]) -> tuple[str, list[Entry]] | None:
    """The operator if a kernel takes these arrays."""
    every = [descs.get(entry) for entry in (*inputs, *node.outputs(hidden=True))]
    if None in every:
        return None
    step = native.step(name, every[:len(inputs)], every[len(inputs):],  # type: ignore[arg-type]
                       settings.attrs)
    return (name, list(inputs)) if step is not None else None
