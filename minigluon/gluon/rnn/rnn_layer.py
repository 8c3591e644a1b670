"""Layers: whole sequences through all layers and directions in one call of operator RNN."""
from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from ... import ndarray as nd
from ... import symbol
from ...base import NotForThisError, ParameterMismatch
from ...ndarray import NDArray
from ...nn import HybridBlock, Parameter, tensor_types
from ...ops.nn.rnn import GATES, packed
from .cell import GRUCell, LSTMCell, RNNCell, States, made_state
from .compose import BidirectionalCell, DropoutCell, HybridSequentialRNNCell

__all__ = ["GRU", "LSTM", "RNN"]


class _RNNLayer(HybridBlock):
    """What RNN, LSTM and GRU share: sizes, parameters, states, the call.

    Args:
        hidden_size: size of the states. num_layers: layers, one above the other.
        layout: 'TNC' or 'NTC', of input and output.
        dropout: chance of an element to be dropped between layers, while training.
        bidirectional: every layer also runs backwards; outputs are joined.
        input_size: size of the input; found at the first call when 0.
        i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
            h2h_bias_initializer: what the parameters start from.
        mode: of operator RNN.
        projection_size, h2r_weight_initializer, state_clip_min, state_clip_max, state_clip_nan:
            see LSTM.
        dtype: element type of parameters and states.
        use_sequence_length: calls give a third argument, the number of steps of each sample.
    """

    def __init__(self, hidden_size: int, num_layers: int, layout: str, dropout: float,
                 bidirectional: bool, input_size: int, i2h_weight_initializer: Any,
                 h2h_weight_initializer: Any, i2h_bias_initializer: Any,
                 h2h_bias_initializer: Any, mode: str, projection_size: int | None = None,
                 h2r_weight_initializer: Any = None, state_clip_min: float | None = None,
                 state_clip_max: float | None = None, state_clip_nan: bool = False,
                 dtype: Any = "float32", use_sequence_length: bool = False,
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if layout not in ("TNC", "NTC"):
            raise ParameterMismatch(f"Invalid layout {layout}; must be one of ['TNC' or 'NTC']")
        self._hidden_size = hidden_size
        self._projection_size = projection_size
        self._num_layers = num_layers
        self._mode = mode
        self._layout = layout
        self._dropout = dropout
        self._dir = 2 if bidirectional else 1
        self._input_size = input_size
        self._initializers = {
            "i2h_weight": i2h_weight_initializer, "h2h_weight": h2h_weight_initializer,
            "i2h_bias": i2h_bias_initializer, "h2h_bias": h2h_bias_initializer,
            "h2r_weight": h2r_weight_initializer}
        self._clip = (state_clip_min, state_clip_max, state_clip_nan)
        self._gates = GATES[mode]
        self._dtype = dtype
        self._use_sequence_length = use_sequence_length
        shapes = dict(self._packed(input_size))
        for layer, side in self._places():
            for word, init in self._initializers.items():
                name = f"{side}{layer}_{word}"
                if name in shapes:
                    setattr(self, name, self.params.get(
                        name, shape=shapes[name], init=init, allow_deferred_init=True,
                        dtype=dtype))

    def _packed(self, input_size: int) -> list[tuple[str, tuple[int, ...]]]:
        return packed(self._mode, input_size, self._hidden_size, self._num_layers,
                      self._dir == 2, self._projection_size)

    def _places(self) -> Iterator[tuple[int, str]]:
        for layer in range(self._num_layers):
            for side in "lr"[:self._dir]:
                yield layer, side

    def __repr__(self) -> str:
        rows, columns = self.l0_i2h_weight.shape
        words = [f"{columns or None} -> {rows // self._gates}", self._layout]
        if self._num_layers != 1:
            words.append(f"num_layers={self._num_layers}")
        if self._dropout != 0:
            words.append(f"dropout={self._dropout}")
        if self._dir == 2:
            words.append("bidirectional")
        return f"{type(self).__name__}({', '.join(words)})"

    # -- states ---------------------------------------------------------------------------------

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Shape, layout and element type of each state."""
        places = self._num_layers * self._dir
        widths = [self._projection_size or self._hidden_size]
        if self._mode == "lstm":
            widths.append(self._hidden_size)
        return [{"shape": (places, batch_size, width), "__layout__": "LNC", "dtype": self._dtype}
                for width in widths]

    def begin_state(self, batch_size: int = 0, func: Callable[..., Any] = nd.zeros,
                    **kwargs: Any) -> States:
        """The states before the first step; see RecurrentCell.begin_state."""
        return [made_state(func, f"{self.prefix}h0_{place}", {**info, **kwargs})
                for place, info in enumerate(self.state_info(batch_size))]

    def cast(self, dtype: Any) -> None:
        """Change the element type of parameters and states."""
        super().cast(dtype)
        self._dtype = dtype

    # -- computing ------------------------------------------------------------------------------

    def __call__(self, inputs: Any, states: Any = None, sequence_length: Any = None) -> Any:
        """Run over whole sequences.

        Args:
            inputs: sequences in `layout`.
            states: an array or a list of arrays, or None for zeros.
            sequence_length: (N,), with use_sequence_length.

        Returns:
            The output, and if `states` were given also the last states: ``(output, states)``.
        """
        given = states
        if states is None:
            if isinstance(inputs, NDArray):
                batch = inputs.shape[self._layout.index("N")] if inputs.ndim == 3 else 0
                states = self.begin_state(batch, ctx=inputs.context, dtype=inputs.dtype)
            else:
                states = self.begin_state(0, func=symbol.zeros)
        elif isinstance(states, tensor_types):
            states = [states]
        lengths = [] if sequence_length is None else [sequence_length]
        out, states = super().__call__(inputs, list(states), *lengths)
        return out if given is None else (out, states)

    def hybrid_forward(self, F: Any, inputs: Any, states: States, sequence_length: Any = None,
                       **params: Any) -> tuple[Any, States]:
        """One RNN."""
        if self._layout == "NTC":
            inputs = F.swapaxes(inputs, dim1=0, dim2=1)
        vector = F._rnn_param_concat(
            *[params[name].reshape((-1,)) for name, _ in self._packed(1)], dim=0)
        low, high, nan = self._clip
        lengths = {"sequence_length": sequence_length} if self._use_sequence_length else {}
        out, *states = F.RNN(
            inputs, vector, *states, **lengths, state_size=self._hidden_size,
            projection_size=self._projection_size, num_layers=self._num_layers,
            bidirectional=self._dir == 2, p=self._dropout, state_outputs=True, mode=self._mode,
            use_sequence_length=self._use_sequence_length, lstm_state_clip_min=low,
            lstm_state_clip_max=high, lstm_state_clip_nan=nan)
        if self._layout == "NTC":
            out = F.swapaxes(out, dim1=0, dim2=1)
        return out, states

    def infer_shape(self, inputs: Any, *args: Any) -> None:
        """Fill in the sizes that depend on the input's, without computing."""
        if inputs.ndim == 3:
            for name, shape in self._packed(inputs.shape[2]):
                getattr(self, name).shape = shape
        else:
            super().infer_shape(inputs, *args)

    # -- as cells -------------------------------------------------------------------------------

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, Parameter]:
        """Parameters by the place of the cell they would stand in, as Gluon's files name them."""
        dot = prefix + "." if prefix else ""
        cell = r"\1_cell." if self._dir == 2 else ""
        places = {dot + name: dot + re.sub(r"^([lr])(\d+)_", rf"_unfused.\2.{cell}", name)
                  for name in self._reg_params}
        found = super()._collect_params_with_prefix(prefix)
        return {places.get(key, key): parameter for key, parameter in found.items()}

    def _cell(self, *args: Any, **kwargs: Any) -> Any:
        raise NotForThisError(f"{type(self).__name__} must override _cell")

    def _unfuse(self) -> HybridSequentialRNNCell:
        """The same network as a stack of cells, which share its parameters."""
        if self._projection_size:
            raise ParameterMismatch("_unfuse does not support projection layer yet!")
        if any(value is not None for value in self._clip[:2]):
            raise ParameterMismatch("_unfuse does not support state clipping yet!")
        stack = HybridSequentialRNNCell(prefix=self.prefix, params=self.params)
        settings = {f"{word}_initializer": init for word, init in self._initializers.items()
                    if word != "h2r_weight"}
        size = self._input_size
        with stack.name_scope():
            for layer in range(self._num_layers):
                cells = [self._cell(self._hidden_size, input_size=size, prefix=f"{side}{layer}_",
                                    **settings) for side in "lr"[:self._dir]]
                stack.add(BidirectionalCell(*cells) if self._dir == 2 else cells[0])
                if self._dropout > 0 and layer != self._num_layers - 1:
                    stack.add(DropoutCell(self._dropout))
                size = self._hidden_size * self._dir
        return stack


