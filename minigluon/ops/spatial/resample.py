"""Images in another size: interpolated, repeated, or averaged over cells.

All of it is linear and separable: one matrix for the rows, one for the columns. `_resample` applies
such a pair and `_resample_grad` their transposes; each is the other's derivative.
"""
from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from ...base import ArgumentValueError, ShapeError
from ..attrs import Shape
from ..nn.deconv import deconvolution
from ..operator import Attrs, MaybeShape, operator
from ..rules import Shapes, follow_dtype, like_shape, merge_shapes

__all__ = ["image_of"]

Array = Any
Kind = Literal["corners", "halves", "cells", "repeat"]


def image_of(shape: MaybeShape, what: str = "data") -> MaybeShape:
    """The shape, if it may be that of images (N, C, H, W)."""
    if shape is not None and len(shape) != 4:
        raise ShapeError(f"expected {what} of shape (N, C, H, W), got {shape}")
    return shape


# -- the matrices ----------------------------------------------------------------------------------

@lru_cache(maxsize=256)
def _weights(kind: str, size: int, wanted: int) -> np.ndarray[Any, Any]:
    """The matrix (wanted, size) that turns an axis of `size` elements into one of `wanted`."""
    made = np.zeros((wanted, size))
    if kind == "cells":
        for place in range(wanted):
            first, last = place * size // wanted, -(-(place + 1) * size // wanted)
            made[place, first:last] = 1 / (last - first)
        return made
    if kind == "corners":
        points = np.arange(wanted) * ((size - 1) / (wanted - 1) if wanted > 1 else 0.0)
    elif wanted == 1:  # the first pixel, as MXNet
        points = np.zeros(1)
    else:
        points = np.maximum((np.arange(wanted) + 0.5) * size / wanted - 0.5, 0)
    low = np.minimum(points.astype(int), size - 1)
    high = np.minimum(low + 1, size - 1)
    share = points - low
    np.add.at(made, (np.arange(wanted), low), 1 - share)
    np.add.at(made, (np.arange(wanted), high), share)
    return made


def _applied(xp: Any, data: Array, kind: str, size: Sequence[int], back: bool) -> Array:
    """Both matrices (or their transposes) applied to the last two axes, which become `size`."""
    work = data.astype(xp.float32) if data.dtype == xp.float16 else data
    for axis in (-1, -2):
        here, wanted = data.shape[axis], size[axis]
        matrix = _weights(kind, wanted, here).T if back else _weights(kind, here, wanted)
        values = xp.asarray(matrix, dtype=work.dtype)
        work = xp.matmul(work, values.T) if axis == -1 else xp.matmul(values, work)
    return work.astype(data.dtype, copy=False)


def _repeated(xp: Any, data: Array, size: Sequence[int]) -> Array:
    ratio = size[0] // data.shape[2], size[1] // data.shape[3]
    return xp.repeat(xp.repeat(data, ratio[0], axis=2), ratio[1], axis=3)


