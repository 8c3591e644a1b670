"""Symbol, the graph face: entries with names, composition and inference."""
from __future__ import annotations

import operator as python_operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from ..base import (
    ArgumentError,
    ArgumentValueError,
    NotForThisError,
    NotImplementedForSymbol,
    did_you_mean,
)
from ..files import read_file, replacing
from ..graph import (
    Entry,
    Inferred,
    Node,
    auxiliary,
    from_json,
    infer_dtype,
    infer_shape,
    substitute,
    to_json,
    topological,
    variables,
)
from ..npmode import is_np_shape
from .bind import Executor
from .nodes import attrs_of, checked_attrs, clone, debug_text, output_name, without_amp_cast

__all__ = ["Group", "Symbol", "load", "load_json", "one_entry"]

Shapes = list[tuple[int, ...]]


class Symbol:
    """A computation described first and run later: one or several outputs of a graph.

    Made by ``sym.var`` and ``sym.X``; indexing picks outputs, calling composes.

    Args:
        entries: the outputs, as graph entries.

    >>> import minigluon as mx
    >>> net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=4, name="fc")
    >>> net.list_arguments(), net.list_outputs()
    (['data', 'fc_weight', 'fc_bias'], ['fc_output'])
    >>> net.infer_shape(data=(2, 3))
    ([(2, 3), (4, 3), (4,)], [(2, 4)], [])
    """

    __slots__ = ("__weakref__", "entries")
    __array_priority__ = 1000.0

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = list(entries)

    # -- what it is ----------------------------------------------------------------------------

    @property
    def name(self) -> str | None:
        """The name of the node; None for a group of several nodes."""
        node = self._only_node()
        return node.name if node is not None else None

    def _only_node(self) -> Node | None:
        nodes = {entry.node for entry in self.entries}
        return nodes.pop() if len(nodes) == 1 else None

    def __repr__(self) -> str:
        name = self.name
        if name is None:
            name = "group [" + ", ".join(str(each.name) for each in self) + "]"
        return f"<Symbol {name}>"

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Symbol]:
        return (Symbol([entry]) for entry in self.entries)

    def __getitem__(self, index: int | str | slice) -> Symbol:
        """One output by number or name (``'fc1_output'``), or several by a slice."""
        if isinstance(index, slice):
            return Symbol(self.entries[index])
        if isinstance(index, str):
            names = self.list_outputs()
            if names.count(index) != 1:
                count = "no output" if index not in names else f"{names.count(index)} outputs"
                raise ArgumentValueError(
                    f"Symbol: expected the name of one output, got {index!r} which names {count}"
                    f"{did_you_mean(index, names)}")
            return Symbol([self.entries[names.index(index)]])
        try:
            return Symbol([self.entries[python_operator.index(index)]])
        except TypeError:
            raise ArgumentError(
                f"Symbol: an output is picked by number, name or slice, got {index!r}; "
                "to slice the array use slice_axis") from None

    def __bool__(self) -> NoReturn:
        raise NotImplementedForSymbol(
            "the truth of a Symbol is not known before it runs; a hybridized block cannot branch "
            "on values: use F.where, or do not hybridize this block")

    def __hash__(self) -> int:
        return id(self) // 16

    def __copy__(self) -> Symbol:
        return Symbol(clone(self.entries))

    def __deepcopy__(self, memo: Any) -> Symbol:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        return load_json, (self.tojson(),)

    # -- names ---------------------------------------------------------------------------------

    def list_arguments(self) -> list[str]:
        """Names of the variables that are given as arrays, depth first; auxiliary ones left out."""
        return [node.name for node in self._arguments()]

    def list_auxiliary_states(self) -> list[str]:
        """Names of the variables that hold running statistics."""
        return [node.name for node in auxiliary(self.entries)]

    def list_inputs(self) -> list[str]:
        """Names of all variables, depth first."""
        return [node.name for node in variables(self.entries)]

    def _arguments(self) -> list[Node]:
        states = set(auxiliary(self.entries))
        return [node for node in variables(self.entries) if node not in states]

    def list_outputs(self) -> list[str]:
        """Names of the outputs: 'fc_output', 'split_output1', or a variable's own name."""
        return [output_name(entry) for entry in self.entries]

    def get_internals(self) -> Symbol:
        """All entries of the graph as outputs; pick one by name: ``['fc1_output']``."""
        return Symbol([entry for node in topological(self.entries) for entry in node.outputs()])

    def get_children(self) -> Symbol | None:
        """The inputs of the node(s) as outputs; None for a variable."""
        nodes = dict.fromkeys(entry.node for entry in self.entries)
        entries = [entry for node in nodes for entry in node.inputs]
        return Symbol(entries) if entries else None

    # -- attributes ----------------------------------------------------------------------------

    def attr(self, key: str) -> str | None:
        """An attribute of the node as text, user's or operator's; None where there is none."""
        return self.list_attr().get(key)

    def list_attr(self, recursive: bool = False) -> dict[str, str]:
        """All attributes of the node as text; empty for a group."""
        if recursive:
            raise DeprecationWarning("list_attr: recursive has gone, as in MXNet; use attr_dict()")
        node = self._only_node()
        return {} if node is None else attrs_of(node)

    def attr_dict(self) -> dict[str, dict[str, str]]:
        """Attributes of every node that has any, by the node's name."""
        found = {node.name: attrs_of(node) for node in topological(self.entries)}
        return {name: attrs for name, attrs in found.items() if attrs}

    def _set_attr(self, **attrs: str) -> None:
        """Set user attributes of the node; values are strings."""
        node = self._only_node()
        if node is None:
            raise ArgumentError("_set_attr: expected a single node, got a group")
        node.extra_attrs.update(checked_attrs(attrs))

    # -- composition ---------------------------------------------------------------------------

    def __call__(self, *args: Symbol, name: str | None = None, **kwargs: Symbol) -> Symbol:
        """A copy whose variables are replaced by other symbols.

        Args:
            args: replacements of ``list_arguments()`` in order, or
            kwargs: replacements by variable name.
            name: new name of the output node.

        >>> import minigluon as mx
        >>> head = mx.sym.FullyConnected(num_hidden=2, name="fc3")
        >>> head(fc3_data=mx.sym.var("x"), name="out").list_arguments()
        ['x', 'fc3_weight', 'fc3_bias']
        """
        composed = self.__copy__()
        composed._compose(*args, name=name, **kwargs)
        return composed

    def _compose(self, *args: Symbol, name: str | None = None, **kwargs: Symbol) -> None:
        if args and kwargs:
            raise ArgumentError("compose: symbols are given by position or by name, not both")
        by_name = {node.name: node for node in variables(self.entries)}
        given = dict(zip(self.list_arguments(), args, strict=False)) if args else kwargs
        if len(args) > len(given):
            raise ArgumentError(f"compose: {len(args)} symbols for {len(given)} arguments")
        replacements = {}
        for key, value in given.items():
            if key not in by_name:
                raise ArgumentError(
                    f"compose: no variable '{key}'{did_you_mean(key, by_name)} "
                    f"(variables: {', '.join(by_name)})")
            replacements[Entry(by_name[key], 0)] = one_entry(value, "compose", key)
        if name is not None:
            node = self._only_node()
            if node is None:
                raise ArgumentError("compose: a group of several nodes cannot be named")
            node.name = name
        self.entries = substitute(self.entries, replacements)

    # -- inference -----------------------------------------------------------------------------

    def infer_shape(self, *args: Any, **kwargs: Any
                    ) -> tuple[Shapes, Shapes, Shapes] | tuple[None, None, None]:
        """Shapes of arguments, outputs and auxiliary states; three None if not all can be told.

        Args:
            args: shapes of the arguments in order (None: unknown), or
            kwargs: shapes by name.

        Raises:
            ShapeError: shapes that contradict one another.
        """
        groups = self._grouped(self._infer(infer_shape, args, kwargs))
        if any(shape is None or 0 in shape for group in groups for shape in group):
            return None, None, None
        return groups

    def infer_shape_partial(self, *args: Any, **kwargs: Any) -> tuple[Shapes, Shapes, Shapes]:
        """Like infer_shape, as far as it goes: () for unknown rank, 0 for unknown dimensions.

        Under np_shape, None and -1.
        """
        def told(shape: tuple[int, ...] | None) -> tuple[int, ...] | None:
            if not is_np_shape():
                return shape or ()
            return None if shape is None else tuple(dim or -1 for dim in shape)

        arguments, outputs, states = (
            [told(shape) for shape in group]
            for group in self._grouped(self._infer(infer_shape, args, kwargs)))
        return arguments, outputs, states

    def infer_type(self, *args: Any, **kwargs: Any) -> tuple[Any, Any, Any]:
        """Types of arguments, outputs and auxiliary states; three None if not all can be told."""
        groups = self.infer_type_partial(*args, **kwargs)
        if any(dtype is None for group in groups for dtype in group):
            return None, None, None
        return groups

    def infer_type_partial(self, *args: Any, **kwargs: Any) -> tuple[Any, Any, Any]:
        """Like infer_type, with None for what cannot be told."""
        found = self._grouped(self._infer(infer_dtype, args, kwargs))
        arguments, outputs, states = (
            [None if name is None else np.dtype(name).type for name in group] for group in found)
        return arguments, outputs, states

    def _infer(self, infer: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Inferred[Any]:
        if args and kwargs:
            raise ArgumentValueError("infer: values are given by position or by name, not both")
        known = dict(zip(self.list_arguments(), args, strict=False)) if args else dict(kwargs)
        names = self.list_inputs()
        for name in known:
            if name not in names:
                raise ArgumentError(
                    f"infer: no variable '{name}'{did_you_mean(name, names)} "
                    f"(variables: {', '.join(names)})")
        return infer(self.entries, known)  # type: ignore[no-any-return]

    def _grouped(self, found: Inferred[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        return (found.of(Entry(node, 0) for node in self._arguments()), found.of(self.entries),
                found.of(Entry(node, 0) for node in auxiliary(self.entries)))

    # -- text ----------------------------------------------------------------------------------

    def tojson(self, remove_amp_cast: bool = True) -> str:
        """The graph in MXNet's symbol format.

        Args:
            remove_amp_cast: leave out the casts that mixed precision put in.
        """
        return to_json(without_amp_cast(self.entries) if remove_amp_cast else self.entries)

    def save(self, fname: str, remove_amp_cast: bool = True) -> None:
        """Write the graph to a file that ``sym.load`` (here or in MXNet) reads."""
        text = self.tojson(remove_amp_cast)
        with replacing(fname, "symbol") as file:
            file.write(text.encode())

    def debug_str(self) -> str:
        """The nodes in order, what they read, and their attributes."""
        return debug_text(self.entries)

    def optimize_for(self, backend: str, args: Any = None, aux: Any = None, ctx: Any = None,
                     **kwargs: Any) -> Symbol:
        """Partition the graph for a backend; none is built."""
        raise NotForThisError(f"optimize_for: backend '{backend}' is not built: minigluon has no "
                              "graph partitioners; executors and hybridize() fuse by themselves")

    def get_backend_symbol(self, backend: str) -> Symbol:
        """Partition the graph for a backend; none is built."""
        return self.optimize_for(backend)

    # -- running -------------------------------------------------------------------------------

    def bind(self, ctx: Any, args: Any, args_grad: Any = None, grad_req: Any = "write",
             aux_states: Any = None, group2ctx: Any = None, shared_exec: Any = None) -> Executor:
        """An Executor over given arrays.

        Args:
            ctx: where it runs.
            args: arrays of the arguments, a list in order or a dict by name.
            args_grad: arrays that receive gradients, likewise; a missing one is not computed.
            grad_req: 'write', 'add' or 'null'; for all, or a list or dict.
            aux_states: arrays of the auxiliary states, a list or a dict.
        """
        return Executor.bind(self.entries, ctx, args, args_grad, grad_req, aux_states, group2ctx)

    def simple_bind(self, ctx: Any, grad_req: Any = "write", type_dict: Any = None,
                    stype_dict: Any = None, group2ctx: Any = None, shared_arg_names: Any = None,
                    shared_exec: Any = None, shared_buffer: Any = None, **kwargs: Any) -> Executor:
        """An Executor over new arrays of zeros, with shapes inferred from those in `kwargs`.

        Args:
            ctx: where. grad_req: 'write', 'add', 'null', for all or by name.
            type_dict: element types by argument. stype_dict: storage types by argument.
            group2ctx: where the groups of the symbol lie.
            shared_arg_names, shared_exec, shared_buffer: accepted and ignored.
        """
        return Executor.simple_bind(self.entries, ctx, grad_req, type_dict, group2ctx, kwargs,
                                    stype_dict)

    def as_nd_ndarray(self) -> Symbol:
        """This symbol, which is no symbol of NumPy's interface."""
        return self

    def gradient(self, wrt: Sequence[str]) -> NoReturn:
        """The graph of a gradient, which MXNet does not give either."""
        raise NotForThisError(f"gradient: not built for Symbols (wrt {wrt}); bind it and call "
                              "backward, or use autograd.grad on arrays")

    def eval(self, ctx: Any = None, **kwargs: Any) -> list[Any]:
        """The outputs for the given arrays, as a list.

        >>> import minigluon as mx
        >>> (mx.sym.var("x") + 1).eval(x=mx.nd.array([2.0]))[0].asnumpy().tolist()
        [3.0]
        """
        return self.bind(ctx, kwargs, grad_req="null").forward()


def _refused(name: str) -> Any:
    def method(self: Symbol, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedForSymbol(f"Function {name} is not implemented for Symbol and only "
                                      "available in NDArray: a Symbol has no values before it "
                                      "runs")

    method.__name__ = name
    method.__qualname__ = f"Symbol.{name}"
    method.__doc__ = "Only arrays can: a Symbol has no values."
    return method


for _name in ("as_in_context", "asnumpy", "asscalar", "backward", "copy", "detach",
              "wait_to_read"):
    setattr(Symbol, _name, _refused(_name))


def Group(symbols: Sequence[Symbol], create_fn: Any = None) -> Symbol:
    """One symbol with the outputs of several; `create_fn` is accepted and ignored.

    >>> import minigluon as mx
    >>> mx.sym.Group([mx.sym.var("a"), mx.sym.var("b")]).list_outputs()
    ['a', 'b']
    """
    if not symbols or any(not isinstance(each, Symbol) for each in symbols):
        raise ArgumentError(f"Group: expected a non-empty list of Symbols, got {symbols!r}")
    return Symbol([entry for each in symbols for entry in each.entries])


def load_json(json_str: str) -> Symbol:
    """The symbol that ``tojson`` (here or in MXNet) wrote."""
    if not isinstance(json_str, str):
        raise ArgumentError(f"load_json: expected a string, got {type(json_str).__name__}")
    return Symbol(from_json(json_str))


def load(fname: str) -> Symbol:
    """The symbol in a file that ``save`` (here or in MXNet) wrote."""
    return load_json(read_file(fname, "symbol").decode())


# -- shared with the functions that make symbols ------------------------------------------------


def one_entry(value: Any, what: str, key: str) -> Entry:
    """The single entry of a symbol that is used as an input."""
    if not isinstance(value, Symbol):
        raise ArgumentError(
            f"{what}: input '{key}': expected a Symbol, got {type(value).__name__}")
    if len(value.entries) != 1:
        raise ArgumentError(
            f"{what}: input '{key}': expected a Symbol with one output, got {len(value.entries)}; "
            "pick one, e.g. x[0]")
    return value.entries[0]
