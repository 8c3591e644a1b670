"""Connections by Channels: to processes of the same host by Unix sockets, in bulk by TCP."""
from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from .auth import ClientHandshake, Gate
from .channel import MEMBERS, STRANGERS, Channel, ChannelError, Place, near_address
from .link import Closed, Event, Frame, Opened, Received
from .segments import Arena

__all__ = ["Hub", "Near", "dial_bulk", "dial_near", "listen_bulk", "listen_near", "tune",
           "uid_of"]

_HANDSHAKE = 10.0    # seconds


class Hub(Protocol):
    """What a connection needs of the transport it belongs to."""

    token: bytes
    arena: Arena | None
    lanes: Any
    place: Place | None
    gate: Gate
    epoll: select.epoll
    descriptors: set[int]
    blocked: set[Near]
    near: dict[int, Near]

    def watch_file(self, descriptor: int, handler: Callable[[list[Event]], None]) -> None:
        """Call `handler(events)` when something can be read from a descriptor."""

    def unwatch_file(self, descriptor: int) -> None:
        """No longer."""

    def wake(self) -> None:
        """Let `poll` return now (from any thread)."""


class Near:
    """One connection by a Channel, the handshake first.

    Args:
        hub: the transport it belongs to.
        peer: its number there.
        sock: the socket: a Unix one to a process of this host, or TCP.
        dialled: this end has dialled.
    """

    def __init__(self, hub: Hub, peer: int, sock: socket.socket, dialled: bool) -> None:
        self.hub, self.peer, self.dialled = hub, peer, dialled
        self.sock = sock
        self.local = sock.family == socket.AF_UNIX
        self.descriptor = sock.fileno()
        arena = hub.arena if self.local else None
        self.channel = Channel(sock, arena, not dialled, hub.place)
        self.channel.limits = STRANGERS
        self.identity = b"near-%d" % peer
        self.open = False
        self.until = time.monotonic() + _HANDSHAKE  # strangers have no longer
        self.problem = "it answers, but not as a minigluon process would"
        hub.descriptors.add(self.descriptor)
        self.writing = False
        hub.watch_file(self.descriptor, self._ready)
        if dialled:
            self.shake = ClientHandshake(hub.token)
            self._post([self.shake.hello()])

    def watch(self, writing: bool) -> None:
        """Have `poll` look at the socket."""
        self.writing = writing
        lanes = self.hub.lanes
        if self.sock.fileno() >= 0 and not (lanes and lanes.watch(self.descriptor, writing)):
            flags = select.EPOLLIN | select.EPOLLOUT if writing else select.EPOLLIN
            self.hub.epoll.modify(self.descriptor, flags)

    def send(self, frames: Sequence[Frame]) -> bool:
        """Send on an open connection, from any thread."""
        if not self.open:
            return False
        self._post(frames)
        return True

    def _post(self, frames: Sequence[Frame]) -> None:
        self.left(self.channel.send(frames))

    def left(self, something: bool) -> None:
        """Whether something is left to be sent when there is room."""
        if something:
            self.hub.blocked.add(self)
            self.hub.wake()

    def call(self, *request: Any) -> bool:
        """Send a request by native code (`Transport.call`); False: not now."""
        left = self.channel.directly(lambda: self.hub.lanes.call(self.descriptor, *request))
        if left is None:
            return False
        self.left(left)
        return True

    def _ready(self, events: list[Event]) -> None:
        if self.writing:
            self.watch(writing=self.channel.flush())
        lanes = self.hub.lanes
        if lanes is None or not (self.open and self.dialled and self.local):
            self._read(events)
        elif lanes.hold():  # else a thread that waits is reading; what it leaves comes later
            try:
                if lanes.take(self.descriptor):
                    self._read(events)
                    lanes.clean(self.descriptor, self.channel.clean)
            finally:
                lanes.let_go()

    def _read(self, events: list[Event]) -> None:
        try:
            self.received(self.channel.receive(), events)
        except ChannelError as error:
            self._end(str(error), events)

    def received(self, messages: list[tuple[list[Any], int]], events: list[Event]) -> None:
        """What these messages mean."""
        for frames, number in messages:
            if self.open:
                events.append(Received(self.peer, frames, number))
            else:
                self._greeted(bytes(frames[0][:512]) if frames else b"", events)

    def _greeted(self, frame: bytes, events: list[Event]) -> None:
        """The handshake; what comes before it is done gets no other answer."""
        if not self.dialled:
            answer = self.hub.gate.receive(self.identity, frame)
            if answer is not None:
                self._post([answer])
            if self.hub.gate.admits(self.identity):
                self._opened(events)
            return
        answer = self.shake.receive(frame)
        if answer is not None:
            self._post([answer])
        if self.shake.refused:
            self._end(f"refused: {self.shake.refused}", events)
        elif self.shake.welcome:
            if self.hub.lanes is not None and self.local:
                self.hub.lanes.add(self.descriptor)
            self._opened(events)

    def _opened(self, events: list[Event]) -> None:
        self.open = True
        self.channel.limits = MEMBERS
        events.append(Opened(self.peer))

    def _end(self, reason: str, events: list[Event]) -> None:
        seen = self.open or self.dialled
        self.close(0.0)
        if seen:
            events.append(Closed(self.peer, reason))

    def late(self, now: float) -> bool:
        """Whether somebody who has dialled does not prove to be of this job."""
        return not self.open and not self.dialled and now > self.until

    def close(self, linger: float) -> None:
        """Close; what was sent may take that many seconds to go out."""
        end = time.monotonic() + linger
        while self.open and time.monotonic() < end and self.channel.flush():
            select.select([], [self.descriptor], [], max(0.0, end - time.monotonic()))
        self.open = False
        self.hub.near.pop(self.peer, None)
        self.hub.blocked.discard(self)
        if self.hub.lanes is not None and self.local:
            self.hub.lanes.remove(self.descriptor)
        self.hub.unwatch_file(self.descriptor)
        self.hub.descriptors.discard(self.descriptor)
        self.hub.gate.forget(self.identity)
        self.channel.close()


