"""Operators written in Python: CustomOp computes, CustomOpProp describes, `register` names them."""
from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from . import symbol as sym
from .autograd import pause
from .base import ArgumentError, ArgumentValueError, MXNetError, did_you_mean, dtype_name
from .context import Context
from .ndarray import NDArray, wrap
from .ops import Attrs, OpenOperator, Operator, find_operator, registry
from .ops.operator import MaybeShape
from .ops.sparse import Form
from .ops.sparse.arith import empty_like
from .symbol import Symbol

__all__ = ["CustomOp", "CustomOpProp", "NDArrayOp", "NumpyOp", "PythonOp",
           "get_all_registered_operators", "register"]


class CustomOp:
    """What an operator of yours computes; override `forward`, and `backward` for a gradient.

    >>> import minigluon as mx
    >>> class Cube(mx.operator.CustomOp):
    ...     def forward(self, is_train, req, in_data, out_data, aux):
    ...         self.assign(out_data[0], req[0], in_data[0] ** 3)
    ...     def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
    ...         self.assign(in_grad[0], req[0], 3 * in_data[0] ** 2 * out_grad[0])
    >>> @mx.operator.register("cube")
    ... class CubeProp(mx.operator.CustomOpProp):
    ...     def create_operator(self, ctx, in_shapes, in_dtypes):
    ...         return Cube()
    >>> x = mx.nd.array([2.0])
    >>> x.attach_grad()
    >>> with mx.autograd.record():
    ...     y = mx.nd.Custom(x, op_type="cube")
    >>> y.backward()
    >>> y.asscalar().item(), x.grad.asscalar().item()
    (8.0, 12.0)
    """

    def forward(self, is_train: bool, req: Sequence[str], in_data: list[NDArray],
                out_data: list[NDArray], aux: list[NDArray]) -> None:
        """Compute `out_data` from `in_data`; may change `aux`.

        Args:
            is_train: whether in training mode.
            req: for each output what to do: 'write', 'add' or 'null'; see `assign`.
            in_data, out_data, aux: arrays.
        """
        raise NotImplementedError(f"{type(self).__name__} must override forward")

    def backward(self, req: Sequence[str], out_grad: list[NDArray], in_data: list[NDArray],
                 out_data: list[NDArray], in_grad: list[NDArray], aux: list[NDArray]) -> None:
        """Compute `in_grad`, the gradients of `in_data`, from those of `out_data`."""
        raise NotImplementedError(f"{type(self).__name__} must override backward")

    def assign(self, dst: NDArray, req: str, src: Any) -> None:
        """Write or add `src` to `dst`, as `req` says."""
        if req in ("write", "inplace"):
            dst[:] = src
        elif req == "add":
            dst[:] = dst + src


