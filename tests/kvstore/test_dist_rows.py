"""Row_sparse values over servers: only the rows touched travel, the numbers are those of dense."""
from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from dist_jobs import Job
from test_dist_server import Worker, item, server

from minigluon.kvstore.dist import messages as say
from minigluon.kvstore.dist.batches import Home
from minigluon.kvstore.dist.messages import Placement
from minigluon.kvstore.dist.rows import cut, rowwise, span

ARITHMETIC = """
from minigluon.ndarray import sparse
kv = mx.kv.create("dist_sync")
n, rank = kv.num_workers, kv.rank
shapes = {"small": (4, 2), "big": (1200, 1000), "cube": (6, 2, 3), "flat": (2, 600000)}
for key, shape in shapes.items():
    kv.init(key, nd.ones(shape).tostype("row_sparse"))
kv.set_optimizer(mx.optimizer.create("test", rescale_grad=2))

def check(key, wanted, ids):
    shape = shapes[key]
    out = nd.zeros(shape, stype="row_sparse")
    kv.row_sparse_pull(key, out=out, row_ids=nd.array(ids))
    expected = np.zeros(shape, "float32")
    for row in np.asarray(ids, int).ravel():
        expected[row] = wanted[row]
    np.testing.assert_array_equal(out.asnumpy(), expected)
    assert out.indices.asnumpy().tolist() == sorted(set(np.asarray(ids, int).ravel()))

truth = {key: np.ones(shape, "float32") for key, shape in shapes.items()}
random = np.random.RandomState(1)
for step in range(4):
    for key, shape in shapes.items():
        for worker in range(n):          # each worker pushes its own rows
            rows = [worker % 2, (worker + step) % shape[0]]
            rows = sorted(set(rows))
            truth[key][rows] += 2 * (worker + 1)
            if worker == rank:
                data = np.ones((len(rows), *shape[1:]), "float32") * (worker + 1)
                kv.push(key, sparse.row_sparse_array((data, rows), shape=shape))
        ids = random.randint(0, shape[0], (3, 2))
        check(key, truth[key], ids)
        check(key, truth[key], [])
    kv.push("small", nd.zeros((4, 2), stype="row_sparse"))      # nothing changes nothing
    check("small", truth["small"], [0, 1, 2, 3])
    whole = nd.zeros(shapes["big"])
    kv.pull("big", out=whole)                                    # dense arrays see the rows, too
    np.testing.assert_array_equal(whole.asnumpy(), truth["big"])

# one worker with rows, the others dense
for worker in range(n):
    truth["small"][[1] if worker == 0 else slice(None)] += 2
grad = sparse.row_sparse_array((np.ones((1, 2), "float32"), [1]), shape=(4, 2))
grad = grad if rank == 0 else nd.ones((4, 2))
kv.push("small", grad)
check("small", truth["small"], [0, 1, 2, 3])

# several devices, several outs, several keys
two = [sparse.row_sparse_array((np.ones((1, 2), "float32"), [i]), (4, 2), mx.cpu(i))
       for i in (0, 1)]
kv.push("small", two)
truth["small"][:2] += 2 * n
outs = [[nd.zeros(shapes[k], mx.cpu(i), stype="row_sparse") for i in (0, 1)]
        for k in ("small", "cube")]
kv.row_sparse_pull(["small", "cube"], out=outs,
                   row_ids=[[nd.array([3, 1, 3]), nd.array([0])],
                            [nd.array([5]), nd.array([1, 2])]])
for key, several, rows in (("small", outs[0], [[1, 3], [0]]), ("cube", outs[1], [[5], [1, 2]])):
    for out, ids in zip(several, rows):
        assert out.indices.asnumpy().tolist() == ids
        np.testing.assert_array_equal(out.data.asnumpy(), truth[key][ids])
rows = nd.zeros((4, 2), stype="row_sparse")
kv.pull("small", out=rows)
assert not rows.asnumpy().any()                                  # left alone
kv.pull("small", out=rows, ignore_sparse=False)
np.testing.assert_array_equal(rows.asnumpy(), truth["small"])

# the value at the call counts
grad = sparse.row_sparse_array((np.ones((1, 1000), "float32"), [7]), shape=(1200, 1000))
kv.push("big", grad)
grad.data[:] = 100
truth["big"][7] += 2 * n
check("big", truth["big"], [7, 1199])

for kind, said, call in (
    (mx.MXNetError, "row_sparse arrays to fill",
     lambda: kv.row_sparse_pull("small", out=nd.zeros((4, 2)), row_ids=nd.array([0]))),
    (mx.MXNetError, "has not been initialised",
     lambda: kv.row_sparse_pull("none", out=rows, row_ids=nd.array([0]))),
    (ValueError, "expected shape",
     lambda: kv.push("small", nd.zeros((5, 2), stype="row_sparse"))),
    (IndexError, "[0, 4)",
     lambda: kv.row_sparse_pull("small", out=rows, row_ids=nd.array([9]))),
):
    try:
        call()
    except kind as error:
        assert said in str(error), error
    else:
        raise AssertionError(said)
kv.barrier()
"""


