"""Samples of attention, places, scans, precision, spectra and draws with array parameters."""
from __future__ import annotations

import math

import numpy as np
from sample import Sample, adder, between, floats

from minigluon.base import ArgumentValueError, ShapeError

SAMPLES: dict[str, list[Sample]] = {}
_r, _f, _add = between, floats, adder(SAMPLES)


# -- attention -------------------------------------------------------------------------------------


def _head(x: np.ndarray, heads: int, parts: int, place: int) -> np.ndarray:
    length, batch, _ = x.shape
    inner = x.reshape(length, batch, heads, parts, -1)[:, :, :, place]
    return inner.transpose(1, 2, 0, 3).reshape(batch * heads, length, -1)


def _joined(x: np.ndarray, heads: int) -> np.ndarray:
    batch = x.shape[0] // heads
    return x.reshape(batch, heads, *x.shape[1:]).transpose(2, 0, 1, 3).reshape(
        x.shape[1], batch, -1)


_add("_contrib_div_sqrt_dim", [_r(2, 3, 4)], second_order=True, reference=lambda x: x / 2)
_HEADS = {"heads": 2}
_add("_contrib_interleaved_matmul_selfatt_qk", [_r(5, 3, 24)], _HEADS, second_order=True,
     reference=lambda x: _head(x, 2, 3, 0) @ _head(x, 2, 3, 1).transpose(0, 2, 1) / 2,
     bad=[([_r(5, 3, 20)], _HEADS, ShapeError, "a multiple of 6"),
          ([_r(5, 3)], _HEADS, ShapeError, "queries_keys_values of shape"),
          ([_r(5, 3, 24)], {"heads": 0}, ArgumentValueError, "heads: expected 1 or more")])
_add("_contrib_interleaved_matmul_selfatt_valatt", [_r(5, 3, 24), _r(6, 5, 5)], _HEADS,
     second_order=True, reference=lambda x, w: _joined(w @ _head(x, 2, 3, 2), 2),
     bad=[([_r(5, 3, 24), _r(6, 5, 4)], _HEADS, ShapeError, "shapes of attention")])
_add("_contrib_interleaved_matmul_encdec_qk", [_r(5, 3, 8), _r(7, 3, 16)], _HEADS,
     second_order=True,
     reference=lambda q, kv: _head(q, 2, 1, 0) @ _head(kv, 2, 2, 0).transpose(0, 2, 1) / 2,
     bad=[([_r(5, 3, 8), _r(7, 2, 16)], _HEADS, ShapeError, "batch and width")])
_add("_contrib_interleaved_matmul_encdec_valatt", [_r(7, 3, 16), _r(6, 5, 7)], _HEADS,
     second_order=True, reference=lambda kv, w: _joined(w @ _head(kv, 2, 2, 1), 2),
     bad=[([_r(7, 3, 16), _r(6, 5, 5)], _HEADS, ShapeError, "shapes of attention")])

# what goes back through them, against the same by the operators' own gradients in the second order
_add("_selfatt_qk_grad", [_r(6, 5, 5), _r(5, 3, 24)], _HEADS, second_order=True)
_add("_selfatt_valatt_grad", [_r(5, 3, 8), _r(5, 3, 24), _r(6, 5, 5)], _HEADS, second_order=True)
_add("_encdec_qk_grad", [_r(6, 5, 7), _r(5, 3, 8), _r(7, 3, 16)], _HEADS, second_order=True)
_add("_encdec_valatt_grad", [_r(5, 3, 8), _r(7, 3, 16), _r(6, 5, 7)], _HEADS, second_order=True)
_add("_selfatt", [_r(5, 3, 24)], _HEADS, grad=False)
_add("_selfatt_grad", [_r(5, 3, 8), _r(5, 3, 24), _r(6, 5, 5)], _HEADS, grad=False)

# -- places ----------------------------------------------------------------------------------------

_add("_unravel_index", [np.array([[22, 41], [37, 0]], "int64")], {"shape": (7, 6)}, grad=False,
     reference=lambda x: np.stack(np.unravel_index(x, (7, 6))),
     bad=[([_f(1)], {"shape": ()}, ArgumentValueError, "shape: expected sizes")])
