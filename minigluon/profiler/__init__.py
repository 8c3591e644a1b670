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

import json
import os
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from ..base import ArgumentValueError
from .events import Counter, Domain, Event, Frame, Marker, Task
from .record import Config, recorder, watch
from .totals import sums, table, totals

__all__ = ["Counter", "Domain", "Event", "Frame", "Marker", "Task", "dump", "dump_profile", "dumps",
           "pause", "profiler_set_config", "profiler_set_state", "resume", "set_config",
           "set_kvstore", "set_state", "watch"]

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
        if not hasattr(Config, name):
            known = ", ".join(key for key in vars(Config) if not key.startswith("_"))
            raise ArgumentValueError(f"profiler.set_config: Cannot find argument '{name}', "
                                     f"Possible Arguments: {known}")
    if not _elsewhere(profile_process, "set_config", **kwargs):
        for name, value in kwargs.items():
            setattr(recorder.config, name, value)


def set_state(state: str = "stop", profile_process: str = "worker") -> None:
    """Begin ('run') or end ('stop') to take events."""
    if state not in ("run", "stop"):
        raise ArgumentValueError(f"profiler.set_state: expected 'run' or 'stop', got {state!r}")
    if _elsewhere(profile_process, "set_state", state=state):
        return
    stops = recorder.running and state == "stop"
    recorder.run(state == "run")
    if stops and recorder.config.continuous_dump:
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
    if finished:
        recorder.run(False)  # first: what ends from here on would be in no file
    recorder.take_spans()
    name = {"name": "process_name", "ph": "M", "pid": os.getpid(),
            "args": {"name": f"minigluon {os.getpid()}"}}
    with open(recorder.config.filename, "w", encoding="utf-8") as file:
        json.dump({"traceEvents": [name, *recorder.events], "displayTimeUnit": "ms"}, file)
    if finished:
        recorder.written = sums()
        recorder.events.clear()


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
    found = {category: dict(sorted(rows.items(), key=lambda item: item[1][key],
                                   reverse=not ascending))
             for category, rows in sorted(totals().items())}
    if reset:
        recorder.events.clear()
        recorder.written.clear()
    return json.dumps({"Time": found, "Unit": {"Time": "ms"}}, indent=4) if format == "json" else (
        table(found))


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
