"""Functions that are called before or after a block's forward, and how they are taken off again."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base import ArgumentValueError

__all__ = ["HookHandle", "hooked"]


class HookHandle:
    """What registering a hook returns; ``detach()`` removes that hook, as does a ``with`` block.

    >>> hooks: dict[int, Callable[..., None]] = {}
    >>> handle = HookHandle()
    >>> handle.attach(hooks, print)
    >>> len(hooks), handle.detach(), len(hooks)
    (1, None, 0)
    """

    def __init__(self) -> None:
        self._hooks: dict[int, Callable[..., Any]] = {}
        self._id: int | None = None

    @property
    def id(self) -> int | None:
        """The key of the hook among those of its block; None before ``attach``."""
        return self._id

    def attach(self, hooks: dict[int, Callable[..., Any]], hook: Callable[..., Any]) -> None:
        """Put `hook` among `hooks`; a second registration of one hook changes nothing.

        Raises:
            ArgumentValueError: the handle is attached already.
        """
        if self._id is not None:
            raise ArgumentValueError(
                "HookHandle: it is attached already; make another for each hook")
        # the dict keeps the hook alive, so its id is not given to another one meanwhile
        self._hooks, self._id = hooks, id(hook)
        hooks[self._id] = hook

    def detach(self) -> None:
        """Remove the hook; a second time does nothing."""
        if self._id is not None:
            self._hooks.pop(self._id, None)
            self._hooks = {}  # from now on another hook may have that id

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.detach()


def hooked(hooks: dict[int, Callable[..., Any]], hook: Callable[..., Any]) -> HookHandle:
    """The handle of `hook`, put among `hooks`."""
    handle = HookHandle()
    handle.attach(hooks, hook)
    return handle
