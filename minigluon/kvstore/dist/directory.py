"""Which keys exist, where they live, and who is still waiting to hear it (part of the scheduler).

Worker 0 declares a key and gets its placement at once; it then gives the servers the first value
and reports the key as initialised. The same declaration of another worker is answered when that is
done, so no worker can pull, or push to, a key without a value, and a worker that disagrees
about shape or type hears it at `init`, not a thousand steps later.
"""
from __future__ import annotations

from .actions import Action, Send
from .messages import Declare, ErrorReply, KeySpec, Placed, Placement
from .placement import Placer
from .record import Record, field

__all__ = ["Directory", "Waiting"]


class _Entry(Record, frozen=False):
    spec: KeySpec
    store_type: str
    placement: Placement
    whole: bool
    ready: bool = False


class Waiting(Record):
    """A worker whose declaration cannot be answered yet."""

    uid: str
    rank: int
    message: Declare
    since: float


class Directory(Record, frozen=False):
    """Keys of all stores.

    Args:
        placer: decides the places.
        waiting: declarations that worker 0 has not made yet.
    """

    placer: Placer
    waiting: list[Waiting] = field(default_factory=list)
    entries: dict[tuple[int, int | str], _Entry] = field(default_factory=dict)

    def declare(self, uid: str, rank: int, message: Declare, now: float) -> list[Action]:
        """A worker declares keys: worker 0 decides, the others ask."""
        if rank == 0:
            answer = self._decide(uid, message)
            return [answer, *self._answer_waiting()]
        self.waiting = [w for w in self.waiting if (w.uid, w.message.seq) != (uid, message.seq)]
        self.waiting.append(Waiting(uid, rank, message, now))
        return self._answer_waiting()

    def initialised(self, idents: tuple[int, ...]) -> list[Action]:
        """The servers hold the first values of these keys."""
        done = set(idents)
        for entry in self.entries.values():
            if entry.placement.ident in done:
                entry.ready = True
        return self._answer_waiting()

    def missing(self, message: Declare) -> list[int | str]:
        """The keys of a declaration that are not ready."""
        found = ((spec.key, self.entries.get((message.store, spec.key))) for spec in message.keys)
        return [key for key, entry in found if entry is None or not self._fits(entry, message)]

    @staticmethod
    def _fits(entry: _Entry, message: Declare) -> bool:
        return entry.ready and (entry.whole or not message.whole)

    def _decide(self, uid: str, message: Declare) -> Send:
        complaint = self._compare(message, 0)
        if complaint:
            return Send(uid, ErrorReply(message.seq, "error", complaint))
        for spec in message.keys:
            entry = self.entries.get((message.store, spec.key))
            if entry is None or (message.whole and not entry.whole):
                placement = self.placer.place(spec, message.whole)
                whole = len(placement.servers) == 1
                self.entries[message.store, spec.key] = _Entry(
                    spec, message.store_type, placement, whole
                )
        return Send(uid, self._placed(message))

    def _placed(self, message: Declare) -> Placed:
        keys = (self.entries[message.store, spec.key].placement for spec in message.keys)
        return Placed(message.seq, tuple(keys))

    def _answer_waiting(self) -> list[Action]:
        """Answer all who can be answered, by places or by what they see differently."""
        actions: list[Action] = []
        left: list[Waiting] = []
        for one in self.waiting:
            complaint = self._compare(one.message, one.rank)
            if complaint:
                actions.append(Send(one.uid, ErrorReply(one.message.seq, "error", complaint)))
            elif self.missing(one.message):
                left.append(one)
            else:
                actions.append(Send(one.uid, self._placed(one.message)))
        self.waiting = left
        return actions

    def _compare(self, message: Declare, rank: int) -> str:
        for spec in message.keys:
            entry = self.entries.get((message.store, spec.key))
            if entry is None:
                continue
            if entry.store_type != message.store_type:
                return (
                    f"init of key {spec.key!r}: worker {rank} uses a store of type "
                    f"'{message.store_type}', worker 0 one of type '{entry.store_type}'"
                )
            if entry.spec != spec:
                return (
                    f"init of key {spec.key!r}: worker {rank} has shape {spec.shape} and type "
                    f"{spec.dtype}, worker 0 has {entry.spec.shape} and {entry.spec.dtype}"
                )
        return ""
