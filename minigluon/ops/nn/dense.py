"""FullyConnected: a matrix product with the weights, and its two bilinear gradients."""
from __future__ import annotations

from typing import Any

from ...base import ArgumentValueError, ShapeError
from ..operator import Attrs, MaybeShape, operator
from ..rules import merge_shapes, size_of

__all__ = ["fc_grad_data", "fc_grad_weight", "fully_connected"]

Shapes = tuple[list[MaybeShape], list[MaybeShape]]


def _fc_shape(shapes: list[MaybeShape], attrs: Attrs, outs: list[MaybeShape] | None = None
              ) -> Shapes:
    hidden, flatten = attrs["num_hidden"], attrs["flatten"]
    if hidden < 1:
        raise ArgumentValueError(f"num_hidden: expected a positive number, got {hidden}")
    data, weight = shapes[0], shapes[1]
    if data is None:
        return shapes, [None]
    if len(data) < 1 + (not flatten):
        raise ShapeError(f"expected data of at least {1 + (not flatten)} dimensions, "
                         f"got {data}")
    width = size_of(data[1:]) if flatten else data[-1]
    weight = merge_shapes((hidden, width), weight, f"shapes of weight (needed for data {data} with "
                          f"flatten={flatten}, and given)")
    assert weight is not None
    if weight[1]:
        data = _fill(data, weight[1], flatten)
    made = [data, weight]
    if not attrs["no_bias"]:
        made.append(merge_shapes((hidden,), shapes[2] if len(shapes) > 2 else None,
                                 "shapes of bias (needed and given)"))
    out: MaybeShape = (data[0], hidden) if flatten else (*data[:-1], hidden)
    if outs:
        out = merge_shapes(out, outs[0], "output shapes (computed, and needed by what follows)")
        if out is not None:  # the batch size may come from behind
            made[0] = (out[0], *data[1:]) if flatten else (*out[:-1], data[-1])
    return made, [out]


def _fill(data: tuple[int, ...], width: int, flatten: bool) -> tuple[int, ...]:
    """The one unknown dimension of data that the width of the weight settles."""
    if not flatten:
        return (*data[:-1], width)
    if data[1:].count(0) != 1:
        return data
    rest = size_of(n for n in data[1:] if n)
    return (data[0], *(n or width // rest for n in data[1:]))


def _rows(array: Any, flatten: bool) -> Any:
    """The array as a matrix with one row for each sample."""
    if array.ndim == 2:
        return array
    if flatten:
        return array.reshape(array.shape[0], size_of(array.shape[1:]))
    return array.reshape(size_of(array.shape[:-1]), array.shape[-1])


def _fc_gradient(F: Any, dy: Any, out: Any, data: Any, weight: Any, bias: Any = None, *,
                 num_hidden: int, no_bias: bool, flatten: bool) -> list[Any]:
    grads = [F._fc_grad_data(dy, weight, data, num_hidden=num_hidden, flatten=flatten),
             F._fc_grad_weight(dy, data, num_hidden=num_hidden, flatten=flatten)]
    if not no_bias:
        grads.append(F.sum(dy, axis=-1, exclude=True))
    return grads


def _fc_inputs(attrs: Attrs) -> tuple[str, ...]:
    return ("data", "weight") if attrs["no_bias"] else ("data", "weight", "bias")


@operator("FullyConnected", infer=_fc_shape, gradient=_fc_gradient, inputs=_fc_inputs)
def fully_connected(
    xp: Any, data: Any, weight: Any, bias: Any = None, *, num_hidden: int,
    no_bias: bool = False, flatten: bool = True,
) -> Any:
    """Multiply each sample with the weights and add the bias: data . weight^T + bias.

    Args:
        data: the samples. weight: one row for each output. bias: left out with no_bias.
        num_hidden: number of outputs.
        flatten: all axes but the first make up a sample; otherwise only the last one does.

    Shapes:
        flatten: data (N, *D), weight (num_hidden, prod D), bias (num_hidden,) -> (N, num_hidden).
        otherwise: data (*L, D), weight (num_hidden, D) -> (*L, num_hidden).

    >>> import numpy as np
    >>> x, w, b = np.ones((2, 3), "float32"), np.ones((4, 3), "float32"), np.zeros(4, "float32")
    >>> fully_connected.body(np, x, w, b, **fully_connected.parse({"num_hidden": 4}))[0].tolist()
    [3.0, 3.0, 3.0, 3.0]
    """
    if weight.shape[0] != num_hidden:
        raise ValueError(f"weight {weight.shape} does not fit num_hidden={num_hidden}")
    out = xp.matmul(_rows(data, flatten), weight.T)
    if bias is not None:
        if bias.shape != weight.shape[:1]:
            raise ValueError(f"bias {bias.shape} does not fit weight {weight.shape}")
        out += bias
    if not flatten and data.ndim != 2:
        out = out.reshape(*data.shape[:-1], weight.shape[0])
    return out


def _grad_data_shape(shapes: list[MaybeShape], attrs: Attrs) -> Shapes:
    return shapes, [shapes[2]]


def _grad_data_gradient(F: Any, u: Any, out: Any, dy: Any, weight: Any, data: Any,
                        **attrs: Any) -> list[Any]:
    return [F.FullyConnected(u, weight, no_bias=True, **attrs),
            F._fc_grad_weight(dy, u, **attrs), None]


@operator("_fc_grad_data", infer=_grad_data_shape, gradient=_grad_data_gradient)
def fc_grad_data(xp: Any, dy: Any, weight: Any, data: Any, *, num_hidden: int,
                 flatten: bool = True) -> Any:
    """Gradient of FullyConnected for its data, of which only the shape is used."""
    return xp.matmul(_rows(dy, flatten), weight).reshape(data.shape)


def _grad_weight_shape(shapes: list[MaybeShape], attrs: Attrs) -> Shapes:
    data, width = shapes[1], 0
    if data is not None:
        width = size_of(data[1:]) if attrs["flatten"] else data[-1]
    return shapes, [(attrs["num_hidden"], width)]


def _grad_weight_gradient(F: Any, u: Any, out: Any, dy: Any, data: Any,
                          **attrs: Any) -> list[Any]:
    return [F.FullyConnected(data, u, no_bias=True, **attrs),
            F._fc_grad_data(dy, u, data, **attrs)]


@operator("_fc_grad_weight", infer=_grad_weight_shape, gradient=_grad_weight_gradient)
def fc_grad_weight(xp: Any, dy: Any, data: Any, *, num_hidden: int, flatten: bool = True) -> Any:
    """Gradient of FullyConnected for its weight."""
    return xp.matmul(_rows(dy, flatten).T, _rows(data, flatten))
