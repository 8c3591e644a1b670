"""Gradient graphs against central differences along one random direction, in float64."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from minigluon.base import GradientError
from minigluon.context import cpu
from minigluon.device import device_of
from minigluon.dispatch import call
from minigluon.graph import CompiledGraph, Entry, F, Node, gradient, infer_shape, variables

DEVICE = device_of(cpu())


def var(name: str) -> Entry:
    return Entry(Node(None, name), 0)


def run(entries: Sequence[Entry], arrays: dict[str, Any], training: bool = False) -> list[Any]:
    nodes = variables(entries)
    operator = CompiledGraph(entries, nodes, training).operator
    return list(call(operator, [arrays[node.name] for node in nodes], {}, DEVICE))


def random_arrays(entries: Sequence[Entry], shapes: dict[str, Any], seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    found = infer_shape(entries, shapes).variables
    return {name: rng.uniform(0.2, 1.5, size=shape) for name, shape in found.items()}


def check(output: Entry, shapes: dict[str, Any], wrt: Sequence[str], training: bool = False,
          tolerance: float = 1e-6) -> None:
    """<v, vjp(u)> equals the central difference of <u, f> along v."""
    arrays = random_arrays([output], shapes, seed=3)
    rng = np.random.default_rng(4)
    nodes = {node.name: node for node in variables([output])}
    [value] = run([output], {k: v.copy() for k, v in arrays.items()}, training)
    head, entries = var("head"), [Entry(nodes[name], 0) for name in wrt]
    grads = gradient([output], [head], entries, training)
    u = rng.normal(size=value.shape)
    directions = {name: rng.normal(size=arrays[name].shape) for name in wrt}
    results = run(grads, {**{k: v.copy() for k, v in arrays.items()}, "head": u}, training)
    inner = sum(float((g * directions[name]).sum())
                for name, g in zip(wrt, results, strict=True))
    step = 1e-5
    sides = []
    for sign in (1, -1):
        moved = {k: v.copy() for k, v in arrays.items()}
        for name in wrt:
            moved[name] += sign * step * directions[name]
        sides.append(float((run([output], moved, training)[0] * u).sum()))
    difference = (sides[0] - sides[1]) / (2 * step)
    assert inner == pytest.approx(difference, rel=tolerance, abs=tolerance)


def mlp() -> Entry:
    h = F.FullyConnected(var("x"), var("w1"), var("b1"), num_hidden=6)
    return F.FullyConnected(F.tanh(h), var("w2"), var("b2"), num_hidden=3)


def test_mlp():
    check(mlp(), {"x": (4, 5)}, ["x", "w1", "b1", "w2", "b2"])


def test_convolution_and_pooling():
    y = F.Convolution(var("x"), var("w"), var("b"), kernel=(3, 3), num_filter=4)
    y = F.Pooling(F.sigmoid(y), kernel=(2, 2), stride=(2, 2), pool_type="avg")
    check(y, {"x": (2, 3, 6, 6)}, ["x", "w", "b"])


@pytest.mark.parametrize("training", [False, True])
def test_batch_norm_in_both_modes(training):
    y = F.BatchNorm(var("x"), var("gamma"), var("beta"), var("mean"), var("var"),
                    fix_gamma=False)
    check(F.tanh(y), {"x": (6, 3)}, ["x", "gamma", "beta"], training, 1e-5)


def test_an_input_used_several_times_gets_the_sum():
    x = var("x")
    h = F.square(x)
    y = F.elemwise_add(F.elemwise_mul(h, x), F.elemwise_mul(h, F.exp(h)))
    check(y, {"x": (3, 2)}, ["x"])


def test_only_some_outputs_of_an_operator_are_used():
    pieces = F.SliceChannel(var("x"), num_outputs=3)
    check(F.elemwise_mul(pieces[0], F.square(pieces[2])), {"x": (2, 6)}, ["x"])


def test_gradient_of_the_gradient():
    x, head = var("x"), var("h1")
    y = F.elemwise_mul(F.tanh(x), F.square(x))
    [dx] = gradient([y], [head], [x])
    assert dx is not None
    check(F.square(dx), {"x": (3, 2), "h1": (3, 2)}, ["x", "h1"])


def test_no_dependence_is_none():
    x, other = var("x"), var("other")
    assert gradient([F.square(x)], [var("head")], [other]) == [None]


def test_what_needs_no_gradient_is_not_walked():
    """An operator without a gradient rule is fine where no variable lies behind it."""
    x, z = var("x"), var("z")
    whole = F.argmax(z, axis=1)
    [dx] = gradient([F.broadcast_mul(x, whole)], [var("head")], [x])
    assert dx is not None
    assert not any(node.op is not None and "grad" in node.op.name and z in node.inputs
                   for node in [dx.node])


def test_missing_heads_are_ones():
    x = var("x")
    [dx] = gradient([F.square(x)], [None], [x])
    assert dx is not None
    assert run([dx], {"x": np.array([1.0, 2.0])})[0].tolist() == [2.0, 4.0]


def test_without_a_rule_the_error_names_operator_and_node():
    from minigluon.ops import Operator

    record = Operator("_test_plain", lambda xp, x: x + 1, infer=None)
    y = F._invoke(record, F.square(var("x")))
    with pytest.raises(GradientError, match=r"_test_plain is not differentiable.*\[node "):
        gradient([y], [var("head")], variables_of(y))


def variables_of(entry: Entry) -> list[Entry]:
    return [Entry(node, 0) for node in variables([entry])]
