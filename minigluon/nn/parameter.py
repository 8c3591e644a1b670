"""Parameters: arrays that a block owns, on one or more devices, maybe of a shape not known yet."""
from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import autograd, initializer, symbol
from .. import ndarray as nd
from ..base import (
    ArgumentError,
    ArgumentValueError,
    DeferredInitializationError,
    MXNetError,
    ParameterMismatch,
    ShapeError,
    dtype_name,
)
from ..context import Context, cpu, current_context
from ..ndarray import NDArray
from ..npmode import is_np_shape
from ..ops.rules import merge_shapes

__all__ = ["UNIFORM", "Parameter", "contexts", "known", "shape_of", "tensor_types"]

Shape = tuple[int, ...]
tensor_types = (symbol.Symbol, NDArray)

UNIFORM = initializer.Uniform()

_STYPES = ("default", "row_sparse", "csr")
_GRAD_REQS = ("write", "add", "null")


def contexts(ctx: Context | Sequence[Context] | None) -> list[Context]:
    """A list of contexts from one, several, or none (the current one)."""
    if ctx is None:
        return [current_context()]
    several = [ctx] if isinstance(ctx, Context) else list(ctx)
    for one in several:
        if not isinstance(one, Context):
            raise ArgumentError(f"ctx: expected a Context like mx.cpu(0) or a list of them, "
                                f"got {ctx!r}")
    if not several or len(set(several)) < len(several):
        raise ArgumentValueError(f"ctx: expected one Context or several different ones, "
                                 f"got {several}")
    return several


def known(shape: Shape | None) -> bool:
    """Whether every dimension of `shape` is known (0 and -1 mean unknown)."""
    return shape is not None and all(size > 0 for size in shape)


class _ShapeNotInferred(DeferredInitializationError, ShapeError):
    """Inputs do not tell the shape of a deferred parameter; a ValueError, as in MXNet."""


