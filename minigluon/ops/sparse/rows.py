"""Updates of the rows that a row_sparse gradient has, and operators that look at a shape only.

A lazy update is the dense one, done on those rows of weight and states alone: no formula is written
twice.
"""
from __future__ import annotations

from typing import Any

from ..operator import find_operator
from ..storage import RowPatch, RowSparse, put_rows, rows_of
from .form import form

__all__: list[str] = []

_UPDATES = ("sgd_update", "sgd_mom_update", "adam_update", "_sparse_adagrad_update",
            "_contrib_group_adagrad_update")
# of their second input only shape and type matter
_LIKE = ("_unreduce", "_sum_like", "broadcast_like", "reshape_like")


def _lazy(name: str, others: str = "*") -> None:
    op = find_operator(name)
    states = (others,) * (len(op.input_names) - 2)

    @form(name, others, "row_sparse", *states, when=lambda attrs: attrs.get("lazy_update", True))
    def update(xp: Any, weight: Any, grad: RowSparse, *states: Any, **attrs: Any) -> RowPatch:
        rows = grad.indices
        parts = [rows_of(xp, state, rows) for state in states]
        fresh = op.body(xp, rows_of(xp, weight, rows), grad.data, *parts, **attrs)
        for state, part in zip(states, parts, strict=True):
            put_rows(xp, state, rows, part)
        return RowPatch(weight, rows, fresh)


for _name in _UPDATES:
    _lazy(_name)
_lazy("ftrl_update", "row_sparse")  # MXNet: a dense weight is updated as a whole
for _name in _LIKE:
    form(_name, "default", "sparse")(find_operator(_name).body)


@form("_sum_like", "sparse", "*")
def _as_it_is(xp: Any, data: Any, like: Any, **attrs: Any) -> Any:
    """Gradients of broadcast inputs: most often nothing is to be summed."""
    if data.shape == like.shape:
        return data
    return find_operator("_sum_like").body(xp, data.dense(xp), like, **attrs)


for _name in ("_embedding_grad", "_embedding_grad_rows"):
    form(_name, "default", "default", "row_sparse")(find_operator(_name).body)
