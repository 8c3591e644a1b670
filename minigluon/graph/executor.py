"""A graph compiled to a flat program that runs as one operator, forwards and backwards."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..base import ArgumentError, GradientError, MXNetError
from ..device.cpu import native
from ..dispatch import call, observing
from ..ops import Attrs, Operator
from ..ops.operator import MaybeShape
from .gradient import gradient
from .infer import infer_dtype, infer_shape, locate
from .ir import Entry, Node, impure, mutated, substitute, topological, topological_until, variables
from .lower import lower
from .rewrite import merge_common, remakes

__all__ = ["CompiledGraph", "GraphOperator"]


class _Step(NamedTuple):
    """One call: slots it reads, slots it fills (-1: nobody wants it), slots to free after it."""

    op: Operator
    attrs: Attrs
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    free: tuple[int, ...]
    node: Node


class GraphOperator(Operator):
    """The record of a compiled graph. Its inputs are the graph's variables, by name.

    `inline_limit`: up to so many calls, ``autograd.get_symbol`` shows the calls themselves.
    """

    inline_limit = 0

    def __init__(self, graph: CompiledGraph, body: Any, **settings: Any) -> None:
        self._graph = graph
        super().__init__(graph.name, body, **settings)
        self._read_signature()
        self.direct = graph._run

    def _read_signature(self) -> None:
        super()._read_signature()
        self.variadic = False
        self.optional_inputs = set()
        self.input_names = self._graph.input_names


class CompiledGraph:
    """A program for `outputs` as a function of `variables`.

    Args:
        outputs: the entries to compute.
        variables: the variables in the order in which arrays will be given; default: those that
            the outputs need, depth first. More than needed is allowed.
        training: run in training mode (Dropout draws, BatchNorm updates running statistics).
        record: also return what backward needs, as hidden outputs. Without it, backward computes
            that again, which is impossible where the graph draws random numbers.
        wrt: the variables that backward gives gradients for; default all.
        name: of the operator, for messages.

    Attributes:
        operator: the record: call it with ``ndarray.invoke(operator, arrays, {})``.
        outputs, hidden: the entries it returns; `hidden` follow the visible ones.
        variables, input_names: the inputs.

    >>> from minigluon.graph import Entry, F, Node
    >>> x = Entry(Node(None, "x"), 0)
    >>> compiled = CompiledGraph([F.square(F.square(x))])
    >>> import minigluon as mx
    >>> mx.nd.invoke(compiled.operator, [mx.nd.array([2.0])], {}).asnumpy().tolist()
    [16.0]
    """

    def __init__(self, outputs: Sequence[Entry], variables: Sequence[Node] | None = None,
                 training: bool = False, record: bool = False,
                 wrt: Sequence[Node] | None = None, name: str = "graph") -> None:
        self.name = name
        self.training = training
        self.outputs = merge_common(outputs, training)
        self.variables = list(_variables(self.outputs) if variables is None else variables)
        self.input_names = _unique([node.name for node in self.variables])
        self._check_variables()
        self.wrt = self.variables if wrt is None else list(wrt)
        self.hidden: list[Entry] = []
        self._remade: dict[Entry, Entry] = {}
        self._backwards: dict[tuple[bool, ...], _Backward] = {}
        if record:
            needed = self._needed_by_backward()
            self._remade = remakes(needed)
            self.hidden = [entry for entry in needed if entry not in self._remade]
        self._returned = [*self.outputs, *self.hidden]
        self._plan()
        self.operator = self._record()
        self._programs = self._native_programs() if native.enabled else None
        self.operator.programs = self._programs

    # -- making the program --------------------------------------------------------------------

    def _check_variables(self) -> None:
        known = set(self.variables)
        missing = [node.name for node in _variables(self.outputs) if node not in known]
        if missing:
            raise ArgumentError(
                f"{self.name}: variables {missing} are used but not among the inputs "
                f"{list(self.input_names)}")

    def _plan(self) -> None:
        """Lay the nodes out as steps over numbered slots; a slot is freed after its last use."""
        nodes = [node for node in topological(self._returned) if node.op is not None]
        slots: dict[Entry, int] = {Entry(node, 0): i for i, node in enumerate(self.variables)}
        wanted = {entry for node in nodes for entry in node.inputs} | set(self._returned)
        for node in nodes:
            for entry in node.outputs(hidden=True):
                if entry in wanted:
                    slots[entry] = len(slots)
        last = {entry: node for node in nodes for entry in node.inputs}
        kept = set(self._returned)
        self._steps = []
        for node in nodes:
            assert node.op is not None
            free = {slots[entry] for entry in node.inputs
                    if last[entry] is node and entry not in kept}
            self._steps.append(_Step(
                node.op, node.attrs, tuple(slots[entry] for entry in node.inputs),
                tuple(slots.get(entry, -1) for entry in node.outputs(hidden=True)),
                tuple(sorted(free)), node))
        self._count = len(slots)
        self._results = [slots[entry] for entry in self._returned]

    def _record(self) -> GraphOperator:
        nodes = [step.node for step in self._steps]
        written = {entry.node for node in nodes for entry in mutated(node, self.training)}

        def body(xp: Any, *inputs: Any, device: Any) -> tuple[Any, ...]:
            return self._run(inputs, device)

        def drawing(xp: Any, *inputs: Any, device: Any, rng: Any) -> tuple[Any, ...]:
            return self._run(inputs, device)  # naming rng tells others that two runs differ

        draws = any(node.op is not None and node.op.needs_rng for node in nodes)
        return GraphOperator(
            self, drawing if draws else body,
            infer=self._infer_shape, infer_dtype=self._infer_dtype, gradient=self._gradient,
            num_outputs=len(self._returned), visible=len(self.outputs),
            mutates=[name for name, node in zip(self.input_names, self.variables, strict=True)
                     if node in written],
            aux=[name for name, node in zip(self.input_names, self.variables, strict=True)
                 if node in written])

    def _native_programs(self) -> Any:
        """The native programs, made for each combination of types and shapes when first met."""
        names = self.operator.mutates
        written = [i for i, name in enumerate(self.input_names) if name in names]
        returned, variables, training = self._returned, self.variables, self.training
        visible = len(self.outputs)

        def make(arrays: Sequence[Any], spent: Sequence[tuple[int, int]]) -> Any:
            return lower(returned, variables, arrays, training, visible, spent)

        return native.core.Programs(make, written)

    # -- running it ----------------------------------------------------------------------------

    def _run(self, inputs: Sequence[Any], device: Any) -> tuple[Any, ...]:
        if self._programs is not None and device.type == "cpu" and not observing.inside:
            results = self._programs(inputs, device)
            if results is not None:
                return results  # type: ignore[no-any-return]
        slots = [*inputs, *[None] * (self._count - len(inputs))]
        training = self.training
        step = None  # the same in Python, one call after the other
        try:
            for step in self._steps:
                results = call(step.op, [slots[i] for i in step.inputs], step.attrs, device,
                               training, told=not observing.inside)
                for slot, result in zip(step.outputs, results, strict=True):
                    if slot >= 0:
                        slots[slot] = result
                for slot in step.free:
                    slots[slot] = None
        except MXNetError as error:
            raise (locate(error, step.node) if step else error) from error.__cause__
        returned = [slots[i] for i in self._results]
        return tuple(_own(returned, len(self.outputs)))

    def _known(self, values: Sequence[Any]) -> Mapping[Node, Any]:
        return dict(zip(self.variables, values, strict=True))

    def _infer_shape(self, shapes: list[MaybeShape], attrs: Attrs
                     ) -> tuple[list[MaybeShape], list[MaybeShape]]:
        found = infer_shape(self._returned, self._known(shapes))
        inputs = found.of(Entry(node, 0) for node in self.variables)
        return inputs, found.of(self._returned)

    def _infer_dtype(self, dtypes: list[str | None], attrs: Attrs
                     ) -> tuple[list[str | None], list[str | None]]:
        found = infer_dtype(self._returned, self._known(dtypes))
        inputs = found.of(Entry(node, 0) for node in self.variables)
        return inputs, found.of(self._returned)

    # -- backwards -----------------------------------------------------------------------------

    def _needed_by_backward(self) -> list[Entry]:
        """The entries inside the graph that its full backward reads and that are no output."""
        heads = [Entry(Node(None, f"d{i}"), 0) for i in range(len(self.outputs))]
        wrt = [Entry(node, 0) for node in self.wrt]
        grads = [g for g in gradient(self.outputs, heads, wrt, self.training) if g is not None]
        inside = {entry: None for node in topological(self.outputs)
                  for entry in node.outputs(hidden=True)}
        shown = set(self.outputs)
        reached = topological_until(grads, inside)
        read = [*grads, *(entry for node in reached for entry in node.inputs)]
        return list(dict.fromkeys(
            entry for entry in read
            if entry in inside and entry.node.op is not None and entry not in shown))

    def _gradient(self, F: Any, dy: Any, out: Any, *inputs: Any) -> list[Any]:
        """The gradient rule of the record: one call of a compiled backward graph."""
        dys, outs = ([dy], [out]) if self.operator.single else (list(dy), list(out))
        plan = self._backward(tuple(grad is not None for grad in dys))
        if plan.graph is None:
            return [None] * len(inputs)
        for place in plan.filled:
            dys[place] = F.zeros_like(outs[place])
        pools = (dys, outs, inputs)
        results = F._invoke(plan.graph.operator, *[pools[pool][i] for pool, i in plan.sources])
        if not isinstance(results, list):
            results = [results]
        return [None if place is None else results[place] for place in plan.places]

    def _backward(self, mask: tuple[bool, ...]) -> _Backward:
        """The backward graph for the outputs that have a gradient, made when first asked for."""
        plan = self._backwards.get(mask)
        if plan is None:
            try:
                plan = self._make_backward(mask, ())
            except _MustNotRepeat:
                # An output without gradient made a rule ask for what was not kept; with zeros
                # for its gradient the rules ask for exactly what was.
                visible = range(len(self.outputs))
                filled = tuple(i for i in visible if not mask[i])
                full = tuple(True if i in visible else has for i, has in enumerate(mask))
                plan = self._make_backward(full, filled)
            self._backwards[mask] = plan
        return plan

    def _make_backward(self, mask: tuple[bool, ...], filled: tuple[int, ...]) -> _Backward:
        heads = [Entry(Node(None, f"d{self.name}{i}"), 0) for i in range(len(mask))]
        sources = {head.node: (_DY, i) for i, head in enumerate(heads)}
        sources.update((node, (_IN, i)) for i, node in enumerate(self.variables))
        grads = gradient([e for e, has in zip(self._returned, mask, strict=True) if has],
                         [h for h, has in zip(heads, mask, strict=True) if has],
                         [Entry(node, 0) for node in self.wrt], self.training)
        saved: dict[Entry, Entry] = {}
        for i, entry in enumerate(self._returned):
            if entry.node.op is not None and entry not in saved:
                saved[entry] = Entry(Node(None, f"saved_{entry.node.name}_{entry.index}"), 0)
                sources[saved[entry].node] = (_OUT, i)
        for entry, again in self._remade.items():
            [saved[entry]] = substitute([again], saved)
        present = substitute([grad for grad in grads if grad is not None], saved)
        self._refuse_repeats(present)
        of_node: dict[Node, int] = {}
        for node, grad in zip(self.wrt, grads, strict=True):
            if grad is not None:
                of_node[node] = len(of_node)
        graph = None
        needed = _variables(present)
        if present:
            graph = CompiledGraph(present, needed, self.training, name=f"{self.name}_backward")
            if graph._programs is not None:  # may write to what was kept, and to old gradients
                input_of = {number: place for place, node in enumerate(self.variables)
                            if (number := of_node.get(node)) is not None}
                graph._programs.serve(id(self.operator),
                                      [input_of[number] for number in range(len(present))])
        return _Backward(graph, [sources[node] for node in needed],
                         [of_node.get(node) for node in self.variables], filled)

    def _refuse_repeats(self, grads: Sequence[Entry]) -> None:
        """Nothing that draws or writes in the forward may be run again by the backward."""
        forward = set(topological(self._returned))
        for node in topological(grads):
            if node in forward and impure(node, self.training):
                assert node.op is not None
                raise _MustNotRepeat(
                    f"backward of {self.name} needs an output of {node.op.name} that was not "
                    f"kept; compile with record=True (call it inside autograd.record()) "
                    f"[node {node.name}]")


_DY, _OUT, _IN = range(3)
"""Where an input of a backward graph comes from: gradients, results, inputs of the forward."""


class _Backward(NamedTuple):
    """A backward graph; where its inputs come from; which result belongs to which variable."""

    graph: CompiledGraph | None
    sources: list[tuple[int, int]]  # (_DY, _OUT or _IN, number)
    places: list[int | None]
    filled: tuple[int, ...]


class _MustNotRepeat(GradientError):
    """Backward asks to draw or write again."""


_variables = variables  # the name is also that of a parameter


def _unique(names: Sequence[str]) -> tuple[str, ...]:
    """The names, those that come twice with their place added."""
    seen: set[str] = set()
    result = []
    for place, name in enumerate(names):
        result.append(f"{name}#{place}" if name in seen else name)
        seen.add(name)
    return tuple(result)


def _own(results: list[Any], visible: int) -> list[Any]:
    """Visible results that share no memory with one another, so that each can be written to."""
    if visible > 1:
        buffers: set[int] = set()
        for place in range(visible):
            raw = results[place]
            base = raw if raw.base is None else raw.base
            if id(base) in buffers:
                results[place] = raw = base = raw.copy()
            buffers.add(id(base))
    return results
