"""The same network on several contexts, each for a part of the batch."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import ndarray as nd
from ..base import ArgumentValueError, MXNetError
from ..context import Context, cpu
from ..executor_manager import split_input_slice
from ..io import DataBatch, DataDesc
from ..ndarray import NDArray
from ..symbol import Executor, Symbol
from .describe import as_list

__all__ = ["DataParallelExecutorGroup"]


class DataParallelExecutorGroup:
    """Executors of one symbol, one for each context.

    Args:
        symbol: the network.
        contexts: where it runs; each gets a part of every batch in proportion to its `workload`.
        data_shapes, label_shapes: DataDescs of whole batches.
        param_names: arguments that are parameters, the same on every context.
        for_training: allocate gradients.
        inputs_need_grad: also for the data.
        shared_group: a group with the same contexts whose parameter arrays are used.
        fixed_param_names: parameters without gradient.
        grad_req: 'write', 'add', 'null' for all, or by name.
        state_names: arguments that are neither parameters nor data; zero until set.
        group2ctxs: for each context, where the groups of the symbol lie.

    Attributes:
        execs: the executors.
        param_arrays, grad_arrays, aux_arrays: for each name a list with one array a context.
    """

    def __init__(self, symbol: Symbol, contexts: Sequence[Context],
                 workload: Sequence[float] | None, data_shapes: Sequence[DataDesc],
                 label_shapes: Sequence[DataDesc] | None, param_names: Sequence[str],
                 for_training: bool, inputs_need_grad: bool,
                 shared_group: DataParallelExecutorGroup | None = None, logger: Any = None,
                 fixed_param_names: Sequence[str] | None = None, grad_req: Any = "write",
                 state_names: Sequence[str] | None = None, group2ctxs: Any = None) -> None:
        self.symbol = symbol
        self.contexts = list(contexts)
        self.workload = list(workload or [1] * len(self.contexts))
        self.param_names = list(param_names)
        self.aux_names = symbol.list_auxiliary_states()
        self.arg_names = symbol.list_arguments()
        self.state_names = list(state_names or ())
        self.fixed_param_names = set(fixed_param_names or ())
        self.for_training = for_training
        self.inputs_need_grad = inputs_need_grad
        self.group2ctxs = _groups_of_each(group2ctxs, len(self.contexts))
        self.output_layouts = [DataDesc.get_batch_axis(symbol[name].attr("__layout__"))
                               for name in symbol.list_outputs()]
        self._describe(data_shapes, label_shapes)
        self.grad_req = self._requests(grad_req)
        self.execs = [self._bind(i, shared_group) for i in range(len(self.contexts))]
        self._collect()

    # -- binding -------------------------------------------------------------------------------

    def _describe(self, data_shapes: Sequence[DataDesc], label_shapes: Sequence[DataDesc] | None
                  ) -> None:
        self.data_shapes = list(data_shapes)
        self.label_shapes = None if label_shapes is None else list(label_shapes)
        self.data_names = [each.name for each in data_shapes]
        self.label_names = [each.name for each in label_shapes or ()]
        sizes = {each.name: each.shape[axis] for each in self._inputs()
                 if (axis := DataDesc.get_batch_axis(each.layout)) >= 0}
        if len(set(sizes.values())) > 1:
            raise ArgumentValueError(f"all inputs of a module must have the same batch size, "
                                     f"got {sizes}")
        self.batch_size = next(iter(sizes.values()), 0)
        self.slices = (split_input_slice(self.batch_size, self.workload)
                       if len(self.contexts) > 1 else [slice(0, self.batch_size)])

    def _inputs(self) -> list[DataDesc]:
        return [*self.data_shapes, *(self.label_shapes or ())]

    def _part(self, axis: int, place: int) -> tuple[slice, ...]:
        """The index of context number `place` in an array with the batch on `axis`."""
        if axis < 0 or len(self.contexts) == 1:
            return (slice(None),)
        return (*[slice(None)] * axis, self.slices[place])

    def _shapes(self, place: int) -> dict[str, tuple[int, ...]]:
        """The shapes of the inputs on one context."""
        shapes = {}
        for each in self._inputs():
            shape = list(each.shape)
            axis = DataDesc.get_batch_axis(each.layout)
            if axis >= 0:
                shape[axis] = self.slices[place].stop - self.slices[place].start
            shapes[each.name] = tuple(shape)
        return shapes

    def _requests(self, grad_req: Any) -> dict[str, str]:
        """What is to be done with the gradient of each argument."""
        if isinstance(grad_req, (list, tuple)):
            grad_req = dict(zip(self.arg_names, grad_req, strict=True))
        requests = dict.fromkeys(self.arg_names, "null")
        if self.for_training:
            for name in self.param_names:
                if name not in self.fixed_param_names:
                    requests[name] = grad_req if isinstance(grad_req, str) else "write"
            if self.inputs_need_grad:
                for name in self.data_names:
                    requests[name] = grad_req if isinstance(grad_req, str) else "write"
            if isinstance(grad_req, Mapping):
                requests.update(grad_req)
        return requests

    def _bind(self, place: int, shared_group: DataParallelExecutorGroup | None) -> Executor:
        ctx, groups = self.contexts[place], self.group2ctxs[place]
        types = {each.name: each.dtype for each in self._inputs() if each.name in self.arg_names}
        shapes = {name: shape for name, shape in self._shapes(place).items()
                  if name in self.arg_names}
        executor = self.symbol.simple_bind(ctx, self.grad_req, types, group2ctx=groups,
                                           **shapes)
        if shared_group is None:
            return executor
        other = shared_group.execs[place]

        def shared(own: Mapping[str, Any], others: Mapping[str, Any], names: Sequence[str]
                   ) -> dict[str, Any]:
            found = dict(own)
            for name in names:
                array = others.get(name)
                if array is not None and own[name] is not None:
                    if array.shape != own[name].shape:
                        raise ArgumentValueError(
                            f"a shared module has '{name}' with shape {array.shape}, "
                            f"this one with {own[name].shape}")
                    found[name] = array
            return found

        return self.symbol.bind(
            ctx, shared(executor.arg_dict, other.arg_dict, self.param_names),
            {name: grad for name, grad in shared(executor.grad_dict, other.grad_dict,
                                                 self.param_names).items() if grad is not None},
            self.grad_req, shared(executor.aux_dict, other.aux_dict, self.aux_names), groups)

    def _collect(self) -> None:
        def gathered(names: Sequence[str], kind: str) -> list[list[Any]]:
            return [[getattr(each, kind).get(name) for each in self.execs] for name in names]

        self.param_arrays = gathered(self.param_names, "arg_dict")
        self.grad_arrays = gathered(self.param_names, "grad_dict")
        self.aux_arrays = gathered(self.aux_names, "aux_dict")
        self.state_arrays = gathered(self.state_names, "arg_dict")
        self.input_grad_arrays = gathered(self.data_names, "grad_dict")

    def reshape(self, data_shapes: Sequence[DataDesc], label_shapes: Sequence[DataDesc] | None
                ) -> None:
        """Take batches of other shapes from now on; parameters keep theirs, or it is an error."""
        if list(data_shapes) == self.data_shapes and label_shapes == self.label_shapes:
            return
        before = self.data_shapes, self.label_shapes
        try:
            self._describe(data_shapes, label_shapes)
            self.execs = [
                each.reshape(allow_up_sizing=True, partial_shaping=True, **{
                    name: shape for name, shape in self._shapes(place).items()
                    if name in self.arg_names},
                    **{name: each.arg_dict[name].shape for name in self.param_names})
                for place, each in enumerate(self.execs)]
        except MXNetError:
            self._describe(*before)
            raise
        self._collect()

    # -- parameters ----------------------------------------------------------------------------

    def set_params(self, arg_params: Mapping[str, NDArray], aux_params: Mapping[str, NDArray],
                   allow_extra: bool = False) -> None:
        """Copy parameters to every context."""
        for each in self.execs:
            each.copy_params_from(arg_params, aux_params, allow_extra)

    def get_params(self, arg_params: dict[str, NDArray], aux_params: dict[str, NDArray]) -> None:
        """Write the mean over the contexts into the arrays of these dicts."""
        for names, arrays, target in ((self.param_names, self.param_arrays, arg_params),
                                      (self.aux_names, self.aux_arrays, aux_params)):
            for name, parts in zip(names, arrays, strict=True):
                mean = parts[0].copyto(cpu())
                if len(parts) > 1:
                    mean = sum((part.copyto(cpu()) for part in parts[1:]), mean) / len(parts)
                target[name] = mean

    # -- running -------------------------------------------------------------------------------

    def forward(self, data_batch: DataBatch, is_train: bool | None = None) -> None:
        """Give each context its part of the batch and compute."""
        self._load(self.data_shapes, data_batch.data or [])
        if self.label_shapes and data_batch.label:
            self._load(self.label_shapes, data_batch.label)
        training = self.for_training if is_train is None else is_train
        for each in self.execs:
            each.forward(is_train=training)

    def _load(self, descriptions: Sequence[DataDesc], arrays: Sequence[Any]) -> None:
        if len(arrays) != len(descriptions):
            raise ArgumentValueError(
                f"expected {len(descriptions)} arrays "
                f"({', '.join(each.name for each in descriptions)}), got {len(arrays)}")
        for each, array in zip(descriptions, arrays, strict=True):
            axis = DataDesc.get_batch_axis(each.layout)
            for place, executor in enumerate(self.execs):
                target = executor.arg_dict.get(each.name)
                if target is not None:
                    part = array[self._part(axis, place)] if len(self.execs) > 1 else array
                    target[:] = part

    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradients; `out_grads` are those of the outputs for the whole batch."""
        if not self.for_training:
            raise ArgumentValueError("re-bind with for_training=True to run backward")
        given = as_list(out_grads)
        for place, each in enumerate(self.execs):
            parts = [grad[self._part(axis, place)].as_in_context(self.contexts[place])
                     for grad, axis in zip(given, self.output_layouts, strict=False)]
            each.backward(parts or None)

    def get_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """(name, shape) of each output for a whole batch."""
        shapes = {each.name: each.shape for each in self._inputs() if each.name in self.arg_names}
        _, found, _ = self.symbol.infer_shape(**shapes)
        return list(zip(self.symbol.list_outputs(), found or [], strict=True))

    def get_outputs(self, merge_multi_context: bool = True, begin: int = 0, end: int | None = None
                    ) -> list[Any]:
        """The outputs, put together from all contexts, or as lists with one array a context."""
        count = len(self.output_layouts)
        outputs = [[each.outputs[place] for each in self.execs]
                   for place in range(begin, count if end is None else end)]
        return _merged(outputs, self.output_layouts) if merge_multi_context else outputs

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """The gradients of the data, likewise."""
        if not merge_multi_context:
            return self.input_grad_arrays
        return _merged(self.input_grad_arrays,
                       [DataDesc.get_batch_axis(each.layout) for each in self.data_shapes])

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        """The values of the states, likewise."""
        if not merge_multi_context:
            return self.state_arrays
        return _merged(self.state_arrays, [0] * len(self.state_arrays))

    def set_states(self, states: Any = None, value: float | None = None) -> None:
        """Set the states, from arrays for the whole batch or one context each, or to a number."""
        if (states is None) == (value is None):
            raise ArgumentValueError("set_states: expected either states or a value")
        for number, arrays in enumerate(self.state_arrays):
            for place, array in enumerate(arrays):
                if states is None:
                    array[:] = value
                elif isinstance(states[number], (list, tuple)):
                    array[:] = states[number][place]
                else:
                    array[:] = states[number][self._part(0, place)]

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Show a metric the outputs and the labels of each context."""
        layouts = {each.name: DataDesc.get_batch_axis(each.layout)
                   for each in self.label_shapes or ()}
        for place, each in enumerate(self.execs):
            own = labels[place] if pre_sliced else labels
            parts = {}
            for name, label in zip(self.label_names, own or (), strict=False):
                whole = pre_sliced or len(self.execs) == 1
                parts[name] = label if whole else label[self._part(layouts[name], place)]
            eval_metric.update_dict(
                parts, dict(zip(self.symbol.list_outputs(), each.outputs, strict=True)))

    def install_monitor(self, mon: Any) -> None:
        """Let a Monitor watch every executor."""
        for each in self.execs:
            mon.install(each)


def _groups_of_each(group2ctxs: Any, count: int) -> list[dict[str, Context] | None]:
    """``group2ctx`` for each of `count` executors.

    >>> _groups_of_each({"a": [cpu(0), cpu(1)], "b": cpu(2)}, 2)
    [{'a': cpu(0), 'b': cpu(2)}, {'a': cpu(1), 'b': cpu(2)}]
    """
    if group2ctxs is None:
        return [None] * count
    if isinstance(group2ctxs, (list, tuple)):
        if len(group2ctxs) != count:
            raise ArgumentValueError(f"group2ctxs: expected {count} dicts, one for each context, "
                                     f"got {len(group2ctxs)}")
        return [{name: as_list(ctx)[0] for name, ctx in each.items()} for each in group2ctxs]
    found: list[dict[str, Context] | None] = []
    for place in range(count):
        groups = {}
        for name, given in group2ctxs.items():
            ctxs = as_list(given)
            if len(ctxs) not in (1, count):
                raise ArgumentValueError(f"group2ctxs: '{name}': expected 1 or {count} contexts, "
                                         f"got {len(ctxs)}")
            groups[name] = ctxs[place if len(ctxs) > 1 else 0]
        found.append(groups)
    return found


def _merged(arrays: Sequence[Sequence[NDArray]], axes: Sequence[int]) -> list[NDArray]:
    """Parts from several contexts put together along the batch axis, on the first context."""
    merged = []
    for parts, axis in zip(arrays, axes, strict=False):
        if len(parts) == 1 or axis < 0:
            merged.append(parts[0])
        else:
            here = [part.as_in_context(parts[0].context) for part in parts]
            merged.append(nd.concat(*here, dim=axis))  # type: ignore[attr-defined]
    return merged
