"""Operators of padded sequences: data (time, batch, *S) or (batch, time, *S), and their lengths."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base import ArgumentValueError, ShapeError
from .operator import Attrs, operator
from .rules import Shapes, follow_dtype, like_shape, merge_shapes

__all__: list[str] = []

Array = Any


def _names(attrs: Attrs) -> Sequence[str]:
    return ("data", "sequence_length") if attrs["use_sequence_length"] else ("data",)


_dtypes = follow_dtype(fill=True)


def _checked(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, int]:
    """Shapes with the lengths filled in, and the axis of time."""
    data, axis = shapes[0], attrs["axis"]
    if axis not in (0, 1):
        raise ArgumentValueError(f"axis: expected 0 or 1, got {axis}")
    if data is not None and len(data) < 2:
        raise ShapeError(f"expected data (time, batch, ...), got shape {data}")
    if len(shapes) < 2:
        return shapes, axis
    batch = None if data is None else (data[1 - axis],)
    return [data, merge_shapes(batch, shapes[1], "batch size and sequence_length")], axis


def _same(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    full, _ = _checked(shapes, attrs)
    return full, [full[0]]


def _last_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    full, axis = _checked(shapes, attrs)
    data = full[0]
    return full, [None if data is None else (*data[:axis], *data[axis + 1:])]


def _lengths(data: Array, sequence_length: Array | None, used: bool, axis: int, name: str
             ) -> Array | None:
    """The lengths as integers, or None when all sequences are whole."""
    if axis not in (0, 1):
        raise ArgumentValueError(f"{name}: axis: expected 0 or 1, got {axis}")
    if data.ndim < 2:
        raise ShapeError(f"{name}: expected data (time, batch, ...), got shape {data.shape}")
    if not used:
        return None
    if sequence_length is None:
        raise ShapeError(f"{name}: use_sequence_length=True needs the input sequence_length")
    if sequence_length.shape != (data.shape[1 - axis],):
        raise ShapeError(f"{name}: expected sequence_length ({data.shape[1 - axis]},) for data "
                         f"{data.shape} with axis={axis}, got {sequence_length.shape}")
    return sequence_length.astype("int64")


def _rest(lengths: Sequence[Any]) -> list[Any]:
    return [None] * len(lengths)


@operator("SequenceMask", infer=_same, infer_dtype=_dtypes, inputs=_names,
          aliases=("sequence_mask",), methods=("sequence_mask",),
          gradient=lambda F, dy, out, data, *lengths, use_sequence_length, value, axis: [
              F.SequenceMask(dy, *lengths, use_sequence_length=use_sequence_length, value=0.0,
                             axis=axis), *_rest(lengths)])
def sequence_mask(xp: Any, data: Array, sequence_length: Array | None = None, *,
                  use_sequence_length: bool = False, value: float = 0.0, axis: int = 0) -> Array:
    """Put `value` behind the end of each sequence.

    Args:
        data: sequences. sequence_length: how long each is. use_sequence_length: False means all
            are whole. value: what to put. axis: the axis of time, 0 or 1.

    Shapes: data (T, N, *S), sequence_length (N,) -> (T, N, *S).

    >>> import minigluon as mx
    >>> mx.nd.SequenceMask(mx.nd.ones((2, 2)), mx.nd.array([1, 2]),
    ...                    use_sequence_length=True).asnumpy().tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    lengths = _lengths(data, sequence_length, use_sequence_length, axis, "SequenceMask")
    if lengths is None:
        return data.copy()
    steps = xp.arange(data.shape[axis])
    inside = steps[:, None] < lengths[None, :] if axis == 0 else steps[None, :] < lengths[:, None]
    inside = inside.reshape(inside.shape + (1,) * (data.ndim - 2))
    return xp.where(inside, data, data.dtype.type(value))


def _last_key(xp: Any, data: Array, lengths: Array | None, axis: int) -> tuple[Any, ...]:
    if lengths is None:
        return (*[slice(None)] * axis, -1)
    rows = xp.arange(len(lengths))
    last = xp.clip(lengths - 1, 0, data.shape[axis] - 1)
    return (last, rows) if axis == 0 else (rows, last)


@operator("SequenceLast", infer=_last_shape, infer_dtype=_dtypes, inputs=_names,
          aliases=("sequence_last",), methods=("sequence_last",),
          gradient=lambda F, dy, out, data, *lengths, **attrs: [
              F._sequence_last_grad(dy, data, *lengths, **attrs), *_rest(lengths)])
def sequence_last(xp: Any, data: Array, sequence_length: Array | None = None, *,
                  use_sequence_length: bool = False, axis: int = 0) -> Array:
    """The last step of each sequence.

    Args:
        data: sequences. sequence_length: how long each is. use_sequence_length: False means all
            are whole. axis: the axis of time, 0 or 1.

    Shapes: data (T, N, *S), sequence_length (N,) -> (N, *S).

    >>> import minigluon as mx
    >>> mx.nd.SequenceLast(mx.nd.array([[1, 2], [3, 4]]), mx.nd.array([1, 2]),
    ...                    use_sequence_length=True).asnumpy().tolist()
    [1.0, 4.0]
    """
    lengths = _lengths(data, sequence_length, use_sequence_length, axis, "SequenceLast")
    return data[_last_key(xp, data, lengths, axis)].copy()


@operator("_sequence_last_grad", infer=like_shape(1), infer_dtype=_dtypes,
          inputs=lambda attrs: ("grad", *_names(attrs)),
          gradient=lambda F, dy, out, grad, data, *lengths, **attrs: [
              F.SequenceLast(dy, *lengths, **attrs), None, *_rest(lengths)])
def _sequence_last_grad(xp: Any, grad: Array, data: Array, sequence_length: Array | None = None, *,
                        use_sequence_length: bool = False, axis: int = 0) -> Array:
    """Zeros like `data` with `grad` at the last step of each sequence."""
    lengths = _lengths(data, sequence_length, use_sequence_length, axis, "SequenceLast")
    result = xp.zeros_like(data, dtype=grad.dtype)
    result[_last_key(xp, data, lengths, axis)] = grad
    return result


@operator("SequenceReverse", infer=_same, infer_dtype=_dtypes, inputs=_names,
          aliases=("sequence_reverse",), methods=("sequence_reverse",),
          gradient=lambda F, dy, out, data, *lengths, **attrs: [
              F.SequenceReverse(dy, *lengths, **attrs), *_rest(lengths)])
def sequence_reverse(xp: Any, data: Array, sequence_length: Array | None = None, *,
                     use_sequence_length: bool = False, axis: int = 0) -> Array:
    """Turn each sequence around; what is behind its end stays.

    Args:
        data: sequences. sequence_length: how long each is. use_sequence_length: False means all
            are whole. axis: the axis of time; only 0.

    Shapes: data (T, N, *S), sequence_length (N,) -> (T, N, *S).

    >>> import minigluon as mx
    >>> mx.nd.SequenceReverse(mx.nd.array([[1, 2], [3, 4]])).asnumpy().tolist()
    [[3.0, 4.0], [1.0, 2.0]]
    """
    if axis != 0:
        raise ArgumentValueError(f"SequenceReverse: axis: expected 0, got {axis}")
    lengths = _lengths(data, sequence_length, use_sequence_length, axis, "SequenceReverse")
    if lengths is None:
        return data[::-1].copy()
    steps = xp.arange(data.shape[0])[:, None]
    source = xp.where(steps < lengths, lengths - 1 - steps, steps)
    return data[source, xp.arange(data.shape[1])]
