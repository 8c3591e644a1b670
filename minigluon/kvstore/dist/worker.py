"""The KVStore of a worker: what `kvstore.create("dist_sync")` returns.

`push` takes the value as it is at the call; `pull` returns at once, and the array is waited for
when it is read. A call with a list of keys is one message to each server, apart from big arrays,
which travel in parts of a few megabytes.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from ...base import ArgumentValueError, KVStoreError, NotForThisError
from ...context import cpu
from ...ndarray import NDArray
from ...optimizer import Optimizer
from ..api import Key
from ..compression import Residuals, codec_of
from . import messages as say
from . import states
from .commands import Head, compression, optimizer_in
from .exchange import Exchange, server_node
from .messages import SCHEDULER, KeySpec, Role
from .metrics import add_up
from .rule import describe

__all__ = ["DistKVStore"]


class DistKVStore(Exchange):
    """Values shared by all workers of a job, kept and updated on its servers.

    Without an optimizer a push replaces the value: in the sync types by the sum over all workers,
    in the async types by what was pushed. `init` and `set_optimizer` are to be called by every
    worker, in any order of keys; the values of worker 0 count. The batch size of a Trainer step is
    the number of samples of all workers: N workers with batch B and ``step(N * B)`` train as one
    worker with batch N * B.

    Args:
        name: 'dist_sync', 'dist', 'dist_async', 'dist_device_sync', 'dist_device_async', ...
        client: the process' connection to its job; by default the one described by DMLC_*.
    """

    # -- updates --------------------------------------------------------------------------------

    def set_optimizer(self, optimizer: Optimizer) -> None:
        """Let the servers update the values by `optimizer`; every worker has to call it alike."""
        self._check_open()
        if not isinstance(optimizer, Optimizer):
            raise KVStoreError(f"set_optimizer: expected an Optimizer, got {optimizer!r}")
        message = describe(optimizer, self._store)
        self._optimizer = optimizer
        self._everywhere(message, f"set_optimizer of {message.name}")
        if self._keeps_whole():
            self._gather_whole()

    def _gather_whole(self) -> None:
        """Bring keys that are cut to one server each: the optimizer has to see them whole."""
        cut = [place for place in self._places.values() if len(place.servers) > 1]
        if not cut:
            return
        specs = tuple(KeySpec(place.key, place.shape, place.dtype) for place in cut)
        values: dict[Key, Any] = {}
        if self.rank == 0:
            held = {p.key: NDArray(np.empty(p.shape, p.dtype), cpu()) for p in cut}
            self.pull(list(held), list(held.values()))
            values = {one: array._sync() for one, array in held.items()}
        self.barrier()  # nobody pushes any more to what moves now
        self._place(specs, values, whole=True)
        self.barrier()
        if self.rank == 0:
            idents = tuple(place.ident for place in cut)
            self._everywhere(say.Drop(0, idents), "forgetting keys that have moved")

    def update_optimizer_settings(self, settings: dict[str, Any]) -> None:
        """Settings that hold from this worker's next push on."""
        self._check_open()
        for node in self._client.servers:
            self._client.request(
                node, say.UpdateSettings(0, self._store, dict(settings)), "optimizer settings",
                None, self._client.push_failed,
            )

    def set_updater(self, updater: Any) -> None:
        """Refused: values live on the servers, where a function of this process cannot run."""
        raise NotForThisError(
            f"KVStore '{self.type}' cannot run a function of this process on its servers; use "
            "set_optimizer with an Optimizer (a class of your own will do)"
        )

    def set_gradient_compression(self, compression_params: dict[str, Any]) -> None:
        """Push float32 gradients in 1 or 2 bits an element; values still come back whole.

        Every worker calls it before its first push. Keys of other types travel as they are.

        Args:
            compression_params: {'type': '2bit' or '1bit', 'threshold': number}.
        """
        self._check_open()
        codec = codec_of(compression_params)
        message = say.SetCompression(0, self._store, codec.number, codec.threshold)
        self._everywhere(message, f"set_gradient_compression {codec.name}")
        self._residuals = Residuals.by(codec, self._residuals)

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Write the states of all servers into one file, as a store of one process would."""
        optimizer = self._needs_optimizer("save_optimizer_states")
        self._client.drain()
        replies = self._everywhere(say.SaveStates(0, self._store), "optimizer states")
        found = [reply for reply in replies if isinstance(reply, say.States)]
        states.save(fname, optimizer, found, self._places, dump_optimizer)

    def load_optimizer_states(self, fname: str) -> None:
        """Take over states from a file, also of another number of servers or of one process."""
        optimizer = self._needs_optimizer("load_optimizer_states")
        loaded, updater = states.load(fname, optimizer)
        if updater.optimizer is not optimizer:
            self.set_optimizer(updater.optimizer)
        pieces = list(states.cut(loaded, self._places, self._store))
        none: dict[str, Any] = {"states": [], "anew": True}  # what the file lacks has no state
        self._everywhere(say.LoadStates(0, self._store, none, ()), "loading optimizer states")
        waits = [
            self._client.request(server_node(server), message, "loading optimizer states")
            for server, message in pieces
        ]
        for pending in waits:
            self._client.wait(pending)

    def _needs_optimizer(self, what: str) -> Optimizer:
        self._check_open()
        if self._optimizer is None:
            raise KVStoreError(f"{what}: no optimizer has been set; call set_optimizer first")
        return self._optimizer

    # -- the group ------------------------------------------------------------------------------

    def barrier(self) -> None:
        """Wait until every worker is here.

        What any of them has pushed before is then part of what is pulled, in the asynchronous types
        too.
        """
        self._check_open()
        self._settle()
        self._client.barrier()

    @property
    def barrier_before_exit(self) -> bool:
        """Whether this process, when it ends, first waits for the others to; False unless set."""
        return self._client.barrier_before_exit

    @barrier_before_exit.setter
    def barrier_before_exit(self, wish: bool) -> None:
        self._client.barrier_before_exit = bool(wish)

    def num_dead_node(self, node_id: int, timeout: float = 60.0) -> int:
        """How many processes of a group the scheduler has not heard of for `timeout` seconds.

        Args:
            node_id: 1 for the scheduler (which answers, so it lives), 2 for servers, 4 for
                workers, or a sum of them.
        """
        self._check_open()
        if not isinstance(node_id, int) or not 0 < node_id < 8:
            raise ArgumentValueError(
                f"num_dead_node: node_id: expected 1 (scheduler), 2 (servers), 4 (workers) or a "
                f"sum of them, got {node_id!r}"
            )
        roles = tuple(role for bit, role in ((2, Role.SERVER), (4, Role.WORKER)) if node_id & bit)
        message = say.CountDead(0, roles, float(timeout))
        reply = self._client.wait(self._client.request(SCHEDULER, message, "num_dead_node"))
        assert isinstance(reply, say.StatsReply)
        return int(reply.counters["dead"])

    def send_command_to_servers(self, head: int, body: str) -> None:
        """Send one of MXNet's commands to all servers; returns when all have it.

        Args:
            head: 0 controller (a pickled optimizer is set as by `set_optimizer`, anything else goes
                to the ``controller`` of a `KVStoreServer`), 1 multi-precision for the optimizer set
                next, 2 stop (this worker is done with the store; servers end after the last one),
                3 sync mode, 4 gradient compression ('2bit,0.5'), 5 profiler.
            body: text that goes with it.
        """
        if head == Head.CONTROLLER and (optimizer := optimizer_in(body)) is not None:
            self.set_optimizer(optimizer)
        elif head == Head.COMPRESSION:
            self.set_gradient_compression(compression(body))
        else:
            self._everywhere(say.Command(0, self._store, int(head), str(body)), f"command {head}")

    def stats(self) -> dict[str, Any]:
        """Counters of all servers, added up.

        pushes, pulls, updates, rounds (steps merged), bytes_in, bytes_out; wait_seconds (from a
        step's first gradient to its last) and last_seconds (the same by the rank that came last);
        merge_seconds, update_seconds; staleness (how many updates of others a worker had not seen
        when it pushed to an asynchronous store: sum, maximum, histogram). Of this worker: how many
        bytes of gradients compression took in and sent.
        """
        replies = self._everywhere(say.Stats(), "statistics")
        total = add_up(reply.counters for reply in replies if isinstance(reply, say.StatsReply))
        rest = self._residuals
        total["rows_sent_bytes"] = self._rows.sent_bytes
        total["rows_pulled_bytes"] = self._rows.pulled_bytes
        if rest is not None:
            total["compression_raw_bytes"] = rest.raw_bytes
            total["compression_sent_bytes"] = rest.sent_bytes
        return total

    def leave(self) -> None:
        """This worker has no more data: the others' steps go on without it.

        The sums they get lack its part. When all workers have left, which this call waits for, all
        are in again, for the next epoch; pull then to have the last values.
        """
        if "async" not in self._name:
            self._client.drain()
            self._everywhere(say.Leave(0, self._store, True), "leave")
        self.barrier()

    def close(self) -> None:
        """No more steps of this worker in this store; later calls raise at once."""
        if self._closed or self._client.closed or self._client.failure is not None:
            self._closed = True
            return
        self._everywhere(say.Leave(0, self._store), "close")
        self._closed = True
