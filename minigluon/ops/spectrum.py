"""Fourier transforms of rows, and count sketches: what compact bilinear pooling is made of."""
from __future__ import annotations

from typing import Any

from ..base import ShapeError
from .operator import Attrs, operator
from .rules import Shapes, follow_dtype, like_shape, merge_shapes

__all__: list[str] = []

Array = Any


def _fft_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data = shapes[0]
    if data is None:
        return shapes, [None]
    if not data:
        raise ShapeError("expected rows along the last axis, got shape ()")
    return shapes, [(*data[:-1], 2 * data[-1])]


def _ifft_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data = shapes[0]
    if data is None:
        return shapes, [None]
    if not data or data[-1] % 2:
        raise ShapeError(f"expected rows of real and imaginary parts in turn, got shape {data}")
    return shapes, [(*data[:-1], data[-1] // 2)]


@operator("_contrib_fft", infer=_fft_shape,
          gradient=lambda F, dy, out, data, compute_size: [F._contrib_ifft(dy)])
def fft(xp: Any, data: Array, *, compute_size: int = 128) -> Array:
    """The Fourier transform of each row: real and imaginary parts in turn.

    Args:
        data: real rows along the last axis. compute_size: accepted and ignored.

    Shapes: data (*S, D) -> (*S, 2 D).

    >>> import minigluon as mx
    >>> mx.nd.contrib.fft(mx.nd.array([[1, 2]])).asnumpy().tolist()
    [[3.0, 0.0, -1.0, 0.0]]
    """
    found = xp.fft.fft(data)
    parts = xp.stack([found.real, found.imag], axis=-1)
    return parts.reshape(*data.shape[:-1], -1).astype(data.dtype)


@operator("_contrib_ifft", infer=_ifft_shape,
          gradient=lambda F, dy, out, data, compute_size: [F._contrib_fft(dy)])
def ifft(xp: Any, data: Array, *, compute_size: int = 128) -> Array:
    """The real part of each row's inverse Fourier transform, times its length.

    Args:
        data: rows of real and imaginary parts in turn. compute_size: accepted and ignored.

    Shapes: data (*S, 2 D) -> (*S, D).

    >>> import minigluon as mx
    >>> mx.nd.contrib.ifft(mx.nd.array([[3, 0, -1, 0]])).asnumpy().tolist()
    [[2.0, 4.0]]
    """
    pairs = data.reshape(*data.shape[:-1], -1, 2)
    found = xp.fft.ifft(pairs[..., 0] + 1j * pairs[..., 1])
    return (found.real * pairs.shape[-2]).astype(data.dtype)


def _sketch_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data, h, s = shapes
    if data is None:
        return shapes, [None]
    if not data:
        raise ShapeError("expected rows along the last axis, got shape ()")
    places = merge_shapes(merge_shapes((1, data[-1]), h, "shapes of h"), s, "shapes of s")
    return [data, places, places], [(*data[:-1], attrs["out_dim"])]


@operator("_contrib_count_sketch", infer=_sketch_shape, infer_dtype=follow_dtype(fill=True),
          gradient=lambda F, dy, out, data, h, s, **_: [F._count_sketch_grad(dy, data, h, s),
                                                        None, None])
def count_sketch(xp: Any, data: Array, h: Array, s: Array, *, out_dim: int,
                 processing_batch_size: int = 32) -> Array:
    """Each row thrown together into `out_dim` sums: element i goes to place h[i] with sign s[i].

    Args:
        data: rows along the last axis. h: places. s: signs. out_dim: how many sums.
        processing_batch_size: accepted and ignored.

    Shapes: data (*S, D), h (1, D), s (1, D) -> (*S, out_dim).

    >>> import minigluon as mx
    >>> x, h, s = mx.nd.array([[1, 2, 3]]), mx.nd.array([[0, 1, 0]]), mx.nd.array([[1, 1, -1]])
    >>> mx.nd.contrib.count_sketch(x, h, s, out_dim=2).asnumpy().tolist()
    [[-2.0, 2.0]]
    """
    _sketch_shape([data.shape, h.shape, s.shape], {"out_dim": out_dim})
    sums = xp.zeros((*data.shape[:-1], out_dim), data.dtype)
    xp.add.at(sums, (..., h[0].astype("int64")), data * s[0].astype(data.dtype))
    return sums


def _sketch_grad_back(F: Any, u: Any, out: Any, dy: Any, data: Any, h: Any, s: Any) -> list[Any]:
    return [F._count_sketch_like(u, h, s, dy), None, None, None]


@operator("_count_sketch_grad", infer=like_shape(1), infer_dtype=follow_dtype(),
          gradient=_sketch_grad_back)
def count_sketch_grad(xp: Any, dy: Array, data: Array, h: Array, s: Array) -> Array:
    """The gradient of count_sketch for data."""
    return dy[..., h[0].astype("int64")] * s[0].astype(dy.dtype)


@operator("_count_sketch_like", infer=like_shape(3), infer_dtype=follow_dtype(),
          gradient=lambda F, dy, out, data, h, s, like: [F._count_sketch_grad(dy, data, h, s),
                                                         None, None, None])
def count_sketch_like(xp: Any, data: Array, h: Array, s: Array, like: Array) -> Array:
    """count_sketch with as many sums as `like` has."""
    return count_sketch.body(xp, data, h, s, out_dim=like.shape[-1])