_add("_unravel_index", [_f(22, 3)], {"shape": (-1, 6)}, grad=False,
     reference=lambda x: np.array([[3, 0], [4, 3]]))
_add("_ravel_multi_index", [_f([3, 6, 6], [4, 5, 1])], {"shape": (7, 6)}, grad=False,
     reference=lambda x: np.array([22, 41, 37]),
     bad=[([_f(1, 2, 3)], {"shape": (7, 6)}, ShapeError, "expected 2 numbers for each place")])
_add("_contrib_index_array", [_r(2, 3)], grad=False,
     reference=lambda x: np.moveaxis(np.indices((2, 3)), 0, -1))
_add("_contrib_index_array", [_r(2, 3)], {"axes": (1,)}, grad=False,
     reference=lambda x: np.indices((2, 3))[1][..., None],
     bad=[([_r(2)], {"axes": (1,)}, ArgumentValueError, "axis: expected a number")])
_add("_contrib_arange_like", [_r(2, 4)], {"start": 1, "step": 2, "repeat": 2}, grad=False,
     reference=lambda x: (np.arange(8) // 2 * 2 + 1).reshape(2, 4),
     bad=[([_r(2)], {"axis": 1}, ArgumentValueError, "axis: expected a number"),
          ([_r(2)], {"repeat": 0}, ArgumentValueError, "repeat: expected 1 or more")])
_add("_contrib_arange_like", [_r(2, 4)], {"axis": -1}, grad=False,
     reference=lambda x: np.arange(4))
_add("fill_element_0index", [_r(2, 3), _f(9, 8), _f(1, 0)], grad=False,
     reference=lambda x, new, at: np.array([[x[0, 0], 9, x[0, 2]], [8, x[1, 1], x[1, 2]]]),
     bad=[([_r(2, 3), _f(9), _f(1, 0)], {}, ShapeError, "expected equal"),
          ([_r(2), _f(9), _f(1)], {}, ShapeError, "lhs with 2 axes")])
_add("_boolean_mask_grad", [_r(2, 2), _r(3, 2), _f(1, 0, 1)], wrt=(0,), grad=False,
     reference=lambda dy, x, m: np.stack([dy[0], [0, 0], dy[1]]))
_add("_contrib_index_copy", [_r(4, 2), np.array([3, 0]), _r(2, 2)], second_order=True,
     reference=lambda x, i, new: np.stack([new[1], x[1], x[2], new[0]]),
     bad=[([_r(4, 2), _f(1), _r(2, 2)], {}, ShapeError, "shapes of new_tensor")])

# -- scans -----------------------------------------------------------------------------------------

_add("_np_cumsum", [_r(2, 3, 4)], {"axis": 1}, second_order=True,
     reference=lambda x: x.cumsum(1),
     bad=[([_r(2)], {"axis": 1}, ArgumentValueError, "axis: expected a number")])
_add("_np_cumsum", [_r(2, 3)], second_order=True, reference=lambda x: x.ravel().cumsum())
_add("_np_cumsum", [np.array([[100, 100]], "int8")], {"axis": -1, "dtype": "int32"}, grad=False,
     reference=lambda x: np.array([[100, 200]]))
_add("_cumsum_grad", [_r(6), _r(2, 3)], wrt=(0,), second_order=True)
_add("moments", [_r(2, 3, 4)], {"axes": (0, 2)}, second_order=True,
     reference=lambda x: [x.mean((0, 2)), x.var((0, 2))],
     bad=[([_r(2)], {}, ArgumentValueError, "moments: axes: expected at least one"),
          ([_r(2)], {"axes": (1,)}, ArgumentValueError, "axis: expected a number")])
_add("moments", [_r(2, 3)], {"axes": (-1,), "keepdims": True},
     reference=lambda x: [x.mean(1, keepdims=True), x.var(1, keepdims=True)])
_add("multi_sum_sq", [_r(2, 3), _r(4)], {"num_arrays": 2}, grad=False,
     reference=lambda x, y: np.array([(x * x).sum(), (y * y).sum()]),
     bad=[([_r(2)], {"num_arrays": 2}, ArgumentValueError, "num_arrays: expected 1")])
_add("all_finite", [_f(1, np.inf)], grad=False, reference=lambda x: np.zeros(1))
_add("all_finite", [_r(3)], grad=False, reference=lambda x: np.ones(1))
_add("multi_all_finite", [_r(3), _f(np.nan)], {"num_arrays": 2}, grad=False,
     reference=lambda x, y: np.zeros(1),
     bad=[([_r(2)], {"num_arrays": 2}, ArgumentValueError, "num_arrays: expected 1")])
_add("_contrib_allclose", [_f(1, 2), _f(1, 2.00001)], grad=False,
     reference=lambda a, b: np.ones(1))
_add("_contrib_allclose", [_f(1, 2), _f(1, 2.1)], grad=False, reference=lambda a, b: np.zeros(1))
_add("khatri_rao", [_r(2, 3), _r(4, 3)], grad=False,
     reference=lambda a, b: np.stack([np.kron(a[:, i], b[:, i]) for i in range(3)], axis=1),
     bad=[([_r(2, 3), _r(2, 4)], {}, ShapeError, "as many columns")])
_add("erfinv", [_r(3, 4, low=-0.9, high=0.9)], second_order=True,
     reference=lambda x: np.vectorize(_inverse_erf)(x))


def _inverse_erf(x: float) -> float:
    low, high = -6.0, 6.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erf(middle) < x else (low, middle)
    return low


# -- precision -------------------------------------------------------------------------------------

_add("amp_cast", [_r(2, 3)], {"dtype": "float64"}, second_order=True, reference=lambda x: x)
_add("amp_multicast", [np.ones((2,), "float16"), np.ones((3,), "float16")], {"num_outputs": 2},
     second_order=True, reference=lambda x, y: [x, y],
     bad=[([_r(2)], {"num_outputs": 2}, ArgumentValueError, "num_outputs: expected 1")])
_RANGE = [_f(-1), _f(2)]
_add("_contrib_quantize", [_f(-1, 0.5, 2), *_RANGE], grad=False,
     reference=lambda x, a, b: [np.array([0, 128, 255]), a, b],
     bad=[([_r(2), _r(2), _r(2)], {}, ShapeError, "shapes of min and max")])
_add("_contrib_quantize", [_f(-1, 0.5, 2), *_RANGE], {"out_type": "int8"}, grad=False,
     reference=lambda x, a, b: [np.array([-64, 32, 127]), _f(-2), _f(2)])
_add("_contrib_dequantize", [np.array([0, 255], "uint8"), *_RANGE], grad=False,
     reference=lambda x, a, b: _f(-1, 2))
_add("_contrib_dequantize", [np.array([-127, 0], "int8"), *_RANGE], grad=False,
     reference=lambda x, a, b: _f(-2, 0),
     bad=[([_r(2), _r(2), _r(2)], {}, ShapeError, "shapes of min and max")])
# their gradients are not the slopes of what they compute: tests/ops/test_tail.py
_add("_contrib_round_ste", [_f(0.5, 1.4, -0.5)], grad=False, reference=lambda x: _f(1, 1, -1))
_add("_contrib_sign_ste", [_f(0.5, 0, -0.5)], grad=False, reference=lambda x: _f(1, 0, -1))
_add("_contrib_gradientmultiplier", [_r(2, 3)], {"scalar": 2.0}, grad=False,
     reference=lambda x: x)
_add("_contrib_quadratic", [_r(2, 3)], {"a": 1.0, "b": 2.0, "c": 3.0}, second_order=True,
     reference=lambda x: x * x + 2 * x + 3)

# -- spectra ---------------------------------------------------------------------------------------

_add("_contrib_fft", [_r(2, 3, 4)], second_order=True,
     reference=lambda x: np.stack([np.fft.fft(x).real, np.fft.fft(x).imag], -1).reshape(2, 3, 8))
_add("_contrib_ifft", [_r(2, 8)], second_order=True,
     reference=lambda x: np.fft.ifft(x[:, ::2] + 1j * x[:, 1::2]).real * 4,
     bad=[([_r(2, 3)], {}, ShapeError, "real and imaginary parts in turn")])
_HASH = [_f([0, 1, 0, 4]), _f([1, -1, 1, 1])]
_add("_contrib_count_sketch", [_r(2, 4), *_HASH], {"out_dim": 5}, wrt=(0,), second_order=True,
     reference=lambda x, h, s: np.stack(
         [x[:, 0] + x[:, 2], -x[:, 1], 0 * x[:, 0], 0 * x[:, 0], x[:, 3]], axis=1),
     bad=[([_r(2, 4), _r(1, 3), _r(1, 4)], {"out_dim": 5}, ShapeError, "shapes of h")])
_add("_count_sketch_grad", [_r(2, 5), _r(2, 4), *_HASH], wrt=(0,), second_order=True)
_add("_count_sketch_like", [_r(2, 4), *_HASH, _r(2, 5)], wrt=(0,), second_order=True)

# -- draws -----------------------------------------------------------------------------------------

_DRAWS: tuple[tuple[str, int, str], ...] = (
    ("uniform", 2, ""), ("normal", 2, "sigma of 0 or more"), ("gamma", 2, "positive alpha"),
    ("exponential", 1, "positive lam"), ("poisson", 1, "lam of 0 or more"),
    ("negative_binomial", 2, "positive k"), ("generalized_negative_binomial", 2, "mu and alpha"))
for _name, _count, _words in _DRAWS:
    _inputs = [_r(2, 3, low=0.2, high=0.9)] * _count
    _add(f"_sample_{_name}", _inputs, {"shape": (4,)}, random=True, bad=[
        ([_r(2, low=-2, high=-1)] * _count, {}, ArgumentValueError, _words)] if _words else ())
_add("_sample_uniform", [_r(2), _r(2)], {"dtype": "float64"}, random=True, bad=[
    ([_r(2), _r(3)], {}, ShapeError, "")])
_add("_random_negative_binomial", [], {"k": 3, "p": 0.4, "shape": (2, 3)}, random=True,
     bad=[([], {"p": 0}, ArgumentValueError, "positive k and 0 < p <= 1, got 1 and 0")])
_add("_random_generalized_negative_binomial", [], {"mu": 2, "alpha": 0.3, "shape": (2,)},
     random=True, bad=[([], {"alpha": -1}, ArgumentValueError, "mu and alpha of 0 or more")])
for _name, _bad in (("exponential", {"lam": 0}), ("gamma", {"alpha": 0}), ("poisson", {"lam": -1})):
    _add(f"_random_{_name}_like", [_r(2, 3)], random=True,
         bad=[([_r(2)], _bad, ArgumentValueError, f"got {next(iter(_bad.values()))}")])


# -- AdamW -----------------------------------------------------------------------------------------


def _adamw(w: np.ndarray, g: np.ndarray, m: np.ndarray, v: np.ndarray, *rest: np.ndarray
           ) -> np.ndarray:
    g = np.clip(g * rest[-1], -0.3, 0.3)
    mean, var = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return w - 0.5 * (0.1 * mean / (np.sqrt(var) + 1e-8) + 0.2 * w)


_STEP = {"lr": 0.1, "eta": 0.5, "wd": 0.2, "clip_gradient": 0.3}
_STATES = [_r(2, 3), _r(2, 3), _r(2, 3), _r(2, 3, low=0.1)]
_add("_adamw_update", [*_STATES, _f(0.5)], _STEP, grad=False, reference=_adamw,
     bad=[([_r(2), _r(3), _r(2), _r(2), _f(1)], _STEP, ShapeError, "expected equal")])
_add("_adamw_update", [*_STATES, _f(np.inf)], _STEP, grad=False, reference=lambda w, *rest: w)
_add("_mp_adamw_update", [*_STATES, _r(2, 3), _f(0.5)], _STEP, grad=False,
     reference=lambda w, g, m, v, w32, one: _adamw(w32, g, m, v, one))
