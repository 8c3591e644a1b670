"""Nested lists: taken apart into leaves and a form, and put together again."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .base import ParameterMismatch

__all__ = ["flatten", "rebuild"]


def flatten(value: Any, kind: type, what: str) -> tuple[list[Any], Any]:
    """The leaves of class `kind` in nested lists, and the form of the nest.

    Args:
        what: what the value is, for the message when it holds something else.

    >>> leaves, form = flatten([1, [2, 3]], int, "numbers")
    >>> leaves, rebuild(form, iter("abc"))
    ([1, 2, 3], ['a', ['b', 'c']])
    """
    leaves: list[Any] = []
    return leaves, _walk(value, kind, what, leaves)


def _walk(value: Any, kind: type, what: str, leaves: list[Any]) -> Any:
    if isinstance(value, kind):
        leaves.append(value)
        return 0
    if isinstance(value, (list, tuple)):
        return [_walk(item, kind, what, leaves) for item in value]
    raise ParameterMismatch(f"{what} must be (nested) list of {kind.__name__}, but got {value} of "
                            f"type {type(value)}")


def rebuild(form: Any, leaves: Iterator[Any] | Sequence[Any]) -> Any:
    """The nest of this form with the given leaves."""
    source = iter(leaves)
    return _fill(form, source)


def _fill(form: Any, source: Iterator[Any]) -> Any:
    return next(source) if form == 0 else [_fill(item, source) for item in form]
