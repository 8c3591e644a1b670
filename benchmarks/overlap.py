"""What runs at the same time in a job: backward, pushes, pulls and the next forward, as a picture.

    python -m benchmarks.overlap [-n 2] [-s 1] [--trace job.json] [--svg docs/overlap.svg]

Each worker profiles a few steps of a hybridized network (`mx.profiler` with
``profile_imperative=False`` leaves graphs queued). Printed: milliseconds a step where nothing
is queued, where a step is one exchange after backward, and in pieces meanwhile; then for each
worker how long after its backward had begun the first push left, how much of the time between
that and the arrival of the last new weight passed while backward still computed, and how long
before that arrival the next forward began: it waits for weights one share after the other.
``--trace`` writes all workers' events as one Chrome trace, ``--svg`` draws the last step.
"""
from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import jobs

HERE = Path(__file__).resolve().parent
LAYERS, UNITS, BATCH = 6, 1024, 128
WARM, STEPS = 6, 20
WAYS = {"not queued": {"MINIGLUON_RUN_AHEAD": "0"}, "queued, one exchange": {"OVERLAP_WHOLE": "1"},
        "queued, in pieces": {}}

Span = tuple[str, float, float]


def worker(folder: str) -> None:
    """Train, and leave the trace in `folder`."""
    import gluon_nets

    import minigluon as mx
    from minigluon.gluon import exchange

    if "OVERLAP_WHOLE" in os.environ:
        exchange._PIECE = 1 << 60
    net, store, trainer, x, y = gluon_nets.dense_job(mx, LAYERS, UNITS, BATCH, 0.01, "relu")
    loss_of = mx.gluon.loss.L2Loss()
    mx.profiler.set_config(filename=str(Path(folder, f"{store.rank}.json")),
                           profile_imperative=False)
    calls = mx.profiler.Domain("script")
    took = []
    for step in range(WARM + STEPS):
        if step == WARM:
            mx.nd.waitall()
            store.barrier()
            mx.profiler.set_state("run")
        begin = time.perf_counter()
        with calls.new_task("forward"), mx.autograd.record():
            loss = loss_of(net(x), y)
        with calls.new_task("backward"):
            loss.backward()
        with calls.new_task("step"):
            trainer.step(BATCH * store.num_workers)
        if step >= WARM:
            took.append(time.perf_counter() - begin)
    mx.nd.waitall()
    mx.profiler.dump()
    Path(folder, f"{store.rank}.took").write_text(json.dumps(1000 * statistics.median(took)))


def job(workers: int, servers: int, env: dict[str, str]) -> tuple[list[list[Any]], float]:
    """The events of each worker, and milliseconds a step (median, the slowest worker's)."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, str(HERE.parent / "tools" / "launch.py"), "-n", str(workers), "-s",
             str(servers), sys.executable, str(HERE / "overlap.py"), "--worker", folder],
            env=dict(os.environ, PYTHONPATH=str(HERE.parent), **env), check=True, timeout=100,
            stdout=subprocess.DEVNULL)
        ranks = range(workers)
        took = max(json.loads(Path(folder, f"{rank}.took").read_text()) for rank in ranks)
        return [json.loads(Path(folder, f"{rank}.json").read_text())["traceEvents"]
                for rank in ranks], took


def spans(events: list[Any]) -> dict[str, list[Span]]:
    """Category -> (name, begin, end) in milliseconds, in order."""
    found: dict[str, list[Span]] = {}
    begun: dict[Any, Any] = {}
    for event in events:
        if event["ph"] == "b":
            begun[event["id"]] = event["ts"]
        elif event["ph"] in "eX":
            begin = event["ts"] if event["ph"] == "X" else begun.pop(event["id"])
            end = event["ts"] + event.get("dur", 0)
            found.setdefault(event["cat"], []).append((event["name"], begin / 1000, end / 1000))
    return {category: sorted(rows, key=lambda row: row[1]) for category, rows in found.items()}


def steps(events: list[Any]) -> list[dict[str, list[Span]]]:
    """The spans of each step but the last: what is drawn, by the row it is drawn in."""
    rows = spans(events)
    calls, graphs = rows.get("script", []), runs(rows.get("engine", []))
    begins = [begin for name, begin, _ in calls if name == "forward"]
    cut = []
    for begin, end in pairwise(begins):
        late = [run for run in graphs if begin <= run[0][1]]
        if len(late) < 3:
            break
        forward, backward, following = late[:3]
        until = following[-1][2]
        inside = {
            "script": [row for row in calls if begin <= row[1] < end],
            "graphs": [*forward, *backward, *following],
            "marks": [("backward", backward[0][1], backward[-1][2]),
                      ("forward", following[0][1], until)],
            "gradients": [row for row in rows.get("pending", [])
                          if row[0].startswith("gradient") and begin <= row[1] < end],
            "pushes": [row for row in rows.get("kvstore", [])
                       if row[0].endswith(".push") and begin <= row[1] < end],
            "pulls": [row for row in rows.get("pending", [])
                      if row[0].startswith("pull") and begin <= row[1] < end],
        }
        if inside["pushes"] and inside["pulls"] and inside["gradients"]:
            # a push waits for its gradients: it starts when the last of them is there
            ready = sorted(row[2] for row in inside["gradients"])
            inside["pushes"] = [
                (name, max([first] + [at for at in ready if first < at < last]), last)
                for name, first, last in inside["pushes"]]
            inside["whole"] = [("step", begin, until)]
            cut.append(inside)
    return cut


def runs(pieces: list[Span]) -> list[list[Span]]:
    """The pieces of each graph: one that waits for weights runs as "... (1 of 5)" and so on."""
    found: list[list[Span]] = []
    for piece in pieces:
        if " of " not in piece[0] or "(1 of " in piece[0]:
            found.append([])
        if found:
            found[-1].append(piece)
    return found


def figures(step: dict[str, list[Span]]) -> dict[str, float]:
    """What a step's picture says, in milliseconds and shares."""
    (_, began, ended), (_, following, _) = step["marks"]
    first = min(begin for _, begin, _ in step["pushes"])
    arrived = max(end for _, _, end in step["pulls"])
    early = sum(end < ended for _, _, end in step["pushes"])
    return {"backward": ended - began, "first push after": first - began,
            "communication": arrived - first,
            "hidden": max(0.0, min(ended, arrived) - first) / (arrived - first),
            "pushes": len(step["pushes"]), "gone before the end of backward": early,
            "forward ahead": arrived - following}


