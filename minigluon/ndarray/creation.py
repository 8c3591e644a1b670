"""Making arrays from nothing, and the few array functions that are not operators."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from typing import Any

import numpy as np

from ..base import ArgumentError, ArgumentValueError, DTypeError, dtype_name
from ..context import Context, cpu, current_context
from ..device import device_of
from ..npmode import is_np_shape
from ..ops import BINARY, find_operator, split_v2_settings
from .calls import invoke, nd_call
from .kinds import known, sparse_class
from .ndarray import NDArray
from .words import binary

__all__ = [
    "BINARY_FUNCTIONS", "arange", "array", "concatenate", "empty", "eye", "from_dlpack",
    "from_numpy", "full", "histogram", "linspace", "moveaxis", "ones", "split_v2",
    "to_dlpack_for_read", "to_dlpack_for_write", "zeros",
]


def _numbers(words: np.ndarray, dtype: str) -> np.ndarray:
    """Numbers written as text, read as `dtype`."""
    try:
        return words.astype(dtype)
    except ValueError as error:
        raise DTypeError(f"nd.array: cannot make an array of text not {dtype}: {error}") from error


def array(source_array: Any, ctx: Context | None = None, dtype: Any = None) -> NDArray:
    """A new array from lists, NumPy arrays or another NDArray.

    Args:
        source_array: the values; numbers written as text are read. ctx: where to put them; the
            current context when None.
        dtype: element type; when None an NDArray keeps its own, everything else is float32.

    >>> import minigluon as mx
    >>> mx.nd.array([1, 2]).dtype.__name__
    'float32'
    """
    if hasattr(source_array, "tocsr"):
        return sparse_class("csr").from_scipy(source_array, ctx, dtype)  # type: ignore[no-any-return]
    if isinstance(source_array, NDArray):
        made = source_array.copyto(ctx or current_context())
        if type(made) is known.numpy:
            made = made.as_nd_ndarray()
        return made if dtype is None else made.astype(dtype, copy=False)
    if isinstance(source_array, (list, tuple)):
        source_array = [x.asnumpy() if isinstance(x, NDArray) else x for x in source_array]
    try:
        host = np.asarray(source_array)
    except ValueError as error:
        raise ArgumentError(f"nd.array: rows of unequal length: {error}") from error
    if host.dtype.kind in "US":  # fields of a text file: read as numbers, as MXNet does
        host = _numbers(host, dtype_name(dtype or "float32"))
    if host.dtype.kind not in "biufc":
        raise DTypeError(f"nd.array: cannot make an array of {type(source_array).__name__}: "
                         f"its elements are {host.dtype}")
    dtype = "float32" if dtype is None else dtype_name(dtype)
    ctx = ctx or current_context()
    if not isinstance(ctx, Context):
        raise ArgumentError(f"ctx: expected a Context like mx.cpu(0), got {ctx!r}")
    return NDArray(device_of(ctx).array(host, dtype), ctx)


def _shape(shape: Any) -> tuple[int, ...]:
    try:
        sizes = tuple(map(index, shape if isinstance(shape, (tuple, list)) else (shape,)))
    except TypeError:
        raise ArgumentError(f"shape: expected an integer or a tuple of them, got {shape!r}"
                            ) from None
    if not sizes and not is_np_shape():
        raise ArgumentValueError("shape (): scalar arrays need np_shape semantics; use shape (1,)")
    if any(size < 0 for size in sizes):
        raise ArgumentValueError(f"shape {sizes}: sizes must not be negative")
    return sizes


def _fill(name: str, shape: Any, ctx: Context | None, dtype: Any, out: NDArray | None,
          stype: str | None = None, **more: Any) -> NDArray:
    if stype not in (None, "default"):
        return sparse_class(stype).empty(_shape(shape), ctx, dtype)  # type: ignore[no-any-return]
    sizes, dtype = _shape(shape), dtype_name(dtype or "float32")
    if not sizes:  # which the operators take for "one element, shape (1,)"
        one = _fill(name, (1,), ctx, dtype, out, **more)
        value = one.asnumpy().reshape(())
        return NDArray(device_of(one.context).array(value, value.dtype), one.context)
    op = find_operator(name)
    attrs = op.parse({"shape": sizes, "dtype": dtype, **more})
    result = invoke(op, [], attrs, out, ctx)
    assert isinstance(result, NDArray)
    return result


def zeros(shape: Any, ctx: Context | None = None, dtype: Any = None, stype: str | None = None,
          out: NDArray | None = None) -> NDArray:
    """An array of zeros. Args: shape, ctx (current), dtype (float32), out."""
    return _fill("_zeros", shape, ctx, dtype, out, stype)


def ones(shape: Any, ctx: Context | None = None, dtype: Any = None,
         out: NDArray | None = None) -> NDArray:
    """An array of ones. Args: shape, ctx (current), dtype (float32), out."""
    return _fill("_ones", shape, ctx, dtype, out)


def full(shape: Any, val: Any, ctx: Context | None = None, dtype: Any = None,
         out: NDArray | None = None) -> NDArray:
    """An array filled with `val`, a number or an array (or list) to broadcast.

    Args: shape, val, ctx (current), dtype (float32), out.
    """
    if isinstance(val, (NDArray, np.ndarray, list, tuple)):
        filled = zeros(shape, ctx, dtype) if out is None else out
        filled[:] = val
        return filled
    return _fill("_full", shape, ctx, dtype, out, value=val)


def empty(shape: Any, ctx: Context | None = None, dtype: Any = None,
          stype: str | None = None) -> NDArray:
    """An array with unset values. Args: shape, ctx (current), dtype (float32)."""
    if stype not in (None, "default"):
        return sparse_class(stype).empty(_shape(shape), ctx, dtype)  # type: ignore[no-any-return]
    ctx = ctx or current_context()
    return NDArray(device_of(ctx).empty(_shape(shape), dtype_name(dtype or "float32")), ctx)


def arange(start: float, stop: float | None = None, step: float = 1.0, repeat: int = 1,
           infer_range: bool | None = None, ctx: Context | None = None,
           dtype: Any = "float32") -> NDArray:
    """Evenly spaced values in [start, stop), each `repeat` times; arange(n) counts from 0.

    Args:
        start, stop, step: the range; with `stop` None it is [0, start).
        repeat: how often each value comes.
        infer_range: accepted and ignored.
        ctx: where to put it; the current context when None. dtype: element type.

    >>> import minigluon as mx
    >>> mx.nd.arange(2, 6, step=2, repeat=2).asnumpy().tolist()
    [2.0, 2.0, 4.0, 4.0]
    """
    return nd_call(find_operator("_arange"), (), {  # type: ignore[no-any-return]
        "start": start, "stop": stop, "step": step, "repeat": repeat, "dtype": dtype, "ctx": ctx})


def linspace(start: float, stop: float, num: int, endpoint: bool = True,
             ctx: Context | None = None, dtype: Any = "float32") -> NDArray:
    """`num` evenly spaced values from start to stop (with it when `endpoint`).

    Args:
        start, stop, num, endpoint: as above.
        ctx: where to put it; the current context when None. dtype: element type.

    >>> import minigluon as mx
    >>> mx.nd.linspace(0, 1, num=3).asnumpy().tolist()
    [0.0, 0.5, 1.0]
    """
    return nd_call(find_operator("_linspace"), (), {  # type: ignore[no-any-return]
        "start": start, "stop": stop, "num": num, "endpoint": endpoint, "dtype": dtype,
        "ctx": ctx})


def eye(N: int, M: int = 0, k: int = 0, ctx: Context | None = None,
        dtype: Any = "float32") -> NDArray:
    """A matrix with ones on one diagonal and zeros elsewhere.

    Args:
        N, M: rows and columns; M = 0 means square.
        k: the diagonal: 0 the main one, above it > 0, below it < 0.
        ctx: where to put it; the current context when None. dtype: element type.

    >>> import minigluon as mx
    >>> mx.nd.eye(2, 3, k=1).asnumpy().tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    return nd_call(find_operator("_eye"), (), {  # type: ignore[no-any-return]
        "N": N, "M": M, "k": k, "dtype": dtype, "ctx": ctx})


