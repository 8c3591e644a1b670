"""Objects between a process and its child: one socket pair, big buffers as anonymous memory.

A message is pickled with its buffers (arrays) apart. A small message goes through the socket. A
big one is written to a piece of memory without a name (memfd), whose descriptor goes through the
socket; the receiver maps it and uses the arrays where they lie, without copying. Nothing ever
stands in /dev/shm, so nothing is left there, however either side ends.
"""
from __future__ import annotations

import array
import ctypes
import io
import mmap
import os
import pickle
import socket
import struct
from typing import Any

import numpy as np

from ...context import cpu
from ...ndarray import NDArray

__all__ = ["Channel"]

_HEADER = struct.Struct("<QQ")  # bytes of the body; number of pieces, 0 for a body in the socket
_SMALL = 1024  # so that 64 waiting messages fit into any socket's buffer: a sender never blocks
_ALIGN = 64


class _Pickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        # the plain reduction copies and is not out of band
        if isinstance(obj, NDArray) and obj.stype == "default":
            host = obj._sync() if obj.context.device_type != "gpu" else obj.asnumpy()
            return _rebuild, (np.asarray(host, order="C"), type(obj) is NDArray)
        return NotImplemented


def _rebuild(host: np.ndarray[Any, Any], plain: bool) -> NDArray:
    array = NDArray(host, cpu(0))
    return array if plain else array.as_np_ndarray()


class Channel:
    """One end of a connection to another process of this machine.

    ``send`` and ``receive`` carry one object each; ``receive`` raises EOFError when the other
    side is gone.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    @classmethod
    def pair(cls) -> tuple[Channel, Channel]:
        """Two connected ends."""
        left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        return cls(left), cls(right)

    def fileno(self) -> int:
        """The descriptor, for polling."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close this end; the other side sees the end of the stream."""
        self._socket.close()

    def send(self, obj: Any) -> None:
        """Send one object; BrokenPipeError when the other side is gone."""
        buffers: list[pickle.PickleBuffer] = []
        stream = io.BytesIO()
        _Pickler(stream, protocol=5, buffer_callback=buffers.append).dump(obj)
        pieces = [stream.getbuffer(), *(buffer.raw() for buffer in buffers)]
        if len(pieces) == 1 and pieces[0].nbytes <= _SMALL:
            self._socket.sendall(_HEADER.pack(pieces[0].nbytes, 0) + bytes(pieces[0]))
            return
        fd, total = _store(pieces)
        try:
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
            self._socket.sendmsg([_HEADER.pack(total, len(pieces))], ancillary)
        finally:
            os.close(fd)

    def receive(self) -> Any:
        """The next object, waiting for it."""
        header, fds = self._header()
        total, pieces = _HEADER.unpack(header)
        if not pieces:
            return pickle.loads(self._exactly(total))
        try:
            memory = _open(fds[0], total)
        finally:
            os.close(fds[0])
        sizes = memory[: 8 * pieces].view(np.uint64).tolist()
        views, place = [], _aligned(8 * pieces)
        for size in sizes:
            views.append(memory[place: place + size])
            place += _aligned(size)
        return pickle.loads(views[0].data, buffers=views[1:])

    def _header(self) -> tuple[bytes, list[int]]:
        first, fds, _, _ = socket.recv_fds(self._socket, _HEADER.size, 1)
        if not first:
            raise EOFError("the other side closed the channel")
        return first + self._exactly(_HEADER.size - len(first)), fds

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self._socket.recv(count - len(data))
            if not part:
                raise EOFError("the other side closed the channel within a message")
            data += part
        return data


def _aligned(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


def _anonymous() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("minigluon-batch")
    import tempfile  # seldom needed, and slow to import

    with tempfile.TemporaryFile() as file:  # has no name either
        return os.dup(file.fileno())


def _store(pieces: list[memoryview]) -> tuple[int, int]:
    """Anonymous memory holding the sizes of `pieces` and the pieces, each aligned."""
    fd = _anonymous()
    try:
        sizes = memoryview(struct.pack(f"<{len(pieces)}Q", *(piece.nbytes for piece in pieces)))
        place = 0
        for piece in (sizes, *pieces):
            view, at = piece.cast("B"), place
            while view.nbytes:
                done = os.pwrite(fd, view, at)
                view, at = view[done:], at + done
            place += _aligned(piece.nbytes)
        os.ftruncate(fd, place)
    except BaseException:
        os.close(fd)
        raise
    return fd, place


def _open(fd: int, size: int) -> np.ndarray[Any, Any]:
    """The memory behind `fd` as bytes: mapped, or read where it cannot be mapped."""
    address = _libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, fd, 0)
    if address not in (None, _MAP_FAILED):
        return np.asarray(_Mapping(address, size))
    memory, done = np.empty(size, np.uint8), 0
    while done < size:
        part = os.preadv(fd, [memory[done:].data], done)
        if not part:
            raise EOFError("a batch is shorter than announced")
        done += part
    return memory


# mmap.mmap keeps a descriptor open for as long as the memory lives (before Python 3.13), so a
# program that keeps a thousand batches would run out of them; hence mmap(2) itself.
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                       ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_MAP_FAILED = ctypes.c_void_p(-1).value


class _Mapping:
    """Mapped memory as NumPy sees it; unmapped when the last array over it is gone."""

    def __init__(self, address: int, size: int) -> None:
        self._at = (address, size)
        self.__array_interface__ = {
            "data": (address, False), "shape": (size,), "typestr": "|u1", "version": 3,
        }

    def __del__(self, munmap: Any = _libc.munmap) -> None:
        munmap(*self._at)
