"""The gradient graph: the operators' own gradient rules, walked backwards over a graph."""
from __future__ import annotations

from collections.abc import Sequence

from ..base import GradientError
from .infer import locate
from .ir import Entry, GraphFace, Node, topological

__all__ = ["gradient"]


def gradient(outputs: Sequence[Entry], head_grads: Sequence[Entry | None], wrt: Sequence[Entry],
             training: bool = False) -> list[Entry | None]:
    """Entries that compute the gradient of `outputs` with respect to `wrt`.

    Args:
        outputs: what is differentiated.
        head_grads: one entry for each output; None means ones.
        wrt: for what; variables, or entries within the graph.
        training: the mode the forward runs in; handed to rules of operators that ask for it.

    Returns:
        One entry for each of `wrt`, None where `outputs` do not depend on it.

    Raises:
        GradientError: an operator on the way has no gradient; names it and the node.

    >>> from minigluon.graph import Entry, F, Node
    >>> x, dy = (Entry(Node(None, name), 0) for name in ("x", "dy"))
    >>> [dx] = gradient([F.square(x)], [dy], [x])
    >>> dx.node.op is not None
    True
    """
    face = GraphFace("backward_")
    nodes = topological(outputs)
    needed = _dependent(nodes, wrt)
    parts: dict[Entry, list[Entry]] = {}
    for output, grad in zip(outputs, head_grads, strict=True):
        parts.setdefault(output, []).append(face.ones_like(output) if grad is None else grad)
    for node in reversed(nodes):
        if node.op is not None and any(entry.node in needed for entry in node.inputs):
            _through(node, parts, needed, face, training)
    return [_total(parts, entry, face) for entry in wrt]


def _dependent(nodes: Sequence[Node], wrt: Sequence[Entry]) -> set[Node]:
    """The nodes whose gradient matters: those of `wrt` and all computed from them."""
    needed = {entry.node for entry in wrt}
    for node in nodes:
        if any(entry.node in needed for entry in node.inputs):
            needed.add(node)
    return needed


def _through(node: Node, parts: dict[Entry, list[Entry]], needed: set[Node], face: GraphFace,
             training: bool) -> None:
    """Add what one node contributes to the gradients of its inputs."""
    op = node.op
    assert op is not None
    outputs = node.outputs(hidden=True)
    grads = [_total(parts, entry, face) for entry in outputs]
    if all(grad is None for grad in grads):
        return
    if op.gradient is None:
        raise locate(GradientError(
            f"{op.name} is not differentiable: it has no gradient rule; "
            "cut the graph with stop_gradient (BlockGrad) before it"), node)
    attrs = {"training": training, **node.attrs} if op.needs_training else node.attrs
    face.prefix = f"{node.name}_backward_"
    if op.single:
        results = op.gradient(face, grads[0], outputs[0], *node.inputs, **attrs)
    else:
        results = op.gradient(face, grads, outputs, *node.inputs, **attrs)
    for entry, grad in zip(node.inputs, results, strict=True):
        if grad is not None and entry.node in needed:
            parts.setdefault(entry, []).append(grad)


def _total(parts: dict[Entry, list[Entry]], entry: Entry, face: GraphFace) -> Entry | None:
    """The sum of what has come together for an entry; the sum then stands for its parts."""
    found = parts.get(entry)
    if found is None:
        return None
    if len(found) > 1:
        parts[entry] = found = [face.add_n(*found)]
    return found[0]
