"""Block: what every layer and network is. Names, children, parameters, hooks, files."""
from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .. import ndarray as nd
from ..base import ArgumentError, NotForThisError, ParameterMismatch
from ..context import Context
from ..name import NameManager, Prefix
from .hooks import HookHandle, hooked
from .parameter import UNIFORM, Parameter
from .parameterdict import ParameterDict, brief, named_arrays, report
from .structure import read_structure, write_structure
from .summary import print_summary

__all__ = ["Block", "tracing"]


class _Tracing(threading.local):
    active = False


tracing = _Tracing()
"""``tracing.active``: this thread runs blocks on symbols to learn a graph; hooks stay silent."""


class _Scopes(threading.local):
    def __init__(self) -> None:
        self.stack: list[tuple[_BlockScope, Prefix]] = []


_scopes = _Scopes()


class _BlockScope:
    """What ``with block.name_scope():`` opens: names of children and nodes made inside."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._counter: dict[str, int] = {}

    @staticmethod
    def create(prefix: str | None, params: ParameterDict | None, hint: str
               ) -> tuple[str, ParameterDict]:
        """The full prefix and the parameter dict of a block made now.

        Args:
            prefix: the block's own prefix; when None made from `hint` and a counter.
            params: a dict whose parameters are to be shared.
            hint: the kind of block, e.g. 'dense'.
        """
        if not _scopes.stack:
            full = NameManager.current.get(None, hint) + "_" if prefix is None else prefix
            own = ParameterDict(full) if params is None else ParameterDict(params.prefix, params)
            return full, own
        scope = _scopes.stack[-1][0]
        if prefix is None:
            count = scope._counter.get(hint, 0)
            scope._counter[hint] = count + 1
            prefix = f"{hint}{count}_"
        parent = scope._block
        if params is None:
            own = ParameterDict(parent.params.prefix + prefix, parent.params._shared)
        else:
            own = ParameterDict(params.prefix, params)
        return parent.prefix + prefix, own

    def __enter__(self) -> _BlockScope:
        if not self._block._empty_prefix:
            names = Prefix(self._block.prefix)
            _scopes.stack.append((self, names))
            names.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if not self._block._empty_prefix:
            _scopes.stack.pop()[1].__exit__(*error)


class Block:
    """A layer or a network: it has parameters and children, and computes in ``forward``.

    Args:
        prefix: put before the names of its parameters; made from the class name when None.
        params: a ParameterDict to share parameters with.

    >>> import minigluon as mx
    >>> class Net(mx.gluon.Block):
    ...     def __init__(self, **kwargs):
    ...         super().__init__(**kwargs)
    ...         with self.name_scope():
    ...             self.hidden = mx.gluon.nn.Dense(4, in_units=2, activation="relu")
    ...             self.out = mx.gluon.nn.Dense(3, in_units=4)
    ...     def forward(self, x):
    ...         return self.out(self.hidden(x))
    >>> net = Net(prefix="net_")
    >>> net.initialize()
    >>> net(mx.nd.ones((5, 2))).shape, list(net.collect_params(".*bias"))
    ((5, 3), ['net_dense0_bias', 'net_dense1_bias'])
    """

    _in_summary = True

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        self._empty_prefix = prefix == ""
        self._prefix, self._params = _BlockScope.create(prefix, params, self._alias())
        self._name = self._prefix.removesuffix("_")
        self._scope = _BlockScope(self)
        self._children: dict[str, Block] = {}
        self._reg_params: dict[str, Parameter] = {}
        self._forward_hooks: dict[int, Callable[..., Any]] = {}
        self._forward_pre_hooks: dict[int, Callable[..., Any]] = {}

    def __repr__(self) -> str:
        lines = [f"  ({name}): {indented(repr(value))}"
                 for name, value in self.__dict__.items() if isinstance(value, Block)]
        return "{}(\n{}\n)".format(type(self).__name__, "\n".join(lines))

    def __setattr__(self, name: str, value: Any) -> None:
        held = self.__dict__.get(name)
        if isinstance(held, (Parameter, Block)) and not isinstance(value, type(held)):
            raise TypeError(f"Changing attribute type for {name} from {type(held)} to "
                            f"{type(value)} is not allowed.")
        if isinstance(value, Block):
            self.register_child(value, name)
        elif isinstance(value, Parameter):
            if self._reg_params.get(name, value) is not value:
                raise ParameterMismatch(
                    f"Overriding Parameter attribute {name} is not allowed. If you want to share "
                    "parameters between blocks, please set 'params' at Block construction instead.")
            self._reg_params[name] = value
        super().__setattr__(name, value)

    def _alias(self) -> str:
        """The word that default prefixes of this class are made of."""
        return type(self).__name__.lower()

    # -- names, children, parameters ------------------------------------------------------------

    @property
    def prefix(self) -> str:
        """What the names of its parameters begin with."""
        return self._prefix

    @property
    def name(self) -> str:
        """The prefix without its last underscore."""
        return self._name

    @property
    def params(self) -> ParameterDict:
        """Its own parameters, without those of its children."""
        return self._params

    def name_scope(self) -> _BlockScope:
        """``with self.name_scope():`` blocks made inside get this block's prefix before theirs."""
        return self._scope

    def register_child(self, block: Block, name: str | None = None) -> None:
        """Make `block` a child; assigning it to an attribute does the same."""
        if not isinstance(block, Block):
            raise ArgumentError(f"{type(self).__name__}: expected a Block as its child, got "
                                f"{block!r}; nn.Lambda and nn.HybridLambda make one of a function")
        self._children[str(len(self._children)) if name is None else name] = block

    def collect_params(self, select: str | None = None) -> ParameterDict:
        """Its parameters and those of all its descendants.

        Args:
            select: regular expression that full names must match from their start.
        """
        self._check_container_with_block()
        found = ParameterDict(self._params.prefix)
        own: Mapping[str, Parameter] = self._params._params
        if select:
            own = {name: p for name, p in own.items() if re.match(select, name)}
        found.update(own)
        for child in self._children.values():
            found.update(child.collect_params(select))
        return found

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, Parameter]:
        """Parameters by their place in the structure: '0.weight', 'features.1.bias'."""
        dot = prefix + "." if prefix else ""
        found = {dot + name: parameter for name, parameter in self._reg_params.items()}
        for name, child in self._children.items():
            found.update(child._collect_params_with_prefix(dot + name))
        return found

    def _check_container_with_block(self) -> None:
        """Warn of blocks in plain lists and dicts, where nobody finds their parameters."""
        registered = set(map(id, self._children.values()))
        for name, value in self.__dict__.items():
            if name != "_children" and isinstance(value, (list, tuple, dict)):
                if any(id(block) not in registered for block in _blocks_in(value)):
                    warnings.warn(
                        f'"{type(self).__name__}.{name}" is an unregistered container with Blocks. '
                        "Note that Blocks inside the list, tuple or dict will not be registered "
                        "automatically. Make sure to register them using register_child() or "
                        "switching to nn.Sequential/nn.HybridSequential instead. ", stacklevel=3)

    def apply(self, fn: Callable[[Block], Any]) -> Block:
        """Call ``fn(block)`` for every descendant, children first, and for itself; returns itself.

        >>> import minigluon as mx
        >>> _ = mx.gluon.nn.Flatten().apply(lambda block: print(block))
        Flatten
        """
        for child in self._children.values():
            child.apply(fn)
        fn(self)
        return self

    def initialize(self, init: Any = UNIFORM,
                   ctx: Context | Sequence[Context] | None = None, verbose: bool = False,
                   force_reinit: bool = False) -> None:
        """Initialize all parameters (see ``ParameterDict.initialize``)."""
        self.collect_params().initialize(init, ctx, verbose, force_reinit)

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Make the hybrid blocks among its descendants run as graphs (or not)."""
        for child in self._children.values():
            child.hybridize(active, **kwargs)

    def cast(self, dtype: Any) -> None:
        """Change the element type of all parameters."""
        for child in self._children.values():
            child.cast(dtype)
        for parameter in self.params.values():
            parameter.cast(dtype)

    # -- computing ------------------------------------------------------------------------------

    def __call__(self, *args: Any) -> Any:
        """Compute; runs the hooks before and after."""
        if (self._forward_pre_hooks or self._forward_hooks) and not tracing.active:
            return self._call_with_hooks(args)
        return self.forward(*args)

    def _call_with_hooks(self, args: tuple[Any, ...]) -> Any:
        for hook in tuple(self._forward_pre_hooks.values()):
            hook(self, args)
        out = self.forward(*args)
        for hook in tuple(self._forward_hooks.values()):
            hook(self, args, out)
        return out

    def forward(self, *args: Any) -> Any:
        """What the block computes; a class of yours overrides it."""
        raise NotForThisError(f"{type(self).__name__} must override forward(self, ...)")

    def register_forward_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call ``hook(block, inputs, outputs)`` after each forward."""
        return hooked(self._forward_hooks, hook)

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call ``hook(block, inputs)`` before each forward."""
        return hooked(self._forward_pre_hooks, hook)

    def register_op_hook(self, callback: Callable[..., Any], monitor_all: bool = False) -> None:
        """Call ``callback(name, operator, array)`` for the operators of hybridized children."""
        for child in self._children.values():
            child.register_op_hook(callback, monitor_all)

    def summary(self, *inputs: Any) -> None:
        """Print a table of the layers that a forward of `inputs` runs through."""
        print_summary(self, inputs)

    # -- files ----------------------------------------------------------------------------------

    def save_parameters(self, filename: str, deduplicate: bool = False) -> None:
        """Write all parameters under their places in the structure ('0.weight').

        Args:
            filename: where to. deduplicate: write a shared parameter once only.
        """
        params = self._collect_params_with_prefix()
        if deduplicate:
            last = {parameter: name for name, parameter in params.items()}
            params = {name: parameter for parameter, name in last.items()}
        nd.save(filename, {name: parameter._reduce() for name, parameter in params.items()})

    def load_parameters(self, filename: str, ctx: Context | Sequence[Context] | None = None,
                        allow_missing: bool = False, ignore_extra: bool = False,
                        cast_dtype: bool = False, dtype_source: str = "current") -> None:
        """Read what save_parameters wrote; initializes parameters that are not yet.

        Args:
            filename: the file. ctx: contexts of parameters without values so far.
            allow_missing: parameters that the file lacks are left alone.
            ignore_extra: what only the file has is skipped.
            cast_dtype: convert where types differ, to the one of `dtype_source`:
                'current' (the parameter's) or 'saved' (the file's).

        Raises:
            ParameterMismatch: names or shapes that do not fit.
        """
        params = self._collect_params_with_prefix()
        values = named_arrays(filename)
        if not any("." in name or name in params for name in values):
            # names with prefixes, as ParameterDict.save and save_params write them
            self.collect_params().load_dict(values, ctx, allow_missing, ignore_extra, self.prefix,
                                            filename, cast_dtype, dtype_source)
            return
        stored = {parameter for name, parameter in params.items() if name in values}
        missing = [name for name, parameter in params.items() if parameter not in stored]
        extra = [name for name in values if name not in params]
        if missing and not allow_missing:
            raise ParameterMismatch(
                f"Parameter '{missing[0]}' is missing in file '{filename}', which contains "
                f"parameters: {brief(values)}. Set allow_missing=True to ignore missing "
                f"parameters ({len(missing)} of {len(params)} are missing"
                f"{_part_of(missing[0], values)}).")
        if extra and not ignore_extra:
            raise ParameterMismatch(
                f"Parameter '{extra[0]}' loaded from file '{filename}' is not present in this "
                f"block, which contains parameters {brief(params)}. Set ignore_extra=True to "
                f"ignore ({len(extra)} of {len(values)} in the file are extra).")
        for name, parameter in params.items():
            if name in values:
                parameter._load_init(values[name], ctx, cast_dtype, dtype_source)
        report(filename, len(values) - len(extra), extra, missing)

    def save_params(self, filename: str) -> None:
        """Deprecated: write parameters under their names less the block's prefix."""
        warnings.warn("save_params is deprecated. Please use save_parameters. Note that if you "
                      "want to load from SymbolBlock later, please use export instead.",
                      stacklevel=2)
        self.collect_params().save(filename, strip_prefix=self.prefix)

    def load_params(self, filename: str, ctx: Context | Sequence[Context] | None = None,
                    allow_missing: bool = False, ignore_extra: bool = False) -> None:
        """Deprecated: load_parameters."""
        warnings.warn("load_params is deprecated. Please use load_parameters.", stacklevel=2)
        self.load_parameters(filename, ctx, allow_missing, ignore_extra)

    def save(self, prefix: str) -> None:
        """Write ``PREFIX-model.json`` (structure and graphs) and ``PREFIX-model.params``."""
        write_structure(self, f"{prefix}-model.json")
        self.save_parameters(f"{prefix}-model.params")

    def load(self, prefix: str) -> None:
        """Read what ``save`` wrote, here or in MXNet, into a network of the same structure.

        Blocks that ran as graphs run them again, without being traced; parameters need not be
        initialized.
        """
        read_structure(self, f"{prefix}-model.json")
        self.load_parameters(f"{prefix}-model.params")

    def _describe_graph(self) -> dict[str, Any]:
        """What a structure file says of its graph: it has none."""
        return {}

    def _restore_graph(self, found: Mapping[str, Any], names: Mapping[str, Parameter]) -> None:
        """Take the graph from a structure file; only hybrid blocks have one."""
        raise ParameterMismatch(f"the file has a graph for {self.name}, which is no HybridBlock")


def indented(text: str) -> str:
    """`text` with every line but the first moved two columns right."""
    return text.replace("\n", "\n  ")


def _blocks_in(value: Any) -> Iterator[Block]:
    """The blocks in nested lists, tuples and dicts."""
    if isinstance(value, Block):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _blocks_in(item)


def _part_of(name: str, values: Mapping[str, Any]) -> str:
    """A hint for a file that holds a larger network of which the block is a part."""
    for stored in values:
        if stored.endswith("." + name):
            whole = stored[:-len(name) - 1]
            return (f"; the file has '{stored}', so it may belong to a network that holds this "
                    f"block as '{whole}': load it there")
    return ""
