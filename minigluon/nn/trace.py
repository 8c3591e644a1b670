"""The graph of a hybrid block: learned by running it on symbols, compiled, run as one call."""
from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .. import graph, symbol, tape
from .. import ndarray as nd
from ..base import ArgumentValueError, ShapeError
from ..context import Context
from ..graph import Entry, Node
from ..name import NameManager
from ..ndarray import NDArray
from ..symbol import Symbol
from .block import Block, tracing
from .parameter import Parameter, known

__all__ = ["Trace", "building", "canonical", "flatten", "numbered", "rebuild", "restored",
           "trace", "unnumbered"]

building = threading.RLock()
"""Held while a graph is learned or compiled, or deferred parameters are made."""


def flatten(value: Any, leaves: list[Any]) -> Any:
    """Append the arrays or symbols in nested lists to `leaves`; returns the form of the nest.

    In a form, a number stands for an array (a symbol with n outputs: n), None for None.
    """
    if value is None:
        return None
    if isinstance(value, NDArray):
        leaves.append(value)
        return 1
    if isinstance(value, Symbol):
        leaves.append(value)
        return len(value)
    if isinstance(value, (list, tuple)):
        form = [flatten(item, leaves) for item in value]
        return form if isinstance(value, list) else tuple(form)
    raise ArgumentValueError(
        "When hybridized, the inputs and outputs of a HybridBlock must be (nested) lists of "
        f"Symbol or NDArray, but got {value} of type {type(value)}")


def rebuild(form: Any, leaves: Iterator[Any]) -> Any:
    """The nest of this form with the given leaves.

    >>> rebuild([1, None, (1, 2)], iter("abcd"))
    ['a', None, ('b', ['c', 'd'])]
    """
    if form is None:
        return None
    if isinstance(form, int):
        return next(leaves) if form == 1 else [next(leaves) for _ in range(form)]
    items = [rebuild(item, leaves) for item in form]
    return items if isinstance(form, list) else tuple(items)


def canonical(form: Any) -> Any:
    """A form in which lists equal tuples and trailing None (left-out arguments) are gone.

    >>> canonical((1, [1, (1,)], None))
    (1, (1, (1,)))
    """
    if not isinstance(form, (list, tuple)):
        return form
    items = [canonical(item) for item in form]
    while items and items[-1] is None:
        items.pop()
    return tuple(items)


