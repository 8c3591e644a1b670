"""The loop around a state machine: transport, clock, who is behind which connection; the roles.

`run_role()` runs this process as scheduler or server until the job ends and returns the exit code:
0 fine, 1 a user's error, 75 infrastructure (a lost peer, a time-out), worth another try.
"""
from __future__ import annotations

import os
import sys
import time
import traceback
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ... import profiler
from ...base import KVStoreError, MXNetError
from . import messages as say
from .actions import Action, Limits, Log, Run, Send, Stop
from .commands import Head, profile
from .environment import Job, listen_host, read_environment, resolve, scheduler_bind_host
from .holdings import Holdings
from .link import Closed, Frame, Opened, Received, Transport, allocator, keep_memory
from .messages import SCHEDULER, Message, Node, Role
from .metrics import Endpoint
from .rounds import Rounds
from .rule import rule_of
from .scheduler import SchedulerState
from .server import ServerState
from .transport import ZmqTransport
from .wire import WireError, decode, encode

__all__ = ["Loop", "run_if_role", "run_role", "run_scheduler", "run_server", "serve"]

TICK = 0.2
GRACE = 1.5   # how long a closed connection may take to come back
CODE_USER, CODE_INFRASTRUCTURE = 1, 75
Clock = Callable[[], float]
Controller = Callable[[int, str], None]


class Machine(Protocol):
    """What the loop needs of a state machine."""

    def handle(self, message: Message, uid: str, now: float) -> list[Action]:
        """A message came."""

    def lost(self, uid: str, reason: str, now: float) -> list[Action]:
        """A connection is gone for good."""

    def tick(self, now: float) -> list[Action]:
        """Time has passed."""

    def crash(self, reason: str, detail: str) -> list[Action]:
        """The machine itself failed."""


