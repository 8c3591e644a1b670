"""Small rounds that repeat, at a server: done by native code while nothing else comes.

Where all workers, round after round, push and pull the same small part (or the same list of parts)
in one message each, these messages differ in their numbers alone. Once that is seen, native code
(`src/kvstore/rounds.cpp`) gets their bytes as forms: it reads what fits them, sums in the order of
ranks and answers, by the way of a Unix socket. The state machine hears how many rounds there were
before it hears of anything else; any other message ends the arrangement.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...device.cpu.native import core
from .forms import MOST, NUMBER_AT, form_of
from .holdings import Holdings
from .link import Frame, Transport
from .messages import Message, PushPull, Values
from .shard import Shard
from .transport import ZmqTransport
from .wire import decode

__all__ = ["Rounds"]

_FIRST, _LAST = 2, 1 << 12  # rounds like the last one until native code takes over
_WORTH = 32                 # rounds it should do then, or more of them are waited for the next time


class Rounds:
    """Watches what a server hears and says, until rounds repeat."""

    def __init__(self, transport: Transport) -> None:
        able = isinstance(transport, ZmqTransport) and hasattr(core, "KvRounds")
        self._transport: Any = transport if able else None  # a ZmqTransport
        self._heard: dict[str, Sequence[Frame]] = {}  # by worker: its latest small request
        self._said: dict[str, Sequence[Frame]] = {}   # and the latest small answer to it
        self._seen: Any = None                        # the latest round the machine has told of
        self._shard: Shard | None = None
        self._who: list[tuple[int, str, int]] = []
        self._count, self._wanted = 0, _FIRST
        self._native: Any = None
        self._done = 0

    def said(self, uid: str, frames: Sequence[Frame]) -> None:
        """Something was sent to a worker."""
        if self._transport is not None:
            self._said[uid] = frames if len(frames) == 2 and len(frames[1]) <= MOST else ()

    def heard(
        self, machine: Holdings, uid: str, message: Message, frames: Sequence[Frame],
        peers: dict[str, int],
    ) -> None:
        """The state machine has handled a message (and what it wanted to be sent was sent)."""
        if self._transport is None:
            return
        small = type(message) is PushPull and len(frames) == 2 and len(frames[1]) <= MOST
        self._heard[uid] = frames if small else ()
        if not small:
            self._count = 0
        elif machine.latest is not None and machine.latest is not self._seen:
            self._seen = machine.latest
            shard, who = machine.latest
            self._count = self._count + 1 if shard is self._shard else 1
            self._shard, self._who = shard, who
            if self._count > self._wanted and machine.steady(shard):
                self._begin(self._transport, machine, shard, peers)

    def _begin(
        self, transport: ZmqTransport, machine: Holdings, shard: Shard, peers: dict[str, int]
    ) -> None:
        """Have native code do the rounds of a shard from now on, if it can."""
        ends: list[tuple[Any, ...]] = []
        for _, uid, seq in sorted(self._who):
            channel = transport.end(peers.get(uid, -1))
            asked, answer = self._heard.get(uid, ()), self._said.get(uid, ())
            forms = form_of(asked), form_of(answer)
            if channel is None or forms[0] is None or forms[1] is None:
                return
            request, reply = decode(asked).message, decode(answer).message
            if not (isinstance(request, PushPull) and isinstance(reply, Values)
                    and request.seq == reply.seq == seq
                    and len(request.items) == len(reply.items) == 1):
                return
            ends.append((channel.sock.fileno(), *forms[0], *forms[1], seq))
        if len(ends) != machine.workers:
            return
        value = shard.writable()
        try:
            native = core.KvRounds(transport.epoll.fileno(), NUMBER_AT, value)
            for end in ends:
                native.add(*end)
        except (TypeError, ValueError):  # a type that is not summed there
            self._wanted = _LAST
            return
        self._native, self._done = native, 0
        transport.repeat(native)

    def tell(self, machine: Holdings) -> None:
        """Have the state machine know what was done without it."""
        if self._native is not None and self._shard is not None:
            count, seconds, latest, waited = self._native.progress()
            self._done += count
            if count:
                machine.repeated(self._shard, count, seconds, latest, waited)

    def end(self) -> None:
        """Something else comes: no more rounds by themselves, until they repeat again."""
        if self._native is None:
            return
        self._transport.repeat(None)
        self._native = None
        self._count = 0
        self._wanted = _FIRST if self._done >= _WORTH else min(2 * self._wanted, _LAST)

    def forbid(self) -> None:
        """From now on each round goes through the state machine (somebody looks at its spans)."""
        self.end()
        self._transport = None
