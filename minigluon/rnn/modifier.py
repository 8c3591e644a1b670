"""Cells that change what another cell does: zoneout, residual connections."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import symbol
from ..ndarray import NDArray
from ..symbol import Symbol
from .cell import BaseRNNCell, Info, RNNParams, Weights, as_one, as_steps
from .compose import BidirectionalCell
from .fused import FusedRNNCell

__all__ = ["ModifierCell", "ResidualCell", "ZoneoutCell"]

F: Any = symbol


class ModifierCell(BaseRNNCell):
    """Base of cells around another cell, whose weights and states they use.

    Args:
        base_cell: the other cell; from now on it cannot be called itself.
    """

    def __init__(self, base_cell: BaseRNNCell) -> None:
        self.base_cell = base_cell
        base_cell._modified = True
        super().__init__()

    @property
    def params(self) -> RNNParams:
        self._own_params = False
        return self.base_cell.params

    @property
    def state_info(self) -> list[Info]:
        return self.base_cell.state_info

    def reset(self) -> None:
        super().reset()
        self.base_cell.reset()

    def begin_state(self, func: Callable[..., Symbol] | None = None, **kwargs: Any) -> list[Symbol]:
        assert not self._modified, "call the modifier cell instead"
        if "init_sym" in kwargs:
            func = kwargs.pop("init_sym")
        self.base_cell._modified = False
        try:
            return self.base_cell.begin_state(func, **kwargs)
        finally:
            self.base_cell._modified = True

    def unpack_weights(self, args: Mapping[str, NDArray]) -> Weights:
        return self.base_cell.unpack_weights(args)

    def pack_weights(self, args: Mapping[str, NDArray]) -> Weights:
        return self.base_cell.pack_weights(args)


class ZoneoutCell(ModifierCell):
    """Keeps random parts of the outputs and states of the step before.

    Args:
        base_cell: a cell that can be stepped.
        zoneout_outputs, zoneout_states: probability to keep an element.
    """

    def __init__(self, base_cell: BaseRNNCell, zoneout_outputs: float = 0.0,
                 zoneout_states: float = 0.0) -> None:
        assert not isinstance(base_cell, (FusedRNNCell, BidirectionalCell)), (
            f"{type(base_cell).__name__} cannot be stepped, so there is no step before to keep; "
            "unfuse it, or put ZoneoutCell around the cells inside")
        super().__init__(base_cell)
        self.zoneout_outputs = zoneout_outputs
        self.zoneout_states = zoneout_states

    def reset(self) -> None:
        super().reset()
        self.prev_output: Symbol | None = None

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        output, after = self.base_cell(inputs, states)
        before = F.zeros_like(output) if self.prev_output is None else self.prev_output
        output = self._mixed(output, before, self.zoneout_outputs)
        after = [self._mixed(new, old, self.zoneout_states)
                 for new, old in zip(after, states, strict=True)]
        self.prev_output = output
        return output, after

    @staticmethod
    def _mixed(new: Symbol, old: Symbol, p: float) -> Symbol:
        if p == 0:
            return new
        return F.where(F.Dropout(F.ones_like(new), p=p), new, old)  # type: ignore[no-any-return]


class ResidualCell(ModifierCell):
    """Adds the input to the output.

    Args:
        base_cell: the cell; its output has the size of its input.
    """

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        output, after = self.base_cell(inputs, states)
        return self._sum(output, inputs), after

    @staticmethod
    def _sum(output: Symbol, inputs: Symbol) -> Symbol:
        return F.elemwise_add(  # type: ignore[no-any-return]
            output, inputs, name=f"{output.name}_plus_residual")

    def unroll(self, length: int, inputs: Any, begin_state: Sequence[Symbol] | None = None,
               layout: str = "NTC", merge_outputs: bool | None = None
               ) -> tuple[Any, list[Symbol]]:
        self.reset()
        steps, _ = as_steps(length, inputs, layout)
        states = self.begin_state() if begin_state is None else begin_state
        outputs, after = self.base_cell.unroll(length, inputs, states, layout, False)
        outputs, _ = as_steps(length, outputs, layout)
        sums = [self._sum(output, step) for output, step in zip(outputs, steps, strict=True)]
        return (as_one(sums, layout) if merge_outputs else sums), after
