"""The KVStore of a worker: what `kvstore.create("dist_sync")` returns.

`push` takes the value as it is at the call; `pull` returns at once, and the array is waited for
when it is read. A call with a list of keys is one message to each server, apart from big arrays,
which travel in parts of a few megabytes.
"""
from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...base import ArgumentValueError, KVStoreError, NotForThisError, ShapeError
from ...context import cpu
from ...ndarray import NDArray
from ...optimizer import Optimizer
from ..api import Key, KeyKind, KVStoreBase, check_arrays, group, priorities
from ..compression import Residuals, codec_of
from ..reduce import reduce
from ..rows import dense_and_sparse, rows_asked
from . import messages as say
from . import states
from .batches import BATCH_BYTES, Batch, Home, Sink, batches, host, sinks
from .client import Client
from .commands import Head, compression, optimizer_in
from .messages import SCHEDULER, KeySpec, Message, Node, Placement, Role
from .metrics import add_up
from .process import next_store, process_client
from .repeats import Repeats
from .requests import Answer, Pending
from .rowtraffic import RowTraffic
from .rule import describe, elementwise
from .wire import check_dtype

__all__ = ["DistKVStore"]

Keys = Key | Sequence[Key]


class DistKVStore(KVStoreBase):
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

    def __init__(self, name: str, client: Client | None = None) -> None:
        self._name = name
        self._client = client if client is not None else process_client()
        if self._client.job.slice and "async" in name:
            raise ArgumentValueError(
                f"KVStore '{name}': P3 (DMLC_PS_VAN_TYPE=p3, --p3) is for synchronous types; use "
                "dist_sync, or start the job without P3"
            )
        self._store = next_store(self._client)
        self._limit = 0 if self._client.job.slice else BATCH_BYTES
        self._kind = KeyKind()
        self._rows = RowTraffic(self)
        self._repeats = Repeats(self)
        self._places: dict[Key, Placement] = {}
        self._homes: dict[Key, Home] = {}
        self._steps: dict[Key, int] = {}
        self._optimizer: Optimizer | None = None
        self._residuals: Residuals | None = None
        self._closed = False

    @property
    def type(self) -> str:
        """The name the store was made by."""
        return self._name

    @property
    def rank(self) -> int:
        """Number of this worker."""
        return self._client.rank

    @property
    def num_workers(self) -> int:
        """How many workers the job has."""
        return self._client.job.workers

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Servers run optimizers, and lists of keys are one exchange."""
        return capability.lower() in (KVStoreBase.OPTIMIZER, KVStoreBase.BATCH)

    # -- values ---------------------------------------------------------------------------------

    def init(self, key: Keys, value: Any) -> None:
        """Create keys; returns when the servers hold worker 0's values."""
        grouped = self._grouped("init", key, value)
        for one in grouped:
            if one in self._places:
                raise KVStoreError(f"init: key {one!r} has been initialised already; use push")
        specs = tuple(
            KeySpec(one, arrays[0].shape, check_dtype(arrays[0].dtype, f"init of key {one!r}"))
            for one, arrays in grouped.items()
        )
        values = {one: host(arrays[0]) for one, arrays in grouped.items()}
        self._place(specs, values, whole=self._keeps_whole())

    def _place(self, specs: tuple[KeySpec, ...], values: dict[Key, Any], whole: bool) -> None:
        """Ask for places; as worker 0, bring the values there."""
        message = say.Declare(0, self._store, self._name, whole, specs)
        what = f"init of {_names([spec.key for spec in specs])}"
        placed = self._client.wait(self._client.request(SCHEDULER, message, what))
        assert isinstance(placed, say.Placed)
        places = {place.key: place for place in placed.keys}
        homes = {key: Home(place) for key, place in places.items()}
        if self.rank == 0:
            waits: list[Pending] = []
            for batch in batches((homes[spec.key] for spec in specs), values):
                names = tuple(batch.keys)
                init = say.Init(0, self._store, self._name, names, tuple(batch.items))
                waits.append(self._client.request(_server(batch.server), init, what))
            for pending in waits:
                self._client.wait(pending)
            idents = tuple(place.ident for place in places.values())
            self._client.post(SCHEDULER, say.Initialised(0, idents))
        self._places.update(places)
        self._homes.update(homes)
        for key in places:
            self._steps.setdefault(key, 0)
        self._repeats.forget()

    def broadcast(self, key: Keys, value: Any, out: Any, priority: Any = 0) -> None:
        """`init`, then fill `out` with worker 0's values."""
        self.init(key, value)
        self.pull(key, out, priority)

    def push(self, key: Keys, value: Any, priority: Any = 0) -> None:
        """Give gradients, as they are now."""
        if self._repeats.run(say.Push, key, value, None, priority):
            return
        grouped = self._grouped("push", key, value)
        order = priorities(key, priority)
        self._rows.push({one: grouped.pop(one) for one in self._by_rows(grouped)})
        for batch in self._pushes(grouped, order):
            self._client.request(
                _server(batch.server), say.Push(0, tuple(batch.items)),
                f"push of {self._what(batch.keys)}", None, self._client.push_failed,
                batch.buffers, max(order[one] for one in batch.keys),
            )

    def pull(
        self, key: Keys, out: Any = None, priority: Any = 0, ignore_sparse: bool = True
    ) -> None:
        """Fill `out` with the values; returns at once, reading an array waits for it."""
        if out is None:
            raise KVStoreError("pull: expected arrays to write into (out=), got None")
        if self._repeats.run(say.Pull, key, None, out, priority):
            return
        grouped = self._grouped("pull", key, out)
        urgency = priorities(key, priority)
        for one in grouped:
            self._check(self._known(one), grouped[one], "pull")
        grouped = {one: left for one, arrays in grouped.items()
                   if (left := dense_and_sparse(arrays, ignore_sparse))}
        order = _ordered(grouped, urgency)
        homes = (self._homes[one] for one in order)
        self._fetch(say.Pull, list(batches(homes, None, limit=self._limit)), grouped, urgency)

    def pushpull(self, key: Keys, value: Any, out: Any = None, priority: Any = 0) -> None:
        """`push` and `pull` in one exchange."""
        if self._repeats.run(say.PushPull, key, value, value if out is None else out, priority):
            return
        values = self._grouped("pushpull", key, value)
        outs = values if out is None else self._grouped("pushpull", key, out)
        if self._by_rows(values):
            self.push(key, value, priority)
            self.pull(key, value if out is None else out, priority)
            return
        if values.keys() != outs.keys():
            raise KVStoreError(f"pushpull: values for {list(values)}, outputs for {list(outs)}")
        for one, arrays in outs.items():
            self._check(self._known(one), arrays, "pull")
        urgency = priorities(key, priority)
        sent = list(self._pushes(values, urgency))
        self._fetch(say.PushPull, sent, outs, urgency)

    def row_sparse_pull(
        self, key: Keys, out: Any = None, priority: Any = 0, row_ids: Any = None
    ) -> None:
        """Fill row_sparse arrays with rows; only these travel. Returns at once, as `pull`."""
        self._check_open()
        asked = rows_asked(key, out, row_ids)
        self._kind.check(list(asked))
        for one, pairs in asked.items():
            self._check(self._known(one), [array for array, _ in pairs], "pull")
        self._rows.pull(asked)

    def _by_rows(self, grouped: dict[Key, list[NDArray]]) -> list[Key]:
        """The keys of a push that travel by rows: all their arrays are row_sparse."""
        return [one for one, arrays in grouped.items()
                if all(array.stype == "row_sparse" for array in arrays)
                and self._rows.takes(self._known(one).key)]

    def _fetch(
        self, kind: builtins.type[say.Pull] | builtins.type[say.PushPull], sent: list[Batch],
        outs: dict[Key, list[NDArray]], urgency: dict[Key, int],
    ) -> None:
        """Send messages whose answers go into `outs`."""
        targets = sinks(sent, outs, self._homes)
        for batch, mine in zip(sent, targets, strict=True):
            what = f"{kind.__name__.lower()} of {self._what(batch.keys)}"
            try:
                self._client.request(
                    _server(batch.server), kind(0, tuple(batch.items)), what, _filling(mine),
                    _failing(mine), batch.buffers, max(urgency[one] for one in batch.keys),
                )
            except KVStoreError as error:  # the arrays must not wait for ever
                for several in targets:
                    _failing(several)(error)
                raise

    def _pushes(
        self, grouped: dict[Key, list[NDArray]], priority: dict[Key, int]
    ) -> Iterator[Batch]:
        """The messages of a push: what goes to which server, and the memory it lies in."""
        order = _ordered(grouped, priority)
        values: dict[Key, Any] = {}
        for one in order:
            place, arrays = self._known(one), grouped[one]
            self._check(place, arrays, "push")
            values[one] = host(arrays[0] if len(arrays) == 1 else self._sum(arrays))
        self._client.make_room()
        self._count_steps(order)
        own = {one for one in order if len(grouped[one]) > 1}
        take = self._client.requests.buffer
        homes = (self._homes[one] for one in order)
        yield from batches(homes, values, take, own, self._residuals, self._limit)

    def _count_steps(self, keys: Sequence[Key]) -> None:
        for one in keys:
            self._steps[one] += 1
        if keys:
            self._client.step, self._client.key = self._steps[keys[-1]], str(keys[-1])

    def _plain_traffic(self) -> bool:
        """Whether values are sums of what all workers push, as they are."""
        return (self._optimizer is None and self._residuals is None and "async" not in self._name
                and not self._client.job.slice)

    def _sum(self, arrays: list[NDArray]) -> NDArray:
        """The sum over this worker's devices: on the first of them in the device types."""
        return reduce(arrays, arrays[0].context if "device" in self._name else cpu())

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

    def _keeps_whole(self) -> bool:
        return self._optimizer is not None and not elementwise(self._optimizer)

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
        if self._residuals is None:
            self._residuals = Residuals(codec)
        else:
            self._residuals.codec = codec

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
            self._client.request(_server(server), message, "loading optimizer states")
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
        """Wait until every worker is here."""
        self._check_open()
        self._client.barrier()

    @property
    def barrier_before_exit(self) -> bool:
        """Whether this process, when it ends, first waits for the others to end; False unless set."""
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

    def _everywhere(self, message: Message, what: str) -> list[Message]:
        """Ask all servers the same and wait for their answers."""
        self._check_open()
        waits = [self._client.request(node, message, what) for node in self._client.servers]
        return [self._client.wait(pending) for pending in waits]

    # -- checks ---------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise KVStoreError(f"KVStore '{self.type}' has been closed; create a new one")
        self._client.check()

    def _grouped(self, what: str, key: Keys, value: Any) -> dict[Key, list[NDArray]]:
        self._check_open()
        grouped = check_arrays(what, group(key, value))
        self._kind.check(list(grouped))
        return grouped

    def _known(self, key: Key) -> Placement:
        try:
            return self._places[key]
        except KeyError:
            raise KVStoreError(
                f"KVStore: key {key!r} has not been initialised on worker {self.rank}; every "
                f"worker has to call init({key!r}, value) first"
            ) from None

    def _check(self, place: Placement, arrays: list[NDArray], what: str) -> None:
        for array in arrays:
            if array.shape != place.shape:
                raise ShapeError(
                    f"{what} of key {place.key!r}: expected shape {place.shape}, got {array.shape}"
                )
            if what == "push" and array.dtype != np.dtype(place.dtype):
                raise KVStoreError(
                    f"{what} of key {place.key!r}: expected type {place.dtype}, got "
                    f"{np.dtype(array.dtype).name}; use astype('{place.dtype}')"
                )

    def _what(self, keys: Sequence[Key]) -> str:
        step = self._steps.get(keys[0], 0) if keys else 0
        return f"{_names(keys)} (step {step})"


def _names(keys: Sequence[Key]) -> str:
    if len(keys) == 1:
        return f"key {keys[0]!r}"
    return f"{len(keys)} keys ({keys[0]!r}, ...)" if keys else "no keys"


def _filling(mine: list[Sink]) -> Answer:
    def answer(values: Message) -> None:
        assert isinstance(values, say.Values)
        for sink, item in zip(mine, values.items, strict=True):
            sink.put(item)

    return answer


def _failing(mine: list[Sink]) -> Callable[[KVStoreError], None]:
    def failed(error: KVStoreError) -> None:
        for ticket in {sink.arrival.ticket for sink in mine}:
            ticket.fail(error)

    return failed


def _server(rank: int) -> Node:
    return Node(Role.SERVER, rank)


def _ordered(grouped: dict[Key, list[NDArray]], priority: dict[Key, int]) -> list[Key]:
    """The keys, most urgent first."""
    return sorted(grouped, key=lambda key: -priority[key])
