"""Operators that mirror, repeat, pad or regroup the elements of one array."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ..base import ArgumentValueError, ShapeError
from .attrs import Axes, Shape
from .operator import Attrs, operator
from .rules import Shapes, axes_of, axis_of, like_shape, same_shape, size_of

__all__: list[str] = []

Array = Any


# -- mirror and repeat -----------------------------------------------------------------------------

@operator("reverse", infer=same_shape, aliases=("flip",), methods=("flip", "reverse"),
          gradient=lambda F, dy, out, data, **attrs: [F.reverse(dy, **attrs)])
def reverse(xp: Any, data: Array, *, axis: Axes) -> Array:
    """Mirror along axes.

    Args:
        data: any array. axis: axis or axes.

    Shapes: data (*S) -> (*S).

    >>> import minigluon as mx
    >>> mx.nd.flip(mx.nd.array([[1, 2], [3, 4]]), axis=1).asnumpy().tolist()
    [[2.0, 1.0], [4.0, 3.0]]
    """
    return xp.flip(data, axis=axes_of(axis, data.ndim)).copy()


def _tiled(shape: Sequence[int], reps: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and repetitions with as many axes."""
    rank = max(len(shape), len(reps))
    return ((1,) * (rank - len(shape)) + tuple(shape), (1,) * (rank - len(reps)) + tuple(reps))


def _tile_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    if shapes[0] is None:
        return shapes, [None]
    return shapes, [tuple(dim * rep for dim, rep in
                          zip(*_tiled(shapes[0], attrs["reps"]), strict=True))]


@operator("tile", infer=_tile_shape, methods=("tile",),
          gradient=lambda F, dy, out, data, **attrs: [F._tile_grad(dy, data, **attrs)])
def tile(xp: Any, data: Array, *, reps: Shape) -> Array:
    """Lay copies of the array side by side.

    Args:
        data: any array. reps: how many along each axis; leading axes are added where it is longer.

    Shapes: data (*S) -> S times reps.

    >>> import minigluon as mx
    >>> mx.nd.tile(mx.nd.array([1, 2]), reps=(2, 2)).asnumpy().tolist()
    [[1.0, 2.0, 1.0, 2.0], [1.0, 2.0, 1.0, 2.0]]
    """
    return xp.tile(data, reps)


@operator("_tile_grad", infer=like_shape(1),
          gradient=lambda F, dy, out, grad, data, **attrs: [F.tile(dy, **attrs), None])
def _tile_grad(xp: Any, grad: Array, data: Array, *, reps: Shape) -> Array:
    """The sum of `grad` over the copies."""
    shape, times = _tiled(data.shape, reps)
    apart = [size for pair in zip(times, shape, strict=True) for size in pair]
    folded = grad.reshape(apart).sum(axis=tuple(range(0, len(apart), 2)), dtype=grad.dtype)
    return folded.reshape(data.shape)


def _repeat_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    shape, axis, repeats = shapes[0], attrs["axis"], attrs["repeats"]
    if shape is None:
        return shapes, [None]
    if axis is None:
        return shapes, [(size_of(shape) * repeats,)]
    place = axis_of(axis, len(shape))
    return shapes, [(*shape[:place], shape[place] * repeats, *shape[place + 1:])]


@operator("repeat", infer=_repeat_shape, methods=("repeat",),
          gradient=lambda F, dy, out, data, **attrs: [F._repeat_grad(dy, data, **attrs)])
def repeat(xp: Any, data: Array, *, repeats: int, axis: int | None = None) -> Array:
    """Repeat every element.

    Args:
        data: any array. repeats: how often. axis: along which; None flattens first.

    Shapes: data (*S) -> S with repeats times the size at axis.

    >>> import minigluon as mx
    >>> mx.nd.repeat(mx.nd.array([1, 2]), repeats=2).asnumpy().tolist()
    [1.0, 1.0, 2.0, 2.0]
    """
    return xp.repeat(data, repeats, axis=axis)


@operator("_repeat_grad", infer=like_shape(1),
          gradient=lambda F, dy, out, grad, data, **attrs: [F.repeat(dy, **attrs), None])
def _repeat_grad(xp: Any, grad: Array, data: Array, *, repeats: int, axis: int | None = None
                 ) -> Array:
    """The sum of `grad` over the repetitions."""
    if axis is None:
        return grad.reshape(-1, repeats).sum(axis=1, dtype=grad.dtype).reshape(data.shape)
    place = axis % data.ndim
    shape = (*data.shape[:place + 1], repeats, *data.shape[place + 1:])
    return grad.reshape(shape).sum(axis=place + 1, dtype=grad.dtype)


# -- pad -------------------------------------------------------------------------------------------

