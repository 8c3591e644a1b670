"""Arrays in files: MXNet's binary ``.params`` format, written and read.

The layout (little endian), as MXNet's ``src/ndarray/ndarray.cc`` reads and writes it::

    u64 0x112, u64 0, u64 number of arrays, the arrays, u64 number of names, the names
    name:   u64 length, UTF-8 bytes
    array:  u32 0xF993FAC9, i32 storage type (0 dense, 1 row_sparse, 2 csr),
            where it is sparse: u32 rank, i64 sizes of the values,
            u32 rank, i64 sizes, i32 device type, i32 device number, i32 element type,
            where it is sparse, for each of its index arrays (row_sparse: indices; csr: indptr,
            indices): i32 element type, u32 rank, i64 sizes,
            the values, the index arrays
    under NumPy's shapes (``npx.set_np``): u32 0xF993FACA, and sizes may be 0, the rank, too
    before: u32 0xF993FAC8, u32 rank, i64 sizes, ...           (version 1)
            u32 rank, u32 sizes, ...                           (before 1.0)

A file appears under its name only when it is complete and on the disk.
"""
from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np

from ..base import ArgumentError, ArgumentValueError, DTypeError, MXNetError, NotForThisError
from ..context import Context, cpu
from ..device import device_of, num_gpus
from ..files import read_file, replacing
from ..npmode import is_np_shape
from ..ops.storage import Csr, RowSparse, Stored
from .kinds import wrap
from .ndarray import NDArray

__all__ = ["load", "load_frombuffer", "save"]

_LIST_MAGIC = 0x112
_V1, _V2, _V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
_DTYPES = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool")
_FLAGS = {name: flag for flag, name in enumerate(_DTYPES)}
_SPARSE = {"row_sparse": 1, "csr": 2}
_MAX_RANK = 32

Arrays = NDArray | Sequence[NDArray] | Mapping[str, NDArray]


def save(fname: str, data: Arrays) -> None:
    """Write arrays to a file that MXNet and minigluon read.

    Args:
        fname: path of the file; it is replaced as a whole or not at all.
        data: one array, a list of arrays, or a dict from names to arrays.

    >>> import tempfile, minigluon as mx
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mx.nd.save(folder + "/two.params", {"a b": mx.nd.ones((2,)), "c": mx.nd.zeros((1, 3))})
    ...     {name: x.shape for name, x in mx.nd.load(folder + "/two.params").items()}
    {'a b': (2,), 'c': (1, 3)}
    """
    names, arrays = _named(data)
    with replacing(_local(fname), "nd.save") as file:
        _write(file, names, arrays)


def load(fname: str) -> list[NDArray] | dict[str, NDArray]:
    """The arrays of a file: a dict where they have names, else a list.

    Raises:
        FileError: no such file, or it cannot be read.
        MXNetError: not such a file, or one that is cut short.
    """
    content = read_file(_local(fname), "nd.load")
    return _Reader(content, f"nd.load: {fname}").arrays()


def load_frombuffer(buf: bytes) -> list[NDArray] | dict[str, NDArray]:
    """The arrays of a file's content that is already in memory, as `load` gives them."""
    if not isinstance(buf, (bytes, bytearray, memoryview)):
        raise ArgumentError(f"nd.load_frombuffer: expected bytes, got {type(buf).__name__}")
    return _Reader(buf, "nd.load_frombuffer").arrays()


def _local(fname: Any) -> str:
    if not isinstance(fname, (str, os.PathLike)):
        raise ArgumentError(f"file name: expected a string, got {fname!r}")
    path = os.fspath(fname)
    if "://" in path:
        scheme, _, rest = path.partition("://")
        if scheme != "file":
            raise NotForThisError(f"{path}: files over {scheme}:// are not built yet; use a path")
        return rest
    return path


# -- writing ------------------------------------------------------------------------------------


