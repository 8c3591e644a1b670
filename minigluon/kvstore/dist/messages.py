"""What the roles of a job say to each other: plain records, no bytes and no sockets.

Two groups. *Control* messages hold plain values and travel as JSON (`wire.py`). *Array* messages
(`Init Push Pull PushPull Values`) hold `Item`s, each one part of one key, and travel as a binary
header and raw buffers. Requests carry `seq`, which is unique per sender; the answer repeats it.
"""
from __future__ import annotations

from enum import IntEnum
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .record import Record, field

__all__ = [
    "ARRAY_MESSAGES",
    "BUNDLE",
    "CONTROL_MESSAGES",
    "SCHEDULER",
    "Abort",
    "Ack",
    "Attach",
    "Attached",
    "Barrier",
    "BarrierDone",
    "Bundle",
    "Command",
    "CountDead",
    "Declare",
    "Drop",
    "ErrorReply",
    "Farewell",
    "Goodbye",
    "Heartbeat",
    "Init",
    "Initialised",
    "Item",
    "KeySpec",
    "Leave",
    "LoadStates",
    "Member",
    "Message",
    "Node",
    "PeerGone",
    "Ping",
    "Placed",
    "Placement",
    "Pull",
    "PullRows",
    "Push",
    "PushPull",
    "PushRows",
    "Refused",
    "Register",
    "Report",
    "Role",
    "Roster",
    "SaveStates",
    "SetCompression",
    "SetOptimizer",
    "Shutdown",
    "Stall",
    "StallQuery",
    "StallReport",
    "States",
    "Stats",
    "StatsReply",
    "UpdateSettings",
    "Values",
]


class Role(IntEnum):
    """What a process is in the job."""

    SCHEDULER = 0
    SERVER = 1
    WORKER = 2


class Node(NamedTuple):
    """A role and a rank: who somebody is.

    >>> str(Node(Role.WORKER, 1)), str(SCHEDULER), str(Node(Role.SERVER, -1))  # no rank yet
    ('worker 1', 'scheduler', 'server')
    """

    role: Role
    rank: int

    def __str__(self) -> str:
        name = self.role.name.lower()
        return name if self.role is Role.SCHEDULER or self.rank < 0 else f"{name} {self.rank}"


SCHEDULER = Node(Role.SCHEDULER, 0)
BUNDLE = 1 << 31  # an item with such a key stands for the parts that a `Bundle` has named


class Member(Record):
    """One process of the job as the scheduler's roster knows it (`port` 0: it does not listen).

    At port `bulk`, if it is not 0, it takes connections that carry numbers.
    """

    role: Role
    rank: int
    host: str
    port: int
    pid: int
    uid: str
    incarnation: int = 0
    bulk: int = 0

    @property
    def node(self) -> Node:
        """Its role and rank."""
        return Node(self.role, self.rank)

    def __str__(self) -> str:
        place = f"{self.host}:{self.port}" if self.port else self.host
        return f"{self.node} ({place}, pid {self.pid})"


class KeySpec(Record):
    """A key as a worker declares it: what all workers have to agree on."""

    key: int | str
    shape: tuple[int, ...]
    dtype: str


class Placement(Record):
    """Where a key lives: `servers[i]` holds part i, elements `bounds[i]` to `bounds[i + 1]`."""

    key: int | str
    ident: int
    shape: tuple[int, ...]
    dtype: str
    bounds: tuple[int, ...]
    servers: tuple[int, ...]


class Stall(Record):
    """One wait that lasts: a key, its step, who is missing, and for how many seconds."""

    key: str
    step: int
    missing: tuple[int, ...]
    seconds: float

    def __str__(self) -> str:
        return f"{self.key} (step {self.step}) waits for {workers(self.missing)}"


def workers(ranks: tuple[int, ...]) -> str:
    """Ranks in words: (1,) -> 'worker 1', (1, 2) -> 'workers 1, 2'."""
    return f"worker{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


class Item(Record):
    """One part of one key, with or without its numbers.

    Args:
        key: the number the scheduler gave the key (`Placement.ident`).
        part: which part of the key (0 for a key that is not cut).
        start, stop: the elements of the flat array that the part covers.
        dtype: NumPy name of the element type.
        shape: shape of the part.
        data: the numbers; None in a request that only names the part.
        codec: number of the codec (`kvstore.compression`) in whose codes the numbers are.
    """

    silent = frozenset({"data"})

    key: int
    part: int
    start: int
    stop: int
    dtype: str
    shape: tuple[int, ...]
    data: np.ndarray[Any, Any] | None = None
    codec: int = 0

    def __init__(self, key: int, part: int, start: int, stop: int, dtype: str,
                 shape: tuple[int, ...], data: np.ndarray[Any, Any] | None = None,
                 codec: int = 0) -> None:
        # written out, as a step makes some for each key on both sides: half of Record's time
        values = self.__dict__
        values["key"], values["part"], values["start"], values["stop"] = key, part, start, stop
        values["dtype"], values["shape"] = dtype, shape
        values["data"], values["codec"] = data, codec

    def holding(self, data: np.ndarray[Any, Any] | None) -> Item:
        """The same with these numbers."""
        return Item(self.key, self.part, self.start, self.stop, self.dtype, self.shape, data,
                    self.codec)