class Loop:
    """Feeds events to a state machine and does what it asks for.

    Args:
        transport: carries the frames.
        me: role and rank of this process.
        verbose: show messages of level 'info'.
        clock: monotonic seconds.
    """

    def __init__(
        self, transport: Transport, me: Node, verbose: int = 0, clock: Clock = time.monotonic
    ) -> None:
        self.transport, self.me, self.verbose, self.clock = transport, me, verbose, clock
        self.allocate = allocator(transport)
        self.machine: Machine | None = None
        self.uids: dict[int, str] = {}
        self.peers: dict[str, int] = {}
        self.senders: dict[str, say.Register | say.Attach] = {}
        self.banned: set[int] = set()
        self.missing: dict[str, tuple[float, str]] = {}
        self.ticked = clock()
        self.code: int | None = None

    # -- one turn -------------------------------------------------------------------------------

    def turn(self, seconds: float = TICK) -> None:
        """Wait for events that long, and react to them and to the time."""
        events = self.transport.poll(seconds)
        self.polled()
        for event in events:
            if isinstance(event, Received):
                self._received(event)
            elif isinstance(event, Closed):
                self._closed(event.peer, event.reason)
            elif isinstance(event, Opened):
                self.opened(event.peer)
        now = self.clock()
        for uid, (until, reason) in list(self.missing.items()):
            if now > until or self._dead(uid):
                del self.missing[uid]
                self._lose(uid, self._fate(uid, reason))
        if now - self.ticked >= TICK / 2:
            self.ticked = now
            self.guard(lambda m: m.tick(now))

    def run(self) -> int:
        """Turn until somebody says stop; the exit code."""
        while self.code is None:
            self.turn()
        return self.code

    def polled(self) -> None:
        """Events have been waited for."""

    def opened(self, peer: int) -> None:
        """A connection stands; strangers speak first."""

    def bind(self, peer: int, uid: str) -> None:
        """From now on `uid` is behind this connection."""
        self.peers[uid] = peer
        self.uids[peer] = uid
        self.missing.pop(uid, None)

    def guard(self, work: Callable[[Any], list[Action]]) -> None:
        """Let the machine work; if it breaks, the job is aborted, not hung."""
        if self.machine is None:
            return
        try:
            actions = work(self.machine)
        except Exception as error:
            reason = f"{self.me} failed: {type(error).__name__}: {error}"
            actions = self.machine.crash(reason, traceback.format_exc())
        self.perform(actions)

    def perform(self, actions: list[Action]) -> None:
        """Do what the machine asks for."""
        for action in actions:
            if isinstance(action, Send):
                peer = self.peers.get(action.to)
                if peer is not None:
                    frames = encode(action.message, self.me, 0, self.allocate)
                    self.transport.send(peer, frames)
                    self.sent(action.to, frames)
            elif isinstance(action, Log):
                self.log(action.level, action.text)
            elif isinstance(action, Run):
                self.run_command(action)
            elif isinstance(action, Stop) and self.code is None:
                self.code = action.code

    def sent(self, uid: str, frames: Sequence[Frame]) -> None:
        """A message was sent."""

    def run_command(self, action: Run) -> None:
        """Do what a command of a worker asks this process for."""
        self.log("warning", f"ignored command {action.head}")

    def log(self, level: str, text: str) -> None:
        """One line for the people who watch."""
        if level != "info" or self.verbose:
            print(f"minigluon: {self.me}: {text}", file=sys.stderr, flush=True)

    # -- events ---------------------------------------------------------------------------------

    def _received(self, event: Received) -> None:
        if event.peer in self.banned:
            return
        uid = self.uids.get(event.peer)
        try:
            envelope = decode(event.frames)
            message = envelope.message
            if uid is None:
                uid = self._introduced(event.peer, message)
            elif uid in self.senders and envelope.sender.role != self._role_of(uid):
                raise WireError(f"wire: {envelope.sender} speaks over the connection of another")
            elif isinstance(message, say.Attach) and message.uid == uid:
                self.bind(event.peer, uid)  # of several connections it goes on with this one
        except WireError as error:
            self._banish(event.peer, uid, str(error))
            return
        self.message(message, uid, event.frames)

    def message(self, message: Message, uid: str, frames: Sequence[Frame] = ()) -> None:
        """A message of somebody known."""
        self.guard(lambda m: m.handle(message, uid, self.clock()))

    def _introduced(self, peer: int, message: Message) -> str:
        if not isinstance(message, (say.Register, say.Attach)) or not message.uid:
            raise WireError(f"wire: a connection that begins with {type(message).__name__}")
        self.senders[message.uid] = message
        self.bind(peer, message.uid)
        return message.uid

    def _role_of(self, uid: str) -> Role:
        first = self.senders[uid]
        return first.role if isinstance(first, say.Register) else Role.WORKER

    def _banish(self, peer: int, uid: str | None, reason: str) -> None:
        self.banned.add(peer)
        self.log("warning", f"turned away a connection: {reason}")
        if uid is not None:
            self._lose(uid, f"sent what is no message ({reason})")

    def _lose(self, uid: str, reason: str) -> None:
        self.guard(lambda m: m.lost(uid, reason, self.clock()))

    def _closed(self, peer: int, reason: str) -> None:
        uid = self.uids.pop(peer, None)
        if uid is None or self.peers.get(uid) != peer:
            return
        del self.peers[uid]
        if uid not in self.missing:
            self.missing[uid] = (self.clock() + GRACE, reason)

    # -- how somebody fares ---------------------------------------------------------------------

    def _process(self, uid: str) -> str:
        """How the process behind a uid is: 'dead', 'T', 'S', ...; '' if on another machine."""
        host, pid = self.whereabouts(uid)
        if host != self.host():
            return ""
        try:
            with open(f"/proc/{pid}/stat", "rb") as stat:
                state = stat.read().rpartition(b") ")[2][:1].decode()
        except OSError:
            return "dead"
        return "dead" if state in "ZX" else state

    def whereabouts(self, uid: str) -> tuple[str, int]:
        """Host and process id of somebody; ('?', 0) if unknown."""
        first = self.senders.get(uid)
        return (first.host, first.pid) if isinstance(first, say.Register) else ("?", 0)

    def host(self) -> str:
        """The address of this process, as it would register; '' if it does not know."""
        return ""

    def _dead(self, uid: str) -> bool:
        return self._process(uid) == "dead"

    def _fate(self, uid: str, reason: str) -> str:
        state = self._process(uid)
        if state == "T":
            return f"is stopped and gave no sign of life ({reason})"
        if state and state != "dead":
            return f"does not answer ({reason})"
        return f"died ({reason})"


# -- the scheduler --------------------------------------------------------------------------------


