"""The MLP's loss curve equals MXNet 1.9.1's to 1e-4 over 100 steps (figures in tests/oracle)."""
import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

import minigluon as mx

ORACLE = Path(__file__).parent.parent / "oracle"
spec = importlib.util.spec_from_file_location("mlp_curve", ORACLE / "mlp_curve.py")
mlp_curve = importlib.util.module_from_spec(spec)
spec.loader.exec_module(mlp_curve)


@pytest.mark.parametrize("hybridize", [False, True], ids=["imperative", "hybridized"])
@pytest.mark.parametrize("dtype,tolerance", [("float32", 1e-4), ("float64", 1e-6)])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_loss_curve_equals_mxnet(optimizer, dtype, tolerance, hybridize):
    expected = json.loads((ORACLE / "mlp_curve.json").read_text())[f"{optimizer}-{dtype}"]
    losses = mlp_curve.curve(mx, optimizer, hybridize, dtype)
    assert len(losses) == len(expected) == 100
    assert np.max(np.abs(np.array(losses) - expected)) < tolerance
