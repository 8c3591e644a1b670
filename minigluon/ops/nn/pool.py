"""Pooling: maxima, means, sums or norms of sliding windows, in one to three dimensions.

The gradient `_pool_grad` and its transpose `_pool_pick` are a pair of linear maps (for given data),
each the other's derivative: gradients of any order stay within them.
"""
from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from ...base import ArgumentValueError, NotForThisError, ShapeError
from ..attrs import Shape
from ..operator import Attrs, MaybeShape, operator
from ..rules import like_shape
from .window import channels_first, channels_last, per_axis, spatial_rank, window_slices

__all__ = ["pool_grad", "pool_pick", "pooling"]

Kind = Literal["max", "avg", "sum", "lp"]
Convention = Literal["valid", "full", "same"]


class _Window(NamedTuple):
    """Attributes of one pooling call for data of known shape, complete for each axis."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pad: tuple[int, ...]
    size: tuple[int, ...]
    out: tuple[int, ...]

    @property
    def one(self) -> tuple[int, ...]:
        return (1,) * len(self.kernel)

    @property
    def padded(self) -> tuple[int, ...]:
        """Spatial size of the buffer that all windows fit into."""
        return tuple(
            max(n + 2 * p, s * (o - 1) + k)
            for n, p, s, o, k in zip(self.size, self.pad, self.stride, self.out, self.kernel,
                                     strict=True)
        )

    @property
    def inside(self) -> tuple[slice, ...]:
        """Where the data lies in that buffer."""
        return tuple(slice(p, p + n) for p, n in zip(self.pad, self.size, strict=True))

    @property
    def exact(self) -> bool:
        """The windows need no buffer: they stay inside the data."""
        return self.padded == self.size

    @property
    def apart(self) -> bool:
        """No two windows overlap and together they cover the data."""
        return self.stride == self.kernel and self.size == tuple(
            o * k for o, k in zip(self.out, self.kernel, strict=True))


def _out_size(n: int, kernel: int, stride: int, pad: int, convention: str) -> int:
    if convention == "full":
        return math.ceil((n + 2 * pad - kernel) / stride) + 1
    if convention == "same":
        return math.ceil((n + 2 * pad) / stride)
    return (n + 2 * pad - kernel) // stride + 1


@lru_cache(maxsize=512)
def _window(size: tuple[int, ...], kernel: Shape, stride: Shape, pad: Shape, convention: str,
            global_pool: bool) -> _Window:
    rank = len(size)
    if global_pool:
        return _Window(size, (1,) * rank, (0,) * rank, size, (1,) * rank)
    if spatial_rank("Pooling", kernel) != rank:
        raise ShapeError(f"Pooling: expected data of {len(kernel) + 2} dimensions for kernel "
                         f"{kernel}, got {rank + 2}")
    steps = per_axis("Pooling", "stride", stride, rank, 1)
    margins = per_axis("Pooling", "pad", pad, rank, 0)
    for k, p in zip(kernel, margins, strict=True):
        if p >= k:
            raise ArgumentValueError(f"Pooling: pad: expected less than kernel {kernel}, got {pad}")
    out = tuple(
        _out_size(n, k, s, p, convention) if n else 0
        for n, k, s, p in zip(size, kernel, steps, margins, strict=True)
    )
    if any(n and (o < 1 or n + 2 * p < k)
           for n, o, p, k in zip(size, out, margins, kernel, strict=True)):
        raise ShapeError(
            f"Pooling: data with spatial size {size} is smaller than kernel {kernel} with pad "
            f"{margins}; use a smaller kernel, more pad or global_pool=True"
        )
    return _Window(kernel, steps, margins, size, out)


def _pool_shape(shapes: list[MaybeShape], attrs: Attrs) -> tuple[list[MaybeShape],
                                                                 list[MaybeShape]]:
    data = shapes[0]
    if data is None:
        return shapes, [None]
    rank = len(data) - 2
    if rank not in (1, 2, 3):
        raise ShapeError(f"expected data of 3, 4 or 5 dimensions, got {data}")
    last = channels_last("Pooling", attrs["layout"], rank)
    shape = channels_first(data, last)
    assert shape is not None
    window = _window(shape[2:], *_key(attrs))
    out = (shape[0], shape[1], *window.out)
    return shapes, [(out[0], *out[2:], out[1]) if last else out]


def _key(attrs: Attrs) -> tuple[Any, ...]:
    return (attrs["kernel"], attrs["stride"], attrs["pad"], attrs["pooling_convention"],
            attrs["global_pool"])


# -- arithmetic on (N, C, *S) arrays -------------------------------------------------------------


def _embed(xp: Any, data: Any, window: _Window, fill: Any) -> Any:
    """The data inside a buffer that all windows fit into."""
    if window.exact:
        return data
    buffer = xp.full((*data.shape[:2], *window.padded), fill, data.dtype)
    buffer[(..., *window.inside)] = data
    return buffer


def _parts(window: _Window) -> Any:
    """For each kernel position the slices of the buffer."""
    for _, where in window_slices(window.kernel, window.stride, window.one, window.out):
        yield (..., *where)


def _lowest(xp: Any, dtype: Any) -> Any:
    return xp.finfo(dtype).min if dtype.kind == "f" else xp.iinfo(dtype).min


def _maximum(xp: Any, data: Any, window: _Window) -> Any:
    buffer = _embed(xp, data, window, _lowest(xp, data.dtype))
    out = None
    for where in _parts(window):
        out = buffer[where].copy() if out is None else xp.maximum(out, buffer[where], out=out)
    return out


def _total(xp: Any, data: Any, window: _Window) -> Any:
    buffer = _embed(xp, data, window, 0)
    if window.kernel == window.size and window.out == window.one:
        return buffer.sum(axis=tuple(range(2, data.ndim)), keepdims=True, dtype=data.dtype)
    out = None
    for where in _parts(window):
        if out is None:
            out = buffer[where].copy()
        else:
            out += buffer[where]
    return out


def _spread(xp: Any, dy: Any, window: _Window) -> Any:
    """The transpose of `_total`: each output's value at every element of its window."""
    if window.kernel == window.size and window.out == window.one:
        return xp.broadcast_to(dy, (*dy.shape[:2], *window.size)).copy()
    buffer = xp.zeros((*dy.shape[:2], *window.padded), dy.dtype)
    for where in _parts(window):
        buffer[where] += dy
    return buffer if window.exact else xp.ascontiguousarray(buffer[(..., *window.inside)])


