"""Block.save and load, and what export keeps: structure, nests, shared names."""
import importlib.util
import json
import os

import numpy as np
import pytest

import minigluon as mx
from minigluon import autograd, nd, nn
from minigluon.gluon import SymbolBlock, Trainer
from minigluon.gluon.model_zoo import vision

ORACLE = os.path.join(os.path.dirname(__file__), "..", "oracle")
_spec = importlib.util.spec_from_file_location("saved_block",
                                               os.path.join(ORACLE, "saved_block.py"))
saved_block = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(saved_block)
# what MXNet 1.9.1 computed with the net that it saved in tests/oracle/saved-model.*
OUTPUT = [[76.5474853515625, 77.50836944580078], [75.80876159667969, 76.050048828125]]


def equal(ours, theirs):
    np.testing.assert_allclose(ours.asnumpy(), theirs.asnumpy(), rtol=1e-6)


# -- save and load ---------------------------------------------------------------------------------


def test_load_what_mxnet_saved():
    net = saved_block.read(mx, os.path.join(ORACLE, "saved"))
    assert net.first._active and not net.first.conv._active
    graph = net.first._trace
    np.testing.assert_allclose(net(*saved_block.inputs(mx)).asnumpy(), OUTPUT, rtol=1e-6)
    assert net.first._trace is graph, "the graph of the file is the one that ran"


def test_what_we_save_is_mxnets(tmp_path):
    """The same description, down to the graphs' nodes."""
    saved_block.write(mx, str(tmp_path / "ours"))

    def described(path):
        with open(f"{path}-model.json") as file:
            return walk(json.load(file))

    def walk(found):
        if isinstance(found, dict):
            return {key: walk(value) for key, value in found.items()}
        if isinstance(found, str) and "nodes" in found:
            return mx.sym.load_json(found).get_internals().list_outputs()
        return [walk(value) for value in found] if isinstance(found, list) else found

    with mx.name.NameManager():
        ours = described(tmp_path / "ours")["whole0"]
    theirs = described(os.path.join(ORACLE, "saved"))["whole0"]
    # there, inferring the Dense's shape left a graph of it
    for key in ("in_format", "out_format", "inputs", "symbol"):
        del theirs["dense7"][key]
    theirs["dense7"]["hybridized"] = False
    assert _renamed(ours) == _renamed(theirs)


def _renamed(found):
    """Without the number of the whole net, which depends on what was made before."""
    return json.dumps(found).replace(found["orig_name"], "whole")


def test_save_and_load(tmp_path):
    path = str(tmp_path / "net")
    expected = saved_block.write(mx, path)
    net = saved_block.read(mx, path)
    x, pair = saved_block.inputs(mx)
    np.testing.assert_allclose(net(x, pair).asnumpy(), expected, rtol=1e-6)
    grads = []
    for each in (net, saved_block.read(mx, path)):
        each.hybridize(each is net)
        with autograd.record():
            loss = each(x, pair).sum()
        loss.backward()
        grads.append({k: p.grad().asnumpy()
                      for k, p in each._collect_params_with_prefix().items()
                      if p.grad_req != "null"})
    for name, grad in grads[0].items():
        np.testing.assert_allclose(grad, grads[1][name], rtol=1e-4, atol=1e-5, err_msg=name)


def test_a_net_of_another_structure_is_refused(tmp_path):
    path = str(tmp_path / "net")
    saved_block.write(mx, path)
    net = nn.Dense(3)
    with pytest.raises(AssertionError, match=r"expected 'dense0' for block .* has whole0 there"):
        net.load(path)


def test_a_graph_with_anothers_parameter_is_learned_anew(tmp_path):
    def make():
        first = nn.Dense(2, in_units=2)
        second = nn.Dense(2, in_units=2, params=first.params)
        net = nn.Sequential()
        net.add(first, second)
        return net

    net = make()
    net.initialize()
    net[1].hybridize()
    x = nd.ones((1, 2))
    expected = net(x)
    net.save(str(tmp_path / "net"))
    other = make()
    other.load(str(tmp_path / "net"))
    equal(other(x), expected)
    assert other[1]._active


# -- export ----------------------------------------------------------------------------------------


class Nested(nn.HybridBlock):
    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.layer = nn.Dense(units) if units else None

    def hybrid_forward(self, F, a, pair):
        b, c = pair
        return (self.layer(a) if self.layer else a), [b * c]


@pytest.mark.parametrize("units", [3, 0])
def test_nests_and_parameterless_nets_come_back(units, tmp_path):
    net, path = Nested(units), str(tmp_path / "net")
    net.initialize()
    net.hybridize()
    a, b, c = (nd.random.normal(shape=(2, 3)) for _ in range(3))
    d, [e] = net(a, [b, c])
    net.export(path)
    block = SymbolBlock.imports(f"{path}-symbol.json", ["data0", "data1", "data2"],
                                f"{path}-0000.params")
    again, [also] = block(a, [b, c])
    equal(again, d)
    equal(also, e)


