"""NumPy's BLAS: how many threads one matrix product takes.

A recurrent layer is hundreds of small products in a row. OpenBLAS hands each to threads that wait
by spinning; beside the kernels' own threads that made a step of a language model 20 times slower
(3.1 s against 0.15 s on two cores). Such a body runs with one thread a product instead.
"""
from __future__ import annotations

import ctypes
import glob
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np

__all__ = ["one_thread"]

_PREFIXES = ("scipy_openblas", "openblas")  # NumPy 2.x wheels, 1.26 wheels and distributions
_SUFFIXES = ("64_", "")


@cache
def _controls() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """(get, set) of the number of threads; None where NumPy's BLAS is not an OpenBLAS we find."""
    wheel = os.path.join(os.path.dirname(os.path.dirname(np.__file__)), "numpy.libs")
    for path in sorted(glob.glob(os.path.join(glob.escape(wheel), "*openblas*"))):
        library = ctypes.CDLL(path)
        for prefix in _PREFIXES:
            for suffix in _SUFFIXES:
                get = getattr(library, f"{prefix}_get_num_threads{suffix}", None)
                put = getattr(library, f"{prefix}_set_num_threads{suffix}", None)
                if get is not None and put is not None:
                    return get, put
    return None


@contextmanager
def one_thread() -> Iterator[None]:
    """``with one_thread():`` matrix products of NumPy take one thread; afterwards as before."""
    controls = _controls()
    before = 1 if controls is None else controls[0]()
    if controls is None or before <= 1:
        yield
        return
    controls[1](1)
    try:
        yield
    finally:
        controls[1](before)
