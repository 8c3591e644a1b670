"""The graph face: ``sym.X`` for every operator, Symbol, variables, loading, binding."""
from __future__ import annotations

import sys as _sys

from .bind import Executor
from .cachedop import CachedOp
from .control import CONTROL as _CONTROL
from .create import (
    Variable,
    arange,
    enter_numpy_class,
    eye,
    full,
    histogram,
    make_functions,
    make_spaces,
    ones,
    shown,
    split_v2,
    var,
    zeros,
)
from .operators import BINARY_FUNCTIONS, pow
from .symbol import Group, Symbol, load, load_json

_functions = make_functions()
for _word, _space in make_spaces(_functions).items():
    globals()[_word] = _space
for _name, _function in _functions.items():
    globals().setdefault(_name, _function)
globals().update(BINARY_FUNCTIONS)
vars(globals()["contrib"]).update(_CONTROL)
fromjson = load_json
op = _sys.modules[__name__]  # ``sym.op.X`` is ``sym.X``

__all__ = ["CachedOp", "Executor", "Group", "Symbol", "Variable", "arange", "enter_numpy_class",
           "eye", "fromjson", "full", "histogram", "load", "load_json", "ones", "pow", "shown",
           "split_v2", "var", "zeros"]
__all__ += sorted(
    name for name in (*_functions, *BINARY_FUNCTIONS)
    if not name.startswith("_") and name not in __all__
)
