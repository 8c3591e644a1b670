"""What Symbols ask of nodes: names and attributes as text, and graphs made anew."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..base import ArgumentValueError
from ..graph import Entry, Node, topological
from ..graph.serial import HIDDEN_KEYS, attr_texts, user_attrs

__all__ = ["attr_text", "attrs_of", "checked_attrs", "clone", "debug_text", "output_name",
           "without_amp_cast"]


def debug_text(entries: Sequence[Entry]) -> str:
    """The nodes in order, with what they read and their attributes, as MXNet writes them."""
    if len(entries) == 1 and entries[0].node.op is None:
        return f"Variable:{entries[0].node.name}\n"
    lines = ["Symbol Outputs:", *(f"\toutput[{number}]={entry.node.name}({entry.index})"
                                  for number, entry in enumerate(entries))]
    for node in topological(entries):
        if node.op is None:
            lines.append(f"Variable:{node.name}")
            continue
        lines += ["-" * 20, f"Op:{node.op.name}, Name={node.name}", "Inputs:"]
        lines += [f"\targ[{number}]={entry.node.name}({entry.index})"
                  f"{'' if entry.node.op else ' version=0'}"
                  for number, entry in enumerate(node.inputs)]
        attrs = attrs_of(node)
        lines += ["Attrs:", *(f"\t{key}={attrs[key]}" for key in sorted(attrs))] if attrs else []
    return "\n".join([*lines, ""])


def output_name(entry: Entry) -> str:
    """'fc_output', 'split_output1', or a variable's own name."""
    op = entry.node.op
    if op is None:
        return entry.node.name
    count = op.visible(entry.node.attrs)
    if len(op.output_names) > entry.index and len(op.output_names) >= count:
        return f"{entry.node.name}_{op.output_names[entry.index]}"
    return f"{entry.node.name}_output{entry.index}"


def checked_attrs(attrs: Mapping[str, Any]) -> dict[str, str]:
    """User attributes in the form in which nodes keep them; values must be strings.

    Those with a meaning (``__init__``, ``__lr_mult__``) may be numbers or initializers.
    """
    attrs = {name: attr_text(value) if name.startswith("__") else value
             for name, value in attrs.items()}
    for name, value in attrs.items():
        if not isinstance(value, str):
            raise ArgumentValueError(
                f"attribute {name}: expected a string, got {value!r}; write {name}='{value}'")
    return user_attrs(attrs)


def attr_text(value: Any) -> str:
    """How a node keeps the value of an attribute: an initializer as its settings."""
    return value.dumps() if hasattr(value, "dumps") else str(value)


def attrs_of(node: Node) -> dict[str, str]:
    """The attributes of a node as a user sees them: the operator's and his own, as text."""
    attrs = {**attr_texts(node), **node.extra_attrs}
    for key in HIDDEN_KEYS:
        if f"__{key}__" in attrs:
            attrs[key] = attrs[f"__{key}__"]
    return attrs


def without_amp_cast(entries: Sequence[Entry]) -> list[Entry]:
    """The same graph; each output of an ``amp_cast`` is replaced by what was cast."""
    moved: dict[Entry, Entry] = {}
    for node in topological(entries):
        inputs = [moved.get(entry, entry) for entry in node.inputs]
        if node.op is not None and node.op.name in ("amp_cast", "amp_multicast"):
            moved.update(zip(node.outputs(), inputs, strict=True))
        elif inputs != node.inputs:
            changed = Node(node.op, node.name, inputs, node.attrs, node.extra_attrs)
            moved.update((Entry(node, entry.index), entry) for entry in changed.outputs(True))
    return [moved.get(entry, entry) for entry in entries]


def clone(entries: Sequence[Entry]) -> list[Entry]:
    """The same graph made of new nodes, so that names and attributes can be changed."""
    copies: dict[Node, Node] = {}
    for node in topological(entries):
        inputs = [Entry(copies[entry.node], entry.index) for entry in node.inputs]
        copies[node] = Node(node.op, node.name, inputs, node.attrs, node.extra_attrs)
    return [Entry(copies[entry.node], entry.index) for entry in entries]
