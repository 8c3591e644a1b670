"""Dropout: random zeros in training."""
from __future__ import annotations

from typing import Any, Literal

from ...base import ArgumentValueError
from ..attrs import Shape
from ..operator import Attrs, MaybeShape, operator
from ..rules import axis_of

__all__ = ["dropout"]


def _mask_shape(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    shared = {axis_of(axis, len(shape), "axes") for axis in axes}
    return tuple(1 if place in shared else n for place, n in enumerate(shape))


def _dropout_shape(shapes: list[MaybeShape], attrs: Attrs) -> tuple[list[MaybeShape],
                                                                    list[MaybeShape]]:
    if not 0 <= attrs["p"] <= 1:
        raise ArgumentValueError(f"p: expected a probability from 0 to 1, got {attrs['p']}")
    data = shapes[0]
    mask = None if data is None else _mask_shape(data, attrs["axes"])
    return shapes, [data, mask]


def _dropout_gradient(F: Any, dy: Any, out: Any, data: Any, *, p: float, mode: str,
                      training: bool, **_: Any) -> list[Any]:
    if dy[0] is None:
        return [None]
    if p > 0 and (training or mode == "always"):
        return [F.broadcast_mul(dy[0], out[1])]
    return [dy[0]]


@operator("Dropout", infer=_dropout_shape, num_outputs=2, visible=1, gradient=_dropout_gradient,
          infer_dtype=lambda dtypes, attrs: (dtypes, dtypes * 2),
          output_names=("output", "mask"))
def dropout(
    xp: Any, data: Any, *, p: float = 0.5, mode: Literal["training", "always"] = "training",
    axes: Shape = (), cudnn_off: bool = False, rng: Any, training: bool,
) -> Any:
    """Set elements to zero with probability p and divide the others by 1 - p.

    Args:
        p: probability of a zero.
        mode: only while training (autograd.record, autograd.train_mode), or always.
        axes: the mask is the same along these axes. cudnn_off: ignored.

    Shapes:
        data (*S) -> (*S), and hidden the mask: S with 1 along `axes`.

    >>> import numpy as np
    >>> services = {"rng": np.random.default_rng(0), "training": True}
    >>> out, mask = dropout.body(np, np.ones((2, 3)), **dropout.parse({"p": 0.5}), **services)
    >>> bool((out == mask).all()), sorted(set(out.ravel().tolist()))
    (True, [0.0, 2.0])
    """
    if not 0 <= p <= 1:
        raise ArgumentValueError(f"Dropout: p: expected a probability from 0 to 1, got {p}")
    shape = _mask_shape(data.shape, axes)
    if p == 0 or not (training or mode == "always"):
        return data.copy(), xp.broadcast_to(xp.ones((), data.dtype), shape)
    kept = (rng.random(shape, dtype=xp.float32) >= p).astype(data.dtype)
    # p = 1 keeps nothing: 0 / 0 is nan, as in MXNet
    mask = kept / data.dtype.type(1 - p) if p == 1 else kept * data.dtype.type(1 / (1 - p))
    return data * mask, mask
