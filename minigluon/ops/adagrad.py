"""AdaGrad's updates as operators: a step for each element, or one for each row of a matrix."""
from __future__ import annotations

from typing import Any

from ..base import ArgumentValueError, ShapeError
from .operator import Attrs, operator
from .rules import Shapes, merge_shapes, same_shape, same_shapes_or_error

__all__: list[str] = []


def _clipped(xp: Any, grad: Any, rescale: float, limit: float) -> Any:
    grad = grad * rescale
    return xp.clip(grad, -limit, limit) if limit >= 0 else grad


@operator("_sparse_adagrad_update", infer=same_shape, mutates=("history",))
def _sparse_adagrad_update(
    xp: Any, weight: Any, grad: Any, history: Any, *, lr: float, epsilon: float = 1e-7,
    wd: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0,
) -> Any:
    """history += g * g; weight - lr g / sqrt(history + epsilon). There is no weight decay.

    Shapes: all (*S) -> (*S).

    >>> import numpy as np
    >>> w, g, h = (np.array([x]) for x in (1.0, 2.0, 0.0))
    >>> attrs = _sparse_adagrad_update.parse({"lr": 0.5, "epsilon": 0.0})
    >>> _sparse_adagrad_update.body(np, w, g, h, **attrs).tolist(), h.tolist()
    ([0.5], [4.0])
    """
    if wd:
        raise ArgumentValueError(f"AdaGrad of sparse gradients has no weight decay: wd={wd}")
    same_shapes_or_error("_sparse_adagrad_update", weight, grad, history)
    g = _clipped(xp, grad, rescale_grad, clip_gradient)
    history += g * g
    return weight - lr * g / xp.sqrt(history + epsilon)


def _row_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    (weight, grad), out = same_shape(shapes[:2], attrs)
    rows = None if weight is None else (weight[0], *[1] * (len(weight) - 1))
    return [weight, grad, merge_shapes(shapes[2], rows, "shapes of history")], out


@operator("_contrib_group_adagrad_update", infer=_row_shape, mutates=("history",))
def _group_adagrad_update(
    xp: Any, weight: Any, grad: Any, history: Any, *, lr: float, rescale_grad: float = 1.0,
    clip_gradient: float = -1.0, epsilon: float = 1e-5,
) -> Any:
    """history += mean of g * g over each row; weight - lr g / sqrt(history + epsilon).

    Shapes: weight, grad (N, D), history (N, 1) -> (N, D).

    >>> import numpy as np
    >>> w, g, h = np.array([[1.0, 1.0]]), np.array([[2.0, 2.0]]), np.zeros((1, 1))
    >>> attrs = _group_adagrad_update.parse({"lr": 0.5, "epsilon": 0.0})
    >>> _group_adagrad_update.body(np, w, g, h, **attrs).tolist(), h.tolist()
    ([[0.5, 0.5]], [[4.0]])
    """
    same_shapes_or_error("_contrib_group_adagrad_update", weight, grad)
    if history.shape != (weight.shape[0], *[1] * (weight.ndim - 1)):
        raise ShapeError(f"history: expected one number for each row of weight {weight.shape}, "
                         f"got {history.shape}")
    g = _clipped(xp, grad, rescale_grad, clip_gradient)
    history += (g * g).mean(axis=tuple(range(1, g.ndim)), keepdims=True, dtype=g.dtype)
    return weight - lr * g / xp.sqrt(history + epsilon)
