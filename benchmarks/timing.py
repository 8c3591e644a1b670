"""The timing loop every framework runs: blocks of steps, a wait at the end of each block."""
import json
import resource
import statistics
import sys
import time

BLOCK_SECONDS = 0.25


def measure(name, step, wait, budget, per=1, wait_each=False):
    """Time `step()`; ``wait(result)`` returns when it is computed. Prints one JSON line.

    Args:
        per: how many units (operators, calls) one step is.
        budget: seconds of timed blocks. wait_each: wait after every step (inference).
    """
    began = time.perf_counter()
    wait(step())
    first = time.perf_counter() - began
    # Ever more steps with a wait behind them: who only queues work would queue minutes of it.
    count, one = 1, 0.0
    while one * count < 0.2:
        count *= 2
        began = time.perf_counter()
        for _ in range(count):
            result = step()
        wait(result)
        one = (time.perf_counter() - began) / count
    steps = max(1, int(BLOCK_SECONDS / one))
    times, began = [], time.perf_counter()
    while len(times) < 3 or time.perf_counter() - began < budget:
        start = time.perf_counter()
        for _ in range(steps):
            result = step()
            if wait_each:
                wait(result)
        wait(result)
        times.append((time.perf_counter() - start) / steps / per)
    report(name, ms=statistics.median(times) * 1e3, best_ms=min(times) * 1e3,
           first_ms=first * 1e3)


def sizes(ones, wait, budget):
    """Time one eager ``x + x`` for growing arrays, which `ones(size)` makes."""
    for exponent in range(1, 9):
        x = ones(10**exponent)
        repeat = max(1, 10 ** (5 - exponent))

        def step(x=x, repeat=repeat):
            for _ in range(repeat):
                y = x + x
            return y

        measure(f"op_1e{exponent}", step, wait, budget / 4, per=repeat)


def loader(batches, wait):
    """Report the best of three passes over batches of 16,384 samples altogether."""
    best = 0.0
    for _ in range(3):
        began = time.perf_counter()
        for x, _y in batches:
            wait(x)
        best = max(best, 16384 / (time.perf_counter() - began))
    report("loader", ms=16384 / best * 1e3, best_ms=16384 / best * 1e3, samples_per_second=best)


def report(name, **values):
    """Print one result as a JSON line, with the process' peak memory in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"bench": name, "peak_mb": round(peak, 1), **values}), flush=True)


def main(table):
    """Run the benchmark named on the command line: ``peer.py NAME MODE THREADS BUDGET``."""
    name, mode, threads, budget = sys.argv[1:5]
    table[name](mode, int(threads), float(budget))
