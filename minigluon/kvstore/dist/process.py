"""The worker's process: one connection to the job, how it ends, what a fork may touch."""
from __future__ import annotations

import atexit
import os
import sys
import threading
import traceback
from types import TracebackType

from ...base import KVStoreError
from .client import Client
from .environment import read_environment
from .messages import Role

__all__ = ["next_store", "process_client"]

_lock = threading.Lock()
_client: Client | None = None
_stores: dict[int, int] = {}


def next_store(client: Client) -> int:
    """Stores are numbered per process: the n-th store of each worker is the same one."""
    with _lock:
        _stores[id(client)] = _stores.get(id(client), -1) + 1
        return _stores[id(client)]


def process_client() -> Client:
    """The connection of this process to the job of its environment, made when first needed."""
    global _client
    with _lock:
        if _client is None or _client.pid != os.getpid():
            client = Client(read_environment(Role.WORKER), enforce=True)
            _watch_uncaught(client)
            try:
                client.start()
            except BaseException:
                client.stop()
                raise
            _client = client
            atexit.register(_at_exit, client)
    _client.check()
    return _client


def _watch_uncaught(client: Client) -> None:
    """An uncaught exception of the script is a failure of the job, not a worker that leaves."""
    previous = sys.excepthook

    def hook(
        kind: type[BaseException], value: BaseException, trace: TracebackType | None
    ) -> None:
        previous(kind, value, trace)
        if os.getpid() != client.pid:
            return
        sys.stderr.flush()
        if client.failure is None and not client.closed:
            text = "".join(traceback.format_exception(kind, value, trace))
            name = client.members.get(client.me, client.me)
            client.report(f"{name} failed: {kind.__name__}: {value} (step {client.step})", text)
            client.stop()
        elif getattr(value, "exit_code", None) is not None:
            client.stop()
            sys.exit(value.exit_code)  # type: ignore[attr-defined]

    sys.excepthook = hook


def _at_exit(client: Client) -> None:
    """The script has ended: leave in order, or say what went wrong and was not seen."""
    if client.closed or os.getpid() != client.pid:
        return
    if client.failure is not None and client.noticed:
        client.stop()
        return
    try:
        client.leave()
    except KVStoreError as error:
        sys.stdout.flush()
        os.write(2, f"minigluon: {client.me}: {error}\n".encode())
        os._exit(getattr(error, "exit_code", 1))


def _after_fork() -> None:
    """A forked child (a DataLoader's worker) must not keep the connections of its parent open."""
    global _lock
    _lock = threading.Lock()
    if _client is not None:
        abandon = getattr(_client.transport, "abandon", None)
        if abandon is not None:
            abandon()


os.register_at_fork(after_in_child=_after_fork)
