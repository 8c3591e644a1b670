"""Samples of the neural network operators and the optimizer updates."""
from __future__ import annotations

from typing import Any

import numpy as np
from sample import Sample, adder, between

from minigluon.base import ArgumentError, ArgumentValueError, NotForThisError, ShapeError

SAMPLES: dict[str, list[Sample]] = {}
_r, _add = between, adder(SAMPLES)


# -- FullyConnected -----------------------------------------------------------------------------

_add("FullyConnected", [_r(4, 3, 2), _r(5, 6), _r(5)], {"num_hidden": 5}, second_order=True,
     reference=lambda x, w, b: x.reshape(4, 6) @ w.T + b,
     bad=[
         ([_r(4, 3), _r(5, 6), _r(5)], {"num_hidden": 5}, ShapeError,
          "FullyConnected: expected equal shapes of weight"),
         ([_r(4, 3), _r(5, 3), _r(4)], {"num_hidden": 5}, ShapeError, "shapes of bias"),
         ([_r(4, 3), _r(6, 3), _r(6)], {"num_hidden": 5}, ShapeError, "got (5, 3) and (6, 3)"),
         ([_r(4, 3), _r(5, 3), _r(5)], {}, ArgumentError,
          "FullyConnected: missing required argument 'num_hidden'"),
         ([_r(4, 3), _r(5, 3), _r(5)], {"num_hiden": 5}, ArgumentError,
          "FullyConnected: unknown argument 'num_hiden'; did you mean 'num_hidden'?"),
         ([_r(4, 3), _r(5, 3)], {"num_hidden": 5}, ArgumentError,
          "FullyConnected: missing input 'bias'"),
     ])
_add("FullyConnected", [_r(4, 3, 2), _r(5, 2)],
     {"num_hidden": 5, "flatten": False, "no_bias": True}, second_order=True,
     reference=lambda x, w: x @ w.T)
_add("_fc_grad_data", [_r(4, 5), _r(5, 6), _r(4, 3, 2)], {"num_hidden": 5}, second_order=True,
     reference=lambda dy, w, x: (dy @ w).reshape(4, 3, 2))
_add("_fc_grad_weight", [_r(4, 3, 5), _r(4, 3, 2)], {"num_hidden": 5, "flatten": False},
     second_order=True, reference=lambda dy, x: np.einsum("abh,abd->hd", dy, x))


# -- Convolution --------------------------------------------------------------------------------


