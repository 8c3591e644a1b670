"""One worker process in its job: a thread that owns the connections, requests, and their answers.

The script's thread makes frames and hands them over; the network thread sends them, keeps each
request until it is answered (and sends it again after a broken connection), and completes waits.
Every wait has a deadline. The first failure is kept and raised by every later call.
"""
from __future__ import annotations

import functools
import os
import threading
import time
import uuid
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base import KVStoreError
from . import messages as say
from .environment import Job, listen_host, resolve
from .forms import Form, form_of
from .link import Closed, Frame, Opened, Received, Transport, allocator, keep_memory
from .messages import SCHEDULER, Message, Node, Role
from .requests import Answer, Failure, Pending, Requests
from .transport import ZmqTransport
from .wire import WireError, answer_to, decode, encode

__all__ = ["Client"]

_TICK = 0.2
_STANDSTILL = 1.0  # seconds without an answer after which a full worker pushes on
_SLACK = 2.0       # the scheduler's own deadlines come first: it knows more
_VERDICT = 3.0     # how long the scheduler may take to say what happened
_WINDOW = 1 << 20  # P3: bytes under way for each server
_NAMED = 1 << 18   # parts in lists that servers know by number, all lists together
_BULK = 2.0        # seconds for a connection for numbers to stand
_FORCE = 4.0       # how long a script may fail to notice that the job is over


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
        self.transport = transport or ZmqTransport(job.token, job.limits.heartbeat, job.van)
        self.uid = uuid.uuid4().hex[:16]
        self.me = Node(Role.WORKER, -1)
        self.members: dict[Node, say.Member] = {}
        allocate = allocator(self.transport)
        self.requests = Requests(
            lambda message: encode(message, self.me, self.job.incarnation, allocate),
            _WINDOW * job.servers if job.slice else 0,
            allocate,
            self.transport.lanes,
        )
        self.transport.place = self._place
        self.delivered = False
        self.step, self.key = 0, ""
        self.barrier_before_exit = False
        self.closed = False
        self.pid = os.getpid()
        self._nodes: dict[int, Node] = {}
        self._peers: dict[Node, int] = {}
        self._bulk: dict[Node, int | None] = {}  # connections for numbers; None: given up
        self._ways: dict[Node, int] = {}         # the connection that requests take
        self._dialled = 0.0                      # when the latest of them was dialled
        self._standing: set[Node] = set()
        self._ready = threading.Event()
        self._over = threading.Event()
        self._verdict: tuple[float, Failure] | None = None
        self._leaving = False
        self._barriers = self._named = 0
        self._naming = threading.Lock()
        self._bundles: dict[tuple[Node, tuple[tuple[int, int], ...]], int] = {}
        self._beat = self._began = time.monotonic()
        self._warned = 0.0
        self._event: Received | None = None       # what is being reacted to
        self._kept = False
        self.ticking: list[weakref.WeakMethod[Callable[[float], None]]] = []
        self._returned: deque[Callable[[], None]] = deque()
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
    def failure(self) -> Failure | None:
        """Why this worker cannot go on, if so."""
        return self.requests.failure

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
            if self.barrier_before_exit:
                self.wait(self.request(SCHEDULER, say.Barrier(0, 0), "barrier before exit"))
            for pending in [self.request(node, say.Goodbye()) for node in self.servers]:
                self.wait(pending)
            self._leaving = True
            self.wait(self.request(SCHEDULER, say.Goodbye(step=self.step)))
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
        self.post(SCHEDULER, abort)
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
        buffers: list[np.ndarray[Any, Any]] | None = None, priority: int = 0,
        place: Callable[[int], tuple[Frame, list[memoryview]] | None] | None = None,
    ) -> Pending:
        """Send a message that will be answered; its `seq` is set here.

        Under P3 messages about values leave by priority, most urgent first; others wait for them.

        Args:
            place: as for `Pending`.
        """
        self.check()
        if self.job.slice and isinstance(message, (say.Push, say.Pull, say.PushPull)):
            queue = self.requests.queue
            pending = queue(node, message, what, answer, failed, buffers or [], priority)
        else:
            if self.job.slice and node != SCHEDULER:
                self.drain()
            peer = self._ways.get(node)
            direct = None
            if peer is not None and node in self._standing and self.transport.direct(peer):
                direct = functools.partial(self.transport.send, peer)
            make = self.requests.make
            pending = make(node, message, what, answer, failed, buffers or [], direct, place)
            if direct is not None and not self.requests.queued:
                self.check()  # after a failure nobody answers
                return pending
        self.check()
        self.transport.wake()
        return pending

    def form(self, message: Message) -> Form | None:
        """What a request looks like to native code, if it can be made that way."""
        return form_of(encode(message, self.me, self.job.incarnation))

    def heard(self) -> Sequence[Frame]:
        """The frames of what is being reacted to (this thread)."""
        assert self._event is not None
        return self._event.frames

    def call(
        self, node: Node, what: str, request: tuple[Any, ...], answer: Answer,
        failed: Callable[[KVStoreError], None],
    ) -> bool:
        """Have native code make a request and put its answer where it belongs, if it can.

        Args:
            request: what the caller of a `Transport` takes after the number.
            answer, failed: as for `request`, for an answer of another form.
        """
        self.check()
        peer = self._ways.get(node)
        caller = None if peer is None else self.transport.caller(peer)
        if caller is None or node not in self._standing:
            return False

        def send(seq: int) -> bool:
            return caller(seq, *request)

        made = self.requests.call(send, node, what, answer, failed)
        self.check()
        return made

    def post(self, node: Node, message: Message) -> None:
        """Send a message that has no answer."""
        self.requests.post(node, message)
        self.transport.wake()

    def lends(self, node: Node) -> bool:
        """Whether what a node is sent may be read where it lies until it answers (or `detach`)."""
        peer = self._ways.get(node)
        return peer is not None and self.transport.lends(peer)

    def detach(
        self, node: Node, data: np.ndarray[Any, Any]
    ) -> np.ndarray[Any, Any] | None:
        """Have memory back that was sent (`Transport.detach`)."""
        return self.transport.detach(self._ways[node], data)

    def wait(self, pending: Pending) -> Message:
        """The answer; raises what the request failed with. The network thread has the deadline."""
        pending.wait()
        if pending.error is not None:
            self.delivered = True
            raise pending.error
        assert pending.reply is not None
        return pending.reply

    def make_room(self) -> None:
        """Wait until fewer bytes are under way, or nothing is answered any more.

        Answers to pushes wait for the other workers', and these may push other keys first: then it
        is this worker's next push that they wait for.
        """
        self.requests.wait_for_room(_STANDSTILL)
        self.check()

    def drain(self) -> None:
        """Wait until all requests so far are answered."""
        for pending in self.requests.under_way():
            self.wait(pending)

    def barrier(self) -> None:
        """Wait for all workers."""
        self._barriers += 1
        message = say.Barrier(0, self._barriers)
        self.wait(self.request(SCHEDULER, message, f"barrier {self._barriers}"))

    def bundle(self, node: Node, items: Sequence[say.Item]) -> int | None:
        """The number by which a server knows these parts, told to it when it is new.

        Servers keep such lists until the job ends (a request sent again may refer to one), so the
        same list never gets a second number, and there are at most `_NAMED` parts; then None.
        """
        parts = node, tuple((item.key, item.part) for item in items)
        with self._naming:  # of several threads
            number = self._bundles.get(parts)
            if number is None and self._named + len(items) <= _NAMED:
                number = say.BUNDLE | (len(self._bundles) + 1)
                message = say.Bundle(0, number, tuple(items))
                self.request(node, message, "naming a list of keys", None, self.push_failed)
                self._bundles[parts] = number
                self._named += len(items)
        return number

    def push_failed(self, error: KVStoreError) -> None:
        """A push was refused: nobody waits for it, so the next call has to tell."""
        self._fail(Failure("error", str(error), 1))

    # -- the network thread ---------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                for event in self.transport.poll(_TICK):
                    self._event = event if isinstance(event, Received) else None
                    self._kept = False
                    self._react(event)
                    if isinstance(event, Received) and event.number and not self._kept:
                        self.transport.release(event)
                while self._returned:
                    self._returned.popleft()()
                self._send()
                self._tick(time.monotonic())
        except Exception as error:
            self._fail(Failure("error", f"{self.me}: network thread: {error!r}", 1))
            raise
        finally:
            self.transport.close(linger=0.5)
            self.closed = True
            self.requests.end_all(lambda: KVStoreError("this KVStore has left the job"))
            self._ready.set()

    def keep(self) -> Callable[[], None]:
        """What has just come is used on where it lies, until the result is called (this thread)."""
        assert self._event is not None
        self._kept = True
        return functools.partial(self.transport.release, self._event)

    def give_back(self, release: Callable[[], None]) -> None:
        """Have the network thread call what `keep` returned (any thread)."""
        self._returned.append(release)

    def _place(
        self, frames: Sequence[Frame], length: int
    ) -> tuple[Frame, list[memoryview]] | None:
        """Where a long frame of an answer goes."""
        seq = answer_to(frames[0]) if len(frames) == 1 else 0
        return self.requests.place(seq, length) if seq else None

    def _dial(self, node: Node, host: str, port: int) -> None:
        peer = self.transport.connect(host, port)
        self._nodes[peer], self._peers[node], self._ways[node] = node, peer, peer

    def _react(self, event: Opened | Closed | Received) -> None:
        node = self._nodes[event.peer]
        if event.peer != self._peers[node]:
            self._react_bulk(node, event)
        elif isinstance(event, Opened):
            self._opened(node)
        elif isinstance(event, Closed):
            self._lost(node, event.reason)
        else:
            self._heard(node, event)

    def _heard(self, node: Node, event: Received) -> None:
        try:
            message = decode(event.frames).message
        except WireError as error:
            self._lost(node, f"sent what is no message ({error})")
            return
        if isinstance(message, say.Attached):
            self._attached(node, event.peer)
        else:
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
            self._narrow(node)
            first = self._attach()
        self._now(node, first)
        self._standing.add(node)
        for pending in self.requests.again(node):
            # copies: ZeroMQ may read them when those who have lent them have them back
            self.transport.send(self._peers[node], list(map(bytes, pending.frames)))

    def _attach(self) -> say.Attach:
        return say.Attach(
            0, self.uid, self.rank, self.job.incarnation, windowed=bool(self.job.slice))

    def _received(self, node: Node, message: Message) -> None:
        if isinstance(message, say.Roster):
            self._roster(message)
        elif isinstance(message, say.Abort):
            code = message.code if message.error == "error" else 75
            if message.culprit == self.me:
                code = message.code
            self._fail(Failure(message.error, f"job aborted: {message.reason}", code))
        elif isinstance(message, say.Refused):
            self._fail(Failure("error", f"{self._name(node)} refused: {message.reason}", 1))
        elif isinstance(message, say.Taken):
            self.requests.taken(message.seq)
        else:
            self.requests.answered(message)

    def _roster(self, roster: say.Roster) -> None:
        if self.rank >= 0:
            return  # registered again after a broken connection
        self.me = Node(Role.WORKER, roster.rank)
        self.members = {member.node: member for member in roster.members}
        self._meeting = set(self.servers)
        for node in self.servers:
            self._dial(node, self.members[node].host, self.members[node].port)
        if not all(self.transport.direct(self._peers[node]) for node in self.servers):
            keep_memory(128 << 20)  # values come in frames of megabytes

    # A server that is not reached by a Channel is asked for another connection, for numbers: all
    # requests take it, in order, as long as it stands. If it breaks, or never stands, they take the
    # first one, and what is not answered is sent again. Only that one tells who is alive.

    def _attached(self, node: Node, peer: int) -> None:
        """A server knows us at a connection."""
        bulk = self.members[node].bulk
        if peer != self._peers[node]:
            self._ways[node] = peer
        elif bulk and node in self._meeting and not (
                node in self._bulk or self.transport.direct(peer)):
            self._dialled = time.monotonic()
            self._bulk[node] = dialled = self.transport.connect_bulk(self.members[node].host, bulk)
            self._nodes[dialled] = node
            return
        self._meet(node)

    def _react_bulk(self, node: Node, event: Opened | Closed | Received) -> None:
        if event.peer != self._bulk.get(node) or self._leaving:
            return  # of one that was given up, or is not needed any more
        if isinstance(event, Opened):
            frames = encode(self._attach(), self.me, self.job.incarnation)
            self.transport.send(event.peer, frames)
        elif isinstance(event, Received):
            self._heard(node, event)
        elif node in self._standing:
            self._opened(node)
        else:
            self._narrow(node)

    def _narrow(self, node: Node) -> None:
        """From now on requests to a server take the first connection."""
        peer = self._bulk.get(node)
        if peer is not None:
            self._bulk[node] = None
            self._ways[node] = self._peers[node]
            self.transport.disconnect(peer)

    def _meet(self, node: Node) -> None:
        self._meeting.discard(node)
        if not self._meeting:
            self._ready.set()

    def _send(self) -> None:
        while (pending := self.requests.next_out()) is not None:
            if pending.node in self._standing:
                self.transport.send(self._ways[pending.node], pending.frames)

    def _now(self, node: Node, message: Message) -> None:
        """Send something that has no answer, from the network thread."""
        frames = encode(message, self.me, self.job.incarnation)
        self.transport.send(self._peers[node], frames)

    # -- time and failure -----------------------------------------------------------------------

    def _tick(self, now: float) -> None:
        for known in list(self.ticking):  # what stores want to do now and then, in this thread
            tick = known()
            if tick is None:
                self.ticking.remove(known)
            else:
                tick(now)
        if self._leaving and SCHEDULER not in self._standing:
            # it has ended, and what it answered to the goodbye was lost with the connection
            for pending in self.requests.under_way():
                if pending.node == SCHEDULER:
                    self.requests.answered(say.Farewell(pending.seq))
        limits = self.job.limits
        if not self._ready.is_set() and self._bulk and now - self._dialled > _BULK:
            for node in self._meeting & self._standing:
                if self._bulk.get(node) is not None:
                    self._opened(node)
        if not self._ready.is_set() and now - self._began > limits.start + _SLACK:
            self._fail(Failure("timeout", self._start_problem(now), 75))
        if now - self._beat > limits.interval and SCHEDULER in self._standing:
            self._beat = now
            self._now(SCHEDULER, say.Heartbeat(0, self.step, self.key))
        if self._verdict is not None and now > self._verdict[0]:
            self._fail(self._verdict[1])
        oldest = self.requests.oldest()
        if oldest is not None and self.failure is None:
            self._overdue(oldest, now)
        if self.failure is not None and self.enforce and now - self.requests.failed_at > _FORCE:
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
        if waited > limit / 10 and not pending.warned and now - self._warned > limit / 10:
            pending.warned = True
            self._warned = now  # one line for a hundred requests that wait for the same
            _print(text)
        if waited > limit * 1.1 + _SLACK and self._verdict is None:
            node = pending.node
            self._now(SCHEDULER, say.Abort(0, "timeout", text, "", node.role, node.rank, 75))
            self._verdict = (now + _VERDICT, Failure("timeout", f"job aborted: {text}", 75))

    def _lost(self, node: Node, reason: str) -> None:
        """A connection is gone for good."""
        if self.failure is not None:
            return
        self._standing.discard(node)
        if self._leaving:
            return  # whoever has seen all goodbyes ends
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
        self.requests.fail(failure)
        self._ready.set()

    @property
    def noticed(self) -> bool:
        """Whether the script has been given the failure: by a call, or by reading an array."""
        return self.delivered or self.requests.seen

    def _enforce(self) -> None:
        """The script computes on without noticing that the job is over: end it."""
        if self.noticed or self.failure is None:
            self.enforce = False
            return
        _print(f"{self.me}: {self.failure.text} (ended: the script did not call its KVStore)")
        os._exit(self.failure.code)


def _print(text: str) -> None:
    os.write(2, f"minigluon: {text}\n".encode())
