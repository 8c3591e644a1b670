"""Symbolic cells made of cells, and Dropout between them."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import symbol
from ..base import ArgumentValueError, NotForThisError
from ..ndarray import NDArray
from ..symbol import Symbol
from .cell import BaseRNNCell, Info, RNNParams, Weights, as_one, as_steps

__all__ = ["BidirectionalCell", "DropoutCell", "SequentialRNNCell"]

F: Any = symbol


class DropoutCell(BaseRNNCell):
    """Dropout as a cell without weights or states.

    Args:
        dropout: probability of a zero.
    """

    def __init__(self, dropout: float, prefix: str = "dropout_", params: RNNParams | None = None
                 ) -> None:
        super().__init__(prefix, params)
        if not isinstance(dropout, (int, float)):
            raise ArgumentValueError(f"DropoutCell: dropout: expected a number, got {dropout!r}")
        self.dropout = dropout

    @property
    def state_info(self) -> list[Info]:
        return []

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        return (F.Dropout(inputs, p=self.dropout) if self.dropout > 0 else inputs), list(states)

    def unroll(self, length: int, inputs: Any, begin_state: Sequence[Symbol] | None = None,
               layout: str = "NTC", merge_outputs: bool | None = None
               ) -> tuple[Any, list[Symbol]]:
        self.reset()
        if merge_outputs is None:
            merge_outputs = isinstance(inputs, Symbol) and len(inputs) == 1
        if merge_outputs:
            return self(as_one(inputs, layout), [])
        steps, _ = as_steps(length, inputs, layout)
        return [self(step, [])[0] for step in steps], []


class _Cells(BaseRNNCell):
    """A cell made of cells: its states and weights are theirs, one after the other."""

    _cells: list[BaseRNNCell]

    @property
    def state_info(self) -> list[Info]:
        return [info for cell in self._cells for info in cell.state_info]

    def begin_state(self, func: Callable[..., Symbol] | None = None, **kwargs: Any) -> list[Symbol]:
        assert not self._modified, "call the modifier cell instead"
        return [state for cell in self._cells for state in cell.begin_state(func, **kwargs)]

    def unpack_weights(self, args: Mapping[str, NDArray]) -> Weights:
        return _through(self._cells, "unpack_weights", args)

    def pack_weights(self, args: Mapping[str, NDArray]) -> Weights:
        return _through(self._cells, "pack_weights", args)


class SequentialRNNCell(_Cells):
    """Cells one on top of the other.

    Args:
        params: variables that all cells use.
    """

    def __init__(self, params: RNNParams | None = None) -> None:
        self._cells: list[BaseRNNCell] = []
        self._override_cell_params = params is not None
        super().__init__("", params)

    def add(self, cell: BaseRNNCell) -> None:
        """Put a cell on top."""
        self._cells.append(cell)
        _share(self, cell)

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        self._counter += 1
        after: list[Symbol] = []
        for cell, own in _parts(self._cells, states):
            inputs, own = cell(inputs, own)
            after += own
        return inputs, after

    def unroll(self, length: int, inputs: Any, begin_state: Sequence[Symbol] | None = None,
               layout: str = "NTC", merge_outputs: bool | None = None
               ) -> tuple[Any, list[Symbol]]:
        self.reset()
        states = self.begin_state() if begin_state is None else list(begin_state)
        after: list[Symbol] = []
        for place, (cell, own) in enumerate(_parts(self._cells, states)):
            last = place + 1 == len(self._cells)
            inputs, own = cell.unroll(length, inputs, own, layout,
                                      merge_outputs if last else None)
            after += own
        return inputs, after


class BidirectionalCell(_Cells):
    """One cell from the beginning, one from the end; their outputs side by side.

    Args:
        l_cell, r_cell: the cells.
        params: variables that both use.
        output_prefix: of the names of the outputs.
    """

    def __init__(self, l_cell: BaseRNNCell, r_cell: BaseRNNCell, params: RNNParams | None = None,
                 output_prefix: str = "bi_") -> None:
        self._cells = [l_cell, r_cell]
        self._override_cell_params = params is not None
        self._output_prefix = output_prefix
        super().__init__("", params)
        for cell in self._cells:
            _share(self, cell)

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        raise NotForThisError("BidirectionalCell cannot be stepped: it needs the whole sequence; "
                              "use unroll")

    def unroll(self, length: int, inputs: Any, begin_state: Sequence[Symbol] | None = None,
               layout: str = "NTC", merge_outputs: bool | None = None
               ) -> tuple[Any, list[Symbol]]:
        self.reset()
        steps, axis = as_steps(length, inputs, layout)
        states = self.begin_state() if begin_state is None else list(begin_state)
        (left, left_states), (right, right_states) = _parts(self._cells, states)
        outs, left_states = left.unroll(length, steps, left_states, layout, False)
        backs, right_states = right.unroll(length, steps[::-1], right_states, layout, False)
        outputs = [
            F.Concat(*as_pair, dim=1, name=f"{self._output_prefix}t{place}")
            for place, as_pair in enumerate(zip(_listed(outs, length, axis),
                                                _listed(backs, length, axis)[::-1], strict=True))]
        merged = as_one(outputs, layout, name=f"{self._output_prefix}out") if merge_outputs else (
            outputs)
        return merged, [*left_states, *right_states]


def _listed(outputs: Any, length: int, axis: int) -> list[Symbol]:
    """Outputs as a list, whatever a cell gave."""
    return as_steps(length, outputs, "NTC" if axis == 1 else "TNC")[0]


def _share(outer: Any, cell: BaseRNNCell) -> None:
    """One set of variables for an outer cell and the cells in it."""
    if outer._override_cell_params:
        assert cell._own_params, "either give the outer cell params, or the inner ones, not both"
        cell.params._params.update(outer.params._params)
    outer.params._params.update(cell.params._params)


def _parts(cells: Sequence[BaseRNNCell], states: Sequence[Symbol]
           ) -> list[tuple[BaseRNNCell, list[Symbol]]]:
    """Each cell with its own states."""
    parts, start = [], 0
    for cell in cells:
        end = start + len(cell.state_info)
        parts.append((cell, list(states[start:end])))
        start = end
    return parts


def _through(cells: Sequence[BaseRNNCell], method: str, args: Mapping[str, NDArray]) -> Weights:
    weights = dict(args)
    for cell in cells:
        weights = getattr(cell, method)(weights)
    return weights
