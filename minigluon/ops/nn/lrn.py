"""Local response normalization: channels held down by the energy of their neighbours."""
from __future__ import annotations

from typing import Any

from ...base import ArgumentValueError, ShapeError
from ..operator import Attrs, operator
from ..rules import Shapes, same_shape

__all__ = ["channel_window", "lrn"]

Array = Any


def _window_shape(shapes: Shapes, attrs: Attrs, outs: Shapes | None = None
                  ) -> tuple[Shapes, Shapes]:
    if attrs["nsize"] < 1 or attrs["nsize"] % 2 == 0:
        raise ArgumentValueError(f"nsize: expected an odd number of channels, got {attrs['nsize']}")
    ins, results = same_shape(shapes, attrs, outs)
    if ins[0] is not None and len(ins[0]) < 2:
        raise ShapeError(f"expected channels on axis 1, got data {ins[0]}")
    return ins, results


def _around(xp: Any, data: Array, nsize: int) -> Array:
    half = nsize // 2
    widths = [(0, 0)] * data.ndim
    widths[1] = (half, half)
    padded = xp.pad(data, widths)
    total = padded[:, :data.shape[1]].copy()
    for shift in range(1, nsize):
        total += padded[:, shift:shift + data.shape[1]]
    return total


@operator("_channel_window", infer=_window_shape,
          gradient=lambda F, dy, out, data, nsize: [F._channel_window(dy, nsize=nsize)])
def channel_window(xp: Any, data: Array, *, nsize: int) -> Array:
    """The sum over the nsize channels around each channel: its own transpose."""
    return _around(xp, data, nsize)


def _lrn_back(F: Any, dy: Any, out: Any, data: Any, *, alpha: float, beta: float, knorm: float,
              nsize: int) -> list[Any]:
    energy = F._plus_scalar(F._mul_scalar(F._channel_window(F.square(data), nsize=nsize),
                                          scalar=alpha / nsize), scalar=knorm)
    own = F.elemwise_mul(dy, F._power_scalar(energy, scalar=-beta))
    pull = F.elemwise_mul(F.elemwise_mul(dy, data), F._power_scalar(energy, scalar=-beta - 1))
    others = F.elemwise_mul(data, F._channel_window(pull, nsize=nsize))
    return [F.elemwise_sub(own, F._mul_scalar(others, scalar=2 * alpha * beta / nsize))]


@operator("LRN", infer=_window_shape, gradient=_lrn_back)
def lrn(xp: Any, data: Array, *, alpha: float = 1e-4, beta: float = 0.75, knorm: float = 2.0,
        nsize: int) -> Array:
    """Divide by (knorm + alpha / nsize * the sum of squares of the channels around) ^ beta.

    Args:
        data: channels on axis 1. nsize: an odd number of neighbouring channels.

    Shapes: data (N, C, *S) -> (N, C, *S).

    >>> import minigluon as mx
    >>> mx.nd.LRN(mx.nd.ones((1, 3, 1, 1)), nsize=1, knorm=0, alpha=1, beta=1).asnumpy().ravel()
    array([1., 1., 1.], dtype=float32)
    """
    _window_shape([data.shape], {"nsize": nsize})
    work = data.astype(xp.float32) if data.dtype == xp.float16 else data
    energy = _around(xp, work * work, nsize)
    energy *= alpha / nsize
    energy += knorm
    return (work * energy ** -beta).astype(data.dtype, copy=False)
