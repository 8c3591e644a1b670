"""The MLP's loss curve equals MXNet 1.9.1's over 100 steps of each optimizer (tests/oracle).

To 1e-4 in float32, where rounding adds up over the steps, and to 1e-6 in float64.
"""
from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import minigluon as mx

ORACLE = Path(__file__).resolve().parents[1] / "oracle"
sys.path.insert(0, str(ORACLE))

import mlp_curve  # noqa: E402

CURVES = json.loads((ORACLE / "mlp_curve.json").read_text())
TOLERANCE = {"float32": 1e-4, "float64": 1e-6}
# MXNet computes norms in float32 in these, also for float64.
LESS = {"lamb float64 relu": 1e-3, "lars float64 relu": 1e-5}


@pytest.mark.parametrize("curve", CURVES)
def test_loss_curve_equals_mxnet(curve: str) -> None:
    case, dtype, activation = curve.split()
    losses = mlp_curve.curve(mx, case, dtype, activation)
    assert len(losses) == len(CURVES[curve]) == 100
    assert np.abs(np.array(losses) - CURVES[curve]).max() < LESS.get(curve, TOLERANCE[dtype])


@pytest.mark.parametrize("case", ["sgd", "adam", "lamb"])
def test_the_same_hybridized(case: str) -> None:
    losses = mlp_curve.curve(mx, case, "float32", "softrelu", hybridize=True)
    assert np.abs(np.array(losses) - CURVES[f"{case} float32 softrelu"]).max() < 1e-4


def test_every_optimizer_has_a_curve_and_learns() -> None:
    names = {name for name, _ in mlp_curve.OPTIMIZERS.values()} | {"ccsgd"}  # sgd's older name
    assert names == {name for name, kind in mx.optimizer.Optimizer.opt_registry.items()
                     if kind.__module__.startswith("minigluon.optimizer.")}
    for case in mlp_curve.OPTIMIZERS:
        curve = CURVES[f"{case} float32 softrelu"]
        assert curve[-1] < 0.9 * curve[0], case