def _counts(xp: Any, window: _Window, include_pad: bool, dtype: Any) -> Any:
    """How many elements each mean is taken over: a number, or one for each window.

    A window of the 'full' convention may lie behind the data; its mean is 0 / 1.
    """
    per_axis_counts = []
    for k, s, p, n, o in zip(window.kernel, window.stride, window.pad, window.size, window.out,
                             strict=True):
        starts = [i * s - p for i in range(o)]
        ends = [min(start + k, n + p) for start in starts]
        if not include_pad:
            starts, ends = [max(start, 0) for start in starts], [min(end, n) for end in ends]
        per_axis_counts.append([max(end - start, 1)
                                for start, end in zip(starts, ends, strict=True)])
    if all(len(set(counts)) == 1 for counts in per_axis_counts):
        return math.prod(counts[0] for counts in per_axis_counts)
    total = xp.ones(window.one, dtype)
    for axis, counts in enumerate(per_axis_counts):
        shape = [1] * len(per_axis_counts)
        shape[axis] = len(counts)
        total = total * xp.asarray(counts, dtype).reshape(shape)
    return total


def _first_maximum(xp: Any, data: Any, out: Any, window: _Window) -> Any:
    """For each kernel position: its slices and where it holds the window's first maximum."""
    buffer = _embed(xp, data, window, _lowest(xp, data.dtype))
    free = None
    for where in _parts(window):
        hit = buffer[where] == out
        if free is None:
            free = ~hit
        else:
            hit &= free
            free ^= hit
        yield where, hit


def _grad_maximum(xp: Any, dy: Any, data: Any, out: Any, window: _Window) -> Any:
    grads = xp.zeros((*data.shape[:2], *window.padded), dy.dtype)
    for where, hit in _first_maximum(xp, data, out, window):
        if window.apart:
            xp.multiply(dy, hit, out=grads[where])
        else:
            grads[where] += dy * hit
    return grads if window.exact else xp.ascontiguousarray(grads[(..., *window.inside)])


def _pick_maximum(xp: Any, u: Any, data: Any, out: Any, window: _Window) -> Any:
    source = _embed(xp, u, window, 0)
    picked = xp.zeros_like(out)
    for where, hit in _first_maximum(xp, data, out, window):
        picked += source[where] * hit
    return picked


# -- operators ----------------------------------------------------------------------------------


def _pool_gradient(F: Any, dy: Any, out: Any, data: Any, **attrs: Any) -> list[Any]:
    return [F._pool_grad(dy, data, out, **attrs)]