def _named(data: Any) -> tuple[list[str], list[NDArray]]:
    if isinstance(data, NDArray):
        return [], [data]
    if isinstance(data, Mapping):
        names, arrays = list(data), list(data.values())
    elif isinstance(data, (list, tuple)):
        names, arrays = [], list(data)
    else:
        raise ArgumentValueError(
            f"nd.save: expected an NDArray, a list of them, or a dict from names to them, "
            f"got {type(data).__name__}"
        )
    for value in arrays:
        if not isinstance(value, NDArray):
            raise ArgumentError(f"nd.save: expected NDArrays, found {type(value).__name__}")
    for name in names:
        if not isinstance(name, str):
            raise ArgumentError(f"nd.save: names must be strings, found {name!r}")
    return names, arrays


def _write(file: BinaryIO, names: list[str], arrays: list[NDArray]) -> None:
    file.write(struct.pack("<QQQ", _LIST_MAGIC, 0, len(arrays)))
    for array in arrays:
        if array.stype != "default":
            _write_sparse(file, array)
            continue
        host = np.asarray(array.asnumpy(), order="C")
        flag = _flag(host)
        magic = _V3 if is_np_shape() else _V2  # MXNet reads no others under NumPy's shapes
        if host.size == 0 or host.ndim == 0:  # what only the third version can say
            if type(array) is NDArray and not is_np_shape():
                raise MXNetError(f"nd.save: an array of shape {host.shape} can be written only "
                                 "under np_shape semantics (npx.set_np)")
            magic = _V3
        ctx = array.context
        file.write(struct.pack("<Ii", magic, 0) + _sizes(host.shape))
        file.write(struct.pack("<iii", ctx.device_typeid, ctx.device_id, flag))
        file.write(host.astype(host.dtype.newbyteorder("<"), copy=False).tobytes())
    file.write(struct.pack("<Q", len(names)))
    for name in names:
        text = name.encode()
        file.write(struct.pack("<Q", len(text)))
        file.write(text)


def _write_sparse(file: BinaryIO, array: NDArray) -> None:
    raw = array._sync().each(device_of(array.context).to_host)
    index = [raw.indices] if raw.stype == "row_sparse" else [raw.indptr, raw.indices]
    ctx = array.context
    file.write(struct.pack("<Ii", _V2, _SPARSE[raw.stype]))
    file.write(_sizes(raw.data.shape) + _sizes(raw.shape))
    file.write(struct.pack("<iii", ctx.device_typeid, ctx.device_id, _flag(raw.data)))
    for part in index:
        file.write(struct.pack("<i", _flag(part)) + _sizes(part.shape))
    for part in (raw.data, *index):
        file.write(np.ascontiguousarray(part, part.dtype.newbyteorder("<")).data)


def _sizes(shape: Sequence[int]) -> bytes:
    return struct.pack(f"<I{len(shape)}q", len(shape), *shape)


def _flag(host: Any) -> int:
    flag = _FLAGS.get(host.dtype.name)
    if flag is None:
        raise DTypeError(f"nd.save: the format has no element type {host.dtype}; "
                         f"cast to one of {', '.join(_DTYPES)}")
    return flag


# -- reading ------------------------------------------------------------------------------------


