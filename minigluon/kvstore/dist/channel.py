"""A connection: a Unix socket within a host, and shared memory for numbers; or a TCP socket.

A message is a head (magic, count), a table with an entry for each frame, and the bytes of those
frames that travel inline. A frame that lies in a segment of the sender travels as (segment, offset,
length) and is not copied at all. Entries of other kinds hand over a segment (its descriptor rides
along, and instead of an offset it says whether there are huge pages), or tell that the frames of a
message are not needed any more.
"""
from __future__ import annotations

import array
import itertools
import os
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .pages import address_of
from .segments import Arena, MapError, map_segment
from .wire import MAX_FRAME, PACKED, Frame

__all__ = ["MEMBERS", "STRANGERS", "Channel", "ChannelError", "Place", "inline", "near_address"]

_HEAD = struct.Struct("<4sI")
_ENTRY = struct.Struct("<IIQQ")   # kind, segment, offset, length
_MAGIC = b"MGCH"
_INLINE, _SHARED, _SEGMENT, _RELEASE = range(4)
STRANGERS, MEMBERS = (1, 512), (1 << 16, MAX_FRAME)  # frames of a message, bytes of one
_READ = 64 << 10
_IOV = 512
_WAIT = socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
_RIGHTS = socket.CMSG_SPACE(64)
Place = Callable[[Sequence[Frame], int], tuple[Frame, list[memoryview]] | None]


class ChannelError(Exception):
    """The other end is gone, or speaks something else."""


def near_address(host: str, port: int) -> str:
    """Where a process that listens at host:port can be reached from its own host.

    The name is abstract (no file), and known only within the same network namespace.
    """
    return f"\0minigluon-{host}-{port}"


def inline(frames: Sequence[Frame]) -> bytes:
    """The bytes of a message whose frames all travel inline."""
    entries = [_ENTRY.pack(_INLINE, 0, 0, len(frame)) for frame in frames]
    return b"".join([_HEAD.pack(_MAGIC, len(frames)), *entries, *frames])


def _advance(parts: list[memoryview], count: int) -> None:
    """So many bytes of these have been filled."""
    done = 0
    while count and count >= len(parts[done]):
        count -= len(parts[done])
        done += 1
    del parts[:done]
    if count:
        parts[0] = parts[0][count:]


