"""Activations: functions applied to each element between layers."""
from __future__ import annotations

from typing import Any, Literal

from ...base import ArgumentValueError, NotForThisError, ShapeError
from ..custom import OpenOperator
from ..operator import Attrs, MaybeShape, Operator, find_operator, operator, registry
from ..rules import same_shape
from ..special import erf
from .channel import along

__all__ = ["activation", "leaky_relu"]

ActType = Literal["relu", "sigmoid", "tanh", "softrelu", "softsign"]
LeakyType = Literal["elu", "gelu", "leaky", "prelu", "rrelu", "selu"]

_SELU_SCALE, _SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


def _softrelu(xp: Any, data: Any) -> Any:
    return xp.logaddexp(data, data.dtype.type(0))


def _activation_gradient(F: Any, dy: Any, out: Any, data: Any, *, act_type: str) -> Any:
    if act_type == "softrelu":
        return [F.elemwise_mul(dy, F.sigmoid(data))]
    rule = find_operator(act_type).gradient
    assert rule is not None
    return rule(F, dy, out, data)


@operator("Activation", infer=same_shape, gradient=_activation_gradient)
def activation(xp: Any, data: Any, *, act_type: ActType) -> Any:
    """Apply relu, sigmoid, tanh, softrelu (log(1 + e^x)) or softsign (x / (1 + |x|)).

    Shapes: data (*S) -> (*S).

    >>> import numpy as np
    >>> activation.body(np, np.array([-1.0, 2.0]), act_type="relu").tolist()
    [0.0, 2.0]
    """
    body = _softrelu if act_type == "softrelu" else find_operator(act_type).body
    return body(xp, data)


# -- the leaky family ---------------------------------------------------------------------------


def _leaky_shape(shapes: list[MaybeShape], attrs: Attrs) -> tuple[list[MaybeShape],
                                                                  list[MaybeShape]]:
    if attrs["act_type"] != "prelu":
        return same_shape(shapes[:1], attrs)
    data, gamma = shapes
    if data is None:
        return shapes, [data]
    channels = (data[1] if len(data) > 1 else data[0],)
    if gamma is None:
        return [data, channels], [data]
    allowed = ((1,), channels, data[1:])
    if not any(_fits(gamma, shape) for shape in allowed):
        raise ShapeError(f"expected gamma of shape {', '.join(map(str, allowed))} for data "
                         f"{data}, got {gamma}")
    return shapes, [data]


