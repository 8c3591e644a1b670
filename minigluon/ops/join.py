"""Operators that put arrays together along an axis and take them apart again."""
from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ..base import ArgumentValueError, ShapeError
from .attrs import Shape
from .operator import Attrs, MaybeShape, operator
from .rules import Shapes, axis_of, merge_shapes, same_shapes_or_error

__all__ = ["split_v2_settings"]

Array = Any


def _zeros_for_none(F: Any, grads: Sequence[Any], outs: Sequence[Any]) -> list[Any]:
    """Gradients of several outputs, those of unused ones as zeros."""
    return [F.zeros_like(out) if grad is None else grad
            for grad, out in zip(grads, outs, strict=True)]


# -- together --------------------------------------------------------------------------------------

def _concat_shape(shapes: Shapes, attrs: Attrs, outs: Shapes | None = None
                  ) -> tuple[Shapes, Shapes]:
    out = outs[0] if outs else None
    ranks = [len(shape) for shape in (*shapes, out) if shape is not None]
    if not ranks:
        return shapes, [None]
    axis = axis_of(attrs["dim"], ranks[0], "dim")
    common: MaybeShape = None
    for shape in (*shapes, out):
        if shape is not None:
            try:
                common = merge_shapes(common, (*shape[:axis], 0, *shape[axis + 1:]))
            except ShapeError:
                listed = ", ".join(str(one) for one in shapes if one is not None)
                raise ShapeError(f"expected equal shapes apart from axis {axis}, got {listed}"
                                 ) from None
    assert common is not None
    dims = [0 if shape is None else shape[axis] for shape in shapes]
    total = sum(dims) if all(dims) else out[axis] if out else 0
    if total and dims.count(0) == 1:
        dims[dims.index(0)] = total - sum(dims)
    merged = (*common[:axis], total, *common[axis + 1:])
    return ([(*common[:axis], dim, *common[axis + 1:]) for dim in dims],
            [merge_shapes(merged, out)])


def _concat_back(F: Any, dy: Any, out: Any, *data: Any, dim: int, num_args: int) -> list[Any]:
    return [dy] if len(data) == 1 else F._split_like(dy, *data, dim=dim, count=len(data))


@operator("Concat", infer=_concat_shape, gradient=_concat_back, aliases=("concat",))
def concat(xp: Any, *data: Array, dim: int = 1, num_args: int = 0) -> Array:
    """Join arrays along an axis.

    Args:
        data: arrays that differ at most in the size of that axis. dim: the axis. num_args: how
            many (known anyway; for old symbol files).

    Shapes: data n x (*S) -> S with the sizes added up at dim.

    >>> import minigluon as mx
    >>> mx.nd.Concat(mx.nd.zeros((2, 3)), mx.nd.zeros((2, 1)), dim=1).shape
    (2, 4)
    """
    return xp.concatenate(data, axis=dim)


def _split_like_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    return shapes, shapes[1:]


def _split_like_back(F: Any, dy: Sequence[Any], out: Sequence[Any], whole: Any, *data: Any,
                     dim: int, count: int) -> list[Any]:
    return [F.Concat(*_zeros_for_none(F, dy, out), dim=dim), *[None] * count]


@operator("_split_like", infer=_split_like_shape, gradient=_split_like_back,
          num_outputs=lambda attrs: attrs["count"])
def _split_like(xp: Any, *arrays: Array, dim: int, count: int) -> tuple[Array, ...]:
    """Cut the first array along an axis into parts of the sizes of the others."""
    whole, parts = arrays[0], arrays[1:]
    axis = dim % whole.ndim
    lead = (slice(None),) * axis
    pieces, begin = [], 0
    for part in parts:
        end = begin + part.shape[axis]
        pieces.append(whole[(*lead, slice(begin, end))].copy())
        begin = end
    return tuple(pieces)


def _stack_shape(shapes: Shapes, attrs: Attrs, outs: Shapes | None = None
                 ) -> tuple[Shapes, Shapes]:
    out = outs[0] if outs else None
    common: MaybeShape = None
    if out is not None:
        place = axis_of(attrs["axis"], len(out))
        common = (*out[:place], *out[place + 1:])
    for shape in shapes:
        common = merge_shapes(common, shape)
    if common is None:
        return shapes, [None]
    place = axis_of(attrs["axis"], len(common) + 1)
    merged = merge_shapes((*common[:place], len(shapes), *common[place:]), out)
    return [common] * len(shapes), [merged]


