"""How symbols are made: variables, operator calls, arrays of constants."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

from ..attribute import AttrScope
from ..base import ArgumentError, ArgumentValueError, NotForThisError, dtype_name
from ..graph import Entry, Node, Stated
from ..graph.infer import DTYPE_CODES
from ..graph.serial import HIDDEN_KEYS
from ..name import NameManager
from ..npmode import is_np_array, load_room
from ..ops import (
    Operator,
    drawing_functions,
    find_operator,
    registry,
    split_v2_settings,
    subspaces,
    zipfian_function,
)
from ..ops.face import function
from .nodes import attr_text, checked_attrs
from .symbol import Symbol, one_entry

__all__ = ["Variable", "arange", "call", "create", "enter_numpy_class", "eye", "full", "histogram",
           "make_functions", "make_spaces", "ones", "shown", "split_v2", "var", "zeros"]

# Variables that a symbol makes for an operator and that want other values than their name says.
_INITS = {
    ("LeakyReLU", "gamma"): '["Constant", {"value": 0.25}]',
    ("BatchNorm", "moving_mean"): '["zero", {}]',
    ("BatchNorm", "moving_var"): '["one", {}]',
    ("IdentityAttachKLSparseReg", "moving_avg"): '["zero", {}]',
}
_STORAGE_CODES = {"default": "0", "row_sparse": "1", "csr": "2"}


def var(name: str, attr: dict[str, str] | None = None, shape: Sequence[int] | None = None,
        lr_mult: float | None = None, wd_mult: float | None = None, dtype: Any = None,
        init: Any = None, stype: str | None = None, profiler_scope: str | None = None,
        **kwargs: str) -> Symbol:
    """A variable: an input of a graph, given as an array when it runs.

    Args:
        name: its name.
        attr: user attributes (strings), over those of the AttrScope.
        shape: a hint for infer_shape; 0 is an unknown dimension.
        lr_mult, wd_mult: multipliers for the optimizer.
        dtype: element type. init: an Initializer or its JSON text. stype: storage type.
        kwargs: further attributes, named ``__like_this__``.

    >>> import minigluon as mx
    >>> mx.sym.var("w", lr_mult=2).attr("lr_mult")
    '2'
    """
    if not isinstance(name, str):
        raise ArgumentError(f"var: expected a name, got {name!r}")
    attrs = checked_attrs(AttrScope.current.get(attr))
    for key, value in (("shape", shape), ("lr_mult", lr_mult), ("wd_mult", wd_mult),
                       ("profiler_scope", profiler_scope)):
        if value is not None:
            attrs[f"__{key}__"] = str(tuple(value) if isinstance(value, list) else value)
    if dtype is not None:
        text = dtype_name(dtype)
        attrs["__dtype__"] = str(DTYPE_CODES.get(text, text))
    if init is not None:
        attrs["__init__"] = attr_text(init)
    if stype is not None:
        attrs["__storage_type__"] = _STORAGE_CODES[stype]
    for key, text in kwargs.items():
        if not (key.startswith("__") and key.endswith("__")):
            raise ArgumentValueError(
                f"var: unknown argument '{key}'; further attributes start and end with double "
                f"underscores: __{key}__")
        attrs[key] = str(text)
    return Symbol([Entry(Node(None, name, extra_attrs=attrs), 0)])


Variable = var


# Functions whose nodes MXNet does not name after them.
_HINTS = {"linspace": "_linspace"}
_numpy_class: Any = None


def enter_numpy_class(cls: Any) -> None:
    """Make the class known whose Symbols follow NumPy; what is computed of them is of it, too."""
    global _numpy_class
    _numpy_class = cls


def shown(x: Any) -> Any:
    """`x`; a Symbol in the class that blocks compute with now (``npx.set_np``), nested, too."""
    if type(x) in (list, tuple):
        return type(x)([shown(each) for each in x])
    return as_numpy(x) if type(x) is Symbol and is_np_array() else x


def as_numpy(x: Symbol) -> Any:
    """The same computation as a Symbol that follows NumPy."""
    if _numpy_class is None:
        load_room()
    return _numpy_class(x.entries)


Symbol.as_np_ndarray = as_numpy  # type: ignore[attr-defined]


def create(hint: str, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Symbol:
    """What calling an operator means for symbols: a new node; missing inputs become variables."""
    name = kwargs.pop("name", None)
    attrs = AttrScope.current.get(kwargs.pop("attr", None))
    for key in HIDDEN_KEYS:
        if key in kwargs and key not in op.parsers:
            attrs[key] = str(kwargs.pop(key))
    for key in ("ctx", "out"):
        if key not in op.parsers:
            kwargs.pop(key, None)  # where a graph runs is decided when it is bound
    if op.variadic and "num_args" not in op.parsers:
        kwargs.pop("num_args", None)
    if op.variadic and len(args) == 1 and isinstance(args[0], Symbol):
        args = (list(args[0]),)  # all outputs of one symbol
    training = kwargs.pop("training", None) if op.needs_training else None
    said = {key: _text(value) for key, value in kwargs.items()
            if key in op.parsers and value is not None}
    if not op.variadic:
        said.update((name, _text(value)) for name, value in zip(
            op.attr_names, args[len(op.input_names):], strict=False))
    given, parsed = op.bind(args, kwargs)
    if said:
        parsed = Stated(parsed, said)
    if training is not None:
        parsed = Stated({**parsed, "training": bool(training)}, said)
    node = Node(op, NameManager.current.get(name, hint), (), parsed, checked_attrs(attrs))
    node.inputs = _inputs(op, node, given)
    if _numpy_class is not None and any([type(x) is _numpy_class for x in given]):
        return _numpy_class(node.outputs())  # type: ignore[no-any-return]
    return Symbol(node.outputs())


def _text(value: Any) -> str:
    """An attribute in the words in which it was given; '' where the parsed value says it better."""
    plain = all([type(each) is int for each in value]) if isinstance(value, (list, tuple)) else (
        type(value) in (bool, int, float, str))
    return str(value) if plain else ""


def _inputs(op: Operator, node: Node, given: Sequence[Any]) -> list[Entry]:
    if op.variadic:
        word = op.input_names[-1]
        entries = [one_entry(value, op.name, f"{word}[{i}]") for i, value in enumerate(given)]
        if op.names_inputs:  # a fixed list for these attributes: UpSampling's weight
            entries += [_missing(node, name) for name in op.list_inputs(node.attrs)[len(given):]]
        return entries
    wanted = op.list_inputs(node.attrs)
    op_inputs = []
    for place in range(max(len(wanted), len(given))):
        value = given[place] if place < len(given) else None
        name = (wanted if place < len(wanted) else op.input_names)[place]
        op_inputs.append(_missing(node, name) if value is None else one_entry(value, op.name, name))
    return op_inputs


def _missing(node: Node, name: str) -> Entry:
    """A variable ``NODE_weight`` for an input that was not given; it inherits ``__x__``."""
    inherited = {key: value for key, value in node.extra_attrs.items() if key.startswith("__")}
    assert node.op is not None
    init = _INITS.get((node.op.name, name))
    if init is not None:
        inherited.setdefault("__init__", init)
    return Entry(Node(None, f"{node.name}_{name}", extra_attrs=inherited), 0)


def make_functions() -> dict[str, Callable[..., Any]]:
    """``sym.X`` for every operator; the name that was called is the hint for the node's name."""
    return {name: function(op, partial(create, _HINTS.get(name, name.lower())), name,
                           ("name", "attr"))
            for name, op in registry.items()}


