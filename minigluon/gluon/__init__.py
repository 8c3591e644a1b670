"""How a network is trained: Trainer, losses, data, utilities. ``gluon.nn`` is ``minigluon.nn``."""
from __future__ import annotations

import importlib as _importlib
import sys as _sys
from types import ModuleType as _ModuleType

from .. import nn
from ..base import DeferredInitializationError
from . import block, loss, parameter, utils
from .block import Block, HybridBlock, SymbolBlock
from .parameter import Constant, Parameter, ParameterDict
from .trainer import Trainer

__all__ = [
    "Block", "Constant", "DeferredInitializationError", "HybridBlock", "Parameter",
    "ParameterDict", "SymbolBlock", "Trainer",
    "block", "data", "loss", "model_zoo", "nn", "parameter", "rnn", "utils",
]

# ``import minigluon.gluon.nn`` and ``from minigluon.gluon.nn import Dense``: one room, two names
_sys.modules[f"{__name__}.nn"] = nn

_LAZY = ("contrib", "data", "model_zoo", "rnn")  # rooms that are loaded when first asked for


def __getattr__(name: str) -> _ModuleType:
    if name not in _LAZY:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return _importlib.import_module(f".{name}", __name__)