class CustomOpProp:
    """What an operator of yours takes and gives. Arguments of the constructor come as strings.

    Args:
        need_top_grad: whether its gradient depends on those of its outputs (False for losses).
    """

    def __init__(self, need_top_grad: bool = True) -> None:
        self.need_top_grad_ = need_top_grad

    def infer_shape(self, in_shape: list[Any]) -> Any:
        """(input shapes, output shapes, auxiliary shapes) from input shapes; [] is unknown."""
        return in_shape, [in_shape[0]] * len(self.list_outputs()), []

    def infer_type(self, in_type: list[Any]) -> Any:
        """(input types, output types, auxiliary types) from input types."""
        first = in_type[0]
        return ([first] * len(self.list_arguments()), [first] * len(self.list_outputs()),
                [first] * len(self.list_auxiliary_states()))

    def infer_storage_type(self, in_stype: list[str]) -> Any:
        """Storage types of inputs, outputs and auxiliary states; unless overridden all are dense.

        Where it is overridden, `forward` gets sparse inputs as they are.
        """
        return (in_stype, ["default"] * len(self.list_outputs()),
                ["default"] * len(self.list_auxiliary_states()))

    def infer_storage_type_backward(self, ograd_stype: list[str], in_stype: list[str],
                                    out_stype: list[str], igrad_stype: list[str],
                                    aux_stype: list[str]) -> Any:
        """Storage types of (out_grad, in_data, out_data, in_grad, aux) as `backward` gets them.

        Unless overridden all are dense.
        """
        return tuple(["default"] * len(each) for each in
                     (ograd_stype, in_stype, out_stype, igrad_stype, aux_stype))

    def list_arguments(self) -> list[str]:
        """Names of the inputs."""
        return ["data"]

    def list_outputs(self) -> list[str]:
        """Names of the outputs."""
        return ["output"]

    def list_auxiliary_states(self) -> list[str]:
        """Names of the states that forward may change."""
        return []

    def declare_backward_dependency(self, out_grad: list[int], in_data: list[int],
                                    out_data: list[int]) -> list[int]:
        """What backward reads; minigluon gives it everything."""
        return [*(out_grad if self.need_top_grad_ else ()), *in_data, *out_data]

    def create_operator(self, ctx: Context, in_shapes: list[Any], in_dtypes: list[Any]) -> CustomOp:
        """The CustomOp for inputs of these shapes and types."""
        return CustomOp()


_known: dict[str, Callable[..., CustomOpProp]] = {}


def register(reg_name: str) -> Callable[[type[Any]], type[Any]]:
    """Decorator: make a CustomOpProp known as ``op_type=reg_name``."""

    def enter(prop_cls: type[Any]) -> type[Any]:
        if not (isinstance(prop_cls, type) and issubclass(prop_cls, CustomOpProp)):
            raise ArgumentError(f"register('{reg_name}'): expected a subclass of CustomOpProp, "
                                f"got {prop_cls!r}")
        _known[reg_name] = prop_cls
        return prop_cls

    return enter


def get_all_registered_operators() -> list[str]:
    """Names of all operators."""
    return sorted(registry)


# -- as operator records --------------------------------------------------------------------------

# keyword arguments of a call that are nobody's attribute
_OF_THE_CALL = ("name", "attr", "out", "ctx")


def _make(given: Mapping[str, Any]) -> Operator:
    settings = {
        key: str(value) for key, value in given.items()
        if key not in _OF_THE_CALL and not key.startswith("__") and not isinstance(
            value, (NDArray, Symbol))}
    op_type = settings.pop("op_type", None)
    if not op_type:
        raise ArgumentError("Custom: missing required argument 'op_type': the name given to "
                            "mx.operator.register")
    if op_type not in _known:
        raise ArgumentValueError(f"Custom: no operator is registered as '{op_type}'"
                                 f"{did_you_mean(op_type, _known)}")
    prop = _known[op_type](**settings)
    inputs, aux = list(prop.list_arguments()), list(prop.list_auxiliary_states())
    if len({*inputs, *aux}) < len(inputs) + len(aux):
        raise ArgumentValueError(f"Custom '{op_type}': arguments {inputs} and auxiliary states "
                                 f"{aux} must have different names")
    return _Custom(op_type, prop, settings)


class _Record(Operator):
    """A record whose inputs and attributes are not read from a signature."""

    def __init__(self, name: str, body: Callable[..., Any], input_names: Sequence[str],
                 attr_names: Sequence[str], **settings: Any) -> None:
        self._names, self._attrs = tuple(input_names), tuple(attr_names)
        super().__init__(name, body, **settings)
        self._read_signature()  # now: no other thread may read what the body's says in between

    def _read_signature(self) -> None:
        super()._read_signature()
        self.variadic = False
        self.input_names, self.attr_names = self._names, self._attrs
        self.parsers = {name: str for name in self._attrs}


