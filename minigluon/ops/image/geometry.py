"""Cutting, mirroring and framing images."""
from __future__ import annotations

from typing import Any

import numpy as np

from ...base import ArgumentValueError, ShapeError
from ..operator import Attrs, MaybeShape, operator
from ..rules import known, merge_shapes, same_shape

__all__ = ["image_shape"]

Array = Any
Shapes = list[MaybeShape]
ShapePair = tuple[Shapes, Shapes]


def image_shape(shape: MaybeShape, ranks: tuple[int, ...] = (3, 4),
                channels: tuple[int, ...] = (1, 3)) -> None:
    """Complain about what is no image, or batch of images, with channels last."""
    if shape is None:
        return
    if len(shape) not in ranks:
        batch = " or a batch (N, height, width, channels)" if 4 in ranks else ""
        raise ShapeError(f"expected an image (height, width, channels){batch}, got {shape}")
    if shape[-1] not in (0, *channels):
        raise ShapeError(
            f"expected {' or '.join(map(str, channels))} channels in the last axis, got {shape}"
        )


# -- crop ------------------------------------------------------------------------------------------


def _crop_shape(shapes: Shapes, attrs: Attrs) -> ShapePair:
    shape = shapes[0]
    image_shape(shape)
    x, y, width, height = (attrs[word] for word in ("x", "y", "width", "height"))
    if width <= 0 or height <= 0 or x < 0 or y < 0:
        raise ArgumentValueError(
            f"expected x, y of 0 or more and positive width, height, got x={x}, y={y}, "
            f"width={width}, height={height}"
        )
    if shape is None:
        return shapes, [None]
    if 0 not in shape[-3:-1] and (x + width > shape[-2] or y + height > shape[-3]):
        raise ArgumentValueError(
            f"the crop from ({x}, {y}) to ({x + width}, {y + height}) does not lie within the "
            f"image, which is {shape[-2]} wide and {shape[-3]} high"
        )
    return shapes, [(*shape[:-3], height, width, shape[-1])]


@operator("_image_crop", infer=_crop_shape, gradient=lambda F, dy, out, data, **attrs: [
    F._image_crop_grad(dy, data, x=attrs["x"], y=attrs["y"])])
def crop(xp: Any, data: Array, *, x: int, y: int, width: int, height: int) -> Array:
    """A rectangle of images.

    Args:
        x, y: its left upper corner. width, height: its sizes.

    Shapes: data (H, W, C) -> (height, width, C), (N, H, W, C) -> (N, height, width, C); C 1 or 3.

    >>> crop.body(np, np.arange(6).reshape(2, 3, 1), x=1, y=0, width=2, height=1)[..., 0].tolist()
    [[1, 2]]
    """
    _crop_shape([data.shape], {"x": x, "y": y, "width": width, "height": height})
    return data[..., y: y + height, x: x + width, :].copy()


@operator("_image_crop_grad",
          infer=lambda shapes, attrs, outs=None: (
              [shapes[0], merge_shapes(shapes[1], outs[0] if outs else None)], [shapes[1]]),
          gradient=lambda F, dy, out, cut, data, **attrs: [F._image_crop_like(dy, cut, **attrs),
                                                           None])
def crop_grad(xp: Any, cut: Array, data: Array, *, x: int, y: int) -> Array:
    """`cut` at its place among zeros: the gradient of a crop.

    Shapes: cut (..., h, w, C), data (..., H, W, C) -> data's.
    """
    result = xp.zeros_like(data)
    result[..., y: y + cut.shape[-3], x: x + cut.shape[-2], :] = cut
    return result


@operator("_image_crop_like", infer=lambda shapes, attrs: (shapes, [shapes[1]]),
          gradient=lambda F, dy, out, data, cut, **attrs: [
              F._image_crop_grad(dy, data, **attrs), None])
def crop_like(xp: Any, data: Array, cut: Array, *, x: int, y: int) -> Array:
    """A rectangle of `data` as large as `cut`.

    Shapes: data (..., H, W, C), cut (..., h, w, C) -> cut's.
    """
    return data[..., y: y + cut.shape[-3], x: x + cut.shape[-2], :].copy()


# -- mirror ----------------------------------------------------------------------------------------


def _same_image(shapes: Shapes, attrs: Attrs, outs: Shapes | None = None) -> ShapePair:
    image_shape(shapes[0])
    return same_shape(shapes, attrs, outs)


