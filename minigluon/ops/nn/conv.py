"""Convolution in one to three spatial dimensions.

The two gradients are hidden operators. All three are bilinear and are each other's derivatives, so
a gradient of any order is again one of them.
"""
from __future__ import annotations

from typing import Any

from ...base import ArgumentValueError, ShapeError
from ..attrs import Shape
from ..operator import Attrs, MaybeShape, operator
from ..rules import like_shape, merge_shapes
from .correlation import (
    Geometry,
    backward_data,
    backward_weight,
    forward,
    geometry_of,
    to_first,
    to_last,
)
from .window import channels_first, reach

__all__ = ["conv_grad_data", "conv_grad_weight", "convolution"]


def _conv_shape(shapes: list[MaybeShape], attrs: Attrs, outs: list[MaybeShape] | None = None
                ) -> tuple[list[MaybeShape], list[MaybeShape]]:
    filters, groups = attrs["num_filter"], attrs["num_group"]
    geometry = geometry_of("Convolution", attrs)
    if groups < 1 or filters < 1 or filters % groups:
        raise ArgumentValueError(
            f"num_filter: expected a positive multiple of num_group={groups}, got {filters}"
        )
    rank, last = len(geometry.kernel), geometry.last
    data = channels_first(shapes[0], last)
    weight = channels_first(shapes[1], geometry.weight_last)
    if data is None:
        return shapes, [None]
    if len(data) != rank + 2:
        raise ShapeError(f"expected data of {rank + 2} dimensions for kernel {geometry.kernel}, "
                         f"got {shapes[0]}")
    channels = data[1]
    if channels % groups:
        raise ShapeError(f"data {shapes[0]} has {channels} channels, which num_group={groups} "
                         f"does not divide")
    wanted = (filters, channels // groups, *geometry.kernel)
    weight = merge_shapes(wanted, weight, "shapes of weight (needed and given)")
    assert weight is not None
    data = merge_shapes(data, (0, weight[1] * groups, *(0,) * rank), "data")
    assert data is not None
    out = channels_first(outs[0], last) if outs else None
    if out is not None and len(out) == rank + 2:
        data = _from_output(data, out, geometry)
    made = [geometry.order(data), geometry.weight_order(weight)]
    if not attrs["no_bias"]:
        made.append(merge_shapes((filters,), shapes[2] if len(shapes) > 2 else None,
                                 "shapes of bias (needed and given)"))
    return made, [geometry.order((data[0], filters, *_out_size(data, geometry)))]


def _from_output(data: tuple[int, ...], out: tuple[int, ...], geometry: Geometry
                 ) -> tuple[int, ...]:
    """`data` with what the output's shape tells: the batch, and sizes where the stride is 1."""
    size = tuple(
        n or (o + reach(k, d) - 1 - 2 * p if o and s == 1 else 0)
        for n, o, k, s, d, p in zip(data[2:], out[2:], geometry.kernel, geometry.stride,
                                    geometry.dilate, geometry.pad, strict=True))
    return (data[0] or out[0], data[1], *size)


def _out_size(data: tuple[int, ...], geometry: Geometry) -> tuple[int, ...]:
    size = geometry.out_size(data[2:])
    if any(n and o < 1 for n, o in zip(data[2:], size, strict=True)):
        need = tuple(reach(k, d) // 2 for k, d in zip(geometry.kernel, geometry.dilate,
                                                      strict=True))
        raise ShapeError(
            f"data {geometry.order(data)} is smaller than kernel {geometry.kernel} with "
            f"pad {geometry.pad} and dilate {geometry.dilate}; use pad={need} or a smaller kernel"
        )
    return size


def _conv_inputs(attrs: Attrs) -> tuple[str, ...]:
    return ("data", "weight") if attrs["no_bias"] else ("data", "weight", "bias")


# -- operators ----------------------------------------------------------------------------------


def _conv_gradient(F: Any, dy: Any, out: Any, data: Any, weight: Any, bias: Any = None,
                   **attrs: Any) -> list[Any]:
    grads = [F._conv_grad_data(dy, weight, data, **attrs),
             F._conv_grad_weight(dy, data, weight, **attrs)]
    if not attrs["no_bias"]:
        axis = 1 if (attrs["layout"] or "NC")[1] == "C" else -1
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
    geometry = geometry_of("Convolution", {
        "kernel": kernel, "stride": stride, "dilate": dilate, "pad": pad, "num_group": num_group,
        "layout": layout})
    last = geometry.last
    kernels = to_first(xp, weight, geometry.weight_last)
    out = forward(xp, to_first(xp, data, last), kernels, geometry)
    if bias is not None:
        out += bias.reshape(-1, *(1,) * len(kernel))
    return to_last(xp, out, last)


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
    geometry = geometry_of("Convolution", {
        "kernel": kernel, "stride": stride, "dilate": dilate, "pad": pad, "num_group": num_group,
        "layout": layout})
    last = geometry.last
    shape = to_first(xp, data, last).shape
    kernels = to_first(xp, weight, geometry.weight_last)
    dx = backward_data(xp, to_first(xp, dy, last), kernels, shape, geometry)
    return to_last(xp, dx, last)


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
    geometry = geometry_of("Convolution", {
        "kernel": kernel, "stride": stride, "dilate": dilate, "pad": pad, "num_group": num_group,
        "layout": layout})
    last = geometry.last
    shape = to_first(xp, weight, geometry.weight_last).shape
    dw = backward_weight(xp, to_first(xp, dy, last), to_first(xp, data, last), shape, geometry)
    return to_last(xp, dw, geometry.weight_last)
