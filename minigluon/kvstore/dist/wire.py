"""Messages to frames and back. Frame 0 is a header; the other frames are raw numbers, not copied.

Frame 0::

    header   magic, version, kind, role, rank, incarnation, seq, flags, items, frames, text length
    items    per item: key, part, type and codec, axes, frames, first frame, offset, bytes, start,
             stop, shape
    text     JSON of the fields that are neither `seq` nor items (never pickle)

Small arrays are packed into one shared frame, big ones have frames of up to 4 MB of their own.
Every count and length is compared with what is really there before memory is taken; whatever does
not fit raises `WireError` with the reason. Decoding takes no value from a frame on trust.
"""
from __future__ import annotations

import json
import math
import struct
import types
import typing
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, Union

import numpy as np

from ...base import KVStoreError
from ..compression import CODECS, packed_size
from . import messages as say
from .messages import Item, Message, Node, Role
from .record import Record

__all__ = ["FRAME", "MAX_FRAME", "SEQ_AT", "VERSION", "Envelope", "WireError", "answer_to",
           "decode", "encode"]

VERSION = 4              # raise it with every change of a message that old processes cannot read
FRAME = 4 << 20          # a raw frame is at most this long
MAX_FRAME = 16 << 20     # no frame of any kind may be longer (the transport refuses it unread)
PACKED = 32 << 10        # arrays below this share a frame
MAX_ITEMS = 1 << 20
ALIGN = 64

_MAGIC = b"MGLN"
_HEADER = struct.Struct("<4sHBBiIQIIII")
SEQ_AT = struct.calcsize("<4sHBBiI")  # where in frame 0 a request's number is
_KIND_AT = struct.calcsize("<4sH")
_ITEM = struct.Struct("<IIBBHIQQQQ")
_FLAG_PICKLED = 1
_NO_DATA = 0xFFFFFFFF
_CODEC_AT = 6  # the byte of the type holds the codec's number above this bit

_KINDS: dict[int, type[Message]] = {
    cls.kind: cls for cls in (*say.CONTROL_MESSAGES, *say.ARRAY_MESSAGES)
}
_WITH_ITEMS = frozenset(say.ARRAY_MESSAGES)
_DTYPES = (
    "float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool",
    "int16", "uint16", "uint32", "uint64",
)
_CODES = {name: code for code, name in enumerate(_DTYPES)}
_SIZES = [np.dtype(name).itemsize for name in _DTYPES]
_SHAPES = [struct.Struct(f"<{n}Q") for n in range(33)]

_TEXT_FIELDS: dict[int, tuple[str, ...]] = {
    kind: tuple(name for name in cls.fields if name not in ("seq", "items"))
    for kind, cls in _KINDS.items()
}

Frame = bytes | bytearray | memoryview
Allocate = Callable[..., np.ndarray[Any, Any]]


class WireError(KVStoreError):
    """Frames that are no message, with the reason."""


class Envelope(Record):
    """A message and who says to be its sender (`rank` -1: not known yet)."""

    sender: Node
    incarnation: int
    message: Message


_HINTS: dict[str, dict[str, Any]] = {}


def _hints(cls: type[Record]) -> dict[str, Any]:
    """What the fields of a message, or of a record in one, have to be."""
    name = cls.__name__
    if name not in _HINTS:
        _HINTS[name] = typing.get_type_hints(cls)
    return _HINTS[name]


# -- encoding -----------------------------------------------------------------------------------


def encode(
    message: Message, sender: Node, incarnation: int = 0, allocate: Allocate | None = None
) -> list[Frame]:
    """The frames of a message; small arrays are copied now, big ones are referred to.

    Args:
        allocate: makes the memory of the frame that small arrays share, where there are many.

    >>> envelope = decode(encode(say.Barrier(seq=7, number=2), Node(Role.WORKER, 1)))
    >>> envelope.message, str(envelope.sender)
    (Barrier(seq=7, number=2), 'worker 1')
    """
    items: tuple[Item, ...] = getattr(message, "items", ())
    table, body = _encode_items(items, allocate)
    text = _encode_text(message)
    flags = _FLAG_PICKLED if getattr(message, "pickled", "") else 0
    header = _HEADER.pack(
        _MAGIC, VERSION, message.kind, sender.role, sender.rank, incarnation, message.seq,
        flags, len(items), len(body), len(text),
    )
    return [b"".join((header, *table, text)), *body]