def _conv(stride: int = 1, dilate: int = 1, pad: int = 0, groups: int = 1) -> Any:
    """Two-dimensional convolution, one output element at a time."""

    def reference(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
        x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        filters, per_group, *kernel = w.shape
        size = [(n - (k - 1) * dilate - 1) // stride + 1
                for n, k in zip(x.shape[2:], kernel, strict=True)]
        out = np.zeros((x.shape[0], filters, *size), x.dtype)
        for f, i, j in np.ndindex(filters, *size):
            first = f // (filters // groups) * per_group
            window = x[:, first:first + per_group,
                       i * stride:i * stride + (kernel[0] - 1) * dilate + 1:dilate,
                       j * stride:j * stride + (kernel[1] - 1) * dilate + 1:dilate]
            out[:, f, i, j] = (window * w[f]).sum(axis=(1, 2, 3)) + (0 if b is None else b[f])
        return out

    return reference


_TINY = {"kernel": (3, 3), "num_filter": 4}
_add("Convolution", [_r(2, 3, 5, 6), _r(4, 3, 3, 3), _r(4)], _TINY, second_order=True,
     reference=_conv(),
     bad=[
         ([_r(2, 3, 2, 2), _r(4, 3, 3, 3), _r(4)], _TINY, ShapeError,
          "Convolution: data (2, 3, 2, 2) is smaller than kernel (3, 3) with pad (0, 0) and "
          "dilate (1, 1); use pad=(1, 1) or a smaller kernel"),
         ([_r(2, 2, 5, 5), _r(4, 3, 3, 3), _r(4)], _TINY, ShapeError,
          "Convolution: expected equal shapes of weight"),
         ([_r(2, 3, 5), _r(4, 3, 3, 3), _r(4)], _TINY, ShapeError,
          "expected data of 4 dimensions for kernel (3, 3), got (2, 3, 5)"),
         ([_r(2, 3, 5, 5), _r(4, 3, 3, 3), _r(4)], {**_TINY, "stride": (1,)}, ArgumentValueError,
          "Convolution: stride: expected 2 numbers >= 1"),
         ([_r(2, 3, 5, 5), _r(4, 3, 3, 3), _r(4)], {**_TINY, "layout": "NCW"},
          ArgumentValueError, "Convolution: layout: expected NCHW or NHWC"),
         ([_r(2, 3, 5, 5), _r(4, 3, 3, 3), _r(4)], {**_TINY, "kernel": "three"},
          ArgumentValueError, "Convolution: kernel: expected a tuple of integers, got 'three'"),
     ])
_add("Convolution", [_r(2, 4, 7, 5), _r(6, 2, 3, 3)],
     {"kernel": (3, 3), "num_filter": 6, "num_group": 2, "stride": (2, 2), "dilate": (2, 2),
      "pad": (1, 1), "no_bias": True}, second_order=True,
     reference=_conv(2, 2, 1, 2))
_add("Convolution", [_r(2, 4, 5, 5), _r(4, 1, 3, 3)],
     {"kernel": (3, 3), "num_filter": 4, "num_group": 4, "pad": (1, 1), "no_bias": True},
     reference=_conv(pad=1, groups=4))
_add("Convolution", [_r(2, 3, 4, 4), _r(4, 3, 1, 1), _r(4)], {"kernel": (1, 1), "num_filter": 4},
     second_order=True, reference=_conv())
_add("Convolution", [_r(2, 3, 7), _r(4, 3, 3), _r(4)],
     {"kernel": (3,), "num_filter": 4, "stride": (2,), "pad": (1,)}, second_order=True)
_add("Convolution", [_r(2, 4, 3, 4, 2), _r(3, 2, 2, 2, 2), _r(3)],
     {"kernel": (2, 2, 2), "num_filter": 3, "layout": "NDHWC"}, second_order=True,
     bad=[([_r(2, 4, 3, 4, 3), _r(3, 2, 2, 2, 2), _r(3)],
           {"kernel": (2, 2, 2), "num_filter": 3, "layout": "NDHWC"}, ShapeError,
           "shapes of weight")])
_add("Convolution", [_r(2, 5, 6, 3), _r(4, 3, 3, 3), _r(4)], {**_TINY, "layout": "NHWC"},
     reference=lambda x, w, b: _conv()(x.transpose(0, 3, 1, 2), w.transpose(0, 3, 1, 2), b)
     .transpose(0, 2, 3, 1))
_add("_conv_grad_data", [_r(2, 4, 3, 4), _r(4, 3, 3, 3), _r(2, 3, 5, 6)], _TINY,
     second_order=True)
_add("_conv_grad_weight", [_r(2, 4, 3, 4), _r(2, 3, 5, 6), _r(4, 3, 3, 3)], _TINY,
     second_order=True)



def _then(x: np.ndarray, w: np.ndarray, b: np.ndarray, gamma: np.ndarray, beta: np.ndarray,
          mean: np.ndarray, var: np.ndarray, addend: np.ndarray) -> np.ndarray:
    gamma, beta, mean, var = (each[:, None, None] for each in (gamma, beta, mean, var))
    return np.maximum((_conv()(x, w, b) - mean) / np.sqrt(var + 1e-3) * gamma + beta + addend, 0)


# -- windows of 2 by 2 and their places ----------------------------------------------------------

_PLACES = np.array([[0, 3, 1], [2, 1, 0]], "uint8").reshape(1, 2, 1, 3)
_TWO = {"kernel": (3, 2), "num_filter": 4, "no_bias": True}


def _spread(dy: np.ndarray, place: np.ndarray) -> np.ndarray:
    """One number after the other."""
    made = np.zeros((*dy.shape[:2], 2 * dy.shape[2], 2 * dy.shape[3]), dy.dtype)
    for n, c, y, x in np.ndindex(*dy.shape):
        row, column = divmod(int(place[n, c, y, x]), 2)
        made[n, c, 2 * y + row, 2 * x + column] = dy[n, c, y, x]
    return made


def _maxima(x: np.ndarray) -> list[np.ndarray]:
    n, c, h, w = x.shape
    windows = x.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 1, 2, 4, 3, 5)
    windows = windows.reshape(n, c, h // 2, w // 2, 4)
    return [windows.max(-1), windows.argmax(-1).astype("uint8")]


_add("_pool_two", [np.arange(48.0).reshape(2, 3, 2, 4) * 7 % 11], second_order=True,
     reference=lambda x: _maxima(x)[0],
     bad=[([_r(2, 3, 3, 4)], {}, ShapeError, "with even H and W, got (2, 3, 3, 4)")])
_add("_pool_two_spread", [_r(1, 2, 1, 3), _PLACES], wrt=(0,), second_order=True, reference=_spread)
_add("_pool_two_pick", [_r(1, 2, 2, 6), _PLACES], wrt=(0,), second_order=True,
     bad=[([_r(1, 2, 2, 5), _PLACES], {}, ShapeError, "with even H and W")])
_add("_conv_pool", [_r(2, 3, 6, 5), _r(4, 3, 3, 2)], _TWO, grad=False,
     reference=lambda x, w: _maxima(_conv()(x, w)))
_PLACED = np.arange(32).reshape(2, 4, 2, 2).astype("uint8") * 7 % 4
_add("_conv_pool_grad_data", [_r(2, 4, 2, 2), _PLACED, _r(4, 3, 3, 2), _r(2, 3, 6, 5)], _TWO,
     grad=False)
_add("_conv_pool_grad_weight", [_r(2, 4, 2, 2), _PLACED, _r(2, 3, 6, 5), _r(4, 3, 3, 2)], _TWO,
     grad=False,
     reference=lambda dy, place, x, w: np.stack([np.stack([
         np.einsum("nhw,nchw->c", _spread(dy, place)[:, f], x[:, :, i:i + 4, j:j + 4])
         for i in range(3) for j in range(2)], -1).reshape(3, 3, 2) for f in range(4)]))
# the same in blocks of 16 samples, as kernels take them
_FIVE = {"kernel": (5, 5, 1), "num_filter": 8, "no_bias": True}
_PLACED = np.arange(512).reshape(1, 8, 2, 2, 16).astype("uint8") * 7 % 4
_add("_pool_two", [np.arange(128.0).reshape(1, 1, 4, 2, 16) * 7 % 11])
_add("_pool_two_spread", [_r(1, 8, 2, 2, 16), _PLACED], wrt=(0,))
_add("_conv_pool", [_r(1, 3, 8, 8, 16), _r(8, 3, 5, 5, 1)], _FIVE, grad=False)
_add("_conv_pool_grad_data", [_r(1, 8, 2, 2, 16), _PLACED, _r(8, 8, 5, 5, 1), _r(1, 8, 8, 8, 16)],
     _FIVE, grad=False)
_add("_conv_pool_grad_weight",
     [_r(1, 8, 2, 2, 16), _PLACED, _r(1, 3, 8, 8, 16), _r(8, 3, 5, 5, 1)], _FIVE, grad=False)
_add("_conv_fused", [_r(2, 3, 5, 6), _r(4, 3, 3, 3)], {**_TINY, "no_bias": True}, grad=False,
     reference=lambda x, w: _conv()(x, w, np.zeros(4, x.dtype)))
_add("_conv_fused", [_r(2, 3, 5, 6), _r(4, 3, 3, 3), *[_r(4)] * 4, _r(4, low=0.5), _r(2, 4, 3, 4)],
     {**_TINY, "norm": True, "fix_gamma": False, "add": True, "act_type": "relu"}, grad=False,
     reference=_then,
     bad=[([_r(2, 3, 5, 6), _r(4, 2, 3, 3)], {**_TINY, "no_bias": True}, ShapeError,
           "shapes of weight")])


# -- Deconvolution ------------------------------------------------------------------------------


def _deconv(stride: int, pad: int, adj: int) -> Any:
    """Two-dimensional deconvolution of one group, one input element at a time."""

    def reference(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
        size = [stride * (n - 1) + k for n, k in zip(x.shape[2:], w.shape[2:], strict=True)]
        out = np.zeros((x.shape[0], w.shape[1], size[0] + adj, size[1] + adj), x.dtype)
        for i, j in np.ndindex(*x.shape[2:]):
            piece = np.einsum("nc,cfhw->nfhw", x[:, :, i, j], w)
            out[:, :, i * stride:i * stride + w.shape[2], j * stride:j * stride + w.shape[3]] += (
                piece)
        return out[:, :, pad:out.shape[2] - pad, pad:out.shape[3] - pad] + b.reshape(-1, 1, 1)

    return reference


_UP = {"kernel": (3, 2), "stride": (2, 2), "pad": (1, 1), "adj": (1, 1), "num_filter": 4,
       "no_bias": False}
_add("Deconvolution", [_r(2, 3, 4, 3), _r(3, 4, 3, 2), _r(4)], _UP, second_order=True,
     reference=_deconv(2, 1, 1),
     bad=[
         ([_r(2, 2, 4, 3), _r(3, 4, 3, 2), _r(4)], _UP, ShapeError,
          "Deconvolution: expected equal shapes of weight"),
         ([_r(2, 3, 4, 3), _r(3, 4, 3, 2), _r(4)], {**_UP, "adj": (2, 2)}, ArgumentValueError,
          "Deconvolution: adj: expected less than stride (2, 2), got (2, 2)"),
         ([_r(2, 3, 4, 3), _r(3, 4, 3, 2), _r(4)], {**_UP, "target_shape": (99, 99)},
          ArgumentValueError, "Deconvolution: target_shape: expected at most 9"),
         ([_r(2, 3, 4), _r(3, 4, 3, 2), _r(4)], _UP, ShapeError, "expected data of 4 dimensions"),
     ])
_add("Deconvolution", [_r(2, 4, 5), _r(4, 3, 3)],
     {"kernel": (3,), "num_filter": 6, "num_group": 2, "stride": (2,), "dilate": (2,)},
     second_order=True)
_add("Deconvolution", [_r(2, 3, 4, 2), _r(2, 3, 3, 4)],
     {"kernel": (3, 3), "num_filter": 4, "layout": "NHWC", "stride": (2, 2),
      "target_shape": (6, 8)}, second_order=True)
_add("_deconv_grad_data", [_r(2, 4, 8, 5), _r(3, 4, 3, 2), _r(2, 3, 4, 3)], _UP,
     second_order=True)
_add("_deconv_grad_weight", [_r(2, 4, 8, 5), _r(2, 3, 4, 3), _r(3, 4, 3, 2)], _UP,
     second_order=True)


# -- Pooling ------------------------------------------------------------------------------------

_WINDOW = {"kernel": (3, 2), "stride": (2, 2)}
_add("Pooling", [_r(2, 3, 6, 4)], {"kernel": (2, 2), "stride": (2, 2)}, second_order=True,
     reference=lambda x: x.reshape(2, 3, 3, 2, 2, 2).max(axis=(3, 5)),
     bad=[
         ([_r(2, 3, 2, 2)], {"kernel": (3, 3)}, ShapeError,
          "Pooling: data with spatial size (2, 2) is smaller than kernel (3, 3)"),
         ([_r(2, 3, 4)], {"kernel": (3, 3)}, ShapeError,
          "Pooling: expected data of 4 dimensions for kernel (3, 3), got 3"),
         ([_r(2, 3)], {"kernel": (3, 3)}, ShapeError, "for kernel (3, 3), got 2"),
         ([_r(2, 3, 4, 4)], {"kernel": (2, 2), "pad": (2, 2)}, ArgumentValueError,
          "Pooling: pad: expected less than kernel (2, 2), got (2, 2)"),
         ([_r(2, 3, 4, 4)], {"kernel": (2, 2), "pool_type": "mean"}, ArgumentValueError,
          "Pooling: pool_type: expected one of 'max', 'avg', 'sum', 'lp', got 'mean'"),
         ([_r(2, 3, 4, 4)], {"kernel": (2, 2), "pool_type": "lp"}, ArgumentValueError,
          "Pooling: p_value: expected 1, 2 or 3"),
         ([_r(2, 3, 4, 4)], {"kernal": (2, 2)}, ArgumentError, "did you mean 'kernel'?"),
     ])
for _kind in ("max", "avg", "sum"):
    _add("Pooling", [_r(2, 3, 7, 6)], {**_WINDOW, "pad": (1, 1), "pool_type": _kind,
                                       "pooling_convention": "full"}, second_order=True)
    _add("Pooling", [_r(2, 7, 3)], {"kernel": (3,), "layout": "NWC", "pool_type": _kind},
         second_order=True)
    _add("Pooling", [_r(2, 3, 4, 3, 5)], {"kernel": (2, 2, 2), "pool_type": _kind,
                                          "stride": (1, 2, 2), "pooling_convention": "same"})
    _add("Pooling", [_r(2, 3, 4, 5)], {"global_pool": True, "pool_type": _kind},
         second_order=True,
         reference=lambda x, kind=_kind: getattr(x, {"avg": "mean"}.get(kind, kind))(
             axis=(2, 3), keepdims=True))
# the last windows begin behind the data
_add("Pooling", [_r(2, 3, 3, 4)], {"kernel": (1, 2), "stride": (3, 2), "pool_type": "avg",
                                   "pooling_convention": "full"},
     reference=lambda x: np.concatenate([(x[:, :, :1, ::2] + x[:, :, :1, 1::2]) / 2,
                                         np.zeros((2, 3, 1, 2), x.dtype)], axis=2))
_add("Pooling", [_r(2, 3, 6, 5)], {**_WINDOW, "pad": (1, 1), "pool_type": "avg",
                                   "count_include_pad": False}, second_order=True)
_add("Pooling", [_r(2, 3, 6, 4, low=0.2)], {**_WINDOW, "pool_type": "lp", "p_value": 2})
_add("Pooling", [_r(2, 3, 6, 4, low=0.2)], {**_WINDOW, "pool_type": "lp", "p_value": 3})
_add("_pool_grad", [_r(2, 3, 3), _r(2, 3, 7), np.array(0.5) * np.ones((2, 3, 3))],
     {"kernel": (3,), "stride": (2,), "pool_type": "avg"}, second_order=True, wrt=(0,))
_add("_pool_pick", [_r(2, 3, 7), _r(2, 3, 7), np.array(0.5) * np.ones((2, 3, 3))],
     {"kernel": (3,), "stride": (2,), "pool_type": "avg"}, second_order=True, wrt=(0,),
     bad=[([_r(1, 1, 2), _r(1, 1, 2), _r(1, 1, 1)],
           {"kernel": (2,), "pool_type": "lp", "p_value": 2}, NotForThisError,
           "the second order gradient of pool_type='lp' is not built")])


# -- activations --------------------------------------------------------------------------------

_ACTIVATIONS: dict[str, Any] = {
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "softrelu": lambda x: np.log(1 + np.exp(x)),
    "softsign": lambda x: x / (1 + np.abs(x)),
}
for _kind, _function in _ACTIVATIONS.items():
    _add("Activation", [_r(3, 4, low=-3, high=3)], {"act_type": _kind}, second_order=True,
         reference=_function)
_add("Activation", [np.array([-200.0, 0.0, 200.0])], {"act_type": "softrelu"}, grad=False,
     reference=lambda x: np.array([0.0, np.log(2.0), 200.0]),
     bad=[([_r(3)], {}, ArgumentError, "Activation: missing required argument 'act_type'"),
          ([_r(3)], {"act_type": "rely"}, ArgumentValueError,
           "Activation: act_type: expected one of 'relu', 'sigmoid', 'tanh'")])
_LEAKY: dict[str, Any] = {
    "leaky": lambda x: np.where(x > 0, x, 0.25 * x),
    "elu": lambda x: np.where(x > 0, x, 0.25 * np.expm1(x)),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    "gelu": None,
}
for _kind, _function in _LEAKY.items():
    _add("LeakyReLU", [_r(3, 4, low=-3, high=3)], {"act_type": _kind}, second_order=True,
         reference=_function)
_add("LeakyReLU", [_r(3, 4, low=-3, high=3)], {"act_type": "elu", "slope": 0.7},
     bad=[([_r(2, 3, 4), _r(5)], {"act_type": "prelu"}, ShapeError,
           "LeakyReLU: expected gamma of shape (1,), (3,), (3, 4) for data (2, 3, 4), got (5,)"),
          ([_r(2, 3)], {"act_type": "prelu"}, ArgumentError, "missing input 'gamma'")])
for _shape in ((1,), (3,), (3, 4)):
    _add("LeakyReLU", [_r(2, 3, 4), _r(*_shape)], {"act_type": "prelu"}, second_order=True,
         reference=lambda x, g: np.where(
             x > 0, x, x * (g.reshape(-1, 1) if g.ndim == 1 else g)))


# -- softmax family -----------------------------------------------------------------------------


def _softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


_add("softmax", [_r(3, 4)], second_order=True, reference=_softmax,
     bad=[([_r(3, 4)], {"axis": 2}, ArgumentValueError,
           "softmax: axis: expected a number from -2 to 1")])
_add("softmax", [_r(3, 4, 2)], {"axis": 1, "temperature": 2.5}, second_order=True,
     reference=lambda x: _softmax(x / 2.5, 1))
_add("softmax", [_r(3, 4)], {"dtype": "float64"}, grad=False,
     reference=lambda x: _softmax(x.astype("float64")))
_add("softmax", [_r(3, 4), np.array([1, 4, 2])], {"use_length": True}, wrt=(0,),
     second_order=True,
     reference=lambda x, n: np.stack([np.pad(_softmax(row[:k]), (0, 4 - k))
                                      for row, k in zip(x, n, strict=True)]),
     bad=[([_r(3, 4), np.array([1, 4])], {"use_length": True}, ShapeError, "shapes of length"),
          ([_r(3, 4)], {"use_length": True}, ArgumentError, "missing input 'length'")])
_add("_log_softmax_pick_grad", [_r(3), np.array([1, 0, 9]), _r(3, 4)], grad=False,
     reference=lambda g, i, y: g[:, None] * (np.eye(4)[np.minimum(i, 3)] - np.exp(y)))
for _axis in (-1, 1):
    _add("_softmax_grad", [_r(3, 4, 2), _r(3, 4, 2)], {"axis": _axis}, second_order=True,
         reference=lambda g, y, k=_axis: y * (g - (g * y).sum(k, keepdims=True)))
    _add("_log_softmax_grad", [_r(3, 4, 2), _r(3, 4, 2)], {"axis": _axis}, second_order=True,
         reference=lambda g, y, k=_axis: g - np.exp(y) * g.sum(k, keepdims=True))
_add("softmin", [_r(3, 4)], {"temperature": 2.0}, second_order=True,
     reference=lambda x: _softmax(-x / 2))
_add("log_softmax", [_r(3, 4, 2)], {"axis": 1}, second_order=True,
     reference=lambda x: np.log(_softmax(x, 1)))
_add("log_softmax", [_r(3, 4)], {"temperature": 0.5}, second_order=True,
     reference=lambda x: np.log(_softmax(x * 2)))
_add("SoftmaxActivation", [_r(2, 3, 4)], second_order=True, reference=_softmax)
_add("SoftmaxActivation", [_r(2, 3, 4)], {"mode": "channel"}, second_order=True,
     reference=lambda x: _softmax(x, 1))
_LABEL = np.array([2, 0, 1, 1])
_add("softmax_cross_entropy", [_r(4, 3), _LABEL], second_order=True, wrt=(0,),
     reference=lambda x, y: -np.log(_softmax(x))[np.arange(4), y].sum(keepdims=True),
     bad=[([_r(4, 3), np.array([1, 2])], {}, ShapeError,
           "softmax_cross_entropy: expected equal shapes of label"),
          ([_r(4, 3, 2), _LABEL], {}, ShapeError, "expected data (N, K), got (4, 3, 2)")])
_add("_subtract_one_hot", [_r(4, 3), _LABEL], second_order=True,
     reference=lambda p, y: p - np.eye(3, dtype=p.dtype)[y])
# their gradient is not the derivative of the forward: test_nn_ops.py has it
_add("SoftmaxOutput", [_r(4, 3), _LABEL], grad=False, reference=lambda x, y: _softmax(x),
     bad=[([_r(4, 3), np.array([1, 2])], {}, ShapeError,
           "SoftmaxOutput: expected equal shapes of label"),
          ([_r(4, 3), _LABEL], {"normalization": "mean"}, ArgumentValueError,
           "SoftmaxOutput: normalization: expected one of")])
_add("SoftmaxOutput", [_r(4, 3, 2), np.array([[0, 1]] * 4)], {"multi_output": True}, grad=False,
     reference=lambda x, y: _softmax(x, 1))
_add("SoftmaxOutput", [_r(4, 2, 3), np.array([[0, 1]] * 4)], grad=False,
     reference=lambda x, y: _softmax(x.reshape(4, 6)).reshape(x.shape))
_add("SoftmaxOutput", [_r(4, 2, 3), np.array([[0, 1]] * 4)], {"preserve_shape": True}, grad=False,
     reference=lambda x, y: _softmax(x))
_add("_softmax_output_grad", [_r(4, 3), _LABEL], {"normalization": "batch"}, grad=False,
     reference=lambda p, y: (p - np.eye(3)[y]) / 4)


# -- outputs with a loss of their own -----------------------------------------------------------

for _name, _function in (
    ("LinearRegressionOutput", lambda x, y: x),
    ("MAERegressionOutput", lambda x, y: x),
    ("LogisticRegressionOutput", lambda x, y: 1 / (1 + np.exp(-x))),
):
    _add(_name, [_r(4, 3), _r(4, 3)], {"grad_scale": 2.0}, grad=False, reference=_function,
         bad=[([_r(4, 3), _r(3)], {}, ShapeError,
               f"{_name}: expected label with the 12 elements of data (4, 3), got (3,)")])
    _add(_name, [_r(4, 1), _r(4)], grad=False)
_add("_regression_grad", [_r(4, 3), _r(4, 3)], {"absolute": True}, grad=False,
     reference=lambda x, y: np.where(x > y, 1, -1) / 3)


# -- normalisation ------------------------------------------------------------------------------


def _standard(x: np.ndarray, axes: tuple[int, ...], eps: float) -> np.ndarray:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


_FIVE = [_r(3), _r(3), _r(3), _r(3, low=0.5, high=2)]
_add("BatchNorm", [_r(4, 3, 2, 5), *_FIVE], {"fix_gamma": False}, second_order=True,
     wrt=(0, 1, 2),
     reference=lambda x, g, b, m, v: _standard(x, (0, 2, 3), 1e-3) * g.reshape(3, 1, 1)
     + b.reshape(3, 1, 1),
     bad=[
         ([_r(4, 2, 5), *_FIVE], {}, ShapeError,
          "BatchNorm: expected equal channel counts (of data and inputs), got (2,) and (3,)"),
         ([_r(4, 3, 5), *_FIVE], {"axis": 3}, ArgumentValueError,
          "BatchNorm: axis: expected a number from -3 to 2"),
         ([_r(4, 3), *_FIVE], {"moment": 0.5}, ArgumentError, "did you mean 'momentum'?"),
     ])
_add("BatchNorm", [_r(4, 2, 3), *_FIVE], {"axis": -1, "eps": 0.1, "output_mean_var": True},
     second_order=True, wrt=(0, 2),
     reference=lambda x, g, b, m, v: [_standard(x, (0, 1), 0.1) + b, x.mean((0, 1)),
                                      1 / np.sqrt(x.var((0, 1)) + 0.1)])
_add("BatchNorm", [_r(4, 3), *_FIVE], {"use_global_stats": True, "fix_gamma": False},
     second_order=True, wrt=(0, 1, 2),
     reference=lambda x, g, b, m, v: (x - m) / np.sqrt(v + 1e-3) * g + b)
_add("_contrib_BatchNormWithReLU", [_r(4, 3, 2, 5), *_FIVE], {"fix_gamma": False}, wrt=(0, 1, 2),
     reference=lambda x, g, b, m, v: np.maximum(
         _standard(x, (0, 2, 3), 1e-3) * g.reshape(3, 1, 1) + b.reshape(3, 1, 1), 0))
for _attrs in ({"fix_gamma": False}, {"act_type": "relu"}):
    _add("_batch_norm_apply", [_r(4, 3, 2), _r(3), _r(3), _r(3), _r(3, low=0.5)], _attrs,
         second_order=True,
         reference=lambda x, g, b, m, i, relu="act_type" in _attrs: np.maximum(
             (x - m[:, None]) * (i if relu else i * g)[:, None] + b[:, None],
             0 if relu else -np.inf))
for _attrs in ({"fix_gamma": False}, {"fix_gamma": False, "constant": True}):
    _add("_batch_norm_grad", [_r(4, 3, 2), _r(4, 3, 2), _r(3), _r(3), _r(3), _r(3, low=0.5)],
         _attrs, second_order=True, wrt=(0, 1, 2, 4, 5))
_add("_along", [_r(3), _r(2, 3, 4)], {"axis": 1}, second_order=True, wrt=(0,),
     reference=lambda v, x: v.reshape(3, 1))
_add("_channel_spread", [_r(3), _r(2, 3, 4)], second_order=True, wrt=(0,),
     reference=lambda v, x: np.broadcast_to(v.reshape(3, 1) / 8, (2, 3, 4)))
_add("_channel_spread", [_r(2, 1, 4), _r(2, 3, 4)], second_order=True, wrt=(0,),
     reference=lambda v, x: np.broadcast_to(v / 3, (2, 3, 4)))
_add("_channel_mean", [_r(2, 3, 4), _r(3)], second_order=True, wrt=(0,),
     reference=lambda x, v: x.mean((0, 2)))
_add("LayerNorm", [_r(4, 3, 5), _r(5), _r(5)], second_order=True,
     reference=lambda x, g, b: _standard(x, (2,), 1e-5) * g + b,
     bad=[([_r(4, 3, 5), _r(4), _r(4)], {}, ShapeError,
           "LayerNorm: expected equal channel counts (of data and inputs), got (5,) and (4,)")])
_add("LayerNorm", [_r(4, 3, 5), _r(3), _r(3)],
     {"axis": 1, "eps": 0.1, "output_mean_var": True}, second_order=True,
     reference=lambda x, g, b: [_standard(x, (1,), 0.1) * g.reshape(3, 1) + b.reshape(3, 1),
                                x.mean(1, keepdims=True),
                                np.sqrt(x.var(1, keepdims=True) + 0.1)])
_add("_layer_norm_grad", [_r(4, 3, 5), _r(4, 3, 5), _r(5), _r(4, 3, 1), _r(4, 3, 1, low=0.5)],
     second_order=True)
_add("_layer_norm_grad", [_r(4, 3, 5), _r(4, 3, 5), _r(3), _r(4, 1, 5), _r(4, 1, 5, low=0.5)],
     {"axis": 1}, second_order=True)
_add("InstanceNorm", [_r(4, 3, 5, 2), _r(3), _r(3)], second_order=True,
     reference=lambda x, g, b: _standard(x, (2, 3), 1e-3) * g.reshape(3, 1, 1)
     + b.reshape(3, 1, 1),
     bad=[([_r(4, 3), _r(3), _r(3)], {}, ShapeError, "InstanceNorm: expected data (N, C, *S)")])
_add("GroupNorm", [_r(2, 4, 3), _r(2), _r(2)], {"num_groups": 2}, second_order=True,
     reference=lambda x, g, b: (_standard(x.reshape(2, 2, 6), (2,), 1e-5) * g.reshape(2, 1)
                                + b.reshape(2, 1)).reshape(2, 4, 3),
     bad=[([_r(2, 4, 3), _r(3), _r(3)], {"num_groups": 3}, ShapeError,
           "GroupNorm: num_groups: expected a divisor of the channels of data (2, 4, 3), got 3"),
          ([_r(2, 4, 3), _r(4), _r(4)], {"num_groups": 2}, ShapeError,
           "GroupNorm: expected equal shapes of gamma and beta")])
_add("GroupNorm", [_r(2, 4), _r(2), _r(2)], {"num_groups": 2, "eps": 0.1,
                                             "output_mean_var": True}, second_order=True)
for _mode, _axes in (("instance", (1, 2)), ("channel", (1,)), ("spatial", (2,))):
    _add("L2Normalization", [_r(4, 3, 5)], {"mode": _mode}, second_order=True,
         reference=lambda x, axes=_axes: x / np.sqrt((x * x).sum(axes, keepdims=True)),
         bad=[([_r(3)], {"mode": _mode}, ShapeError, "nothing to normalise over")])


# -- Dropout, Embedding -------------------------------------------------------------------------

_add("Dropout", [_r(4, 3)], {"p": 0.0}, second_order=True, reference=lambda x: x)
_add("Dropout", [_r(4, 3)], {"p": 0.5, "axes": (1,)}, grad=False, random=True,
     bad=[([_r(3)], {"p": 1.5}, ArgumentValueError,
           "Dropout: p: expected a probability from 0 to 1, got 1.5"),
          ([_r(3)], {"p": 0.5, "axes": (1,)}, ArgumentValueError, "axes: expected a number")])
_add("_dropout_grad", [_r(3, 3), np.array([0b01010101, 1], "uint8")], {"p": 0.75}, wrt=(0,),
     second_order=True, reference=lambda dy, bits: dy * np.array(
         [[4, 0, 4], [0, 4, 0], [4, 0, 4]], dy.dtype),
     bad=[([_r(3, 3), np.array([1, 1], "uint8")], {"axes": ()}, ArgumentError,
           "missing required argument 'p'")])
_ROWS = np.array([[0, 2, 2], [5, -1, 3]])
_add("Embedding", [_ROWS, _r(5, 2)], {"input_dim": 5, "output_dim": 2}, wrt=(1,),
     second_order=True, reference=lambda i, w: w[np.clip(i, 0, 4)],
     bad=[([_ROWS, _r(5, 3)], {"input_dim": 5, "output_dim": 2}, ShapeError,
           "Embedding: expected equal shapes of weight")])
_add("_embedding_grad", [_r(2, 3, 2), _ROWS, _r(5, 2)], {"input_dim": 5, "output_dim": 2},
     wrt=(0,), second_order=True,
     reference=lambda dy, i, w: np.eye(5, dtype=dy.dtype)[np.clip(i, 0, 4)].reshape(6, 5).T
     @ dy.reshape(6, 2))


# -- optimizer updates --------------------------------------------------------------------------


def _update(name: str, states: int, attrs: dict[str, Any], reference: Any = None) -> None:
    inputs = [_r(3, 2), _r(3, 2), *[_r(3, 2, low=0.5)] * states]
    _add(name, inputs, attrs, grad=False, reference=reference,
         bad=[([_r(3, 2), _r(3), *inputs[2:]], attrs, ShapeError,
               f"{name}: expected equal shapes, got (3, 2) and (3,)"),
              (inputs, {**attrs, "lrate": 1.0}, ArgumentError, "unknown argument 'lrate'")])


_COMMON = {"lr": 0.1, "wd": 0.01, "rescale_grad": 0.5, "clip_gradient": 0.2}


def _g(grad: np.ndarray) -> np.ndarray:
    return np.clip(grad * 0.5, -0.2, 0.2)


_update("sgd_update", 0, _COMMON, lambda w, d: (1 - 0.001) * w - 0.1 * _g(d))
_update("sgd_mom_update", 1, {**_COMMON, "momentum": 0.9},
        lambda w, d, m: w + 0.9 * m - 0.001 * w - 0.1 * _g(d))
_update("mp_sgd_update", 1, _COMMON, lambda w, d, w32: (1 - 0.001) * w32 - 0.1 * _g(d))
_update("mp_sgd_mom_update", 2, {**_COMMON, "momentum": 0.9},
        lambda w, d, m, w32: w32 + 0.9 * m - 0.001 * w32 - 0.1 * _g(d))
_update("nag_mom_update", 1, {**_COMMON, "momentum": 0.9},
        lambda w, d, m: w + 0.81 * m - 1.9 * 0.1 * (_g(d) + 0.01 * w))
_update("mp_nag_mom_update", 2, {**_COMMON, "momentum": 0.9},
        lambda w, d, m, w32: w32 + 0.81 * m - 1.9 * 0.1 * (_g(d) + 0.01 * w32))
_update("signsgd_update", 0, _COMMON, lambda w, d: (1 - 0.001) * w - 0.1 * np.sign(d))
_update("signum_update", 1, {**_COMMON, "momentum": 0.9, "wd_lh": 0.1},
        lambda w, d, m: 0.99 * w + 0.1 * np.sign(0.9 * m - 0.1 * (0.01 * w + _g(d))))


def _decayed(w: np.ndarray, d: np.ndarray) -> np.ndarray:
    return np.clip(0.5 * d + 0.01 * w, -0.2, 0.2)


_update("adam_update", 2, _COMMON,
        lambda w, d, m, v: w - 0.1 * (0.9 * m + 0.1 * _decayed(w, d))
        / (np.sqrt(0.999 * v + 0.001 * _decayed(w, d) ** 2) + 1e-8))
_update("rmsprop_update", 1, _COMMON,
        lambda w, d, n: w - 0.1 * _decayed(w, d)
        / np.sqrt(0.95 * n + 0.05 * _decayed(w, d) ** 2 + 1e-8))
_update("ftrl_update", 2, _COMMON)
_update("ftml_update", 3, {"lr": 0.1, "t": 3, "wd": 0.01, "clip_grad": 0.2})
_add("rmspropalex_update",
     [_r(3, 2), _r(3, 2), _r(3, 2, low=1.5, high=2.5), _r(3, 2), _r(3, 2)], _COMMON, grad=False)
