"""Optimizer updates: one step for one weight, with MXNet's arithmetic.

Each returns the new weight (callers pass ``out=weight``) and changes its state arrays in place.
Common attributes: lr; wd (weight decay); rescale_grad (the gradient is multiplied with it first);
clip_gradient (each element limited to +-that; negative: off). With g the gradient so prepared, the
docstrings give the step. The same functions run on a parameter server's NumPy arrays.
"""
from __future__ import annotations

from typing import Any

from .operator import Attrs, operator
from .rules import same_shape

__all__ = ["adam_update", "ftml_update", "ftrl_update", "mp_nag_mom_update",
           "mp_sgd_mom_update", "mp_sgd_update", "nag_mom_update", "rmsprop_update",
           "rmspropalex_update", "sgd_mom_update", "sgd_update", "signsgd_update",
           "signum_update"]

Array = Any


def _mixed(dtypes: list[Any], attrs: Attrs) -> tuple[list[Any], list[Any]]:
    """Multi precision: weight and gradient in one element type, states in single precision."""
    return [dtypes[0], dtypes[1], *["float32"] * (len(dtypes) - 2)], [dtypes[0]]


def _clipped(xp: Any, grad: Array, limit: float) -> Array:
    return xp.clip(grad, -limit, limit) if limit >= 0 else grad


def _prepared(xp: Any, grad: Array, rescale: float, limit: float) -> Array:
    """A fresh array: the gradient rescaled and clipped."""
    return _clipped(xp, grad * rescale, limit)


def _decayed(xp: Any, weight: Array, grad: Array, wd: float, rescale: float, limit: float
             ) -> Array:
    """A fresh array: rescaled gradient plus weight decay, clipped together."""
    g = grad * rescale
    if wd:
        g += wd * weight
    return _clipped(xp, g, limit)


# -- SGD ----------------------------------------------------------------------------------------


def _sgd(xp: Any, weight: Array, grad: Array, lr: float, wd: float, rescale: float,
         limit: float) -> Array:
    g = _prepared(xp, grad, rescale, limit)
    g *= lr
    return (1.0 - lr * wd) * weight - g


def _sgd_mom(xp: Any, weight: Array, grad: Array, mom: Array, lr: float, momentum: float,
             wd: float, rescale: float, limit: float) -> Array:
    g = _prepared(xp, grad, rescale, limit)
    g *= lr
    mom *= momentum
    if wd:
        mom -= (lr * wd) * weight
    mom -= g
    return weight + mom


@operator("sgd_update", infer=same_shape)
def sgd_update(
    xp: Any, weight: Array, grad: Array, *, lr: float, wd: float = 0.0, rescale_grad: float = 1.0,
    clip_gradient: float = -1.0, lazy_update: bool = True,
) -> Array:
    """Gradient descent: (1 - lr wd) weight - lr g.

    Args:
        weight, grad: of one shape. lr, wd, rescale_grad, clip_gradient: see above.
        lazy_update: concerns row_sparse gradients only.

    Shapes: all (*S) -> (*S).

    >>> import numpy as np
    >>> attrs = sgd_update.parse({"lr": 0.5})
    >>> sgd_update.body(np, np.array([1.0]), np.array([1.0]), **attrs).tolist()
    [0.5]
    """
    return _sgd(xp, weight, grad, lr, wd, rescale_grad, clip_gradient)


@operator("sgd_mom_update", infer=same_shape, mutates=("mom",))
def sgd_mom_update(
    xp: Any, weight: Array, grad: Array, mom: Array, *, lr: float, momentum: float = 0.0,
    wd: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0,
    lazy_update: bool = True,
) -> Array:
    """Descent with momentum: mom = momentum mom - lr wd weight - lr g; weight + mom.

    Shapes: all (*S) -> (*S).

    >>> import numpy as np
    >>> w, g, m = np.array([1.0]), np.array([1.0]), np.array([2.0])
    >>> attrs = sgd_mom_update.parse({"lr": 0.5, "momentum": 0.25})
    >>> sgd_mom_update.body(np, w, g, m, **attrs).tolist(), m.tolist()
    ([1.0], [0.0])
    """
    return _sgd_mom(xp, weight, grad, mom, lr, momentum, wd, rescale_grad, clip_gradient)


