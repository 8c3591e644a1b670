"""ResNet V1, "Deep Residual Learning for Image Recognition" (2015), and V2, "Identity Mappings in
Deep Residual Networks" (2016).
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....context import Context
from ....nn import (
    Activation,
    BatchNorm,
    Conv2D,
    Dense,
    Flatten,
    GlobalAvgPool2D,
    HybridBlock,
    HybridSequential,
    MaxPool2D,
)
from .build import Network, named, ready, stack

__all__ = [
    "BasicBlockV1",
    "BasicBlockV2",
    "BottleneckV1",
    "BottleneckV2",
    "ResNetV1",
    "ResNetV2",
    "get_resnet",
    "resnet18_v1",
    "resnet18_v2",
    "resnet34_v1",
    "resnet34_v2",
    "resnet50_v1",
    "resnet50_v2",
    "resnet101_v1",
    "resnet101_v2",
    "resnet152_v1",
    "resnet152_v2",
]


def _conv3x3(channels: int, stride: int, in_channels: int) -> Conv2D:
    """A 3x3 convolution without bias that keeps the size when `stride` is 1."""
    return Conv2D(channels, 3, stride, 1, use_bias=False, in_channels=in_channels)


def _relu(F: Any, x: Any) -> Any:
    return F.Activation(x, act_type="relu")


class _BlockV1(HybridBlock):
    """Convolutions, each normalized, around which the input goes."""

    def __init__(self, convolutions: Sequence[Conv2D], channels: int, stride: int,
                 downsample: bool, in_channels: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.body = HybridSequential(prefix="")
        for number, convolution in enumerate(convolutions):
            if number:
                self.body.add(Activation("relu"))
            self.body.add(convolution, BatchNorm())
        self.downsample = stack(
            Conv2D(channels, 1, stride, use_bias=False, in_channels=in_channels), BatchNorm(),
        ) if downsample else None

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The sum of both ways, then relu."""
        way = self.body(x)
        return _relu(F, self._sum(x if self.downsample is None else self.downsample(x), way))

    def _sum(self, around: Any, way: Any) -> Any:
        return around + way


class BasicBlockV1(_BlockV1):
    """Two 3x3 convolutions (ResNet V1 with 18 and 34 layers).

    Args:
        channels: of the output. stride: of the first convolution.
        downsample: the input goes through a 1x1 convolution, too. in_channels: of the input.
    """

    def __init__(self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0,
                 **kwargs: Any) -> None:
        super().__init__([_conv3x3(channels, stride, in_channels),
                          _conv3x3(channels, 1, channels)],
                         channels, stride, downsample, in_channels, **kwargs)


class BottleneckV1(_BlockV1):
    """A 1x1, a 3x3 and a 1x1 convolution; arguments as those of BasicBlockV1."""

    def __init__(self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0,
                 **kwargs: Any) -> None:
        inner = channels // 4
        super().__init__([Conv2D(inner, 1, stride), _conv3x3(inner, 1, inner),
                          Conv2D(channels, 1, 1)],
                         channels, stride, downsample, in_channels, **kwargs)

    def _sum(self, around: Any, way: Any) -> Any:
        return way + around  # as in MXNet's graph, whose nodes are numbered in this order


