"""Nodes: order, variables, auxiliary states, substitution, the face that makes them."""
from __future__ import annotations

import pytest

from minigluon.base import ArgumentError
from minigluon.graph import Entry, F, Node, auxiliary, topological, variables
from minigluon.graph.ir import impure, mutated, substitute


def var(name: str) -> Entry:
    return Entry(Node(None, name), 0)


def names(nodes: list[Node]) -> list[str]:
    return [node.name for node in nodes]


def test_order_is_depth_first_with_inputs_left_to_right():
    a, b, c = var("a"), var("b"), var("c")
    y = F.elemwise_add(F.elemwise_mul(c, a), F.elemwise_sub(a, b))
    assert names(variables([y])) == ["c", "a", "b"]
    order = topological([y])
    assert all(order.index(entry.node) < order.index(node)
               for node in order for entry in node.inputs)


def test_a_shared_node_comes_once():
    x = var("x")
    h = F.square(x)
    assert len(topological([F.elemwise_add(h, h), h])) == 3


def test_a_very_deep_graph_needs_no_recursion():
    x = var("x")
    h = x
    for _ in range(20000):
        h = F.negative(h)
    assert len(topological([h])) == 20001


def test_running_statistics_are_auxiliary():
    inputs = [var(name) for name in ("x", "gamma", "beta", "mean", "var")]
    y = F.BatchNorm(*inputs)
    assert names(auxiliary([y])) == ["mean", "var"]
    assert len(y.node.outputs()) == 1
    assert len(y.node.outputs(hidden=True)) == 3


def test_a_node_that_draws_or_writes_is_impure_only_when_it_does():
    x = var("x")
    dropout = F.Dropout(x, p=0.5).node
    assert impure(dropout, training=True)
    assert not impure(dropout, training=False)
    assert impure(F.Dropout(x, p=0.5, mode="always").node, training=False)
    batch = F.BatchNorm(x, var("g"), var("b"), var("m"), var("v")).node
    assert names([entry.node for entry in mutated(batch, training=True)]) == ["m", "v"]
    assert mutated(batch, training=False) == []
    assert not impure(F.square(x).node, training=True)


def test_substitute_copies_only_what_changes():
    a, b, c = var("a"), var("b"), var("c")
    kept, changed = F.square(a), F.square(b)
    y = F.elemwise_add(kept, changed)
    [new] = substitute([y], {b: c})
    assert new.node is not y.node
    assert new.node.inputs[0] is kept
    assert names(variables([new])) == ["a", "c"]
    assert names(variables([y])) == ["a", "b"]
    assert substitute([y], {}) == [y]


def test_substitute_stops_at_what_is_given():
    a, b = var("a"), var("b")
    h = F.square(a)
    [new] = substitute([F.negative(h)], {h: b})
    assert names(variables([new])) == ["b"]


def test_the_face_takes_one_entry_for_a_variadic_operator():
    x = var("x")
    assert F.add_n(x).node.inputs == [x]
    assert F.add_n(x, x).node.inputs == [x, x]
    assert F.add_n([x, x, x]).node.inputs == [x, x, x]


def test_the_face_returns_visible_outputs():
    pieces = F.SliceChannel(var("x"), num_outputs=3)
    assert [piece.index for piece in pieces] == [0, 1, 2]


def test_the_face_complains_like_the_operator():
    with pytest.raises(ArgumentError, match="elemwise_add: missing input 'rhs'"):
        F.elemwise_add(var("x"))
    with pytest.raises(ArgumentError, match=r"no operator .elemwise_ad.; did you mean"):
        F.elemwise_ad(var("x"))
