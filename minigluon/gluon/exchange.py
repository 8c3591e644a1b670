"""A step's gradients to a distributed store and new values back, also while backward computes."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ndarray import NDArray

__all__ = ["exchange", "pieces"]

_PIECE = 4 << 20  # bytes of gradients that are worth a call of their own
_Arrays = Sequence[list[NDArray]]


def exchange(store: Any, keys: Sequence[int], grads: _Arrays, outs: _Arrays, updates: bool) -> None:
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
