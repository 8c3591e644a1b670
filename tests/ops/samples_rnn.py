"""Samples of the recurrent operators and of CTC."""
from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from sample import Input, Sample, between

from minigluon.base import ArgumentValueError, DTypeError, ShapeError
from minigluon.ops.nn.rnn import packed, packed_size

SAMPLES: dict[str, list[Sample]] = {"RNN": [], "_rnn_grad": []}
_r = between

T, N, C, H = 4, 3, 2, 3
LENGTHS = np.array([2, 4, 1], "int32")


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _step(mode: str, x: np.ndarray, h: np.ndarray, c: Any, w: dict[str, np.ndarray]) -> Any:
    """One step of one cell, as the formulas say."""
    inner = x @ w["i2h_weight"].T + w["i2h_bias"]
    outer = h @ w["h2h_weight"].T + w["h2h_bias"]
    if mode == "lstm":
        i, f, n, o = np.split(inner + outer, 4, axis=-1)
        c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(n)
        h = _sigmoid(o) * np.tanh(c)
        return (h @ w["h2r_weight"].T if "h2r_weight" in w else h), c
    if mode == "gru":
        (ir, iz, iN), (hr, hz, hn) = np.split(inner, 3, axis=-1), np.split(outer, 3, axis=-1)
        z = _sigmoid(iz + hz)
        return (1 - z) * np.tanh(iN + _sigmoid(ir + hr) * hn) + z * h, None
    total = inner + outer
    return (np.tanh(total) if mode == "rnn_tanh" else np.maximum(total, 0)), None


def _reference(attrs: dict[str, Any]) -> Any:
    """RNN by its formulas, one sample and one step at a time."""
    mode, layers = attrs["mode"], attrs["num_layers"]
    sides = "lr" if attrs.get("bidirectional") else "l"
    projection = attrs.get("projection_size")

    def run(data: np.ndarray, vector: np.ndarray, state: np.ndarray, *rest: np.ndarray) -> Any:
        cells = rest[0] if mode == "lstm" else np.zeros_like(state)
        lengths = rest[-1] if attrs.get("use_sequence_length") else np.full(N, T)
        weights, start = {}, 0
        for name, shape in packed(mode, C, H, layers, len(sides) == 2, projection):
            weights[name] = vector[start:start + np.prod(shape)].reshape(shape)
            start += np.prod(shape)
        state, cells = state.copy(), cells.copy()
        for layer in range(layers):
            parts = []
            for number, side in enumerate(sides):
                own = {name[3:]: w for name, w in weights.items() if name[:3] == f"{side}{layer}_"}
                place = layer * len(sides) + number
                out = np.zeros((T, N, state.shape[2]), data.dtype)
                for n, length in enumerate(lengths):
                    for t in range(length) if side == "l" else reversed(range(length)):
                        state[place, n], cell = _step(mode, data[t, n], state[place, n],
                                                      cells[place, n], own)
                        out[t, n] = state[place, n]
                        cells[place, n] = cell if cell is not None else 0
                parts.append(out)
            data = np.concatenate(parts, axis=-1)
        if not attrs.get("state_outputs"):
            return data
        return [data, state, cells] if mode == "lstm" else [data, state]

    return run


def _inputs(attrs: dict[str, Any]) -> list[Input]:
    mode, layers, both = attrs["mode"], attrs["num_layers"], attrs.get("bidirectional", False)
    size = attrs.get("projection_size")
    places = layers * (2 if both else 1)
    states = [_r(places, N, size or H)] + [_r(places, N, H)] * (mode == "lstm")
    return [_r(T, N, C), _r(packed_size(mode, C, H, layers, both, size)), *states,
            *[LENGTHS] * attrs.get("use_sequence_length", 0)]


for _mode, (_layers, _both), _used in product(
        ("rnn_tanh", "rnn_relu", "lstm", "gru"), ((1, False), (2, True)), (False, True)):
    _attrs = {"mode": _mode, "state_size": H, "num_layers": _layers, "bidirectional": _both,
              "use_sequence_length": _used, "state_outputs": _both or _used}
    SAMPLES["RNN"].append(Sample(_inputs(_attrs), _attrs, reference=_reference(_attrs)))
for _both, _used in ((False, False), (True, True)):
    _attrs = {"mode": "lstm", "state_size": H, "num_layers": 2, "bidirectional": _both,
              "projection_size": 2, "use_sequence_length": _used, "state_outputs": True}
    SAMPLES["RNN"].append(Sample(_inputs(_attrs), _attrs, reference=_reference(_attrs)))
