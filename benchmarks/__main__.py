"""Measure minigluon beside its peers, in alternation, and print the ratios.

    python -m benchmarks --peers mxnet,torch,jax --python mxnet=/envs/mx/bin/python ...
    python -m benchmarks --bench mlp_64,lenet_64 --threads 2 --rounds 3 --write

A peer's Python is given by ``--python NAME=PATH`` or the environment variable PY_MXNET, PY_TORCH
or PY_JAX. Each measurement is a process of its own; the peers take turns within a round. `--write`
puts the table into docs/benchmarks.md. Times are medians of the rounds' medians; a machine that
does something else at the same time makes them worthless, ratios included.
"""
from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "benchmarks.md"

MODES = {
    "minigluon": ("gluon_peer.py", ("hybrid",)),
    "mxnet": ("gluon_peer.py", ("hybrid",)),
    "torch": ("torch_peer.py", ("eager", "eager_cl", "compile")),
    "jax": ("jax_peer.py", ("jit",)),
}
# what --bench names -> (what it measures, the modes in which a peer differs, target against best)
BENCHES: dict[str, tuple[str, str, float | None]] = {
    "mlp_64": ("MLP 784-128-64-10 train step, batch 64", "plain", 0.65),
    "mlp_512": ("the same, batch 512", "plain", 0.85),
    "lenet_64": ("LeNet (20, 50, 500) train step, batch 64", "images", 0.45),
    "resnet_train": ("ResNet-18 32x32 train step, batch 64", "images", 1.0),
    "resnet_infer_1": ("ResNet-18 inference, batch 1", "images", 0.9),
    "resnet_infer_64": ("ResNet-18 inference, batch 64", "images", 1.0),
    "lstm": ("LSTM language model train step (2 x 200, 35 x 20)", "plain", 0.75),
    "block": ("transformer block train step (256, 4 heads, 128 x 8)", "plain", 0.85),
    "elementwise": ("relu(a*b+c)*d-e on 16M floats", "plain", 0.6),
    "op": ("eager x + y on 4x4", "eager", 0.8),
    "op_recorded": ("the same recorded, with its backward", "eager", 1.0),
    "conv": ("3x3 convolution 64 x 56 x 56, forward and backward", "images", 1.0),
    "gemm": ("matrix product 2048", "eager", 1.0),
    "loader": ("DataLoader, 16,384 images + ToTensor, no workers", "eager", 0.333),
}
GROWTH = ("mlp_1", "mlp_8", "lenet_1", "lenet_8", "lenet_512", "op_sizes", "kernels")
MANY = ("op_sizes", "kernels")  # rows of other names
PARTS = {"op_recorded": "op"}  # measured by the process of the other one
SETTINGS = {"plain": ("eager", "compile"), "images": ("eager", "eager_cl", "compile"),
            "eager": ("eager",)}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default="mxnet,torch,jax", help="comma-separated; '' for none")
    parser.add_argument("--python", action="append", default=[], metavar="NAME=PATH",
                        help="a peer's Python; may be given for each")
    parser.add_argument("--bench", default=",".join(b for b in BENCHES if b not in PARTS),
                        help=f"comma-separated (%(default)s), also: {', '.join(GROWTH)}")
    parser.add_argument("--threads", default="1,2", help="comma-separated (%(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="turns of each peer (%(default)s)")
    parser.add_argument("--seconds", type=float, default=2.0,
                        help="timed seconds a measurement (%(default)s)")
    parser.add_argument("--limit", type=float, default=300,
                        help="seconds a process may take (%(default)s)")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    options = parser.parse_args()
    known = {*BENCHES, *GROWTH}
    for bench in options.bench.split(","):
        if bench not in known:
            parser.error(f"unknown bench {bench!r}; there are {', '.join(sorted(known))}")
    return options


def pythons(options: argparse.Namespace) -> dict[str, str]:
    """The Python of each framework that can be measured; says which are missing."""
    given = dict(item.split("=", 1) for item in options.python)
    found = {"minigluon": sys.executable}
    for peer in filter(None, options.peers.split(",")):
        path = given.get(peer) or os.environ.get(f"PY_{peer.upper()}")
        if path:
            found[peer] = path
        else:
            print(f"{peer}: no --python {peer}=PATH and no PY_{peer.upper()}; left out")
    return found


def turns(bench: str, available: dict[str, str], no_compile: bool) -> Iterator[tuple[str, str]]:
    """(framework, mode) in the order of a round."""
    kind = BENCHES[bench][1] if bench in BENCHES else "eager" if bench == "kernels" else "plain"
    for peer in available:
        for mode in MODES[peer][1]:
            if peer == "torch" and (mode not in SETTINGS[kind] or
                                    (no_compile and mode == "compile")):
                continue
            yield peer, mode


def run(peer: str, mode: str, bench: str, threads: int, python: str, seconds: float,
        limit: float) -> list[dict[str, float | str]]:
    """The results of one process; a failure is reported and gives none."""
    count = str(threads)
    environment = dict(
        os.environ, OMP_NUM_THREADS=count, OPENBLAS_NUM_THREADS=count, MKL_NUM_THREADS=count,
        JAX_PLATFORMS="cpu", PYTHONPATH=str(HERE.parent) if peer == "minigluon" else "")
    if threads == 1:
        environment["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    cores = sorted(os.sched_getaffinity(0))[:threads]
    command = ["taskset", "-c", ",".join(map(str, cores)), python, str(HERE / MODES[peer][0]),
               bench, mode, count, str(seconds), peer]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True,
                              timeout=limit)
    except subprocess.TimeoutExpired:
        print(f"  {peer} {mode} {bench}: longer than {limit:g} s, left out")
        return []
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        print(f"  {peer} {mode} {bench}: failed: {last[:160]}")
    return lines


def table(results: dict[tuple[str, int], dict[str, list[dict[str, float]]]]) -> list[str]:
    """Markdown rows: medians of each framework, ratio to the best peer, target, peak memory."""
    lines = ["| work | threads | minigluon ms | peers ms | ratio to best peer | target | peak MB |",
             "|---|---|---|---|---|---|---|"]
    for (bench, threads), found in results.items():
        times = {who: statistics.median(r["ms"] for r in rows) for who, rows in found.items()}
        ours = times.pop("minigluon hybrid", None)
        if ours is None:
            continue
        peers = ", ".join(f"{who} {ms:.4g}" for who, ms in sorted(times.items(),
                                                                key=lambda item: item[1]))
        ratio = f"{ours / min(times.values()):.2f}" if times else ""
        words, _, target = BENCHES.get(bench, (bench, "", None))
        peak = max(r["peak_mb"] for r in found["minigluon hybrid"])
        lines.append(f"| {words} | {threads} | {ours:.4g} | {peers} | {ratio} | "
                     f"{'' if target is None else f'<= {target}'} | {peak:.0f} |")
    return lines


def machine() -> str:
    """What the figures were taken on, without the machine's name."""
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo")
                  if line.startswith("model name")), platform.machine())
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}"


