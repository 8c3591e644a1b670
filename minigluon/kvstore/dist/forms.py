"""Messages whose bytes are known but for a number and their numbers: what native code works with.

A channel's message of two short frames: what the channel says of them, a header, and one frame of
numbers. Of a request that is made again and again only `seq`, at a place of its own, and the
numbers change; of its answer, too.
"""
from __future__ import annotations

from collections.abc import Sequence

from .channel import inline
from .wire import PACKED, SEQ_AT, Frame

__all__ = ["MOST", "NUMBER_AT", "Form", "form_of"]

Form = tuple[bytes, int]
"""The bytes before the numbers, and how many bytes of numbers there are."""
MOST = PACKED // 2
"""Bytes of a frame that travels inline."""
NUMBER_AT = len(inline((b"", b""))) + SEQ_AT
"""Where `seq` is in a form."""


def form_of(frames: Sequence[Frame]) -> Form | None:
    """The form of a message; None if it has none."""
    if len(frames) != 2 or not 0 < len(frames[1]) <= MOST or len(frames[0]) > MOST:
        return None
    return inline(frames)[: -len(frames[1])], len(frames[1])