def test_rows_over_servers_are_exact() -> None:
    with Job(ARITHMETIC, workers=3, servers=2, env={"MINIGLUON_OP_TIMEOUT": "30"}) as job:
        job.succeed(90)


TRAFFIC = """
from minigluon.ndarray import sparse
kv = mx.kv.create("dist_sync")
shape = (20000, 100)
kv.init("w", nd.zeros(shape, stype="row_sparse"))
kv.set_optimizer(mx.optimizer.SGD(learning_rate=1.0))
seen = []
for rows in (10, 20, 200):
    before = kv.stats()
    ids = np.random.RandomState(rows).permutation(shape[0])[:rows]
    values = np.ones((rows, 100), "float32")
    kv.push("w", sparse.row_sparse_array((values, np.sort(ids)), shape=shape))
    out = nd.zeros(shape, stype="row_sparse")
    kv.row_sparse_pull("w", out=out, row_ids=nd.array(ids))
    assert (out.data.asnumpy() == -kv.num_workers).any()
    after = kv.stats()
    seen.append((rows, after["rows_sent_bytes"] // 2 - before["rows_sent_bytes"] // 2,
                 after["rows_pulled_bytes"] - before["rows_pulled_bytes"]))
    kv.barrier()
print("traffic", seen)
for rows, sent, pulled in seen:
    assert pulled == rows * 400, seen
    assert sent * 2 == rows * (400 + 8 + 8), seen
"""


def test_bytes_are_proportional_to_rows() -> None:
    with Job(TRAFFIC, workers=2, servers=2) as job:
        job.succeed(60)
        assert re.search(r"traffic \[\(10, ", job.text("worker 0"))


TRAINING = """
from minigluon import autograd, gluon
from minigluon.gluon import nn
from minigluon.gluon.contrib.nn import SparseEmbedding

def train(kind, store, optimizer, **settings):
    net = nn.Sequential()
    with net.name_scope():
        net.add(SparseEmbedding(30, 4) if kind == "weight" else
                nn.Embedding(30, 4, sparse_grad=kind == "grad"))
        net.add(nn.Dense(1, in_units=8))
    net.initialize()
    rng = np.random.RandomState(5)
    for parameter in net.collect_params().values():
        parameter.set_data(nd.array(rng.uniform(-1, 1, parameter.shape)))
    trainer = gluon.Trainer(net.collect_params(), optimizer, settings, kvstore=store)
    losses, data = [], np.random.RandomState(7)
    for _ in range(6):
        ids = data.randint(0, 30, (store_n * 4, 2))
        part = ids[kv_rank * 4:(kv_rank + 1) * 4]
        with autograd.record():
            loss = ((net(nd.array(part)) - 1) ** 2).sum()
        loss.backward()
        trainer.step(store_n * 4)
        losses.append(float(loss.asscalar()))
    value = net[0].weight._reduce().asnumpy()
    return losses, value

kv_of = mx.kv.create("dist_sync")
store_n, kv_rank = kv_of.num_workers, kv_of.rank
for optimizer, settings in (("sgd", {"learning_rate": .2}), ("adagrad", {"learning_rate": .2}),
                            ("sgd", {"learning_rate": .2, "momentum": .9, "lazy_update": False})):
    dense = train("dense", "dist_sync", optimizer, **settings)
    for kind in ("grad", "weight"):
        losses, value = train(kind, "dist_sync", optimizer, **settings)
        np.testing.assert_allclose(losses, dense[0], rtol=2e-5)
        np.testing.assert_allclose(value, dense[1], rtol=1e-4, atol=1e-6)

# the exact step of the contract: weight 1, gradient rank + 1, lr 1
w = gluon.Parameter("w", shape=(10, 2), stype="row_sparse", grad_stype="row_sparse", init="ones")
w.initialize()
trainer = gluon.Trainer([w], "sgd", {"learning_rate": 1.0}, kvstore="dist_sync")
all_rows = nd.arange(10)
rows = w.row_sparse_data(all_rows)
with autograd.record():
    y = nd.Embedding(all_rows, w.row_sparse_data(all_rows), input_dim=10, output_dim=2,
                     sparse_grad=True) * (kv_rank + 1)
y.backward()
trainer.step(1)
assert (w.row_sparse_data(all_rows).asnumpy() == 1 - store_n * (store_n + 1) / 2).all()
kv_of.barrier()
"""


