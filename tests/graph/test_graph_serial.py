"""Symbol JSON: our own round trip, and a file written by MXNet 1.9.1 (tests/oracle)."""
from __future__ import annotations

import json
from pathlib import Path

import pytest

from minigluon import sym
from minigluon.base import ArgumentError, ArgumentValueError, NotForThisError
from minigluon.graph import (
    Entry,
    F,
    Node,
    auxiliary,
    from_json,
    infer_shape,
    to_json,
    topological,
    variables,
)

WRITTEN_BY_MXNET = Path(__file__).parent.parent / "oracle" / "lenet-symbol.json"


def var(name: str, **attrs: str) -> Entry:
    return Entry(Node(None, name, extra_attrs=attrs), 0)


def example() -> list[Entry]:
    h = F.FullyConnected(var("x", __shape__="(2, 3)"), var("w"), num_hidden=4, no_bias=True)
    pieces = F.SliceChannel(F.clip(h, -1.5, 2), num_outputs=2)
    return [F.Concat(pieces[1], pieces[0], dim=1), pieces[0]]


def test_the_format():
    graph = json.loads(to_json(example()))
    assert set(graph) == {"nodes", "arg_nodes", "node_row_ptr", "heads", "attrs"}
    assert graph["attrs"] == {"mxnet_version": ["int", 10901]}
    by_op = {node["op"]: node for node in graph["nodes"] if node["op"] != "null"}
    assert by_op["FullyConnected"]["attrs"] == {"num_hidden": "4", "no_bias": "True"}
    assert by_op["Concat"]["attrs"]["num_args"] == "2"
    assert by_op["SliceChannel"]["attrs"] == {"num_outputs": "2"}
    assert graph["nodes"][0] == {"op": "null", "name": "x", "attrs": {"__shape__": "(2, 3)"},
                                 "inputs": []}
    assert graph["arg_nodes"] == [0, 1]
    assert graph["node_row_ptr"] == [0, 1, 2, 3, 4, 6, 7]
    assert graph["heads"] == [[5, 0, 0], [4, 0, 0]]


def test_round_trip_is_exact():
    text = to_json(example())
    again = from_json(text)
    assert to_json(again) == text
    assert again[0].node.attrs["dim"] == 1
    assert infer_shape(again, {}).of(again) == [(2, 4), (2, 2)]


def test_a_gradient_graph_keeps_its_mode():
    y = F.Dropout(var("x"), p=0.5, training=True)
    text = to_json([y])
    assert from_json(text)[0].node.attrs["training"] is True
    assert to_json(from_json(text)) == text


def test_mxnet_file():
    entries = from_json(WRITTEN_BY_MXNET.read_text())
    states = [node.name for node in auxiliary(entries)]
    assert states == ["bn2_moving_mean", "bn2_moving_var"]
    assert [node.name for node in variables(entries) if node.name not in states] == [
        "data", "conv1_weight", "conv1_bias", "conv2_weight", "bn2_gamma", "bn2_beta",
        "fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias", "softmax_label"]
    found = infer_shape(entries, {"data": (2, 1, 28, 28)})
    assert found.incomplete() == []
    assert found.of(entries) == [(2, 10)]
    assert found.variables["fc1_weight"] == (500, 800)
    assert found.variables["fc2_weight"] == (10, 1000)
    assert found.variables["softmax_label"] == (2,)
    fc1 = next(node for node in topological(entries) if node.name == "fc1")
    assert fc1.extra_attrs == {"__lr_mult__": "2"}
    assert fc1.attrs["num_hidden"] == 500


def test_mxnet_file_in_our_words_keeps_operators_inputs_and_heads():
    theirs = json.loads(WRITTEN_BY_MXNET.read_text())
    ours = json.loads(to_json(from_json(WRITTEN_BY_MXNET.read_text())))
    for key in ("arg_nodes", "heads", "attrs"):
        assert ours[key] == theirs[key]
    for got, want in zip(ours["nodes"], theirs["nodes"], strict=True):
        assert (got["name"], got["inputs"]) == (want["name"], want["inputs"])
        assert got["op"] == want["op"]


