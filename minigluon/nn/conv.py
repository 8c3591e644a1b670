"""Convolutions over one, two or three spatial axes."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base import ArgumentValueError, ParameterMismatch, integer_types
from .activation import Activation
from .hybrid import HybridBlock

__all__ = ["Conv1D", "Conv2D", "Conv3D", "ConvLayer", "Sizes", "shown", "spatial",
           "spatial_layout"]

_LAYOUTS = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}

Sizes = int | Sequence[int]


def spatial(value: Sizes, axes: int, what: str) -> tuple[int, ...]:
    """One number for each spatial axis.

    >>> spatial(3, 2, "Conv2D: kernel_size"), spatial((1, 2), 2, "Conv2D: strides")
    ((3, 3), (1, 2))
    """
    sizes = (value,) * axes if isinstance(value, int) else tuple(value)
    if len(sizes) != axes:
        raise ParameterMismatch(f"{what}: expected a number or {axes} of them, got {value}")
    return sizes


def spatial_layout(layout: str, axes: int, what: str) -> str:
    """The layout, if there is such a one for so many spatial axes."""
    if layout not in _LAYOUTS[axes]:
        raise ParameterMismatch(f"{what}: layout must be one of {', '.join(_LAYOUTS[axes])}, "
                                f"got {layout!r}")
    return layout


def shown(layer: Any, arrow: str, settings: dict[str, Any], biased: bool) -> str:
    """How a convolution prints: MXNet's words, from the operator's settings and ``layer.act``."""
    parts = [arrow, f"kernel_size={settings['kernel']}", f"stride={settings['stride']}"]
    if any(settings["pad"]):
        parts.append(f"padding={settings['pad']}")
    if any(size != 1 for size in settings["dilate"]):
        parts.append(f"dilation={settings['dilate']}")
    if settings["num_group"] != 1:
        parts.append(f"groups={settings['num_group']}")
    if not biased:
        parts.append("bias=False")
    if layer.act is not None:
        parts.append(repr(layer.act))
    return f"{type(layer).__name__}({', '.join(parts)})"


class ConvLayer(HybridBlock):
    """A convolution layer; its classes differ in the operator and the number of spatial axes."""

    _axes: int
    _operator = "Convolution"

    def __init__(self, channels: int, kernel_size: Sizes, strides: Sizes, padding: Sizes,
                 dilation: Sizes, groups: int, layout: str, activation: str | None,
                 use_bias: bool, weight_initializer: Any, bias_initializer: Any,
                 in_channels: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        kind = type(self).__name__
        kernel = spatial(kernel_size, self._axes, f"{kind}: kernel_size")
        for word, count in (("channels", channels), ("groups", groups)):
            if not isinstance(count, integer_types) or count < 1:
                raise ArgumentValueError(f"{kind}: {word}: expected 1 or more, got {count!r}")
        if channels % groups or in_channels % groups:
            raise ArgumentValueError(f"{kind}: groups: expected a divisor of channels={channels} "
                                     f"and in_channels={in_channels}, got {groups}")
        self._channels = channels
        self._in_channels = in_channels
        self._kwargs: dict[str, Any] = {
            "kernel": kernel,
            "stride": spatial(strides, self._axes, f"{kind}: strides"),
            "dilate": spatial(dilation, self._axes, f"{kind}: dilation"),
            "pad": spatial(padding, self._axes, f"{kind}: padding"),
            "num_filter": channels, "num_group": groups, "no_bias": not use_bias,
            "layout": spatial_layout(layout, self._axes, kind),
        }
        outer, inner = self._sides(channels, in_channels, groups)
        shape = (outer, inner, *kernel) if layout[1] == "C" else (outer, *kernel, inner)
        with self.name_scope():
            self.weight = self.params.get("weight", shape=shape, init=weight_initializer,
                                          allow_deferred_init=True)
            self.bias = self.params.get("bias", shape=(channels,), init=bias_initializer,
                                        allow_deferred_init=True) if use_bias else None
            self.act = None if activation is None else Activation(activation,
                                                                  prefix=activation + "_")

    def _sides(self, channels: int, in_channels: int, groups: int) -> tuple[int, int]:
        """The two sizes of the weight that are no kernel's."""
        return channels, in_channels // groups

    def _alias(self) -> str:
        return "conv"

    def hybrid_forward(self, F: Any, x: Any, weight: Any, bias: Any = None) -> Any:
        """One call of the operator, then the activation."""
        out = getattr(F, self._operator)(x, weight, bias, name="fwd", **self._kwargs)
        return out if self.act is None else self.act(out)

    def __repr__(self) -> str:
        return shown(self, self._arrow(), self._kwargs, self.bias is not None)

    def _arrow(self) -> str:
        shape = self.weight.shape or (self._channels, 0)
        inner = shape[1 if self._kwargs["layout"][1] == "C" else -1]
        return f"{inner or None} -> {shape[0]}"