def _pad_pairs(shape: Sequence[int], mode: str, width: Sequence[int]) -> list[tuple[int, int]]:
    """(before, after) for each axis."""
    if len(width) != 2 * len(shape) or min(width) < 0:
        raise ShapeError(f"pad_width: expected {2 * len(shape)} numbers (before and after each "
                         f"axis), not negative, got {tuple(width)}")
    if any(width[:4]) and mode != "constant":
        raise ArgumentValueError(f"pad_width: expected 0 for the first two axes with mode "
                                 f"'{mode}', got {tuple(width)}")
    pairs = list(zip(width[::2], width[1::2], strict=True))
    for axis, (dim, pair) in enumerate(zip(shape, pairs, strict=True)):
        if mode == "reflect" and dim and max(pair) >= dim:
            raise ShapeError(f"pad_width: reflect expects less than the size {dim} of axis "
                             f"{axis}, got {pair}")
    return pairs


def _pad_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    shape = shapes[0]
    if shape is None:
        return shapes, [None]
    if len(shape) not in (4, 5):
        raise ShapeError(f"expected data with 4 or 5 axes, got shape {shape}")
    pairs = _pad_pairs(shape, attrs["mode"], attrs["pad_width"])
    if any(attrs["pad_width"][:4]):
        raise ArgumentValueError(f"pad_width: expected 0 for the first two axes, "
                                 f"got {attrs['pad_width']}")
    return shapes, [tuple(dim and dim + sum(pair)
                          for dim, pair in zip(shape, pairs, strict=True))]


@operator("Pad", infer=_pad_shape, aliases=("pad",), methods=("pad",),
          gradient=lambda F, dy, out, data, *, mode, pad_width, constant_value: [
              F._pad_grad(dy, data, mode=mode, pad_width=pad_width)])
def pad(xp: Any, data: Array, *, mode: Literal["constant", "edge", "reflect"], pad_width: Shape,
        constant_value: float = 0.0) -> Array:
    """Put a border around the spatial axes.

    Args:
        data: an array with 4 or 5 axes. mode: fill with `constant_value`, the nearest element
            ('edge'), or the mirrored inside ('reflect'). pad_width: before and after each axis;
            the first four numbers must be 0.

    Shapes: data (N, C, *S) -> (N, C, *T), T = S + before + after.

    >>> import minigluon as mx
    >>> mx.nd.pad(mx.nd.ones((1, 1, 2, 2)), mode="edge", pad_width=(0, 0, 0, 0, 1, 1, 2, 2)).shape
    (1, 1, 4, 6)
    """
    _pad_shape([data.shape], {"mode": mode, "pad_width": pad_width})
    pairs = _pad_pairs(data.shape, mode, pad_width)
    options = {"constant_values": constant_value} if mode == "constant" else {}
    return xp.pad(data, pairs, mode=mode, **options)


@operator("_pad_grad", infer=like_shape(1), gradient=lambda F, dy, out, grad, data, **attrs: [
    F.Pad(dy, constant_value=0.0, **attrs), None])
def _pad_grad(xp: Any, grad: Array, data: Array, *, mode: str, pad_width: Shape) -> Array:
    """`grad` without the border, what the border copied added to where it came from."""
    result = grad
    for axis, (before, after) in enumerate(_pad_pairs(data.shape, mode, pad_width)):
        result = _unpad(xp, result, axis, before, after, mode)
    return result.copy()


def _unpad(xp: Any, grad: Array, axis: int, before: int, after: int, mode: str) -> Array:
    if not before and not after:
        return grad
    size = grad.shape[axis] - before - after
    moved = xp.moveaxis(grad, axis, 0)
    inner = moved[before:before + size].copy()
    if mode == "edge":
        inner[0] += moved[:before].sum(axis=0, dtype=grad.dtype)
        inner[-1] += moved[before + size:].sum(axis=0, dtype=grad.dtype)
    elif mode == "reflect":
        inner[1:before + 1] += moved[:before][::-1]
        inner[size - 1 - after:size - 1] += moved[before + size:][::-1]
    return xp.moveaxis(inner, 0, axis)


# -- diagonals -------------------------------------------------------------------------------------

def _diagonal_size(rows: int, columns: int, k: int) -> int:
    size = min(rows, columns - k) if k >= 0 else min(rows + k, columns)
    if size <= 0 and rows and columns:
        raise ShapeError(f"k={k} is outside of a matrix ({rows}, {columns})")
    return max(size, 0)


def _diag_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    shape, k = shapes[0], attrs["k"]
    if shape is None:
        return shapes, [None]
    if len(shape) == 1:
        side = shape[0] and shape[0] + abs(k)
        return shapes, [(side, side)]
    first, second = (axis_of(attrs[word], len(shape), word) for word in ("axis1", "axis2"))
    if first == second:
        raise ArgumentValueError(f"axis1 and axis2: expected different axes, got {first} twice")
    rest = tuple(dim for axis, dim in enumerate(shape) if axis not in (first, second))
    return shapes, [(*rest, _diagonal_size(shape[first], shape[second], k))]


