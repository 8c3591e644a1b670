"""A distributed training job beside MXNet's: samples a second, and time from launch to first step.

    PY_MXNET=/envs/mx/bin/python python -m benchmarks.job [-n 4] [-s 2] [--rounds 2]

Trains LeNet on bundled digits over dist_sync. minigluon's job is started by tools/launch.py,
MXNet's roles directly (its launcher would only add to its time); the two take turns. Both run the
worker below, each with its own defaults for threads.
"""
from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import jobs

HERE = Path(__file__).resolve().parent
BATCH, WARM = 64, 10


def worker(name: str, steps: int) -> None:
    """What each worker does; its result is a file in JOB_RESULTS."""
    import gluon_nets
    import workloads as W

    mx = importlib.import_module(name)
    net, loss = gluon_nets.lenet(mx), mx.gluon.loss.SoftmaxCrossEntropyLoss()
    mx.random.seed(1)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    store = mx.kv.create("dist_sync")
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.02}, kvstore=store)
    batches = W.digits("nchw", BATCH, 32)
    first, began, error = 0.0, 0.0, None
    for step in range(WARM + steps):
        x, y = batches[(step * store.num_workers + store.rank) % len(batches)]
        with mx.autograd.record():
            error = loss(net(mx.nd.array(x)), mx.nd.array(y))
        error.backward()
        trainer.step(BATCH * store.num_workers)
        if step == 0:
            mx.nd.waitall()
            first = time.time() - float(os.environ["JOB_BEGAN"])
        elif step == WARM - 1:
            mx.nd.waitall()
            began = time.perf_counter()
    assert error is not None
    last = float(error.mean().asscalar())
    # The last step's values, too: MXNet's store, given up while a pull is under way, never ends it,
    # and the process waits for it at its end for ever.
    mx.nd.waitall()
    rate = steps * BATCH / (time.perf_counter() - began)
    Path(os.environ["JOB_RESULTS"], str(store.rank)).write_text(
        json.dumps({"rate": rate, "first": first, "loss": last}))


def job(name: str, python: str, workers: int, servers: int, steps: int) -> dict[str, float]:
    """Run one job; samples a second over all workers, seconds to the slowest first step."""
    with tempfile.TemporaryDirectory() as results:
        own = dict(os.environ, JOB_RESULTS=results, JOB_BEGAN=repr(time.time()))
        command = [python, str(HERE / "job.py"), "--worker", name, "--steps", str(steps)]
        if name == "minigluon":
            own["PYTHONPATH"] = str(HERE.parent)
            subprocess.run([python, str(HERE.parent / "tools" / "launch.py"), "-n", str(workers),
                            "-s", str(servers), *command], env=own, check=True, timeout=200,
                           stdout=subprocess.DEVNULL)
        else:
            _roles(name, python, workers, servers, command, own)
        found = [json.loads(path.read_text()) for path in Path(results).iterdir()]
    if len(found) != workers:
        raise RuntimeError(f"{name}: {len(found)} of {workers} workers finished")
    return {"rate": sum(each["rate"] for each in found),
            "first": max(each["first"] for each in found), "loss": found[0]["loss"]}


def _roles(name: str, python: str, workers: int, servers: int, command: list[str],
           own: dict[str, str]) -> None:
    """Start MXNet's roles and wait for the workers."""
    own.update(DMLC_PS_ROOT_URI="127.0.0.1", DMLC_NODE_HOST="127.0.0.1", PYTHONPATH="",
               DMLC_PS_ROOT_PORT=jobs.free_port(), DMLC_NUM_WORKER=str(workers),
               DMLC_NUM_SERVER=str(servers))
    serving = [python, "-c", f"import {name}"]
    roles = [("scheduler", serving), *[("server", serving)] * servers,
             *[("worker", command)] * workers]
    started = [subprocess.Popen(line, env=dict(own, DMLC_ROLE=role), stderr=subprocess.DEVNULL)
               for role, line in roles]
    try:
        for process in started[1 + servers:]:
            process.wait(200)
    finally:
        for process in started:
            process.kill()
            process.wait()


def main() -> None:
    """Run the jobs in turn and print medians and ratios."""
    parser = jobs.parser("job", __doc__)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.worker, options.steps)
        return
    pythons = {"minigluon": sys.executable}
    if "PY_MXNET" in os.environ:
        pythons["mxnet"] = os.environ["PY_MXNET"]
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in pythons}
    for _ in range(options.rounds):
        for name, python in pythons.items():
            runs[name].append(job(name, python, options.n, options.s, options.steps))
            print(name, json.dumps(runs[name][-1]), flush=True)
    middle = {name: {key: statistics.median(run[key] for run in found) for key in found[0]}
              for name, found in runs.items()}
    for name, values in middle.items():
        print(f"{name}: {values['rate']:.0f} samples/s, {values['first']:.2f} s to the first step")
    if "mxnet" in middle:
        ours, theirs = middle["minigluon"], middle["mxnet"]
        print(f"ratio: {ours['rate'] / theirs['rate']:.2f} x the samples a second, "
              f"{ours['first'] / theirs['first']:.2f} x the time to the first step")


if __name__ == "__main__":
    main()
