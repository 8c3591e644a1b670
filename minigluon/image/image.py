"""Images as NDArrays (height, width, channels), colours as RGB: reading, resizing, cutting.

Random choices are Python's (``random.seed`` repeats them), as in MXNet.
"""
from __future__ import annotations

import math
import os
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import codec
from .. import ndarray as nd
from ..base import ArgumentError, ArgumentValueError, MXNetError
from ..context import cpu
from ..ndarray import NDArray

__all__ = [
    "center_crop", "color_normalize", "copyMakeBorder", "fixed_crop", "imdecode", "imread",
    "imresize", "random_crop", "random_size_crop", "resize_short", "scale_down",
]

Box = tuple[int, int, int, int]


def imread(filename: str | os.PathLike[str], flag: int = 1, to_rgb: bool | int = True) -> NDArray:
    """The image in a file, uint8.

    Args:
        filename: path. flag: 1 for three channels, 0 for one (gray).
        to_rgb: colours in the order red, green, blue; else blue, green, red.

    Shapes: -> (height, width, 3 or 1).
    """
    try:
        with open(filename, "rb") as file:
            content = file.read()
    except OSError as error:
        raise MXNetError(f"imread: cannot open {filename}: {error.strerror}") from error
    return _decoded(content, flag, to_rgb, f"imread: {os.fspath(filename)}")


def imdecode(buf: Any, flag: int = 1, to_rgb: bool | int = True, out: NDArray | None = None
             ) -> NDArray:
    """The image in the content of a file (bytes, or uint8 values in an array), uint8.

    Args:
        buf: the content. flag, to_rgb: as for `imread`. out: where to put the image.

    Shapes: -> (height, width, 3 or 1).
    """
    if isinstance(buf, NDArray):
        buf = buf.asnumpy()
    if isinstance(buf, np.ndarray):
        buf = buf.astype(np.uint8, copy=False).tobytes()
    if not isinstance(buf, (bytes, bytearray, memoryview)):
        raise ArgumentValueError(
            f"imdecode: buf: expected bytes or an array of uint8, got {type(buf).__name__}"
        )
    image = _decoded(buf, flag, to_rgb, "imdecode")
    return image if out is None else image.copyto(out)


def _decoded(content: Any, flag: int, to_rgb: bool | int, name: str) -> NDArray:
    pixels = codec.decode(content, flag, name)
    if not to_rgb and pixels.shape[2] == 3:
        pixels = np.ascontiguousarray(pixels[..., ::-1])
    elif not pixels.flags.writeable:
        pixels = pixels.copy()
    return NDArray(pixels, cpu(0))


def imresize(src: NDArray, w: int, h: int, interp: int = 1, out: NDArray | None = None) -> NDArray:
    """An image of another size.

    Args:
        src: uint8 or floats. w, h: width and height.
        interp: 0 nearest, 1 bilinear, 2 bicubic, 3 area, 4 Lanczos; 9 and 10 as for
            `resize_short`.

    Shapes: src (H, W, C) -> (h, w, C).

    >>> import minigluon as mx
    >>> imresize(mx.nd.zeros((4, 6, 3), dtype="uint8"), 3, 2).shape
    (2, 3, 3)
    """
    interp = _get_interp_method(interp, (*_sides("imresize", src), h, w))
    return nd.image.resize(src, size=(w, h), interp=interp, out=out)  # type: ignore[attr-defined, no-any-return]


def copyMakeBorder(src: NDArray, top: int, bot: int, left: int, right: int, *args: Any,
                   **kwargs: Any) -> NDArray:
    """An image with a border.

    Args:
        top, bot, left, right: how wide.
        type: 0 one colour (`values`), 1 the outermost pixels repeated, 2 mirrored, 3 wrapped
            around, 4 mirrored without repeating the outermost.
        value, values: the colour, as one number or one for each channel.

    Shapes: src (H, W, C) -> (top + H + bot, left + W + right, C).
    """
    return nd._cvcopyMakeBorder(src, top, bot, left, right, *args, **kwargs)  # type: ignore[attr-defined, no-any-return]


def _get_interp_method(interp: int, sizes: Sequence[int] = ()) -> int:
    """0 to 4 for a method as `resize_short` takes it; sizes: old and new height and width."""
    if interp == 9:
        if not sizes:
            return 2
        old_height, old_width, height, width = sizes
        if height > old_height and width > old_width:
            return 2
        return 3 if height < old_height and width < old_width else 1
    if interp == 10:
        return random.randint(0, 4)
    if interp not in range(5):
        raise ArgumentValueError(f"interp: expected 0 to 4, 9 or 10, got {interp}")
    return interp


def _sides(who: str, src: NDArray) -> tuple[int, int]:
    """Height and width of an image."""
    if src.ndim != 3:
        raise ArgumentValueError(f"{who}: expected an image (height, width, channels), "
                                 f"got {src.shape}")
    height, width, _ = src.shape
    return height, width


# -- sizes -----------------------------------------------------------------------------------------


