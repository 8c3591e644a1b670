"""``nd.contrib``'s AdamW steps, for one weight or several; ``nd.onehot_encode``."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ops import find_operator
from .creation import full
from .ndarray import NDArray, nd_call

__all__ = ["CONTRIB_UPDATES", "onehot_encode"]


def _scale(rescale_grad: Any, like: NDArray, dtype: Any) -> NDArray:
    if isinstance(rescale_grad, NDArray):
        return rescale_grad.as_in_context(like.context).astype(dtype, copy=False)
    return full((1,), rescale_grad, like.context, dtype)


def adamw_update(weight: NDArray, grad: NDArray, mean: NDArray, var: NDArray, rescale_grad: Any,
                 lr: float, eta: float, beta1: float = 0.9, beta2: float = 0.999,
                 epsilon: float = 1e-8, wd: float = 0, clip_gradient: float = -1,
                 out: NDArray | None = None, name: str | None = None, **kwargs: Any) -> NDArray:
    """One step of AdamW: ``_adamw_update``.

    Args:
        weight, grad, mean, var: arrays of one shape; mean and var are changed.
        rescale_grad: a number or an array (1,); the step is skipped where it is 0, inf or nan.
        lr, eta, beta1, beta2, epsilon, wd, clip_gradient: as in the operator.
        out: where the new weight goes.
    """
    scale = _scale(rescale_grad, weight, weight.dtype)
    found: NDArray = nd_call(find_operator("_adamw_update"), (weight, grad, mean, var, scale), {
        "lr": lr, "eta": eta, "beta1": beta1, "beta2": beta2, "epsilon": epsilon, "wd": wd,
        "clip_gradient": clip_gradient, "out": out, "name": name, **kwargs})
    return found


def mp_adamw_update(weight: NDArray, grad: NDArray, mean: NDArray, var: NDArray,
                    weight32: NDArray, rescale_grad: Any, lr: float, eta: float,
                    beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
                    wd: float = 0, clip_gradient: float = -1, out: NDArray | None = None,
                    name: str | None = None, **kwargs: Any) -> NDArray:
    """One step of AdamW for a float16 weight that has a float32 copy: ``_mp_adamw_update``."""
    scale = _scale(rescale_grad, weight, "float32")
    arrays = (weight, grad, mean, var, weight32, scale)
    found: NDArray = nd_call(find_operator("_mp_adamw_update"), arrays, {
        "lr": lr, "eta": eta, "beta1": beta1, "beta2": beta2, "epsilon": epsilon, "wd": wd,
        "clip_gradient": clip_gradient, "out": out, "name": name, **kwargs})
    return found


def multi_adamw_update(weights: Sequence[NDArray], grads: Sequence[NDArray],
                       mean: Sequence[NDArray], var: Sequence[NDArray], rescale_grad: Any,
                       lrs: Sequence[float], wds: Sequence[float], etas: Sequence[float],
                       out: Sequence[NDArray] | None = None, name: str | None = None,
                       size: int = 0, **kwargs: Any) -> list[NDArray]:
    """One step of AdamW for each of several weights, with own lr, wd and eta."""
    outs = out if out is not None else [None] * len(weights)
    rows = _rows(size, weights, grads, mean, var, lrs, wds, etas, outs)
    return [adamw_update(w, g, m, v, rescale_grad, lr, eta, wd=wd, out=target, **kwargs)
            for w, g, m, v, lr, wd, eta, target in rows]


def multi_mp_adamw_update(weights: Sequence[NDArray], grads: Sequence[NDArray],
                          mean: Sequence[NDArray], var: Sequence[NDArray],
                          weights32: Sequence[NDArray], rescale_grad: Any, lrs: Sequence[float],
                          wds: Sequence[float], etas: Sequence[float],
                          out: Sequence[NDArray] | None = None, name: str | None = None,
                          size: int = 0, **kwargs: Any) -> list[NDArray]:
    """One step of AdamW for each of several float16 weights that have float32 copies."""
    outs = out if out is not None else [None] * len(weights)
    rows = _rows(size, weights, grads, mean, var, weights32, lrs, wds, etas, outs)
    return [mp_adamw_update(w, g, m, v, w32, rescale_grad, lr, eta, wd=wd, out=target, **kwargs)
            for w, g, m, v, w32, lr, wd, eta, target in rows]


def _rows(size: int, *columns: Sequence[Any]) -> list[tuple[Any, ...]]:
    return list(zip(*columns, strict=True))[:size or None]


CONTRIB_UPDATES = {function.__name__: function for function in (
    adamw_update, mp_adamw_update, multi_adamw_update, multi_mp_adamw_update)}


def onehot_encode(indices: NDArray, out: NDArray) -> NDArray:
    """Write rows that are 1 at `indices` and 0 elsewhere into `out`, and return it.

    Args:
        indices: (N,). out: (N, depth).

    >>> import minigluon as mx
    >>> mx.nd.onehot_encode(mx.nd.array([1]), mx.nd.zeros((1, 2))).asnumpy().tolist()
    [[0.0, 1.0]]
    """
    nd_call(find_operator("one_hot"), (indices,),
            {"depth": out.shape[1], "dtype": out.dtype, "out": out})
    return out
