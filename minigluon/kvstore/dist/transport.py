"""Frames over ZeroMQ: a ROUTER that listens, a DEALER for each connection that is dialled.

A server that is reached on the same host is dialled by a Unix socket instead, over which numbers
travel in shared memory; any other one gets a TCP connection for numbers besides (`near`).

The only file that imports zmq. Every connection first goes through `auth`. Death of a peer shows as
a closed TCP connection, or as missing ZMTP heartbeats, which ZeroMQ's own thread sends: a process
that is stopped or unreachable is noticed, one that merely holds the GIL is not slandered.

A dialled connection that breaks is dialled again for a second before it counts as closed. At the
ROUTER, ZeroMQ does not say whose connection broke, so after each broken one all peers are probed.
"""
from __future__ import annotations

import functools
import os
import select
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import zmq
import zmq.utils.garbage  # now: its exit handler must be there before ours, to run after it

from ...base import KVStoreError
from ...device.cpu.native import core
from .auth import ClientHandshake, Gate
from .channel import Channel, Place
from .forms import NUMBER_AT
from .link import Closed, Event, Frame, Opened, Received
from .near import Near, dial_bulk, dial_near, listen_bulk, listen_near, tune, uid_of
from .segments import Arena, available
from .wire import MAX_FRAME

__all__ = ["ZmqTransport"]

