"""The classes of arrays: by how an array is stored, and NumPy's.

What calls operators makes arrays without naming their classes: those call it.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import tape
from ..base import ArgumentValueError
from ..context import Context
from ..device import device_of
from ..device.cpu import native
from ..device.engine import Var
from ..npmode import is_np_array, load_room
from ..ops.storage import STORED

__all__ = ["ArrayBase", "enter_class", "enter_numpy_class", "follow", "known", "numpy_class",
           "shown", "sparse_class", "wrap"]


class _PlainBase:
    """What an NDArray is made of; the core's ArrayBase is the same, with a short path."""

    __slots__ = ("__weakref__", "_ag", "_ctx", "_data", "_var")

    def __init__(self, data: Any, ctx: Context) -> None:
        self._data = data
        self._ctx = ctx
        self._var: Var | None = None
        self._ag: tape.Leaf | tape.Output | None = None


ArrayBase: Any = native.core.ArrayBase if native.enabled else _PlainBase


class _Known:
    """The classes, once their rooms are loaded; until then nobody has such arrays."""

    __slots__ = ("binary", "numpy", "plain", "sparse")

    def __init__(self) -> None:
        self.plain: Any = None           # NDArray
        self.sparse: dict[str, Any] = {}  # by storage type
        self.numpy: Any = None           # np.ndarray, and what Python's operators do with it
        self.binary: Any = None


known = _Known()


def enter_class(stype: str, cls: Any) -> None:
    """Make the class known that wraps raw arrays of a storage type."""
    if stype == "default":
        known.plain = cls
    else:
        known.sparse[stype] = cls


def sparse_class(stype: str) -> Any:
    """The class of NDArrays of a sparse storage type."""
    try:
        return known.sparse[stype]
    except KeyError:
        raise ArgumentValueError(f"storage type: expected 'default', 'row_sparse' or 'csr', "
                                 f"got {stype!r}") from None


def enter_numpy_class(cls: Any, binary: Any) -> None:
    """Make the class known whose arrays follow NumPy.

    What is computed of such arrays is of that class, too. ``binary(word, lhs, rhs)`` is what
    Python's operators do where one of both is.
    """
    known.numpy, known.binary = cls, binary
    if native.enabled:
        native.core.numpy_class(cls)


def numpy_class() -> Any:
    """The class ``np.ndarray``; its room is loaded if need be."""
    if known.numpy is None:
        load_room()
    return known.numpy


def shown(x: Any) -> Any:
    """`x`, turned into the class that blocks and data loaders show now (``npx.set_np``)."""
    if type(x) is known.plain and is_np_array():
        x.__class__ = numpy_class()
    return x


def follow(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    """Results of NumPy arrays are NumPy arrays."""
    if any([type(x) is known.numpy for x in inputs]):
        for x in outputs:
            if type(x) is known.plain:
                x.__class__ = known.numpy


def wrap(raw: Any, ctx: Context) -> Any:
    """An array of the class that fits how `raw` is stored."""
    if type(raw) in STORED:
        if raw.stype == "default":
            return known.plain(raw.dense(device_of(ctx).xp), ctx)
        return sparse_class(raw.stype)(raw, ctx)
    return known.plain(raw, ctx)
