"""The output of all roles on one terminal or in one file, readable."""

from __future__ import annotations

import os
from collections import deque

__all__ = ["BAR_SECONDS", "Console"]

BAR_SECONDS = 10.0  # without a terminal, the bar's state is a line at most this often
_FULL = 1 << 20
_OVERFLOWING = 16 << 20  # reached only while a job is being ended and nobody reads
_CHUNK = 4096  # a pipe that poll() calls writable takes this much without blocking
_PAINT = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)


class Console:
    """Prefixes, colours (on a terminal only), and one live progress bar: worker 0's.

    Nothing here blocks: text waits in a queue until `flush` finds the descriptor ready, and
    `full` asks the launcher to stop reading from the roles for a while.

    Args:
        fds: descriptors of standard output and standard error.
        live: whether a bar may be redrawn in place (both are a terminal).
        colour: whether prefixes are coloured.
        width: columns of the terminal.
    """

    def __init__(
        self,
        fds: tuple[int, int] = (1, 2),
        live: bool = False,
        colour: bool = False,
        width: int = 80,
    ) -> None:
        self.fds = fds
        self.live = live
        self.colour = colour
        self.width = width
        self.broken: OSError | None = None
        self._queue: deque[tuple[int, bytes]] = deque()
        self._size = 0
        self._bar = b""
        self._next_bar = 0.0

    @classmethod
    def on_this_terminal(cls) -> Console:
        """A console for this process's own output, as able as the terminal is."""
        live = os.isatty(1) and os.isatty(2) and os.environ.get("TERM") != "dumb"
        width = max(40, os.get_terminal_size(2).columns) if live else 80
        return cls(live=live, colour=live and "NO_COLOR" not in os.environ, width=width)

    def line(self, stream: int, label: str, text: bytes) -> None:
        """A whole line of a role; stream 0 is its standard output, 1 its standard error."""
        self._erase_bar()
        self._put(self.fds[stream], self._prefix(label) + text + b"\n")
        self._draw_bar()

    def bar(self, label: str, text: bytes, now: float) -> None:
        """A new state of a role's progress bar."""
        if label != "worker 0" or not text.strip():
            return
        if self.live:
            self._erase_bar()
            room = self.width - len(label) - 4
            shown = text.decode(errors="replace")[:room].encode()
            self._bar = self._prefix(label) + shown
            self._draw_bar()
        elif now >= self._next_bar:
            self._next_bar = now + BAR_SECONDS
            self._put(self.fds[1], self._prefix(label) + text + b"\n")

    def end_bar(self, label: str) -> None:
        """The bar's line has ended (its last state comes as a line)."""
        if label == "worker 0" and self._bar:
            self._erase_bar()
            self._bar = b""

    def say(self, text: str) -> None:
        """Lines of the launcher itself, on standard error."""
        self._erase_bar()
        for line in text.splitlines():
            self._put(self.fds[1], b"launch: " + line.encode() + b"\n")
        self._draw_bar()

    @property
    def full(self) -> bool:
        """Whether so much waits that roles should not be read for now."""
        return self._size > _FULL

    @property
    def waiting_fd(self) -> int | None:
        """The descriptor that the oldest text waits for."""
        return self._queue[0][0] if self._queue else None

    def flush(self) -> None:
        """Write what one ready descriptor takes without blocking."""
        fd = self._queue[0][0]
        text = b""
        while self._queue and self._queue[0][0] == fd and len(text) < _CHUNK:
            text += self._queue.popleft()[1]
        try:
            written = os.write(fd, text[:_CHUNK])
        except OSError as error:  # nobody reads any more, or the disk is full
            self.broken = error
            self._queue.clear()
            self._size = 0
            return
        self._size -= written
        if written < len(text):
            self._queue.appendleft((fd, text[written:]))

    def _put(self, fd: int, text: bytes) -> None:
        if self.broken is None and self._size < _OVERFLOWING:
            self._queue.append((fd, text))
            self._size += len(text)

    def _erase_bar(self) -> None:
        if self._bar:
            self._put(self.fds[1], b"\r\x1b[K")

    def _draw_bar(self) -> None:
        if self._bar:
            self._put(self.fds[1], self._bar)

    def _prefix(self, label: str) -> bytes:
        if not self.colour:
            return f"{label} | ".encode()
        kind, _, rank = label.partition(" ")
        paint = _PAINT[int(rank) % len(_PAINT)] if kind == "worker" else 90
        return f"\x1b[{paint}m{label} |\x1b[0m ".encode()
