"""Rounds of the distributed KVStore beside MXNet's: milliseconds, CPU time and memory.

    PY_MXNET=/envs/mx/bin/python python -m benchmarks.rounds [-n 4] [-s 2] [--keys rn50,4KB]
        [--comp none,2bit] [--van tcp] [--tree other-checkout] [--rounds 2] [--times 8]

Each worker pushes and pulls (`pushpull`, and `push` then `pull`) a set of keys and waits for the
values; no computing in between. Peers take turns, each in a job of its own. `--tree` measures
another checkout of minigluon as well, `--van` sets PS_VAN for minigluon's jobs.

Memory: the most that one worker and one server have held (VmHWM: pages that processes share count
in each of them), and at the end of the rounds the proportional share (Pss: such pages count once in
all) of the largest worker and server, and of all processes of the job together.
"""
from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import jobs

HERE = Path(__file__).resolve().parent
TIMES = {"rn50": 8, "1000x1KB": 15, "4KB": 300, "4MB": 40}
Result = dict[str, float]


def shapes_of(keys: str) -> list[tuple[int, ...]]:
    """The shapes of a set of keys; 'rn50' is the 161 trainable arrays of ResNet-50."""
    if keys != "rn50":
        return {"4KB": [(1024,)], "4MB": [(1024, 1024)], "1000x1KB": [(256,)] * 1000}[keys]
    found: list[tuple[int, ...]] = []

    def layer(out: int, into: int, kernel: int) -> None:
        found.extend([(out, into, kernel, kernel), (out,), (out,)])

    layer(64, 3, 7)
    into = 64
    for blocks, middle in ((3, 64), (4, 128), (6, 256), (3, 512)):
        for block in range(blocks):
            layer(middle, into, 1)
            layer(middle, middle, 3)
            layer(4 * middle, middle, 1)
            if not block:
                layer(4 * middle, into, 1)
            into = 4 * middle
    return [*found, (1000, 2048), (1000,)]


def _memory(pid: int) -> tuple[float, float]:
    """The most memory a process has held, and its proportional share now, in MB."""
    found = []
    for file, name in (("status", "VmHWM:"), ("smaps_rollup", "Pss:")):
        lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
        found.append(next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024)
    return found[0], found[1]


def worker(name: str, keys: str, comp: str, times: int) -> None:
    """What each worker does; its result is a file in ROUNDS_RESULTS."""
    mx = importlib.import_module(name)
    store = mx.kv.create("dist_sync")
    if comp != "none":
        store.set_gradient_compression({"type": comp, "threshold": 0.5})
    shapes = shapes_of(keys)
    names = [str(i) for i in range(len(shapes))]
    values = [mx.nd.ones(shape) for shape in shapes]
    outs = [mx.nd.zeros(shape) for shape in shapes]
    store.init(names, [mx.nd.zeros(shape) for shape in shapes])
    barrier = store.barrier if name == "minigluon" else store._barrier

    def apart() -> None:
        store.push(names, values)
        store.pull(names, out=outs)
        mx.nd.waitall()

    def together() -> None:
        store.pushpull(names, values, out=outs)
        mx.nd.waitall()

    # MXNet 1.9.1 refuses pushpull with compression
    ways: dict[str, Callable[[], None]] = {"push+pull": apart}
    if comp == "none" or name == "minigluon":
        ways["pushpull"] = together
    found: dict[str, Any] = {}
    for way, run in ways.items():
        for _ in range(3):
            run()
        barrier()
        used = resource.getrusage(resource.RUSAGE_SELF)
        began = time.perf_counter()
        for _ in range(times):
            run()
        seconds = time.perf_counter() - began
        now = resource.getrusage(resource.RUSAGE_SELF)
        barrier()
        cpu = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
        found[way] = [1e3 * seconds / times, 1e3 * cpu / times]
    # MXNet's pushpull writes its sums into what was pushed, so there they grow with each round
    if comp == "none" and name == "minigluon" and (
            float(outs[0].asnumpy().ravel()[0]) != store.num_workers):
        raise RuntimeError(f"{name}: wrong sum {outs[0].asnumpy().ravel()[:4]}")
    Path(os.environ["ROUNDS_RESULTS"], str(store.rank)).write_text(json.dumps(found))
    print("done", flush=True)
    sys.stdin.read()  # until all have been looked at


