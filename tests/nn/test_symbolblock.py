"""SymbolBlock, and export: files that MXNet 1.9.1 wrote, and round trips."""
import base64
import copy
import json
import pickle

import numpy as np
import pytest

import minigluon as mx
from minigluon import autograd, nd, nn, symbol

# written by MXNet 1.9.1: HybridSequential(Dense(3, tanh), BatchNorm, Dense(2)), weights one, after
# one training forward of DATA; OUTPUT is what it then computes
DATA = [[0.1, 0.2], [0.3, -0.4]]
OUTPUT = [[0.8739335536956787] * 2, [-0.299002468585968] * 2]
ARGUMENT = {"__dtype__": "0", "__lr_mult__": "1.0", "__storage_type__": "0", "__wd_mult__": "1.0"}
NODES = [
    ("null", "data", None, []),
    ("null", "net_dense0_weight", {**ARGUMENT, "__shape__": "(3, 0)"}, []),
    ("null", "net_dense0_bias", {**ARGUMENT, "__init__": "zeros", "__shape__": "(3,)"}, []),
    ("FullyConnected", "net_dense0_fwd",
     {"flatten": "True", "no_bias": "False", "num_hidden": "3"}, [[0, 0, 0], [1, 0, 0], [2, 0, 0]]),
    ("Activation", "net_dense0_tanh_fwd", {"act_type": "tanh"}, [[3, 0, 0]]),
    ("null", "net_batchnorm0_gamma", {**ARGUMENT, "__init__": "ones", "__shape__": "(0,)"}, []),
    ("null", "net_batchnorm0_beta", {**ARGUMENT, "__init__": "zeros", "__shape__": "(0,)"}, []),
    ("null", "net_batchnorm0_running_mean",
     {**ARGUMENT, "__init__": "zeros", "__shape__": "(0,)"}, []),
    ("null", "net_batchnorm0_running_var",
     {**ARGUMENT, "__init__": "ones", "__shape__": "(0,)"}, []),
    ("BatchNorm", "net_batchnorm0_fwd",
     {"axis": "1", "eps": "1e-05", "fix_gamma": "False", "momentum": "0.9",
      "use_global_stats": "False"}, [[4, 0, 0], [5, 0, 0], [6, 0, 0], [7, 0, 1], [8, 0, 1]]),
    ("null", "net_dense1_weight", {**ARGUMENT, "__shape__": "(2, 0)"}, []),
    ("null", "net_dense1_bias", {**ARGUMENT, "__init__": "zeros", "__shape__": "(2,)"}, []),
    ("FullyConnected", "net_dense1_fwd",
     {"flatten": "True", "no_bias": "False", "num_hidden": "2"},
     [[9, 0, 0], [10, 0, 0], [11, 0, 0]]),
]
PARAMS = """
EgEAAAAAAAAAAAAAAAAAAAgAAAAAAAAAyfqT+QAAAAACAAAAAwAAAAAAAAACAAAAAAAAAAEAAAAAAAAAAAAAAAAAgD8AAIA/
AACAPwAAgD8AAIA/AACAP8n6k/kAAAAAAQAAAAMAAAAAAAAAAQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAyfqT+QAAAAABAAAA
AwAAAAAAAAABAAAAAAAAAAAAAAAAAIA/AACAPwAAgD/J+pP5AAAAAAEAAAADAAAAAAAAAAEAAAAAAAAAAAAAAAAAAAAAAAAA
AAAAAMn6k/kAAAAAAQAAAAMAAAAAAAAAAQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAyfqT+QAAAAABAAAAAwAAAAAAAAABAAAA
AAAAAAAAAAAAAIA/AACAPwAAgD/J+pP5AAAAAAIAAAACAAAAAAAAAAMAAAAAAAAAAQAAAAAAAAAAAAAAAACAPwAAgD8AAIA/
AACAPwAAgD8AAIA/yfqT+QAAAAABAAAAAgAAAAAAAAABAAAAAAAAAAAAAAAAAAAAAAAAAAgAAAAAAAAAFQAAAAAAAABhcmc6
bmV0X2RlbnNlMF93ZWlnaHQTAAAAAAAAAGFyZzpuZXRfZGVuc2UwX2JpYXMYAAAAAAAAAGFyZzpuZXRfYmF0Y2hub3JtMF9n
YW1tYRcAAAAAAAAAYXJnOm5ldF9iYXRjaG5vcm0wX2JldGEfAAAAAAAAAGF1eDpuZXRfYmF0Y2hub3JtMF9ydW5uaW5nX21l
YW4eAAAAAAAAAGF1eDpuZXRfYmF0Y2hub3JtMF9ydW5uaW5nX3ZhchUAAAAAAAAAYXJnOm5ldF9kZW5zZTFfd2VpZ2h0EwAA
AAAAAABhcmc6bmV0X2RlbnNlMV9iaWFz
"""


