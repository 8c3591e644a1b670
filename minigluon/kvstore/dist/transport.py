"""Frames over ZeroMQ: a ROUTER that listens, a DEALER for each connection that is dialled.

A server that is reached on the same host is dialled by a Unix socket instead (`channel`), over
which numbers travel in shared memory.

The only file that imports zmq. Every connection first goes through `auth`. Death of a peer shows as
a closed TCP connection, or as missing ZMTP heartbeats, which ZeroMQ's own thread sends: a process
that is stopped or unreachable is noticed, one that merely holds the GIL is not slandered.

A dialled connection that breaks is dialled again for a second before it counts as closed. At the
ROUTER, ZeroMQ does not say whose connection broke, so after each broken one all peers are probed.
"""
from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

import zmq
import zmq.utils.garbage  # now: its exit handler must be there before ours, to run after it

from ...base import KVStoreError
from .auth import ClientHandshake, Gate
from .channel import Channel, ChannelError, near_address
from .link import Closed, Event, Frame, Opened, Received
from .segments import Arena, available
from .wire import MAX_FRAME

__all__ = ["ZmqTransport"]

_PROBE = b"."                           # a frame that means nothing
_PROBE_AFTER = (0.0, 0.02, 0.1, 0.3, 1.0)
_REDIAL = 1.0
_BATCH = 64
_Socket = zmq.Socket[bytes]


class _Dial:
    """One dialled connection."""

    def __init__(self, hub: ZmqTransport, peer: int, host: str, port: int) -> None:
        self.hub, self.peer = hub, peer
        self.address = _url(host, port)
        self.open = False
        self.ever = False
        self.problem = "no answer yet"
        self.give_up: float | None = None
        self.dial()

    def dial(self) -> None:
        """A fresh socket: what an old one still had to send is sent anew by those who know."""
        self.open = False
        self.shake = ClientHandshake(self.hub.token)
        self.socket = self.hub.make(zmq.DEALER)
        self.monitor = self.socket.get_monitor_socket(_DIAL_EVENTS)
        self.hub.watch(self.socket, self._messages)
        self.hub.watch(self.monitor, self._monitored)
        self.socket.connect(self.address)

    def drop(self) -> None:
        """Close the socket."""
        self.hub.unwatch(self.socket)
        self.hub.unwatch(self.monitor)
        self.socket.disable_monitor()
        self.monitor.close(linger=0)
        self.socket.close(linger=int(self.hub.linger * 1000))

    def send(self, frames: Sequence[Frame]) -> bool:
        """Send on an open connection."""
        if not self.open:
            return False
        self.socket.send_multipart(frames, zmq.NOBLOCK, copy=False)
        return True

    def _monitored(self, events: list[Event]) -> None:
        kind, value = _monitored(self.monitor)
        if kind == zmq.EVENT_CONNECTED:
            self.hub.descriptors.add(value)
        elif kind == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self.shake = ClientHandshake(self.hub.token)
            self.socket.send(self.shake.hello(), zmq.NOBLOCK)
            self.problem = "it answers, but not as a minigluon process would"
        elif kind == zmq.EVENT_DISCONNECTED:
            self.hub.descriptors.discard(value)
            if self.open:
                self.drop()
                self.give_up = time.monotonic() + _REDIAL
                self.dial()
        elif kind == zmq.EVENT_CONNECT_RETRIED and not self.open:
            self.problem = "connection refused or host unreachable"

    def _messages(self, events: list[Event]) -> None:
        for _ in range(_BATCH):
            try:
                frames = self.socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            if self.open:
                if len(frames) > 1 or frames[0].bytes != _PROBE:
                    events.append(Received(self.peer, [frame.buffer for frame in frames]))
            else:
                self._greeted(bytes(frames[0].buffer[:512]), events)

    def _greeted(self, frame: bytes, events: list[Event]) -> None:
        answer = self.shake.receive(frame)
        if answer is not None:
            self.socket.send(answer, zmq.NOBLOCK)
        if self.shake.refused:
            events.append(Closed(self.peer, f"refused: {self.shake.refused}"))
            self.shake.refused = ""
        elif self.shake.welcome:
            self.open = self.ever = True
            self.give_up = None
            events.append(Opened(self.peer))


_DIAL_EVENTS = (
    zmq.EVENT_CONNECTED | zmq.EVENT_DISCONNECTED | zmq.EVENT_CONNECT_RETRIED
    | zmq.EVENT_HANDSHAKE_SUCCEEDED
)


