"""Softmax and its relatives: exponentials that sum to one along an axis."""
from __future__ import annotations

from typing import Any, Literal

from ...base import ShapeError
from ..attrs import DType
from ..operator import Attrs, MaybeShape, find_operator, operator
from ..rules import axis_of, follow_dtype, like_shape, merge_shapes, same_shape, size_of

__all__ = ["log_softmax", "log_softmax_grad", "log_softmax_pick_grad", "softmax",
           "softmax_activation", "softmax_cross_entropy", "softmax_grad", "softmax_output",
           "softmax_output_grad", "softmin", "subtract_one_hot"]

Shapes = list[MaybeShape]


def _normalized(xp: Any, data: Any, axis: int) -> Any:
    """exp(data) / sum exp(data) along an axis, safe for huge values."""
    out = data - data.max(axis=axis, keepdims=True)
    xp.exp(out, out=out)
    out /= out.sum(axis=axis, keepdims=True)
    return out


def _log_normalized(xp: Any, data: Any, axis: int) -> Any:
    out = data - data.max(axis=axis, keepdims=True)
    out -= xp.log(xp.exp(out).sum(axis=axis, keepdims=True))
    return out


def _scaled(data: Any, temperature: float | None, dtype: str | None) -> Any:
    """The data as the element type to compute in, divided by the temperature."""
    if dtype is not None:
        data = data.astype(dtype, copy=False)
    return data if temperature in (None, 1.0) else data / temperature


def _softmax_shape(shapes: Shapes, attrs: Attrs, outs: Shapes | None = None
                   ) -> tuple[Shapes, Shapes]:
    data = shapes[0] if not outs else merge_shapes(shapes[0], outs[0], "shapes of data and output")
    if data is None:
        return shapes, [None]
    axis = axis_of(attrs["axis"], len(data))
    if not attrs.get("use_length"):
        return [data], [data]
    length = merge_shapes(data[:axis] + data[axis + 1:], shapes[1],
                          "shapes of length (needed and given)")
    return [data, length], [data]


def _softmax_dtype(dtypes: list[Any], attrs: Attrs) -> tuple[list[Any], list[Any]]:
    return dtypes, [attrs["dtype"] or dtypes[0]]


def _softmax_inputs(attrs: Attrs) -> tuple[str, ...]:
    return ("data", "length") if attrs["use_length"] else ("data",)


def _softmax_rule(F: Any, dy: Any, out: Any, data: Any, attrs: Attrs, sign: float) -> Any:
    """dy -> out (dy - sum(dy out)) / temperature, in the element type of the data."""
    return _rescaled(F, F._softmax_grad(dy, out, axis=attrs["axis"]), data, attrs, sign)


def _rescaled(F: Any, grad: Any, data: Any, attrs: Attrs, sign: float) -> Any:
    factor = sign / (attrs["temperature"] or 1.0)
    if factor != 1.0:
        grad = F._mul_scalar(grad, scalar=factor)
    return grad if attrs["dtype"] is None else F._cast_like(grad, data)


def _softmax_gradient(F: Any, dy: Any, out: Any, data: Any, length: Any = None,
                      **attrs: Any) -> list[Any]:
    grads = [_softmax_rule(F, dy, out, data, attrs, 1.0)]
    return [*grads, None] if attrs["use_length"] else grads


@operator("softmax", infer=_softmax_shape, infer_dtype=_softmax_dtype, inputs=_softmax_inputs,
          gradient=_softmax_gradient, methods=("softmax",))
def softmax(
    xp: Any, data: Any, length: Any = None, *, axis: int = -1, temperature: float | None = None,
    dtype: DType | None = None, use_length: bool = False,
) -> Any:
    """Exponentials divided by their sum along an axis.

    Args:
        length: with use_length: how many entries along `axis` count; the others become 0.
        temperature: the data is divided by it first. dtype: element type of the result.

    Shapes:
        data (*S) -> (*S); length: S without `axis`.

    >>> import numpy as np
    >>> softmax.body(np, np.zeros((1, 4)), **softmax.parse({})).tolist()
    [[0.25, 0.25, 0.25, 0.25]]
    """
    data = _scaled(data, temperature, dtype)
    if not use_length:
        return _normalized(xp, data, axis)
    places = xp.arange(data.shape[axis]).reshape(-1, *(1,) * (data.ndim - 1 - axis % data.ndim))
    inside = places < xp.expand_dims(length, axis)
    lowest = xp.asarray(xp.finfo(data.dtype).min, data.dtype)
    out = _normalized(xp, xp.where(inside, data, lowest), axis)
    out *= inside
    return out


