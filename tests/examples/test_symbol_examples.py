"""The MNIST examples with symbols, as their readers run them, on few digits."""
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import minigluon as mx

ROOT = Path(__file__).resolve().parents[2]
SYMBOL = str(ROOT / "examples" / "mnist" / "train_symbol.py")
PARALLEL = str(ROOT / "examples" / "mnist" / "train_model_parallel.py")
QUICK = ["--net", "mlp", "--limit", "1200", "--epochs", "2"]


def run(folder, *command):
    env = {name: value for name, value in os.environ.items() if not name.startswith("DMLC_")}
    env.update(PYTHONPATH=str(ROOT), MINIGLUON_OFFLINE="1", OMP_NUM_THREADS="1")
    result = subprocess.run([sys.executable, *command], cwd=folder, env=env, timeout=100,
                            capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


def accuracy(shown):
    return float(re.search(r"test accuracy: (\d\.\d{3})", shown)[1])


def test_module_with_checkpoints(tmp_path):
    shown = run(tmp_path, SYMBOL, *QUICK, "--prefix", "digits")
    assert accuracy(shown) > 0.7
    assert "Epoch[1] Train-accuracy=" in shown
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "digits-0001.params", "digits-0001.states", "digits-0002.params", "digits-0002.states",
        "digits-symbol.json"]
    symbol, args, _ = mx.model.load_checkpoint(str(tmp_path / "digits"), 2)
    assert symbol.list_outputs() == ["softmax_output"] and args["fc1_weight"].shape == (128, 784)
    went_on = run(tmp_path, SYMBOL, "--limit", "1200", "--prefix", "digits", "--load-epoch", "2",
                  "--epochs", "3", "--ctx", "cpu:2")
    assert "Epoch[2] Train-accuracy=" in went_on and "Epoch[1]" not in went_on
    assert accuracy(went_on) > 0.75


def test_lenet(tmp_path):
    assert accuracy(run(tmp_path, SYMBOL, "--limit", "500", "--epochs", "1")) > 0.2


def test_layers_on_two_devices(tmp_path):
    shown = run(tmp_path, PARALLEL, "--limit", "600", "--epochs", "2", "--first", "cpu:3")
    assert "conv2_weight on cpu(3)" in shown and "fc1_weight on cpu(1)" in shown
    first, second = (float(loss) for loss in re.findall(r"loss (\d\.\d+)", shown))
    assert second < first < 2.5
    assert accuracy(shown) > 0.5


@pytest.mark.slow
def test_launched(tmp_path):
    shown = run(tmp_path, str(ROOT / "tools" / "launch.py"), "-n", "2", "-s", "1", sys.executable,
                SYMBOL, *QUICK)
    assert re.search(r"worker 1 .*Epoch\[1\] Train-accuracy", shown)
    assert accuracy(shown) > 0.7
