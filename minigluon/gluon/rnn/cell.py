"""Cells: one step of a recurrent network, and how a cell is unrolled over a sequence."""
from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ... import ndarray as nd
from ... import symbol
from ...base import ParameterMismatch
from ...ndarray import NDArray
from ...nn import Block, HybridBlock, ParameterDict
from .sequence import axis_of_time, in_style, last_valid, masked, split

__all__ = ["GRUCell", "HybridRecurrentCell", "LSTMCell", "RNNCell", "RecurrentCell",
           "first_states", "made_state", "sizes"]

States = list[Any]


def made_state(func: Callable[..., Any], name: str, info: dict[str, Any]) -> Any:
    """A first state: ``func(shape=..., name=..., ...)``, with as much as `func` takes."""
    taken = inspect.signature(func).parameters
    settings = {"name": name, **info}
    if not any(one.kind is one.VAR_KEYWORD for one in taken.values()) or func is symbol.zeros:
        settings.pop("__layout__", None)
        if func is not symbol.zeros:
            settings = {key: value for key, value in settings.items()
                        if key in taken or key == "shape"}
    return nd.shown(func(**settings))


class RecurrentCell(Block):
    """One step of a recurrent network: ``output, states = cell(inputs, states)``.

    A cell of yours overrides ``hybrid_forward(self, F, inputs, states, ...)`` (as a
    HybridRecurrentCell) or ``forward(self, inputs, states)``, and `state_info`.

    >>> import minigluon as mx
    >>> cell = mx.gluon.rnn.LSTMCell(4)
    >>> cell.initialize()
    >>> output, states = cell(mx.nd.ones((2, 3)), cell.begin_state(batch_size=2))
    >>> output.shape, [state.shape for state in states]
    ((2, 4), [(2, 4), (2, 4)])
    """

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self._modified = False
        self.reset()

    def reset(self) -> None:
        """Forget what steps have left behind, before another sequence."""
        self._init_counter = -1
        self._counter = -1
        for cell in self._children.values():
            if isinstance(cell, RecurrentCell):
                cell.reset()

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Shape and layout of each state."""
        raise NotImplementedError(f"{type(self).__name__} must override state_info")

    def begin_state(self, batch_size: int = 0, func: Callable[..., Any] = nd.zeros,
                    **kwargs: Any) -> States:
        """The states before the first step.

        Args:
            batch_size: of the states; 0 in a graph: found out from the inputs.
            func: makes a state: mx.nd.zeros, mx.nd.ones, mx.sym.var, mx.sym.zeros, ...
            kwargs: further arguments of `func`, such as ctx and dtype.
        """
        self._not_modified()
        states = []
        for info in self.state_info(batch_size):
            self._init_counter += 1
            states.append(made_state(func, f"{self._prefix}begin_state_{self._init_counter}",
                                     {**info, **kwargs}))
        return states

    def _not_modified(self) -> None:
        if self._modified:
            raise ParameterMismatch(
                "After applying modifier cells (e.g. ZoneoutCell) the base cell cannot be called "
                "directly. Call the modifier cell instead.")

    def unroll(self, length: int, inputs: Any, begin_state: States | None = None,
               layout: str = "NTC", merge_outputs: bool | None = None,
               valid_length: Any = None) -> tuple[Any, States]:
        """Run over a whole sequence.

        Args:
            length: number of steps.
            inputs: a list of arrays (N, C), one for each step, or one array in `layout`.
            begin_state: first states; zeros when None.
            layout: 'NTC' or 'TNC', of inputs and outputs that are one array.
            merge_outputs: outputs as one array (True) or a list (False); None: whichever costs
                nothing: a list, or one array where `valid_length` is given.
            valid_length: (N,), how many steps of each sample are no padding. Outputs after them
                are 0, the states returned are those after the last of them.

        Returns:
            (outputs, last states).
        """
        self.reset()
        axis = axis_of_time(layout)
        steps = split(length, inputs, axis)
        states = first_states(self, begin_state, steps, layout)
        outputs, seen = [], []
        for step in steps:
            output, states = self(step, states)
            outputs.append(output)
            seen.append(states)
        if valid_length is None:
            return in_style(length, outputs, axis, merge_outputs), states
        return (in_style(length, masked(outputs, valid_length, axis), axis, merge_outputs),
                last_valid(seen, valid_length))

    def _get_activation(self, F: Any, inputs: Any, activation: Any, **kwargs: Any) -> Any:
        """`activation` of `inputs`: a word, a block, or a function."""
        if activation in ("tanh", "relu", "sigmoid", "softsign"):
            return getattr(F, activation)(inputs, **kwargs)
        if isinstance(activation, str):
            return F.Activation(inputs, act_type=activation, **kwargs)
        return activation(inputs)

    def forward(self, inputs: Any, states: States) -> tuple[Any, States]:
        """One step.

        Args:
            inputs: (N, C). states: as the previous step returned them, or `begin_state`.

        Returns:
            (output, states).
        """
        self._counter += 1
        return super().forward(inputs, states)  # type: ignore[no-any-return]


def first_states(cell: RecurrentCell, given: States | None, inputs: Any, layout: str) -> States:
    """`given`, or zeros for these inputs: on their context, of their or the cell's element type."""
    if given is not None:
        return given
    listed = isinstance(inputs, (list, tuple))
    first = inputs[0] if listed else inputs
    if isinstance(first, NDArray):
        batch = first.shape[0 if listed else layout.index("N")]
        return cell.begin_state(batch_size=batch, func=nd.zeros, ctx=first.context,
                                dtype=first.dtype)
    dtype = next((p.dtype for p in cell.collect_params().values()), "float32")
    return cell.begin_state(func=symbol.zeros, dtype=dtype)


