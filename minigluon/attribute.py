"""Attributes that every symbol made inside a ``with`` block gets: AttrScope."""
from __future__ import annotations

import threading
from collections.abc import Mapping

from .base import ArgumentValueError

__all__ = ["AttrScope"]


class _Thread(threading.local):
    def __init__(self) -> None:
        self.current = AttrScope()


class _Current(type):
    """``AttrScope.current``: this thread's innermost scope; may be assigned."""

    @property
    def current(cls) -> AttrScope:
        return _thread.current

    @current.setter
    def current(cls, scope: AttrScope) -> None:
        _thread.current = scope


class AttrScope(metaclass=_Current):
    """User attributes (strings) for all symbols made inside; inner scopes add to outer ones.

    >>> with AttrScope(ctx_group="dev1"), AttrScope(lr_mult="2") as scope:
    ...     sorted(scope.get({"lr_mult": "3"}).items())
    [('ctx_group', 'dev1'), ('lr_mult', '3')]
    """

    def __init__(self, **attrs: str) -> None:
        for name, value in attrs.items():
            if not isinstance(value, str):
                raise ArgumentValueError(
                    f"AttrScope: {name}: expected a string, got {value!r}; write {name}='{value}'"
                )
        self._own = attrs
        self._all: list[dict[str, str]] = [attrs]
        self._outer: list[AttrScope] = []

    def get(self, attrs: Mapping[str, str] | None) -> dict[str, str]:
        """The scope's attributes, overridden by `attrs`."""
        return {**self._all[-1], **(attrs or {})}

    def __enter__(self) -> AttrScope:
        outer = _thread.current
        self._outer.append(outer)
        self._all.append(outer.get(self._own))
        _thread.current = self
        return self

    def __exit__(self, *_: object) -> None:
        self._all.pop()
        _thread.current = self._outer.pop()


_thread = _Thread()
