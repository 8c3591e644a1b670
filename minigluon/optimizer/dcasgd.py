"""SGD that corrects gradients for their delay."""
from __future__ import annotations

from typing import Any

from .. import ndarray as nd
from ..ndarray import NDArray
from .optimizer import Index, Optimizer, State, register

__all__ = ["DCASGD"]


@register
class DCASGD(Optimizer):
    """Delay-compensated asynchronous SGD (Zheng et al., 2016).

    With ``g = clip(rescale_grad * grad)`` and w' the weight before the last step:
    ``m = momentum * m - lr * (g + wd * w + lamda * g * g * (w - w'))`` and ``w = w + m``.

    Args:
        momentum: as above. lamda: how much of the delay is corrected.
        kwargs: settings of every Optimizer.
    """

    def __init__(self, momentum: float = 0.0, lamda: float = 0.04, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum
        self.lamda = lamda

    def create_state(self, index: Index, weight: NDArray) -> State:
        """(momentum or None, the weight before the last step)."""
        return (nd.zeros_like(weight) if self.momentum else None), weight.copy()

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """One step on `weight`; `state` is what create_state says."""
        lr, wd, _ = self._rates(index)
        momentum, before = state
        g = self._clipped(grad * self.rescale_grad)
        step = -lr * (g + wd * weight + self.lamda * g * g * (weight - before))
        if momentum is not None:
            momentum[:] = self.momentum * momentum + step
            step = momentum
        before[:] = weight
        weight += step
