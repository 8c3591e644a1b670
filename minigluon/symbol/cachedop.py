"""A symbol as a function of arrays."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import tape
from ..base import ArgumentError, ArgumentValueError
from ..graph import CompiledGraph, variables
from ..ndarray import NDArray, invoke
from .symbol import Symbol

__all__ = ["CachedOp"]


class CachedOp:
    """A symbol that is called on arrays, as hybridized blocks are; recorded as one step.

    Args:
        sym: the symbol. flags: pairs of settings, accepted and ignored.

    The arrays come in the order of ``sym.list_inputs()``.

    >>> import minigluon as mx
    >>> a, b = mx.sym.var("a"), mx.sym.var("b")
    >>> mx.nd.CachedOp(a * b + 1)(mx.nd.array([2]), mx.nd.array([3])).asnumpy().tolist()
    [7.0]
    """

    def __init__(self, sym: Symbol, flags: Sequence[Any] = (), thread_safe: bool = False) -> None:
        if not isinstance(sym, Symbol):
            raise ArgumentError(f"CachedOp: expected a Symbol, got {type(sym).__name__}")
        self._entries = sym.entries
        self._variables = variables(sym.entries)
        self._programs: dict[tuple[bool, bool], CompiledGraph] = {}

    def __call__(self, *args: NDArray, out: Any = None, default_ctx: Any = None) -> Any:
        """The outputs for these arrays: one, or a list of them."""
        names = [node.name for node in self._variables]
        if len(args) != len(names):
            raise ArgumentValueError(f"CachedOp: expected {len(names)} arrays ({', '.join(names)})"
                                     f", got {len(args)}")
        mode = (tape.state.training, tape.state.recording)
        if mode not in self._programs:
            self._programs[mode] = CompiledGraph(
                self._entries, self._variables, training=mode[0], record=mode[1],
                name="cachedop")
        return invoke(self._programs[mode].operator, list(args), {}, out, default_ctx)
