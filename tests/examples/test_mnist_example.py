"""examples/mnist/train.py as its reader runs it, on few digits."""
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import minigluon as mx

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = str(ROOT / "examples" / "mnist" / "train.py")
QUICK = ["--net", "mlp", "--limit", "1200", "--epochs", "2"]


def run(folder, *command):
    env = {name: value for name, value in os.environ.items() if not name.startswith("DMLC_")}
    env.update(PYTHONPATH=str(ROOT), MINIGLUON_OFFLINE="1", OMP_NUM_THREADS="1")
    result = subprocess.run([sys.executable, *command], cwd=folder, env=env, timeout=100,
                            capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result


def train(folder, *options):
    return run(folder, EXAMPLE, *QUICK, *options)


def losses(result):
    return [float(loss) for loss in re.findall(r"^epoch \d: loss ([\d.]+)", result.stdout, re.M)]


def test_alone(tmp_path):
    result = train(tmp_path)
    *_, saved, last = result.stdout.splitlines()
    assert float(re.fullmatch(r"test accuracy: (0\.\d{3})", last)[1]) > 0.7
    assert saved == "parameters saved in mnist.params"
    assert mx.nd.load(str(tmp_path / "mnist.params"))["0.weight"].shape == (128, 784)
    first, second = losses(result)
    assert second < first < 2.3
    assert re.search(r"epoch 2: +\d+%\|.*loss=", result.stderr)  # the bar


def test_other_ways_compute_the_same(tmp_path):
    expected = losses(train(tmp_path, "--save", ""))
    for options in (["--ctx", "cpu:2", "--no-hybridize", "--batch-size", "32"],
                    ["--num-workers", "2"]):
        assert losses(train(tmp_path, "--save", "", *options)) == pytest.approx(expected, abs=2e-3)
    assert not list(tmp_path.iterdir())


def test_lenet(tmp_path):
    result = run(tmp_path, EXAMPLE, "--limit", "400", "--epochs", "1", "--save", "")
    assert re.search(r"^test accuracy: 0\.\d{3}\Z", result.stdout.strip(), re.M)


@pytest.mark.slow
def test_launched(tmp_path):
    result = run(tmp_path, str(ROOT / "tools" / "launch.py"), "-n", "2", "-s", "1", sys.executable,
                 EXAMPLE, *QUICK)
    shown = result.stdout + result.stderr
    assert re.search(r"worker 0.*test accuracy: 0\.\d{3}", shown)
    assert not re.search(r"worker 1.*(epoch|accuracy)", shown)  # rank 0 alone speaks
    assert (tmp_path / "mnist.params").exists()
