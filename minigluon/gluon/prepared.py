"""All Parameters of a context updated by one native call, prepared once for many steps."""
from __future__ import annotations

from collections.abc import Sequence

from .. import optimizer as opt
from ..autograd import pause
from ..nn import Parameter
from ..optimizer.together import Together

__all__ = ["Prepared"]


class Prepared:
    """What a step without a store needs; it holds until a Parameter changes (`Parameter.changes`).

    Args:
        params: all Parameters, by index.
        updaters: one for each context, all of the same optimizer.
    """

    def __init__(self, params: Sequence[Parameter], updaters: Sequence[opt.Updater]) -> None:
        self._params, self._updaters = params, updaters
        self._changes, self._parts = -1, list[Together]()

    def run(self, optimizer: opt.Optimizer) -> bool:
        """Update all by `optimizer`; False: nothing has been done, the general way has to."""
        for _ in range(2):
            if self._changes != Parameter.changes:
                self._changes, self._parts = Parameter.changes, self._prepare(optimizer)
            counts = [part.ready() for part in self._parts]
            if -1 not in counts:
                break
            self._changes, self._parts = -1, []
        if not counts or min(counts) <= 0:
            return False
        for part, count in zip(self._parts, counts, strict=True):
            part.run(count)
        return True

    def _prepare(self, optimizer: opt.Optimizer) -> list[Together]:
        """One for each context; none where the general way has to do it."""
        trained = [(i, p) for i, p in enumerate(self._params) if p.grad_req != "null"]
        if any(p._data is None or p._grad is None or p._stype != "default"
               or p._grad_stype != "default" for _, p in trained):
            return []
        parts = []
        with pause():
            for place, updater in enumerate(self._updaters):
                if type(updater) is not opt.Updater or updater.optimizer is not optimizer:
                    return []
                part = Together.of(
                    updater, [i for i, _ in trained], [p._grad[place] for _, p in trained],
                    [p._data[place] for _, p in trained], own_grads=True)
                if part is None:
                    return []
                parts.append(part)
        return parts