class Trace:
    """A graph and where its inputs come from.

    Args:
        entries: what it computes. inputs: the variables that stand for the block's inputs.
        in_form: canonical form of the inputs. out_form: form of the outputs.
        params: the block's parameters by full name.
        name: of the block, for messages.

    Attributes:
        inline_limit: up to so many calls, ``autograd.get_symbol`` shows the calls themselves.
        changes, revisions: HybridBlock's notes on which state of the blocks the graph is of.
    """

    def __init__(self, entries: Sequence[Entry], inputs: Sequence[Node], in_form: Any,
                 out_form: Any, params: Sequence[Parameter], name: str) -> None:
        self.entries = list(entries)
        self.inputs = list(inputs)
        self.in_form = in_form
        self.out_form = out_form
        self.name = name
        self.variables = graph.variables(entries)
        places = {node: place for place, node in enumerate(inputs)}
        by_node = {p.var().entries[0].node: p for p in params if p._var is not None}
        by_name = {p.name: p for p in params}
        # for each variable, the number of the input or the parameter that it stands for
        self.sources: list[int | Parameter] = [
            places[node] if node in places else by_node.get(node) or by_name[node.name]
            for node in self.variables]
        self.inline_limit = 0
        self.changes = -1
        self.revisions: list[tuple[Any, int]] = []
        self._open = graph.has_open_shapes(entries)
        self._images = graph.has_images(entries)
        self._shaped = self._open or self._images  # then there is a program for each shape
        self._operators: dict[tuple[Any, ...], Any] = {}

    def parameters(self) -> list[tuple[Node, Parameter]]:
        """The parameters that the graph reads, with their variables."""
        return [(node, source) for node, source in zip(self.variables, self.sources, strict=True)
                if isinstance(source, Parameter)]

    def describe(self) -> dict[str, Any]:
        """What ``Block.save`` writes of it, as MXNet does."""
        return {"in_format": numbered(self.in_form), "out_format": numbered(self.out_form),
                "inputs": [Symbol([Entry(node, 0)]).tojson() for node in self.inputs],
                "symbol": Symbol(self.entries).tojson()}

    # -- parameters whose shapes are not known yet ----------------------------------------------

    def infer_shape(self, leaves: Sequence[NDArray]) -> None:
        """Tell the parameters their shapes, as far as these inputs determine them."""
        given = {node: source._shape if isinstance(source, Parameter) else leaves[source].shape
                 for node, source in zip(self.variables, self.sources, strict=True)}
        found = graph.infer_shape(self.entries, given)
        for node, parameter in self.parameters():
            shape = found.entries.get(Entry(node, 0))
            if shape is not None:
                parameter.shape = shape

    def infer_type(self, leaves: Sequence[NDArray]) -> None:
        """Give the parameters the element types that these inputs ask for."""
        given = {node: leaves[source].dtype
                 for node, source in zip(self.variables, self.sources, strict=True)
                 if not isinstance(source, Parameter)}
        for node, _ in self.parameters():
            given[node] = None
        bare = [Node(node.op, node.name) for node in self.variables]
        swapped = {Entry(old, 0): Entry(new, 0)
                   for old, new in zip(self.variables, bare, strict=True)}
        found = graph.infer_dtype(
            graph.ir.substitute(self.entries, swapped),
            {swapped[Entry(node, 0)].node: dtype for node, dtype in given.items()})
        for node, parameter in self.parameters():
            dtype = found.entries.get(swapped[Entry(node, 0)])
            if dtype is not None:
                parameter.cast(dtype)

    def finish(self, leaves: Sequence[NDArray]) -> None:
        """Initialize deferred parameters, now that there are inputs to infer shapes from."""
        with building:
            self.infer_shape(leaves)
            for _, parameter in self.parameters():
                if parameter._deferred_init and not known(parameter.shape):
                    raise ShapeError(
                        f"Deferred initialization failed because the shape of parameter "
                        f"'{parameter.name}' cannot be inferred (known so far: "
                        f"{parameter.shape}); give its sizes [block {self.name}]")
                parameter._finish_deferred_init()

    # -- running --------------------------------------------------------------------------------

    def arrays(self, leaves: Sequence[NDArray], ctx: Context) -> list[NDArray]:
        """The arrays of all variables, in order."""
        return [source.data(ctx) if isinstance(source, Parameter) else leaves[source]
                for source in self.sources]

    def run(self, leaves: Sequence[NDArray], ctx: Context) -> Any:
        """Compute on `ctx`, as one operator call."""
        arrays = self.arrays(leaves, ctx)
        flags = tape.state
        wrt: tuple[bool, ...] = ()
        if flags.recording:
            wrt = tuple([array._ag is not None for array in arrays])
            if True not in wrt:
                wrt = ()
        key: tuple[Any, ...] = (flags.training, wrt)
        if self._shaped:
            key = (*key, ctx.device_type, *[(leaf.shape, leaf.dtype) for leaf in leaves])
        compiled = self._operators.get(key) or self._compile(key, arrays, ctx)
        found = nd.invoke(compiled, arrays, {}, ctx=ctx)
        if self.out_form == 1:
            return found
        return rebuild(self.out_form, iter([found] if isinstance(found, NDArray) else found))

    def _compile(self, key: tuple[Any, ...], arrays: Sequence[NDArray], ctx: Context) -> Any:
        training, wrt = key[:2]
        with building:
            if key not in self._operators:
                entries = self._closed([array.shape for array in arrays])
                if self._images and ctx.device_type != "gpu":
                    descs = [(np.dtype(array.dtype).name, array.shape) for array in arrays]
                    entries = graph.assign_layout(
                        entries, dict(zip(self.variables, descs, strict=True)), bool(wrt))
                wanted = [node for node, asked in zip(self.variables, wrt, strict=False) if asked]
                compiled = graph.CompiledGraph(
                    entries, self.variables, training=training, record=bool(wrt),
                    wrt=wanted, name=self.name)
                compiled.operator.inline_limit = self.inline_limit
                self._operators[key] = compiled.operator
            return self._operators[key]

    def _closed(self, shapes: Sequence[tuple[int, ...]]) -> Sequence[Entry]:
        """The graph, sizes that only these shapes of the variables tell filled in."""
        if not self._open:
            return self.entries
        return graph.close_shapes(self.entries, dict(zip(self.variables, shapes, strict=True)))

    def run_watched(self, leaves: Sequence[NDArray], ctx: Context,
                    callback: Callable[[str, str, NDArray], Any], monitor_all: bool) -> Any:
        """Compute node by node and show each result to ``callback(name, operator, array)``."""
        arrays = self.arrays(leaves, ctx)
        values = {Entry(node, 0): array
                  for node, array in zip(self.variables, arrays, strict=True)}
        entries = self._closed([array.shape for array in arrays])
        for node in graph.topological(entries):
            if node.op is None:
                continue
            inputs = [values[entry] for entry in node.inputs]
            if monitor_all:
                for place, array in enumerate(inputs):
                    word = f"input{place}" if node.op.variadic else node.op.input_names[place]
                    callback(f"{node.name}_{word}", node.op.name, array)
            found = nd.invoke(node.op, inputs, node.attrs, ctx=ctx)
            found = [found] if isinstance(found, NDArray) else found
            for entry, array in zip(node.outputs(), found, strict=True):
                values[entry] = array
                callback(Symbol([entry]).list_outputs()[0], node.op.name, array)
        return rebuild(self.out_form, (values[entry] for entry in entries))


