"""Convolution: sliding windows times weights, in one to three spatial dimensions.

The bodies copy the windows of a few samples at a time into a matrix whose innermost axis is the
batch, so that copies run over long stretches and one matrix product does the arithmetic.
The two gradients are hidden operators. All three are bilinear and are each other's derivatives,
so a gradient of any order is again one of them.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ...base import ArgumentValueError, ShapeError
from ..attrs import Shape
from ..operator import Attrs, MaybeShape, operator
from ..rules import like_shape, merge_shapes, size_of
from .window import (
    channels_first,
    channels_last,
    per_axis,
    reach,
    spatial_rank,
    window_slices,
)

__all__ = ["conv_grad_data", "conv_grad_weight", "convolution"]

_CHUNK = 1 << 19  # elements of the window matrix built at once: it should stay in the cache


@dataclass(frozen=True)
class _Geometry:
    """The attributes of one convolution, complete for each axis."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilate: tuple[int, ...]
    pad: tuple[int, ...]
    groups: int
    last: bool

    def out_size(self, size: tuple[int, ...]) -> tuple[int, ...]:
        """Spatial output size; 0 stays 0 (unknown), a window that does not fit is negative."""
        return tuple(
            (n + 2 * p - reach(k, d)) // s + 1 if n else 0
            for n, k, s, d, p in zip(size, self.kernel, self.stride, self.dilate, self.pad,
                                     strict=True)
        )

    @property
    def pointwise(self) -> bool:
        """A 1x1 kernel that meets each element once: the data is its own window matrix."""
        one = (1,) * len(self.kernel)
        return self.kernel == one and self.stride == one and not any(self.pad)


@lru_cache(maxsize=512)
def _geometry(kernel: Shape, stride: Shape, dilate: Shape, pad: Shape, groups: int,
              layout: str | None) -> _Geometry:
    op = "Convolution"
    rank = spatial_rank(op, kernel)
    return _Geometry(
        kernel,
        per_axis(op, "stride", stride, rank, 1),
        per_axis(op, "dilate", dilate, rank, 1),
        per_axis(op, "pad", pad, rank, 0),
        groups,
        channels_last(op, layout, rank),
    )


def _geometry_of(attrs: Attrs) -> _Geometry:
    return _geometry(attrs["kernel"], attrs["stride"], attrs["dilate"], attrs["pad"],
                     attrs["num_group"], attrs["layout"])


# -- shapes -------------------------------------------------------------------------------------


def _conv_shape(shapes: list[MaybeShape], attrs: Attrs) -> tuple[list[MaybeShape],
                                                                 list[MaybeShape]]:
    filters, groups = attrs["num_filter"], attrs["num_group"]
    geometry = _geometry_of(attrs)
    if groups < 1 or filters < 1 or filters % groups:
        raise ArgumentValueError(
            f"num_filter: expected a positive multiple of num_group={groups}, got {filters}"
        )
    rank, last = len(geometry.kernel), geometry.last
    data, weight = channels_first(shapes[0], last), channels_first(shapes[1], last)
    if data is not None and len(data) != rank + 2:
        raise ShapeError(f"expected data of {rank + 2} dimensions for kernel {geometry.kernel}, "
                         f"got {shapes[0]}")
    channels = data[1] if data else 0
    if channels % groups:
        raise ShapeError(f"data {shapes[0]} has {channels} channels, which num_group={groups} "
                         f"does not divide")
    wanted = (filters, channels // groups, *geometry.kernel)
    weight = merge_shapes(wanted, weight, "shapes of weight (needed and given)")
    assert weight is not None
    data = merge_shapes(data, (0, weight[1] * groups, *(0,) * rank), "data")
    assert data is not None
    made = [_order(data, last), _order(weight, last)]
    if not attrs["no_bias"]:
        made.append(merge_shapes((filters,), shapes[2] if len(shapes) > 2 else None,
                                 "shapes of bias (needed and given)"))
    return made, [_order((data[0], filters, *_out_size(data, geometry)), last)]


def _out_size(data: tuple[int, ...], geometry: _Geometry) -> tuple[int, ...]:
    size = geometry.out_size(data[2:])
    if any(n and o < 1 for n, o in zip(data[2:], size, strict=True)):
        need = tuple(reach(k, d) // 2 for k, d in zip(geometry.kernel, geometry.dilate,
                                                      strict=True))
        raise ShapeError(
            f"data {_order(data, geometry.last)} is smaller than kernel {geometry.kernel} with "
            f"pad {geometry.pad} and dilate {geometry.dilate}; use pad={need} or a smaller kernel"
        )
    return size


