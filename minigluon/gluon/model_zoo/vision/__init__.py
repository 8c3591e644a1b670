"""Networks for images: ``get_model(name)``, or a function for each.

The parameters have MXNet's names and shapes, so its files can be loaded and the other way round.

>>> net = get_model("resnet18_v1", classes=10)
>>> net.output
Dense(512 -> 10, linear)
"""
from __future__ import annotations

from typing import Any

from ....base import ArgumentValueError
from ....nn import HybridBlock
from . import alexnet as _alexnet
from . import densenet as _densenet
from . import inception as _inception
from . import mobilenet as _mobilenet
from . import resnet as _resnet
from . import squeezenet as _squeezenet
from . import vgg as _vgg
from .alexnet import *  # noqa: F403
from .densenet import *  # noqa: F403
from .inception import *  # noqa: F403
from .mobilenet import *  # noqa: F403
from .resnet import *  # noqa: F403
from .squeezenet import *  # noqa: F403
from .vgg import *  # noqa: F403

_FAMILIES = (_alexnet, _densenet, _inception, _mobilenet, _resnet, _squeezenet, _vgg)
_models = {name: make for family in _FAMILIES for name, make in family.MODELS.items()}


def get_model(name: str, **kwargs: Any) -> HybridBlock:
    """A network by name.

    Args:
        name: 'resnet50_v1', 'mobilenetv2_1.0', ...; an unknown one is told all of them.
        pretrained: load trained weights. classes: number of outputs.
        ctx: where the trained weights go. root: the folder in which they lie.

    Shapes: (N, 3, 224, 224) -> (N, classes); inceptionv3 takes (N, 3, 299, 299).
    """
    make = _models.get(name.lower())
    if make is None:
        raise ArgumentValueError(f"Model {name.lower()} is not supported. Available options are\n\t"
                                 + "\n\t".join(sorted(_models)))
    net: HybridBlock = make(**kwargs)
    return net


__all__ = ["get_model", *(word for family in _FAMILIES for word in family.__all__)]