@pytest.fixture
def by_mxnet(tmp_path):
    path = str(tmp_path / "net")
    nodes = [{"op": op, "name": name, **({"attrs": attrs} if attrs else {}), "inputs": inputs}
             for op, name, attrs, inputs in NODES]
    with open(path + "-symbol.json", "w") as file:
        json.dump({"nodes": nodes, "arg_nodes": [0, 1, 2, 5, 6, 7, 8, 10, 11],
                   "heads": [[12, 0, 0]], "attrs": {"mxnet_version": ["int", 10901]}}, file)
    with open(path + "-0000.params", "wb") as file:
        file.write(base64.b64decode(PARAMS))
    return path


def net(**kwargs):
    made = nn.HybridSequential(prefix="net_", **kwargs)
    with made.name_scope():
        made.add(nn.Dense(3, activation="tanh"), nn.BatchNorm(), nn.Dense(2))
    return made


@pytest.fixture
def trained():
    made = net()
    made.initialize(mx.initializer.Normal(1))
    made.hybridize()
    with autograd.record():
        made(nd.array(DATA))
    return made


def test_what_mxnet_exported(by_mxnet):
    block = nn.SymbolBlock.imports(by_mxnet + "-symbol.json", "data", by_mxnet + "-0000.params")
    np.testing.assert_allclose(block(nd.array(DATA)).asnumpy(), OUTPUT, rtol=1e-5)
    assert list(block.collect_params()) == [node[1] for node in NODES[1:] if node[0] == "null"]
    assert block.collect_params()["net_batchnorm0_running_mean"].grad_req == "null"


def test_our_export_is_the_same_graph(by_mxnet, tmp_path):
    made = net()
    made.initialize(mx.initializer.One())
    made.hybridize()
    made(nd.array(DATA))
    made.export(str(tmp_path / "ours"), epoch=3)
    ours = symbol.load(str(tmp_path / "ours-symbol.json"))
    theirs = symbol.load(by_mxnet + "-symbol.json")
    assert ours.get_internals().list_outputs() == theirs.get_internals().list_outputs()
    assert ours.list_auxiliary_states() == theirs.list_auxiliary_states()
    ours, theirs = nd.load(str(tmp_path / "ours-0003.params")), nd.load(by_mxnet + "-0000.params")
    assert {k: v.shape for k, v in ours.items()} == {k: v.shape for k, v in theirs.items()}


def test_round_trip(trained, tmp_path):
    path = str(tmp_path / "net")
    x = nd.array(DATA)
    trained.export(path)
    block = nn.SymbolBlock.imports(path + "-symbol.json", ["data"], path + "-0000.params",
                                   ctx=mx.cpu(1))
    moved = x.as_in_context(mx.cpu(1))
    np.testing.assert_array_equal(block(moved).asnumpy(), trained(x).asnumpy())
    for array in (x, moved):
        array.attach_grad()
    for block_, array in ((trained, x), (block, moved)):
        with autograd.record():
            y = block_(array)
        y.backward()
    np.testing.assert_allclose(moved.grad.asnumpy(), x.grad.asnumpy(), rtol=1e-6, atol=1e-6)
    for name, p in trained.collect_params().items():
        twin = block.collect_params()[name]
        np.testing.assert_allclose(twin.data().asnumpy(), p.data().asnumpy(), rtol=1e-6)
        if p.grad_req != "null":
            np.testing.assert_allclose(twin.grad().asnumpy(), p.grad().asnumpy(),
                                       rtol=1e-6, atol=1e-6)


def test_export_before_a_forward():
    made = net()
    made.hybridize()
    with pytest.raises(RuntimeError, match=r"call block\.hybridize"):
        made.export("nowhere")