class _Custom(_Record):
    """The record of one use of a custom operator, forward; it makes the CustomOp when it runs."""

    def __init__(self, op_type: str, prop: CustomOpProp, settings: Mapping[str, str]) -> None:
        self.op_type, self.prop = op_type, prop
        self.arguments = list(prop.list_arguments())
        self.states = list(prop.list_auxiliary_states())
        self.results = list(prop.list_outputs())
        self._lock = threading.Lock()
        self._ops: dict[Context, tuple[Any, CustomOp]] = {}

        def forward(xp: Any, *arrays: Any, device: Any, training: bool, rng: Any,
                    **settings: str) -> Any:
            # naming rng tells others that two runs may differ
            return self._forward(device, arrays, training)

        def backward(xp: Any, *arrays: Any, device: Any, rng: Any) -> Any:
            return self._backward(device, arrays)

        count = len(self.results)
        super().__init__(
            "Custom", forward, [*self.arguments, *self.states], ["op_type", *settings],
            infer=self._infer_shape, infer_dtype=self._infer_dtype, gradient=self._gradient,
            num_outputs=count, mutates=self.states, aux=self.states, output_names=self.results)
        self._back = _Record(
            f"_custom_{op_type}_backward", backward,
            [*(f"{kind}_{name}" for kind in ("grad", "out") for name in self.results),
             *self.input_names], [],
            infer=self._infer_backward, infer_dtype=lambda dtypes, attrs: (
                dtypes, dtypes[2 * count:][:len(self.arguments)]),
            num_outputs=len(self.arguments), mutates=self.states)
        kind = type(prop)
        if kind.infer_storage_type is not CustomOpProp.infer_storage_type:
            self.forms = (Form(("*",) * len(self.input_names), None, forward),)
        if kind.infer_storage_type_backward is not CustomOpProp.infer_storage_type_backward:
            self._back.forms = (Form(("*",) * len(self._back.input_names), None, backward),)

    # -- shapes and types ----------------------------------------------------------------------

    def _infer_shape(self, shapes: list[MaybeShape], attrs: Attrs
                     ) -> tuple[list[MaybeShape], list[MaybeShape]]:
        given = shapes[:len(self.arguments)]
        complete = all(shape is not None and 0 not in shape for shape in given)
        try:
            found = self.prop.infer_shape([list(shape or ()) for shape in given])
        except Exception as error:
            if not complete:  # it cannot tell from so little
                return shapes, [None] * len(self.results)
            failed = self._failed("infer_shape", error)
            failed.late = False
            raise failed from error
        parts = [[tuple(shape) or None for shape in part] for part in found]
        counts = [len(self.arguments), len(self.results), len(self.states)]
        parts += [[]] * (3 - len(parts))
        if [len(part) for part in parts] != counts:
            raise ArgumentValueError(
                f"Custom '{self.op_type}': infer_shape: expected shapes of {counts[0]} inputs, "
                f"{counts[1]} outputs and {counts[2]} auxiliary states, got {found}")
        return [*parts[0], *parts[2]], parts[1]

    def _infer_dtype(self, dtypes: list[str | None], attrs: Attrs
                     ) -> tuple[list[str | None], list[str | None]]:
        given = dtypes[:len(self.arguments)]
        known = next((dtype for dtype in given if dtype is not None), None)
        if given and known is None:
            return dtypes, [None] * len(self.results)
        try:
            ins, outs, *aux = self.prop.infer_type(
                [np.dtype(dtype or known).type for dtype in given] or [np.float32])
        except Exception as error:
            failed = self._failed("infer_type", error)
            failed.late = False
            raise failed from error
        inputs: list[str | None] = [dtype_name(dtype) for dtype in (*ins, *(aux[0] if aux else ()))]
        return inputs[:len(dtypes)], [dtype_name(dtype) for dtype in outs]

    def _infer_backward(self, shapes: list[MaybeShape], attrs: Attrs
                        ) -> tuple[list[MaybeShape], list[MaybeShape]]:
        return shapes, shapes[2 * len(self.results):][:len(self.arguments)]

    # -- running -------------------------------------------------------------------------------

    def _failed(self, where: str, error: Exception) -> MXNetError:
        what = f"{type(error).__name__}: {error}"
        return MXNetError(f"Custom '{self.op_type}': {where} raised {what}").at_run_time()

    def _operator(self, ctx: Context, arrays: Sequence[Any]) -> CustomOp:
        """The CustomOp for arrays of these shapes; backward gets the one that ran forward."""
        key = [array.shape for array in arrays], [array.dtype.type for array in arrays]
        with self._lock:
            if ctx not in self._ops or self._ops[ctx][0] != key:
                made = self.prop.create_operator(ctx, [list(shape) for shape in key[0]], key[1])
                self._ops[ctx] = key, made
            return self._ops[ctx][1]

    def _forward(self, device: Any, arrays: Sequence[Any], training: bool) -> Any:
        shapes = [tuple(array.shape) for array in arrays]
        _, outs = self._infer_shape(list(shapes), {})
        _, dtypes = self._infer_dtype([str(array.dtype) for array in arrays], {})
        wrapped = [wrap(array, device.ctx) for array in arrays]
        count = len(self.arguments)
        try:
            _, stypes, *_ = self.prop.infer_storage_type([each.stype for each in wrapped[:count]])
            results = [_blank(device, shape or (), dtype, stype)
                       for shape, dtype, stype in zip(outs, dtypes, stypes, strict=True)]
            with Context(device.ctx), pause(train_mode=training):
                self._operator(device.ctx, arrays).forward(
                    training, ["write"] * len(results), wrapped[:count], results, wrapped[count:])
        except Exception as error:
            raise self._failed("forward", error) from error
        return _raws(results)

    def _gradient(self, F: Any, dy: Any, out: Any, *inputs: Any, **attrs: Any) -> list[Any]:
        dys, outs = ([dy], [out]) if self.single else (list(dy), list(out))
        dys = [F.zeros_like(result) if grad is None else grad
               for grad, result in zip(dys, outs, strict=True)]
        grads = F._invoke(self._back, *dys, *outs, *inputs) if self.arguments else []
        grads = list(grads) if isinstance(grads, list) else [grads]
        return [*grads, *[None] * len(self.states)]

    def _backward(self, device: Any, arrays: Sequence[Any]) -> Any:
        wrapped = [wrap(array, device.ctx) for array in arrays]
        count, many = len(self.results), len(self.arguments)
        dys, outs, rest = wrapped[:count], wrapped[count:2 * count], wrapped[2 * count:]
        data, aux = rest[:many], rest[many:]
        try:
            stypes = self.prop.infer_storage_type_backward(*[
                [each.stype for each in group] for group in (dys, data, outs, data, aux)])
            dys, data, outs = (list(map(_stored, *pair)) for pair in
                               zip((dys, data, outs), stypes[:3], strict=True))
            grads = [_blank(device, each.shape, each.dtype, stype)
                     for each, stype in zip(data, stypes[3], strict=True)]
            with Context(device.ctx), pause(train_mode=True):
                self._operator(device.ctx, arrays[2 * count:]).backward(
                    ["write"] * many, dys, data, outs, grads, aux)
        except Exception as error:
            raise self._failed("backward", error) from error
        return _raws(grads)


