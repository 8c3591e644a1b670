"""A transport without sockets, for tests: queues in one process, and faults at will."""
from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from .link import Closed, Event, Frame, Opened, Received
from .record import Record, field

__all__ = ["MemoryNetwork", "MemoryTransport"]

Tamper = Callable[[Sequence[Frame]], list[Sequence[Frame]]]


class MemoryNetwork(Record, frozen=False):
    """Where memory transports find each other.

    Args:
        tamper: gets every message and returns what arrives in its place (none, one, several).
    """

    tamper: Tamper | None = None
    listeners: dict[tuple[str, int], MemoryTransport] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def transport(self) -> MemoryTransport:
        """A new transport in this network."""
        return MemoryTransport(self)


class MemoryTransport:
    """A Transport whose connections are queues; see `link.Transport`."""

    def __init__(self, network: MemoryNetwork) -> None:
        self.network, self.arena, self.lanes, self.bulk = network, None, None, 0
        self.place = None
        self._events: deque[Event] = deque()
        self._ready = threading.Event()
        self._ends: dict[int, tuple[MemoryTransport, int]] = {}
        self._dialling: dict[int, tuple[str, int]] = {}
        self._count = 0
        self._closed = False

    def listen(self, host: str, port: int) -> int:
        """Take connections; port 0 picks one."""
        with self.network.lock:
            port = port or 1 + max((p for _, p in self.network.listeners), default=1000)
            self.network.listeners[host, port] = self
        return port

    def connect(self, host: str, port: int) -> int:
        """Dial; stands as soon as somebody listens there."""
        self._count += 1
        self._dialling[self._count] = (host, port)
        return self._count

    def problem(self, peer: int) -> str:
        """Why a connection does not stand."""
        return "nobody listens there"

    def send(self, peer: int, frames: Sequence[Frame]) -> bool:
        """Put the frames into the other end's queue."""
        end = self._ends.get(peer)
        if end is None:
            return False
        tamper = self.network.tamper
        for arrives in [frames] if tamper is None else tamper(frames):
            end[0]._put(Received(end[1], arrives))
        return True

    def release(self, event: Received) -> None:
        """Nothing is lent here."""

    def lends(self, peer: int) -> bool:
        """What is sent lies in the other end's queue, as it is."""
        return False

    def detach(self, peer: int, data: Any) -> None:
        """Never asked for."""

    def connect_bulk(self, host: str, port: int) -> int:
        """There is one way only."""
        raise NotImplementedError("a memory network has no ports for numbers")

    def disconnect(self, peer: int) -> None:
        """Nothing was dialled for numbers."""

    def direct(self, peer: int) -> bool:
        """Only one thread may send."""
        return False

    def caller(self, peer: int) -> None:
        """Nothing here is native."""

    def poll(self, seconds: float) -> list[Event]:
        """Events so far, waiting for one."""
        self._try_dialling()
        if not self._events:
            self._ready.wait(min(seconds, 0.02) if self._dialling else seconds)
        self._ready.clear()
        events = []
        while self._events:
            events.append(self._events.popleft())
        return events

    def wake(self) -> None:
        """Let `poll` return now."""
        self._ready.set()

    def close(self, linger: float = 0.0) -> None:
        """End all connections; the other ends see them closed."""
        self._closed = True
        with self.network.lock:
            for address in [a for a, t in self.network.listeners.items() if t is self]:
                del self.network.listeners[address]
        for other, peer in self._ends.values():
            other._ends.pop(peer, None)
            other._put(Closed(peer, "connection lost"))
        self._ends.clear()

    def _put(self, event: Event) -> None:
        if not self._closed:
            self._events.append(event)
            self._ready.set()

    def _try_dialling(self) -> None:
        for peer, address in list(self._dialling.items()):
            with self.network.lock:
                other = self.network.listeners.get(address)
            if other is None:
                continue
            del self._dialling[peer]
            other._count += 1
            self._ends[peer] = (other, other._count)
            other._ends[other._count] = (self, peer)
            other._put(Opened(other._count))
            self._put(Opened(peer))