def _encode_items(
    items: Sequence[Item], allocate: Allocate | None
) -> tuple[list[bytes], list[Frame]]:
    """The table of the items and the frames their numbers are in."""
    room = sum(map(_room, items))
    packed: Frame = (
        allocate((room,), np.uint8).data if allocate is not None and room > PACKED
        else bytearray(room)
    )
    body: list[Frame] = [packed] if room else []
    table: list[bytes] = []
    offset = 0
    for item in items:
        data = item.data
        first, count, place, size = _NO_DATA, 0, 0, 0
        if data is not None:
            size = data.nbytes
            raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8).data
            if size <= PACKED:
                first, count, place = 0, 1 if size else 0, offset
                packed[offset : offset + size] = raw  # type: ignore[index]
                offset += _room(item)
            else:
                first = len(body)
                body.extend(raw[at : at + FRAME] for at in range(0, size, FRAME))
                count = len(body) - first
        table.append(
            _ITEM.pack(
                item.key, item.part, _CODES[item.dtype] | item.codec << _CODEC_AT,
                len(item.shape), count, first, place, size, item.start, item.stop,
            )
        )
        table.append(_SHAPES[len(item.shape)].pack(*item.shape))
    return table, body


def _room(item: Item) -> int:
    """Bytes of the packed frame that an item takes."""
    if item.data is None or item.data.nbytes > PACKED:
        return 0
    return -(-item.data.nbytes // ALIGN) * ALIGN


def _encode_text(message: Message) -> bytes:
    names = _TEXT_FIELDS[message.kind]
    if not names:
        return b""
    content = {name: _plain(getattr(message, name)) for name in names}
    return json.dumps(content, separators=(",", ":"), allow_nan=True).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Record):
        return [_plain(getattr(value, name)) for name in value.fields]
    return value


# -- decoding -----------------------------------------------------------------------------------


def answer_to(frame: Frame) -> int:
    """Which request the values are for that this header announces; 0 if it is another one."""
    kind = say.Values.kind
    if len(frame) < _HEADER.size or frame[:4] != _MAGIC or frame[_KIND_AT] != kind:
        return 0
    return int.from_bytes(frame[SEQ_AT : SEQ_AT + 8], "little")


def decode(frames: Sequence[Frame]) -> Envelope:
    """The message in the frames; arrays are read-only views of them. WireError if it is none."""
    if not frames:
        raise WireError("wire: empty message")
    head = bytes(frames[0])
    if len(head) < _HEADER.size:
        raise WireError(f"wire: a header of {len(head)} bytes, expected at least {_HEADER.size}")
    (magic, version, kind, role, rank, incarnation, seq, flags, count, body, text) = (
        _HEADER.unpack_from(head)
    )
    if magic != _MAGIC:
        raise WireError(f"wire: expected magic {_MAGIC!r}, got {magic!r}")
    if version != VERSION:
        raise WireError(f"wire: protocol version {version}, this process speaks {VERSION}")
    cls = _KINDS.get(kind)
    if cls is None:
        raise WireError(f"wire: unknown message kind {kind}")
    if role > Role.WORKER or not -1 <= rank < 1 << 20:
        raise WireError(f"wire: {cls.__name__} from unknown role {role}, rank {rank}")
    if body != len(frames) - 1:
        raise WireError(f"wire: {cls.__name__} announces {body} frames, got {len(frames) - 1}")
    if text > len(head) - _HEADER.size:
        raise WireError(f"wire: {cls.__name__} announces {text} bytes of text, has fewer")
    content: dict[str, Any] = {"seq": seq}
    end = len(head) - text
    if cls in _WITH_ITEMS:
        content["items"] = _decode_items(head, end, count, frames)
    elif count or body or end != _HEADER.size:
        raise WireError(f"wire: {cls.__name__} carries arrays")
    if text or _TEXT_FIELDS[kind]:
        content.update(_decode_text(cls, head[end:]))
    message = cls(**content)
    if bool(flags & _FLAG_PICKLED) != bool(getattr(message, "pickled", "")):
        raise WireError(f"wire: {cls.__name__} with a pickled class that is not flagged, or none")
    return Envelope(Node(Role(role), rank), incarnation, message)