def _blank(device: Any, shape: tuple[int, ...], dtype: Any, stype: str) -> NDArray:
    """An array of zeros to be written to."""
    if stype == "default":
        return NDArray(device.xp.zeros(shape, dtype), device.ctx)
    return wrap(empty_like(device.xp, stype, shape, np.dtype(dtype)), device.ctx)


def _stored(array: NDArray, stype: str) -> NDArray:
    """The array, stored as a backward asks for it."""
    return array if array.stype == stype else array.tostype("default").tostype(stype)


def _raws(arrays: Sequence[NDArray]) -> Any:
    """What a body returns: raw arrays, one alone."""
    raws = tuple(array._sync() for array in arrays)
    return raws if len(raws) != 1 else raws[0]


_open = find_operator("Custom")
assert isinstance(_open, OpenOperator)
_open.make = _make


# -- the older way --------------------------------------------------------------------------------

_numbers = itertools.count()


class PythonOp:
    """Base of the operators that are made by an instance; see NumpyOp."""

    def __init__(self, need_top_grad: bool = True) -> None:
        self.need_top_grad_ = need_top_grad

    def __call__(self, *args: Any, **kwargs: Any) -> Symbol:
        return self.get_symbol(*args, **kwargs)

    def get_symbol(self, *args: Any, **kwargs: Any) -> Symbol:
        """A symbol that calls this operator on other symbols; ``name=`` names it."""
        outer = self

        class Op(CustomOp):
            def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any
                        ) -> None:
                outer._call(outer.forward, [in_data, out_data], [out_data])

            def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any,
                         in_grad: Any, aux: Any) -> None:
                outer._call(outer.backward, [out_grad, in_data, out_data, in_grad], [in_grad])

        class Prop(CustomOpProp):
            def infer_shape(self, in_shape: list[Any]) -> Any:
                return (*outer.infer_shape(in_shape), [])

            def list_arguments(self) -> list[str]:
                return outer.list_arguments()

            def list_outputs(self) -> list[str]:
                return outer.list_outputs()

            def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> CustomOp:
                return Op()

        name = f"_python_op{next(_numbers)}"
        register(name)(Prop)
        return sym.Custom(*args, op_type=name, **kwargs)  # type: ignore[attr-defined, no-any-return]

    def _call(self, function: Callable[..., None], given: list[list[NDArray]],
              written: list[list[NDArray]]) -> None:
        function(*given)

    def forward(self, in_data: list[Any], out_data: list[Any]) -> None:
        """Write `out_data`; by default a copy of the first input."""
        out_data[0][:] = in_data[0]

    def backward(self, out_grad: list[Any], in_data: list[Any], out_data: list[Any],
                 in_grad: list[Any]) -> None:
        """Write `in_grad`; by default ones."""
        in_grad[0][:] = 1.0

    def infer_shape(self, in_shape: list[Any]) -> tuple[list[Any], list[Any]]:
        """(input shapes, output shapes)."""
        return in_shape, [in_shape[0]]

    def list_outputs(self) -> list[str]:
        """Names of the outputs."""
        return ["output"]

    def list_arguments(self) -> list[str]:
        """Names of the inputs."""
        return ["data"]

    def need_top_grad(self) -> bool:
        """Whether the gradient depends on those of the outputs."""
        return self.need_top_grad_


class NDArrayOp(PythonOp):
    """An operator made by an instance, whose `forward` and `backward` work on NDArrays."""


class NumpyOp(PythonOp):
    """An operator made by an instance, whose `forward` and `backward` work on NumPy arrays.

    >>> import minigluon as mx
    >>> class Square(NumpyOp):
    ...     def forward(self, in_data, out_data):
    ...         out_data[0][:] = in_data[0] ** 2
    ...     def backward(self, out_grad, in_data, out_data, in_grad):
    ...         in_grad[0][:] = 2 * in_data[0] * out_grad[0]
    >>> Square()(mx.sym.var("x"), name="sq").eval(x=mx.nd.array([3]))[0].asnumpy().tolist()
    [9.0]
    """

    def _call(self, function: Callable[..., None], given: list[list[NDArray]],
              written: list[list[NDArray]]) -> None:
        copies = {id(array): array.asnumpy() for arrays in given for array in arrays}
        function(*[[copies[id(array)] for array in arrays] for arrays in given])
        for array in (array for arrays in written for array in arrays):
            array[:] = copies[id(array)]
