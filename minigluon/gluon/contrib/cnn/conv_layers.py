"""DeformableConvolution and ModulatedDeformableConvolution."""
from __future__ import annotations

from typing import Any

from ....base import ArgumentValueError
from ....nn import Activation, HybridBlock, ParameterDict
from ....nn.conv import shown

__all__ = ["DeformableConvolution", "ModulatedDeformableConvolution"]

Sizes = int | tuple[int, ...]


def _pair(value: Sizes) -> tuple[int, ...]:
    return (value, value) if isinstance(value, int) else tuple(value)


class _Deformable(HybridBlock):
    """A convolution that says where to read, and one that reads there."""

    _per_point: int  # what the first says of each point: two moves, or those and a weight

    def __init__(
        self, channels: int, kernel_size: Sizes, strides: Sizes, padding: Sizes, dilation: Sizes,
        groups: int, num_deformable_group: int, layout: str, use_bias: bool, in_channels: int,
        activation: str | None, weight_initializer: Any, bias_initializer: Any,
        offset_weight_initializer: Any, offset_bias_initializer: Any, offset_use_bias: bool,
        op_name: str, adj: Any, prefix: str | None, params: ParameterDict | None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        if layout != "NCHW":
            raise ArgumentValueError(f"{type(self).__name__}: layout: expected 'NCHW', got "
                                     f"{layout!r}")
        if adj is not None:
            raise ArgumentValueError(f"{type(self).__name__}: adj is for transposed ones; leave "
                                     f"it out")
        kernel = _pair(kernel_size)
        points = self._per_point * kernel[0] * kernel[1] * num_deformable_group
        self._channels = channels
        self._in_channels = in_channels
        shared: dict[str, Any] = {
            "kernel": kernel, "stride": _pair(strides), "dilate": _pair(dilation),
            "pad": _pair(padding)}
        self._kwargs_offset = {**shared, "num_filter": points, "num_group": 1,
                               "no_bias": not offset_use_bias}
        self._kwargs = {**shared, "num_filter": channels, "num_group": groups,
                        "num_deformable_group": num_deformable_group, "no_bias": not use_bias}
        with self.name_scope():
            self.offset_weight = self._parameter(
                "offset_weight", (points, in_channels, *kernel), offset_weight_initializer)
            self.offset_bias = self._parameter(
                "offset_bias", (points,), offset_bias_initializer) if offset_use_bias else None
            self.deformable_conv_weight = self._parameter(
                "deformable_conv_weight", (channels, in_channels // groups, *kernel),
                weight_initializer)
            self.deformable_conv_bias = self._parameter(
                "deformable_conv_bias", (channels,), bias_initializer) if use_bias else None
            self.act = Activation(activation, prefix=activation + "_") if activation else None

    def _parameter(self, name: str, shape: tuple[int, ...], init: Any) -> Any:
        return self.params.get(name, shape=shape, init=init, allow_deferred_init=True)

    def _finished(self, out: Any) -> Any:
        return out if self.act is None else self.act(out)

    def __repr__(self) -> str:
        inner = (self.deformable_conv_weight.shape or (0, 0))[1]
        arrow = f"{inner or None} -> {self._channels}"
        return shown(self, arrow, self._kwargs, self.deformable_conv_bias is not None)


class DeformableConvolution(_Deformable):
    """A convolution whose kernel elements read at places that a convolution beside it finds.

    Args:
        channels: number of filters.
        kernel_size, strides, padding, dilation: a number, or one for each spatial axis.
        groups: channels in and out are split into so many groups.
        num_deformable_group: the channels are split into so many groups with own places.
        layout: 'NCHW'. use_bias: whether to add a bias. activation: 'relu', ... or None.
        in_channels: number of channels that come in; found at the first forward when 0.
        weight_initializer, bias_initializer: of the convolution.
        offset_weight_initializer, offset_bias_initializer, offset_use_bias: of the one that
            finds the places; it starts with zeros: all stay where they are.

    Shapes: (N, C, H, W) -> (N, channels, H', W').

    >>> import minigluon as mx
    >>> layer = mx.gluon.contrib.cnn.DeformableConvolution(6, kernel_size=3, padding=1)
    >>> layer.initialize()
    >>> layer(mx.nd.ones((1, 4, 5, 5))).shape
    (1, 6, 5, 5)
    """

    _per_point = 2

    def __init__(
        self, channels: int, kernel_size: Sizes = (1, 1), strides: Sizes = (1, 1),
        padding: Sizes = (0, 0), dilation: Sizes = (1, 1), groups: int = 1,
        num_deformable_group: int = 1, layout: str = "NCHW", use_bias: bool = True,
        in_channels: int = 0, activation: str | None = None, weight_initializer: Any = None,
        bias_initializer: Any = "zeros", offset_weight_initializer: Any = "zeros",
        offset_bias_initializer: Any = "zeros", offset_use_bias: bool = True,
        op_name: str = "DeformableConvolution", adj: Any = None, prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(
            channels, kernel_size, strides, padding, dilation, groups, num_deformable_group,
            layout, use_bias, in_channels, activation, weight_initializer, bias_initializer,
            offset_weight_initializer, offset_bias_initializer, offset_use_bias, op_name, adj,
            prefix, params)

    def _alias(self) -> str:
        return "deformable_conv"

    def hybrid_forward(self, F: Any, x: Any, offset_weight: Any, deformable_conv_weight: Any,
                       offset_bias: Any = None, deformable_conv_bias: Any = None) -> Any:
        """A Convolution for the places, a DeformableConvolution, then the activation."""
        offset = F.Convolution(x, offset_weight, offset_bias, **self._kwargs_offset)
        return self._finished(F.contrib.DeformableConvolution(
            x, offset, deformable_conv_weight, deformable_conv_bias, name="fwd", **self._kwargs))


class ModulatedDeformableConvolution(_Deformable):
    """A DeformableConvolution that also weights what each kernel element reads (DCN v2).

    Args:
        channels, kernel_size, strides, padding, dilation, groups, num_deformable_group, layout,
            use_bias, in_channels, activation, weight_initializer, bias_initializer,
            offset_weight_initializer, offset_bias_initializer, offset_use_bias: as in
            DeformableConvolution; the weights start as 1.

    Shapes: (N, C, H, W) -> (N, channels, H', W').
    """

    _per_point = 3

    def __init__(
        self, channels: int, kernel_size: Sizes = (1, 1), strides: Sizes = (1, 1),
        padding: Sizes = (0, 0), dilation: Sizes = (1, 1), groups: int = 1,
        num_deformable_group: int = 1, layout: str = "NCHW", use_bias: bool = True,
        in_channels: int = 0, activation: str | None = None, weight_initializer: Any = None,
        bias_initializer: Any = "zeros", offset_weight_initializer: Any = "zeros",
        offset_bias_initializer: Any = "zeros", offset_use_bias: bool = True,
        op_name: str = "ModulatedDeformableConvolution", adj: Any = None,
        prefix: str | None = None, params: ParameterDict | None = None,
    ) -> None:
        super().__init__(
            channels, kernel_size, strides, padding, dilation, groups, num_deformable_group,
            layout, use_bias, in_channels, activation, weight_initializer, bias_initializer,
            offset_weight_initializer, offset_bias_initializer, offset_use_bias, op_name, adj,
            prefix, params)
        kernel = _pair(kernel_size)
        self._moves = 2 * kernel[0] * kernel[1] * num_deformable_group

    def _alias(self) -> str:
        return "modulated_deformable_conv"

    def hybrid_forward(self, F: Any, x: Any, offset_weight: Any, deformable_conv_weight: Any,
                       offset_bias: Any = None, deformable_conv_bias: Any = None) -> Any:
        """A Convolution for places and weights, the convolution itself, then the activation."""
        found = F.Convolution(x, offset_weight, offset_bias, **self._kwargs_offset)
        offset = F.slice_axis(found, axis=1, begin=0, end=self._moves)
        mask = F.sigmoid(F.slice_axis(found, axis=1, begin=self._moves, end=None)) * 2
        return self._finished(F.contrib.ModulatedDeformableConvolution(
            x, offset, mask, deformable_conv_weight, deformable_conv_bias, name="fwd",
            **self._kwargs))