def make_spaces(functions: dict[str, Callable[..., Any]]) -> dict[str, SimpleNamespace]:
    """``sym.contrib``, ``sym.random`` and so on; there the short name is the hint."""
    spaces = subspaces(functions)
    for word, space in spaces.items():
        if word != "_internal":
            for short, entry in vars(space).items():
                setattr(space, short, function(entry.operator, partial(create, short.lower()),
                                               short, ("name", "attr")))
    vars(spaces["random"]).update(drawing_functions(_draw, Symbol))
    vars(spaces["random"])["multinomial"] = _multinomial
    for short, name in (("randint", "_random_randint"), ("shuffle", "_shuffle")):
        op = find_operator(name)  # MXNet's nodes have the operator's own name here
        vars(spaces["random"])[short] = function(op, partial(create, name), short,
                                                 ("name", "attr"))
    vars(spaces["contrib"])["rand_zipfian"] = zipfian_function(_draw)
    return spaces


def _draw(op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Symbol:
    return create(op.name.lower(), op, args, kwargs)


def _multinomial(data: Symbol, shape: Any = (), get_prob: bool = True, dtype: Any = "int32",
                 **kwargs: Any) -> Symbol:
    """Places drawn with the probabilities of the last axis, and the logarithms of these.

    Args:
        data: (*S, K) probabilities. shape: how many draws for each. get_prob: the logarithms, too;
            unlike ``nd.random.multinomial`` by default. dtype: of the places.
    """
    return create("_sample_multinomial", find_operator("_sample_multinomial"), (data,),
                  {"shape": shape, "get_prob": get_prob, "dtype": dtype, **kwargs})


_multinomial.__name__ = _multinomial.__qualname__ = "multinomial"


def call(op_name: str, /, *args: Any, **kwargs: Any) -> Symbol:
    """One call of an operator by its name, which the node is named after."""
    return create(op_name, find_operator(op_name), args, kwargs)


# -- constants ------------------------------------------------------------------------------------


def zeros(shape: Any, dtype: Any = None, **kwargs: Any) -> Symbol:
    """An array of zeros. Args: shape, dtype (float32), name."""
    return call("_zeros", shape=shape, dtype=dtype or "float32", **kwargs)


def ones(shape: Any, dtype: Any = None, **kwargs: Any) -> Symbol:
    """An array of ones. Args: shape, dtype (float32), name."""
    return call("_ones", shape=shape, dtype=dtype or "float32", **kwargs)


def full(shape: Any, val: float, dtype: Any = None, **kwargs: Any) -> Symbol:
    """An array filled with `val`. Args: shape, val, dtype (float32), name."""
    return call("_full", shape=shape, dtype=dtype or "float32", value=val, **kwargs)


def arange(start: float, stop: float | None = None, step: float = 1.0, repeat: int = 1,
           infer_range: bool = False, name: str | None = None, dtype: Any = None) -> Symbol:
    """Numbers from `start` up to before `stop`; with one number, from 0 up to it.

    `infer_range`, as many as the shape of the result asks for, is not built.
    """
    if infer_range:
        raise NotForThisError("arange: infer_range is not built; give stop, or use "
                              "contrib.arange_like")
    if stop is None:
        start, stop = 0, start
    return call("_arange", start=start, stop=stop, step=step, repeat=repeat,
                dtype=dtype or "float32", name=name)


def eye(N: int, M: int = 0, k: int = 0, dtype: Any = None, **kwargs: Any) -> Symbol:
    """Ones on diagonal number `k`, zeros elsewhere. Args: N rows, M columns (0: N), k, dtype."""
    return call("_eye", N=N, M=M, k=k, dtype=dtype or "float32", **kwargs)


# -- functions with arguments of their own ---------------------------------------------------------


def split_v2(ary: Symbol, indices_or_sections: Any, axis: int = 0, squeeze_axis: bool = False,
             **kwargs: Any) -> Symbol:
    """Cut along an axis into equal sections, or at given indices: ``nd.split_v2`` of a symbol."""
    return call("_split_v2", ary, **split_v2_settings(indices_or_sections, axis, squeeze_axis),
                **kwargs)


def histogram(a: Symbol, bins: int | Symbol = 10, range: tuple[float, float] | None = None,
              **kwargs: Any) -> Symbol:
    """Counts of the elements in bins, and their edges; a number of bins needs their `range`."""
    if isinstance(bins, Symbol):
        return call("_histogram", a, bins, **kwargs)
    if not isinstance(bins, int) or range is None:
        raise ArgumentValueError("histogram: expected a symbol of edges, or a number of bins and "
                                 f"their range, got bins={bins!r} and range={range!r}")
    return call("_histogram", a, bin_cnt=bins, range=tuple(range), **kwargs)