@operator("softmin", infer=_softmax_shape, infer_dtype=_softmax_dtype,
          gradient=lambda F, dy, out, data, **attrs: [_softmax_rule(F, dy, out, data, attrs,
                                                                    -1.0)],
          methods=("softmin",))
def softmin(xp: Any, data: Any, *, axis: int = -1, temperature: float | None = None,
            dtype: DType | None = None) -> Any:
    """Softmax of the negative data.

    Shapes: data (*S) -> (*S).

    >>> import numpy as np
    >>> softmin.body(np, np.array([0.0, 100.0]), **softmin.parse({})).round(3).tolist()
    [1.0, 0.0]
    """
    return _normalized(xp, -_scaled(data, temperature, dtype), axis)


def _log_softmax_gradient(F: Any, dy: Any, out: Any, data: Any, **attrs: Any) -> list[Any]:
    grad = F._log_softmax_grad(dy, out, axis=attrs["axis"])
    return [_rescaled(F, grad, data, attrs, 1.0)]


@operator("log_softmax", infer=_softmax_shape, infer_dtype=_softmax_dtype,
          gradient=_log_softmax_gradient, methods=("log_softmax",))
def log_softmax(xp: Any, data: Any, *, axis: int = -1, temperature: float | None = None,
                dtype: DType | None = None) -> Any:
    """Logarithm of softmax, computed without taking the logarithm of tiny numbers.

    Shapes: data (*S) -> (*S).

    >>> import numpy as np
    >>> log_softmax.body(np, np.array([0.0, 1000.0]), **log_softmax.parse({})).tolist()
    [-1000.0, 0.0]
    """
    return _log_normalized(xp, _scaled(data, temperature, dtype), axis)


# -- gradients ----------------------------------------------------------------------------------


def _total(xp: Any, data: Any, axis: int) -> Any:
    """Sum along an axis that stays with size 1; of half precision numbers in single precision."""
    wide = xp.float32 if data.dtype == xp.float16 else data.dtype
    return data.sum(axis=axis, keepdims=True, dtype=wide).astype(data.dtype, copy=False)


def _softmax_second(F: Any, u: Any, grad: Any, dy: Any, out: Any, *, axis: int) -> list[Any]:
    """dx = out (dy - s), s = sum dy out: to dy the same of u; to out u (dy - s) - dy sum u out."""
    total = F.sum(F.elemwise_mul(dy, out), axis=axis, keepdims=True)
    along = F.sum(F.elemwise_mul(u, out), axis=axis, keepdims=True)
    to_out = F.elemwise_sub(F.elemwise_mul(u, F.broadcast_sub(dy, total)),
                            F.broadcast_mul(dy, along))
    return [F._softmax_grad(u, out, axis=axis), to_out]


@operator("_softmax_grad", infer=same_shape, gradient=_softmax_second)
def softmax_grad(xp: Any, dy: Any, out: Any, *, axis: int = -1) -> Any:
    """Gradient of softmax for its data, from its result: out (dy - sum(dy out))."""
    return out * (dy - _total(xp, dy * out, axis))


def _log_softmax_second(F: Any, u: Any, grad: Any, dy: Any, out: Any, *, axis: int) -> list[Any]:
    """dx = dy - p s with p = exp(out), s = sum dy: to dy u - sum u p, to out - u p s."""
    part = F.elemwise_mul(u, F.exp(out))
    total = F.sum(dy, axis=axis, keepdims=True)
    return [F.broadcast_sub(u, F.sum(part, axis=axis, keepdims=True)),
            F.negative(F.broadcast_mul(part, total))]


@operator("_log_softmax_grad", infer=same_shape, gradient=_log_softmax_second)
def log_softmax_grad(xp: Any, dy: Any, out: Any, *, axis: int = -1) -> Any:
    """Gradient of log_softmax for its data, from its result: dy - exp(out) sum(dy)."""
    return dy - xp.exp(out) * _total(xp, dy, axis)


