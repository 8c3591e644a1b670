"""Loops and branches as operators: `_foreach`, `_while_loop`, `_cond`, with gradients.

Their nodes have the graphs they run as JSON text among the attributes (MXNet's files have them as
the node's ``subgraphs``).
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base import ShapeError
from ..ops import Attrs, operator
from ..ops.attrs import Shape
from ..ops.operator import MaybeShape
from .subgraph import (
    Graph,
    Loop,
    added,
    gradient_by,
    graph_of,
    input_grads_dtype,
    input_grads_shape,
    split,
    stacked,
    zeros_for,
)

__all__: list[str] = []

Array = Any
Shapes = list[MaybeShape]


# -- foreach ---------------------------------------------------------------------------------------

def _foreach_loop(attrs: Attrs) -> Loop:
    return Loop(graph_of(attrs["subgraphs"][0]), attrs["in_data_locs"], attrs["in_state_locs"],
                 attrs["remain_locs"], attrs["num_out_data"])


def _foreach_outputs(attrs: Attrs) -> int:
    return int(attrs["num_outputs"] + len(attrs["in_state_locs"])
               + graph_of(attrs["subgraphs"][0]).hidden)


def _sliced(shape: MaybeShape) -> MaybeShape:
    if shape is not None and not shape:
        raise ShapeError("expected data with steps along axis 0, got shape ()")
    return None if shape is None else shape[1:] or (1,)


def _foreach_infer(values: Sequence[Any], attrs: Attrs, ask: Callable[..., Any],
                   inward: Callable[[Any], Any], outward: Callable[[Any], Any]
                   ) -> tuple[list[Any], list[Any]]:
    loop = _foreach_loop(attrs)
    data, states, rest = split(values, len(loop.places[0]), len(loop.places[1]))
    ins, outs = ask(loop.inputs([inward(each) for each in data], states, rest))
    kinds = [[values[0] if place < 0 else ins[place] for place in places]
             for places in loop.places]
    known_states = [state if place < 0 else ins[place]
                    for state, place in zip(states, loop.places[1], strict=True)]
    hidden = [None] * (_foreach_outputs(attrs) - attrs["num_outputs"])
    results = [*(outward(out) for out in outs[:loop.outputs]), *outs[loop.outputs:], *hidden]
    return [*data, *known_states, *kinds[2]], results


def _foreach_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    count = len(attrs["in_data_locs"])
    steps = next((shape[0] for shape in shapes[:count] if shape), 0)
    for shape in shapes[:count]:
        if shape and steps and shape[0] not in (0, steps):
            raise ShapeError(f"expected data with as many steps each, got {shapes[:count]}")
    graph = graph_of(attrs["subgraphs"][0])
    return _foreach_infer(shapes, attrs, graph.shapes, _sliced,
                          lambda shape: None if shape is None else (steps, *shape))


def _foreach_dtype(dtypes: list[Any], attrs: Attrs) -> tuple[list[Any], list[Any]]:
    graph = graph_of(attrs["subgraphs"][0])
    return _foreach_infer(dtypes, attrs, graph.dtypes, lambda dtype: dtype, lambda dtype: dtype)


@operator("_foreach", infer=_foreach_shape, infer_dtype=_foreach_dtype,
          gradient=gradient_by("_foreach"), num_outputs=_foreach_outputs,
          visible=lambda attrs: attrs["num_outputs"])
def foreach(
    xp: Any, *args: Array, subgraphs: tuple,  # type: ignore[type-arg]
    num_outputs: int, num_out_data: int, in_data_locs: Shape = (), in_state_locs: Shape = (),
    remain_locs: Shape = (), device: Any, training: bool,
) -> tuple[Array, ...]:
    """Run a graph for each slice of the data along axis 0, handing states on.

    Args:
        args: data, first states, whatever else the graph reads.
        subgraphs: the graph. num_outputs: outputs and states; num_out_data: outputs alone.
        in_data_locs, in_state_locs, remain_locs: places of the three among the graph's inputs.

    Shapes: data (T, *S) -> outputs (T, *O), then the last states.
    """
    attrs = {"subgraphs": subgraphs, "num_outputs": num_outputs, "num_out_data": num_out_data,
             "in_data_locs": in_data_locs, "in_state_locs": in_state_locs,
             "remain_locs": remain_locs}
    loop = _foreach_loop(attrs)
    data, states, rest = split(args, len(in_data_locs), len(in_state_locs))
    if not data or not len(data[0]):
        raise ShapeError("_foreach: expected data with at least one step")
    outputs, memory = [], []
    for t in range(len(data[0])):
        out, states, kept = loop.step([_slice(each, t) for each in data], states, rest, device,
                                      training)
        outputs.append(out)
        memory.append([*states, *kept])
    count = _foreach_outputs(attrs) - num_outputs
    return (*stacked(xp, outputs, num_out_data), *states, *stacked(xp, memory, count))


def _slice(array: Array, t: int) -> Array:
    """One step of the data; numbers are arrays of shape (1,)."""
    return array[t] if array.ndim > 1 else array[t:t + 1]


def _restored(loop: Loop, grads: list[Array], data: Sequence[Array]) -> list[Array]:
    return [grad.reshape(each.shape) for grad, each in zip(grads, data, strict=False)] \
        + grads[len(data):]


@operator("_foreach_grad", infer=input_grads_shape, infer_dtype=input_grads_dtype,
          num_outputs=lambda attrs: len(attrs["in_data_locs"]) + len(attrs["in_state_locs"])
          + len(attrs["remain_locs"]))
def foreach_grad(
    xp: Any, *args: Array, subgraphs: tuple,  # type: ignore[type-arg]
    num_outputs: int, num_out_data: int, in_data_locs: Shape = (), in_state_locs: Shape = (),
    remain_locs: Shape = (), kept: int, device: Any, training: bool,
) -> tuple[Array, ...]:
    """Gradients of `_foreach` for all its inputs; `kept`: how many outputs it had."""
    attrs = {"subgraphs": subgraphs, "num_out_data": num_out_data, "in_data_locs": in_data_locs,
             "in_state_locs": in_state_locs, "remain_locs": remain_locs}
    loop = _foreach_loop(attrs)
    dys, outs, inputs = split(args, num_outputs, kept)
    data, states, rest = split(inputs, len(in_data_locs), len(in_state_locs))
    wide = [each if each.ndim > 1 else each[:, None] for each in data]
    grads = loop.back(xp, len(data[0]), dys, outs[:num_out_data], outs[num_outputs:], wide, states,
                      rest, device, training)
    return tuple(_restored(loop, grads, data))


# -- while_loop ------------------------------------------------------------------------------------

def _while_loop_of(attrs: Attrs) -> tuple[Loop, list[int], list[int]]:
    """The loop, and where among the node's inputs its states and the rest stand."""
    locs, places = attrs["func_input_locs"], attrs["func_var_locs"]
    rest = [place for place in range(len(locs)) if place not in places]
    loop = Loop(graph_of(attrs["subgraphs"][1]), (), places, rest, attrs["num_out_data"])
    return loop, attrs["var_locs"] or [locs[p] for p in places], [locs[p] for p in rest]