def _one_image(shapes: Shapes, attrs: Attrs, outs: Shapes | None = None) -> ShapePair:
    image_shape(shapes[0], (3,))
    return same_shape(shapes, attrs, outs)


@operator("_image_flip_left_right", infer=_same_image,
          gradient=lambda F, dy, out, data: [F._image_flip_left_right(dy)])
def flip_left_right(xp: Any, data: Array) -> Array:
    """Images as in a mirror.

    Shapes: data (H, W, C) or (N, H, W, C), unchanged; C 1 or 3.

    >>> flip_left_right.body(np, np.arange(3).reshape(1, 3, 1))[..., 0].tolist()
    [[2, 1, 0]]
    """
    image_shape(data.shape)
    return data[..., ::-1, :].copy()


@operator("_image_flip_top_bottom", infer=_same_image,
          gradient=lambda F, dy, out, data: [F._image_flip_top_bottom(dy)])
def flip_top_bottom(xp: Any, data: Array) -> Array:
    """Images upside down.

    Shapes: data (H, W, C) or (N, H, W, C), unchanged; C 1 or 3.
    """
    image_shape(data.shape)
    return data[..., ::-1, :, :].copy()


@operator("_image_random_flip_left_right", infer=_one_image)
def random_flip_left_right(xp: Any, data: Array, *, rng: Any) -> Array:
    """An image, or its mirror image, with equal chances.

    Shapes: data (H, W, C), unchanged; C 1 or 3.
    """
    image_shape(data.shape, (3,))
    return xp.where(xp.asarray(rng.random((1,))) < 0.5, data[:, ::-1], data)


@operator("_image_random_flip_top_bottom", infer=_one_image)
def random_flip_top_bottom(xp: Any, data: Array, *, rng: Any) -> Array:
    """An image, or the image upside down, with equal chances.

    Shapes: data (H, W, C), unchanged; C 1 or 3.
    """
    image_shape(data.shape, (3,))
    return xp.where(xp.asarray(rng.random((1,))) < 0.5, data[::-1], data)


# -- borders ---------------------------------------------------------------------------------------

_BORDERS = ("constant", "edge", "symmetric", "wrap", "reflect")  # OpenCV's numbers 0 to 4


def _framed_shape(shapes: Shapes, attrs: Attrs) -> ShapePair:
    sizes = [attrs[word] for word in ("top", "bot", "left", "right")]
    if min(sizes) < 0:
        raise ArgumentValueError(f"expected margins of 0 or more, got {sizes}")
    shape = shapes[0]
    if shape is None:
        return shapes, [None]
    image_shape(shape, (3,), (1, 2, 3, 4))
    if not known(shape):
        return shapes, [(0, 0, shape[2])]
    top, bottom, left, right = sizes
    return shapes, [(shape[0] + top + bottom, shape[1] + left + right, shape[2])]


@operator("_cvcopyMakeBorder", infer=_framed_shape)
def copy_make_border(xp: Any, src: Array, *, top: int, bot: int, left: int, right: int,
                     type: int = 0, value: float = 0.0, values: tuple = ()) -> Array:
    """An image with a border.

    Args:
        top, bot, left, right: how wide.
        type: 0 one colour, 1 the outermost pixels repeated, 2 mirrored, 3 from the other side,
            4 mirrored without repeating the outermost.
        value: of the border, in all channels. values: or one for each channel; what is missing
            is 0.

    Shapes: src (H, W, C) -> (top + H + bot, left + W + right, C).

    >>> copy_make_border.body(np, np.ones((1, 1, 1)), top=0, bot=0, left=1, right=2,
    ...                       value=7.0)[..., 0].tolist()
    [[7.0, 1.0, 7.0, 7.0]]
    """
    _framed_shape([src.shape], {"top": top, "bot": bot, "left": left, "right": right})
    if not 0 <= type < len(_BORDERS):
        raise ArgumentValueError(f"type: expected 0 to {len(_BORDERS) - 1}, got {type}")
    widths = ((top, bot), (left, right), (0, 0))
    if type:
        return xp.pad(src, widths, mode=_BORDERS[type])
    channels = src.shape[2]
    colour = [*map(float, values), *[0.0] * channels][:channels] if values else [value] * channels
    shape = (src.shape[0] + top + bot, src.shape[1] + left + right, channels)
    result = xp.empty(shape, src.dtype)
    result[...] = xp.asarray(np.asarray(colour).astype(src.dtype))
    result[top: top + src.shape[0], left: left + src.shape[1]] = src
    return result