def _stack_back(F: Any, dy: Any, out: Any, *data: Any, axis: int, num_args: int) -> list[Any]:
    pieces = F.SliceChannel(dy, num_outputs=len(data), axis=axis, squeeze_axis=True)
    return [pieces] if len(data) == 1 else list(pieces)


@operator("stack", infer=_stack_shape, gradient=_stack_back)
def stack(xp: Any, *data: Array, axis: int = 0, num_args: int = 0) -> Array:
    """Join arrays of one shape along a new axis.

    Args:
        data: the arrays. axis: the place of the new axis. num_args: how many (known anyway).

    Shapes: data n x (*S) -> S with n at axis.

    >>> import minigluon as mx
    >>> mx.nd.stack(mx.nd.zeros((2, 3)), mx.nd.zeros((2, 3)), axis=1).shape
    (2, 2, 3)
    """
    same_shapes_or_error("stack", *data)
    return xp.stack(data, axis=axis)


# -- apart -----------------------------------------------------------------------------------------

def _part_shape(shape: Sequence[int], attrs: Attrs) -> tuple[int, ...]:
    count, axis = attrs["num_outputs"], axis_of(attrs["axis"], len(shape))
    if shape[axis] % count or count < 1:
        raise ShapeError(f"expected a size divisible by num_outputs={count} on axis {axis}, "
                         f"got shape {tuple(shape)}")
    dim = shape[axis] // count
    if attrs["squeeze_axis"]:
        if dim > 1:
            raise ShapeError(f"squeeze_axis expects num_outputs={count} to equal the size of "
                             f"axis {axis}, got shape {tuple(shape)}")
        return (*shape[:axis], *shape[axis + 1:]) or (1,)
    return (*shape[:axis], dim, *shape[axis + 1:])


def _split_shape(shapes: Shapes, attrs: Attrs, outs: Shapes | None = None
                 ) -> tuple[Shapes, Shapes]:
    source, part, count = shapes[0], None, attrs["num_outputs"]
    for out in outs or ():
        part = merge_shapes(part, out)
    if source is not None:
        part = merge_shapes(_part_shape(source, attrs), part)
    if part is None:
        return shapes, [None] * count
    if attrs["squeeze_axis"]:
        axis = axis_of(attrs["axis"], len(part) + 1)
        whole = (*part[:axis], count, *part[axis:])
    else:
        axis = axis_of(attrs["axis"], len(part))
        whole = (*part[:axis], part[axis] * count, *part[axis + 1:])
    if source is None or len(source) == len(whole):
        source = merge_shapes(source, whole)
    return [source], [part] * count


def _split_back(F: Any, dy: Sequence[Any], out: Sequence[Any], data: Any, *, num_outputs: int,
                axis: int, squeeze_axis: bool) -> list[Any]:
    grads = _zeros_for_none(F, dy, out)
    joined = F.stack(*grads, axis=axis) if squeeze_axis else F.Concat(*grads, dim=axis)
    return [F.reshape_like(joined, data)]


@operator("SliceChannel", infer=_split_shape, gradient=_split_back, aliases=("split",),
          methods=("split", "slice_channel"), num_outputs=lambda attrs: attrs["num_outputs"],
          output_names=("output0",))
def split(xp: Any, data: Array, *, num_outputs: int, axis: int = 1, squeeze_axis: bool = False
          ) -> tuple[Array, ...]:
    """Cut into equal parts along an axis.

    Args:
        data: any array. num_outputs: how many parts. axis: where. squeeze_axis: drop the axis,
            which must have size 1 in the parts.

    Shapes: data (*S) -> num_outputs x (S with a part of the size at axis).

    >>> import minigluon as mx
    >>> [part.shape for part in mx.nd.split(mx.nd.zeros((2, 6)), num_outputs=3, axis=1)]
    [(2, 2), (2, 2), (2, 2)]
    """
    shape = _part_shape(data.shape, {"num_outputs": num_outputs, "axis": axis,
                                     "squeeze_axis": squeeze_axis})
    lead = (slice(None),) * (axis % data.ndim)
    step = data.shape[axis] // num_outputs
    return tuple(data[(*lead, slice(at * step, (at + 1) * step))].copy().reshape(shape)
                 for at in range(num_outputs))


