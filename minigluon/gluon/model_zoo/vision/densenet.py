"""DenseNet: "Densely Connected Convolutional Networks" (2016)."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....context import Context
from ....nn import (
    Activation,
    AvgPool2D,
    BatchNorm,
    Conv2D,
    Dense,
    Dropout,
    Flatten,
    HybridSequential,
    MaxPool2D,
)
from ...contrib.nn import HybridConcurrent, Identity
from .build import Network, conv_bn, named, ready, stack

__all__ = ["DenseNet", "densenet121", "densenet161", "densenet169", "densenet201"]


def _dense_layer(growth_rate: int, bn_size: int, dropout: float) -> HybridConcurrent:
    """The input, and beside it `growth_rate` new channels made from it."""
    fresh = stack(BatchNorm(), Activation("relu"),
                  Conv2D(bn_size * growth_rate, 1, use_bias=False), BatchNorm(),
                  Activation("relu"), Conv2D(growth_rate, 3, padding=1, use_bias=False))
    if dropout:
        fresh.add(Dropout(dropout))
    both = HybridConcurrent(axis=1, prefix="")
    both.add(Identity(), fresh)
    return both


class DenseNet(Network):
    """Stages in which each layer sees the results of all before it.

    Args:
        num_init_features: channels of the first convolution.
        growth_rate: new channels of each layer. block_config: layers in each stage.
        bn_size: channels of the inner convolution, in growth rates.
        dropout: rate after each layer. classes: number of outputs.
    """

    def __init__(self, num_init_features: int, growth_rate: int, block_config: Sequence[int],
                 bn_size: int = 4, dropout: float = 0, classes: int = 1000,
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        channels = num_init_features
        with self.name_scope():
            self.features = stack(*conv_bn(channels, 7, 2, 3), MaxPool2D(3, 2, 1))
            for number, count in enumerate(block_config, 1):
                stage = HybridSequential(prefix=f"stage{number}_")
                with stage.name_scope():
                    for _ in range(count):
                        stage.add(_dense_layer(growth_rate, bn_size, dropout))
                self.features.add(stage)
                channels += count * growth_rate
                if number < len(block_config):
                    channels //= 2
                    self.features.add(stack(BatchNorm(), Activation("relu"),
                                            Conv2D(channels, 1, use_bias=False), AvgPool2D(2, 2)))
            self.features.add(BatchNorm(), Activation("relu"), AvgPool2D(7), Flatten())
            self.output = Dense(classes)


# number of layers: first channels, growth rate, layers in each stage
densenet_spec = {
    121: (64, 32, (6, 12, 24, 16)), 161: (96, 48, (6, 12, 36, 24)),
    169: (64, 32, (6, 12, 32, 32)), 201: (64, 32, (6, 12, 48, 32)),
}


def get_densenet(num_layers: int, pretrained: bool = False, ctx: Context | None = None,
                 root: str | None = None, **kwargs: Any) -> DenseNet:
    """DenseNet with 121, 161, 169 or 201 layers; arguments as those of densenet121."""
    net: DenseNet = ready(DenseNet(*densenet_spec[num_layers], **kwargs), f"densenet{num_layers}",
                          pretrained, ctx, root)
    return net


densenet121, densenet161, densenet169, densenet201 = (
    named(f"densenet{n}", get_densenet, n) for n in densenet_spec)
MODELS = {make.__name__: make for make in (densenet121, densenet161, densenet169, densenet201)}
