"""Shapes and places: reshaping, joining, cutting, rolling, picking."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as onp

from ..base import ArgumentError, ArgumentValueError, ShapeError
from ..ndarray import NDArray
from ..symbol import Symbol
from .array import array, face, lower, ndarray, shape_of
from .elementwise import binary, common, into, lifted, plain

FUNCTIONS: dict[str, Callable[..., Any]] = {}


def _enter(function: Callable[..., Any]) -> Callable[..., Any]:
    FUNCTIONS[function.__name__] = function
    function.__module__ = "minigluon.numpy"
    return function


def _moved(x: Any, function: str, *args: Any, **named: Any) -> Any:
    x = lifted(x)
    return face(x)._npi_arrange(x, function=function, args=args,
                                named=tuple(sorted(named.items())))


def _plain(value: Any) -> Any:
    """Lists become tuples and arrays of integers too: attributes must be comparable."""
    if isinstance(value, NDArray):
        value = value.asnumpy()
    if isinstance(value, onp.ndarray):
        value = value.astype("int64").tolist()
    if isinstance(value, (list, tuple)):
        return tuple(_plain(each) for each in value)
    return plain(value)


def _mover(name: str, first: str, *parameters: str) -> None:
    """A function of NumPy that only moves elements: the array's name, then its parameters."""

    def function(*args: Any, out: Any = None, **named: Any) -> Any:
        if first in named:
            args = (named.pop(first), *args)
        if not args:
            raise ArgumentError(f"np.{name}: missing argument '{first}'")
        a, *more = args
        if len(more) > len(parameters):
            raise ArgumentError(f"np.{name}: expected at most {len(parameters)} arguments after "
                                f"the array ({', '.join(parameters)}), got {len(more)}")
        given = {**dict(zip(parameters, more, strict=False)), **named}
        for word in given:
            if word not in parameters:
                raise ArgumentError(f"np.{name}: unknown argument '{word}'; it takes "
                                    f"{', '.join((first, *parameters))}")
        return into(out, _moved(a, name, **{word: _plain(value) for word, value in given.items()}))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (f"``numpy.{name}`` of an array; a copy.\n\n    Args:\n        {first}: an "
                        f"array. {', '.join(parameters)}: as NumPy's. out: an array to write into.")
    _enter(function)


for _name, _parameters in {
    "broadcast_to": ("array", "shape"), "delete": ("arr", "obj", "axis"), "diag": ("array", "k"),
    "diagflat": ("array", "k"), "diagonal": ("a", "offset", "axis1", "axis2"),
    "expand_dims": ("a", "axis"), "flip": ("m", "axis"), "fliplr": ("m",), "flipud": ("m",),
    "moveaxis": ("a", "source", "destination"), "repeat": ("a", "repeats", "axis"),
    "resize": ("a", "new_shape"), "roll": ("a", "shift", "axis"),
    "rollaxis": ("a", "axis", "start"), "rot90": ("m", "k", "axes"), "squeeze": ("a", "axis"),
    "swapaxes": ("a", "axis1", "axis2"), "tile": ("A", "reps"), "transpose": ("a", "axes"),
    "tril": ("m", "k"), "triu": ("m", "k"),
}.items():
    _mover(_name, *_parameters)


@_enter
def reshape(a: Any, newshape: Any, order: str = "C", reverse: bool = False,
            out: Any = None) -> Any:
    """The same elements in another shape, of which one size may be -1.

    Args:
        a: an array. newshape: sizes. order: 'C', or 'F': the first index runs fastest.
        out: an array to write the result into.

    >>> reshape(array([1, 2, 3, 4]), (2, -1)).shape
    (2, 2)
    """
    if order not in ("C", "F"):
        raise ArgumentValueError(f"np.reshape: order: expected 'C' or 'F', got {order!r}")
    a, sizes = lifted(a), shape_of(newshape)
    if order == "F":
        turned = reshape(FUNCTIONS["transpose"](a), sizes[::-1])
        return into(out, FUNCTIONS["transpose"](turned))
    return into(out, a.reshape(sizes) if isinstance(a, ndarray) else _moved(a, "reshape", sizes))


@_enter
def ravel(x: Any, order: str = "C") -> Any:
    """All elements along one axis."""
    return reshape(x, -1, order)


@_enter
def pad(x: Any, pad_width: Any, mode: str = "constant", **kwargs: Any) -> Any:
    """The array with elements put around it.

    Args:
        x: an array. pad_width: one number, (before, after), or one such pair for each axis.
        mode: 'constant' (with constant_values), 'edge', 'reflect', 'symmetric', 'wrap'; without
            gradient also 'maximum', 'minimum', 'mean', 'median', 'linear_ramp', 'empty'.
    """
    if mode in ("maximum", "minimum", "mean", "median", "linear_ramp", "empty"):
        return lower(onp.pad)(lifted(x), _plain(pad_width), mode, **kwargs)
    if mode not in ("constant", "edge", "reflect", "symmetric", "wrap"):
        raise ArgumentValueError(f"np.pad: mode: expected one of NumPy's, got {mode!r}")
    return _moved(x, "pad", pad_width=_plain(pad_width), mode=mode,
                  **{name: _plain(value) for name, value in kwargs.items()})


