"""Cells made of cells: one after the other, one for each direction of time; and dropout."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...base import NotForThisError, ParameterMismatch
from ...nn import ParameterDict
from .cell import HybridRecurrentCell, RecurrentCell, States, first_states
from .sequence import axis_of_time, face_of, in_style, merged, reversed_steps, split

__all__ = ["BidirectionalCell", "DropoutCell", "HybridSequentialRNNCell", "SequentialRNNCell"]


def _info(cells: Sequence[Any], batch_size: int) -> list[dict[str, Any]]:
    return [info for cell in cells for info in cell.state_info(batch_size)]


def _begin(cells: Sequence[Any], kwargs: dict[str, Any]) -> States:
    return [state for cell in cells for state in cell.begin_state(**kwargs)]


def _parts(cells: Sequence[Any], states: States) -> Iterator[tuple[Any, States]]:
    """Each cell with its own states."""
    start = 0
    for cell in cells:
        end = start + len(cell.state_info())
        yield cell, states[start:end]
        start = end


class _Stack(RecurrentCell):
    """What the two sequential cells share."""

    def add(self, cell: RecurrentCell) -> None:
        """Put `cell` behind the others."""
        self.register_child(cell)

    @property
    def _cells(self) -> list[Any]:
        return list(self._children.values())

    def __len__(self) -> int:
        return len(self._children)

    def __getitem__(self, place: int) -> Any:
        return self._cells[place]

    def __repr__(self) -> str:
        lines = "\n".join(f"({name}): {_indented(cell)}" for name, cell in self._children.items())
        return f"{type(self).__name__}(\n{lines}\n)"

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Shape and layout of the states of all cells, in order."""
        return _info(self._cells, batch_size)

    def begin_state(self, *args: Any, **kwargs: Any) -> States:
        """The first states of all cells; see RecurrentCell."""
        self._not_modified()
        if args:
            kwargs["batch_size"], *rest = args
            kwargs.update(zip(("func",), rest, strict=False))
        return _begin(self._cells, kwargs)

    def _step(self, inputs: Any, states: States) -> tuple[Any, States]:
        self._counter += 1
        found: States = []
        for cell, own in _parts(self._cells, states):
            if isinstance(cell, BidirectionalCell):
                raise ParameterMismatch(f"{type(self).__name__}: a BidirectionalCell inside "
                                        "cannot be stepped. Please use unroll")
            inputs, own = cell(inputs, own)
            found += own
        return inputs, found

    def unroll(self, length: int, inputs: Any, begin_state: States | None = None,
               layout: str = "NTC", merge_outputs: bool | None = None,
               valid_length: Any = None) -> tuple[Any, States]:
        """Run over a whole sequence, one cell after the other; see RecurrentCell."""
        self.reset()
        axis_of_time(layout)
        states = first_states(self, begin_state, inputs, layout)
        outputs = inputs
        found: States = []
        for number, (cell, own) in enumerate(_parts(self._cells, states)):
            merge = merge_outputs if number == len(self) - 1 else None
            outputs, own = cell.unroll(length, outputs, own, layout, merge, valid_length)
            found += own
        return outputs, found


def _indented(cell: Any) -> str:
    return repr(cell).replace("\n", "\n  ")


class SequentialRNNCell(_Stack):
    """Cells one after the other: the output of one is the input of the next.

    >>> import minigluon as mx
    >>> stack = mx.gluon.rnn.SequentialRNNCell()
    >>> stack.add(mx.gluon.rnn.LSTMCell(5))
    >>> stack.add(mx.gluon.rnn.GRUCell(4))
    >>> stack.initialize()
    >>> outputs, states = stack.unroll(3, mx.nd.ones((2, 3, 6)), merge_outputs=True)
    >>> outputs.shape, [state.shape for state in states]
    ((2, 3, 4), [(2, 5), (2, 5), (2, 4)])
    """

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)

    def forward(self, inputs: Any, states: States) -> tuple[Any, States]:
        """One step of every cell."""
        return self._step(inputs, states)


class HybridSequentialRNNCell(_Stack, HybridRecurrentCell):
    """Hybrid cells one after the other; see SequentialRNNCell."""

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)

    def hybrid_forward(self, F: Any, inputs: Any, states: States) -> tuple[Any, States]:
        """One step of every cell."""
        self._counter -= 1  # _step counts it, as forward did
        return self._step(inputs, states)


