"""Pages of memory: what is mapped where, and how much the system maps at once.

Python's `mmap` can neither choose an address nor speak about memory that it has not mapped itself.
"""
from __future__ import annotations

import ctypes
import functools
import mmap
from typing import Any

import numpy as np

__all__ = ["HUGE", "PAGE", "Mapped", "address_of", "libc", "remap"]

PAGE = 4096
HUGE = 2 << 20     # what one entry of a process' table of pages can stand for, if it is aligned
_FIXED = 0x10
_COLLAPSE = 25     # MADV_COLLAPSE, Linux 6.1; whatever the system's settings for huge pages say


def address_of(array: np.ndarray[Any, Any]) -> int:
    """Where an array begins."""
    return int(array.__array_interface__["data"][0])


@functools.cache
def libc() -> Any:
    """The C library's mmap and madvise."""
    found = ctypes.CDLL(None, use_errno=True)
    found.mmap.restype = ctypes.c_void_p
    found.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                           ctypes.c_int, ctypes.c_long]
    found.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return found


def remap(address: int, size: int, file: int, offset: int, shared: bool,
          reach: int = mmap.PROT_READ | mmap.PROT_WRITE) -> bool:
    """Put pages of a file in place of those at an address; not shared: a write makes a copy."""
    kind = mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE
    return bool(libc().mmap(address, size, reach, kind | _FIXED, file, offset) == address)


class Mapped(mmap.mmap):
    """A file, shared, at an address where huge pages can be mapped.

    What lies before it is memory without use: look at `data`.

    Args:
        file: its descriptor.
        length: its bytes.
        reach: PROT_READ, PROT_WRITE.
    """

    file: int
    length: int
    address: int

    def __new__(cls, file: int, length: int, reach: int) -> Mapped:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self = super().__new__(cls, -1, length + HUGE, flags=flags, prot=reach)
        self.file, self.length = file, length
        self.address = -(-address_of(np.frombuffer(self, np.uint8)) // HUGE) * HUGE
        if not remap(self.address, length, file, 0, True, reach):
            raise OSError(ctypes.get_errno(), "shared memory cannot be mapped")
        return self

    @property
    def data(self) -> memoryview:
        """The file's bytes."""
        before = self.address - address_of(np.frombuffer(self, np.uint8))
        return memoryview(self)[before : before + self.length]

    def enlarge(self, start: int, end: int) -> bool:
        """Have huge pages between two addresses where nothing is in use yet; whether there are.

        Better rarely and for much: before it answers, the system waits for every core.
        """
        data = self.data
        for at in range(start - self.address, end - self.address, HUGE):
            data[at] = 0  # of nothing at all it would make nothing
        return not libc().madvise(start, end - start, _COLLAPSE)