class Message(Record):
    """Base of all messages; `seq` numbers requests, and answers repeat it."""

    kind: ClassVar[int] = 0
    seq: int = 0


class Refused(Message):
    """The peer is not let in, and why (also after the token was accepted: wrong roster entry)."""

    kind: ClassVar[int] = 1
    reason: str = ""


class Register(Message):
    """First words to the scheduler: who I am, where I listen, which rank I would like."""

    kind: ClassVar[int] = 2
    role: Role = Role.WORKER
    wanted: int = -1
    host: str = ""
    port: int = 0
    pid: int = 0
    uid: str = ""
    incarnation: int = 0
    expects: tuple[int, int] = (0, 0)
    bulk: int = 0


class Roster(Message):
    """The job is complete: your rank, and everybody."""

    kind: ClassVar[int] = 3
    rank: int = 0
    members: tuple[Member, ...] = ()


class Attach(Message):
    """First words of a worker to a server: which roster entry is talking."""

    kind: ClassVar[int] = 4
    uid: str = ""
    rank: int = 0
    incarnation: int = 0
    windowed: bool = False  # it holds pushes back (P3) until earlier ones are `Taken`


class Attached(Message):
    """The server knows this worker; requests may follow."""

    kind: ClassVar[int] = 5


class Heartbeat(Message):
    """I am alive, and this far."""

    kind: ClassVar[int] = 6
    step: int = 0
    key: str = ""


class Ping(Message):
    """Nothing but a test of the connection."""

    kind: ClassVar[int] = 7


class Barrier(Message):
    """Wait for all workers to say the same; `number` counts the barriers of this worker."""

    kind: ClassVar[int] = 8
    number: int = 0


class BarrierDone(Message):
    """All workers are there."""

    kind: ClassVar[int] = 9


class Declare(Message):
    """Keys this worker initialises in store number `store`; `whole` keeps each on one server."""

    kind: ClassVar[int] = 10
    store: int = 0
    store_type: str = "dist_sync"
    whole: bool = False
    keys: tuple[KeySpec, ...] = ()


class Placed(Message):
    """Answer to `Declare`: where the keys live."""

    kind: ClassVar[int] = 11
    keys: tuple[Placement, ...] = ()


class Initialised(Message):
    """Worker 0 to the scheduler: the servers hold the first value of these keys."""

    kind: ClassVar[int] = 12
    idents: tuple[int, ...] = ()


class SetOptimizer(Message):
    """The update rule of a store: name and settings, or (flagged) a class by cloudpickle."""

    kind: ClassVar[int] = 13
    store: int = 0
    name: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    pickled: str = ""


class UpdateSettings(Message):
    """Settings of the update rule that changed (learning rate, ...), from the next push on."""

    kind: ClassVar[int] = 14
    store: int = 0
    settings: dict[str, Any] = field(default_factory=dict)


class SaveStates(Message):
    """Ask a server for the optimizer states of its parts."""

    kind: ClassVar[int] = 15
    store: int = 0


class Leave(Message):
    """This worker makes no more steps in that store.

    `counted_out`: the others go on without it, until all have left; then everybody is in again.
    """

    kind: ClassVar[int] = 16
    store: int = 0
    counted_out: bool = False


class Goodbye(Message):
    """This process is done, so far it came, and leaves in order."""

    kind: ClassVar[int] = 17
    step: int = 0


class Farewell(Message):
    """Answer to `Goodbye`: everything you sent has arrived; you may close."""

    kind: ClassVar[int] = 18


class Shutdown(Message):
    """Scheduler to servers: all workers have left."""

    kind: ClassVar[int] = 19


class Abort(Message):
    """The job has failed: why, whose fault, and the exit code it means.

    Args:
        error: what it is for the others: 'lost' and 'crash' (of a peer), 'timeout', or 'error'.
        reason: one line naming role, rank, address, key and step as far as known.
        detail: the traceback of the culprit, when there is one.
        role, rank: the culprit.
        code: exit code, 1 for a user's error, 75 for infrastructure.
    """

    kind: ClassVar[int] = 20
    error: str = "error"
    reason: str = ""
    detail: str = ""
    role: Role = Role.SCHEDULER
    rank: int = 0
    code: int = 75

    @property
    def culprit(self) -> Node:
        """The one to blame."""
        return Node(self.role, self.rank)


class ErrorReply(Message):
    """A request was refused; nothing was changed."""

    kind: ClassVar[int] = 21
    error: str = "error"
    reason: str = ""


