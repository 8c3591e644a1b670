"""BatchNorm and its gradient, which can itself be differentiated.

Mean and 1/std are outputs of their own, so that a gradient of second order flows through them.
"""
from __future__ import annotations

from typing import Any, Literal

from ..operator import Attrs, MaybeShape, operator
from .channel import along, channel_shapes, plus, statistics_dtype

__all__ = ["batch_norm", "batch_norm_apply", "batch_norm_grad", "batch_norm_relu"]

Shapes = list[MaybeShape]
DTypes = list[Any]


def _other_axes(ndim: int, axis: int) -> tuple[int, ...]:
    axis %= ndim
    return tuple(place for place in range(ndim) if place != axis)


def _batch_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    filled, channels = channel_shapes(shapes, attrs["axis"], 4)
    return filled, [filled[0], (channels,), (channels,)]


def _batch_dtype(dtypes: DTypes, attrs: Attrs) -> tuple[DTypes, DTypes]:
    """Half precision data keeps its parameters and statistics in single precision."""
    data = dtypes[0]
    own = "float32" if data == "float16" else data
    return [data, *[given or own for given in dtypes[1:]]], [data, own, own]


def _batch_gradient(F: Any, dy: Any, out: Any, data: Any, gamma: Any, beta: Any, mean: Any,
                    var: Any, *, training: bool, axis: int, fix_gamma: bool,
                    use_global_stats: bool, **_: Any) -> list[Any]:
    constant = use_global_stats or not training
    rest = [None, None]
    if dy[0] is None:
        grads = [None, None, None]
    else:
        grads = list(F._batch_norm_grad(dy[0], data, gamma, beta, out[1], out[2], axis=axis,
                                        fix_gamma=fix_gamma, constant=constant))
    if not constant:
        through = _through_statistics(F, dy, out, data, axis)
        if through is not None:
            grads[0] = through if grads[0] is None else F.elemwise_add(grads[0], through)
    return grads + rest


def _through_statistics(F: Any, dy: Any, out: Any, data: Any, axis: int) -> Any:
    """What the outputs mean and 1/std give back to the data."""
    total = None
    if dy[1] is not None:
        total = F._channel_spread(F._cast_like(dy[1], data), data, axis=axis)
    if dy[2] is not None:
        # d(1/std) = -(1/std)^3 (x - mean) / M
        slope = F.negative(F.elemwise_mul(dy[2], F.elemwise_mul(out[2], F.square(out[2]))))
        shares = F._channel_spread(F._cast_like(slope, data), data, axis=axis)
        centred = F.broadcast_sub(data, F._along(F._cast_like(out[1], data), data, axis=axis))
        more = F.elemwise_mul(shares, centred)
        total = more if total is None else F.elemwise_add(total, more)
    return total


@operator("BatchNorm", infer=_batch_shape, infer_dtype=_batch_dtype, gradient=_batch_gradient,
          num_outputs=3, visible=lambda attrs: 3 if attrs["output_mean_var"] else 1,
          mutates=("moving_mean", "moving_var"), aux=("moving_mean", "moving_var"),
          output_names=("output", "mean", "var"), aliases=("BatchNorm_v1",))
def batch_norm(
    xp: Any, data: Any, gamma: Any, beta: Any, moving_mean: Any, moving_var: Any, *,
    eps: float = 1e-3, momentum: float = 0.9, fix_gamma: bool = True,
    use_global_stats: bool = False, output_mean_var: bool = False, axis: int = 1,
    cudnn_off: bool = False, training: bool,
) -> Any:
    """Normalise each channel to mean 0 and variance 1, then scale by gamma and shift by beta.

    While training the mean and the (biased) variance are those of the batch, and the moving ones
    are updated: moving = momentum moving + (1 - momentum) batch. Otherwise the moving ones serve.

    Args:
        gamma, beta: scale and shift. moving_mean, moving_var: updated in place.
        eps: added to the variance. momentum: how slowly the moving statistics move.
        fix_gamma: gamma counts as 1 and gets no gradient.
        use_global_stats: use the moving statistics also in training.
        output_mean_var: show the mean and 1 / sqrt(var + eps) as further outputs.
        axis: where the channels are. cudnn_off: ignored.

    Shapes:
        data (N, C, *S); gamma, beta, moving_mean, moving_var (C,) -> (N, C, *S)[, (C,), (C,)].

    >>> import numpy as np
    >>> x, one, zero = np.array([[1.0], [3.0]]), np.ones(1), np.zeros(1)
    >>> out, mean, _ = batch_norm.body(np, x, one, zero, zero.copy(), one.copy(), training=True,
    ...                                **batch_norm.parse({"eps": 0.0}))
    >>> out.ravel().tolist(), mean.tolist()
    ([-1.0, 1.0], [2.0])
    """
    kind = statistics_dtype(xp, data.dtype)
    channels = (data.shape[axis],)
    if any(a.shape != channels for a in (gamma, beta, moving_mean, moving_var)):
        raise ValueError(f"expected inputs of shape {channels}")
    if training and not use_global_stats and data.size:  # a batch of no samples has no statistics
        axes = _other_axes(data.ndim, axis)
        mean = data.mean(axis=axes, dtype=kind)
        centred = data - along(mean, data.ndim, axis).astype(data.dtype, copy=False)
        var = xp.square(centred, dtype=kind).mean(axis=axes)
        for moving, fresh in ((moving_mean, mean), (moving_var, var)):
            moving *= momentum
            moving += ((1 - momentum) * fresh).astype(moving.dtype, copy=False)
    else:
        mean, var = moving_mean.astype(kind), moving_var.astype(kind, copy=False)
        centred = data - along(mean, data.ndim, axis).astype(data.dtype, copy=False)
    inverse = 1 / xp.sqrt(var + eps)
    _scale(centred, None if fix_gamma else gamma, beta, inverse, axis)
    return centred, mean, inverse


