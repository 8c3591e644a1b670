"""Running statistics, which every device and worker gathers of its own samples: their mean."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import ndarray as nd
from ..autograd import pause
from ..nn import Parameter

__all__ = ["average", "statistics"]


def statistics(params: Sequence[Parameter]) -> list[Parameter]:
    """Those that hold running statistics, and have values."""
    return [param for param in params if not param._differentiable and param._data is not None]


def average(params: Sequence[Parameter], store: Any, known: set[str]) -> None:
    """Give `params` on all devices of all workers the mean over them.

    Args:
        store: sums what all workers push; None: there is one worker.
        known: names of the keys that `store` has; new ones are entered.
    """
    if not params:
        return
    with pause():
        means = [param._reduce() for param in params]
        if store is not None:
            names = [param.name for param in params]
            new = {name: mean for name, mean in zip(names, means, strict=True) if name not in known}
            if new:
                zeros = [nd.zeros(mean.shape, dtype=mean.dtype) for mean in new.values()]
                store.broadcast(list(new), zeros, zeros)
                known.update(new)
            store.pushpull(names, means, out=means)
            means = [mean / store.num_workers for mean in means]
        for param, mean in zip(params, means, strict=True):
            for array in param.list_data():
                array[:] = mean
