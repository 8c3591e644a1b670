"""FusedRNNCell: all layers and steps in one call of the RNN operator."""
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .. import symbol
from ..base import ArgumentValueError, NotForThisError
from ..initializer import FusedRNN
from ..ndarray import NDArray, concatenate
from ..ops.nn.rnn import packed, packed_size
from ..symbol import Symbol
from .cell import (
    BaseRNNCell,
    GRUCell,
    Info,
    LSTMCell,
    RNNCell,
    RNNParams,
    Weights,
    as_one,
    as_steps,
)
from .compose import BidirectionalCell, DropoutCell, SequentialRNNCell

__all__ = ["FusedRNNCell"]

F: Any = symbol
_GATES = {"rnn_relu": ("",), "rnn_tanh": ("",), "lstm": ("_i", "_f", "_c", "_o"),
          "gru": ("_r", "_z", "_o")}


class FusedRNNCell(BaseRNNCell):
    """Several recurrent layers, run as one operator.

    Args:
        num_hidden: size of the output of each layer and direction. num_layers: how many.
        mode: 'rnn_relu', 'rnn_tanh', 'lstm' or 'gru'.
        bidirectional: both directions. dropout: between layers.
        get_next_state: `unroll` also returns the last states.
        forget_bias: what the bias of lstm's forget gate starts from.
        prefix, params: as for BaseRNNCell; the prefix defaults to the mode.

    >>> cell = FusedRNNCell(4, num_layers=2, mode="lstm")
    >>> outputs, states = cell.unroll(3, symbol.Variable("x"), merge_outputs=True)
    >>> outputs.infer_shape(x=(5, 3, 2))[1], states
    ([(5, 3, 4)], [])
    """

    def __init__(self, num_hidden: int, num_layers: int = 1, mode: str = "lstm",
                 bidirectional: bool = False, dropout: float = 0.0, get_next_state: bool = False,
                 forget_bias: float = 1.0, prefix: str | None = None,
                 params: RNNParams | None = None) -> None:
        if mode not in _GATES:
            raise ArgumentValueError(f"FusedRNNCell: mode: expected one of {sorted(_GATES)}, "
                                     f"got {mode!r}")
        super().__init__(f"{mode}_" if prefix is None else prefix, params)
        self._num_hidden = num_hidden
        self._num_layers = num_layers
        self._mode = mode
        self._bidirectional = bidirectional
        self._dropout = dropout
        self._get_next_state = get_next_state
        self._directions = ["l", "r"] if bidirectional else ["l"]
        self._forget_bias = forget_bias
        self._parameter = self._params.get("parameters", init=FusedRNN(
            None, num_hidden, num_layers, mode, bidirectional, forget_bias))

    @property
    def state_info(self) -> list[Info]:
        shape = (len(self._directions) * self._num_layers, 0, self._num_hidden)
        return [{"shape": shape, "__layout__": "LNC"}] * (2 if self._mode == "lstm" else 1)

    @property
    def _gate_names(self) -> Sequence[str]:
        return _GATES[self._mode]

    @property
    def _num_gates(self) -> int:
        return len(self._gate_names)

    # -- weights -------------------------------------------------------------------------------

    def _sizes(self) -> tuple[int, int, bool]:
        return self._num_hidden, self._num_layers, self._bidirectional

    def _pieces(self, inputs: int) -> list[tuple[str, tuple[int, ...]]]:
        """Names and shapes of the arrays of single gates, in the order of the vector."""
        pieces = []
        for name, (rows, *rest) in packed(self._mode, inputs, *self._sizes()):
            head, _, kind = name.rpartition("_")
            pieces += [(f"{self._prefix}{head}{gate}_{kind}", (rows // self._num_gates, *rest))
                       for gate in self._gate_names]
        return pieces

    def unpack_weights(self, args: Mapping[str, NDArray]) -> Weights:
        weights = dict(args)
        vector = weights.pop(self._parameter.name or "")
        fixed, one = (packed_size(self._mode, size, *self._sizes()) for size in (0, 1))
        start = 0
        for name, shape in self._pieces((vector.size - fixed) // (one - fixed)):
            end = start + math.prod(shape)
            weights[name] = vector[start:end].reshape(shape).copy()
            start = end
        return weights

    def pack_weights(self, args: Mapping[str, NDArray]) -> Weights:
        weights = dict(args)
        inputs = weights[f"{self._prefix}l0_i2h{self._gate_names[0]}_weight"].shape[1]
        parts = [weights.pop(name).reshape((-1,)) for name, _ in self._pieces(inputs)]
        weights[self._parameter.name or ""] = concatenate(parts)
        return weights

    # -- over time -----------------------------------------------------------------------------

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        raise NotForThisError("FusedRNNCell cannot be stepped; use unroll, or unfuse it")

    def unroll(self, length: int, inputs: Any, begin_state: Sequence[Symbol] | None = None,
               layout: str = "NTC", merge_outputs: bool | None = None
               ) -> tuple[Any, list[Symbol]]:
        self.reset()
        if isinstance(inputs, Symbol) and len(inputs) == 1:
            data = as_one(inputs, "TNC", layout)
        else:
            data = as_one(as_steps(length, inputs, layout)[0], "TNC")
        states = self.begin_state() if begin_state is None else list(begin_state)
        found = F.RNN(data, self._parameter, *states, state_size=self._num_hidden,
                      num_layers=self._num_layers, bidirectional=self._bidirectional,
                      p=self._dropout, state_outputs=self._get_next_state, mode=self._mode,
                      name=f"{self._prefix}rnn")
        outputs = as_one(found[0], layout, "TNC")
        after = list(found[1:]) if self._get_next_state else []
        if merge_outputs is False:
            return as_steps(length, outputs, layout)[0], after
        return outputs, after

    def unfuse(self) -> SequentialRNNCell:
        """The same network as a stack of cells that can be stepped.

        Its weights are those of ``cell.unpack_weights``, packed by the stack's `pack_weights`.
        """
        def make(prefix: str) -> BaseRNNCell:
            if self._mode == "lstm":
                return LSTMCell(self._num_hidden, prefix, forget_bias=self._forget_bias)
            if self._mode == "gru":
                return GRUCell(self._num_hidden, prefix)
            return RNNCell(self._num_hidden, self._mode.removeprefix("rnn_"), prefix)

        stack = SequentialRNNCell()
        for layer in range(self._num_layers):
            cells = [make(f"{self._prefix}{side}{layer}_") for side in self._directions]
            stack.add(cells[0] if len(cells) == 1 else BidirectionalCell(
                cells[0], cells[1], output_prefix=f"{self._prefix}bi_l{layer}_"))
            if self._dropout > 0 and layer + 1 < self._num_layers:
                stack.add(DropoutCell(self._dropout, f"{self._prefix}_dropout{layer}_"))
        return stack

