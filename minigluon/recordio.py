"""RecordIO files: many byte strings in one file, read in order or by number; images in them.

A record is the number 0xced7230a, a word with the length in its lower 29 bits, the content, and
zeros up to a multiple of four bytes. Where the content itself has that number at a multiple of
four, the record is cut there into parts (upper 3 bits: 1 first, 2 middle, 3 last, 0 whole) and the
number left out, so that a reader set down anywhere in the file finds the next record by it. Files
are the same, byte for byte, as MXNet's.
"""
from __future__ import annotations

import os
import struct
import threading
from collections import namedtuple
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np

from . import codec
from .base import ArgumentError, ArgumentValueError, MXNetError

__all__ = [
    "IRHeader", "MXIndexedRecordIO", "MXRecordIO", "Records", "pack", "pack_img", "unpack",
    "unpack_img",
]

_MAGIC = 0xCED7230A
_MAGIC_BYTES = struct.pack("<I", _MAGIC)
_WORDS = struct.Struct("<II")
_LENGTH = (1 << 29) - 1
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)


class MXRecordIO:
    """A RecordIO file, read or written in order.

    Args:
        uri: path of the file.
        flag: 'r' to read, 'w' to write anew.

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "some.rec")
    >>> record = MXRecordIO(path, "w")
    >>> for word in (b"one", b"two"):
    ...     record.write(word)
    >>> record.close()
    >>> record = MXRecordIO(path, "r")
    >>> record.read(), record.read(), record.read()
    (b'one', b'two', None)
    """

    _file: BinaryIO | None = None

    def __init__(self, uri: str | os.PathLike[str], flag: str) -> None:
        if flag not in ("r", "w"):
            raise ArgumentValueError(f"{type(self).__name__}: flag: expected 'r' or 'w', "
                                     f"got {flag!r}")
        self.uri = os.fspath(uri)
        self.flag = flag
        self.open()

    def open(self) -> None:
        """Open the file; one opened for writing begins empty."""
        self.writable = self.flag == "w"
        try:
            self._file = open(self.uri, f"{self.flag}b")
        except OSError as error:
            raise MXNetError(f"{type(self).__name__}: cannot open {self.uri}: "
                             f"{error.strerror}") from error
        self._pid = os.getpid()

    @property
    def is_open(self) -> bool:
        """Whether the file is open."""
        return self._file is not None

    def close(self) -> None:
        """Close the file; closing twice does no harm."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __del__(self) -> None:
        self.close()

    def reset(self) -> None:
        """Go back to the first record; a file that is written begins anew."""
        self.close()
        self.open()

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_was_open"] = state.pop("_file", None) is not None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        was_open = state.pop("_was_open")
        self.__dict__.update(state)
        if was_open:
            if self.writable:
                raise ArgumentError(f"{self.uri}: a file that is being written cannot be copied "
                                    "to another process; close it first")
            self.open()

    def _stream(self, writing: bool) -> BinaryIO:
        if self._file is None:
            raise MXNetError(f"{self.uri}: the RecordIO file is closed")
        if writing != self.writable:
            raise AssertionError(f"{self.uri}: opened with flag {self.flag!r}, so it cannot be "
                                 f"{'written' if writing else 'read'}")
        if self._pid != os.getpid():
            # parent and forked children share one place in the file: read from one of our own
            if writing:
                raise MXNetError(f"{self.uri}: written by another process (fork); each process "
                                 "writes a file of its own")
            place = self._file.tell()
            self.reset()
            self._file.seek(place)
        return self._file

    def write(self, buf: bytes) -> None:
        """Append a record."""
        if not isinstance(buf, (bytes, bytearray, memoryview)):
            raise ArgumentError(f"write: expected bytes, got {type(buf).__name__}")
        buf = bytes(buf)
        if len(buf) > _LENGTH:
            raise ArgumentValueError(
                f"write: a record holds at most {_LENGTH} bytes, got {len(buf)}")
        stream = self._stream(writing=True)
        start, kind = 0, _FIRST
        for end in _inner_magics(buf):
            stream.write(_WORDS.pack(_MAGIC, kind << 29 | end - start))
            stream.write(buf[start:end])
            start, kind = end + 4, _MIDDLE
        kind = _LAST if start else _WHOLE
        stream.write(_WORDS.pack(_MAGIC, kind << 29 | len(buf) - start))
        stream.write(buf[start:] + bytes(-len(buf) % 4))

    def read(self) -> bytes | None:
        """The next record; None at the end of the file."""
        stream = self._stream(writing=False)
        parts: list[bytes] = []
        while True:
            head = stream.read(_WORDS.size)
            if not head and not parts:
                return None
            if len(head) < _WORDS.size:
                raise self._broken(stream, "a record is cut off")
            magic, word = _WORDS.unpack(head)
            if magic != _MAGIC:
                raise self._broken(stream, f"expected a record (0x{_MAGIC:x}), got 0x{magic:x}")
            kind, length = word >> 29, word & _LENGTH
            if (kind in (_MIDDLE, _LAST)) != bool(parts):
                raise self._broken(stream, "parts of a record in a wrong order")
            part = stream.read(length)
            if len(part) < length or len(stream.read(-length % 4)) < -length % 4:
                raise self._broken(stream, "a record is cut off")
            parts.append(part)
            if kind in (_WHOLE, _LAST):
                return _MAGIC_BYTES.join(parts)

    def _broken(self, stream: BinaryIO, what: str) -> MXNetError:
        return MXNetError(f"{self.uri}: not a RecordIO file, or damaged: {what} before byte "
                          f"{stream.tell()}")


def _inner_magics(buf: bytes) -> list[int]:
    """Where the magic number stands at a multiple of four."""
    if _MAGIC_BYTES not in buf:
        return []
    words = np.frombuffer(buf, "<u4", len(buf) // 4)
    return [4 * int(place) for place in np.flatnonzero(words == _MAGIC)]


class MXIndexedRecordIO(MXRecordIO):
    """A RecordIO file whose records have keys, listed with their places in a second file.

    Args:
        idx_path: path of the list, lines of key, tab, place.
        uri: path of the RecordIO file.
        flag: 'r' to read, 'w' to write anew.
        key_type: makes a key of its text.

    Attributes:
        keys: the keys in the order of the list. idx: the place of each.

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "some")
    >>> record = MXIndexedRecordIO(path + ".idx", path + ".rec", "w")
    >>> for i in range(3):
    ...     record.write_idx(i, b"record %d" % i)
    >>> record.close()
    >>> record = MXIndexedRecordIO(path + ".idx", path + ".rec", "r")
    >>> record.keys, record.read_idx(2)
    ([0, 1, 2], b'record 2')
    """

    _list: Any = None

    def __init__(self, idx_path: str | os.PathLike[str], uri: str | os.PathLike[str], flag: str,
                 key_type: Callable[[str], Any] = int) -> None:
        self.idx_path = os.fspath(idx_path)
        self.key_type = key_type
        self.idx: dict[Any, int] = {}
        self.keys: list[Any] = []
        super().__init__(uri, flag)

    def open(self) -> None:
        super().open()
        self.idx, self.keys = {}, []
        try:
            self._list = open(self.idx_path, self.flag, encoding="utf-8")
        except OSError as error:
            self.close()
            raise MXNetError(f"MXIndexedRecordIO: cannot open {self.idx_path}: "
                             f"{error.strerror}") from error
        if self.writable:
            return
        with self._list:
            for number, line in enumerate(self._list, 1):
                try:
                    key, place = line.strip().split("\t")
                    self.idx[self.key_type(key)] = int(place)
                except ValueError:
                    raise MXNetError(f"{self.idx_path}, line {number}: expected key, tab, place, "
                                     f"got {line!r}") from None
        self.keys = list(self.idx)
        self._list = None

    def close(self) -> None:
        super().close()
        if self._list is not None:
            self._list.close()
            self._list = None

    def seek(self, idx: Any) -> None:
        """Go to the record with key `idx`."""
        stream = self._stream(writing=False)
        stream.seek(self.idx[idx])

    def tell(self) -> int:
        """Where the next record will stand in the file."""
        return self._stream(writing=True).tell()

    def read_idx(self, idx: Any) -> bytes:
        """The record with key `idx`."""
        self.seek(idx)
        content = self.read()
        if content is None:
            raise MXNetError(f"{self.uri} ends before the place {self.idx[idx]} that "
                             f"{self.idx_path} gives for {idx!r}")
        return content

    def write_idx(self, idx: Any, buf: bytes) -> None:
        """Append a record with key `idx`."""
        key = self.key_type(idx)
        place = self.tell()
        self.write(buf)
        self._list.write(f"{key}\t{place}\n")
        self.idx[key] = place
        self.keys.append(key)


class Records(MXRecordIO):
    """The records of a file by number, for any thread.

    Args:
        uri: path of the file.
        idx_path: list of keys and places as MXIndexedRecordIO writes it; without one the file is
            looked through once.

    Attributes:
        keys: of the records; their numbers where there is no list. places: where each begins.
    """

    def __init__(self, uri: str | os.PathLike[str],
                 idx_path: str | os.PathLike[str] | None = None) -> None:
        super().__init__(uri, "r")
        self._lock = threading.Lock()
        if idx_path:
            listed = MXIndexedRecordIO(idx_path, uri, "r")
            listed.close()
            self.keys, self.places = listed.keys, list(listed.idx.values())
        else:
            self.places = self._look_through()
            self.keys = list(range(len(self.places)))

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, number: int) -> bytes:
        with self._lock:
            self._stream(writing=False).seek(self.places[number])
            content = self.read()
        if content is None:
            raise MXNetError(f"{self.uri} ends before the place {self.places[number]} of record "
                             f"{self.keys[number]}")
        return content

    def _look_through(self) -> list[int]:
        stream = self._stream(writing=False)
        places, place = [], 0
        while head := stream.read(_WORDS.size):
            if len(head) < _WORDS.size or head[:4] != _MAGIC_BYTES:
                raise self._broken(stream, "expected a record")
            word = _WORDS.unpack(head)[1]
            if word >> 29 in (_WHOLE, _FIRST):
                places.append(place)
            place += _WORDS.size + -(-(word & _LENGTH) // 4) * 4
            stream.seek(place)
        return places


# -- records with a label --------------------------------------------------------------------------

IRHeader = namedtuple("HEADER", ["flag", "label", "id", "id2"])
IRHeader.__doc__ = """What stands before the content of a labelled record.