def _while_outputs(attrs: Attrs) -> int:
    # behind the visible ones: the number of steps, the states after each, what the graph keeps
    return int(attrs["num_outputs"] + 1 + len(attrs["func_var_locs"])
               + graph_of(attrs["subgraphs"][1]).hidden)


def _while_infer(values: Sequence[Any], attrs: Attrs, ask: Callable[..., Any],
                 outward: Callable[[Any], Any]) -> tuple[list[Any], list[Any]]:
    loop, var_at, rest_at = _while_loop_of(attrs)
    states = [values[at] for at in var_at]
    ins, outs = ask(loop.inputs((), states, [values[at] for at in rest_at]))
    found = list(values)
    for at, place in [*zip(var_at, loop.places[1], strict=True),
                      *zip(rest_at, loop.places[2], strict=True)]:
        if place >= 0:
            found[at] = ins[place]
    hidden = [None] * (_while_outputs(attrs) - attrs["num_outputs"])
    return found, [*(outward(out) for out in outs[:loop.outputs]), *outs[loop.outputs:], *hidden]


def _while_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    most = attrs["max_iterations"]
    return _while_infer(shapes, attrs, graph_of(attrs["subgraphs"][1]).shapes,
                        lambda shape: None if shape is None else (most, *shape))


def _while_dtype(dtypes: list[Any], attrs: Attrs) -> tuple[list[Any], list[Any]]:
    return _while_infer(dtypes, attrs, graph_of(attrs["subgraphs"][1]).dtypes, lambda dtype: dtype)


def _true(results: Sequence[Array]) -> bool:
    [flag] = results
    if flag.size != 1:
        raise ShapeError(f"expected a condition of one element, got shape {flag.shape}")
    return bool(flag.reshape(-1)[0])


def _while_gradient(F: Any, dy: Sequence[Any], out: Sequence[Any], *inputs: Any, **attrs: Any
                    ) -> list[Any]:
    return gradient_by("_while_loop")(F, dy, out, *inputs, count=len(inputs), **attrs)


