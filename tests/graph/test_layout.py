"""Graphs whose images are laid out anew: the same results and gradients, as few turns as can be."""
from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import minigluon as mx
from minigluon import autograd, nd
from minigluon.device.cpu import native
from minigluon.graph import CompiledGraph, Entry, F, Node, assign_layout, layout, topological
from minigluon.nn import (
    Activation,
    AvgPool2D,
    BatchNorm,
    Conv2D,
    Dense,
    Flatten,
    GlobalAvgPool2D,
    HybridBlock,
    HybridSequential,
    MaxPool2D,
)

needs_onednn = pytest.mark.skipif(not native.onednn, reason="oneDNN's kernels are not built")
SMALL, NHWC, BLOCKED = (3, 2, 8, 8), layout._NHWC, layout._BLOCKED


def lenet() -> HybridBlock:
    net = HybridSequential()
    net.add(Conv2D(6, 3, activation="tanh"), MaxPool2D(2, 2), Conv2D(7, 3, padding=1),
            Activation("relu"), MaxPool2D(2, 2), Flatten(), Dense(5))
    return net


def plain() -> HybridBlock:
    net = HybridSequential()
    net.add(Conv2D(8, 3, padding=1, use_bias=False), BatchNorm(), Activation("relu"),
            AvgPool2D(2, 2), Conv2D(4, 1), GlobalAvgPool2D())
    return net


class Residual(HybridBlock):
    """Two branches that meet by addition, two by Concat, and one that leaves as it is."""

    def __init__(self, normal: bool = True) -> None:
        super().__init__()
        with self.name_scope():
            self.one = Conv2D(4, 3, padding=1)
            self.two = Conv2D(4, 3, padding=1, use_bias=False)
            self.norm = BatchNorm() if normal else Activation("sigmoid")

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        a, b = self.one(x), self.norm(self.two(x))
        both = F.Concat(F.relu(a + b), a * 2, dim=1)
        return F.mean(both, axis=1), F.flatten(b), F.Pooling(both, kernel=(2, 2), stride=(2, 2))


Array = np.ndarray[Any, Any]


def run(net: HybridBlock, x: Array, train: bool = True) -> list[Array]:
    """Outputs, the data's gradient, the parameters' gradients and running statistics."""
    data = nd.array(x)
    data.attach_grad()
    with autograd.record(train_mode=train):
        found = net(data)
        outs = found if isinstance(found, (list, tuple)) else [found]
        heads = [nd.array(np.cos(np.arange(out.size)).reshape(out.shape)) for out in outs]
        autograd.backward(list(outs), heads)
    params = net.collect_params().values()
    rest = [p.grad() if p.grad_req != "null" else p.data() for p in params]
    return [array.asnumpy().copy() for array in (*outs, data.grad, *rest)]


@needs_onednn
@pytest.mark.parametrize("kind", [NHWC, BLOCKED], ids=lambda kind: kind.name)
@pytest.mark.parametrize("make", [lenet, plain, Residual])
@pytest.mark.parametrize("train", [True, False])
def test_results_stay(make: Any, kind: Any, train: bool, monkeypatch: Any) -> None:
    monkeypatch.setattr(layout, "_choose", lambda *_: kind)
    stay(make, 16, train)


@needs_onednn
@pytest.mark.parametrize("make", [lenet, lambda: Residual(normal=False)])
@pytest.mark.parametrize("batch", [4, 11, 20])
@pytest.mark.parametrize("train", [True, False])
def test_results_stay_where_blocks_are_filled_up(make: Any, batch: int, train: bool,
                                                 monkeypatch: Any) -> None:
    monkeypatch.setattr(layout, "_choose", lambda *_: BLOCKED)
    stay(make, batch, train)


def stay(make: Any, batch: int, train: bool) -> None:
    """Hybridized, a net of `make` gives what it gave before."""
    x = np.random.default_rng(3).standard_normal((batch, 2, 8, 8)).astype("float32")
    mx.random.seed(7)
    net = make()
    net.initialize(mx.init.Xavier())
    net(nd.array(x))
    states = {name: p.data().asnumpy().copy() for name, p in net.collect_params().items()}
    wanted = run(net, x, train)
    for name, p in net.collect_params().items():
        p.set_data(nd.array(states[name]))
    net.hybridize()
    for got, want in zip(run(net, x, train), wanted, strict=True):
        scale = max(1.0, float(np.abs(want).max()))  # sums of large terms may be near 0
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-5 * scale)


def image_chain() -> tuple[Entry, dict[Node, Any]]:
    x, w, b = (Node(None, name) for name in ("x", "w", "b"))
    y = F.Convolution(*(Entry(node, 0) for node in (x, w, b)), kernel=(3, 3), num_filter=4)
    y = F.Pooling(F.relu(F.relu(y)), kernel=(2, 2), stride=(2, 2))
    known = {x: ("float32", SMALL), w: ("float32", (4, 2, 3, 3)), b: ("float32", (4,))}
    return F.Flatten(F.tanh(y)), known