def main() -> None:
    """Run the rounds, print the table, write the page if asked to."""
    options = arguments()
    available = pythons(options)
    results: dict[tuple[str, int], dict[str, list[dict[str, float]]]] = {}
    for bench in options.bench.split(","):
        for threads in map(int, options.threads.split(",")):
            for _ in range(options.rounds):
                for peer, mode in turns(bench, available, options.no_compile):
                    for row in run(peer, mode, bench, threads, available[peer], options.seconds,
                                   options.limit):
                        place = results.setdefault((str(row["bench"]), threads), {})
                        place.setdefault(f"{peer} {mode}", []).append(row)  # type: ignore[arg-type]
            for line in table({k: v for k, v in results.items()
                               if k[1] == threads and (k[0] == bench or PARTS.get(k[0]) == bench
                                                       or bench in MANY)})[2:]:
                print(line, flush=True)
    lines = table(results)
    print("\n".join(lines))
    if options.write:
        command = "python -m benchmarks " + " ".join(
            word for word in sys.argv[1:] if not word.startswith("--python") and "=" not in word)
        PAGE.write_text("\n".join([
            "# Benchmarks", "",
            f"Written by `{command.strip()}` on {datetime.date.today()}; {machine()}.",
            "Medians in milliseconds; each measurement is a process of its own, and the peers",
            "take turns within a round. Train step: forward, backward, SGD with momentum, float32,",
            "hybridized (PyTorch in the modes named, eager_cl is channels last; JAX jitted).",
            "Lower is better.",
            "", *lines, ""]))
        print(f"written: {PAGE.relative_to(HERE.parent)}")


if __name__ == "__main__":
    main()
