"""Samples of the operators over several arrays (`ops/multi.py`); figures of MXNet 1.9.1."""
from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from sample import Bad, Input, Sample, between

from minigluon.base import ArgumentError, ArgumentValueError, ShapeError

__all__ = ["SAMPLES"]

SAMPLES: dict[str, list[Sample]] = defaultdict(list)
_r = between


def _add(name: str, inputs: list[Input], attrs: dict[str, Any], reference: Any,
         bad: list[Bad] | None = None) -> None:
    SAMPLES[name].append(Sample(inputs, attrs, grad=False, reference=reference, bad=bad or []))


_TWO = {"num_weights": 2, "rescale_grad": 0.5, "clip_gradient": 0.2}
_LRS, _WDS = (0.1, 0.3), (0.01, 0.0)
_SHAPES = [(3, 2), (4,)]


def _sgd(w: Any, g: Any, lr: float, wd: float) -> Any:
    return (1 - lr * wd) * w - lr * np.clip(g * 0.5, -0.2, 0.2)


def _mom(w: Any, g: Any, m: Any, lr: float, wd: float) -> Any:
    return w + 0.9 * m - lr * wd * w - lr * np.clip(g * 0.5, -0.2, 0.2)


_RULES: dict[str, tuple[int, dict[str, Any], Any]] = {
    "sgd_update": (2, {}, _sgd),
    "sgd_mom_update": (3, {"momentum": 0.9}, _mom),
    "mp_sgd_update": (3, {}, lambda w, g, w32, lr, wd: _sgd(w32, g, lr, wd)),
    "mp_sgd_mom_update": (4, {"momentum": 0.9},
                          lambda w, g, m, w32, lr, wd: _mom(w32, g, m, lr, wd)),
}

for _name, (_width, _attrs, _rule) in _RULES.items():

    def _reference(*arrays: Any, width: int = _width, rule: Any = _rule) -> list[Any]:
        return [rule(*arrays[i * width:(i + 1) * width], _LRS[i], _WDS[i]) for i in range(2)]

    _inputs: list[Input] = [_r(*shape) for shape in _SHAPES for _ in range(_width)]
    _given = {**_TWO, **_attrs, "lrs": _LRS, "wds": _WDS}
    _add(f"multi_{_name}", _inputs, _given, _reference, bad=[
        (_inputs[:-1], _given, ArgumentValueError, "for each of num_weights=2 weights"),
        ([_r(2), *_inputs[1:]], _given, ShapeError, "expected equal shapes"),
        (_inputs, {**_given, "lrs": (0.1,)}, ArgumentValueError, "lrs: expected 2 numbers"),
        (_inputs, {**_TWO, "lrs": _LRS}, ArgumentError, "missing required argument 'wds'")])
    _loaded = [*_inputs, np.array(_LRS, "float32"), np.array(_WDS, "float32")]
    _add(f"preloaded_multi_{_name}", _loaded, {**_TWO, **_attrs}, _reference, bad=[
        (_loaded[1:], {**_TWO, **_attrs}, ArgumentValueError, "for each of num_weights=2")])

_numbers = [np.array(x, "float32") for x in ([1, 2, 3], [4, 0, 4], [9, 9, 0], [0.1, 0.1, 0.1])]
_add("multi_lars", _numbers, {"eta": 0.5, "eps": 0.25, "rescale_grad": 2.0},
     lambda *arrays: np.array([0.15503876, 2, 3], arrays[0].dtype),
     bad=[([_r(3), _r(3), _r(2), _r(3)], {"eta": 0.5, "eps": 0}, ShapeError, "equal shapes")])


def _arrays(*rows: list[float]) -> list[Input]:
    return [np.array(row, "float32") for row in rows]


_W, _G, _M, _V = [1.0, 2.0], [0.5, -0.5], [0.1, 0.1], [0.2, 0.2]
for _kind, _copy in (("", []), ("mp_", [_W])):
    _first = f"{_kind}lamb_update_phase1"
    _add(_first, _arrays(_W, _G, _M, _V, *_copy),
         {"t": 3, "wd": 0.1, "clip_gradient": 0.3, "rescale_grad": 2.0},
         lambda *x: np.array([0.15421985, 0.22710992], x[0].dtype),
         bad=[(_arrays(_W, _G, _M, _V, *_copy), {"t": 3}, ArgumentError,
               "missing required argument 'wd'")])
    _add(_first, _arrays(_W, _G, [0.12, 0.06], [0.19989, 0.19989], *_copy),
         {"t": 3, "wd": 0.1, "bias_correction": False},
         lambda *x: np.array([0.4533509, 0.20894554], x[0].dtype))
    _second = f"{_kind}lamb_update_phase2"
    _ones = [1.0, 1.0]
    for _attrs, _r1, _wanted in (({}, 2.0, [0.95, 1.95]),
                                 ({"lower_bound": 5.0}, 2.0, [0.875, 1.875]),
                                 ({"upper_bound": 1.0}, 2.0, [0.975, 1.975]),
                                 ({}, 0.0, [0.9, 1.9])):
        _add(_second, _arrays(_W, _ones, [_r1], [4.0], *_copy), {"lr": 0.1, **_attrs},
             lambda *x, wanted=_wanted: np.array(wanted, x[0].dtype),
             bad=[(_arrays(_W, [1.0], [2.0], [4.0], *_copy), {"lr": 0.1}, ShapeError,
                   "expected equal shapes")])