@needs_onednn
def test_turned_once_at_each_rim() -> None:
    entry, known = image_chain()
    found = assign_layout([entry], known)
    nodes = [node for node in topological(found) if node.op is not None]
    count = Counter(node.op.name for node in nodes if node.op)
    assert count["transpose"] == 2
    [conv] = [node for node in nodes if node.op and node.op.name == "Convolution"]
    assert conv.attrs["layout"] == "NHWC/OIHW"


@needs_onednn
def test_one_image_is_turned_for_training_only() -> None:
    entry, known = image_chain()
    known = {node: ("float32", (1, *SMALL[1:])) if node.name == "x" else desc
             for node, desc in known.items()}
    for training in (False, True):
        names = [node.op.name for node in topological(assign_layout([entry], known, training))
                 if node.op]
        assert ("transpose" in names) == training


@needs_onednn
def test_pooling_goes_before_an_activation_only_pooling_reads() -> None:
    entry, known = image_chain()
    names = [node.op.name for node in topological(assign_layout([entry], known)) if node.op]
    assert names.index("Pooling") < names.index("tanh")
    assert names.index("Pooling") == names.index("relu") + 1 == len(names) - 5
    pooled = entry.node.inputs[0].node.inputs[0]
    shared = assign_layout([entry, pooled.node.inputs[0]], known)
    names = [node.op.name for node in topological(shared) if node.op]
    assert names.index("Pooling") == 4  # the second relu is also an output


@needs_onednn
@pytest.mark.parametrize("change", ["float64", "unknown", "no convolution"])
def test_left_alone(change: str) -> None:
    entry, known = image_chain()
    if change == "float64":
        known = {node: ("float64", shape) for node, (_, shape) in known.items()}
    elif change == "unknown":
        known = {}
    else:
        entry = entry.node.inputs[0].node.inputs[0]
        entry = F.relu(Entry(Node(None, "y"), 0))
    [found] = assign_layout([entry], known)
    assert not any(node.op.name == "transpose" for node in topological([found]) if node.op)


@needs_onednn
def test_blocks_are_for_few_channels_and_batches_worth_filling_up() -> None:
    def node(batch: int, channels: int, **attrs: Any) -> tuple[Node, dict[Entry, Any]]:
        x, w = Entry(Node(None, "x"), 0), Entry(Node(None, "w"), 0)
        y = F.Convolution(x, w, kernel=(3, 3), num_filter=8, no_bias=True, **attrs)
        return y.node, {x: (batch, channels, 8, 8)}

    assert layout._may_block(*node(32, 3))
    assert layout._may_block(*node(30, 3))
    assert layout._may_block(*node(11, 3))
    assert not layout._may_block(*node(8, 3))
    assert not layout._may_block(*node(20, 3))
    assert not layout._may_block(*node(32, 1024))
    assert not layout._may_block(*node(32, 4, num_group=2))
    assert not layout._may_block(*node(32, 3, stride=(2, 2)))


@needs_onednn
@pytest.mark.parametrize("batch", [12, 16])
def test_a_normalised_batch_is_not_filled_up(batch: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(layout, "_seconds", lambda node, shapes, kind, training: kind is NHWC)
    x, w, *rest = (Node(None, name) for name in ("x", "w", "gamma", "beta", "mean", "var"))
    y = F.Convolution(Entry(x, 0), Entry(w, 0), kernel=(3, 3), num_filter=4, no_bias=True)
    y = F.BatchNorm(y, *(Entry(node, 0) for node in rest))
    known = {x: ("float32", (batch, 2, 8, 8)), w: ("float32", (4, 2, 3, 3)),
             **{node: ("float32", (4,)) for node in rest}}
    nodes = topological(assign_layout([y], known))
    [conv] = [node for node in nodes if node.op and node.op.name == "Convolution"]
    assert len(conv.attrs["kernel"]) == (3 if batch == 16 else 2)


@needs_onednn
def test_a_graph_with_images_is_made_for_each_shape() -> None:
    net = lenet()
    net.initialize()
    net.hybridize()
    for batch in (16, 3, 16):
        x = nd.array(np.random.default_rng(batch).standard_normal((batch, 2, 8, 8)))
        assert net(x).shape == (batch, 5)
    assert net._trace is not None
    assert len(net._trace._operators) == 2


def test_weight_layout_of_its_own_is_the_same_convolution() -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype("float32") for shape in ((2, 6, 5, 3), (4, 3, 3, 2)))
    a, b = (Entry(Node(None, name), 0) for name in "xw")
    one = F.Convolution(a, b, kernel=(3, 2), num_filter=4, no_bias=True, layout="NHWC/OIHW")
    two = F.Convolution(a, F.transpose(b, axes=(0, 2, 3, 1)), kernel=(3, 2), num_filter=4,
                        no_bias=True, layout="NHWC")
    results = []
    for entry in (one, two):
        inputs = [nd.array(x), nd.array(w)]
        for array in inputs:
            array.attach_grad()
        with autograd.record():
            y = nd.invoke(CompiledGraph([entry], [a.node, b.node]).operator, inputs, {})
        y.backward(nd.cos(y))
        results.append([array.asnumpy() for array in (y, inputs[0].grad, inputs[1].grad)])
    for got, want in zip(*results, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
