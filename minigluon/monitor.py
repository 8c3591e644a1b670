"""Monitor: statistics of what executors compute, every so many batches (``mx.mon``)."""
from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable
from typing import Any

from . import ndarray as nd
from .ndarray import NDArray
from .symbol import Executor

__all__ = ["Monitor"]

Stat = tuple[int, str, str]


class Monitor:
    """Looks at outputs and parameters of the executors it is installed in.

    Args:
        interval: look every so many batches.
        stat_func: a function of an array; default its norm over the root of its size.
        pattern: regular expression; only what it matches is looked at.
        sort: sort the results by name.
        monitor_all: also look at the inputs of each operator.

    >>> import minigluon as mx
    >>> executor = (mx.sym.var("x") * 2).simple_bind(mx.cpu(), x=(2,))
    >>> monitor = Monitor(1, pattern=".*mul.*")
    >>> monitor.install(executor)
    >>> monitor.tic()
    >>> _ = executor.forward(x=mx.nd.array([1, 1]))
    >>> [(number, text) for number, _, text in monitor.toc()]
    [(1, '2.0\\t')]
    """

    def __init__(self, interval: int, stat_func: Callable[[NDArray], Any] | None = None,
                 pattern: str = ".*", sort: bool = False, monitor_all: bool = False) -> None:
        self.interval = interval
        self.stat_func = stat_func or _spread
        self.sort = sort
        self.monitor_all = monitor_all
        self.re_prog = re.compile(pattern)
        self.activated = False
        self.queue: list[tuple[int, str, Any]] = []
        self.step = 0
        self.exes: list[Executor] = []

    def stat_helper(self, name: str, array: NDArray) -> None:
        """Take note of an array, if this batch is looked at and the pattern matches."""
        if self.activated and self.re_prog.match(name):
            self.queue.append((self.step, name, self.stat_func(array)))

    def install(self, exe: Executor) -> None:
        """Watch an executor."""
        exe.set_monitor_callback(self.stat_helper, self.monitor_all)
        self.exes.append(exe)

    def tic(self) -> None:
        """Begin a batch; call it before forward."""
        if self.step % self.interval == 0:
            self.queue = []
            self.activated = True
        self.step += 1

    def toc(self) -> list[Stat]:
        """End a batch; the statistics as (batch, name, text), empty if it was not looked at."""
        if not self.activated:
            return []
        for exe in self.exes:
            for name, array in (*exe.arg_dict.items(), *exe.aux_dict.items()):
                self.stat_helper(name, array)
        self.activated = False
        found = sorted(self.queue, key=lambda item: item[1]) if self.sort else self.queue
        self.queue = []
        return [(step, name, _text(value)) for step, name, value in found]

    def toc_print(self) -> None:
        """End a batch and log the statistics."""
        for step, name, text in self.toc():
            logging.info("Batch: %7d %-30s %s", step, name, text)


def _spread(array: NDArray) -> NDArray:
    return nd.norm(array) / math.sqrt(array.size)  # type: ignore[attr-defined, no-any-return]


def _text(value: Any) -> str:
    parts = value if isinstance(value, (list, tuple)) else [value]
    return "".join(
        f"{part.asscalar() if part.size == 1 else part.asnumpy()!s}\t"
        if isinstance(part, NDArray) else f"{part}\t" for part in parts)
