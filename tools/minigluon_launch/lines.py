"""Bytes as they come out of a process -> whole lines, and states of a progress bar."""

from __future__ import annotations

import re

__all__ = ["Splitter"]

_BREAK = re.compile(rb"(\r?\n|\r)")
_CURSOR = re.compile(rb"\x1b\[[0-9;?]*[A-HJKSTfhl]")  # moves and erasures; colours (m) stay
_LONGEST = 1 << 16


class Splitter:
    r"""Splits at newlines and carriage returns; a text beside a lone ``\r`` is a bar's state.

    `feed` returns pairs ("line", text) and ("bar", text). The last pair may be the state of a bar
    that has no end yet: bars are drawn before their line ends, and must be seen at once.

    >>> split = Splitter()
    >>> split.feed(b"one\ntw"), split.feed(b"o\n\r 10%"), split.feed(b"\r100%\n")
    ([('line', b'one')], [('line', b'two'), ('bar', b' 10%')], [('line', b'100%')])
    """

    def __init__(self) -> None:
        self._rest = b""
        self._after_return = False

    def feed(self, data: bytes) -> list[tuple[str, bytes]]:
        """The lines and bar states that `data` completes."""
        found: list[tuple[str, bytes]] = []
        if self._interrupts_bar(data):
            self._rest, self._after_return = b"", False
        data = self._rest + data
        # A return at the very end may be half of \r\n: it is looked at again with what follows.
        held = data.endswith(b"\r")
        pieces = _BREAK.split(data[:-1] if held else data)
        for text, end in zip(pieces[0:-1:2], pieces[1::2], strict=True):
            self._take(found, text, end)
        self._rest = pieces[-1]
        if len(self._rest) > _LONGEST:
            found.append(("line", _clean(self._rest)))
            self._rest = b""
        if self._rest and (held or self._after_return):
            found.append(("bar", _clean(self._rest)))
        if held:
            self._rest += b"\r"
        return found

    def _interrupts_bar(self, data: bytes) -> bool:
        """Whether somebody else, a warning say, writes on the line of a bar that tqdm has drawn.

        tqdm returns before it draws, and a state it has drawn whole ends with a bracket.
        """
        return self._after_return and self._rest.endswith(b"]") and data[:1] not in (b"\r", b"\n")

    def close(self) -> list[tuple[str, bytes]]:
        """What is left when the stream has ended, as a line."""
        rest = _clean(self._rest).rstrip(b"\r")
        self._rest = b""
        return [("line", rest)] if rest.strip() else []

    def _take(self, found: list[tuple[str, bytes]], text: bytes, end: bytes) -> None:
        if end == b"\r":  # whatever follows is drawn over this text
            self._after_return = True
            return
        drawn = _clean(text)
        if drawn.strip() or not self._after_return:
            found.append(("line", drawn))
        self._after_return = False


def _clean(text: bytes) -> bytes:
    return _CURSOR.sub(b"", text)
