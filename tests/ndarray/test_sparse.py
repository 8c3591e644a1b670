"""Sparse arrays: made, changed, computed with, and as MXNet 1.9.1 recorded them."""
from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minigluon as mx
from minigluon import autograd, nd
from minigluon.ops.storage import RowPatch, RowSparse, fill, put_rows, rows_of

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "oracle"))

from sparse import FIGURES, OPTIMIZERS, evaluated, expressions, trained

_FIGURES = json.loads(FIGURES.read_text(encoding="utf-8"))
_RECORDED = [text for text in expressions() if text in _FIGURES]


@pytest.mark.parametrize("text", _RECORDED)
def test_equals_mxnet(text: str) -> None:
    found = evaluated(mx, text)
    assert found is not None
    kind, dtype, shape, values, index = _FIGURES[text]
    assert found[:3] == [kind, dtype, shape]
    np.testing.assert_allclose(found[3], values, rtol=1e-6)
    if kind == "RowSparseNDArray":
        assert found[4] == index


@pytest.mark.parametrize("stype", ["default", "row_sparse"])
@pytest.mark.parametrize("case", sorted(OPTIMIZERS))
def test_twenty_updates_equal_mxnets(case: str, stype: str) -> None:
    if case == "nag":
        stype = "default"  # MXNet loses the momentum of a row_sparse weight; here they are equal
        assert trained(mx, case, "row_sparse") == trained(mx, case, stype)
    expected = _FIGURES[f"trained {case} {stype}"]
    np.testing.assert_allclose(trained(mx, case, stype), expected, rtol=2e-5, atol=2e-6)


def _matrix(rows: int, columns: int, density: float, seed: int = 0, dtype: str = "float32") -> Any:
    random = np.random.RandomState(seed)
    dense = random.normal(size=(rows, columns)) * (random.uniform(size=(rows, columns)) < density)
    return dense.astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("density", [0.0, 0.05, 1.0])
