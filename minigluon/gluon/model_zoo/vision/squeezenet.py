"""SqueezeNet: "AlexNet-level accuracy with 50x fewer parameters" (2016)."""
from __future__ import annotations

from typing import Any

from ....context import Context
from ....nn import Activation, AvgPool2D, Conv2D, Dropout, Flatten, HybridSequential, MaxPool2D
from ...contrib.nn import HybridConcurrent
from .build import Network, named, ready, stack

__all__ = ["SqueezeNet", "squeezenet1_0", "squeezenet1_1"]

# the first convolution, then channels of the squeezing convolutions; 0 is a pooling
_VERSIONS = {"1.0": ((96, 7, 2), (0, 16, 16, 32, 0, 32, 48, 48, 64, 0, 64)),
             "1.1": ((64, 3, 2), (0, 16, 16, 0, 32, 32, 0, 48, 48, 64, 64))}


def _conv(channels: int, kernel: int, padding: int = 0) -> HybridSequential:
    return stack(Conv2D(channels, kernel, padding=padding), Activation("relu"))


def _fire(squeeze: int) -> HybridSequential:
    """A 1x1 convolution to few channels; four times as many each by a 1x1 and a 3x3 one."""
    first = _conv(squeeze, 1)
    both = HybridConcurrent(axis=1, prefix="")
    both.add(_conv(4 * squeeze, 1), _conv(4 * squeeze, 3, 1))
    return stack(first, both)


class SqueezeNet(Network):
    """Fire modules between poolings; no dense layer.

    Args:
        version: '1.0' or '1.1'. classes: number of outputs.
    """

    def __init__(self, version: str, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        assert version in _VERSIONS, (
            f"Unsupported SqueezeNet version {version}: 1.0 or 1.1 expected")
        first, fires = _VERSIONS[version]
        with self.name_scope():
            self.features = stack(Conv2D(*first), Activation("relu"))
            for squeeze in fires:
                self.features.add(_fire(squeeze) if squeeze else MaxPool2D(3, 2, ceil_mode=True))
            self.features.add(Dropout(0.5))
            self.output = stack(Conv2D(classes, 1), Activation("relu"), AvgPool2D(13), Flatten())


def get_squeezenet(version: str, pretrained: bool = False, ctx: Context | None = None,
                   root: str | None = None, **kwargs: Any) -> SqueezeNet:
    """SqueezeNet '1.0' or '1.1'; other arguments as those of squeezenet1_0."""
    net: SqueezeNet = ready(SqueezeNet(version, **kwargs), f"squeezenet{version}", pretrained, ctx,
                            root)
    return net


squeezenet1_0 = named("squeezenet1_0", get_squeezenet, "1.0")
squeezenet1_1 = named("squeezenet1_1", get_squeezenet, "1.1")
MODELS = {"squeezenet1.0": squeezenet1_0, "squeezenet1.1": squeezenet1_1}
