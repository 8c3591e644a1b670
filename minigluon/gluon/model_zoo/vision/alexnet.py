"""AlexNet: "One weird trick for parallelizing convolutional neural networks" (2014)."""
from __future__ import annotations

from typing import Any

from ....context import Context
from ....nn import Conv2D, Dense, Dropout, Flatten, HybridSequential, MaxPool2D
from .build import Network, ready

__all__ = ["AlexNet", "alexnet"]

_POOL = (0, 0, 0, 0)
# channels, kernel, stride, padding
_LAYERS = ((64, 11, 4, 2), _POOL, (192, 5, 1, 2), _POOL, (384, 3, 1, 1), (256, 3, 1, 1),
           (256, 3, 1, 1), _POOL)


class AlexNet(Network):
    """Five convolutions and three dense layers.

    Shapes: (N, 3, 224, 224) -> (N, classes).
    """

    def __init__(self, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = HybridSequential(prefix="")
            for layer in _LAYERS:
                self.features.add(MaxPool2D(3, 2) if layer is _POOL else
                                  Conv2D(*layer, activation="relu"))
            self.features.add(Flatten())
            for _ in range(2):
                self.features.add(Dense(4096, activation="relu"), Dropout(0.5))
            self.output = Dense(classes)


def alexnet(pretrained: bool = False, ctx: Context | None = None, root: str | None = None,
            **kwargs: Any) -> AlexNet:
    """The network AlexNet.

    Args:
        pretrained: load trained weights. ctx: where to. root: the folder in which they lie.
        kwargs: settings of its class, e.g. classes.
    """
    net: AlexNet = ready(AlexNet(**kwargs), "alexnet", pretrained, ctx, root)
    return net


MODELS = {"alexnet": alexnet}