def test_float64_stays_and_can_be_cast(trained, tmp_path):
    path = str(tmp_path / "net")
    trained.cast("float64")
    x = nd.array(DATA, dtype="float64")
    y = trained(x)
    trained.export(path)
    block = nn.SymbolBlock.imports(path + "-symbol.json", "data", path + "-0000.params")
    assert {np.dtype(p.dtype).name for p in block.collect_params().values()} == {"float64"}
    np.testing.assert_array_equal(block(x).asnumpy(), y.asnumpy())
    block.cast("float32")
    assert block(nd.array(DATA)).dtype is np.float32
    block.cast("float16")
    assert block.params["net_dense0_weight"].dtype == "float16"
    assert block.params["net_batchnorm0_gamma"].dtype == "float32"


def test_internals_share_the_parameters(trained):
    x = symbol.var("data")
    out = trained(x)
    block = nn.SymbolBlock(out.get_internals(), x, params=trained.collect_params())
    results = block(nd.array(DATA))
    assert len(results) == len(out.get_internals()) == 13
    np.testing.assert_allclose(results[-1].asnumpy(), trained(nd.array(DATA)).asnumpy(), rtol=1e-6)
    assert block.params["net_dense0_weight"] is trained[0].weight


def test_deferred_shapes_and_files(tmp_path):
    x = symbol.var("data")
    made = net()
    feature = made(x).get_internals()["net_dense0_tanh_fwd_output"]

    class Head(nn.HybridBlock):
        def __init__(self):
            super().__init__()
            self.features = nn.SymbolBlock(feature, x)
            self.out = nn.Dense(2)

        def hybrid_forward(self, F, data):
            return self.out(self.features(data))

    one, other = Head(), Head()
    one.initialize(mx.initializer.Normal(1))
    eager = one(nd.array(DATA)).asnumpy()
    assert one.features.params["net_dense0_weight"].shape == (3, 2)
    path = str(tmp_path / "head.params")
    one.save_parameters(path)
    assert list(nd.load(path)) == ["features.weight", "features.bias", "out.weight", "out.bias"]
    other.load_parameters(path)
    other.hybridize()
    np.testing.assert_allclose(other(nd.array(DATA)).asnumpy(), eager, rtol=1e-6)


def test_on_symbols_several_inputs_and_nests():
    a, b = symbol.var("a"), symbol.var("b")
    block = nn.SymbolBlock([a + b, [a * b]], [a, b])
    one, two = nd.array([2.0]), nd.array([5.0])
    total, (product,) = block(one, two)
    assert (total.asscalar(), product.asscalar()) == (7, 10)
    total, (product,) = block(symbol.var("x"), symbol.var("y"))
    assert total.list_arguments() == ["x", "y"]
    with pytest.raises(ValueError, match=r"expected 2 inputs \(a, b\), got 1"):
        block(one)
    single = nn.SymbolBlock(symbol.relu(a), a)
    assert single(symbol.var("z")).list_arguments() == ["z"]


def test_what_cannot_be_an_input_or_parameter():
    a = symbol.var("a")
    with pytest.raises(ValueError, match="must be a variable"):
        nn.SymbolBlock(a * 2, a * 2)
    with pytest.raises(ValueError, match="of type <class 'str'>"):
        nn.SymbolBlock(a * 2, [a, "b"])
    sparse = symbol.var("w", stype="row_sparse")
    with pytest.raises(AssertionError, match="'w' is sparse"):
        nn.SymbolBlock(a * sparse, a)


def test_text():
    a = symbol.var("a")
    block = nn.SymbolBlock(symbol.FullyConnected(a, num_hidden=3, name="fc"), a)
    assert repr(block) == "SymbolBlock(\n<Symbol fc> : 1 -> 1\n)"
    assert list(block._collect_params_with_prefix()) == ["weight", "bias"]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda block: pickle.loads(pickle.dumps(block))])
def test_a_copy_computes_by_itself(copied):
    x = symbol.var("data")
    block = nn.SymbolBlock(symbol.FullyConnected(x, num_hidden=3, name="fc") * 2, x)
    block.initialize()
    data = nd.array([[1, 2]])
    expected = block(data).asnumpy()
    other = copied(block)
    block.collect_params()["fc_bias"].set_data(nd.ones((3,)))
    np.testing.assert_array_equal(other(data).asnumpy(), expected)
    with autograd.record():
        other(data).backward()
    np.testing.assert_array_equal(other.collect_params()["fc_bias"].grad().asnumpy(), [2, 2, 2])