@operator("_while_loop", infer=_while_shape, infer_dtype=_while_dtype,
          gradient=_while_gradient, num_outputs=_while_outputs,
          visible=lambda attrs: attrs["num_outputs"])
def while_loop(
    xp: Any, *args: Array, subgraphs: tuple,  # type: ignore[type-arg]
    num_outputs: int, num_out_data: int, max_iterations: int, cond_input_locs: Shape = (),
    func_input_locs: Shape = (), func_var_locs: Shape = (), var_locs: Shape = (), device: Any,
    training: bool,
) -> tuple[Array, ...]:
    """Run a graph on its own states while another graph says so.

    Args:
        args: the first states, and whatever the graphs read.
        subgraphs: the condition, the step. num_outputs: outputs and states; num_out_data: outputs
            alone. max_iterations: at most so many steps; outputs of steps not made are 0.
        cond_input_locs, func_input_locs: which of `args` the graphs read.
        func_var_locs: which of the step's inputs are the states; -1: it does not read it.
        var_locs: where the first states are among `args`, if not as func_var_locs say.

    Shapes: states -> outputs (max_iterations, *O), then the last states.
    """
    attrs = {"subgraphs": subgraphs, "num_outputs": num_outputs, "num_out_data": num_out_data,
             "func_input_locs": func_input_locs, "func_var_locs": func_var_locs,
             "var_locs": var_locs}
    loop, var_at, rest_at = _while_loop_of(attrs)
    condition = graph_of(subgraphs[0])
    now = list(args)
    rest = [args[at] for at in rest_at]
    outputs: list[list[Array]] = []
    memory: list[list[Array]] = []
    while len(outputs) < max_iterations:
        flag, _ = condition.run([now[at] for at in cond_input_locs], device, training)
        if not _true(flag):
            break
        out, states, kept = loop.step((), [now[at] for at in var_at], rest, device, training)
        for at, state in zip(var_at, states, strict=True):
            now[at] = state
        outputs.append(out)
        memory.append([*states, *kept])
    count = _while_outputs(attrs) - num_outputs - 1
    steps = xp.asarray([len(outputs)], dtype="int32")
    return (*_padded(xp, loop, outputs, args, attrs, max_iterations),
            *(now[at] for at in var_at), steps, *stacked(xp, memory, count))


def _padded(xp: Any, loop: Loop, outputs: Sequence[Sequence[Array]], args: Sequence[Array],
            attrs: Attrs, most: int) -> list[Array]:
    """The outputs of all steps, with zeros for steps that were not made."""
    found = []
    shapes = dtypes = None
    for place in range(loop.outputs):
        if outputs:
            like = outputs[0][place]
            shape, dtype = like.shape, like.dtype
        else:
            if shapes is None:
                shapes = _while_shape([array.shape for array in args], {
                    **attrs, "max_iterations": most})[1]
                dtypes = _while_dtype([array.dtype.name for array in args], attrs)[1]
            assert dtypes is not None
            inner = shapes[place]
            assert inner is not None
            shape, dtype = inner[1:], dtypes[place]
        full = xp.zeros((most, *shape), dtype)
        for t, step in enumerate(outputs):
            full[t] = step[place]
        found.append(full)
    return found


@operator("_while_loop_grad", infer=input_grads_shape, infer_dtype=input_grads_dtype,
          num_outputs=lambda attrs: attrs["count"])
def while_loop_grad(
    xp: Any, *args: Array, subgraphs: tuple,  # type: ignore[type-arg]
    num_outputs: int, num_out_data: int, max_iterations: int, cond_input_locs: Shape = (),
    func_input_locs: Shape = (), func_var_locs: Shape = (), var_locs: Shape = (), kept: int,
    count: int, device: Any, training: bool,
) -> tuple[Array, ...]:
    """Gradients of `_while_loop` for all its inputs; what only the condition reads gets zeros."""
    attrs = {"subgraphs": subgraphs, "num_out_data": num_out_data,
             "func_input_locs": func_input_locs, "func_var_locs": func_var_locs,
             "var_locs": var_locs}
    loop, var_at, rest_at = _while_loop_of(attrs)
    dys, outs, inputs = split(args, num_outputs, kept)
    grads = loop.back(xp, int(outs[num_outputs][0]), dys, outs[:num_out_data],
                      outs[num_outputs + 1:], (), [inputs[at] for at in var_at],
                      [inputs[at] for at in rest_at], device, training)
    found: list[Array | None] = [None] * len(inputs)
    for at, grad in zip([*var_at, *rest_at], grads, strict=True):
        found[at] = added(found[at], grad)
    return tuple(zeros_for(xp, grad, like) for grad, like in zip(found, inputs, strict=True))


