"""Stochastic gradient Langevin dynamics: SGD that samples."""
from __future__ import annotations

from .. import ndarray as nd
from ..ndarray import NDArray
from .optimizer import Index, Optimizer, State, register

__all__ = ["SGLD"]


@register
class SGLD(Optimizer):
    """Stochastic gradient Langevin dynamics (Welling and Teh, 2011).

    ``w = w - lr / 2 * (clip(rescale_grad * grad) + wd * w) + normal(0, sqrt(lr))``; the noise is
    drawn from the device's stream, which ``mx.random.seed`` restarts.
    """

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """One step on `weight`; there is no state."""
        lr, wd, _ = self._rates(index)
        g = self._clipped(grad * self.rescale_grad)
        noise = nd.random.normal(0, lr**0.5, shape=weight.shape, dtype=weight.dtype,
                                 ctx=weight.context)
        weight[:] = weight - lr / 2 * (g + wd * weight) + noise