def test_training_over_servers_equals_dense() -> None:
    with Job(TRAINING, workers=2, servers=2, env={"MXNET_KVSTORE_BIGARRAY_BOUND": "100"}) as job:
        job.succeed(90)


ASYNC = """
from minigluon.ndarray import sparse
kv = mx.kv.create("dist_async")
kv.init("w", nd.ones((6, 2)).tostype("row_sparse"))
kv.set_optimizer(mx.optimizer.create("test"))
for _ in range(5):
    kv.push("w", sparse.row_sparse_array((np.ones((1, 2), "float32"), [kv.rank]), shape=(6, 2)))
kv.barrier()
kv.pull("w", out=nd.zeros((6, 2)))
kv.barrier()
out = nd.zeros((6, 2), stype="row_sparse")
kv.row_sparse_pull("w", out=out, row_ids=nd.array([kv.rank, 5]))
assert out.asnumpy()[kv.rank].tolist() == [6, 6] and out.asnumpy()[5].tolist() == [1, 1]
"""


def test_async_pushes_of_rows() -> None:
    with Job(ASYNC, workers=2, servers=1) as job:
        job.succeed(60)


# -- the pieces ----------------------------------------------------------------------------------


def _home(shape: tuple[int, ...], bounds: tuple[int, ...]) -> Home:
    servers = tuple(range(len(bounds) - 1))
    return Home(Placement("w", 0, shape, "float32", bounds, servers))


def test_rows_are_cut_where_the_parts_are() -> None:
    home = _home((10, 2), (0, 8, 20))
    assert rowwise(home) and [span(home, item) for _, item in home.parts] == [(0, 4), (4, 10)]
    rows = np.array([1, 3, 4, 9])
    found = [(server, [item.data.tolist() for item in items], first, last)
             for server, items, first, last in cut(home, rows, np.arange(8.0).reshape(4, 2))]
    assert found == [(0, [[1, 3], [[0, 1], [2, 3]]], 0, 2), (1, [[0, 5], [[4, 5], [6, 7]]], 2, 4)]
    assert [server for server, *_ in cut(home, np.array([7]), None)] == [1]
    assert [server for server, *_ in cut(home, np.array([7]), np.ones((1, 2)))] == [0, 1]
    assert not rowwise(_home((2, 10), (0, 5, 20)))


@pytest.mark.parametrize(("rows", "values", "said"), [
    ([1, 0], np.ones((2, 3), "float32"), "sorted"),
    ([0, 0], np.ones((2, 3), "float32"), "sorted"),
    ([0, 4], np.ones((2, 3), "float32"), r"\[0, 4\)"),
    ([-1, 0], np.ones((2, 3), "float32"), r"\[0, 4\)"),
    ([0], np.ones((2, 3), "float32"), "1 rows"),
    ([0], np.ones((1, 2), "float32"), "1 rows"),
    ([0], np.ones((1, 3), "float64"), "float64"),
])
def test_a_server_refuses_what_are_no_rows(rows: list[int], values: Any, said: str) -> None:
    made = server(1)
    worker = Worker(made, 0)
    worker(say.Init, 0, "dist_sync", ("w",), (item(np.zeros((4, 3), "float32")),))
    numbers = item(np.array(rows))
    (answer,) = worker(say.PushRows, (numbers, item(values)))
    assert isinstance(answer.message, say.ErrorReply)
    assert re.search(said, answer.message.reason)
    (other,) = worker(say.PushRows, (numbers,))
    assert "without rows" in other.message.reason


def test_a_repeated_request_is_answered_and_not_applied_again() -> None:
    made = server(1)
    worker = Worker(made, 0)
    worker(say.Init, 0, "dist_sync", ("w",), (item(np.zeros((4, 3), "float32")),))
    pair = (item(np.array([1, 3])), item(np.ones((2, 3), "float32")))
    first, second = worker(say.PushRows, pair), worker.again()
    assert first == second and isinstance(first[0].message, say.Ack)
    for actions in (worker(say.PullRows, (item(np.array([3, 0][::-1])),)), worker.again()):
        (found,) = actions[0].message.items
        assert found.data.tolist() == [[0.0] * 3, [1.0] * 3]
