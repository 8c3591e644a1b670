"""Calls bundled for MXNet's engine. Here single calls are not queued: nothing depends on it."""
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
