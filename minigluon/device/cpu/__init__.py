"""The CPU: NumPy arrays in host memory. Every ``cpu(i)`` is a device of its own."""
from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import numpy as np

from ...base import env_bool
from ...context import Context
from .. import Device
from . import blas, native

__all__ = ["CPU", "make"]

_BIG = 262144  # bytes; from here on results lie in the pool


class _Pooled:
    """NumPy arrays that are made inside lie in the native core's memory: aligned, the big ones
    in the pool, so that what is freed serves again.
    """

    def __enter__(self) -> None:
        self._before = native.core.pooled_begin()

    def __exit__(self, *exc: object) -> None:
        native.core.pooled_end(self._before)


def _pooled() -> AbstractContextManager[None]:
    return _Pooled() if native.enabled else nullcontext()


class CPU(Device):
    """Host memory, computed on by NumPy (``xp``).

    Attributes:
        source: the stream that native kernels draw from, beside `rng` for NumPy's bodies.
    """

    type = "cpu"
    xp = np

    def seed(self, seed: int) -> None:
        super().seed(seed)
        if native.enabled:
            self.source = native.core.Source(seed & (2**64 - 1))

    def generator(self, seed: int) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(seed & (2**64 - 1)))

    def array(self, source: Any, dtype: Any = None) -> Any:
        with _pooled():
            return np.array(source, dtype=dtype, order="C", copy=True)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        with _pooled():
            return np.empty(shape, dtype)

    def to_host(self, array: Any) -> Any:
        return array

    def run(
        self, body: Callable[..., Any], arrays: Sequence[Any], attrs: dict[str, Any],
        small_steps: bool = False,
    ) -> Any:
        with np.errstate(all="ignore"), blas.one_thread() if small_steps else nullcontext():
            if not arrays or any(a.nbytes >= _BIG for a in arrays):
                with _pooled():
                    return body(np, *arrays, **attrs)
            return body(np, *arrays, **attrs)

    def sync(self) -> None:
        """Nothing is under way: NumPy returns when it has computed."""


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # mallopt(3)


@cache
def _keep_freed_memory() -> None:
    """Let the C library keep large freed blocks for reuse instead of giving them back at once.

    A fresh page costs more than most kernels spend on it: a LeNet step took 34 ms with glibc's
    defaults and 23.5 ms with this. At most 256 MB stay in the process.
    MINIGLUON_KEEP_MEMORY=0 leaves the C library as it is.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None and env_bool("MINIGLUON_KEEP_MEMORY", True):
        mallopt(_M_TRIM_THRESHOLD, 256 << 20)
        mallopt(_M_MMAP_THRESHOLD, 32 << 20)


def make(ctx: Context) -> CPU:
    """The device of a cpu, cpu_pinned or cpu_shared context."""
    _keep_freed_memory()
    return CPU(ctx)