def scale_down(src_size: Sequence[int], size: Sequence[int]) -> tuple[int, int]:
    """`size` (width, height), made smaller until it fits into `src_size`; its ratio stays.

    >>> scale_down((640, 480), (720, 120))
    (640, 106)
    """
    width, height = map(float, size)
    if src_size[1] < height:
        width, height = width * src_size[1] / height, src_size[1]
    if src_size[0] < width:
        width, height = src_size[0], height * src_size[0] / width
    return int(width), int(height)


def resize_short(src: NDArray, size: int, interp: int = 2) -> NDArray:
    """An image whose shorter side is `size`; the other one follows.

    Args:
        interp: 0 nearest, 1 bilinear, 2 bicubic, 3 area, 4 Lanczos, 9 bicubic to enlarge and area
            to shrink, 10 any of them at random.

    Shapes: src (H, W, C) -> (h, w, C) with min(h, w) = size.

    >>> import minigluon as mx
    >>> resize_short(mx.nd.zeros((10, 14, 3)), 5).shape
    (5, 7, 3)
    """
    height, width = _sides("resize_short", src)
    if height > width:
        height, width = size * height // width, size
    else:
        height, width = size, size * width // height
    return imresize(src, width, height, interp)


# -- cutting ---------------------------------------------------------------------------------------


def fixed_crop(src: NDArray, x0: int, y0: int, w: int, h: int, size: Sequence[int] | None = None,
               interp: int = 2) -> NDArray:
    """A rectangle of an image, resized if `size` (width, height) says so.

    Args:
        x0, y0: its left upper corner. w, h: its sizes; what lies outside is left out.

    Shapes: src (H, W, C) -> (h, w, C) or (size[1], size[0], C).
    """
    cut = src[y0: y0 + h, x0: x0 + w]
    if size is not None and (w, h) != tuple(size):
        return imresize(cut, size[0], size[1], interp)
    return cut.copy()


def _pair(size: Any) -> tuple[int, int]:
    if not isinstance(size, (tuple, list)) or len(size) != 2:
        raise ArgumentError(f"size: expected (width, height), got {size!r}")
    return int(size[0]), int(size[1])


def center_crop(src: NDArray, size: Any, interp: int = 2) -> tuple[NDArray, Box]:
    """The middle of an image, and where it was cut: (x, y, width, height).

    Args:
        size: (width, height); of a smaller image as much as there is is taken and enlarged.

    Shapes: src (H, W, C) -> (size[1], size[0], C).

    >>> import minigluon as mx
    >>> cut, place = center_crop(mx.nd.zeros((10, 14, 3)), (6, 4))
    >>> cut.shape, place
    ((4, 6, 3), (4, 3, 6, 4))
    """
    size = _pair(size)
    height, width = _sides("center_crop", src)
    w, h = scale_down((width, height), size)
    x, y = (width - w) // 2, (height - h) // 2
    return fixed_crop(src, x, y, w, h, size, interp), (x, y, w, h)


def random_crop(src: NDArray, size: Any, interp: int = 2) -> tuple[NDArray, Box]:
    """A rectangle at a random place, and where it was cut: (x, y, width, height).

    Args:
        size: (width, height); of a smaller image as much as there is is taken and enlarged.

    Shapes: src (H, W, C) -> (size[1], size[0], C).
    """
    size = _pair(size)
    height, width = _sides("random_crop", src)
    w, h = scale_down((width, height), size)
    x, y = random.randint(0, width - w), random.randint(0, height - h)
    return fixed_crop(src, x, y, w, h, size, interp), (x, y, w, h)


def random_size_crop(src: NDArray, size: Any, area: float | Sequence[float],
                     ratio: Sequence[float], interp: int = 2, **kwargs: Any
                     ) -> tuple[NDArray, Box]:
    """A rectangle of random size and shape, resized, and where it was cut: (x, y, width, height).

    Args:
        size: (width, height) of the result.
        area: (smallest, largest) share of the image; one number is the smallest, up to 1.
        ratio: (smallest, largest) width divided by height.

    Shapes: src (H, W, C) -> (size[1], size[0], C).
    """
    if "min_area" in kwargs:  # an older name
        area = kwargs.pop("min_area")
    if kwargs:
        raise ArgumentError(f"random_size_crop: unknown arguments {sorted(kwargs)}")
    size = _pair(size)
    height, width = _sides("random_size_crop", src)
    low, high = (area, 1.0) if isinstance(area, (int, float)) else area
    for _ in range(10):
        share = random.uniform(low, high) * height * width
        shape = math.exp(random.uniform(math.log(ratio[0]), math.log(ratio[1])))
        w, h = round(math.sqrt(share * shape)), round(math.sqrt(share / shape))
        if 0 < w <= width and 0 < h <= height:
            x, y = random.randint(0, width - w), random.randint(0, height - h)
            return fixed_crop(src, x, y, w, h, size, interp), (x, y, w, h)
    return center_crop(src, size, interp)  # none of ten fits


def color_normalize(src: NDArray, mean: Any, std: Any = None) -> NDArray:
    """``(src - mean) / std``; either may be None.

    Shapes: src (H, W, C), mean and std (C,) or numbers -> (H, W, C).
    """
    if mean is not None:
        src = src - mean
    return src if std is None else src / std