_PROBE = b"."                           # a frame that means nothing
_PROBE_AFTER = (0.0, 0.02, 0.1, 0.3, 1.0)
_REDIAL = 1.0
_BATCH = 64
_STRANGERS = 256                        # connections that have not proved anything yet
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
        self.hub.stale = True
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
        self.near: dict[int, Near] = {}
        self._listeners: list[socket.socket] = []
        self.bulk = 0
        self.place: Place | None = None
        self.heartbeat = heartbeat
        self.linger = 0.0
        self.descriptors: set[int] = set()
        self._pid = os.getpid()
        self._context = zmq.Context()
        self._handlers: dict[Any, Any] = {}
        self.epoll = select.epoll()
        self._sockets: dict[int, _Socket] = {}  # ZeroMQ's, by their descriptors in `epoll`
        self.stale = True                       # these may have something that `epoll` missed
        lanes = getattr(core, "kv_lanes", None)
        self.lanes: Any = None if lanes is None else lanes(self.epoll.fileno(), NUMBER_AT)
        self._rounds: Any = None
        self._dials: dict[int, _Dial] = {}
        self._router: _Socket | None = None
        self._router_monitor: Any = None
        self.gate = Gate(token)
        self._identities: dict[int, bytes] = {}
        self._peers: dict[bytes, int] = {}
        self._probes: list[float] = []
        self.blocked: set[Near] = set()
        self._count = 0
        self._wake_in, self._wake_out = os.pipe()
        os.set_blocking(self._wake_in, False)
        os.set_blocking(self._wake_out, False)
        self.watch_file(self._wake_in, lambda events: _drain(self._wake_in))

    @property
    def refused(self) -> int:
        """How many frames of strangers were turned away."""
        return self.gate.refused

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

    # ZeroMQ's descriptors only tell that a socket may have changed (zmq_getsockopt(3), ZMQ_FD), and
    # whatever is done with a socket may swallow that. So after anything was done with one, all are
    # asked before `epoll` is waited for; where only Channels are busy, none is.

    def watch(self, socket: Any, handler: Any) -> None:
        """Call `handler(events)` when something can be read from `socket`."""
        descriptor = int(socket.getsockopt(zmq.FD))
        self._sockets[descriptor] = socket
        self._handlers[socket] = handler
        self.epoll.register(descriptor, select.EPOLLIN)
        self.stale = True

    def unwatch(self, socket: Any) -> None:
        """No longer."""
        if self._handlers.pop(socket, None) is not None:
            descriptor = next(file for file, one in self._sockets.items() if one is socket)
            del self._sockets[descriptor]
            self.epoll.unregister(descriptor)

    def _readable(self) -> list[_Socket]:
        """Those of ZeroMQ's sockets that have something to be read."""
        ready = [socket for socket in self._sockets.values()
                 if int(socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN]
        self.stale = bool(ready)  # what they have is not read here, and perhaps not all of it then
        return ready

    def watch_file(self, descriptor: int, handler: Any) -> None:
        """Call `handler(events)` when something can be read from a descriptor."""
        self.epoll.register(descriptor, select.EPOLLIN)
        self._handlers[descriptor] = handler

    def unwatch_file(self, descriptor: int) -> None:
        """No longer."""
        if self._handlers.pop(descriptor, None) is not None:
            self.epoll.unregister(descriptor)

    # -- Transport ------------------------------------------------------------------------------

    def listen(self, host: str, port: int) -> int:
        """Take connections at an address; port 0 picks a free one. Returns the port."""
        if self.arena is not None:
            self.arena.large = False  # who dials maps its pages one by one, in arrays of its own
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
            self._listen(listen_near(host, found))
        if not port:
            listener = listen_bulk(host)
            self._listen(listener)
            self.bulk = int(listener.getsockname()[1])
        return found

    def _listen(self, listener: socket.socket | None) -> None:
        if listener is not None:
            self._listeners.append(listener)
            self.descriptors.add(listener.fileno())
            self.watch_file(listener.fileno(), functools.partial(self._accept, listener))

    def _accept(self, listener: socket.socket, events: list[Event]) -> None:
        try:
            sock, _ = listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionError):
            return
        local = sock.family == socket.AF_UNIX
        strangers = sum(not near.open and not near.dialled for near in self.near.values())
        if (local and uid_of(sock) != os.getuid()) or strangers >= _STRANGERS:
            self.gate.refused += 1
            sock.close()
            return
        if not local:
            tune(sock, self.heartbeat)
        self._count += 1
        self.near[self._count] = Near(self, self._count, sock, dialled=False)

    def connect(self, host: str, port: int) -> int:
        """Dial; the number of the connection."""
        self._count += 1
        sock = None if self.van == "tcp" else dial_near(host, port)
        if sock is not None:
            self.near[self._count] = Near(self, self._count, sock, dialled=True)
        else:
            self._dials[self._count] = _Dial(self, self._count, host, port)
        return self._count

    def connect_bulk(self, host: str, port: int) -> int:
        """Dial a port for numbers; it may turn out `Closed`."""
        self._count += 1
        sock = dial_bulk(host, port, self.heartbeat)
        self.near[self._count] = Near(self, self._count, sock, dialled=True)
        return self._count

    def disconnect(self, peer: int) -> None:
        """Give up a connection for numbers."""
        near = self.near.get(peer)
        if near is not None:
            near.close(0.0)

    def problem(self, peer: int) -> str:
        """Why a dialled connection does not stand yet."""
        near = self.near.get(peer)
        return near.problem if near is not None else self._dials[peer].problem

    def send(self, peer: int, frames: Sequence[Frame]) -> bool:
        """Hand over frames without waiting; False if the connection is gone."""
        near = self.near.get(peer)
        if near is not None:
            return near.send(frames)
        dial = self._dials.get(peer)
        if dial is not None:
            return dial.send(frames)
        identity = self._identities.get(peer)
        return identity is not None and self._route(identity, frames)

    def caller(self, peer: int) -> Callable[..., bool] | None:
        """What sends requests whose form is known, and answers, without Python (`lanes.cpp`)."""
        near = self.near.get(peer)
        if self.lanes is None or near is None or not (near.open and near.local):
            return None
        return near.call

    def release(self, event: Received) -> None:
        """The frames of an event are not needed any more."""
        near = self.near.get(event.peer)
        if near is not None and event.number and near.dialled:
            near.channel.release(event.number)

    def lends(self, peer: int) -> bool:
        """Whether `detach` can be asked for."""
        return peer in self.near

    def detach(self, peer: int, data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
        """Have what was sent be read from other memory from now on: the copy, if there can be."""
        near = self.near.get(peer)
        if near is None:
            return None
        if near.channel.arena is not None:
            return near.channel.arena.exchange(data)
        copy = data.copy()
        near.channel.replace(data, copy)
        return copy

    def direct(self, peer: int) -> bool:
        """Whether `send` to this peer may be called from any thread."""
        return peer in self.near

    def poll(self, seconds: float) -> list[Event]:
        """Events, waiting for them at most `seconds`."""
        events: list[Event] = []
        while self.blocked:  # other threads add to it meanwhile
            self.blocked.pop().watch(writing=True)
        if self._probes or self._redialling():
            seconds = min(seconds, 0.1)
        ready = self._readable() if self.stale else []
        if self._rounds is not None and not ready and self._idle():
            self._repeat(self._rounds, seconds, events)
            seconds = 0.0
        found = self.epoll.poll(0.0 if ready else seconds)
        if not ready and any(descriptor in self._sockets for descriptor, _ in found):
            ready = self._readable()
        for descriptor, _ in found:
            if descriptor in self._handlers:  # an earlier event may have closed it
                self._handlers[descriptor](events)
        for one in ready:
            if one in self._handlers:
                self._handlers[one](events)
        now = time.monotonic()
        if self._probes and self._probes[0] <= now:
            self._probes = [at for at in self._probes if at > now]
            self._probe(events)
        for near in [near for near in self.near.values() if near.late(now)]:
            self.gate.refused += 1
            near.close(0.0)
        for dial in list(self._dials.values()):
            if dial.give_up is not None and now > dial.give_up:
                dial.give_up = None
                events.append(Closed(dial.peer, "connection lost"))
        return events

    def end(self, peer: int) -> Channel | None:
        """This end of the connection to a process of the same host, if it is quiet."""
        near = self.near.get(peer)
        if near is None or not (near.open and near.local):
            return None
        return near.channel if near.channel.clean and near.channel.idle else None

    def repeat(self, rounds: Any) -> None:
        """From now on, `poll` does such rounds while nothing else comes (None: no more)."""
        self._rounds = rounds

    def _repeat(self, rounds: Any, seconds: float, events: list[Event]) -> None:
        """Do rounds, and have what is left of them handled."""
        rounds.turn(seconds)
        for descriptor, data in rounds.held():
            near = self._by_file(descriptor)
            near.received(near.channel.feed(data), events)
        for descriptor, data in rounds.unsent():
            near = self._by_file(descriptor)
            near.left(near.channel.write(data))

    def _idle(self) -> bool:
        """Whether nothing is left to be sent: answers of native code would go out before it."""
        return all(near.channel.idle for near in self.near.values())

    def _by_file(self, descriptor: int) -> Near:
        return next(near for near in self.near.values() if near.descriptor == descriptor)

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
        for near in list(self.near.values()):
            near.close(linger)
        for listener in self._listeners:
            listener.close()
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
        self.epoll.close()
        if self.arena is not None:
            self.arena.close()
        os.close(self._wake_in)
        os.close(self._wake_out)

    def abandon(self) -> None:
        """In a forked child: let go of the parent's connections, so that they end with it."""
        if self.arena is not None and self.arena.files:
            self.arena.part()
        self.epoll.close()
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
            if self.gate.admits(identity):
                if len(frames) > 2 or frames[1].bytes != _PROBE:
                    rest = [frame.buffer for frame in frames[1:]]
                    events.append(Received(self._peers[identity], rest))
            elif len(frames) == 2 and len(frames[1].buffer) <= 512:
                self._greet(identity, frames[1].bytes, events)
            else:
                self.gate.refused += 1

    def _greet(self, identity: bytes, frame: bytes, events: list[Event]) -> None:
        answer = self.gate.receive(identity, frame)
        if answer is not None:
            self._route(identity, [answer])
        if self.gate.admits(identity):
            self._count += 1
            self._peers[identity] = self._count
            self._identities[self._count] = identity
            events.append(Opened(self._count))

    def _route(self, identity: bytes, frames: Sequence[Frame]) -> bool:
        assert self._router is not None
        self.stale = True
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
                self.gate.forget(identity)
                events.append(Closed(peer, "connection lost"))


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