def test_one_block_used_three_times(tmp_path):
    class Thrice(nn.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.act, self.layer = nn.Activation("relu"), nn.Dense(3)

        def hybrid_forward(self, F, x):
            return self.act(x), self.act(self.layer(x)), self.act(self.act(x) - 1)

    net, path = Thrice(), str(tmp_path / "net")
    net.initialize()
    net.hybridize()
    x = nd.random.normal(shape=(2, 3))
    outputs = net(x)
    net.export(path)
    block = SymbolBlock.imports(f"{path}-symbol.json", "data", f"{path}-0000.params")
    for ours, theirs in zip(block(x), outputs, strict=True):
        equal(ours, theirs)


def test_internals_of_a_zoo_net_inside_another(tmp_path):
    features = vision.get_model("squeezenet1.1", classes=4)
    data = mx.sym.var("data")
    internals = features(data).get_internals()
    names = [name for name in internals.list_outputs() if name.endswith(("concat0_output",
                                                                         "concat2_output"))]

    class Head(nn.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.base = SymbolBlock([internals[name] for name in names], [data])
                self.near, self.far = nn.Conv2D(2, 1), nn.Conv2D(2, 1)

        def hybrid_forward(self, F, x):
            near, far = self.base(x)
            return self.near(near), self.far(far)

    net, path = Head(), str(tmp_path / "net.params")
    net.initialize()
    x = nd.random.normal(shape=(1, 3, 64, 64))
    eager = net(x)
    net.hybridize()
    net.save_parameters(path)
    fresh = Head()
    fresh.load_parameters(path)
    for hybrid, ours, plain in zip(net(x), fresh(x), eager, strict=True):
        np.testing.assert_allclose(hybrid.asnumpy(), plain.asnumpy(), rtol=1e-5, atol=1e-6)
        equal(ours, plain)


def test_arguments_and_internals_of_five_layers():
    net = nn.HybridSequential()
    net.add(nn.Dense(128, activation="tanh"), nn.Dropout(0.5), nn.Dense(64, activation="tanh"),
            nn.Dense(32, in_units=64), nn.Activation("relu"))
    graph = net(mx.sym.var("data"))
    assert len(graph.list_arguments()) == 7
    inputs = mx.sym.var("data")
    block = SymbolBlock(graph.get_internals(), [inputs], params=net.collect_params())
    net.initialize()
    outputs = block(nd.zeros((16, 10)))
    assert len(outputs) == len(graph.get_internals()) == 14
    equal(outputs[-1], net(nd.zeros((16, 10))))


# -- graphs and parameters -------------------------------------------------------------------------


def test_small_graphs_are_recorded_operator_by_operator():
    def nodes(limit):
        net = nn.HybridSequential()
        net.add(nn.Dense(10, activation="relu"), nn.Dense(3))
        net.initialize()
        net.hybridize(inline_limit=limit)
        with autograd.record():
            y = net(nd.ones((2, 3)))
        return len(json.loads(autograd.get_symbol(y).tojson())["nodes"])

    assert nodes(3) == nodes(0) + 2


def test_a_constant_in_a_block_that_is_trained():
    class Net(nn.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.fixed = self.params.get_constant("fixed", np.array([[1.0, 2.0]]))
            self.free = self.params.get("free", shape=(1, 2), init="ones")

        def hybrid_forward(self, F, x, fixed, free):
            return x * fixed * free

    net = Net()
    net.initialize()
    trainer = Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.5})
    for _ in range(2):
        with autograd.record():
            loss = net(nd.ones((1, 2))).sum()
        loss.backward()
        trainer.step(1)
    assert net.fixed.data().asnumpy().tolist() == [[1.0, 2.0]]
    np.testing.assert_allclose(net.free.data().asnumpy(), [[0.75, 0.5]])


def test_nets_that_share_can_be_loaded_into_fresh_ones(tmp_path):
    def make(**kwargs):
        net = nn.HybridSequential(**kwargs)
        with net.name_scope():
            net.add(nn.Dense(5, activation="relu"), nn.Dense(5))
        return net

    first = make(prefix="net1_")
    second = make(prefix="net2_", params=first.collect_params())
    first.initialize()
    x = nd.random.normal(shape=(2, 4))
    equal(first(x), second(x))
    for net in (first, second):
        path = str(tmp_path / f"{net.prefix}.params")
        net.save_parameters(path)
        fresh = make()
        fresh.load_parameters(path, ctx=mx.cpu(1))
        equal(fresh(x.as_in_context(mx.cpu(1))), first(x))


def test_a_parameter_with_an_initializer_when_shared_and_when_not():
    class Net(nn.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.weight = self.params.get("weight", shape=(2,), init=mx.init.Constant(4))

    first = Net(prefix="a_")
    shared = Net(prefix="b_", params=first.collect_params())
    apart = Net(prefix="c_")
    assert shared.weight is first.weight and apart.weight is not first.weight
    assert apart.weight.init == first.weight.init
