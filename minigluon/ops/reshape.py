"""Operators that lay the same elements out anew: Reshape with its codes, reshape_like, Flatten."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base import ArgumentValueError, ShapeError
from ..npmode import is_np_shape
from .attrs import Shape
from .operator import Attrs, MaybeShape, operator
from .rules import Shapes, follow_dtype, known, merge_shapes, reshape_back, size_of

__all__: list[str] = []

Array = Any


def _forward_codes(source: Sequence[int], codes: Sequence[int]) -> tuple[list[int], int | None]:
    """The dimensions for MXNet's codes, and the place of the one to be inferred."""
    target: list[int] = []
    inferred = None
    at = place = 0
    while place < len(codes):
        code = codes[place]
        place += 1
        if code == -1:
            if inferred is not None:
                raise ShapeError("expected at most one -1")
            inferred = len(target)
            target.append(1)
            at += 1
        elif code == -2:
            target.extend(source[at:])
            at = len(source)
        elif code > 0:
            target.append(code)
            at += 1
        elif code < -4:
            raise ShapeError(f"expected codes from -4 up, got {code}")
        elif at + (code == -3) >= len(source):
            raise ShapeError(f"code {code} at place {place - 1} has no dimension left to stand for")
        elif code == 0:
            target.append(source[at])
            at += 1
        elif code == -3:
            target.append(source[at] * source[at + 1])
            at += 2
        else:
            target.extend(_split_dim(source[at], codes[place:place + 2]))
            at, place = at + 1, place + 2
    return target, inferred


def _split_dim(dim: int, parts: Sequence[int]) -> tuple[int, int]:
    if len(parts) != 2 or parts[0] == parts[1] == -1:
        raise ShapeError(f"code -4 expects two sizes, one of them may be -1, got {tuple(parts)}")
    first, second = parts
    if first == -1:
        first = dim // second if second else 0
    if second == -1:
        second = dim // first if first else 0
    if dim and first * second != dim:
        raise ShapeError(f"code -4 cannot split {dim} into {tuple(parts)}")
    return first, second


def _reshaped(source: Sequence[int], shape: Sequence[int], reverse: bool) -> tuple[int, ...]:
    """The target shape; 0 where it depends on an unknown dimension."""
    if reverse:
        source, shape = source[::-1], shape[::-1]
    try:
        target, inferred = _forward_codes(source, shape)
    except ShapeError as error:
        raise ShapeError(f"shape {tuple(shape)} for data {tuple(source)}: {error}") from None
    size = size_of(source)
    if inferred is not None:
        rest = size_of(target)
        target[inferred] = size // rest if rest else 0
    if size and 0 not in target and size_of(target) != size:
        raise ShapeError(
            f"expected {size} elements as in data {tuple(source)}, got {tuple(shape)} "
            f"which makes {tuple(target)}")
    return tuple(target[::-1] if reverse else target)


def _legacy(source: Sequence[int], target: Sequence[int], keep_highest: bool) -> tuple[int, ...]:
    """The old ``target_shape``: 0 is inferred; keep_highest keeps axis 0."""
    codes = [dim or -1 for dim in target]
    if keep_highest:
        codes[0] = source[0]
    return _reshaped(source, codes, False)


def _reshape_target(source: Sequence[int], attrs: Attrs) -> tuple[int, ...]:
    if attrs["shape"]:
        return _reshaped(source, attrs["shape"], attrs["reverse"])
    if attrs["target_shape"]:
        return _legacy(source, attrs["target_shape"], attrs["keep_highest"])
    if is_np_shape() and size_of(source) == 1:
        return ()
    raise ArgumentValueError("shape: expected sizes or codes, got ()")


