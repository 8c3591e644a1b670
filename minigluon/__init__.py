"""minigluon: Gluon made new, compact and distributed from birth. ``import minigluon as mx``.

========================  =====================================================================
``nd``, ``sym``           arrays computed at once; graphs described first (ndarray/, symbol/)
``autograd``              record, backward, grad
``nn``, ``gluon``         networks; how they are trained: Trainer, loss, data, utils
``init optimizer metric lr_scheduler``   training support
``kv``                    KVStore: numbers shared between devices and machines (kvstore/)
``cpu() gpu() Context``   devices
``random``                seeds
========================  =====================================================================

The rooms below: ``ops`` (what operators mean), ``device`` (who computes), ``dispatch`` (where the
two meet), ``graph`` and ``tape`` (calls remembered ahead of time, and as they run).
"""
from __future__ import annotations

import importlib as _importlib
import sys as _sys
from types import ModuleType as _ModuleType
from typing import Any as _Any

from .base import uncollected as _uncollected

with _uncollected():
    from . import (
        attribute,
        autograd,
        base,
        context,
        gluon,
        initializer,
        kvstore,
        lr_scheduler,
        metric,
        name,
        ndarray,
        nn,
        operator,
        optimizer,
        profiler,
        random,
        symbol,
        util,
    )
    from . import elsewhere as _elsewhere
    from . import npmode as _npmode
    from .attribute import AttrScope
    from .base import MXNetError
    from .context import Context, cpu, cpu_pinned, cpu_shared, current_context, gpu
    from .device import gpu_memory_info as _gpu_memory_info
    from .device import num_gpus
    from .graph import on_foreign as _on_foreign
    from .util import (
        is_np_array,
        is_np_shape,
        np_array,
        np_shape,
        set_np_shape,
        use_np,
        use_np_array,
        use_np_shape,
    )

__version__ = "0.1.0"

nd, sym, init, kv = ndarray, symbol, initializer, kvstore  # MXNet's short names
ndarray.CachedOp = symbol.CachedOp  # type: ignore[attr-defined]
context.num_gpus = num_gpus  # type: ignore[attr-defined]
context.gpu_memory_info = _gpu_memory_info  # type: ignore[attr-defined]

# Rooms that many programs never enter: loaded when first asked for.
_LAZY = {
    "callback": ".callback", "contrib": ".contrib", "engine": ".engine", "error": ".error",
    "executor": ".executor", "executor_manager": ".executor_manager", "image": ".image",
    "img": ".image", "io": ".io", "libinfo": ".libinfo",
    "library": ".library", "log": ".log", "mod": ".module",
    "model": ".model", "module": ".module", "mon": ".monitor", "monitor": ".monitor",
    "np": ".numpy", "npx": ".numpy_extension", "numpy": ".numpy",
    "numpy_extension": ".numpy_extension",
    "recordio": ".recordio", "registry": ".registry", "rnn": ".rnn", "runtime": ".runtime",
    "rnd": ".random", "test_utils": ".test_utils", "visualization": ".visualization",
    "viz": ".visualization",
}


def __getattr__(name: str) -> _ModuleType:
    if name not in _LAZY:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    room = _importlib.import_module(_LAZY[name], __name__)
    globals()[name] = room
    return room


def _numpy_face(name: str) -> _ModuleType:
    """``F.np`` and ``F.npx`` of hybrid_forward: one meaning for arrays and symbols."""
    if name in ("np", "npx"):
        return __getattr__(name)
    raise AttributeError(f"there is no operator '{name}', or it is not built yet")


def _symbolic_face(name: str) -> _Any:
    """The same where F is ``sym``; ``F.np.ones`` and such are nodes of the graph there."""
    if name not in ("np", "npx"):
        return _numpy_face(name)
    graph = _importlib.import_module(".numpy.graph", __name__)
    return graph.room if name == "np" else graph.Face(
        _numpy_face(name), {"random": graph.extension_random})


ndarray.__getattr__ = _numpy_face  # type: ignore[attr-defined]
symbol.__getattr__ = _symbolic_face  # type: ignore[attr-defined]
_sys.meta_path.append(_elsewhere.Finder())
_npmode.on_load(lambda: __getattr__("numpy"))
_on_foreign(lambda: _importlib.import_module(".numpy_foreign", __name__).translated)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


__all__ = [
    "AttrScope", "Context", "MXNetError", "attribute", "autograd", "base", "context", "cpu",
    "cpu_pinned", "cpu_shared", "current_context", "gluon", "gpu", "image", "img", "init",
    "initializer", "io", "is_np_array", "is_np_shape",
    "kv", "kvstore", "lr_scheduler", "metric", "name", "nd", "ndarray", "nn", "np_array",
    "np_shape", "num_gpus",
    "operator", "optimizer", "profiler", "random", "recordio", "set_np_shape", "sym",
    "symbol", "use_np", "use_np_array", "use_np_shape", "util",
]

kvstore.run_if_role()  # a process whose DMLC_ROLE says server or scheduler becomes that
