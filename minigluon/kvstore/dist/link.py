"""What a transport is: connections by number, events about them, frames over them."""
from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from .record import Record
from .segments import Arena
from .wire import Frame

__all__ = ["Closed", "Event", "Frame", "Opened", "Received", "Transport", "allocator",
           "keep_memory"]


class Opened(Record):
    """A connection stands: proved, both ways. May come again after a short interruption."""

    peer: int


class Received(Record):
    """The frames of one message.

    `number` is not 0 where they lie in the sender's memory: `Transport.release` gives them back.
    """

    peer: int
    frames: Sequence[Frame]
    number: int = 0


class Closed(Record):
    """A connection is gone for good (one that was dialled: it could not be made anew either)."""

    peer: int
    reason: str


Event = Opened | Received | Closed


def allocator(transport: Transport) -> Callable[..., np.ndarray[Any, Any]]:
    """Makes arrays, of a shape and a type, that this transport sends with the least copying."""
    return np.empty if transport.arena is None else transport.arena.array


def keep_memory(most: int) -> None:
    """Let glibc keep so much freed memory: frames of megabytes come and go, new pages are dear."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return  # another C library: a matter of speed only
    mallopt(-3, 64 << 20)  # M_MMAP_THRESHOLD
    mallopt(-1, most)      # M_TRIM_THRESHOLD


class Transport(Protocol):
    """Carries frames. Used by one thread, but for `wake` and what says otherwise.

    `arena` makes memory that peers of this host read where it lies; None if they cannot. `lanes`
    is native code for requests that repeat; None where there is none. At port `bulk` connections
    are taken that carry numbers (0: nowhere). `place`, if it is set before connections are made,
    tells where the bytes of a long frame go (`channel.Channel`).
    """

    arena: Arena | None
    lanes: Any
    bulk: int
    place: Callable[[Sequence[Frame], int], tuple[Frame, list[memoryview]] | None] | None

    def listen(self, host: str, port: int) -> int:
        """Take connections at an address; port 0 picks one. The port."""

    def connect(self, host: str, port: int) -> int:
        """Dial, for as long as it takes; the number of the connection. `Opened` follows."""

    def connect_bulk(self, host: str, port: int) -> int:
        """Dial, once, somebody's port for numbers: `Opened` follows, or `Closed`."""

    def disconnect(self, peer: int) -> None:
        """Give up a connection for numbers."""

    def send(self, peer: int, frames: Sequence[Frame]) -> bool:
        """Hand over frames without waiting; False if the connection is gone."""

    def release(self, event: Received) -> None:
        """The frames of an event are not needed any more (only an end that dials has to say so)."""

    def lends(self, peer: int) -> bool:
        """Whether memory that is being sent to this peer can be had back by `detach`."""

    def detach(self, peer: int, data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
        """Make memory that was sent free to change, whatever the peer has read of it (any thread).

        What it reads instead; None, and nothing done, if that cannot be.
        """

    def direct(self, peer: int) -> bool:
        """Whether `send` to this peer may be called from any thread."""

    def caller(self, peer: int) -> Callable[..., bool] | None:
        """What has native code send a request to this peer and take its answer; None: nothing can.

        Its arguments: seq, the request's form, the arrays it brings, the answer's form, the arrays
        to be filled, and the Ticket that is done then. False, and nothing done: not now. `lanes`
        knows which requests are done.
        """

    def poll(self, seconds: float) -> list[Event]:
        """Wait that long at most for events."""

    def problem(self, peer: int) -> str:
        """Why a dialled connection does not stand yet, in words."""

    def wake(self) -> None:
        """Let `poll` return now (from any thread)."""

    def close(self, linger: float = 0.0) -> None:
        """Close everything; what was sent may take that many seconds to go out."""