def _bounds(size: int, where: Any) -> list[tuple[int, int]]:
    """(begin, end) of every part: equal parts for a number, cuts at the indices for a tuple."""
    if isinstance(where, int):
        if where < 1 or size % where:
            raise ShapeError(f"expected a size divisible by {where} sections, got {size}")
        step = size // where
        return [(at * step, (at + 1) * step) for at in range(where)]
    cuts = [0, *(cut + size if cut < 0 else min(cut, size) for cut in where), size]
    return [(begin, max(begin, end)) for begin, end in pairwise(cuts)]


def _cuts(attrs: Attrs) -> int | tuple[int, ...]:
    """A number of equal sections, or where to cut; MXNet's files write a 0 before the cuts."""
    if attrs["sections"]:
        return int(attrs["sections"])
    cuts = tuple(attrs["indices"])
    return cuts[1:] if cuts[:1] == (0,) else cuts


def _split_v2_count(attrs: Attrs) -> int:
    where = _cuts(attrs)
    return where if isinstance(where, int) else len(where) + 1


def _split_v2_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    shape, count = shapes[0], _split_v2_count(attrs)
    if shape is None:
        return shapes, [None] * count
    axis = axis_of(attrs["axis"], len(shape))
    parts: Shapes = []
    for begin, end in _bounds(shape[axis], _cuts(attrs)):
        if attrs["squeeze_axis"]:
            if end - begin > 1:
                raise ShapeError(f"squeeze_axis expects parts of size 1 on axis {axis}, "
                                 f"got {end - begin}")
            parts.append((*shape[:axis], *shape[axis + 1:]) or (1,))
        else:
            parts.append((*shape[:axis], end - begin, *shape[axis + 1:]))
    return shapes, parts


def _split_v2_back(F: Any, dy: Sequence[Any], out: Sequence[Any], data: Any, *, axis: int,
                   squeeze_axis: bool, **attrs: Any) -> list[Any]:
    grads = _zeros_for_none(F, dy, out)
    joined = F.stack(*grads, axis=axis) if squeeze_axis else F.Concat(*grads, dim=axis)
    return [F.reshape_like(joined, data)]


@operator("_split_v2", infer=_split_v2_shape, gradient=_split_v2_back,
          num_outputs=_split_v2_count)
def split_v2(xp: Any, data: Array, *, indices: Shape, axis: int = 1,
             squeeze_axis: bool = False, sections: int = 0) -> tuple[Array, ...]:
    """Cut along an axis into equal sections, or at given indices; ``split_v2`` calls it.

    Args:
        data: any array. indices: where to cut, a 0 first. axis: which. squeeze_axis: drop the
            axis, which must have size 1 in the parts. sections: so many equal parts instead.

    Shapes: data (*S) -> parts of S along axis.

    >>> import minigluon as mx
    >>> [part.shape for part in mx.nd.split_v2(mx.nd.zeros((6, 2)), (1, 3))]
    [(1, 2), (2, 2), (3, 2)]
    """
    attrs = {"indices": indices, "axis": axis, "squeeze_axis": squeeze_axis, "sections": sections}
    _, shapes = _split_v2_shape([data.shape], attrs)
    lead = (slice(None),) * (axis % data.ndim)
    bounds = _bounds(data.shape[axis], _cuts(attrs))
    return tuple(data[(*lead, slice(begin, end))].copy().reshape(shape)
                 for (begin, end), shape in zip(bounds, shapes, strict=True))


def split_v2_settings(indices_or_sections: Any, axis: int, squeeze_axis: bool) -> dict[str, Any]:
    """The attributes of ``_split_v2`` for what ``split_v2`` is given: a number, or indices."""
    if isinstance(indices_or_sections, int):
        where: dict[str, Any] = {"indices": (), "sections": indices_or_sections}
        if indices_or_sections < 1:
            raise ArgumentValueError("split_v2: indices_or_sections: expected a number of 1 or "
                                     f"more, or indices, got {indices_or_sections}")
    elif isinstance(indices_or_sections, (tuple, list, set)):
        where = {"indices": (0, *indices_or_sections)}
    else:
        raise ArgumentValueError("split_v2: indices_or_sections: expected a number or indices, "
                                 f"got {indices_or_sections!r}")
    return {**where, "axis": axis, "squeeze_axis": squeeze_axis}
