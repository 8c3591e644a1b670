"""How a call of row_sparse_pull is read: which rows go into which array."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base import ArgumentError, KVStoreError, OutOfRangeError
from ..ndarray import NDArray
from .api import Key, Keys, Values, group

__all__ = ["Asked", "dense_and_sparse", "rows_asked"]

Asked = dict[Key, list[tuple[NDArray, Any]]]
"""For each key the arrays to fill, each with the numbers of its rows: sorted, each once."""


def rows_asked(key: Keys, out: Values, row_ids: Any) -> Asked:
    """The arrays of each key, each with its rows.

    Args:
        key: one key or a list. out: row_sparse arrays, nested as in ``pull``.
        row_ids: an NDArray of row numbers (any shape, any order, repeated ones count once) for
            all arrays, or one for each, nested as `out`.

    Raises:
        ArgumentError: no arrays, or no rows.
        KVStoreError: an array that is not row_sparse, or not as many row_ids as arrays.

    >>> import minigluon as mx
    >>> out = mx.nd.zeros((4, 2), stype="row_sparse")
    >>> [ids.tolist() for _, ids in rows_asked("w", out, mx.nd.array([[3, 1], [3, 0]]))["w"]]
    [[0, 1, 3]]
    """
    if out is None or row_ids is None:
        raise ArgumentError("row_sparse_pull: expected arrays (out=) and row numbers (row_ids=), "
                            f"got out={out!r}, row_ids={row_ids!r}")
    arrays = group(key, out)
    if isinstance(row_ids, NDArray):
        if len(arrays) > 1:
            raise KVStoreError(f"row_sparse_pull: {len(arrays)} keys need a list of row_ids, "
                               "one for each key or array")
        numbers = {one: [row_ids] * len(several) for one, several in arrays.items()}
    else:
        numbers = group(key, row_ids)
        numbers = {one: given * len(arrays[one]) if len(given) == 1 else given
                   for one, given in numbers.items()}
    asked: Asked = {}
    for one, several in arrays.items():
        if len(numbers[one]) != len(several):
            raise KVStoreError(f"row_sparse_pull of key {one!r}: {len(several)} arrays but "
                               f"{len(numbers[one])} row_ids; give one for all or one for each")
        asked[one] = [(_sparse(one, array), _unique(one, ids, array.shape[0]))
                      for array, ids in zip(several, numbers[one], strict=True)]
    return asked


def _sparse(key: Key, array: Any) -> NDArray:
    if not isinstance(array, NDArray) or array.stype != "row_sparse":
        kind = array.stype if isinstance(array, NDArray) else type(array).__name__
        raise KVStoreError(f"row_sparse_pull of key {key!r}: expected row_sparse arrays to fill, "
                           f"got {kind}; use nd.zeros(shape, stype='row_sparse')")
    return array


def _unique(key: Key, ids: Any, rows: int) -> Any:
    if not isinstance(ids, NDArray):
        raise ArgumentError(f"row_sparse_pull of key {key!r}: row_ids: expected an NDArray, "
                            f"got {type(ids).__name__}")
    found = np.unique(ids.asnumpy().astype(np.int64))
    if found.size and (found[0] < 0 or found[-1] >= rows):
        raise OutOfRangeError(f"row_sparse_pull of key {key!r}: row_ids must be in [0, {rows}), "
                              f"found {found[0]} .. {found[-1]}")
    return found


def dense_and_sparse(arrays: Sequence[NDArray], ignore_sparse: bool) -> list[NDArray]:
    """Those of `arrays` that a pull fills: row_sparse ones are left alone if asked to."""
    return [array for array in arrays if not (ignore_sparse and array.stype != "default")]
