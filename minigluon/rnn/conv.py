"""Recurrent cells over images as symbols: the products with the weights are convolutions.

X. Shi et al., "Convolutional LSTM Network", 2015, without its peephole weights.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import symbol
from ..base import ArgumentValueError, NotForThisError
from ..symbol import Symbol
from .cell import BaseRNNCell, GRUCell, Info, LSTMCell, RNNCell, RNNParams

__all__ = ["BaseConvRNNCell", "ConvGRUCell", "ConvLSTMCell", "ConvRNNCell"]

F: Any = symbol
Pair = tuple[int, int]


def _leaky(*args: Any, **kwargs: Any) -> Any:
    return F.LeakyReLU(*args, act_type="leaky", slope=0.2, **kwargs)


class BaseConvRNNCell(BaseRNNCell):
    """What the cells over images share; comes before the cell whose gates it fills.

    Args:
        input_shape: (N, C, H, W) of the input; N may be 0.
        num_hidden: channels of a state.
        h2h_kernel, h2h_dilate: of the convolution of the state; odd kernels keep its size.
        i2h_kernel, i2h_stride, i2h_pad, i2h_dilate: of the convolution of the input.
        i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
            h2h_bias_initializer: of the weights and biases.
        activation: name or function. prefix, params: as for BaseRNNCell.
        conv_layout: 'NCHW'.
    """

    _state_count = 1

    def __init__(self, input_shape: Sequence[int], num_hidden: int, h2h_kernel: Pair,
                 h2h_dilate: Pair, i2h_kernel: Pair, i2h_stride: Pair, i2h_pad: Pair,
                 i2h_dilate: Pair, i2h_weight_initializer: Any, h2h_weight_initializer: Any,
                 i2h_bias_initializer: Any, h2h_bias_initializer: Any, activation: Any,
                 prefix: str = "", params: RNNParams | None = None, conv_layout: str = "NCHW"
                 ) -> None:
        BaseRNNCell.__init__(self, prefix, params)
        if conv_layout != "NCHW":
            raise NotForThisError(f"{type(self).__name__}: conv_layout: only 'NCHW' is built, got "
                                  f"'{conv_layout}'; swap the axes of the inputs")
        if not all(size % 2 for size in h2h_kernel):
            raise ArgumentValueError(f"Only support odd number, get h2h_kernel= {h2h_kernel}")
        self._num_hidden, self._activation = num_hidden, activation
        self._conv_layout = conv_layout
        self._from_input = {"kernel": i2h_kernel, "stride": i2h_stride, "pad": i2h_pad,
                            "dilate": i2h_dilate}
        self._from_state = {"kernel": h2h_kernel, "dilate": h2h_dilate, "stride": (1, 1),
                            "pad": tuple(d * (k - 1) // 2 for k, d in
                                         zip(h2h_kernel, h2h_dilate, strict=True))}
        self._iW = self._params.get("i2h_weight", init=i2h_weight_initializer)
        self._hW = self._params.get("h2h_weight", init=h2h_weight_initializer)
        self._iB = self._params.get("i2h_bias", init=i2h_bias_initializer)
        self._hB = self._params.get("h2h_bias", init=h2h_bias_initializer)
        _, (shape,), _ = F.Convolution(
            symbol.Variable("data"), num_filter=num_hidden, layout=conv_layout,
            **self._from_input).infer_shape(data=(1, *input_shape[1:]))
        self._state_shape = (0, *shape[1:])

    @property
    def state_info(self) -> list[Info]:
        one = {"shape": self._state_shape, "__layout__": self._conv_layout}
        return [dict(one) for _ in range(self._state_count)]

    def _both(self, inputs: Symbol, state: Symbol, name: str) -> tuple[Any, Any]:
        size = self._num_hidden * len(self._gate_names)
        return (F.Convolution(inputs, self._iW, self._iB, num_filter=size, name=f"{name}i2h",
                              layout=self._conv_layout, **self._from_input),
                F.Convolution(state, self._hW, self._hB, num_filter=size, name=f"{name}h2h",
                              layout=self._conv_layout, **self._from_state))

    def _shown(self, inputs: Any, **kwargs: Any) -> Any:
        return self._get_activation(inputs, self._activation, **kwargs)


def _start(cell: str) -> Callable[..., None]:
    """The constructor of one of the cells, with its default prefix."""

    def __init__(self: BaseConvRNNCell, input_shape: Sequence[int], num_hidden: int,
                 h2h_kernel: Pair = (3, 3), h2h_dilate: Pair = (1, 1), i2h_kernel: Pair = (3, 3),
                 i2h_stride: Pair = (1, 1), i2h_pad: Pair = (1, 1), i2h_dilate: Pair = (1, 1),
                 i2h_weight_initializer: Any = None, h2h_weight_initializer: Any = None,
                 i2h_bias_initializer: Any = "zeros", h2h_bias_initializer: Any = "zeros",
                 activation: Any = _leaky, prefix: str = f"{cell}_",
                 params: RNNParams | None = None, conv_layout: str = "NCHW") -> None:
        BaseConvRNNCell.__init__(
            self, input_shape, num_hidden, h2h_kernel, h2h_dilate, i2h_kernel, i2h_stride,
            i2h_pad, i2h_dilate, i2h_weight_initializer, h2h_weight_initializer,
            i2h_bias_initializer, h2h_bias_initializer, activation, prefix, params, conv_layout)

    return __init__


class ConvRNNCell(BaseConvRNNCell, RNNCell):
    """RNNCell over images. Args: as for BaseConvRNNCell.

    >>> cell = ConvRNNCell((0, 3, 8, 8), 4)
    >>> cell.state_info
    [{'shape': (0, 4, 8, 8), '__layout__': 'NCHW'}]
    """

    __init__ = _start("ConvRNN")


class ConvLSTMCell(BaseConvRNNCell, LSTMCell):
    """LSTMCell over images. Args: as for BaseConvRNNCell."""

    __init__ = _start("ConvLSTM")
    _state_count = 2


class ConvGRUCell(BaseConvRNNCell, GRUCell):
    """GRUCell over images. Args: as for BaseConvRNNCell."""

    __init__ = _start("ConvGRU")
