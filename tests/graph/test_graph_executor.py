"""Compiled graphs: one operator for a whole graph, forwards and backwards."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from minigluon.base import ArgumentError, GradientError, ShapeError
from minigluon.context import cpu
from minigluon.device import device_of
from minigluon.dispatch import call, raw_face
from minigluon.graph import CompiledGraph, Entry, F, Node, gradient, variables

DEVICE = device_of(cpu())
RAW = raw_face(DEVICE)


def var(name: str) -> Entry:
    return Entry(Node(None, name), 0)


def forward(compiled: CompiledGraph, *inputs: Any) -> list[Any]:
    return list(call(compiled.operator, inputs, {}, DEVICE))


def backward(compiled: CompiledGraph, results: list[Any], dys: Sequence[Any], *inputs: Any
             ) -> list[Any]:
    op = compiled.operator
    assert op.gradient is not None
    if op.single:
        return list(op.gradient(RAW, dys[0], results[0], *inputs))
    full = [*dys, *[None] * (len(results) - len(dys))]
    return list(op.gradient(RAW, full, results, *inputs))


def ops_of(compiled: CompiledGraph) -> list[str]:
    return [step.op.name for step in compiled._steps]


# -- the program -----------------------------------------------------------------------------------


def test_common_subexpressions_are_computed_once():
    x = var("x")
    y = F.elemwise_add(F.exp(F.square(x)), F.exp(F.square(x)))
    compiled = CompiledGraph([y])
    assert ops_of(compiled) == ["square", "exp", "elemwise_add"]
    [value] = forward(compiled, np.array([1.0, 2.0]))
    np.testing.assert_allclose(value, 2 * np.exp([1.0, 4.0]))


def test_attributes_keep_expressions_apart():
    x = var("x")
    y = F.elemwise_add(F._plus_scalar(x, scalar=1), F._plus_scalar(x, scalar=1.0))
    assert len(ops_of(CompiledGraph([y]))) == 3
    z = F.elemwise_add(F._plus_scalar(x, scalar=2.5), F._plus_scalar(x, scalar=2.5))
    assert len(ops_of(CompiledGraph([z]))) == 2


def test_what_nothing_needs_is_not_computed():
    x = var("x")
    pieces = F.SliceChannel(F.square(x), num_outputs=2)
    F.exp(pieces[1])
    assert ops_of(CompiledGraph([pieces[0]])) == ["square", "SliceChannel"]


def test_random_draws_are_never_merged():
    x = var("x")
    y = F.elemwise_sub(F.Dropout(x, p=0.5), F.Dropout(x, p=0.5))
    compiled = CompiledGraph([y], training=True)
    assert ops_of(compiled).count("Dropout") == 2
    [value] = forward(compiled, np.ones(1000))
    assert set(np.unique(value)) == {-2.0, 0.0, 2.0}
    assert ops_of(CompiledGraph([y], training=False)).count("Dropout") == 1


def test_intermediate_arrays_are_dropped_after_their_last_use():
    x = var("x")
    h = F.square(x)
    y = F.exp(F.negative(F.elemwise_add(h, F.relu(h))))
    steps = CompiledGraph([y])._steps
    freed = [slot for step in steps for slot in step.free]
    assert len(freed) == len(set(freed)) == len(steps)  # x and all results but the last


def test_inputs_may_be_more_than_needed_but_not_less():
    x, z = var("x"), var("z")
    compiled = CompiledGraph([F.square(x)], [z.node, x.node])
    assert forward(compiled, np.zeros(1), np.array([3.0]))[0].tolist() == [9.0]
    assert backward(compiled, [np.array([9.0])], [np.ones(1)], np.zeros(1), np.array([3.0])
                    )[0] is None
    with pytest.raises(ArgumentError, match=r"variables \['x'\] are used but not among"):
        CompiledGraph([F.square(x)], [z.node])


def test_the_same_output_twice_gives_two_arrays():
    x = var("x")
    h = F.square(x)
    first, second = forward(CompiledGraph([h, h]), np.array([2.0]))
    first[:] = 0
    assert second.tolist() == [4.0]


def test_a_failing_node_is_named():
    y = F.elemwise_add(F.square(var("x")), var("z"))
    with pytest.raises(ShapeError, match=rf"elemwise_add.*\[node {y.node.name}\]"):
        forward(CompiledGraph([y]), np.ones((2, 3)), np.ones((4, 3)))


def test_the_record_infers_shapes_and_types():
    y = F.FullyConnected(var("x"), var("w"), num_hidden=4, no_bias=True)
    op = CompiledGraph([y]).operator
    assert op.infer is not None and op.infer_dtype is not None
    assert op.infer([(2, 3), None], {}) == ([(2, 3), (4, 3)], [(2, 4)])
    assert op.infer_dtype(["float64", None], {}) == (["float64"] * 2, ["float64"])


def test_variables_of_one_name_stay_apart():
    compiled = CompiledGraph([F.elemwise_sub(var("x"), var("x"))])
    assert compiled.input_names == ("x", "x#1")
    assert forward(compiled, np.array([5.0]), np.array([3.0]))[0].tolist() == [2.0]


# -- state -----------------------------------------------------------------------------------------


def batch_norm() -> tuple[Entry, list[np.ndarray[Any, Any]]]:
    inputs = [var(name) for name in ("x", "gamma", "beta", "mean", "var")]
    rng = np.random.default_rng(0)
    arrays = [rng.normal(2, 3, size=(50, 4)), np.ones(4), np.zeros(4), np.zeros(4), np.ones(4)]
    return F.BatchNorm(*inputs, momentum=0.9), arrays


def test_running_statistics_are_written_in_training_only():
    y, arrays = batch_norm()
    compiled = CompiledGraph([y], training=True)
    assert compiled.operator.mutates == ("mean", "var")
    forward(compiled, *arrays)
    np.testing.assert_allclose(arrays[3], 0.1 * arrays[0].mean(axis=0))
    np.testing.assert_allclose(arrays[4], 0.9 + 0.1 * arrays[0].var(axis=0))
    before = [array.copy() for array in arrays]
    inference = CompiledGraph([y], training=False)
    assert inference.operator.mutates == ()
    forward(inference, *arrays)
    for old, new in zip(before, arrays, strict=True):
        np.testing.assert_array_equal(old, new)


def test_backward_takes_batch_statistics_from_the_forward():
    y, arrays = batch_norm()
    compiled = CompiledGraph([y], training=True, record=True)
    results = forward(compiled, *arrays)
    moved = [array.copy() for array in arrays]
    grads = backward(compiled, results, [np.ones_like(results[0])], *arrays)
    for old, new in zip(moved, arrays, strict=True):
        np.testing.assert_array_equal(old, new)  # backward runs no BatchNorm again
    np.testing.assert_allclose(grads[0], np.zeros_like(arrays[0]), atol=1e-10)
    assert grads[3] is None and grads[4] is None


def test_backward_of_dropout_uses_the_mask_of_the_forward():
    x = var("x")
    compiled = CompiledGraph([F.Dropout(F.square(x), p=0.5)], training=True, record=True)
    data = np.full(1000, 3.0)
    results = forward(compiled, data)
    [grad] = backward(compiled, results, [np.ones(1000)], data)
    np.testing.assert_allclose(grad, 2 * data * results[0] / 9)
    assert compiled.operator.needs_rng
    assert not compiled._backward((True, *[False] * (len(results) - 1))).graph.operator.needs_rng


def test_without_record_a_draw_cannot_be_differentiated():
    x = var("x")
    compiled = CompiledGraph([F.square(F.Dropout(x, p=0.5))], training=True)
    results = forward(compiled, np.ones(10))
    with pytest.raises(GradientError, match=r"Dropout.*record=True.*\[node"):
        backward(compiled, results, [np.ones(10)], np.ones(10))


# -- backward --------------------------------------------------------------------------------------


def net() -> Entry:
    h = F.tanh(F.FullyConnected(var("x"), var("w1"), var("b1"), num_hidden=6))
    return F.softmax(F.FullyConnected(h, var("w2"), var("b2"), num_hidden=3))


def net_arrays() -> list[Any]:
    rng = np.random.default_rng(1)
    shapes = [(4, 5), (6, 5), (6,), (3, 6), (3,)]
    return [rng.normal(size=shape) for shape in shapes]


@pytest.mark.parametrize("record", [True, False])
def test_backward_equals_the_gradient_graph(record):
    y, arrays = net(), net_arrays()
    head = np.random.default_rng(2).normal(size=(4, 3))
    compiled = CompiledGraph([y], record=record)
    results = forward(compiled, *arrays)
    assert len(results) == (1 + len(compiled.hidden))
    assert bool(compiled.hidden) == record
    grads = backward(compiled, results, [head], *arrays)
    nodes = variables([y])
    direct = gradient([y], [var("head")], [Entry(node, 0) for node in nodes])
    order = variables(direct)
    by_name = {**dict(zip([n.name for n in nodes], arrays, strict=True)), "head": head}
    expected = forward(CompiledGraph(direct, order), *[by_name[node.name] for node in order])
    for got, want in zip(grads, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_recording_backward_runs_nothing_of_the_forward_again():
    compiled = CompiledGraph([net()], record=True)
    mask = (True, *[False] * len(compiled.hidden))
    plan = compiled._backward(mask)
    assert plan.graph is not None
    assert not {"FullyConnected", "tanh", "softmax"} & set(ops_of(plan.graph))


def test_second_order_goes_through_the_hidden_outputs():
    """d/dx of |dy/dx|^2 of a compiled graph, which runs through compiled backward graphs."""
    x, scale = var("x"), var("scale")
    inner = CompiledGraph([F.elemwise_mul(F.tanh(F.square(x)), scale)], record=True)
    outer = F._invoke(inner.operator, x, scale)
    [dx] = gradient([outer], [None], [x])
    loss = F.square(dx)
    [ddx] = gradient([loss], [None], [x])
    data, factor = np.array([0.3, 0.7]), np.array([1.5, -2.0])

    def slope(values: Any) -> Any:
        nodes = variables([loss])
        arrays = {"x": values, "scale": factor}
        return forward(CompiledGraph([loss], nodes), *[arrays[n.name] for n in nodes])[0]

    nodes = variables([ddx])
    got = forward(CompiledGraph([ddx], nodes),
                  *[{"x": data, "scale": factor}[node.name] for node in nodes])[0]
    difference = (slope(data + 1e-6) - slope(data - 1e-6)) / 2e-6
    np.testing.assert_allclose(got, difference, rtol=1e-6)


def test_outputs_without_gradient_cost_nothing():
    x = var("x")
    compiled = CompiledGraph([F.square(x), F.exp(x)], record=True)
    data = np.array([0.5, 2.0])
    results = forward(compiled, data)
    [only_first] = backward(compiled, results, [np.ones(2), None], data)
    np.testing.assert_allclose(only_first, 2 * data)
    [only_second] = backward(compiled, results, [None, np.ones(2)], data)
    np.testing.assert_allclose(only_second, np.exp(data))
    [both] = backward(compiled, results, [np.ones(2), np.ones(2)], data)
    np.testing.assert_allclose(both, 2 * data + np.exp(data))
    [none] = backward(compiled, results, [None, None], data)
    assert none is None


def test_gradients_only_for_what_is_wanted():
    y = net()
    nodes = variables([y])
    weights = [node for node in nodes if node.name != "x"]
    compiled = CompiledGraph([y], record=True, wrt=weights)
    arrays = net_arrays()
    results = forward(compiled, *arrays)
    grads = backward(compiled, results, [np.ones((4, 3))], *arrays)
    assert grads[0] is None and all(grad is not None for grad in grads[1:])
    plan = compiled._backward((True, *[False] * len(compiled.hidden)))
    assert ops_of(plan.graph).count("_fc_grad_data") == 1


def test_an_output_that_is_an_input():
    x = var("x")
    compiled = CompiledGraph([x, F.square(x)], record=True)
    data = np.array([3.0])
    results = forward(compiled, data)
    [grad] = backward(compiled, results, [np.array([10.0]), np.array([1.0])], data)
    assert grad.tolist() == [16.0]
    alone = CompiledGraph([x], record=True)
    assert backward(alone, forward(alone, data), [np.array([5.0])], data)[0].tolist() == [5.0]
