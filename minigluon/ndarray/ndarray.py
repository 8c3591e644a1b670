"""NDArray: the eager face. Wraps a raw array, calls operators at once, remembers for autograd."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from .. import tape
from ..base import (
    ArgumentError,
    ArgumentValueError,
    DTypeError,
    MXNetError,
    ShapeError,
    dtype_name,
)
from ..context import Context
from ..device import device_of
from ..device.engine import Failure, Var, wait_all
from ..npmode import is_np_shape
from ..ops import Operator, attach_methods, find_operator
from ..ops.storage import Stored, dense_of, fill
from .backward import run_backward
from .calls import invoke, nd_call
from .index import fit, index_key, scalar_view, stays_contiguous, whole
from .kinds import ArrayBase, enter_class, numpy_class, sparse_class, wrap
from .words import attach_operators, binary

__all__ = ["NDArray", "raw_on", "waitall"]

_INPLACE = (
    "Inplace operations (+=, -=, x[:]=, etc) are not supported when recording with "
    "autograd.record(); make a new array instead, or write outside the record() block"
)


class NDArray(ArrayBase):  # type: ignore[misc]
    """An array on a device, computed on at once.

    Made by ``nd.array``, ``nd.zeros`` and the like, and returned by every operator. Contiguous
    basic slices (``x[1:3]``, ``x[2]``) and ``x.reshape`` share memory with `x`.

    Args:
        data: a raw array of the context's array module; wrapped, not copied.
        ctx: the context it lives on.

    >>> import minigluon as mx
    >>> x = mx.nd.array([[1, 2], [3, 4]])
    >>> (x * 2 + 1).asnumpy().tolist()
    [[3.0, 5.0], [7.0, 9.0]]
    """

    __slots__ = ()
    __array_priority__ = 1000.0

    _data: Any
    _ctx: Context
    _var: Var | None
    _ag: tape.Leaf | tape.Output | None

    # -- the raw array and its order of reads and writes ---------------------------------------

    def _sync(self) -> Any:
        """The raw array, once no write to it is pending; raises the error of a failed one."""
        var = self._var
        if var is not None and var.busy:
            var.wait()
        return self._data

    def _to_write(self) -> Any:
        """The raw array, once nothing pending uses it; raises the error of a failed write."""
        var = self._var
        if var is not None and var.used:
            var.wait_to_write()
        return self._data

    def _variable(self) -> Var:
        """The engine's variable of this buffer (shared with its views), made when first needed."""
        if self._var is None:
            self._var = Var()
        return self._var

    def _view(self, raw: Any) -> NDArray:
        view = wrap(raw, self._ctx)
        view._var = self._variable()
        return view

    def _lost(self) -> Failure | None:
        """The failure of an operator that should have written this array and that none has seen."""
        var = self._var
        return var.lost() if var is not None and var.busy else None

    def _write(self, value: Any) -> None:
        """Fill with raw values (broadcast, cast; sparse ones, too); the buffer stays the same."""
        if isinstance(value, Stored):
            fill(device_of(self._ctx).xp, self._to_write(), value)
        else:
            self._to_write()[...] = value

    # -- description ---------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self._data.shape  # type: ignore[no-any-return]

    @property
    def dtype(self) -> Any:
        """Element type as a NumPy type, e.g. ``numpy.float32``."""
        return self._data.dtype.type

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(self._data.size)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return int(self._data.ndim)

    @property
    def context(self) -> Context:
        """The device this array lives on."""
        return self._ctx

    ctx = context

    @property
    def stype(self) -> str:
        """Storage type: 'default' (dense); sparse arrays say 'row_sparse' or 'csr'."""
        return "default"

    @property
    def T(self) -> NDArray:
        """The array with its axes reversed (a copy)."""
        return nd_call(_TRANSPOSE, (self,), {})  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        shape = "x".join(str(size) for size in self.shape)
        return f"\n{self.asnumpy()!s}\n<{type(self).__name__} {shape} @{self._ctx}>"

    def __len__(self) -> int:
        return len(self._data)

    def __iter__(self) -> Iterator[NDArray]:
        for i in range(len(self)):
            yield self[i]

    def __bool__(self) -> bool:
        if self.size == 0:
            return False
        if self.size == 1:
            return bool(self.asscalar())
        raise ArgumentValueError(
            f"the truth of an array with shape {self.shape} is not one value; "
            "use x.sum() or compare element by element"
        )

    def __hash__(self) -> int:
        return id(self) // 16

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.asnumpy(), self._ctx)

    def __copy__(self) -> NDArray:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> NDArray:
        return self.copy()

    # -- leaving and moving --------------------------------------------------------------------

    def asnumpy(self) -> np.ndarray[Any, Any]:
        """A NumPy copy; waits for pending work and raises its error."""
        raw = self._sync()
        return np.array(device_of(self._ctx).to_host(raw), copy=True)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        host = self.asnumpy()
        return host if dtype is None else host.astype(dtype, copy=False)

    def asscalar(self) -> Any:
        """The single element as a NumPy scalar; ValueError when there is more than one."""
        if self.size != 1:
            raise ArgumentValueError(
                f"asscalar: expected an array with one element, got shape {self.shape}"
            )
        return self.asnumpy().reshape(-1)[0]

    def item(self) -> Any:
        """The single element as a Python number."""
        return self.asscalar().item()

    def tolist(self) -> Any:
        """Nested Python lists."""
        return self.asnumpy().tolist()

    def __float__(self) -> float:
        return float(self._number("float"))

    def __int__(self) -> int:
        return int(self._number("int"))

    def _number(self, wanted: str) -> Any:
        if self.size != 1:  # TypeError, as of everything else that is no number
            raise ArgumentError(f"{wanted}(): expected an array with one element, got shape "
                                f"{self.shape}")
        return self.asscalar()

    def __index__(self) -> int:
        if self._data.dtype.kind not in "iu":
            raise DTypeError(f"an index needs an integer array, got {self._data.dtype}")
        return int(self.asscalar())

    def __dlpack__(self, **options: Any) -> Any:
        # whoever gets it may write
        return self._to_write().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._data.__dlpack_device__()  # type: ignore[no-any-return]

    def to_dlpack_for_read(self) -> Any:
        """A DLPack capsule of the array's memory, for reading, once pending writes are done."""
        return self.__dlpack__()

    def to_dlpack_for_write(self) -> Any:
        """A DLPack capsule of the array's memory, for writing, once pending work is done."""
        return self.__dlpack__()

    def as_nd_ndarray(self) -> NDArray:
        """The array itself: it is one of ``nd`` already."""
        return self

    def as_np_ndarray(self) -> NDArray:
        """The same array (shared memory, same gradient) as an ``np.ndarray``."""
        return self._as(numpy_class())

    def _as(self, cls: Any) -> NDArray:
        """The same array (shared memory, same gradient) as one of another class."""
        other: NDArray = cls(self._data, self._ctx)
        other._var = self._variable()
        other._ag = self._ag
        return other

    def wait_to_read(self) -> None:
        """Return when this array has its value; raise the error of work that failed."""
        self._sync()
        if self._ctx.device_type == "gpu":
            device_of(self._ctx).sync()

    def wait_to_write(self) -> None:
        """Return when nothing pending uses this array; raise the error of work that failed."""
        self._to_write()
        self.wait_to_read()

    def copy(self) -> NDArray:
        """A new array with the same values on the same context."""
        return nd_call(_COPY, (self,), {})  # type: ignore[no-any-return]

    def copyto(self, other: NDArray | Context) -> NDArray:
        """Copy into another array of the same shape, or to a context (always a new array)."""
        failure = self._lost()
        if isinstance(other, Context):
            source, target = device_of(self._ctx), device_of(other)
            raw = self._data
            if source.type != target.type:
                raw = source.to_host(raw)
            copied = NDArray(target.array(raw), other)
            self._record_copy(copied)
            if failure is not None:
                copied._variable().fail(failure)
            return copied
        if not isinstance(other, NDArray):
            raise ArgumentError(f"copyto: expected an NDArray or a Context, got {type(other)}")
        if other is self:
            return other
        if other.shape != self.shape:
            raise ShapeError(f"copyto: cannot copy shape {self.shape} into {other.shape}")
        self._record_copy(other)
        if failure is not None:
            other._variable().fail(failure)
            return other
        other._write(raw_on(self, other._ctx))
        return other

    def _record_copy(self, copied: NDArray) -> None:
        source = tape.alive(self._ag) if tape.state.recording else None
        if source is not None:
            if copied._ag is not None:
                raise MXNetError(_INPLACE)
            entry = tape.append(_copy_between(self._ctx, copied._ctx), {}, device_of(self._ctx),
                                (source,), (self._data,), (copied._data,))
            copied._ag = tape.Output(entry, 0)

    def as_in_context(self, context: Context) -> NDArray:
        """This array if it is on `context` already, else a copy there."""
        return self if self._ctx == context else self.copyto(context)

    as_in_ctx = as_in_context

    def astype(self, dtype: Any, copy: bool = True) -> NDArray:
        """The array with another element type; with copy=False itself when it has it already."""
        name = dtype_name(dtype)
        if not copy and self._data.dtype.name == name:
            return self
        return nd_call(_CAST, (self,), {"dtype": name})  # type: ignore[no-any-return]

    def tostype(self, stype: str) -> NDArray:
        """A copy in another storage type: 'default', 'row_sparse' or 'csr'."""
        return nd_call(_CAST_STORAGE, (self,), {"stype": stype})  # type: ignore[no-any-return]

    # -- shape ---------------------------------------------------------------------------------

    def reshape(self, *shape: Any, **kwargs: Any) -> NDArray:
        """The same elements in another shape; shares memory.

        Args:
            shape: sizes, with MXNet's codes 0 (copy), -1 (infer), -2 (copy the rest), -3 (merge
                two), -4 (split one); as separate integers or one tuple.
            reverse: match the codes from the right.
        """
        if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
            shape = tuple(shape[0])
        if not shape:
            given = kwargs.pop("shape", ())
            shape = tuple(given) if isinstance(given, (tuple, list)) else (given,)
        attrs = _RESHAPE.parse({"shape": shape, **kwargs})
        infer = _RESHAPE.infer
        assert infer is not None
        target = infer([self.shape], attrs)[1][0]
        try:
            view = self._view(self._data.reshape(target))
        except ValueError:
            raise ShapeError(f"Reshape: shape {shape} for data {self.shape}: expected "
                             f"{self.size} elements, got {target}") from None
        source = tape.alive(self._ag) if tape.state.recording else None
        if source is not None:
            entry = tape.append(_RESHAPE, attrs, device_of(self._ctx), (source,), (self._data,),
                                (view._data,))
            view._ag = tape.Output(entry, 0)
        return view

    def broadcast_to(self, shape: Sequence[int] | int) -> NDArray:
        """Stretch axes of size 1 to `shape`, which may have more axes in front."""
        target = (shape,) if isinstance(shape, int) else tuple(shape)
        more = len(target) - self.ndim
        source = self.reshape((1,) * more + self.shape) if more > 0 else self
        return nd_call(_BROADCAST_TO, (source,), {"shape": target})  # type: ignore[no-any-return]

    # -- indexing ------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> NDArray:
        key, basic = index_key(key)
        if tape.state.recording and self._ag is not None:
            return _one(invoke(_GETITEM, [self], {"key": key, "scalars": is_np_shape()}))
        failure = self._lost()
        raw = self._data
        part = raw[key]
        if part.ndim == 0 and raw.ndim > 0:
            shape = () if is_np_shape() else (1,)
            if basic:
                return self._view(scalar_view(raw, key).reshape(shape))
            part = part.reshape(shape)
        if basic and part.flags.c_contiguous:
            return self._view(part)
        taken = NDArray(part.copy() if basic else part, self._ctx)
        if failure is not None:
            taken._variable().fail(failure)
        return taken

    def __setitem__(self, key: Any, value: Any) -> None:
        self._check_unrecorded(value)
        key, _ = index_key(key)
        raw = self._to_write()
        key = whole(key, raw)
        if isinstance(value, NDArray):
            failure = value._lost()
            if failure is not None:
                self._variable().fail(failure)
                return
            value = dense_of(device_of(self._ctx).xp, raw_on(value, self._ctx))
        elif not isinstance(value, (int, float, np.number)):
            if value is None:
                raise ArgumentError(f"assignment x[{key!r}] = None: expected a number or an array")
            try:
                value = device_of(self._ctx).xp.asarray(value, dtype=raw.dtype)
            except (ValueError, TypeError) as error:
                kind = ArgumentError if isinstance(error, TypeError) else ArgumentValueError
                raise kind(f"assignment x[{key!r}] = value: {error}") from error
        elif type(value) is int and raw.dtype.kind in "iu":
            try:  # a number too big for the type wraps around, as in MXNet
                value = np.asarray(value).astype(raw.dtype).item()
            except OverflowError as error:
                raise ArgumentValueError(f"assignment x[{key!r}] = {value}: {error}") from error
        try:
            raw[key] = fit(value, raw, key)
        except ValueError as error:
            raise ShapeError(f"assignment x[{key!r}] = value into shape {self.shape}: {error}"
                             ) from error

    _basic_indexing_slice_is_contiguous = staticmethod(stays_contiguous)  # by MXNet's name

    def _slice(self, start: int, stop: int) -> NDArray:
        return self[start:stop]

    def _at(self, idx: int) -> NDArray:
        return self[idx]

    def _sync_copyfrom(self, source_array: Any) -> None:
        self[:] = source_array

    # -- in-place arithmetic -------------------------------------------------------------------

    def _check_unrecorded(self, value: Any) -> None:
        """Complain where writing `value` here would change what autograd remembers."""
        if tape.state.recording and (
                self._ag is not None or (isinstance(value, NDArray) and value._ag is not None)):
            raise MXNetError(_INPLACE)

    def _inplace(self, word: str, other: Any) -> NDArray:
        self._check_unrecorded(other)
        result = binary(word, self, other)
        if result.shape != self.shape:
            raise ShapeError(
                f"in-place {word}: the result has shape {result.shape}, the array {self.shape}"
            )
        failure = result._lost()
        if failure is not None:
            self._variable().fail(failure)
        else:
            self._write(result._data)
        return self

    def __iadd__(self, other: Any) -> NDArray:
        return self._inplace("add", other)

    def __isub__(self, other: Any) -> NDArray:
        return self._inplace("subtract", other)

    def __imul__(self, other: Any) -> NDArray:
        return self._inplace("multiply", other)

    def __itruediv__(self, other: Any) -> NDArray:
        return self._inplace("divide", other)

    def __imod__(self, other: Any) -> NDArray:
        return self._inplace("modulo", other)

    def __neg__(self) -> NDArray:
        return nd_call(_NEGATIVE, (self,), {})  # type: ignore[no-any-return]

    def __abs__(self) -> NDArray:
        return nd_call(_ABS, (self,), {})  # type: ignore[no-any-return]

    # -- autograd ------------------------------------------------------------------------------

    def attach_grad(self, grad_req: str = "write", stype: str | None = None) -> None:
        """Make this array a variable whose gradient backward computes.

        Args:
            grad_req: 'write' replaces the gradient at each backward, 'add' sums, 'null' keeps none.
            stype: storage type of the gradient; None: that of this array.
        """
        if grad_req not in ("write", "add", "null"):
            raise ArgumentValueError(
                f"attach_grad: grad_req: expected 'write', 'add' or 'null', got {grad_req!r}"
            )
        stype = self.stype if stype is None else stype
        if stype == "default":
            grad = NDArray(device_of(self._ctx).run(_zeros_like, [self._data], {}), self._ctx)
        else:
            grad = sparse_class(stype).empty(self.shape, self._ctx, self.dtype)
        self._ag = tape.Leaf(None, grad, grad_req)

    @property
    def grad(self) -> NDArray | None:
        """The gradient array; None before attach_grad and for results of operators."""
        return self._ag.grad if type(self._ag) is tape.Leaf else None

    @property
    def _fresh_grad(self) -> bool:
        return type(self._ag) is tape.Leaf and self._ag.fresh

    @_fresh_grad.setter
    def _fresh_grad(self, fresh: bool) -> None:
        if type(self._ag) is tape.Leaf:
            self._ag.fresh = bool(fresh)

    def _dense(self, raw: Any) -> NDArray:
        """A dense array on the same context."""
        return NDArray(raw, self._ctx)

    def detach(self) -> NDArray:
        """The same array (shared memory), cut off from the recorded graph."""
        return self._view(self._data)

    def backward(
        self,
        out_grad: NDArray | None = None,
        retain_graph: bool = False,
        train_mode: bool = True,
    ) -> None:
        """Compute the gradients of the variables this array was computed from.

        Args:
            out_grad: gradient of this array, the same shape; ones when None.
            retain_graph: keep the recorded graph for another backward.
            train_mode: run the backward as for training.
        """
        run_backward([self], [out_grad], retain_graph)