def _decode_items(head: bytes, end: int, count: int, frames: Sequence[Frame]) -> tuple[Item, ...]:
    if count > MAX_ITEMS or count * _ITEM.size > end - _HEADER.size:
        raise WireError(f"wire: announces {count} items, the header has room for fewer")
    items: list[Item] = []
    at = _HEADER.size
    for _ in range(count):
        if at + _ITEM.size > end:
            raise WireError("wire: the table of items is cut off")
        key, part, code, axes, pieces, first, offset, size, start, stop = _ITEM.unpack_from(
            head, at
        )
        at += _ITEM.size
        codec, code = code >> _CODEC_AT, code & ((1 << _CODEC_AT) - 1)
        if code >= len(_DTYPES) or codec >= len(CODECS) or axes > 32 or at + 8 * axes > end:
            raise WireError(f"wire: item of type {code} with {axes} axes")
        shape = _SHAPES[axes].unpack_from(head, at)
        at += 8 * axes
        elements = math.prod(shape)
        if stop - start != elements:
            raise WireError(f"wire: elements {start}:{stop} in an item of shape {shape}")
        data = None
        if first != _NO_DATA:
            room = packed_size(codec, elements) if codec else elements * _SIZES[code]
            if size != room:
                raise WireError(f"wire: {size} bytes for shape {shape} of {_DTYPES[code]}")
            raw = _gather(frames, first, pieces, offset, size)
            data = _view(raw, "uint8", (room,)) if codec else _view(raw, _DTYPES[code], shape)
        elif size or pieces or offset:
            raise WireError("wire: item without numbers that gives their place")
        items.append(Item(key, part, start, stop, _DTYPES[code], shape, data, codec))
    if at != end:
        raise WireError(f"wire: {end - at} bytes after the table of items")
    return tuple(items)


def _view(raw: Frame, dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The bytes as a read-only array."""
    try:
        data = np.frombuffer(raw, dtype).reshape(shape) if len(raw) else np.empty(shape, dtype)
    except ValueError as error:  # an empty array with absurd axes
        raise WireError(f"wire: no array has shape {shape} ({error})") from None
    data.flags.writeable = False
    return data


def _gather(frames: Sequence[Frame], first: int, count: int, offset: int, size: int) -> Frame:
    """The bytes of one item: a view of one frame, or a copy of several in a row."""
    if size == 0 and count == 0:
        return b""
    own = frames[first + 1 : first + 1 + count]
    if count == 0 or len(own) != count:
        raise WireError(f"wire: item in frames {first}..{first + count}, got {len(frames) - 1}")
    if count == 1:
        view = memoryview(own[0]).cast("B")
        if offset + size > len(view):
            raise WireError(f"wire: item at {offset}+{size} in a frame of {len(view)} bytes")
        return view[offset : offset + size]
    lengths = [memoryview(frame).nbytes for frame in own]
    if offset or sum(lengths) != size:
        raise WireError(f"wire: item of {size} bytes in frames of {sum(lengths)}")
    return b"".join(own)


def _decode_text(cls: type[Message], text: bytes) -> dict[str, Any]:
    names = _TEXT_FIELDS[cls.kind]
    if not names:
        if text:
            raise WireError(f"wire: {cls.__name__} has no text, got {len(text)} bytes")
        return {}
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WireError(f"wire: {cls.__name__} with text that is not JSON ({error})") from None
    if not isinstance(content, dict) or set(content) != set(names):
        raise WireError(f"wire: {cls.__name__} needs the fields {names}")
    hints = _hints(cls)
    return {name: _typed(content[name], hints[name], f"{cls.__name__}.{name}") for name in names}


def _typed(value: Any, hint: Any, where: str) -> Any:
    """`value` from JSON as the annotation says, or WireError."""
    origin = typing.get_origin(hint)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        if isinstance(value, typing.get_args(hint)) and not isinstance(value, bool):
            return value
    elif origin is tuple and isinstance(value, list):
        inner = typing.get_args(hint)
        each = [inner[0]] * len(value) if inner[-1] is ... else list(inner)
        if len(each) == len(value):
            return tuple(_typed(one, h, where) for one, h in zip(value, each, strict=True))
    elif origin is dict and isinstance(value, dict):
        return value
    elif isinstance(hint, type) and issubclass(hint, Record) and isinstance(value, list):
        names = hint.fields
        if len(names) == len(value):
            hints = _hints(hint)
            return hint(*(_typed(v, hints[n], where) for n, v in zip(names, value, strict=True)))
    elif isinstance(hint, type) and issubclass(hint, IntEnum):
        if type(value) is int and value in list(hint):
            return hint(value)
    elif hint is float and type(value) in (int, float):
        return float(value)
    elif type(value) is hint:
        return value
    raise WireError(f"wire: {where}: expected {hint}, got {str(value)[:60]!r}")


def check_dtype(dtype: Any, what: str) -> str:
    """The name of a type that can travel; KVStoreError otherwise."""
    name = str(np.dtype(dtype).name)
    if name not in _CODES:
        raise KVStoreError(f"{what}: element type {name} cannot travel; known: {list(_DTYPES)}")
    return name
