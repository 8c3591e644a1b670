"""AdaDelta: steps in the units of the weights, without a learning rate."""
from __future__ import annotations

from typing import Any

from .. import ndarray as nd
from ..ndarray import NDArray
from .optimizer import Index, Optimizer, State, register

__all__ = ["AdaDelta"]


@register
class AdaDelta(Optimizer):
    """AdaDelta (Zeiler, 2012).

    With ``g = clip(rescale_grad * grad)``, running means of g * g and of the squared steps:
    ``step = sqrt(mean_step + epsilon) / sqrt(mean_g + epsilon) * g`` and
    ``w = w - step - wd * w``.

    Args:
        rho: decay of both running means. epsilon: keeps the division finite.
        kwargs: settings of every Optimizer.
    """

    def __init__(self, rho: float = 0.9, epsilon: float = 1e-5, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rho = rho
        self.epsilon = epsilon

    def create_state(self, index: Index, weight: NDArray) -> State:
        """(running mean of squared gradients, of squared steps)."""
        return nd.zeros_like(weight), nd.zeros_like(weight)

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """One step on `weight`; `state` is the pair of running means."""
        _, wd, _ = self._rates(index)
        squares, steps = state
        g = self._clipped(grad * self.rescale_grad)
        squares[:] = self.rho * squares + (1 - self.rho) * g * g
        step = nd.sqrt(steps + self.epsilon) / nd.sqrt(squares + self.epsilon) * g
        steps[:] = self.rho * steps + (1 - self.rho) * step * step
        weight -= step + wd * weight
