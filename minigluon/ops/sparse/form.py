"""How an operator's record gets forms for sparse arrays, and how one is found for a call."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..operator import Attrs, Operator, find_operator
from ..storage import stype_of

__all__ = ["Form", "form", "form_for"]


class Form(NamedTuple):
    """A body for some storage types: ``body(xp, *arrays, **attrs)``, arrays dense or Stored.

    Attributes:
        stypes: of each input; 'sparse' means row_sparse or csr, '*' anything. A single one stands
            for all inputs of a variadic operator.
        when: which attributes it takes; None: all.
    """

    stypes: tuple[str, ...]
    when: Callable[[Attrs], bool] | None
    body: Callable[..., Any]


def form(name: str, *stypes: str, when: Callable[[Attrs], bool] | None = None
         ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: hang a body for these storage types on the record of operator `name`."""
    op = find_operator(name)

    def enter(body: Callable[..., Any]) -> Callable[..., Any]:
        op.forms = (*op.forms, Form(stypes, when, body))
        return body

    return enter


def _is(stype: str, pattern: str) -> bool:
    return pattern in ("*", stype) or (pattern == "sparse" and stype != "default")


def form_for(op: Operator, arrays: Sequence[Any], attrs: Attrs) -> Callable[..., Any] | None:
    """The body that takes these arrays as they are stored, or None: there is only a dense one."""
    stypes = [stype_of(array) for array in arrays]
    for one in op.forms:
        wanted = one.stypes * len(stypes) if op.variadic else one.stypes
        if (len(wanted) >= len(stypes) and all(map(_is, stypes, wanted))
                and (one.when is None or one.when(attrs))):
            return one.body
    return None