class SchedulerLoop(Loop):
    """The loop of the scheduler."""

    def __init__(self, transport: Transport, job: Job, host: str, clock: Clock) -> None:
        super().__init__(transport, SCHEDULER, job.verbose, clock)
        self._host = host
        self.machine = SchedulerState(
            job.workers, job.servers, f"{host}:{job.port}", job.limits, job.bound, clock(),
            job.slice,
        )
        self.job = job
        self.endpoint = None if job.metrics is None else Endpoint(job.metrics)
        self._shown = self._pictured = clock()
        self._epoch, self._awaited = 0, 0  # the last barrier; reports until a line says so
        self._passed = 0.0                 # when it was noticed
        self._known: dict[str, say.Report] = {}
        if self.endpoint is not None:
            self.log("warning", f"status at http://127.0.0.1:{self.endpoint.port}/, Prometheus at "
                     f"http://127.0.0.1:{self.endpoint.port}/metrics")

    def turn(self, seconds: float = TICK) -> None:
        """One turn, and what is shown of the job."""
        super().turn(seconds)
        now = self.clock()
        assert isinstance(self.machine, SchedulerState)
        if self.endpoint is not None and now - self._pictured >= TICK:
            self._pictured = now
            self.endpoint.picture = self.machine.picture(now)
        if self.job.stats and now - self._shown >= self.job.stats:
            self._shown = now
            self.log("stats", self.machine.picture(now).line())
        if self.job.stats:
            self._line_of_barrier(self.machine, now)

    def _line_of_barrier(self, machine: SchedulerState, now: float) -> None:
        """The line after a barrier, once everybody has told how things were at it."""
        if machine.passed > self._epoch:
            self._epoch, self._awaited = machine.passed, 2  # the next may be on its way
            self._passed, self._known = now, dict(machine.reports)
        reports = machine.reports
        if not self._awaited or len(reports) != self.job.servers or any(
                report is self._known.get(uid) for uid, report in reports.items()) or any(
                then <= self._passed for uid, (then, _) in machine.heard.items()
                if uid not in machine.left):
            return
        self._awaited, self._known = self._awaited - 1, dict(reports)
        if not self._awaited:
            self.log("stats", f"barrier {self._epoch}: {machine.picture(now).line()}")

    def close(self) -> None:
        """The last line, and the end of what is shown."""
        assert isinstance(self.machine, SchedulerState)
        if self.job.stats:
            self.log("stats", self.machine.picture(self.clock()).line())
        if self.endpoint is not None:
            self.endpoint.close()

    def host(self) -> str:
        """The address it listens at."""
        return self._host


def run_scheduler(
    job: Job, transport: Transport | None = None, clock: Clock = time.monotonic
) -> int:
    """Be the scheduler until the job ends; the exit code."""
    host = scheduler_bind_host(job)
    transport = transport or ZmqTransport(job.token, job.limits.heartbeat, job.van)
    try:
        transport.listen(host, job.port)
        loop = SchedulerLoop(transport, job, host, clock)
        loop.log("info", f"listening at {host}:{job.port}")
        try:
            return loop.run()
        finally:
            loop.close()
    finally:
        transport.close(linger=1.0)


# -- servers --------------------------------------------------------------------------------------


