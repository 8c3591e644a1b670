"""What is known before anything runs: shapes and element types of every entry.

Both work the same way: go over the nodes forwards and backwards, let each operator's own rule say
more about its inputs and outputs, until nothing new is learned. Unknown is allowed everywhere: a
shape may be None (not even the rank) or have 0 for an unknown dimension, a type may be None.
"""
from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from ..base import ArgumentError, DTypeError, MXNetError, ShapeError, dtype_name
from ..npmode import is_np_shape
from ..ops.operator import MaybeShape, Operator
from ..ops.rules import merge_shapes
from .ir import Entry, Node, topological

__all__ = ["DTYPE_CODES", "Inferred", "infer_dtype", "infer_shape"]

T = TypeVar("T")

# MXNet's numbers of element types, as in __dtype__ attributes.
DTYPE_CODES = {"float32": 0, "float64": 1, "float16": 2, "uint8": 3, "int32": 4, "int8": 5,
               "int64": 6, "bool": 7, "bfloat16": 12}
_DTYPE_OF_CODE = {str(code): name for name, code in DTYPE_CODES.items()}


class Inferred(Generic[T]):
    """What was found out.

    Attributes:
        entries: for each entry reached, its shape (or type); None where nothing is known.
        variables: the same for the variables, by name.
    """

    def __init__(self, nodes: Iterable[Node], found: dict[Entry, T | None]) -> None:
        self.entries = found
        self.variables = {node.name: found.get(Entry(node, 0))
                          for node in nodes if node.op is None}

    def of(self, entries: Iterable[Entry]) -> list[T | None]:
        """The values for some entries, in order."""
        return [self.entries.get(entry) for entry in entries]

    def incomplete(self) -> list[str]:
        """Names of the variables that are not fully known."""
        return [name for name, value in self.variables.items() if not _complete(value)]


def _complete(value: Any) -> bool:
    return value is not None and not (isinstance(value, tuple) and 0 in value)


def infer_shape(entries: Sequence[Entry], known: Mapping[Any, Sequence[int] | None]
                ) -> Inferred[tuple[int, ...]]:
    """The shapes of everything `entries` need, as far as the rules can tell.

    Args:
        entries: what to compute.
        known: shapes of variables by name (or node); 0 or -1 is an unknown dimension. They
            override the hint that a variable may carry in its ``__shape__`` attribute.

    Raises:
        ShapeError: a contradiction; names the operator, the shapes and the node.

    >>> from minigluon.graph import Entry, F, Node
    >>> x, w = (Entry(Node(None, name), 0) for name in "xw")
    >>> y = F.FullyConnected(x, w, num_hidden=4, no_bias=True)
    >>> found = infer_shape([y], {"x": (2, 3)})
    >>> found.variables["w"], found.entries[y]
    ((4, 3), (2, 4))
    """
    def hint(node: Node) -> MaybeShape:
        shape = known.get(node, known.get(node.name))
        if shape is None:
            text = node.extra_attrs.get("__shape__")
            shape = ast.literal_eval(text) if text else None
        if shape is None or not (len(shape) or is_np_shape()):
            return None  # before np_shape, () is a shape of which nothing is known
        if isinstance(shape, str):
            raise ArgumentError(f"expected the shape of {node.name} as a tuple, got {shape!r}")
        return tuple(max(int(dim), 0) for dim in shape)

    def rule(op: Operator, ins: list[MaybeShape], outs: list[MaybeShape], node: Node
             ) -> tuple[list[MaybeShape], list[MaybeShape]]:
        if op.infer is None:
            return ins, outs
        return op.infer(ins, node.attrs, outs)

    return _fixpoint(entries, hint, rule, _merged_shape)


def _merged_shape(old: MaybeShape, new: MaybeShape, node: Node, what: str) -> MaybeShape:
    try:
        return merge_shapes(old, new)
    except ShapeError:
        name = node.op.name if node.op else "variable"
        raise ShapeError(f"{name}: {what}: expected shape {new}, got {old}") from None


