"""Where the time goes: events on a time line, and their sums.

>>> import minigluon as mx
>>> mx.profiler.set_config(filename="profile.json", aggregate_stats=True)
>>> mx.profiler.set_state("run")
>>> y = mx.nd.dot(mx.nd.ones((4, 4)), mx.nd.ones((4, 4)))
>>> mx.profiler.set_state("stop")
>>> "dot " in mx.profiler.dumps(reset=True)
True

While it runs, each call of an operator, each run of a compiled graph and each call of a KVStore is
an event. ``dump()`` writes them as Chrome trace JSON, which Perfetto (ui.perfetto.dev) and
chrome://tracing open. With ``profile_symbolic=True`` (or ``profile_all=True``) graphs run operator
by operator, unfused, so that the operators in them are seen; without it a graph is one event of its
true length. While it does not run it costs nothing.

While graphs are watched nothing is queued, so that times are true. With
``profile_imperative=False`` graphs are queued as ever, and the events show what runs at the same
time: queued graphs (category 'engine'), and gradients and values on their way ('pending').
"""
from __future__ import annotations

import functools
import itertools
import json
import os
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from .base import ArgumentValueError
from .device import engine
from .dispatch import observing
from .ops import Operator

__all__ = ["Counter", "Domain", "Event", "Frame", "Marker", "Task", "dump", "dump_profile", "dumps",
           "pause", "profiler_set_config", "profiler_set_state", "resume", "set_config",
           "set_kvstore", "set_state", "watch"]

_EPOCH = time.time_ns() - time.perf_counter_ns()  # what the clock of the events began at


class _Config:
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


class _Profiler:
    """The events so far, and whether more are taken."""

    def __init__(self) -> None:
        self.config = _Config()
        self.events: list[dict[str, Any]] = []
        # category -> name -> times of events that are written to a file and gone
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
            category, number = "engine" if works else "pending", next(_numbers)
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


_profiler = _Profiler()
_numbers = itertools.count(1)


def watch(cls: type, names: Sequence[str]) -> None:
    """Have calls of these methods of a class be events while the profiler runs."""
    if all(known is not cls for known, _ in _profiler.watched):
        _profiler.watched.append((cls, names))
        if _profiler.running:
            _profiler.wrap(cls, names)


# -- what scripts call ----------------------------------------------------------------------------


_store: Callable[[], Any] | None = None


def set_kvstore(store: Any) -> None:
    """The store whose servers are meant by ``profile_process='server'`` (create() says which)."""
    global _store
    if hasattr(store, "num_dead_node") and store.num_workers and "dist" in store.type:
        _store = weakref.ref(store)


def _elsewhere(profile_process: str, call: str, **arguments: Any) -> bool:
    """Whether the call is for the servers; they have been told then."""
    if profile_process == "worker":
        return False
    if profile_process != "server":
        raise ArgumentValueError("profile_process: expected 'worker' or 'server', got "
                                 f"{profile_process!r}")
    store = _store() if _store is not None else None
    if store is None:
        raise ArgumentValueError("profile_process='server': create a distributed KVStore first; "
                                 "its servers are profiled")
    if store.rank == 0:  # one worker speaks for all
        store.send_command_to_servers(5, json.dumps([call, arguments]))
    return True


def set_config(profile_process: str = "worker", **kwargs: Any) -> None:
    """Say what is profiled and where to; settings not named keep what they are.

    Args:
        filename: where ``dump`` writes. profile_all: take all kinds of events.
        profile_symbolic: the operators inside of compiled graphs.
        profile_imperative: operators and graphs that are called.
        profile_memory, profile_api: accepted; there are no such events.
        continuous_dump: write the file each time the profiler stops. dump_period: accepted.
        aggregate_stats: accepted; ``dumps`` always works.
        profile_process: 'worker', or 'server': all servers of the last distributed KVStore, each
            with its own file ``rank<N>_<filename>``; what worker 0 says counts.
    """
    for name in kwargs:
        if not hasattr(_Config, name):
            known = ", ".join(key for key in vars(_Config) if not key.startswith("_"))
            raise ArgumentValueError(f"profiler.set_config: Cannot find argument '{name}', "
                                     f"Possible Arguments: {known}")
    if not _elsewhere(profile_process, "set_config", **kwargs):
        for name, value in kwargs.items():
            setattr(_profiler.config, name, value)