@operator("mp_sgd_update", infer=same_shape, infer_dtype=_mixed, mutates=("weight32",))
def mp_sgd_update(
    xp: Any, weight: Array, grad: Array, weight32: Array, *, lr: float, wd: float = 0.0,
    rescale_grad: float = 1.0, clip_gradient: float = -1.0, lazy_update: bool = True,
) -> Array:
    """sgd_update on a single precision master copy; the new weight is rounded from it.

    Shapes: all (*S) -> (*S).

    >>> import numpy as np
    >>> half, master = np.ones(1, np.float16), np.ones(1, np.float32)
    >>> attrs = mp_sgd_update.parse({"lr": 0.5})
    >>> mp_sgd_update.body(np, half, half, master, **attrs).dtype, master.tolist()
    (dtype('float16'), [0.5])
    """
    g = grad.astype(weight32.dtype)
    weight32[...] = _sgd(xp, weight32, g, lr, wd, rescale_grad, clip_gradient)
    return weight32.astype(weight.dtype)


@operator("mp_sgd_mom_update", infer=same_shape, infer_dtype=_mixed, mutates=("mom", "weight32"))
def mp_sgd_mom_update(
    xp: Any, weight: Array, grad: Array, mom: Array, weight32: Array, *, lr: float,
    momentum: float = 0.0, wd: float = 0.0, rescale_grad: float = 1.0,
    clip_gradient: float = -1.0, lazy_update: bool = True,
) -> Array:
    """sgd_mom_update on a single precision master copy; the new weight is rounded from it.

    Shapes: all (*S) -> (*S).

    >>> import numpy as np
    >>> half, mom, master = np.ones(1, np.float16), np.zeros(1, "f"), np.ones(1, "f")
    >>> attrs = mp_sgd_mom_update.parse({"lr": 0.5})
    >>> mp_sgd_mom_update.body(np, half, half, mom, master, **attrs).tolist(), mom.tolist()
    ([0.5], [-0.5])
    """
    g = grad.astype(weight32.dtype)
    weight32[...] = _sgd_mom(xp, weight32, g, mom, lr, momentum, wd, rescale_grad, clip_gradient)
    return weight32.astype(weight.dtype)


# -- Nesterov -----------------------------------------------------------------------------------


def _nag(xp: Any, weight: Array, grad: Array, mom: Array, lr: float, momentum: float, wd: float,
         rescale: float, limit: float) -> Array:
    g = _prepared(xp, grad, rescale, limit)
    if wd:
        g += wd * weight
    g *= lr
    new = weight + (momentum * momentum) * mom - (momentum + 1) * g
    mom *= momentum
    mom -= g
    if wd:  # MXNet decays by the weight that it has just written
        mom -= (lr * wd) * (new - weight)
    return new


@operator("nag_mom_update", infer=same_shape, mutates=("mom",))
def nag_mom_update(
    xp: Any, weight: Array, grad: Array, mom: Array, *, lr: float, momentum: float = 0.0,
    wd: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0,
) -> Array:
    """Nesterov's momentum: new = weight + momentum^2 mom - (momentum + 1) lr (g + wd weight);
    then mom = momentum mom - lr (g + wd new).

    Shapes: all (*S) -> (*S).

    >>> import numpy as np
    >>> w, g, m = np.array([1.0]), np.array([1.0]), np.array([0.0])
    >>> attrs = nag_mom_update.parse({"lr": 0.5, "momentum": 0.5})
    >>> nag_mom_update.body(np, w, g, m, **attrs).tolist(), m.tolist()
    ([0.25], [-0.5])
    """
    return _nag(xp, weight, grad, mom, lr, momentum, wd, rescale_grad, clip_gradient)


@operator("mp_nag_mom_update", infer=same_shape, infer_dtype=_mixed, mutates=("mom", "weight32"))
def mp_nag_mom_update(
    xp: Any, weight: Array, grad: Array, mom: Array, weight32: Array, *, lr: float,
    momentum: float = 0.0, wd: float = 0.0, rescale_grad: float = 1.0,
    clip_gradient: float = -1.0,
) -> Array:
    """nag_mom_update on a single precision master copy; the new weight is rounded from it.

    Shapes: all (*S) -> (*S).

    >>> import numpy as np
    >>> half, mom, master = np.ones(1, np.float16), np.zeros(1, "f"), np.ones(1, "f")
    >>> attrs = mp_nag_mom_update.parse({"lr": 0.5})
    >>> mp_nag_mom_update.body(np, half, half, mom, master, **attrs).tolist()
    [0.5]
    """
    g = grad.astype(weight32.dtype)
    weight32[...] = _nag(xp, weight32, g, mom, lr, momentum, wd, rescale_grad, clip_gradient)
    return weight32.astype(weight.dtype)