@cache
def _copy_between(here: Context, there: Context) -> Operator:
    """A record for a copy from one context to another: its gradient goes the other way."""

    def gradient(F: Any, dy: Any, out: Any, data: Any) -> list[Any]:
        if isinstance(dy, NDArray):
            return [dy.as_in_context(here)]
        source, target = device_of(here), device_of(there)
        return [dy if source.type == target.type else source.array(target.to_host(dy))]

    def body(xp: Any, data: Any) -> Any:
        return data.copy()

    return Operator("_copyto", body, gradient=gradient)


def _zeros_like(xp: Any, array: Any) -> Any:
    return xp.zeros(array.shape, array.dtype)


def _one(value: NDArray | list[NDArray]) -> NDArray:
    assert isinstance(value, NDArray)
    return value


def _rebuild(host: np.ndarray[Any, Any], ctx: Context) -> NDArray:
    """Unpickle; an array saved on a GPU loads on the CPU where that GPU cannot be used."""
    try:
        device = device_of(ctx)
    except MXNetError:
        ctx = Context("cpu", 0)
        device = device_of(ctx)
    return NDArray(device.array(host), ctx)


def raw_on(source: NDArray, ctx: Context) -> Any:
    """The raw array of `source`, on the kind of device `ctx` is (copied only between kinds)."""
    raw = source._sync()
    here, there = device_of(source._ctx), device_of(ctx)
    if here.type == there.type:
        return raw
    if isinstance(raw, Stored):
        return raw.each(lambda part: there.array(here.to_host(part)))
    host = here.to_host(raw)
    return host if there.type == "cpu" else there.array(host)


_RESHAPE, _GETITEM = find_operator("Reshape"), find_operator("_getitem")
_TRANSPOSE, _COPY, _CAST, _BROADCAST_TO = (
    find_operator(n) for n in ("transpose", "_copy", "Cast", "broadcast_to"))
_CAST_STORAGE = find_operator("cast_storage")
_NEGATIVE, _ABS = find_operator("negative"), find_operator("abs")

enter_class("default", NDArray)
attach_operators(NDArray)
attach_methods(NDArray, nd_call)


def waitall() -> None:
    """Wait for all work under way; raise the first error that nobody has seen yet."""
    wait_all()
