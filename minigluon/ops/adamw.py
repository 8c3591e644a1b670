"""AdamW: Adam whose weight decay acts on the weight alone; the step is skipped where the gradient's
scale is 0, infinite or nan (a loss scaler's overflow)."""
from __future__ import annotations

import math
from typing import Any

from .operator import Attrs, operator
from .rules import DTypes, Shapes, same_shape

__all__ = ["adamw_update", "mp_adamw_update"]

Array = Any


def _shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    ins, outs = same_shape(shapes[:-1], attrs)
    return [*ins, (1,) if shapes[-1] is None else shapes[-1]], outs


def _scaled(xp: Any, weight: Array, grad: Array, rescale_grad: Array, clip: float) -> Array | None:
    """The gradient in the weight's type, or None where the step is to be skipped."""
    scale = float(rescale_grad.reshape(-1)[0])
    if not math.isfinite(scale) or scale == 0:
        return None
    g = grad.astype(weight.dtype) * weight.dtype.type(scale)
    return xp.clip(g, -clip, clip) if clip >= 0 else g


def _step(xp: Any, weight: Array, g: Array, mean: Array, var: Array, lr: float, beta1: float,
          beta2: float, epsilon: float, wd: float, eta: float) -> Array:
    mean *= beta1
    mean += (1 - beta1) * g
    var *= beta2
    var += (1 - beta2) * g * g
    return weight - eta * (lr * mean / (xp.sqrt(var) + epsilon) + wd * weight)


@operator("_adamw_update", infer=_shape, mutates=("mean", "var"))
def adamw_update(
    xp: Any, weight: Array, grad: Array, mean: Array, var: Array, rescale_grad: Array, *,
    lr: float, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8, wd: float = 0.0,
    eta: float, clip_gradient: float = -1.0,
) -> Array:
    """weight - eta (lr mean / (sqrt(var) + epsilon) + wd weight), after mean and var have moved.

    Shapes: weight, grad, mean, var (*S), rescale_grad (1,) -> (*S).

    >>> import numpy as np
    >>> w, g, m, v, one = (np.array([x]) for x in (1.0, 1.0, 0.0, 0.0, 1.0))
    >>> attrs = adamw_update.parse({"lr": 0.5, "eta": 1, "beta1": 0, "beta2": 0, "epsilon": 0})
    >>> adamw_update.body(np, w, g, m, v, one, **attrs).tolist()
    [0.5]
    """
    g = _scaled(xp, weight, grad, rescale_grad, clip_gradient)
    if g is None:
        return weight.copy()
    return _step(xp, weight, g, mean, var, lr, beta1, beta2, epsilon, wd, eta)


def _mixed(dtypes: DTypes, attrs: Attrs) -> tuple[DTypes, DTypes]:
    return [dtypes[0], dtypes[0], *["float32"] * 4], [dtypes[0]]


@operator("_mp_adamw_update", infer=_shape, infer_dtype=_mixed,
          mutates=("mean", "var", "weight32"))
def mp_adamw_update(
    xp: Any, weight: Array, grad: Array, mean: Array, var: Array, weight32: Array,
    rescale_grad: Array, *, lr: float, beta1: float = 0.9, beta2: float = 0.999,
    epsilon: float = 1e-8, wd: float = 0.0, eta: float, clip_gradient: float = -1.0,
) -> Array:
    """AdamW on a copy of the weight in single precision.

    Shapes: weight, grad, mean, var, weight32 (*S), rescale_grad (1,) -> (*S).

    >>> import numpy as np
    >>> w, g = np.ones(1, "float16"), np.ones(1, "float16")
    >>> m, v, w32, one = (np.array([x], "float32") for x in (0, 0, 1, 1))
    >>> attrs = mp_adamw_update.parse({"lr": 0.5, "eta": 1, "beta1": 0, "beta2": 0, "epsilon": 0})
    >>> mp_adamw_update.body(np, w, g, m, v, w32, one, **attrs).tolist(), w32.tolist()
    ([0.5], [0.5])
    """
    g = _scaled(xp, weight32, grad, rescale_grad, clip_gradient)
    if g is not None:
        weight32[...] = _step(xp, weight32, g, mean, var, lr, beta1, beta2, epsilon, wd, eta)
    return weight32.astype(weight.dtype)
