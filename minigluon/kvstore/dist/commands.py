"""The commands that a worker may send to servers, and what they come to.

MXNet numbers them; its ``kv._send_command_to_servers(head, body)`` is used by scripts and by its
profiler. None of them makes a server unpickle anything: a pickled optimizer is read in the worker
that sends it and travels as ``set_optimizer`` does.
"""
from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from enum import IntEnum
from typing import Any

from ... import profiler
from ...base import ArgumentValueError, KVStoreError
from ...optimizer import Optimizer

__all__ = ["Head", "compression", "optimizer_in", "profile"]


class Head(IntEnum):
    """The commands of MXNet's servers."""

    CONTROLLER = 0
    MULTI_PRECISION = 1
    STOP = 2
    SYNC_MODE = 3
    COMPRESSION = 4
    PROFILER = 5


def optimizer_in(body: str) -> Optimizer | None:
    """The optimizer that a script has pickled into the body of command 0, if it is one.

    >>> import minigluon as mx
    >>> type(optimizer_in(pickle.dumps(mx.optimizer.SGD(), 0).decode("latin-1"))).__name__
    'SGD'
    >>> optimizer_in("words")
    """
    try:
        found = pickle.loads(body.encode("latin-1"))
    except (pickle.UnpicklingError, EOFError, KeyError, ValueError, IndexError, AttributeError,
            ImportError, TypeError):
        return None
    return found if isinstance(found, Optimizer) else None


def compression(body: str) -> dict[str, Any]:
    """The settings in the body of command 4: JSON, or 'type,threshold'.

    >>> compression("2bit,0.5")
    {'type': '2bit', 'threshold': '0.5'}
    """
    if body.lstrip().startswith("{"):
        found = json.loads(body)
        assert isinstance(found, dict)
        return found
    name, _, threshold = body.partition(",")
    return {"type": name, **({"threshold": threshold} if threshold else {})}


_PROFILER: dict[str, Callable[..., None]] = {
    "set_config": profiler.set_config, "set_state": profiler.set_state, "dump": profiler.dump,
    "pause": profiler.pause, "resume": profiler.resume,
}


def profile(body: str, rank: int) -> None:
    """Command 5 on server `rank`: a call of the profiler; files get the prefix ``rank<N>_``.

    Args:
        body: JSON ``[name, arguments]``, e.g. ``["set_state", {"state": "run"}]``.
    """
    try:
        name, arguments = json.loads(body)
        call = _PROFILER[name]
    except (ValueError, KeyError, TypeError):
        raise KVStoreError(
            f"profiler command: expected JSON [name, arguments] with one of {list(_PROFILER)}, got "
            f"{body!r:.80}"
        ) from None
    if not isinstance(arguments, dict):
        raise ArgumentValueError(f"profiler command {name}: expected arguments as a dict")
    if "filename" in arguments:
        folder, slash, file = str(arguments["filename"]).rpartition("/")
        arguments["filename"] = f"{folder}{slash}rank{rank}_{file}"
    call(**arguments)
