"""A bound graph as a row of compiled pieces: one for each stretch of calls on one context.

Without groups there is one piece. With ``group2ctx`` the calls go where their ``ctx_group`` says,
and values travel between contexts from piece to piece, gradients back the same way.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..base import ArgumentValueError
from ..context import Context
from ..device import device_of
from ..dispatch import call, raw_face
from ..graph import (
    CompiledGraph,
    Entry,
    Node,
    assign_layout,
    has_images,
    infer_dtype,
    infer_shape,
    substitute,
    topological,
)

__all__ = ["Program", "placed"]

Raw = Any
_Desc = tuple[str, tuple[int, ...]]  # element type and shape


def placed(nodes: Sequence[Node], ctx: Context, group2ctx: Mapping[str, Any] | None
           ) -> dict[Node, Context]:
    """The context of each node, given in topological order.

    That of its group; a variable of none has `ctx`, an operator of none that of its first input,
    or without inputs that of who reads it.
    """
    contexts: dict[str, Context] = {}
    for group, place in (group2ctx or {}).items():
        if isinstance(place, (list, tuple)):
            if len(place) != 1:
                raise ArgumentValueError(f"group2ctx: group '{group}': expected one context for "
                                         f"one executor, got {len(place)}")
            place = place[0]
        contexts[group] = Context(place)
    places: dict[Node, Context] = {}
    for node in nodes:
        place = contexts.get(node.extra_attrs.get("__ctx_group__", ""))
        if place is None and node.op is not None:
            known = (places[entry.node] for entry in node.inputs if entry.node in places)
            place = next(known, None)
        elif place is None:
            place = ctx
        if place is not None:
            places[node] = place
    for node in reversed(nodes):
        place = places.setdefault(node, ctx)
        for entry in node.inputs:
            places.setdefault(entry.node, place)
    return places


class _Segment:
    """Consecutive calls on one context, compiled.

    Attributes:
        calls: the nodes. inputs: the entries it reads from outside, in the order of the graph's
            variables.
        outputs: the entries that others read.
    """

    def __init__(self, calls: list[Node], ctx: Context, inputs: list[Entry],
                 variables: list[Node], outputs: list[Entry], training: bool, wrt: list[Node],
                 known: Mapping[Entry, _Desc]) -> None:
        self.calls = calls
        self.device = device_of(ctx)
        self.inputs = inputs
        self.outputs = outputs
        swapped = {entry: Entry(node, 0) for entry, node in zip(inputs, variables, strict=True)
                   if entry.node is not node}
        made = substitute(outputs, swapped)
        if known and ctx.device_type != "gpu":
            made = assign_layout(made, {node: known[entry] for entry, node in
                                        zip(inputs, variables, strict=True)}, bool(wrt))
        self.operator = CompiledGraph(made, variables, training, record=bool(wrt), wrt=wrt,
                                      name="executor").operator
        self.mutated = [place for place, name in enumerate(self.operator.input_names)
                        if name in self.operator.mutates]


class Program:
    """A graph compiled for contexts.

    Args:
        entries: the outputs.
        variables: its variables, in the order in which arrays are given.
        places: the context of every node.
        training: run in training mode.
        wrt: the variables that backward gives gradients for.
        shown: further entries whose values `forward` leaves in ``values``; then each call is a
            piece of its own, so that a backward can be watched, too.
        known: types and shapes of the variables; the program is for these only. Images are then
            laid out as the kernels like them, unless everything between is shown.
    """

    def __init__(self, entries: Sequence[Entry], variables: Sequence[Node],
                 places: Mapping[Node, Context], training: bool, wrt: Sequence[Node],
                 shown: Sequence[Entry] = (),
                 known: Mapping[Node, _Desc] | None = None) -> None:
        self.entries = list(entries)
        self.watched = bool(shown)
        self.variables = list(variables)
        self.places = places
        kept = [*entries, *shown]
        calls = [node for node in topological(kept) if node.op is not None]
        self._needed = _reached(calls, wrt)
        self._known: dict[Entry, _Desc] = {}
        if known and not shown and has_images(entries):
            self._known = _descs(kept, known)
        self.segments: list[_Segment] = []
        for run in [[node] for node in calls] if shown else _runs(calls, places):
            self._add(run, kept, training)

    def _add(self, run: list[Node], kept: Sequence[Entry], training: bool) -> None:
        inside = set(run)
        used = {entry: None for node in run for entry in node.inputs if entry.node not in inside}
        # a variable stands for itself; a value from another piece gets a variable
        inputs = list(used)
        variables = [entry.node if entry.node.op is None
                     else Node(None, f"{entry.node.name}_{entry.index}") for entry in inputs]
        if len(inside) == sum(node.op is not None for node in self.places):
            inputs = [Entry(node, 0) for node in self.variables]  # the whole graph
            variables = self.variables
        read = {entry for node in self.places if node not in inside for entry in node.inputs}
        outputs = list(dict.fromkeys(
            [entry for entry in kept if entry.node in inside]
            + [entry for node in run for entry in node.outputs(hidden=True) if entry in read]))
        wrt = [variable for entry, variable in zip(inputs, variables, strict=True)
               if entry.node in self._needed]
        if outputs:
            self.segments.append(_Segment(run, self.places[run[0]], inputs, variables, outputs,
                                          training, wrt, self._known))

    def forward(self, arrays: Sequence[Raw], contexts: Sequence[Context]) -> Run:
        """Compute all pieces in order."""
        values = {Entry(node, 0): raw for node, raw in zip(self.variables, arrays, strict=True)}
        homes = {Entry(node, 0): device_of(ctx)
                 for node, ctx in zip(self.variables, contexts, strict=True)}
        calls = []
        for piece in self.segments:
            inputs = [_moved(values[entry], homes[entry], piece.device) for entry in piece.inputs]
            results = call(piece.operator, inputs, {}, piece.device)
            for place in piece.mutated:
                original = values[piece.inputs[place]]
                if original is not inputs[place]:
                    original[...] = _moved(inputs[place], piece.device,
                                           homes[piece.inputs[place]])
            for entry, raw in zip(piece.outputs, results, strict=False):
                values[entry], homes[entry] = raw, piece.device
            calls.append((piece, inputs, results))
        return Run(self, calls, values, homes)


class Run:
    """What one forward computed; `backward` goes the same way back."""

    def __init__(self, program: Program, calls: list[tuple[_Segment, list[Raw], Any]],
                 values: dict[Entry, Raw], homes: dict[Entry, Any]) -> None:
        self._program = program
        self._calls = calls
        self.values = values
        self.homes = homes

    def backward(self, dys: Sequence[Raw | None],
                 watch: Callable[[Node, int, Raw, Any], None] | None = None) -> dict[Entry, Raw]:
        """Gradients of the entries outside all pieces (variables), from those of the outputs.

        Args:
            dys: one for each output, on the output's device; None means ones.
            watch: ``watch(call, place, gradient, device)``, told of what each call of a program
                with `shown` gives to its inputs; of other programs it is told nothing.
        """
        grads: dict[Entry, Raw] = {}

        def add(entry: Entry, grad: Raw) -> None:
            grads[entry] = grads[entry] + grad if entry in grads else grad

        for entry, dy in zip(self._program.entries, dys, strict=True):
            home = self.homes[entry]
            add(entry, home.xp.ones_like(self.values[entry]) if dy is None else dy)
        for piece, inputs, results in reversed(self._calls):
            given = [grads.pop(entry, None) for entry in piece.outputs]
            op = piece.operator
            if op.gradient is None or all(dy is None for dy in given):
                continue
            face = raw_face(piece.device)
            given += [None] * (len(results) - len(given))
            found = op.gradient(face, given[0], results[0], *inputs) if op.single else (
                op.gradient(face, given, list(results), *inputs))
            for entry, grad in zip(piece.inputs, found, strict=True):
                if grad is not None:
                    if watch is not None and self._program.watched:
                        [node] = piece.calls
                        watch(node, node.inputs.index(entry), grad, piece.device)
                    add(entry, _moved(grad, piece.device, self.homes[entry]))
        return grads


def _descs(entries: Sequence[Entry], known: Mapping[Node, _Desc]) -> dict[Entry, _Desc]:
    """Type and shape of every entry; nothing where some are not known."""
    shapes = infer_shape(entries, {node: shape for node, (_, shape) in known.items()}).entries
    dtypes = infer_dtype(entries, {node: dtype for node, (dtype, _) in known.items()}).entries
    found = {Entry(node, 0): desc for node, desc in known.items()}
    for entry, shape in shapes.items():
        dtype = dtypes.get(entry)
        if shape is None or dtype is None:
            return {}
        found.setdefault(entry, (dtype, shape))
    return found


def _runs(calls: Sequence[Node], places: Mapping[Node, Context]) -> list[list[Node]]:
    """The calls in order, cut where the context changes."""
    runs: list[list[Node]] = []
    for node in calls:
        if not runs or places[runs[-1][0]] != places[node]:
            runs.append([])
        runs[-1].append(node)
    return runs


def _reached(calls: Sequence[Node], wrt: Sequence[Node]) -> set[Node]:
    """The nodes of `wrt` and all that depends on them."""
    found = set(wrt)
    for node in calls:
        if any(entry.node in found for entry in node.inputs):
            found.add(node)
    return found


def _moved(raw: Raw, here: Any, there: Any) -> Raw:
    """The array on another device; all CPU contexts share the host's memory."""
    if here is there or here.type == there.type == "cpu":
        return raw
    return there.array(here.to_host(raw))