@operator("_log_softmax_pick_grad", infer=like_shape(2), infer_dtype=follow_dtype(2))
def log_softmax_pick_grad(xp: Any, dy: Any, index: Any, out: Any, *, axis: int = -1,
                          mode: str = "clip") -> Any:
    """What goes back through ``pick(log_softmax(x), index)``: one step in place of two arrays as
    large as x. ``graph/rewrite.py`` puts it there."""
    spread = find_operator("_pick_grad").body(xp, dy, out, index, axis=axis, mode=mode)
    return log_softmax_grad.body(xp, spread, out, axis=axis)


# -- older forms --------------------------------------------------------------------------------


def _activation_gradient(F: Any, dy: Any, out: Any, data: Any, *, mode: str) -> list[Any]:
    return [F._softmax_grad(dy, out, axis=1 if mode == "channel" else -1)]


@operator("SoftmaxActivation", infer=same_shape, gradient=_activation_gradient)
def softmax_activation(xp: Any, data: Any, *, mode: Literal["channel", "instance"] = "instance"
                       ) -> Any:
    """Softmax over the last axis (instance) or over axis 1 (channel). Deprecated: use softmax.

    Shapes: data (N, *S) -> (N, *S).

    >>> import numpy as np
    >>> softmax_activation.body(np, np.zeros((1, 2, 2)), mode="instance").tolist()
    [[[0.5, 0.5], [0.5, 0.5]]]
    """
    return _normalized(xp, data, 1 if mode == "channel" else -1)


def _cross_entropy_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data, label = shapes
    if data is not None and len(data) != 2:
        raise ShapeError(f"expected data (N, K), got {data}")
    if data is None:
        return shapes, [(1,)]
    label = merge_shapes(data[:1], label, "shapes of label (needed and given)")
    return [data, label], [(1,)]


def _cross_entropy_gradient(F: Any, dy: Any, out: Any, data: Any, label: Any) -> list[Any]:
    gap = F._subtract_one_hot(F.softmax(data, axis=-1), label)
    return [F.broadcast_mul(gap, F.reshape(dy, shape=(1, 1))), None]


@operator("softmax_cross_entropy", infer=_cross_entropy_shape, infer_dtype=follow_dtype(fill=True),
          gradient=_cross_entropy_gradient)
def softmax_cross_entropy(xp: Any, data: Any, label: Any) -> Any:
    """Sum over the samples of -log softmax(data)[label].

    Shapes: data (N, K), label (N,) with class numbers -> (1,).

    >>> import numpy as np
    >>> softmax_cross_entropy.body(np, np.zeros((2, 4)), np.array([0, 1])).round(4).tolist()
    [2.7726]
    """
    if label.shape != data.shape[:1]:
        raise ValueError(f"label {label.shape} does not fit data {data.shape}")
    logs = _log_normalized(xp, data, -1)
    picked = xp.take_along_axis(logs, label.astype(xp.int64).reshape(-1, 1), axis=1)
    return -picked.sum(keepdims=True, dtype=data.dtype).reshape(1)


@operator("_subtract_one_hot", infer=like_shape(0), infer_dtype=follow_dtype(),
          gradient=lambda F, dy, out, data, label: [dy, None])
def subtract_one_hot(xp: Any, data: Any, label: Any) -> Any:
    """data (N, K) minus 1 at each row's label."""
    return data - (xp.arange(data.shape[1]) == label.reshape(-1, 1)).astype(data.dtype)


# -- SoftmaxOutput ------------------------------------------------------------------------------


def _output_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data, label = shapes
    if data is None:
        return shapes, [None]
    if label is not None and len(label) == len(data) > 1 and (
            not attrs["multi_output"] or label[1] != 1 or data[1] == 1):
        return [data, merge_shapes(data, label, "shapes of label (probabilities, as data)")], [data]
    wanted, *others = _label_shapes(data, attrs)
    if label is not None and label not in (wanted, *others):
        wanted = next((shape for shape in others if len(shape) == len(label)), wanted)
    elif label is not None:
        wanted = label
    label = merge_shapes(wanted, label, "shapes of label (needed and given)")
    return [data, label], [data]


def _label_shapes(data: tuple[int, ...], attrs: Attrs) -> list[tuple[int, ...]]:
    """The shapes that a label may have, the one for an unknown label first."""
    if attrs["multi_output"]:
        return [(data[0], size_of(data[2:])), (data[0], *data[2:]), (data[0], 1, *data[2:])]
    return [data[:-1] or data, data[:1]]