class DropoutCell(HybridRecurrentCell):
    """Dropout of its inputs, between other cells; it has no state.

    Args:
        rate: chance of an element to be dropped. axes: axes that share one fate.
    """

    def __init__(self, rate: float, axes: tuple[int, ...] = (), prefix: str | None = None,
                 params: ParameterDict | None = None) -> None:
        super().__init__(prefix, params)
        if not isinstance(rate, (int, float)):
            raise ParameterMismatch(f"rate must be a number, got {rate!r}")
        self._rate = rate
        self._axes = axes

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rate={self._rate}, axes={self._axes})"

    def _alias(self) -> str:
        return "dropout"

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Nothing."""
        return []

    def hybrid_forward(self, F: Any, inputs: Any, states: States) -> tuple[Any, States]:
        """One Dropout."""
        if self._rate > 0:
            inputs = F.Dropout(data=inputs, p=self._rate, axes=self._axes,
                               name=f"t{self._counter}_fwd")
        return inputs, states

    def unroll(self, length: int, inputs: Any, begin_state: States | None = None,
               layout: str = "NTC", merge_outputs: bool | None = None,
               valid_length: Any = None) -> tuple[Any, States]:
        """Dropout of a whole sequence, at once where it is one array."""
        self.reset()
        axis = axis_of_time(layout)
        given = in_style(length, inputs, axis, merge_outputs)
        if isinstance(given, (list, tuple)):
            return super().unroll(length, given, [], layout, merge_outputs=False)
        return self.hybrid_forward(face_of(given), given, [])


class BidirectionalCell(HybridRecurrentCell):
    """Two cells, one forwards and one backwards in time; outputs are joined on the feature axis.

    It cannot do a single step: use `unroll`.

    Args:
        l_cell: for the way forwards. r_cell: for the way back.
        output_prefix: put before the names of the outputs in a graph.
    """

    def __init__(self, l_cell: RecurrentCell, r_cell: RecurrentCell,
                 output_prefix: str = "bi_") -> None:
        super().__init__(prefix="", params=None)
        self.register_child(l_cell, "l_cell")
        self.register_child(r_cell, "r_cell")
        self._output_prefix = output_prefix

    def __call__(self, *args: Any) -> Any:
        raise NotForThisError("Bidirectional cannot be stepped. Please use unroll")

    def __repr__(self) -> str:
        l_cell, r_cell = self._cells
        return f"{type(self).__name__}(forward={l_cell!r}, backward={r_cell!r})"

    @property
    def _cells(self) -> list[Any]:
        return list(self._children.values())

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Shape and layout of the states of both cells, forwards first."""
        return _info(self._cells, batch_size)

    def begin_state(self, *args: Any, **kwargs: Any) -> States:
        """The first states of both cells; see RecurrentCell."""
        self._not_modified()
        if args:
            kwargs["batch_size"], *rest = args
            kwargs.update(zip(("func",), rest, strict=False))
        return _begin(self._cells, kwargs)

    def unroll(self, length: int, inputs: Any, begin_state: States | None = None,
               layout: str = "NTC", merge_outputs: bool | None = None,
               valid_length: Any = None) -> tuple[Any, States]:
        """Run over a whole sequence in both directions; see RecurrentCell."""
        self.reset()
        axis = axis_of_time(layout)
        steps = split(length, inputs, axis)
        states = first_states(self, begin_state, steps, layout)
        (l_cell, l_begin), (r_cell, r_begin) = _parts(self._cells, states)
        ahead, l_states = l_cell.unroll(length, steps, l_begin, layout, False, valid_length)
        back, r_states = r_cell.unroll(length, reversed_steps(steps, valid_length), r_begin,
                                       layout, False, valid_length)
        back = reversed_steps(back, valid_length)
        if merge_outputs is None:
            merge_outputs = valid_length is not None
        F = face_of(ahead)
        if merge_outputs:
            outputs = F.Concat(merged(ahead, axis), merged(back, axis), dim=2,
                               name=self._output_prefix + "out")
        else:
            outputs = [F.Concat(one, other, dim=1, name=f"{self._output_prefix}t{t}")
                       for t, (one, other) in enumerate(zip(ahead, back, strict=True))]
        return outputs, [*l_states, *r_states]


