"""Files written under ``npx.set_np``: MXNet's read here, ours as MXNet writes them."""
import json
import sys
from pathlib import Path

import numpy as onp
import pytest

import minigluon as mx
from minigluon import np, npx

sys.path.insert(0, str(Path(__file__).parents[1] / "oracle"))
from np_symbols import CASES, FIGURES, X

KNOWN = json.loads(FIGURES.read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def numpy_mode():
    npx.set_np()
    yield
    npx.reset_np()


def test_each_case_is_recorded():
    assert list(KNOWN) == CASES


@pytest.mark.parametrize("case", CASES)
def test_a_block_that_mxnet_exported(case, tmp_path):
    graph, dtype, values = KNOWN[case]
    path = tmp_path / "net-symbol.json"
    path.write_text(json.dumps(graph), encoding="utf-8")
    net = mx.gluon.SymbolBlock.imports(str(path), ["data"])
    found = net(np.array(X))
    assert type(found) is np.ndarray
    assert onp.dtype(found.dtype).kind == onp.dtype(dtype).kind
    onp.testing.assert_allclose(found.asnumpy().astype("f8"), values, 2e-5, 2e-5)
    again = mx.sym.load_json(mx.sym.load(str(path)).tojson())  # now composed of our operators
    assert again.list_arguments() == ["data"]
    assert again.list_outputs() == mx.sym.load(str(path)).list_outputs()


def test_an_operator_that_is_no_part_of_graphs_here_is_named():
    graph = {"nodes": [{"op": "null", "name": "data", "inputs": []},
                       {"op": "_npi_polyval", "name": "p0", "inputs": [[0, 0, 0], [0, 0, 0]]}],
             "arg_nodes": [0], "heads": [[1, 0, 0]]}
    with pytest.raises(NotImplementedError, match=r"_npi_polyval.*\[node p0\]"):
        mx.sym.load_json(json.dumps(graph))
    graph["nodes"][1]["op"] = "_npi_nothing_like_it"
    with pytest.raises(NotImplementedError, match="no operator '_npi_nothing_like_it'"):
        mx.sym.load_json(json.dumps(graph))


def test_arrays_are_written_as_mxnet_writes_them(tmp_path):
    path = tmp_path / "two"
    npx.save(str(path), {"a": np.array([1.5, 2.0]), "s": np.array(3.5)})
    assert path.read_bytes().hex() == (  # MXNet 1.9.1 under npx.set_np()
        "120100000000000000000000000000000200000000000000cafa93f900000000010000000200000000000000"
        "0100000000000000000000000000c03f00000040cafa93f90000000000000000010000000000000000000000"
        "000060400200000000000000010000000000000061010000000000000073")
    assert npx.load(str(path))["s"].shape == ()


def test_our_own_files_mean_the_same_again(tmp_path):
    class Block(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            square = F.np.dot(x, x.T)
            return F.np.linalg.det(square) * F.np.linalg.slogdet(F.np.stack([square] * 2))[1]

    net = Block()
    net.hybridize()
    expected = net(np.array(X))
    net.export(str(tmp_path / "net"))
    again = mx.gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"])
    assert again(np.array(X)).tolist() == expected.tolist()
