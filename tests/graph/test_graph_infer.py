"""Shapes and types: forwards, backwards, hints, contradictions."""
from __future__ import annotations

import pytest

from minigluon.base import DTypeError, ShapeError
from minigluon.graph import Entry, F, Node, infer_dtype, infer_shape


def var(name: str, **attrs: str) -> Entry:
    return Entry(Node(None, name, extra_attrs={f"__{k}__": v for k, v in attrs.items()}), 0)


def dense(data: Entry, name: str, units: int, **attrs: object) -> Entry:
    return F.FullyConnected(data, var(f"{name}_weight"), var(f"{name}_bias"), num_hidden=units,
                            **attrs)


def test_weights_follow_from_the_data():
    y = dense(F.relu(dense(var("x"), "a", 5)), "b", 2)
    found = infer_shape([y], {"x": (7, 3)})
    assert found.variables == {"x": (7, 3), "a_weight": (5, 3), "a_bias": (5,),
                               "b_weight": (2, 5), "b_bias": (2,)}
    assert found.entries[y] == (7, 2)
    assert found.incomplete() == []


def test_convolution_net_with_unknown_channels():
    data = var("x")
    y = F.Convolution(data, var("w"), var("b"), kernel=(3, 3), num_filter=8, pad=(1, 1))
    y = F.BatchNorm(y, var("gamma"), var("beta"), var("mean"), var("var"))
    y = dense(y, "fc", 10)
    found = infer_shape([y], {"x": (2, 3, 5, 7), "w": (8, 0, 3, 3), "fc_weight": (10, 0)})
    assert found.variables["w"] == (8, 3, 3, 3)
    assert found.variables["mean"] == (8,)
    assert found.variables["fc_weight"] == (10, 280)


def test_what_is_unknown_stays_unknown():
    y = dense(var("x"), "a", 5)
    found = infer_shape([y], {})
    assert found.variables["x"] is None
    assert set(found.incomplete()) >= {"x", "a_weight"}


def test_a_batch_size_comes_back_through_an_element_wise_operator():
    known, state = var("known"), var("state")
    found = infer_shape([F.elemwise_add(known, F.tanh(state))],
                        {"known": (4, 3), "state": (0, 3)})
    assert found.variables["state"] == (4, 3)


def test_a_batch_size_comes_back_through_a_dense_layer():
    state = var("state")
    y = F.elemwise_add(dense(state, "h2h", 6), var("i2h"))
    found = infer_shape([y], {"i2h": (4, 6), "state": (0, 3)})
    assert found.variables["state"] == (4, 3)


def test_hints_are_overridden():
    x = var("x", shape="(2, 3)")
    y = F.square(x)
    assert infer_shape([y], {}).entries[y] == (2, 3)
    assert infer_shape([y], {"x": (5, 5)}).entries[y] == (5, 5)


def test_variables_can_be_given_by_node():
    x = var("x")
    assert infer_shape([F.square(x)], {x.node: (3,)}).variables == {"x": (3,)}


def test_a_contradiction_names_operator_shapes_and_node():
    y = dense(var("x"), "a", 5)
    with pytest.raises(ShapeError, match=rf"FullyConnected.*\[node {y.node.name}\]"):
        infer_shape([y], {"x": (7, 3), "a_weight": (5, 4)})


def test_types_agree_unless_a_rule_says_otherwise():
    x = var("x")
    y = dense(F.Cast(x, dtype="float16"), "a", 5)
    found = infer_dtype([y], {"x": "int32"})
    assert found.variables == {"x": "int32", "a_weight": "float16", "a_bias": "float16"}
    assert found.entries[y] == "float16"


def test_types_flow_backwards():
    y = dense(F.relu(var("x")), "a", 5)
    assert infer_dtype([y], {"a_bias": "float64"}).variables["x"] == "float64"


def test_type_hints_are_names_or_numbers():
    assert infer_dtype([F.square(var("x", dtype="1"))], {}).variables == {"x": "float64"}
    assert infer_dtype([F.square(var("x", dtype="int8"))], {}).variables == {"x": "int8"}
    assert infer_dtype([F.square(var("x"))], {}).variables == {"x": None}


def test_types_that_contradict_name_the_node():
    y = F.elemwise_add(var("x"), var("z"))
    with pytest.raises(DTypeError, match=rf"elemwise_add.*float32.*\[node {y.node.name}\]"):
        infer_dtype([y], {"x": "float32", "z": "float64"})