class PeerGone(Message):
    """Somebody lost the connection to a peer, and what is known of its last deed."""

    kind: ClassVar[int] = 22
    role: Role = Role.WORKER
    rank: int = 0
    reason: str = ""
    key: str = ""
    step: int = 0

    @property
    def node(self) -> Node:
        """The one that is gone."""
        return Node(self.role, self.rank)


class StallQuery(Message):
    """Scheduler to servers: which waits are open?"""

    kind: ClassVar[int] = 23


class StallReport(Message):
    """Server to scheduler: the waits that are open."""

    kind: ClassVar[int] = 24
    stalls: tuple[Stall, ...] = ()


class Stats(Message):
    """Ask for counters."""

    kind: ClassVar[int] = 25


class StatsReply(Message):
    """Counters by name."""

    kind: ClassVar[int] = 26
    counters: dict[str, Any] = field(default_factory=dict)


class Drop(Message):
    """Forget these keys: they have moved to another server."""

    kind: ClassVar[int] = 27
    idents: tuple[int, ...] = ()


class SetCompression(Message):
    """This worker's pushes in that store come in such codes, from the next one on."""

    kind: ClassVar[int] = 28
    store: int = 0
    codec: int = 0
    threshold: float = 0.0


class Command(Message):
    """An order to a server, as MXNet numbers them; what it does depends on `head` (commands.py)."""

    kind: ClassVar[int] = 29
    store: int = 0
    head: int = 0
    body: str = ""


class CountDead(Message):
    """How many processes of these roles has the scheduler not heard of for so many seconds?"""

    kind: ClassVar[int] = 30
    roles: tuple[Role, ...] = ()
    seconds: float = 60.0


class Report(Message):
    """Server to scheduler, now and then: its counters, and the waits that are open."""

    kind: ClassVar[int] = 31
    counters: dict[str, Any] = field(default_factory=dict)
    stalls: tuple[Stall, ...] = ()


class Ack(Message):
    """A request is done (a push: applied)."""

    kind: ClassVar[int] = 40


class Taken(Message):
    """A push has come and is kept; its `Ack` or `Values` may have to wait for other workers."""

    kind: ClassVar[int] = 51


class Init(Message):
    """First values; `names` are the keys in words and `store_type` how they are merged."""

    kind: ClassVar[int] = 41
    store: int = 0
    store_type: str = "dist_sync"
    names: tuple[int | str, ...] = ()
    items: tuple[Item, ...] = ()


class Push(Message):
    """Gradients; answered by `Ack` when applied."""

    kind: ClassVar[int] = 42
    items: tuple[Item, ...] = ()


class Pull(Message):
    """Ask for values; answered by `Values` that include all this worker pushed before."""

    kind: ClassVar[int] = 43
    items: tuple[Item, ...] = ()


class PushPull(Message):
    """Push and pull in one exchange; answered by `Values`."""

    kind: ClassVar[int] = 44
    items: tuple[Item, ...] = ()


class PushRows(Message):
    """Gradients of some rows (rows.py): two items for each part; answered by `Ack`."""

    kind: ClassVar[int] = 48
    items: tuple[Item, ...] = ()


class PullRows(Message):
    """Ask for some rows of parts by their numbers; answered by `Values`."""

    kind: ClassVar[int] = 49
    items: tuple[Item, ...] = ()


class Bundle(Message):
    """These parts, of one type, are from now on one item with the key `number`, end to end."""

    kind: ClassVar[int] = 50
    number: int = 0
    items: tuple[Item, ...] = ()


class Values(Message):
    """Values asked for."""

    kind: ClassVar[int] = 45
    items: tuple[Item, ...] = ()


class States(Message):
    """Optimizer states: `layout` says which items belong to which key and slot."""

    kind: ClassVar[int] = 46
    layout: dict[str, Any] = field(default_factory=dict)
    items: tuple[Item, ...] = ()


class LoadStates(Message):
    """Optimizer states for a server to take over, laid out as in `States`."""

    kind: ClassVar[int] = 47
    store: int = 0
    layout: dict[str, Any] = field(default_factory=dict)
    items: tuple[Item, ...] = ()


CONTROL_MESSAGES: tuple[type[Message], ...] = (
    Refused, Register, Roster, Attach, Attached, Heartbeat, Ping, Barrier, BarrierDone, Declare,
    Placed, Initialised, SetOptimizer, UpdateSettings, SaveStates, Leave, Goodbye, Farewell,
    Shutdown, Abort, ErrorReply, PeerGone, StallQuery, StallReport, Stats, StatsReply, Drop, Ack,
    SetCompression, Command, CountDead, Report, Taken,
)
ARRAY_MESSAGES: tuple[type[Message], ...] = (
    Init, Push, Pull, PushPull, PushRows, PullRows, Bundle, Values, States, LoadStates,
)
