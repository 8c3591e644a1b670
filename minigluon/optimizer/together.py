"""All weights of a context in one native call, for optimizers whose update is one operator."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..device.cpu import native
from ..dispatch import observing
from ..ndarray import NDArray
from .optimizer import Index, Optimizer

if TYPE_CHECKING:
    from .updater import Updater

__all__ = ["Together"]

# Where a subclass, or a user on the object, changes one of these, each weight is updated by itself.
_SHARED = ("update", "update_multi_precision", "_update_count", "_get_lr", "_get_wd", "_mult",
           "learning_rate", "_set_current_context")


def _is_one_operator(optimizer: Optimizer) -> bool:
    """Whether its update is what the class that says `_as_operator` means by it."""
    kind = type(optimizer)
    owner = next(base for base in kind.__mro__ if "_as_operator" in vars(base))
    own = vars(optimizer)
    return all(getattr(kind, name) is getattr(owner, name) and name not in own
               for name in _SHARED)


class Together:
    """Prepared updates of several weights. Results are those of one update after the other.

    Attributes:
        mults: the multipliers of learning rate and weight decay it was prepared with.
    """

    def __init__(self, updater: Updater, prepared: Any, name: str, has_state: bool, context: Any,
                 mults: list[tuple[float, float]]) -> None:
        self._updater = updater
        self._optimizer = updater.optimizer
        self._prepared = prepared
        self._name = name
        self._has_state = has_state
        self._context = context
        self.mults = mults
        self._rule: tuple[str, float, dict[str, Any]] | None = None
        self._counts: dict[Index, int] = {}

    @classmethod
    def of(cls, updater: Updater, indices: Sequence[Index], grads: Sequence[NDArray],
           weights: Sequence[NDArray], own_grads: bool) -> Together | None:
        """Prepared updates, or None where these weights are updated one by one.

        Args:
            updater: holds the states; they are made here where they are missing.
            indices, grads, weights: one each; the weights are on one context.
            own_grads: the gradients are those attached to the weights, and must be fresh.
        """
        optimizer = updater.optimizer
        if not native.enabled or not indices or not _is_one_operator(optimizer):
            return None
        context = weights[0].context
        states = [updater.state_of(*row) for row in zip(indices, weights, strict=True)]
        has_state = states[0] is not None
        rule = optimizer._as_operator(1, has_state)
        if rule is None or context.device_type == "gpu":
            return None
        if any(weight.context != context for weight in weights):
            return None
        mults = cls.multipliers(optimizer, indices)
        rows = [(index, weight, grad, state, *mult, own_grads) for index, weight, grad, state, mult
                in zip(indices, weights, grads, states, mults, strict=True)]
        prepared = native.core.make_updates(rule[0], rows)
        if prepared is None:
            return None
        return cls(updater, prepared, rule[0], has_state, context, mults)

    @staticmethod
    def multipliers(optimizer: Optimizer, indices: Sequence[Index]) -> list[tuple[float, float]]:
        """The factors on learning rate and weight decay of each weight, as they are now."""
        return [(optimizer._mult(index, "lr_mult"), optimizer._mult(index, "wd_mult"))
                for index in indices]

    def ready(self) -> int:
        """The number of the update, if `run` can do it.

        0: not this time (a stale gradient; weights that were updated unequally often);
        -1: not any more: prepare anew. Nothing has been changed then.
        """
        optimizer = self._updater.optimizer
        if optimizer is not self._optimizer:
            return -1
        if observing.observer is not None:
            return 0  # the observer is to see each operator
        counts = optimizer._all_index_update_counts.get(self._context)
        if counts is None:
            optimizer._set_current_context(self._context)
            counts = optimizer._index_update_count
        count: int = self._prepared.ready(self._updater.states, counts, optimizer.begin_num_update)
        if count > 0:
            self._counts = counts
            self._rule = optimizer._as_operator(count, self._has_state)
            if self._rule is None or self._rule[0] != self._name:
                return -1
        return count

    def run(self, count: int) -> None:
        """Update all weights; `ready` has just given `count`."""
        optimizer = self._optimizer
        assert self._rule is not None
        _, factor, settings = self._rule
        optimizer._index_update_count = self._counts
        optimizer.num_update = max(count, optimizer.num_update)
        self._prepared.run(self._counts, count, optimizer.learning_rate, factor, optimizer.wd,
                           settings)
