"""A server as a pure state machine: it holds shards, merges pushes, updates, answers pulls.

`handle(message, uid, now)`, `lost(uid, reason, now)` and `tick(now)` return actions; nothing here
knows a socket, a clock or a thread. What it promises:

* `dist_sync`: a step of a key is done when the gradient of every worker is in; they are summed in
  the order of ranks. A pull of a worker sees everything that this worker pushed before, and nothing
  of the step after. Without an optimizer the sum replaces the value.
* `dist_async`: each push is applied at once. How far a worker's knowledge lagged behind is counted.
* A request is applied at most once: those that come twice are known by (worker, seq).
"""
from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ...ops.storage import RowSparse
from ..compression import CODECS, Codec, Packed
from . import messages as say
from .actions import Action, Fatal, Limits, Log, Refusal, Run, Send, Stop
from .commands import Head
from .groups import Groups, Place, cut
from .messages import BUNDLE, Item, Message, Role
from .rows import checked
from .rule import Rule
from .shard import INITIAL, Regime, Shard, Step, Want
from .updates import Updates

__all__ = ["ServerState"]

Array = np.ndarray[Any, Any]


LOST = 75
_SHOWN = 0.5  # seconds from which a wait is worth a word


class _Client:
    """What the server remembers of one worker."""

    def __init__(self, uid: str, rank: int) -> None:
        self.uid, self.rank = uid, rank
        self.latest = 0                                  # highest request number seen
        self.open: dict[int, Want] = {}
        self.refused: dict[int, str] = {}
        self.regimes: dict[int, Regime] = {}             # what it has set, by store
        self.left: set[int] = set()                      # stores it is done with
        self.codecs: dict[int, Codec] = {}               # how its gradients are packed, by store
        self.bundles: dict[int, tuple[Place, ...]] = {}  # its lists of parts (Client.bundle: bounded)
        self.gone = False
        self.step = 0
        self.key = ""