@_enter
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, out: Any = None) -> Any:
    """Sum along a diagonal."""
    return into(out, FUNCTIONS["diagonal"](a, offset, axis1, axis2).sum(axis=-1))


def _atleast(count: int) -> None:
    def function(*arys: Any) -> Any:
        found = [_moved(a, f"atleast_{count}d") for a in arys]
        return found[0] if len(found) == 1 else found

    function.__name__ = function.__qualname__ = f"atleast_{count}d"
    function.__doc__ = f"Arrays with at least {count} axes."
    _enter(function)


for _count in (1, 2, 3):
    _atleast(_count)


# -- joining ------------------------------------------------------------------------------------


def _alike(name: str, arrays: Any) -> list[Any]:
    """Arrays of one element type."""
    if isinstance(arrays, (NDArray, Symbol)):
        arrays = list(arrays)
    found = [lifted(x) for x in arrays]
    if not found:
        raise ArgumentValueError(f"np.{name}: need at least one array")
    if any(isinstance(x, Symbol) for x in found):
        return found
    wanted = found[0]
    dtype = wanted._data.dtype
    for x in found[1:]:
        dtype = common(_Typed(dtype), x)
    return [x.astype(dtype.name, copy=False) for x in found]


class _Typed:
    """An element type where `common` expects an array."""

    def __init__(self, dtype: onp.dtype) -> None:
        self._data = onp.empty(0, dtype)


@_enter
def concatenate(seq: Any, axis: int | None = 0, out: Any = None) -> Any:
    """Arrays one after the other along an axis (None: flattened).

    >>> concatenate([array([1, 2]), array([3])])
    array([1., 2., 3.])
    """
    arrays = _alike("concatenate", seq)
    if axis is None:
        arrays, axis = [ravel(x) for x in arrays], 0
    if any(not isinstance(x, Symbol) and x.ndim == 0 for x in arrays):
        raise ShapeError("np.concatenate: arrays of shape () cannot be joined; use np.stack")
    return into(out, face(*arrays).concat(*arrays, dim=axis))


@_enter
def stack(arrays: Any, axis: int = 0, out: Any = None) -> Any:
    """Arrays of one shape along a new axis."""
    arrays = _alike("stack", arrays)
    return into(out, face(*arrays).stack(*arrays, axis=axis))


@_enter
def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    """`values` after `arr` along an axis (None: flattened)."""
    return concatenate([arr, values], axis)


def _joiner(name: str, atleast: str, axis: int) -> None:
    def function(arrays: Any) -> Any:
        found = [FUNCTIONS[atleast](x) for x in _alike(name, arrays)]
        ndim = 2 if isinstance(found[0], Symbol) else found[0].ndim
        return concatenate(found, 0 if name == "hstack" and ndim == 1 else axis)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"``numpy.{name}`` of a sequence of arrays."
    _enter(function)


_joiner("vstack", "atleast_2d", 0)
_joiner("row_stack", "atleast_2d", 0)
_joiner("hstack", "atleast_1d", 1)
_joiner("dstack", "atleast_3d", 2)


@_enter
def column_stack(tup: Any) -> Any:
    """Vectors as columns, matrices side by side."""
    found = [reshape(x, (-1, 1)) if x.ndim < 2 else x for x in _alike("column_stack", tup)]
    return concatenate(found, 1)


# -- cutting ------------------------------------------------------------------------------------


def _split(name: str, x: Any, parts: Any, axis: int, even: bool) -> list[Any]:
    x = lifted(x)
    if isinstance(x, Symbol):
        if isinstance(parts, int):
            return list(face(x).split(x, num_outputs=parts, axis=axis))
        return list(face(x).split_v2(x, tuple(parts), axis=axis))
    if not -x.ndim <= axis < x.ndim:
        raise ShapeError(f"np.{name}: axis {axis} is out of bounds for shape {x.shape}")
    length = x.shape[axis]
    if isinstance(parts, int):
        if parts <= 0 or (even and length % parts):
            raise ArgumentValueError(f"np.{name}: an axis of {length} cannot be cut into {parts} "
                                     "equal parts" + ("; np.array_split can" if parts > 0 else ""))
        whole, rest = divmod(length, parts)
        sizes = [whole + 1] * rest + [whole] * (parts - rest)
        ends = onp.cumsum(sizes).tolist()[:-1]
    else:
        ends = _plain(parts)
        if not isinstance(ends, tuple):
            raise ArgumentValueError(f"np.{name}: expected a number of parts or the places to cut "
                                     f"before, got {parts!r}")
    begins, lead = [0, *ends], (slice(None),) * (axis % x.ndim)
    return [x[(*lead, slice(begin, end))]
            for begin, end in zip(begins, [*ends, None], strict=True)]