def _scale(centred: Any, gamma: Any, beta: Any, inverse: Any, axis: int) -> None:
    """Scale and shift in place what the mean was taken from; no gamma counts as 1."""
    scale = inverse if gamma is None else inverse * gamma
    centred *= along(scale, centred.ndim, axis).astype(centred.dtype, copy=False)
    centred += along(beta, centred.ndim, axis).astype(centred.dtype, copy=False)


def _rectified_gradient(F: Any, dy: Any, out: Any, *inputs: Any, **attrs: Any) -> list[Any]:
    through = None if dy[0] is None else F._relu_grad(dy[0], out[0])
    return _batch_gradient(F, [through, *dy[1:]], out, *inputs, **attrs)


@operator("_contrib_BatchNormWithReLU", infer=_batch_shape, infer_dtype=_batch_dtype,
          gradient=_rectified_gradient, num_outputs=3, visible=batch_norm.visible,
          mutates=batch_norm.mutates, aux=batch_norm.mutates,
          output_names=("output", "mean", "var"))
def batch_norm_relu(
    xp: Any, data: Any, gamma: Any, beta: Any, moving_mean: Any, moving_var: Any, *,
    eps: float = 1e-3, momentum: float = 0.9, fix_gamma: bool = True,
    use_global_stats: bool = False, output_mean_var: bool = False, axis: int = 1,
    cudnn_off: bool = False, training: bool,
) -> Any:
    """BatchNorm, then what is negative becomes 0; in one pass, so graphs join the two to it.

    Args:
        data, gamma, beta, moving_mean, moving_var, eps, momentum, fix_gamma, use_global_stats,
            output_mean_var, axis, cudnn_off: as in BatchNorm.

    Shapes:
        data (N, C, *S); gamma, beta, moving_mean, moving_var (C,) -> (N, C, *S)[, (C,), (C,)].
    """
    out, mean, inverse = batch_norm.body(
        xp, data, gamma, beta, moving_mean, moving_var, eps=eps, momentum=momentum,
        fix_gamma=fix_gamma, use_global_stats=use_global_stats, output_mean_var=output_mean_var,
        axis=axis, cudnn_off=cudnn_off, training=training)
    return xp.maximum(out, out.dtype.type(0), out=out), mean, inverse


def _apply_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    filled, _ = channel_shapes(shapes, attrs["axis"], 4)
    return filled, [filled[0]]


def _apply_dtype(dtypes: DTypes, attrs: Attrs) -> tuple[DTypes, DTypes]:
    return dtypes, [dtypes[0]]


def _apply_gradient(F: Any, dy: Any, out: Any, data: Any, gamma: Any, beta: Any, mean: Any,
                    inverse: Any, *, axis: int, fix_gamma: bool, act_type: str) -> list[Any]:
    """With h = (x - mean) inverse: out = gamma h + beta where it is positive."""
    def wide(values: Any) -> Any:
        return F._along(F._cast_like(values, data), data, axis=axis)

    def total(values: Any, like: Any) -> Any:
        return F._cast_like(F.sum(values, axis=axis, exclude=True), like)

    if act_type == "relu":
        dy = F._relu_grad(dy, out)
    centred = F.broadcast_sub(data, wide(mean))
    scale = inverse if fix_gamma else F.elemwise_mul(inverse, F._cast_like(gamma, inverse))
    to_data = F.broadcast_mul(dy, wide(scale))
    along_scale = total(F.elemwise_mul(dy, centred), inverse)
    to_inverse, to_gamma = along_scale, None
    if not fix_gamma:
        to_inverse = F.elemwise_mul(along_scale, F._cast_like(gamma, inverse))
        to_gamma = F._cast_like(F.elemwise_mul(along_scale, inverse), gamma)
    return [to_data, to_gamma, total(dy, beta), F.negative(total(to_data, mean)), to_inverse]


@operator("_batch_norm_apply", infer=_apply_shape, infer_dtype=_apply_dtype,
          gradient=_apply_gradient)
