"""The smaller examples as their readers run them, on few digits and words."""
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(example, *options, cwd=None):
    env = {name: value for name, value in os.environ.items() if not name.startswith("DMLC_")}
    env.update(PYTHONPATH=str(ROOT), MINIGLUON_OFFLINE="1", OMP_NUM_THREADS="1")
    result = subprocess.run([sys.executable, str(ROOT / "examples" / example), *options], env=env,
                            cwd=cwd, timeout=100, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def losses(text):
    return [float(loss) for loss in re.findall(r"^epoch \d+: loss ([\d.]+)", text, re.M)]


def test_imperative():
    text = run("mnist/train_imperative.py", "--limit", "1200", "--epochs", "2")
    first, second = losses(text)
    assert second < first < 2.3
    assert float(re.search(r"test accuracy: (0\.\d+)", text)[1]) > 0.75


@pytest.mark.parametrize("devices", ["1", "3"])
def test_multi_device(devices):
    text = run("mnist/train_multi_device.py", "--limit", "960", "--epochs", "2", "--devices",
               devices)
    first, second = losses(text)
    assert second < first < 2.3
    assert f"cpu({int(devices) - 1})" in text
    assert "copies: 0" in text
    assert float(re.search(r"test accuracy: (0\.\d+)", text)[1]) > 0.6


def test_multi_device_computes_what_one_device_does():
    options = ("mnist/train_multi_device.py", "--limit", "256", "--epochs", "2")
    assert losses(run(*options)) == pytest.approx(losses(run(*options, "--devices", "1")),
                                                  abs=2e-4)


def test_fine_tune():
    text = run("fine_tune/train.py", "--limit", "600", "--epochs", "2", "--few", "100",
               "--tune-epochs", "2")
    assert "mobilenet0.25 on 600 digits 0 to 4: loss" in text
    found = [float(each) for each in re.findall(r"100 samples: accuracy (\d\.\d+)", text)]
    assert len(found) == 2 and all(each > 0.1 for each in found)


def test_dcgan(tmp_path):
    text = run("dcgan/train.py", "--limit", "384", "--epochs", "2", "--width", "8", "--save",
               "drawn.pgm", cwd=tmp_path)
    shown = re.findall(r"^epoch \d: discriminator ([\d.]+), generator ([\d.]+)", text, re.M)
    (first, _), (second, _) = shown
    assert float(second) < float(first) < 0.75
    picture = (tmp_path / "drawn.pgm").read_bytes()
    assert picture.startswith(b"P5 224 112 255\n") and len(picture) == 15 + 224 * 112


def test_word_vectors():
    text = run("word_vectors/train.py", "--limit", "3000", "--epochs", "3", "--like", "the",
               "nosuchword")
    first, *_, last = losses(text)
    assert last < first < 0.7
    assert len(re.search(r"^the: (.*)$", text, re.M)[1].split(", ")) == 5
    assert "nosuchword" not in text


def test_word_vectors_by_rows():
    options = ("--limit", "3000", "--epochs", "2", "--optimizer", "adagrad", "--lr", "0.1")
    dense = losses(run("word_vectors/train.py", *options))
    assert losses(run("word_vectors/train.py", *options, "--sparse")) == dense
    assert dense[1] < dense[0]


def test_matrix_factorization_by_rows_is_the_dense_one():
    options = ("matrix_factorization/train.py", "--users", "300", "--items", "200", "--ratings",
               "6000", "--batch-size", "100", "--epochs", "2")
    dense, sparse = losses(run(*options)), losses(run(*options, "--sparse"))
    assert dense[1] < dense[0]
    assert sparse == pytest.approx(dense, rel=1e-5)


def moved(*options):
    """Rows, bytes sent and bytes received of a step, and losses, of a job of two workers."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("DMLC_")}
    env.update(PYTHONPATH=str(ROOT), OMP_NUM_THREADS="1")
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "launch.py"), "-n", "2", "-s", "2",
         str(ROOT / "examples/matrix_factorization/train.py"), "--epochs", "1", *options], env=env,
        timeout=100, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    text = "\n".join(line.partition("worker 0")[2] for line in done.stdout.splitlines())
    counts = re.search(r"(\d+) rows; (\d+) bytes sent, (\d+) bytes received", text)
    return [int(count) for count in counts.groups()], re.findall(r"loss ([\d.]+)", text)


@pytest.mark.slow
def test_matrix_factorization_over_servers_sends_the_rows_it_touches():
    (rows, sent, received), losses_of = moved("--sparse", "--limit", "6", "--batch-size", "400")
    (fewer, less, little), _ = moved("--sparse", "--limit", "6", "--batch-size", "40")
    assert 9 < rows / fewer < 11
    assert sent / less == pytest.approx(rows / fewer, rel=0.05)
    assert received / little == pytest.approx(rows / fewer, rel=0.05)
    (_, whole, _), dense = moved("--limit", "6", "--batch-size", "400")
    assert losses_of == dense and whole == 10_000 * 32 * 4
