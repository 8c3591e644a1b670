"""``np.ndarray``: an NDArray that follows NumPy (scalars of shape (), comparisons give bool)."""
from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from typing import Any

import numpy as onp

from .. import ndarray as nd
from .. import symbol, tape
from ..base import (
    ArgumentError,
    ArgumentValueError,
    MXNetError,
    NotImplementedForSymbol,
    ShapeError,
    dtype_name,
)
from ..context import Context
from ..device import device_of
from ..ndarray import NDArray
from ..ndarray.index import index_key, whole
from ..ops import find_operator
from ..symbol import Symbol

__all__ = ["array", "face", "lift", "lower", "ndarray", "of", "shape_asked", "shape_of"]


class ndarray(NDArray):
    """An array as NumPy has it, on a device, with gradients.

    Made by ``np.array``, ``np.zeros`` and the like. What is computed of it, by ``np``, ``npx``
    or a block, is of the same class. Basic indexing gives views; an index for each axis gives a
    scalar of shape ().

    >>> import minigluon as mx
    >>> x = mx.np.array([[1, 2], [3, 4]])
    >>> x[1, 0], x.sum(axis=0), x > 2
    (array(3.), array([4., 6.]), array([[False, False],
           [ True,  True]]))
    """

    __slots__ = ()

    def __repr__(self) -> str:
        host = self.asnumpy()
        text = re.sub(r",\s*dtype=\w+\)$", ")", repr(host))
        if host.size:  # NumPy 2 tells the shape of those it shortens
            text = re.sub(r",\s*shape=\([\d, ]*\)\)$", ")", text)
        if host.dtype.name not in ("float32", "bool"):
            text = f"{text[:-1]}, dtype={host.dtype.name})"
        return text if self._ctx.device_type == "cpu" else f"{text[:-1]}, ctx={self._ctx})"

    @property
    def dtype(self) -> Any:
        """Element type as a ``numpy.dtype``."""
        return self._data.dtype

    def __str__(self) -> str:
        return str(self.asnumpy())

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.ndim == 0 else object.__format__(self, spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (self.asnumpy(), self._ctx)

    def __len__(self) -> int:
        if self.ndim == 0:
            raise ArgumentError("len() of an array of shape ()")
        return len(self._data)

    def __bool__(self) -> bool:
        if self.size > 1:
            raise ArgumentValueError(
                f"The truth value of an array of shape {self.shape} is ambiguous. Use a.any() or "
                "a.all()")
        return bool(self.size) and bool(self.asscalar())

    __hash__ = NDArray.__hash__

    def item(self, *place: Any) -> Any:
        """One element as a Python number: the only one, or the one at `place`."""
        return self.asnumpy().item(*place)

    def __index__(self) -> int:
        self._number("index")  # TypeError, where an nd.NDArray gives ValueError
        return super().__index__()

    def as_nd_ndarray(self) -> NDArray:
        """The same array (shared memory, same gradient) as an ``nd.NDArray``."""
        return self._as(NDArray)

    def as_np_ndarray(self) -> ndarray:
        """The array itself."""
        return self

    def _view(self, raw: Any) -> ndarray:
        view = super()._view(raw)
        view.__class__ = ndarray
        return view  # type: ignore[return-value]

    def copyto(self, other: Any) -> Any:
        """Copy into another array of the same shape, or to a context (always a new array)."""
        copied = super().copyto(other)
        return lift(copied) if isinstance(other, Context) else copied

    def attach_grad(self, grad_req: str = "write", stype: str | None = None) -> None:
        """Make this array a variable whose gradient backward computes."""
        super().attach_grad(grad_req, stype)
        assert isinstance(self._ag, tape.Leaf)
        lift(self._ag.grad)

    # -- indexing --------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        key, basic = index_key(key, truths=True)
        if tape.state.recording and self._ag is not None:
            return nd._getitem(self, key=key, scalars=True)  # type: ignore[attr-defined]
        failure = self._lost()
        try:
            part = self._data[key]
        except IndexError as error:
            raise IndexError(f"index {key!r} for shape {self.shape}: {error}") from None
        if basic:
            if part.ndim == 0 and not isinstance(part, onp.ndarray):
                part = self._data[(*key, ...) if isinstance(key, tuple) else (key, ...)]
            return self._view(part)
        taken = of(device_of(self._ctx).xp.asarray(part, order="C"), self._ctx)
        if failure is not None:
            taken._variable().fail(failure)
        return taken

    def _become(self, value: Any) -> None:
        """Take the values of a recorded array, and its place in what autograd remembers."""
        if tape.alive(self._ag) is None:
            self._ag = None
        self._check_unrecorded(None)
        value = value.astype(self.dtype, copy=False)
        if not isinstance(value._ag, tape.Output):
            value = nd._copy(value)  # type: ignore[attr-defined]
        self[...] = value.detach()
        self._ag = value._ag

    def __setitem__(self, key: Any, value: Any) -> None:
        if tape.state.recording and isinstance(value, ndarray) and (
                key is Ellipsis or (isinstance(key, slice) and key == slice(None))) and (
                tape.alive(value._ag) is not None):
            return self._become(value if value.shape == self.shape else
                                _namesakes["broadcast_to"](value, self.shape))
        self._check_unrecorded(value)
        key, _ = index_key(key, truths=True)
        raw = self._to_write()
        key = whole(key, raw)
        if isinstance(value, NDArray):
            value = value._sync()
        if isinstance(value, onp.ndarray) and value.size == 1:
            value = value.reshape(())  # fits everywhere
        try:
            raw[key] = value
        except (ValueError, IndexError) as error:
            kind = ShapeError if isinstance(error, ValueError) else IndexError
            raise kind(f"assignment x[{key!r}] = value into shape {self.shape}: {error}") from error

    # -- shape -----------------------------------------------------------------------------------

    def reshape(self, *shape: Any, order: str = "C", **given: Any) -> Any:
        """The same elements in another shape, of which one size may be -1; shares memory.

        With order='F', where the first index runs fastest, it is a copy.
        """
        wanted = shape_asked(shape, given)
        if order != "C":
            return _namesakes["reshape"](self, wanted, order)
        try:
            raw = self._data.reshape(wanted)
        except ValueError:
            raise ShapeError(f"np.reshape: cannot reshape an array of shape {self.shape} "
                             f"({self.size} elements) into {wanted}") from None
        view = self._view(raw)
        source = tape.alive(self._ag) if tape.state.recording else None
        if source is not None:
            entry = tape.append(_ARRANGE, {"function": "reshape", "args": (wanted,), "named": ()},
                                device_of(self._ctx), (source,), (self._data,), (raw,))
            view._ag = tape.Output(entry, 0)
        return view

    reshape_view = reshape

    def flatten(self, order: str = "C") -> Any:
        """All elements along one axis; a copy."""
        return self.reshape(-1, order=order).copy()

    def copy(self, order: str = "C") -> Any:
        """A new array with the same values."""
        return super().copy()

    def astype(self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True,
               copy: bool = True) -> Any:
        """The array with another element type; with copy=False itself when it has it already."""
        return super().astype(dtype, copy)

    def detach(self) -> ndarray:
        """The same array (shared memory), cut off from the recorded graph."""
        return self._view(self._data)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """NumPy's own functions on arrays of ours: computed by NumPy, or by ``np``'s namesake."""
        return _numpy_function(function, args, kwargs)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__":
            return NotImplemented
        return _numpy_function(ufunc, inputs, kwargs)


_ARRANGE = find_operator("_npi_arrange")
_namesakes: dict[str, Any] = {}  # filled by the door


# What has no gradient by its nature, or has none in MXNet: allowed while autograd records.
_CONSTANT = frozenset((
    "allclose", "argpartition", "argwhere", "array_equal", "array_equiv", "bincount", "digitize",
    "flatnonzero", "histogram", "in1d", "isclose", "isin", "may_share_memory", "percentile",
    "quantile", "searchsorted", "shares_memory", "signbit", "unique"))


def _numpy_function(function: Any, args: Any, kwargs: Any) -> Any:
    room = "linalg." if function.__module__ == "numpy.linalg" else ""
    mine = _namesakes.get(room + function.__name__)
    if mine is not None:
        return mine(*args, **kwargs)
    return lower(function)(*args, **kwargs)


def _unpickle(host: onp.ndarray, ctx: Context) -> ndarray:
    return array(host, dtype=host.dtype, ctx=ctx)


# -- between the faces ---------------------------------------------------------------------------


def of(raw: Any, ctx: Context) -> ndarray:
    """An ``np.ndarray`` around a raw array."""
    return ndarray(raw, ctx)


def lift(x: Any) -> Any:
    """An NDArray just made, as ``np.ndarray``; lists of them, too. Anything else as it is."""
    if type(x) is NDArray:
        x.__class__ = ndarray
    elif isinstance(x, (list, tuple)):
        for each in x:
            lift(each)
    return x


def face(*values: Any) -> Any:
    """The functions to call for these values: the graph's if one is a Symbol."""
    return symbol if any([isinstance(value, Symbol) for value in values]) else nd


def array(object: Any, dtype: Any = None, ctx: Context | None = None,
          device: Any = None) -> ndarray:
    """A new array.

    Args:
        object: numbers, lists, NumPy arrays or arrays of ours. dtype: element type; None:
            that of an array, else float32. ctx: where; None: the current context.

    >>> import minigluon as mx
    >>> mx.np.array([1, 2, 3])
    array([1., 2., 3.])
    """
    ctx = device if ctx is None else ctx
    if isinstance(object, Symbol):
        raise ArgumentError("np.array: a Symbol has no values; use it as it is")
    if isinstance(object, (list, tuple)):
        object = _numbers_in(object)
    host = onp.asarray(object.asnumpy() if isinstance(object, NDArray) else object)
    if dtype is None:
        dtype = host.dtype if hasattr(object, "dtype") else "float32"
    return lift(nd.array(host, ctx, dtype_name(dtype)))  # type: ignore[no-any-return]


def _numbers_in(value: Any) -> Any:
    """Nested lists without arrays of ours inside."""
    if isinstance(value, NDArray):
        return value.asnumpy()
    return [_numbers_in(each) for each in value] if isinstance(value, (list, tuple)) else value


def lower(function: Any) -> Any:
    """NumPy's `function` for arrays of ours: computed on the host, without gradient."""

    def call(*args: Any, **kwargs: Any) -> Any:
        arrays: list[NDArray] = []
        try:
            args, kwargs = _hosts(args, arrays), _hosts(kwargs, arrays)
        except NotImplementedForSymbol as error:
            raise NotImplementedForSymbol(f"np.{function.__name__}: {error}") from None
        if tape.state.recording and function.__name__ not in _CONSTANT and any(
                tape.alive(x._ag) is not None for x in arrays):
            raise MXNetError(f"np.{function.__name__} has no gradient: it is computed by NumPy; "
                             "call it outside autograd.record(), or on x.detach()")
        floats = {x.dtype for x in arrays if onp.dtype(x.dtype).kind == "f"}
        single = bool(floats) and all(onp.dtype(each).itemsize < 8 for each in floats)
        return _devices(function(*args, **kwargs), arrays[0].ctx if arrays else None, single)

    call.__name__ = call.__qualname__ = function.__name__
    call.__doc__ = (f"``numpy.{function.__name__}``, computed by NumPy on the host, without "
                    "gradient.")
    return call


def _hosts(value: Any, arrays: list[NDArray]) -> Any:
    if isinstance(value, Symbol):
        raise NotImplementedForSymbol("it is computed by NumPy, and no part of a graph: call it "
                                      "outside the block, or do not hybridize that")
    if isinstance(value, NDArray):
        arrays.append(value)
        return value.asnumpy()
    if isinstance(value, dict):
        return {name: _hosts(each, arrays) for name, each in value.items()}
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(_hosts(each, arrays) for each in value)
    return value


def _devices(value: Any, ctx: Context | None, single: bool) -> Any:
    """Results of NumPy as arrays of ours; float64 made of float32 alone becomes float32 again."""
    if isinstance(value, (onp.ndarray, onp.generic)) and value.dtype.kind in "biuf":
        dtype = "float32" if single and value.dtype == "float64" else value.dtype
        return array(value, dtype, ctx)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[_devices(each, ctx, single) for each in value])
    if isinstance(value, (list, tuple)):
        return type(value)(_devices(each, ctx, single) for each in value)
    return value


def shape_of(size: Any) -> tuple[int, ...]:
    """A shape from an integer, a list of them, or None (a scalar)."""
    if size is None:
        return ()
    try:
        if isinstance(size, Sequence):
            return tuple([int(each) for each in size])
        return (operator.index(size),)
    except (TypeError, ValueError):
        raise ArgumentError(f"a shape: expected an integer or several, got {size!r}") from None


def shape_asked(shape: tuple[Any, ...], given: dict[str, Any]) -> tuple[int, ...]:
    """What ``x.reshape(*shape, **given)`` asks for: sizes one by one, as a tuple, or by name."""
    wanted = given.pop("newshape", given.pop("shape", None)) if given else None
    if given:
        raise ArgumentError(f"reshape: unknown arguments {sorted(given)}")
    if wanted is None:
        wanted = shape[0] if len(shape) == 1 else shape
    return tuple(wanted) if isinstance(wanted, (tuple, list)) else (int(wanted),)
