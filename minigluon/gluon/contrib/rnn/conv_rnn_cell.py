"""Recurrent cells over images: the products with the weights are convolutions.

X. Shi et al., "Convolutional LSTM Network", 2015, without its peephole weights.
"""
from __future__ import annotations

from typing import Any

from ....base import ArgumentValueError, NotForThisError
from ....nn import ParameterDict
from ...rnn import GRUCell, HybridRecurrentCell, LSTMCell, RNNCell

__all__ = ["Conv1DGRUCell", "Conv1DLSTMCell", "Conv1DRNNCell", "Conv2DGRUCell", "Conv2DLSTMCell",
           "Conv2DRNNCell", "Conv3DGRUCell", "Conv3DLSTMCell", "Conv3DRNNCell"]

Sizes = int | tuple[int, ...]


class _ConvCell(HybridRecurrentCell):
    """One step over images; comes before the cell whose gates it fills.

    Args:
        input_shape: (C, *S) of one sample of the input.
        hidden_channels: channels of a state.
        i2h_kernel, h2h_kernel: kernels from the input and from the state; the latter odd.
        i2h_pad, i2h_dilate, h2h_dilate: of the convolutions; the state keeps its size.
        i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
            h2h_bias_initializer: of the weights and biases.
        conv_layout: channels first. activation: a word, a block or a function.
    """

    _axes = 2
    _gates = 1
    _hint = "rnn"
    _state_count = 1

    def __init__(self, input_shape: tuple[int, ...], hidden_channels: int, i2h_kernel: Sizes,
                 h2h_kernel: Sizes, i2h_pad: Sizes = 0, i2h_dilate: Sizes = 1,
                 h2h_dilate: Sizes = 1, i2h_weight_initializer: Any = None,
                 h2h_weight_initializer: Any = None, i2h_bias_initializer: Any = "zeros",
                 h2h_bias_initializer: Any = "zeros", conv_layout: str | None = None,
                 activation: Any = "tanh", prefix: str | None = None,
                 params: ParameterDict | None = None) -> None:
        HybridRecurrentCell.__init__(self, prefix=prefix, params=params)
        layout = "NC" + "DHW"[-self._axes:]
        if (conv_layout or layout) != layout:
            raise NotForThisError(f"{type(self).__name__}: conv_layout: only '{layout}' is built, "
                                  f"got '{conv_layout}'; swap the axes of the inputs")
        self._conv_layout, self._hidden_size = layout, hidden_channels
        self._activation, self._recurrent_activation = activation, "sigmoid"
        channels, *size = input_shape
        if len(size) != self._axes:
            raise ArgumentValueError(f"{type(self).__name__}: input_shape: expected (channels, "
                                     f"{self._axes} sizes), got {input_shape}")
        self._from_input = {"kernel": self._each("i2h_kernel", i2h_kernel),
                            "pad": self._each("i2h_pad", i2h_pad),
                            "dilate": self._each("i2h_dilate", i2h_dilate)}
        kernel, dilate = self._each("h2h_kernel", h2h_kernel), self._each("h2h_dilate", h2h_dilate)
        if not all(k % 2 for k in kernel):
            raise ArgumentValueError(f"Only support odd number, get h2h_kernel= {h2h_kernel}")
        self._from_state = {"kernel": kernel, "dilate": dilate,
                            "pad": tuple(d * (k - 1) // 2
                                         for k, d in zip(kernel, dilate, strict=True))}
        self._state_shape = (hidden_channels, *(
            n + 2 * p - d * (k - 1)
            for n, k, p, d in zip(size, *self._from_input.values(), strict=True)))
        rows = self._gates * hidden_channels
        for name, shape, init in (
                ("i2h_weight", (rows, channels, *self._from_input["kernel"]),
                 i2h_weight_initializer),
                ("h2h_weight", (rows, hidden_channels, *kernel), h2h_weight_initializer),
                ("i2h_bias", (rows,), i2h_bias_initializer),
                ("h2h_bias", (rows,), h2h_bias_initializer)):
            setattr(self, name, self.params.get(name, shape=shape, init=init,
                                                allow_deferred_init=True))

    def _each(self, name: str, value: Sizes) -> tuple[int, ...]:
        """One number for each spatial axis."""
        values = (value,) * self._axes if isinstance(value, int) else tuple(value)
        if len(values) != self._axes:
            raise ArgumentValueError(f"{type(self).__name__}: {name}: expected a number or "
                                     f"{self._axes} of them, got {value}")
        return values

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Shape and layout of each state."""
        return [{"shape": (batch_size, *self._state_shape), "__layout__": self._conv_layout}
                for _ in range(self._state_count)]

    def _contributions(self, F: Any, inputs: Any, state: Any, i2h_weight: Any, h2h_weight: Any,
                       i2h_bias: Any, h2h_bias: Any) -> tuple[str, Any, Any]:
        """The prefix of this step's names; what input and state contribute to the gates."""
        prefix, rows = f"t{self._counter}_", self._gates * self._hidden_size
        i2h = F.Convolution(inputs, i2h_weight, i2h_bias, num_filter=rows, **self._from_input,
                            name=prefix + "i2h")
        h2h = F.Convolution(state, h2h_weight, h2h_bias, num_filter=rows, **self._from_state,
                            name=prefix + "h2h")
        return prefix, i2h, h2h

    def _new(self, F: Any, inner: Any, name: str) -> Any:
        return self._get_activation(F, inner, self._activation, name=name)

    def _alias(self) -> str:
        return f"conv_{self._hint}"

    def __repr__(self) -> str:
        rows, columns = self.i2h_weight.shape[:2]
        return (f"{type(self).__name__}({columns} -> {rows}, {self._activation}, "
                f"{self._conv_layout})")


