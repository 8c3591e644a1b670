"""Values between a worker and the servers: init, push, pull, and what is common to all requests.

`DistKVStore` (worker.py) is what a script gets; here is how its arrays travel.
"""
from __future__ import annotations

import builtins
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...base import ArgumentValueError, KVStoreError, ShapeError
from ...context import cpu
from ...ndarray import NDArray
from ...optimizer import Optimizer
from ..api import Key, KeyKind, KVStoreBase, priorities
from ..compression import Residuals
from ..reduce import reduce
from ..rows import dense_and_sparse, rows_asked
from . import messages as say
from .batches import BATCH_BYTES, Batch, Home, Sink, batches, host, sinks
from .client import Client
from .messages import SCHEDULER, KeySpec, Message, Node, Placement, Role
from .process import next_store, process_client
from .repeats import Repeats
from .requests import Answer, Pending
from .rowtraffic import RowTraffic
from .rule import elementwise
from .wire import check_dtype

__all__ = ["Exchange", "Keys", "server_node"]

Keys = Key | Sequence[Key]
_FLYING = 4  # messages with first values that are under way


class Exchange(KVStoreBase):
    """The keys of a store, and their way to the servers and back.

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
        self._unanswered: deque[Pending] = deque()
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
        self._repeats.expect(tuple(key) if isinstance(key, (list, tuple)) else (key,))

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

            def take(size: int) -> np.ndarray[Any, Any]:  # shared: a server reads it where it lies
                return self._client.requests.allocate((size,), np.uint8)

            for batch in batches((homes[spec.key] for spec in specs), values, take):
                names = tuple(batch.keys)
                init = say.Init(0, self._store, self._name, names, tuple(batch.items))
                waits.append(self._client.request(server_node(batch.server), init, what))
                if len(waits) > _FLYING:  # a server shall not have to hold them all at once
                    self._client.wait(waits.pop(0))
            for pending in waits:
                self._client.wait(pending)
            idents = tuple(place.ident for place in places.values())
            self._client.post(SCHEDULER, say.Initialised(0, idents))
        self._places.update(places)
        self._homes.update(homes)
        for key in places:
            self._steps.setdefault(key, 0)
        self._repeats.forget(places)

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
            self._pushed(self._client.request(
                server_node(batch.server), say.Push(0, tuple(batch.items)),
                f"push of {self._what(batch.keys)}", None, self._client.push_failed,
                batch.buffers, max(order[one] for one in batch.keys),
            ))

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
                self._pushed(self._client.request(
                    server_node(batch.server), kind(0, tuple(batch.items)), what, _filling(mine),
                    _failing(mine), batch.buffers, max(urgency[one] for one in batch.keys),
                ))
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

    def _pushed(self, pending: Pending) -> None:
        """Remember a push to an asynchronous store until it is answered: `barrier` waits for it."""
        if "async" in self._name:
            while self._unanswered and self._unanswered[0].ended:
                self._unanswered.popleft()
            self._unanswered.append(pending)

    def _settle(self) -> None:
        """Wait until the servers have applied what this worker has pushed asynchronously."""
        while self._unanswered:
            self._client.wait(self._unanswered.popleft())

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

    def _keeps_whole(self) -> bool:
        return self._optimizer is not None and not elementwise(self._optimizer)

    # -- requests ---------------------------------------------------------------------------------

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
        return self._kind.grouped(what, key, value)

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


def server_node(rank: int) -> Node:
    return Node(Role.SERVER, rank)


def _ordered(grouped: dict[Key, list[NDArray]], priority: dict[Key, int]) -> list[Key]:
    """The keys, most urgent first."""
    return sorted(grouped, key=lambda key: -priority[key])
