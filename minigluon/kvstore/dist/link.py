"""What a transport is: connections by number, events about them, frames over them."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .wire import Frame

__all__ = ["Closed", "Event", "Frame", "Opened", "Received", "Transport"]


@dataclass(frozen=True, slots=True)
class Opened:
    """A connection stands: proved, both ways. May come again after a short interruption."""

    peer: int


@dataclass(frozen=True, slots=True)
class Received:
    """The frames of one message."""

    peer: int
    frames: Sequence[Frame]


@dataclass(frozen=True, slots=True)
class Closed:
    """A connection is gone for good (one that was dialled: it could not be made anew either)."""

    peer: int
    reason: str


Event = Opened | Received | Closed


class Transport(Protocol):
    """Carries frames. Used by one thread only, except for `wake`."""

    def listen(self, host: str, port: int) -> int:
        """Take connections at an address; port 0 picks one. The port."""

    def connect(self, host: str, port: int) -> int:
        """Dial, for as long as it takes; the number of the connection. `Opened` follows."""

    def send(self, peer: int, frames: Sequence[Frame]) -> bool:
        """Hand over frames without waiting; False if the connection is gone."""

    def poll(self, seconds: float) -> list[Event]:
        """Wait that long at most for events."""

    def problem(self, peer: int) -> str:
        """Why a dialled connection does not stand yet, in words."""

    def wake(self) -> None:
        """Let `poll` return now (from any thread)."""

    def close(self, linger: float = 0.0) -> None:
        """Close everything; what was sent may take that many seconds to go out."""