def concatenate(arrays: Sequence[NDArray], axis: int = 0, always_copy: bool = True) -> NDArray:
    """Join arrays along an axis; a single array comes back itself if not always_copy."""
    if len(arrays) == 1 and not always_copy:
        return arrays[0]
    axes = [array.shape[:axis] + array.shape[axis + 1 or array.ndim:] for array in arrays]
    if any(each != axes[0] for each in axes):
        raise ArgumentValueError(f"concatenate: expected equal shapes apart from axis {axis}, got "
                                 f"{', '.join(str(array.shape) for array in arrays)}")
    return nd_call(find_operator("Concat"), tuple(arrays), {"dim": axis})  # type: ignore[no-any-return]


def moveaxis(tensor: NDArray, source: Any, destination: Any) -> NDArray:
    """Move axes to new places, the rest keeps its order; ValueError as in NumPy."""
    order = list(range(tensor.ndim))
    try:
        axes = np.moveaxis(np.empty([1] * tensor.ndim), source, destination)
    except ValueError as error:
        raise ArgumentValueError(f"moveaxis: {error}") from error
    assert axes.ndim == tensor.ndim
    sources = [s % tensor.ndim for s in np.atleast_1d(source)]
    targets = [d % tensor.ndim for d in np.atleast_1d(destination)]
    rest = [axis for axis in order if axis not in sources]
    for target, origin in sorted(zip(targets, sources, strict=True)):
        rest.insert(int(target), int(origin))
    return nd_call(find_operator("transpose"), (tensor,), {"axes": tuple(rest)})  # type: ignore[no-any-return]


