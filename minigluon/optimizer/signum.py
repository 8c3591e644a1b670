"""Signum: momentum, of which only the sign is taken."""
from __future__ import annotations

from typing import Any

from .. import ndarray as nd
from ..ndarray import NDArray
from .optimizer import Index, Optimizer, State, register

__all__ = ["Signum"]


@register
class Signum(Optimizer):
    """signSGD with momentum (Bernstein et al., 2018).

    ``m = momentum * m - (1 - momentum) * (wd * w + g)`` and
    ``w = (1 - lr * wd_lh) * w + lr * sign(m)``; without momentum
    ``w = (1 - lr * (wd + wd_lh)) * w - lr * sign(g)``.

    Args:
        learning_rate, momentum: as above.
        wd_lh: weight decay beside the sign (Loshchilov and Hutter, 2017).
        kwargs: settings of every Optimizer.
    """

    def __init__(self, learning_rate: float = 0.01, momentum: float = 0.9, wd_lh: float = 0.0,
                 **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.momentum = momentum
        self.wd_lh = wd_lh

    def create_state(self, index: Index, weight: NDArray) -> State:
        """The momentum, or None without one."""
        return nd.zeros_like(weight) if self.momentum else None

    def _as_operator(self, count: int, has_state: bool
                     ) -> tuple[str, float, dict[str, Any]] | None:
        if not has_state:
            return None  # its weight decay is no multiple of wd
        return "signum_update", 1.0, {"momentum": self.momentum, "wd_lh": self.wd_lh,
                                      **self._common()}

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """One step on `weight`; `state` is the momentum or None."""
        if state is not None:
            super().update(index, weight, grad, state)
            return
        settings = self._op_settings(index)
        settings["wd"] += self.wd_lh
        nd.signsgd_update(weight, grad, out=weight, **settings)
