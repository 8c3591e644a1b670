"""The scheduler as a pure state machine: who is here, in which rank, and when the job is over.

`handle(message, uid, now)`, `lost(uid, reason, now)` and `tick(now)` return actions; nothing here
knows a socket, a clock or a thread. Phases: *gathering* until everybody has registered, *running*,
*ending* when the last worker has said goodbye, *over*.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import messages as say
from .actions import Action, Limits, Log, Send, Stop
from .directory import Directory
from .messages import Abort, Member, Message, Node, Register, Role
from .metrics import Picture
from .placement import Placer
from .record import Record, field

__all__ = ["SchedulerState"]

SETTLE = 0.4   # how long the details of a loss may come in before the job is aborted
LOST = 75      # exit code of who merely had to follow
EXIT = 0       # number of the barrier before the exit
ENDING = 5.0   # how long servers may take to leave


class _Suspect(Record, frozen=False):
    node: Node
    since: float
    reason: str
    direct: bool
    key: str = ""
    step: int = 0


class _Gathering(Record, frozen=False):
    """One barrier: which worker waits, under which request number."""

    since: float
    here: dict[int, tuple[str, int]] = field(default_factory=dict)
    warned: bool = False


class SchedulerState:
    """Membership, ranks, the directory of keys, barriers, and the end of the job.

    Args:
        workers, servers: how many the job has.
        address: where the scheduler listens, for messages.
        limits: the deadlines.
        bound: number of elements from which a key is cut over all servers.
        now: the time, by the clock of whoever calls (only differences count).
        piece: P3: elements of a slice.
    """

    def __init__(
        self, workers: int, servers: int, address: str, limits: Limits, bound: int, now: float,
        piece: int = 0,
    ) -> None:
        self.workers, self.servers = workers, servers
        self.address, self.limits = address, limits
        self.phase = "gathering"
        self.began = now
        self.registered: dict[str, Register] = {}
        self.members: dict[str, Member] = {}
        self.left: set[str] = set()
        self.heard: dict[str, tuple[float, int]] = {}
        self.directory = Directory(Placer(servers, bound, piece))
        self.barriers: dict[int, _Gathering] = {}
        self.passed = 0
        self.suspects: dict[Node, _Suspect] = {}
        self.reports: dict[str, say.Report] = {}
        self.stalls: dict[str, tuple[say.Stall, ...]] = {}
        self.stall_until: float | None = None

    # -- entry points ---------------------------------------------------------------------------

    def handle(self, message: Message, uid: str, now: float) -> list[Action]:
        """What follows from a message of the process `uid`."""
        if isinstance(message, Register):
            return self._register(message, uid, now)
        if self.phase == "over" or uid not in self.registered:
            return []
        self.heard[uid] = (now, max(self._step(uid), getattr(message, "step", 0)))
        react = _REACTIONS.get(type(message))
        early = self.phase == "gathering" and not isinstance(message, _EARLY)
        if react is None or early:
            return [Log("warning", f"{self._name(uid)} sent an unexpected {message!r:.80}")]
        return react(self, message, uid, now)

    def lost(self, uid: str, reason: str, now: float) -> list[Action]:
        """The connection to the process `uid` is gone for good."""
        if self.phase == "over" or uid in self.left or uid not in self.registered:
            return []
        if self.phase == "gathering":
            return self._abort("lost", f"{self._name(uid)} {reason} during start-up", uid)
        if self.phase == "ending":
            return self._leave_ending(uid, Log("warning", f"{self._name(uid)} {reason} at the end"))
        self._suspect(self.members[uid].node, reason, True, now)
        return []

    def tick(self, now: float) -> list[Action]:
        """What follows from the passing of time."""
        if self.phase == "gathering" and now - self.began > self.limits.start:
            return self._roll_call(now)
        if self.phase == "ending" and now - self.began > ENDING:
            return self._over(0, Log("warning", "some servers did not say goodbye; ending"))
        if self.phase != "running":
            return []
        return self._judge(now) or self._stalled(now) or self._late(now)

    def crash(self, reason: str, detail: str) -> list[Action]:
        """This machine itself failed: the job has to end."""
        return self._abort("error", reason, "", detail, 1)

    # -- start ----------------------------------------------------------------------------------

    def _register(self, message: Register, uid: str, now: float) -> list[Action]:
        if uid in self.registered:  # a connection that was made anew
            return [self._roster(uid)] if uid in self.members else []
        complaint = self._unwelcome(message)
        if complaint:
            return [Send(uid, say.Refused(message.seq, complaint)), Log("warning", complaint)]
        self.registered[uid] = message
        self.heard[uid] = (now, 0)
        if len(self.registered) < self.workers + self.servers:
            return []
        self.members = self._ranked()
        self.phase = "running"
        roles = ", ".join(str(member) for member in self.members.values())
        return [*map(self._roster, self.members), Log("info", f"job complete: {roles}")]

    def _unwelcome(self, message: Register) -> str:
        """Why somebody cannot be taken in; empty if he can."""
        who = f"{message.role.name.lower()} at {message.host} (pid {message.pid})"
        same = [r for r in self.registered.values() if r.role is message.role]
        room = {Role.WORKER: self.workers, Role.SERVER: self.servers}.get(message.role, 0)
        if message.expects != (self.workers, self.servers):
            return (
                f"{who} expects {message.expects[0]} workers and {message.expects[1]} servers, "
                f"the scheduler {self.workers} and {self.servers}: DMLC_NUM_WORKER and "
                "DMLC_NUM_SERVER must be the same everywhere"
            )
        if len(same) >= room or self.phase != "gathering":
            return f"{who} came too late or too much: all {room} of its role have registered"
        if message.wanted >= room:
            return f"{who} wants rank {message.wanted}; ranks are 0 to {room - 1}"
        if message.wanted >= 0 and any(r.wanted == message.wanted for r in same):
            return f"{who} wants rank {message.wanted}, which another process has"
        return ""

    def _ranked(self) -> dict[str, Member]:
        """Everybody with a rank: the one asked for, else the lowest free in order of arrival."""
        members: dict[str, Member] = {}
        for role in (Role.SERVER, Role.WORKER):
            ours = {uid: r for uid, r in self.registered.items() if r.role is role}
            taken = {r.wanted for r in ours.values()}
            free = iter([rank for rank in range(len(ours) + len(taken)) if rank not in taken])
            for uid, r in ours.items():
                rank = r.wanted if r.wanted >= 0 else next(free)
                members[uid] = Member(
                    role, rank, r.host, r.port, r.pid, uid, r.incarnation, r.bulk)
        return members

    def _roster(self, uid: str) -> Send:
        everybody = tuple(sorted(self.members.values(), key=lambda member: member.node))
        return Send(uid, say.Roster(0, self.members[uid].rank, everybody))

    def _roll_call(self, now: float) -> list[Action]:
        here = self._ranked().values()
        nodes = {member.node for member in here}
        wanted = [Node(Role.SERVER, r) for r in range(self.servers)]
        wanted += [Node(Role.WORKER, r) for r in range(self.workers)]
        missing = ", ".join(str(node) for node in wanted if node not in nodes)
        present = ", ".join(map(str, here)) or "nobody"
        return self._abort(
            "timeout",
            f"start-up not complete after {now - self.began:.0f} s: missing: {missing}; "
            f"registered: {present}; every process must reach the scheduler at {self.address}",
            "",
        )

    # -- while it runs --------------------------------------------------------------------------

    def _heartbeat(self, message: say.Heartbeat, uid: str, now: float) -> list[Action]:
        return []

    def _report(self, message: say.Report, uid: str, now: float) -> list[Action]:
        self.reports[uid] = message
        return []

    def picture(self, now: float) -> Picture:
        """The job as it is, for those who watch."""
        members = tuple(sorted(self.members.values(), key=lambda member: member.node))
        stalls = [stall for report in self.reports.values() for stall in report.stalls]
        return Picture(
            self.phase, members,
            {uid: (now - then, step) for uid, (then, step) in self.heard.items()},
            {uid: report.counters for uid, report in self.reports.items()},
            tuple(sorted(stalls, key=lambda stall: -stall.seconds)),
        )

    def _declare(self, message: say.Declare, uid: str, now: float) -> list[Action]:
        member = self.members[uid]
        actions = self.directory.declare(uid, member.rank, message, now)
        return actions + self._orphans()

    def _initialised(self, message: say.Initialised, uid: str, now: float) -> list[Action]:
        return self.directory.initialised(message.idents)

    def _barrier(self, message: say.Barrier, uid: str, now: float) -> list[Action]:
        if EXIT < message.number <= self.passed:  # asked again after a lost answer
            return [Send(uid, say.BarrierDone(message.seq))]
        barrier = self.barriers.setdefault(message.number, _Gathering(now))
        barrier.here[self.members[uid].rank] = (uid, message.seq)
        if message.number == EXIT:
            return self._exit_barrier()
        if len(barrier.here) < self.workers:
            return self._orphans()
        self.passed = max(self.passed, message.number)
        del self.barriers[message.number]
        return [Send(to, say.BarrierDone(seq)) for to, seq in barrier.here.values()]

    def _exit_barrier(self) -> list[Action]:
        """Before they exit, workers that want to wait for each other; who has left is no reason."""
        barrier = self.barriers.get(EXIT)
        gone = sum(self.members[uid].role is Role.WORKER for uid in self.left & set(self.members))
        if barrier is None or len(barrier.here) + gone < self.workers:
            return []
        del self.barriers[EXIT]
        return [Send(to, say.BarrierDone(seq)) for to, seq in barrier.here.values()]

    def _count_dead(self, message: say.CountDead, uid: str, now: float) -> list[Action]:
        dead = [
            u for u, member in self.members.items()
            if member.role in message.roles and u not in self.left
            and (member.node in self.suspects or now - self.heard[u][0] > message.seconds)
        ]
        return [Send(uid, say.StatsReply(message.seq, {"dead": len(dead)}))]

    def _orphans(self) -> list[Action]:
        """Abort if somebody waits for a worker that has left."""
        gone = tuple(sorted(self.members[u].rank for u in self.left & set(self.members)
                            if self.members[u].role is Role.WORKER))
        for number, barrier in self.barriers.items():
            if number == EXIT:
                continue
            absent = tuple(rank for rank in gone if rank not in barrier.here)
            if absent:
                return self._abort(
                    "error",
                    f"barrier {number}: waiting for {say.workers(absent)}, which left",
                    self._uid(Node(Role.WORKER, absent[0])), code=1,
                )
        for waiting in self.directory.waiting if 0 in gone else ():
            keys = self.directory.missing(waiting.message)
            return self._abort(
                "error",
                f"init of key {keys[0]!r}: worker {waiting.rank} waits for worker 0, which left "
                "without initialising it",
                self._uid(Node(Role.WORKER, 0)), code=1,
            )
        return []

    def _late(self, now: float) -> list[Action]:
        """Warn about, then end, waits of the scheduler's own: barriers and declarations."""
        limit = self.limits.operation
        everyone = range(self.workers)
        for number, barrier in self.barriers.items():
            absent = tuple(rank for rank in everyone if rank not in barrier.here)
            text = f"barrier {number} has waited {now - barrier.since:.0f} s for "
            if now - barrier.since > limit:
                text += self._heard(absent, now)
                return self._abort("timeout", text, self._uid(Node(Role.WORKER, absent[0])))
            if now - barrier.since > limit / 10 and not barrier.warned:
                barrier.warned = True
                return [Log("warning", text + self._heard(absent, now))]
        for waiting in self.directory.waiting:
            if now - waiting.since > limit:
                key = self.directory.missing(waiting.message)[0]
                text = (
                    f"init of key {key!r}: worker {waiting.rank} has waited "
                    f"{now - waiting.since:.0f} s for {self._heard((0,), now)}"
                )
                return self._abort("timeout", text, self._uid(Node(Role.WORKER, 0)))
        return []

    def _heard(self, ranks: tuple[int, ...], now: float) -> str:
        """Ranks in words, each with when it was last heard."""
        words = []
        for rank in ranks:
            uid = self._uid(Node(Role.WORKER, rank))
            then, step = self.heard.get(uid, (now, 0))
            words.append(f"{self._name(uid)}, last heard {now - then:.0f} s ago at step {step}")
        return "; ".join(words)

    # -- leaving --------------------------------------------------------------------------------

    def _goodbye(self, message: say.Goodbye, uid: str, now: float) -> list[Action]:
        farewell = Send(uid, say.Farewell(message.seq))
        if uid in self.left:
            return [farewell]
        if self.phase == "gathering":
            text = f"{self._name(uid)} left before the job was complete"
            return [farewell, *self._abort("error", text, uid, code=1)]
        role = self.members[uid].role
        if role is Role.SERVER and self.phase != "ending":
            return self._abort("lost", f"{self.members[uid]} left while workers need it", uid)
        if self.phase == "ending":
            return [farewell, *self._leave_ending(uid)]
        self.left.add(uid)
        here = [u for u, member in self.members.items() if u not in self.left]
        if all(self.members[u].role is Role.SERVER for u in here) :
            self.phase, self.began = "ending", now
            log = Log("info", "all workers have left; ending")
            return [farewell, log, *(Send(u, say.Shutdown()) for u in here)]
        return [farewell, *self._exit_barrier(), *self._orphans()]

    def _leave_ending(self, uid: str, *logs: Action) -> list[Action]:
        self.left.add(uid)
        return [*logs, *([] if set(self.members) - self.left else self._over(0))]

    # -- failing --------------------------------------------------------------------------------

    def _aborted(self, message: Abort, uid: str, now: float) -> list[Action]:
        culprit = self._uid(message.culprit)
        return self._abort(
            message.error, message.reason, culprit, message.detail, message.code
        )

    def _gone(self, message: say.PeerGone, uid: str, now: float) -> list[Action]:
        if self._uid(message.node) in self.left:
            return []
        if self.phase != "running":
            return []
        reason = f"{message.reason} (noticed by {self.members[uid].node})"
        self._suspect(message.node, reason, False, now, message.key, message.step)
        return []

    def _suspect(
        self, node: Node, reason: str, direct: bool, now: float, key: str = "", step: int = 0
    ) -> None:
        known = self.suspects.setdefault(node, _Suspect(node, now, reason, direct))
        if direct and not known.direct:
            known.direct, known.reason = True, reason
        if step >= known.step:
            known.step, known.key = step, key or known.key

    def _judge(self, now: float) -> list[Action]:
        """Abort the job for the loss whose details have had time to come in."""
        if not self.suspects or now - min(s.since for s in self.suspects.values()) < SETTLE:
            return []
        worst = min(self.suspects.values(), key=lambda s: (not s.direct, s.since, s.node))
        uid = self._uid(worst.node)
        step = max(worst.step, self._step(uid))
        where = f" at step {step}" if step else ""
        where += f", key {worst.key}" if worst.key else ""
        return self._abort("lost", f"{self._name(uid)} {worst.reason}{where}", uid)

    def _stall(self, message: say.StallReport, uid: str, now: float) -> list[Action]:
        self.stalls[uid] = message.stalls
        if self.stall_until is not None or not message.stalls:
            return []
        self.stall_until = now + SETTLE
        others = (u for u, m in self.members.items() if m.role is Role.SERVER and u != uid)
        return [Send(other, say.StallQuery()) for other in others]

    def _stalled(self, now: float) -> list[Action]:
        if self.stall_until is None or now < self.stall_until:
            return []
        stalls = sorted(
            (stall for report in self.stalls.values() for stall in report), key=lambda s: s.key
        )
        seconds = max(stall.seconds for stall in stalls)
        missing = tuple(sorted({rank for stall in stalls for rank in stall.missing}))
        shown = "; ".join(map(str, stalls[:20]))
        more = f"; and {len(stalls) - 20} more keys" if len(stalls) > 20 else ""
        blame = [(self.heard.get(self._uid(Node(Role.WORKER, r)), (now, 0))[0], r) for r in missing]
        culprit = self._uid(Node(Role.WORKER, min(blame)[1])) if blame else ""
        return self._abort(
            "timeout",
            f"no progress for {seconds:.0f} s: {shown}{more} "
            f"[{self._heard(missing, now)}]",
            culprit,
        )

    def _abort(
        self, error: str, reason: str, uid: str, detail: str = "", code: int = LOST
    ) -> list[Action]:
        """Tell everybody, then end."""
        culprit = self.members[uid].node if uid in self.members else say.SCHEDULER
        abort = Abort(0, error, reason, detail, culprit.role, culprit.rank, code)
        everybody = [u for u in self.registered if u not in self.left]
        log = Log("error", f"job aborted: {reason}")
        mine = code if culprit == say.SCHEDULER else LOST  # else this process is a victim
        return [log, *(Send(u, abort) for u in everybody), *self._over(mine)]

    def _over(self, code: int, *logs: Action) -> list[Action]:
        self.phase = "over"
        return [*logs, Stop(code)]

    # -- names ----------------------------------------------------------------------------------

    def _uid(self, node: Node) -> str:
        return next((u for u, member in self.members.items() if member.node == node), "")

    def _step(self, uid: str) -> int:
        return self.heard.get(uid, (0.0, 0))[1]

    def _name(self, uid: str) -> str:
        if uid in self.members:
            return str(self.members[uid])
        ranked = self._ranked()
        return str(ranked[uid]) if uid in ranked else "somebody unknown"


_EARLY = (say.Heartbeat, say.Goodbye, say.Abort)
_REACTIONS: dict[type[Message], Callable[[SchedulerState, Any, str, float], list[Action]]] = {
    say.Heartbeat: SchedulerState._heartbeat,
    say.Declare: SchedulerState._declare,
    say.Initialised: SchedulerState._initialised,
    say.Barrier: SchedulerState._barrier,
    say.Report: SchedulerState._report,
    say.CountDead: SchedulerState._count_dead,
    say.Goodbye: SchedulerState._goodbye,
    say.Abort: SchedulerState._aborted,
    say.PeerGone: SchedulerState._gone,
    say.StallReport: SchedulerState._stall,
}