def _fits(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return len(shape) == len(other) and all(a == b or not a or not b
                                            for a, b in zip(shape, other, strict=True))


def _leaky_inputs(attrs: Attrs) -> tuple[str, ...]:
    return ("data", "gamma") if attrs["act_type"] == "prelu" else ("data",)


def _leaky_gradient(F: Any, dy: Any, out: Any, data: Any, gamma: Any = None, *, act_type: str,
                    slope: float, **_: Any) -> list[Any]:
    if act_type == "prelu":
        return _prelu_gradient(F, dy, data, gamma)
    if act_type == "gelu":
        return [F.elemwise_mul(dy, _gelu_slope(F, data))]
    positive = F._greater_scalar(data, scalar=0.0)
    negative = F._rminus_scalar(positive, scalar=1.0)
    if act_type == "leaky":
        steps = F._plus_scalar(F._mul_scalar(positive, scalar=1.0 - slope), scalar=slope)
        return [F.elemwise_mul(dy, steps)]
    # elu and selu: below zero the slope is scale * alpha * e^x
    scale, alpha = (_SELU_SCALE, _SELU_ALPHA) if act_type == "selu" else (1.0, slope)
    below = F.exp(F._minimum_scalar(data, scalar=0.0))
    steps = F.elemwise_add(F._mul_scalar(positive, scalar=scale),
                           F._mul_scalar(F.elemwise_mul(negative, below), scalar=scale * alpha))
    return [F.elemwise_mul(dy, steps)]


def _prelu_gradient(F: Any, dy: Any, data: Any, gamma: Any) -> list[Any]:
    slopes = F._along(gamma, data, axis=1)
    positive = F._greater_scalar(data, scalar=0.0)
    negative = F._rminus_scalar(positive, scalar=1.0)
    steps = F.elemwise_add(positive, F.broadcast_mul(negative, slopes))
    below = F.elemwise_mul(F.elemwise_mul(negative, data), dy)
    return [F.elemwise_mul(dy, steps), F.reshape_like(F._sum_like(below, slopes), gamma)]


def _gelu_slope(F: Any, x: Any) -> Any:
    """Derivative of x Phi(x): Phi(x) + x phi(x), Phi the normal distribution, phi its density."""
    inner = F.erf(F._mul_scalar(x, scalar=0.7071067811865476))
    share = F._mul_scalar(F._plus_scalar(inner, scalar=1.0), scalar=0.5)
    density = F._mul_scalar(F.exp(F._mul_scalar(F.square(x), scalar=-0.5)),
                            scalar=0.3989422804014327)
    return F.elemwise_add(share, F.elemwise_mul(x, density))


def _leaky_relu(
    xp: Any, data: Any, gamma: Any = None, *, act_type: LeakyType = "leaky", slope: float = 0.25,
    lower_bound: float = 0.125, upper_bound: float = 0.334,
) -> Any:
    """Activations that let something through below zero.

    Args:
        gamma: only for prelu: the slopes below zero, learnt.
        act_type: leaky (slope x), prelu (gamma x), elu (slope (e^x - 1)), selu, gelu (x Phi(x)),
            or rrelu (as leaky, with a slope for each element).
        lower_bound, upper_bound: of rrelu: its slopes are drawn evenly from between them while
            training, and are the mean of both otherwise.

    Shapes:
        data (N, C, *S) -> (N, C, *S), of rrelu also the slopes (N, C, *S);
        gamma (1,), (C,) or (C, *S).

    >>> import minigluon as mx
    >>> mx.nd.LeakyReLU(mx.nd.array([-1, 2]), slope=0.5).asnumpy().tolist()
    [-0.5, 2.0]
    >>> out, slopes = mx.nd.LeakyReLU(mx.nd.array([-8, 2]), act_type="rrelu",
    ...                               lower_bound=0.25, upper_bound=0.75)
    >>> out.asnumpy().tolist(), slopes.asnumpy().tolist()
    ([-4.0, 2.0], [0.5, 0.5])
    """
    if act_type == "rrelu":
        raise NotForThisError("LeakyReLU: give act_type='rrelu' by name: it has two outputs")
    if act_type == "prelu":
        return xp.where(data > 0, data, data * along(gamma, data.ndim, 1))
    if act_type == "gelu":
        share = erf(xp, data * 0.7071067811865476).astype(data.dtype, copy=False)
        return data * (share + 1) * 0.5
    if act_type == "leaky":
        if 0 <= slope <= 1:  # much faster than where()
            return xp.maximum(data, data * slope)
        return xp.where(data > 0, data, data * slope)
    below = xp.expm1(xp.minimum(data, 0))
    if act_type == "elu":
        return xp.where(data > 0, data, slope * below)
    return _SELU_SCALE * xp.where(data > 0, data, _SELU_ALPHA * below)


def _rrelu_gradient(F: Any, dy: Any, out: Any, data: Any, **_: Any) -> list[Any]:
    if dy[0] is None:
        return [None]
    positive = F._greater_scalar(data, scalar=0.0)
    below = F.elemwise_mul(F._rminus_scalar(positive, scalar=1.0), out[1])
    return [F.elemwise_mul(dy[0], F.elemwise_add(positive, below))]


def _rrelu(
    xp: Any, data: Any, *, act_type: LeakyType = "rrelu", slope: float = 0.25,
    lower_bound: float = 0.125, upper_bound: float = 0.334, rng: Any, training: bool,
) -> Any:
    """LeakyReLU with ``act_type="rrelu"``: what draws and has two outputs is a record of its own.

    After Xu, Wang, Chen, Li, "Empirical Evaluation of Rectified Activations in Convolutional
    Network", https://arxiv.org/abs/1505.00853, section 2.4.
    """
    if not lower_bound <= upper_bound:
        raise ArgumentValueError(f"LeakyReLU: expected lower_bound up to upper_bound, got "
                                 f"{lower_bound} and {upper_bound}")
    if training:
        kind = "float64" if data.dtype == "float64" else "float32"
        drawn = rng.random(data.shape, dtype=kind) * (upper_bound - lower_bound) + lower_bound
        slopes = drawn.astype(data.dtype, copy=False)
    else:
        slopes = xp.full(data.shape, (lower_bound + upper_bound) / 2, data.dtype)
    return xp.where(data > 0, data, data * slopes), slopes


leaky_relu = OpenOperator("LeakyReLU", _leaky_relu, infer=_leaky_shape, gradient=_leaky_gradient,
                          inputs=_leaky_inputs)
_randomized = Operator(
    "LeakyReLU", _rrelu, infer=lambda shapes, attrs: (shapes, [shapes[0], shapes[0]]),
    gradient=_rrelu_gradient, num_outputs=2, output_names=("output", "mask"))
leaky_relu.make = lambda given: (
    _randomized if given.get("act_type") == "rrelu" else leaky_relu)
registry["LeakyReLU"] = leaky_relu
