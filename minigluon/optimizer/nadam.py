"""Nadam: Adam with Nesterov's look ahead."""
from __future__ import annotations

from typing import Any

from .. import ndarray as nd
from ..ndarray import NDArray
from .optimizer import Index, Optimizer, State, register

__all__ = ["Nadam"]


@register
class Nadam(Optimizer):
    """Nesterov Adam (Dozat, 2015).

    Adam whose momentum follows a schedule, ``beta1 * (1 - 0.5 * 0.96 ** (t * schedule_decay))``,
    and whose step mixes the present gradient with the momentum of the step to come.

    Args:
        learning_rate, beta1, beta2, epsilon: as in Adam.
        schedule_decay: how fast the momentum approaches beta1.
        kwargs: settings of every Optimizer.
    """

    def __init__(self, learning_rate: float = 0.001, beta1: float = 0.9, beta2: float = 0.999,
                 epsilon: float = 1e-8, schedule_decay: float = 0.004, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.schedule_decay = schedule_decay
        self.m_schedule = 1.0

    def create_state(self, index: Index, weight: NDArray) -> State:
        """(running mean of the gradient, of its square)."""
        return nd.zeros_like(weight), nd.zeros_like(weight)

    def _momentum(self, count: int) -> float:
        return float(self.beta1 * (1 - 0.5 * 0.96 ** (count * self.schedule_decay)))

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """One step on `weight`.

        The product of all momenta is one number for the optimizer, moved on by the update of
        each parameter: so MXNet has it, and saved states agree.
        """
        lr, wd, count = self._rates(index)
        mean, square = state
        now, following = self._momentum(count), self._momentum(count + 1)
        self.m_schedule *= now
        g = self._clipped(grad * self.rescale_grad + wd * weight)
        mean[:] = self.beta1 * mean + (1 - self.beta1) * g
        square[:] = self.beta2 * square + (1 - self.beta2) * g * g
        ahead = (1 - now) / (1 - self.m_schedule) * g
        ahead += following / (1 - self.m_schedule * following) * mean
        root = nd.sqrt(square / (1 - self.beta2**count)) + self.epsilon
        weight -= lr * ahead / root
