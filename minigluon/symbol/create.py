"""How symbols are made: variables, operator calls, Python operators, arrays of constants."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..attribute import AttrScope
from ..base import ArgumentError, ArgumentValueError, DTypeError, NotForThisError, dtype_name
from ..graph import Entry, Node
from ..graph.infer import DTYPE_CODES
from ..graph.serial import HIDDEN_KEYS
from ..name import NameManager
from ..npmode import is_np_array, load_room
from ..ops import (
    BINARY,
    Operator,
    drawing_functions,
    find_operator,
    registry,
    split_v2_settings,
    subspaces,
    zipfian_function,
)
from ..ops.face import function, methods
from .nodes import attr_text, checked_attrs
from .symbol import Symbol, one_entry

__all__ = ["BINARY_FUNCTIONS", "Variable", "arange", "binary", "enter_numpy_class", "eye", "full",
           "histogram", "hypot", "make_functions", "make_spaces", "ones", "pow", "shown",
           "split_v2", "var", "zeros"]

_NUMBERS = (int, float, np.generic)
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


_numpy_class: Any = None


def enter_numpy_class(cls: Any) -> None:
    """Make the class known whose Symbols follow NumPy; what is computed of them is of it, too."""
    global _numpy_class
    _numpy_class = cls


def shown(x: Any) -> Any:
    """`x`; a Symbol in the class that blocks compute with now (``npx.set_np``), nested, too."""
    if type(x) in (list, tuple):
        return type(x)([shown(each) for each in x])
    if type(x) is not Symbol or not is_np_array():
        return x
    if _numpy_class is None:
        load_room()
    return _numpy_class(x.entries)


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
    given, parsed = op.bind(args, kwargs)
    if training is not None:
        parsed = {**parsed, "training": bool(training)}
    node = Node(op, NameManager.current.get(name, hint), (), parsed, checked_attrs(attrs))
    node.inputs = _inputs(op, node, given)
    if _numpy_class is not None and any([type(x) is _numpy_class for x in given]):
        return _numpy_class(node.outputs())  # type: ignore[no-any-return]
    return Symbol(node.outputs())


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
    return {name: function(op, partial(create, name.lower()), name, ("name", "attr"))
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
    return create("sample_multinomial", find_operator("_sample_multinomial"), (data,),
                  {"shape": shape, "get_prob": get_prob, "dtype": dtype, **kwargs})


_multinomial.__name__ = _multinomial.__qualname__ = "multinomial"


# -- Python operators -----------------------------------------------------------------------------

# word -> the operator for two symbols, which must have equal shapes (MXNet: ``_plus0`` and so on)
_SAME_SHAPE = {"add": "elemwise_add", "subtract": "elemwise_sub", "multiply": "elemwise_mul",
               "divide": "elemwise_div", "modulo": "_mod", "power": "_power",
               "maximum": "_maximum", "minimum": "_minimum", "equal": "_equal",
               "not_equal": "_not_equal", "greater": "_greater",
               "greater_equal": "_greater_equal", "lesser": "_lesser",
               "lesser_equal": "_lesser_equal", "logical_and": "_logical_and",
               "logical_or": "_logical_or", "logical_xor": "_logical_xor"}
_HINTS = {"add": "_plus", "subtract": "_minus", "multiply": "_mul", "divide": "_div"}


def binary(word: str, lhs: Any, rhs: Any, name: str | None = None) -> Any:
    """``lhs word rhs`` for symbols and numbers in any mix (numbers only: plain Python)."""
    both, right_scalar, left_scalar = BINARY[word]
    hint = _HINTS.get(word, _SAME_SHAPE[word])
    settings = {} if name is None else {"name": name}
    if isinstance(lhs, Symbol) and isinstance(rhs, Symbol):
        op = find_operator(_SAME_SHAPE[word] if _SAME_SHAPE[word] in registry else both)
        return create(hint, op, (lhs, rhs), settings)
    if isinstance(lhs, Symbol) and isinstance(rhs, _NUMBERS):
        return _with_scalar(right_scalar, lhs, rhs, settings)
    if isinstance(rhs, Symbol) and isinstance(lhs, _NUMBERS):
        return _with_scalar(left_scalar, rhs, lhs, settings)
    if isinstance(lhs, _NUMBERS) and isinstance(rhs, _NUMBERS):
        return _PLAIN[word](lhs, rhs)
    raise DTypeError(f"{word}: expected Symbols or numbers, got {type(lhs).__name__} and "
                     f"{type(rhs).__name__}")


def _with_scalar(name: str, data: Symbol, scalar: Any, settings: dict[str, Any]) -> Symbol:
    hint = name.removesuffix("_scalar") + "scalar"
    return create(hint, find_operator(name), (data,), {**settings, "scalar": scalar})


_PLAIN: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b, "modulo": lambda a, b: a % b, "power": lambda a, b: a**b,
    "maximum": max, "minimum": min,
    "equal": lambda a, b: float(a == b), "not_equal": lambda a, b: float(a != b),
    "greater": lambda a, b: float(a > b), "greater_equal": lambda a, b: float(a >= b),
    "lesser": lambda a, b: float(a < b), "lesser_equal": lambda a, b: float(a <= b),
    "logical_and": lambda a, b: float(bool(a) and bool(b)),
    "logical_or": lambda a, b: float(bool(a) or bool(b)),
    "logical_xor": lambda a, b: float(bool(a) != bool(b)),
}


# What MXNet calls the two arguments where it does not say lhs and rhs.
_SIDES = {"power": ("base", "exp"), "maximum": ("left", "right"), "minimum": ("left", "right")}


def _binary_function(word: str) -> Callable[..., Any]:
    first, second = _SIDES.get(word, ("lhs", "rhs"))

    def call(*args: Any, name: str | None = None, **sides: Any) -> Any:
        given = dict(zip((first, second), args, strict=False))
        given.update(sides)
        if len(args) > 2 or set(given) != {first, second}:
            raise ArgumentError(f"{word}: expected {first} and {second}, got {len(args)} "
                                f"arguments{''.join(f' and {side}=' for side in sides)}")
        return binary(word, given[first], given[second], name)

    call.__name__ = call.__qualname__ = word
    call.__doc__ = f"{word} of two symbols of equal shape, or of a symbol and a number."
    return call


BINARY_FUNCTIONS = {word: _binary_function(word) for word in BINARY}
pow = BINARY_FUNCTIONS["power"]


def _attach_operators() -> None:
    """Python's operators and the operators' methods, on Symbol."""
    def forward(word: str, unlike: bool | None = None) -> Callable[[Symbol, Any], Any]:
        def method(self: Symbol, other: Any) -> Any:
            if isinstance(other, (Symbol, *_NUMBERS)):
                return binary(word, self, other)
            # `x == None` is asked by code that tests for missing inputs
            return unlike if unlike is not None and other is None else NotImplemented

        return method

    def reflected(word: str) -> Callable[[Symbol, Any], Any]:
        def method(self: Symbol, other: Any) -> Any:
            return binary(word, other, self) if isinstance(other, _NUMBERS) else NotImplemented

        return method

    for name, word in {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide",
                       "mod": "modulo", "pow": "power"}.items():
        setattr(Symbol, f"__{name}__", forward(word))
        setattr(Symbol, f"__r{name}__", reflected(word))
    for name, word in {"gt": "greater", "ge": "greater_equal", "lt": "lesser",
                       "le": "lesser_equal"}.items():
        setattr(Symbol, f"__{name}__", forward(word))
    Symbol.__eq__ = forward("equal", False)  # type: ignore[method-assign, assignment]
    Symbol.__ne__ = forward("not_equal", True)  # type: ignore[method-assign, assignment]
    for name, function_ in {"__neg__": lambda self: binary("multiply", self, -1.0),
                            "__abs__": lambda self: _call("abs", self),
                            "reshape": _reshape, "split_v2": split_v2, "expand_dims": _expand_dims,
                            "flatten": _flatten, "squeeze": _squeeze, "astype": _astype}.items():
        setattr(Symbol, name, function_)
    for name, op in methods():
        if name not in Symbol.__dict__:
            setattr(Symbol, name, function(op, partial(create, name.lower()), name))


def _call(op_name: str, /, *args: Any, **kwargs: Any) -> Symbol:
    return create(op_name, find_operator(op_name), args, kwargs)


def _reshape(self: Symbol, *shape: Any, **kwargs: Any) -> Symbol:
    """The array with another shape: ``x.reshape((2, -1))``, ``x.reshape(2, -1)``, ``shape=``."""
    if shape:
        kwargs["shape"] = shape if isinstance(shape[0], int) else shape[0]
    return create("reshape", find_operator("Reshape"), (self,), kwargs)


def _expand_dims(self: Symbol, axis: int, inplace: bool = False, **kwargs: Any) -> Symbol:
    """The array with an axis of size 1 at `axis`; `inplace` means nothing to a Symbol."""
    return create("expand_dims", find_operator("expand_dims"), (self,), {"axis": axis, **kwargs})


def _flatten(self: Symbol, inplace: bool = False, **kwargs: Any) -> Symbol:
    """The array with two axes: the first, and all others as one."""
    return create("flatten", find_operator("Flatten"), (self,), kwargs)


def _squeeze(self: Symbol, axis: Any = None, inplace: bool = False, **kwargs: Any) -> Symbol:
    """The array without its axes of size 1, or without those of `axis`."""
    return create("squeeze", find_operator("squeeze"), (self,), {"axis": axis, **kwargs})


def _astype(self: Symbol, dtype: Any, **kwargs: Any) -> Symbol:
    """The array with another element type."""
    return create("cast", find_operator("Cast"), (self,), {"dtype": dtype, **kwargs})


# -- constants ------------------------------------------------------------------------------------


def zeros(shape: Any, dtype: Any = None, **kwargs: Any) -> Symbol:
    """An array of zeros. Args: shape, dtype (float32), name."""
    return _call("_zeros", shape=shape, dtype=dtype or "float32", **kwargs)


def ones(shape: Any, dtype: Any = None, **kwargs: Any) -> Symbol:
    """An array of ones. Args: shape, dtype (float32), name."""
    return _call("_ones", shape=shape, dtype=dtype or "float32", **kwargs)


def full(shape: Any, val: float, dtype: Any = None, **kwargs: Any) -> Symbol:
    """An array filled with `val`. Args: shape, val, dtype (float32), name."""
    return _call("_full", shape=shape, dtype=dtype or "float32", value=val, **kwargs)


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
    return _call("_arange", start=start, stop=stop, step=step, repeat=repeat,
                 dtype=dtype or "float32", name=name)


def split_v2(ary: Symbol, indices_or_sections: Any, axis: int = 0, squeeze_axis: bool = False,
             **kwargs: Any) -> Symbol:
    """Cut along an axis into equal sections, or at given indices: ``nd.split_v2`` of a symbol."""
    return _call("_split_v2", ary, **split_v2_settings(indices_or_sections, axis, squeeze_axis),
                 **kwargs)


def histogram(a: Symbol, bins: int | Symbol = 10, range: tuple[float, float] | None = None,
              **kwargs: Any) -> Symbol:
    """Counts of the elements in bins, and their edges; a number of bins needs their `range`."""
    if isinstance(bins, Symbol):
        return _call("_histogram", a, bins, **kwargs)
    if not isinstance(bins, int) or range is None:
        raise ArgumentValueError("histogram: expected a symbol of edges, or a number of bins and "
                                 f"their range, got bins={bins!r} and range={range!r}")
    return _call("_histogram", a, bin_cnt=bins, range=tuple(range), **kwargs)


def hypot(left: Any, right: Any) -> Any:
    """The root of the sum of two squares, for symbols and numbers in any mix."""
    if isinstance(left, Symbol) and isinstance(right, Symbol):
        return create("_hypot", find_operator("_hypot"), (left, right), {})
    if isinstance(left, _NUMBERS) and isinstance(right, _NUMBERS):
        return float(np.hypot(left, right))
    symbol, number = (left, right) if isinstance(left, Symbol) else (right, left)
    if not isinstance(symbol, Symbol) or not isinstance(number, _NUMBERS):
        raise DTypeError(f"hypot: expected Symbols or numbers, got {type(left).__name__} and "
                         f"{type(right).__name__}")
    return _with_scalar("_hypot_scalar", symbol, number, {})


def eye(N: int, M: int = 0, k: int = 0, dtype: Any = None, **kwargs: Any) -> Symbol:
    """Ones on diagonal number `k`, zeros elsewhere. Args: N rows, M columns (0: N), k, dtype."""
    return _call("_eye", N=N, M=M, k=k, dtype=dtype or "float32", **kwargs)


_attach_operators()