@pytest.mark.parametrize("shape", [(1, 1), (7, 13), (40, 3)])
def test_products_equal_dense_ones(shape: tuple[int, int], density: float, dtype: str) -> None:
    left = _matrix(*shape, density, dtype=dtype)
    csr = nd.sparse.csr_matrix(left)
    right, other = _matrix(shape[1], 5, 1.0, 1, dtype), _matrix(shape[0], 5, 1.0, 2, dtype)
    # of sums of 40 terms of up to 10, in another order
    close = {"rtol": 1e-5, "atol": 2e-5} if dtype == "float32" else {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(nd.dot(csr, nd.array(right, dtype=dtype)).asnumpy(), left @ right,
                               **close)
    flipped = nd.dot(csr, nd.array(other, dtype=dtype), transpose_a=True)
    assert flipped.stype == "row_sparse"
    np.testing.assert_allclose(flipped.asnumpy(), left.T @ other, **close)
    few = nd.array(right * (np.arange(shape[1]) % 2)[:, None], dtype=dtype).tostype("row_sparse")
    np.testing.assert_allclose(nd.dot(csr, few).asnumpy(), left @ few.asnumpy(), **close)
    back = nd.dot(nd.array(other.T, dtype=dtype), csr)
    assert back.stype == "csr"
    np.testing.assert_allclose(back.asnumpy(), other.T @ left, **close)
    turned = nd.dot(nd.array(right.T, dtype=dtype), csr, transpose_b=True)
    np.testing.assert_allclose(turned.asnumpy(), right.T @ left.T, **close)


def test_a_long_product_is_cut_into_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minigluon.ops.sparse.product._STEP", 16)
    left, right = _matrix(30, 20, 0.3), _matrix(20, 4, 1.0, 1)
    left[3:6] = 0
    out = nd.dot(nd.sparse.csr_matrix(left), nd.array(right))
    np.testing.assert_allclose(out.asnumpy(), left @ right, rtol=1e-5, atol=1e-6)


def test_sums_of_sparse_arrays() -> None:
    a, b = _matrix(9, 4, 0.2), _matrix(9, 4, 0.2, 1)
    for stype in ("csr", "row_sparse"):
        x, y = nd.array(a).tostype(stype), nd.array(b).tostype(stype)
        for result, expected in ((x + y, a + b), (x - y, a - b), (x * y, a * b)):
            assert result.stype == stype
            result.check_format()
            np.testing.assert_array_equal(result.asnumpy(), expected)
    rows = [nd.array(_matrix(9, 4, 0.2, seed)).tostype("row_sparse") for seed in range(4)]
    total = nd.add_n(*rows)
    assert total.stype == "row_sparse"
    np.testing.assert_allclose(total.asnumpy(), sum(x.asnumpy() for x in rows), rtol=1e-6)


def test_check_format_names_what_is_wrong() -> None:
    rows = nd.sparse.row_sparse_array
    for bad in (rows(([[1, 2], [3, 4]], [1, 9]), shape=(6, 2)),
                rows(([[1, 2], [3, 4]], [4, 1]), shape=(6, 2)),
                rows(([[1, 2], [3, 4]], [1, 1]), shape=(6, 2)),
                nd.sparse.csr_matrix(([1, 2, 3], [0, 2, 9], [0, 1, 2, 3]), shape=(3, 3)),
                nd.sparse.csr_matrix(([1, 2, 3], [0, 2, 1], [0, 1, 2, 2]), shape=(3, 3)),
                nd.sparse.csr_matrix(([1, 2, 3], [0, 2, 1], [0, 1, 3, 3]), shape=(3, 3))):
        with pytest.raises(mx.MXNetError):
            bad.check_format()
    rows(([[1, 2]], [3]), shape=(6, 2)).check_format()


@pytest.mark.parametrize(("make", "kind", "said"), [
    (lambda sp: sp.csr_matrix(5), ValueError, "matrix"),
    (lambda sp: sp.csr_matrix(([1, 2], [0, 1]), shape=(2, 2)), ValueError, "tuple of 2"),
    (lambda sp: sp.csr_matrix(([1], [0], [0, 1]), shape=(4, 2)), ValueError, "indptr"),
    (lambda sp: sp.csr_matrix(nd.ones((2, 2)), shape=(3, 3)), ValueError, "mismatch"),
    (lambda sp: sp.row_sparse_array(([[1, 2]], [1, 2])), ValueError, "numbers"),
    (lambda sp: sp.row_sparse_array(sp.zeros("csr", (2, 2))), ValueError, "CSRNDArray"),
    (lambda sp: sp.zeros("rows", (2, 2)), ValueError, "'rows'"),
    (lambda sp: sp.array([1, 2]), ValueError, "list"),
    (lambda sp: sp.zeros("csr", (2, 2)).tostype("row_sparse"), ValueError, "not supported"),
    (lambda sp: sp.zeros("csr", (2, 2)).reshape((4,)), NotImplementedError, "reshape"),
    (lambda sp: sp.zeros("csr", (2, 2))[5], IndexError, "row 5"),
    (lambda sp: sp.zeros("csr", (2, 2))[0, 1], ValueError, "Multi-dimension"),
    (lambda sp: sp.zeros("row_sparse", (2, 2))[0], NotImplementedError, "retain"),
    (lambda sp: sp.zeros("row_sparse", (2, 2)).copyto(sp.zeros("csr", (2, 2))), TypeError, "csr"),
    (lambda sp: sp.retain(sp.zeros("csr", (2, 2)), nd.array([0])), mx.MXNetError, "row_sparse"),
    (lambda sp: nd.dot(sp.zeros("csr", (2, 3)), nd.ones((2, 2))), mx.MXNetError, "dot"),
    (lambda sp: nd.ones((2, 3)).tostype("rows"), mx.MXNetError, "storage type"),
])
def test_what_cannot_be_is_refused(make: Any, kind: type[BaseException], said: str) -> None:
    with pytest.raises(kind, match=said):
        make(nd.sparse)


def test_assignment() -> None:
    dense = nd.array(_matrix(4, 3, 0.4))
    for stype in ("csr", "row_sparse"):
        x = nd.sparse.zeros(stype, (4, 3))
        for value in (dense, dense.tostype(stype), dense.asnumpy()):
            x[:] = value
            np.testing.assert_array_equal(x.asnumpy(), dense.asnumpy())
        with pytest.raises(mx.MXNetError, match="only supports"):
            x[0] = dense[0]
        target = nd.zeros((4, 3))
        target[:] = x
        np.testing.assert_array_equal(target.asnumpy(), dense.asnumpy())
    rows = nd.sparse.zeros("row_sparse", (4, 3))
    rows[:] = 2
    assert rows.asnumpy().tolist() == [[2.0] * 3] * 4
    with pytest.raises(ValueError, match="csr"):
        nd.sparse.zeros("csr", (4, 3))[:] = 2


def test_copies_pickles_and_moves() -> None:
    for stype in ("csr", "row_sparse"):
        x = nd.array(_matrix(4, 3, 0.4)).tostype(stype)
        for other in (pickle.loads(pickle.dumps(x)), x.copy(), x.as_in_context(mx.cpu(1)),
                      x.astype("float64"), nd.array(x), x.copyto(mx.cpu())):
            assert other.stype == stype and other is not x
            np.testing.assert_array_equal(other.asnumpy(), x.asnumpy())
            other *= 0
            assert x.asnumpy().any()
        assert repr(x) == f"\n<{type(x).__name__} 4x3 @cpu(0)>"
        assert x.astype("float32", copy=False) is x and x.indices.dtype == np.int64
        assert x.as_in_context(mx.cpu(1)).context == mx.cpu(1)


class _Coo:
    """What SciPy's matrices offer, as far as it is asked for."""

    def tocsr(self) -> _Coo:
        self.data, self.indices = np.array([5.0, 7.0]), np.array([1, 0], "int32")
        self.indptr, self.shape = np.array([0, 1, 2], "int32"), (2, 2)
        return self

    def sort_indices(self) -> None:
        """They are in order."""


def test_scipy_matrices_by_their_looks() -> None:
    for made in (nd.sparse.csr_matrix(_Coo()), nd.array(_Coo()), nd.sparse.array(_Coo())):
        assert made.stype == "csr" and made.asnumpy().tolist() == [[0.0, 5.0], [7.0, 0.0]]
    scipy_sparse = pytest.importorskip("scipy.sparse")
    back = nd.sparse.csr_matrix(_Coo()).asscipy()
    assert isinstance(back, scipy_sparse.csr_matrix)


def test_saved_and_loaded(tmp_path: Path) -> None:
    path = str(tmp_path / "a.params")
    dense = nd.array(_matrix(5, 3, 0.3))
    given = {"c": dense.tostype("csr"), "r": dense.tostype("row_sparse"), "d": dense,
             "empty": nd.sparse.zeros("row_sparse", (3, 2)), "cube": nd.ones((2, 2, 2)).tostype(
                 "row_sparse"), "wide": dense.astype("float64").tostype("csr")}
    nd.save(path, given)
    found = nd.load(path)
    for name, x in given.items():
        assert (found[name].stype, found[name].dtype) == (x.stype, x.dtype)
        np.testing.assert_array_equal(found[name].asnumpy(), x.asnumpy())
    content = Path(path).read_bytes()
    with pytest.raises(mx.MXNetError, match="cut short"):
        nd.load_frombuffer(content[:200])


def test_fallback_is_told_once(caplog: pytest.LogCaptureFixture,
                               monkeypatch: pytest.MonkeyPatch) -> None:
    x = nd.sparse.zeros("csr", (2, 2))
    monkeypatch.setenv("MXNET_STORAGE_FALLBACK_LOG_VERBOSE", "0")
    nd.arccosh(x)
    assert not caplog.records
    monkeypatch.setenv("MXNET_STORAGE_FALLBACK_LOG_VERBOSE", "1")
    for _ in range(2):
        assert nd.cosh(x).stype == "default"
    assert [record.args[0] for record in caplog.records] == ["cosh"]


def test_the_gradient_of_a_csr_operand_waits_until_it_is_wanted(
        monkeypatch: pytest.MonkeyPatch) -> None:
    weight = nd.ones((3, 2))
    weight.attach_grad(stype="row_sparse")
    x = nd.sparse.csr_matrix(([2.0], [1], [0, 1]), shape=(1, 3))
    made: list[str] = []
    monkeypatch.setattr("minigluon.ops.storage.Delayed.dense", lambda self, xp: made.append("x"))
    with autograd.record():
        y = nd.dot(x, weight)
    y.backward()
    assert weight.grad.indices.asnumpy().tolist() == [1] and not made
    assert weight.grad.data.asnumpy().tolist() == [[2.0, 2.0]]


@pytest.mark.parametrize("shape", [(4, 2), (1, 1)])
@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("req", ["write", "add"])
def test_embedding_gives_rows(req: str, hybrid: bool, shape: tuple[int, int]) -> None:
    class Lookup(mx.gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any, w: Any) -> Any:
            return F.Embedding(x, w, input_dim=6, output_dim=3, sparse_grad=True) * 2

    block = Lookup()
    if hybrid:
        block.hybridize()
    ids = nd.array(np.array([3, 1, 3, 5, 1, 3, 0, 3])[:int(np.prod(shape))]).reshape(
        shape)
    rows, whole = nd.ones((6, 3)), nd.ones((6, 3))
    rows.attach_grad(req, stype="row_sparse")
    whole.attach_grad(req)
    for _ in range(2):
        with autograd.record():
            first, second = block(ids, rows), nd.Embedding(ids, whole, input_dim=6, output_dim=3)
        first.backward()
        second.backward(nd.ones(second.shape) * 2)
    assert rows.grad.stype == "row_sparse"
    rows.grad.check_format()
    assert set(rows.grad.indices.asnumpy()) == set(ids.asnumpy().ravel().astype(int))
    np.testing.assert_array_equal(rows.grad.asnumpy(), whole.grad.asnumpy())


def test_20481_equal_indices_add_up() -> None:
    weight = nd.zeros((4, 2))
    weight.attach_grad(stype="row_sparse")
    with autograd.record():
        y = nd.Embedding(nd.ones((20481,)), weight, input_dim=4, output_dim=2, sparse_grad=True)
    y.backward()
    assert weight.grad.indices.asnumpy().tolist() == [1]
    assert weight.grad.data.asnumpy().tolist() == [[20481.0, 20481.0]]


def test_rows_of_raw_arrays() -> None:
    kept = RowSparse((5, 1), np.array([1, 3]), np.array([[1.0], [3.0]]))
    assert rows_of(np, kept, np.array([0, 3, 4])).ravel().tolist() == [0.0, 3.0, 0.0]
    put_rows(np, kept, np.array([0, 3]), np.array([[7.0], [8.0]]))
    assert kept.dense(np).ravel().tolist() == [7.0, 1.0, 0.0, 8.0, 0.0]
    fill(np, kept, 0)
    assert not kept.dense(np).any()


def test_second_order_through_a_lookup() -> None:
    weight = nd.array([[1.0, 2.0], [3.0, 4.0]])
    weight.attach_grad()
    with autograd.record():
        y = nd.Embedding(nd.array([1, 1]), weight, input_dim=2, output_dim=2, sparse_grad=True)
        z = autograd.grad((y * y * y).sum(), [weight], create_graph=True)[0]
        total = z.sum()
    total.backward()
    np.testing.assert_allclose(weight.grad.asnumpy(), [[0, 0], [2 * 6 * 3, 2 * 6 * 4]])


@pytest.mark.parametrize("right", ["default", "row_sparse"])
def test_a_bound_symbol_with_sparse_arrays(right: str) -> None:
    x, w = mx.sym.var("x", stype="csr"), mx.sym.var("w", stype=right)
    executor = mx.sym.sparse.dot(x, w).simple_bind(mx.cpu(), x=(3, 4), w=(4, 2))
    assert [array.stype for array in executor.arg_arrays] == ["csr", right]
    data, weight = _matrix(3, 4, 0.5), _matrix(4, 2, 1.0, 1)
    executor.forward(is_train=True, x=nd.array(data).tostype("csr"),
                     w=nd.array(weight).tostype(right))
    np.testing.assert_allclose(executor.outputs[0].asnumpy(), data @ weight, rtol=1e-5)
    executor.backward(nd.ones((3, 2)))
    assert executor.grad_dict["w"].stype == right
    np.testing.assert_allclose(executor.grad_dict["w"].asnumpy(), data.T @ np.ones((3, 2)),
                               rtol=1e-5)


def test_a_hybrid_net_with_row_gradients_stays_compiled() -> None:
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Embedding(9, 4, sparse_grad=True), mx.gluon.nn.Dense(3, in_units=8))
    net.initialize()
    net.hybridize()
    with autograd.record():
        y = (net(nd.array([[1, 2], [1, 5]])) ** 2).sum()
    y.backward()
    grad = net[0].weight.grad()
    assert grad.stype == "row_sparse" and grad.indices.asnumpy().tolist() == [1, 2, 5]


