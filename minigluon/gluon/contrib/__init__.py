"""Layers and tools that Gluon keeps apart because they may still change.

Each room is loaded when it is first asked for: ``gluon.contrib.rnn``.
"""
from __future__ import annotations

import importlib as _importlib
from types import ModuleType as _ModuleType

__all__ = ["cnn", "data", "estimator", "nn", "rnn"]

_LAZY = {"cnn": ".cnn", "data": ".data", "estimator": ".estimator", "nn": ".nn", "rnn": ".rnn"}


def __getattr__(name: str) -> _ModuleType:
    if name not in _LAZY:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return _importlib.import_module(_LAZY[name], __name__)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
