"""MobileNet V1 (2017), and V2, "Inverted Residuals and Linear Bottlenecks" (2018)."""
from __future__ import annotations

from typing import Any

from ....context import Context
from ....nn import Block, Conv2D, Dense, Flatten, GlobalAvgPool2D, HybridBlock, HybridSequential
from .build import Network, conv_bn, named, ready, stack

__all__ = [
    "MobileNet",
    "MobileNetV2",
    "get_mobilenet",
    "get_mobilenet_v2",
    "mobilenet0_5",
    "mobilenet0_25",
    "mobilenet0_75",
    "mobilenet1_0",
    "mobilenet_v2_0_5",
    "mobilenet_v2_0_25",
    "mobilenet_v2_0_75",
    "mobilenet_v2_1_0",
]

# channels and stride of the depthwise separable convolutions
_V1 = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2),
       (1024, 1))
# factor of the inner channels, channels, stride of the first, how many
_V2 = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 2, 3), (6, 64, 2, 4), (6, 96, 1, 3), (6, 160, 2, 3),
       (6, 320, 1, 1))


class RELU6(HybridBlock):
    """max(0, min(x, 6))."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """One clip."""
        return F.clip(x, 0, 6, name="relu6")


class LinearBottleneck(HybridBlock):
    """To many channels, a depthwise convolution, back to few; the input is added if it fits.

    Args:
        in_channels: of the input. channels: of the output. t: factor of the inner channels.
        stride: of the depthwise convolution.
    """

    def __init__(self, in_channels: int, channels: int, t: int, stride: int,
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.use_shortcut = stride == 1 and in_channels == channels
        inner = in_channels * t
        with self.name_scope():
            self.out = stack(*conv_bn(inner, 1, act=RELU6),
                             *conv_bn(inner, 3, stride, 1, groups=inner, act=RELU6),
                             *conv_bn(channels, 1, act=None))

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The inner layers, and around them the input."""
        out = self.out(x)
        return F.elemwise_add(out, x) if self.use_shortcut else out


class MobileNet(Network):
    """Depthwise separable convolutions.

    Args:
        multiplier: of all numbers of channels. classes: number of outputs.
    """

    def __init__(self, multiplier: float = 1.0, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        channels = int(32 * multiplier)
        with self.name_scope():
            self.features = stack(*conv_bn(channels, 3, 2, 1))
            for wide, stride in _V1:
                self.features.add(*conv_bn(channels, 3, stride, 1, groups=channels))
                channels = int(wide * multiplier)
                self.features.add(*conv_bn(channels, 1))
            self.features.add(GlobalAvgPool2D(), Flatten())
            self.output = Dense(classes)


class MobileNetV2(Network):
    """Linear bottlenecks; arguments as those of MobileNet."""

    def __init__(self, multiplier: float = 1.0, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = HybridSequential(prefix="features_")
            with self.features.name_scope():
                self.features.add(*_v2_layers(multiplier))
            self.output = HybridSequential(prefix="output_")
            with self.output.name_scope():
                self.output.add(Conv2D(classes, 1, use_bias=False, prefix="pred_"), Flatten())


def _v2_layers(multiplier: float) -> list[Block]:
    channels = int(32 * multiplier)
    layers = conv_bn(channels, 3, 2, 1, act=RELU6)
    for factor, wide, stride, count in _V2:
        for number in range(count):
            before, channels = channels, int(wide * multiplier)
            layers.append(LinearBottleneck(before, channels, factor, 1 if number else stride))
    last = int(1280 * multiplier) if multiplier > 1.0 else 1280
    return [*layers, *conv_bn(last, 1, act=RELU6), GlobalAvgPool2D()]


def _tag(multiplier: float) -> str:
    """'1.0', '0.75', '0.5', '0.25'."""
    text = f"{multiplier:.2f}"
    return text[:-1] if text.endswith("0") else text


def get_mobilenet(multiplier: float, pretrained: bool = False, ctx: Context | None = None,
                  root: str | None = None, **kwargs: Any) -> MobileNet:
    """MobileNet V1 with all numbers of channels multiplied; others as those of mobilenet1_0."""
    net: MobileNet = ready(MobileNet(multiplier, **kwargs), f"mobilenet{_tag(multiplier)}",
                           pretrained, ctx, root)
    return net


def get_mobilenet_v2(multiplier: float, pretrained: bool = False, ctx: Context | None = None,
                     root: str | None = None, **kwargs: Any) -> MobileNetV2:
    """MobileNet V2 with all numbers of channels multiplied; others as those of mobilenet1_0."""
    net: MobileNetV2 = ready(MobileNetV2(multiplier, **kwargs), f"mobilenetv2_{_tag(multiplier)}",
                             pretrained, ctx, root)
    return net


_SIZES = (1.0, 0.75, 0.5, 0.25)
mobilenet1_0, mobilenet0_75, mobilenet0_5, mobilenet0_25 = (
    named(f"mobilenet{_tag(size).replace('.', '_')}", get_mobilenet, size) for size in _SIZES)
mobilenet_v2_1_0, mobilenet_v2_0_75, mobilenet_v2_0_5, mobilenet_v2_0_25 = (
    named(f"mobilenet_v2_{_tag(size).replace('.', '_')}", get_mobilenet_v2, size)
    for size in _SIZES)
MODELS = {
    **dict(zip(("mobilenet1.0", "mobilenet0.75", "mobilenet0.5", "mobilenet0.25"),
               (mobilenet1_0, mobilenet0_75, mobilenet0_5, mobilenet0_25), strict=True)),
    **dict(zip(("mobilenetv2_1.0", "mobilenetv2_0.75", "mobilenetv2_0.5", "mobilenetv2_0.25"),
               (mobilenet_v2_1_0, mobilenet_v2_0_75, mobilenet_v2_0_5, mobilenet_v2_0_25),
               strict=True)),
}
