"""One worker process in its job: a thread that owns the connections, requests, and their answers.

The script's thread makes frames and hands them over; the network thread sends them, keeps each
request until it is answered (and sends it again after a broken connection), and completes waits.
Every wait has a deadline. The first failure is kept and raised by every later call.
"""
from __future__ import annotations

import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...base import KVStoreError, KVStoreTimeout, PeerLost
from . import messages as say
from .environment import Job, listen_host, resolve
from .link import Closed, Frame, Opened, Received, Transport
from .messages import SCHEDULER, Message, Node, Role
from .transport import ZmqTransport
from .wire import WireError, decode, encode

__all__ = ["Client", "Failure", "Pending"]

Answer = Callable[[Message], None]
_TICK = 0.2
_SLACK = 2.0       # the scheduler's own deadlines come first: it knows more
_VERDICT = 3.0     # how long the scheduler may take to say what happened
_ROOM = 512 << 20  # bytes of requests under way


@dataclass(frozen=True, slots=True)
class Failure:
    """Why this worker cannot go on.

    Args:
        error: kind, as in `messages.Abort`.
        text: the message.
        code: exit code of a process that dies of it.
    """

    error: str
    text: str
    code: int

    def exception(self) -> KVStoreError:
        """A new exception for one caller."""
        kinds = {"lost": PeerLost, "crash": PeerLost, "timeout": KVStoreTimeout}
        made = kinds.get(self.error, KVStoreError)(self.text)
        made.exit_code = self.code  # type: ignore[attr-defined]
        return made


@dataclass(eq=False)
class Pending:
    """A request that is not answered yet.

    Args:
        node: who has to answer.
        seq: its number.
        what: the request in words, for messages.
        frames: kept until it is answered.
        answer: called in the network thread with the answer.
        failed: called in the network thread if there will be none.
        buffers: memory the frames refer to, to be reused afterwards.
    """

    node: Node
    seq: int
    what: str
    frames: Sequence[Frame]
    since: float
    answer: Answer | None = None
    failed: Callable[[KVStoreError], None] | None = None
    buffers: list[np.ndarray[Any, Any]] = field(default_factory=list)
    size: int = 0
    warned: bool = False
    reply: Message | None = None
    error: KVStoreError | None = None
    ended: threading.Event = field(default_factory=threading.Event)


