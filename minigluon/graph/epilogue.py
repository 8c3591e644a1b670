"""What follows a convolution joined to it: normalisation in prediction, a sum, relu.

Runs on a graph that is about to be executed, for known types and shapes: a ``_conv_fused`` node has
no gradient rule. The result of the convolution is then written once and not read again.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..device.cpu import native
from ..ops import find_operator
from ..ops.operator import Attrs
from .ir import Entry, Node, topological
from .plan import Desc
from .rewrite import is_relu

__all__ = ["join_epilogues"]

_SUMS = frozenset({"elemwise_add", "broadcast_add", "_plus"})


def join_epilogues(entries: Sequence[Entry], descs: Mapping[Entry, Desc], training: bool
                   ) -> list[Entry]:
    """The same graph with convolutions doing what only follows them.

    Args:
        entries: what is computed. descs: type and shape of every entry. training: the mode.

    >>> from minigluon.graph import Entry, F, Node
    >>> x, w = (Entry(Node(None, name), 0) for name in "xw")
    >>> y = F.relu(F.Convolution(x, w, kernel=(3, 3), num_filter=4, no_bias=True))
    >>> known = {x: ("float32", (2, 3, 8, 8)), w: ("float32", (4, 3, 3, 3)),
    ...          y.node.inputs[0]: ("float32", (2, 4, 6, 6)), y: ("float32", (2, 4, 6, 6))}
    >>> [joined] = join_epilogues([y], known, training=False)
    >>> joined.node.op.name in ("_conv_fused", "relu")  # relu where oneDNN is not there
    True
    """
    nodes = topological(entries)
    if not native.onednn or not any(n.op and n.op.name == "Convolution" for n in nodes):
        return list(entries)
    return _Joining(entries, nodes, descs, training).run(entries)


class _Joining:
    def __init__(self, entries: Sequence[Entry], nodes: Sequence[Node],
                 descs: Mapping[Entry, Desc], training: bool) -> None:
        self.nodes = nodes
        self.descs = descs
        self.training = training
        self.uses: dict[Entry, int] = {}
        for entry in [*entries, *(entry for node in nodes for entry in node.inputs)]:
            self.uses[entry] = self.uses.get(entry, 0) + 1
        self.made: dict[Node, Node] = {}

    def run(self, entries: Sequence[Entry]) -> list[Entry]:
        for node in self.nodes:
            self.made[node] = self._joined(node) or self._same(node)
        return [self._now(entry) for entry in entries]

    def _now(self, entry: Entry) -> Entry:
        return Entry(self.made[entry.node], entry.index)

    def _same(self, node: Node) -> Node:
        inputs = [self._now(entry) for entry in node.inputs]
        if all(new.node is old.node for new, old in zip(inputs, node.inputs, strict=True)):
            return node
        return Node(node.op, node.name, inputs, node.attrs, node.extra_attrs)

    def _joined(self, node: Node) -> Node | None:
        """The node as the end of the convolution before it, or None."""
        name = node.op.name if node.op is not None else ""
        if is_relu(node):
            before = self._open(node.inputs[0])
            return before and self._longer(node, before, (), act_type="relu")
        if name == "BatchNorm" and not node.attrs.get("training", self.training):
            return self._normalised(node)
        if name in _SUMS and self.descs.get(node.inputs[0]) == self.descs.get(node.inputs[1]):
            for one, other in (node.inputs, node.inputs[::-1]):
                before = self._open(one)
                if before is not None and one != other and not before.attrs.get("add"):
                    return self._longer(node, before, (self._now(other),), add=True)
        return None

    def _normalised(self, node: Node) -> Node | None:
        before = self._open(node.inputs[0])
        rest = [Entry(node, 1), Entry(node, 2)]
        if before is None or before.attrs.get("norm") or before.attrs.get("add"):
            return None
        layout = before.attrs["layout"] or "NC"
        rank = len(before.attrs["kernel"]) + 2
        if (node.attrs["axis"] % rank != (1 if layout[1] == "C" else rank - 1)
                or any(entry in self.uses for entry in rest)
                or any(self.descs.get(entry, ("",))[0] != "float32" for entry in node.inputs)):
            return None
        return self._longer(node, before, [self._now(entry) for entry in node.inputs[1:]],
                            norm=True, eps=node.attrs["eps"], fix_gamma=node.attrs["fix_gamma"])

    def _open(self, entry: Entry) -> Node | None:
        """The convolution that made an entry which nothing else reads, if it can take more."""
        node = self.made[entry.node]
        if (node.op is None or node.op.name not in ("Convolution", "_conv_fused")
                or self.uses[entry] > 1 or node.attrs.get("act_type")
                or self.descs.get(entry, ("",))[0] != "float32"):
            return None
        return node

    def _longer(self, node: Node, before: Node, more: Sequence[Entry], **attrs: object) -> Node:
        blocked = len(before.attrs["kernel"]) == 3 and before.attrs["kernel"][2] == 1
        record = find_operator("_conv_fused")
        empty = record.parse({"kernel": (1,), "num_filter": 1})
        complete: Attrs = {**empty, **before.attrs, **attrs}
        if blocked and (complete["norm"] or complete["add"]):
            return self._same(node)  # our own kernels do not
        return Node(record, node.name, [*before.inputs, *more], complete, node.extra_attrs)