class _BlockV2(HybridBlock):
    """Normalized, then relu, then a convolution, some times; around it goes the input."""

    def __init__(self, convolutions: Sequence[Conv2D], channels: int, stride: int,
                 downsample: bool, in_channels: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._count = len(convolutions)
        for number, convolution in enumerate(convolutions, 1):
            setattr(self, f"bn{number}", BatchNorm())
            setattr(self, f"conv{number}", convolution)
        self.downsample = Conv2D(channels, 1, stride, use_bias=False,
                                 in_channels=in_channels) if downsample else None

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The sum of both ways."""
        around = x
        for number in range(1, self._count + 1):
            x = _relu(F, getattr(self, f"bn{number}")(x))
            if number == 1 and self.downsample is not None:
                around = self.downsample(x)
            x = getattr(self, f"conv{number}")(x)
        return x + around


class BasicBlockV2(_BlockV2):
    """Two 3x3 convolutions (ResNet V2 with 18 and 34 layers); arguments as BasicBlockV1."""

    def __init__(self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0,
                 **kwargs: Any) -> None:
        super().__init__([_conv3x3(channels, stride, in_channels),
                          _conv3x3(channels, 1, channels)],
                         channels, stride, downsample, in_channels, **kwargs)


class BottleneckV2(_BlockV2):
    """A 1x1, a 3x3 and a 1x1 convolution; arguments as those of BasicBlockV1."""

    def __init__(self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0,
                 **kwargs: Any) -> None:
        inner = channels // 4
        super().__init__([Conv2D(inner, 1, 1, use_bias=False), _conv3x3(inner, stride, inner),
                          Conv2D(channels, 1, 1, use_bias=False)],
                         channels, stride, downsample, in_channels, **kwargs)


class _ResNet(Network):
    """Both versions: a start, four stages of blocks, an end, one dense layer."""

    def __init__(self, block: type[HybridBlock], layers: Sequence[int], channels: Sequence[int],
                 classes: int = 1000, thumbnail: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        assert len(layers) == len(channels) - 1, "ResNet: one more number of channels than stages"
        with self.name_scope():
            self.features = HybridSequential(prefix="")
            self._start(channels[0], thumbnail)
            for number, (count, before, after) in enumerate(
                    zip(layers, channels, channels[1:], strict=False), 1):
                self.features.add(_stage(block, count, before, after, number))
            self._end()
            self.output = Dense(classes, in_units=channels[-1])

    def _start(self, channels: int, thumbnail: bool) -> None:
        if thumbnail:
            self.features.add(_conv3x3(channels, 1, 0))
        else:
            self.features.add(Conv2D(channels, 7, 2, 3, use_bias=False), BatchNorm(),
                              Activation("relu"), MaxPool2D(3, 2, 1))

    def _end(self) -> None:
        self.features.add(GlobalAvgPool2D())


class ResNetV1(_ResNet):
    """A ResNet that normalizes after its convolutions.

    Args:
        block: BasicBlockV1 or BottleneckV1. layers: blocks in each stage.
        channels: one number for the start, one for each stage. classes: number of outputs.
        thumbnail: for small images: starts with one 3x3 convolution.
    """


class ResNetV2(_ResNet):
    """A ResNet that normalizes before its convolutions; arguments as those of ResNetV1."""

    def _start(self, channels: int, thumbnail: bool) -> None:
        self.features.add(BatchNorm(scale=False, center=False))
        super()._start(channels, thumbnail)

    def _end(self) -> None:
        self.features.add(BatchNorm(), Activation("relu"), GlobalAvgPool2D(), Flatten())


def _stage(block: Any, count: int, before: int, after: int, number: int) -> HybridSequential:
    stage = HybridSequential(prefix=f"stage{number}_")
    with stage.name_scope():
        stage.add(block(after, 1 if number == 1 else 2, after != before, in_channels=before,
                        prefix=""))
        for _ in range(count - 1):
            stage.add(block(after, 1, False, in_channels=after, prefix=""))
    return stage


_BASIC, _BOTTLENECK = (64, 64, 128, 256, 512), (64, 256, 512, 1024, 2048)
# number of layers: kind of block, blocks in each stage, channels
resnet_spec = {
    18: ("basic_block", (2, 2, 2, 2), _BASIC),
    34: ("basic_block", (3, 4, 6, 3), _BASIC),
    50: ("bottle_neck", (3, 4, 6, 3), _BOTTLENECK),
    101: ("bottle_neck", (3, 4, 23, 3), _BOTTLENECK),
    152: ("bottle_neck", (3, 8, 36, 3), _BOTTLENECK),
}
resnet_net_versions = (ResNetV1, ResNetV2)
resnet_block_versions: tuple[dict[str, type[HybridBlock]], ...] = (
    {"basic_block": BasicBlockV1, "bottle_neck": BottleneckV1},
    {"basic_block": BasicBlockV2, "bottle_neck": BottleneckV2},
)


def get_resnet(version: int, num_layers: int, pretrained: bool = False,
               ctx: Context | None = None, root: str | None = None, **kwargs: Any) -> Any:
    """ResNet V1 or V2 with 18, 34, 50, 101 or 152 layers.

    Args:
        version: 1 or 2. num_layers: how many. pretrained: load trained weights. ctx: where to.
        root: the folder in which they lie. kwargs: settings of ResNetV1, e.g. classes.
    """
    assert num_layers in resnet_spec, (
        f"Invalid number of layers: {num_layers}. Options are {list(resnet_spec)}")
    assert version in (1, 2), f"Invalid resnet version: {version}. Options are 1 and 2."
    kind, layers, channels = resnet_spec[num_layers]
    net = resnet_net_versions[version - 1](resnet_block_versions[version - 1][kind], layers,
                                           channels, **kwargs)
    return ready(net, f"resnet{num_layers}_v{version}", pretrained, ctx, root)


resnet18_v1, resnet34_v1, resnet50_v1, resnet101_v1, resnet152_v1 = (
    named(f"resnet{n}_v1", get_resnet, 1, n) for n in resnet_spec)
resnet18_v2, resnet34_v2, resnet50_v2, resnet101_v2, resnet152_v2 = (
    named(f"resnet{n}_v2", get_resnet, 2, n) for n in resnet_spec)
MODELS = {make.__name__: make for make in (
    resnet18_v1, resnet34_v1, resnet50_v1, resnet101_v1, resnet152_v1,
    resnet18_v2, resnet34_v2, resnet50_v2, resnet101_v2, resnet152_v2)}