@operator("diag", infer=_diag_shape, methods=("diag",),
          gradient=lambda F, dy, out, data, **attrs: [F._diag_grad(dy, data, **attrs)])
def diag(xp: Any, data: Array, *, k: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The diagonal of a matrix, or the matrix with a given diagonal.

    Args:
        data: one axis: the diagonal of the result; more: where diagonals are taken from.
        k: which diagonal, above (positive) or below the main one. axis1, axis2: rows, columns.

    Shapes: data (N,) -> (N + |k|, N + |k|); data (*S) -> S without axis1 and axis2, and the
    diagonal last.

    >>> import minigluon as mx
    >>> mx.nd.diag(mx.nd.array([[1, 2], [3, 4]])).asnumpy().tolist()
    [1.0, 4.0]
    """
    _diag_shape([data.shape], {"k": k, "axis1": axis1, "axis2": axis2})
    if data.ndim == 1:
        return xp.diag(data, k)
    return xp.diagonal(data, offset=k, axis1=axis1, axis2=axis2).copy()


@operator("_diag_grad", infer=like_shape(1),
          gradient=lambda F, dy, out, grad, data, **attrs: [F.diag(dy, **attrs), None])
def _diag_grad(xp: Any, grad: Array, data: Array, *, k: int = 0, axis1: int = 0, axis2: int = 1
               ) -> Array:
    """Zeros with `grad` on the diagonal (of one axis: its diagonal)."""
    if data.ndim == 1:
        return xp.diagonal(grad, offset=k).copy()
    result = xp.zeros_like(data, dtype=grad.dtype)
    places = xp.arange(grad.shape[-1])
    moved = xp.moveaxis(result, (axis1, axis2), (-2, -1))  # a view
    moved[..., places + max(-k, 0), places + max(k, 0)] = grad
    return result


# -- channels and space ----------------------------------------------------------------------------

def _to_space(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    shape, block = shapes[0], attrs["block_size"]
    if shape is None:
        return shapes, [None]
    if len(shape) != 4 or block < 1 or shape[1] % (block * block):
        raise ShapeError(f"expected data (N, C, H, W) with C divisible by block_size^2 = "
                         f"{block * block}, got {shape}")
    n, c, h, w = shape
    return shapes, [(n, c // (block * block), h * block, w * block)]


def _to_depth(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    shape, block = shapes[0], attrs["block_size"]
    if shape is None:
        return shapes, [None]
    if len(shape) != 4 or block < 1 or shape[2] % block or shape[3] % block:
        raise ShapeError(f"expected data (N, C, H, W) with H and W divisible by block_size = "
                         f"{block}, got {shape}")
    n, c, h, w = shape
    return shapes, [(n, c * block * block, h // block, w // block)]


@operator("depth_to_space", infer=_to_space, methods=("depth_to_space",),
          gradient=lambda F, dy, out, data, **attrs: [F.space_to_depth(dy, **attrs)])
def depth_to_space(xp: Any, data: Array, *, block_size: int) -> Array:
    """Move channels into blocks of the image.

    Args:
        data: images. block_size: side of a block.

    Shapes: data (N, C, H, W) -> (N, C / block^2, H * block, W * block).

    >>> import minigluon as mx
    >>> mx.nd.depth_to_space(mx.nd.zeros((1, 4, 2, 3)), block_size=2).shape
    (1, 1, 4, 6)
    """
    _to_space([data.shape], {"block_size": block_size})
    n, c, h, w = data.shape
    split = data.reshape(n, block_size, block_size, c // block_size ** 2, h, w)
    moved = split.transpose(0, 3, 4, 1, 5, 2).copy()
    return moved.reshape(n, c // block_size ** 2, h * block_size, w * block_size)


@operator("space_to_depth", infer=_to_depth, methods=("space_to_depth",),
          gradient=lambda F, dy, out, data, **attrs: [F.depth_to_space(dy, **attrs)])
def space_to_depth(xp: Any, data: Array, *, block_size: int) -> Array:
    """Move blocks of the image into channels.

    Args:
        data: images. block_size: side of a block.

    Shapes: data (N, C, H, W) -> (N, C * block^2, H / block, W / block).

    >>> import minigluon as mx
    >>> mx.nd.space_to_depth(mx.nd.zeros((1, 1, 4, 6)), block_size=2).shape
    (1, 4, 2, 3)
    """
    _to_depth([data.shape], {"block_size": block_size})
    n, c, h, w = data.shape
    split = data.reshape(n, c, h // block_size, block_size, w // block_size, block_size)
    moved = split.transpose(0, 3, 5, 1, 2, 4).copy()
    return moved.reshape(n, c * block_size ** 2, h // block_size, w // block_size)
