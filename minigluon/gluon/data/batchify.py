"""From a list of samples to a batch of arrays."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import ndarray as nd
from ...base import DTypeError, ShapeError
from ...context import Context, cpu, cpu_shared
from ...ndarray import NDArray

__all__ = ["as_in_context", "default_batchify_fn", "default_mp_batchify_fn", "wrap_batch"]


def default_batchify_fn(data: Sequence[Any]) -> Any:
    """Stack samples: arrays along a new first axis, numbers to a vector, tuples field by field.

    Element types stay: Python floats give float64, integers int64, NumPy values keep theirs.

    Shapes: n samples (D, ...) -> (n, D, ...)

    >>> samples = [(np.zeros((2, 2), "uint8"), 3), (np.ones((2, 2), "uint8"), 4)]
    >>> image, label = default_batchify_fn(samples)
    >>> image.shape, image.dtype.__name__, label.asnumpy().tolist()
    ((2, 2, 2), 'uint8', [3, 4])
    """
    return _batchify(data, cpu(0))


def default_mp_batchify_fn(data: Sequence[Any]) -> Any:
    """As `default_batchify_fn`, on context cpu_shared(0), for functions that build on it."""
    return _batchify(data, cpu_shared(0))


def _batchify(data: Sequence[Any], ctx: Context) -> Any:
    first = data[0]
    if isinstance(first, tuple):
        return [_batchify(field, ctx) for field in zip(*data, strict=True)]
    if isinstance(first, NDArray):
        return _stack(data, ctx)
    return nd.shown(NDArray(_numbers(data), ctx))


def _stack(data: Sequence[NDArray], ctx: Context) -> NDArray:
    first = data[0]
    if first.context.device_type == "gpu":
        return nd.stack(*data)  # type: ignore[attr-defined, no-any-return]
    try:
        return nd.shown(NDArray(np.stack([array._sync() for array in data]), ctx))
    except ValueError:
        shapes = sorted({array.shape for array in data})
        raise _ragged(shapes) from None


def _ragged(shapes: Any) -> ShapeError:
    return ShapeError(
        f"batching: expected samples of one shape, got {shapes}; give the DataLoader a "
        "batchify_fn that pads them, or batch_size=1"
    )


def _numbers(data: Sequence[Any]) -> np.ndarray[Any, Any]:
    try:
        array = np.asarray(data)
    except ValueError:
        raise _ragged([np.shape(sample) for sample in data]) from None
    if array.dtype.kind not in "biufc":
        raise DTypeError(
            f"batching: cannot make an array of samples of type {type(data[0]).__name__} "
            f"(elements {array.dtype}); give the DataLoader a batchify_fn"
        )
    return array


def wrap_batch(batch: Any) -> Any:
    """What ``Dataset._get_batch`` returned, as `default_batchify_fn` would have made it."""
    if isinstance(batch, tuple):
        return [wrap_batch(field) for field in batch]
    return nd.shown(batch if isinstance(batch, NDArray) else
                    NDArray(np.ascontiguousarray(batch), cpu(0)))


def as_in_context(data: Any, move: Callable[[NDArray], NDArray]) -> Any:
    """`data` with `move` applied to every array in its lists, tuples and dicts."""
    if isinstance(data, NDArray):
        return move(data)
    if isinstance(data, (list, tuple)) and type(data) in (list, tuple):
        return type(data)(as_in_context(item, move) for item in data)
    if type(data) is dict:
        return {key: as_in_context(item, move) for key, item in data.items()}
    return data
