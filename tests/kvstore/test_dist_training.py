"""Distributed training equals training in one process."""
import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from dist_jobs import Job

from minigluon import nd
from minigluon.device.cpu import native

ROOT = Path(__file__).parents[2]
JOB = str(ROOT / "tests" / "jobs" / "mlp_job.py")


def environment():
    env = dict(os.environ, PYTHONPATH=str(ROOT), MINIGLUON_OFFLINE="1", OMP_NUM_THREADS="1",
               OPENBLAS_NUM_THREADS="1")
    return {name: value for name, value in env.items() if not name.startswith("DMLC_")}


def run(*command, timeout=60):
    done = subprocess.run([sys.executable, *map(str, command)], env=environment(),
                          capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def launch(workers, servers, *job, timeout=60):
    return run(ROOT / "tools" / "launch.py", "-n", workers, "-s", servers, JOB, *job,
               timeout=timeout)


def params(path):
    return {name: value.asnumpy() for name, value in nd.load(str(path)).items()}


def largest_difference(a, b):
    assert a.keys() == b.keys()
    return max(np.abs(a[name] - b[name]).max() for name in a)


@pytest.mark.parametrize("optimizer,on_store", [("sgd", None), ("sgd", 0), ("adam", None)])
def test_four_workers_equal_one_process_on_the_union(tmp_path, optimizer, on_store):
    extra = ["--optimizer", optimizer, "--lr", "0.01" if optimizer == "adam" else "0.1"]
    if optimizer == "adam":  # it makes a step of what is only rounding where a gradient is 0
        extra += ["--dtype", "float64"]
    if on_store is not None:
        extra += ["--update-on-kvstore", on_store]
    run(JOB, "--store", "device", "--share", 4, "--out", tmp_path / "one", *extra)
    launch(4, 2, "--store", "dist_sync", "--out", tmp_path / "four", *extra)
    one = params(tmp_path / "one")
    every = [params(tmp_path / f"four.{rank}") for rank in range(4)]
    assert largest_difference(one, every[0]) < 1e-5
    for other in every[1:]:
        assert largest_difference(every[0], other) == 0


@pytest.mark.parametrize("runs", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_runs_are_bitwise_equal_whatever_the_order_of_arrival(tmp_path, runs):
    """Each worker waits for a random time before each step."""
    for run_ in range(runs):
        launch(4, 2, "--store", "dist_sync", "--steps", 12, "--delay", 0.05,
               "--out", tmp_path / f"{run_}")
    found = {hashlib.sha256(np.concatenate([value.ravel() for _, value in sorted(
        params(tmp_path / f"{run_}.{rank}").items())]).tobytes()).hexdigest()
        for run_ in range(runs) for rank in range(4)}
    assert len(found) == 1


def test_dist_async_learns(tmp_path):
    output = launch(4, 2, "--store", "dist_async", "--steps", 0, "--epochs", 4, "--lr", 0.2,
                    "--momentum", 0, "--test")
    accuracy = float(re.search(r"test accuracy: ([\d.]+)", output).group(1))
    assert accuracy >= 0.90


BIG = """
import hashlib
from minigluon import autograd, gluon
from minigluon.gluon import nn
calls = []
kv = mx.kv.create("dist_sync")
for name in ("push", "pull", "pushpull"):
    def noted(key, *args, name=name, method=getattr(kv, name), **kwargs):
        calls.append((name, len(key)))
        return method(key, *args, **kwargs)
    setattr(kv, name, noted)
mx.random.seed(3)
net = nn.HybridSequential(prefix="net_")
with net.name_scope():
    for _ in range(3):
        net.add(nn.Dense(1200, activation="tanh", in_units=1200))
net.initialize(mx.init.Xavier())
net.hybridize()
trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.5},
                        kvstore=kv, update_on_kvstore=os.environ["THERE"] == "1")
random = np.random.RandomState(kv.rank)
for step in range(8):
    x = nd.array(random.normal(size=(4, 1200)))
    with autograd.record():
        loss = (net(x) ** 2).sum()
    loss.backward()
    trainer.step(8)
nd.waitall()
digest = hashlib.sha256(b"".join(p.data().asnumpy().tobytes()
                                 for p in net.collect_params().values())).hexdigest()
print(digest, ("push", 2) in calls, ("pushpull", 2) in calls, ("pushpull", 6) in calls)
"""


@pytest.mark.parametrize("there", [True, False])
def test_sending_while_backward_computes_gives_the_same_bits(there):
    def run_job(ahead):
        env = {"MINIGLUON_RUN_AHEAD": str(ahead), "MINIGLUON_RUN_AHEAD_US": "0",
               "THERE": str(int(there))}
        with Job(BIG, workers=2, servers=2, env=env) as job:
            job.succeed(90)
            found = [job.text(f"worker {rank}").split() for rank in range(2)]
        assert found[0][0] == found[1][0]
        return found[0]

    ahead, after = run_job(1), run_job(0)
    assert ahead[0] == after[0]
    assert after[1:] == (["False", "False", "True"] if there else ["False", "True", "False"])
    if there and native.enabled and len(os.sched_getaffinity(0)) > 1:
        assert ahead[1] == "True"


STATISTICS = """
import contextlib
from minigluon import autograd, gluon
mx.random.seed(1)
net = gluon.nn.HybridSequential()
net.add(gluon.nn.Dense(4, in_units=3), gluon.nn.BatchNorm(in_channels=4), gluon.nn.Dense(2))
net.initialize()
net.hybridize()
kind, folder = os.environ["KIND"], os.environ["FOLDER"]
trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01}, kvstore=kind)
rank = int(os.environ["DMLC_WORKER_ID"])
random = np.random.default_rng(rank)
running = [net[1].running_mean, net[1].running_var]
with trainer.join() if kind == "dist_sync" else contextlib.nullcontext():
    for step in range(20 + rank):
        x = nd.array(random.normal(3 * rank, 1 + rank, size=(8, 3)))
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        trainer.step(24)
    own = [param.data().asnumpy() for param in running]
assert all((param.data().asnumpy() == one).all() for param, one in zip(running, own))
np.save(f"{folder}/own.{rank}", own)
for turn in range(2):  # the second time they are equal already
    trainer.average_statistics()
    np.save(f"{folder}/{turn}.{rank}", [param.data().asnumpy() for param in running])
net.save_parameters(f"{folder}/net.{rank}")
x = nd.array(np.random.default_rng(5).normal(size=(8, 3)))
np.save(f"{folder}/seen.{rank}", net(x).asnumpy())
with autograd.record():
    loss = (net(x) ** 2).sum()
loss.backward()
trainer.step(24)  # training goes on
"""


@pytest.mark.parametrize("kind", ["dist_sync", "dist_async"])
def test_running_statistics_become_the_mean_of_all_workers(tmp_path, kind):
    env = {"FOLDER": str(tmp_path), "KIND": kind}
    with Job(STATISTICS, workers=3, servers=2, env=env) as job:
        job.succeed(60)
    own, first, second, seen = ([np.load(tmp_path / f"{name}.{rank}.npy") for rank in range(3)]
                                for name in ("own", "0", "1", "seen"))
    assert not np.allclose(own[0], own[1]) and not np.allclose(own[1], own[2])
    np.testing.assert_allclose(first[0], np.mean(own, axis=0), rtol=1e-5)
    assert (first[0] == first[1]).all() and (first[0] == first[2]).all()
    np.testing.assert_allclose(second[0], first[0], rtol=1e-6)
    if kind == "dist_sync":  # the weights agree as well: any worker's file is as good
        files = [params(tmp_path / f"net.{rank}") for rank in range(3)]
        assert largest_difference(files[0], files[1]) == largest_difference(files[0], files[2]) == 0
        assert (seen[0] == seen[1]).all() and (seen[0] == seen[2]).all()
