"""Recurrent networks: the kernels against the plain bodies, differences, and eager calls."""
from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from against_body import Array, normal, threads

import minigluon as mx
from minigluon import autograd
from minigluon.device.cpu import native
from minigluon.ops import registry
from minigluon.ops.nn.rnn import _net, packed_size

pytestmark = pytest.mark.skipif(not native.onednn, reason="oneDNN's kernels are not built")

MODES = ("lstm", "gru", "rnn_tanh", "rnn_relu")
RNN, GRAD = registry["RNN"], registry["_rnn_grad"]


def _attrs(mode: str, hidden: int, layers: int = 1, both: bool = False, p: float = 0.0
           ) -> dict[str, Any]:
    return RNN.parse({"mode": mode, "state_size": hidden, "num_layers": layers, "p": p,
                      "bidirectional": both, "state_outputs": True})


def _inputs(attrs: dict[str, Any], steps: int, batch: int, inputs: int = 3) -> list[Array]:
    mode, hidden, layers = attrs["mode"], attrs["state_size"], attrs["num_layers"]
    both = attrs["bidirectional"]
    states = [normal(layers * (1 + both), batch, hidden, seed=k) for k in range(1, 3)]
    size = packed_size(mode, inputs, hidden, layers, both)
    vector = normal(size) * np.float32(1 / np.sqrt(hidden + inputs))
    return [normal(steps, batch, inputs), vector, *states[:1 + (mode == "lstm")]]


def _body(arrays: list[Array], attrs: dict[str, Any], training: bool = False) -> list[Array]:
    return list(RNN.body(np, *arrays, **attrs, rng=np.random.default_rng(3), training=training))


def _backward_inputs(arrays: list[Array], outs: list[Array]) -> list[Array]:
    heads = [normal(*out.shape, seed=7 + k).astype(out.dtype) for k, out in enumerate(outs[:-1])]
    cells = [heads[2], arrays[3]] if len(arrays) > 3 else []
    return [heads[0], heads[1], *arrays[:3], outs[0], outs[-1], *cells]


def _step(op: str, arrays: list[Array], outs: list[Array], attrs: dict[str, Any]) -> Any:
    return native.step(op, [native.desc_of(one) for one in arrays],
                       [native.desc_of(one) for one in outs], attrs)


def _near(got: list[Array], want: list[Array], tolerance: float = 2e-5) -> None:
    for place, (one, other) in enumerate(zip(got, want, strict=True)):
        assert one.shape == other.shape and one.dtype == other.dtype
        size = max(float(np.abs(other).max()), 1e-30)
        np.testing.assert_allclose(one / size, other / size, rtol=0, atol=tolerance,
                                   err_msg=f"output {place}")


def _check(attrs: dict[str, Any], steps: int, batch: int) -> None:
    """Forward and backward."""
    arrays = _inputs(attrs, steps, batch)
    outs = _body(arrays, attrs)
    step = _step("RNN", arrays, outs, {**attrs, "training": False})
    assert step is not None
    _near(step(arrays), outs)
    given = _backward_inputs(arrays, outs)
    grads = list(GRAD.body(np, *given, **attrs))
    step = _step("_rnn_grad", given, grads, attrs)
    assert step is not None
    _near(step(given), grads)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("layers", "both"), [(1, False), (1, True), (2, False), (3, True)])
def test_kernels_equal_the_bodies(mode: str, layers: int, both: bool) -> None:
    for hidden, (steps, batch) in product((1, 7, 17, 32), ((1, 1), (4, 1), (1, 5), (5, 6))):
        _check(_attrs(mode, hidden, layers, both), steps, batch)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("mode", MODES)
def test_samples_are_shared_out(mode: str, count: int) -> None:
    """So much work that two threads take it, uneven parts each."""
    with threads(count):
        _check(_attrs(mode, 100, 2, True), 12, 9)


class _Given:
    """A generator of numbers that are known: those for a mask of this layer."""

    def __init__(self, masks: list[Array]) -> None:
        self.masks = masks

    def random(self, shape: tuple[int, ...], dtype: Any) -> Array:
        return (self.masks.pop(0) > 0).reshape(shape).astype(dtype)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("both", [False, True])
def test_dropout_between_layers(mode: str, both: bool, count: int) -> None:
    attrs = _attrs(mode, 37, 3, both, p=0.4)
    _check(attrs, 4, 5)  # outside training nothing is dropped
    arrays = _inputs(attrs, 11, 5)
    outs = _body(arrays, attrs)
    kept = {name: place for name, place in _reserved(arrays, attrs).items() if "mask" in name}
    with threads(count):
        step = _step("RNN", arrays, outs, {**attrs, "training": True})
        step.seed(7, 1)
        found = step(arrays)
        masks = [found[-1][place] for place in kept.values()]
        step.seed(7, 1)
        np.testing.assert_array_equal(step(arrays)[-1], found[-1])
        step.seed(7, 2)
        assert (step(arrays)[-1][kept["mask0"]] != masks[0]).any()
    assert (masks[0] != masks[1]).any()
    for mask in masks:
        assert set(np.unique(mask)) == {np.float32(0), np.float32(1 / 0.6)}
        assert (mask == 0).mean() == pytest.approx(0.4, abs=0.06)
    outs = list(RNN.body(np, *arrays, **attrs, rng=_Given(masks), training=True))
    _near(found, outs)
    given = _backward_inputs(arrays, outs)
    _near(_step("_rnn_grad", given, arrays, attrs)(given), list(GRAD.body(np, *given, **attrs)))


