"""Means over rotated regions: ``contrib.RROIAlign`` (J. Ma et al., "Arbitrary-Oriented Scene Text
Detection via Rotation Proposals", 2017)."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base import ShapeError
from ..attrs import Shape
from ..operator import Attrs, operator
from ..rules import Shapes, like_shape, merge_shapes

__all__: list[str] = []

Array = Any
Host = np.ndarray[Any, Any]


def _shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data, size = shapes[0], tuple(attrs["pooled_size"])
    if data is not None and len(data) != 4:
        raise ShapeError(f"expected data of shape (N, C, H, W), got {data}")
    if len(size) != 2 or min(size) < 1:
        raise ShapeError(f"pooled_size: expected two sizes of 1 or more, got {size}")
    rois = merge_shapes(shapes[1], (0, 6), "shapes of rois (given and (R, 6))")
    assert rois is not None
    return [data, rois], [(rois[0], data[1] if data else 0, *size)]


def _taps(points: Host, size: int) -> tuple[Host, Host, Host]:
    """The pixels before and behind points along one axis, and the share of the latter."""
    inside = np.maximum(points, 0)
    low = np.minimum(inside.astype(int), size - 1)
    share = np.where(inside >= size - 1, 0.0, inside - low)
    return low, np.minimum(low + 1, size - 1), share


def _weights(roi: Sequence[float], height: int, width: int, size: Shape, scale: float, ratio: int
             ) -> Host:
    """How much each pixel counts in each bin of a region: (bins, height * width)."""
    middle_x, middle_y, wide, tall = (value * scale for value in roi[1:5])
    turn = math.radians(roi[5])
    wide, tall = max(wide, 1.0), max(tall, 1.0)
    steps = [ratio if ratio > 0 else math.ceil(length / count)
             for length, count in zip((tall, wide), size, strict=True)]
    y, x = ((np.arange(count * step) + 0.5) * length / (count * step) - length / 2
            for length, count, step in zip((tall, wide), size, steps, strict=True))
    rows = y[:, None] * math.cos(turn) - x[None, :] * math.sin(turn) + middle_y
    columns = x[None, :] * math.cos(turn) + y[:, None] * math.sin(turn) + middle_x
    bins = ((np.arange(len(y)) // steps[0])[:, None] * size[1]
            + (np.arange(len(x)) // steps[1])[None, :])
    seen = (rows >= -1) & (rows <= height) & (columns >= -1) & (columns <= width)
    made = np.zeros((size[0] * size[1], height * width))
    top, bottom, down = _taps(rows, height)
    left, right, along = _taps(columns, width)
    for row, by_row in ((top, 1 - down), (bottom, down)):
        for column, by_column in ((left, 1 - along), (right, along)):
            np.add.at(made, (bins, row * width + column), by_row * by_column * seen)
    return made / (steps[0] * steps[1])


@operator("_contrib_RROIAlign", infer=_shape,
          gradient=lambda F, dy, out, data, rois, **attrs: [
              F._rotated_align_grad(dy, data, rois, **attrs), None])
def rotated_align(xp: Any, data: Array, rois: Array, *, pooled_size: Shape, spatial_scale: float,
                  sampling_ratio: int = -1) -> Array:
    """Means of interpolated points in so many bins of each rotated region.

    Args:
        data: feature maps. rois: regions (image, middle x, middle y, width, height, degrees).
        pooled_size: bins (height, width). spatial_scale: feature pixels in one pixel of the
            regions. sampling_ratio: points along each side of a bin; -1: as many as it has pixels.

    Shapes: data (N, C, H, W), rois (R, 6) -> (R, C, *pooled_size).

    >>> import minigluon as mx
    >>> x = mx.nd.arange(4).reshape((1, 1, 2, 2))
    >>> mx.nd.contrib.RROIAlign(x, mx.nd.array([[0, 0.5, 0.5, 1, 1, 90]]), pooled_size=(1, 1),
    ...                         spatial_scale=1).item()
    1.5
    """
    _shape([data.shape, rois.shape], {"pooled_size": pooled_size})
    channels, height, width = data.shape[1:]
    out = xp.zeros((len(rois), channels, pooled_size[0] * pooled_size[1]), data.dtype)
    for place, roi in enumerate(rois.tolist()):
        weights = xp.asarray(_weights(roi, height, width, pooled_size, spatial_scale,
                                      sampling_ratio), data.dtype)
        out[place] = xp.matmul(data[int(roi[0])].reshape(channels, -1), weights.T)
    return out.reshape(len(rois), channels, *pooled_size)


@operator("_rotated_align_grad", infer=like_shape(1),
          gradient=lambda F, u, out, dy, data, rois, **attrs: [
              F._contrib_RROIAlign(u, rois, **attrs), None, None])
def _rotated_align_grad(xp: Any, dy: Array, data: Array, rois: Array, *, pooled_size: Shape,
                        spatial_scale: float, sampling_ratio: int = -1) -> Array:
    """The gradient of RROIAlign for data, of which only the shape is used."""
    channels, height, width = data.shape[1:]
    grad = xp.zeros((len(data), channels, height * width), dy.dtype)
    for part, roi in zip(dy, rois.tolist(), strict=True):
        weights = xp.asarray(_weights(roi, height, width, pooled_size, spatial_scale,
                                      sampling_ratio), dy.dtype)
        grad[int(roi[0])] += xp.matmul(part.reshape(channels, -1), weights)
    return grad.reshape(data.shape)
