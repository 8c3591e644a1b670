"""The CPU: NumPy arrays in host memory. Every ``cpu(i)`` is a device of its own."""
from __future__ import annotations

from typing import Any

import numpy as np

from ...context import Context
from .. import Device

__all__ = ["CPU", "make"]


class CPU(Device):
    """Host memory, computed on by NumPy (``xp``)."""

    type = "cpu"
    xp = np

    def generator(self, seed: int) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(seed & (2**64 - 1)))

    def array(self, source: Any, dtype: Any = None) -> Any:
        return np.array(source, dtype=dtype, order="C", copy=True)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return np.empty(shape, dtype)

    def to_host(self, array: Any) -> Any:
        return array

    def sync(self) -> None:
        """Nothing is under way: NumPy returns when it has computed."""


def make(ctx: Context) -> CPU:
    """The device of a cpu, cpu_pinned or cpu_shared context."""
    return CPU(ctx)