def _reserved(arrays: list[Array], attrs: dict[str, Any]) -> dict[str, slice]:
    """Where the parts of `reserve` lie."""
    found, start = {}, 0
    for name, shape in _net(arrays[0].shape, attrs).reserved():
        found[name] = slice(start, start + int(np.prod(shape)))
        start = found[name].stop
    return found


@pytest.mark.parametrize("mode", MODES)
def test_gradients_are_differences(mode: str) -> None:
    """Along one direction, in double precision, against what the kernels give in single."""
    attrs = _attrs(mode, 7, 2, True)
    arrays = _inputs(attrs, 4, 3)
    outs = _body(arrays, attrs)
    given = _backward_inputs(arrays, outs)
    grads = _step("_rnn_grad", given, arrays, attrs)(given)
    heads = [given[0], given[1], *given[7:8]]
    along = [normal(*one.shape, seed=11 + k) for k, one in enumerate(arrays)]

    def at(step: float) -> float:
        moved = [one.astype("float64") + step * way for one, way in zip(arrays, along, strict=True)]
        return sum(float((out * head).sum())
                   for out, head in zip(_body(moved, attrs), heads, strict=False))

    want = (at(1e-6) - at(-1e-6)) / 2e-6
    got = sum(float((grad.astype("float64") * way).sum())
              for grad, way in zip(grads, along, strict=True))
    assert got == pytest.approx(want, rel=2e-4)


def test_nan_reaches_its_sample_alone() -> None:
    for mode in MODES:
        attrs = _attrs(mode, 7)
        arrays = _inputs(attrs, 4, 3)
        arrays[0][1, 2, 0] = np.nan
        outs = _body(arrays, attrs)
        got = _step("RNN", arrays, outs, {**attrs, "training": False})(arrays)
        np.testing.assert_array_equal(np.isnan(got[0]), np.isnan(outs[0]))
        np.testing.assert_array_equal(np.isnan(got[1]), np.isnan(outs[1]))


def test_what_kernels_leave_to_the_body() -> None:
    attrs = _attrs("lstm", 4, 2, p=1)
    arrays = _inputs(attrs, 3, 2)
    outs = _body(arrays, attrs)
    assert _step("RNN", arrays, outs, {**attrs, "training": True}) is None
    assert _step("RNN", arrays, outs, {**attrs, "training": False}) is not None
    for more in ({"use_sequence_length": True}, {"projection_size": 2},
                 {"lstm_state_clip_min": -1.0, "lstm_state_clip_max": 1.0}):
        assert _step("RNN", arrays, outs, {**attrs, "training": False, **more}) is None
        assert _step("_rnn_grad", _backward_inputs(arrays, outs), arrays, {**attrs, **more}) is None
    double = [one.astype("float64") for one in arrays]
    assert _step("RNN", double, _body(double, attrs), {**attrs, "training": False}) is None


LAYERS = {
    "lstm": lambda: mx.gluon.rnn.LSTM(17, 2, bidirectional=True, input_size=5),
    "gru": lambda: mx.gluon.rnn.GRU(17, 2, layout="NTC", input_size=5),
    "tanh": lambda: mx.gluon.rnn.RNN(17, 1, activation="tanh", input_size=5),
    "relu": lambda: mx.gluon.rnn.RNN(17, 2, activation="relu", input_size=5),
    "dropout": lambda: mx.gluon.rnn.LSTM(17, 2, dropout=0.5, input_size=5),
}


def _never(*args: Any, **attrs: Any) -> Any:
    raise AssertionError("a body ran where a kernel should")


@pytest.mark.parametrize("kind", LAYERS)
def test_layers_hybridized_equal_eager(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded: output and all gradients; the same draws in both; by the kernels alone."""
    for op in (RNN, GRAD):
        monkeypatch.setattr(op, "body", _never)
    layer = LAYERS[kind]()
    layer.initialize(mx.init.Uniform(0.3))
    x = mx.nd.array(normal(6, 4, 5))
    x.attach_grad()
    found = []
    for hybrid in (False, True):
        layer.hybridize(hybrid)
        mx.random.seed(5)
        with autograd.record():
            out = layer(x)
            total = (out * out).sum()
        total.backward()
        found.append([out.asnumpy(), x.grad.asnumpy(),
                      *[one.grad().asnumpy() for one in layer.collect_params().values()]])
    _near(found[1], found[0])
