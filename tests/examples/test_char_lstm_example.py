"""examples/char_lstm/train.py as its reader runs it, on a few words."""
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = str(ROOT / "examples" / "char_lstm" / "train.py")
QUICK = ["--limit", "3000", "--epochs", "6", "--hidden", "48", "--layers", "1", "--lr", "0.02",
         "--length", "40", "--dropout", "0"]


def run(*options):
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    result = subprocess.run([sys.executable, EXAMPLE, *QUICK, *options], env=env, timeout=100,
                            capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    losses = [float(loss) for loss in re.findall(r"^epoch \d: loss ([\d.]+)", result.stdout, re.M)]
    return losses, re.search(r"^sample: (.*)\Z", result.stdout.rstrip("\n"), re.M | re.S)[1]


def test_it_learns_and_writes():
    losses, sample = run()
    assert len(losses) == 6
    assert losses[-1] < 2.6 < 3.4 < losses[0]
    assert sample.startswith("You may ") and len(sample) == 48


def test_hybridized_or_not_it_learns_the_same():
    losses, sample = run("--temperature", "0")
    eager, same = run("--temperature", "0", "--no-hybridize")
    assert losses == pytest.approx(eager, abs=2e-3)
    assert sample == same