class RNN(_RNNLayer):
    """Layers of h' = act(W x + b + R h + c), over whole sequences.

    Args:
        hidden_size: size H of the states. num_layers: layers L, one above the other.
        activation: 'relu' or 'tanh'.
        layout: 'TNC' or 'NTC', of input and output.
        dropout: chance of an element to be dropped between layers, while training.
        bidirectional: every layer also runs backwards (D = 2); outputs are joined.
        i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
            h2h_bias_initializer: what the parameters start from.
        input_size: size of the input; found at the first call when 0.
        dtype: element type of parameters and states.

    Shapes:
        (T, N, C) -> (T, N, D H); states (L D, N, H) in and out, if given.

    >>> import minigluon as mx
    >>> layer = mx.gluon.rnn.RNN(5, num_layers=2)
    >>> layer.initialize()
    >>> layer(mx.nd.ones((4, 2, 3))).shape
    (4, 2, 5)
    """

    def __init__(self, hidden_size: int, num_layers: int = 1, activation: str = "relu",
                 layout: str = "TNC", dropout: float = 0, bidirectional: bool = False,
                 i2h_weight_initializer: Any = None, h2h_weight_initializer: Any = None,
                 i2h_bias_initializer: Any = "zeros", h2h_bias_initializer: Any = "zeros",
                 input_size: int = 0, dtype: Any = "float32", **kwargs: Any) -> None:
        if activation not in ("relu", "tanh"):
            raise ParameterMismatch(f"RNN: activation must be 'relu' or 'tanh', got "
                                    f"{activation!r}")
        super().__init__(hidden_size, num_layers, layout, dropout, bidirectional, input_size,
                         i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
                         h2h_bias_initializer, "rnn_" + activation, dtype=dtype, **kwargs)

    def _cell(self, *args: Any, **kwargs: Any) -> RNNCell:
        return RNNCell(*args, activation=self._mode.removeprefix("rnn_"), **kwargs)