class Parameter:
    """An array that training changes, with a copy on each of its contexts.

    Args:
        name: full name.
        grad_req: 'write' (a backward replaces the gradient), 'add' (adds to it), 'null' (none).
        shape: sizes; 0 is unknown and is found at the first forward.
        dtype: element type.
        lr_mult, wd_mult: factors on the optimizer's learning rate and weight decay.
        init: initializer, or its name, that only this parameter uses.
        allow_deferred_init: initialize() may come before the shape is known.
        differentiable: False for running statistics: grad_req stays 'null'.
        stype: 'row_sparse' for a table of which each step needs few rows: the values live in the
            Trainer's KVStore and `row_sparse_data` fetches rows. grad_stype: storage type of the
            gradient; 'row_sparse' where few rows have one (``Embedding(sparse_grad=True)``).

    >>> import minigluon as mx
    >>> weight = mx.gluon.Parameter("weight", shape=(2, 3))
    >>> weight.initialize(ctx=[mx.cpu(0), mx.cpu(1)], init="ones")
    >>> weight.data(mx.cpu(1)).sum().asscalar().item(), weight.grad(mx.cpu(0)).shape
    (6.0, (2, 3))
    """

    #: Grows whenever anything about any Parameter changes but the numbers in its arrays: who has
    #: prepared something for Parameters sees by it whether that still holds.
    changes = 0

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        Parameter.changes += 1

    def __init__(
        self,
        name: str,
        grad_req: str = "write",
        shape: int | Sequence[int] | None = None,
        dtype: Any = np.float32,
        lr_mult: float = 1.0,
        wd_mult: float = 1.0,
        init: Any = None,
        allow_deferred_init: bool = False,
        differentiable: bool = True,
        stype: str = "default",
        grad_stype: str = "default",
    ) -> None:
        for word, value in (("stype", stype), ("grad_stype", grad_stype)):
            if value not in _STYPES:
                raise ParameterMismatch(f"{word} for Parameter '{name}' must be one of "
                                        f"{', '.join(map(repr, _STYPES))}, got {value!r}")
        self.name = name
        self.lr_mult = lr_mult
        self.wd_mult = wd_mult
        self.init = init
        self._shape = None if shape is None else shape_of(shape)
        self._dtype = dtype
        self._differentiable = differentiable
        self._allow_deferred_init = allow_deferred_init
        self._stype = stype
        self._grad_stype = grad_stype
        self._data: list[NDArray] | None = None
        self._grad: list[NDArray] | None = None
        self._ctx_list: list[Context] = []
        self._deferred_init: tuple[Any, list[Context], Any, NDArray | None] | tuple[()] = ()
        self._var: symbol.Symbol | None = None
        self._trainer: Any = None
        self._grad_req = "null"
        self.grad_req = grad_req

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_trainer": None}  # a copy is trained by whoever asks for it

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._data is not None and self._grad is not None:  # arrays travel as numbers alone
            autograd.mark_variables(self._data, self._grad, self._grad_req)

    def __repr__(self) -> str:
        return (f"{type(self).__name__} {self.name} (shape={self.shape}, "
                f"dtype={dtype_name(self.dtype)})")

    # -- settings -------------------------------------------------------------------------------

    @property
    def grad_req(self) -> str:
        """'write', 'add' or 'null'; may be set at any time."""
        return self._grad_req

    @grad_req.setter
    def grad_req(self, req: str) -> None:
        if req not in _GRAD_REQS:
            raise ParameterMismatch(f"grad_req of Parameter '{self.name}' must be one of "
                                    f"'write', 'add', or 'null', but got {req!r}")
        if not self._differentiable:
            req = "null"
        if req == self._grad_req:
            return
        self._grad_req = req
        if req == "null" and self._grad is not None:
            self._grad = None
            self._data = [array.detach() for array in self._data or ()]
        elif req != "null" and self._data is not None:
            self._grad = self._gradients(self._data)

    @property
    def dtype(self) -> Any:
        """Element type, as it was given; setting it casts."""
        return self._dtype

    @dtype.setter
    def dtype(self, dtype: Any) -> None:
        self.cast(dtype)

    @property
    def shape(self) -> Shape | None:
        """Sizes; 0 where unknown (with ``npx.set_np`` -1, as in MXNet).

        Setting it may fill unknown sizes in, not change known ones.
        """
        if self._shape is None or not is_np_shape():
            return self._shape
        return tuple([size or -1 for size in self._shape])

    @shape.setter
    def shape(self, new: Sequence[int]) -> None:
        wanted = shape_of(new)
        try:
            merged = merge_shapes(self._shape, wanted)
        except ShapeError:
            merged = None
        if merged != wanted:
            raise ParameterMismatch(f"Parameter '{self.name}': shape {wanted} is incompatible "
                                    f"with its shape {self._shape}")
        self._shape = merged

    def _set_trainer(self, trainer: Any) -> None:
        """Tell the parameter who trains it (called by Trainer; dense ones can be shared)."""
        if self._stype != "default" and self._trainer and trainer and self._trainer is not trainer:
            raise MXNetError(f"Parameter '{self.name}' is {self._stype} and already belongs to "
                             "a Trainer; only dense parameters can have several")
        self._trainer = trainer

    # -- first values ---------------------------------------------------------------------------

    def initialize(self, init: Any = None, ctx: Context | Sequence[Context] | None = None,
                   default_init: Any = UNIFORM, force_reinit: bool = False) -> None:
        """Give the parameter its first values, at once or as soon as its shape is known.

        Args:
            init: initializer; overrides the parameter's own.
            ctx: one or several contexts; the current one when None.
            default_init: used where neither `init` nor the parameter's own is given.
            force_reinit: start again even if there are values already.
        """
        if self._data is not None and not force_reinit:
            warnings.warn(f"Parameter '{self.name}' is already initialized, ignoring. "
                          "Set force_reinit=True to re-initialize.", stacklevel=2)
            return
        self._data = self._grad = None
        if init is None:
            init = default_init if self.init is None else self.init
        self._deferred_init = (init, contexts(ctx), default_init, None)
        if known(self.shape):
            self._finish_deferred_init()
        elif not self._allow_deferred_init:
            self._deferred_init = ()
            raise ArgumentValueError(
                f"Parameter '{self.name}' cannot be initialized: its shape {self.shape} has "
                "unknown sizes; give them, or allow_deferred_init=True")

    def _finish_deferred_init(self) -> None:
        """Make the arrays, now that the shape is known; nothing where nothing was deferred."""
        if not self._deferred_init:
            return
        init, ctx_list, default_init, data = self._deferred_init
        if not known(self.shape):
            raise _ShapeNotInferred(
                f"Parameter '{self.name}' cannot be initialized: its shape {self.shape} is still "
                "not fully known; give in_units, in_channels, etc. of its layer, or run one "
                "forward through it")
        with autograd.pause():
            if data is None:
                data = nd.zeros(self.shape, dtype=self.dtype, ctx=cpu())
                general = (default_init if isinstance(default_init, initializer.Initializer)
                           else initializer.Initializer())
                general(initializer.InitDesc(self.name, {"__init__": init}), data)
            self._put(data, ctx_list)
        self._deferred_init = ()

    def _put(self, data: NDArray, ctx_list: Sequence[Context]) -> None:
        """Copies of `data` on all contexts; other threads see them once they are complete."""
        data = _stored_as(data, self._stype)
        arrays = [nd.shown(data.copyto(ctx)) for ctx in ctx_list]
        self._grad = self._gradients(arrays) if self._grad_req != "null" else None
        self._ctx_list = list(ctx_list)
        self._data = arrays

    def _gradients(self, arrays: list[NDArray]) -> list[NDArray]:
        grads = [nd.shown(nd.zeros(array.shape, array.context, array.dtype, self._grad_stype))
                 for array in arrays]
        autograd.mark_variables(arrays, grads, self._grad_req)
        return grads

    def _load_init(self, data: NDArray, ctx: Context | Sequence[Context] | None,
                   cast_dtype: bool = False, dtype_source: str = "current") -> None:
        """Take the value a file holds; initializes a parameter that has no values yet."""
        data = self._fitting(data, cast_dtype, dtype_source)
        here = self.list_ctx() if self._data is not None or self._deferred_init else contexts(ctx)
        if ctx is not None and set(contexts(ctx)) != set(here):
            raise ParameterMismatch(f"Parameter '{self.name}' cannot be loaded on {contexts(ctx)}: "
                                    f"it was initialized on {here}; use reset_ctx first")
        if self._data is None:
            with autograd.pause():
                self._put(data, here)
        else:
            self.set_data(data)
        self._deferred_init = ()

    def _fitting(self, data: NDArray, cast_dtype: bool, dtype_source: str) -> NDArray:
        """`data` of the right dtype, after its shape was taken over or found to be wrong."""
        if dtype_source not in ("current", "saved"):
            raise ArgumentValueError(
                f"dtype_source must be 'current' or 'saved', got {dtype_source!r}")
        try:
            shape = merge_shapes(self._shape, data.shape)
        except ShapeError:
            raise ParameterMismatch(
                f"Failed loading Parameter '{self.name}' from saved params: shape incompatible "
                f"expected {self._shape} vs saved {data.shape}") from None
        if dtype_name(self.dtype) != dtype_name(data.dtype):
            if not cast_dtype:
                raise ParameterMismatch(
                    f"Failed loading Parameter '{self.name}' from saved params: dtype incompatible "
                    f"expected {dtype_name(self.dtype)} vs saved {dtype_name(data.dtype)}. "
                    "Set cast_dtype=True to cast the dtype of saved params.")
            if dtype_source == "current":
                data = data.astype(self.dtype)
            else:
                self.cast(data.dtype)
        self._shape = shape
        return data

    # -- values ---------------------------------------------------------------------------------

    def _missing(self) -> MXNetError:
        """Why there are no arrays."""
        if self._deferred_init or self._data is not None:  # another thread is just making them
            return DeferredInitializationError(
                f"Parameter '{self.name}' has not been initialized yet because initialization was "
                "deferred. Actual initialization happens during the first forward pass. Please "
                "pass one batch of data through the network before accessing Parameters. You can "
                "also avoid deferred initialization by specifying in_units, num_features, etc., "
                "for network layers.")
        return MXNetError(
            f"Parameter '{self.name}' has not been initialized. Note that you should initialize "
            "parameters and create Trainer with Block.collect_params() instead of Block.params "
            "because the later does not include Parameters of nested child Blocks")

    def _on(self, arrays: list[NDArray] | None, ctx: Context | None) -> NDArray:
        if arrays is None:
            raise self._missing()
        if ctx is None:
            if len(arrays) == 1:
                return arrays[0]
            ctx = current_context()
        for place, here in enumerate(self._ctx_list):
            if here is ctx or here == ctx:
                return arrays[place]
        if ctx.device_type in ("cpu_pinned", "cpu_shared"):  # host memory by other names
            return self._on(arrays, cpu(ctx.device_id))
        raise MXNetError(f"Parameter '{self.name}' was not initialized on context {ctx}. "
                         f"It was only initialized on {self._ctx_list}.")

    def _dense(self, call: str) -> None:
        if self._stype != "default":
            raise MXNetError(f"Parameter '{self.name}': {call} is for dense parameters, this one "
                             f"is {self._stype}. Please use row_sparse_data() instead.")

    def data(self, ctx: Context | None = None) -> NDArray:
        """The values on `ctx`; may be left out when there is one context only."""
        if self._stype != "default":
            self._dense("data()")
        return self._on(self._data, ctx)

    def list_data(self) -> list[NDArray]:
        """The values on every context, in the order of `list_ctx`."""
        self._dense("list_data()")
        return self._arrays()

    def _with_grad(self) -> list[NDArray] | None:
        if self._data is not None and self._grad is None:
            raise MXNetError(f"Cannot get gradient array for Parameter '{self.name}' because "
                             "grad_req='null'")
        return self._grad

    def grad(self, ctx: Context | None = None) -> NDArray:
        """The gradient on `ctx`."""
        return self._on(self._with_grad(), ctx)

    def list_grad(self) -> list[NDArray]:
        """The gradients on every context, in the order of `list_ctx`."""
        grads = self._with_grad()
        if grads is None:
            raise self._missing()
        return list(grads)

    def list_ctx(self) -> list[Context]:
        """The contexts it is on, or will be on once its shape is known."""
        if self._data is not None:
            return self._ctx_list
        if self._deferred_init:
            return self._deferred_init[1]
        raise MXNetError(f"Parameter '{self.name}' has not been initialized")

    def row_sparse_data(self, row_id: NDArray) -> NDArray:
        """The rows `row_id` of a row_sparse parameter, fetched from the Trainer's KVStore.

        Returns:
            A row_sparse array of the parameter's shape on row_id's context; it is the variable
            whose gradient backward computes.
        """
        return self._fetched(row_id, "row_sparse_data()", everywhere=False)[0]

    def list_row_sparse_data(self, row_id: NDArray) -> list[NDArray]:
        """The rows `row_id` of a row_sparse parameter on every context."""
        return self._fetched(row_id, "list_row_sparse_data()", everywhere=True)

    def _fetched(self, row_id: NDArray, call: str, everywhere: bool) -> list[NDArray]:
        if not isinstance(row_id, NDArray):
            raise ArgumentError(f"{call}: row_id: expected an NDArray, got {type(row_id).__name__}")
        if self._stype != "row_sparse":
            raise MXNetError(f"Parameter '{self.name}': {call} is for row_sparse parameters, this "
                             f"one is {self._stype}. Please use data() instead.")
        if self._trainer is None:
            raise MXNetError(f"Parameter '{self.name}': {call} fetches rows from the KVStore of "
                             "the parameter's Trainer; make a Trainer with it first")
        arrays = self._arrays() if everywhere else [self._on(self._data, row_id.context)]
        with autograd.pause():
            self._trainer._row_sparse_pull(self, arrays, row_id)
        return arrays

    def _arrays(self) -> list[NDArray]:
        """The arrays on every context, however they are stored."""
        if self._data is None:
            raise self._missing()
        return list(self._data)

    def set_data(self, data: Any) -> None:
        """Set the values on every context; unknown sizes are taken from `data`."""
        if not hasattr(data, "shape"):
            data = nd.array(data, cpu(), self.dtype)
        self.shape = data.shape
        if self._data is None:
            if not self._deferred_init:
                raise ParameterMismatch(f"Parameter '{self.name}' has not been initialized")
            if not isinstance(data, NDArray):
                data = nd.array(data, cpu(), self.dtype)
            self._deferred_init = (*self._deferred_init[:3], data)
            return
        trainer = self._trainer
        if trainer is not None and trainer._kv_initialized:
            if self not in trainer._params_to_init:
                trainer._reset_kvstore()
        with autograd.pause():
            for array in self._data:
                array[:] = data

    def zero_grad(self) -> None:
        """Set the gradients to zero; nothing where there are none."""
        for grad in self._grad or ():
            grad._write(0)

    def reset_ctx(self, ctx: Context | Sequence[Context]) -> None:
        """Move the parameter to other contexts; values are averaged over the present ones."""
        if self._data is not None:
            data = self._reduce()
            with autograd.pause():
                self._put(data, contexts(ctx))
        elif self._deferred_init:
            init, _, default_init, data_or_none = self._deferred_init
            self._deferred_init = (init, contexts(ctx), default_init, data_or_none)
        else:
            raise ArgumentValueError(f"Cannot reset context for Parameter '{self.name}' because "
                                     "it has not been initialized.")

    def _reduce(self) -> NDArray:
        """The value in host memory, averaged over the contexts."""
        if self._stype == "row_sparse" and self._trainer is not None:
            whole = nd.zeros(self.shape, cpu(), self.dtype, self._stype)
            rows = nd.arange(0, self.shape[0], ctx=cpu(), dtype="int64")
            self._trainer._row_sparse_pull(self, whole, rows, full_idx=True)
            return whole
        arrays = [array.copyto(cpu()) for array in self._arrays()]
        if self._stype != "default" or len(arrays) == 1:
            return arrays[0]
        return nd.add_n(*arrays) / len(arrays)  # type: ignore[attr-defined, no-any-return]

    def cast(self, dtype: Any) -> None:
        """Change the element type of values and gradients."""
        dtype_name(dtype)
        self._dtype = dtype
        self._var = None
        if self._data is None:
            if self._deferred_init and self._deferred_init[3] is not None:
                value = self._deferred_init[3].astype(dtype)
                self._deferred_init = (*self._deferred_init[:3], value)
            return
        with autograd.pause():
            self._data = [array.astype(dtype) for array in self._data]
            if self._grad is not None:
                self._grad = [grad.astype(dtype) for grad in self._grad]
                autograd.mark_variables(self._data, self._grad, self._grad_req)

    def var(self) -> symbol.Symbol:
        """The symbol variable that stands for it in graphs; always the same one."""
        if self._var is None:
            self._var = symbol.var(self.name, **self._var_settings())
        return self._var

    def _var_settings(self) -> dict[str, Any]:
        init = self.init.dumps() if isinstance(self.init, initializer.Initializer) else self.init
        return {"shape": self._shape, "dtype": self.dtype, "lr_mult": self.lr_mult,
                "wd_mult": self.wd_mult, "init": init, "stype": self._stype}


def _stored_as(data: NDArray, stype: str) -> NDArray:
    """`data` in a storage type; a row_sparse value of a parameter has all its rows."""
    if data.stype == stype:
        return data
    data = data if data.stype == "default" else data.tostype("default")
    if stype == "row_sparse":
        rows = nd.arange(0, data.shape[0], ctx=data.context, dtype="int64")
        return nd.sparse.row_sparse_array((data, rows), data.shape, data.context)
    return data if stype == "default" else data.tostype(stype)


def shape_of(shape: int | Sequence[int]) -> Shape:
    """Sizes as a parameter keeps them: a tuple, 0 for what is unknown (0 or -1)."""
    sizes = (shape,) if isinstance(shape, (int, np.integer)) else shape
    return tuple(max(int(size), 0) for size in sizes)