def _order(shape: MaybeShape, last: bool) -> MaybeShape:
    if shape is None or not last:
        return shape
    return (shape[0], *shape[2:], shape[1])


def _conv_inputs(attrs: Attrs) -> tuple[str, ...]:
    return ("data", "weight") if attrs["no_bias"] else ("data", "weight", "bias")


# -- arithmetic on (N, C, *S) arrays -------------------------------------------------------------


def _first(xp: Any, array: Any, last: bool) -> Any:
    return xp.moveaxis(array, -1, 1) if last else array


def _last(xp: Any, array: Any, last: bool) -> Any:
    return xp.ascontiguousarray(xp.moveaxis(array, 1, -1)) if last else array


def _chunks(batch: int, per_sample: int) -> Iterator[slice]:
    step = max(1, min(batch, _CHUNK // max(1, per_sample)))
    for start in range(0, batch, step):
        yield slice(start, min(start + step, batch))


class _Scratch:
    """Memory for the parts of one call: asked of the system once, not for every part."""

    def __init__(self, xp: Any, dtype: Any) -> None:
        self._xp, self._dtype = xp, dtype
        self._held: dict[str, Any] = {}

    def take(self, name: str, *shape: int) -> Any:
        """An array with arbitrary contents; the last one of this name is then void."""
        size = size_of(shape)
        held = self._held.get(name)
        if held is None or held.size < size:
            held = self._held[name] = self._xp.empty(size, self._dtype)
        return held[:size].reshape(shape)


def _windows(xp: Any, data: Any, geometry: _Geometry, out: tuple[int, ...],
             scratch: _Scratch) -> Any:
    """The window matrix (G, C/G * K, L * N) of a few samples (N, C, *S)."""
    batch, channels = data.shape[:2]
    inner = xp.moveaxis(data, 0, -1)
    if geometry.pointwise:
        return inner.reshape(geometry.groups, channels // geometry.groups, -1)
    if any(geometry.pad):
        size = tuple(n + 2 * p for n, p in zip(data.shape[2:], geometry.pad, strict=True))
        padded = scratch.take("padded", channels, *size, batch)
        padded.fill(0)
        padded[(slice(None), *_interior(data.shape[2:], geometry.pad))] = inner
    else:
        padded = scratch.take("padded", *inner.shape)
        padded[...] = inner
    matrix = scratch.take("windows", channels, *geometry.kernel, *out, batch)
    for position, where in window_slices(geometry.kernel, geometry.stride, geometry.dilate, out):
        matrix[(slice(None), *position)] = padded[(slice(None), *where)]
    return matrix.reshape(geometry.groups, matrix.size // (geometry.groups * size_of(out) * batch),
                          -1)


def _interior(size: tuple[int, ...], pad: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(p, p + n) for n, p in zip(size, pad, strict=True))


def _forward(xp: Any, data: Any, weight: Any, geometry: _Geometry) -> Any:
    batch, channels = data.shape[:2]
    filters, groups = weight.shape[0], geometry.groups
    size = geometry.out_size(data.shape[2:])
    if channels != weight.shape[1] * groups or weight.shape[2:] != geometry.kernel:
        raise ValueError(f"weight {weight.shape} does not fit data {data.shape}")
    if min(size) < 1:
        raise ValueError("the kernel does not fit into the data")
    matrix = weight.reshape(groups, filters // groups, -1)
    if geometry.pointwise and groups == 1:
        flat = xp.matmul(matrix, data.reshape(batch, channels, -1))
        return flat.reshape(batch, filters, *size)
    out = xp.empty((batch, filters, *size), data.dtype)
    flat, scratch = out.reshape(batch, filters * size_of(size)), _Scratch(xp, data.dtype)
    for part in _chunks(batch, channels * size_of(geometry.kernel) * size_of(size)):
        windows = _windows(xp, data[part], geometry, size, scratch)
        product = scratch.take("product", groups, filters // groups, windows.shape[2])
        xp.matmul(matrix, windows, out=product)
        flat[part] = product.reshape(flat.shape[1], -1).T
    return out


def _grad_weight(xp: Any, dy: Any, data: Any, shape: tuple[int, ...],
                 geometry: _Geometry) -> Any:
    groups, batch, size = geometry.groups, data.shape[0], dy.shape[2:]
    total = xp.zeros((groups, shape[0] // groups, size_of(shape[1:])), data.dtype)
    scratch = _Scratch(xp, data.dtype)
    for part in _chunks(batch, data.shape[1] * size_of(geometry.kernel) * size_of(size)):
        windows = _windows(xp, data[part], geometry, size, scratch)
        total += xp.matmul(_batch_last(xp, dy[part], groups, scratch), windows.swapaxes(1, 2))
    return total.reshape(shape)


def _batch_last(xp: Any, dy: Any, groups: int, scratch: _Scratch) -> Any:
    """(N, F, *L) as (G, F/G, L * N)."""
    inner = xp.moveaxis(dy, 0, -1)
    turned = scratch.take("dy", *inner.shape)
    turned[...] = inner
    return turned.reshape(groups, dy.shape[1] // groups, -1)


def _grad_data(xp: Any, dy: Any, weight: Any, shape: tuple[int, ...],
               geometry: _Geometry) -> Any:
    groups, size = geometry.groups, dy.shape[2:]
    batch, channels = shape[:2]
    matrix = weight.reshape(groups, weight.shape[0] // groups, -1).swapaxes(1, 2)
    if geometry.pointwise and groups == 1:
        return xp.matmul(matrix, dy.reshape(batch, dy.shape[1], -1)).reshape(shape)
    out = xp.empty(shape, dy.dtype)
    padded = tuple(n + 2 * p for n, p in zip(shape[2:], geometry.pad, strict=True))
    scratch = _Scratch(xp, dy.dtype)
    for part in _chunks(batch, channels * size_of(geometry.kernel) * size_of(size)):
        turned, count = _batch_last(xp, dy[part], groups, scratch), part.stop - part.start
        columns = scratch.take("columns", groups, matrix.shape[1], turned.shape[2])
        xp.matmul(matrix, turned, out=columns)
        columns = columns.reshape(channels, *geometry.kernel, *size, count)
        summed = scratch.take("summed", channels, *padded, count)
        summed.fill(0)
        for position, where in window_slices(geometry.kernel, geometry.stride, geometry.dilate,
                                             size):
            summed[(slice(None), *where)] += columns[(slice(None), *position)]
        inside = summed[(slice(None), *_interior(shape[2:], geometry.pad))]
        out[part] = xp.moveaxis(inside, -1, 0)
    return out


# -- operators ----------------------------------------------------------------------------------


def _conv_gradient(F: Any, dy: Any, out: Any, data: Any, weight: Any, bias: Any = None,
                   **attrs: Any) -> list[Any]:
    grads = [F._conv_grad_data(dy, weight, data, **attrs),
             F._conv_grad_weight(dy, data, weight, **attrs)]
    if not attrs["no_bias"]:
        axis = -1 if attrs["layout"] in ("NWC", "NHWC", "NDHWC") else 1
        grads.append(F.sum(dy, axis=axis, exclude=True))
    return grads


@operator("Convolution", infer=_conv_shape, gradient=_conv_gradient, inputs=_conv_inputs,
          aliases=("Convolution_v1",))
def convolution(
    xp: Any, data: Any, weight: Any, bias: Any = None, *, kernel: Shape, stride: Shape = (),
    dilate: Shape = (), pad: Shape = (), num_filter: int, num_group: int = 1,
    workspace: int = 1024, no_bias: bool = False, cudnn_tune: str | None = None,
    cudnn_off: bool = False, layout: str | None = None,
) -> Any:
    """Slide `num_filter` kernels over the spatial axes (cross-correlation, as MXNet).

    Args:
        data: the input. weight: the kernels. bias: one number for each filter (unless no_bias).
        kernel, stride, dilate, pad: one number for each spatial axis; pad is added on both sides.
        num_group: input and output channels are split into that many independent groups.
        layout: NCW, NCHW, NCDHW (default) or NWC, NHWC, NDHWC (kernels then (F, *K, C/G)).
        workspace, cudnn_tune, cudnn_off: accepted and ignored.

    Shapes:
        data (N, C, *S), weight (F, C/G, *K), bias (F,) -> (N, F, *T),
        T = floor((S + 2 pad - dilate (K - 1) - 1) / stride) + 1.

    >>> import numpy as np
    >>> x, w = np.ones((1, 1, 4, 4), "float32"), np.ones((1, 1, 3, 3), "float32")
    >>> attrs = convolution.parse({"kernel": (3, 3), "num_filter": 1, "no_bias": True})
    >>> convolution.body(np, x, w, **attrs).shape
    (1, 1, 2, 2)
    """
    geometry = _geometry(kernel, stride, dilate, pad, num_group, layout)
    last = geometry.last
    out = _forward(xp, _first(xp, data, last), _first(xp, weight, last), geometry)
    if bias is not None:
        out += bias.reshape(-1, *(1,) * len(kernel))
    return _last(xp, out, last)


def _plain(attrs: Attrs) -> Attrs:
    return {**attrs, "no_bias": True}


def _grad_data_gradient(F: Any, u: Any, out: Any, dy: Any, weight: Any, data: Any,
                        **attrs: Any) -> list[Any]:
    return [F.Convolution(u, weight, **_plain(attrs)),
            F._conv_grad_weight(dy, u, weight, **attrs), None]


@operator("_conv_grad_data", infer=like_shape(2), gradient=_grad_data_gradient)
def conv_grad_data(
    xp: Any, dy: Any, weight: Any, data: Any, *, kernel: Shape, stride: Shape = (),
    dilate: Shape = (), pad: Shape = (), num_filter: int, num_group: int = 1,
    workspace: int = 1024, no_bias: bool = False, cudnn_tune: str | None = None,
    cudnn_off: bool = False, layout: str | None = None,
) -> Any:
    """Gradient of Convolution for its data, of which only the shape is used."""
    geometry = _geometry(kernel, stride, dilate, pad, num_group, layout)
    last = geometry.last
    shape = _first(xp, data, last).shape
    dx = _grad_data(xp, _first(xp, dy, last), _first(xp, weight, last), shape, geometry)
    return _last(xp, dx, last)


def _grad_weight_gradient(F: Any, u: Any, out: Any, dy: Any, data: Any, weight: Any,
                          **attrs: Any) -> list[Any]:
    return [F.Convolution(data, u, **_plain(attrs)),
            F._conv_grad_data(dy, u, data, **attrs), None]


@operator("_conv_grad_weight", infer=like_shape(2), gradient=_grad_weight_gradient)
def conv_grad_weight(
    xp: Any, dy: Any, data: Any, weight: Any, *, kernel: Shape, stride: Shape = (),
    dilate: Shape = (), pad: Shape = (), num_filter: int, num_group: int = 1,
    workspace: int = 1024, no_bias: bool = False, cudnn_tune: str | None = None,
    cudnn_off: bool = False, layout: str | None = None,
) -> Any:
    """Gradient of Convolution for its weight, of which only the shape is used."""
    geometry = _geometry(kernel, stride, dilate, pad, num_group, layout)
    last = geometry.last
    shape = _first(xp, weight, last).shape
    dw = _grad_weight(xp, _first(xp, dy, last), _first(xp, data, last), shape, geometry)
    return _last(xp, dw, last)