class ServerLoop(Loop):
    """The loop of a server: registers, keeps early workers waiting, then serves."""

    def __init__(
        self, transport: Transport, job: Job, clock: Clock, controller: Controller | None = None
    ) -> None:
        super().__init__(transport, Node(Role.SERVER, -1), job.verbose, clock)
        self.job, self.controller = job, controller
        self.uid = uuid.uuid4().hex[:16]
        self.began = self.beat = clock()
        self._host = listen_host(job)
        self.port = transport.listen(self._host, 0)
        self.bulk = transport.bulk
        self.log("info", f"listening at {self._host}:{self.port}, for numbers at port {self.bulk}")
        self.scheduler = transport.connect(resolve(job.host, "the scheduler"), job.port)
        self.bind(self.scheduler, "scheduler")
        self.early: list[tuple[Message, str]] = []
        self.rounds = Rounds(transport)

    def host(self) -> str:
        """The address it listens at."""
        return self._host

    def whereabouts(self, uid: str) -> tuple[str, int]:
        """Host and process id of a worker, from the roster."""
        member = self.machine.members.get(uid) if isinstance(self.machine, ServerState) else None
        return (member.host, member.pid) if member is not None else ("?", 0)

    def opened(self, peer: int) -> None:
        """The scheduler is there (again): say who this is."""
        if peer == self.scheduler:
            self.bind(peer, "scheduler")
            register = say.Register(
                0, Role.SERVER, self.job.wanted, self._host, self.port, os.getpid(), self.uid,
                self.job.incarnation, (self.job.workers, self.job.servers), self.bulk,
            )
            self.transport.send(peer, encode(register, self.me))

    def polled(self) -> None:
        """What native code has done meanwhile is known to the machine before anything else."""
        if isinstance(self.machine, ServerState):
            self.rounds.tell(self.machine)

    def sent(self, uid: str, frames: Sequence[Frame]) -> None:
        """A message was sent."""
        self.rounds.said(uid, frames)

    def message(self, message: Message, uid: str, frames: Sequence[Frame] = ()) -> None:
        """A message; before the roster has come, only the scheduler's count."""
        if isinstance(self.machine, ServerState):
            self.rounds.end()
            super().message(message, uid)
            self.rounds.heard(self.machine, uid, message, frames, self.peers)
        elif uid != "scheduler":
            self.early.append((message, uid))
        elif isinstance(message, say.Roster):
            self._begin(message)
        elif isinstance(message, (say.Refused, say.Abort)):
            self._end(message.reason, getattr(message, "code", CODE_USER))

    def turn(self, seconds: float = TICK) -> None:
        """One turn, heartbeats, and the deadline of the start."""
        super().turn(min(seconds, self.job.limits.interval))
        now = self.clock()
        if now - self.beat > self.job.limits.interval and "scheduler" in self.peers:
            self.beat = now
            self.transport.send(self.scheduler, encode(say.Heartbeat(), self.me))
            watched = self.job.stats or self.job.metrics is not None
            if watched and isinstance(self.machine, ServerState):
                self.transport.send(self.scheduler, encode(self.machine.report(now), self.me))
        if self.machine is None and now - self.began > self.job.limits.start + 2:
            reason = self.transport.problem(self.scheduler)
            self._end(
                f"no roster from the scheduler at {self.job.address} for {now - self.began:.0f} s "
                f"({reason})", CODE_INFRASTRUCTURE,
            )

    def run_command(self, action: Run) -> None:
        """Command 0 is the controller's, command 5 the profiler's; an error is told, no more."""
        try:
            if action.head == Head.PROFILER:
                self.rounds.forbid()
                profile(action.body, self.me.rank)
            elif self.controller is not None:
                self.controller(action.head, action.body)
            else:
                self.log("warning", "command 0: this server has no controller (KVStoreServer)")
        except Exception as error:
            self.log("error", f"command {action.head} failed: {type(error).__name__}: {error}")

    def _begin(self, roster: say.Roster) -> None:
        self.me = Node(Role.SERVER, roster.rank)
        profiler.watch(Holdings, ("_merge", "_complete"))
        limits: Limits = self.job.limits
        self.machine = ServerState(
            roster.rank, roster.members, "scheduler", limits, rule_of, self.allocate
        )
        for message, uid in self.early:
            super().message(message, uid)
        self.early = []

    def _closed(self, peer: int, reason: str) -> None:
        self.rounds.end()
        if peer == self.scheduler:
            refused = reason.startswith("refused")
            fate = reason if refused else f"died ({reason})"
            self._end(
                f"the scheduler at {self.job.address} {fate}",
                CODE_USER if refused else CODE_INFRASTRUCTURE,
            )
        else:
            super()._closed(peer, reason)

    def _end(self, reason: str, code: int) -> None:
        if self.code is None:
            self.log("error", f"job aborted: {reason}")
            self.code = code


def run_server(
    job: Job, transport: Transport | None = None, clock: Clock = time.monotonic,
    controller: Controller | None = None,
) -> int:
    """Be a server until the job ends; the exit code. `controller` gets command 0: (head, body)."""
    if transport is None:  # a process of its own
        keep_memory(512 << 20)
        transport = ZmqTransport(job.token, job.limits.heartbeat, job.van)
    try:
        return ServerLoop(transport, job, clock, controller).run()
    finally:
        transport.close(linger=1.0)


# -- the process ----------------------------------------------------------------------------------


def run_role() -> int:
    """Take the role that DMLC_ROLE names (server, scheduler) until the job ends; the exit code."""
    name = os.environ.get("DMLC_ROLE", "process")
    try:
        job = read_environment()
        if job.role is Role.SCHEDULER:
            return run_scheduler(job)
        if job.role is Role.SERVER:
            return run_server(job)
        raise KVStoreError(
            "DMLC_ROLE=worker: a worker runs the training script itself, e.g. `python train.py`"
        )
    except KeyboardInterrupt:
        return 130
    except MXNetError as error:
        print(f"minigluon: {name}: {error}", file=sys.stderr, flush=True)
        return CODE_USER


def serve(controller: Controller) -> int:
    """Be a server of the job that the environment describes, with a controller of one's own."""
    return run_server(read_environment(Role.SERVER), controller=controller)


def run_if_role() -> None:
    """End this process by running its role if DMLC_ROLE is server or scheduler; else nothing."""
    if os.environ.get("DMLC_ROLE", "").lower() in ("server", "scheduler"):
        sys.exit(run_role())
