"""The events so far, and whether more are taken."""
from __future__ import annotations

import functools
import itertools
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from ..device import engine
from ..dispatch import observing
from ..ops import Operator

__all__ = ["Config", "Recorder", "numbers", "recorder", "watch"]

numbers = itertools.count(1)  # events with two ends have one each
_EPOCH = time.time_ns() - time.perf_counter_ns()  # what the clock of the events began at


class Config:
    """What ``set_config`` may set."""

    filename = "profile.json"
    profile_all = False
    profile_symbolic = False
    profile_imperative = True
    profile_memory = False
    profile_api = False
    continuous_dump = False
    dump_period = 1.0
    aggregate_stats = False


class Recorder:
    """The events so far, and whether more are taken."""

    def __init__(self) -> None:
        self.config = Config()
        self.events: list[dict[str, Any]] = []
        # category -> name -> count, sum, least, greatest of events that are in a file and gone
        self.written: dict[str, dict[str, list[float]]] = {}
        self.running = False
        self.watched: list[tuple[type, Sequence[str]]] = []
        self._originals: list[tuple[type, str, Any]] = []

    def add(self, name: str, category: str, phase: str, at: int, **more: Any) -> None:
        """Take one event; `at` is a time of ``perf_counter_ns``."""
        if self.running:
            self.events.append({"name": name, "cat": category, "ph": phase,
                                "ts": (at + _EPOCH) / 1000, "pid": os.getpid(),
                                "tid": threading.get_native_id(), **more})

    def span(self, name: str, category: str, begin: int, end: int, **args: Any) -> None:
        """Take an event that lasted."""
        more = {"args": args} if args else {}
        self.add(name, category, "X", begin, dur=(end - begin) / 1000, **more)

    def operator(self, op: Operator, arrays: Sequence[Any], begin: int, end: int) -> None:
        """The observer of dispatch."""
        category = "operator" if op.direct is None else "graph"
        self.span(op.name, category, begin, end,
                  shapes=" ".join(str(tuple(array.shape)) for array in arrays[:8]))

    def run(self, on: bool) -> None:
        """Begin or stop to take events."""
        if on == self.running:
            return
        self.running = on
        everything = self.config.profile_all
        engine.trace(on)
        self.take_spans()
        if on and (everything or self.config.profile_imperative or self.config.profile_symbolic):
            observing.by(self.operator, inside=everything or self.config.profile_symbolic)
        elif not on:
            observing.by(None)
        if on:
            for cls, names in self.watched:
                self.wrap(cls, names)
        else:
            for cls, name, method in self._originals:
                if method is None:
                    delattr(cls, name)  # a base class has it
                else:
                    setattr(cls, name, method)
            self._originals.clear()

    def take_spans(self) -> None:
        """What the engine did since the last time: queued graphs, gradients and pulls on their way.

        They overlap, so each is an event with two ends.
        """
        for what, begin, end, works in engine.spans():
            category, number = "engine" if works else "pending", next(numbers)
            for phase, at in (("b", begin), ("e", end)):
                self.events.append({"name": what, "cat": category, "ph": phase, "id": number,
                                    "ts": (at + _EPOCH) / 1000, "pid": os.getpid(), "tid": 0})

    def wrap(self, cls: type, names: Sequence[str]) -> None:
        """Make methods of a class events."""
        for name in names:
            method = getattr(cls, name, None)
            if callable(method):
                self._originals.append((cls, name, cls.__dict__.get(name)))
                setattr(cls, name, self._timed(method, f"{cls.__name__}.{name}"))

    def _timed(self, method: Callable[..., Any], name: str) -> Callable[..., Any]:
        @functools.wraps(method)
        def timed(*args: Any, **kwargs: Any) -> Any:
            begin = time.perf_counter_ns()
            try:
                return method(*args, **kwargs)
            finally:
                self.span(name, "kvstore", begin, time.perf_counter_ns())

        return timed


recorder = Recorder()


def watch(cls: type, names: Sequence[str]) -> None:
    """Have calls of these methods of a class be events while the profiler runs."""
    if all(known is not cls for known, _ in recorder.watched):
        recorder.watched.append((cls, names))
        if recorder.running:
            recorder.wrap(cls, names)