# -- cond ------------------------------------------------------------------------------------------

def _branches(attrs: Attrs) -> list[tuple[Graph, Sequence[int]]]:
    return [(graph_of(attrs["subgraphs"][1]), attrs["then_input_locs"]),
            (graph_of(attrs["subgraphs"][2]), attrs["else_input_locs"])]


def _cond_outputs(attrs: Attrs) -> int:
    # behind the visible ones: which branch ran, and what it keeps
    return int(attrs["num_outputs"] + 1 + max(graph.hidden for graph, _ in _branches(attrs)))


def _cond_infer(values: Sequence[Any], attrs: Attrs, ask: Callable[[Graph], Any]
                ) -> tuple[list[Any], list[Any]]:
    found, results = list(values), [None] * attrs["num_outputs"]
    for graph, locs in _branches(attrs):
        ins, outs = ask(graph)([found[at] for at in locs])
        for at, value in zip(locs, ins, strict=True):
            found[at] = value if value is not None else found[at]
        results = [out if out is not None else known
                   for out, known in zip(outs, results, strict=True)]
    return found, [*results, *[None] * (_cond_outputs(attrs) - attrs["num_outputs"])]


def _cond_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    return _cond_infer(shapes, attrs, lambda graph: graph.shapes)


def _cond_dtype(dtypes: list[Any], attrs: Attrs) -> tuple[list[Any], list[Any]]:
    return _cond_infer(dtypes, attrs, lambda graph: graph.dtypes)


def _cond_gradient(F: Any, dy: Sequence[Any], out: Sequence[Any], *inputs: Any, **attrs: Any
                   ) -> list[Any]:
    return gradient_by("_cond")(F, dy, out, *inputs, count=len(inputs), **attrs)


@operator("_cond", infer=_cond_shape, infer_dtype=_cond_dtype, gradient=_cond_gradient,
          num_outputs=_cond_outputs, visible=lambda attrs: attrs["num_outputs"])
def cond(
    xp: Any, *args: Array, subgraphs: tuple,  # type: ignore[type-arg]
    num_outputs: int, cond_input_locs: Shape = (), then_input_locs: Shape = (),
    else_input_locs: Shape = (), device: Any, training: bool,
) -> tuple[Array, ...]:
    """Run one of two graphs, as a third says.

    Args:
        args: whatever the graphs read. subgraphs: the condition, then, else.
        num_outputs: results of each branch.
        cond_input_locs, then_input_locs, else_input_locs: which of `args` the graphs read.

    Shapes: -> those of the branch.
    """
    attrs = {"subgraphs": subgraphs, "num_outputs": num_outputs,
             "then_input_locs": then_input_locs, "else_input_locs": else_input_locs}
    flag, _ = graph_of(subgraphs[0]).run([args[at] for at in cond_input_locs], device, training)
    chosen = 0 if _true(flag) else 1
    graph, locs = _branches(attrs)[chosen]
    found, kept = graph.run([args[at] for at in locs], device, training)
    blanks = _cond_outputs(attrs) - num_outputs - 1 - len(kept)
    return (*found, xp.asarray([chosen], dtype="int32"), *kept,
            *[xp.zeros((1,), "float32")] * blanks)


@operator("_cond_grad", infer=input_grads_shape, infer_dtype=input_grads_dtype,
          num_outputs=lambda attrs: attrs["count"])
def cond_grad(
    xp: Any, *args: Array, subgraphs: tuple,  # type: ignore[type-arg]
    num_outputs: int, cond_input_locs: Shape = (), then_input_locs: Shape = (),
    else_input_locs: Shape = (), kept: int, count: int, device: Any, training: bool,
) -> tuple[Array, ...]:
    """Gradients of `_cond` for all its inputs; what the other branch reads gets zeros."""
    attrs = {"subgraphs": subgraphs, "then_input_locs": then_input_locs,
             "else_input_locs": else_input_locs}
    dys, outs, inputs = split(args, num_outputs, kept)
    graph, locs = _branches(attrs)[int(outs[num_outputs][0])]
    grads = graph.back(dys, outs[:num_outputs], outs[num_outputs + 1:],
                       [inputs[at] for at in locs], device, training)
    found: list[Array | None] = [None] * len(inputs)
    for at, grad in zip(locs, grads, strict=True):
        found[at] = added(found[at], grad)
    return tuple(zeros_for(xp, grad, like) for grad, like in zip(found, inputs, strict=True))


