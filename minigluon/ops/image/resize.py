"""Resizing images."""
from __future__ import annotations

from typing import Any

from ...base import ArgumentValueError, DTypeError, ShapeError
from ..attrs import Shape
from ..operator import Attrs, MaybeShape, operator
from ..rules import same_dtype
from .taps import AREA, CUBIC, LANCZOS, LINEAR, NEAREST, resample

__all__: list[str] = []

Shapes = list[MaybeShape]

_METHODS = (NEAREST, LINEAR, CUBIC, AREA, LANCZOS)
_KINDS = ("uint8", "float16", "float32", "float64")


def _target(size: Shape, keep_ratio: bool, height: int, width: int) -> tuple[int, int]:
    """(height, width) of the result."""
    if len(size) not in (1, 2) or min(size) <= 0:
        raise ArgumentValueError(
            f"size: expected a positive number or (width, height), got {tuple(size)}"
        )
    if len(size) == 2:
        return size[1], size[0]
    if not keep_ratio:
        return size[0], size[0]
    if height > width:  # the shorter side becomes `size`
        return height * size[0] // width, size[0]
    return size[0], width * size[0] // height


def _resized_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    shape = shapes[0]
    if shape is None:
        return shapes, [None]
    if len(shape) not in (3, 4):
        raise ShapeError(
            f"expected an image (height, width, channels) or a batch (N, height, width, channels), "
            f"got {shape}"
        )
    if attrs["keep_ratio"] and len(attrs["size"]) == 1 and 0 in shape[-3:-1]:
        return shapes, [(*shape[:-3], 0, 0, shape[-1])]
    size = _target(attrs["size"], attrs["keep_ratio"], *shape[-3:-1])
    return shapes, [(*shape[:-3], *size, shape[-1])]


def _resized_dtype(dtypes: list[Any], attrs: Attrs) -> tuple[list[Any], list[Any]]:
    if dtypes[0] is not None and dtypes[0] not in _KINDS:
        raise DTypeError(f"expected uint8 or floats, got {dtypes[0]}; cast the image")
    return same_dtype(dtypes, attrs)


@operator("_image_resize", infer=_resized_shape, infer_dtype=_resized_dtype)
def resize(xp: Any, data: Any, *, size: Shape = (), keep_ratio: bool = False,
           interp: int = LINEAR) -> Any:
    """Images of another size.

    Args:
        size: (width, height), or one number for both.
        keep_ratio: with one number: the shorter side becomes it, the other one follows.
        interp: 0 nearest, 1 bilinear, 2 bicubic, 3 area, 4 Lanczos over 8 x 8; as OpenCV does it.

    Shapes: data (H, W, C) -> (height, width, C), (N, H, W, C) -> (N, height, width, C).

    >>> import numpy as np
    >>> resize.body(np, np.arange(4.0).reshape(2, 2, 1), size=(4, 1))[..., 0].tolist()
    [[1.0, 1.25, 1.75, 2.0]]
    """
    _resized_shape([data.shape], {"size": size, "keep_ratio": keep_ratio})
    _resized_dtype([data.dtype.name], {})
    if interp not in _METHODS:
        raise ArgumentValueError(
            f"interp: expected one of {_METHODS} (nearest, bilinear, bicubic, area, Lanczos), "
            f"got {interp}"
        )
    return resample(xp, data, *_target(size, keep_ratio, *data.shape[-3:-1]), interp)