class ServerState:
    """The shards of one server.

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
        self.clients: dict[str, _Client] = {}
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

    # -- entry points ---------------------------------------------------------------------------

    def handle(self, message: Message, uid: str, now: float) -> list[Action]:
        """What follows from a message of the process `uid`."""
        if uid == self.scheduler:
            return self._from_scheduler(message, now)
        if isinstance(message, say.Attach):
            return self._attach(message, uid)
        client = self.clients.get(uid)
        react = _REACTIONS.get(type(message))
        if client is None or react is None:
            return [Log("warning", f"ignored an unexpected {message!r:.80}")]
        if message.seq and message.seq <= client.latest:
            return self._again(client, message)
        client.latest = max(client.latest, message.seq)
        try:
            return react(self, client, message, now)
        except Refusal as refusal:
            client.refused[message.seq] = str(refusal)
            client.open.pop(message.seq, None)
            return [Send(uid, say.ErrorReply(message.seq, "error", str(refusal)))]
        except Fatal as failure:
            return self._fail(failure.abort)

    def lost(self, uid: str, reason: str, now: float) -> list[Action]:
        """The connection to a worker is gone for good."""
        client = self.clients.get(uid)
        if client is None or client.gone or self.failed:
            return []
        gone = say.PeerGone(0, Role.WORKER, client.rank, reason, client.key, client.step)
        return [Send(self.scheduler, gone)]

    def tick(self, now: float) -> list[Action]:
        """Warn about waits that last, and report those that last too long."""
        actions: list[Action] = []
        worst = 0.0
        for shard in self.busy.values():
            for number, step in shard.steps.items():
                age = now - step.began
                worst = max(worst, age)
                if age > self.limits.operation / 10 and not step.warned:
                    step.warned = True
                    stall = say.Stall(shard.name, number, shard.missing(step), age)
                    actions.append(Log("warning", f"{stall} since {age:.0f} s"))
        if worst > self.limits.operation and not self.failed:
            actions.append(Send(self.scheduler, say.StallReport(0, self._stalls(now))))
        return actions

    def crash(self, reason: str, detail: str) -> list[Action]:
        """This machine itself failed: the job has to end."""
        return self._fail(say.Abort(0, "error", reason, detail, Role.SERVER, self.rank, 1))

    def _stalls(self, now: float) -> tuple[say.Stall, ...]:
        """The oldest open step of each key (parts of a key count once)."""
        found: dict[int | str, say.Stall] = {}
        for shard in self.busy.values():
            if shard.steps:
                number, step = min(shard.steps.items())
                age = now - step.began
                stall = say.Stall(str(shard.key), number, shard.missing(step), age)
                found.setdefault(shard.key, stall)
        return tuple(found.values())

    # -- members --------------------------------------------------------------------------------

    def _from_scheduler(self, message: Message, now: float) -> list[Action]:
        if isinstance(message, say.Abort):
            mine = message.culprit == say.Node(Role.SERVER, self.rank)
            code = message.code if mine else LOST  # else this process is a victim
            return [Log("error", f"job aborted: {message.reason}"), Stop(code)]
        if isinstance(message, say.Shutdown):
            return [Send(self.scheduler, say.Goodbye()), Stop(0)]
        if isinstance(message, say.StallQuery):
            return [Send(self.scheduler, say.StallReport(0, self._stalls(now)))]
        return []

    def _attach(self, message: say.Attach, uid: str) -> list[Action]:
        member = self.members.get(uid)
        if member is None or (member.rank, member.incarnation) != (
            message.rank, message.incarnation,
        ):
            reason = f"server {self.rank}: no such worker {message.rank} in the roster"
            return [Send(uid, say.Refused(message.seq, reason)), Log("warning", reason)]
        self.clients.setdefault(uid, _Client(uid, member.rank))
        return [Send(uid, say.Attached(message.seq))]

    def _goodbye(self, client: _Client, message: say.Goodbye, now: float) -> list[Action]:
        client.gone = self.leavers = True
        farewell = Send(client.uid, say.Farewell(message.seq))
        stores = {shard.store for shard in self.shards.values()} - client.left
        return [farewell, *(a for store in stores for a in self._left(client, store))]

    def _leave(self, client: _Client, message: say.Leave, now: float) -> list[Action]:
        if message.counted_out:
            return [*self._count_out(client, message.store), Send(client.uid, say.Ack(message.seq))]
        return [Send(client.uid, say.Ack(message.seq)), *self._left(client, message.store)]

    def _count_out(self, client: _Client, store: int) -> list[Action]:
        """The others do not wait for this worker any more; with the last one all are in again."""
        self._split(store)
        out = self.out.setdefault(store, set())
        out.add(client.rank)
        actions: list[Action] = []
        for shard in list(self.busy.values()):
            if shard.store == store:
                for _, step in sorted(shard.steps.items()):
                    if out.issuperset(shard.missing(step)):
                        actions += self._complete(shard, step)
        if len(out) == self.workers:
            out.clear()
            for shard in self.shards.values():
                if shard.store == store:
                    shard.pushed = [shard.version] * self.workers
        return actions

    def _left(self, client: _Client, store: int) -> list[Action]:
        client.left.add(store)
        self.leavers = True
        try:
            for shard in list(self.busy.values()):
                if shard.store == store:
                    self._check_complete(shard)
        except Fatal as failure:
            return self._fail(failure.abort)
        return []

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

    def _fail(self, abort: say.Abort) -> list[Action]:
        if self.failed:
            return []
        self.failed = True
        return [Send(self.scheduler, abort)]

    # -- requests that come twice ---------------------------------------------------------------

    def _again(self, client: _Client, message: Message) -> list[Action]:
        """A request number seen before: answered if done, never applied again."""
        self.counters["repeated"] += 1
        if message.seq in client.open:
            return []
        if message.seq in client.refused:
            reason = client.refused[message.seq]
            return [Send(client.uid, say.ErrorReply(message.seq, "error", reason))]
        if isinstance(message, (say.Pull, say.PushPull)):
            asked, _ = self._unfold(client, message.items)
            items = tuple(shard.lend() for shard in asked)
            return [Send(client.uid, say.Values(message.seq, items))]
        if isinstance(message, say.PullRows):
            pairs = zip(*self._asked(message), strict=True)
            items = tuple(shard.lend_rows(rows) for shard, rows in pairs)
            return [Send(client.uid, say.Values(message.seq, items))]
        if isinstance(message, say.Goodbye):
            return [Send(client.uid, say.Farewell(message.seq))]
        if isinstance(message, say.SaveStates):
            return self._save_states(client, message, 0.0)
        if isinstance(message, say.Stats):
            return self._stats(client, message, 0.0)
        return [Send(client.uid, say.Ack(message.seq))]

    # -- values ---------------------------------------------------------------------------------

    def _find(self, item: Item) -> Shard:
        shard = self._held(item)
        if (shard.place.shape, shard.place.dtype) != (item.shape, item.dtype):
            raise Refusal(
                f"key {shard.name}: expected shape {shard.place.shape} and type "
                f"{shard.place.dtype}, got {item.shape} and {item.dtype}"
            )
        return shard

    def _unfold(
        self, client: _Client, items: tuple[Item, ...]
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
        return shards, tuple(replace(shard.place, data=piece) for shard, piece in pieces)

    def _alone(self, shard: Shard) -> Shard:
        """A shard that is used by itself."""
        if shard.group is not None:
            self.groups.split(shard.group, self.busy)
        return shard

    def _split(self, store: int) -> None:
        """From now on no two parts of a store are alike."""
        for group in self.groups.of(store):
            self.groups.split(group, self.busy)

    def _bundle(self, client: _Client, message: say.Bundle, now: float) -> list[Action]:
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

    def _init(self, client: _Client, message: say.Init, now: float) -> list[Action]:
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

    def _drop(self, client: _Client, message: say.Drop, now: float) -> list[Action]:
        gone = set(message.idents)
        for place in [place for place in self.shards if place[0] in gone]:
            self._alone(self.shards[place])
            del self.shards[place]
            self.busy.pop(place, None)
        return [Send(client.uid, say.Ack(message.seq))]

    def _push(self, client: _Client, message: say.Push, now: float) -> list[Action]:
        shards, items = self._unfold(client, message.items)
        want = Want(client.uid, client.rank, message.seq, len(items))
        return self._merge(client, want, shards, items, now)

    def _pushpull(self, client: _Client, message: say.PushPull, now: float) -> list[Action]:
        shards, items = self._unfold(client, message.items)
        blank: list[Item | None] = [None] * len(items)
        want = Want(client.uid, client.rank, message.seq, len(items), blank)
        self.counters["pulls"] += 1
        return self._merge(client, want, shards, items, now)

    def _merge(
        self, client: _Client, want: Want, shards: list[Shard], items: tuple[Item, ...], now: float
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

    def _push_rows(self, client: _Client, message: say.PushRows, now: float) -> list[Action]:
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
        self, client: _Client, want: Want, pieces: list[tuple[Shard, Any]], now: float,
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

    def report(self, now: float) -> say.Report:
        """What the scheduler is told now and then."""
        held = {
            "keys": len({shard.key for shard in self.shards.values()}),
            "held_bytes": self.groups.nbytes
            + sum(shard.value.nbytes for shard in self.shards.values()),
        }
        stalls = tuple(s for s in self._stalls(now) if s.seconds > _SHOWN)[:20]
        return say.Report(0, {**self.counters, **held}, stalls)

    def _progress(self, client: _Client, shard: Shard) -> None:
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
        actions += self._answer(shard)
        if not shard.steps and not shard.pulls:
            self.busy.pop((shard.place.key, shard.part), None)
        return actions

    def _apply_at_once(
        self, client: _Client, shard: Shard, data: Array | Packed | RowSparse, regime: Regime
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

    def _pull(self, client: _Client, message: say.Pull, now: float) -> list[Action]:
        shards, _ = self._unfold(client, message.items)
        return self._await(client, message.seq, shards, None, now)

    def _pull_rows(self, client: _Client, message: say.PullRows, now: float) -> list[Action]:
        shards, rows = self._asked(message)
        return self._await(client, message.seq, shards, rows, now)

    def _asked(self, message: say.PullRows) -> tuple[list[Shard], list[Array]]:
        """The shards of a request for rows, and the numbers of the rows."""
        shards = [self._held(item) for item in message.items]
        return shards, [checked(shard.place.shape, shard.place.dtype, shard.name, item, None)
                        for shard, item in zip(shards, message.items, strict=True)]

    def _await(
        self, client: _Client, seq: int, shards: list[Shard], rows: list[Array] | None, now: float
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

    # -- optimizer ------------------------------------------------------------------------------

    def _set_optimizer(
        self, client: _Client, message: say.SetOptimizer, now: float
    ) -> list[Action]:
        self._split(message.store)
        turn = client.regimes.get(message.store, INITIAL).turn
        self.updates.choose(client.rank, turn, message)
        client.regimes[message.store] = self.updates.regime(message.store, turn + 1, {})
        return [Send(client.uid, say.Ack(message.seq))]

    def _settings(self, client: _Client, message: say.UpdateSettings, now: float) -> list[Action]:
        """Settings that hold from this worker's next push on."""
        before = client.regimes.get(message.store, INITIAL)
        settings = {**before.settings, **message.settings}
        client.regimes[message.store] = self.updates.regime(message.store, before.turn, settings)
        return [Send(client.uid, say.Ack(message.seq))]

    def _save_states(self, client: _Client, message: say.SaveStates, now: float) -> list[Action]:
        self._split(message.store)
        shards = [shard for shard in self.shards.values() if shard.store == message.store]
        layout, items = self.updates.states(message.store, shards)
        return [Send(client.uid, say.States(message.seq, layout, items))]

    def _load_states(self, client: _Client, message: say.LoadStates, now: float) -> list[Action]:
        self._split(message.store)
        self.updates.load(message)
        return [Send(client.uid, say.Ack(message.seq))]

    def _set_compression(
        self, client: _Client, message: say.SetCompression, now: float
    ) -> list[Action]:
        """In which codes this worker pushes from now on."""
        if not 0 < message.codec < len(CODECS):
            raise Refusal(f"gradient compression: no codec has number {message.codec}")
        client.codecs[message.store] = Codec(message.codec, message.threshold)
        return [Send(client.uid, say.Ack(message.seq))]

    def _command(self, client: _Client, message: say.Command, now: float) -> list[Action]:
        """One of MXNet's commands; a worker says only those that are not messages of their own."""
        ack = Send(client.uid, say.Ack(message.seq))
        if message.head == Head.SYNC_MODE:
            if any(shard.store == message.store and not shard.sync
                   for shard in self.shards.values()):
                raise Refusal("command 3 (sync mode): this store is asynchronous; the type of a "
                              "store says how it merges, create a dist_sync one")
            return [ack]
        if message.head == Head.MULTI_PRECISION:
            known = message.store in self.updates.multi_precision
            if not known and self.updates.latest(message.store) is not None:
                raise Refusal("command 1 (multi-precision): the optimizer is set already; give it "
                              "multi_precision=True")
            self.updates.multi_precision.add(message.store)
            return [ack]
        if message.head == Head.STOP:
            return [ack, *self._left(client, message.store)]
        if message.head in (Head.CONTROLLER, Head.PROFILER):
            return [Run(message.head, message.body), ack]
        raise Refusal(f"server {self.rank}: unknown command {message.head}; known: "
                      + ", ".join(f"{head.value} ({head.name.lower()})" for head in Head))

    def _stats(self, client: _Client, message: say.Stats, now: float) -> list[Action]:
        return [Send(client.uid, say.StatsReply(message.seq, dict(self.counters)))]

    def _ping(self, client: _Client, message: say.Ping, now: float) -> list[Action]:
        return []


