"""Names for nodes and blocks that the user did not name: NameManager, Prefix."""
from __future__ import annotations

import threading

__all__ = ["NameManager", "Prefix"]


class _Thread(threading.local):
    def __init__(self) -> None:
        self.current = NameManager()


class _Current(type):
    """``NameManager.current``: this thread's innermost manager; may be assigned."""

    @property
    def current(cls) -> NameManager:
        return _thread.current

    @current.setter
    def current(cls, manager: NameManager) -> None:
        _thread.current = manager


class NameManager(metaclass=_Current):
    """Gives a number to each unnamed node, counted for each kind; a ``with`` block installs it.

    >>> with NameManager() as names:
    ...     names.get(None, "activation"), names.get(None, "activation"), names.get("fc1", "x")
    ('activation0', 'activation1', 'fc1')
    """

    def __init__(self) -> None:
        self._counter: dict[str, int] = {}
        self._outer: list[NameManager] = []

    def get(self, name: str | None, hint: str) -> str:
        """`name` where one is given, else `hint` with the next number."""
        if name:
            return name
        count = self._counter.get(hint, 0)
        self._counter[hint] = count + 1
        return f"{hint}{count}"

    def __enter__(self) -> NameManager:
        self._outer.append(_thread.current)
        _thread.current = self
        return self

    def __exit__(self, *_: object) -> None:
        _thread.current = self._outer.pop()


class Prefix(NameManager):
    """A manager that puts `prefix` before every name, given ones included.

    >>> with Prefix("net_") as names:
    ...     names.get(None, "fc"), names.get("out", "fc")
    ('net_fc0', 'net_out')
    """

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix

    def get(self, name: str | None, hint: str) -> str:
        """The prefix, then what NameManager would say."""
        return self._prefix + super().get(name, hint)


_thread = _Thread()
