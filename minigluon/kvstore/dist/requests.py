"""A worker's requests: numbered in order, kept until they are answered, ended by a failure.

Shared by the script's thread, which makes requests and waits, and the network thread, which sends
them and brings the answers. No socket is known here.
"""
from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base import KVStoreError, KVStoreTimeout, PeerLost
from .link import Frame
from .messages import ErrorReply, Message, Node
from .record import Record, field

__all__ = ["Answer", "Failure", "Pending", "Requests"]

Answer = Callable[[Message], None]
Buffer = np.ndarray[Any, Any]
_ROOM = 512 << 20  # bytes under way
_waiting = threading.Lock()


class Failure(Record):
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


class Pending(Record, frozen=False):
    """A request that is not answered yet.

    Args:
        node: who has to answer.
        seq: its number.
        what: the request in words, for messages.
        frames: kept until it is answered.
        answer: called in the network thread with the answer.
        failed: called in the network thread if there will be none.
        buffers: memory the frames refer to, to be reused afterwards.
        flying: its share of the bytes on their way, until the server has it.
        place: what to take for a frame of the answer so long, and where its bytes go; None: no way.
    """

    node: Node
    seq: int
    what: str
    frames: Sequence[Frame]
    since: float
    answer: Answer | None = None
    failed: Callable[[KVStoreError], None] | None = None
    buffers: list[Buffer] = field(default_factory=list)
    size: int = 0
    warned: bool = False
    flying: int = 0
    place: Callable[[int], tuple[Frame, list[memoryview]] | None] | None = None
    reply: Message | None = None
    error: KVStoreError | None = None
    ended: bool = False
    _waited: threading.Event | None = None

    def wait(self) -> None:
        """Return when it has ended, one way or the other."""
        if not self.ended:
            with _waiting:
                event = self._waited = self._waited or threading.Event()
            if not self.ended:  # `end` looks for who waits only after it has said so
                event.wait()

    def end(self) -> None:
        """Nothing more will happen to it."""
        self.ended = True
        if self._waited is not None:
            self._waited.set()