def from_numpy(ndarray: np.ndarray[Any, Any], zero_copy: bool = True,
               array_cls: type = NDArray) -> NDArray:
    """An array from NumPy; zero_copy shares memory and makes the NumPy array read-only.

    `array_cls` may only be NDArray.

    Raises:
        ValueError: zero_copy with an array that is not C-contiguous.
    """
    if not zero_copy:
        return array(ndarray, dtype=ndarray.dtype)
    if not ndarray.flags.c_contiguous:
        raise ArgumentValueError("from_numpy: zero_copy needs a C-contiguous array; "
                                 "use zero_copy=False or numpy.ascontiguousarray")
    shared = ndarray.view()
    ndarray.flags.writeable = False
    return NDArray(shared, cpu(0))


def from_dlpack(dlpack: Any) -> NDArray:
    """An array sharing memory with any object that speaks DLPack (host memory)."""
    capsule_owner = dlpack if hasattr(dlpack, "__dlpack__") else _Capsule(dlpack)
    try:
        raw = np.from_dlpack(capsule_owner)
    except ValueError as error:  # no capsule, or one that was taken before
        raise ArgumentValueError(f"from_dlpack: expected an object that speaks DLPack, or a "
                                 f"capsule not yet used, got {dlpack!r} ({error})") from error
    return NDArray(raw, cpu(0))


class _Capsule:
    """A bare DLPack capsule dressed as an object that NumPy accepts."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def to_dlpack_for_read(data: NDArray) -> Any:
    """A DLPack capsule of the array's memory, for reading, once pending writes are done."""
    return data.__dlpack__()


def to_dlpack_for_write(data: NDArray) -> Any:
    """A DLPack capsule of the array's memory, for writing, once pending work is done."""
    return data.__dlpack__()


def _binary_function(word: str) -> Callable[[Any, Any], Any]:
    def apply(lhs: Any, rhs: Any) -> Any:
        return binary(word, lhs, rhs)

    if word == "power":  # what MXNet calls its arguments
        def apply(base: Any, exp: Any) -> Any:
            return binary(word, base, exp)

    apply.__name__ = apply.__qualname__ = word
    apply.__doc__ = (f"`lhs` {word.replace('_', ' ')} `rhs`, element by element, broadcasting; "
                     "either may be a number.")
    return apply


BINARY_FUNCTIONS = {word: _binary_function(word) for word in BINARY}


def split_v2(ary: NDArray, indices_or_sections: Any, axis: int = 0, squeeze_axis: bool = False
             ) -> Any:
    """Cut along an axis into equal sections, or at given indices.

    Args:
        ary: any array. indices_or_sections: a number of parts, or where to cut. axis: which.
        squeeze_axis: drop the axis, which must have size 1 in the parts.

    Shapes: ary (*S) -> parts of S along axis.

    >>> import minigluon as mx
    >>> [part.shape for part in mx.nd.split_v2(mx.nd.zeros((6, 2)), (1, 3))]
    [(1, 2), (2, 2), (3, 2)]
    """
    return nd_call(find_operator("_split_v2"), (ary,),
                   split_v2_settings(indices_or_sections, axis, squeeze_axis))


def histogram(a: NDArray, bins: int | NDArray = 10, range: tuple[float, float] | None = None
              ) -> list[NDArray]:
    """How many elements fall into each bin, and the bins' edges.

    Args:
        a: any array. bins: a number of equal bins, or their edges in ascending order.
        range: the outermost edges for a number of bins; the smallest and the largest element when
            None.

    Shapes: a (*S) -> counts (B,), edges (B + 1,).

    >>> import minigluon as mx
    >>> counts, edges = mx.nd.histogram(mx.nd.array([1, 2, 2, 4]), bins=3)
    >>> counts.asnumpy().tolist(), edges.asnumpy().tolist()
    ([1, 2, 1], [1.0, 2.0, 3.0, 4.0])
    """
    if isinstance(bins, NDArray):
        return nd_call(find_operator("_histogram"), (a, bins), {})  # type: ignore[no-any-return]
    if not isinstance(bins, int):
        raise ArgumentValueError(f"histogram: bins: expected a number or an NDArray, got {bins!r}")
    if range is None:
        values = a.asnumpy()
        range = (float(values.min()), float(values.max()))
    return nd_call(find_operator("_histogram"), (a,),  # type: ignore[no-any-return]
                   {"bin_cnt": bins, "range": tuple(range)})
