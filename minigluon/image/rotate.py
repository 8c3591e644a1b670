"""Turning images by any angle."""
from __future__ import annotations

import random
from typing import Any

import numpy as np

from ..base import ArgumentError, ArgumentValueError, DTypeError, ShapeError
from ..ndarray import NDArray, array

__all__ = ["imrotate", "random_rotate"]

Host = np.ndarray[Any, Any]


def imrotate(src: NDArray, rotation_degrees: Any, zoom_in: bool = False,
             zoom_out: bool = False) -> NDArray:
    """Images turned about their middle, against the clock; what comes in at the corners is 0.

    Args:
        src: one image or a batch, float32.
        rotation_degrees: the angle; for a batch also an NDArray with one for each image.
        zoom_in: enlarge so that nothing but the image is seen.
        zoom_out: make smaller so that all of the image is seen.

    Shapes: src (C, H, W) or (N, C, H, W), unchanged.

    >>> import minigluon as mx
    >>> imrotate(mx.nd.array([[[1, 2], [3, 4]]]), 90).asnumpy().round(5).tolist()
    [[[2.0, 4.0], [1.0, 3.0]]]
    """
    if zoom_in and zoom_out:
        raise ArgumentValueError("imrotate: zoom_in and zoom_out cannot be both True")
    if not isinstance(src, NDArray) or src.dtype != np.float32:
        kind = src.dtype if hasattr(src, "dtype") else type(src)
        name = getattr(kind, "__name__", kind)
        raise DTypeError(f"imrotate: expected a float32 NDArray, got {name}; cast the image")
    if src.ndim not in (3, 4):
        raise ShapeError(f"imrotate: expected (C, H, W) or (N, C, H, W), got {src.shape}")
    host = src.asnumpy()
    images = host if src.ndim == 4 else host[np.newaxis]
    angles = _angles(rotation_degrees, src.ndim == 3, len(images))
    turned = np.stack([_turned(image, angle, zoom_in, zoom_out)
                       for image, angle in zip(images, angles, strict=True)])
    return array(turned.reshape(src.shape), ctx=src.context, dtype="float32")


def random_rotate(src: NDArray, angle_limits: Any, zoom_in: bool = False,
                  zoom_out: bool = False) -> NDArray:
    """Images turned by random angles, each of a batch by its own.

    Args:
        src: as for `imrotate`. angle_limits: (smallest, largest) angle in degrees.
        zoom_in, zoom_out: as for `imrotate`.
    """
    low, high = angle_limits
    if src.ndim == 3:
        return imrotate(src, random.uniform(low, high), zoom_in, zoom_out)
    angles = array([random.uniform(low, high) for _ in range(len(src))])
    return imrotate(src, angles, zoom_in, zoom_out)


def _angles(given: Any, single: bool, count: int) -> list[float]:
    if isinstance(given, (int, float, np.number)):
        return [float(given)] * count
    if single:
        raise ArgumentError("imrotate: rotation_degrees: expected a number for a single image, "
                            f"got {type(given).__name__}")
    angles = np.asarray(given.asnumpy() if isinstance(given, NDArray) else given, dtype=float)
    if angles.shape != (count,):
        raise ArgumentValueError(f"imrotate: rotation_degrees: expected one angle for each of "
                                 f"{count} images, got shape {angles.shape}")
    return angles.tolist()


def _turned(image: Host, degrees: float, zoom_in: bool, zoom_out: bool) -> Host:
    height, width = image.shape[1:]
    angle = np.deg2rad(degrees)
    sine, cosine = np.sin(angle), np.cos(angle)
    middle_x, middle_y = (width - 1) / 2, (height - 1) / 2
    y, x = np.mgrid[:height, :width]
    x, y = x - middle_x, y - middle_y
    from_x, from_y = cosine * x - sine * y, sine * x + cosine * y
    if zoom_in or zoom_out:
        reach = abs(cosine) + abs(sine) * max(width / height, height / width)
        scale = 1 / reach if zoom_in else reach
        from_x, from_y = from_x * scale, from_y * scale
    return _sampled(image, from_y + middle_y, from_x + middle_x)


def _sampled(image: Host, y: Host, x: Host) -> Host:
    """Values between pixels, by their four neighbours; 0 outside."""
    framed = np.pad(image, ((0, 0), (1, 1), (1, 1)))
    height, width = framed.shape[1:]
    y, x = np.clip(y + 1, 0, height - 1), np.clip(x + 1, 0, width - 1)
    top = np.minimum(np.floor(y).astype(int), height - 2)
    left = np.minimum(np.floor(x).astype(int), width - 2)
    down, right = (y - top).astype(np.float32), (x - left).astype(np.float32)
    upper = framed[:, top, left] * (1 - right) + framed[:, top, left + 1] * right
    lower = framed[:, top + 1, left] * (1 - right) + framed[:, top + 1, left + 1] * right
    result: Host = upper * (1 - down) + lower * down
    return result
