"""Transposed convolutions over one, two or three spatial axes."""
from __future__ import annotations

from typing import Any

from ..base import ParameterMismatch
from .conv import ConvLayer, Sizes, spatial

__all__ = ["Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose"]


class _ConvTranspose(ConvLayer):
    """A transposed convolution; its classes differ in the number of spatial axes."""

    _operator = "Deconvolution"

    def __init__(self, channels: int, kernel_size: Sizes, strides: Sizes, padding: Sizes,
                 output_padding: Sizes, dilation: Sizes, groups: int, layout: str,
                 activation: str | None, use_bias: bool, weight_initializer: Any,
                 bias_initializer: Any, in_channels: int, **kwargs: Any) -> None:
        kind = type(self).__name__
        if channels % groups:
            raise ParameterMismatch(f"{kind}: channels: expected a multiple of groups={groups}, "
                                    f"got {channels}")
        super().__init__(channels, kernel_size, strides, padding, dilation, groups, layout,
                         activation, use_bias, weight_initializer, bias_initializer, in_channels,
                         **kwargs)
        self._kwargs["adj"] = spatial(output_padding, self._axes, f"{kind}: output_padding")

    def _sides(self, channels: int, in_channels: int, groups: int) -> tuple[int, int]:
        return in_channels, channels // groups

    def _arrow(self) -> str:
        shape = self.weight.shape or (0, self._channels)
        return f"{shape[1 if self._kwargs['layout'][1] == 'C' else -1]} -> {shape[0]}"


class Conv1DTranspose(_ConvTranspose):
    """A transposed convolution over one spatial axis; arguments as those of Conv2DTranspose.

    Shapes: (N, C, W) -> (N, channels, W'), or (N, W, C) with layout='NWC'.
    """

    _axes = 1

    def __init__(self, channels: int, kernel_size: Sizes, strides: Sizes = 1, padding: Sizes = 0,
                 output_padding: Sizes = 0, dilation: Sizes = 1, groups: int = 1,
                 layout: str = "NCW", activation: str | None = None, use_bias: bool = True,
                 weight_initializer: Any = None, bias_initializer: Any = "zeros",
                 in_channels: int = 0, **kwargs: Any) -> None:
        super().__init__(channels, kernel_size, strides, padding, output_padding, dilation,
                         groups, layout, activation, use_bias, weight_initializer,
                         bias_initializer, in_channels, **kwargs)


class Conv2DTranspose(_ConvTranspose):
    """A transposed convolution over two spatial axes: what a generator grows images with.

    Args:
        channels: number of channels that come out.
        kernel_size, strides, padding, dilation: a number, or one for each spatial axis; padding
            is cut from the output.
        output_padding: extra size on the far side, less than strides.
        groups: channels in and out are split into so many groups.
        layout: 'NCHW' or 'NHWC'.
        activation: 'relu', 'tanh', ... or None.
        use_bias: whether to add a bias.
        weight_initializer, bias_initializer: what the parameters start from.
        in_channels: number of channels that come in; found at the first forward when 0.

    Shapes: (N, C, H, W) -> (N, channels, H', W'), with
        H' = strides (H - 1) + dilation (kernel - 1) + 1 - 2 padding + output_padding.

    >>> import minigluon as mx
    >>> layer = mx.gluon.nn.Conv2DTranspose(3, kernel_size=4, strides=2, padding=1)
    >>> layer.initialize()
    >>> layer(mx.nd.ones((1, 8, 5, 5))).shape, layer.weight.shape
    ((1, 3, 10, 10), (8, 3, 4, 4))
    """

    _axes = 2

    def __init__(self, channels: int, kernel_size: Sizes, strides: Sizes = (1, 1),
                 padding: Sizes = (0, 0), output_padding: Sizes = (0, 0),
                 dilation: Sizes = (1, 1), groups: int = 1, layout: str = "NCHW",
                 activation: str | None = None, use_bias: bool = True,
                 weight_initializer: Any = None, bias_initializer: Any = "zeros",
                 in_channels: int = 0, **kwargs: Any) -> None:
        super().__init__(channels, kernel_size, strides, padding, output_padding, dilation,
                         groups, layout, activation, use_bias, weight_initializer,
                         bias_initializer, in_channels, **kwargs)


class Conv3DTranspose(_ConvTranspose):
    """A transposed convolution over three spatial axes; arguments as those of Conv2DTranspose.

    Shapes: (N, C, D, H, W) -> (N, channels, D', H', W'), or with layout='NDHWC'.
    """

    _axes = 3

    def __init__(self, channels: int, kernel_size: Sizes, strides: Sizes = (1, 1, 1),
                 padding: Sizes = (0, 0, 0), output_padding: Sizes = (0, 0, 0),
                 dilation: Sizes = (1, 1, 1), groups: int = 1, layout: str = "NCDHW",
                 activation: str | None = None, use_bias: bool = True,
                 weight_initializer: Any = None, bias_initializer: Any = "zeros",
                 in_channels: int = 0, **kwargs: Any) -> None:
        super().__init__(channels, kernel_size, strides, padding, output_padding, dilation,
                         groups, layout, activation, use_bias, weight_initializer,
                         bias_initializer, in_channels, **kwargs)
