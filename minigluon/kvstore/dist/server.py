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

from collections.abc import Callable
from typing import Any

from ..compression import CODECS, Codec
from . import messages as say
from .actions import Action, Fatal, Log, Refusal, Run, Send, Stop
from .commands import Head
from .holdings import Client, Holdings
from .messages import Message, Role
from .shard import INITIAL

__all__ = ["ServerState"]

LOST = 75
_SHOWN = 0.5  # seconds from which a wait is worth a word


class ServerState(Holdings):
    """The shards of one server, and its workers; made as `Holdings` are."""

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
        # Answers to pushes wait for other workers, and these may send other keys first: were no
        # more sent until then, two workers could wait for one another for ever.
        taken: list[Action] = []
        if client.windowed and isinstance(message, (say.Push, say.PushPull)):
            taken = [Send(uid, say.Taken(message.seq))]
        if message.seq and message.seq <= client.latest:
            return [*taken, *self._again(client, message)]
        client.latest = max(client.latest, message.seq)
        try:
            return [*taken, *react(self, client, message, now)]
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

    def report(self, now: float) -> say.Report:
        """What the scheduler is told now and then."""
        held = {
            "keys": len({shard.key for shard in self.shards.values()}),
            "held_bytes": self.groups.nbytes
            + sum(shard.value.nbytes for shard in self.shards.values()),
        }
        stalls = tuple(s for s in self._stalls(now) if s.seconds > _SHOWN)[:20]
        return say.Report(0, {**self.counters, **held}, stalls)

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
            words = (self.report(now), say.Goodbye())  # what the last line about the job counts
            return [*(Send(self.scheduler, word) for word in words), Stop(0)]
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
        self.clients.setdefault(uid, Client(uid, member.rank, message.windowed))
        return [Send(uid, say.Attached(message.seq))]

    def _goodbye(self, client: Client, message: say.Goodbye, now: float) -> list[Action]:
        client.gone = self.leavers = True
        farewell = Send(client.uid, say.Farewell(message.seq))
        stores = {shard.store for shard in self.shards.values()} - client.left
        return [farewell, *(a for store in stores for a in self._left(client, store))]

    def _leave(self, client: Client, message: say.Leave, now: float) -> list[Action]:
        if message.counted_out:
            return [*self._count_out(client, message.store), Send(client.uid, say.Ack(message.seq))]
        return [Send(client.uid, say.Ack(message.seq)), *self._left(client, message.store)]

    def _count_out(self, client: Client, store: int) -> list[Action]:
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

    def _left(self, client: Client, store: int) -> list[Action]:
        client.left.add(store)
        self.leavers = True
        try:
            for shard in list(self.busy.values()):
                if shard.store == store:
                    self._check_complete(shard)
        except Fatal as failure:
            return self._fail(failure.abort)
        return []

    def _fail(self, abort: say.Abort) -> list[Action]:
        if self.failed:
            return []
        self.failed = True
        return [Send(self.scheduler, abort)]

    # -- requests that come twice ---------------------------------------------------------------

    def _again(self, client: Client, message: Message) -> list[Action]:
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

    # -- optimizer ------------------------------------------------------------------------------

    def _set_optimizer(
        self, client: Client, message: say.SetOptimizer, now: float
    ) -> list[Action]:
        self._split(message.store)
        turn = client.regimes.get(message.store, INITIAL).turn
        self.updates.choose(client.rank, turn, message)
        client.regimes[message.store] = self.updates.regime(message.store, turn + 1, {})
        return [Send(client.uid, say.Ack(message.seq))]

    def _settings(self, client: Client, message: say.UpdateSettings, now: float) -> list[Action]:
        """Settings that hold from this worker's next push on."""
        before = client.regimes.get(message.store, INITIAL)
        settings = {**before.settings, **message.settings}
        client.regimes[message.store] = self.updates.regime(message.store, before.turn, settings)
        return [Send(client.uid, say.Ack(message.seq))]

    def _save_states(self, client: Client, message: say.SaveStates, now: float) -> list[Action]:
        self._split(message.store)
        shards = [shard for shard in self.shards.values() if shard.store == message.store]
        layout, items = self.updates.states(message.store, shards)
        return [Send(client.uid, say.States(message.seq, layout, items))]

    def _load_states(self, client: Client, message: say.LoadStates, now: float) -> list[Action]:
        self._split(message.store)
        self.updates.load(message)
        return [Send(client.uid, say.Ack(message.seq))]

    def _set_compression(
        self, client: Client, message: say.SetCompression, now: float
    ) -> list[Action]:
        """In which codes this worker pushes from now on."""
        if not 0 < message.codec < len(CODECS):
            raise Refusal(f"gradient compression: no codec has number {message.codec}")
        client.codecs[message.store] = Codec(message.codec, message.threshold)
        return [Send(client.uid, say.Ack(message.seq))]

    def _command(self, client: Client, message: say.Command, now: float) -> list[Action]:
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

    def _stats(self, client: Client, message: say.Stats, now: float) -> list[Action]:
        return [Send(client.uid, say.StatsReply(message.seq, dict(self.counters)))]

    def _ping(self, client: Client, message: say.Ping, now: float) -> list[Action]:
        return []


_REACTIONS: dict[type[Message], Callable[[ServerState, Client, Any, float], list[Action]]] = {
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
