"""A step's gradients to a store and new values back, also while backward computes."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import kvstore as kvs
from ..kvstore.api import capable
from ..ndarray import NDArray

__all__ = ["exchange", "pieces"]

_PIECE = 4 << 20  # bytes of gradients that are worth a call of their own
_Arrays = Sequence[list[NDArray]]


def exchange(store: Any, params: Mapping[int, Any], updates: bool, distributed: bool) -> None:
    """Push the gradients of Parameters, by key; what comes back are new values, or their sums.

    Args:
        updates: the store runs the optimizer.
        distributed: it is one of several processes.
    """
    sparse = {key: param for key, param in params.items()
              if param._stype != "default" or param._grad_stype != "default"}
    dense = {key: param for key, param in params.items() if key not in sparse}
    _exchange_rows(store, sparse, updates, distributed)
    keys = [*dense]
    grads = [param.list_grad() for param in dense.values()]
    outs = [param.list_data() for param in dense.values()] if updates else grads
    if capable(store, kvs.KVStoreBase.BATCH):
        if keys and distributed:
            _by_pieces(store, keys, grads, outs, updates)
        elif keys:
            store.pushpull(keys, grads, out=outs, priority=[-key for key in keys])
    else:
        for key, grad, out in zip(keys, grads, outs, strict=True):
            if out is grad:
                store.pushpull(key, grad, priority=-key)
            else:
                store.pushpull(key, grad, out=out, priority=-key)


def _exchange_rows(
    store: Any, params: Mapping[int, Any], updates: bool, distributed: bool
) -> None:
    """Push row_sparse gradients; pull what a dense weight needs, rows of others when asked."""
    for key, param in params.items():
        grads = param.list_grad()
        store.push(key, grads, priority=-key)
        if param._stype == "default":
            outs = param._arrays() if updates else grads
            store.pull(key, outs, priority=-key, ignore_sparse=distributed)


def _by_pieces(
    store: Any, keys: Sequence[int], grads: _Arrays, outs: _Arrays, updates: bool
) -> None:
    """Push `grads` and fill `outs`; one call, or one for some megabytes at a time.

    Gradients come from the last layer to the first, and a call waits for those it is given: so the
    last layers' travel while those of the first are computed.

    Args:
        updates: the store runs the optimizer and `outs` are weights. Backward reads the old ones,
            so new ones are asked for when all gradients are sent; and where all gradients are there
            already, one call does.
    """
    cuts = pieces(grads)
    if len(cuts) > 1 and updates:
        if any(one._var is not None and one._var.busy for several in grads for one in several):
            for cut in cuts:
                store.push(list(keys[cut]), grads[cut], priority=[-key for key in keys[cut]])
            store.pull(list(keys), out=outs, priority=[-key for key in keys])
            return
        cuts = [slice(None)]
    for cut in cuts:
        store.pushpull(list(keys[cut]), grads[cut], out=outs[cut],
                       priority=[-key for key in keys[cut]])


def pieces(grads: _Arrays) -> list[slice]:
    """Where to cut a list of gradients into pieces of some megabytes, the last piece first.

    It depends on sizes alone, so all workers cut alike.
    """
    found: list[slice] = []
    stop, size = len(grads), 0
    for at in reversed(range(len(grads))):
        size += grads[at][0].size * np.dtype(grads[at][0].dtype).itemsize
        if size >= _PIECE or at == 0:
            found.append(slice(at, stop))
            stop, size = at, 0
    return found
