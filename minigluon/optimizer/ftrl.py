"""Optimizers that follow a regularized or a moving leader."""
from __future__ import annotations

from typing import Any

from .. import ndarray as nd
from ..ndarray import NDArray
from .optimizer import Index, Optimizer, State, register

__all__ = ["FTML", "Ftrl"]


@register
class Ftrl(Optimizer):
    """Follow the regularized leader, proximal (McMahan et al., 2013).

    Args:
        lamda1: weight of the L1 term. learning_rate, beta: the step is lr / (beta + sqrt(n)).
        kwargs: settings of every Optimizer; wd is the weight of the L2 term.
    """

    def __init__(self, lamda1: float = 0.01, learning_rate: float = 0.1, beta: float = 1.0,
                 **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.lamda1 = lamda1
        self.beta = beta

    def create_state(self, index: Index, weight: NDArray) -> State:
        """(z, n): the linear term and the sum of squared gradients."""
        return nd.zeros_like(weight), nd.zeros_like(weight)

    def _as_operator(self, count: int, has_state: bool) -> tuple[str, float, dict[str, Any]]:
        return "ftrl_update", 1.0, {"lamda1": self.lamda1, "beta": self.beta, **self._common()}


@register
class FTML(Optimizer):
    """Follow the moving leader (Zheng and Kwok, 2017).

    Args:
        beta1, beta2, epsilon: decays and stabiliser, as in Adam.
        kwargs: settings of every Optimizer.
    """

    def __init__(self, beta1: float = 0.6, beta2: float = 0.999, epsilon: float = 1e-8,
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon

    def create_state(self, index: Index, weight: NDArray) -> State:
        """(d, v, z) of the paper."""
        return tuple(nd.zeros_like(weight) for _ in range(3))

    def _as_operator(self, count: int, has_state: bool) -> tuple[str, float, dict[str, Any]]:
        settings = self._common()
        settings["clip_grad"] = settings.pop("clip_gradient")
        return "ftml_update", 1.0, {"beta1": self.beta1, "beta2": self.beta2,
                                    "epsilon": self.epsilon, "t": count, **settings}
