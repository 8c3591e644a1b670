"""Who may talk: both ends of a connection prove that they know the job token, by HMAC-SHA256.

Four frames of fixed size, looked at before anything else of a connection is::

    client  hello      32 random bytes
    server  challenge  32 random bytes
    client  proof      HMAC(token, "client", both)
    server  welcome    HMAC(token, "server", both)      or: refused, with the reason

Random numbers of both ends are in both proofs, so a recorded handshake is worth nothing. A peer
that does not even speak this protocol gets no answer and is counted.
"""
from __future__ import annotations

import hashlib
import hmac
import os
import struct
from collections import OrderedDict

from .record import Record, field
from .wire import VERSION

__all__ = ["ClientHandshake", "Gate"]

_FRAME = struct.Struct("<4sHc")
_MAGIC = b"MGAU"
_SIZE = 32
_ROOM = 256  # handshakes under way at a time; the oldest gives way


def _frame(kind: bytes, body: bytes) -> bytes:
    return _FRAME.pack(_MAGIC, VERSION, kind) + body


def _split(frame: bytes) -> tuple[int, bytes, bytes] | None:
    """(version, kind, body), or None if it is no frame of a handshake."""
    if not _FRAME.size <= len(frame) <= 512:
        return None
    magic, version, kind = _FRAME.unpack_from(frame)
    return (version, kind, frame[_FRAME.size :]) if magic == _MAGIC else None


def _prove(token: bytes, side: bytes, client: bytes, server: bytes) -> bytes:
    return hmac.new(token, b"minigluon " + side + client + server, hashlib.sha256).digest()


class ClientHandshake:
    """The end that dials.

    Args:
        token: the job token.

    >>> gate, client = Gate(b"secret"), ClientHandshake(b"secret")
    >>> challenge = gate.receive(b"id", client.hello())
    >>> welcome = gate.receive(b"id", client.receive(challenge))
    >>> client.receive(welcome), client.welcome, gate.admits(b"id")
    (None, True, True)
    """

    def __init__(self, token: bytes) -> None:
        self._token = token
        self._mine = os.urandom(_SIZE)
        self._theirs = b""
        self.welcome = False
        self.refused = ""

    def hello(self) -> bytes:
        """The first frame."""
        return _frame(b"H", self._mine)

    def receive(self, frame: bytes) -> bytes | None:
        """The answer to a frame of the server, if one is due; see `welcome` and `refused`."""
        parsed = _split(frame)
        if parsed is None:
            return None
        version, kind, body = parsed
        if kind == b"R":
            self.refused = body.decode("utf-8", "replace")
        elif version != VERSION:
            self.refused = f"it speaks protocol version {version}, this process {VERSION}"
        elif kind == b"C" and len(body) == _SIZE:
            self._theirs = body
            return _frame(b"P", _prove(self._token, b"client", self._mine, self._theirs))
        elif kind == b"W":
            expected = _prove(self._token, b"server", self._mine, self._theirs)
            if self._theirs and hmac.compare_digest(body, expected):
                self.welcome = True
            else:
                self.refused = "it does not know the job token (MINIGLUON_JOB_TOKEN)"
        return None


class Gate(Record, frozen=False):
    """The end that listens: which connections have proved themselves.

    Args:
        token: the job token.
        refused: how many frames were turned away.
    """

    token: bytes
    refused: int = 0
    _open: set[bytes] = field(default_factory=set)
    _pending: OrderedDict[bytes, tuple[bytes, bytes]] = field(default_factory=OrderedDict)

    def admits(self, identity: bytes) -> bool:
        """Whether the connection has proved itself."""
        return identity in self._open

    def forget(self, identity: bytes) -> None:
        """The connection is gone."""
        self._open.discard(identity)
        self._pending.pop(identity, None)

    def receive(self, identity: bytes, frame: bytes) -> bytes | None:
        """The answer to a frame of a connection that is not admitted, if it deserves one."""
        parsed = _split(frame)
        if parsed is None:
            self.refused += 1
            return None
        version, kind, body = parsed
        if version != VERSION:
            self.refused += 1
            return _frame(b"R", f"version {VERSION} is spoken here, not {version}".encode())
        if kind == b"H" and len(body) == _SIZE:
            mine = os.urandom(_SIZE)
            self._pending[identity] = (body, mine)
            if len(self._pending) > _ROOM:
                self._pending.popitem(last=False)
            return _frame(b"C", mine)
        if kind == b"P" and identity in self._pending:
            client, mine = self._pending.pop(identity)
            if hmac.compare_digest(body, _prove(self.token, b"client", client, mine)):
                self._open.add(identity)
                return _frame(b"W", _prove(self.token, b"server", client, mine))
            self.refused += 1
            return _frame(b"R", b"wrong job token: MINIGLUON_JOB_TOKEN must be the same everywhere")
        self.refused += 1
        return None
