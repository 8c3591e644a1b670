"""Small helpers that MXNet programs take from ``mx.util``; the switches of NumPy's interface."""
from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from .base import ArgumentError, NotForThisError
from .context import Context
from .device import gpu_memory_info, num_gpus
from .ndarray import NDArray, array
from .npmode import (
    is_np_array,
    is_np_shape,
    np_array,
    np_shape,
    reset_np,
    set_np,
    set_np_array,
    set_np_shape,
    use_np,
    use_np_array,
    use_np_shape,
)

__all__ = [
    "default_array", "get_cuda_compute_capability", "get_gpu_count", "get_gpu_memory", "getenv",
    "is_np_array", "is_np_shape", "makedirs", "np_array", "np_shape", "reset_np", "set_module",
    "set_np", "set_np_array", "set_np_shape", "setenv", "use_np", "use_np_array", "use_np_shape",
]

F = TypeVar("F")


def makedirs(d: str) -> None:
    """Make a folder and those above it; one that exists already is no error."""
    os.makedirs(os.path.expanduser(d), exist_ok=True)


def getenv(name: str) -> str | None:
    """The value of an environment variable; None where it is not set."""
    return os.environ.get(name)


def setenv(name: str, value: str | None) -> None:
    """Set an environment variable; None takes it away."""
    if value is None:
        os.environ.pop(name, None)
    elif isinstance(value, str):
        os.environ[name] = value
    else:
        raise ArgumentError(f"setenv: {name}: expected a string or None, got {value!r}")


def get_gpu_count() -> int:
    """How many GPUs can be used."""
    return num_gpus()


def get_gpu_memory(gpu_dev_id: int) -> tuple[int, int]:
    """(free, total) bytes of a GPU."""
    return gpu_memory_info(gpu_dev_id)


def get_cuda_compute_capability(ctx: Any) -> NoReturn:
    """The compute capability of a GPU, which is not asked for here."""
    raise NotForThisError(f"get_cuda_compute_capability({ctx}): not built; ask cupy's "
                          "cupy.cuda.Device(n).compute_capability")


def set_module(module: str | None) -> Callable[[F], F]:
    """Decorator: what is defined says that it comes from `module`."""

    def decorate(thing: F) -> F:
        if module is not None:
            thing.__module__ = module
        return thing

    return decorate


def default_array(source_array: Any, ctx: Context | None = None, dtype: Any = None) -> NDArray:
    """An array of the class that is the default now: ``np.ndarray`` after ``npx.set_np()``."""
    made = array(source_array, ctx, dtype)
    return made.as_np_ndarray() if is_np_array() else made
