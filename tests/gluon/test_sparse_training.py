"""Training with row_sparse gradients and weights: the same numbers as dense."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minigluon as mx
from minigluon import autograd, gluon, nd
from minigluon.gluon import nn
from minigluon.gluon.contrib.nn import SparseEmbedding

IDS = [nd.array(np.random.RandomState(seed).randint(0, 20, (6, 3))) for seed in range(4)]


def _net(kind: str) -> Any:
    mx.random.seed(1)
    net = nn.Sequential() if kind == "weight" else nn.HybridSequential()
    with net.name_scope():
        if kind == "weight":
            net.add(SparseEmbedding(20, 5, weight_initializer=mx.init.Uniform(1)))
        else:
            net.add(nn.Embedding(20, 5, weight_initializer=mx.init.Uniform(1),
                                 sparse_grad=kind == "grad"))
        net.add(nn.Dense(1, in_units=15))
    return net


def _weight(net: Any) -> Any:
    return net[0].weight._reduce().asnumpy()


def _trained(kind: str, optimizer: str, contexts: list[Any], hybrid: bool = False,
             **settings: Any) -> tuple[list[float], Any]:
    net = _net(kind)
    np.random.seed(0)
    net.initialize(ctx=contexts)
    rng = np.random.RandomState(5)
    for parameter in net.collect_params().values():
        parameter.set_data(nd.array(rng.uniform(-1, 1, parameter.shape)))
    if hybrid and kind != "weight":
        net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), optimizer, settings)
    losses = []
    for step in range(8):
        parts = gluon.utils.split_and_load(IDS[step % 4], contexts)
        with autograd.record():
            found = [((net(part) - 1) ** 2).sum() for part in parts]
        autograd.backward(found)
        trainer.step(6)
        losses.append(sum(float(loss.asscalar()) for loss in found))
    return losses, _weight(net)


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize(("optimizer", "settings"), [
    ("sgd", {"learning_rate": 0.1}), ("adagrad", {"learning_rate": 0.1}),
    ("sgd", {"learning_rate": 0.1, "momentum": 0.9, "lazy_update": False, "wd": 0.01}),
    ("adam", {"learning_rate": 0.1, "lazy_update": False}), ("rmsprop", {"learning_rate": 0.01})])
def test_rows_train_as_a_table_does(optimizer: str, settings: dict[str, Any], hybrid: bool,
                                    devices: int) -> None:
    contexts = [mx.cpu(i) for i in range(devices)]
    dense, table = _trained("dense", optimizer, contexts, hybrid, **settings)
    for kind in ("grad", "weight"):
        losses, weight = _trained(kind, optimizer, contexts, hybrid, **settings)
        np.testing.assert_allclose(losses, dense, rtol=2e-5)
        np.testing.assert_allclose(weight, table, rtol=1e-4, atol=1e-6)
    assert dense[-1] < dense[0]


def test_lazy_momentum_leaves_other_rows_alone() -> None:
    layer = nn.Embedding(4, 1, weight_initializer="ones", sparse_grad=True)
    layer.initialize()
    trainer = gluon.Trainer(layer.collect_params(), "sgd", {
        "learning_rate": 1.0, "momentum": 0.5, "wd": 0.5})
    seen = []
    for ids in ([0, 1], [1, 2]):
        with autograd.record():
            y = layer(nd.array(ids))
        y.backward()
        trainer.step(1)
        seen.append(layer.weight.data().asnumpy().ravel().tolist())
    assert seen == [[-0.5, -0.5, 1, 1], [-0.5, -0.5 - 0.75 - 0.75, -0.5, 1]]


def test_parameters_keep_their_rows(tmp_path: Any) -> None:
    net = _net("weight")
    net.initialize()
    with pytest.raises(RuntimeError, match="row_sparse_data"):
        net[0].weight.data()
    path = str(tmp_path / "net.params")
    before = _weight(net)
    net.save_parameters(path)
    assert nd.load(path)["0.weight"].stype == "row_sparse"
    other = _net("dense")  # a sparse value may be loaded into a dense parameter
    other.load_parameters(path)
    np.testing.assert_array_equal(other[0].weight.data().asnumpy(), before)
    again = _net("weight")
    again.load_parameters(path)
    np.testing.assert_array_equal(_weight(again), before)


def test_a_sparse_weight_has_one_trainer_and_needs_its_store() -> None:
    weight = gluon.Parameter("w", shape=(4, 2), stype="row_sparse", grad_stype="row_sparse",
                             init="ones")
    weight.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    trainer = gluon.Trainer([weight], "sgd")
    with pytest.raises(RuntimeError, match="already belongs"):
        gluon.Trainer([weight], "sgd")
    rows = weight.list_row_sparse_data(nd.array([2, 0]))
    assert [x.context for x in rows] == [mx.cpu(0), mx.cpu(1)]
    assert all(x.indices.asnumpy().tolist() == [0, 2] for x in rows)
    one = weight.row_sparse_data(nd.array([3], ctx=mx.cpu(1)))
    assert one.context == mx.cpu(1) and one.shape == (4, 2)
    assert one.indices.asnumpy().tolist() == [3]
    assert trainer._update_on_kvstore is True


def test_a_hybrid_block_cannot_use_a_sparse_weight() -> None:
    class Uses(nn.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.w = self.params.get("w", shape=(3, 2), stype="row_sparse")

        def hybrid_forward(self, F: Any, x: Any, w: Any) -> Any:
            return F.dot(x, w)

    block = Uses()
    block.initialize()
    with pytest.raises(RuntimeError, match="row_sparse"):
        block(nd.ones((1, 3)))


def test_zero_grad_and_add() -> None:
    layer = nn.Embedding(4, 1, sparse_grad=True)
    layer.initialize()
    layer.weight.grad_req = "add"
    for _ in range(2):
        with autograd.record():
            y = layer(nd.array([1, 1, 3]))
        y.backward()
    assert layer.weight.grad().asnumpy().ravel().tolist() == [0, 4, 0, 2]
    layer.collect_params().zero_grad()
    assert not layer.weight.grad().asnumpy().any()


def test_clip_global_norm_of_rows() -> None:
    arrays = [nd.ones((3, 3)).tostype("row_sparse"), nd.ones((4, 4)).tostype("row_sparse")]
    assert float(gluon.utils.clip_global_norm(arrays, 1.0)) == pytest.approx(5)
    for array in arrays:
        assert array.stype == "row_sparse"
        np.testing.assert_allclose(array.asnumpy(), 0.2, rtol=1e-5)


def test_split_and_load_of_csr() -> None:
    data = nd.array(np.eye(4, 3)).tostype("csr")
    parts = gluon.utils.split_and_load(data, [mx.cpu(0), mx.cpu(1)])
    assert [part.stype for part in parts] == ["csr", "csr"]
    np.testing.assert_array_equal(np.concatenate([part.asnumpy() for part in parts]), np.eye(4, 3))