class Conv1D(ConvLayer):
    """A convolution over one spatial axis; arguments as those of Conv2D.

    Shapes: (N, C, W) -> (N, channels, W'), or (N, W, C) with layout='NWC'.
    """

    _axes = 1

    def __init__(self, channels: int, kernel_size: Sizes, strides: Sizes = 1, padding: Sizes = 0,
                 dilation: Sizes = 1, groups: int = 1, layout: str = "NCW",
                 activation: str | None = None, use_bias: bool = True,
                 weight_initializer: Any = None, bias_initializer: Any = "zeros",
                 in_channels: int = 0, **kwargs: Any) -> None:
        super().__init__(channels, kernel_size, strides, padding, dilation, groups, layout,
                         activation, use_bias, weight_initializer, bias_initializer, in_channels,
                         **kwargs)


class Conv2D(ConvLayer):
    """A convolution over two spatial axes.

    Args:
        channels: number of filters.
        kernel_size, strides, padding, dilation: a number, or one for each spatial axis.
        groups: channels in and out are split into so many groups.
        layout: 'NCHW' or 'NHWC'.
        activation: 'relu', 'tanh', ... or None.
        use_bias: whether to add a bias.
        weight_initializer, bias_initializer: what the parameters start from.
        in_channels: number of channels that come in; found at the first forward when 0.

    Shapes: (N, C, H, W) -> (N, channels, H', W'), with
        H' = floor((H + 2 padding - dilation (kernel - 1) - 1) / strides) + 1.

    >>> import minigluon as mx
    >>> layer = mx.gluon.nn.Conv2D(6, kernel_size=3, padding=1)
    >>> layer.initialize()
    >>> layer(mx.nd.ones((1, 4, 5, 5))).shape, layer.weight.shape
    ((1, 6, 5, 5), (6, 4, 3, 3))
    """

    _axes = 2

    def __init__(self, channels: int, kernel_size: Sizes, strides: Sizes = (1, 1),
                 padding: Sizes = (0, 0), dilation: Sizes = (1, 1), groups: int = 1,
                 layout: str = "NCHW", activation: str | None = None, use_bias: bool = True,
                 weight_initializer: Any = None, bias_initializer: Any = "zeros",
                 in_channels: int = 0, **kwargs: Any) -> None:
        super().__init__(channels, kernel_size, strides, padding, dilation, groups, layout,
                         activation, use_bias, weight_initializer, bias_initializer, in_channels,
                         **kwargs)


class Conv3D(ConvLayer):
    """A convolution over three spatial axes; arguments as those of Conv2D.

    Shapes: (N, C, D, H, W) -> (N, channels, D', H', W'), or with layout='NDHWC'.
    """

    _axes = 3

    def __init__(self, channels: int, kernel_size: Sizes, strides: Sizes = (1, 1, 1),
                 padding: Sizes = (0, 0, 0), dilation: Sizes = (1, 1, 1), groups: int = 1,
                 layout: str = "NCDHW", activation: str | None = None, use_bias: bool = True,
                 weight_initializer: Any = None, bias_initializer: Any = "zeros",
                 in_channels: int = 0, **kwargs: Any) -> None:
        super().__init__(channels, kernel_size, strides, padding, dilation, groups, layout,
                         activation, use_bias, weight_initializer, bias_initializer, in_channels,
                         **kwargs)
