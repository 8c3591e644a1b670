"""LayerNorm, InstanceNorm, GroupNorm, L2Normalization: data made comparable within each sample.

The statistics are outputs of their own, so that a gradient of second order flows through them.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ...base import ShapeError
from ..operator import Attrs, MaybeShape, operator
from ..rules import axis_of, merge_shapes, same_dtype
from .channel import along, channel_shapes, plus, statistics_dtype

__all__ = ["group_norm", "instance_norm", "l2_normalization", "layer_norm", "layer_norm_grad"]

Shapes = list[MaybeShape]
DTypes = list[Any]


def _equal_dtypes(dtypes: DTypes, count: int) -> tuple[DTypes, DTypes]:
    inputs, outputs = same_dtype(dtypes, {})
    return inputs, outputs * count


def _standardized(xp: Any, data: Any, axes: Sequence[int], eps: float) -> tuple[Any, Any, Any]:
    """Data normalised over `axes`; its mean and standard deviation."""
    kind, axes = statistics_dtype(xp, data.dtype), tuple(axes)
    mean = data.mean(axis=axes, keepdims=True, dtype=kind).astype(data.dtype, copy=False)
    out = data - mean
    var = xp.square(out, dtype=kind).mean(axis=axes, keepdims=True)
    std = xp.sqrt(var + eps).astype(data.dtype, copy=False)
    out /= std
    return out, mean, std


def _scale_and_shift(out: Any, gamma: Any, beta: Any, axis: int) -> None:
    """out = gamma out + beta along `axis`, in place."""
    if gamma.shape != (out.shape[axis],) or beta.shape != gamma.shape:
        raise ValueError(f"gamma {gamma.shape} and beta {beta.shape} do not fit")
    out *= along(gamma, out.ndim, axis)
    out += along(beta, out.ndim, axis)


def _standard_gradient(F: Any, dy: Sequence[Any], out: Sequence[Any], data: Any, gamma: Any,
                       axis: int, mean_over: Attrs) -> list[Any]:
    """With h = (x - mean) / std and g = dy gamma: dx = (g - mean g - h mean(g h)) / std."""
    hat = F.broadcast_div(F.broadcast_sub(data, out[1]), out[2])
    to_data = to_gamma = to_beta = None
    if dy[0] is not None:
        g = F.broadcast_mul(dy[0], F._along(gamma, data, axis=axis))
        slope = F.mean(F.elemwise_mul(g, hat), keepdims=True, **mean_over)
        centred = F.broadcast_sub(g, F.mean(g, keepdims=True, **mean_over))
        to_data = F.broadcast_div(F.elemwise_sub(centred, F.broadcast_mul(hat, slope)), out[2])
        to_gamma = F.sum(F.elemwise_mul(dy[0], hat), axis=axis, exclude=True)
        to_beta = F.sum(dy[0], axis=axis, exclude=True)
    if dy[1] is not None:
        to_data = plus(F, to_data, F._channel_spread(dy[1], data))
    if dy[2] is not None:
        to_data = plus(F, to_data, F.elemwise_mul(hat, F._channel_spread(dy[2], data)))
    return [to_data, to_gamma, to_beta]


def _layer_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    filled, _ = channel_shapes(shapes, attrs["axis"], 2)
    data = filled[0]
    if data is None:
        return filled, [None, None, None]
    axis = axis_of(attrs["axis"], len(data))
    moments = tuple(1 if place == axis else n for place, n in enumerate(data))
    return filled, [data, moments, moments]


def _layer_gradient(F: Any, dy: Any, out: Any, data: Any, gamma: Any, beta: Any, *, axis: int,
                    **_: Any) -> list[Any]:
    if dy[0] is None or dy[1] is not None or dy[2] is not None:
        return _standard_gradient(F, dy, out, data, gamma, axis, {"axis": axis})
    return list(F._layer_norm_grad(dy[0], data, gamma, out[1], out[2], axis=axis))


@operator("LayerNorm", infer=_layer_shape, gradient=_layer_gradient, num_outputs=3,
          visible=lambda attrs: 3 if attrs["output_mean_var"] else 1,
          infer_dtype=lambda dtypes, attrs: _equal_dtypes(dtypes, 3),
          output_names=("output", "mean", "std"))
def layer_norm(xp: Any, data: Any, gamma: Any, beta: Any, *, axis: int = -1, eps: float = 1e-5,
               output_mean_var: bool = False) -> Any:
    """Normalise along one axis to mean 0 and variance 1, then scale by gamma and shift by beta.

    Args:
        axis: the axis. eps: added to the variance.
        output_mean_var: show the mean and sqrt(var + eps) as further outputs.

    Shapes:
        data (*S); gamma, beta (S[axis],) -> (*S)[, S with 1 at axis, the same].

    >>> import numpy as np
    >>> x, one, zero = np.array([[1.0, 3.0]]), np.ones(2), np.zeros(2)
    >>> layer_norm.body(np, x, one, zero, **layer_norm.parse({"eps": 0.0}))[0].tolist()
    [[-1.0, 1.0]]
    """
    out, mean, std = _standardized(xp, data, (axis,), eps)
    _scale_and_shift(out, gamma, beta, axis)
    return out, mean, std


def _layer_second(F: Any, u: Any, out: Any, dy: Any, data: Any, gamma: Any, mean: Any, std: Any, *,
                  axis: int) -> list[Any]:
    """With h = (x - mean) / std, g = dy gamma and A = mean over the axis:
    dx = (g - A(g) - h A(g h)) / std, dgamma = sum dy h, dbeta = sum dy."""

    def wide(values: Any) -> Any:
        return F._along(values, data, axis=axis)

    def mean_of(values: Any) -> Any:
        return F.mean(values, axis=axis, keepdims=True)

    def total(values: Any) -> Any:
        return F.sum(values, axis=axis, keepdims=True)

    hat = F.broadcast_div(F.broadcast_sub(data, mean), std)
    to_dy = to_hat = to_gamma = to_std = None
    if u[0] is not None:
        g = F.broadcast_mul(dy, wide(gamma))
        q = F.broadcast_div(u[0], std)
        slope, along_hat = mean_of(F.elemwise_mul(g, hat)), mean_of(F.elemwise_mul(q, hat))
        to_g = F.elemwise_sub(F.broadcast_sub(q, mean_of(q)), F.broadcast_mul(hat, along_hat))
        rest = F.elemwise_sub(F.broadcast_sub(g, mean_of(g)), F.broadcast_mul(hat, slope))
        to_dy = F.broadcast_mul(to_g, wide(gamma))
        to_gamma = F.sum(F.elemwise_mul(to_g, dy), axis=axis, exclude=True)
        to_hat = F.negative(F.elemwise_add(F.broadcast_mul(q, slope),
                                           F.broadcast_mul(g, along_hat)))
        to_std = F.negative(F.broadcast_div(total(F.elemwise_mul(q, rest)), std))
    if u[1] is not None:
        to_dy = plus(F, to_dy, F.broadcast_mul(hat, wide(u[1])))
        to_hat = plus(F, to_hat, F.broadcast_mul(dy, wide(u[1])))
    if u[2] is not None:
        to_dy = plus(F, to_dy, F.broadcast_mul(F.ones_like(dy), wide(u[2])))
    to_data = to_mean = None
    if to_hat is not None:
        to_data = F.broadcast_div(to_hat, std)
        to_mean = F.negative(total(to_data))
        to_std = plus(F, to_std, F.negative(total(F.elemwise_mul(to_data, hat))))
    return [to_dy, to_data, to_gamma, to_mean, to_std]


@operator("_layer_norm_grad", num_outputs=3, gradient=_layer_second,
          infer=lambda shapes, attrs: (shapes, [shapes[1], shapes[2], shapes[2]]),
          infer_dtype=lambda dtypes, attrs: _equal_dtypes(dtypes, 3),
          output_names=("data", "gamma", "beta"))
def layer_norm_grad(xp: Any, dy: Any, data: Any, gamma: Any, mean: Any, std: Any, *,
                    axis: int = -1) -> Any:
    """Gradients of LayerNorm for data, gamma and beta."""
    kind = statistics_dtype(xp, data.dtype)
    others = tuple(place for place in range(data.ndim) if place != axis % data.ndim)

    def mean_of(values: Any) -> Any:
        return values.mean(axis=axis, keepdims=True, dtype=kind).astype(data.dtype, copy=False)

    hat = (data - mean) / std
    g = dy * along(gamma, data.ndim, axis)
    dx = (g - mean_of(g) - hat * mean_of(g * hat)) / std
    sums = ((dy * hat).sum(axis=others, dtype=kind), dy.sum(axis=others, dtype=kind))
    return dx, *(one.reshape(gamma.shape).astype(gamma.dtype, copy=False) for one in sums)


def _instance_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    filled, _ = channel_shapes(shapes, 1, 2)
    data = filled[0]
    if data is None:
        return filled, [None, None, None]
    if len(data) < 3:
        raise ShapeError(f"expected data (N, C, *S) of at least 3 dimensions, got {data}")
    moments = (*data[:2], *(1,) * (len(data) - 2))
    return filled, [data, moments, moments]


def _instance_gradient(F: Any, dy: Any, out: Any, data: Any, gamma: Any, beta: Any, *,
                       eps: float) -> list[Any]:
    return _standard_gradient(F, dy, out, data, gamma, 1, {"axis": (0, 1), "exclude": True})


@operator("InstanceNorm", infer=_instance_shape, gradient=_instance_gradient, num_outputs=3,
          visible=1, infer_dtype=lambda dtypes, attrs: _equal_dtypes(dtypes, 3),
          output_names=("output", "mean", "std"))
def instance_norm(xp: Any, data: Any, gamma: Any, beta: Any, *, eps: float = 1e-3) -> Any:
    """Normalise each channel of each sample over its spatial axes, then scale and shift.

    Shapes: data (N, C, *S); gamma, beta (C,) -> (N, C, *S).

    >>> import numpy as np
    >>> x, one, zero = np.array([[[1.0, 3.0]]]), np.ones(1), np.zeros(1)
    >>> instance_norm.body(np, x, one, zero, eps=0.0)[0].tolist()
    [[[-1.0, 1.0]]]
    """
    if data.ndim < 3:
        raise ValueError("no spatial axes")
    out, mean, std = _standardized(xp, data, range(2, data.ndim), eps)
    _scale_and_shift(out, gamma, beta, 1)
    return out, mean, std


# -- GroupNorm ----------------------------------------------------------------------------------


def _group_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data, groups = shapes[0], attrs["num_groups"]
    if data is not None and len(data) < 2:
        raise ShapeError(f"expected data (N, C, *S), got {data}")
    if groups < 1 or (data is not None and data[1] % groups):
        raise ShapeError(f"num_groups: expected a divisor of the channels of data {data}, "
                         f"got {groups}")
    own: MaybeShape = (groups,)
    for shape in shapes[1:3]:
        own = merge_shapes(own, shape, "shapes of gamma and beta (needed and given)")
    moments = None if data is None else (data[0], groups)
    return [data, own, own], [data, moments, moments]


def _group_gradient(F: Any, dy: Any, out: Any, data: Any, gamma: Any, beta: Any, *,
                    num_groups: int, **_: Any) -> list[Any]:
    """As for InstanceNorm, with the groups for channels."""

    def grouped(values: Any) -> Any:
        return None if values is None else F.reshape(values, shape=(0, num_groups, -1))

    def moment(values: Any) -> Any:
        return None if values is None else F.expand_dims(values, axis=2)

    to_data, *rest = _standard_gradient(
        F, [grouped(dy[0]), moment(dy[1]), moment(dy[2])],
        [None, moment(out[1]), moment(out[2])], grouped(data), gamma, 1, {"axis": 2})
    return [None if to_data is None else F.reshape_like(to_data, data), *rest]


@operator("GroupNorm", infer=_group_shape, gradient=_group_gradient, num_outputs=3,
          visible=lambda attrs: 3 if attrs["output_mean_var"] else 1,
          infer_dtype=lambda dtypes, attrs: _equal_dtypes(dtypes, 3),
          output_names=("output", "mean", "std"))
def group_norm(xp: Any, data: Any, gamma: Any, beta: Any, *, num_groups: int = 1,
               eps: float = 1e-5, output_mean_var: bool = False) -> Any:
    """Normalise each group of channels of each sample, then scale and shift it.

    Args:
        num_groups: the channels are split into that many groups of neighbours.
        eps: added to the variance.
        output_mean_var: show the mean and sqrt(var + eps) as further outputs.

    Shapes:
        data (N, C, *S); gamma, beta (num_groups,) -> (N, C, *S)[, (N, num_groups), the same].

    >>> import numpy as np
    >>> x, one, zero = np.array([[1.0, 3.0]]), np.ones(1), np.zeros(1)
    >>> group_norm.body(np, x, one, zero, **group_norm.parse({"eps": 0.0}))[0].tolist()
    [[-1.0, 1.0]]
    """
    if data.shape[1] % num_groups:
        raise ValueError(f"{data.shape[1]} channels, {num_groups} groups")
    folded = data.reshape(data.shape[0], num_groups, -1)
    out, mean, std = _standardized(xp, folded, (2,), eps)
    _scale_and_shift(out, gamma, beta, 1)
    return out.reshape(data.shape), mean[..., 0], std[..., 0]


# -- L2Normalization ----------------------------------------------------------------------------

_L2_AXES: dict[str, Attrs] = {
    "instance": {"axis": 0, "exclude": True},
    "channel": {"axis": 1},
    "spatial": {"axis": (0, 1), "exclude": True},
}


def _l2_axes(ndim: int, mode: str) -> tuple[int, ...]:
    if ndim < (2 if mode != "spatial" else 3):
        raise ShapeError(f"L2Normalization: data of {ndim} dimensions has nothing to normalise "
                         f"over with mode={mode!r}")
    return {"instance": tuple(range(1, ndim)), "channel": (1,),
            "spatial": tuple(range(2, ndim))}[mode]


def _l2_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data = shapes[0]
    if data is None:
        return shapes, [None, None]
    axes = _l2_axes(len(data), attrs["mode"])
    return shapes, [data, tuple(1 if place in axes else n for place, n in enumerate(data))]


def _l2_gradient(F: Any, dy: Any, out: Any, data: Any, *, mode: str, eps: float) -> list[Any]:
    """dx = (dy - out sum(dy out)) / norm; the norm itself gives back out."""
    grad = None
    if dy[0] is not None:
        along_out = F.sum(F.elemwise_mul(dy[0], out[0]), keepdims=True, **_L2_AXES[mode])
        rest = F.elemwise_sub(dy[0], F.broadcast_mul(out[0], along_out))
        grad = F.broadcast_div(rest, out[1])
    if dy[1] is not None:
        grad = plus(F, grad, F.broadcast_mul(out[0], dy[1]))
    return [grad]


@operator("L2Normalization", infer=_l2_shape, gradient=_l2_gradient, num_outputs=2, visible=1,
          infer_dtype=lambda dtypes, attrs: _equal_dtypes(dtypes, 2),
          output_names=("output", "norm"))
def l2_normalization(
    xp: Any, data: Any, *, eps: float = 1e-10,
    mode: Literal["channel", "instance", "spatial"] = "instance",
) -> Any:
    """Divide by sqrt(sum of squares + eps).

    Args:
        eps: added to the sum. mode: sum over everything in a sample (instance), over axis 1
            (channel), or over the axes from 2 on (spatial).

    Shapes: data (N, C, *S) -> (N, C, *S).

    >>> import numpy as np
    >>> l2_normalization.body(np, np.array([[3.0, 4.0]]), eps=0.0, mode="instance")[0].tolist()
    [[0.6, 0.8]]
    """
    axes = _l2_axes(data.ndim, mode)
    kind = statistics_dtype(xp, data.dtype)
    total = xp.square(data, dtype=kind).sum(axis=axes, keepdims=True)
    norm = xp.sqrt(total + eps).astype(data.dtype, copy=False)
    return data / norm, norm
