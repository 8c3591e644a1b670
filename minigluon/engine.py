"""Calls bundled for MXNet's engine, which then pays once for queueing them all.

Here a single call is not queued but run at once, which costs less than MXNet's bundled calls do,
and compiled graphs are one piece of work as they are: the size is kept, and nothing depends on it.
"""
from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

__all__ = ["bulk", "set_bulk_size"]


class _Bulk(threading.local):
    size = 15  # MXNet's own


_bulk = _Bulk()


def set_bulk_size(size: int) -> int:
    """Say how many calls may be bundled; returns what it was.

    >>> before = set_bulk_size(10)
    >>> set_bulk_size(before)
    10
    """
    before, _bulk.size = _bulk.size, size
    return before


@contextlib.contextmanager
def bulk(size: int) -> Iterator[None]:
    """``with bulk(10):`` the calls inside may be bundled; results are the same.

    Args:
        size: how many at most.
    """
    before = set_bulk_size(size)
    try:
        yield
    finally:
        set_bulk_size(before)
