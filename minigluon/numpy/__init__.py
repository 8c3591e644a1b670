"""``mx.np``: NumPy's interface on arrays with devices and gradients.

Functions take and give ``np.ndarray``, and Symbols where a block is hybridized (``F.np``). What
MXNet computes here has gradients; any other function of NumPy is computed by NumPy itself, on the
host and without gradient.
"""
from __future__ import annotations

from types import ModuleType as _ModuleType
from typing import Any

import numpy as _onp

from .. import ndarray as _nd
from . import arrange as _arrange
from . import bits as _bits
from . import create as _create
from . import elementwise as _elementwise
from . import fold as _fold
from . import linalg, random
from . import product as _product
from .array import _namesakes, array, ndarray
from .array import lower as _lower
from .symbolic import attach as _attach_symbolic

_functions: dict[str, Any] = {}
for _room in (_arrange, _bits, _create, _elementwise, _fold, _product):
    _functions.update(_room.FUNCTIONS)
_namesakes.update(_functions)
_namesakes.update({f"linalg.{name}": getattr(linalg, name) for name in linalg.__all__
                   if name != "svd"})  # whose results MXNet orders otherwise
globals().update(_functions)  # `arrange` the module is hidden: NumPy has no such function

pi, e, inf, nan, newaxis, euler_gamma = (
    _onp.pi, _onp.e, _onp.inf, _onp.nan, None, _onp.euler_gamma)
PINF, NINF, PZERO, NZERO, NAN, NaN, Inf = inf, -inf, 0.0, -0.0, nan, nan, inf
float16, float32, float64 = _onp.float16, _onp.float32, _onp.float64
int8, int16, int32, int64, uint8 = _onp.int8, _onp.int16, _onp.int32, _onp.int64, _onp.uint8
bool_, dtype, finfo, iinfo = _onp.bool_, _onp.dtype, _onp.finfo, _onp.iinfo
bool = bool_
asarray = array

_METHODS = (
    "all", "any", "argmax", "argmin", "argsort", "broadcast_to", "cumsum", "diagonal",
    "dot", "expand_dims", "flip", "max", "mean", "min", "nonzero", "prod", "ptp", "ravel",
    "repeat", "round", "sort", "split", "squeeze", "std", "sum", "swapaxes", "take", "tile",
    "trace", "var", *_elementwise._SMOOTH, *_elementwise._PLAIN,
)


def _attach() -> None:
    """Functions as methods of ``np.ndarray``, and of the Symbols that follow NumPy."""
    cls: Any = ndarray
    methods: dict[str, Any] = {name: _method(_functions[name]) for name in _METHODS}

    def transpose(self: Any, *axes: Any) -> Any:
        """The axes in another order (reversed by default)."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        return _functions["transpose"](self, order)

    def clip(self: Any, min: Any = None, max: Any = None, out: Any = None, **bounds: Any) -> Any:
        """Elements below `min` become `min`, above `max` become `max`; None is no limit."""
        return _functions["clip"](self, **{"a_min": min, "a_max": max, **bounds}, out=out)

    methods.update({
        "transpose": transpose, "clip": clip,
        "T": property(lambda self: _functions["transpose"](self), doc="The axes reversed."),
        "__neg__": _method(_functions["negative"]), "__abs__": _method(_functions["abs"]),
        "__pos__": lambda self: self,
        "__round__": lambda self, n=0: _functions["round"](self, n),
    })
    for name, method in methods.items():
        if name not in vars(cls):
            setattr(cls, name, method)
    _attach_symbolic(_functions, methods)
    _elementwise.attach_operators()
    _bits.attach_operators()
    _product.attach_operators()
    _nd.enter_numpy_class(ndarray, _elementwise.binary)


def _method(function: Any) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    method.__name__ = method.__qualname__ = function.__name__
    method.__doc__ = function.__doc__
    return method


_attach()


def set_printoptions(*args: Any, **kwargs: Any) -> None:
    """How arrays are printed: ``numpy.set_printoptions``."""
    _onp.set_printoptions(*args, **kwargs)


def may_share_memory(a: Any, b: Any, max_work: Any = None) -> Any:
    """Whether two arrays may have memory in common."""
    return _onp.may_share_memory(a._sync(), b._sync(), max_work)


shares_memory = may_share_memory
_namesakes.update(may_share_memory=may_share_memory, shares_memory=shares_memory)


# What NumPy 2 calls otherwise. MXNet's functions are those of NumPy 1.
_RENAMED = {"trapz": "trapezoid", "in1d": "isin"} if hasattr(_onp, "trapezoid") else {}


def __getattr__(name: str) -> Any:
    """NumPy's own functions, for what is not built here: on the host, without gradient."""
    found = None if name.startswith("_") else getattr(_onp, _RENAMED.get(name, name), None)
    if found is None or isinstance(found, (type, _ModuleType)) or not callable(found):
        raise AttributeError(f"module 'minigluon.np' has no attribute '{name}'")
    globals()[name] = function = _lower(found)
    return function


def __dir__() -> list[str]:
    """NumPy's functions are here, too."""
    return sorted({*globals(), *_RENAMED, *(
        name for name, found in vars(_onp).items() if not name.startswith("_") and callable(found)
        and hasattr(found, "__name__") and not isinstance(found, type))})


__all__ = ["array", "linalg", "may_share_memory", "ndarray", "random", "set_printoptions",
           "shares_memory"]
__all__ += sorted(_functions)
__all__ += ["NAN", "NINF", "NZERO", "PINF", "PZERO", "Inf", "NaN", "asarray", "bool", "bool_",
            "dtype", "e", "euler_gamma", "finfo", "float16", "float32", "float64", "iinfo", "inf",
            "int8", "int16", "int32", "int64", "nan", "newaxis", "pi", "uint8"]
