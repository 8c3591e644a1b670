"""Shared rules of operators: shapes, element types, axes, and plain gradients.

A shape rule is ``rule(shapes, attrs, outs=None) -> (input shapes, output shapes)``; None is a shape
of unknown rank and 0 an unknown dimension. `outs`, where a rule names it, is what is already known
of the outputs: the rule may learn about its inputs from it. A ShapeError raised by a rule need not
name the operator; the record does that.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base import ArgumentValueError, DTypeError, ShapeError
from .operator import Attrs, MaybeShape

__all__ = [
    "attr_dtype",
    "axes_of",
    "axis_of",
    "broadcast_shape",
    "broadcast_two",
    "fixed_dtype",
    "follow_dtype",
    "known",
    "like_shape",
    "merge_shapes",
    "no_gradient",
    "no_inputs_shape",
    "reduce_shape",
    "reduced",
    "reshape_back",
    "same_dtype",
    "same_shape",
    "same_shapes_or_error",
    "size_of",
]

Shapes = list[MaybeShape]
ShapePair = tuple[Shapes, Shapes]
DTypes = list[Any]


# -- small words -----------------------------------------------------------------------------------

def known(shape: MaybeShape) -> bool:
    """Whether rank and every dimension are known.

    >>> known((2, 3)), known((2, 0)), known(None)
    (True, False, False)
    """
    return shape is not None and 0 not in shape


def size_of(shape: Sequence[int]) -> int:
    """The number of elements; 0 when a dimension is unknown."""
    size = 1
    for dim in shape:
        size *= dim
    return size


def merge_shapes(first: MaybeShape, second: MaybeShape, what: str = "shapes") -> MaybeShape:
    """What is known when both describe the same array.

    >>> merge_shapes((2, 0), (0, 3))
    (2, 3)
    """
    if first is None or second is None:
        return second if first is None else first
    if len(first) != len(second) or any(a and b and a != b
                                        for a, b in zip(first, second, strict=True)):
        raise ShapeError(f"expected equal {what}, got {first} and {second}")
    return tuple(a or b for a, b in zip(first, second, strict=True))


def axis_of(axis: int, ndim: int, what: str = "axis") -> int:
    """`axis` counted from the front, or an error that names the range.

    >>> axis_of(-1, 3)
    2
    """
    if not -ndim <= axis < ndim:
        raise ArgumentValueError(
            f"{what}: expected a number from {-ndim} to {ndim - 1} for {ndim} axes, got {axis}"
        )
    return axis % ndim


def axes_of(axis: int | Sequence[int] | None, ndim: int, exclude: bool = False) -> tuple[int, ...]:
    """The axes a reduction runs over, in order; None and () mean all of them.

    >>> axes_of(-1, 3), axes_of((0, 1), 3, exclude=True), axes_of(None, 2)
    ((2,), (2,), (0, 1))
    """
    if axis is None or axis == ():
        return tuple(range(ndim))
    listed = (axis,) if isinstance(axis, int) else tuple(axis)
    chosen = {axis_of(one, ndim) for one in listed}
    if len(chosen) != len(listed):
        raise ArgumentValueError(f"axis: expected different axes, got {axis}")
    return tuple(one for one in range(ndim) if (one in chosen) != exclude)


def reduced(shape: Sequence[int], axes: Sequence[int], keepdims: bool) -> tuple[int, ...]:
    """The shape after reducing `axes`; never (), as MXNet's scalars have shape (1,).

    >>> reduced((2, 3), (1,), False), reduced((2, 3), (0, 1), False), reduced((2, 3), (1,), True)
    ((2,), (1,), (2, 1))
    """
    if keepdims:
        return tuple(1 if place in axes else dim for place, dim in enumerate(shape))
    return tuple(dim for place, dim in enumerate(shape) if place not in axes) or (1,)


# -- shape rules -----------------------------------------------------------------------------------

def same_shape(shapes: Shapes, attrs: Attrs, outs: Shapes | None = None) -> ShapePair:
    """All inputs and the output have one shape, whichever of them is known.

    >>> same_shape([(2, 0), (0, 3)], {})
    ([(2, 3), (2, 3)], [(2, 3)])
    """
    merged: MaybeShape = None
    for shape in (*shapes, *(outs or ())):
        merged = merge_shapes(merged, shape)
    return [merged] * len(shapes), [merged]


def like_shape(place: int) -> Callable[..., ShapePair]:
    """A rule: the output has the shape of input `place`; the other inputs are free."""

    def rule(shapes: Shapes, attrs: Attrs, outs: Shapes | None = None) -> ShapePair:
        shape = merge_shapes(shapes[place], outs[0]) if outs else shapes[place]
        return [shape if at == place else one for at, one in enumerate(shapes)], [shape]

    return rule


def broadcast_two(first: Sequence[int], second: Sequence[int]) -> tuple[int, ...]:
    """NumPy's broadcasting of two shapes in which 0 is unknown.

    >>> broadcast_two((2, 1), (3,)), broadcast_two((0, 3), (1, 1)), broadcast_two((0,), (4,))
    ((2, 3), (0, 3), (4,))
    """
    rank = max(len(first), len(second))
    result = []
    for a, b in zip((1,) * (rank - len(first)) + tuple(first),
                    (1,) * (rank - len(second)) + tuple(second), strict=True):
        if a > 1 and b > 1 and a != b:
            raise ShapeError(
                f"expected shapes that broadcast together (equal or 1 in each dimension from the "
                f"right), got {tuple(first)} and {tuple(second)}"
            )
        result.append(max(a, b) if a > 1 or b > 1 else min(a, b))
    return tuple(result)


def broadcast_shape(shapes: Shapes, attrs: Attrs) -> ShapePair:
    """The output has the shape to which all inputs broadcast."""
    if any(shape is None for shape in shapes):
        return shapes, [None]
    result: tuple[int, ...] = ()
    for shape in shapes:
        result = broadcast_two(result, shape or ())
    return shapes, [result]


def reduce_shape(shapes: Shapes, attrs: Attrs) -> ShapePair:
    """The first input without the axes that ``axis``, ``exclude`` and ``keepdims`` say."""
    shape = shapes[0]
    if shape is None:
        everything = attrs.get("axis") in (None, ()) and not attrs.get("keepdims")
        return shapes, [(1,) if everything else None]
    axes = axes_of(attrs.get("axis"), len(shape), bool(attrs.get("exclude", False)))
    return shapes, [reduced(shape, axes, bool(attrs.get("keepdims", False)))]


def no_inputs_shape(shapes: Shapes, attrs: Attrs, outs: Shapes | None = None) -> ShapePair:
    """An operator that makes an array: its shape is attribute ``shape``, where () means (1,)."""
    shape = tuple(attrs["shape"]) or (1,)
    return shapes, [merge_shapes(shape, outs[0]) if outs else shape]


def same_shapes_or_error(name: str, *arrays: Any) -> None:
    """For bodies: arrays that NumPy would broadcast silently, although this operator does not."""
    first = arrays[0].shape
    for array in arrays:
        if array.shape != first:
            raise ShapeError(
                f"{name}: expected equal shapes, got {first} and {array.shape}; "
                f"use a broadcast_ operator for operands of different shape"
            )


# -- element type rules ----------------------------------------------------------------------------

def same_dtype(dtypes: DTypes, attrs: Attrs) -> tuple[DTypes, DTypes]:
    """All inputs and the output agree."""
    found = {dtype for dtype in dtypes if dtype is not None}
    if len(found) > 1:
        raise DTypeError(f"expected inputs of one dtype, got {', '.join(map(str, dtypes))}")
    dtype = found.pop() if found else None
    return [dtype] * len(dtypes), [dtype]


def fixed_dtype(name: str) -> Callable[[DTypes, Attrs], tuple[DTypes, DTypes]]:
    """A rule: the output always has element type `name`; the inputs are free."""
    return lambda dtypes, attrs: (dtypes, [name])


def follow_dtype(place: int = 0, fill: bool = False
                 ) -> Callable[[DTypes, Attrs], tuple[DTypes, DTypes]]:
    """A rule: the output has the element type of input `place`; the inputs need not agree.

    `fill`: those of which nothing is known have it, too.
    """
    def rule(dtypes: DTypes, attrs: Attrs) -> tuple[DTypes, DTypes]:
        led = dtypes[place]
        return [dtype or led for dtype in dtypes] if fill else dtypes, [led]

    return rule


def attr_dtype(key: str = "dtype", default: str = "float32") -> Callable[..., Any]:
    """A rule: attribute `key` says the output's element type; None means `default`."""
    return lambda dtypes, attrs: (dtypes, [attrs.get(key) or default])


# -- gradients -------------------------------------------------------------------------------------

def no_gradient(F: Any, dy: Any, out: Any, *inputs: Any, **attrs: Any) -> list[Any]:
    """The gradient rule of a function that is flat where it is smooth: zero for every input."""
    return [None] * len(inputs)


def reshape_back(F: Any, dy: Any, out: Any, data: Any, **attrs: Any) -> list[Any]:
    """The gradient rule of a function of one array that only lays its elements out anew."""
    return [F.reshape_like(dy, data)]