class LSTM(_RNNLayer):
    """Layers of long short-term memory, over whole sequences; see LSTMCell and RNN.

    Args:
        projection_size: h is projected to this size P before it is handed on and put out.
        h2r_weight_initializer: of the projection.
        state_clip_min, state_clip_max: bounds of the cell state. state_clip_nan: then nan
            becomes the lower one.

    The other arguments are those of RNN.

    Shapes:
        (T, N, C) -> (T, N, D H or D P); states h (L D, N, H or P) and cell (L D, N, H).

    >>> import minigluon as mx
    >>> layer = mx.gluon.rnn.LSTM(5, bidirectional=True)
    >>> layer.initialize()
    >>> output, states = layer(mx.nd.ones((4, 2, 3)), layer.begin_state(batch_size=2))
    >>> output.shape, [state.shape for state in states]
    ((4, 2, 10), [(2, 2, 5), (2, 2, 5)])
    """

    def __init__(self, hidden_size: int, num_layers: int = 1, layout: str = "TNC",
                 dropout: float = 0, bidirectional: bool = False, input_size: int = 0,
                 i2h_weight_initializer: Any = None, h2h_weight_initializer: Any = None,
                 i2h_bias_initializer: Any = "zeros", h2h_bias_initializer: Any = "zeros",
                 projection_size: int | None = None, h2r_weight_initializer: Any = None,
                 state_clip_min: float | None = None, state_clip_max: float | None = None,
                 state_clip_nan: bool = False, dtype: Any = "float32", **kwargs: Any) -> None:
        super().__init__(hidden_size, num_layers, layout, dropout, bidirectional, input_size,
                         i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
                         h2h_bias_initializer, "lstm", projection_size, h2r_weight_initializer,
                         state_clip_min, state_clip_max, state_clip_nan, dtype, **kwargs)

    def _cell(self, *args: Any, **kwargs: Any) -> LSTMCell:
        return LSTMCell(*args, **kwargs)


class GRU(_RNNLayer):
    """Layers of gated recurrent units, over whole sequences; see GRUCell, and RNN for arguments.

    Shapes:
        (T, N, C) -> (T, N, D H); states (L D, N, H) in and out, if given.
    """

    def __init__(self, hidden_size: int, num_layers: int = 1, layout: str = "TNC",
                 dropout: float = 0, bidirectional: bool = False, input_size: int = 0,
                 i2h_weight_initializer: Any = None, h2h_weight_initializer: Any = None,
                 i2h_bias_initializer: Any = "zeros", h2h_bias_initializer: Any = "zeros",
                 dtype: Any = "float32", **kwargs: Any) -> None:
        super().__init__(hidden_size, num_layers, layout, dropout, bidirectional, input_size,
                         i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
                         h2h_bias_initializer, "gru", dtype=dtype, **kwargs)

    def _cell(self, *args: Any, **kwargs: Any) -> GRUCell:
        return GRUCell(*args, **kwargs)
