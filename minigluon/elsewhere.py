"""Where the names of MXNet's own files are here: ``minigluon.gluon.nn.basic_layers``, say.

MXNet's folders have more files than ours, and scripts import from them. A path of which there is
no file here leads to the room or the namespace that has its names: the very same object. So do
the short names of rooms: ``import minigluon.nd``, ``from minigluon.init import Xavier``.
"""
from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

__all__ = ["Finder", "names_at"]

_OURS = __package__ or "minigluon"

# Files of MXNet that scripts import from, and where their names are here.
_FILES = {
    "contrib.ndarray": "ndarray.contrib", "contrib.symbol": "symbol.contrib",
    "contrib.svrg_optimization.svrg_optimizer": "contrib.svrg_optimization",
    "gluon.nn.activations": "gluon.nn", "gluon.nn.basic_layers": "gluon.nn",
    "gluon.nn.conv_layers": "gluon.nn", "io.io": "io", "io.utils": "io", "kvstore.base": "kvstore",
    "kvstore.kvstore": "kvstore", "ndarray.numpy": "numpy", "ndarray.op": "ndarray",
    "ndarray.numpy_extension": "numpy_extension", "ndarray.utils": "ndarray",
    "numpy.multiarray": "numpy", "numpy.utils": "numpy",
    "numpy_extension.random": "numpy_extension.random",
    "rnn.io": "rnn", "rnn.rnn": "rnn", "rnn.rnn_cell": "rnn", "symbol.numpy": "symbol.np",
    "symbol.numpy_extension": "symbol.npx", "symbol.op": "symbol",
}


def names_at(path: str) -> Any:
    """What stands for MXNet's module `path` where minigluon has no module there; or None.

    >>> import minigluon as mx
    >>> names_at("io.io") is mx.io, names_at("symbol.contrib") is mx.sym.contrib
    (True, True)
    """
    parent, _, last = _FILES.get(path, path).rpartition(".")
    try:
        room = importlib.import_module(f"{_OURS}.{parent}" if parent else _OURS)
    except ModuleNotFoundError:
        return None
    names = getattr(room, last, None)
    kinds = SimpleNamespace if parent else (SimpleNamespace, ModuleType)
    return names if path in _FILES or isinstance(names, kinds) else None


class Finder:
    """Asked last: finds MXNet's files below our own name.

    It says itself what importlib.abc's classes would say, which take 10 ms to import.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, inner = fullname.partition(".")
        if package != _OURS or names_at(inner) is None:
            return None
        return ModuleSpec(fullname, self)

    def create_module(self, spec: ModuleSpec) -> None:
        """A plain module, to begin with."""

    def exec_module(self, module: ModuleType) -> None:
        """Put the names themselves where the module would stand."""
        sys.modules[module.__name__] = names_at(module.__name__.partition(".")[2])
