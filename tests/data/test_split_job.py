"""SplitSampler in a real job: equal steps on all workers, every sample, no seed given."""
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
JOB = """
import numpy as np
import minigluon as mx
from minigluon import autograd, gluon
from minigluon.gluon.data import ArrayDataset, DataLoader, SplitSampler

kv = mx.kv.create("dist_sync")
data = ArrayDataset(np.random.rand(101, 3).astype("float32"), np.arange(101))
part = SplitSampler(len(data), kv.num_workers, kv.rank)
loader = DataLoader(data, 10, sampler=part, num_workers=1)
net = gluon.nn.Dense(1)
net.initialize()
trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore=kv)
steps = 0
for epoch in range(4):
    seen = []
    for x, number in loader:
        with autograd.record():
            loss = net(x).sum()
        loss.backward()
        trainer.step(10 * kv.num_workers)
        steps += 1
        seen += number.asnumpy().tolist()
    print(f"epoch {epoch} saw {seen}", flush=True)
print(f"did {steps} steps", flush=True)
"""


@pytest.mark.slow
def test_workers_do_equal_steps_and_see_everything(tmp_path):
    script = tmp_path / "job.py"
    script.write_text(JOB)
    env = dict(os.environ, PYTHONPATH=str(ROOT), OMP_NUM_THREADS="1")
    result = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "launch.py"), "-n", "2", "-s", "1", sys.executable,
         str(script)], env=env, capture_output=True, text=True, timeout=100)
    assert result.returncode == 0, result.stdout + result.stderr
    assert re.findall(r"worker (\d).*did (\d+) steps", result.stdout) in (
        [("0", "24"), ("1", "24")], [("1", "24"), ("0", "24")])
    orders = []
    for epoch in range(4):
        parts = re.findall(rf"epoch {epoch} saw \[(.*)\]", result.stdout)
        numbers = [[int(number) for number in part.split(",")] for part in parts]
        assert [len(part) for part in numbers] == [51, 51]
        assert set(numbers[0]) | set(numbers[1]) == set(range(101))
        assert len(set(numbers[0]) & set(numbers[1])) <= 1  # the one that fills up
        orders.append(tuple(sorted(map(tuple, numbers))))
    assert len(set(orders)) == 4  # shuffled anew
