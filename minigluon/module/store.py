"""How a module's parameters meet a key-value store."""
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .. import kvstore as kvs
from ..base import ArgumentError, env_bool
from ..kvstore import KVStoreBase, capable
from ..ndarray import NDArray

__all__ = ["create_kvstore", "initialize_kvstore", "update_params", "update_params_on_kvstore"]

PerContext = Sequence[Sequence[Any]]  # for each parameter one array (or None) for each context

# 'local' sums on the CPU in one thread: larger arrays are better updated on each context
_LARGE = 1024 * 1024 * 16


def create_kvstore(kvstore: Any, num_device: int, arg_params: Mapping[str, NDArray]
                   ) -> tuple[KVStoreBase | None, bool]:
    """(store, whether it updates the weights): no store for one context in one process.

    Args:
        kvstore: a store, the name of one, or None.
        num_device: how many contexts there are.
        arg_params: the parameters.
    """
    update_on_kvstore = env_bool("MXNET_UPDATE_ON_KVSTORE", True)
    if kvstore is None:
        return None, False
    if isinstance(kvstore, str):
        if num_device == 1 and "dist" not in kvstore:
            return None, False
        largest = max((math.prod(array.shape) for array in arg_params.values()), default=0)
        update_on_kvstore = update_on_kvstore and not (kvstore == "local" and largest > _LARGE)
        kvstore = kvs.create(kvstore)
    if not isinstance(kvstore, KVStoreBase):
        raise ArgumentError(f"kvstore must be KVStore, str or None, got {kvstore!r}")
    return kvstore, update_on_kvstore and capable(kvstore, KVStoreBase.OPTIMIZER)


def initialize_kvstore(kvstore: KVStoreBase, param_arrays: PerContext,
                       arg_params: Mapping[str, NDArray], param_names: Sequence[str],
                       update_on_kvstore: bool) -> None:
    """Give the store the first values; with many workers everybody then has rank 0's."""
    outs = [list(arrays) for arrays in param_arrays]
    values = [_stored_like(arg_params[name], out) for name, out in zip(param_names, outs,
                                                                       strict=True)]
    if capable(kvstore, KVStoreBase.BATCH):
        kvstore.broadcast(list(param_names), values, out=outs)
        return
    for name, value, out in zip(param_names, values, outs, strict=True):
        kvstore.broadcast(name, value, out=out)


def _stored_like(value: NDArray, outs: Sequence[NDArray]) -> NDArray:
    """`value` as the executors keep it: of a row_sparse parameter the store has to give rows."""
    return value.tostype("row_sparse") if outs and outs[0].stype == "row_sparse" else value


def update_params_on_kvstore(param_arrays: PerContext, grad_arrays: PerContext,
                             kvstore: KVStoreBase, param_names: Sequence[str]) -> None:
    """Give the store the gradients and take the new weights."""
    taken = _with_gradient(param_arrays, grad_arrays, param_names)
    _exchange(kvstore, [name for name, _, _ in taken], [grads for _, _, grads in taken],
              [arrays for _, arrays, _ in taken])


def update_params(param_arrays: PerContext, grad_arrays: PerContext, updater: Any,
                  num_device: int, kvstore: KVStoreBase | None = None,
                  param_names: Sequence[str] | None = None) -> None:
    """Sum the gradients over contexts and workers (by the store), then update here."""
    names = [str(i) for i in range(len(param_arrays))] if param_names is None else param_names
    taken = _with_gradient(param_arrays, grad_arrays, names)
    if kvstore is not None:
        grads = [grads for _, _, grads in taken]
        _exchange(kvstore, [name for name, _, _ in taken], grads, grads)
    places = {name: place for place, name in enumerate(names)}
    for name, arrays, grads in taken:
        for device, (weight, grad) in enumerate(zip(arrays, grads, strict=True)):
            updater(places[name] * num_device + device, grad, weight)


def _with_gradient(param_arrays: PerContext, grad_arrays: PerContext, names: Sequence[str]
                   ) -> list[tuple[str, list[Any], list[Any]]]:
    return [(name, list(arrays), list(grads))
            for name, arrays, grads in zip(names, param_arrays, grad_arrays, strict=True)
            if grads and grads[0] is not None]


def _exchange(kvstore: KVStoreBase, names: list[str], values: list[Any], outs: list[Any]) -> None:
    """Push and pull everything; the first layers, which are needed first, come first."""
    if capable(kvstore, KVStoreBase.BATCH):
        if names:
            kvstore.pushpull(names, values, out=outs, priority=[-i for i in range(len(names))])
        return
    for place, (name, value, out) in enumerate(zip(names, values, outs, strict=True)):
        kvstore.pushpull(name, value, out=out, priority=-place)
