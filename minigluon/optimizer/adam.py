"""Adam: steps scaled by running means of the gradient and of its square."""
from __future__ import annotations

import math
from typing import Any

from ..ndarray import NDArray
from .optimizer import Index, Optimizer, State, register

__all__ = ["Adam"]


@register
class Adam(Optimizer):
    """Adam (Kingma and Ba, 2014).

    With ``g = clip(rescale_grad * grad + wd * w)``, running means m of g and v of g * g, and t
    counting updates from 1: ``w = w - lr_t * m / (sqrt(v) + epsilon)`` where
    ``lr_t = lr * sqrt(1 - beta2 ** t) / (1 - beta1 ** t)``.

    Args:
        learning_rate, beta1, beta2, epsilon: as above.
        lazy_update: for row_sparse gradients, update only the rows that are present.
        kwargs: settings of every Optimizer (wd, clip_gradient, lr_scheduler, ...).

    >>> import minigluon as mx
    >>> w, adam = mx.nd.ones((2,)), Adam(learning_rate=0.5)
    >>> adam.update(0, w, mx.nd.ones((2,)), adam.create_state(0, w))
    >>> w.asnumpy().round(4).tolist()
    [0.5, 0.5]
    """

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        lazy_update: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.lazy_update = lazy_update

    def create_state(self, index: Index, weight: NDArray) -> State:
        """(running mean of the gradient, running mean of its square)."""
        return self._zeros(weight, self.lazy_update), self._zeros(weight, self.lazy_update)

    def _as_operator(self, count: int, has_state: bool) -> tuple[str, float, dict[str, Any]]:
        correction = math.sqrt(1.0 - self.beta2**count) / (1.0 - self.beta1**count)
        return "adam_update", correction, {
            "beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon, **self._common()}
