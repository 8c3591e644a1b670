"""A model of 100 million floats over 4 workers and 2 servers: time, memory, what is left behind.

    python -m benchmarks.big_model [-n 4] [-s 2] [--steps 3]

Each worker trains 24 layers of 2048 x 2048 on a few samples. For each process: its peak of resident
memory (pages shared by several count in each), CPU seconds, and how it ended. Needs about 10 GB.
"""
from __future__ import annotations

import argparse
import json
import os
import secrets
import socket
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
LAYERS, UNITS, BATCH = 24, 2048, 4


def worker(steps: int) -> None:
    """Train, and print what was seen as JSON."""
    import numpy as np

    import minigluon as mx

    nn = mx.gluon.nn
    net = nn.HybridSequential()
    for _ in range(LAYERS):
        net.add(nn.Dense(UNITS, in_units=UNITS))
    mx.random.seed(1)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    store = mx.kv.create("dist_sync")
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd",
                               {"learning_rate": 0.1, "momentum": 0.9}, kvstore=store)
    loss_of = mx.gluon.loss.L2Loss()
    random = np.random.default_rng(store.rank)
    x, y = (mx.nd.array(random.normal(size=(BATCH, UNITS)).astype("float32")) for _ in range(2))
    took, losses = [], []
    for _ in range(steps):
        begin = time.perf_counter()
        with mx.autograd.record():
            loss = loss_of(net(x), y)
        loss.backward()
        trainer.step(BATCH * store.num_workers)
        mx.nd.waitall()
        took.append(round(time.perf_counter() - begin, 2))
        losses.append(round(float(loss.mean().asscalar()), 4))
    floats = sum(param.data().size for param in net.collect_params().values())
    check = [float(param.data().sum().asscalar()) for param in net.collect_params().values()]
    print(json.dumps({"rank": store.rank, "floats": floats, "seconds": took, "losses": losses,
                      "sum": sum(check)}), flush=True)


def main() -> None:
    """Start the roles, wait for them, and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.big_model", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=4, help="workers")
    parser.add_argument("-s", type=int, default=2, help="servers")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.steps)
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = dict(os.environ, PYTHONPATH=str(HERE.parent), DMLC_PS_ROOT_URI="127.0.0.1",
               DMLC_PS_ROOT_PORT=str(port), DMLC_NUM_WORKER=str(options.n),
               DMLC_NUM_SERVER=str(options.s), MINIGLUON_JOB_TOKEN=secrets.token_hex(16))
    role = [sys.executable, "-m", "minigluon.kvstore.dist"]
    script = [sys.executable, str(HERE / "big_model.py"), "--worker", "--steps", str(options.steps)]
    lines = [("scheduler", role), *[("server", role)] * options.s,
             *[("worker", script)] * options.n]
    shared = set(os.listdir("/dev/shm"))
    began = time.perf_counter()
    processes = [subprocess.Popen(line, env=dict(env, DMLC_ROLE=name)) for name, line in lines]
    started = {process.pid: name for process, (name, _) in zip(processes, lines, strict=True)}
    worst = 0
    for _ in lines:
        pid, status, used = os.wait4(-1, 0)
        code = os.waitstatus_to_exitcode(status)
        next(each for each in processes if each.pid == pid).returncode = code
        worst = worst or code
        print(f"{started[pid]} {pid}: exit code {code}, peak {used.ru_maxrss / 1024:.0f} MB, "
              f"{used.ru_utime + used.ru_stime:.1f} s of CPU time", flush=True)
        if code and worst == code:
            for other in started.keys() - {pid}:
                if Path(f"/proc/{other}").exists():
                    os.kill(other, 15)
    left = sorted(set(os.listdir("/dev/shm")) - shared)
    print(f"whole job {time.perf_counter() - began:.1f} s; left in /dev/shm: {left or 'nothing'}; "
          f"processes left: {[pid for pid in started if Path(f'/proc/{pid}').exists()] or 'none'}")
    sys.exit(worst)


if __name__ == "__main__":
    main()
