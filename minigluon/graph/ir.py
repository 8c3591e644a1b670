"""Nodes and entries: what a remembered call is, and the face of the operators that makes them."""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from ..ops import Attrs, Operator, find_operator

__all__ = ["Entry", "F", "GraphFace", "Node", "Stated", "auxiliary", "impure", "substitute",
           "topological", "variables"]


class Stated(dict[str, Any]):
    """Complete attributes that know which of them were said and how ('': as the value reads).

    So they are written out.

    >>> Stated({"stride": (2, 2), "no_bias": False}, {"stride": "[2, 2]"}).texts
    {'stride': '[2, 2]'}
    """

    __slots__ = ("texts",)

    def __init__(self, attrs: Attrs, texts: Mapping[str, str]) -> None:
        super().__init__(attrs)
        self.texts = texts


class Node:
    """One call of an operator, or a variable.

    Attributes:
        op: the operator record; None for a variable.
        name: unique where it matters (variables: how arrays are given).
        inputs: the entries it reads.
        attrs: the operator's complete attributes (and ``training`` where a gradient fixed it).
        extra_attrs: user attributes as text, such as ``__lr_mult__`` or ``__shape__``.
    """

    __slots__ = ("attrs", "extra_attrs", "inputs", "name", "op")

    def __init__(self, op: Operator | None, name: str, inputs: Iterable[Entry] = (),
                 attrs: Attrs | None = None, extra_attrs: Mapping[str, str] | None = None) -> None:
        self.op = op
        self.name = name
        self.inputs = list(inputs)
        self.attrs: Attrs = attrs if attrs is not None else {}
        self.extra_attrs: dict[str, str] = dict(extra_attrs or {})

    def __repr__(self) -> str:
        return f"<node {self.name}: {self.op.name if self.op else 'variable'}>"

    def num_outputs(self) -> int:
        """How many entries the node has, hidden ones included."""
        return 1 if self.op is None else self.op.num_outputs(self.attrs)

    def outputs(self, hidden: bool = False) -> list[Entry]:
        """The entries of the node: those a user sees, or all of them."""
        if self.op is None:
            return [Entry(self, 0)]
        count = self.num_outputs() if hidden else self.op.visible(self.attrs)
        return [Entry(self, index) for index in range(count)]


class Entry(NamedTuple):
    """Output number `index` of `node`."""

    node: Node
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here


def topological(entries: Iterable[Entry]) -> list[Node]:
    """All nodes the entries need, each after its inputs: depth first, inputs left to right."""
    found: list[Node] = []
    seen: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(entry.node, False) for entry in entries][::-1]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            found.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((entry.node, False) for entry in reversed(node.inputs)
                         if entry.node not in seen)
    return found


def variables(entries: Iterable[Entry]) -> list[Node]:
    """The variables the entries need, auxiliary states included, depth first."""
    return [node for node in topological(entries) if node.op is None]


def auxiliary(entries: Iterable[Entry]) -> list[Node]:
    """The variables that some operator uses as an auxiliary state (running statistics)."""
    nodes = topological(entries)
    found = {node.inputs[place].node
             for node in nodes if node.op is not None and node.op.aux
             for place, name in enumerate(node.op.input_names[:len(node.inputs)])
             if name in node.op.aux}
    return [node for node in nodes if node.op is None and node in found]


def impure(node: Node, training: bool) -> bool:
    """Whether running the node twice differs from running it once: it draws or it writes.

    An operator that asks for the mode (Dropout) draws only in training, or if its ``mode`` says so.
    """
    op = node.op
    if op is None:
        return False
    active = not op.needs_training or node.attrs.get("training", training)
    draws = op.needs_rng and (active or node.attrs.get("mode") == "always")
    return bool(draws or mutated(node, training))


def mutated(node: Node, training: bool) -> list[Entry]:
    """The inputs a node writes to; operators that ask for the mode write only in training."""
    op = node.op
    if op is None or not op.mutates:
        return []
    if op.needs_training and not node.attrs.get("training", training):
        return []
    return [entry for name, entry in zip(op.input_names, node.inputs, strict=False)
            if name in op.mutates]


def substitute(entries: Sequence[Entry], given: Mapping[Entry, Entry]) -> list[Entry]:
    """The same graph with some entries replaced; nodes are copied only where they change."""
    changed: dict[Node, Node] = {}

    def replaced(entry: Entry) -> Entry:
        found = given.get(entry)
        if found is not None:
            return found
        node = changed.get(entry.node)
        return entry if node is None else Entry(node, entry.index)

    for node in topological_until(entries, given):
        inputs = [replaced(entry) for entry in node.inputs]
        if any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
            changed[node] = Node(node.op, node.name, inputs, node.attrs, node.extra_attrs)
    return [replaced(entry) for entry in entries]


def topological_until(entries: Iterable[Entry], given: Mapping[Entry, Any]) -> list[Node]:
    """Like `topological`, but does not look behind the entries in `given`."""
    found: list[Node] = []
    seen: set[Node] = set()
    stack = [(entry.node, False) for entry in entries if entry not in given][::-1]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            found.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((entry.node, False) for entry in reversed(node.inputs)
                         if entry not in given and entry.node not in seen)
    return found


class GraphFace:
    """The operators as functions from entries to entries; what gradient rules run with.

    Args:
        prefix: put before the names of the nodes it makes.

    >>> x = Entry(Node(None, "x"), 0)
    >>> GraphFace("demo_").relu(x).node
    <node demo_relu0: relu>
    """

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self._count = 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        function = partial(self._invoke, find_operator(name))
        self.__dict__[name] = function
        return function

    def _invoke(self, op: Operator, *args: Any, **kwargs: Any) -> Any:
        """One node for a call of `op`; its visible entry, or the list of them."""
        training = kwargs.pop("training", None) if op.needs_training else None
        if op.variadic and len(args) == 1 and isinstance(args[0], Entry):
            args = ([args[0]],)  # an Entry is a tuple itself and must not be taken for a list
        inputs, attrs = op.bind(args, kwargs)
        op.check_inputs(inputs, attrs)
        if training is not None:
            attrs = {**attrs, "training": bool(training)}
        node = Node(op, f"{self.prefix}{op.name}{self._count}", inputs, attrs)
        self._count += 1
        outputs = node.outputs()
        return outputs[0] if len(outputs) == 1 else outputs


F = GraphFace()
