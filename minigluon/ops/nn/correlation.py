"""The arithmetic of convolution on (N, C, *S) arrays: forward and its two gradients.

The windows of a few samples at a time are copied into a matrix whose innermost axis is the batch,
so that copies run over long stretches and one matrix product does the arithmetic.
"""
from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from ..attrs import Shape
from ..operator import Attrs
from ..rules import size_of
from .window import channels_last, per_axis, reach, spatial_rank, window_slices

__all__ = ["Geometry", "backward_data", "backward_weight", "forward", "geometry_of", "to_first",
           "to_last"]

_CHUNK = 1 << 19  # elements of the window matrix built at once: it should stay in the cache


class Geometry(NamedTuple):
    """The attributes of one convolution, complete for each axis."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilate: tuple[int, ...]
    pad: tuple[int, ...]
    groups: int
    last: bool  # channels last, in the data
    weight_last: bool  # and in the weight

    def out_size(self, size: tuple[int, ...]) -> tuple[int, ...]:
        """Spatial output size; 0 stays 0 (unknown), a window that does not fit is negative."""
        return tuple(
            (n + 2 * p - reach(k, d)) // s + 1 if n else 0
            for n, k, s, d, p in zip(size, self.kernel, self.stride, self.dilate, self.pad,
                                     strict=True)
        )

    def order(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A (N, C, *S) shape as the layout has it."""
        return (shape[0], *shape[2:], shape[1]) if self.last else shape

    def weight_order(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A (F, C, *K) shape as the layout has it."""
        return (shape[0], *shape[2:], shape[1]) if self.weight_last else shape

    def with_pad(self, pad: tuple[int, ...]) -> Geometry:
        """The same with another padding."""
        return self._replace(pad=pad)

    @property
    def pointwise(self) -> bool:
        """A 1x1 kernel that meets each element once: the data is its own window matrix."""
        one = (1,) * len(self.kernel)
        return self.kernel == one and self.stride == one and not any(self.pad)


@lru_cache(maxsize=512)
def _geometry(op: str, kernel: Shape, stride: Shape, dilate: Shape, pad: Shape, groups: int,
              layout: str | None) -> Geometry:
    rank = spatial_rank(op, kernel)
    # "NHWC/OIHW" is between graphs and kernels: channels last in the data only
    data_layout, _, weight_layout = (layout or "").partition("/")
    last = channels_last(op, data_layout or None, rank)
    return Geometry(
        kernel,
        per_axis(op, "stride", stride, rank, 1),
        per_axis(op, "dilate", dilate, rank, 1),
        per_axis(op, "pad", pad, rank, 0),
        groups,
        last,
        last and not weight_layout,
    )


def geometry_of(op: str, attrs: Attrs) -> Geometry:
    """The geometry that the attributes of `op` describe; ArgumentValueError for a wrong one."""
    return _geometry(op, attrs["kernel"], attrs["stride"], attrs["dilate"], attrs["pad"],
                     attrs["num_group"], attrs["layout"])


def to_first(xp: Any, array: Any, last: bool) -> Any:
    """The array with its channels on axis 1."""
    return xp.moveaxis(array, -1, 1) if last else array


def to_last(xp: Any, array: Any, last: bool) -> Any:
    """An array with channels on axis 1 as the layout has it."""
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


def _windows(xp: Any, data: Any, geometry: Geometry, out: tuple[int, ...],
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


def forward(xp: Any, data: Any, weight: Any, geometry: Geometry) -> Any:
    """Correlate data (N, C, *S) with weight (F, C/G, *K): (N, F, *T)."""
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


def backward_weight(xp: Any, dy: Any, data: Any, shape: tuple[int, ...],
                 geometry: Geometry) -> Any:
    """The gradient of `forward` for its weight of `shape`."""
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


def backward_data(xp: Any, dy: Any, weight: Any, shape: tuple[int, ...],
               geometry: Geometry) -> Any:
    """The gradient of `forward` for its data of `shape`."""
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
