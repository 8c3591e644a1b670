"""print_summary counts as MXNet does; plot_network draws with graphviz, or says what is missing."""
from __future__ import annotations

import sys
import types

import pytest

import minigluon as mx
from minigluon import sym


def network():
    net = sym.Convolution(sym.var("data"), kernel=(3, 3), stride=(1, 1), pad=(1, 1), num_filter=8,
                          name="conv1")
    net = sym.Activation(sym.BatchNorm(net, name="bn1"), act_type="relu", name="relu1")
    net = sym.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max", name="pool1")
    net = net + sym.Convolution(net, kernel=(1, 1), num_filter=8, no_bias=True, name="conv2")
    net = sym.FullyConnected(sym.Flatten(net, name="fl"), num_hidden=10, name="fc")
    return sym.SoftmaxOutput(net, name="softmax")


def test_summary(capsys):
    mx.viz.print_summary(network(), shape={"data": (2, 3, 8, 8)})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "_" * 120 and lines[2] == "=" * 120
    table = [line.split() for line in lines[3:-2] if set(line) - set("_=")]
    assert [row for row in table if len(row) > 1] == [  # figures of MXNet 1.9.1
        ["data(null)", "3x8x8", "0"],
        ["conv1(Convolution)", "8x8x8", "224", "data"],
        ["bn1(BatchNorm)", "8x8x8", "16", "conv1"],
        ["relu1(Activation)", "8x8x8", "0", "bn1"],
        ["pool1(Pooling)", "8x4x4", "0", "relu1"],
        ["conv2(Convolution)", "8x4x4", "64", "pool1"],
        [table[6][0], "8x4x4", "0", "pool1"],
        ["fl(Flatten)", "128", "0", table[6][0].split("(")[0]],
        ["fc(FullyConnected)", "10", "1290", "fl"],
        ["softmax(SoftmaxOutput)", "10", "0", "fc"],
    ]
    assert table[7] == ["conv2"]
    assert lines[-2] == "Total params: 1594"
    mx.viz.print_summary(network())
    assert "fc(FullyConnected)" in capsys.readouterr().out


def test_what_cannot_be_drawn():
    with pytest.raises(TypeError, match="must be a Symbol"):
        mx.viz.print_summary("net")
    with pytest.raises(ValueError, match=r"input shape is incomplete.*data"):
        mx.viz.print_summary(network(), shape={"softmax_label": (2,)})


def test_without_graphviz(monkeypatch):
    monkeypatch.setitem(sys.modules, "graphviz", None)
    with pytest.raises(ImportError, match="pip install graphviz"):
        mx.viz.plot_network(network())


def test_drawing(monkeypatch):
    class Digraph:
        def __init__(self, name, format):
            self.name, self.format, self.nodes, self.edges = name, format, {}, {}

        def node(self, name, label, **look):
            self.nodes[name] = (label, look)

        def edge(self, tail_name, head_name, label, **look):
            self.edges[tail_name, head_name] = label

    monkeypatch.setitem(sys.modules, "graphviz", types.SimpleNamespace(Digraph=Digraph))
    drawn = mx.viz.plot_network(network(), title="net", save_format="png",
                                shape={"data": (2, 3, 8, 8)}, node_attrs={"fontsize": "8"})
    assert (drawn.name, drawn.format) == ("net", "png")
    assert drawn.nodes["conv1"][0] == "Convolution\n3x3/1x1, 8"
    assert drawn.nodes["pool1"][0] == "Pooling\nmax, 2x2/2x2"
    assert drawn.nodes["fc"][1]["fontsize"] == "8"
    assert drawn.nodes["data"][1]["shape"] == "oval"
    assert drawn.edges["fc", "fl"] == "128" and drawn.edges["conv1", "data"] == "3x8x8"
    assert "conv1_weight" not in drawn.nodes
    whole = mx.viz.plot_network(network(), hide_weights=False)
    assert "conv1_weight" in whole.nodes and ("conv1", "conv1_weight") in whole.edges
