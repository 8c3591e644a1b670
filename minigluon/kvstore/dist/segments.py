"""Memory that processes of one host share: anonymous files, handed over as open descriptors.

A segment never has a name (Linux' memfd), so nothing is left in /dev/shm, however a process ends. The
owner seals its size: a peer that maps it cannot be hurt by a file that shrinks. Peers map read-only.
"""
from __future__ import annotations

import bisect
import fcntl
import mmap
import os
import weakref
from collections import deque
from typing import Any

import numpy as np

__all__ = ["Arena", "MapError", "available", "map_segment"]

SEGMENT = 16 << 20
_PAGE = 4096
_SEALS = 0x0002 | 0x0004  # F_SEAL_SHRINK, F_SEAL_GROW
_ADD_SEALS, _GET_SEALS = 1033, 1034


class MapError(Exception):
    """A descriptor that is no segment."""


def available() -> bool:
    """Whether this system has what segments need."""
    return hasattr(os, "memfd_create")


class Arena:
    """This process' own segments, and arrays in them.

    Memory is used again for arrays of about the same size (whole pages), never given back: what is
    held is, size by size, the most that was in use at once.

    >>> arena = Arena()
    >>> array = arena.array((3, 5), "float32")
    >>> arena.find(array.data.cast("B"))
    (0, 0)
    >>> arena.find(np.zeros(3).data) is None
    True
    """

    def __init__(self) -> None:
        self.files: list[int] = []
        self.sizes: list[int] = []
        self._maps: list[mmap.mmap] = []
        self._starts: list[int] = []           # addresses, sorted
        self._by_start: list[int] = []         # segment numbers in that order
        self._free: dict[int, deque[memoryview]] = {}
        self._rest = memoryview(b"")

    def array(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
        """A new array with unset values; its memory comes back when nobody refers to it."""
        dtype = np.dtype(dtype)
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        room = max(1, -(-size // _PAGE)) * _PAGE
        free = self._free.setdefault(room, deque())
        try:
            block = free.pop()
        except IndexError:
            block = self._block(room)
        root = np.ndarray((room,), np.uint8, block)  # every view's base, as it owns no memory
        weakref.finalize(root, free.append, block).atexit = False
        made: np.ndarray[Any, Any] = root[:size].view(dtype).reshape(shape)
        return made

    def _block(self, room: int) -> memoryview:
        if len(self._rest) < room:
            self._rest = self._segment(max(room, SEGMENT))
        block, self._rest = self._rest[:room], self._rest[room:]
        return block

    def _segment(self, size: int) -> memoryview:
        file = os.memfd_create("minigluon", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(file, size)
        fcntl.fcntl(file, _ADD_SEALS, _SEALS)
        mapped = mmap.mmap(file, size)
        start = np.frombuffer(mapped, np.uint8).__array_interface__["data"][0]
        at = bisect.bisect(self._starts, start)
        self._starts.insert(at, start)
        self._by_start.insert(at, len(self.files))
        self._maps.append(mapped)
        self.sizes.append(size)
        self.files.append(file)
        return memoryview(mapped)

    def find(self, frame: Any) -> tuple[int, int] | None:
        """(segment, offset) of memory that lies in a segment of this process."""
        if not self._starts:
            return None
        address = np.frombuffer(frame, np.uint8).__array_interface__["data"][0]
        at = bisect.bisect(self._starts, address) - 1
        if at < 0:
            return None
        number = self._by_start[at]
        offset = address - self._starts[at]
        return (number, offset) if offset + len(frame) <= self.sizes[number] else None

    def close(self) -> None:
        """Close the descriptors; memory goes when the last mapping does."""
        for file in self.files:
            os.close(file)
        self.files.clear()


def map_segment(file: int, size: int) -> memoryview:
    """A peer's segment, read-only; closes `file`. MapError if it could shrink under us."""
    try:
        try:
            seals = fcntl.fcntl(file, _GET_SEALS)
        except OSError as error:
            raise MapError(f"no sealed memory: {error.strerror}") from None
        if seals & _SEALS != _SEALS or os.fstat(file).st_size != size or size <= 0:
            raise MapError(f"a segment of {os.fstat(file).st_size} bytes, seals {seals}, for {size}")
        return memoryview(mmap.mmap(file, size, prot=mmap.PROT_READ))
    finally:
        os.close(file)
