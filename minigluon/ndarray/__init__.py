"""The eager face: ``nd.X`` for every operator, NDArray, and ways to make, save and load arrays."""
from __future__ import annotations

import sys as _sys

from ..ops import drawing_functions as _drawing_functions
from ..ops import namespace as _namespace
from ..ops import subspaces as _subspaces
from ..ops import zipfian_function as _zipfian_function
from . import methods as _methods  # noqa: F401  hangs them on NDArray
from . import sparse
from .calls import invoke, nd_call
from .control import CONTROL as _CONTROL
from .creation import (
    BINARY_FUNCTIONS,
    arange,
    array,
    concatenate,
    empty,
    eye,
    from_dlpack,
    from_numpy,
    full,
    histogram,
    linspace,
    moveaxis,
    ones,
    split_v2,
    to_dlpack_for_read,
    to_dlpack_for_write,
    zeros,
)
from .kinds import enter_numpy_class, shown, wrap
from .ndarray import NDArray, waitall
from .saveload import load, load_frombuffer, save
from .updates import CONTRIB_UPDATES, onehot_encode, reset_arrays

_functions = _namespace(nd_call, extra=("out", "name"))
for _word, _space in _subspaces(_functions).items():
    globals().setdefault(_word, _space)  # sparse is a module
vars(globals()["random"]).update(_drawing_functions(nd_call, NDArray))
vars(globals()["contrib"]).update(CONTRIB_UPDATES, **_CONTROL,
                                   rand_zipfian=_zipfian_function(nd_call))
for _name, _function in _functions.items():
    globals().setdefault(_name, _function)
globals().update(BINARY_FUNCTIONS)
true_divide = BINARY_FUNCTIONS["divide"]


op = _sys.modules[__name__]  # ``nd.op.X`` is ``nd.X``


def _invoke(op, *inputs, **attrs):  # type: ignore[no-untyped-def]
    """Call a record that has no name (a compiled graph) on NDArrays."""
    return nd_call(op, inputs, attrs)


__all__ = [
    "NDArray",
    "arange",
    "array",
    "concatenate",
    "empty",
    "enter_numpy_class",
    "eye",
    "from_dlpack",
    "from_numpy",
    "full",
    "histogram",
    "invoke",
    "linspace",
    "load",
    "load_frombuffer",
    "moveaxis",
    "onehot_encode",
    "ones",
    "reset_arrays",
    "save",
    "shown",
    "sparse",
    "split_v2",
    "to_dlpack_for_read",
    "to_dlpack_for_write",
    "true_divide",
    "waitall",
    "wrap",
    "zeros",
]
__all__ += sorted(
    name for name in (*_functions, *BINARY_FUNCTIONS)
    if not name.startswith("_") and name not in __all__
)