def _splitter(name: str, even: bool, fixed: int | None) -> None:
    if fixed is None:
        def function(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
            return _split(name, ary, indices_or_sections, axis, even)
    else:
        def function(ary: Any, indices_or_sections: Any) -> list[Any]:  # type: ignore[misc]
            ary = lifted(ary)  # a Symbol is taken for a matrix
            flat = name == "hsplit" and not isinstance(ary, Symbol) and ary.ndim == 1
            axis = 0 if flat else fixed
            return _split(name, ary, indices_or_sections, axis, even)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Parts of an array along an axis: so many, or cut before the places given."
    _enter(function)


_splitter("split", True, None)
_splitter("array_split", False, None)
_splitter("vsplit", True, 0)
_splitter("hsplit", True, 1)
_splitter("dsplit", True, 2)


# -- picking ------------------------------------------------------------------------------------


@_enter
def take(a: Any, indices: Any, axis: int | None = None, mode: str = "raise",
         out: Any = None) -> Any:
    """Slices along an axis in the order of `indices` (None: elements of the flattened array).

    >>> take(array([10, 20, 30]), array([2, 0]))
    array([30., 10.])
    """
    a = lifted(a)
    if axis is None:
        a, axis = ravel(a), 0
    indices = lifted(indices)
    if not isinstance(indices, Symbol) and indices._data.dtype.kind in "bf":
        indices = indices.astype("int64")
    if mode == "raise" and not isinstance(indices, Symbol):
        size = a.shape[axis]
        if indices.size and bool(((indices < 0) & (indices >= -size)).any()):
            indices = indices + (indices < 0) * size
    return into(out, face(a, indices).take(a, indices, axis=axis, mode=mode))


@_enter
def take_along_axis(arr: Any, indices: Any, axis: int) -> Any:
    """One element of `arr` for each of `indices`, whose other axes match."""
    arr, indices = lifted(arr), lifted(indices)
    places = [onp.arange(size).reshape([-1 if place == i else 1 for i in range(arr.ndim)])
              for place, size in enumerate(arr.shape)]
    places[axis % arr.ndim] = indices.asnumpy().astype("int64")
    return arr[tuple(places)]


@_enter
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours along an axis, `n` times over.

    Args:
        a: an array. n: how often. axis: along which. prepend, append: what stands before and
            behind it first, arrays or numbers.
    """
    a = lifted(a)
    if n < 0:
        raise ArgumentValueError(f"np.diff: n: expected 0 or more, got {n}")
    if isinstance(a, ndarray) and a.ndim == 0:
        raise ShapeError("np.diff: an array of shape () has no neighbours")
    if n and (prepend is not None or append is not None):
        a = concatenate([_end(prepend, a, axis), a, _end(append, a, axis)], axis)
    for _ in range(n):
        a = binary("subtract", *_neighbours(a, axis))
    return a


def _end(x: Any, a: Any, axis: int) -> Any:
    """What stands before or behind `a`: a number as often as it has rows, nothing for None."""
    if isinstance(a, Symbol):
        raise ArgumentError("np.diff: prepend and append: a Symbol has no shape yet; use "
                            "np.concatenate first")
    sizes = list(a.shape)
    sizes[axis] = 1 if x is not None else 0
    x = lifted(0 if x is None else x).astype(a.dtype)
    return FUNCTIONS["broadcast_to"](x, sizes) if x.ndim == 0 else x


def _neighbours(a: Any, axis: int) -> tuple[Any, Any]:
    if isinstance(a, Symbol):
        F = face(a)
        return (F.slice_axis(a, axis=axis, begin=1, end=None),
                F.slice_axis(a, axis=axis, begin=0, end=-1))
    lead = (slice(None),) * (axis % a.ndim)
    return a[(*lead, slice(1, None))], a[(*lead, slice(None, -1))]


@_enter
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Differences of neighbours of the flattened array, between `to_begin` and `to_end`.

    >>> from minigluon import np
    >>> ediff1d(np.array([1, 3, 6]), to_begin=0)
    array([0., 2., 3.])
    """
    ary = ravel(ary)
    parts = [_row(to_begin, ary), diff(ary), _row(to_end, ary)]
    parts = [part for part in parts if part is not None]
    return concatenate(parts) if len(parts) > 1 else parts[0]


def _row(values: Any, like: Any) -> Any:
    """Values beside `like`: a vector of its type."""
    if values is None or isinstance(values, Symbol):
        return values
    if isinstance(like, Symbol):
        one = face(like).slice_axis(like, axis=0, begin=0, end=1)
        return binary("add", binary("multiply", one, 0), values)
    return lifted(values).astype(like.dtype).reshape((-1,))


@_enter
def broadcast_arrays(*args: Any) -> list[Any]:
    """The arrays, all stretched to one shape."""
    arrays = [lifted(x) for x in args]
    shape = onp.broadcast_shapes(*[x.shape for x in arrays])
    return [FUNCTIONS["broadcast_to"](x, shape) for x in arrays]


@_enter
def unravel_index(indices: Any, shape: Sequence[int], order: str = "C") -> tuple[Any, ...]:
    """Places in the flattened array as one array of coordinates for each axis."""
    indices = lifted(indices)
    found = onp.unravel_index(indices.asnumpy().astype("int64"), tuple(shape), order)
    return tuple(array(each, "int64", indices.ctx) for each in found)
