"""Regions of images brought to one size: ROIPooling, ROIAlign, PSROIPooling.

A region is a row (image, x1, y1, x2, y2). The means (ROIAlign, PSROIPooling) are separable: for
each region a matrix for the rows and one for the columns.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...base import ArgumentValueError
from ..attrs import Shape
from ..operator import Attrs, operator
from ..rules import Shapes, follow_dtype, like_shape, merge_shapes
from .resample import image_of

__all__ = ["half_up", "regions_of"]

Array = Any
Matrices = tuple[int, np.ndarray[Any, Any], np.ndarray[Any, Any]]


def half_up(value: float) -> float:
    """Rounded with halves away from zero.

    >>> half_up(0.5), half_up(-0.5), half_up(1.4)
    (1.0, -1.0, 1.0)
    """
    return math.copysign(math.floor(abs(value) + 0.5), value)


def regions_of(rois: Array) -> list[list[float]]:
    """The regions as Python numbers."""
    return [[float(value) for value in row] for row in rois.tolist()]


def _pair(sizes: Shape, what: str = "pooled_size") -> tuple[int, int]:
    if len(sizes) not in (1, 2) or min(sizes) < 1:
        raise ArgumentValueError(f"{what}: expected height and width >= 1, got {sizes}")
    return sizes[0], sizes[-1]


def _roi_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data = image_of(shapes[0])
    rois = merge_shapes(shapes[1], (0, 5), "shapes of rois (given and (R, 5))")
    assert rois is not None
    size = _pair(attrs["pooled_size"])
    return [data, rois], [(rois[0], data[1] if data else 0, *size)]


# -- maxima ----------------------------------------------------------------------------------------

def _bins(first: float, last: float, size: int, count: int) -> Iterator[tuple[int, int]]:
    """Begin and end of each of `count` bins between two pixels, cut to the image."""
    length = max(last - first + 1, 1) / count
    for place in range(count):
        begin = math.floor(place * length) + first
        end = math.ceil((place + 1) * length) + first
        yield int(min(max(begin, 0), size)), int(min(max(end, 0), size))


def _pool_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    ins, outs = _roi_shape(shapes, attrs)
    return ins, outs * 2


@operator("ROIPooling", infer=_pool_shape, num_outputs=2, visible=1,
          output_names=("output", "maxidx"),
          infer_dtype=lambda dtypes, attrs: (dtypes, [dtypes[0], "int32"]),
          gradient=lambda F, dy, out, data, rois, **attrs: [
              F._roi_pooling_grad(dy[0], data, rois, out[1]), None])
def roi_pooling(xp: Any, data: Array, rois: Array, *, pooled_size: Shape, spatial_scale: float
                ) -> tuple[Array, Array]:
    """The maxima in so many bins of each region.

    Args:
        data: feature maps. rois: regions (image, x1, y1, x2, y2), corners included.
        pooled_size: bins (height, width). spatial_scale: feature pixels in one pixel of the
            regions.

    Shapes: data (N, C, H, W), rois (R, 5) -> (R, C, *pooled_size).

    >>> import minigluon as mx
    >>> x = mx.nd.arange(16).reshape((1, 1, 4, 4))
    >>> box = mx.nd.array([[0, 0, 0, 1, 3]])
    >>> mx.nd.ROIPooling(x, box, pooled_size=(2, 1), spatial_scale=1).asnumpy().tolist()
    [[[[5.0], [13.0]]]]
    """
    _roi_shape([data.shape, rois.shape], {"pooled_size": pooled_size})
    size = _pair(pooled_size)
    channels, height, width = data.shape[1:]
    out = xp.zeros((len(rois), channels, *size), data.dtype)
    places = xp.full(out.shape, -1, "int32")
    for at, (image, *box) in enumerate(regions_of(rois)):
        if not 0 <= image < len(data):
            continue
        x1, y1, x2, y2 = (half_up(value * spatial_scale) for value in box)
        for i, (top, bottom) in enumerate(_bins(y1, y2, height, size[0])):
            for j, (left, right) in enumerate(_bins(x1, x2, width, size[1])):
                if top < bottom and left < right:
                    part = data[int(image), :, top:bottom, left:right].reshape(channels, -1)
                    best = part.argmax(axis=1)
                    out[at, :, i, j] = xp.take_along_axis(part, best[:, None], axis=1)[:, 0]
                    places[at, :, i, j] = ((best // (right - left) + top) * width
                                           + best % (right - left) + left)
    return out, places


@operator("_roi_pooling_grad", infer=like_shape(1), infer_dtype=follow_dtype(),
          gradient=lambda F, u, out, dy, data, rois, places: [
              F._roi_pooling_pick(u, rois, places), None, None, None])
def roi_pooling_grad(xp: Any, dy: Array, data: Array, rois: Array, places: Array) -> Array:
    """The gradient of ROIPooling for data: each maximum's goes to its pixel."""
    grad = xp.zeros((*data.shape[:2], data.shape[2] * data.shape[3]), dy.dtype)
    images = rois[:, 0].astype("int64")[:, None, None]
    channels = xp.arange(data.shape[1])[None, :, None]
    flat = places.reshape(*places.shape[:2], -1).astype("int64")
    values = dy.reshape(flat.shape) * (flat >= 0)
    xp.add.at(grad, (xp.clip(images, 0, len(data) - 1), channels, xp.maximum(flat, 0)), values)
    return grad.reshape(data.shape)


