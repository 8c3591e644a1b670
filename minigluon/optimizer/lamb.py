"""LAMB: Adam with a step for each layer, for large batches."""
from __future__ import annotations

from typing import Any

from .. import ndarray as nd
from ..ndarray import NDArray
from .optimizer import Index, Optimizer, State, register

__all__ = ["LAMB"]


@register
class LAMB(Optimizer):
    """Layer-wise adaptive moments (You et al., 2019).

    With running means m of ``g = clip(rescale_grad * grad)`` and v of g * g (both corrected for
    their start when `bias_correction`): ``u = m / (sqrt(v) + epsilon) + wd * w``, and
    ``w = w - lr * |w| / |u| * u``, with |w| kept within the bounds, and the ratio 1 where a norm
    is 0.

    Args:
        learning_rate, beta1, beta2, epsilon: as above.
        lower_bound, upper_bound: of |w|; None for no bound.
        bias_correction: divide the means by 1 - beta ** t.
        kwargs: settings of every Optimizer.
    """

    def __init__(self, learning_rate: float = 0.001, beta1: float = 0.9, beta2: float = 0.999,
                 epsilon: float = 1e-6, lower_bound: float | None = None,
                 upper_bound: float | None = None, bias_correction: bool = True,
                 **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound
        self.bias_correction = bias_correction

    def create_state(self, index: Index, weight: NDArray) -> State:
        """(running mean of the gradient, of its square)."""
        return nd.zeros_like(weight), nd.zeros_like(weight)

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """One step on `weight`; `state` is the pair of running means."""
        lr, wd, count = self._rates(index)
        mean, square = state
        g = self._clipped(grad * self.rescale_grad)
        mean[:] = self.beta1 * mean + (1 - self.beta1) * g
        square[:] = self.beta2 * square + (1 - self.beta2) * g * g
        first, second = 1.0, 1.0
        if self.bias_correction:
            first, second = 1 - self.beta1**count, 1 - self.beta2**count
        step = (mean / first) / (nd.sqrt(square / second) + self.epsilon) + wd * weight
        weight -= lr * self._ratio(weight, step) * step

    def _ratio(self, weight: NDArray, step: NDArray) -> float:
        size, length = self._norm(weight), self._norm(step)
        if self.lower_bound is not None:
            size = max(size, self.lower_bound)
        if self.upper_bound is not None:
            size = min(size, self.upper_bound)
        return size / length if size > 0 and length > 0 else 1.0