class _Reader:
    """Takes a file's content apart; checks every length before it takes memory for it."""

    def __init__(self, content: bytes | bytearray | memoryview, source: str) -> None:
        self.content = memoryview(content).cast("B")
        self.place = 0
        self.source = source

    def arrays(self) -> list[NDArray] | dict[str, NDArray]:
        magic, _, count = self.unpack("QQQ")
        if magic != _LIST_MAGIC:
            raise MXNetError(f"{self.source}: not a file of arrays (it begins with {magic:#x}, "
                             f"expected {_LIST_MAGIC:#x})")
        arrays = [self.array(place) for place in range(self.sane(count, 4))]
        (named,) = self.unpack("Q")
        if named not in (0, count):
            raise MXNetError(f"{self.source}: {count} arrays but {named} names; "
                             "the file is damaged")
        if not named:
            return arrays
        return dict(zip([self.text() for _ in range(named)], arrays, strict=True))

    def take(self, size: int) -> memoryview:
        left = len(self.content) - self.place
        if size > left:
            raise MXNetError(f"{self.source}: the file is cut short: {size} more bytes expected "
                             f"at byte {self.place}, {left} are there")
        self.place += size
        return self.content[self.place - size:self.place]

    def sane(self, count: int, smallest: int) -> int:
        """`count` things of at least `smallest` bytes must fit into what is left."""
        left = len(self.content) - self.place
        if count * smallest > left:
            raise MXNetError(f"{self.source}: the file is cut short: {count} entries promised, "
                             f"{left} bytes are there")
        return count

    def unpack(self, form: str) -> tuple[int, ...]:
        form = "<" + form
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def text(self) -> str:
        (size,) = self.unpack("Q")
        try:
            return bytes(self.take(size)).decode()
        except UnicodeDecodeError as error:
            raise MXNetError(f"{self.source}: a name is not UTF-8; the file is damaged") from error

    def shape(self, magic: int) -> tuple[int, ...]:
        """Rank and sizes, in whichever of the format's three versions they are written."""
        rank, unit = (self.unpack("I")[0], "q") if magic in (_V1, _V2, _V3) else (magic, "I")
        if rank > _MAX_RANK:
            raise MXNetError(f"{self.source}: not an array at byte {self.place} (rank {rank})")
        return self.unpack(f"{rank}{unit}")

    def array(self, place: int) -> NDArray:
        (magic,) = self.unpack("I")
        storage = self.unpack("i")[0] if magic in (_V2, _V3) else 0
        if storage:
            return self.sparse(place, storage)
        shape = self.shape(magic)
        if any(size < 0 for size in shape) if magic == _V3 else (
                not shape or any(size < 1 for size in shape)):
            raise MXNetError(f"{self.source}: array {place} has shape {shape}; an array without "
                             "values cannot be loaded")
        if not is_np_shape() and (not shape or 0 in shape):
            raise MXNetError(f"{self.source}: array {place} of shape {shape} was saved under "
                             "np_shape semantics, and is loaded under them: with mx.np_shape():")
        kind, number, flag = self.unpack("iii")
        dtype = self.dtype(flag, place)
        ctx = _home(kind, number)
        return NDArray(device_of(ctx).array(self.values(shape, dtype), dtype), ctx)

    def dtype(self, flag: int, place: int) -> np.dtype[Any]:
        if not 0 <= flag < len(_DTYPES):
            raise MXNetError(f"{self.source}: array {place} has unknown element type {flag}")
        return np.dtype(_DTYPES[flag])

    def values(self, shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        count = 1
        for size in shape:
            count *= size
        raw = np.frombuffer(self.take(count * dtype.itemsize), dtype.newbyteorder("<"))
        return raw.reshape(shape)

    def sparse(self, place: int, storage: int) -> NDArray:
        if storage not in _SPARSE.values():
            raise MXNetError(f"{self.source}: array {place} has unknown storage type {storage}")
        self.shape(_V2)  # of the values: MXNet may write it before it knows it
        shape = self.shape(_V2)
        kind, number, flag = self.unpack("iii")
        index = []
        for _ in range(storage):  # row_sparse has one index array, csr two
            index.append((self.dtype(*self.unpack("i"), place), self.shape(_V2)))
        if not shape or any(len(sizes) != 1 for _, sizes in index) or any(
                size < 0 for one in (shape, *(sizes for _, sizes in index)) for size in one):
            raise MXNetError(f"{self.source}: array {place} has sizes {shape}, {index}; the file "
                             "is damaged")
        kept = (index[-1][1][0], *(shape[1:] if storage == 1 else ()))
        data = self.values(kept, self.dtype(flag, place))
        first, *rest = [self.values(sizes, dtype).astype(np.int64) for dtype, sizes in index]
        raw: Stored = Csr(shape, data, rest[0], first) if rest else RowSparse(shape, first, data)
        raw.check(full=True)  # type: ignore[attr-defined]
        ctx = _home(kind, number)
        native = raw.astype(data.dtype.newbyteorder("="))
        return wrap(native.each(device_of(ctx).array), ctx)


def _home(kind: int, number: int) -> Context:
    """Where a saved array goes: back to its GPU if that is there, else to cpu(0)."""
    if Context.devtype2str.get(kind) == "gpu" and number < num_gpus():
        return Context("gpu", number)
    return cpu()
