"""Deconvolution: the transpose of convolution, with the same arithmetic run the other way round."""
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
from .window import channels_first, per_axis, reach, spatial_rank

__all__ = ["deconv_grad_data", "deconv_grad_weight", "deconvolution"]


def _complete(size: tuple[int, ...], attrs: Attrs) -> tuple[Geometry, tuple[int, ...]]:
    """The convolution this transposes, and the spatial output size for data of spatial `size`.

    A given target_shape decides about pad and adj, as in MXNet.
    """
    op, kernel = "Deconvolution", attrs["kernel"]
    rank = spatial_rank(op, kernel)
    target = per_axis(op, "target_shape", attrs["target_shape"], rank, 0)
    adjust = per_axis(op, "adj", attrs["adj"], rank, 0)
    geometry = geometry_of(op, attrs)
    pads, out = [], []
    for place, n in enumerate(size):
        stride = geometry.stride[place]
        full = stride * (n - 1) + reach(kernel[place], geometry.dilate[place])
        if any(target) and n:
            if full < target[place]:
                raise ArgumentValueError(f"{op}: target_shape: expected at most {full} for data "
                                         f"of spatial size {size}, got {tuple(target)}")
            pads.append((full - target[place] + 1) // 2)
            out.append(target[place])
        else:
            if adjust[place] >= stride:
                raise ArgumentValueError(f"{op}: adj: expected less than stride "
                                         f"{geometry.stride}, got {tuple(adjust)}")
            pads.append(geometry.pad[place])
            out.append(full - 2 * geometry.pad[place] + adjust[place] if n else target[place])
    return geometry.with_pad(tuple(pads)), tuple(out)


def _deconv_shape(shapes: list[MaybeShape], attrs: Attrs) -> tuple[list[MaybeShape],
                                                                   list[MaybeShape]]:
    filters, groups = attrs["num_filter"], attrs["num_group"]
    geometry = geometry_of("Deconvolution", attrs)
    if groups < 1 or filters < 1 or filters % groups:
        raise ArgumentValueError(
            f"num_filter: expected a positive multiple of num_group={groups}, got {filters}"
        )
    rank, last = len(geometry.kernel), geometry.last
    data, weight = channels_first(shapes[0], last), channels_first(shapes[1], last)
    if data is None:
        return shapes, [None]
    if len(data) != rank + 2:
        raise ShapeError(f"expected data of {rank + 2} dimensions for kernel {geometry.kernel}, "
                         f"got {shapes[0]}")
    wanted = (data[1], filters // groups, *geometry.kernel)
    weight = merge_shapes(wanted, weight, "shapes of weight (needed and given)")
    assert weight is not None
    data = merge_shapes(data, (0, weight[0], *(0,) * rank), "data")
    assert data is not None
    made = [geometry.order(data), geometry.order(weight)]
    if not attrs["no_bias"]:
        made.append(merge_shapes((filters,), shapes[2] if len(shapes) > 2 else None,
                                 "shapes of bias (needed and given)"))
    _, out = _complete(data[2:], attrs)
    if any(n and o < 1 for n, o in zip(data[2:], out, strict=True)):
        raise ShapeError(f"data {shapes[0]} gives no output with pad {geometry.pad}; use less pad")
    return made, [geometry.order((data[0], filters, *out))]


def _deconv_inputs(attrs: Attrs) -> tuple[str, ...]:
    return ("data", "weight") if attrs["no_bias"] else ("data", "weight", "bias")


def _deconv_gradient(F: Any, dy: Any, out: Any, data: Any, weight: Any, bias: Any = None,
                     **attrs: Any) -> list[Any]:
    grads = [F._deconv_grad_data(dy, weight, data, **attrs),
             F._deconv_grad_weight(dy, data, weight, **attrs)]
    if not attrs["no_bias"]:
        axis = -1 if attrs["layout"] in ("NWC", "NHWC", "NDHWC") else 1
        grads.append(F.sum(dy, axis=axis, exclude=True))
    return grads


@operator("Deconvolution", infer=_deconv_shape, gradient=_deconv_gradient, inputs=_deconv_inputs)
def deconvolution(
    xp: Any, data: Any, weight: Any, bias: Any = None, *, kernel: Shape, stride: Shape = (),
    dilate: Shape = (), pad: Shape = (), adj: Shape = (), target_shape: Shape = (),
    num_filter: int, num_group: int = 1, workspace: int = 512, no_bias: bool = True,
    cudnn_tune: str | None = None, cudnn_off: bool = False, layout: str | None = None,
) -> Any:
    """The transpose of Convolution: each element adds a scaled kernel to the output.

    Args:
        data, weight, bias, kernel, stride, dilate, pad, num_group, layout: as in Convolution;
            pad is cut from the output.
        adj: extra size on the far side of the output, less than stride.
        target_shape: the spatial output size; decides about pad and adj.
        workspace, cudnn_tune, cudnn_off: accepted and ignored.

    Shapes:
        data (N, C, *S), weight (C, F/G, *K), bias (F,) -> (N, F, *T),
        T = stride (S - 1) + dilate (K - 1) + 1 - 2 pad + adj.

    >>> import numpy as np
    >>> x, w = np.ones((1, 1, 2)), np.ones((1, 1, 2))
    >>> attrs = deconvolution.parse({"kernel": 2, "stride": 2, "num_filter": 1})
    >>> deconvolution.body(np, x, w, **attrs).tolist()
    [[[1.0, 1.0, 1.0, 1.0]]]
    """
    attrs = {"kernel": kernel, "stride": stride, "dilate": dilate, "pad": pad, "adj": adj,
             "target_shape": target_shape, "num_group": num_group, "layout": layout}
    geometry, size, inner = _parts(xp, data, attrs)
    kernels = to_first(xp, weight, geometry.last)
    if kernels.shape[0] != inner.shape[1] or kernels.shape[1] * num_group != num_filter:
        raise ValueError(f"weight {weight.shape} does not fit data {data.shape}")
    shape = (inner.shape[0], num_filter, *size)
    out = backward_data(xp, inner, kernels, shape, geometry)
    if bias is not None:
        out += bias.reshape(-1, *(1,) * len(kernel))
    return to_last(xp, out, geometry.last)


def _parts(xp: Any, data: Any, attrs: Attrs) -> tuple[Geometry, tuple[int, ...], Any]:
    inner = to_first(xp, data, geometry_of("Deconvolution", attrs).last)
    return (*_complete(inner.shape[2:], attrs), inner)


def _grad_data_gradient(F: Any, u: Any, out: Any, dy: Any, weight: Any, data: Any,
                        **attrs: Any) -> list[Any]:
    return [F.Deconvolution(u, weight, **{**attrs, "no_bias": True}),
            F._deconv_grad_weight(dy, u, weight, **attrs), None]


@operator("_deconv_grad_data", infer=like_shape(2), gradient=_grad_data_gradient)
def deconv_grad_data(
    xp: Any, dy: Any, weight: Any, data: Any, *, kernel: Shape, stride: Shape = (),
    dilate: Shape = (), pad: Shape = (), adj: Shape = (), target_shape: Shape = (),
    num_filter: int, num_group: int = 1, workspace: int = 512, no_bias: bool = True,
    cudnn_tune: str | None = None, cudnn_off: bool = False, layout: str | None = None,
) -> Any:
    """Gradient of Deconvolution for its data, of which only the shape is used."""
    attrs = {"kernel": kernel, "stride": stride, "dilate": dilate, "pad": pad, "adj": adj,
             "target_shape": target_shape, "num_group": num_group, "layout": layout}
    geometry, _, _ = _parts(xp, data, attrs)
    last = geometry.last
    dx = forward(xp, to_first(xp, dy, last), to_first(xp, weight, last), geometry)
    return to_last(xp, dx, last)


def _grad_weight_gradient(F: Any, u: Any, out: Any, dy: Any, data: Any, weight: Any,
                          **attrs: Any) -> list[Any]:
    return [F.Deconvolution(data, u, **{**attrs, "no_bias": True}),
            F._deconv_grad_data(dy, u, data, **attrs), None]


@operator("_deconv_grad_weight", infer=like_shape(2), gradient=_grad_weight_gradient)
def deconv_grad_weight(
    xp: Any, dy: Any, data: Any, weight: Any, *, kernel: Shape, stride: Shape = (),
    dilate: Shape = (), pad: Shape = (), adj: Shape = (), target_shape: Shape = (),
    num_filter: int, num_group: int = 1, workspace: int = 512, no_bias: bool = True,
    cudnn_tune: str | None = None, cudnn_off: bool = False, layout: str | None = None,
) -> Any:
    """Gradient of Deconvolution for its weight, of which only the shape is used."""
    attrs = {"kernel": kernel, "stride": stride, "dilate": dilate, "pad": pad, "adj": adj,
             "target_shape": target_shape, "num_group": num_group, "layout": layout}
    geometry, _, inner = _parts(xp, data, attrs)
    last = geometry.last
    shape = to_first(xp, weight, last).shape
    dw = backward_weight(xp, inner, to_first(xp, dy, last), shape, geometry)
    return to_last(xp, dw, last)
