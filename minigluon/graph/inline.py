"""A compiled graph shown as the calls it stands for."""
from __future__ import annotations

from collections.abc import Sequence

from ..ops import Operator
from .executor import GraphOperator
from .ir import Entry, substitute, topological

__all__ = ["inlined"]


def inlined(op: Operator, inputs: Sequence[Entry], limit: int) -> list[Entry] | None:
    """The outputs of `op` on `inputs`, call by call; None if it is no graph or a larger one.

    Args:
        op: an operator; looked into if it is the record of a compiled graph.
        inputs: one entry for each of its inputs.
        limit: how many calls are few enough.
    """
    if not isinstance(op, GraphOperator):
        return None
    graph = op._graph
    calls = sum(node.op is not None for node in topological(graph.outputs))
    if calls > limit:
        return None
    given = {Entry(node, 0): entry for node, entry in zip(graph.variables, inputs, strict=True)}
    return substitute(graph.outputs, given)
