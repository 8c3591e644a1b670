"""MXNet's place for errors; ``base`` has the tree of them."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .base import MXNetError

__all__ = ["InternalError", "MXNetError", "register", "register_error"]

_ERRORS: dict[str, type[BaseException]] = {}


class InternalError(MXNetError):
    """Something that should not happen."""


def register_error(func_name: Any = None, cls: type[BaseException] | None = None) -> Any:
    """Enter an error class by name, for `mx.error`: ``register_error("MyError", MyError)``.

    Args:
        func_name: the name, or the class itself where this decorates it.
        cls: the class; a decorator is returned when None.

    >>> @register_error
    ... class Oops(MXNetError):
    ...     pass
    >>> register_error("Oops", Oops).__name__
    'Oops'
    """
    if isinstance(func_name, type):
        _ERRORS[func_name.__name__] = func_name
        return func_name

    def enter(entered: type[BaseException]) -> type[BaseException]:
        _ERRORS[func_name or entered.__name__] = entered
        return entered

    return enter if cls is None else enter(cls)


register: Callable[..., Any] = register_error
register_error(InternalError)
for _builtin in (ValueError, TypeError, AttributeError, IndexError, NotImplementedError):
    register_error(_builtin)