def batch_norm_apply(
    xp: Any, data: Any, gamma: Any, beta: Any, mean: Any, inverse: Any, *, axis: int = 1,
    fix_gamma: bool = True, act_type: Literal["", "relu"] = "",
) -> Any:
    """What BatchNorm gave, and relu of it, again from its statistics: mean and 1 / std.

    Shapes: data (N, C, *S); the others (C,) -> (N, C, *S).
    """
    out = data - along(mean, data.ndim, axis).astype(data.dtype, copy=False)
    _scale(out, None if fix_gamma else gamma, beta, inverse, axis)
    return xp.maximum(out, out.dtype.type(0), out=out) if act_type == "relu" else out


def _batch_grad_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    return shapes, [shapes[1], shapes[2], shapes[3]]


def _batch_grad_dtype(dtypes: DTypes, attrs: Attrs) -> tuple[DTypes, DTypes]:
    return dtypes, [dtypes[1], dtypes[2], dtypes[3]]


def _batch_grad_gradient(F: Any, u: Any, out: Any, dy: Any, data: Any, gamma: Any, beta: Any,
                         mean: Any, inverse: Any, *, axis: int, fix_gamma: bool, constant: bool
                         ) -> list[Any]:
    """Second order. With h = (x - mean) inverse, A = mean dy, B = mean (dy h) over a channel:
    dx = gamma inverse (dy - A - B h), dgamma = sum dy h, dbeta = sum dy."""

    def wide(values: Any) -> Any:
        return F._along(values, data, axis=axis)

    def total(values: Any) -> Any:
        return F.sum(values, axis=axis, exclude=True)

    def mean_of(values: Any) -> Any:
        return F.mean(values, axis=axis, exclude=True, keepdims=True)

    hat = F.broadcast_mul(F.broadcast_sub(data, wide(mean)), wide(inverse))
    scale = inverse if fix_gamma else F.elemwise_mul(inverse, gamma)
    to_dy = to_hat = to_gamma = to_inverse = None
    if u[0] is not None:
        q = F.broadcast_mul(u[0], wide(scale))
        rest = dy
        to_dy = q
        if not constant:
            slope = mean_of(F.elemwise_mul(dy, hat))
            along_hat = mean_of(F.elemwise_mul(q, hat))
            rest = F.elemwise_sub(F.broadcast_sub(dy, mean_of(dy)), F.broadcast_mul(hat, slope))
            to_dy = F.elemwise_sub(F.broadcast_sub(q, mean_of(q)),
                                   F.broadcast_mul(hat, along_hat))
            to_hat = F.negative(F.elemwise_add(F.broadcast_mul(q, slope),
                                               F.broadcast_mul(dy, along_hat)))
        weight = total(F.elemwise_mul(u[0], rest))
        to_inverse = weight if fix_gamma else F.elemwise_mul(weight, gamma)
        to_gamma = None if fix_gamma else F.elemwise_mul(weight, inverse)
    if u[1] is not None and not fix_gamma:
        to_dy = plus(F, to_dy, F.broadcast_mul(hat, wide(u[1])))
        to_hat = plus(F, to_hat, F.broadcast_mul(dy, wide(u[1])))
    if u[2] is not None:
        to_dy = plus(F, to_dy, F.broadcast_mul(F.ones_like(dy), wide(u[2])))
    to_data = to_mean = None
    if to_hat is not None:
        to_data = F.broadcast_mul(to_hat, wide(inverse))
        to_mean = F.negative(total(to_data))
        centred = F.broadcast_sub(data, wide(mean))
        to_inverse = plus(F, to_inverse, total(F.elemwise_mul(to_hat, centred)))
    return [to_dy, to_data, to_gamma, None, to_mean, to_inverse]


@operator("_batch_norm_grad", infer=_batch_grad_shape, infer_dtype=_batch_grad_dtype,
          num_outputs=3, gradient=_batch_grad_gradient, output_names=("data", "gamma", "beta"))
def batch_norm_grad(
    xp: Any, dy: Any, data: Any, gamma: Any, beta: Any, mean: Any, inverse: Any, *,
    axis: int = 1, fix_gamma: bool = True, constant: bool = False,
) -> Any:
    """Gradients of BatchNorm for data, gamma and beta; `constant`: the statistics were given."""
    axes, ndim, kind = _other_axes(data.ndim, axis), data.ndim, mean.dtype

    def wide(values: Any) -> Any:
        return along(values, ndim, axis).astype(data.dtype, copy=False)

    hat = data - wide(mean)
    hat *= wide(inverse)
    total = dy.sum(axis=axes, dtype=kind)
    weighted = (dy * hat).sum(axis=axes, dtype=kind)
    scale = inverse if fix_gamma else inverse * gamma
    if constant:
        dx = dy * wide(scale)
    else:
        count = max(data.size // max(total.size, 1), 1)
        hat *= wide(-weighted / count)
        hat += dy
        hat -= wide(total / count)
        hat *= wide(scale)
        dx = hat
    dgamma = xp.zeros_like(gamma) if fix_gamma else weighted.astype(gamma.dtype, copy=False)
    return dx, dgamma, total.astype(beta.dtype, copy=False)
