"""Several element-wise calls as one operator, and the little language that says which.

A program is text: ``"mul a0 a1; add t0 a2; relu t1 -> t2"``. ``aN`` is input N, ``tN`` the result
of instruction N, ``#x`` a number; behind the arrow stand the values that are returned. The native
core (``src/kernels/elementwise``) runs it tile by tile; the body here, which says what it means,
runs it instruction by instruction. ``graph/fuse.py`` writes programs, from `TEMPLATES`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from .attrs import Shape
from .operator import Attrs, find_operator, operator
from .rules import Shapes, broadcast_two, known

__all__ = ["TEMPLATES", "Instruction", "Program", "fused", "program_text", "read_program",
           "views_text"]

Array = Any

# The words of the language: the operators whose bodies they are.
_WORDS = {
    "copy": "_copy", "neg": "negative", "abs": "abs", "sign": "sign", "sqrt": "sqrt",
    "rsqrt": "rsqrt", "square": "square", "reciprocal": "reciprocal", "exp": "exp",
    "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10", "log1p": "log1p",
    "tanh": "tanh", "sigmoid": "sigmoid", "relu": "relu", "softsign": "softsign", "erf": "erf",
    "floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "round", "rint": "rint",
    "not": "logical_not", "isnan": "_contrib_isnan", "isinf": "_contrib_isinf",
    "isfinite": "_contrib_isfinite", "log_or_zero": "_log_or_zero",
    "reciprocal_or_zero": "_reciprocal_or_zero",
    "add": "broadcast_add", "sub": "broadcast_sub", "mul": "broadcast_mul",
    "div": "broadcast_div", "max": "broadcast_maximum", "min": "broadcast_minimum",
    "pow": "broadcast_power", "eq": "broadcast_equal", "ne": "broadcast_not_equal",
    "gt": "broadcast_greater", "ge": "broadcast_greater_equal", "lt": "broadcast_lesser",
    "le": "broadcast_lesser_equal", "and": "broadcast_logical_and",
    "or": "broadcast_logical_or", "xor": "broadcast_logical_xor", "relu_grad": "_relu_grad",
}


TEMPLATES: dict[str, str] = {
    **{name: f"{word} a0 -> t0" for word, name in _WORDS.items()},
    **{name: f"{word} a0 a1 -> t0" for word, name in _WORDS.items() if "broadcast_" in name},
    "_relu_grad": "relu_grad a0 a1 -> t0",
    **{f"elemwise_{word}": f"{word} a0 a1 -> t0" for word in ("add", "sub", "mul", "div")},
    **{f"_{name}_scalar": f"{word} a0 #scalar -> t0" for name, word in {
        "plus": "add", "minus": "sub", "mul": "mul", "div": "div", "power": "pow",
        "maximum": "max", "minimum": "min", "equal": "eq", "not_equal": "ne", "greater": "gt",
        "greater_equal": "ge", "lesser": "lt", "lesser_equal": "le", "logical_and": "and",
        "logical_or": "or", "logical_xor": "xor"}.items()},
    "_rminus_scalar": "sub #scalar a0 -> t0",
    "_rdiv_scalar": "div #scalar a0 -> t0",
    "_rpower_scalar": "pow #scalar a0 -> t0",
    "fix": "trunc a0 -> t0",
    "BlockGrad": "copy a0 -> t0",
    "make_loss": "copy a0 -> t0", "MakeLoss": "copy a0 -> t0",
    "degrees": f"mul a0 #{180 / math.pi!r} -> t0",
    "radians": f"mul a0 #{math.pi / 180!r} -> t0",
    "clip": "max a0 #a_min; min t0 #a_max -> t1",
    "_clip_grad": "ge a1 #a_min; le a1 #a_max; and t0 t1; where t2 a0 #0 -> t3",
    "hard_sigmoid": "mul a0 #alpha; add t0 #beta; max t1 #0; min t2 #1 -> t3",
    "where": "where a0 a1 a2 -> t0",
    "Activation:relu": "relu a0 -> t0",
    "Activation:sigmoid": "sigmoid a0 -> t0",
    "Activation:tanh": "tanh a0 -> t0",
    "Activation:softrelu": "softrelu a0 -> t0",
    "Activation:softsign": "softsign a0 -> t0",
    "LeakyReLU:leaky": "gt a0 #0; mul a0 #slope; where t0 a0 t1 -> t2",
    "LeakyReLU:elu": "min a0 #0; expm1 t0; mul t1 #slope; gt a0 #0; where t3 a0 t2 -> t4",
    "LeakyReLU:gelu": "mul a0 #0.7071067811865476; erf t0; add t1 #1; mul a0 t2; mul t3 #0.5 "
                      "-> t4",
}
"""For operators that fuse: the operator as a program. ``#name`` stands for an attribute."""


