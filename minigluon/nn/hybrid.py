"""HybridBlock: a block that can run as a graph."""
from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import ndarray as nd
from .. import symbol
from ..base import (
    ArgumentValueError,
    DeferredInitializationError,
    DTypeError,
    MXNetError,
    NotForThisError,
    ShapeError,
)
from ..context import Context, cpu, current_context
from ..graph import auxiliary, to_json
from ..ndarray import NDArray
from ..symbol import Symbol
from .block import Block
from .parameter import Parameter
from .parameterdict import ParameterDict
from .trace import Trace, building, canonical, flatten, numbered, restored, trace

__all__ = ["HybridBlock"]


class _Structure:
    """Counts the changes to any hybrid block; a graph made before the last one is checked again."""

    changes = 0


class HybridBlock(Block):
    """A block that computes with operators only, so that it can run eagerly or as a graph.

    A class of yours overrides ``hybrid_forward(self, F, x, ..., **params)``, where `F` is
    ``mx.nd`` or ``mx.sym`` and each parameter attribute arrives under its own name. Or it
    overrides ``forward(self, x)`` and calls other blocks, which then are the ones that run as
    graphs.

    After ``hybridize()`` the first call learns the graph of the whole block. Later calls run it
    as one operator, for any shapes; outputs, gradients and running statistics stay the same.

    >>> import minigluon as mx
    >>> class Scale(mx.gluon.HybridBlock):
    ...     def __init__(self, **kwargs):
    ...         super().__init__(**kwargs)
    ...         self.factor = self.params.get("factor", shape=(1,), init="ones")
    ...     def hybrid_forward(self, F, x, factor):
    ...         return F.broadcast_mul(x, factor * 3)
    >>> net = Scale()
    >>> net.initialize()
    >>> net.hybridize()
    >>> net(mx.nd.array([1, 2])).asnumpy().tolist()
    [3.0, 6.0]
    """

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix, params)
        self._active = False
        self._flags: dict[str, Any] = {}
        self._trace: Trace | None = None
        self._revision = 0
        self._callback: tuple[Callable[..., Any], bool] | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if isinstance(value, (HybridBlock, Parameter)):
            self._clear_cached_op()

    def __getstate__(self) -> dict[str, Any]:
        # a graph is compiled for this process; a copy learns its own at its first call
        return {**self.__dict__, "_trace": None}

    def register_child(self, block: Block, name: str | None = None) -> None:
        """Make `block` a child; it must be a HybridBlock."""
        if not isinstance(block, HybridBlock):
            raise ArgumentValueError(
                f"Children of HybridBlock must also be HybridBlock, but {block} has type "
                f"{type(block)}. If you are using Sequential, please try HybridSequential instead.")
        super().register_child(block, name)
        self._clear_cached_op()

    def _clear_cached_op(self) -> None:
        """Forget the graph; blocks that contain this one will notice before their next call."""
        self._trace = None
        self._revision += 1
        _Structure.changes += 1

    def hybridize(self, active: bool = True, backend: str | None = None, clear: bool = True,
                  static_alloc: bool = False, static_shape: bool = False, inline_limit: int = 2,
                  forward_bulk_size: int | None = None, backward_bulk_size: int | None = None,
                  **kwargs: Any) -> None:
        """Run as a graph from now on (or eagerly again).

        Args:
            active: graph or eager.
            backend: a graph partitioner; none is built.
            clear: learn the graph anew.
            static_alloc, static_shape, inline_limit, forward_bulk_size, backward_bulk_size:
                accepted as in MXNet; results do not depend on them.
        """
        if backend is not None:
            raise NotForThisError(f"hybridize: backend '{backend}' is not built: minigluon has no "
                                  "graph partitioners")
        self._active = active
        self._flags = {"static_alloc": static_alloc, "static_shape": static_shape,
                       "inline_limit": inline_limit, "forward_bulk_size": forward_bulk_size,
                       "backward_bulk_size": backward_bulk_size}
        if clear:
            self._clear_cached_op()
        super().hybridize(active, clear=clear, **self._flags, **kwargs)

    def optimize_for(self, x: Any, *args: Any, backend: str | None = None, **kwargs: Any) -> None:
        """Partition the graph for a backend; none is built."""
        if backend is None:
            raise ArgumentValueError('optimize_for: Must specify "backend"; none is built, and '
                                     "hybridize() is enough")
        raise NotForThisError(f"optimize_for: backend {backend!r} is not built: minigluon has no "
                              "graph partitioners; hybridize() is enough")

    def cast(self, dtype: Any) -> None:
        """Change the element type of all parameters."""
        self._clear_cached_op()
        super().cast(dtype)

    def register_op_hook(self, callback: Callable[..., Any], monitor_all: bool = False) -> None:
        """Call ``callback(name, operator, array)`` for each operator of the hybridized block.

        Args:
            callback: gets the name of an output ('dense0_fwd_output'), of the operator
                ('FullyConnected'), and the array.
            monitor_all: also show the inputs ('dense0_fwd_data').
        """
        self._callback = (callback, monitor_all)
        super().register_op_hook(callback, monitor_all)

    # -- computing ------------------------------------------------------------------------------

    def forward(self, x: Any, *args: Any) -> Any:
        """Run hybrid_forward on arrays, as a graph if hybridized; on Symbols, give a Symbol."""
        if isinstance(x, NDArray) and (not args or _beside(x, args)):
            ctx = x.context
        elif isinstance(x, Symbol) and not args:
            return self._compose(x)
        else:
            place = self._place((x, *args))
            if place is None:
                return self._compose(x, *args)
            ctx = place
        if self._active:
            return self._run_graph(ctx, (x, *args))
        try:
            params = {name: p.data(ctx) for name, p in self._reg_params.items()}
        except DeferredInitializationError:
            self._finish_deferred((x, *args))
            params = {name: p.data(ctx) for name, p in self._reg_params.items()}
        try:
            if ctx == current_context():
                return self.hybrid_forward(nd, x, *args, **params)
            with Context(ctx):  # a new one: other threads may be inside the array's own
                return self.hybrid_forward(nd, x, *args, **params)
        except (ShapeError, DTypeError) as error:
            text = str(error)
            if "[block " not in text:  # the innermost block is the one to look at
                error.args = (f"{text} [block {self.name}]", *error.args[1:])
            raise

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """What the block computes with the operators of `F`; a class of yours overrides it."""
        raise NotForThisError(f"{type(self).__name__} must override hybrid_forward(self, F, ...) "
                              "or forward(self, ...)")

    def _compose(self, *args: Any) -> Any:
        """Run on Symbols."""
        params = {name: symbol.shown(p.var()) for name, p in self._reg_params.items()}
        with self.name_scope():
            return self.hybrid_forward(symbol, *symbol.shown(args), **params)

    def _on_symbols(self, *args: Any) -> Any:
        """What a graph is learned from: hybrid_forward, whatever a forward does before it."""
        own = type(self).hybrid_forward is not HybridBlock.hybrid_forward
        return self._compose(*args) if own else self.forward(*args)

    def _place(self, args: tuple[Any, ...]) -> Context | None:
        """The context of the arrays among nested inputs; None when they are Symbols."""
        found: list[Any] = []
        _arrays_in(args, found)
        symbols = [value for value in found if isinstance(value, Symbol)]
        if not found:
            raise ArgumentValueError(
                "In HybridBlock, there must be one NDArray or one Symbol in the input, got "
                f"{', '.join(type(arg).__name__ for arg in args)}. Please check the type of the "
                "args; mx.nd.array(x) makes an NDArray")
        if symbols:
            if len(symbols) < len(found):
                raise ArgumentValueError(
                    "In HybridBlock, we do not support mixed NDArrays and Symbols types for the "
                    "input. Please check the type of the args.\n")
            return None
        places = {_host(array.context) for array in found} if self._active else set()
        if len(places) > 1:
            raise ArgumentValueError(
                "Find multiple contexts in the input, After hybridized, the HybridBlock only "
                f"supports one input context. Find all contexts = {places}")
        return found[0].context  # type: ignore[no-any-return]

    # -- as a graph -----------------------------------------------------------------------------

    def _run_graph(self, ctx: Context, args: tuple[Any, ...]) -> Any:
        leaves: list[Any] = []
        form: Any = (1,) * len(args)
        if all([type(arg) is NDArray for arg in args]):  # as nearly always
            leaves += args
        else:
            form = canonical(flatten(args, leaves))
        graph = self._current_trace()
        if graph is None:
            graph = self._learn(args)
        if form != graph.in_form:
            raise ArgumentValueError(
                "The argument structure of HybridBlock does not match the cached version. Stored "
                f"format = {graph.in_form}, input format = {form}")
        if self._callback is not None:
            return graph.run_watched(leaves, ctx, *self._callback)
        try:
            return graph.run(leaves, ctx)
        except DeferredInitializationError:
            graph.finish(leaves)
        return graph.run(leaves, ctx)

    def _current_trace(self) -> Trace | None:
        """The graph learned before, if no block in it has changed since."""
        graph = self._trace
        if graph is not None and graph.changes != _Structure.changes:
            with building:
                changes = _Structure.changes
                if graph.revisions != _revisions(self):
                    self._trace = None
                    return None
                graph.changes = changes
        return graph

    def _learn(self, args: tuple[Any, ...]) -> Trace:
        with building:
            graph = self._current_trace()
            if graph is None:
                changes, revisions = _Structure.changes, _revisions(self)
                graph = trace(self, args, _parameters(self))
                graph.changes, graph.revisions = changes, revisions
                graph.inline_limit = self._flags.get("inline_limit", 2)
                self._trace = graph
            return graph

    def _get_graph(self, args: tuple[Any, ...]) -> tuple[Trace, list[NDArray]]:
        """A graph for these inputs (not kept unless hybridized), and the arrays in them."""
        leaves: list[NDArray] = []
        flatten(args, leaves)
        if self._active:
            return self._current_trace() or self._learn(args), leaves
        return trace(self, args, _parameters(self)), leaves

    def _finish_deferred(self, args: tuple[Any, ...]) -> None:
        """Initialize this block's own deferred parameters, by the shapes these inputs ask for."""
        with building:
            if any(p._deferred_init for p in self._reg_params.values()):
                self.infer_shape(*args)
                for parameter in self._reg_params.values():
                    parameter._finish_deferred_init()

    def infer_shape(self, *args: Any) -> None:
        """Fill in the parameters' unknown sizes for these inputs, without computing."""
        graph, leaves = self._get_graph(args)
        graph.infer_shape(leaves)

    def infer_type(self, *args: Any) -> None:
        """Give the parameters the element types that fit these inputs."""
        graph, leaves = self._get_graph(args)
        graph.infer_type(leaves)

    def export(self, path: str, epoch: int = 0, remove_amp_cast: bool = True) -> None:
        """Write graph and parameters for SymbolBlock.imports (here or in MXNet).

        Args:
            path: files are ``PATH-symbol.json`` and ``PATH-0000.params``.
            epoch: the number in the second name.
            remove_amp_cast: leave casts of mixed precision out (minigluon inserts none).

        Raises:
            RuntimeError: the block was not hybridized and run before.
        """
        graph = self._current_trace()
        if graph is None:
            raise MXNetError("Please first call block.hybridize() and then run forward with this "
                             "block at least once before calling export.")
        states = set(auxiliary(graph.entries))
        form = canonical(graph.out_form)
        # imports gives nested outputs back as they were, which MXNet's files cannot say
        nested = isinstance(form, tuple) and (len(form) == 1 or set(form) != {1})
        notes = {"gluon_out_format": json.dumps(numbered(graph.out_form))} if nested else {}
        with open(f"{path}-symbol.json", "w", encoding="utf-8") as file:
            file.write(to_json(graph.entries, notes))
        nd.save(f"{path}-{epoch:04d}.params", {
            f"{'aux' if node in states else 'arg'}:{parameter.name}": parameter._reduce()
            for node, parameter in graph.parameters()})

    def _describe_graph(self) -> dict[str, Any]:
        graph = self._current_trace()
        return {"hybridized": False} if graph is None else {**graph.describe(), "hybridized": True}

    def _restore_graph(self, found: Mapping[str, Any], names: Mapping[str, Parameter]) -> None:
        self._clear_cached_op()
        self._active = True
        graph = restored(found, names, self.name)
        if graph is not None:
            graph.changes, graph.revisions = _Structure.changes, _revisions(self)
            self._trace = graph


def _beside(x: NDArray, others: Sequence[Any]) -> bool:
    """Whether the others are plain arrays on the very same context."""
    place = x._ctx
    return all([type(other) is NDArray and other._ctx is place for other in others])


def _host(ctx: Context) -> Context:
    """cpu_pinned and cpu_shared are host memory by other names."""
    return cpu(ctx.device_id) if ctx.device_type in ("cpu_pinned", "cpu_shared") else ctx


def _arrays_in(value: Any, found: list[Any]) -> None:
    if isinstance(value, (NDArray, Symbol)):
        found.append(value)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _arrays_in(item, found)


def _revisions(block: Any) -> list[tuple[Any, int]]:
    """The blocks inside `block`, and how often each has changed."""
    found = [(block, block._revision)]
    for child in block._children.values():
        found += _revisions(child)
    return found


def _parameters(block: Block) -> list[Parameter]:
    """All parameters of a block and its descendants."""
    found = dict.fromkeys((*block.params.values(), *block._reg_params.values()))
    for child in block._children.values():
        found.update(dict.fromkeys(_parameters(child)))
    return list(found)
