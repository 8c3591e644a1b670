"""Executor: a graph bound to the arrays it reads, and to those that receive gradients."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import ndarray as nd
from ..base import (
    ArgumentError,
    ArgumentValueError,
    GradientError,
    NotForThisError,
    ShapeError,
    did_you_mean,
)
from ..context import Context, current_context
from ..device import device_of
from ..dispatch import call, raw_face
from ..graph import CompiledGraph, Entry, Node, auxiliary, infer_dtype, infer_shape, variables
from ..ndarray import NDArray

__all__ = ["Executor"]

_REQS = ("write", "add", "null")


class Executor:
    """Runs a graph forwards and backwards over the arrays it is bound to.

    Made by ``symbol.bind`` and ``symbol.simple_bind``.

    Attributes:
        arg_arrays, grad_arrays, aux_arrays: in the order of the symbol's lists; a gradient that is
            not computed is None.
        arg_dict, grad_dict, aux_dict: the same by name.
        outputs: of the last forward.

    >>> import minigluon as mx
    >>> x = mx.sym.var("x")
    >>> executor = (x * x).simple_bind(mx.cpu(), x=(2,))
    >>> executor.forward(is_train=True, x=mx.nd.array([1, 3]))[0].asnumpy().tolist()
    [1.0, 9.0]
    >>> executor.backward(mx.nd.ones((2,)))
    >>> executor.grad_dict["x"].asnumpy().tolist()
    [2.0, 6.0]
    """

    def __init__(self, entries: Sequence[Entry], ctx: Context, args: Sequence[NDArray],
                 grads: Sequence[NDArray | None], reqs: Sequence[str],
                 states: Sequence[NDArray]) -> None:
        self._entries = list(entries)
        self._ctx = ctx
        self._variables, self._states = _split(entries)
        self.arg_arrays, self.aux_arrays = list(args), list(states)
        self.grad_arrays = [grad if req != "null" else None
                            for grad, req in zip(grads, reqs, strict=True)]
        self._reqs = list(reqs)
        names = [node.name for node in self._variables]
        self.arg_dict = dict(zip(names, self.arg_arrays, strict=True))
        self.grad_dict = dict(zip(names, self.grad_arrays, strict=True))
        self.aux_dict = {node.name: array
                         for node, array in zip(self._states, self.aux_arrays, strict=True)}
        self.outputs: list[NDArray] = []
        self._graphs: dict[tuple[bool, bool], CompiledGraph] = {}
        self._last: tuple[CompiledGraph, list[Any], tuple[Any, ...]] | None = None
        self._check()

    # -- binding -------------------------------------------------------------------------------

    @classmethod
    def bind(cls, entries: Sequence[Entry], ctx: Any, args: Any, args_grad: Any, grad_req: Any,
             aux_states: Any, group2ctx: Any) -> Executor:
        """Over given arrays; see ``Symbol.bind``."""
        _refuse_groups(group2ctx)
        arguments, states = _split(entries)
        arrays = _in_order("args", args, [node.name for node in arguments])
        names = [node.name for node in arguments]
        grads = _in_order("args_grad", args_grad or {}, names, optional=True)
        reqs = _requests(grad_req, names)
        reqs = [req if grad is not None else "null"
                for req, grad in zip(reqs, grads, strict=True)]
        aux = _in_order("aux_states", aux_states or {}, [node.name for node in states])
        context = Context(ctx) if ctx is not None else current_context()
        return cls(entries, context, arrays, grads, reqs, aux)

    @classmethod
    def simple_bind(cls, entries: Sequence[Entry], ctx: Any, grad_req: Any, type_dict: Any,
                    group2ctx: Any, shapes: Mapping[str, Sequence[int]]) -> Executor:
        """Over new arrays of zeros; see ``Symbol.simple_bind``."""
        _refuse_groups(group2ctx)
        arguments, states = _split(entries)
        context = Context(ctx) if ctx is not None else current_context()
        inferred = infer_shape(entries, shapes)
        if inferred.incomplete():
            unknown = {name: inferred.variables[name] for name in inferred.incomplete()}
            raise ShapeError(f"simple_bind: cannot tell the shapes of {unknown} "
                             f"(0: unknown dimension); give them, e.g. {next(iter(unknown))}=(...)")
        types = infer_dtype(entries, type_dict or {}).variables
        types = infer_dtype(entries, {name: dtype or "float32" for name, dtype in types.items()}
                            ).variables

        def zeros(node: Node) -> NDArray:
            return nd.zeros(inferred.variables[node.name], context, types[node.name])

        reqs = _requests(grad_req, [node.name for node in arguments])
        grads = [zeros(node) if req != "null" else None
                 for node, req in zip(arguments, reqs, strict=True)]
        return cls(entries, context, [zeros(node) for node in arguments], grads, reqs,
                   [zeros(node) for node in states])

    def _check(self) -> None:
        """Shapes that do not fit, or a gradient that cannot be computed, are known when binding."""
        infer_shape(self._entries, {node: array.shape
                                    for node, array in zip(self._nodes, self._arrays, strict=True)})
        if any(grad is not None for grad in self.grad_arrays):
            self._graph(training=True)

    # -- running -------------------------------------------------------------------------------

    @property
    def _nodes(self) -> list[Node]:
        return [*self._variables, *self._states]

    @property
    def _arrays(self) -> list[NDArray]:
        return [*self.arg_arrays, *self.aux_arrays]

    @property
    def output_dict(self) -> dict[str, NDArray]:
        """The outputs by the name of their node."""
        return {f"{entry.node.name}_output{entry.index or ''}": array
                for entry, array in zip(self._entries, self.outputs, strict=True)}

    def _graph(self, training: bool) -> CompiledGraph:
        wrt = [node for node, grad in zip(self._variables, self.grad_arrays, strict=True)
               if grad is not None]
        key = (training, bool(wrt))
        if key not in self._graphs:
            self._graphs[key] = CompiledGraph(
                self._entries, self._nodes, training, record=bool(wrt), wrt=wrt, name="executor")
        return self._graphs[key]

    def forward(self, is_train: bool = False, **kwargs: Any) -> list[NDArray]:
        """Compute the outputs.

        Args:
            is_train: run in training mode.
            kwargs: arrays copied into the arguments of these names first.
        """
        for name, value in kwargs.items():
            self._fill(name, value)
        graph = self._graph(bool(is_train))
        inputs = [array._sync() for array in self._arrays]
        device = device_of(self._ctx)
        results = call(graph.operator, inputs, {}, device)
        self._last = graph, inputs, results
        self.outputs = [NDArray(_own(raw, inputs), self._ctx)
                        for raw in results[:len(self._entries)]]
        return self.outputs

    def _fill(self, name: str, value: Any) -> None:
        if name not in self.arg_dict:
            raise ArgumentError(f"forward: no argument '{name}'{did_you_mean(name, self.arg_dict)} "
                                f"(arguments: {', '.join(self.arg_dict)})")
        array = self.arg_dict[name]
        if tuple(value.shape) != array.shape:
            raise ShapeError(f"forward: {name}: expected shape {array.shape}, got "
                             f"{tuple(value.shape)}; bind again or use reshape()")
        array[:] = value

    def backward(self, out_grads: Any = None, is_train: bool = True) -> None:
        """Compute the gradients of the last forward and write or add them as ``grad_req`` says.

        Args:
            out_grads: gradients of the outputs, one or a list; None means ones.
        """
        if self._last is None:
            raise GradientError("backward: nothing was computed yet; call forward(is_train=True)")
        graph, inputs, results = self._last
        face = raw_face(device_of(self._ctx))
        count = len(self._entries)
        given = [out_grads] if isinstance(out_grads, NDArray) else list(out_grads or [None] * count)
        if len(given) != count:
            raise ArgumentValueError(f"backward: expected {count} output gradients, "
                                     f"got {len(given)}")
        dys = [face.ones_like(raw) if grad is None else grad._sync()
               for grad, raw in zip(given, results, strict=False)]
        dys += [None] * (len(results) - count)
        op = graph.operator
        assert op.gradient is not None
        grads = op.gradient(face, dys[0], results[0], *inputs) if op.single else op.gradient(
            face, dys, list(results), *inputs)
        for target, req, grad in zip(self.grad_arrays, self._reqs, grads, strict=False):
            if target is not None:
                raw = target._sync()
                if req == "add":
                    raw += 0 if grad is None else grad
                else:
                    raw[...] = 0 if grad is None else grad

    # -- changing arrays -----------------------------------------------------------------------

    def copy_params_from(self, arg_params: Mapping[str, NDArray],
                         aux_params: Mapping[str, NDArray] | None = None,
                         allow_extra_params: bool = False) -> None:
        """Copy arrays by name into the arguments and auxiliary states."""
        for given, own in ((arg_params, self.arg_dict), (aux_params or {}, self.aux_dict)):
            for name, value in given.items():
                if name in own:
                    own[name][:] = value
                elif not allow_extra_params:
                    raise ArgumentValueError(f"copy_params_from: no '{name}' in this executor"
                                             f"{did_you_mean(name, own)}")

    def reshape(self, partial_shaping: bool = False, allow_up_sizing: bool = False,
                **kwargs: Sequence[int]) -> Executor:
        """An executor for other input shapes that shares what it can.

        Arrays whose shape stays are shared; smaller ones use the beginning of the old buffer.

        Args:
            partial_shaping: other arguments than those named may change their shape.
            allow_up_sizing: arrays may become larger (they are new then, and zero).
            kwargs: new shapes by name.
        """
        shapes = infer_shape(self._entries, kwargs).variables

        def resized(node: Node, array: NDArray | None) -> NDArray | None:
            shape = shapes[node.name]
            if array is None or shape == array.shape:
                return array
            if shape is None or 0 in shape:
                raise ShapeError(f"reshape: cannot tell the shape of {node.name}")
            if node.name not in kwargs and not partial_shaping:
                raise ShapeError(f"reshape: {node.name} would change from {array.shape} to "
                                 f"{shape}; name it, or set partial_shaping=True")
            count = 1
            for size in shape:
                count *= size
            if count <= array.size:
                return array.reshape((-1,))[:count].reshape(shape)  # type: ignore[no-any-return]
            if not allow_up_sizing:
                raise ShapeError(f"reshape: {node.name} would grow from {array.shape} to {shape}; "
                                 "set allow_up_sizing=True")
            return nd.zeros(shape, self._ctx, array.dtype)

        def all_resized(nodes: Sequence[Node], arrays: Sequence[Any]) -> list[Any]:
            return [resized(node, array) for node, array in zip(nodes, arrays, strict=True)]

        return Executor(self._entries, self._ctx, all_resized(self._variables, self.arg_arrays),
                        all_resized(self._variables, self.grad_arrays), self._reqs,
                        all_resized(self._states, self.aux_arrays))


def _split(entries: Sequence[Entry]) -> tuple[list[Node], list[Node]]:
    """Arguments and auxiliary states."""
    states = auxiliary(entries)
    known = set(states)
    return [node for node in variables(entries) if node not in known], states


def _refuse_groups(group2ctx: Any) -> None:
    if group2ctx:
        raise NotForThisError("group2ctx: placing parts of a graph on several contexts is not "
                              "built yet; bind the whole graph to one context")


def _in_order(what: str, given: Any, names: Sequence[str], optional: bool = False) -> list[Any]:
    """Arrays in the order of `names`, from a list or a dict."""
    if isinstance(given, Mapping):
        missing = [name for name in names if name not in given]
        if missing and not optional:
            raise ArgumentValueError(f"bind: {what}: missing {', '.join(missing)}")
        return [given.get(name) for name in names]
    arrays = list(given)
    if len(arrays) != len(names):
        raise ArgumentValueError(f"bind: {what}: expected {len(names)} arrays "
                                 f"({', '.join(names)}), got {len(arrays)}")
    return arrays


def _requests(grad_req: Any, names: Sequence[str]) -> list[str]:
    if isinstance(grad_req, str):
        reqs = [grad_req] * len(names)
    elif isinstance(grad_req, Mapping):
        reqs = [grad_req.get(name, "null") for name in names]
    else:
        reqs = list(grad_req)
    if len(reqs) != len(names) or any(req not in _REQS for req in reqs):
        raise ArgumentValueError(f"bind: grad_req: expected one of {_REQS}, for all or one for "
                                 f"each of {', '.join(names)}; got {grad_req!r}")
    return reqs


def _own(raw: Any, inputs: Sequence[Any]) -> Any:
    """An output that does not share memory with an argument."""
    shared = raw.base is not None or any(raw is given for given in inputs)
    return raw.copy() if shared else raw
