"""Numbers shared between devices and machines: ``create(name)`` makes a key-value store."""
from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .. import profiler
from ..base import (
    ArgumentError,
    ArgumentValueError,
    NotForThisError,
    did_you_mean,
    uncollected,
)
from ..device import num_gpus
from .api import KVStoreBase, capable
from .local import KVStore
from .teststore import TestStore

__all__ = [
    "KVStore", "KVStoreBase", "KVStoreServer", "TestStore", "capable", "check_name", "create",
    "run_if_role",
]

_LOCAL = (
    "local", "device", "local_update_cpu", "local_allreduce_cpu", "local_allreduce_device", "nccl",
)
_DIST = (
    "dist",
    "dist_sync",
    "dist_async",
    "dist_device_sync",
    "dist_sync_device",
    "dist_device_async",
    "dist_async_device",
)
_LATER = ("mpi", "horovod", "byteps")


def create(name: Any = "local") -> KVStoreBase:
    """A key-value store.

    Args:
        name: 'local' or 'device' (one process; sums on the CPU or on the devices), their aliases
            'local_update_cpu', 'local_allreduce_cpu', 'local_allreduce_device'; 'nccl' ('device'
            for GPUs); 'dist_sync' (= 'dist'), 'dist_async', 'dist_device_sync',
            'dist_device_async' (a job started by ``tools/launch.py``, with ``--p3`` in slices by
            priority); 'teststore'; or the lower-case name of a class entered with
            ``KVStoreBase.register``.

    >>> create("device").type, create().num_workers
    ('device', 1)
    """
    store = _create(name)
    profiler.set_kvstore(store)
    profiler.watch(type(store), ("init", "push", "pull", "pushpull", "broadcast",
                                 "row_sparse_pull", "barrier"))
    return store


def _create(name: Any) -> KVStoreBase:
    if not isinstance(name, str):
        raise ArgumentError(f"kvstore.create: expected the name of a store, got {name!r}")
    lowered = name.lower()
    if lowered in KVStoreBase.registry.entries:
        store: KVStoreBase = KVStoreBase.registry.create(lowered)
        return store
    if lowered in _LOCAL:
        if lowered == "nccl" and not num_gpus():
            raise NotForThisError(
                "KVStore type 'nccl' sums on GPUs, and none is here; use 'device', which sums on "
                "whatever device there is"
            )
        return KVStore(name)
    if lowered in _DIST:
        dist: KVStoreBase = _dist(".dist.worker").DistKVStore(name)
        return dist
    check_name(name)
    raise NotForThisError(
        f"KVStore type '{name}' is not built yet; use 'device' in one process or "
        "'dist_sync' under minigluon-launch"
    )


def _dist(name: str) -> ModuleType:
    """A file of the dist room, which needs zmq and the job's environment: loaded when asked for."""
    with uncollected():
        return importlib.import_module(name, __package__)


def check_name(name: str) -> None:
    """Raise ArgumentValueError for a name that no type of store has, built or not.

    >>> check_name("mpi")
    """
    known = (*_LOCAL, *_DIST, *KVStoreBase.registry.entries)
    lowered = name.lower()
    if lowered not in (*known, *_LATER):
        raise ArgumentValueError(
            f"unknown KVStore type '{name}'{did_you_mean(name, known)} (known: {', '.join(known)})"
        )


class KVStoreServer:
    """A server of a job for people who start their own: ``KVStoreServer().run()``.

    ``DMLC_*`` say where the scheduler is. Not needed under ``tools/launch.py``, nor where
    ``DMLC_ROLE=server``: importing minigluon runs the server then.

    Args:
        kvstore: accepted as in MXNet; a server needs none.
        controller: called with (head, body) for command 0 of a worker
            (``kv.send_command_to_servers(0, body)``).
    """

    def __init__(
        self, kvstore: Any = None, controller: Callable[[int, str], None] | None = None
    ) -> None:
        self._given = controller

    def controller(self, head: int, body: str) -> None:
        """What command 0 does; a subclass may have its own."""
        if self._given is not None:
            self._given(head, body)

    def run(self) -> int:
        """Serve until the job ends; the exit code (0 fine)."""
        code: int = _dist(".dist.node").serve(self.controller)
        return code


def run_if_role() -> None:
    """Become the server or scheduler that ``DMLC_ROLE`` names, and exit when the job ends.

    Called once at the end of ``import minigluon``, as MXNet does: job scripts and manifests start
    servers by running the training script with that variable set. Any other process returns.
    """
    if os.environ.get("DMLC_ROLE") in ("server", "scheduler"):
        _dist(".dist.node").run_if_role()