def _fill_one(source: MaybeShape, out: MaybeShape) -> MaybeShape:
    """Recover the one unknown dimension of `source` from the fully known output."""
    if source is None or not known(out) or out is None or source.count(0) != 1:
        return source
    rest = size_of([dim or 1 for dim in source])
    if size_of(out) % rest:
        raise ShapeError(f"cannot turn {source} into {out}")
    return tuple(dim or size_of(out) // rest for dim in source)


def _reshape_shape(shapes: Shapes, attrs: Attrs, outs: Shapes | None = None
                   ) -> tuple[Shapes, Shapes]:
    source, out = shapes[0], outs[0] if outs else None
    if source is not None:
        out = merge_shapes(_reshape_target(source, attrs), out)
    elif attrs["shape"] and min(attrs["shape"]) > 0:
        out = merge_shapes(attrs["shape"], out)
    return [_fill_one(source, out)], [out]


@operator("Reshape", infer=_reshape_shape, gradient=reshape_back, aliases=("reshape",),
          methods=("reshape",))
def reshape(xp: Any, data: Array, *, shape: Shape = (), reverse: bool = False,
            target_shape: Shape = (), keep_highest: bool = False) -> Array:
    """The same elements in another shape.

    Args:
        data: any array.
        shape: sizes, or codes: 0 copies a size, -1 is inferred, -2 copies all that are left, -3
            merges two axes, -4 splits one into the next two numbers (one may be -1).
        reverse: match codes from the right.
        target_shape, keep_highest: the form before codes: 0 is inferred; keep axis 0.

    Shapes: data (*S) -> (*T) with as many elements.

    >>> import minigluon as mx
    >>> mx.nd.Reshape(mx.nd.zeros((2, 3, 4)), shape=(-3, 0)).shape
    (6, 4)
    """
    return data.reshape(_reshape_target(data.shape, {
        "shape": shape, "reverse": reverse, "target_shape": target_shape,
        "keep_highest": keep_highest})).copy()


def _like_target(lhs: Sequence[int], rhs: Sequence[int], attrs: Attrs) -> tuple[int, ...]:
    def span(shape: Sequence[int], side: str) -> tuple[int, int]:
        begin, end = attrs[f"{side}_begin"] or 0, attrs[f"{side}_end"]
        begin = begin + len(shape) if begin < 0 else begin
        end = len(shape) if end is None else end + len(shape) if end < 0 else end
        if not 0 <= begin <= end <= len(shape):
            raise ShapeError(f"{side}_begin, {side}_end: no such part of shape {tuple(shape)}")
        return begin, end

    left, right = span(lhs, "lhs"), span(rhs, "rhs")
    target = (*lhs[:left[0]], *rhs[slice(*right)], *lhs[left[1]:])
    if size_of(lhs) and size_of(target) and size_of(target) != size_of(lhs):
        raise ShapeError(f"expected as many elements as lhs {tuple(lhs)}, got {target} "
                         f"from rhs {tuple(rhs)}")
    return target


def _like_shape(shapes: Shapes, attrs: Attrs, outs: Shapes | None = None
                ) -> tuple[Shapes, Shapes]:
    lhs, rhs = shapes
    if lhs is None or rhs is None:
        return shapes, [rhs if all(value is None for value in attrs.values()) else None]
    target = _like_target(lhs, rhs, attrs)
    return [_fill_one(lhs, target), rhs], [target]


@operator("reshape_like", infer=_like_shape, infer_dtype=follow_dtype(0),
          methods=("reshape_like",),
          gradient=lambda F, dy, out, lhs, rhs, **attrs: [F.reshape_like(dy, lhs), None])
def reshape_like(xp: Any, lhs: Array, rhs: Array, *, lhs_begin: int | None = None,
                 lhs_end: int | None = None, rhs_begin: int | None = None,
                 rhs_end: int | None = None) -> Array:
    """lhs in the shape of rhs.

    Args:
        lhs: the elements. rhs: only its shape counts. lhs_begin, lhs_end, rhs_begin, rhs_end:
            replace these axes of lhs by those of rhs.

    Shapes: lhs (*S), rhs (*T) -> (*T).

    >>> import minigluon as mx
    >>> mx.nd.reshape_like(mx.nd.zeros((6,)), mx.nd.zeros((2, 3))).shape
    (2, 3)
    """
    if lhs_begin is lhs_end is rhs_begin is rhs_end is None:
        return lhs.reshape(rhs.shape).copy()
    parts = {"lhs_begin": lhs_begin, "lhs_end": lhs_end,
             "rhs_begin": rhs_begin, "rhs_end": rhs_end}
    return lhs.reshape(_like_target(lhs.shape, rhs.shape, parts)).copy()


def _flat(shape: Sequence[int]) -> tuple[int, int]:
    return shape[0], size_of(shape[1:])


def _flatten_shape(shapes: Shapes, attrs: Attrs, outs: Shapes | None = None
                   ) -> tuple[Shapes, Shapes]:
    source, out = shapes[0], outs[0] if outs else None
    if source is None:
        return shapes, [merge_shapes((0, 0), out)]
    if not source:
        raise ShapeError("expected one axis or more, got shape ()")
    out = merge_shapes(_flat(source), out)
    return [_fill_one(source, out)], [out]


@operator("Flatten", infer=_flatten_shape, gradient=reshape_back, aliases=("flatten",),
          methods=("flatten",))
def flatten(xp: Any, data: Array) -> Array:
    """Keep axis 0, merge the others.

    Args:
        data: any array.

    Shapes: data (N, *S) -> (N, product of S).

    >>> import minigluon as mx
    >>> mx.nd.Flatten(mx.nd.zeros((2, 3, 4))).shape
    (2, 12)
    """
    return data.reshape(_flat(data.shape)).copy()