def _cell(axes: int, word: str, gates: type) -> type:
    """The cell for images of so many axes with the gates of a plain cell."""
    name = f"Conv{axes}D{word}Cell"
    sizes = ", ".join(f"S{axis}" for axis in range(1, axes + 1))
    shape = (2,) + (5,) * axes
    doc = (
        f"{gates.__name__} over inputs with {axes} spatial ax{'is' if axes == 1 else 'es'}: its "
        "products are convolutions.\n\n"
        + (_ConvCell.__doc__ or "").split("\n\n", 1)[1].replace("\n    ", "\n")
        .replace("    Args", "Args", 1).rstrip()
        + f"\n\nShapes: inputs (N, C, {sizes}), states (N, H, ...) -> output (N, H, ...), states."
        "\n\n"
        f">>> import minigluon as mx\n"
        f">>> cell = mx.gluon.contrib.rnn.{name}({shape}, 3, i2h_kernel=3, h2h_kernel=3, "
        f"i2h_pad=1)\n>>> cell.initialize()\n"
        f">>> cell(mx.nd.ones({(1, *shape)}), cell.begin_state(1))[0].shape\n"
        f"{(1, 3, *shape[1:])}\n")
    return type(name, (_ConvCell, gates), {
        "__doc__": doc, "__module__": __name__, "_axes": axes,
        "_gates": gates._gates, "_hint": gates._hint,  # type: ignore[attr-defined]
        "_state_count": gates._state_count})  # type: ignore[attr-defined]


Conv1DRNNCell, Conv2DRNNCell, Conv3DRNNCell = (_cell(n, "RNN", RNNCell) for n in (1, 2, 3))
Conv1DLSTMCell, Conv2DLSTMCell, Conv3DLSTMCell = (_cell(n, "LSTM", LSTMCell) for n in (1, 2, 3))
Conv1DGRUCell, Conv2DGRUCell, Conv3DGRUCell = (_cell(n, "GRU", GRUCell) for n in (1, 2, 3))