COLOURS = {"script": "#9aa5b1", "graphs": "#3b7dd8", "gradients": "#7b5cd6", "pushes": "#e08a1e",
           "pulls": "#2f9e62"}


def picture(step: dict[str, list[Span]]) -> str:
    """A time line of a step as SVG; spans of a row that overlap get lines of their own."""
    _, zero, until = step["whole"][0]
    scale = 860 / (until - zero)
    shapes: list[str] = []
    y = 24
    for row, colour in COLOURS.items():
        free: list[float] = []
        for name, begin, end in step[row]:
            line = next((i for i, last in enumerate(free) if last <= begin), len(free))
            free[line:line + 1] = [end]
            x, width = 90 + (begin - zero) * scale, max(1.0, (end - begin) * scale)
            title = f"{name}: {begin - zero:.1f} to {end - zero:.1f} ms"
            shapes.append(f'<rect x="{x:.1f}" y="{y + 11 * line}" width="{width:.1f}" height="9" '
                          f'fill="{colour}"><title>{title}</title></rect>')
        shapes.append(f'<text x="4" y="{y + 8}">{row}</text>')
        y += 11 * max(1, len(free)) + 8
    (_, began, ended), (_, following, _) = step["marks"]
    for at, text in ((began, "backward"), (ended, "its end"), (following, "forward")):
        x = 90 + (at - zero) * scale
        shapes.append(f'<path d="M{x:.1f} 16V{y}" stroke="#c33" stroke-dasharray="2 3"/>'
                      f'<text x="{x + 2:.1f}" y="12" fill="#c33">{text}</text>')
    shapes.append(f'<text x="90" y="{y + 8}">0 ms</text>'
                  f'<text x="950" y="{y + 8}" text-anchor="end">{until - zero:.0f} ms</text>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 {y + 14}" font-size="10" '
            'font-family="sans-serif">\n<rect width="100%" height="100%" fill="#fff"/>\n'
            + "\n".join(shapes) + "\n</svg>\n")


def main() -> None:
    """Run the job in three ways, print the figures, write the pictures."""
    parser = jobs.parser("overlap", __doc__, 2, 1)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--trace", type=Path, help="write a Chrome trace of all workers")
    parser.add_argument("--svg", type=Path, help="draw a step of worker 0")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.worker)
        return
    for _ in range(options.rounds):
        for way, env in WAYS.items():
            traces, took = job(options.n, options.s, env)
            print(f"{way}: {took:.1f} ms a step", flush=True)
    last: dict[str, list[Span]] | None = None
    for rank, events in enumerate(traces):
        found = steps(events)
        if not found:
            print(f"worker {rank}: no step in which a push left while graphs were queued")
            continue
        each = [figures(step) for step in found]
        middle = {key: statistics.median(one[key] for one in each) for key in each[0]}
        print(f"worker {rank}, medians of {len(each)} steps: backward {middle['backward']:.1f} ms; "
              f"first push {middle['first push after']:.1f} ms after its begin; "
              f"{middle['gone before the end of backward']:.0f} of {middle['pushes']:.0f} pushes "
              f"gone before its end; communication {middle['communication']:.1f} ms, of which "
              f"{100 * middle['hidden']:.0f} % while backward computed; the next forward began "
              f"{middle['forward ahead']:.1f} ms before the last weight was there")
        if rank == 0:
            last = found[-1]
    if options.trace:
        events = [event for several in traces for event in several]
        options.trace.write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}))
    if options.svg and last is not None:
        options.svg.write_text(picture(last))


if __name__ == "__main__":
    main()
