"""Small helpers that MXNet programs take from ``mx.util``, and the switches of NumPy's interface.

NumPy's interface is not built: its switches are off, and turning one on is an error.
"""
from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeVar

from .base import ArgumentError, NotForThisError
from .device import gpu_memory_info, num_gpus

__all__ = [
    "get_cuda_compute_capability", "get_gpu_count", "get_gpu_memory", "getenv", "is_np_array",
    "is_np_shape", "np_array", "np_shape", "reset_np", "set_module", "set_np", "set_np_shape",
    "setenv", "use_np", "use_np_array", "use_np_shape",
]

F = TypeVar("F")


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


# -- NumPy's interface -----------------------------------------------------------------------------

def _refuse(what: str) -> NoReturn:
    raise NotForThisError(f"{what}: NumPy's interface (mx.np, mx.npx, shapes () and unknown sizes "
                          "-1) is not built; use mx.nd, where a scalar has shape (1,)")


def is_np_array() -> bool:
    """Whether Gluon works with ``mx.np`` arrays: never."""
    return False


def is_np_shape() -> bool:
    """Whether shapes are NumPy's, () among them: never."""
    return False


def set_np_shape(active: bool) -> bool:
    """Turn NumPy's shapes on (an error) or off; returns what was before: False."""
    if active:
        _refuse("set_np_shape")
    return False


def set_np(shape: bool = True, array: bool = True, dtype: bool = False) -> None:
    """Turn NumPy's interface on: an error, unless all of it is False."""
    if shape or array or dtype:
        _refuse("set_np")


def reset_np() -> None:
    """Turn NumPy's interface off, as it is."""


@contextlib.contextmanager
def np_shape(active: bool = True) -> Iterator[None]:
    """A ``with`` in which shapes are NumPy's: an error where `active`."""
    if active:
        _refuse("np_shape")
    yield


@contextlib.contextmanager
def np_array(active: bool = True) -> Iterator[None]:
    """A ``with`` in which Gluon works with ``mx.np`` arrays: an error where `active`."""
    if active:
        _refuse("np_array")
    yield


def _refusing(name: str) -> Callable[[F], F]:
    def decorate(thing: F) -> F:
        _refuse(name)

    decorate.__name__ = decorate.__qualname__ = name
    decorate.__doc__ = "Decorator that would turn NumPy's interface on: an error here."
    return decorate


use_np = _refusing("use_np")
use_np_array = _refusing("use_np_array")
use_np_shape = _refusing("use_np_shape")