# -- sign of the gradient -----------------------------------------------------------------------


@operator("signsgd_update", infer=same_shape)
def signsgd_update(
    xp: Any, weight: Array, grad: Array, *, lr: float, wd: float = 0.0, rescale_grad: float = 1.0,
    clip_gradient: float = -1.0,
) -> Array:
    """(1 - lr wd) weight - lr sign(grad).

    Shapes: all (*S) -> (*S).

    >>> import numpy as np
    >>> attrs = signsgd_update.parse({"lr": 0.5})
    >>> signsgd_update.body(np, np.array([1.0]), np.array([7.0]), **attrs).tolist()
    [0.5]
    """
    return (1.0 - lr * wd) * weight - lr * xp.sign(grad)


@operator("signum_update", infer=same_shape, mutates=("mom",))
def signum_update(
    xp: Any, weight: Array, grad: Array, mom: Array, *, lr: float, momentum: float = 0.0,
    wd: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0, wd_lh: float = 0.0,
) -> Array:
    """mom = momentum mom - (1 - momentum) (wd weight + g); (1 - lr wd_lh) weight + lr sign(mom).

    Shapes: all (*S) -> (*S).

    >>> import numpy as np
    >>> w, g, m = np.array([1.0]), np.array([7.0]), np.array([0.0])
    >>> signum_update.body(np, w, g, m, **signum_update.parse({"lr": 0.5})).tolist()
    [0.5]
    """
    g = _prepared(xp, grad, rescale_grad, clip_gradient)
    if wd:
        g += wd * weight
    mom *= momentum
    mom -= (1 - momentum) * g
    return (1.0 - lr * wd_lh) * weight + lr * xp.sign(mom)


# -- scaled by running moments ------------------------------------------------------------------


def _average(xp: Any, state: Array, decay: float, fresh: Array) -> None:
    """state = decay state + (1 - decay) fresh, in place; `fresh` is used up.

    MXNet's kernels take their settings as float32: 1 - 0.999 is then 1.3e-5 (relative) smaller.
    Rounding here as well keeps loss curves equal, also in float64.
    """
    decay = float(xp.float32(decay))
    state *= decay
    fresh *= 1.0 - decay
    state += fresh


@operator("adam_update", infer=same_shape, mutates=("mean", "var"))
def adam_update(
    xp: Any, weight: Array, grad: Array, mean: Array, var: Array, *, lr: float,
    beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8, wd: float = 0.0,
    rescale_grad: float = 1.0, clip_gradient: float = -1.0, lazy_update: bool = True,
) -> Array:
    """Adam without bias correction (the optimizer puts that into lr).

    g = clip(rescale_grad grad + wd weight); mean and var are running means of g and g^2 with decay
    beta1 and beta2; weight - lr mean / (sqrt(var) + epsilon).

    Shapes: all (*S) -> (*S).

    >>> import numpy as np
    >>> w, g, m, v = (np.array([1.0]) for _ in range(4))
    >>> attrs = adam_update.parse({"lr": 0.5, "epsilon": 0.0})
    >>> adam_update.body(np, w, g, m, v, **attrs).tolist()
    [0.5]
    """
    g = _decayed(xp, weight, grad, wd, rescale_grad, clip_gradient)
    _average(xp, var, beta2, g * g)
    _average(xp, mean, beta1, g)
    root = xp.sqrt(var)
    root += epsilon
    return weight - lr * mean / root


@operator("rmsprop_update", infer=same_shape, mutates=("n",))
def rmsprop_update(
    xp: Any, weight: Array, grad: Array, n: Array, *, lr: float, gamma1: float = 0.95,
    epsilon: float = 1e-8, wd: float = 0.0, rescale_grad: float = 1.0,
    clip_gradient: float = -1.0, clip_weights: float = -1.0,
) -> Array:
    """n is the running mean of g^2 with decay gamma1; weight - lr g / sqrt(n + epsilon).

    Shapes: all (*S) -> (*S).

    >>> import numpy as np
    >>> w, g, n = (np.array([1.0]) for _ in range(3))
    >>> attrs = rmsprop_update.parse({"lr": 0.5, "epsilon": 0.0})
    >>> rmsprop_update.body(np, w, g, n, **attrs).tolist()
    [0.5]
    """
    g = _decayed(xp, weight, grad, wd, rescale_grad, clip_gradient)
    _average(xp, n, gamma1, g * g)
    return _clipped(xp, weight - lr * (g / xp.sqrt(n + epsilon)), clip_weights)


