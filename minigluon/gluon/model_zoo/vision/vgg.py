"""VGG: "Very Deep Convolutional Networks for Large-Scale Image Recognition" (2014)."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....context import Context
from ....initializer import Xavier
from ....nn import Activation, BatchNorm, Conv2D, Dense, Dropout, HybridSequential, MaxPool2D
from .build import Network, named, ready

__all__ = ["VGG", "get_vgg", "vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn",
           "vgg19", "vgg19_bn"]

# convolutions in each of the five stages
vgg_spec = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
_FILTERS = (64, 128, 256, 512, 512)


class VGG(Network):
    """Stages of 3x3 convolutions, each followed by a pooling; three dense layers.

    Args:
        layers: convolutions in each stage. filters: channels in each.
        classes: number of outputs. batch_norm: normalize after each convolution.
    """

    def __init__(self, layers: Sequence[int], filters: Sequence[int], classes: int = 1000,
                 batch_norm: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        assert len(layers) == len(filters), "VGG: layers and filters differ in length"
        start = Xavier(rnd_type="gaussian", factor_type="out", magnitude=2)
        with self.name_scope():
            self.features = HybridSequential(prefix="")
            for count, channels in zip(layers, filters, strict=True):
                for _ in range(count):
                    self.features.add(Conv2D(channels, 3, padding=1, weight_initializer=start))
                    if batch_norm:
                        self.features.add(BatchNorm())
                    self.features.add(Activation("relu"))
                self.features.add(MaxPool2D(strides=2))
            for _ in range(2):
                self.features.add(Dense(4096, activation="relu", weight_initializer="normal"),
                                  Dropout(0.5))
            self.output = Dense(classes, weight_initializer="normal")


def get_vgg(num_layers: int, pretrained: bool = False, ctx: Context | None = None,
            root: str | None = None, **kwargs: Any) -> VGG:
    """VGG with 11, 13, 16 or 19 layers.

    Args:
        num_layers: how many. pretrained: load trained weights. ctx: where to.
        root: the folder in which they lie. kwargs: settings of VGG, e.g. batch_norm.
    """
    name = f"vgg{num_layers}{'_bn' if kwargs.get('batch_norm') else ''}"
    net: VGG = ready(VGG(vgg_spec[num_layers], _FILTERS, **kwargs), name, pretrained, ctx, root)
    return net


vgg11, vgg13, vgg16, vgg19 = (named(f"vgg{n}", get_vgg, n) for n in vgg_spec)
vgg11_bn, vgg13_bn, vgg16_bn, vgg19_bn = (
    named(f"vgg{n}_bn", get_vgg, n, batch_norm=True) for n in vgg_spec)
MODELS = {make.__name__: make for make in (vgg11, vgg13, vgg16, vgg19, vgg11_bn, vgg13_bn,
                                           vgg16_bn, vgg19_bn)}
