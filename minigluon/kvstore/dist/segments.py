"""Memory that processes of one host share: anonymous files, handed over as open descriptors.

A segment never has a name (Linux' memfd), so nothing is left in /dev/shm, however a process ends.
The owner seals its size: a peer that maps it cannot be hurt by a file that shrinks. Peers map
read-only.
"""
from __future__ import annotations

import bisect
import contextlib
import fcntl
import mmap
import os
import threading
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from .pages import HUGE, PAGE, Mapped, address_of, libc, remap

__all__ = ["FIRST", "Arena", "MapError", "available", "map_segment", "passing", "segment_of"]

SEGMENT = 16 << 20
FIRST = 4 << 20      # the first one, of a process that may share no more than that
_STEP = 4 << 20      # huge pages are asked for in steps
_WORTH = 128 << 10   # bytes of an array whose pages are not kept
_SEALS = 0x0002 | 0x0004  # F_SEAL_SHRINK, F_SEAL_GROW
_ADD_SEALS, _GET_SEALS = 1033, 1034


class MapError(Exception):
    """A descriptor that is no segment."""


class _Peers(Mapped):
    """A peer's segment; its descriptor stays open as long: pages can be mapped elsewhere."""

    huge: bool


def available() -> bool:
    """Whether this system has what segments need."""
    return hasattr(os, "memfd_create")


class Arena:
    """This process' own segments, and arrays in them; any thread may ask for some.

    Memory is used again for arrays of about the same size (whole pages). Before more is taken, the
    pages of what lies idle are given back. All segments but the first have huge pages, if `large`
    is true and the system can: peers who read an array once do not keep such pages (`passing`).

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
        self.huge: list[bool] = []             # which of them have huge pages
        self.large = True
        self._maps: list[Mapped] = []
        self._starts: list[int] = []           # addresses, sorted
        self._by_start: list[int] = []         # segment numbers in that order
        self._free: dict[int, deque[memoryview]] = {}
        self._moved: dict[int, tuple[int, int, int]] = {}  # address: bytes, segment, offset
        self._moved_at: list[int] = []         # these addresses, sorted
        self._rest = memoryview(b"")
        self._large_to = 0                     # where memory begins that has no huge pages yet
        # not for `_back`: a forked child lets go of arrays, too
        self._lock = threading.RLock()

    def array(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
        """A new array with unset values; its memory comes back when nobody refers to it."""
        dtype = np.dtype(dtype)
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        room = max(1, -(-size // PAGE)) * PAGE
        with self._lock:
            try:
                block = self._free.setdefault(room, deque()).pop()
            except IndexError:
                block = self._block(room)
        root = np.ndarray((room,), np.uint8, block)  # every view's base, as it owns no memory
        weakref.finalize(root, self._back, room, block).atexit = False
        made: np.ndarray[Any, Any] = root[:size].view(dtype).reshape(shape)
        return made

    def _block(self, room: int) -> memoryview:
        if len(self._rest) < room:
            self.trim()
            if self._rest:
                libc().madvise(_address(self._rest), len(self._rest), mmap.MADV_REMOVE)
            self._rest = self._segment(max(room, SEGMENT if self.files else FIRST))
        block, self._rest = self._rest[:room], self._rest[room:]
        end = _address(block) + room
        if end > self._large_to:
            self._enlarge(self._maps[-1], end)
        return block

    def _enlarge(self, whole: Mapped, end: int) -> None:
        """Have huge pages at least to an address in the last segment; if there are none, never."""
        stop = whole.address + whole.length
        to = min(stop, max(-(-end // HUGE) * HUGE, self._large_to + _STEP))
        done = whole.enlarge(self._large_to, to)
        self.huge[-1], self._large_to = self.huge[-1] or done, to if done else stop

    def _back(self, room: int, block: memoryview) -> None:
        """Nobody refers to a block any more; one that lies in pieces is not used again."""
        start = _address(block)
        at = bisect.bisect_left(self._moved_at, start)
        for piece in self._moved_at[at : bisect.bisect_left(self._moved_at, start + room)]:
            if self._moved.get(piece, (room,))[0] != room:
                libc().madvise(start, room, mmap.MADV_REMOVE)
                return
        self._free[room].append(block)

    def trim(self) -> None:
        """Give back the pages of all blocks that nobody uses."""
        for blocks in list(self._free.values()):
            for _ in range(len(blocks)):
                try:
                    block = blocks.popleft()  # nobody else can take it meanwhile
                except IndexError:
                    break
                libc().madvise(_address(block), len(block), mmap.MADV_REMOVE)
                blocks.append(block)

    def exchange(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
        """Put a copy of an array's pages in their place, at the same address.

        A peer goes on reading the pages that were there; they lie in what is returned as long as
        that lives. None, and nothing done, where the array does not begin with a page of its own.
        """
        start, room = address_of(array), -(-array.nbytes // PAGE) * PAGE
        here = self.find(array.data.cast("B"))
        if here is None or start % PAGE:
            return None
        copy = self.array((room,), np.uint8)
        there = self.find(copy.data)
        assert there is not None
        copy[: array.nbytes] = array.reshape(-1).view(np.uint8)
        with self._lock:
            if not remap(start, room, self.files[there[0]], there[1], shared=True):
                return None
            self._note(start, room, there)
            if not remap(address_of(copy), room, self.files[here[0]], here[1], shared=True):
                raise MemoryError("shared memory: the system has no more mappings for this process")
            self._note(address_of(copy), room, here)
        return copy

    def part(self) -> None:
        """In a forked child: what it writes here is its own from now on."""
        for start, number in zip(self._starts, self._by_start, strict=True):
            remap(start, self.sizes[number], self.files[number], 0, shared=False)
        for start, (size, number, offset) in self._moved.items():
            remap(start, size, self.files[number], offset, shared=False)

    def _note(self, address: int, size: int, place: tuple[int, int]) -> None:
        end = address + size
        now = {address: (size, *place)}
        for start in self._moved_at[: bisect.bisect_left(self._moved_at, end)][::-1]:
            length, number, offset = self._moved[start]
            if start + length <= address:
                break
            if start < address:
                now[start] = (address - start, number, offset)
            if start + length > end:
                now[end] = (start + length - end, number, offset + end - start)
            del self._moved[start]
        self._moved |= now
        self._moved_at = sorted(self._moved)

    def _segment(self, size: int) -> memoryview:
        size = -(-size // HUGE) * HUGE
        file = os.memfd_create("minigluon", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(file, size)
        fcntl.fcntl(file, _ADD_SEALS, _SEALS)
        mapped = Mapped(file, size, mmap.PROT_READ | mmap.PROT_WRITE)
        at = bisect.bisect(self._starts, mapped.address)
        self._starts.insert(at, mapped.address)
        self._by_start.insert(at, len(self.files))
        self._maps.append(mapped)
        self.huge.append(False)
        self._large_to = mapped.address if self.large and self.files else mapped.address + size
        self.sizes.append(size)
        self.files.append(file)
        return mapped.data

    def find(self, frame: Any) -> tuple[int, int] | None:
        """(segment, offset) of memory that lies in one piece in a segment of this process."""
        if not self._starts:
            return None
        address = _address(frame)
        end = address + len(frame)
        with self._lock:
            at = bisect.bisect_left(self._moved_at, end) - 1
            if at >= 0:  # the last exchanged pages that begin before the end
                start = self._moved_at[at]
                size, number, offset = self._moved[start]
                if start <= address and end <= start + size:
                    return number, offset + address - start
                if address < start + size:
                    return None  # some of its pages lie elsewhere
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


def _address(frame: Any) -> int:
    return address_of(np.frombuffer(frame, np.uint8))


def _peers(array: np.ndarray[Any, Any]) -> _Peers | None:
    """The peer's segment in which an array lies."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    held = base.obj if isinstance(base, memoryview) else None
    return held if isinstance(held, _Peers) else None


