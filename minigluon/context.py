"""Where an array lives: Context, cpu(i), gpu(i), and the thread's current context."""
from __future__ import annotations

import threading
from operator import index
from typing import Any, ClassVar

from .base import ArgumentError, ArgumentValueError

__all__ = ["Context", "cpu", "cpu_pinned", "cpu_shared", "current_context", "gpu"]


class _Default(type):
    """``Context.default_ctx``: this thread's current context; may be assigned."""

    @property
    def default_ctx(cls) -> Context:
        return current_context()

    @default_ctx.setter
    def default_ctx(cls, ctx: Context) -> None:
        _current.ctx = ctx


class Context(metaclass=_Default):
    """A device by type and number; also a ``with`` block that makes it the current one.

    Args:
        device_type: 'cpu', 'gpu', 'cpu_pinned', 'cpu_shared', or another Context.
        device_id: number of the device; every ``cpu(i)`` is a distinct device in host memory.

    >>> cpu(1) == Context("cpu", 1), cpu(0) == cpu(1)
    (True, False)
    >>> with cpu(2):
    ...     current_context()
    cpu(2)
    """

    devtype2str: ClassVar = {1: "cpu", 2: "gpu", 3: "cpu_pinned", 5: "cpu_shared"}
    devstr2type: ClassVar = {"cpu": 1, "gpu": 2, "cpu_pinned": 3, "cpu_shared": 5}
    __slots__ = ("_hash", "device_id", "device_type")

    def __init__(self, device_type: str | Context, device_id: int = 0) -> None:
        if isinstance(device_type, Context):
            device_type, device_id = device_type.device_type, device_type.device_id
        if device_type not in self.devstr2type:
            raise ArgumentValueError(
                f"Context: unknown device type {device_type!r}; "
                f"expected one of {sorted(self.devstr2type)}"
            )
        self.device_type = device_type
        try:
            self.device_id = index(device_id)
        except TypeError:
            raise ArgumentError(f"Context: device_id: expected an integer, got {device_id!r}"
                                ) from None
        if self.device_id < 0:
            raise ArgumentValueError(f"Context: device_id: expected 0 or more, got {device_id}")
        self._hash = hash((device_type, self.device_id))

    @property
    def device_typeid(self) -> int:
        """MXNet's number of the device type (1 cpu, 2 gpu, 3 cpu_pinned, 5 cpu_shared)."""
        return self.devstr2type[self.device_type]

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Context)
            and self.device_id == other.device_id
            and self.device_type == other.device_type
        )

    def __repr__(self) -> str:
        return f"{self.device_type}({self.device_id})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Context, (self.device_type, self.device_id)

    def __enter__(self) -> Context:
        _current.entered.append(_current.ctx)
        _current.ctx = self
        return self

    def __exit__(self, *_: object) -> None:
        _current.ctx = _current.entered.pop()

    def empty_cache(self) -> None:
        """Give cached device memory back; host memory keeps no cache."""


class _Current(threading.local):
    """A thread's current context, and those its ``with`` blocks will put back."""

    def __init__(self) -> None:
        self.ctx: Context | None = None
        self.entered: list[Context | None] = []


_current = _Current()
_CPU0 = Context("cpu", 0)


def cpu(device_id: int = 0) -> Context:
    """The CPU device number `device_id`; any number is a distinct device in host memory."""
    return _CPU0 if device_id == 0 else Context("cpu", device_id)


def cpu_pinned(device_id: int = 0) -> Context:
    """Host memory that a GPU can copy from fast; plain host memory where there is no GPU."""
    return Context("cpu_pinned", device_id)


def cpu_shared(device_id: int = 0) -> Context:
    """Host memory shared between processes (DataLoader workers)."""
    return Context("cpu_shared", device_id)


def gpu(device_id: int = 0) -> Context:
    """The GPU number `device_id`; arrays there need the extra minigluon[cuda12x] or [cuda13x]."""
    return Context("gpu", device_id)


def current_context() -> Context:
    """The context of new arrays when none is given: the innermost ``with ctx:``, or cpu(0)."""
    return _current.ctx or _CPU0