class Client:
    """The connection of one worker to scheduler and servers.

    Args:
        job: what the environment says.
        transport: carries the frames; ZeroMQ by default.
        enforce: end the whole process if the job has failed and the script does not notice.
    """

    def __init__(
        self, job: Job, transport: Transport | None = None, enforce: bool = False
    ) -> None:
        self.job, self.enforce = job, enforce
        self.transport = transport or ZmqTransport(job.token, job.limits.heartbeat)
        self.uid = uuid.uuid4().hex[:16]
        self.me = Node(Role.WORKER, -1)
        self.members: dict[Node, say.Member] = {}
        self.failure: Failure | None = None
        self.delivered = False
        self.step, self.key = 0, ""
        self.closed = False
        self.pid = os.getpid()
        self._making = threading.Lock()
        self._lock = threading.Condition()
        self._seq = 0
        self._pending: dict[int, Pending] = {}
        self._size = 0
        self._outbox: deque[Pending] = deque()
        self._nodes: dict[int, Node] = {}
        self._peers: dict[Node, int] = {}
        self._standing: set[Node] = set()
        self._raised: list[KVStoreError] = []
        self._spare: dict[int, list[np.ndarray[Any, Any]]] = {}
        self._ready = threading.Event()
        self._over = threading.Event()
        self._verdict: tuple[float, Failure] | None = None
        self._leaving = False
        self._barriers = 0
        self._beat = self._began = time.monotonic()
        self._failed_at = 0.0
        self._thread = threading.Thread(target=self._run, name="minigluon-kvstore", daemon=True)

    # -- start and end --------------------------------------------------------------------------

    def start(self) -> None:
        """Register, meet everybody; KVStoreError or KVStoreTimeout if that fails."""
        host = resolve(self.job.host, "the scheduler (DMLC_PS_ROOT_URI)")
        self.host = listen_host(self.job)
        self._dial(SCHEDULER, host, self.job.port)
        self._thread.start()
        while not self._ready.wait(_TICK) and self.failure is None:
            continue
        self.check()

    @property
    def rank(self) -> int:
        """The rank the scheduler gave."""
        return self.me.rank

    @property
    def servers(self) -> list[Node]:
        """All servers, in order."""
        return [Node(Role.SERVER, rank) for rank in range(self.job.servers)]

    def leave(self) -> None:
        """Everything sent has arrived: say goodbye to all and close."""
        if self.closed or os.getpid() != self.pid:
            return
        try:
            self.check()
            for pending in [self.request(node, say.Goodbye()) for node in self.servers]:
                self.wait(pending)
            self._leaving = True
            self.wait(self.request(SCHEDULER, say.Goodbye()))
        finally:
            self.stop()

    def stop(self) -> None:
        """Close without a word (after a failure)."""
        self.closed = True
        self._over.set()
        self.transport.wake()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(10.0)

    def report(self, reason: str, detail: str) -> None:
        """This worker fails: tell the others, and wait a moment for that to arrive."""
        if self.failure is not None or self.closed or self.rank < 0:
            return
        abort = say.Abort(0, "crash", reason, detail, Role.WORKER, self.rank, 1)
        self._post(SCHEDULER, abort)
        deadline = time.monotonic() + 2.0
        while self.failure is None and time.monotonic() < deadline:
            self._over.wait(0.02)

    # -- requests -------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise if this client cannot be used (any more)."""
        if os.getpid() != self.pid:
            raise KVStoreError(
                f"this KVStore belongs to process {self.pid}; the forked process {os.getpid()} "
                "cannot use its connections. Create a store in the process that needs it"
            )
        if self.failure is not None:
            self.delivered = True
            raise self.failure.exception()
        if self.closed:
            raise KVStoreError("this KVStore has left the job; create stores before that")

    def request(
        self, node: Node, message: Message, what: str = "", answer: Answer | None = None,
        failed: Callable[[KVStoreError], None] | None = None,
        buffers: list[np.ndarray[Any, Any]] | None = None,
    ) -> Pending:
        """Send a message that will be answered; its `seq` is set here."""
        self.check()
        with self._making:  # numbers must leave in order
            self._seq += 1
            message = replace(message, seq=self._seq)
            frames = encode(message, self.me, self.job.incarnation)
            pending = Pending(
                node, self._seq, what or type(message).__name__, frames, time.monotonic(), answer,
                failed, buffers or [], sum(map(len, frames)),
            )
            with self._lock:
                if self.failure is None:
                    self._pending[pending.seq] = pending
                    self._size += pending.size
                    self._outbox.append(pending)
        self.check()
        self.transport.wake()
        return pending

    def wait(self, pending: Pending) -> Message:
        """The answer; raises what the request failed with. The network thread has the deadline."""
        pending.ended.wait()
        if pending.error is not None:
            self.delivered = True
            raise pending.error
        assert pending.reply is not None
        return pending.reply

    def make_room(self) -> None:
        """Wait until fewer bytes are under way."""
        with self._lock:
            while self._size > _ROOM and self.failure is None:
                self._lock.wait(_TICK)
        self.check()

    def drain(self) -> None:
        """Wait until all requests so far are answered."""
        with self._lock:
            open_requests = list(self._pending.values())
        for pending in open_requests:
            self.wait(pending)

    def barrier(self) -> None:
        """Wait for all workers."""
        self._barriers += 1
        message = say.Barrier(0, self._barriers)
        self.wait(self.request(SCHEDULER, message, f"barrier {self._barriers}"))

    def buffer(self, size: int) -> np.ndarray[Any, Any]:
        """`size` bytes of memory, which come back when the request they are given to is done."""
        with self._lock:
            spare = self._spare.get(size)
            if spare:
                return spare.pop()
        return np.empty(size, np.uint8)

    def push_failed(self, error: KVStoreError) -> None:
        """A push was refused: nobody waits for it, so the next call has to tell."""
        self._fail(Failure("error", str(error), 1))

    # -- the network thread ---------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                for event in self.transport.poll(_TICK):
                    self._react(event)
                self._send()
                self._tick(time.monotonic())
        except Exception as error:
            self._fail(Failure("error", f"{self.me}: network thread: {error!r}", 1))
            raise
        finally:
            self.transport.close(linger=0.5)
            self.closed = True
            self._end_all(lambda: KVStoreError("this KVStore has left the job"))
            self._ready.set()

    def _dial(self, node: Node, host: str, port: int) -> None:
        peer = self.transport.connect(host, port)
        self._nodes[peer], self._peers[node] = node, peer

    def _react(self, event: Opened | Closed | Received) -> None:
        node = self._nodes[event.peer]
        if isinstance(event, Opened):
            self._opened(node)
        elif isinstance(event, Closed):
            self._lost(node, event.reason)
        else:
            try:
                message = decode(event.frames).message
            except WireError as error:
                self._lost(node, f"sent what is no message ({error})")
                return
            self._received(node, message)

    def _opened(self, node: Node) -> None:
        """A connection stands: say who this is, and all that is not answered (again)."""
        if node == SCHEDULER:
            job = self.job
            first: Message = say.Register(
                0, Role.WORKER, job.wanted, self.host, 0, self.pid, self.uid, job.incarnation,
                (job.workers, job.servers),
            )
        else:
            first = say.Attach(0, self.uid, self.rank, self.job.incarnation)
        self._now(node, first)
        self._standing.add(node)
        with self._lock:
            again = [p for p in self._pending.values() if p.node == node]
            self._outbox = deque(p for p in self._outbox if p.node != node or not p.seq)
        for pending in sorted(again, key=lambda p: p.seq):
            self.transport.send(self._peers[node], pending.frames)

    def _received(self, node: Node, message: Message) -> None:
        if isinstance(message, say.Roster):
            self._roster(message)
        elif isinstance(message, say.Attached):
            self._meet(node)
        elif isinstance(message, say.Abort):
            code = message.code if message.error == "error" else 75
            if message.culprit == self.me:
                code = message.code
            self._fail(Failure(message.error, f"job aborted: {message.reason}", code))
        elif isinstance(message, say.Refused):
            self._fail(Failure("error", f"{self._name(node)} refused: {message.reason}", 1))
        else:
            self._answered(message)

    def _roster(self, roster: say.Roster) -> None:
        if self.rank >= 0:
            return  # registered again after a broken connection
        self.me = Node(Role.WORKER, roster.rank)
        self.members = {member.node: member for member in roster.members}
        self._meeting = set(self.servers)
        for node in self.servers:
            self._dial(node, self.members[node].host, self.members[node].port)

    def _meet(self, node: Node) -> None:
        self._meeting.discard(node)
        if not self._meeting:
            self._ready.set()

    def _answered(self, message: Message) -> None:
        with self._lock:
            pending = self._pending.pop(message.seq, None)
            if pending is None:
                return  # an answer that came twice
            self._release(pending)
        if isinstance(message, say.ErrorReply):
            self._end(pending, KVStoreError(message.reason))
            return
        pending.reply = message
        try:
            if pending.answer is not None:
                pending.answer(message)
        except Exception as error:
            self._end(pending, KVStoreError(f"{pending.what}: {type(error).__name__}: {error}"))
            return
        pending.ended.set()

    def _release(self, pending: Pending) -> None:
        """Its memory may be used again (the lock is held)."""
        self._size -= pending.size
        for buffer in pending.buffers:
            self._spare.setdefault(buffer.nbytes, []).append(buffer)
        pending.buffers, pending.frames = [], ()
        self._lock.notify_all()

    def _end(self, pending: Pending, error: KVStoreError) -> None:
        pending.error = error
        if pending.failed is not None:
            pending.failed(error)
            self._raised = [*self._raised[-20:], error]
        pending.ended.set()

    def _send(self) -> None:
        while self._outbox:
            try:
                pending = self._outbox.popleft()
            except IndexError:
                return
            if pending.node in self._standing:
                self.transport.send(self._peers[pending.node], pending.frames)

    def _post(self, node: Node, message: Message) -> None:
        """Send something that has no answer, from any thread."""
        frames = encode(message, self.me, self.job.incarnation)
        with self._lock:
            self._outbox.append(Pending(node, 0, "", frames, 0.0))
        self.transport.wake()

    def _now(self, node: Node, message: Message) -> None:
        """Send something that has no answer, from the network thread."""
        frames = encode(message, self.me, self.job.incarnation)
        self.transport.send(self._peers[node], frames)

    # -- time and failure -----------------------------------------------------------------------

    def _tick(self, now: float) -> None:
        limits = self.job.limits
        if not self._ready.is_set() and now - self._began > limits.start + _SLACK:
            self._fail(Failure("timeout", self._start_problem(now), 75))
        if now - self._beat > limits.interval and SCHEDULER in self._standing:
            self._beat = now
            self._now(SCHEDULER, say.Heartbeat(0, self.step, self.key))
        if self._verdict is not None and now > self._verdict[0]:
            self._fail(self._verdict[1])
        with self._lock:
            oldest = next(iter(self._pending.values()), None)
        if oldest is not None and self.failure is None:
            self._overdue(oldest, now)
        if self.failure is not None and self.enforce and now - self._failed_at > 4.0:
            self._enforce()

    def _start_problem(self, now: float) -> str:
        waited = f"{now - self._began:.0f} s"
        if SCHEDULER not in self._standing:
            return (
                f"worker: the scheduler at {self.job.address} was not reached for {waited}: "
                f"{self.transport.problem(self._peers[SCHEDULER])}"
            )
        if self.rank < 0:
            return f"worker: no roster from the scheduler at {self.job.address} for {waited}"
        away = ", ".join(
            f"{self._name(node)}: {self.transport.problem(self._peers[node])}"
            for node in sorted(self._meeting)
        )
        return f"{self.me}: servers not reached for {waited}: {away}"

    def _overdue(self, pending: Pending, now: float) -> None:
        limit = self.job.limits.operation
        waited = now - pending.since
        text = (
            f"{self.me}: {pending.what} has waited {waited:.0f} s for {self._name(pending.node)}"
        )
        if waited > limit / 10 and not pending.warned:
            pending.warned = True
            _print(text)
        if waited > limit * 1.1 + _SLACK and self._verdict is None:
            node = pending.node
            self._now(SCHEDULER, say.Abort(0, "timeout", text, "", node.role, node.rank, 75))
            self._verdict = (now + _VERDICT, Failure("timeout", f"job aborted: {text}", 75))

    def _lost(self, node: Node, reason: str) -> None:
        """A connection is gone for good."""
        if self._leaving or self.failure is not None:
            return
        self._standing.discard(node)
        if reason.startswith("refused"):
            self._fail(Failure("error", f"{self._name(node)} {reason}", 1))
        elif node == SCHEDULER:
            text = f"job aborted: the scheduler at {self.job.address} died ({reason})"
            self._fail(Failure("lost", self._at_step(text), 75))
        elif self._verdict is None:
            gone = say.PeerGone(0, node.role, node.rank, f"died ({reason})", self.key, self.step)
            self._now(SCHEDULER, gone)
            text = self._at_step(f"job aborted: {self._name(node)} died ({reason})")
            self._verdict = (time.monotonic() + _VERDICT, Failure("lost", text, 75))

    def _at_step(self, text: str) -> str:
        return f"{text} at step {self.step}, key {self.key}" if self.step else text

    def _name(self, node: Node) -> str:
        if node == SCHEDULER:
            return f"the scheduler at {self.job.address}"
        return str(self.members.get(node, node))

    def _fail(self, failure: Failure) -> None:
        """Keep the first failure and end all waits with it."""
        with self._lock:
            if self.failure is not None:
                return
            self.failure = failure
            self._failed_at = time.monotonic()
        self._end_all(failure.exception)
        self._ready.set()

    def _end_all(self, error: Callable[[], KVStoreError]) -> None:
        with self._lock:
            open_requests = list(self._pending.values())
            self._pending.clear()
            self._size = 0
            self._lock.notify_all()
        for pending in open_requests:
            self._end(pending, error())

    @property
    def noticed(self) -> bool:
        """Whether the script has been given the failure: by a call, or by reading an array."""
        return self.delivered or any(e.__traceback__ is not None for e in self._raised)

    def _enforce(self) -> None:
        """The script computes on without noticing that the job is over: end it."""
        if self.noticed or self.failure is None:
            self.enforce = False
            return
        _print(f"{self.me}: {self.failure.text} (ended: the script did not call its KVStore)")
        os._exit(self.failure.code)


def _print(text: str) -> None:
    os.write(2, f"minigluon: {text}\n".encode())
