"""Executor: a graph bound to the arrays it reads, and to those that receive gradients."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..base import (
    ArgumentError,
    ArgumentValueError,
    GradientError,
    MXNetError,
    ShapeError,
    did_you_mean,
)
from ..context import Context, current_context
from ..device import device_of
from ..device.engine import Failure
from ..graph import (
    Entry,
    Node,
    auxiliary,
    close_shapes,
    has_images,
    infer_dtype,
    infer_shape,
    topological,
    variables,
)
from ..ndarray import NDArray, wrap
from ..ops.storage import STYPES, fill
from .given import checked_shapes, in_order, requests
from .nodes import debug_text, output_name
from .segment import Program, Run, placed

__all__ = ["Executor", "Watcher"]

Watcher = Callable[[str, NDArray], Any]


class Executor:
    """Runs a graph forwards and backwards over the arrays it is bound to.

    Made by ``symbol.bind`` and ``symbol.simple_bind``.

    Attributes:
        arg_arrays, grad_arrays, aux_arrays: in the order of the symbol's lists; a gradient that is
            not computed is None.
        outputs: of the last forward, zeros before the first; always the same arrays.

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
                 states: Sequence[NDArray], group2ctx: Any = None) -> None:
        self._whole = list(entries)
        variables_, states_ = _split(entries)
        arrays = zip((*variables_, *states_), (*args, *states), strict=True)
        entries = close_shapes(entries, {node: array.shape for node, array in arrays})
        self._entries = entries
        self._ctx = ctx
        self._group2ctx = group2ctx
        self._places = placed(topological(entries), ctx, group2ctx)
        self._variables, self._states = _split(entries)
        self.arg_arrays, self.aux_arrays = list(args), list(states)
        self.grad_arrays = [grad if req != "null" else None
                            for grad, req in zip(grads, reqs, strict=True)]
        self._reqs = list(reqs)
        names = [node.name for node in self._variables]
        self._arg_dict = dict(zip(names, self.arg_arrays, strict=True))
        self._grad_dict = dict(zip(names, self.grad_arrays, strict=True))
        self._aux_dict = {node.name: array
                         for node, array in zip(self._states, self.aux_arrays, strict=True)}
        self._outputs: list[NDArray] | None = None
        # by mode, whether they are watched, and what they are for: layouts of images suit one shape
        self._programs: dict[tuple[bool, bool, Any], Program] = {}
        self._only_for = has_images(entries) and tuple(
            [(array.dtype, array.shape) for array in self._arrays])
        self._last: Run | None = None
        self._failure: Failure | None = None  # of the last forward
        self._watcher: Watcher | None = None
        self._watch_inputs = False
        self._check()

    # -- binding -------------------------------------------------------------------------------

    @classmethod
    def bind(cls, entries: Sequence[Entry], ctx: Any, args: Any, args_grad: Any, grad_req: Any,
             aux_states: Any, group2ctx: Any) -> Executor:
        """Over given arrays; see ``Symbol.bind``."""
        arguments, states = _split(entries)
        arrays = in_order("args", args, [node.name for node in arguments])
        names = [node.name for node in arguments]
        grads = in_order("args_grad", args_grad or {}, names, optional=True)
        reqs = requests(grad_req, names)
        reqs = [req if grad is not None else "null"
                for req, grad in zip(reqs, grads, strict=True)]
        aux = in_order("aux_states", aux_states or {}, [node.name for node in states])
        context = Context(ctx) if ctx is not None else current_context()
        return cls(entries, context, arrays, grads, reqs, aux, group2ctx)

    @classmethod
    def simple_bind(cls, entries: Sequence[Entry], ctx: Any, grad_req: Any, type_dict: Any,
                    group2ctx: Any, shapes: Mapping[str, Sequence[int]],
                    stypes: Mapping[str, str] | None = None) -> Executor:
        """Over new arrays of zeros; see ``Symbol.simple_bind``."""
        arguments, states = _split(entries)
        context = Context(ctx) if ctx is not None else current_context()
        places = placed(topological(entries), context, group2ctx)
        inferred = infer_shape(entries, checked_shapes("simple_bind", shapes))
        if inferred.incomplete():
            unknown = {name: inferred.variables[name] for name in inferred.incomplete()}
            raise ShapeError(f"simple_bind: cannot tell the shapes of {unknown} "
                             f"(0: unknown dimension); give them, e.g. {next(iter(unknown))}=(...)")
        types = infer_dtype(entries, type_dict or {}).variables
        types = infer_dtype(entries, {name: dtype or "float32" for name, dtype in types.items()}
                            ).variables

        def zeros(node: Node) -> NDArray:
            stype = (stypes or {}).get(node.name) or STYPES[
                int(node.extra_attrs.get("__storage_type__", "0"))]
            return nd.zeros(inferred.variables[node.name], places[node], types[node.name], stype)

        reqs = requests(grad_req, [node.name for node in arguments])
        grads = [zeros(node) if req != "null" else None
                 for node, req in zip(arguments, reqs, strict=True)]
        return cls(entries, context, [zeros(node) for node in arguments], grads, reqs,
                   [zeros(node) for node in states], group2ctx)

    def _check(self) -> None:
        """Shapes that do not fit, or a gradient that cannot be computed, are known when binding."""
        infer_shape(self._entries, {node: array.shape
                                    for node, array in zip(self._nodes, self._arrays, strict=True)})
        if any(grad is not None for grad in self.grad_arrays):
            self._program(training=True)

    def debug_str(self) -> str:
        """The nodes in order, what they read, and their attributes."""
        return debug_text(self._entries)

    # -- running -------------------------------------------------------------------------------

    @property
    def _nodes(self) -> list[Node]:
        return [*self._variables, *self._states]

    @property
    def _arrays(self) -> list[NDArray]:
        return [*self.arg_arrays, *self.aux_arrays]

    @property
    def arg_dict(self) -> dict[str, NDArray]:
        """The arguments by name."""
        return self._arg_dict

    @property
    def grad_dict(self) -> dict[str, NDArray | None]:
        """The gradients by the name of their argument; None where none is computed."""
        return self._grad_dict

    @property
    def aux_dict(self) -> dict[str, NDArray]:
        """The auxiliary states by name."""
        return self._aux_dict

    @property
    def outputs(self) -> list[NDArray]:
        """The outputs of the last forward; each forward writes into the same arrays."""
        if self._outputs is None:
            self._outputs = self._new_outputs()
        return self._outputs

    def _new_outputs(self) -> list[NDArray]:
        """Zeros of the outputs' shapes and types."""
        known = list(zip(self._nodes, self._arrays, strict=True))
        shapes = infer_shape(self._entries, {node: array.shape for node, array in known})
        types = infer_dtype(self._entries, {node: array.dtype for node, array in known})
        return [nd.zeros(shapes.entries[entry], self._places[entry.node], types.entries[entry])
                for entry in self._entries]

    def _put_outputs(self, made: list[NDArray]) -> list[NDArray]:
        """New outputs take the place of the old, in the arrays that others may hold."""
        if self._outputs is None:
            self._outputs = made
        for old, new in zip(self._outputs, made, strict=True):
            old._data, old._ctx, old._var = new._data, new._ctx, new._var
        return self._outputs

    @property
    def output_dict(self) -> dict[str, NDArray]:
        """The outputs by the name of their node."""
        return {output_name(entry): array
                for entry, array in zip(self._entries, self.outputs, strict=True)}

    def _program(self, training: bool) -> Program:
        wrt = [node for node, grad in zip(self._variables, self.grad_arrays, strict=True)
               if grad is not None]
        key = (training, self._watcher is not None, self._only_for)
        if key not in self._programs:
            shown = [] if self._watcher is None else [
                entry for node in self._places for entry in node.outputs()]
            known = {node: (np.dtype(array.dtype).name, array.shape)
                     for node, array in zip(self._nodes, self._arrays, strict=True)}
            self._programs[key] = Program(self._entries, self._nodes, self._places, training, wrt,
                                          shown, known)
        return self._programs[key]

    def forward(self, is_train: bool = False, **kwargs: Any) -> list[NDArray]:
        """Compute the outputs.

        Args:
            is_train: run in training mode.
            kwargs: arrays copied into the arguments of these names first.
        """
        for name, value in kwargs.items():
            self._fill(name, value)
        program = self._program(bool(is_train))
        arrays = self._arrays
        try:
            inputs = [array._to_write() for array in arrays]  # states are written
            run = program.forward(inputs, [array.context for array in arrays])
        except MXNetError as error:
            if not error.late:
                raise
            return self._lose_outputs(Failure(error, late=True))
        self._last, self._failure = run, None
        taken = list(inputs)
        made = []
        for entry in self._entries:
            taken.append(_own(run.values[entry], taken))
            made.append(wrap(taken[-1], run.homes[entry].ctx))
        outputs = self._put_outputs(made)
        if self._watcher is not None:
            self._show(run)
        return outputs

    def _lose_outputs(self, failure: Failure) -> list[NDArray]:
        """Outputs of a forward that failed as it ran: who reads them gets the error."""
        self._failure = failure
        made = self._new_outputs()
        for out in made:
            out._variable().fail(failure)
        return self._put_outputs(made)

    def set_monitor_callback(self, callback: Watcher, monitor_all: bool = False) -> None:
        """Show the output of every operator, as it was computed, to ``callback(name, array)``.

        Args:
            callback: gets 'fc1_output' and the NDArray, in each forward; in backward
                'fc1_backward_output0' and the gradient of the first input, and so on (no number
                where there is one input).
            monitor_all: also show what the operators read: 'fc1_data', 'fc1_weight'.
        """
        self._watcher = callback
        self._watch_inputs = monitor_all

    def _show(self, run: Run) -> None:
        assert self._watcher is not None

        def show(name: str, entry: Entry) -> None:
            assert self._watcher is not None
            self._watcher(name, NDArray(run.values[entry], run.homes[entry].ctx))

        for node in self._places:
            if node.op is None:
                continue
            if self._watch_inputs:
                for place, entry in enumerate(node.inputs):
                    word = f"input{place}" if node.op.variadic else node.op.input_names[place]
                    show(f"{node.name}_{word}", entry)
            for entry in node.outputs():
                show(output_name(entry), entry)

    def _show_gradient(self, node: Node, place: int, grad: Any, device: Any) -> None:
        assert self._watcher is not None
        number = place if len(node.inputs) > 1 else ""
        self._watcher(f"{node.name}_backward_output{number}", NDArray(grad, device.ctx))

    def _fill(self, name: str, value: Any) -> None:
        if name not in self.arg_dict:
            raise ArgumentError(f"forward: no argument '{name}'{did_you_mean(name, self.arg_dict)} "
                                f"(arguments: {', '.join(self.arg_dict)})")
        array = self.arg_dict[name]
        if not hasattr(value, "shape"):
            raise ArgumentValueError(f"forward: {name}: expected an NDArray or a NumPy array, got "
                                     f"{value!r}")
        if tuple(value.shape) != array.shape:
            raise ShapeError(f"forward: {name}: expected shape {array.shape}, got "
                             f"{tuple(value.shape)}; bind again or use reshape()")
        array[:] = value

    def backward(self, out_grads: Any = None, is_train: bool = True) -> None:
        """Compute the gradients of the last forward and write or add them as ``grad_req`` says.

        Args:
            out_grads: gradients of the outputs, one, a list, or a dict by the outputs' names;
                None means ones.
        """
        if self._failure is not None:
            return self._lose_gradients(self._failure)
        if self._last is None:
            raise GradientError("backward: nothing was computed yet; call forward(is_train=True)")
        count = len(self._entries)
        if isinstance(out_grads, dict):
            out_grads = [out_grads[name] for name in self.output_dict]
        given = [out_grads] if isinstance(out_grads, NDArray) else list(out_grads or [None] * count)
        if len(given) != count:
            raise ArgumentValueError(f"backward: expected {count} output gradients, "
                                     f"got {len(given)}")
        try:
            grads = self._last.backward([
                None if grad is None else grad.as_in_context(out.context)._sync()
                for grad, out in zip(given, self.outputs, strict=True)],
                None if self._watcher is None else self._show_gradient)
        except MXNetError as error:
            if not error.late:
                raise
            return self._lose_gradients(Failure(error, late=True))
        for node, target, req in zip(self._variables, self.grad_arrays, self._reqs, strict=True):
            if target is not None:
                grad = grads.get(Entry(node, 0), 0)
                fill(device_of(target.context).xp, target._to_write(), grad, req == "add")

    def _lose_gradients(self, failure: Failure) -> None:
        for target in self.grad_arrays:
            if target is not None:
                target._variable().fail(failure)

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
        shapes = infer_shape(self._whole, checked_shapes("reshape", kwargs)).variables

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
                return array.reshape((-1,))[:count].reshape(shape)
            if not allow_up_sizing:
                raise ShapeError(f"reshape: {node.name} would grow from {array.shape} to {shape}; "
                                 "set allow_up_sizing=True")
            return nd.zeros(shape, array.context, array.dtype)

        def all_resized(nodes: Sequence[Node], arrays: Sequence[Any]) -> list[Any]:
            return [resized(node, array) for node, array in zip(nodes, arrays, strict=True)]

        other = Executor(self._whole, self._ctx, all_resized(self._variables, self.arg_arrays),
                         all_resized(self._variables, self.grad_arrays), self._reqs,
                         all_resized(self._states, self.aux_arrays), self._group2ctx)
        if other._entries == self._entries:
            other._programs.update(self._programs)
            self._programs = other._programs
        other._watcher, other._watch_inputs = self._watcher, self._watch_inputs
        return other


def _split(entries: Sequence[Entry]) -> tuple[list[Node], list[Node]]:
    """Arguments and auxiliary states."""
    states = auxiliary(entries)
    known = set(states)
    return [node for node in variables(entries) if node not in known], states


def _own(raw: Any, inputs: Sequence[Any]) -> Any:
    """An output that does not share memory with an argument."""
    shared = raw.base is not None or any(raw is given for given in inputs)
    return raw.copy() if shared else raw