_lstm: dict[str, Any] = {"mode": "lstm", "state_size": H, "num_layers": 1}
_data, _vector, _h, _c = _inputs(_lstm)
SAMPLES["RNN"] += [
    Sample(_inputs(_lstm), {**_lstm, "lstm_state_clip_min": -0.3, "lstm_state_clip_max": 0.3,
                            "state_outputs": True}),
    Sample(_inputs({**_lstm, "mode": "gru", "num_layers": 2}),
           {**_lstm, "mode": "gru", "num_layers": 2, "p": 0.4}, random=True),
    Sample(_inputs(_lstm), _lstm, reference=_reference(_lstm), bad=[
        ([_data, _r(5), _h, _c], _lstm, ShapeError, f"expected shape ({_vector[0][0]},)"),
        ([_r(4, 3), _vector, _h, _c], _lstm, ShapeError, "data (time, batch, size)"),
        ([_data, _vector, _r(1, N, 2), _c], _lstm, ShapeError, "state: expected shape (1, 3, 3)"),
        ([_data, _vector, _r(1, 1, H), _c], _lstm, ShapeError, "state: expected"),
        ([_data, _vector, _h, _r(2, N, H)], _lstm, ShapeError, "state_cell: expected"),
        ([_data, _vector, _h, np.zeros((1, N, H), "int32")], _lstm, DTypeError, "one dtype"),
        ([_data, _vector, _h, _c], {**_lstm, "p": 2}, ArgumentValueError, "probability"),
        ([_data, _vector, _h, _c], {**_lstm, "state_size": 0}, ArgumentValueError, "state_size"),
        ([_data, _vector, _h, _c], {**_lstm, "lstm_state_clip_min": 0}, ArgumentValueError,
         "both or neither"),
        ([_data, _vector, _h], {**_lstm, "mode": "gru", "projection_size": 2},
         ArgumentValueError, "only mode='lstm'"),
        ([_data, _vector, _h, _c], {**_lstm, "mode": "elman"}, ArgumentValueError, "one of"),
    ])]


def _kept(attrs: dict[str, Any]) -> list[np.ndarray]:
    """The inputs of _rnn_grad: those of RNN, what it gave, and gradients of its outputs."""
    from minigluon import nd

    random = np.random.default_rng(5)
    arrays = [random.uniform(-1, 1, shape[0]).astype("float32")
              if isinstance(shape, tuple) else shape for shape in _inputs(attrs)]
    op = nd.RNN.operator
    outs = op.body(np, *arrays, **op.parse(attrs), rng=random, training=True)
    data, vector, *states = arrays
    grads = [random.uniform(-1, 1, out.shape).astype("float32") for out in outs[:-1]]
    front = [grads[0], grads[1], data, vector, states[0], outs[0], outs[-1]]
    if attrs["mode"] == "lstm":
        return [*front, grads[2], *states[1:]]
    return front + states[1:]


for _mode, _used in (("rnn_tanh", False), ("gru", True), ("lstm", False), ("lstm", True)):
    _attrs = {"mode": _mode, "state_size": H, "num_layers": 2, "use_sequence_length": _used}
    SAMPLES["_rnn_grad"].append(Sample(_kept(_attrs), _attrs, grad=False))

SAMPLES["_rnn_param_concat"] = [
    Sample([_r(4), _r(2)], {"dim": 0}, second_order=True,
           reference=lambda *xs: np.concatenate(xs),
           bad=[([_r(2, 2), _r(2)], {"dim": 0}, ShapeError, "expected vectors"),
                ([_r(2), _r(2)], {}, ArgumentValueError, "dim: expected 0")]),
    Sample([_r(3)], {"dim": 0}, second_order=True, reference=np.copy)]


# -- CTC ----------------------------------------------------------------------------------------

def _all_ways(blank: int, use: str = "") -> Any:
    """CTC by its definition: add up all ways to name a class at each step."""

    def run(data: np.ndarray, label: np.ndarray, *lengths: np.ndarray) -> np.ndarray:
        steps, batch, classes = data.shape
        p = np.exp(data) / np.exp(data).sum(2, keepdims=True)
        found = np.zeros(batch, data.dtype)
        for n in range(batch):
            length = int(lengths[0][n]) if "data" in use else steps
            if "label" in use:
                wanted = label[n, :int(lengths[-1][n])].tolist()
            else:
                padding = 0 if blank == 0 else -1
                wanted = [*label[n].tolist(), padding]
                wanted = wanted[:wanted.index(padding)]
            total = 0.0
            for way in product(range(classes), repeat=length):
                shown = [k for place, k in enumerate(way) if place == 0 or way[place - 1] != k]
                if [k for k in shown if k != blank] == wanted:
                    total += np.prod([p[t, n, k] for t, k in enumerate(way)])
            found[n] = -np.log(total) if total else 0
        return found

    return run


_LABELS = np.array([[1, 2, 0], [2, 2, 0], [0, 0, 0], [1, 1, 1]], "int32")
_LAST = np.array([[0, 1, -1], [1, 1, -1], [-1, -1, -1], [0, 0, 0]], "int32")
_STEPS, _COUNTS = np.array([4, 3, 2, 4], "int32"), np.array([2, 1, 0, 2], "int32")
SAMPLES["CTCLoss"] = [
    Sample([_r(4, 4, 3), _LABELS], reference=_all_ways(0),
           bad=[([_r(4, 3, 3), _LABELS], {}, ShapeError, "batch size"),
                ([_r(2, 4, 3), _LABELS], {}, ShapeError, "no longer than the data"),
                ([_r(4, 3), _LABELS], {}, ShapeError, "data (time, batch, alphabet)"),
                ([_r(4, 4, 3), _STEPS], {}, ShapeError, "label (batch, length)")]),
    Sample([_r(4, 4, 3), _LAST], {"blank_label": "last"}, reference=_all_ways(2)),
    Sample([_r(4, 4, 3), _LABELS, _STEPS, _COUNTS],
           {"use_data_lengths": True, "use_label_lengths": True},
           reference=_all_ways(0, "data label")),
    Sample([_r(4, 4, 3), _LABELS, _COUNTS], {"use_label_lengths": True},
           reference=_all_ways(0, "label"))]
SAMPLES["_ctc_grad"] = [
    Sample([_r(4), _r(4, 4, 3, low=-0.1, high=0.1), np.full((4, 4, 7), -5.0), _LABELS],
           grad=False)]
