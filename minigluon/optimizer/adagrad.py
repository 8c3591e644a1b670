"""AdaGrad, with a step for each element or for each row."""
from __future__ import annotations

from typing import Any

from .. import ndarray as nd
from ..base import ArgumentValueError, ShapeError
from ..ndarray import NDArray
from .optimizer import Index, Optimizer, State, apply_rule, register

__all__ = ["AdaGrad", "GroupAdaGrad"]


@register
class AdaGrad(Optimizer):
    """AdaGrad (Duchi, Hazan and Singer, 2011).

    With ``g = clip(rescale_grad * grad)`` and h the sum of all g * g so far:
    ``w = w - lr * (g / sqrt(h + eps) + wd * w)``.

    Args:
        eps: keeps the division finite.
        kwargs: settings of every Optimizer.

    >>> import minigluon as mx
    >>> w, adagrad = mx.nd.ones((2,)), AdaGrad(learning_rate=0.5)
    >>> adagrad.update(0, w, mx.nd.ones((2,)), adagrad.create_state(0, w))
    >>> w.asnumpy().round(4).tolist()
    [0.5, 0.5]
    """

    def __init__(self, eps: float = 1e-7, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Index, weight: NDArray) -> State:
        """The sum of squared gradients."""
        return nd.zeros_like(weight)

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """One step on `weight`; `state` is the sum of squares."""
        if grad.stype == "row_sparse":
            apply_rule("_sparse_adagrad_update", weight, [grad, state],
                       epsilon=self.float_stable_eps, **self._op_settings(index))
            return
        lr, wd, _ = self._rates(index)
        g = self._clipped(grad * self.rescale_grad)
        state += g * g
        weight -= lr * (g / nd.sqrt(state + self.float_stable_eps) + wd * weight)


@register
class GroupAdaGrad(Optimizer):
    """AdaGrad with one step size for each row of a matrix; without weight decay.

    With ``g = clip(rescale_grad * grad)`` and h the sum of the row means of g * g:
    ``w = w - lr * g / sqrt(h + eps)``.

    Args:
        eps: keeps the division finite.
        kwargs: settings of every Optimizer; wd must be 0.
    """

    def __init__(self, eps: float = 1e-5, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Index, weight: NDArray) -> State:
        """The sum of the mean squares of each row, shape (rows, 1)."""
        if weight.ndim != 2:
            raise ShapeError(f"GroupAdaGrad: expected a matrix, got a weight of {weight.shape}")
        return nd.zeros((weight.shape[0], 1), ctx=weight.context, dtype=weight.dtype,
                        stype=weight.stype)

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """One step on `weight`; `state` is the history of the rows."""
        settings = self._op_settings(index)
        if wd := settings.pop("wd"):
            raise ArgumentValueError(f"GroupAdaGrad has no weight decay; got wd={wd}")
        apply_rule("_contrib_group_adagrad_update", weight, [grad, state],
                   epsilon=self.float_stable_eps, **settings)