def infer_dtype(entries: Sequence[Entry], known: Mapping[Any, Any]
                ) -> Inferred[str]:
    """The element types of everything `entries` need, as names such as 'float32'.

    Args:
        entries: what to compute.
        known: types of variables by name (or node). They override ``__dtype__`` attributes.

    Raises:
        DTypeError: inputs of one operator that must agree and do not; names the node.
    """
    def hint(node: Node) -> str | None:
        given = known.get(node, known.get(node.name))
        if given is None:
            given = node.extra_attrs.get("__dtype__")
            given = _DTYPE_OF_CODE.get(given, given) if given not in (None, "-1") else None
        return None if given is None else dtype_name(given)

    def rule(op: Operator, ins: list[str | None], outs: list[str | None], node: Node
             ) -> tuple[list[str | None], list[str | None]]:
        if op.infer_dtype is not None:
            return op.infer_dtype(ins, node.attrs)
        names = sorted({dtype for dtype in ins if dtype is not None})
        if len(names) > 1:
            raise DTypeError(
                f"{op.name}: expected inputs of one dtype, got {', '.join(map(str, ins))}; "
                "convert with cast()")
        agreed = names[0] if names else next((dtype for dtype in outs if dtype), None)
        return [agreed] * len(ins), [agreed] * len(outs)

    return _fixpoint(entries, hint, rule, _merged_dtype)


def _merged_dtype(old: str | None, new: str | None, node: Node, what: str) -> str | None:
    if old is not None and new is not None and old != new:
        name = node.op.name if node.op else "variable"
        raise DTypeError(f"{name}: {what}: expected dtype {new}, got {old}")
    return new if old is None else old


def _fixpoint(
    entries: Sequence[Entry],
    hint: Callable[[Node], T | None],
    rule: Callable[[Operator, list[T | None], list[T | None], Node],
                   tuple[list[T | None], list[T | None]]],
    merge: Callable[[T | None, T | None, Node, str], T | None],
) -> Inferred[T]:
    """Apply the rules in both directions until a pass teaches nothing to what it has been over.

    Forwards, what a node's outputs are is news for nodes that come later in the same pass.
    """
    nodes = topological(entries)
    found: dict[Entry, T | None] = {
        Entry(node, 0): hint(node) for node in nodes if node.op is None}
    calls = [node for node in nodes if node.op is not None]
    changed = True
    forwards = True
    while changed:
        changed = False
        for node in calls if forwards else reversed(calls):
            try:
                inputs, outputs = _visit(node, found, rule, merge)
                changed |= inputs or (outputs and not forwards)
            except MXNetError as error:
                raise locate(error, node) from error.__cause__
        # the backward pass only matters while something is still open
        forwards = not forwards
        if not changed and not forwards and not all(map(_complete, found.values())):
            changed = True
    return Inferred(nodes, found)


def _visit(node: Node, found: dict[Entry, T | None], rule: Any, merge: Any
           ) -> tuple[bool, bool]:
    """One rule of one node; whether it taught anything about its inputs, and its outputs."""
    op = node.op
    assert op is not None
    outputs = node.outputs(hidden=True)
    ins = [found.get(entry) for entry in node.inputs]
    outs = [found.get(entry) for entry in outputs]
    new_ins, new_outs = rule(op, list(ins), list(outs), node)
    changed = [False, False]
    for place, (entry, old, new) in enumerate(zip(
            (*node.inputs, *outputs), (*ins, *outs), (*new_ins, *new_outs), strict=True)):
        merged = merge(old, new, node, _what(node, place))
        if merged != old or entry not in found:
            found[entry] = merged
            changed[place >= len(ins)] |= merged != old
    return changed[0], changed[1]


def _what(node: Node, place: int) -> str:
    """Which input or output of a node is meant, for messages."""
    op = node.op
    assert op is not None
    if place >= len(node.inputs):
        return f"output {place - len(node.inputs)}"
    if op.variadic or place >= len(op.input_names):
        return f"input {place}"
    return op.input_names[place]


def locate(error: MXNetError, node: Node) -> MXNetError:
    """The same error, its text ending in the node's name; the innermost node stays."""
    text = str(error)
    if "[node " not in text:
        error.args = (f"{text} [node {node.name}]", *error.args[1:])
    return error