class _Near:
    """One connection to a process of the same host: a Channel, the handshake first."""

    def __init__(self, hub: ZmqTransport, peer: int, sock: socket.socket, dialled: bool) -> None:
        self.hub, self.peer, self.dialled = hub, peer, dialled
        self.sock = sock
        self.descriptor = sock.fileno()
        self.channel = Channel(sock, hub.arena, keeps=not dialled)
        self.identity = b"near-%d" % peer
        self.open = False
        self.problem = "it answers, but not as a minigluon process would"
        hub.descriptors.add(self.descriptor)
        hub._handlers[self.descriptor] = self._ready
        self.watch(writing=False)
        if dialled:
            self.shake = ClientHandshake(hub.token)
            self._post([self.shake.hello()])

    def watch(self, writing: bool) -> None:
        """Have `poll` look at the socket."""
        self.writing = writing
        if self.sock.fileno() >= 0:
            flags = zmq.POLLIN | zmq.POLLOUT if writing else zmq.POLLIN
            self.hub._poller.register(self.descriptor, flags)

    def send(self, frames: Sequence[Frame]) -> bool:
        """Send on an open connection, from any thread."""
        if not self.open:
            return False
        self._post(frames)
        return True

    def _post(self, frames: Sequence[Frame]) -> None:
        if self.channel.send(frames):
            self.hub._blocked.add(self)
            self.hub.wake()

    def _ready(self, events: list[Event]) -> None:
        if self.writing:
            self.watch(writing=self.channel.flush())
        try:
            for frames, number in self.channel.receive():
                if self.open:
                    events.append(Received(self.peer, frames, number))
                else:
                    self._greeted(bytes(frames[0][:512]) if frames else b"", events)
        except ChannelError as error:
            self._end(str(error), events)

    def _greeted(self, frame: bytes, events: list[Event]) -> None:
        """The handshake; what comes before it is done gets no other answer."""
        if not self.dialled:
            answer = self.hub._gate.receive(self.identity, frame)
            if answer is not None:
                self._post([answer])
            if self.hub._gate.admits(self.identity):
                self.open = True
                events.append(Opened(self.peer))
            return
        answer = self.shake.receive(frame)
        if answer is not None:
            self._post([answer])
        if self.shake.refused:
            self._end(f"refused: {self.shake.refused}", events)
        elif self.shake.welcome:
            self.open = True
            events.append(Opened(self.peer))

    def _end(self, reason: str, events: list[Event]) -> None:
        seen = self.open or self.dialled
        self.close(0.0)
        if seen:
            events.append(Closed(self.peer, reason))

    def close(self, linger: float) -> None:
        """Close; what was sent may take that many seconds to go out."""
        end = time.monotonic() + linger
        while self.open and time.monotonic() < end and self.channel.flush():
            select.select([], [self.descriptor], [], max(0.0, end - time.monotonic()))
        self.open = False
        self.hub._near.pop(self.peer, None)
        self.hub._blocked.discard(self)
        self.hub._handlers.pop(self.descriptor, None)
        self.hub._poller.unregister(self.descriptor)
        self.hub.descriptors.discard(self.descriptor)
        self.hub._gate.forget(self.identity)
        self.channel.close()


