"""Recurrent cells as symbols: one step, unrolled over time."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import symbol
from ..base import ArgumentValueError
from ..initializer import LSTMBias
from ..ndarray import NDArray, concatenate
from ..symbol import Symbol

__all__ = ["BaseRNNCell", "GRUCell", "Info", "LSTMCell", "RNNCell", "RNNParams", "Weights",
           "as_one", "as_steps"]

Info = dict[str, Any]
Weights = dict[str, NDArray]
F: Any = symbol


class RNNParams:
    """Variables by name, made when first asked for; cells that share them share weights.

    Args:
        prefix: put before the names.
    """

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._params: dict[str, Symbol] = {}

    def get(self, name: str, **kwargs: Any) -> Symbol:
        """The variable of this name; `kwargs` go to ``Variable`` when it is made."""
        name = self._prefix + name
        if name not in self._params:
            self._params[name] = symbol.Variable(name, **kwargs)
        return self._params[name]


def as_steps(length: int, inputs: Any, layout: str) -> tuple[list[Symbol], int]:
    """(the inputs of each step, the axis of time) from one sequence or a list."""
    axis = layout.find("T")
    if axis < 0:
        raise ArgumentValueError(f"unroll: layout: expected a T for time, got '{layout}'")
    if isinstance(inputs, Symbol):
        if len(inputs) == length and length > 1:
            return list(inputs), axis
        if len(inputs) != 1:
            raise ArgumentValueError(f"unroll: expected one sequence or {length} inputs, got "
                                     f"{len(inputs)}")
        return list(F.split(inputs, axis=axis, num_outputs=length, squeeze_axis=True)), axis
    steps = list(inputs)
    if len(steps) != length:
        raise ArgumentValueError(f"unroll: expected {length} inputs, got {len(steps)}")
    return steps, axis


def as_one(inputs: Any, layout: str, given: str | None = None, name: str | None = None) -> Symbol:
    """One sequence in `layout`, from a list of steps or from one that is in layout `given`."""
    axis = layout.find("T")
    if isinstance(inputs, Symbol) and len(inputs) == 1:
        other = (given or layout).find("T")
        if other != axis:
            inputs = F.swapaxes(inputs, dim1=axis, dim2=other)
        whole: Symbol = inputs
        return whole
    joined: Symbol = F.concat(*[F.expand_dims(step, axis=axis) for step in inputs], dim=axis,
                              name=name)
    return joined


class BaseRNNCell:
    """One step of a recurrent network: ``output, states = cell(input, states)``.

    Args:
        prefix: of the names of weights and outputs.
        params: variables shared with another cell.
    """

    def __init__(self, prefix: str = "", params: RNNParams | None = None) -> None:
        self._own_params = params is None
        self._prefix = prefix
        self._params = RNNParams(prefix) if params is None else params
        self._modified = False
        self.reset()

    def reset(self) -> None:
        """Count steps from 0 again."""
        self._init_counter = -1
        self._counter = -1
        for cell in getattr(self, "_cells", ()):
            cell.reset()

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        """One step: (output, new states)."""
        raise NotImplementedError(f"{type(self).__name__} must override __call__")

    @property
    def params(self) -> RNNParams:
        """The variables of this cell, to be given to another one."""
        self._own_params = False
        return self._params

    @property
    def state_info(self) -> list[Info]:
        """Shape and layout of each state; 0 stands for the batch."""
        raise NotImplementedError(f"{type(self).__name__} must override state_info")

    @property
    def state_shape(self) -> list[tuple[int, ...]]:
        """Shape of each state."""
        return [info["shape"] for info in self.state_info]

    @property
    def _gate_names(self) -> Sequence[str]:
        return ()

    def _step_name(self) -> str:
        self._counter += 1
        return f"{self._prefix}t{self._counter}_"

    def begin_state(self, func: Callable[..., Symbol] | None = None, **kwargs: Any) -> list[Symbol]:
        """First states.

        Args:
            func: makes one, from ``name=`` and ``shape=``; default ``sym.zeros``;
                ``sym.Variable`` makes them inputs.
            kwargs: further arguments of `func`.
        """
        assert not self._modified, (
            "After applying modifier cells (e.g. DropoutCell) the base cell cannot be called "
            "directly; call the modifier cell instead")
        states = []
        for info in self.state_info:
            self._init_counter += 1
            settings = {"shape": info["shape"], "attr": {"__layout__": info["__layout__"]},
                        **kwargs}
            states.append((func or symbol.zeros)(
                name=f"{self._prefix}begin_state_{self._init_counter}", **settings))
        return states

    # -- weights -------------------------------------------------------------------------------

    def unpack_weights(self, args: Mapping[str, NDArray]) -> Weights:
        """Arrays for each gate, from those that hold all gates."""
        weights = dict(args)
        hidden = getattr(self, "_num_hidden", 0)
        for group in ("i2h", "h2h") if self._gate_names else ():
            for kind in ("weight", "bias"):
                whole = weights.pop(f"{self._prefix}{group}_{kind}")
                for place, gate in enumerate(self._gate_names):
                    weights[f"{self._prefix}{group}{gate}_{kind}"] = (
                        whole[place * hidden:(place + 1) * hidden].copy())
        return weights

    def pack_weights(self, args: Mapping[str, NDArray]) -> Weights:
        """The way back from `unpack_weights`."""
        weights = dict(args)
        for group in ("i2h", "h2h") if self._gate_names else ():
            for kind in ("weight", "bias"):
                parts = [weights.pop(f"{self._prefix}{group}{gate}_{kind}")
                         for gate in self._gate_names]
                weights[f"{self._prefix}{group}_{kind}"] = concatenate(parts)
        return weights

    # -- over time -----------------------------------------------------------------------------

    def unroll(self, length: int, inputs: Any, begin_state: Sequence[Symbol] | None = None,
               layout: str = "NTC", merge_outputs: bool | None = None
               ) -> tuple[Any, list[Symbol]]:
        """Run over `length` steps.

        Args:
            length: number of steps.
            inputs: one Symbol in `layout`, or a list of one Symbol (N, C) for each step.
            begin_state: first states; default `begin_state()`.
            layout: of sequences, 'NTC' or 'TNC'.
            merge_outputs: outputs as one sequence; otherwise a list.

        Returns:
            outputs, last states.
        """
        self.reset()
        steps, _ = as_steps(length, inputs, layout)
        states = self.begin_state() if begin_state is None else list(begin_state)
        outputs = []
        for step in steps:
            output, states = self(step, states)
            outputs.append(output)
        return (as_one(outputs, layout) if merge_outputs else outputs), states

    def _get_activation(self, inputs: Symbol, activation: Any, **kwargs: Any) -> Symbol:
        if isinstance(activation, str):
            return F.Activation(inputs, act_type=activation, **kwargs)  # type: ignore[no-any-return]
        return activation(inputs, **kwargs)  # type: ignore[no-any-return]


class _GatedCell(BaseRNNCell):
    """A cell with one matrix for its input and one for its output, over all gates."""

    def __init__(self, num_hidden: int, prefix: str, params: RNNParams | None,
                 **bias: Any) -> None:
        super().__init__(prefix, params)
        self._num_hidden = num_hidden
        self._iW = self._params.get("i2h_weight")
        self._iB = self._params.get("i2h_bias", **bias)
        self._hW = self._params.get("h2h_weight")
        self._hB = self._params.get("h2h_bias")

    @property
    def state_info(self) -> list[Info]:
        return [{"shape": (0, self._num_hidden), "__layout__": "NC"}]

    def _both(self, inputs: Symbol, state: Symbol, name: str) -> tuple[Any, Any]:
        size = self._num_hidden * len(self._gate_names)
        return (F.FullyConnected(inputs, self._iW, self._iB, num_hidden=size, name=f"{name}i2h"),
                F.FullyConnected(state, self._hW, self._hB, num_hidden=size, name=f"{name}h2h"))

    def _shown(self, inputs: Any, **kwargs: Any) -> Any:
        """What values of a state come from."""
        return F.Activation(inputs, act_type="tanh", **kwargs)


class RNNCell(_GatedCell):
    """output = activation(W x + U h + b).

    Args:
        num_hidden: size of the output. activation: name or function.
        prefix, params: as for BaseRNNCell.

    >>> outputs, states = RNNCell(3).unroll(2, symbol.Variable("x"))
    >>> [out.name for out in outputs]
    ['rnn_t0_out', 'rnn_t1_out']
    """

    def __init__(self, num_hidden: int, activation: Any = "tanh", prefix: str = "rnn_",
                 params: RNNParams | None = None) -> None:
        super().__init__(num_hidden, prefix, params)
        self._activation = activation

    @property
    def _gate_names(self) -> Sequence[str]:
        return ("",)

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        name = self._step_name()
        i2h, h2h = self._both(inputs, states[0], name)
        output = self._get_activation(i2h + h2h, self._activation, name=f"{name}out")
        return output, [output]


class LSTMCell(_GatedCell):
    """Long short-term memory; states are the output and the memory.

    Args:
        num_hidden: size of the output.
        prefix, params: as for BaseRNNCell.
        forget_bias: what the bias of the forget gate starts from.
    """

    def __init__(self, num_hidden: int, prefix: str = "lstm_", params: RNNParams | None = None,
                 forget_bias: float = 1.0) -> None:
        super().__init__(num_hidden, prefix, params, init=LSTMBias(forget_bias=forget_bias))

    @property
    def state_info(self) -> list[Info]:
        return super().state_info * 2

    @property
    def _gate_names(self) -> Sequence[str]:
        return ("_i", "_f", "_c", "_o")

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        name = self._step_name()
        i2h, h2h = self._both(inputs, states[0], name)
        gates = F.SliceChannel(i2h + h2h, num_outputs=4, name=f"{name}slice")
        take_in, forget, new, put_out = (
            self._shown(gate, name=f"{name}c") if word == "c" else
            F.Activation(gate, act_type="sigmoid", name=f"{name}{word}")
            for gate, word in zip(gates, "ifco", strict=True))
        memory = F.elemwise_add(forget * states[1], take_in * new, name=f"{name}state")
        output = F.elemwise_mul(put_out, self._shown(memory), name=f"{name}out")
        return output, [output, memory]


class GRUCell(_GatedCell):
    """Gated recurrent unit.

    Args:
        num_hidden: size of the output.
        prefix, params: as for BaseRNNCell.
    """

    def __init__(self, num_hidden: int, prefix: str = "gru_", params: RNNParams | None = None
                 ) -> None:
        super().__init__(num_hidden, prefix, params)

    @property
    def _gate_names(self) -> Sequence[str]:
        return ("_r", "_z", "_o")

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        name, before = self._step_name(), states[0]
        i2h, h2h = self._both(inputs, before, f"{name}_")
        i_reset, i_update, i_new = F.SliceChannel(i2h, num_outputs=3, name=f"{name}_i2h_slice")
        h_reset, h_update, h_new = F.SliceChannel(h2h, num_outputs=3, name=f"{name}_h2h_slice")
        reset = F.Activation(i_reset + h_reset, act_type="sigmoid", name=f"{name}_r_act")
        update = F.Activation(i_update + h_update, act_type="sigmoid", name=f"{name}_z_act")
        new = self._shown(i_new + reset * h_new, name=f"{name}_h_act")
        output = F.elemwise_add((1.0 - update) * new, update * before, name=f"{name}out")
        return output, [output]