class HybridRecurrentCell(RecurrentCell, HybridBlock):
    """A cell that computes with operators only: it can be hybridized, alone or unrolled."""

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """One step: ``hybrid_forward(self, F, inputs, states, **params)``."""
        raise NotImplementedError(f"{type(self).__name__} must override hybrid_forward")


class _GatedCell(HybridRecurrentCell):
    """What RNNCell, LSTMCell and GRUCell share: weights from input and state to the gates."""

    _gates = 1
    _hint = "rnn"
    _state_count = 1

    def __init__(self, hidden_size: int, i2h_weight_initializer: Any, h2h_weight_initializer: Any,
                 i2h_bias_initializer: Any, h2h_bias_initializer: Any, input_size: int,
                 prefix: str | None, params: ParameterDict | None) -> None:
        super().__init__(prefix=prefix, params=params)
        self._hidden_size = hidden_size
        self._input_size = input_size
        rows = self._gates * hidden_size
        self._parameter("i2h_weight", (rows, input_size), i2h_weight_initializer)
        self._parameter("h2h_weight", (rows, self._width()), h2h_weight_initializer)
        self._more_weights()
        self._parameter("i2h_bias", (rows,), i2h_bias_initializer)
        self._parameter("h2h_bias", (rows,), h2h_bias_initializer)

    def _parameter(self, name: str, shape: tuple[int, ...], init: Any) -> None:
        setattr(self, name, self.params.get(name, shape=shape, init=init,
                                            allow_deferred_init=True))

    def _more_weights(self) -> None:
        """For cells that have others."""

    def _width(self) -> int:
        """Size of the state that the gates see."""
        return self._hidden_size

    def _alias(self) -> str:
        return self._hint

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Shape and layout of each state."""
        return [{"shape": (batch_size, self._hidden_size), "__layout__": "NC"}
                for _ in range(self._state_count)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({sizes(self.i2h_weight)})"

    def _contributions(self, F: Any, inputs: Any, state: Any, i2h_weight: Any, h2h_weight: Any,
                       i2h_bias: Any, h2h_bias: Any) -> tuple[str, Any, Any]:
        """The prefix of this step's names; what input and state contribute to the gates."""
        prefix, rows = f"t{self._counter}_", self._gates * self._hidden_size
        i2h = F.FullyConnected(inputs, i2h_weight, i2h_bias, num_hidden=rows, name=prefix + "i2h")
        h2h = F.FullyConnected(state, h2h_weight, h2h_bias, num_hidden=rows, name=prefix + "h2h")
        return prefix, i2h, h2h


def sizes(weight: Any) -> str:
    """``in -> out`` of a weight, for reprs."""
    rows, columns = weight.shape
    return f"{columns or None} -> {rows}"


class RNNCell(_GatedCell):
    """h' = act(W x + b + R h + c).

    Args:
        hidden_size: size of the state. activation: 'tanh', 'relu', or another activation.
        i2h_weight_initializer, h2h_weight_initializer: of W and R.
        i2h_bias_initializer, h2h_bias_initializer: of b and c.
        input_size: size of the input; found at the first step when 0.

    Shapes: inputs (N, C), one state (N, H) -> output (N, H), [state].
    """

    def __init__(self, hidden_size: int, activation: Any = "tanh",
                 i2h_weight_initializer: Any = None, h2h_weight_initializer: Any = None,
                 i2h_bias_initializer: Any = "zeros", h2h_bias_initializer: Any = "zeros",
                 input_size: int = 0, prefix: str | None = None,
                 params: ParameterDict | None = None) -> None:
        super().__init__(hidden_size, i2h_weight_initializer, h2h_weight_initializer,
                         i2h_bias_initializer, h2h_bias_initializer, input_size, prefix, params)
        self._activation = activation

    def hybrid_forward(self, F: Any, inputs: Any, states: States, i2h_weight: Any,
                       h2h_weight: Any, i2h_bias: Any, h2h_bias: Any) -> tuple[Any, States]:
        """One step."""
        prefix, i2h, h2h = self._contributions(F, inputs, states[0], i2h_weight, h2h_weight,
                                               i2h_bias, h2h_bias)
        total = F.elemwise_add(i2h, h2h, name=prefix + "plus0")
        output = self._get_activation(F, total, self._activation, name=prefix + "out")
        return output, [output]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({sizes(self.i2h_weight)}, {self._activation})"