def _bytes(items: tuple[Item, ...]) -> int:
    """How many bytes of numbers came."""
    return sum(item.data.nbytes for item in items if item.data is not None)


def _numbers(client: _Client, shard: Shard, item: Item) -> Array | Packed:
    """What an item brings: plain numbers, or codes and what they mean."""
    assert item.data is not None
    return Packed(client.codecs[shard.store], item.data) if item.codec else item.data


_REACTIONS: dict[type[Message], Callable[[ServerState, _Client, Any, float], list[Action]]] = {
    say.Goodbye: ServerState._goodbye,
    say.Leave: ServerState._leave,
    say.Init: ServerState._init,
    say.Drop: ServerState._drop,
    say.Bundle: ServerState._bundle,
    say.Push: ServerState._push,
    say.PushPull: ServerState._pushpull,
    say.Pull: ServerState._pull,
    say.PushRows: ServerState._push_rows,
    say.PullRows: ServerState._pull_rows,
    say.SetOptimizer: ServerState._set_optimizer,
    say.UpdateSettings: ServerState._settings,
    say.Command: ServerState._command,
    say.SetCompression: ServerState._set_compression,
    say.SaveStates: ServerState._save_states,
    say.LoadStates: ServerState._load_states,
    say.Stats: ServerState._stats,
    say.Ping: ServerState._ping,
}
