"""Arrays of a script moved to where a round need not copy them.

What is pushed again and again is moved into memory that servers read (`Moved`); what is pulled
again and again is moved into pages that are exchanged for a server's when values come (`Shown`).
An array is moved only if nobody but its NDArray can see its memory, so nothing else changes.
"""
from __future__ import annotations

import mmap
import os
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...device.cpu.native import core
from ...ndarray import NDArray
from .pages import PAGE, address_of, libc, remap
from .segments import segment_of

__all__ = ["Landing", "Moved", "Release", "Shown", "movable", "trim"]

Array = np.ndarray[Any, Any]
Release = Callable[[], None]

_TRIES = 3               # how often arrays that did not stay are moved
_WORTH = 16 * PAGE       # below this a copy is cheaper than an exchange of pages
_POPULATE_WRITE = 23     # madvise: private copies of all pages, contents unchanged


def movable(array: NDArray) -> bool:
    """Whether only this NDArray sees its memory, which is plain, in one piece and not empty."""
    raw = array._data
    if type(raw) is not np.ndarray or not raw.flags.c_contiguous or not raw.flags.writeable:
        return False
    base = raw.base
    # the slot, `raw`, the argument; the base: its array, `base`, the argument
    if raw.nbytes == 0 or sys.getrefcount(raw) > 3:
        return False
    return base is None or (sys.getrefcount(base) <= 3 and getattr(base, "base", None) is None)


class Moved:
    """The arrays of one stretch of memory: whether they have been moved there, and still are.

    Args:
        indices: which arrays of a call lie here.
        sizes: the number of elements of each.
        dtype: their type.
        make: flat memory of a shape and a type.
    """

    def __init__(
        self, indices: Sequence[int], sizes: Sequence[int], dtype: str,
        make: Callable[..., Array] = np.empty,
    ) -> None:
        self.indices, self.sizes, self.dtype, self.make = indices, sizes, dtype, make
        self._memory: weakref.ref[Array] | None = None
        self._tries = 0
        self._raws: list[weakref.ref[Array]] = []
        self._seen: list[weakref.ref[NDArray]] = []

    def here(self, arrays: Sequence[NDArray]) -> bool:
        """Whether the arrays of a call are in their places; they are moved if that can be done."""
        mine = [arrays[index] for index in self.indices]
        if self._raws and all(
            ref() is one._data for ref, one in zip(self._raws, mine, strict=True)
        ):
            return True
        self._raws = []
        if self._tries >= _TRIES:
            return False
        stable = not self._tries or (
            len(self._seen) == len(mine)
            and all(ref() is one for ref, one in zip(self._seen, mine, strict=True)))
        self._seen = list(map(weakref.ref, mine))
        if not stable or len(set(map(id, mine))) != len(mine):
            return False
        self._tries += 1
        if not all(map(movable, mine)):
            return False
        self._move(mine)
        self._raws = [weakref.ref(one._data) for one in mine]
        return True

    def _move(self, mine: list[NDArray]) -> None:
        memory = self.make((sum(self.sizes),), self.dtype)
        before = self._settle(mine, memory)
        for one, raw in zip(mine, before, strict=True):
            np.copyto(one._data, raw)
        root = memory.base if type(memory.base) is np.ndarray else memory
        self._memory = weakref.ref(root)
        before.clear()
        trim()

    def _settle(self, mine: list[NDArray], memory: Array) -> list[Array]:
        """From now on the arrays lie in `memory`, still without their numbers; where these are."""
        before: list[Array] = []
        at = 0
        for one, size in zip(mine, self.sizes, strict=True):
            before.append(one._to_write())
            one._data = memory[at : at + size].reshape(before[-1].shape)
            at += size
        return before

    def flat(self, start: int, size: int) -> Array | None:
        """Elements of the memory; None when it is gone."""
        root = self._memory() if self._memory is not None else None
        if root is None:
            return None
        itemsize = np.dtype(self.dtype).itemsize
        found: Array = root.reshape(-1).view(np.uint8)[start * itemsize : (start + size) * itemsize]
        return found.view(self.dtype)