def trace(block: Block, args: Sequence[Any], params: Sequence[Parameter]) -> Trace:
    """Run `block` on symbols in place of the arrays in `args`.

    Shapes and types play no part: the graph serves arrays of any shape in nests of this form.
    """
    leaves: list[Any] = []
    form = flatten(tuple(args), leaves)
    names = ["data"] if len(leaves) == 1 else [f"data{i}" for i in range(len(leaves))]
    inputs = [symbol.shown(symbol.var(name)) for name in names]
    with building, NameManager():
        before, tracing.active = tracing.active, True
        try:
            out = block._on_symbols(*rebuild(form, iter(inputs)))
        finally:
            tracing.active = before
    symbols: list[Any] = []
    out_form = flatten(out, symbols)
    return Trace(_own(symbols), [each.entries[0].node for each in inputs], canonical(form),
                 out_form, params, block.name)


def restored(found: Mapping[str, Any], names: Mapping[str, Parameter], block: str) -> Trace | None:
    """The graph that `Trace.describe` described; None where it reads a parameter not in `names`.

    Args:
        found: the description. names: parameters by their names in the graph.
        block: the block's name, for messages.
    """
    entries = symbol.load_json(found["symbol"]).entries
    known_as = {node.name: node for node in graph.variables(entries)}
    inputs = [symbol.load_json(text).list_arguments()[0] for text in found["inputs"]]
    params = {node: names.get(name) for name, node in known_as.items() if name not in inputs}
    if None in params.values():
        return None  # it belongs to another block: the graph is learned anew
    swapped = {Entry(node, 0): parameter.var().entries[0] for node, parameter in params.items()}
    return Trace(graph.ir.substitute(entries, swapped),
                 [known_as.get(name) or Node(None, name) for name in inputs],
                 canonical(tuple(unnumbered(found["in_format"]))),
                 unnumbered(found["out_format"]), list(params.values()), block)


def numbered(form: Any) -> Any:
    """A form as MXNet writes it: 0 for an array, -1 for None."""
    if isinstance(form, (list, tuple)):
        return [numbered(item) for item in form]
    return {None: -1, 1: 0}.get(form, form)


def unnumbered(form: Any) -> Any:
    """The inverse of `numbered`, but for tuples, which become lists.

    >>> unnumbered(numbered([1, None, (1, 3)]))
    [1, None, [1, 3]]
    """
    if isinstance(form, list):
        return [unnumbered(item) for item in form]
    return {-1: None, 0: 1}.get(form, form)


def _own(symbols: Sequence[Symbol]) -> list[Entry]:
    """The entries of outputs; one that is an input as it is, or given twice, becomes a copy."""
    entries: list[Entry] = []
    for each in symbols:
        for entry in each.entries:
            if entry.node.op is None or entry in entries:
                entry = symbol.identity(  # type: ignore[attr-defined]
                    Symbol([entry])).entries[0]
            entries.append(entry)
    return entries
