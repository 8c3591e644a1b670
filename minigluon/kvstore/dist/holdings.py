"""What a server holds, and what pushes and pulls do to it: the larger part of its state machine.

Requests about values come in here (`ServerState` in server.py is the rest); actions come out.
"""
from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ...ops.storage import RowSparse
from ..compression import CODECS, Codec, Packed
from . import messages as say
from .actions import Action, Fatal, Limits, Refusal, Send
from .groups import Groups, Place, cut
from .messages import BUNDLE, Item, Role
from .rows import checked
from .rule import Rule
from .shard import INITIAL, Regime, Shard, Step, Want
from .updates import Updates

__all__ = ["Client", "Holdings"]

Array = np.ndarray[Any, Any]


class Client:
    """What the server remembers of one worker."""

    def __init__(self, uid: str, rank: int, windowed: bool = False) -> None:
        self.uid, self.rank, self.windowed = uid, rank, windowed
        self.latest = 0                                  # highest request number seen
        self.open: dict[int, Want] = {}
        self.refused: dict[int, str] = {}
        self.regimes: dict[int, Regime] = {}             # what it has set, by store
        self.left: set[int] = set()                      # stores it is done with
        self.codecs: dict[int, Codec] = {}               # how its gradients are packed, by store
        self.bundles: dict[int, tuple[Place, ...]] = {}  # its lists of parts (a bounded number)
        self.gone = False
        self.step = 0
        self.key = ""


