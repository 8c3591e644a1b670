"""From a graph and the types and shapes of its inputs to a native Program."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..base import MXNetError
from ..device.cpu import native
from ..dispatch import call
from ..ops import Attrs
from .epilogue import join_epilogues
from .fuse import fuse
from .infer import Inferred, infer_dtype, infer_shape, locate
from .ir import Entry, Node, impure, mutated, topological
from .plan import Call, Desc, bytes_of, plan
from .pooled import join_pooled
from .rewrite import join_attention, join_picks, join_relu

__all__ = ["Pass", "lower"]

Pass = Callable[[Sequence[Entry], Mapping[Entry, Desc], bool], list[Entry]]
"""A rewriting for known types and shapes: ``(entries, descs, training)`` -> as many entries."""

PASSES: tuple[Pass, ...] = (join_picks, join_attention, join_pooled, join_epilogues, join_relu,
                             fuse)
"""What is done to a graph before it becomes a program, in order."""

# Operators whose output has the elements of input 0 in the same order: they cost nothing.
_SAME_MEMORY = frozenset({
    "Reshape", "Flatten", "expand_dims", "squeeze", "reshape_like", "_copy", "BlockGrad",
    "_sum_like", "_broadcast_like", "Cast",
    "sum", "mean", "max", "min", "prod",  # over axes of length 1
})
_Found = Mapping[Entry, Desc]


def lower(returned: Sequence[Entry], variables: Sequence[Node], arrays: Sequence[Any],
          training: bool, visible: int, spent: Sequence[tuple[int, int]] = ()) -> Any:
    """A native Program for inputs like `arrays`, or None where none can be made.

    Args:
        returned: the entries to compute.
        variables: the inputs; more than needed is allowed.
        arrays: one array for each of them (their values do not matter).
        training: the mode.
        visible: the first so many results may be written to, so no two share memory.
        spent: inputs that nobody reads after the program, so that it may write to them, and
            where each lies in the block that they share.
    """
    if any(0 in array.shape or array.ndim == 0 for array in arrays):
        return None  # the rules read a 0 as "unknown"
    inputs = {node: native.desc_of(array) for node, array in zip(variables, arrays, strict=True)}
    entries = list(returned)
    try:
        descs = _descs(entries, inputs)
        for rewrite in PASSES:
            rewritten = rewrite(entries, descs, training)
            if rewritten != entries:
                entries, descs = rewritten, _descs(rewritten, inputs)
    except MXNetError:
        return None  # running it says what is wrong, at the node where it is
    return _Lowering(entries, variables, descs, training).program(visible, spent)


def _descs(entries: Sequence[Entry], inputs: Mapping[Node, Desc]) -> dict[Entry, Desc]:
    """Type and shape of every entry for which the rules tell both."""
    shapes: Inferred[tuple[int, ...]] = infer_shape(
        entries, {node: desc[1] for node, desc in inputs.items()})
    dtypes = infer_dtype(entries, {node: desc[0] for node, desc in inputs.items()})
    found: dict[Entry, Desc] = {Entry(node, 0): desc for node, desc in inputs.items()}
    sparse = _maybe_sparse(entries)
    for entry, shape in shapes.entries.items():
        dtype = dtypes.entries.get(entry)
        if (shape is not None and 0 not in shape and dtype is not None
                and entry.node not in sparse):
            found.setdefault(entry, (dtype, shape))
    return found


def _maybe_sparse(entries: Sequence[Entry]) -> set[Node]:
    """Nodes whose outputs may be row_sparse or csr arrays: nothing is promised of their memory."""
    found: set[Node] = set()
    for node in topological(entries):
        if node.op is not None and (node.op.gives_stored
                                    or any(entry.node in found for entry in node.inputs)):
            found.add(node)
    return found


def _results_early(entries: Sequence[Entry], training: bool) -> list[Node]:
    """The nodes in an order in which what nobody else reads comes as soon as it can.

    The gradients of weights are such: in the order of their results they would all come at the
    end, and what they read would be kept until then (150 MB more for ResNet-18, batch 64). What
    reads only variables comes as late as it can, for the same reason.
    """
    nodes = [node for node in topological(entries) if node.op is not None]
    read = {entry.node for node in nodes for entry in node.inputs}
    written = {entry for node in nodes for entry in mutated(node, training)}
    place = {node: number for number, node in enumerate(nodes)}

    when: dict[Node, tuple[int, float]] = {}
    late: dict[Node, tuple[int, float]] = {
        node: (len(nodes), 0.0) for node in nodes
        if node in read and node.inputs and written.isdisjoint(node.inputs)
        and not impure(node, training) and all(entry.node.op is None for entry in node.inputs)}
    for node in nodes:
        number = place[node]
        if node in read or not written.isdisjoint(node.inputs):
            when[node] = number, 0.0
        else:
            when[node] = max((place.get(entry.node, -1) for entry in node.inputs
                              if entry.node not in late), default=number), 1.0
        for entry in node.inputs:
            if entry.node in late:
                late[entry.node] = min(late[entry.node], (when[node][0], when[node][1] - 0.5))
    return sorted(nodes, key={**when, **late}.__getitem__)


class _Lowering:
    """One graph on its way to a program."""

    def __init__(self, entries: Sequence[Entry], variables: Sequence[Node], descs: _Found,
                 training: bool) -> None:
        self.entries = entries
        self.variables = variables
        self.known = descs
        self.training = training
        self.nodes = _results_early(entries, training)
        self.slots: dict[Entry, int] = {Entry(node, 0): i for i, node in enumerate(variables)}
        self.descs: list[Desc | None] = [descs[entry] for entry in self.slots]
        self.wanted = {entry for node in self.nodes for entry in node.inputs} | set(entries)
        self.written = {entry for node in self.nodes for entry in mutated(node, training)}

    def program(self, visible: int, spent: Sequence[tuple[int, int]]) -> Any:
        calls = [self._call(node) for node in self.nodes]
        made = plan(calls, len(self.variables), self.descs,
                    [self.slots[entry] for entry in self.entries], spent)
        slots = [tuple(slot) if slot.dtype in native.DTYPES else (slot.place, slot.where, None, ())
                 for slot in made.slots]
        return native.core.Program(slots, made.calls, made.returned, made.arena_bytes, visible,
                                   list(spent))

    def _call(self, node: Node) -> Call:
        op = node.op
        assert op is not None
        inputs = tuple(self.slots[entry] for entry in node.inputs)
        outputs = node.outputs(hidden=True)
        if self._same_memory(node, outputs):
            return Call("alias", inputs, (self._slot(outputs[0]),), None)
        step = self._native(node, outputs)
        if step is not None:
            return Call(step, inputs, tuple(self._slot(entry) for entry in outputs), step)
        kept = tuple(self._slot(entry) if entry in self.wanted else -1 for entry in outputs)
        return Call(None, inputs, kept, _callback(node, self.training))

    def _slot(self, entry: Entry) -> int:
        slot = self.slots.setdefault(entry, len(self.slots))
        if slot == len(self.descs):
            self.descs.append(self.known.get(entry))
        return slot

    def _same_memory(self, node: Node, outputs: Sequence[Entry]) -> bool:
        assert node.op is not None
        if node.op.name not in _SAME_MEMORY or len(outputs) != 1:
            return False
        source, target = self.known.get(node.inputs[0]), self.known.get(outputs[0])
        return (source is not None and target is not None and source[0] == target[0]
                and bytes_of(source) == bytes_of(target) and node.inputs[0] not in self.written)

    def _native(self, node: Node, outputs: Sequence[Entry]) -> Any:
        op = node.op
        assert op is not None
        if not native.has_kernel(op.name) or op.needs_device:
            return None
        ins = [self.known.get(entry) for entry in node.inputs]
        outs = [self.known.get(entry) for entry in outputs]
        if None in ins or None in outs:
            return None
        attrs: Attrs = node.attrs
        if op.needs_training:
            attrs = {"training": self.training, **attrs}
        return native.step(op.name, ins, outs, attrs)  # type: ignore[arg-type]


def _callback(node: Node, training: bool) -> Callable[[Any, Sequence[Any]], tuple[Any, ...]]:
    """A step in Python: the operator as dispatch runs it."""
    op, attrs = node.op, node.attrs
    assert op is not None

    def run(device: Any, arrays: Sequence[Any]) -> tuple[Any, ...]:
        try:
            return call(op, arrays, attrs, device, training, told=True)
        except MXNetError as error:
            raise locate(error, node) from error.__cause__

    run.__name__ = op.name  # program.callback_names() tells what has no kernel
    return run
