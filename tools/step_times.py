"""Where the time of a benchmark's step goes, call by call of its native programs.

    OMP_NUM_THREADS=2 python tools/step_times.py mlp_64 [STEPS]

The name is one of benchmarks/gluon_peer.py. Prints microseconds a step for each call of each
program (forward and backward graphs in the order in which they were made), their sum, and the
whole step, so that the difference is what Python and the Trainer take.
"""
from __future__ import annotations

import os
import runpy
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


def main() -> None:
    """Run the benchmark's step with every program measured."""
    bench, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 200
    sys.path[:0] = [str(BENCHMARKS), str(BENCHMARKS.parent)]
    threads = os.environ.get("OMP_NUM_THREADS", "1")
    sys.argv = ["gluon_peer.py", bench, "hybrid", threads, "1", "minigluon"]
    from minigluon.graph import executor

    programs: list[Any] = []
    lower = executor.lower

    def keeping(*args: Any) -> Any:
        programs.append(lower(*args))
        return programs[-1]

    executor.lower = keeping
    import timing

    def measure(name: str, step: Callable[[], Any], wait: Callable[[Any], None],
                *args: Any, **kwargs: Any) -> None:
        for _ in range(20):
            wait(step())
        bare = _timed(step, wait, count)
        for program in programs:
            program.measure(True)
        whole = _timed(step, wait, count)
        inside = 0.0
        for number, program in enumerate(programs):
            times = program.times()
            spent = sum(seconds for _, seconds in times)
            inside += spent
            if spent == 0:
                continue
            print(f"program {number}: {spent / count * 1e6:9.1f} us, {len(times)} calls")
            for label, seconds in times:
                print(f"  {seconds / count * 1e6:9.1f}  {label}")
        print(f"{name}: a step {bare * 1e6:.1f} us (measured {whole * 1e6:.1f}), in programs "
              f"{inside / count * 1e6:.1f} us")

    timing.measure = measure
    runpy.run_path(str(BENCHMARKS / "gluon_peer.py"), run_name="__main__")


def _timed(step: Callable[[], Any], wait: Callable[[Any], None], count: int) -> float:
    begin, result = time.perf_counter(), None
    for _ in range(count):
        result = step()
    wait(result)
    return (time.perf_counter() - begin) / count


if __name__ == "__main__":
    main()