class Holdings:
    """Shards and groups of shards, the steps under way, and the workers they are for.

    Args:
        rank: of this server.
        roster: all members; who a worker's uid is.
        scheduler: uid under which the scheduler is reached.
        limits: the deadlines.
        make_rule: turns a `SetOptimizer` into a Rule.
        allocate: makes the memory of values, from a shape and a type.
        stopwatch: seconds, for the counters alone; nothing is decided by it.
    """

    def __init__(
        self, rank: int, roster: tuple[say.Member, ...], scheduler: str, limits: Limits,
        make_rule: Callable[[say.SetOptimizer], Rule],
        allocate: Callable[..., Array] = np.empty,
        stopwatch: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.allocate, self.stopwatch = allocate, stopwatch
        self.rank, self.scheduler, self.limits = rank, scheduler, limits
        self.members = {m.uid: m for m in roster if m.role is Role.WORKER}
        self.workers = len(self.members)
        self.clients: dict[str, Client] = {}
        self.by_rank = {m.rank: m for m in self.members.values()}
        self.shards: dict[tuple[int, int], Shard] = {}
        self.busy: dict[tuple[int, int], Shard] = {}
        self.groups = Groups(allocate)
        self.updates = Updates(rank, make_rule)
        self.leavers = False
        self.out: dict[int, set[int]] = {}   # ranks that are counted out, by store
        self.counters: dict[str, Any] = {
            "pushes": 0, "pulls": 0, "updates": 0, "repeated": 0, "staleness_sum": 0,
            "staleness_max": 0, "bytes_in": 0, "bytes_out": 0, "rounds": 0, "wait_seconds": 0.0,
            "merge_seconds": 0.0, "update_seconds": 0.0, "staleness": {}, "last_seconds": {},
        }
        self.failed = False
        # a step that is done: its shard, and the rank, uid and number of those who took part
        self.latest: tuple[Shard, list[tuple[int, str, int]]] | None = None

    # -- finding ---------------------------------------------------------------------------------

    def _find(self, item: Item) -> Shard:
        shard = self._held(item)
        if (shard.place.shape, shard.place.dtype) != (item.shape, item.dtype):
            raise Refusal(
                f"key {shard.name}: expected shape {shard.place.shape} and type "
                f"{shard.place.dtype}, got {item.shape} and {item.dtype}"
            )
        return shard

    def _unfold(
        self, client: Client, items: tuple[Item, ...]
    ) -> tuple[list[Shard], tuple[Item, ...]]:
        """The shards of a request, and what it has for each: a bundle is one, or all its parts."""
        if len(items) != 1 or not items[0].key & BUNDLE:
            return [self._find(item) for item in items], items
        item = items[0]
        places = client.bundles.get(item.key)
        if places is None:
            raise Refusal(f"server {self.rank}: no list of keys has number {item.key & ~BUNDLE}")
        try:
            shards = [self.shards[place] for place in places]
        except KeyError as error:
            raise Refusal(f"server {self.rank} holds no key number {error} any more") from None
        elements = sum(shard.place.stop - shard.place.start for shard in shards)
        if (item.shape, item.dtype, item.codec) != ((elements,), shards[0].place.dtype, 0):
            raise Refusal(f"list of keys {shards[0].name}, ...: expected {elements} elements of "
                          f"{shards[0].place.dtype}, got {item.shape} of {item.dtype}")
        store = shards[0].store
        if not self.out.get(store) and self.updates.latest(store) is None:
            group = self.groups.find(places, shards)
            if group is not None:
                return [group], items
        for shard in shards:
            self._alone(shard)
        if item.data is None:
            return shards, tuple(shard.place for shard in shards)
        pieces = zip(shards, cut(item.data, shards), strict=True)
        return shards, tuple(shard.place.holding(piece) for shard, piece in pieces)

    def _alone(self, shard: Shard) -> Shard:
        """A shard that is used by itself."""
        if shard.group is not None:
            self.groups.split(shard.group, self.busy)
        return shard

    def _split(self, store: int) -> None:
        """From now on no two parts of a store are alike."""
        for group in self.groups.of(store):
            self.groups.split(group, self.busy)

    def _bundle(self, client: Client, message: say.Bundle, now: float) -> list[Action]:
        shards = [self._find(item) for item in message.items]
        if not message.number & BUNDLE or not shards:
            raise Refusal("a list of keys needs keys, and a number of its own kind")
        if len({(shard.store, shard.place.dtype) for shard in shards}) != 1 or len(
            {(item.key, item.part) for item in message.items}
        ) != len(shards):
            raise Refusal("a list of keys: expected different parts of one store and type")
        places = tuple((item.key, item.part) for item in message.items)
        client.bundles[message.number] = places
        return [Send(client.uid, say.Ack(message.seq))]

    # -- values ----------------------------------------------------------------------------------

    def _init(self, client: Client, message: say.Init, now: float) -> list[Action]:
        if len(message.names) != len(message.items):
            raise Refusal(f"init: {len(message.names)} names for {len(message.items)} items")
        sync = "async" not in message.store_type
        for key, item in zip(message.names, message.items, strict=True):
            if item.data is None:
                raise Refusal(f"init of key {key!r}: no value")
            if (item.key, item.part) not in self.shards:  # the first value wins
                shard = Shard(key, item, message.store, self.workers, sync, self.allocate)
                self.shards[item.key, item.part] = shard
        return [Send(client.uid, say.Ack(message.seq))]

    def _drop(self, client: Client, message: say.Drop, now: float) -> list[Action]:
        gone = set(message.idents)
        for place in [place for place in self.shards if place[0] in gone]:
            self._alone(self.shards[place])
            del self.shards[place]
            self.busy.pop(place, None)
        return [Send(client.uid, say.Ack(message.seq))]

    def _push(self, client: Client, message: say.Push, now: float) -> list[Action]:
        shards, items = self._unfold(client, message.items)
        want = Want(client.uid, client.rank, message.seq, len(items))
        return self._merge(client, want, shards, items, now)

    def _pushpull(self, client: Client, message: say.PushPull, now: float) -> list[Action]:
        shards, items = self._unfold(client, message.items)
        blank: list[Item | None] = [None] * len(items)
        want = Want(client.uid, client.rank, message.seq, len(items), blank)
        self.counters["pulls"] += 1
        return self._merge(client, want, shards, items, now)

    def _merge(
        self, client: Client, want: Want, shards: list[Shard], items: tuple[Item, ...], now: float
    ) -> list[Action]:
        # all items have been looked at (`_unfold`), and are here, before one is taken
        for shard, item in zip(shards, items, strict=True):
            if item.data is None:
                raise Refusal("push: an item without numbers")
            codec = client.codecs.get(shard.store)
            if item.codec and (codec is None or codec.number != item.codec):
                raise Refusal(f"push: key {shard.name} comes in {CODECS[item.codec]} codes, which "
                              "this worker has not announced")
        return self._enter(client, want, [(shard, _numbers(client, shard, item))
                                          for shard, item in zip(shards, items, strict=True)], now,
                           _bytes(items))

    def _push_rows(self, client: Client, message: say.PushRows, now: float) -> list[Action]:
        if len(message.items) % 2:
            raise Refusal("push of rows: row numbers without rows")
        pieces: list[tuple[Shard, Any]] = []
        for numbers, values in zip(message.items[::2], message.items[1::2], strict=True):
            shard = self._held(numbers)
            place = shard.place
            pieces.append((shard, checked(place.shape, place.dtype, shard.name, numbers, values)))
        want = Want(client.uid, client.rank, message.seq, len(pieces))
        return self._enter(client, want, pieces, now, _bytes(message.items))

    def _held(self, item: Item) -> Shard:
        """The shard that an item is about, by itself."""
        shard = self.shards.get((item.key, item.part))
        if shard is None:
            raise Refusal(f"server {self.rank} holds no key number {item.key}, part {item.part}")
        return self._alone(shard)

    def _enter(
        self, client: Client, want: Want, pieces: list[tuple[Shard, Any]], now: float,
        arrived: int,
    ) -> list[Action]:
        """Take the gradients of one request, all of which have been looked at."""
        for shard, _ in pieces:
            if client.rank in self.out.get(shard.store, ()):
                raise Refusal(f"push: key {shard.name}: worker {client.rank} has been counted out "
                              "(leave); it may push again when all workers have left")
        self.counters["pushes"] += 1
        self.counters["bytes_in"] += arrived
        client.open[want.seq] = want
        actions: list[Action] = []
        for index, (shard, data) in enumerate(pieces):
            regime = client.regimes.get(shard.store, INITIAL)
            if shard.sync:
                step = shard.gather(client.rank, data, regime, now)
                step.acks.append((want, index))
                self._progress(client, shard)
                out = self.out.get(shard.store)
                if len(step.ranks) == self.workers or (
                    out and out.issuperset(shard.missing(step))
                ):
                    self._waited(client.rank, now - step.began)
                    actions += self._complete(shard, step)
                else:
                    self.busy[shard.place.key, shard.part] = shard
                    self._check_complete(shard)
            else:
                self._apply_at_once(client, shard, data, regime)
                actions += self._served(want, index, shard)
        if not pieces:
            want.open = 1
            actions += self._done(want)
        return actions

    def _waited(self, last: int, seconds: float) -> None:
        """A step is complete: how long its first gradient waited for the last one, and for whom."""
        self.counters["wait_seconds"] += seconds
        late = self.counters["last_seconds"]
        late[str(last)] = late.get(str(last), 0.0) + seconds

    def _progress(self, client: Client, shard: Shard) -> None:
        if shard.pushed[client.rank] >= client.step:
            client.step, client.key = shard.pushed[client.rank], shard.name

    def _complete(self, shard: Shard, step: Step) -> list[Action]:
        """All gradients of a step are in: update, then answer whoever waits."""
        regime = self.updates.agreed(shard, step)
        began = self.stopwatch()
        total, grad = shard.finish(step)
        merged = self.stopwatch()
        rule = self.updates.rule(shard.store, regime.turn)
        if rule is None:
            shard.replace(grad)
        else:
            self.updates.apply(shard, rule, grad, regime.settings)
            self.counters["updates"] += 1
        self.counters["rounds"] += 1
        self.counters["merge_seconds"] += merged - began
        self.counters["update_seconds"] += self.stopwatch() - merged
        if total is not shard.value and (rule is None or rule.lets_go):
            shard.keep(total)
        actions: list[Action] = []
        for want, index in step.acks:
            actions += self._served(want, index, shard)
        self.latest = shard, [(want.rank, want.uid, want.seq) for want, _ in step.acks]
        actions += self._answer(shard)
        if not shard.steps and not shard.pulls:
            self.busy.pop((shard.place.key, shard.part), None)
        return actions

    def steady(self, shard: Shard) -> bool:
        """Whether a round of a shard is nothing but a sum: all workers, all alike, nothing open."""
        return (shard.sync and not shard.steps and not shard.pulls and not self.leavers
                and not self.out.get(shard.store) and self.updates.latest(shard.store) is None
                and shard.value.dtype == np.dtype(shard.place.dtype) != np.float16
                and set(shard.pushed) == {shard.version} and len(self.clients) == self.workers)

    def repeated(
        self, shard: Shard, count: int, seconds: float, latest: list[int], waited: list[float]
    ) -> None:
        """So many rounds of a steady shard were done elsewhere: each rank pushed and pulled.

        Args:
            seconds: how long summing took.
            latest: for each rank, its last request.
            waited: for each rank, for how long the others waited for it.
        """
        shard.version += count
        for rank, seq in enumerate(latest):
            client = self.clients[self.by_rank[rank].uid]
            client.latest = max(client.latest, seq)
            shard.pushed[rank], shard.seen[rank] = shard.version, shard.version
            self._progress(client, shard)
            if waited[rank]:
                self._waited(rank, waited[rank])
        counters, requests = self.counters, count * len(latest)
        for name, more in (("pushes", requests), ("pulls", requests), ("rounds", count),
                           ("bytes_in", requests * shard.value.nbytes),
                           ("bytes_out", requests * shard.value.nbytes),
                           ("merge_seconds", seconds)):
            counters[name] += more

    def _apply_at_once(
        self, client: Client, shard: Shard, data: Array | Packed | RowSparse, regime: Regime
    ) -> None:
        lag = shard.version - shard.seen[client.rank]
        self.counters["staleness_sum"] += lag
        self.counters["staleness_max"] = max(lag, self.counters["staleness_max"])
        histogram = self.counters["staleness"]
        histogram[str(lag)] = histogram.get(str(lag), 0) + 1
        shard.version += 1
        shard.pushed[client.rank] += 1
        self._progress(client, shard)
        rule = self.updates.latest(shard.store)
        total = shard.sum([data])
        grad = total.astype(shard.value.dtype, copy=False)
        if rule is None:
            shard.replace(grad)
        else:
            settings = regime.settings or self.updates.applied(shard.store)
            self.updates.apply(shard, rule, grad, settings)
            if rule.lets_go:
                shard.keep(total)
            self.counters["updates"] += 1

    def _pull(self, client: Client, message: say.Pull, now: float) -> list[Action]:
        shards, _ = self._unfold(client, message.items)
        return self._await(client, message.seq, shards, None, now)

    def _pull_rows(self, client: Client, message: say.PullRows, now: float) -> list[Action]:
        shards, rows = self._asked(message)
        return self._await(client, message.seq, shards, rows, now)

    def _asked(self, message: say.PullRows) -> tuple[list[Shard], list[Array]]:
        """The shards of a request for rows, and the numbers of the rows."""
        shards = [self._held(item) for item in message.items]
        return shards, [checked(shard.place.shape, shard.place.dtype, shard.name, item, None)
                        for shard, item in zip(shards, message.items, strict=True)]

    def _await(
        self, client: Client, seq: int, shards: list[Shard], rows: list[Array] | None, now: float
    ) -> list[Action]:
        """Answer with values, or with rows of them, once they include this worker's pushes."""
        self.counters["pulls"] += 1
        blank: list[Item | None] = [None] * len(shards)
        want = Want(client.uid, client.rank, seq, len(shards), blank, rows)
        client.open[seq] = want
        actions: list[Action] = []
        for index, shard in enumerate(shards):
            needs = shard.pushed[client.rank] if shard.sync else 0
            if shard.version >= needs:
                actions += self._served(want, index, shard)
            else:
                shard.pulls.append((want, index, needs, now))
        if not shards:
            want.open = 1
            actions += self._done(want)
        return actions

    def _answer(self, shard: Shard) -> list[Action]:
        """Serve the pulls that were waiting for the version the shard has now."""
        ready = [pull for pull in shard.pulls if pull[2] <= shard.version]
        shard.pulls = [pull for pull in shard.pulls if pull[2] > shard.version]
        return [a for want, index, _, _ in ready for a in self._served(want, index, shard)]

    def _served(self, want: Want, index: int, shard: Shard) -> list[Action]:
        """One item of a request is done."""
        if want.values is not None:
            rows = want.rows
            want.values[index] = shard.lend() if rows is None else shard.lend_rows(rows[index])
            served = want.values[index]
            assert served is not None and served.data is not None
            self.counters["bytes_out"] += served.data.nbytes
            shard.seen[want.rank] = shard.version
        return self._done(want)

    def _done(self, want: Want) -> list[Action]:
        want.open -= 1
        if want.open:
            return []
        self.clients[want.uid].open.pop(want.seq, None)
        if want.values is None:
            return [Send(want.uid, say.Ack(want.seq))]
        items = tuple(item for item in want.values if item is not None)
        return [Send(want.uid, say.Values(want.seq, items))]

    def _check_complete(self, shard: Shard) -> None:
        """Fail the job if an open step waits for a worker that is done with this store."""
        if not self.leavers:
            return
        for number, step in shard.steps.items():
            for rank in shard.missing(step):
                uid = self.by_rank[rank].uid
                client = self.clients.get(uid)
                if rank in self.out.get(shard.store, ()):
                    continue
                if client is not None and (client.gone or shard.store in client.left):
                    reason = (
                        f"key {shard.name}, step {number}: waiting for {self.by_rank[rank]}, which "
                        f"left after step {shard.pushed[rank]}; all workers must make the same "
                        "number of steps"
                    )
                    raise Fatal(say.Abort(0, "error", reason, "", Role.WORKER, rank, 1))


def _bytes(items: tuple[Item, ...]) -> int:
    """How many bytes of numbers came."""
    return sum(item.data.nbytes for item in items if item.data is not None)


def _numbers(client: Client, shard: Shard, item: Item) -> Array | Packed:
    """What an item brings: plain numbers, or codes and what they mean."""
    assert item.data is not None
    return Packed(client.codecs[shard.store], item.data) if item.codec else item.data