def test_names_of_tuning_attributes_are_passed_over():
    text = to_json([F.Convolution(var("x"), var("w"), var("b"), kernel=(3, 3), num_filter=2)])
    graph = json.loads(text)
    graph["nodes"][-1]["attrs"].update(workspace="1024", cudnn_tune="off")
    [entry] = from_json(json.dumps(graph))
    assert entry.node.attrs["kernel"] == (3, 3)


@pytest.mark.parametrize("key", ["attr", "param"])
def test_older_words_for_attributes(key):
    graph = json.loads(to_json([F.clip(var("x"), 0, 1)]))
    graph["nodes"][-1][key] = graph["nodes"][-1].pop("attrs")
    assert from_json(json.dumps(graph))[0].node.attrs["a_max"] == 1


def test_errors_name_the_node():
    graph = json.loads(to_json([F.clip(var("x"), 0, 1)]))
    graph["nodes"][-1].update(op="clap", name="mine")
    with pytest.raises(NotForThisError, match=r"no operator 'clap'; did you mean.*\[node mine\]"):
        from_json(json.dumps(graph))
    graph["nodes"][-1].update(op="clip", attrs={"a_min": "0", "a_maximum": "1"})
    with pytest.raises(ArgumentError, match=r"unknown argument 'a_maximum'.*\[node mine\]"):
        from_json(json.dumps(graph))
    no_version = '{"nodes": [], "heads": [], "attrs": {"mxnet_version": "x"}}'
    for text in ("no json", "[]", "{}", no_version):
        with pytest.raises(ArgumentValueError, match="symbol JSON: expected an object"):
            from_json(text)


# A file as MXNet wrote it before 0.9: "param" and "attr", auxiliary states left out.
OLD = """{"nodes": [
  {"op": "null", "param": {}, "name": "data", "inputs": [], "attr": {"ctx_group": "s"}},
  {"op": "null", "param": {}, "name": "fc_weight", "inputs": []},
  {"op": "FullyConnected", "param": {"no_bias": "True", "num_hidden": "4"}, "name": "fc",
   "inputs": [[0, 0], [1, 0]], "backward_source_id": -1,
   "attr": {"weight_lr_mult": "1.2", "lr_mult": "3"}},
  {"op": "null", "param": {}, "name": "g", "inputs": []},
  {"op": "null", "param": {}, "name": "b", "inputs": []},
  {"op": "BatchNorm", "param": {"eps": "0.002"}, "name": "bn",
   "inputs": [[2, 0], [3, 0], [4, 0]], "backward_source_id": -1}],
 "arg_nodes": [0, 1, 3, 4], "heads": [[5, 0]]}"""


def test_old_file():
    net = sym.load_json(OLD)
    assert net.list_arguments() == ["data", "fc_weight", "g", "b"]
    assert net.list_auxiliary_states() == ["bn_moving_mean", "bn_moving_var"]
    attrs = net.attr_dict()
    assert attrs["fc_weight"] == {"__lr_mult__": "1.2", "lr_mult": "1.2"}
    assert attrs["fc"] == {"__lr_mult__": "3", "lr_mult": "3", "no_bias": "True",
                           "num_hidden": "4"}
    assert attrs["data"] == {"__ctx_group__": "s", "ctx_group": "s"}
    assert attrs["bn"] == {"eps": "0.002"}
    shapes, outs, states = net.infer_shape(data=(2, 3))
    assert (shapes[1], outs, states) == ((4, 3), [(2, 4)], [(4,), (4,)])
    assert sym.load_json(net.tojson()).tojson() == net.tojson()


def test_attributes_may_be_null():
    graph = json.loads(to_json([F.relu(var("x"))]))
    graph["attrs"] = None
    for row in graph["nodes"]:
        row["attrs"] = None
    [entry] = from_json(json.dumps(graph))
    assert entry.node.name == graph["nodes"][-1]["name"]


def test_a_node_that_is_not_there():
    with pytest.raises(ArgumentValueError, match="a node that is not among the 6 nodes"):
        sym.load_json(OLD.replace('"heads": [[5, 0]]', '"heads": [[9, 0]]'))
    with pytest.raises(ArgumentValueError, match="a node that is not among the 2 nodes"):
        sym.load_json(OLD.replace("[[0, 0], [1, 0]]", "[[0, 0], [2, 0]]"))