def test_sparse_embedding_of_a_row_sparse_table() -> None:
    weight = nd.array([[1.0], [2.0], [3.0]]).tostype("row_sparse")
    weight.attach_grad()
    with autograd.record():
        y = nd.contrib.SparseEmbedding(nd.array([2, 2, 0]), weight, input_dim=3, output_dim=1)
    y.backward()
    assert y.asnumpy().ravel().tolist() == [3, 3, 1]
    assert weight.grad.stype == "row_sparse" and weight.grad.indices.asnumpy().tolist() == [0, 2]
    assert weight.grad.data.asnumpy().ravel().tolist() == [1, 2]


def test_batches_of_csr_rows() -> None:
    data = _matrix(10, 4, 0.5)
    iterator = mx.io.NDArrayIter(nd.array(data).tostype("csr"), np.arange(10), 4,
                                 last_batch_handle="discard")
    batches = list(iterator)
    assert [batch.data[0].stype for batch in batches] == ["csr", "csr"]
    np.testing.assert_array_equal(batches[1].data[0].asnumpy(), data[4:8])
    with pytest.raises(NotImplementedError, match="discard"):
        mx.io.NDArrayIter(nd.array(data).tostype("csr"), np.arange(10), 4)


def test_a_patch_of_sparse_rows_can_be_copied():
    whole = RowSparse((5, 2), np.array([0, 3]), np.ones((2, 2)))
    patch = RowPatch(whole, np.array([1, 3]), np.full((2, 2), 7.0))
    copied = patch.copy()
    assert copied.indices.tolist() == [0, 1, 3]
    assert copied.data.tolist() == [[1, 1], [7, 7], [7, 7]]
    assert patch.dense(np)[3].tolist() == [7, 7] and whole.indices.tolist() == [0, 3]


@pytest.mark.parametrize("stype", ["default", "csr", "row_sparse"])
def test_zeros_like_leaves_dtype_alone_in_every_storage_type(stype: str) -> None:
    made = nd.zeros_like(nd.array([[1, 0]]).tostype(stype), dtype="float64")
    assert made.stype == stype and made.dtype == np.float32 and made.asnumpy().dtype == np.float32
