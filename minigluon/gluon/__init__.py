"""How a network is trained: Trainer, losses, data, utilities. ``gluon.nn`` is ``minigluon.nn``."""
from __future__ import annotations

import sys

from .. import nn
from ..nn import (
    Block,
    Constant,
    HybridBlock,
    Parameter,
    ParameterDict,
    SymbolBlock,
    block,
    parameter,
)
from . import data, loss, utils
from .trainer import Trainer

__all__ = [
    "Block", "Constant", "HybridBlock", "Parameter", "ParameterDict", "SymbolBlock", "Trainer",
    "data", "loss", "nn", "utils",
]

# Gluon's older places for the same things: ``from minigluon.gluon.block import HybridBlock``.
for _name, _module in (("nn", nn), ("block", block), ("parameter", parameter)):
    sys.modules[f"{__name__}.{_name}"] = _module