@operator("_roi_pooling_pick", infer=like_shape(2), infer_dtype=follow_dtype(),
          gradient=lambda F, dy, out, data, rois, places: [
              F._roi_pooling_grad(dy, data, rois, places), None, None])
def roi_pooling_pick(xp: Any, data: Array, rois: Array, places: Array) -> Array:
    """`data` at the pixels that had the maxima: the transpose of `_roi_pooling_grad`."""
    images = xp.clip(rois[:, 0].astype("int64"), 0, len(data) - 1)
    flat = places.reshape(*places.shape[:2], -1).astype("int64")
    pixels = data.reshape(*data.shape[:2], -1)[images]
    found = xp.take_along_axis(pixels, xp.maximum(flat, 0), axis=2)
    return (found * (flat >= 0)).astype(data.dtype, copy=False).reshape(places.shape)


# -- means -----------------------------------------------------------------------------------------

def _point_weights(points: np.ndarray[Any, Any], size: int) -> np.ndarray[Any, Any]:
    """Interpolation at points (bins, samples), averaged over the samples: (bins, size)."""
    made = np.zeros((len(points), size))
    valid = (points >= -1) & (points <= size)
    where = np.clip(points, 0, size - 1)
    low = where.astype(int)
    share = where - low
    rows = np.broadcast_to(np.arange(len(points))[:, None], points.shape)
    np.add.at(made, (rows, low), (1 - share) * valid)
    np.add.at(made, (rows, np.minimum(low + 1, size - 1)), share * valid)
    made /= points.shape[1]
    return made


def _aligned(first: float, last: float, size: int, count: int, ratio: int, aligned: bool
             ) -> np.ndarray[Any, Any]:
    """The matrix of one axis of ROIAlign."""
    length = last - first if aligned else max(last - first, 1.0)
    step = length / count
    samples = ratio if ratio > 0 else max(math.ceil(length / count), 1)
    inner = (np.arange(samples) + 0.5) * step / samples
    return _point_weights(first + np.arange(count)[:, None] * step + inner[None, :], size)


def _align_matrices(data: tuple[int, ...], rois: Array, attrs: Attrs) -> Iterator[Matrices]:
    shift = 0.5 if attrs["aligned"] else 0.0
    rows, columns = _pair(attrs["pooled_size"])
    for image, *box in regions_of(rois):
        x1, y1, x2, y2 = (value * attrs["spatial_scale"] - shift for value in box)
        rest = attrs["sample_ratio"], attrs["aligned"]
        yield (int(image) if 0 <= image < data[0] else -1,
               _aligned(y1, y2, data[2], rows, *rest), _aligned(x1, x2, data[3], columns, *rest))


def _bin_weights(first: float, last: float, size: int, count: int) -> np.ndarray[Any, Any]:
    """The matrix of one axis of PSROIPooling: means over the pixels of each bin."""
    made = np.zeros((count, size))
    length = max(last - first, 0.1) / count
    for place in range(count):
        begin = min(max(math.floor(place * length + first), 0), size)
        end = min(max(math.ceil((place + 1) * length + first), 0), size)
        if begin < end:
            made[place, begin:end] = 1 / (end - begin)
    return made


