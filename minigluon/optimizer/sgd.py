"""Stochastic gradient descent, plain and with momentum."""
from __future__ import annotations

from typing import Any

from ..base import env_int
from ..ndarray import NDArray
from .optimizer import Index, Optimizer, State, apply_rule, register

__all__ = ["SGD", "ccSGD"]


@register
class SGD(Optimizer):
    """Stochastic gradient descent.

    With ``g = clip(rescale_grad * grad)``: without momentum ``w = (1 - lr * wd) * w - lr * g``;
    with it ``m = momentum * m - lr * (g + wd * w)`` and ``w = w + m``.

    Args:
        momentum: share of the last step kept in the next.
        lazy_update: for row_sparse gradients, update only the rows that are present.
        kwargs: settings of every Optimizer (learning_rate, wd, clip_gradient, ...).

    >>> import minigluon as mx
    >>> w, sgd = mx.nd.ones((2,)), SGD(learning_rate=0.5)
    >>> sgd.update(0, w, mx.nd.ones((2,)), sgd.create_state(0, w))
    >>> w.asnumpy().tolist()
    [0.5, 0.5]
    """

    momentum_op = "sgd_mom_update"

    def __init__(self, momentum: float = 0.0, lazy_update: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum
        self.lazy_update = lazy_update
        self.aggregate_num = env_int("MXNET_OPTIMIZER_AGGREGATION_SIZE", 4)

    def create_state(self, index: Index, weight: NDArray) -> State:
        """The momentum, or None without one."""
        return self._zeros(weight, self.lazy_update) if self.momentum else None

    def _as_operator(self, count: int, has_state: bool) -> tuple[str, float, dict[str, Any]]:
        if not has_state:
            return "sgd_update", 1.0, self._common()
        return self.momentum_op, 1.0, {"momentum": self.momentum, **self._common()}

    def _apply(self, weight: NDArray, grad: NDArray, state: State, settings: dict[str, Any]
               ) -> None:
        if state is None:
            apply_rule("sgd_update", weight, [grad], **settings)
        else:
            apply_rule(self.momentum_op, weight, [grad, state], momentum=self.momentum, **settings)

    def create_state_multi_precision(self, index: Index, weight: NDArray) -> State:
        """Of float16 weights (momentum or None, a float32 copy): in this order, as in MXNet."""
        state = super().create_state_multi_precision(index, weight)
        return state[::-1] if self._is_half(weight) else state

    def update_multi_precision(
        self, index: Index, weight: NDArray, grad: NDArray, state: State
    ) -> None:
        """One step; float16 weights are rounded from their float32 copy."""
        if isinstance(index, (list, tuple)) or not self._is_half(weight):
            super().update_multi_precision(index, weight, grad, state)
            return
        momentum, master = state
        settings = self._op_settings(index)
        if momentum is None:
            apply_rule("mp_sgd_update", weight, [grad, master], **settings)
        else:
            apply_rule(f"mp_{self.momentum_op}", weight, [grad, momentum, master],
                       momentum=self.momentum, **settings)


@register
class ccSGD(SGD):
    """SGD under an old name."""