class Channel:
    """One end.

    Args:
        sock: the connected socket.
        arena: memory that is shared with the other end; None: everything is copied.
        keeps: shared frames are kept until the other end releases them. Not needed where the
            sender knows by an answer that they are not read any more.
        place: given the frames of a message so far and the length of the next, a long one, tells
            what shall be taken for that and where its bytes go; None: to memory of its own.
    """

    def __init__(
        self, sock: socket.socket, arena: Arena | None, keeps: bool, place: Place | None = None
    ) -> None:
        sock.setblocking(True)  # each call says that it does not wait
        self.sock, self.arena, self.keeps, self.place = sock, arena, keeps, place
        self.lent: dict[int, Sequence[Frame]] = {}
        self._lock = threading.Lock()
        self._out: deque[tuple[memoryview, int]] = deque()  # and a descriptor to hand over, or -1
        self._full = False                # the system took no more of it
        self._told = 0                    # segments the other end has
        self._count = 0                   # messages with shared frames, sent
        self._maps: dict[int, memoryview] = {}
        self._files: deque[int] = deque()
        self._in = bytearray()
        self._table: list[tuple[int, int, int, int]] | None = None
        self._frames: list[Any] = []
        self._open_frame: tuple[Frame, list[memoryview]] | None = None  # and what is still empty
        self._taken = 0                   # messages with shared frames, received
        self.limits = MEMBERS             # of what is received

    # -- sending (any thread) -------------------------------------------------------------------

    def send(self, frames: Sequence[Frame]) -> bool:
        """Send, or keep for `flush`; whether something is left to be flushed."""
        with self._lock:
            entries: list[bytes] = []
            inline: list[Frame] = []
            shared = False
            for frame in frames:
                size = len(frame)
                place = None
                if self.arena is not None and size > PACKED // 2:
                    place = self.arena.find(frame)
                if place is None:
                    entries.append(_ENTRY.pack(_INLINE, 0, 0, size))
                    inline.append(frame)
                else:
                    shared = True
                    if place[0] >= self._told:
                        self._tell(place[0])
                    entries.append(_ENTRY.pack(_SHARED, place[0], place[1], size))
            if shared:
                self._count += 1
                if self.keeps:
                    self.lent[self._count] = frames
            head = _HEAD.pack(_MAGIC, len(entries)) + b"".join(entries)
            return self._write([head, *inline])

    def release(self, number: int) -> bool:
        """The frames of the other end's message number `number` are not needed any more."""
        with self._lock:
            entry = _ENTRY.pack(_RELEASE, 0, number, 0)
            return self._write([_HEAD.pack(_MAGIC, 1) + entry])

    def _tell(self, segment: int) -> None:
        """Hand over descriptors, before whatever refers to them: rare, once for each 16 MB."""
        assert self.arena is not None
        while self._told <= segment:
            huge, size = self.arena.huge[self._told], self.arena.sizes[self._told]
            entry = _ENTRY.pack(_SEGMENT, self._told, huge, size)
            head = memoryview(_HEAD.pack(_MAGIC, 1) + entry)
            self._out.append((head, self.arena.files[self._told]))
            self._told += 1

    def write(self, data: bytes) -> bool:
        """Send bytes of messages, or keep them for `flush`; as `send`."""
        with self._lock:
            return self._write([data])

    def directly(self, send: Callable[[], bytes | None]) -> bool | None:
        """Have somebody else send a message; None, and nothing done, if others are before it.

        Args:
            send: sends the message by itself; its result are bytes it could not send, or None.
        """
        with self._lock:
            if self._out:
                return None
            rest = send()
            return rest is not None and self._write([rest])

    def replace(self, memory: np.ndarray[Any, Any], copy: np.ndarray[Any, Any]) -> None:
        """What is still to be sent of some memory is sent from a copy: the memory may change."""
        start, end = address_of(memory), address_of(memory) + memory.nbytes
        raw = copy.reshape(-1).view(np.uint8).data
        with self._lock:
            for i, (view, file) in enumerate(self._out):
                at = address_of(np.frombuffer(view, np.uint8))
                if start <= at < end:
                    self._out[i] = raw[at - start : at - start + len(view)], file

    def _write(self, buffers: Sequence[Frame]) -> bool:
        self._out.extend((memoryview(b).cast("B"), -1) for b in buffers if len(b))
        return self._full or self._push()

    def flush(self) -> bool:
        """Send what is left; whether something still is."""
        with self._lock:
            return self._push()

    def _push(self) -> bool:
        self._full = False
        while self._out:
            views, rights = self._next()
            try:
                sent = self.sock.sendmsg(views, rights, socket.MSG_DONTWAIT)
            except (BlockingIOError, InterruptedError):
                self._full = True
                return True
            except OSError:
                self._out.clear()  # the end is seen where one reads
                return False
            self._pop(sent)
        return False

    def _next(self) -> tuple[list[memoryview], list[Any]]:
        """What goes out next, and the descriptor that rides along."""
        views: list[memoryview] = []
        for view, file in itertools.islice(self._out, _IOV):
            if file >= 0 and not views:
                given = array.array("i", [file])
                return [view], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, given)]
            if file >= 0:
                break
            views.append(view)
        return views, []

    def _pop(self, sent: int) -> None:
        while sent:
            first, _ = self._out[0]
            if sent < len(first):
                self._out[0] = first[sent:], -1  # a descriptor has gone with the first byte
                return
            sent -= len(first)
            self._out.popleft()

    @property
    def idle(self) -> bool:
        """Whether everything has been sent."""
        return not self._out

    # -- receiving (one thread) -----------------------------------------------------------------

    @property
    def clean(self) -> bool:
        """Whether the next byte to come begins a message."""
        return not self._in and self._table is None

    def feed(self, data: bytes) -> list[tuple[list[Any], int]]:
        """What `receive` finds in bytes that somebody else has read."""
        found: list[tuple[list[Any], int]] = []
        self._in += data
        self._parse(found)
        return found

    def receive(self) -> list[tuple[list[Any], int]]:
        """(frames, number) of the messages that are complete; number 0: nothing to release.

        ChannelError when the other end is gone or sends nonsense.
        """
        found: list[tuple[list[Any], int]] = []
        for _ in range(64):
            try:
                if self._open_frame is not None and self._open_frame[1]:
                    parts = self._open_frame[1]
                    got = self.sock.recvmsg_into(parts[:_IOV], 0, _WAIT)[0]
                    if not got:
                        raise ChannelError("connection lost")
                    _advance(parts, got)
                    data = b""
                else:
                    data, rights, _, _ = self.sock.recvmsg(_READ, _RIGHTS, _WAIT)
                    self._take(rights)
                    if not data:
                        raise ChannelError("connection lost")
            except (BlockingIOError, InterruptedError):
                break
            except OSError as error:
                raise ChannelError(f"connection lost ({error.strerror})") from None
            self._in += data
            self._parse(found)
            if data and len(data) < _READ:
                break  # most likely nothing more is there
        return found

    def _take(self, rights: Any) -> None:
        for level, kind, data in rights:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                files = array.array("i")
                files.frombytes(data[: len(data) - len(data) % files.itemsize])
                self._files.extend(files)

    def _parse(self, found: list[tuple[list[Any], int]]) -> None:
        at = 0
        view = memoryview(self._in)
        try:
            while True:
                if self._open_frame is not None:
                    if self._open_frame[1]:
                        return
                    self._frames.append(self._open_frame[0])
                    self._open_frame = None
                elif self._table is None:
                    if len(view) - at < _HEAD.size:
                        return
                    magic, count = _HEAD.unpack_from(view, at)
                    if magic != _MAGIC or count > self.limits[0]:
                        raise ChannelError(f"sent what is no message ({bytes(magic)!r})")
                    end = at + _HEAD.size + count * _ENTRY.size
                    if len(view) < end:
                        return
                    table = list(_ENTRY.iter_unpack(view[at + _HEAD.size : end]))
                    self._table, self._frames, at = table, [], end
                if len(self._frames) == len(self._table or ()):
                    self._finish(found)
                    continue
                assert self._table is not None
                kind, segment, offset, length = self._table[len(self._frames)]
                if kind != _INLINE:
                    self._frames.append(self._shared(kind, segment, offset, length))
                elif length > self.limits[1]:
                    raise ChannelError(f"announces a frame of {length} bytes")
                elif len(view) - at >= length:
                    self._frames.append(bytes(view[at : at + length]))
                    at += length
                else:
                    frame, parts = self._places(length)
                    rest = view[at:]
                    for part in parts:
                        size = min(len(part), len(rest))
                        part[:size], rest = rest[:size], rest[size:]
                    _advance(parts, len(view) - at)
                    at = len(view)
                    rest.release()
                    self._open_frame = frame, parts
                    return
        finally:
            view.release()
            del self._in[:at]

    def _places(self, length: int) -> tuple[Frame, list[memoryview]]:
        """A long frame, and the memory its bytes go to."""
        placed = self.place(self._frames, length) if self.place is not None else None
        if placed is not None:
            return placed
        frame = np.empty(length, np.uint8).data
        return frame, [frame]

    def _finish(self, found: list[tuple[list[Any], int]]) -> None:
        table, self._table = self._table or [], None
        kinds = {entry[0] for entry in table}
        if kinds & {_SEGMENT, _RELEASE}:
            return
        number = 0
        if _SHARED in kinds:
            self._taken += 1
            number = self._taken
        found.append((self._frames, number))
        self._frames = []

    def _shared(self, kind: int, segment: int, offset: int, length: int) -> Any:
        """What an entry that is no inline frame stands for."""
        if kind == _RELEASE:
            self.lent.pop(offset, None)
            return None
        if kind == _SEGMENT:
            if not self._files:
                raise ChannelError("hands over a segment without its descriptor")
            try:
                self._maps[segment] = map_segment(self._files.popleft(), length, bool(offset))
            except (MapError, OSError, OverflowError, ValueError) as error:
                raise ChannelError(f"sent what is no segment ({error})") from None
            return None
        if kind != _SHARED:
            raise ChannelError(f"sent an entry of unknown kind {kind}")
        mapped = self._maps.get(segment)
        if mapped is None or offset + length > len(mapped) or length > self.limits[1]:
            raise ChannelError(
                f"refers to {offset}+{length} of segment {segment}, which is not there")
        return mapped[offset : offset + length]

    def close(self) -> None:
        """Close the socket; what is mapped stays as long as somebody looks at it."""
        self.sock.close()
        for file in self._files:
            os.close(file)
        self._files.clear()
        self.lent.clear()
        self._maps.clear()
