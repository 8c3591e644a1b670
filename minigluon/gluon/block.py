"""Where Gluon scripts look for blocks: ``from minigluon.gluon.block import HybridBlock``."""
from __future__ import annotations

from typing import Any

from ..base import ArgumentValueError
from ..ndarray import NDArray
from ..nn import Block, HybridBlock, SymbolBlock
from ..symbol import Symbol

__all__ = ["Block", "HybridBlock", "SymbolBlock"]


def _flatten(args: Any, what: str) -> tuple[list[Any], Any]:
    """The arrays in nested lists, and the form of the nest; gluonts asks for it by this name."""
    if args is None or isinstance(args, NDArray):
        return [args], -1 if args is None else 0
    if isinstance(args, Symbol):
        return [args], len(args.entries) if len(args.entries) > 1 else 0
    if not isinstance(args, (list, tuple)):
        raise ArgumentValueError(f"the {what} of a HybridBlock must be NDArrays, Symbols or nested "
                                 f"lists of them, got {type(args).__name__}")
    parts = [_flatten(each, what) for each in args]
    return [leaf for leaves, _ in parts for leaf in leaves], [form for _, form in parts]
