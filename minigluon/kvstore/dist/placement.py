"""Which server holds which part of which key. Decided once, by the scheduler, for all workers.

A key with at least `bound` elements is cut over all servers, into parts of at most 4 MB so that
sending, merging and updating overlap; a smaller one, or one that has to stay whole, goes to the
server that holds the fewest bytes. Cuts run along axis 0, so a part of shape (1000, 64) has shape
(n, 64): every rule that treats elements alike sees rows of the original. Only where axis 0 is too
short is the array cut flat.
"""
from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from .messages import Item, KeySpec, Placement
from .pages import PAGE

__all__ = ["PART_BYTES", "Placer", "part_shape", "parts"]

PART_BYTES = 2 << 20


def _cuts(length: int, pieces: int) -> list[int]:
    return [length * i // pieces for i in range(pieces + 1)]


def cut(shape: tuple[int, ...], itemsize: int, servers: int) -> tuple[int, ...]:
    """The bounds of the parts of a big array, in elements of the flat array.

    >>> cut((1000, 1000), 4, 2)
    (0, 500000, 1000000)
    >>> cut((2, 600000), 4, 4)
    (0, 300000, 600000, 900000, 1200000)
    """
    size = math.prod(shape)
    pieces = max(servers, -(-size * itemsize // PART_BYTES))
    pieces = -(-pieces // servers) * servers  # as many on each server
    row = size // shape[0] if shape and shape[0] else 1
    if not shape or shape[0] < pieces:
        return tuple(_cuts(size, pieces))
    # where rows are many, parts begin with a page: pages of values can be exchanged (moving.py)
    rows = PAGE // math.gcd(row * itemsize, PAGE)
    units = -(-shape[0] // rows)
    most = PART_BYTES // (rows * row * itemsize)
    aligned = -(-max(servers, -(-units // max(1, most))) // servers) * servers
    if most and units >= 8 * aligned:
        return tuple(min(size, rows * row * at) for at in _cuts(units, aligned))
    return tuple(row * at for at in _cuts(shape[0], pieces))


def part_shape(placement: Placement, part: int) -> tuple[int, ...]:
    """The shape of one part: rows of the original, or a flat piece.

    >>> part_shape(Placement("w", 0, (4, 5), "float32", (0, 10, 20), (0, 1)), 1)
    (2, 5)
    """
    shape, bounds = placement.shape, placement.bounds
    if len(placement.servers) == 1:
        return shape
    size = math.prod(shape)
    row = size // shape[0] if shape and shape[0] else 1
    if row and all(bound % row == 0 for bound in bounds):
        return ((bounds[part + 1] - bounds[part]) // row, *shape[1:])
    return (bounds[part + 1] - bounds[part],)


def parts(placement: Placement) -> Iterator[tuple[int, Item]]:
    """(server, item without numbers) for each part of a key."""
    for part, server in enumerate(placement.servers):
        yield server, Item(
            placement.ident, part, placement.bounds[part], placement.bounds[part + 1],
            placement.dtype, part_shape(placement, part),
        )


class Placer:
    """Hands out places, keeping the load of the servers even.

    Args:
        servers: how many there are.
        bound: number of elements from which a key is cut.
        slice: if not 0, every key is cut into slices of so many elements at most (P3).

    >>> placer = Placer(2, bound=100)
    >>> spec = KeySpec("w", (10, 10), "float32")
    >>> placer.place(spec, whole=False).servers, placer.place(spec, whole=True).servers
    ((0, 1), (0,))
    >>> placer.place(KeySpec("b", (3,), "float32"), whole=False).servers
    (1,)
    """

    def __init__(self, servers: int, bound: int, slice: int = 0) -> None:
        self.servers, self.bound, self.slice = servers, bound, slice
        self.load = [0] * servers
        self.count = 0

    def place(self, spec: KeySpec, whole: bool) -> Placement:
        """A number, bounds and servers for a new key."""
        size = math.prod(spec.shape)
        itemsize = np.dtype(spec.dtype).itemsize
        bounds: tuple[int, ...] = (0, size)
        if self.slice and not whole and size > self.slice:
            bounds = (*range(0, size, self.slice), size)
        elif not whole and self.servers > 1 and size >= self.bound:
            bounds = cut(spec.shape, itemsize, self.servers)
        elif not whole and size >= self.bound and size * itemsize > PART_BYTES:
            bounds = cut(spec.shape, itemsize, 1)
        if len(bounds) == 2:
            servers = [self.load.index(min(self.load))]
        else:
            pieces = len(bounds) - 1
            if self.slice:  # from another server each time, or the same one gets all last slices
                servers = [(self.count + part) % self.servers for part in range(pieces)]
            else:  # neighbours together: a server's share is one stretch
                servers = [part * self.servers // pieces for part in range(pieces)]
        for part, server in enumerate(servers):
            self.load[server] += (bounds[part + 1] - bounds[part]) * itemsize
        ident = self.count
        self.count += 1
        return Placement(spec.key, ident, spec.shape, spec.dtype, bounds, tuple(servers))
