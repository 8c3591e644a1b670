"""An LSTM cell with a projection, and dropout with one mask for a whole sequence."""
from __future__ import annotations

from typing import Any

from ....base import ParameterMismatch
from ....nn import ParameterDict
from ...rnn import BidirectionalCell, LSTMCell, ModifierCell, RecurrentCell, SequentialRNNCell

__all__ = ["LSTMPCell", "VariationalDropoutCell"]

States = list[Any]


class LSTMPCell(LSTMCell):
    """An LSTMCell whose output is projected to a smaller size before it is handed on.

    Args:
        hidden_size: size of the cell state. projection_size: size P of the output.
        i2h_weight_initializer, h2h_weight_initializer, h2r_weight_initializer: of the weights
            from the input, from the previous output, and to the output.
        i2h_bias_initializer, h2h_bias_initializer, input_size: as for LSTMCell.

    Shapes: inputs (N, C), states (N, P) and (N, H) -> output (N, P), [state, cell].

    >>> import minigluon as mx
    >>> cell = mx.gluon.contrib.rnn.LSTMPCell(6, 4)
    >>> cell.initialize()
    >>> cell(mx.nd.ones((2, 3)), cell.begin_state(batch_size=2))[0].shape
    (2, 4)
    """

    def __init__(self, hidden_size: int, projection_size: int,
                 i2h_weight_initializer: Any = None, h2h_weight_initializer: Any = None,
                 h2r_weight_initializer: Any = None, i2h_bias_initializer: Any = "zeros",
                 h2h_bias_initializer: Any = "zeros", input_size: int = 0,
                 prefix: str | None = None, params: ParameterDict | None = None) -> None:
        self._projection = (projection_size, h2r_weight_initializer)
        super().__init__(hidden_size, i2h_weight_initializer, h2h_weight_initializer,
                         i2h_bias_initializer, h2h_bias_initializer, input_size, prefix, params)

    def _more_weights(self) -> None:
        size, init = self._projection
        self._parameter("h2r_weight", (size, self._hidden_size), init)

    def _width(self) -> int:
        return self._projection[0]

    def _alias(self) -> str:
        return "lstmp"

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Shape and layout of each state."""
        return [{"shape": (batch_size, size), "__layout__": "NC"}
                for size in (self._projection[0], self._hidden_size)]

    def hybrid_forward(self, F: Any, inputs: Any, states: States, i2h_weight: Any,
                       h2h_weight: Any, i2h_bias: Any, h2h_bias: Any, h2r_weight: Any = None
                       ) -> tuple[Any, States]:
        """One step."""
        prefix, i2h, h2h = self._contributions(F, inputs, states[0], i2h_weight, h2h_weight,
                                               i2h_bias, h2h_bias)
        i, f, g, o = F.SliceChannel(i2h + h2h, num_outputs=4, name=prefix + "slice")
        i = F.Activation(i, act_type="sigmoid", name=prefix + "i")
        f = F.Activation(f, act_type="sigmoid", name=prefix + "f")
        g = F.Activation(g, act_type="tanh", name=prefix + "c")
        o = F.Activation(o, act_type="sigmoid", name=prefix + "o")
        cell = F.elemwise_add(f * states[1], i * g, name=prefix + "state")
        hidden = F.elemwise_mul(o, F.Activation(cell, act_type="tanh"), name=prefix + "hidden")
        output = F.FullyConnected(hidden, h2r_weight, no_bias=True,
                                  num_hidden=self._projection[0], name=prefix + "out")
        return output, [output, cell]

    def __repr__(self) -> str:
        rows, columns = self.i2h_weight.shape or (0, 0)
        return (f"{type(self).__name__}({columns or None} -> {rows} -> {self._projection[0]})")


class VariationalDropoutCell(ModifierCell):
    """Dropout around a cell that hits the same elements at every step of a sequence.

    Args:
        base_cell: the cell inside.
        drop_inputs, drop_states, drop_outputs: chance of an element to be dropped. Of several
            states the first one is dropped from.

    `reset`, which `unroll` calls, draws new masks at the next step.
    """

    def __init__(self, base_cell: RecurrentCell, drop_inputs: float = 0.0,
                 drop_states: float = 0.0, drop_outputs: float = 0.0) -> None:
        if drop_states and isinstance(base_cell, BidirectionalCell):
            raise ParameterMismatch(
                "BidirectionalCell doesn't support variational state dropout. Please add "
                "VariationalDropoutCell to the cells underneath instead.")
        if drop_states and isinstance(base_cell, SequentialRNNCell) and any(
                isinstance(cell, BidirectionalCell) for cell in base_cell):
            raise ParameterMismatch(
                "Bidirectional SequentialRNNCell doesn't support variational state dropout. "
                "Please add VariationalDropoutCell to the cells underneath instead.")
        super().__init__(base_cell)
        self.drop_inputs = drop_inputs
        self.drop_states = drop_states
        self.drop_outputs = drop_outputs

    def _alias(self) -> str:
        return "vardrop"

    def reset(self) -> None:
        """Forget the masks."""
        super().reset()
        self._masks: dict[str, Any] = {}

    def __repr__(self) -> str:
        return (f"{type(self).__name__}(p_out = {self.drop_outputs}, "
                f"p_state = {self.drop_states})")

    def unroll(self, length: int, inputs: Any, begin_state: States | None = None,
               layout: str = "NTC", merge_outputs: bool | None = None,
               valid_length: Any = None) -> tuple[Any, States]:
        """All steps. As in MXNet one array of outputs where nothing says otherwise."""
        if merge_outputs is None and not self.drop_states:
            merge_outputs = True
        return super().unroll(length, inputs, begin_state, layout, merge_outputs, valid_length)

    def _dropped(self, F: Any, kind: str, p: float, array: Any) -> Any:
        if not p:
            return array
        if kind not in self._masks:
            self._masks[kind] = F.Dropout(F.ones_like(array), p=p)
        return array * self._masks[kind]

    def hybrid_forward(self, F: Any, inputs: Any, states: States) -> tuple[Any, States]:
        """One step."""
        if self.drop_states:
            states = [self._dropped(F, "states", self.drop_states, states[0]), *states[1:]]
        inputs = self._dropped(F, "inputs", self.drop_inputs, inputs)
        with self._released():
            output, states = self.base_cell(inputs, states)
        return self._dropped(F, "outputs", self.drop_outputs, output), states