class LSTMCell(_GatedCell):
    """Long short-term memory.

    With i, f, g, o the four quarters of W x + b + R h + c:
    ``cell' = sigmoid(f) cell + sigmoid(i) tanh(g)``, ``h' = sigmoid(o) tanh(cell')``.

    Args:
        hidden_size: size of each state.
        i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
            h2h_bias_initializer, input_size: as for RNNCell.
        activation, recurrent_activation: in place of tanh and sigmoid.

    Shapes: inputs (N, C), states h and cell (N, H) -> output (N, H), [h, cell].
    """

    _gates, _hint, _state_count = 4, "lstm", 2

    def __init__(self, hidden_size: int, i2h_weight_initializer: Any = None,
                 h2h_weight_initializer: Any = None, i2h_bias_initializer: Any = "zeros",
                 h2h_bias_initializer: Any = "zeros", input_size: int = 0,
                 prefix: str | None = None, params: ParameterDict | None = None,
                 activation: Any = "tanh", recurrent_activation: Any = "sigmoid") -> None:
        super().__init__(hidden_size, i2h_weight_initializer, h2h_weight_initializer,
                         i2h_bias_initializer, h2h_bias_initializer, input_size, prefix, params)
        self._activation = activation
        self._recurrent_activation = recurrent_activation

    def hybrid_forward(self, F: Any, inputs: Any, states: States, i2h_weight: Any,
                       h2h_weight: Any, i2h_bias: Any, h2h_bias: Any) -> tuple[Any, States]:
        """One step."""
        prefix, i2h, h2h = self._contributions(F, inputs, states[0], i2h_weight, h2h_weight,
                                               i2h_bias, h2h_bias)
        total = F.elemwise_add(i2h, h2h, name=prefix + "plus0")
        i, f, g, o = F.SliceChannel(total, num_outputs=4, name=prefix + "slice")
        gate, act = self._recurrent_activation, self._activation
        i = self._get_activation(F, i, gate, name=prefix + "i")
        f = self._get_activation(F, f, gate, name=prefix + "f")
        g = self._get_activation(F, g, act, name=prefix + "c")
        o = self._get_activation(F, o, gate, name=prefix + "o")
        cell = F.elemwise_add(F.elemwise_mul(f, states[1], name=prefix + "mul0"),
                              F.elemwise_mul(i, g, name=prefix + "mul1"), name=prefix + "state")
        shown = (F.Activation(cell, act_type=act, name=prefix + "activation0")
                 if isinstance(act, str) else self._get_activation(F, cell, act))
        output = F.elemwise_mul(o, shown, name=prefix + "out")
        return output, [output, cell]


class GRUCell(_GatedCell):
    """Gated recurrent unit, as cuDNN has it.

    With r, z, n the three thirds of W x + b and of R h + c (primed):
    ``n = tanh(n + sigmoid(r + r') n')``, ``h' = (1 - z) n + z h`` with ``z = sigmoid(z + z')``.

    Args: as for RNNCell, without activation.

    Shapes: inputs (N, C), one state (N, H) -> output (N, H), [state].
    """

    _gates, _hint = 3, "gru"

    def __init__(self, hidden_size: int, i2h_weight_initializer: Any = None,
                 h2h_weight_initializer: Any = None, i2h_bias_initializer: Any = "zeros",
                 h2h_bias_initializer: Any = "zeros", input_size: int = 0,
                 prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(hidden_size, i2h_weight_initializer, h2h_weight_initializer,
                         i2h_bias_initializer, h2h_bias_initializer, input_size, prefix, params)

    def hybrid_forward(self, F: Any, inputs: Any, states: States, i2h_weight: Any,
                       h2h_weight: Any, i2h_bias: Any, h2h_bias: Any) -> tuple[Any, States]:
        """One step."""
        before = states[0]
        prefix, i2h, h2h = self._contributions(F, inputs, before, i2h_weight, h2h_weight,
                                               i2h_bias, h2h_bias)
        i2h_r, i2h_z, i2h_n = F.SliceChannel(i2h, num_outputs=3, name=prefix + "i2h_slice")
        h2h_r, h2h_z, h2h_n = F.SliceChannel(h2h, num_outputs=3, name=prefix + "h2h_slice")
        r = F.Activation(F.elemwise_add(i2h_r, h2h_r, name=prefix + "plus0"), act_type="sigmoid",
                         name=prefix + "r_act")
        z = F.Activation(F.elemwise_add(i2h_z, h2h_z, name=prefix + "plus1"), act_type="sigmoid",
                         name=prefix + "z_act")
        inner = F.elemwise_add(i2h_n, F.elemwise_mul(r, h2h_n, name=prefix + "mul0"),
                               name=prefix + "plus2")
        n = self._new(F, inner, prefix + "h_act")
        rest = F.elemwise_sub(F.ones_like(z, name=prefix + "ones_like0"), z,
                              name=prefix + "minus0")
        output = F.elemwise_add(F.elemwise_mul(rest, n, name=prefix + "mul1"),
                                F.elemwise_mul(z, before, name=prefix + "mul20"),
                                name=prefix + "out")
        return output, [output]

    def _new(self, F: Any, inner: Any, name: str) -> Any:
        """What the state may become."""
        return F.Activation(inner, act_type="tanh", name=name)