def segment_of(array: np.ndarray[Any, Any]) -> tuple[int, int, int] | None:
    """(descriptor, offset, bytes from there) of an array that lies in a peer's segment."""
    held = _peers(array)
    if held is None:
        return None
    offset = address_of(array) - held.address
    return held.file, offset, held.length - offset


@contextlib.contextmanager
def passing(arrays: Iterable[np.ndarray[Any, Any]]) -> Iterator[None]:
    """Read arrays once: pages of peers' segments, which count as this process', do not stay mapped.

    Only those of segments with huge pages: to map others anew takes longer than to read them.
    """
    places = []
    for array in arrays:
        held = _peers(array) if array.nbytes >= _WORTH else None
        if held is not None and held.huge:
            start = address_of(array)
            places.append((start // PAGE * PAGE, start + array.nbytes))
    try:
        yield
    finally:
        for start, end in places:
            libc().madvise(start, end - start, mmap.MADV_DONTNEED)


def map_segment(file: int, size: int, huge: bool = False) -> memoryview:
    """A peer's segment, read-only; takes over `file`. MapError if it could shrink under us.

    Args:
        huge: its owner says that it has huge pages.
    """
    kept = False
    try:
        try:
            seals = fcntl.fcntl(file, _GET_SEALS)
        except OSError as error:
            raise MapError(f"no sealed memory: {error.strerror}") from None
        if seals & _SEALS != _SEALS or os.fstat(file).st_size != size or size <= 0:
            raise MapError(
                f"a segment of {os.fstat(file).st_size} bytes, seals {seals}, for {size}")
        mapped = _Peers(file, size, mmap.PROT_READ)
        mapped.huge = huge
        weakref.finalize(mapped, os.close, file).atexit = False
        kept = True
        return mapped.data
    finally:
        if not kept:
            os.close(file)