def _summed(dy: Array, size: Sequence[int]) -> Array:
    """The transpose of `_repeated`."""
    batch, channels, height, width = dy.shape
    cells = (batch, channels, size[0], height // size[0], size[1], width // size[1])
    return dy.reshape(cells).sum(axis=(3, 5), dtype=dy.dtype)


def _forward(xp: Any, data: Array, kind: str, size: Sequence[int]) -> Array:
    if kind == "repeat":
        return _repeated(xp, data, size)
    return _applied(xp, data, kind, size, back=False)


def _backward(xp: Any, dy: Array, kind: str, size: Sequence[int]) -> Array:
    return _summed(dy, size) if kind == "repeat" else _applied(xp, dy, kind, size, back=True)


def _like_size(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data, like = image_of(shapes[0]), image_of(shapes[1], "like")
    if data is None or like is None:
        return shapes, [None]
    return shapes, [(*data[:2], *like[2:])]


@operator("_resample", infer=_like_size, infer_dtype=follow_dtype(),
          gradient=lambda F, dy, out, data, like, kind: [
              F._resample_grad(dy, data, kind=kind), None])
def resample(xp: Any, data: Array, like: Array, *, kind: Kind) -> Array:
    """`data` in the spatial size of `like`."""
    return _forward(xp, data, kind, like.shape[2:])


@operator("_resample_grad", infer=like_shape(1),
          gradient=lambda F, u, out, dy, data, kind: [F._resample(u, dy, kind=kind), None])
def resample_grad(xp: Any, dy: Array, data: Array, *, kind: Kind) -> Array:
    """The transpose of `_resample`: from the size of `dy` back to that of `data`."""
    return _backward(xp, dy, kind, data.shape[2:])


# -- BilinearResize2D ------------------------------------------------------------------------------

Mode = Literal["size", "odd_scale", "like", "to_even_down", "to_even_up", "to_odd_down",
               "to_odd_up"]


def _resized(n: int, wanted: int, scale: float | None, mode: str) -> int:
    """The new length of an axis of `n`; 0 where n is unknown and matters."""
    if mode == "size" and scale is None:
        return wanted
    if not n:
        return 0
    if mode == "size":
        return int(n * scale)  # type: ignore[operator]
    if mode == "odd_scale":
        if scale is None:
            raise ArgumentValueError("mode='odd_scale' needs scale_height and scale_width")
        return int(n * scale) if n % 2 == 0 else int((n - 1) * scale) + 1
    _, kind, way = mode.split("_")
    fits = n % 2 == (0 if kind == "even" else 1)
    return n if fits else n + (1 if way == "up" else -1)


def _bilinear_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data = image_of(shapes[0])
    if data is None:
        return shapes, [None]
    if attrs["mode"] == "like":
        like = image_of(shapes[1], "like") if len(shapes) > 1 else None
        return shapes, [None if like is None else (*data[:2], *like[2:])]
    return shapes, [(*data[:2], *_bilinear_size(data, attrs))]


def _bilinear_size(shape: Sequence[int], attrs: Attrs) -> tuple[int, int]:
    size = tuple(_resized(n, attrs[word], attrs[f"scale_{word}"], attrs["mode"])
                 for n, word in zip(shape[2:], ("height", "width"), strict=True))
    if any(n and new < 1 for n, new in zip(shape[2:], size, strict=True)):
        raise ArgumentValueError(f"expected a size of 1 or more, got {size} for data {shape}")
    return size  # type: ignore[return-value]


def _bilinear_kind(align_corners: bool) -> Kind:
    return "corners" if align_corners else "halves"


def _bilinear_back(F: Any, dy: Any, out: Any, data: Any, like: Any = None, *,
                   align_corners: bool, **_: Any) -> list[Any]:
    grads = [F._resample_grad(dy, data, kind=_bilinear_kind(align_corners))]
    return grads if like is None else [*grads, None]


@operator("_contrib_BilinearResize2D", infer=_bilinear_shape, gradient=_bilinear_back,
          infer_dtype=follow_dtype(fill=True),
          inputs=lambda attrs: ("data", "like") if attrs["mode"] == "like" else ("data",))
def bilinear_resize(
    xp: Any, data: Array, like: Array | None = None, *, height: int = 1, width: int = 1,
    scale_height: float | None = None, scale_width: float | None = None, mode: Mode = "size",
    align_corners: bool = True,
) -> Array:
    """Images in another size, by linear interpolation along both axes.

    Args:
        data: images. like: only with mode='like': an array whose height and width are taken.
        height, width: the new size. scale_height, scale_width: factors instead of a size.
        mode: 'size' as said; 'odd_scale': factors that keep odd sizes odd; 'to_even_down',
            'to_even_up', 'to_odd_down', 'to_odd_up': one pixel less or more where the parity is
            wrong; 'like'.
        align_corners: the corner pixels stay in the corners; else pixels are small squares.

    Shapes: data (N, C, H, W) -> (N, C, height, width).

    >>> import minigluon as mx
    >>> x = mx.nd.array([0, 2]).reshape((1, 1, 1, 2))
    >>> mx.nd.contrib.BilinearResize2D(x, height=1, width=3).asnumpy().tolist()
    [[[[0.0, 1.0, 2.0]]]]
    """
    image_of(data.shape)
    if like is not None and mode == "like":
        size: Sequence[int] = like.shape[2:]
    else:
        size = _bilinear_size(data.shape, {
            "height": height, "width": width, "scale_height": scale_height,
            "scale_width": scale_width, "mode": mode})
    return _forward(xp, data, _bilinear_kind(align_corners), size)


# -- AdaptiveAvgPooling2D --------------------------------------------------------------------------

def _cells(output_size: Shape) -> tuple[int, int]:
    sizes = output_size or (1,)
    if len(sizes) > 2 or min(sizes) < 1:
        raise ArgumentValueError(f"output_size: expected one or two sizes >= 1, got {output_size}")
    return sizes[0], sizes[-1]


def _adaptive_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data = image_of(shapes[0])
    size = _cells(attrs["output_size"])
    return shapes, [None if data is None else (*data[:2], *size)]


@operator("_contrib_AdaptiveAvgPooling2D", infer=_adaptive_shape,
          gradient=lambda F, dy, out, data, output_size: [
              F._resample_grad(dy, data, kind="cells")])
def adaptive_avg_pooling(xp: Any, data: Array, *, output_size: Shape = ()) -> Array:
    """Means over so many cells as the output has pixels, whatever the size of the images.

    Args:
        data: images. output_size: height and width, or one number for both; () means 1.

    Shapes: data (N, C, H, W) -> (N, C, *output_size).

    >>> import minigluon as mx
    >>> x = mx.nd.arange(4).reshape((1, 1, 2, 2))
    >>> mx.nd.contrib.AdaptiveAvgPooling2D(x, output_size=(1, 2)).asnumpy().tolist()
    [[[[1.0, 2.0]]]]
    """
    image_of(data.shape)
    return _forward(xp, data, "cells", _cells(output_size))


# -- UpSampling ------------------------------------------------------------------------------------

def _deconv_attrs(attrs: Attrs) -> Attrs:
    """UpSampling with sample_type='bilinear' is this Deconvolution, one group for each channel."""
    scale = attrs["scale"]
    kernel, pad = 2 * scale - scale % 2, -(-(scale - 1) // 2)
    return deconvolution.parse({
        "kernel": (kernel, kernel), "stride": (scale, scale), "pad": (pad, pad),
        "num_filter": attrs["num_filter"], "num_group": attrs["num_filter"], "no_bias": True})


def _up_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    if attrs["scale"] < 1:
        raise ArgumentValueError(f"scale: expected 1 or more, got {attrs['scale']}")
    if attrs["sample_type"] == "bilinear":
        assert deconvolution.infer is not None
        if len(shapes) != 2:
            raise ShapeError(f"sample_type='bilinear' takes data and weight, got {len(shapes)} "
                             "arrays")
        return deconvolution.infer(shapes, _deconv_attrs(attrs))
    first = image_of(shapes[0])
    if first is None or any(shape is None for shape in shapes):
        return shapes, [None]
    size = tuple(n * attrs["scale"] for n in first[2:])
    channels = 0
    for shape in shapes:
        assert shape is not None
        image_of(shape)
        if any(n and wanted % n for n, wanted in zip(shape[2:], size, strict=True)):
            raise ShapeError(f"expected inputs whose size divides {size}, got {shape}")
        merge_shapes(first[:1], shape[:1], "batch sizes")
        if attrs["multi_input_mode"] == "sum":
            merge_shapes(first[:2], shape[:2], "channels to sum")
        channels += shape[1]
    if attrs["multi_input_mode"] == "sum":
        channels = first[1]
    elif any(shape is not None and not shape[1] for shape in shapes):
        channels = 0
    return shapes, [(first[0], channels, *size)]


def _up_back(F: Any, dy: Any, out: Any, *data: Any, multi_input_mode: str,
             **attrs: Any) -> list[Any]:
    if attrs["sample_type"] == "bilinear":
        assert deconvolution.gradient is not None
        return list(deconvolution.gradient(F, dy, out, *data, **_deconv_attrs(attrs)))
    if len(data) == 1:
        return [F._resample_grad(dy, data[0], kind="repeat")]
    return list(F._upsampling_grad(dy, *data, multi_input_mode=multi_input_mode,
                                   count=len(data)))


@operator("UpSampling", infer=_up_shape, gradient=_up_back,
          inputs=lambda attrs: ("data", "weight") if attrs["sample_type"] == "bilinear"
          else ("data",))
def upsampling(
    xp: Any, *data: Array, scale: int, num_filter: int = 0,
    sample_type: Literal["nearest", "bilinear"],
    multi_input_mode: Literal["concat", "sum"] = "concat", workspace: int = 512,
) -> Array:
    """Images `scale` times as large: pixels repeated, or a Deconvolution with a given kernel.

    Args:
        data: with sample_type='nearest' any number of images, all brought to `scale` times the
            size of the first; with 'bilinear' the images and a weight (C, 1, K, K),
            K = 2 scale - scale % 2.
        num_filter: the number of channels; only for 'bilinear'.
        multi_input_mode: the results are put together along the channels, or added.
        workspace: accepted and ignored.

    Shapes: data (N, C, H, W) -> (N, C, scale H, scale W).

    >>> import minigluon as mx
    >>> x = mx.nd.array([1, 2]).reshape((1, 1, 1, 2))
    >>> mx.nd.UpSampling(x, scale=2, sample_type="nearest").asnumpy()[0, 0].tolist()
    [[1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 2.0, 2.0]]
    """
    attrs = {"scale": scale, "num_filter": num_filter, "sample_type": sample_type,
             "multi_input_mode": multi_input_mode}
    _up_shape([array.shape for array in data], attrs)
    if sample_type == "bilinear":
        return deconvolution.body(xp, *data, **_deconv_attrs(attrs))
    size = tuple(n * scale for n in data[0].shape[2:])
    parts = [_repeated(xp, array, size) for array in data]
    if multi_input_mode == "sum":
        return sum(parts[1:], parts[0])
    return xp.concatenate(parts, axis=1)


def _up_grad_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    return shapes, list(shapes[1:])


@operator("_upsampling_grad", infer=_up_grad_shape, num_outputs=lambda attrs: attrs["count"],
          infer_dtype=lambda dtypes, attrs: (dtypes, dtypes[1:]))
def upsampling_grad(xp: Any, *arrays: Array, count: int,
                    multi_input_mode: Literal["concat", "sum"]) -> tuple[Array, ...]:
    """Gradients of UpSampling for several inputs; the first array is the output's gradient."""
    dy, data = arrays[0], arrays[1:]
    start, found = 0, []
    for array in data:
        part = dy
        if multi_input_mode == "concat":
            part = dy[:, start:start + array.shape[1]]
            start += array.shape[1]
        found.append(_summed(part, array.shape[2:]))
    return tuple(found)
