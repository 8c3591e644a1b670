"""What a graph tells of element types while it is made: truth values and integers.

Types are known when it runs. But a node that makes integers, or says a type, tells; so integers
that are told meet floats, and halves, in a block as they do outside it.
"""
from __future__ import annotations

from typing import Any

from .. import symbol
from ..graph import Node
from ..ops import BINARY, find_operator
from ..symbol import Symbol

__all__ = ["integers", "met", "numeric"]

_TRUTHS = frozenset(find_operator(name).name for word in (
    "equal", "not_equal", "greater", "greater_equal", "lesser", "lesser_equal", "logical_and",
    "logical_or", "logical_xor") for name in BINARY[word])
# Of these the result has the type of the first input.
_KEPT = frozenset(find_operator(name).name for name in (
    "_npi_arrange", "_npx_reshape", "_getitem", "_copy", "stack", "concat", "slice_axis",
    "expand_dims", "reshape", "transpose", "take", "sort", "sum", "prod", "max", "min", "clip",
    "abs", "sign", "square", "negative", *(name for word in (
        "add", "subtract", "multiply", "modulo", "maximum", "minimum") for name in BINARY[word])))
_WHOLE = ("int", "uint")


def numeric(x: Any) -> Any:
    """What to compute with: truth values of a graph are the 0 and 1 that a comparison gave.

    Those have the type of what was compared; in a graph, where types are not known while it is
    made, they go with other arrays of that type.
    """
    if not isinstance(x, Symbol) or len(x.entries) != 1:
        return x
    node = x.entries[0].node
    if node.op is None or node.op.name != "Cast" or node.attrs.get("dtype") != "bool":
        return x
    source = node.inputs[0].node
    return type(x)(node.inputs) if source.op is not None and source.op.name in _TRUTHS else x


def met(x1: Any, x2: Any) -> tuple[Any, Any]:
    """Two Symbols, the one told to be of integers in the type that both have together."""
    first, second = integers(x1), integers(x2)
    if first and not second:
        return symbol._npi_alike(x1, x2), x2  # type: ignore[attr-defined]
    if second and not first:
        return x1, symbol._npi_alike(x2, x1)  # type: ignore[attr-defined]
    return x1, x2


def integers(x: Symbol) -> str:
    """The type of integers that the graph tells `x` to be of; '' where it tells none."""
    node: Node = x.entries[0].node
    while node.op is not None and node.op.name in _KEPT:
        node = node.inputs[0].node
    if node.op is None:
        return ""
    if node.op.name in ("_npi_bits", "_npi_bitwise_not"):  # of which, their inputs may not tell
        return "int64"
    kind = str(node.attrs.get("dtype"))
    return kind if kind.startswith(_WHOLE) else ""