def job(name: str, python: str, tree: Path, options: argparse.Namespace, keys: str,
        comp: str) -> dict[str, Result]:
    """Run one job: milliseconds of a round, CPU milliseconds of all workers, memory."""
    own = dict(os.environ, DMLC_PS_ROOT_URI="127.0.0.1", DMLC_NODE_HOST="127.0.0.1",
               DMLC_NUM_WORKER=str(options.n), DMLC_NUM_SERVER=str(options.s))
    own["PYTHONPATH"] = str(tree) if name == "minigluon" else ""
    if name == "minigluon" and options.van:
        own["PS_VAN"] = options.van
    own["DMLC_PS_ROOT_PORT"] = jobs.free_port()
    times = options.times or TIMES[keys]
    command = [python, str(HERE / "rounds.py"), "--worker", name, "--keys", keys, "--comp", comp,
               "--times", str(times)]
    serving = [python, "-c", f"import {name}"]
    roles = [("scheduler", serving), *[("server", serving)] * options.s,
             *[("worker", command)] * options.n]
    with tempfile.TemporaryDirectory() as results:
        own["ROUNDS_RESULTS"] = results
        quiet = None if name == "minigluon" else subprocess.DEVNULL
        started = [subprocess.Popen(line, env=dict(own, DMLC_ROLE=role), cwd=results, stderr=quiet,
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                   for role, line in roles]
        servers, workers = started[1:1 + options.s], started[1 + options.s:]
        try:
            if any(b"done" not in process.stdout.read(5) for process in workers):
                raise RuntimeError(f"{name}: a worker has not finished")
            held = {process: _memory(process.pid) for process in started}
            for process in workers:
                process.stdin.close()
            for process in workers:  # MXNet's wait for each other
                process.wait()
        finally:
            for process in started:
                process.kill()
                process.wait()
        found = [json.loads(path.read_text()) for path in Path(results).iterdir()]
    rest = {}
    for kind, several in (("worker", workers), ("server", servers)):
        rest[f"{kind}_mb"] = max(held[process][0] for process in several)
        rest[f"{kind}_pss_mb"] = max(held[process][1] for process in several)
    rest["job_pss_mb"] = sum(share for _, share in held.values())
    return {way: {"ms": max(each[way][0] for each in found),
                  "worker_cpu_ms": sum(each[way][1] for each in found), **rest}
            for way in found[0]}


def main() -> None:
    """Run the jobs in turn; print each, then medians and ratios to MXNet."""
    parser = jobs.parser("rounds", __doc__)
    parser.add_argument("--keys", default="rn50,1000x1KB,4KB", help="sets of keys")
    parser.add_argument("--comp", default="none", help="compressions, none or 2bit")
    parser.add_argument("--van", default="", help="PS_VAN of minigluon's jobs")
    parser.add_argument("--tree", action="append", default=[], type=Path)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--times", type=int, default=0)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.worker, options.keys, options.comp, options.times)
        return
    peers = [("minigluon", "minigluon", sys.executable, HERE.parent)]
    peers += [(tree.name, "minigluon", sys.executable, tree.resolve()) for tree in options.tree]
    if "PY_MXNET" in os.environ:
        peers.append(("mxnet", "mxnet", os.environ["PY_MXNET"], HERE))
    runs: dict[tuple[str, str, str], list[tuple[str, Result]]] = {}
    for _ in range(options.rounds):
        for keys in options.keys.split(","):
            for comp in options.comp.split(","):
                for label, name, python, tree in peers:
                    for way, result in job(name, python, tree, options, keys, comp).items():
                        runs.setdefault((keys, comp, way), []).append((label, result))
                        shown = " ".join(f"{key} {value:.4g}" for key, value in result.items())
                        print(f"{keys} {comp} {way} {label}: {shown}", flush=True)
    for (keys, comp, way), found in runs.items():
        middle = {label: {key: statistics.median(r[key] for one, r in found if one == label)
                          for key in found[0][1]} for label in dict(found)}
        base = middle.get("mxnet")
        for label, values in middle.items():
            shown = [f"{key} {value:.4g}" + (f" ({value / base[key]:.2f} x)" if base else "")
                     for key, value in values.items()]
            print(f"median {keys} {comp} {way} {label}: " + ", ".join(shown))


if __name__ == "__main__":
    main()
