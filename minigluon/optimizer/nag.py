"""Nesterov's accelerated gradient."""
from __future__ import annotations

from typing import Any

from .optimizer import register
from .sgd import SGD

__all__ = ["NAG"]


@register
class NAG(SGD):
    """Nesterov's accelerated gradient: SGD that looks one momentum step ahead.

    With ``g = clip(rescale_grad * grad)``:
    ``w = w + momentum ** 2 * m - (momentum + 1) * lr * (g + wd * w)``, then
    ``m = momentum * m - lr * (g + wd * w)``; without momentum ``w = w - lr * (g + wd * w)``.

    Args:
        momentum: share of the last step kept in the next.
        kwargs: settings of every Optimizer (learning_rate, wd, clip_gradient, ...).

    >>> import minigluon as mx
    >>> w, nag = mx.nd.ones((2,)), NAG(learning_rate=0.5, momentum=0.5)
    >>> nag.update(0, w, mx.nd.ones((2,)), nag.create_state(0, w))
    >>> w.asnumpy().tolist()
    [0.25, 0.25]
    """

    momentum_op = "nag_mom_update"

    def __init__(self, momentum: float = 0.0, **kwargs: Any) -> None:
        super().__init__(momentum=momentum, **kwargs)
        self.aggregate_num = 0
