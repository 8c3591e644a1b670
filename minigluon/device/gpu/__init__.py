"""The GPU: CuPy arrays, plain operator bodies with ``xp = cupy``.

CuPy is an optional extra and is imported at the first use of ``gpu()``. Kernels of their own
come later; until then each operator runs its plain body, which takes the array module.
"""
from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from ...base import MXNetError
from ...context import Context
from .. import Device

__all__ = ["GPU", "count", "make", "memory"]

_INSTALL = "install minigluon[cuda13x] or minigluon[cuda12x] (CuPy), or use mx.cpu()"


def _cupy() -> Any:
    try:
        return importlib.import_module("cupy")
    except ImportError as error:
        raise MXNetError(f"gpu: CuPy is not installed ({error}); {_INSTALL}") from error


class GPU(Device):
    """One CUDA device, computed on by CuPy (``xp``)."""

    type = "gpu"

    def __init__(self, ctx: Context) -> None:
        self.xp = _cupy()
        found = self.xp.cuda.runtime.getDeviceCount()
        if ctx.device_id >= found:
            raise MXNetError(f"{ctx!r}: this machine has {found} GPU(s), counted from 0")
        self.cuda = self.xp.cuda.Device(ctx.device_id)
        super().__init__(ctx)

    def generator(self, seed: int) -> Any:
        with self.cuda:
            return self.xp.random.default_rng(seed & (2**63 - 1))

    def array(self, source: Any, dtype: Any = None) -> Any:
        with self.cuda:
            return self.xp.array(source, dtype=dtype, order="C", copy=True)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        with self.cuda:
            return self.xp.empty(shape, dtype)

    def to_host(self, array: Any) -> Any:
        return self.xp.asnumpy(array)

    def run(
        self, body: Callable[..., Any], arrays: Sequence[Any], attrs: dict[str, Any],
        small_steps: bool = False,
    ) -> Any:
        with self.cuda:
            return body(self.xp, *arrays, **attrs)

    def sync(self) -> None:
        self.cuda.synchronize()


def make(ctx: Context) -> GPU:
    """The device of a gpu context; an error that says what to install or which ids exist."""
    try:
        return GPU(ctx)
    except MXNetError:
        raise
    except Exception as error:  # CuPy reports a missing driver with classes of its own
        raise MXNetError(f"{ctx!r} cannot be used: {error}; {_INSTALL}") from error


def count() -> int:
    """Number of usable CUDA devices; 0 where CuPy or the driver is missing."""
    try:
        return int(_cupy().cuda.runtime.getDeviceCount())
    except MXNetError:
        return 0
    except Exception as error:
        if type(error).__name__ == "CUDARuntimeError":
            return 0
        raise


def memory(ctx: Context) -> tuple[int, int]:
    """Free and total bytes of a GPU's memory."""
    free, total = make(ctx).cuda.mem_info
    return int(free), int(total)
