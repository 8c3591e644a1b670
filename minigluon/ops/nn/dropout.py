"""Dropout: random zeros in training."""
from __future__ import annotations

from math import prod
from typing import Any, Literal

from ...base import ArgumentValueError
from ..attrs import Shape
from ..operator import Attrs, MaybeShape, operator
from ..rules import axis_of

__all__ = ["dropout", "dropout_grad"]


def _mask_shape(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    shared = {axis_of(axis, len(shape), "axes") for axis in axes}
    return tuple(1 if place in shared else n for place, n in enumerate(shape))


def _dropout_shape(shapes: list[MaybeShape], attrs: Attrs) -> tuple[list[MaybeShape],
                                                                    list[MaybeShape]]:
    if not 0 <= attrs["p"] <= 1:
        raise ArgumentValueError(f"p: expected a probability from 0 to 1, got {attrs['p']}")
    data = shapes[0]
    return shapes, [data, None if data is None else _bits_shape(data, attrs["axes"])]


def _bits_shape(data: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    return (-(-prod(_mask_shape(data, axes)) // 8),)


def _dropout_gradient(F: Any, dy: Any, out: Any, data: Any, *, p: float, mode: str,
                      axes: tuple[int, ...], training: bool, **_: Any) -> list[Any]:
    if dy[0] is None:
        return [None]
    if p > 0 and (training or mode == "always"):
        return [F._dropout_grad(dy[0], out[1], p=p, axes=axes)]
    return [dy[0]]


def _scaled(xp: Any, data: Any, bits: Any, p: float, axes: tuple[int, ...]) -> Any:
    """The data times 1 / (1 - p) where its bit is set, times 0 elsewhere."""
    shape = _mask_shape(data.shape, axes)
    kept = xp.unpackbits(bits, bitorder="little")[:prod(shape)].reshape(shape)
    kept = kept.astype(data.dtype)
    # p = 1 keeps nothing: 0 / 0 is nan, as in MXNet
    return data * (kept / data.dtype.type(0) if p == 1 else kept * data.dtype.type(1 / (1 - p)))


@operator("Dropout", infer=_dropout_shape, num_outputs=2, visible=1, gradient=_dropout_gradient,
          infer_dtype=lambda dtypes, attrs: (dtypes, [dtypes[0], "uint8"]),
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
        data (*S) -> (*S), and hidden the mask: one bit for each element of S with 1 along `axes`,
        the lowest bit of the first byte first; set where the element is kept.

    >>> import numpy as np
    >>> services = {"rng": np.random.default_rng(0), "training": True}
    >>> out, mask = dropout.body(np, np.ones((2, 3)), **dropout.parse({"p": 0.5}), **services)
    >>> mask.shape, sorted(set(out.ravel().tolist()))
    ((1,), [0.0, 2.0])
    """
    if not 0 <= p <= 1:
        raise ArgumentValueError(f"Dropout: p: expected a probability from 0 to 1, got {p}")
    if p == 0 or not (training or mode == "always"):
        all_kept = xp.broadcast_to(xp.full((), 255, xp.uint8), _bits_shape(data.shape, axes))
        return data.copy(), all_kept
    kept = rng.random(_mask_shape(data.shape, axes), dtype=xp.float32) >= p
    bits = xp.packbits(kept.ravel(), bitorder="little")
    return _scaled(xp, data, bits, p, axes), bits


@operator("_dropout_grad", infer=lambda shapes, attrs: (shapes, [shapes[0]]),
          infer_dtype=lambda dtypes, attrs: (dtypes, [dtypes[0]]),
          gradient=lambda F, ddx, out, dy, mask, *, p, axes: [
              F._dropout_grad(ddx, mask, p=p, axes=axes), None])
def dropout_grad(xp: Any, dy: Any, mask: Any, *, p: float, axes: Shape = ()) -> Any:
    """The gradient that Dropout hands on: the same elements set to zero, the others divided.

    Args:
        mask: Dropout's second output. p, axes: Dropout's.

    Shapes:
        dy (*S), mask (bits of S with 1 along `axes`) -> (*S).

    >>> import numpy as np
    >>> dropout_grad.body(np, np.ones(3), np.array([5], "uint8"), p=0.5).tolist()
    [2.0, 0.0, 2.0]
    """
    return _scaled(xp, dy, mask, p, axes)
