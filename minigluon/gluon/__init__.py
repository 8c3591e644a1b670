"""How a network is trained: Trainer, losses, data, utilities. ``gluon.nn`` is ``minigluon.nn``."""
from __future__ import annotations

import sys as _sys

from .. import nn
from . import block, data, loss, parameter, utils
from .block import Block, HybridBlock, SymbolBlock
from .parameter import Constant, Parameter, ParameterDict
from .trainer import Trainer

__all__ = [
    "Block", "Constant", "HybridBlock", "Parameter", "ParameterDict", "SymbolBlock", "Trainer",
    "block", "data", "loss", "nn", "parameter", "utils",
]

# ``import minigluon.gluon.nn`` and ``from minigluon.gluon.nn import Dense``: one room, two names
_sys.modules[f"{__name__}.nn"] = nn
