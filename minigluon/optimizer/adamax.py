"""AdaMax: Adam with the largest gradient in place of the mean square."""
from __future__ import annotations

from typing import Any

from .. import ndarray as nd
from ..ndarray import NDArray
from .optimizer import Index, Optimizer, State, register

__all__ = ["Adamax"]


@register
class Adamax(Optimizer):
    """AdaMax (Kingma and Ba, 2014, section 7.1).

    With ``g = clip(rescale_grad * grad + wd * w)``: ``m = beta1 * m + (1 - beta1) * g``,
    ``u = max(beta2 * u, |g|)`` and ``w = w - lr / (1 - beta1 ** t) * m / u``.

    Args:
        learning_rate, beta1, beta2: as above. kwargs: settings of every Optimizer.
    """

    def __init__(self, learning_rate: float = 0.002, beta1: float = 0.9, beta2: float = 0.999,
                 **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2

    def create_state(self, index: Index, weight: NDArray) -> State:
        """(running mean of the gradient, decaying maximum of its size)."""
        return nd.zeros_like(weight), nd.zeros_like(weight)

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """One step on `weight`; an element whose gradients were all 0 stays as it is."""
        lr, wd, count = self._rates(index)
        mean, largest = state
        g = self._clipped(grad * self.rescale_grad + wd * weight)
        mean[:] = self.beta1 * mean + (1 - self.beta1) * g
        largest[:] = nd.maximum(self.beta2 * largest, nd.abs(g))
        step = lr / (1 - self.beta1**count)
        weight -= step * mean / (largest + (largest == 0))
