"""MXNet's operators behind ``mx.np``, read from symbol files: each as the function it stands for.

MXNet has an operator (``_np_sum``, ``_npi_add_scalar``) for each function; here functions are
composed of fewer. A node of a file becomes what ``F.np`` makes of its inputs and attributes.
"""
from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import numpy_extension as npx
from .graph import Entry
from .numpy.graph import room as np
from .numpy.symbolic import SymbolicArray
from .symbol import Symbol

__all__ = ["translated"]

# What says nothing here: how many inputs there are (they are there), where, and in what manner.
_SILENT = ("num_args", "ctx", "is_int", "optimize", "weighted", "returned", "copy", "order",
           "to_begin_arr_given", "to_end_arr_given", "hermitian", "squeeze_axis")
_SEQUENCES = ("concatenate", "stack", "hstack", "vstack", "dstack", "column_stack")
_MATRICES = ("cholesky", "det", "eigh", "eigvalsh", "inv", "pinv", "slogdet", "solve", "svd",
             "tensorinv", "tensorsolve")
# MXNet's words for arguments, where they are not the function's.
_WORDS = {"to_begin_scalar": "to_begin", "to_end_scalar": "to_end", "value": "fill_value",
          "constant_value": "constant_values", "a_axes": "axes"}


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return {"inf": float("inf"), "-inf": -float("inf"), "nan": float("nan")}.get(text, text)


def _pad(x: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Any:
    more = {"constant_values": constant_values} if mode == "constant" else {}
    return np.pad(x, pad_width, mode, **more)


def _cut(x: Any, indices: Any = (), sections: int = 0, axis: int = 0) -> Any:
    # MXNet counts the beginning of the first part among the places
    return np.split(x, sections or tuple(indices)[1:], axis)


def _norm(x: Any, ord: Any = 2, axis: Any = None, keepdims: bool = False, flag: int = 0) -> Any:
    # below zero: no order was said, and the root of the sum of squares is meant
    return np.linalg.norm(x, None if flag == -2 else ord, axis, keepdims)


_ODD: dict[str, Callable[..., Any]] = {
    "pad": _pad, "hsplit": _cut, "dsplit": _cut, "norm": _norm,
    "identity": lambda shape, dtype=None: np.identity(shape[0], dtype),
    "tensordot": lambda a, b, a_axes_summed, b_axes_summed: np.tensordot(
        a, b, (tuple(a_axes_summed), tuple(b_axes_summed))),
    "einsum": lambda *operands, subscripts: np.einsum(subscripts, *operands),
    "tensordot_int_axes": lambda a, b, axes: np.tensordot(a, b, axes),
    "pinv_scalar_rcond": lambda a, rcond: np.linalg.pinv(a, rcond),
    "where_lscalar": lambda condition, y, scalar: np.where(condition, scalar, y),
    "where_rscalar": lambda condition, x, scalar: np.where(condition, x, scalar),
    "average": lambda a, weights=None, axis=None: np.average(a, axis, weights),
}


def _function(name: str) -> Callable[..., Any] | None:
    """What the operator means, by its name without MXNet's prefix."""
    word = name.split("_", 2)[2]
    if name.startswith("_npx_"):
        return getattr(npx, word, None)
    if word in _ODD:
        return _ODD[word]
    if word in _MATRICES:
        return getattr(np.linalg, word)  # type: ignore[no-any-return]
    found = getattr(np, word, None)
    if found is not None and word in _SEQUENCES:
        return lambda *arrays, **more: found(list(arrays), **more)
    if found is None and word.endswith("_scalar"):
        word = word.removesuffix("_scalar")
        plain, reflected = getattr(np, word, None), getattr(np, word[1:], None)
        if plain is not None:
            return lambda x, scalar: plain(x, scalar)
        if word.startswith("r") and reflected is not None:
            return lambda x, scalar: reflected(scalar, x)
    return found  # type: ignore[no-any-return]


def translated(name: str, inputs: Sequence[Entry], texts: Mapping[str, str]) -> list[Entry] | None:
    """The outputs of MXNet's operator `name` of these inputs, or None where it is not known here.

    Args:
        texts: the attributes as the file has them.
    """
    function = _function(name)
    if function is None:
        return None
    given = {_WORDS.get(key, key): _value(text) for key, text in texts.items()
             if key not in _SILENT and not key.startswith("__")}
    if texts.get("is_int") == "True":
        given["scalar"] = int(given["scalar"])
    found = function(*[SymbolicArray([entry]) for entry in inputs], **given)
    outputs = found if isinstance(found, (list, tuple)) else [found]
    if not all(isinstance(each, Symbol) for each in outputs):
        return None
    return [each.entries[0] for each in outputs]
