"""Native kernels where vectors end: odd sizes, nothing at all, nan and infinities, two threads."""
from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from test_kernels_samples import compare, plain, prepared

from minigluon.device.cpu import native
from minigluon.ops import registry

pytestmark = pytest.mark.skipif(not native.enabled, reason=native.reason)

_ODD = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-30, 3e-39, 88.0,
        -88.0, 100.0, -100.0, 1e-3, 7.0, -7.0, 0.9999999]
_UNARY = ["abs", "negative", "sign", "round", "rint", "ceil", "floor", "trunc", "fix", "exp",
          "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "square", "reciprocal", "tanh",
          "erf", "sigmoid", "relu", "softsign", "logical_not", "_contrib_isnan", "_contrib_isinf",
          "_contrib_isfinite", "_log_or_zero", "_reciprocal_or_zero"]
_PAIRS = ["broadcast_add", "broadcast_sub", "broadcast_mul", "broadcast_div", "broadcast_power",
          "broadcast_maximum", "broadcast_minimum", "broadcast_equal", "broadcast_not_equal",
          "broadcast_greater", "broadcast_greater_equal", "broadcast_lesser",
          "broadcast_lesser_equal", "broadcast_logical_and", "broadcast_logical_or",
          "broadcast_logical_xor"]
_SIZES = [1, 2, 3, 7, 15, 16, 17, 31, 33, 63, 65, 1023, 1024, 1025, 4099]
_NEAR = {"float32": 6e-7, "float64": 2e-15}