class Shown(Moved):
    """Arrays moved to a `Landing`.

    Args:
        returned: as for `Landing`.
    """

    def __init__(
        self, indices: Sequence[int], sizes: Sequence[int], dtype: str,
        returned: Callable[[Release], None],
    ) -> None:
        super().__init__(indices, sizes, dtype)
        self._returned = returned
        self.landing: Landing | None = None

    def _move(self, mine: list[NDArray]) -> None:
        # another landing each time: answers under way still go to the one before
        self.landing = Landing(self._returned)
        memory = self.landing.make(sum(self.sizes), self.dtype)
        self.landing.expect(self._settle(mine, memory))


def trim() -> None:
    """Give memory back that the process keeps idle for arrays to come."""
    if core is not None:
        limit = core.pool_stats()["limit"]
        core.pool_limit(0)
        core.pool_limit(limit)


class Landing:
    """Memory of this process in which a server's pages appear. Written pages become private copies.

    Args:
        returned: called with what is not needed any more when the memory goes (any thread).
    """

    def __init__(self, returned: Callable[[Release], None]) -> None:
        self._leases: dict[int, Release] = {}
        self._before: list[Array] = []     # what was there, until values have come
        self._missing: set[tuple[int, int]] = set()
        self._returned = returned
        self._root: weakref.ref[Array] | None = None
        self._address = self._size = self._used = 0

    def make(self, elements: int, dtype: str) -> Array:
        """The memory; it lives as long as somebody looks at it."""
        size = self._used = elements * np.dtype(dtype).itemsize
        self._size = -(-size // PAGE) * PAGE
        held = mmap.mmap(-1, self._size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        root = np.frombuffer(held, np.uint8)
        self._address = address_of(root)
        self._root = weakref.ref(root)
        weakref.finalize(root, _give_back, self._leases, self._returned).atexit = False
        _landings.add(self)
        made: Array = root[:size].view(dtype)
        return made

    def expect(self, before: list[Array]) -> None:
        """Arrays have moved here; their numbers follow only where no values come (`lost`)."""
        self._before = before

    def awaits(self, start: int, size: int) -> None:
        """Values for these bytes will come, or be lost."""
        if self._before:
            self._missing.add((start, size))

    def arrived(self, start: int, size: int) -> None:
        """They are here."""
        self._missing.discard((start, size))
        if not self._missing:
            self._before = []

    def lost(self, start: int, size: int) -> None:
        """They will not come: what was there before is there again."""
        root = self._root() if self._root is not None else None
        if root is not None and (start, size) in self._missing:
            at = 0
            for raw in self._before:
                first, last = max(at, start), min(at + raw.nbytes, start + size)
                if first < last:
                    old = raw.reshape(-1).view(np.uint8)
                    root[first:last] = old[first - at : last - at]
                at += raw.nbytes
        self.arrived(start, size)

    def take(self, start: int, values: Array, keep: Callable[[], Release]) -> bool:
        """Show `values` (of a server's segment) at byte `start`; False, and nothing done, if not.

        Args:
            keep: says that the segment's memory is used from now on; its result ends that.
        """
        root = self._root() if self._root is not None else None
        source = segment_of(values)
        if root is None or source is None or values.nbytes < _WORTH or start % PAGE:
            return False
        file, offset, room = source
        end = start + values.nbytes
        size = -(-values.nbytes // PAGE) * PAGE
        if offset % PAGE or size > room or not (end == self._used or end % PAGE == 0):
            return False
        with _forking:
            if not remap(self._address + start, size, file, offset, shared=False):
                return False
        before = self._leases.pop(start, None)
        self._leases[start] = keep()
        if before is not None:
            before()
        return True

    def part(self) -> None:
        """Have private copies of all pages: a forked child shall not see what comes later."""
        root = self._root() if self._root is not None else None
        if root is None or not self._leases:
            return
        if libc().madvise(self._address, self._size, _POPULATE_WRITE):  # before Linux 5.14
            pages = root[::PAGE]
            pages[...] = pages.copy()


def _give_back(leases: dict[int, Release], returned: Callable[[Release], None]) -> None:
    for release in leases.values():
        returned(release)
    leases.clear()


_landings: weakref.WeakSet[Landing] = weakref.WeakSet()
_forking = threading.Lock()  # held during a fork: no server's pages appear between `part` and it


def _before_fork() -> None:
    _forking.acquire()
    for landing in list(_landings):
        landing.part()


os.register_at_fork(before=_before_fork, after_in_parent=_forking.release,
                    after_in_child=_forking.release)