def _check_label(data: Any, label: Any, attrs: Attrs) -> None:
    """The forward does not look at the label, so it would not notice one that does not fit."""
    if label.shape not in _label_shapes(data.shape, attrs):
        _output_shape([data.shape, label.shape], attrs)


def _class_axis(data: Any, multi_output: bool, preserve_shape: bool) -> Any:
    """The data as (rows, classes, places)."""
    if multi_output:
        return data.reshape(*data.shape[:2], -1)
    if preserve_shape:
        return data.reshape(-1, data.shape[-1], 1)
    return data.reshape(data.shape[0], -1, 1)


def _output_gradient(F: Any, dy: Any, out: Any, data: Any, label: Any, **attrs: Any) -> list[Any]:
    grad = F._softmax_output_grad(out, label, **attrs)
    return [F.elemwise_mul(grad, dy) if attrs["out_grad"] else grad, None]


@operator("SoftmaxOutput", infer=_output_shape, infer_dtype=follow_dtype(fill=True),
          gradient=_output_gradient, aliases=("Softmax",))
def softmax_output(
    xp: Any, data: Any, label: Any, *, grad_scale: float = 1.0, ignore_label: float = -1.0,
    multi_output: bool = False, use_ignore: bool = False, preserve_shape: bool = False,
    normalization: Literal["batch", "null", "valid"] = "null", out_grad: bool = False,
    smooth_alpha: float = 0.0,
) -> Any:
    """Softmax whose gradient is that of the cross entropy with `label`: (p - onehot) grad_scale.

    The gradient that arrives from above is ignored unless `out_grad`.

    Args:
        label: class numbers, or probabilities shaped like the data.
        grad_scale: the gradient is multiplied with it.
        ignore_label, use_ignore: samples with this label get no gradient.
        multi_output: softmax over axis 1 at each place; preserve_shape: over the last axis.
        normalization: divide the gradient by nothing, the batch size, or the valid labels.
        smooth_alpha: the label's probability loses it to the other classes; not used with
            `multi_output`, as in MXNet.

    Shapes:
        data (N, K), label (N,) -> (N, K); multi_output: data (N, K, *S), label (N, *S).

    >>> import numpy as np
    >>> x, y = np.zeros((1, 2)), np.array([1.0])
    >>> softmax_output.body(np, x, y, **softmax_output.parse({})).tolist()
    [[0.5, 0.5]]
    """
    _check_label(data, label, {"multi_output": multi_output, "preserve_shape": preserve_shape})
    return _normalized(xp, _class_axis(data, multi_output, preserve_shape), 1).reshape(data.shape)


@operator("_softmax_output_grad", infer=like_shape(0), infer_dtype=follow_dtype(),
          gradient=lambda F, dy, out, p, label, **attrs: [None, None])
def softmax_output_grad(
    xp: Any, out: Any, label: Any, *, grad_scale: float = 1.0, ignore_label: float = -1.0,
    multi_output: bool = False, use_ignore: bool = False, preserve_shape: bool = False,
    normalization: Literal["batch", "null", "valid"] = "null", out_grad: bool = False,
    smooth_alpha: float = 0.0,
) -> Any:
    """Gradient of SoftmaxOutput: probabilities minus labels, scaled."""
    p = _class_axis(out, multi_output, preserve_shape)
    if label.shape == out.shape and out.ndim > 1:
        grad = p - _class_axis(label, multi_output, preserve_shape).astype(p.dtype, copy=False)
        return (grad * grad_scale).reshape(out.shape)
    classes = p.shape[1]
    places = p.shape[0] * p.shape[2]  # of rows of several axes, MXNet takes the first N labels
    number = label.reshape(-1)[:places].reshape(p.shape[0], 1, p.shape[2])
    smooth_alpha = 0.0 if multi_output else smooth_alpha
    hit = xp.arange(classes).reshape(1, -1, 1) == number
    other = smooth_alpha / (classes - 1) if smooth_alpha else 0.0
    grad = p - xp.where(hit, p.dtype.type(1.0 - smooth_alpha), p.dtype.type(other))
    valid = number != ignore_label
    if use_ignore:
        grad *= valid
    count = 1.0
    if normalization == "valid":
        count = max(float(valid.sum()), 1.0)
    elif normalization == "batch":
        count = float(p.shape[0])
    if multi_output and normalization != "valid":
        count *= p.shape[2]
    grad *= grad_scale / count
    return grad.reshape(out.shape)
