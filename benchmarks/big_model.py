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
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import jobs

HERE = Path(__file__).resolve().parent
LAYERS, UNITS, BATCH = 24, 2048, 4


def worker(steps: int) -> None:
    """Train, and print what was seen as JSON."""
    import gluon_nets

    import minigluon as mx

    net, store, trainer, x, y = gluon_nets.dense_job(mx, LAYERS, UNITS, BATCH, 0.1)
    loss_of = mx.gluon.loss.L2Loss()
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
    parser = jobs.parser("big_model", __doc__)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.steps)
        return
    env = dict(os.environ, PYTHONPATH=str(HERE.parent), DMLC_PS_ROOT_URI="127.0.0.1",
               DMLC_PS_ROOT_PORT=jobs.free_port(), DMLC_NUM_WORKER=str(options.n),
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