class Instruction(NamedTuple):
    """One word and its operands: ``a0``, ``t0``, ``#0.5``."""

    word: str
    operands: tuple[str, ...]


class Program(NamedTuple):
    """What a program's text says."""

    code: tuple[Instruction, ...]
    outputs: tuple[int, ...]


@cache
def read_program(text: str) -> Program:
    """The program a text spells.

    >>> read_program("mul a0 a1; relu t0 -> t1").outputs
    (1,)
    """
    body, _, results = text.partition("->")
    code = []
    for line in body.split(";"):
        word, *operands = line.split()
        code.append(Instruction(word, tuple(operands)))
    return Program(tuple(code), tuple(int(result[1:]) for result in results.split()))


def program_text(code: Sequence[Instruction], outputs: Sequence[int]) -> str:
    """The text of a program.

    >>> program_text([Instruction("mul", ("a0", "a1")), Instruction("relu", ("t0",))], [1])
    'mul a0 a1; relu t0 -> t1'
    """
    lines = "; ".join(" ".join((one.word, *one.operands)) for one in code)
    return f"{lines} -> {' '.join(f't{place}' for place in outputs)}"


def views_text(views: dict[int, tuple[int, ...]]) -> str:
    """Under which shapes some inputs broadcast: ``{1: (64, 1)}`` is ``'1:64,1'``."""
    return " ".join(f"{place}:{','.join(map(str, shape))}" for place, shape in views.items())


@cache
def _read_views(text: str) -> dict[int, tuple[int, ...]]:
    views = {}
    for item in text.split():
        place, _, shape = item.partition(":")
        views[int(place)] = tuple(int(dim) for dim in shape.split(",") if dim)
    return views


def _fused_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    if attrs["shape"]:
        return shapes, [attrs["shape"]] * _count(attrs)
    views = _read_views(attrs["views"])
    result: tuple[int, ...] = ()
    for place, shape in enumerate(shapes):
        seen = views.get(place, shape)
        if seen is None or not known(seen):
            return shapes, [None] * _count(attrs)
        result = broadcast_two(result, seen)
    return shapes, [result] * _count(attrs)


def _count(attrs: Attrs) -> int:
    return len(read_program(attrs["program"]).outputs)


def _where(xp: Any, condition: Array, x: Array, y: Array) -> Array:
    return xp.where(condition != 0, x, y)


def _softrelu(xp: Any, x: Array) -> Array:
    return xp.logaddexp(x, x.dtype.type(0))


@cache
def _body_of(word: str) -> Any:
    if word == "where":
        return _where
    return _softrelu if word == "softrelu" else find_operator(_WORDS[word]).body


@operator("_fused", infer=_fused_shape, num_outputs=_count,
          infer_dtype=lambda dtypes, attrs: (dtypes, [dtypes[0]] * _count(attrs)))
def fused(xp: Any, *args: Array, program: str, views: str = "", shape: Shape = ()
          ) -> tuple[Array, ...]:
    """The values that `program` makes of `args`, which broadcast to one shape.

    Args:
        args: arrays of one float type. program: see above.
        views: shapes under which some of them broadcast, as ``"1:64,1 3:1,20"``.
        shape: of the results, where they are larger than what the inputs broadcast to.

    Shapes: any that broadcast together to (*S) -> (*S) for each result.

    >>> import numpy as np
    >>> x, y = np.array([1.0, -2.0]), np.array([3.0])
    >>> fused.body(np, x, y, program="mul a0 a1; relu t0 -> t1")[0].tolist()
    [3.0, 0.0]
    """
    seen = _read_views(views)
    inputs = [array.reshape(seen[place]) if place in seen else array
              for place, array in enumerate(args)]
    whole = shape
    for array in inputs:
        whole = broadcast_two(whole, array.shape)
    kind = args[0].dtype.type
    results: list[Array] = []

    def value(operand: str) -> Array:
        if operand[0] == "#":
            return kind(float(operand[1:]))
        return (inputs if operand[0] == "a" else results)[int(operand[1:])]

    code, outputs = read_program(program)
    for word, operands in code:
        results.append(_body_of(word)(xp, *[value(operand) for operand in operands]))
    return tuple(_full(xp, results[place], whole) for place in outputs)


def _full(xp: Any, array: Array, shape: tuple[int, ...]) -> Array:
    return array if array.shape == shape else xp.broadcast_to(array, shape).copy()
