"""Summing the copies of one value that several devices hold."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import ndarray as nd
from ..base import KVStoreError

if TYPE_CHECKING:
    from ..context import Context
    from ..ndarray import NDArray

__all__ = ["reduce"]


def reduce(arrays: Sequence[NDArray], ctx: Context) -> NDArray:
    """A new array on `ctx`: the sum of `arrays`, added up in the order of the list.

    The order is fixed, so equal inputs give the same bits in every run.

    Args:
        arrays: one array or more, of one shape and dtype, on any contexts.

    >>> import minigluon as mx
    >>> parts = [mx.nd.ones((2,), ctx=mx.cpu(i)) for i in range(3)]
    >>> reduce(parts, mx.cpu(5)).asnumpy().tolist()
    [3.0, 3.0]
    """
    first, *rest = arrays
    for other in rest:
        if other.shape != first.shape or other.dtype != first.dtype:
            raise KVStoreError(
                f"KVStore: the values of one key must agree, got shape {first.shape} of "
                f"{first.dtype.__name__} and shape {other.shape} of {other.dtype.__name__}"
            )
    if any(array.stype != "default" for array in arrays):
        there = [array.as_in_context(ctx) for array in arrays]
        return nd.add_n(*there)  # type: ignore[attr-defined, no-any-return]
    total = first.copyto(ctx)  # always a new array
    raw = total._to_write()
    for other in rest:
        raw += other.as_in_context(ctx)._sync()
    return total
