"""Cells around a cell, which change what goes in or comes out of it."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ... import ndarray as nd
from ...base import ParameterMismatch
from ...nn import ParameterDict
from .cell import HybridRecurrentCell, RecurrentCell, States
from .compose import BidirectionalCell, SequentialRNNCell
from .sequence import axis_of_time, face_of, in_style, masked

__all__ = ["ModifierCell", "ResidualCell", "ZoneoutCell"]


class ModifierCell(HybridRecurrentCell):
    """Base of cells around another one: it has that one's parameters and states.

    From then on the other cell must not be called itself.

    Args:
        base_cell: the cell inside.
    """

    def __init__(self, base_cell: RecurrentCell) -> None:
        base_cell._not_modified()
        base_cell._modified = True
        super().__init__(prefix=base_cell.prefix + self._alias(), params=None)
        self.base_cell = base_cell

    @property
    def params(self) -> ParameterDict:
        """The parameters of the cell inside."""
        return self.base_cell.params

    @contextmanager
    def _released(self) -> Iterator[None]:
        """While it is open, the cell inside may be used itself."""
        self.base_cell._modified = False
        try:
            yield
        finally:
            self.base_cell._modified = True

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Shape and layout of the states of the cell inside."""
        return self.base_cell.state_info(batch_size)

    def begin_state(self, batch_size: int = 0, func: Callable[..., Any] = nd.zeros,
                    **kwargs: Any) -> States:
        """The first states of the cell inside; see RecurrentCell."""
        self._not_modified()
        with self._released():
            return self.base_cell.begin_state(batch_size=batch_size, func=func, **kwargs)

    def hybrid_forward(self, F: Any, inputs: Any, states: States) -> tuple[Any, States]:
        """One step; a class of yours overrides it."""
        raise NotImplementedError(f"{type(self).__name__} must override hybrid_forward")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_cell!r})"


class ZoneoutCell(ModifierCell):
    """While training, elements of output and states keep their previous value by chance.

    Args:
        base_cell: the cell inside.
        zoneout_outputs, zoneout_states: chance of an element to keep its value.
    """

    def __init__(self, base_cell: RecurrentCell, zoneout_outputs: float = 0.0,
                 zoneout_states: float = 0.0) -> None:
        if isinstance(base_cell, BidirectionalCell):
            raise ParameterMismatch(
                "BidirectionalCell doesn't support zoneout since it doesn't support step. Please "
                "add ZoneoutCell to the cells underneath instead.")
        if isinstance(base_cell, SequentialRNNCell) and any(
                isinstance(cell, BidirectionalCell) for cell in base_cell):
            raise ParameterMismatch(
                "Bidirectional SequentialRNNCell doesn't support zoneout. Please add ZoneoutCell "
                "to the cells underneath instead.")
        super().__init__(base_cell)
        self._zoneout_outputs = zoneout_outputs
        self._zoneout_states = zoneout_states
        self._prev_output: Any = None

    def __repr__(self) -> str:
        return (f"{type(self).__name__}(p_out={self._zoneout_outputs}, "
                f"p_state={self._zoneout_states}, {self.base_cell!r})")

    def _alias(self) -> str:
        return "zoneout"

    def reset(self) -> None:
        """Forget the previous output."""
        super().reset()
        self._prev_output = None

    def hybrid_forward(self, F: Any, inputs: Any, states: States) -> tuple[Any, States]:
        """One step."""
        with self._released():
            output, found = self.base_cell(inputs, states)

        def mixed(p: float, new: Any, old: Any) -> Any:
            return F.where(F.Dropout(F.ones_like(new), p=p), new, old)

        if self._zoneout_outputs > 0:
            old = F.zeros_like(output) if self._prev_output is None else self._prev_output
            shown = mixed(self._zoneout_outputs, output, old)
        else:
            shown = output
        if self._zoneout_states > 0:
            found = [mixed(self._zoneout_states, new, old)
                     for new, old in zip(found, states, strict=True)]
        self._prev_output = shown
        return shown, found


class ResidualCell(ModifierCell):
    """Adds its input to the output of the cell inside; both have the same size.

    Args:
        base_cell: the cell inside.
    """

    def __init__(self, base_cell: RecurrentCell) -> None:
        super().__init__(base_cell)

    def hybrid_forward(self, F: Any, inputs: Any, states: States) -> tuple[Any, States]:
        """One step."""
        with self._released():
            output, states = self.base_cell(inputs, states)
        return F.elemwise_add(output, inputs, name=f"t{self._counter}_fwd"), states

    def unroll(self, length: int, inputs: Any, begin_state: States | None = None,
               layout: str = "NTC", merge_outputs: bool | None = None,
               valid_length: Any = None) -> tuple[Any, States]:
        """Run over a whole sequence; see RecurrentCell."""
        self.reset()
        axis = axis_of_time(layout)
        with self._released():
            outputs, states = self.base_cell.unroll(length, inputs, begin_state, layout,
                                                    merge_outputs, valid_length)
        F, whole = face_of(outputs), not isinstance(outputs, (list, tuple))
        if valid_length is not None:
            inputs = masked(inputs, valid_length, axis)
        inputs = in_style(length, inputs, axis, whole)
        if whole:
            return F.elemwise_add(outputs, inputs), states
        return [F.elemwise_add(one, other)
                for one, other in zip(outputs, inputs, strict=True)], states