Fields: flag (how many numbers the label has; 0 for one number), label, id, id2 (free for use).
"""
_HEADER = struct.Struct("<IfQQ")


def pack(header: Any, s: bytes) -> bytes:
    """A labelled record: header (an IRHeader or a tuple like it) and content.

    >>> unpack(pack(IRHeader(0, 4.0, 7, 0), b"content"))
    (HEADER(flag=0, label=4.0, id=7, id2=0), b'content')
    """
    header = IRHeader(*header)
    if np.ndim(header.label) == 0:
        return _HEADER.pack(0, float(header.label), header.id, header.id2) + s
    label = np.asarray(header.label, dtype="<f4").reshape(-1)
    return _HEADER.pack(label.size, 0.0, header.id, header.id2) + label.tobytes() + s


def unpack(s: bytes) -> tuple[Any, bytes]:
    """(header, content) of a labelled record; a label of several numbers is a float32 array."""
    if len(s) < _HEADER.size:
        raise ArgumentValueError(f"unpack: expected a record of at least {_HEADER.size} bytes "
                                 f"(made by pack), got {len(s)}")
    header = IRHeader(*_HEADER.unpack_from(s))
    s = s[_HEADER.size:]
    if not header.flag:
        return header, s
    if len(s) < 4 * header.flag:
        raise ArgumentValueError(f"unpack: the header says {header.flag} numbers of label, but "
                                 f"{len(s)} bytes follow")
    label = np.frombuffer(s, "<f4", header.flag).astype(np.float32)
    return header._replace(label=label), s[4 * header.flag:]


def pack_img(header: Any, img: Any, quality: int = 95, img_fmt: str = ".jpg") -> bytes:
    """A labelled record with an encoded image.

    Args:
        header: an IRHeader. quality: of JPEG 1 to 100; for PNG 0 to 9.
        img: (height, width, channels) uint8, colours in the order blue, green, red (as in MXNet,
            whose image functions come from OpenCV here).
        img_fmt: '.jpg' or '.png'.
    """
    return pack(header, codec.encode(_swapped(np.asarray(img)), img_fmt, quality))


def unpack_img(s: bytes, iscolor: int = -1) -> tuple[Any, np.ndarray[Any, Any]]:
    """(header, image) of a record made by `pack_img`; colours in the order blue, green, red.

    Args:
        s: the record. iscolor: 1 for three channels, 0 for gray (two axes), -1 as it was stored.
    """
    header, content = unpack(s)
    pixels = _swapped(codec.decode(content, iscolor, "unpack_img"))
    return header, pixels[..., 0] if pixels.shape[2] == 1 else pixels


def _swapped(pixels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Red and blue exchanged."""
    if pixels.ndim == 3 and pixels.shape[2] >= 3:
        return np.ascontiguousarray(pixels[..., [2, 1, 0, *range(3, pixels.shape[2])]])
    return pixels