class ZmqTransport:
    """A Transport over TCP, and over Unix sockets within a host.

    Args:
        token: the job token.
        heartbeat: seconds without any sign of life after which a connection is closed.
        van: how processes of one host talk: 'shm' (a Unix socket, numbers in shared memory), 'ipc'
            (a Unix socket), 'tcp'; '' takes the best that works, pair by pair.
    """

    def __init__(self, token: bytes, heartbeat: float = 10.0, van: str = "") -> None:
        self.token, self.van = token, van
        self.arena = Arena() if available() and van in ("", "shm") else None
        self._near: dict[int, _Near] = {}
        self._near_listener: socket.socket | None = None
        self.heartbeat = heartbeat
        self.linger = 0.0
        self.descriptors: set[int] = set()
        self._pid = os.getpid()
        self._context = zmq.Context()
        self._poller = zmq.Poller()
        self._handlers: dict[Any, Any] = {}
        self._dials: dict[int, _Dial] = {}
        self._router: _Socket | None = None
        self._router_monitor: Any = None
        self._gate = Gate(token)
        self._identities: dict[int, bytes] = {}
        self._peers: dict[bytes, int] = {}
        self._probes: list[float] = []
        self._blocked: set[_Near] = set()
        self._count = 0
        self._wake_in, self._wake_out = os.pipe()
        os.set_blocking(self._wake_in, False)
        os.set_blocking(self._wake_out, False)
        self._poller.register(self._wake_in, zmq.POLLIN)

    @property
    def refused(self) -> int:
        """How many frames of strangers were turned away."""
        return self._gate.refused

    # -- for the connections --------------------------------------------------------------------

    def make(self, kind: int) -> _Socket:
        """A socket with this transport's options."""
        socket: _Socket = self._context.socket(kind)
        milliseconds = max(100, int(self.heartbeat * 1000))
        options = {
            zmq.LINGER: 0,
            zmq.SNDHWM: 0,        # what may be under way is bounded by the requests
            zmq.RCVHWM: 10_000,   # a full queue would also keep heartbeats out
            zmq.MAXMSGSIZE: MAX_FRAME,
            zmq.HEARTBEAT_IVL: milliseconds // 4,
            zmq.HEARTBEAT_TIMEOUT: milliseconds,
            zmq.HANDSHAKE_IVL: 10_000,
            zmq.RECONNECT_IVL: 50,
            zmq.RECONNECT_IVL_MAX: 400,
            zmq.TCP_MAXRT: milliseconds,
            zmq.IPV6: 1,
        }
        for option, value in options.items():
            socket.setsockopt(option, value)
        return socket

    def watch(self, socket: Any, handler: Any) -> None:
        """Call `handler(events)` when something can be read from `socket`."""
        self._poller.register(socket, zmq.POLLIN)
        self._handlers[socket] = handler

    def unwatch(self, socket: Any) -> None:
        """No longer."""
        if self._handlers.pop(socket, None) is not None:
            self._poller.unregister(socket)

    # -- Transport ------------------------------------------------------------------------------

    def listen(self, host: str, port: int) -> int:
        """Take connections at an address; port 0 picks a free one. Returns the port."""
        router = self.make(zmq.ROUTER)
        router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._router_monitor = router.get_monitor_socket(
            zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED | zmq.EVENT_LISTENING
        )
        try:
            router.bind(_url(host, port) if port else _url(host, "*"))
        except zmq.ZMQError as error:
            router.disable_monitor()
            self._router_monitor.close(linger=0)
            router.close(linger=0)
            raise KVStoreError(
                f"cannot listen at {host}:{port}: {error.strerror or error}; is the port in use "
                "or the address not one of this machine?"
            ) from None
        self._router = router
        self.watch(router, self._router_messages)
        self.watch(self._router_monitor, self._router_monitored)
        endpoint = bytes(router.getsockopt(zmq.LAST_ENDPOINT)).rstrip(b"\0").decode()
        found = int(endpoint.rpartition(":")[2])
        if not port and self.van != "tcp":
            self._listen_near(host, found)
        return found

    def _listen_near(self, host: str, port: int) -> None:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(near_address(host, port))
            listener.listen(128)
        except OSError:
            listener.close()
            return  # no abstract names here: everybody comes over TCP
        listener.setblocking(False)
        self._near_listener = listener
        self.descriptors.add(listener.fileno())
        self._poller.register(listener.fileno(), zmq.POLLIN)
        self._handlers[listener.fileno()] = self._accept

    def _accept(self, events: list[Event]) -> None:
        assert self._near_listener is not None
        try:
            sock, _ = self._near_listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionError):
            return
        if _uid_of(sock) != os.getuid():
            self._gate.refused += 1
            sock.close()
            return
        self._count += 1
        self._near[self._count] = _Near(self, self._count, sock, dialled=False)

    def connect(self, host: str, port: int) -> int:
        """Dial; the number of the connection."""
        self._count += 1
        sock = None if self.van == "tcp" else _dial_near(host, port)
        if sock is not None:
            self._near[self._count] = _Near(self, self._count, sock, dialled=True)
        else:
            self._dials[self._count] = _Dial(self, self._count, host, port)
        return self._count

    def problem(self, peer: int) -> str:
        """Why a dialled connection does not stand yet."""
        near = self._near.get(peer)
        return near.problem if near is not None else self._dials[peer].problem

    def send(self, peer: int, frames: Sequence[Frame]) -> bool:
        """Hand over frames without waiting; False if the connection is gone."""
        near = self._near.get(peer)
        if near is not None:
            return near.send(frames)
        dial = self._dials.get(peer)
        if dial is not None:
            return dial.send(frames)
        identity = self._identities.get(peer)
        return identity is not None and self._route(identity, frames)

    def release(self, event: Received) -> None:
        """The frames of an event are not needed any more."""
        near = self._near.get(event.peer)
        if near is not None and event.number and near.dialled:
            near.channel.release(event.number)

    def direct(self, peer: int) -> bool:
        """Whether `send` to this peer may be called from any thread."""
        return peer in self._near

    def poll(self, seconds: float) -> list[Event]:
        """Events, waiting for them at most `seconds`."""
        events: list[Event] = []
        while self._blocked:  # other threads add to it meanwhile
            self._blocked.pop().watch(writing=True)
        timeout = int(1000 * min(seconds, 0.1 if self._probes or self._redialling() else seconds))
        for ready, _ in self._poller.poll(timeout):
            if ready == self._wake_in:
                _drain(self._wake_in)
            elif ready in self._handlers:  # an earlier event may have closed it
                self._handlers[ready](events)
        now = time.monotonic()
        if self._probes and self._probes[0] <= now:
            self._probes = [at for at in self._probes if at > now]
            self._probe(events)
        for dial in list(self._dials.values()):
            if dial.give_up is not None and now > dial.give_up:
                dial.give_up = None
                events.append(Closed(dial.peer, "connection lost"))
        return events

    def wake(self) -> None:
        """Let `poll` return now."""
        try:
            os.write(self._wake_out, b"!")
        except (BlockingIOError, OSError):
            return  # it is awake already, or closed

    def close(self, linger: float = 0.0) -> None:
        """Close all sockets and the context."""
        if os.getpid() != self._pid or self._context.closed:
            return
        self.linger = linger
        for near in list(self._near.values()):
            near.close(linger)
        if self._near_listener is not None:
            self._near_listener.close()
        for dial in self._dials.values():
            dial.drop()
        self._dials.clear()
        if self._router is not None:
            self.unwatch(self._router)
            self.unwatch(self._router_monitor)
            self._router.disable_monitor()
            self._router_monitor.close(linger=0)
            self._router.close(linger=int(linger * 1000))
            self._router = None
        self._context.term()
        if self.arena is not None:
            self.arena.close()
        os.close(self._wake_in)
        os.close(self._wake_out)

    def abandon(self) -> None:
        """In a forked child: let go of the parent's connections, so that they end with it."""
        if self.arena is not None and self.arena.files:
            self.arena.part()
        for descriptor in (*self.descriptors, self._wake_in, self._wake_out):
            try:
                os.close(descriptor)
            except OSError:
                continue  # closed in the parent just before the fork
        self.descriptors.clear()

    # -- the listening side ---------------------------------------------------------------------

    def _redialling(self) -> bool:
        return any(dial.give_up is not None for dial in self._dials.values())

    def _router_monitored(self, events: list[Event]) -> None:
        kind, value = _monitored(self._router_monitor)
        if kind == zmq.EVENT_DISCONNECTED:
            self.descriptors.discard(value)
            now = time.monotonic()
            self._probes = [now + after for after in _PROBE_AFTER]
        else:
            self.descriptors.add(value)

    def _router_messages(self, events: list[Event], batch: int = _BATCH) -> None:
        assert self._router is not None
        for _ in range(batch):
            try:
                frames = self._router.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            identity = frames[0].bytes
            if self._gate.admits(identity):
                if len(frames) > 2 or frames[1].bytes != _PROBE:
                    rest = [frame.buffer for frame in frames[1:]]
                    events.append(Received(self._peers[identity], rest))
            elif len(frames) == 2 and len(frames[1].buffer) <= 512:
                self._greet(identity, frames[1].bytes, events)
            else:
                self._gate.refused += 1

    def _greet(self, identity: bytes, frame: bytes, events: list[Event]) -> None:
        answer = self._gate.receive(identity, frame)
        if answer is not None:
            self._route(identity, [answer])
        if self._gate.admits(identity):
            self._count += 1
            self._peers[identity] = self._count
            self._identities[self._count] = identity
            events.append(Opened(self._count))

    def _route(self, identity: bytes, frames: Sequence[Frame]) -> bool:
        assert self._router is not None
        try:
            self._router.send_multipart([identity, *frames], zmq.NOBLOCK, copy=False)
        except zmq.ZMQError as error:
            if error.errno in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                return False
            raise
        return True

    def _probe(self, events: list[Event]) -> None:
        """Who is gone? Only trying to send tells."""
        known = self._identities.items()
        gone = [peer for peer, identity in known if not self._route(identity, [_PROBE])]
        if gone:
            self._router_messages(events, 1_000_000)  # their last words come first
        for peer in gone:
            if peer in self._identities:
                identity = self._identities[peer]
                del self._identities[peer], self._peers[identity]
                self._gate.forget(identity)
                events.append(Closed(peer, "connection lost"))


def _dial_near(host: str, port: int) -> socket.socket | None:
    """A connection to who listens at host:port, if that is a process of this host and user."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with contextlib.suppress(OSError):  # nobody here: on another host, or one that takes TCP only
        sock.connect(near_address(host, port))
        if _uid_of(sock) == os.getuid():
            return sock
    sock.close()
    return None


def _uid_of(sock: socket.socket) -> int:
    """Whose process is at the other end of a Unix socket."""
    data = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int(struct.unpack("iii", data)[1])


def _monitored(monitor: Any) -> tuple[int, int]:
    """What a monitor tells: an event and its value, here a descriptor.

    The layout is zmq_socket_monitor(3)'s. pyzmq's own reader of it would bring in asyncio, a tenth
    of the time a process takes to start.
    """
    kind, value = struct.unpack("=HI", monitor.recv_multipart()[0])
    return kind, value


def _url(host: str, port: int | str) -> str:
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


def _drain(descriptor: int) -> None:
    try:
        while os.read(descriptor, 4096):
            continue
    except BlockingIOError:
        return