class Requests:
    """All requests of a worker that are under way.

    Args:
        encode: turns a message into frames.
        window: bytes that may be on their way before urgent requests overtake others (P3); 0: all
            leave at once, in order.
        allocate: makes the memory that `buffer` hands out; by default NumPy's.
        lanes: completes requests made by `call` (`Transport.lanes`).
    """

    def __init__(
        self, encode: Callable[[Message], Sequence[Frame]], window: int = 0,
        allocate: Callable[..., Buffer] = np.empty, lanes: Any = None,
    ) -> None:
        self.encode, self.window, self.allocate, self.lanes = encode, window, allocate, lanes
        self._queue: list[tuple[int, int, Pending, Message]] = []
        self._queued: dict[int, list[int]] = {}  # item key: priorities of its queued requests
        self.failure: Failure | None = None
        self.failed_at = 0.0
        self._making = threading.Lock()
        self._changed = threading.Condition()
        self._numbers = itertools.count(1)  # several threads take some
        self._size = 0
        self._flying = 0
        self._pending: dict[int, Pending] = {}
        self._outbox: deque[Pending] = deque()
        self._spare: dict[int, list[Buffer]] = {}
        self._raised: list[KVStoreError] = []

    # -- the script's thread --------------------------------------------------------------------

    def make(
        self, node: Node, message: Message, what: str, answer: Answer | None,
        failed: Callable[[KVStoreError], None] | None, buffers: list[Buffer],
        direct: Callable[[Sequence[Frame]], bool] | None = None,
        place: Callable[[int], tuple[Frame, list[memoryview]] | None] | None = None,
    ) -> Pending:
        """A new request, on its way out; nothing happens if there has been a failure.

        `direct` sends it at once, if it can; else the network thread does (`next_out`). With a
        window that thread takes numbers and sends, too: to leave in order all go that way.
        """
        in_order = self._changed if self.window else self._making
        with in_order:  # of their numbers: servers take what comes later for what comes again
            seq = next(self._numbers)
            frames = self.encode(message.changed(seq=seq))
            pending = Pending(
                node, seq, what or type(message).__name__, frames, time.monotonic(), answer,
                failed, buffers, sum(map(len, frames)), place=place,
            )
            with self._changed:
                if self.failure is None:
                    self._pending[pending.seq] = pending
                    self._size += pending.size
                    # direct: it may just have been closed
                    if self.window or direct is None or not direct(frames):
                        self._outbox.append(pending)
        return pending

    def call(
        self, send: Callable[[int], bool], node: Node, what: str, answer: Answer,
        failed: Callable[[KVStoreError], None],
    ) -> bool:
        """A new request that `lanes` sends and completes, if it can; whether it has been made.

        Args:
            send: takes the number; False: it cannot be sent that way.
            answer: for an answer that looks otherwise than native code expects.
        """
        with self._making:
            seq = next(self._numbers)
            pending = Pending(node, seq, what, (), time.monotonic(), answer, failed)
            with self._changed:
                self._reap()
                if self.failure is not None:
                    return True
                self._pending[seq] = pending
                if not send(seq):
                    del self._pending[seq]
                    return False
        return True

    @property
    def queued(self) -> bool:
        """Whether something is to be sent by the network thread."""
        return bool(self._outbox)

    def _reap(self) -> None:
        """Take note of what has been completed by native code (under the lock)."""
        if self.lanes is not None:
            for seq in self.lanes.finished():
                pending = self._pending.pop(seq, None)
                if pending is not None:
                    pending.end()

    def queue(
        self, node: Node, message: Message, what: str, answer: Answer | None,
        failed: Callable[[KVStoreError], None] | None, buffers: list[Buffer], priority: int,
    ) -> Pending:
        """A new request that leaves by priority; it gets its number and frames only then.

        It never overtakes an earlier one about the same key: their order has a meaning.
        """
        items = getattr(message, "items", ())
        with self._changed:
            size = sum(item.data.nbytes for item in items if item.data is not None)
            pending = Pending(node, 0, what, (), time.monotonic(), answer, failed, buffers, size)
            if self.failure is None:
                for item in items:
                    before = self._queued.setdefault(item.key, [])
                    priority = min([priority, *before])
                    before.append(priority)
                self._size += size
                heapq.heappush(self._queue, (-priority, next(self._numbers), pending, message))
        return pending

    def _release(self) -> None:
        """Let the most urgent requests leave while the window has room (under the lock)."""
        while self._queue and (self._flying < self.window or not self._flying):
            _, _, pending, message = heapq.heappop(self._queue)
            for item in getattr(message, "items", ()):
                before = self._queued[item.key]
                before.pop(0)
                if not before:
                    del self._queued[item.key]
            pending.seq = next(self._numbers)
            pending.frames = self.encode(message.changed(seq=pending.seq))
            self._pending[pending.seq] = pending
            pending.flying = max(1, pending.size)
            self._flying += pending.flying
            self._outbox.append(pending)

    def post(self, node: Node, message: Message) -> None:
        """Something on its way out that will have no answer."""
        frames = self.encode(message)
        with self._changed:
            self._outbox.append(Pending(node, 0, "", frames, 0.0))

    def wait_for_room(self, seconds: float) -> None:
        """Wait for fewer bytes to be under way, as long as answers come within `seconds`."""
        with self._changed:
            while self._size > _ROOM and self.failure is None:
                if not self._changed.wait(seconds):
                    return

    def under_way(self) -> list[Pending]:
        """The requests that are not answered, oldest first."""
        with self._changed:
            self._reap()
            return [*self._pending.values(), *(entry[2] for entry in self._queue)]

    def buffer(self, size: int) -> Buffer:
        """`size` bytes of memory, which come back when the request they are given to is done."""
        with self._changed:
            spare = self._spare.get(size)
            if spare:
                return spare.pop()
            return self.allocate((size,), np.uint8)

    def drop_spare(self) -> None:
        """Give back memory that is kept for later requests."""
        with self._changed:
            self._spare.clear()

    @property
    def seen(self) -> bool:
        """Whether somebody has been given an error that nobody waited for (by reading an array)."""
        return any(error.__traceback__ is not None for error in self._raised)

    # -- the network thread ---------------------------------------------------------------------

    def next_out(self) -> Pending | None:
        """The next request to send."""
        with self._changed:
            if self._queue:
                self._release()
            return self._outbox.popleft() if self._outbox else None

    def again(self, node: Node) -> list[Pending]:
        """What to send over a connection made anew: all that `node` has not answered, in order."""
        with self._changed:
            self._outbox = deque(p for p in self._outbox if p.node != node or not p.seq)
            return [p for p in self._pending.values() if p.node == node]

    def place(self, seq: int, size: int) -> tuple[Frame, list[memoryview]] | None:
        """Where the numbers of an answer go (`Pending.place`)."""
        pending = self._pending.get(seq)
        return None if pending is None or pending.place is None else pending.place(size)

    def oldest(self) -> Pending | None:
        """The request that has waited the longest."""
        with self._changed:
            self._reap()
            return next(iter(self._pending.values()), None)

    def taken(self, seq: int) -> None:
        """The server has a push, and will answer it when the others have sent theirs."""
        with self._changed:
            pending = self._pending.get(seq)
            if pending is not None:
                self._land(pending)

    def _land(self, pending: Pending) -> None:
        self._flying -= pending.flying
        pending.flying = 0

    def answered(self, message: Message) -> None:
        """An answer has come; one that comes twice is nothing."""
        with self._changed:
            pending = self._pending.pop(message.seq, None)
            if pending is None:
                return
            if self.lanes is not None:
                self.lanes.forget(pending.seq)
            self._size -= pending.size
            self._land(pending)
            for buffer in pending.buffers:
                self._spare.setdefault(buffer.nbytes, []).append(buffer)
            pending.buffers, pending.frames = [], ()
            self._changed.notify_all()
        if isinstance(message, ErrorReply):
            self._end(pending, KVStoreError(message.reason))
            return
        pending.reply = message
        try:
            if pending.answer is not None:
                pending.answer(message)
        except Exception as error:
            self._end(pending, KVStoreError(f"{pending.what}: {type(error).__name__}: {error}"))
            return
        pending.end()

    def fail(self, failure: Failure) -> None:
        """Keep the first failure, and end all waits with it."""
        with self._changed:
            if self.failure is not None:
                return
            self.failure = failure
            self.failed_at = time.monotonic()
        self.end_all(failure.exception)

    def end_all(self, error: Callable[[], KVStoreError]) -> None:
        """End all waits."""
        with self._changed:
            self._reap()
            if self.lanes is not None:
                for seq in self._pending:
                    self.lanes.forget(seq)
            open_requests = [*self._pending.values(), *(entry[2] for entry in self._queue)]
            self._pending.clear()
            self._queue.clear()
            self._size = 0
            self._changed.notify_all()
        for pending in open_requests:
            self._end(pending, error())

    def _end(self, pending: Pending, error: KVStoreError) -> None:
        pending.error = error
        if pending.failed is not None:
            pending.failed(error)
            self._raised = [*self._raised[-20:], error]
        pending.end()
