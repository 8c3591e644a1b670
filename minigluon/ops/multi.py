"""Updates of several weights by one call, and LAMB's two phases.

The arrays of one weight stand side by side: weight, gradient, states, then those of the next. The
arithmetic is that of the operator for one weight (``update.py``).
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base import ArgumentValueError
from . import update
from .attrs import Floats
from .operator import Attrs, Operator, operator
from .rules import DTypes, Shapes, same_shape, same_shapes_or_error

__all__: list[str] = []

Array = Any


def _groups(arrays: Sequence[Any], count: int, width: int) -> list[Sequence[Any]]:
    if count < 1 or len(arrays) != count * width:
        raise ArgumentValueError(
            f"expected {width} arrays for each of num_weights={count} weights, got {len(arrays)}")
    return [arrays[i * width:(i + 1) * width] for i in range(count)]


def _shapes(width: int, loaded: int = 0) -> Callable[[Shapes, Attrs], tuple[Shapes, Shapes]]:
    """Groups of equal shapes; behind them `loaded` arrays with a number for each weight."""

    def infer(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
        count, end = attrs["num_weights"], len(shapes) - loaded
        inputs: Shapes = []
        outputs: Shapes = []
        for group in _groups(shapes[:end], count, width):
            ins, outs = same_shape(list(group), attrs)
            inputs += ins
            outputs += outs
        return [*inputs, *[(count,)] * loaded], outputs

    return infer


def _dtypes(width: int, mixed: bool, loaded: int) -> Any:
    """As the weights, or, where float32 copies stand last, weight and gradient as they are."""

    def infer(dtypes: DTypes, attrs: Attrs) -> tuple[DTypes, DTypes]:
        end = len(dtypes) - loaded
        groups = _groups(dtypes[:end], attrs["num_weights"], width)
        ins = [dtype for group in groups
               for dtype in ([*group[:2], *["float32"] * (width - 2)] if mixed else group)]
        return [*ins, *dtypes[end:]], [group[0] for group in groups]

    return infer


def _rates(numbers: Sequence[float], count: int, name: str) -> Sequence[float]:
    if len(numbers) != count:
        raise ArgumentValueError(f"{name}: expected {count} numbers, got {len(numbers)}")
    return numbers


def _define(one: Operator, mixed: bool) -> None:
    """``multi_X`` and ``preloaded_multi_X`` for an update operator of the SGD family."""
    width = len(one.input_names)
    takes_momentum = "momentum" in one.attr_names
    values = [1.0, 1.0, *[0.0] * takes_momentum, *[1.0] * mixed]
    words = ["weight", "gradient", *one.input_names[2:]]

    def run(xp: Any, data: Sequence[Array], lrs: Sequence[float], wds: Sequence[float],
            momentum: float, rescale_grad: float, clip_gradient: float, num_weights: int
            ) -> tuple[Array, ...]:
        if momentum and not takes_momentum:
            raise ArgumentValueError("momentum: this rule has none; use multi_sgd_mom_update")
        extra = {"momentum": momentum} if takes_momentum else {}
        groups = _groups(data, num_weights, width)
        lrs, wds = _rates(lrs, num_weights, "lrs"), _rates(wds, num_weights, "wds")
        for group in groups:
            same_shapes_or_error(f"multi_{one.name}", *group)
        return tuple(
            one.body(xp, *group, lr=lr, wd=wd, rescale_grad=rescale_grad,
                     clip_gradient=clip_gradient, lazy_update=True, **extra)
            for group, lr, wd in zip(groups, lrs, wds, strict=True))

    doc = f"""{one.name} for several weights, each with a learning rate and a decay of its own.

    Args:
        data: {', '.join(words)} of the first weight, then of the next{{behind}}.
        lrs, wds: one number for each weight. num_weights: how many weights.
        rescale_grad, clip_gradient{', momentum' if takes_momentum else ''}: as for one weight.

    Shapes: those of one weight are equal -> the new weights.

    >>> import minigluon as mx
    >>> w, *rest = (mx.nd.array([x]) for x in {values})
    >>> out = mx.nd.{{call}}, out=[w])
    >>> w.asnumpy().tolist()
    [0.5]
    """
    settings: dict[str, Any] = {"num_outputs": lambda attrs: attrs["num_weights"],
                                "mutates": ("data",) if width > 2 else ()}

    def multi(xp: Any, *data: Array, lrs: Floats, wds: Floats, momentum: float = 0.0,
              rescale_grad: float = 1.0, clip_gradient: float = -1.0, num_weights: int = 1
              ) -> tuple[Array, ...]:
        return run(xp, data, lrs, wds, momentum, rescale_grad, clip_gradient, num_weights)

    def preloaded(xp: Any, *data: Array, momentum: float = 0.0, rescale_grad: float = 1.0,
                  clip_gradient: float = -1.0, num_weights: int = 1) -> tuple[Array, ...]:
        lrs, wds = ([float(x) for x in array] for array in data[-2:])
        return run(xp, data[:-2], lrs, wds, momentum, rescale_grad, clip_gradient, num_weights)

    multi.__doc__ = doc.format(
        behind="", call=f"multi_{one.name}(w, *rest, lrs=(0.5,), wds=(0.0,)")
    preloaded.__doc__ = doc.format(
        behind="; at the end the arrays lrs and wds",
        call=f"preloaded_multi_{one.name}(w, *rest, mx.nd.array([0.5]), mx.nd.array([0.0])")
    operator(f"multi_{one.name}", infer=_shapes(width), infer_dtype=_dtypes(width, mixed, 0),
             **settings)(multi)
    operator(f"preloaded_multi_{one.name}", infer=_shapes(width, 2),
             infer_dtype=_dtypes(width, mixed, 2), **settings)(preloaded)


_define(update.sgd_update, False)
_define(update.sgd_mom_update, False)
_define(update.mp_sgd_update, True)
_define(update.mp_sgd_mom_update, True)


# -- large batches -------------------------------------------------------------------------------


@operator("multi_lars", infer=same_shape)
def multi_lars(xp: Any, lrs: Array, weights_sum_sq: Array, grads_sum_sq: Array, wds: Array, *,
               eta: float, eps: float, rescale_grad: float = 1.0) -> Array:
    """Learning rates scaled by LARS (You, Gitman and Ginsburg, 2017), for N weights.

    lr eta |w| / (rescale_grad |g| + wd |w| + eps) where both lengths are above 0, else lr.

    Args:
        lrs, wds: rates. weights_sum_sq, grads_sum_sq: squared lengths (``multi_sum_sq``).
        eta: trust in the ratio. eps: keeps the division finite. rescale_grad: of the gradients.

    Shapes: all (N,) -> (N,).

    >>> import numpy as np
    >>> one = np.ones(1)
    >>> multi_lars.body(np, one, 4 * one, one, 0 * one, eta=0.5, eps=0).tolist()
    [1.0]
    """
    size, slope = xp.sqrt(weights_sum_sq), xp.sqrt(grads_sum_sq)
    ratio = eta * size / (slope * rescale_grad + wds * size + eps)
    return xp.where((size > 0) & (slope > 0), lrs * ratio, lrs)


def _lamb_step(xp: Any, weight: Array, grad: Array, mean: Array, var: Array, beta1: float,
               beta2: float, epsilon: float, t: int, bias_correction: bool, wd: float,
               rescale: float, limit: float) -> Array:
    g = grad * rescale
    if limit >= 0:
        g = xp.clip(g, -limit, limit)
    mean *= beta1
    mean += (1 - beta1) * g
    var *= beta2
    var += (1 - beta2) * g * g
    first, second = (1 - beta1**t, 1 - beta2**t) if bias_correction else (1.0, 1.0)
    return (mean / first) / (xp.sqrt(var / second) + epsilon) + wd * weight


@operator("lamb_update_phase1", infer=same_shape, mutates=("mean", "var"))
def lamb_update_phase1(
    xp: Any, weight: Array, grad: Array, mean: Array, var: Array, *, beta1: float = 0.9,
    beta2: float = 0.999, epsilon: float = 1e-6, t: int, bias_correction: bool = True, wd: float,
    rescale_grad: float = 1.0, clip_gradient: float = -1.0,
) -> Array:
    """LAMB's direction (You et al., 2019): mean / (sqrt(var) + epsilon) + wd weight.

    mean and var are the running means of the gradient and its square, which move first.

    Args:
        t: number of the update, for bias_correction. beta1, beta2, epsilon, wd: as in Adam.

    Shapes: all (*S) -> (*S).

    >>> import numpy as np
    >>> w, g, m, v = (np.array([x]) for x in (1.0, 1.0, 0.0, 0.0))
    >>> attrs = lamb_update_phase1.parse({"t": 1, "wd": 0.5, "epsilon": 0.0})
    >>> lamb_update_phase1.body(np, w, g, m, v, **attrs).round(4).tolist()
    [1.5]
    """
    return _lamb_step(xp, weight, grad, mean, var, beta1, beta2, epsilon, t, bias_correction, wd,
                      rescale_grad, clip_gradient)


def _mixed_step(dtypes: DTypes, attrs: Attrs) -> tuple[DTypes, DTypes]:
    return [*dtypes[:2], *["float32"] * (len(dtypes) - 2)], ["float32"]


@operator("mp_lamb_update_phase1", infer=same_shape, infer_dtype=_mixed_step,
          mutates=("mean", "var"))
def mp_lamb_update_phase1(
    xp: Any, weight: Array, grad: Array, mean: Array, var: Array, weight32: Array, *,
    beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-6, t: int,
    bias_correction: bool = True, wd: float, rescale_grad: float = 1.0,
    clip_gradient: float = -1.0,
) -> Array:
    """lamb_update_phase1 on a single precision master copy; the direction is in float32.

    Shapes: all (*S) -> (*S).

    >>> import numpy as np
    >>> half, g, m, v, w = (np.array([x], "float16") for x in (1.0, 1.0, 0.0, 0.0, 1.0))
    >>> attrs = mp_lamb_update_phase1.parse({"t": 1, "wd": 0.5, "epsilon": 0.0})
    >>> mp_lamb_update_phase1.body(np, half, g, m, v, w, **attrs).dtype
    dtype('float32')
    """
    step = _lamb_step(xp, weight32, grad.astype(weight32.dtype), mean, var, beta1, beta2, epsilon,
                      t, bias_correction, wd, rescale_grad, clip_gradient)
    return step.astype(xp.float32, copy=False)


def _second_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    both, outs = same_shape([*shapes[:2], *shapes[4:]], attrs)
    return [*both[:2], (1,), (1,), *both[2:]], outs


def _trusted(xp: Any, lr: float, r1: Array, r2: Array, low: float, high: float) -> Array:
    size = xp.maximum(r1, low) if low >= 0 else r1
    size = xp.minimum(size, high) if high >= 0 else size
    useless = (size == 0) | (r2 == 0)
    return lr * xp.where(useless, xp.ones_like(size), size / xp.where(useless, 1, r2))


@operator("lamb_update_phase2", infer=_second_shape)
def lamb_update_phase2(xp: Any, weight: Array, g: Array, r1: Array, r2: Array, *, lr: float,
                       lower_bound: float = -1.0, upper_bound: float = -1.0) -> Array:
    """LAMB's step: weight - lr r1 / r2 g; the ratio is 1 where a length is 0.

    Args:
        g: the direction, from phase 1. r1, r2: lengths of weight and direction.
        lower_bound, upper_bound: of r1; negative for none.

    Shapes: weight, g (*S), r1, r2 (1,) -> (*S).

    >>> import numpy as np
    >>> one = np.ones(1)
    >>> lamb_update_phase2.body(np, one, one, one, 2 * one, lr=0.5).tolist()
    [0.75]
    """
    same_shapes_or_error("lamb_update_phase2", weight, g)
    return weight - (_trusted(xp, lr, r1, r2, lower_bound, upper_bound) * g).astype(weight.dtype)


@operator("mp_lamb_update_phase2", infer=_second_shape, mutates=("weight32",),
          infer_dtype=lambda dtypes, attrs: ([dtypes[0], *["float32"] * 4], [dtypes[0]]))
def mp_lamb_update_phase2(xp: Any, weight: Array, g: Array, r1: Array, r2: Array,
                          weight32: Array, *, lr: float, lower_bound: float = -1.0,
                          upper_bound: float = -1.0) -> Array:
    """lamb_update_phase2 on a single precision master copy; the new weight is rounded from it.

    Shapes: weight, g, weight32 (*S), r1, r2 (1,) -> (*S).

    >>> import numpy as np
    >>> one, half = np.ones(1, "float32"), np.ones(1, "float16")
    >>> mp_lamb_update_phase2.body(np, half, one, one, 2 * one, one.copy(), lr=0.5).tolist()
    [0.75]
    """
    same_shapes_or_error("mp_lamb_update_phase2", weight, g, weight32)
    weight32 -= _trusted(xp, lr, r1, r2, lower_bound, upper_bound) * g
    return weight32.astype(weight.dtype)