def set_state(state: str = "stop", profile_process: str = "worker") -> None:
    """Begin ('run') or end ('stop') to take events."""
    if state not in ("run", "stop"):
        raise ArgumentValueError(f"profiler.set_state: expected 'run' or 'stop', got {state!r}")
    if _elsewhere(profile_process, "set_state", state=state):
        return
    stops = _profiler.running and state == "stop"
    _profiler.run(state == "run")
    if stops and _profiler.config.continuous_dump:
        dump(finished=False)


def pause(profile_process: str = "worker") -> None:
    """Take no events until ``resume``."""
    set_state("stop", profile_process)


def resume(profile_process: str = "worker") -> None:
    """Take events again."""
    set_state("run", profile_process)


def dump(finished: bool = True, profile_process: str = "worker") -> None:
    """Write the events so far to the file of ``set_config``, as Chrome trace JSON.

    Args:
        finished: also stop, and begin a new file with the next run; ``dumps`` goes on counting.
        profile_process: as in `set_config`.
    """
    if _elsewhere(profile_process, "dump", finished=finished):
        return
    _profiler.take_spans()
    name = {"name": "process_name", "ph": "M", "pid": os.getpid(),
            "args": {"name": f"minigluon {os.getpid()}"}}
    with open(_profiler.config.filename, "w", encoding="utf-8") as file:
        json.dump({"traceEvents": [name, *_profiler.events], "displayTimeUnit": "ms"}, file)
    if finished:
        _profiler.run(False)
        _profiler.written = _lasting()
        _profiler.events.clear()


def dumps(reset: bool = False, format: str = "table", sort_by: str = "total",
          ascending: bool = False) -> str:
    """Count, sum, least, greatest and mean time in ms of the events of each name.

    Args:
        reset: forget the events. format: 'table' or 'json'.
        sort_by: 'total', 'avg', 'min', 'max' or 'count'. ascending: the smallest first.
    """
    assert format in ("table", "json"), (
        f"Invalid value provided for format: {format}. Support: 'table', 'json'")
    assert sort_by in ("total", "avg", "min", "max", "count"), (
        f"Invalid value provided for sort_by: {sort_by}. "
        "Support: 'total', 'avg', 'min', 'max', 'count'")
    key = sort_by.capitalize()
    sums = {category: dict(sorted(rows.items(), key=lambda item: item[1][key],
                                  reverse=not ascending))
            for category, rows in sorted(_sums().items())}
    if reset:
        _profiler.events.clear()
        _profiler.written.clear()
    return json.dumps({"Time": sums, "Unit": {"Time": "ms"}}, indent=4) if format == "json" else (
        _table(sums))


def _lasting() -> dict[str, dict[str, list[float]]]:
    """Category -> name -> times in ms, of the events written and of those since; counters: values.
    """
    _profiler.take_spans()
    lasting = {category: {name: [*values] for name, values in rows.items()}
               for category, rows in _profiler.written.items()}
    begun: dict[Any, float] = {}
    for event in _profiler.events:
        if event["ph"] == "b":
            begun[event["id"]] = event["ts"]
            continue
        if event["ph"] == "C":
            value = event["args"][event["name"]]
        elif event["ph"] == "e":
            value = (event["ts"] - begun.pop(event["id"], event["ts"])) / 1000
        elif event["ph"] == "X":
            value = event["dur"] / 1000
        else:
            continue
        lasting.setdefault(event["cat"], {}).setdefault(event["name"], []).append(value)
    return lasting


def _sums() -> dict[str, dict[str, dict[str, float]]]:
    """Category -> name -> Count, Total, Min, Max, Avg."""
    return {category: {name: {"Count": len(values), "Total": sum(values), "Min": min(values),
                              "Max": max(values), "Avg": sum(values) / len(values)}
                       for name, values in rows.items()}
            for category, rows in _lasting().items()}


def _table(sums: dict[str, dict[str, dict[str, float]]]) -> str:
    titles = ("Name", "Total Count", "Time (ms)", "Min Time (ms)", "Max Time (ms)",
              "Avg Time (ms)")
    lines = ["", "Profile Statistics:"]
    for category, rows in sums.items():
        lines += [category, "=" * 17, _row(*titles), _row(*("-" * len(title) for title in titles))]
        lines += [_row(name, row["Count"], *(f"{row[key]:.4f}"
                                             for key in ("Total", "Min", "Max", "Avg")))
                  for name, row in rows.items()]
        lines.append("")
    return "\n".join(lines)


def _row(name: Any, count: Any, *times: Any) -> str:
    return f"{name:<30}{count:>11}" + "".join(f"{one:>17}" for one in times)


