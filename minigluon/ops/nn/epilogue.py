"""A convolution and what is done to its result right away, as one call. Made by graph passes."""
from __future__ import annotations

from typing import Any, Literal

from ..attrs import Shape
from ..operator import Attrs, MaybeShape, operator
from .channel import along
from .conv import convolution

__all__ = ["conv_fused"]


def _names(attrs: Attrs) -> tuple[str, ...]:
    return ("data", "weight", *(() if attrs["no_bias"] else ("bias",)),
            *(("gamma", "beta", "mean", "var") if attrs["norm"] else ()),
            *(("addend",) if attrs["add"] else ()))


def _shape(shapes: list[MaybeShape], attrs: Attrs) -> tuple[list[MaybeShape], list[MaybeShape]]:
    count = 2 if attrs["no_bias"] else 3
    assert convolution.infer is not None
    inputs, outputs = convolution.infer(shapes[:count], attrs)
    return [*inputs, *shapes[count:]], outputs


@operator("_conv_fused", infer=_shape, inputs=_names)
def conv_fused(
    xp: Any, *inputs: Any, kernel: Shape, stride: Shape = (), dilate: Shape = (), pad: Shape = (),
    num_filter: int, num_group: int = 1, workspace: int = 1024, no_bias: bool = False,
    cudnn_tune: str | None = None, cudnn_off: bool = False, layout: str | None = None,
    norm: bool = False, eps: float = 1e-3, fix_gamma: bool = True, add: bool = False,
    act_type: Literal["", "relu"] = "",
) -> Any:
    """relu(BatchNorm(Convolution(data, weight, bias)) + addend), each part but the first optional.

    Args:
        inputs: data, weight, bias (unless no_bias), gamma, beta, mean, var (if norm), addend
            (if add; of the shape of the result).
        norm, eps, fix_gamma: normalise by the given statistics, as BatchNorm in prediction.
        act_type: relu, or nothing.

    Shapes: as Convolution.
    """
    rest = list(inputs[2:])
    bias = None if no_bias else rest.pop(0)
    out = convolution.body(
        xp, inputs[0], inputs[1], bias, kernel=kernel, stride=stride, dilate=dilate, pad=pad,
        num_filter=num_filter, num_group=num_group, layout=layout)
    axis = 1 if (layout or "NC")[1] == "C" else -1
    if norm:
        gamma, beta, mean, var = (along(rest.pop(0), out.ndim, axis) for _ in range(4))
        scale = 1 / xp.sqrt(var + var.dtype.type(eps))
        out = (out - mean) * (scale if fix_gamma else scale * gamma) + beta
    if add:
        out = out + rest.pop(0)
    return xp.maximum(out, out.dtype.type(0)) if act_type == "relu" else out