@operator("Pooling", infer=_pool_shape, gradient=_pool_gradient, aliases=("Pooling_v1",))
def pooling(
    xp: Any, data: Any, *, kernel: Shape = (), pool_type: Kind = "max", global_pool: bool = False,
    cudnn_off: bool = False, pooling_convention: Convention = "valid", stride: Shape = (),
    pad: Shape = (), p_value: int | None = None, count_include_pad: bool | None = None,
    layout: str | None = None,
) -> Any:
    """Reduce sliding windows over the spatial axes to their max, avg, sum or lp norm.

    Args:
        kernel, stride, pad: one number for each spatial axis; stride 1 and pad 0 where empty.
        global_pool: one window over everything; kernel, stride and pad do not matter.
        pooling_convention: how the output size is rounded: valid down, full up,
            same to ceil((S + 2 pad) / stride).
        p_value: p of pool_type='lp', the p-th root of the sum of x^p: 1, 2 or 3.
        count_include_pad: padding counts in means (default True).
        layout: NCW, NCHW, NCDHW (default) or NWC, NHWC, NDHWC. cudnn_off: ignored.

    Shapes:
        data (N, C, *S) -> (N, C, *T), T = floor((S + 2 pad - kernel) / stride) + 1.

    >>> import numpy as np
    >>> x = np.arange(16, dtype="float32").reshape(1, 1, 4, 4)
    >>> pooling.body(np, x, **pooling.parse({"kernel": (2, 2), "stride": (2, 2)}))[0, 0].tolist()
    [[5.0, 7.0], [13.0, 15.0]]
    """
    rank = data.ndim - 2
    last = channels_last("Pooling", layout, rank)
    inner = xp.moveaxis(data, -1, 1) if last else data
    if 0 in inner.shape[2:]:
        raise ShapeError(f"Pooling: expected spatial axes with elements, got data {data.shape}")
    window = _window(inner.shape[2:], kernel, stride, pad, pooling_convention, global_pool)
    if pool_type == "max":
        out = _maximum(xp, inner, window)
    elif pool_type == "lp":
        out = _root(xp, _total(xp, inner ** _power(p_value), window), _power(p_value))
    else:
        out = _total(xp, inner, window)
        if pool_type == "avg":
            out = _divided(xp, out, _counts(xp, window, count_include_pad is not False, out.dtype))
    out = out.astype(data.dtype, copy=False)
    return xp.ascontiguousarray(xp.moveaxis(out, 1, -1)) if last else out


def _divided(xp: Any, total: Any, counts: Any) -> Any:
    if total.dtype.kind == "f":
        total /= counts
        return total
    return total // counts


def _power(p_value: int | None) -> int:
    if p_value not in (1, 2, 3):
        raise ArgumentValueError(f"Pooling: p_value: expected 1, 2 or 3 for pool_type='lp', "
                                 f"got {p_value}")
    return p_value


def _root(xp: Any, total: Any, power: int) -> Any:
    return total if power == 1 else xp.sqrt(total) if power == 2 else xp.cbrt(total)


def _pool_grad_gradient(F: Any, u: Any, out: Any, dy: Any, data: Any, pooled: Any,
                        **attrs: Any) -> list[Any]:
    return [F._pool_pick(u, data, pooled, **attrs), None, None]


@operator("_pool_grad", infer=like_shape(1), gradient=_pool_grad_gradient)
def pool_grad(
    xp: Any, dy: Any, data: Any, out: Any, *, kernel: Shape = (), pool_type: Kind = "max",
    global_pool: bool = False, cudnn_off: bool = False,
    pooling_convention: Convention = "valid", stride: Shape = (), pad: Shape = (),
    p_value: int | None = None, count_include_pad: bool | None = None, layout: str | None = None,
) -> Any:
    """Gradient of Pooling for its data; of equal maxima in a window the first one gets it."""
    last = channels_last("Pooling", layout, data.ndim - 2)
    if last:
        dy, data, out = (xp.moveaxis(array, -1, 1) for array in (dy, data, out))
    window = _window(data.shape[2:], kernel, stride, pad, pooling_convention, global_pool)
    if pool_type == "max":
        dx = _grad_maximum(xp, dy, data, out, window)
    elif pool_type == "lp":
        power = _power(p_value)
        share = dy / xp.where(out == 0, out.dtype.type(1), out) ** (power - 1)
        dx = _spread(xp, share, window)
        dx *= data ** (power - 1)
    else:
        if pool_type == "avg":
            dy = dy / _counts(xp, window, count_include_pad is not False, dy.dtype)
        dx = _spread(xp, dy, window)
    return xp.ascontiguousarray(xp.moveaxis(dx, 1, -1)) if last else dx


def _pool_pick_gradient(F: Any, dy: Any, out: Any, u: Any, data: Any, pooled: Any,
                        **attrs: Any) -> list[Any]:
    return [F._pool_grad(dy, data, pooled, **attrs), None, None]


@operator("_pool_pick", infer=like_shape(2), gradient=_pool_pick_gradient)
def pool_pick(
    xp: Any, u: Any, data: Any, out: Any, *, kernel: Shape = (), pool_type: Kind = "max",
    global_pool: bool = False, cudnn_off: bool = False,
    pooling_convention: Convention = "valid", stride: Shape = (), pad: Shape = (),
    p_value: int | None = None, count_include_pad: bool | None = None, layout: str | None = None,
) -> Any:
    """Pool `u` with the windows and the maxima of `data`: the transpose of `_pool_grad`."""
    if pool_type == "lp":
        raise NotForThisError("Pooling: the second order gradient of pool_type='lp' is not built")
    last = channels_last("Pooling", layout, data.ndim - 2)
    if last:
        u, data, out = (xp.moveaxis(array, -1, 1) for array in (u, data, out))
    window = _window(data.shape[2:], kernel, stride, pad, pooling_convention, global_pool)
    if pool_type == "max":
        picked = _pick_maximum(xp, u, data, out, window)
    else:
        picked = _total(xp, u, window)
        if pool_type == "avg":
            picked /= _counts(xp, window, count_include_pad is not False, picked.dtype)
    return xp.ascontiguousarray(xp.moveaxis(picked, 1, -1)) if last else picked
