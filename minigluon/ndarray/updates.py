"""``nd.contrib``'s AdamW and LAMB steps for one weight or several; ``onehot_encode``,
``reset_arrays``."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base import ArgumentValueError
from ..ops import find_operator
from .calls import nd_call
from .creation import full
from .ndarray import NDArray

__all__ = ["CONTRIB_UPDATES", "onehot_encode", "reset_arrays"]


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


def multi_lamb_update(weights: Sequence[NDArray], grads: Sequence[NDArray],
                      mean: Sequence[NDArray], var: Sequence[NDArray], step_count: Sequence[int],
                      lrs: Sequence[float], wds: Sequence[float],
                      out: Sequence[NDArray] | None = None, num_tensors: int = 0,
                      **kwargs: Any) -> list[NDArray]:
    """One step of LAMB for each of several weights, with own count, lr and wd.

    Args:
        weights, grads, mean, var: arrays, those of one weight of one shape; mean and var change.
        step_count, lrs, wds: numbers, one for each weight. num_tensors: take so many only.
        out: where the new weights go. kwargs: attributes of ``lamb_update_phase1`` and ``phase2``.
    """
    outs = out if out is not None else [None] * len(weights)
    rows = _rows(num_tensors, weights, grads, mean, var, step_count, lrs, wds, outs)
    return [_lamb("", (w, g, m, v), w, t, lr, wd, target, kwargs)
            for w, g, m, v, t, lr, wd, target in rows]


def multi_mp_lamb_update(weights: Sequence[NDArray], grads: Sequence[NDArray],
                         mean: Sequence[NDArray], var: Sequence[NDArray],
                         weights32: Sequence[NDArray], step_count: Sequence[int],
                         lrs: Sequence[float], wds: Sequence[float],
                         out: Sequence[NDArray] | None = None, num_tensors: int = 0,
                         **kwargs: Any) -> list[NDArray]:
    """One step of LAMB for each of several float16 weights that have float32 copies."""
    outs = out if out is not None else [None] * len(weights)
    rows = _rows(num_tensors, weights, grads, mean, var, weights32, step_count, lrs, wds, outs)
    return [_lamb("mp_", (w, g, m, v, w32), w32, t, lr, wd, target, kwargs)
            for w, g, m, v, w32, t, lr, wd, target in rows]


def _lamb(kind: str, arrays: tuple[NDArray, ...], master: NDArray, t: int, lr: float, wd: float,
          out: NDArray | None, settings: dict[str, Any]) -> NDArray:
    bounds = {name: settings[name] for name in ("lower_bound", "upper_bound") if name in settings}
    rest = {name: value for name, value in settings.items() if name not in bounds}
    step = nd_call(find_operator(f"{kind}lamb_update_phase1"), arrays, {"t": t, "wd": wd, **rest})
    lengths = [nd_call(find_operator("norm"), (array,), {}) for array in (master, step)]
    found: NDArray = nd_call(find_operator(f"{kind}lamb_update_phase2"),
                             (arrays[0], step, *lengths, *arrays[4:]),
                             {"lr": lr, "out": out, **bounds})
    return found


def _rows(size: int, *columns: Sequence[Any]) -> list[tuple[Any, ...]]:
    return list(zip(*columns, strict=True))[:size or None]


CONTRIB_UPDATES = {function.__name__: function for function in (
    adamw_update, mp_adamw_update, multi_adamw_update, multi_mp_adamw_update, multi_lamb_update,
    multi_mp_lamb_update)}


def reset_arrays(*arrays: NDArray, num_arrays: int | None = None) -> None:
    """Set all elements of all arrays to 0.

    >>> import minigluon as mx
    >>> x = mx.nd.ones((2,))
    >>> mx.nd.reset_arrays(x, num_arrays=1)
    >>> x.asnumpy().tolist()
    [0.0, 0.0]
    """
    if num_arrays not in (None, len(arrays)):
        raise ArgumentValueError(f"reset_arrays: num_arrays: expected {len(arrays)}, the number "
                                 f"of arrays, got {num_arrays}")
    for array in arrays:
        array[:] = 0


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