def profiler_set_config(mode: str = "symbolic", filename: str = "profile.json") -> None:
    """Deprecated: ``set_config``."""
    warnings.warn("profiler.profiler_set_config() is deprecated. Please use profiler.set_config() "
                  "instead", stacklevel=2)
    set_config(filename=filename, profile_symbolic=True, profile_all=mode == "all")


def profiler_set_state(state: str = "stop") -> None:
    """Deprecated: ``set_state``."""
    warnings.warn("profiler.profiler_set_state() is deprecated. Please use profiler.set_state() "
                  "instead", stacklevel=2)
    set_state(state)


def dump_profile() -> None:
    """Deprecated: ``dump``."""
    warnings.warn("profiler.dump_profile() is deprecated. Please use profiler.dump() instead",
                  stacklevel=2)
    dump()


# -- events of one's own --------------------------------------------------------------------------


class Domain:
    """A group of tasks, frames, counters and markers.

    >>> domain = Domain("input")
    >>> with domain.new_task("decode"):
    ...     images = domain.new_counter("images", 0)
    ...     images += 8
    >>> str(domain), str(images)
    ('input', 'images')
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name

    def new_task(self, name: str) -> Task:
        """A Task of this domain."""
        return Task(self, name)

    def new_frame(self, name: str) -> Frame:
        """A Frame of this domain."""
        return Frame(self, name)

    def new_counter(self, name: str, value: float | None = None) -> Counter:
        """A Counter of this domain."""
        return Counter(self, name, value)

    def new_marker(self, name: str) -> Marker:
        """A Marker of this domain."""
        return Marker(self, name)


class _Span:
    """Something with a start and a stop; also a ``with`` block."""

    def __init__(self, category: str, name: str) -> None:
        self.name = name
        self._category = category
        self._id = next(_numbers)

    def start(self) -> None:
        """It begins now."""
        _profiler.add(self.name, self._category, "b", time.perf_counter_ns(), id=self._id)

    def stop(self) -> None:
        """It ends now."""
        _profiler.add(self.name, self._category, "e", time.perf_counter_ns(), id=self._id)

    def __enter__(self) -> Any:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def __str__(self) -> str:
        return self.name


class Task(_Span):
    """A piece of work; may begin in one thread and end in another."""

    def __init__(self, domain: Domain, name: str) -> None:
        super().__init__(domain.name, name)


class Frame(_Span):
    """One of many passes of the same kind, e.g. an image."""

    def __init__(self, domain: Domain, name: str) -> None:
        super().__init__(f"{domain.name},frame", name)


class Event(_Span):
    """A piece of work in one thread, of no domain."""

    def __init__(self, name: str) -> None:
        super().__init__("event", name)
        self._begin: int | None = None

    def start(self) -> None:
        """It begins now."""
        self._begin = time.perf_counter_ns()

    def stop(self) -> None:
        """It ends now."""
        if self._begin is not None:
            _profiler.span(self.name, self._category, self._begin, time.perf_counter_ns())
            self._begin = None


class Counter:
    """A number that changes: ``counter += 3``, ``counter.set_value(7)``."""

    def __init__(self, domain: Domain, name: str, value: float | None = None) -> None:
        self.name = name
        self._category = domain.name
        self._value = 0.0
        if value is not None:
            self.set_value(value)

    def set_value(self, value: float) -> None:
        """It is this from now on."""
        self._value = value
        _profiler.add(self.name, self._category, "C", time.perf_counter_ns(),
                      args={self.name: value})

    def increment(self, delta: float = 1) -> None:
        """It grows."""
        self.set_value(self._value + delta)

    def decrement(self, delta: float = 1) -> None:
        """It shrinks."""
        self.set_value(self._value - delta)

    def __iadd__(self, delta: float) -> Counter:
        self.increment(delta)
        return self

    def __isub__(self, delta: float) -> Counter:
        self.decrement(delta)
        return self

    def __str__(self) -> str:
        return self.name


class Marker:
    """A moment."""

    def __init__(self, domain: Domain, name: str) -> None:
        self.name = name
        self._category = f"{domain.name},instant_marker"

    def mark(self, scope: str = "process") -> None:
        """It is now; `scope` is 'global', 'process', 'thread', 'task' or 'marker'."""
        scopes = {"global": "g", "process": "p", "thread": "t", "task": "t", "marker": "t"}
        if scope not in scopes:
            raise ArgumentValueError(f"Marker.mark: scope must be one of {', '.join(scopes)}, "
                                     f"got {scope!r}")
        _profiler.add(self.name, self._category, "i", time.perf_counter_ns(), s=scopes[scope])

    def __str__(self) -> str:
        return self.name
