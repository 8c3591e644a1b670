"""What the pure state machines ask the loop around them to do."""
from __future__ import annotations

from .messages import Abort, Message
from .record import Record

__all__ = ["Action", "Fatal", "Limits", "Log", "Refusal", "Run", "Send", "Stop"]


class Send(Record):
    """Send a message to the process with that uid."""

    to: str
    message: Message


class Log(Record):
    """Tell the people who watch (`level`: 'info' only with PS_VERBOSE, 'warning', 'error')."""

    level: str
    text: str


class Stop(Record):
    """Let what was sent go out, then end with that exit code."""

    code: int


class Run(Record):
    """Have the process do something with the body of a command; MXNet's number says what."""

    head: int
    body: str


Action = Send | Log | Stop | Run


class Refusal(Exception):
    """A request that cannot be done; nothing was changed."""


class Fatal(Exception):
    """The job cannot go on; carries what the scheduler is told."""

    def __init__(self, abort: Abort) -> None:
        super().__init__(abort.reason)
        self.abort = abort


class Limits(Record):
    """How long things may take, in seconds.

    Args:
        start: until everybody has registered.
        operation: until a merge, a pull, a barrier is complete (a warning at a tenth).
        heartbeat: until a silent process counts as lost.
        interval: between heartbeats.
    """

    start: float = 60.0
    operation: float = 300.0
    heartbeat: float = 10.0
    interval: float = 2.0
