"""Operators that make arrays of known values from nothing."""
from __future__ import annotations

import math
from typing import Any

from ..base import ArgumentValueError
from .attrs import DType, Scalar, Shape
from .operator import Attrs, operator
from .rules import Shapes, attr_dtype, merge_shapes, no_gradient, no_inputs_shape

__all__: list[str] = []

Array = Any
_FLOAT = DType("float32")


@operator("_zeros", infer=no_inputs_shape, infer_dtype=attr_dtype(), gradient=no_gradient,
          aliases=("zeros",))
def zeros(xp: Any, *, shape: Shape, dtype: DType | None = _FLOAT) -> Array:
    """Zeros.

    Args:
        shape: sizes. dtype: element type, None means float32.

    Shapes: -> shape.

    >>> import minigluon as mx
    >>> mx.nd.zeros((2,)).asnumpy().tolist()
    [0.0, 0.0]
    """
    return xp.zeros(shape or (1,), dtype=dtype or "float32")


@operator("_ones", infer=no_inputs_shape, infer_dtype=attr_dtype(), gradient=no_gradient,
          aliases=("ones",))
def ones(xp: Any, *, shape: Shape, dtype: DType | None = _FLOAT) -> Array:
    """Ones.

    Args:
        shape: sizes. dtype: element type, None means float32.

    Shapes: -> shape.

    >>> import minigluon as mx
    >>> mx.nd.ones((2,)).asnumpy().tolist()
    [1.0, 1.0]
    """
    return xp.ones(shape or (1,), dtype=dtype or "float32")


@operator("_full", infer=no_inputs_shape, infer_dtype=attr_dtype(), gradient=no_gradient,
          aliases=("full",))
def full(xp: Any, *, shape: Shape, value: Scalar, dtype: DType | None = _FLOAT) -> Array:
    """One value everywhere.

    Args:
        shape: sizes. value: the value. dtype: element type, None means float32.

    Shapes: -> shape.

    >>> import minigluon as mx
    >>> mx.nd.full((2,), 7).asnumpy().tolist()
    [7.0, 7.0]
    """
    return xp.full(shape or (1,), value, dtype=dtype or "float32")


def _count(start: float, stop: float | None, step: float, repeat: int) -> tuple[float, int]:
    """(first value, number of different values)."""
    if stop is None:
        start, stop = 0, start
    if not step or repeat < 1:
        raise ArgumentValueError(f"expected a step other than 0 and repeat from 1, "
                                 f"got step={step}, repeat={repeat}")
    return start, max(0, math.ceil((stop - start) / step))


def _arange_shape(shapes: Shapes, attrs: Attrs, outs: Shapes | None = None
                  ) -> tuple[Shapes, Shapes]:
    if attrs["infer_range"]:
        return shapes, [merge_shapes((0,), outs[0] if outs else None)]
    _, count = _count(attrs["start"], attrs["stop"], attrs["step"], attrs["repeat"])
    return shapes, [(count * attrs["repeat"],)]


@operator("_arange", infer=_arange_shape, infer_dtype=attr_dtype(), gradient=no_gradient,
          aliases=("arange",))
def arange(xp: Any, *, start: Scalar, stop: Scalar | None = None, step: Scalar = 1,  # type: ignore[assignment]
           repeat: int = 1, infer_range: bool = False, dtype: DType | None = _FLOAT) -> Array:
    """Evenly spaced values from start up to, without, stop; arange(n) counts from 0.

    Args:
        start, stop, step: as in Python's range. repeat: how often each value.
        infer_range: accepted with a stop only. dtype: element type, None means float32.

    Shapes: -> (ceil((stop - start) / step) * repeat,).

    >>> import minigluon as mx
    >>> mx.nd.arange(2, 6, step=2, repeat=2).asnumpy().tolist()
    [2.0, 2.0, 4.0, 4.0]
    """
    first, count = _count(start, stop, step, repeat)
    whole = all(isinstance(value, int) for value in (first, step))
    values = first + xp.arange(count, dtype="int64" if whole else "float64") * step
    values = values.astype(dtype or "float32")
    return values if repeat == 1 else xp.repeat(values, repeat)


@operator("_linspace", infer=lambda shapes, attrs: (shapes, [(attrs["num"],)]),
          infer_dtype=attr_dtype(), gradient=no_gradient, aliases=("linspace",))
def linspace(xp: Any, *, start: Scalar, stop: Scalar, num: int, endpoint: bool = True,
             dtype: DType | None = _FLOAT) -> Array:
    """`num` evenly spaced values from start to stop.

    Args:
        start, stop: the ends. num: how many. endpoint: with stop as the last one.
        dtype: element type, None means float32.

    Shapes: -> (num,).

    >>> import minigluon as mx
    >>> mx.nd.linspace(0, 1, 3).asnumpy().tolist()
    [0.0, 0.5, 1.0]
    """
    return xp.linspace(start, stop, num, endpoint=endpoint, dtype=dtype or "float32")


@operator("_eye", infer=lambda shapes, attrs: (shapes, [(attrs["N"], attrs["M"] or attrs["N"])]),
          infer_dtype=attr_dtype(), gradient=no_gradient, aliases=("eye",))
def eye(xp: Any, *, N: int, M: int = 0, k: int = 0, dtype: DType | None = _FLOAT) -> Array:
    """A matrix with ones on one diagonal.

    Args:
        N, M: rows and columns; M = 0 means square. k: which diagonal, above (positive) or below.
        dtype: element type, None means float32.

    Shapes: -> (N, M).

    >>> import minigluon as mx
    >>> mx.nd.eye(2).asnumpy().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return xp.eye(N, M or N, k=k, dtype=dtype or "float32")