def dial_near(host: str, port: int) -> socket.socket | None:
    """A connection to who listens at host:port, if that is a process of this host and user."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with contextlib.suppress(OSError):  # nobody here: on another host, or one that takes TCP only
        sock.connect(near_address(host, port))
        if uid_of(sock) == os.getuid():
            return sock
    sock.close()
    return None


def uid_of(sock: socket.socket) -> int:
    """Whose process is at the other end of a Unix socket."""
    data = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int(struct.unpack("iii", data)[1])


def listen_near(host: str, port: int) -> socket.socket | None:
    """A Unix socket for those who look for host:port on this host; None: there can be none."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(near_address(host, port))
        listener.listen(128)
    except OSError:
        listener.close()
        return None  # no abstract names here: everybody comes over TCP
    listener.setblocking(False)
    return listener


def listen_bulk(host: str) -> socket.socket:
    """A TCP socket at a free port, for connections that carry numbers."""
    listener = socket.create_server((host, 0), family=_family(host), backlog=128)
    listener.setblocking(False)
    return listener


def dial_bulk(host: str, port: int, heartbeat: float) -> socket.socket:
    """A TCP connection on its way to host:port; if it fails, so does the first read.

    Args:
        heartbeat: seconds without an acknowledgement after which it is closed.
    """
    sock = socket.socket(_family(host), socket.SOCK_STREAM)
    tune(sock, heartbeat)
    sock.setblocking(False)
    sock.connect_ex((host, port))
    return sock


def tune(sock: socket.socket, heartbeat: float) -> None:
    """Send at once, and notice when nobody is there. The system sees to the buffers' sizes.

    The end that only waits has to ask: the system's own interval for that is two hours.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    asking = max(1, int(heartbeat / 4))
    for name, value in (("TCP_NODELAY", 1), ("TCP_USER_TIMEOUT", int(1000 * heartbeat)),
                        ("TCP_KEEPIDLE", asking), ("TCP_KEEPINTVL", asking)):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
