"""Graph to graph: common subexpressions merged, single patterns replaced by one call.

(What nothing needs is gone by itself.)
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..ops import Attrs, find_operator
from .ir import Entry, Node, impure, substitute, topological
from .plan import Desc

__all__ = ["is_relu", "join_attention", "join_picks", "join_relu", "merge_common", "remakes"]

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


def join_relu(entries: Sequence[Entry], descs: Mapping[Entry, Desc], training: bool
              ) -> list[Entry]:
    """``relu(BatchNorm(x))`` as one call where nothing else reads what is normalised."""
    uses: dict[Entry, int] = {}
    nodes = topological(entries)
    for entry in [*entries, *(entry for node in nodes for entry in node.inputs)]:
        uses[entry] = uses.get(entry, 0) + 1
    ends = {norm: node for node in nodes
            if (norm := _normalised(node)) is not None and uses[Entry(norm, 0)] == 1}
    made: dict[Entry, Entry] = {}
    for node in nodes:
        if Entry(node, 0) in made:
            continue
        inputs = [made.get(entry, entry) for entry in node.inputs]
        new = node
        if node in ends:
            new = Node(find_operator("_contrib_BatchNormWithReLU"), node.name, inputs, node.attrs,
                       node.extra_attrs)
            made[Entry(ends[node], 0)] = Entry(new, 0)
        elif inputs != list(node.inputs):
            new = Node(node.op, node.name, inputs, node.attrs, node.extra_attrs)
        made.update((Entry(node, i), Entry(new, i)) for i in range(node.num_outputs()))
    return [made[entry] for entry in entries]


def remakes(hidden: Sequence[Entry]) -> dict[Entry, Entry]:
    """What of that which a backward reads it can compute again from the rest, in one pass.

    It is relu of what was normalised: data, mean and 1 / std are read anyway.
    """
    kept = set(hidden)
    found: dict[Entry, Entry] = {}
    for entry in hidden:
        norm = _normalised(entry.node)
        if norm is None:
            continue
        data, gamma, beta = norm.inputs[:3]
        mean, inverse = Entry(norm, 1), Entry(norm, 2)
        if ((data in kept or data.node.op is None) and mean in kept and inverse in kept
                and _normalised(data.node) is None
                and gamma.node.op is None and beta.node.op is None):
            op = find_operator("_batch_norm_apply")
            attrs = op.parse({"axis": norm.attrs["axis"], "fix_gamma": norm.attrs["fix_gamma"],
                              "act_type": "relu"})
            again = Node(op, f"{entry.node.name}_again", [data, gamma, beta, mean, inverse], attrs)
            found[entry] = Entry(again, 0)
    return found


def is_relu(node: Node) -> bool:
    """Whether a node is relu, under either of its names."""
    name = node.op.name if node.op is not None else ""
    return name == "relu" or (name == "Activation" and node.attrs["act_type"] == "relu")


def _normalised(node: Node) -> Node | None:
    """The BatchNorm whose first output `node` is relu of."""
    if not is_relu(node):
        return None
    source = node.inputs[0]
    return _made_by(source, "BatchNorm") if source.index == 0 else None


def join_attention(entries: Sequence[Entry], descs: Mapping[Entry, Desc], training: bool
                   ) -> list[Entry]:
    """Scores, softmax and weighted values of self attention as one call; the same backwards.

    The scores then never leave the cache, and a gradient is written once instead of put together.
    """
    made: dict[Entry, Entry] = {}
    for node in topological(entries):
        joined = _attention(node) or _attention_back(node)
        inputs = [made.get(entry, entry) for entry in (joined or node).inputs]
        if joined is None and inputs == list(node.inputs):
            continue
        new = joined or node
        new = Node(new.op, new.name, inputs, new.attrs, new.extra_attrs)
        made.update((Entry(node, i), Entry(new, i)) for i in range(node.num_outputs()))
        if new.num_outputs() == 2 and joined is not None:  # the weights are its second result
            made[node.inputs[1]] = Entry(new, 1)
    return [made.get(entry, entry) for entry in entries]


def _attention(node: Node) -> Node | None:
    """Self attention as a whole, where this is its last part."""
    if node.op is None or node.op.name != "_contrib_interleaved_matmul_selfatt_valatt":
        return None
    data, weights = node.inputs
    softmax = _made_by(weights, "softmax")
    scores = softmax and _made_by(softmax.inputs[0], "_contrib_interleaved_matmul_selfatt_qk")
    if not (softmax and scores and _is_plain(softmax.attrs) and scores.inputs[0] == data
            and scores.attrs == node.attrs):
        return None
    return Node(find_operator("_selfatt"), f"{node.name}_whole", [data], node.attrs)


def _attention_back(node: Node) -> Node | None:
    """The whole gradient, where this is the sum of its two parts."""
    if node.op is None or node.op.name != "add_n" or len(node.inputs) != 2:
        return None
    to_scores, to_values = node.inputs
    if _made_by(to_scores, "_selfatt_qk_grad") is None:
        to_scores, to_values = to_values, to_scores
    first, last = (_made_by(to_scores, "_selfatt_qk_grad"),
                   _made_by(to_values, "_selfatt_valatt_grad"))
    between = first and _made_by(first.inputs[0], "_softmax_grad")
    if not (first and last and between and to_values.index == 0):
        return None
    dy, data, weights = last.inputs
    if (list(between.inputs) != [Entry(last, 1), weights] or first.inputs[1] != data
            or between.attrs["axis"] not in (-1, 2) or first.attrs != last.attrs):
        return None
    return Node(find_operator("_selfatt_grad"), f"{node.name}_whole", [dy, data, weights],
                last.attrs)


def _made_by(entry: Entry, name: str) -> Node | None:
    node = entry.node
    return node if node.op is not None and node.op.name == name else None


def _is_plain(softmax: Attrs) -> bool:
    return (softmax["axis"] in (-1, 2) and softmax["temperature"] in (None, 1.0)
            and softmax["dtype"] is None and not softmax["use_length"])
