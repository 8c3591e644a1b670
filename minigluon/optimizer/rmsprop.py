"""RMSProp: steps scaled by a running mean of squared gradients."""
from __future__ import annotations

from typing import Any

from .. import ndarray as nd
from ..ndarray import NDArray
from .optimizer import Index, Optimizer, State, register

__all__ = ["RMSProp"]


@register
class RMSProp(Optimizer):
    """RMSProp (Tieleman and Hinton, 2012), and centered (Graves, 2013).

    With ``g = clip(rescale_grad * grad + wd * w)`` and n the running mean of g * g:
    ``w = w - lr * g / sqrt(n + epsilon)``. Centered: with s the running mean of g,
    ``d = gamma2 * d - lr * g / sqrt(n - s * s + epsilon)`` and ``w = w + d``.

    Args:
        learning_rate, epsilon: as above. gamma1: decay of the running means.
        gamma2: momentum of the centered form. centered: which form.
        clip_weights: clip the new weights to [-clip_weights, clip_weights].
        kwargs: settings of every Optimizer.
    """

    def __init__(self, learning_rate: float = 0.001, gamma1: float = 0.9, gamma2: float = 0.9,
                 epsilon: float = 1e-8, centered: bool = False,
                 clip_weights: float | None = None, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.gamma1 = gamma1
        self.gamma2 = gamma2
        self.epsilon = epsilon
        self.centered = centered
        self.clip_weights = clip_weights

    def create_state(self, index: Index, weight: NDArray) -> State:
        """(n,), or (n, s, d) when centered."""
        return tuple(nd.zeros_like(weight) for _ in range(3 if self.centered else 1))

    def _as_operator(self, count: int, has_state: bool) -> tuple[str, float, dict[str, Any]]:
        settings = {"gamma1": self.gamma1, "epsilon": self.epsilon, **self._common(),
                    "clip_weights": -1.0 if self.clip_weights is None else self.clip_weights}
        if not self.centered:
            return "rmsprop_update", 1.0, settings
        return "rmspropalex_update", 1.0, {"gamma2": self.gamma2, **settings}
