"""One part of one key as a server holds it: the value, its version, and the steps being gathered.

Merging is done when the last gradient is in, in one pass and in the order of ranks, whatever the
order of arrival. So the sum is the same to the last bit in every run.
"""
from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...ops.storage import RowSparse
from ..compression import Packed, merge
from .messages import Item
from .record import Record, field
from .rows import sum_of_rows
from .segments import passing

__all__ = ["INITIAL", "Regime", "Shard", "Step", "Want"]

Array = np.ndarray[Any, Any]
Piece = Array | Packed | RowSparse


class Regime(Record):
    """What a worker has set in a store by some time.

    Args:
        turn: how many optimizers it has set; 0: none.
        settings: what it has changed since.
    """

    turn: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)


INITIAL = Regime()


class Want(Record, frozen=False):
    """A request under way: how many of its items are not done yet, the values found so far, and
    the rows asked for, where it asks for rows.
    """

    uid: str
    rank: int
    seq: int
    open: int
    values: list[Item | None] | None = None
    rows: list[Array] | None = None


class Step(Record, frozen=False):
    """One step of one shard, while gradients come in.

    Args:
        began: when the first one came.
        pieces: the gradients, by rank.
        ranks: who has pushed, and under which regime.
        acks: the requests to tell when it is done.
    """

    began: float
    pieces: dict[int, Piece] = field(default_factory=dict)
    ranks: dict[int, Regime] = field(default_factory=dict)
    acks: list[tuple[Want, int]] = field(default_factory=list)
    warned: bool = False


def _wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type to sum in: half precision is summed in single."""
    return np.dtype(np.float32) if dtype == np.float16 else dtype


class Shard:
    """A part of a key: its value and everything that is open about it.

    Args:
        key: the key in words.
        item: place, shape and type, with the first value.
        store: number of the store it belongs to.
        workers: how many there are.
        sync: merge the pushes of all workers into one step, or apply each at once.
        allocate: makes the memory of values, from a shape and a type.
    """

    def __init__(
        self, key: int | str, item: Item, store: int, workers: int, sync: bool,
        allocate: Callable[..., Array] = np.empty,
    ) -> None:
        assert item.data is not None
        self.key, self.part, self.store, self.sync = key, item.part, store, sync
        self.place = item.holding(None)  # its memory is a whole frame
        self._allocate = allocate
        self.value = self.copied(item.data)
        self.version = 0
        self.pushed = [0] * workers
        self.seen = [0] * workers
        self.steps: dict[int, Step] = {}
        self.pulls: list[tuple[Want, int, int, float]] = []
        self.group: Shard | None = None     # what holds the value instead (groups.py)
        self.members: list[Shard] = []      # of a group: its shards
        self._lent: weakref.ref[Array] | None = None
        self._spare: Array | None = None

    def copied(self, value: Array) -> Array:
        """The same numbers in memory of the server's own."""
        made = self._allocate(value.shape, value.dtype)
        with passing([value]):
            np.copyto(made, value)
        return made

    @property
    def name(self) -> str:
        """The key for messages."""
        return f"{self.key}" if not self.part else f"{self.key} (part {self.part})"

    # -- the value ------------------------------------------------------------------------------

    def lend(self) -> Item:
        """The value for a reply, not copied; while it is lent, a later write goes elsewhere."""
        p, view = self.place, self.value
        if view.nbytes:
            root = self._lent() if self._lent is not None else None
            if root is None:
                # every view of it refers to it: views of an array refer to what owns the memory
                raw = view.reshape(-1).view(np.uint8).data.toreadonly()
                root = np.frombuffer(raw, np.uint8)
                self._lent = weakref.ref(root)
            view = root.view(view.dtype).reshape(view.shape)
        return Item(p.key, p.part, p.start, p.stop, p.dtype, p.shape, view)

    def lend_rows(self, rows: Array) -> Item:
        """Some rows of the value for a reply, as a copy."""
        p, data = self.place, self.value[rows]
        return Item(p.key, p.part, 0, data.size, p.dtype, data.shape, data)

    def writable(self) -> Array:
        """The value to be changed in place: a copy if somebody is still sending the old one."""
        if self._lent is not None and self._lent() is not None:
            self.value = self.copied(self.value)
        self._lent = None
        return self.value

    def forget(self) -> None:
        """The value is held elsewhere from now on."""
        self._lent = self._spare = None

    def replace(self, total: Array | RowSparse) -> None:
        """The value becomes `total`, whose memory is taken over where the type allows."""
        if isinstance(total, RowSparse):
            self.replace(total.dense(np))
            return
        if total.dtype == self.value.dtype:
            lent = self._lent is not None and self._lent() is not None
            self._spare = None if lent else self.value
            self._lent = None
            self.value = total
        else:
            np.copyto(self.writable(), total, casting="unsafe")

    # -- gathering ------------------------------------------------------------------------------

    def gather(self, rank: int, data: Piece, regime: Regime, now: float) -> Step:
        """Enter the next gradient of `rank`; the step it belongs to."""
        self.pushed[rank] += 1
        step = self.steps.get(self.pushed[rank])
        if step is None:
            step = self.steps[self.pushed[rank]] = Step(now)
        step.pieces[rank] = data
        step.ranks[rank] = regime
        return step

    def finish(self, step: Step) -> tuple[Array | RowSparse, Array | RowSparse]:
        """The sum of a complete step, in the type of accumulation and in that of the key.

        The version moves on.
        """
        self.version += 1
        del self.steps[self.version]
        total = self.sum([step.pieces[rank] for rank in sorted(step.pieces)])
        step.pieces.clear()
        return total, total.astype(self.value.dtype, copy=False)

    def sum(self, pieces: list[Piece]) -> Array | RowSparse:
        """The sum of gradients, in memory that is ours; of rows alone where all are rows."""
        sparse = [isinstance(piece, RowSparse) for piece in pieces]
        if all(sparse):
            return sum_of_rows(pieces, _wide(self.value.dtype))
        if any(sparse):
            pieces = [p.dense(np) if isinstance(p, RowSparse) else p for p in pieces]
        out, self._spare = self._spare, None
        if out is None:
            out = self._allocate(self.value.shape, _wide(self.value.dtype))
        with passing([p.data if isinstance(p, Packed) else p for p in pieces]):  # type: ignore[misc]
            return merge(pieces, out)  # type: ignore[arg-type]

    def keep(self, buffer: Array | RowSparse) -> None:
        """Memory that the next step may sum in."""
        if isinstance(buffer, RowSparse):
            return
        if self._spare is None and buffer.dtype == _wide(self.value.dtype):
            self._spare = buffer

    def missing(self, step: Step) -> tuple[int, ...]:
        """Ranks that have not pushed in this step."""
        return tuple(rank for rank in range(len(self.pushed)) if rank not in step.ranks)
