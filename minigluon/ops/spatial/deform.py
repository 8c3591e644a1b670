"""Deformable convolution and pooling: samples taken where the network says.

The columns of a convolution are read at interpolated points (`sampler`); the rest is a product of
matrices. At the border of the image the plain one takes the nearest pixels, the modulated one
counts those outside as zero: so the papers' own code did.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base import ArgumentValueError, ShapeError
from ..attrs import Shape
from ..nn.window import per_axis, reach
from ..operator import Attrs, MaybeShape, operator
from ..rules import Shapes, merge_shapes
from .resample import image_of
from .sampler import sample_points, sample_points_grad

__all__: list[str] = []

Array = Any


# -- geometry --------------------------------------------------------------------------------------

def _steps(attrs: Attrs) -> tuple[tuple[int, ...], ...]:
    """kernel, stride, dilate, pad, complete for both axes."""
    op, kernel = "DeformableConvolution", attrs["kernel"]
    if len(kernel) != 2:
        raise ArgumentValueError(f"kernel: expected height and width, got {kernel}")
    return (tuple(kernel), per_axis(op, "stride", attrs["stride"], 2, 1),
            per_axis(op, "dilate", attrs["dilate"], 2, 1),
            per_axis(op, "pad", attrs["pad"], 2, 0))


def _out_size(size: Sequence[int], attrs: Attrs) -> tuple[int, ...]:
    found = []
    for n, k, s, d, p in zip(size, *_steps(attrs), strict=True):
        out = (n + 2 * p - reach(k, d)) // s + 1 if n else 0
        if n and out < 1:
            raise ShapeError(f"data of spatial size {tuple(size)} is smaller than kernel "
                             f"{attrs['kernel']} with pad {attrs['pad']}")
        found.append(out)
    return tuple(found)


def _conv_shape(shapes: Shapes, attrs: Attrs, masked: bool) -> tuple[Shapes, Shapes]:
    data = image_of(shapes[0])
    filters, groups, areas = attrs["num_filter"], attrs["num_group"], attrs["num_deformable_group"]
    if filters < 1 or groups < 1 or filters % groups:
        raise ArgumentValueError(f"num_filter: expected a positive multiple of num_group={groups},"
                                 f" got {filters}")
    if areas < 1:
        raise ArgumentValueError(f"num_deformable_group: expected 1 or more, got {areas}")
    if data is None:
        return shapes, [None]
    if data[1] % groups or data[1] % areas:
        raise ShapeError(f"expected channels that num_group={groups} and "
                         f"num_deformable_group={areas} divide, got data {data}")
    size, kernel = _out_size(data[2:], attrs), _steps(attrs)[0]
    points = kernel[0] * kernel[1] * areas
    made: Shapes = [data]
    wanted: list[tuple[str, MaybeShape]] = [("offset", (data[0], 2 * points, *size))]
    if masked:
        wanted.append(("mask", (data[0], points, *size)))
    wanted.append(("weight", (filters, data[1] // groups, *kernel)))
    if not attrs["no_bias"]:
        wanted.append(("bias", (filters,)))
    for place, (what, shape) in enumerate(wanted, start=1):
        given = shapes[place] if place < len(shapes) else None
        made.append(merge_shapes(shape, given, f"shapes of {what} (needed and given)"))
    return made, [(data[0], filters, *size)]


def _points(xp: Any, offset: Array, attrs: Attrs) -> tuple[Array, Array]:
    """Where each kernel element reads: y and x, (N areas, kernel elements * outputs)."""
    (kh, kw), stride, dilate, pad = _steps(attrs)
    areas = attrs["num_deformable_group"]
    batch, _, height, width = offset.shape
    moved = offset.reshape(batch * areas, kh * kw, 2, height, width)
    base_y = (xp.arange(height) * stride[0] - pad[0])[None, :] \
        + (xp.repeat(xp.arange(kh), kw) * dilate[0])[:, None]
    base_x = (xp.arange(width) * stride[1] - pad[1])[None, :] \
        + (xp.tile(xp.arange(kw), kh) * dilate[1])[:, None]
    y = moved[:, :, 0] + base_y[:, :, None].astype(offset.dtype)
    x = moved[:, :, 1] + base_x[:, None, :].astype(offset.dtype)
    return y.reshape(batch * areas, -1), x.reshape(batch * areas, -1)


def _columns(xp: Any, data: Array, offset: Array, mask: Array | None, attrs: Attrs
             ) -> tuple[Array, Array]:
    """What the kernel meets: (N areas, C / areas, kernel elements * outputs), plain and masked."""
    areas = attrs["num_deformable_group"]
    split = data.reshape(len(data) * areas, -1, *data.shape[2:])
    plain = sample_points(xp, split, *_points(xp, offset, attrs), whole=mask is None)
    plain = plain.astype(data.dtype, copy=False)
    if mask is None:
        return plain, plain
    return plain, plain * mask.reshape(len(split), 1, -1)


def _matrices(columns: Array, weight: Array, batch: int, groups: int) -> tuple[Array, Array]:
    """Columns as (N, groups, C / groups * kernel, outputs), weight as (groups, F / groups, ...)."""
    inner = weight.shape[1] * weight.shape[2] * weight.shape[3]
    return (columns.reshape(batch, groups, inner, -1),
            weight.reshape(groups, weight.shape[0] // groups, inner))


def _forward(xp: Any, data: Array, offset: Array, mask: Array | None, weight: Array,
             bias: Array | None, attrs: Attrs) -> Array:
    shapes = [array.shape for array in (data, offset, mask, weight, bias) if array is not None]
    size = _conv_shape(shapes, attrs, mask is not None)[1][0]
    assert size is not None
    _, columns = _columns(xp, data, offset, mask, attrs)
    blocks, kernels = _matrices(columns, weight, len(data), attrs["num_group"])
    out = xp.matmul(kernels, blocks).reshape(size)
    if bias is not None:
        out += bias.reshape(-1, 1, 1)
    return out


def _backward(xp: Any, dy: Array, data: Array, offset: Array, mask: Array | None, weight: Array,
              attrs: Attrs) -> list[Array]:
    """Gradients for data, offset, (mask,) weight."""
    batch, groups = len(data), attrs["num_group"]
    plain, columns = _columns(xp, data, offset, mask, attrs)
    blocks, kernels = _matrices(columns, weight, batch, groups)
    above = dy.reshape(batch, groups, kernels.shape[1], -1)
    to_weight = xp.matmul(above, blocks.swapaxes(-1, -2)).sum(axis=0).reshape(weight.shape)
    to_columns = xp.matmul(kernels.swapaxes(-1, -2), above).reshape(plain.shape)
    grads = []
    if mask is not None:
        grads.append((to_columns * plain).sum(axis=1).reshape(mask.shape))
        to_columns = to_columns * mask.reshape(len(plain), 1, -1)
    split = data.reshape(len(plain), -1, *data.shape[2:])
    to_data, to_y, to_x = sample_points_grad(xp, to_columns, split, *_points(xp, offset, attrs),
                                             whole=mask is None)
    kernel = attrs["kernel"][0] * attrs["kernel"][1]
    pair = [part.reshape(len(plain), kernel, -1) for part in (to_y, to_x)]
    to_offset = xp.stack(pair, axis=2).reshape(offset.shape)
    found = [to_data.reshape(data.shape), to_offset, *grads, to_weight]
    return [grad.astype(data.dtype, copy=False) for grad in found]


def _bias_grad(F: Any, dy: Any, no_bias: bool) -> list[Any]:
    return [] if no_bias else [F.sum(dy, axis=1, exclude=True)]


# -- DeformableConvolution -------------------------------------------------------------------------

def _plain_back(F: Any, dy: Any, out: Any, data: Any, offset: Any, weight: Any, bias: Any = None,
                **attrs: Any) -> list[Any]:
    return [*F._deformable_conv_grad(dy, data, offset, weight, **attrs),
            *_bias_grad(F, dy, attrs["no_bias"])]


@operator("_contrib_DeformableConvolution", gradient=_plain_back,
          infer=lambda shapes, attrs: _conv_shape(shapes, attrs, False),
          inputs=lambda attrs: ("data", "offset", "weight", "bias")[:3 if attrs["no_bias"] else 4])
def deformable_convolution(
    xp: Any, data: Array, offset: Array, weight: Array, bias: Array | None = None, *,
    kernel: Shape, stride: Shape = (), dilate: Shape = (), pad: Shape = (), num_filter: int,
    num_group: int = 1, num_deformable_group: int = 1, workspace: int = 1024,
    no_bias: bool = False, layout: str | None = None,
) -> Array:
    """Convolution whose kernel elements read at places that another layer moves.

    Args:
        data, weight, bias, kernel, stride, dilate, pad, num_filter, num_group: as in Convolution.
        offset: how far each kernel element is moved at each output: (y, x) in turn.
        num_deformable_group: the channels are split into so many groups with own offsets.
        workspace, layout: accepted and ignored.

    Shapes: data (N, C, H, W), offset (N, 2 K D, P, Q) with K kernel elements and D deformable
        groups, weight (F, C / groups, *kernel), bias (F,) -> (N, F, P, Q).

    >>> import minigluon as mx
    >>> x, still, w = mx.nd.ones((1, 1, 3, 3)), mx.nd.zeros((1, 8, 2, 2)), mx.nd.ones((1, 1, 2, 2))
    >>> mx.nd.contrib.DeformableConvolution(x, still, w, kernel=(2, 2), num_filter=1,
    ...                                     no_bias=True).asnumpy()[0, 0].tolist()
    [[4.0, 4.0], [4.0, 4.0]]
    """
    attrs = {"kernel": kernel, "stride": stride, "dilate": dilate, "pad": pad,
             "num_filter": num_filter, "num_group": num_group, "no_bias": no_bias,
             "num_deformable_group": num_deformable_group}
    return _forward(xp, data, offset, None, weight, bias, attrs)


def _grad_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    return shapes, list(shapes[1:])


@operator("_deformable_conv_grad", infer=_grad_shape, num_outputs=3,
          infer_dtype=lambda dtypes, attrs: (dtypes, dtypes[1:]))
def deformable_conv_grad(
    xp: Any, dy: Array, data: Array, offset: Array, weight: Array, *, kernel: Shape,
    stride: Shape = (), dilate: Shape = (), pad: Shape = (), num_filter: int, num_group: int = 1,
    num_deformable_group: int = 1, workspace: int = 1024, no_bias: bool = False,
    layout: str | None = None,
) -> tuple[Array, ...]:
    """Gradients of DeformableConvolution for data, offset and weight."""
    attrs = {"kernel": kernel, "stride": stride, "dilate": dilate, "pad": pad,
             "num_group": num_group, "num_deformable_group": num_deformable_group}
    return tuple(_backward(xp, dy, data, offset, None, weight, attrs))


# -- ModulatedDeformableConvolution ----------------------------------------------------------------

def _modulated_back(F: Any, dy: Any, out: Any, data: Any, offset: Any, mask: Any, weight: Any,
                    bias: Any = None, **attrs: Any) -> list[Any]:
    return [*F._modulated_conv_grad(dy, data, offset, mask, weight, **attrs),
            *_bias_grad(F, dy, attrs["no_bias"])]


@operator("_contrib_ModulatedDeformableConvolution", gradient=_modulated_back,
          infer=lambda shapes, attrs: _conv_shape(shapes, attrs, True),
          inputs=lambda attrs: ("data", "offset", "mask", "weight", "bias")[
              :4 if attrs["no_bias"] else 5])
def modulated_deformable_convolution(
    xp: Any, data: Array, offset: Array, mask: Array, weight: Array, bias: Array | None = None, *,
    kernel: Shape, stride: Shape = (), dilate: Shape = (), pad: Shape = (), num_filter: int,
    num_group: int = 1, num_deformable_group: int = 1, workspace: int = 1024,
    no_bias: bool = False, im2col_step: int = 64, layout: str | None = None,
) -> Array:
    """DeformableConvolution in which what each kernel element reads is also weighted.

    Args:
        data, offset, weight, bias, kernel, stride, dilate, pad, num_filter, num_group,
            num_deformable_group: as in DeformableConvolution.
        mask: the weights. workspace, im2col_step, layout: accepted and ignored.

    Shapes: data (N, C, H, W), offset (N, 2 K D, P, Q), mask (N, K D, P, Q),
        weight (F, C / groups, *kernel), bias (F,) -> (N, F, P, Q).

    >>> import minigluon as mx
    >>> x, still, w = mx.nd.ones((1, 1, 3, 3)), mx.nd.zeros((1, 8, 2, 2)), mx.nd.ones((1, 1, 2, 2))
    >>> half = mx.nd.ones((1, 4, 2, 2)) / 2
    >>> mx.nd.contrib.ModulatedDeformableConvolution(
    ...     x, still, half, w, kernel=(2, 2), num_filter=1, no_bias=True).asnumpy().item(0)
    2.0
    """
    attrs = {"kernel": kernel, "stride": stride, "dilate": dilate, "pad": pad,
             "num_filter": num_filter, "num_group": num_group, "no_bias": no_bias,
             "num_deformable_group": num_deformable_group}
    return _forward(xp, data, offset, mask, weight, bias, attrs)


@operator("_modulated_conv_grad", infer=_grad_shape, num_outputs=4,
          infer_dtype=lambda dtypes, attrs: (dtypes, dtypes[1:]))
def modulated_conv_grad(
    xp: Any, dy: Array, data: Array, offset: Array, mask: Array, weight: Array, *, kernel: Shape,
    stride: Shape = (), dilate: Shape = (), pad: Shape = (), num_filter: int, num_group: int = 1,
    num_deformable_group: int = 1, workspace: int = 1024, no_bias: bool = False,
    im2col_step: int = 64, layout: str | None = None,
) -> tuple[Array, ...]:
    """Gradients of ModulatedDeformableConvolution for data, offset, mask and weight."""
    attrs = {"kernel": kernel, "stride": stride, "dilate": dilate, "pad": pad,
             "num_group": num_group, "num_deformable_group": num_deformable_group}
    return tuple(_backward(xp, dy, data, offset, mask, weight, attrs))