def _normal(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def _attrs(name: str, **given: Any) -> dict[str, Any]:
    op = registry[name]
    attrs = op.parse(given)
    return {**attrs, "training": True} if op.needs_training else attrs


def _equal_everywhere(got: np.ndarray, want: np.ndarray) -> None:
    """Equal where not finite, near elsewhere; a result may be denormal or nothing."""
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    infinite = np.isinf(want) | np.isinf(got)
    np.testing.assert_array_equal(got[infinite], want[infinite])
    rest = np.isfinite(want) & np.isfinite(got)
    np.testing.assert_allclose(got[rest], want[rest], rtol=_NEAR[want.dtype.name],
                               atol=np.finfo(want.dtype).tiny)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", _UNARY)
def test_unary_on_odd_values(name: str, dtype: str) -> None:
    x = np.array(_ODD, dtype)
    [want] = plain(registry[name], [x], {})
    step = prepared(registry[name], [x], [want], {})
    _equal_everywhere(step([x])[0], want)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", _PAIRS)
def test_pairs_on_odd_values(name: str, dtype: str) -> None:
    x = np.repeat(np.array(_ODD, dtype), len(_ODD))
    y = np.tile(np.array(_ODD, dtype), len(_ODD))
    [want] = plain(registry[name], [x, y], {})
    step = prepared(registry[name], [x, y], [want], {})
    _equal_everywhere(step([x, y])[0], want)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("bounds", [(-0.5, 0.5), (0.0, np.inf), (2.0, -2.0)])
def test_clip_on_odd_values_of_any_length(bounds: tuple[float, float], dtype: str) -> None:
    low, high = bounds
    for size in _SIZES:
        x = np.resize(np.array(_ODD, dtype), size)
        [want] = plain(registry["clip"], [x], {"a_min": low, "a_max": high})
        step = prepared(registry["clip"], [x], [want], {"a_min": low, "a_max": high})
        np.testing.assert_array_equal(step([x])[0], want)


def test_relu_grad() -> None:
    """For what relu can have returned: nothing below 0."""
    y = np.maximum(_normal(500), 0)
    y[7] = np.nan
    assert compare(registry["_relu_grad"], [_normal(501)[:500], y], {})


@pytest.mark.parametrize("size", _SIZES)
@pytest.mark.parametrize("name", ["exp", "relu", "tanh", "softmax", "log_softmax", "sum", "max",
                                  "min", "mean", "norm"])
def test_every_length(name: str, size: int) -> None:
    assert compare(registry[name], [_normal(size)], _attrs(name))
    assert compare(registry[name], [_normal(3, size)], _attrs(name), 4)


@pytest.mark.parametrize("shapes", [
    ((3, 1), (1, 5)), ((7, 1, 5), (3, 1)), ((2, 33, 7, 7), (33, 1, 1)), ((1,), (5, 300)),
    ((5, 1025), (1025,)), ((5, 1025), (5, 1)), ((2, 3, 4, 5), (2, 1, 4, 1)), ((1, 1), (1, 1)),
    ((40, 10), (10,)), ((2, 1, 3, 1, 2), (1, 5, 1, 7, 1)),
])
def test_broadcasting(shapes: Any) -> None:
    x, y = (_normal(*shape) for shape in shapes)
    for name in ("broadcast_sub", "broadcast_maximum"):
        assert compare(registry[name], [x, y], {})
        assert compare(registry[name], [y, x], {})


@pytest.mark.parametrize(("axis", "exclude"), [
    (None, False), (0, False), (1, False), (-1, False), ((0, 2), False), ((1, 2), False),
    (1, True), ((0, 1), True), ((), True),
])
@pytest.mark.parametrize("shape", [(3, 5, 7), (70, 33, 1), (2, 300, 17), (4, 3, 1100)])
def test_reductions(shape: tuple[int, ...], axis: Any, exclude: bool) -> None:
    for name in ("sum", "mean", "max", "min"):
        assert compare(registry[name], [_normal(*shape)],
                       _attrs(name, axis=axis, exclude=exclude), 4)


@pytest.mark.parametrize("name", ["max", "min", "sum", "mean", "softmax"])
def test_nan_comes_through(name: str) -> None:
    x = _normal(4, 37)
    x[1, 5], x[2, 36] = np.nan, np.inf
    [want] = plain(registry[name], [x], _attrs(name, axis=1))
    step = prepared(registry[name], [x], [want], _attrs(name, axis=1))
    np.testing.assert_allclose(step([x])[0], want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("shape", [(5, 3, 7), (2, 70, 33), (130, 20, 16)])
def test_softmax_along_any_axis(shape: tuple[int, ...], axis: int) -> None:
    x, g = _normal(*shape), _normal(*shape) + 1
    for name in ("softmax", "log_softmax"):
        assert compare(registry[name], [x * 5], _attrs(name, axis=axis), 8)
        assert compare(registry[f"_{name}_grad"], [g, x], _attrs(f"_{name}_grad", axis=axis), 8)


@pytest.mark.parametrize("axis", [1, -1])
@pytest.mark.parametrize("shape", [(4, 3, 5, 5), (3, 20, 7, 33), (70, 65), (2, 1, 1, 130)])
def test_batch_norm(shape: tuple[int, ...], axis: int) -> None:
    channels = shape[axis]
    x, own = _normal(*shape) * 3 + 50, [_normal(channels) for _ in range(4)]
    own[3] = np.abs(own[3]) + 0.1
    for training in (True, False):
        attrs = {**_attrs("BatchNorm", axis=axis, fix_gamma=False), "training": training}
        assert compare(registry["BatchNorm"], [x, *own], attrs, 30)
    grads = [_normal(*shape), x - 50, *own]
    for constant in (True, False):
        attrs = _attrs("_batch_norm_grad", axis=axis, fix_gamma=False, constant=constant)
        assert compare(registry["_batch_norm_grad"], grads, attrs, 30)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape,axis", [((4, 3, 5, 5), 1), ((3, 20, 7, 33), -1), ((70, 65), 1)])
def test_batch_norm_with_relu_and_again(shape: tuple[int, ...], axis: int, dtype: str) -> None:
    channels = shape[axis]
    x = (_normal(*shape) * 3 + 5).astype(dtype)
    own = [_normal(channels).astype(dtype) for _ in range(4)]
    own[3] = np.abs(own[3]) + own[3].dtype.type(0.1)
    op = registry["_contrib_BatchNormWithReLU"]
    for training in (False, True):
        attrs = {**_attrs(op.name, axis=axis, fix_gamma=False), "training": training}
        assert compare(op, [x, *own], attrs, 30)
    for act in ("", "relu"):
        again = _attrs("_batch_norm_apply", axis=axis, fix_gamma=False, act_type=act)
        assert compare(registry["_batch_norm_apply"], [x, *own], again, 30)
    # what is made again has the bits of the first time
    outs = plain(op, [x, *[one.copy() for one in own]], attrs)
    first, mean, inverse = prepared(op, [x, *own], outs, attrs)([x, *[one.copy() for one in own]])
    given = [x, own[0], own[1], mean, inverse]
    [second] = prepared(registry["_batch_norm_apply"], given, [first], again)(given)
    np.testing.assert_array_equal(second, first)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("axis", [1, -1])
def test_relu_is_one_function(axis: int, dtype: str) -> None:
    """By itself and at the end of BatchNorm: nan stays, -0 becomes 0."""
    x = _normal(3, 2, 37).astype(dtype)
    x[0, 0], x[1], x[2, 1, 1] = np.nan, 0, np.inf
    one = np.ones(x.shape[axis], dtype)
    own = [-one, -0.0 * one, 0 * one, one]  # gamma, beta, mean, variance: -0 of 0
    attrs = {**_attrs("BatchNorm", axis=axis, fix_gamma=False, eps=0), "training": False}

    def run(name: str, arrays: list[np.ndarray], attrs: dict[str, Any]) -> np.ndarray:
        outs = plain(registry[name], arrays, attrs)
        return prepared(registry[name], arrays, outs, attrs)(arrays)[0]

    y = run("BatchNorm", [x, *own], attrs)
    assert np.isnan(y).any() and np.signbit(y[y == 0]).any()
    again = _attrs("_batch_norm_apply", axis=axis, fix_gamma=False, act_type="relu")
    for got in (run("relu", [y], {}), run("Activation", [y], {"act_type": "relu"}),
                run("_contrib_BatchNormWithReLU", [x, *own], attrs),
                run("_batch_norm_apply", [x, *own], again)):
        np.testing.assert_array_equal(got, registry["relu"].body(np, y))
        assert not np.signbit(got[got == 0]).any()


def test_batch_norm_far_from_zero() -> None:
    """A mean much larger than the spread must not eat the variance's digits."""
    x = _normal(64, 8, 12, 12) + np.float32(1000)
    one, zero = np.ones(8, "f"), np.zeros(8, "f")
    attrs = _attrs("BatchNorm", eps=1e-5)
    outs = plain(registry["BatchNorm"], [x, one, zero, zero.copy(), one.copy()], attrs)
    step = prepared(registry["BatchNorm"], [x, one, zero, zero, one], outs, attrs)
    _, mean, inverse = step([x, one, zero, zero.copy(), one.copy()])
    exact = x.astype("float64")
    np.testing.assert_allclose(mean, exact.mean((0, 2, 3)), rtol=1e-6)
    np.testing.assert_allclose(1 / inverse**2 - 1e-5, exact.var((0, 2, 3)), rtol=1e-4)


@pytest.mark.parametrize("size", [1, 1023, 5000])
@pytest.mark.parametrize("name", ["mp_sgd_update", "mp_sgd_mom_update", "mp_nag_mom_update"])
def test_updates_in_two_precisions(name: str, size: int) -> None:
    record = registry[name]
    attrs = _attrs(name, lr=0.1, wd=0.01, rescale_grad=0.5, clip_gradient=0.4,
                   **({} if name == "mp_sgd_update" else {"momentum": 0.9}))
    master = _normal(size)
    arrays = [master.astype("float16"), (_normal(size) * 3).astype("float16"),
              *[_normal(size) for _ in record.mutates[1:]], master]
    assert compare(record, arrays, attrs, 3)


@pytest.mark.parametrize("name", ["exp", "broadcast_add", "relu"])
def test_nothing_to_do(name: str) -> None:
    arrays = [np.zeros((3, 0), "f")] * (2 if "_" in name else 1)
    assert compare(registry[name], arrays, {})


@pytest.mark.parametrize("settings", [
    {}, {"wd": 0.01}, {"clip_gradient": 0.5}, {"wd": 0.01, "rescale_grad": 0.25},
])
@pytest.mark.parametrize(("name", "states"), [
    ("sgd_update", 0), ("sgd_mom_update", 1), ("nag_mom_update", 1), ("adam_update", 2),
    ("rmsprop_update", 1)])
def test_updates(name: str, states: int, settings: dict[str, Any]) -> None:
    more = {"momentum": 0.9} if "mom" in name else {}
    arrays = [np.abs(_normal(1030 + i)[:1030]) for i in range(2 + states)]
    assert compare(registry[name], arrays, _attrs(name, lr=0.1, **settings, **more))


def test_rows_by_number() -> None:
    table = _normal(11, 5)
    for dtype in ("float32", "int32", "int64", "float64"):
        numbers = np.array([0, 10, 3, 3, 99, -4], dtype)
        assert compare(registry["take"], [table, numbers], _attrs("take"))
        assert compare(registry["take"], [table.T.copy(), numbers],
                       _attrs("take", axis=1, mode="wrap"))
        attrs = _attrs("Embedding", input_dim=11, output_dim=5)
        assert compare(registry["Embedding"], [numbers, table], attrs)
        assert compare(registry["_embedding_grad"], [_normal(6, 5), numbers, table], attrs)
        assert compare(registry["one_hot"], [numbers], _attrs("one_hot", depth=4)) == (
            dtype != "float64")


_TWO_THREADS = """
import numpy as np
from minigluon.device.cpu import native
x = np.random.default_rng(0).standard_normal((64, 48, 40)).astype("f")
for name, attrs in (("exp", {}), ("softmax", {"axis": 1}), ("sum", {"axis": (0, 2)}),
                    ("sum", {"axis": 0}), ("mean", {"axis": 2}), ("max", {})):
    folded = np.sum(x, axis=attrs.get("axis")).reshape(-1).shape
    shape = folded if name in "sum mean max" else x.shape
    step = native.step(name, [native.desc_of(x)], [("float32", shape)], attrs)
    print(step([x])[0].tobytes().hex()[:4000])
"""


def _printed(**environment: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", _TWO_THREADS], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}).stdout


def test_two_threads_give_the_same_bits() -> None:
    seen = {_printed(OMP_NUM_THREADS=threads) for threads in ("1", "2")}
    assert len(seen) == 1 and len(next(iter(seen))) > 1000


@pytest.mark.parametrize("isa", ["base", "v3"])
def test_other_instruction_sets(isa: str) -> None:
    best, other = ([np.frombuffer(bytes.fromhex(line), "f4") for line in text.split()]
                   for text in (_printed(), _printed(MINIGLUON_ISA=isa)))
    for a, b in zip(best, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