def _bin_matrices(data: tuple[int, ...], rois: Array, attrs: Attrs) -> Iterator[Matrices]:
    size, scale = attrs["pooled_size"], attrs["spatial_scale"]
    for image, x1, y1, x2, y2 in regions_of(rois):
        yield (int(image) if 0 <= image < data[0] else -1,
               _bin_weights(half_up(y1) * scale, half_up(y2 + 1) * scale, data[2], size),
               _bin_weights(half_up(x1) * scale, half_up(x2 + 1) * scale, data[3], size))


def _groups(xp: Any, count: int, groups: int) -> Array:
    """The group of channels that each of `count` bins reads."""
    return xp.minimum(xp.arange(count) * groups // count, groups - 1)


def _means(xp: Any, data: Array, matrices: Iterator[Matrices], group: int) -> Array:
    """The means in the bins of each region; with groups, each bin reads channels of its own."""
    found = []
    for image, rows, columns in matrices:
        left, right = (xp.asarray(matrix, dtype=data.dtype) for matrix in (rows, columns))
        maps = data[max(image, 0)] * data.dtype.type(image >= 0)
        if group:
            maps = maps.reshape(-1, group, group, *maps.shape[1:])
            maps = maps[:, _groups(xp, len(rows), group)][:, :, _groups(xp, len(columns), group)]
            found.append(xp.einsum("pi,cpqij,qj->cpq", left, maps, right))
        else:
            found.append(xp.matmul(xp.matmul(left, maps), right.T))
    if not found:
        return None
    return xp.stack(found).astype(data.dtype, copy=False)


def _spread(xp: Any, dy: Array, data: Array, matrices: Iterator[Matrices], group: int) -> Array:
    """The transpose of `_means`."""
    grad = xp.zeros(data.shape, dy.dtype)
    for part, (image, rows, columns) in zip(dy, matrices, strict=True):
        if image < 0:
            continue
        left, right = (xp.asarray(matrix, dtype=dy.dtype) for matrix in (rows, columns))
        if group:
            whole = xp.einsum("pi,cpq,qj->cpqij", left, part, right)
            target = grad[image].reshape(-1, group, group, *data.shape[2:])
            i, j = _groups(xp, len(rows), group), _groups(xp, len(columns), group)
            xp.add.at(target, (slice(None), i[:, None], j[None, :]), whole)
        else:
            grad[image] += xp.matmul(xp.matmul(left.T, part), right)
    return grad


def _align_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    ins, outs = _roi_shape(shapes, attrs)
    if attrs["position_sensitive"] and outs[0] is not None and outs[0][1]:
        rows, columns = _pair(attrs["pooled_size"])
        if rows != columns or outs[0][1] % (rows * columns):
            raise ArgumentValueError(
                f"position_sensitive: expected a square pooled_size whose area divides the "
                f"channels, got {attrs['pooled_size']} for {outs[0][1]} channels")
        outs = [(outs[0][0], outs[0][1] // (rows * columns), rows, columns)]
    return ins, outs


def _empty(xp: Any, infer: Callable[..., Any], data: Array, rois: Array, attrs: Attrs) -> Array:
    return xp.zeros((len(rois), *infer([data.shape, rois.shape], attrs)[1][0][1:]), data.dtype)


@operator("_contrib_ROIAlign", infer=_align_shape,
          gradient=lambda F, dy, out, data, rois, **attrs: [
              F._roi_align_grad(dy, data, rois, **attrs), None])
def roi_align(
    xp: Any, data: Array, rois: Array, *, pooled_size: Shape, spatial_scale: float,
    sample_ratio: int = -1, position_sensitive: bool = False, aligned: bool = False,
) -> Array:
    """Means of interpolated points in so many bins of each region, nothing rounded.

    Args:
        data: feature maps. rois: regions (image, x1, y1, x2, y2); a negative image gives zeros.
        pooled_size: bins (height, width). spatial_scale: feature pixels in one pixel of the
            regions. sample_ratio: points along each side of a bin; -1: as many as it has pixels.
        position_sensitive: each bin reads channels of its own.
        aligned: pixels have their middle at half numbers.

    Shapes: data (N, C, H, W), rois (R, 5) -> (R, C, *pooled_size).

    >>> import minigluon as mx
    >>> x = mx.nd.arange(4).reshape((1, 1, 2, 2))
    >>> mx.nd.contrib.ROIAlign(x, mx.nd.array([[0, 0, 0, 1, 1]]), pooled_size=(1, 1),
    ...                        spatial_scale=1).item()
    1.5
    """
    attrs = {"pooled_size": pooled_size, "spatial_scale": spatial_scale,
             "sample_ratio": sample_ratio, "aligned": aligned,
             "position_sensitive": position_sensitive}
    _align_shape([data.shape, rois.shape], attrs)
    group = pooled_size[0] if position_sensitive else 0
    found = _means(xp, data, _align_matrices(data.shape, rois, attrs), group)
    return _empty(xp, _align_shape, data, rois, attrs) if found is None else found


def _like_data(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    return shapes, [shapes[1]]


@operator("_roi_align_grad", infer=_like_data,
          gradient=lambda F, u, out, dy, data, rois, **attrs: [
              F._contrib_ROIAlign(u, rois, **attrs), None, None])
def roi_align_grad(
    xp: Any, dy: Array, data: Array, rois: Array, *, pooled_size: Shape, spatial_scale: float,
    sample_ratio: int = -1, position_sensitive: bool = False, aligned: bool = False,
) -> Array:
    """The gradient of ROIAlign for data, of which only the shape is used."""
    attrs = {"pooled_size": pooled_size, "spatial_scale": spatial_scale,
             "sample_ratio": sample_ratio, "aligned": aligned}
    group = pooled_size[0] if position_sensitive else 0
    return _spread(xp, dy, data, _align_matrices(data.shape, rois, attrs), group)


def _psroi_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data = image_of(shapes[0])
    size, group = attrs["pooled_size"], attrs["group_size"] or attrs["pooled_size"]
    rois = merge_shapes(shapes[1], (0, 5), "shapes of rois (given and (R, 5))")
    data = merge_shapes(data, (0, attrs["output_dim"] * group * group, 0, 0),
                        "data (given, and output_dim group_size^2 channels)")
    assert rois is not None
    return [data, rois], [(rois[0], attrs["output_dim"], size, size)]


@operator("_contrib_PSROIPooling", infer=_psroi_shape,
          gradient=lambda F, dy, out, data, rois, **attrs: [
              F._psroi_pooling_grad(dy, data, rois, **attrs), None])
def psroi_pooling(xp: Any, data: Array, rois: Array, *, spatial_scale: float, output_dim: int,
                  pooled_size: int, group_size: int = 0) -> Array:
    """Means in the bins of each region, each bin reading channels of its own (R-FCN).

    Args:
        data: feature maps with output_dim group_size^2 channels.
        rois: regions (image, x1, y1, x2, y2). spatial_scale: feature pixels in one of theirs.
        output_dim: channels of the result. pooled_size: bins along each side.
        group_size: groups along each side; 0 means pooled_size.

    Shapes: data (N, C, H, W), rois (R, 5) -> (R, output_dim, pooled_size, pooled_size).

    >>> import minigluon as mx
    >>> x = mx.nd.arange(4).reshape((1, 4, 1, 1))
    >>> mx.nd.contrib.PSROIPooling(x, mx.nd.zeros((1, 5)), spatial_scale=1, output_dim=1,
    ...                            pooled_size=2).asnumpy().tolist()
    [[[[0.0, 1.0], [2.0, 3.0]]]]
    """
    attrs = {"spatial_scale": spatial_scale, "output_dim": output_dim,
             "pooled_size": pooled_size, "group_size": group_size}
    _psroi_shape([data.shape, rois.shape], attrs)
    found = _means(xp, data, _bin_matrices(data.shape, rois, attrs), group_size or pooled_size)
    return _empty(xp, _psroi_shape, data, rois, attrs) if found is None else found


@operator("_psroi_pooling_grad", infer=_like_data,
          gradient=lambda F, u, out, dy, data, rois, **attrs: [
              F._contrib_PSROIPooling(u, rois, **attrs), None, None])
def psroi_pooling_grad(xp: Any, dy: Array, data: Array, rois: Array, *, spatial_scale: float,
                       output_dim: int, pooled_size: int, group_size: int = 0) -> Array:
    """The gradient of PSROIPooling for data, of which only the shape is used."""
    attrs = {"spatial_scale": spatial_scale, "pooled_size": pooled_size}
    return _spread(xp, dy, data, _bin_matrices(data.shape, rois, attrs),
                   group_size or pooled_size)