@operator("rmspropalex_update", infer=same_shape, mutates=("n", "g", "delta"))
def rmspropalex_update(
    xp: Any, weight: Array, grad: Array, n: Array, g: Array, delta: Array, *, lr: float,
    gamma1: float = 0.95, gamma2: float = 0.9, epsilon: float = 1e-8, wd: float = 0.0,
    rescale_grad: float = 1.0, clip_gradient: float = -1.0, clip_weights: float = -1.0,
) -> Array:
    """Centred RMSProp: n and g are running means of grad^2 and grad;
    delta = gamma2 delta - lr grad / sqrt(n - g^2 + epsilon); weight + delta.

    Shapes: all (*S) -> (*S).

    >>> import numpy as np
    >>> w, d, n, g, delta = (np.array([x]) for x in (1.0, 1.0, 1.0, 0.0, 0.0))
    >>> attrs = rmspropalex_update.parse({"lr": 0.5, "gamma1": 1.0, "epsilon": 0.0})
    >>> rmspropalex_update.body(np, w, d, n, g, delta, **attrs).tolist()
    [0.5]
    """
    slope = _decayed(xp, weight, grad, wd, rescale_grad, clip_gradient)
    _average(xp, n, gamma1, slope * slope)
    _average(xp, g, gamma1, slope.copy())
    delta *= gamma2
    delta -= lr * (slope / xp.sqrt(n - g * g + epsilon))
    return _clipped(xp, weight + delta, clip_weights)


# -- follow the regularized leader --------------------------------------------------------------


@operator("ftrl_update", infer=same_shape, mutates=("z", "n"))
def ftrl_update(
    xp: Any, weight: Array, grad: Array, z: Array, n: Array, *, lr: float, lamda1: float = 0.01,
    beta: float = 1.0, wd: float = 0.0, rescale_grad: float = 1.0, clip_gradient: float = -1.0,
) -> Array:
    """z += g - (sqrt(n + g^2) - sqrt(n)) weight / lr; n += g^2;
    (sign(z) lamda1 - z) / ((beta + sqrt(n)) / lr + wd) where |z| > lamda1, else 0.

    Shapes: all (*S) -> (*S).

    >>> import numpy as np
    >>> w, g, z, n = (np.array([x]) for x in (0.0, 1.0, 0.0, 0.0))
    >>> attrs = ftrl_update.parse({"lr": 1.0, "lamda1": 0.0})
    >>> ftrl_update.body(np, w, g, z, n, **attrs).tolist()
    [-0.5]
    """
    g = _prepared(xp, grad, rescale_grad, clip_gradient)
    squared = g * g
    z += g - (xp.sqrt(n + squared) - xp.sqrt(n)) * weight / lr
    n += squared
    step = (xp.sign(z) * lamda1 - z) / ((beta + xp.sqrt(n)) / lr + wd)
    return step * (xp.abs(z) > lamda1)


@operator("ftml_update", infer=same_shape, mutates=("d", "v", "z"))
def ftml_update(
    xp: Any, weight: Array, grad: Array, d: Array, v: Array, z: Array, *, lr: float,
    beta1: float = 0.6, beta2: float = 0.999, epsilon: float = 1e-8, t: int, wd: float = 0.0,
    rescale_grad: float = 1.0, clip_grad: float = -1.0,
) -> Array:
    """Follow the moving leader, at step t (from 1): v is the running mean of g^2;
    d' = (1 - beta1^t) / lr (sqrt(v / (1 - beta2^t)) + epsilon);
    z = beta1 z + (1 - beta1) g - (d' - beta1 d) weight; d = d'; -z / d.

    Shapes: all (*S) -> (*S).

    >>> import numpy as np
    >>> w, g, d, v, z = (np.array([x]) for x in (1.0, 1.0, 0.0, 0.0, 0.0))
    >>> attrs = ftml_update.parse({"lr": 0.5, "t": 1, "epsilon": 0.0})
    >>> ftml_update.body(np, w, g, d, v, z, **attrs).round(4).tolist()
    [0.5]
    """
    g = _decayed(xp, weight, grad, wd, rescale_grad, clip_grad)
    beta1, beta2 = float(xp.float32(beta1)), float(xp.float32(beta2))  # see _average
    _average(xp, v, beta2, g * g)
    fresh = (xp.sqrt(v / (1 - beta2**t)) + epsilon) * ((1 - beta1**t) / lr)
    z *= beta1
    z += (1 - beta1) * g - (fresh - beta1 * d) * weight
    d[...] = fresh
    return -z / d
