"""``mx.np`` and ``mx.npx``: values and types as NumPy's, gradients by differences, Symbols."""
from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as onp
import pytest

import minigluon as mx
from minigluon import autograd, gluon, np, npx
from minigluon.base import MXNetError
from minigluon.gluon import nn


@pytest.fixture(autouse=True)
def _numpy_semantics() -> Any:
    npx.set_np()
    yield
    npx.reset_np()


def _draw(*shape: int, seed: int = 0) -> onp.ndarray:
    return onp.random.default_rng(seed).uniform(0.2, 0.9, shape).astype("float32")


A, V, M = _draw(3, 4), _draw(4, seed=1), _draw(4, 4, seed=2)

# what NumPy and np must agree on, as functions of the module
SAME: list[Any] = [
    lambda np, a, v, m: a + v, lambda np, a, v, m: 2 - a, lambda np, a, v, m: a / v,
    lambda np, a, v, m: a // 0.3, lambda np, a, v, m: a % 0.3, lambda np, a, v, m: 2 ** a,
    lambda np, a, v, m: -abs(a - 0.5), lambda np, a, v, m: a @ m, lambda np, a, v, m: v @ v,
    lambda np, a, v, m: (a > 0.5) & (a < 0.8), lambda np, a, v, m: ~(a > 0.5),
    lambda np, a, v, m: (a > 0.5) | (a == 0), lambda np, a, v, m: a != a,
    lambda np, a, v, m: a.sum(), lambda np, a, v, m: a.mean(axis=0),
    lambda np, a, v, m: a.max(axis=(0, 1), keepdims=True), lambda np, a, v, m: a.std(ddof=1),
    lambda np, a, v, m: np.var(a, axis=1), lambda np, a, v, m: np.ptp(a, axis=0),
    lambda np, a, v, m: np.argmax(a), lambda np, a, v, m: a.argmin(axis=1),
    lambda np, a, v, m: np.argsort(a, axis=0), lambda np, a, v, m: np.sort(a, axis=None),
    lambda np, a, v, m: np.cumsum(a), lambda np, a, v, m: np.all(a > 0.3, axis=1),
    lambda np, a, v, m: np.any(a > 0.8), lambda np, a, v, m: np.average(a, 0, np.ones(3)),
    lambda np, a, v, m: np.count_nonzero(a > 0.5, 0), lambda np, a, v, m: np.prod(a, axis=-1),
    lambda np, a, v, m: np.reshape(a, (2, -1)), lambda np, a, v, m: a.T,
    lambda np, a, v, m: a.transpose(1, 0), lambda np, a, v, m: np.moveaxis(a, 0, 1),
    lambda np, a, v, m: np.swapaxes(a, 0, 1), lambda np, a, v, m: np.squeeze(a[None]),
    lambda np, a, v, m: np.expand_dims(a, (0, 2)), lambda np, a, v, m: np.tile(a, 2),
    lambda np, a, v, m: np.repeat(a, 2), lambda np, a, v, m: np.flip(a, 1),
    lambda np, a, v, m: np.roll(a, 1, axis=1), lambda np, a, v, m: np.rot90(a),
    lambda np, a, v, m: np.tril(m), lambda np, a, v, m: np.triu(m, 1),
    lambda np, a, v, m: np.diag(v), lambda np, a, v, m: np.trace(m),
    lambda np, a, v, m: np.pad(a, ((1, 0), (0, 2))), lambda np, a, v, m: np.broadcast_to(v, (3, 4)),
    lambda np, a, v, m: np.concatenate([a, m]), lambda np, a, v, m: np.stack([a, a], -1),
    lambda np, a, v, m: np.vstack([v, v]), lambda np, a, v, m: np.hstack([v, v]),
    lambda np, a, v, m: np.dstack([v, v]), lambda np, a, v, m: np.column_stack([v, v]),
    lambda np, a, v, m: np.array_split(a, 3, 1)[0], lambda np, a, v, m: np.split(a, [1])[1],
    lambda np, a, v, m: np.append(v, v), lambda np, a, v, m: np.take(a, np.array([0, -1]), 1),
    lambda np, a, v, m: np.diff(a), lambda np, a, v, m: np.where(a > 0.5, a, v),
    lambda np, a, v, m: np.clip(a, 0.3, 0.6), lambda np, a, v, m: np.round(a, 1),
    lambda np, a, v, m: np.maximum(a, 0.5), lambda np, a, v, m: np.arctan2(a, v),
    lambda np, a, v, m: np.hypot(a, v),
    lambda np, a, v, m: np.ldexp(a, (np.ceil(v * 3)).astype('int32')),
    lambda np, a, v, m: np.copysign(a, v - 0.5),
    lambda np, a, v, m: np.dot(a, v), lambda np, a, v, m: np.tensordot(a, m, 1),
    lambda np, a, v, m: np.einsum("ij,jk->ki", a, m), lambda np, a, v, m: np.outer(v, v),
    lambda np, a, v, m: np.inner(a, m), lambda np, a, v, m: np.vdot(v, v),
    lambda np, a, v, m: np.kron(a, v), lambda np, a, v, m: np.cross(a[:, :3], a[:, 1:]),
    lambda np, a, v, m: np.linalg.norm(a), lambda np, a, v, m: np.linalg.norm(a, 1, 1),
    lambda np, a, v, m: np.linalg.norm(a, "fro"), lambda np, a, v, m: np.linalg.norm(m, onp.inf),
    lambda np, a, v, m: np.linalg.det(m), lambda np, a, v, m: np.linalg.inv(m),
    lambda np, a, v, m: np.linalg.slogdet(m)[1], lambda np, a, v, m: np.linalg.solve(m, v),
    lambda np, a, v, m: np.linalg.matrix_power(m, 3), lambda np, a, v, m: np.linalg.svd(m)[1],
    lambda np, a, v, m: np.linalg.cholesky(m @ m.T + 0.1 * np.eye(4)),
    lambda np, a, v, m: a[1, 2], lambda np, a, v, m: a[:, None, ::-1],
    lambda np, a, v, m: a[a > 0.5],
    lambda np, a, v, m: a[[0, 2], [1, 1]], lambda np, a, v, m: a[..., -1],
    lambda np, a, v, m: np.nan_to_num(a / (a > 0.5)), lambda np, a, v, m: np.isinf(1 / (a - a)),
    lambda np, a, v, m: np.median(a), lambda np, a, v, m: np.exp(a),
    lambda np, a, v, m: np.log1p(a), lambda np, a, v, m: np.sqrt(a),
    lambda np, a, v, m: np.arcsin(a), lambda np, a, v, m: np.fix(a * 3),
]


@pytest.mark.parametrize("number", range(len(SAME)))
def test_as_numpy(number: int) -> None:
    compute = SAME[number]
    with onp.errstate(all="ignore"):
        wanted = onp.asarray(compute(onp, A, V, M))
    found = compute(np, *[np.array(x) for x in (A, V, M)])
    assert type(found) is np.ndarray
    assert found.shape == wanted.shape
    assert found.dtype.kind == wanted.dtype.kind
    onp.testing.assert_allclose(found.asnumpy(), wanted, rtol=2e-4, atol=2e-5)


def test_types() -> None:
    whole, real, truth = np.array([1, 2], dtype="int32"), np.ones(2), np.array([1, 0], dtype="bool")
    assert (whole + real).dtype == "float32" and (whole * 2).dtype == "int32"
    assert (whole / whole).dtype == "float32" and (whole + 0.5).dtype == "float32"
    assert (whole // 2).dtype == "int32" and whole.mean().dtype == "float32"
    assert (truth * 2).dtype == "int64" and (truth * real).dtype == "float32"
    assert truth.sum().dtype == "int64" and np.exp(whole).dtype == "float32"
    assert (real + np.ones(2, dtype="float64")).dtype == "float64"
    assert np.arange(3).dtype == np.zeros(2).dtype == np.full((2,), 3).dtype == "float32"
    assert np.random.randint(0, 5, size=2).dtype == "int64"


def test_texts() -> None:
    assert repr(np.array([[1, 2], [3, 4]])) == "array([[1., 2.],\n       [3., 4.]])"
    assert repr(np.array([1], dtype="int32")) == "array([1], dtype=int32)"
    assert repr(np.array(2.5)) == "array(2.5)" and repr(np.array([1]) > 0) == "array([ True])"
    assert f"{np.array(2.5):.2f}" == "2.50"


def test_views_scalars_and_writing() -> None:
    x = np.zeros((2, 3))
    x[0][1], x[1, :2] = 5, np.array([1, 2])
    x += [[1, 1, 1]]
    assert x.tolist() == [[1, 6, 1], [2, 3, 1]]
    assert x.reshape(3, 2).shape == (3, 2) and x[1, 0].shape == () and float(x[1, 0]) == 2
    assert len(x) == 2 and [row.sum().item() for row in x] == [8, 6]
    y = np.sqrt(x, out=np.zeros((2, 3)))
    assert type(y) is np.ndarray and y[0, 0] == 1
    assert pickle.loads(pickle.dumps(x)).tolist() == x.tolist()
    assert onp.sum(x) == 14 and type(onp.concatenate([x, x])) is np.ndarray


GRADIENTS: list[tuple[Any, ...]] = [
    (lambda a, b: np.dot(a, b), (3, 4), (4,)), (lambda a, b: a @ b, (2, 1, 3, 4), (5, 4, 2)),
    (lambda a: a.std(axis=0), (3, 2)), (lambda a: a[[0, 0, 1], 1], (2, 2)),
    (lambda a: a[1, 1] * a, (2, 2)), (lambda a, b: np.where(a > 0.5, a * b, b), (3, 2), (2,)),
    (lambda a: np.linalg.norm(a), (3, 2)), (lambda a: np.linalg.det(a), (3, 3)),
    (lambda a: np.concatenate([a, a.T * a]).sum(axis=1), (2, 2)), (lambda a: np.diff(a) ** 2, (5,)),
    (lambda a: np.take(a, np.array([2, 0, 2]), 1), (2, 3)), (lambda a: npx.log_softmax(a), (2, 3)),
    (lambda a: np.einsum("ii->i", a) * np.trace(a), (3, 3)), (lambda a: a.mean() + 2 / a, (2, 3)),
]


@pytest.mark.parametrize("number", range(len(GRADIENTS)))
def test_gradients(number: int) -> None:
    compute, *shapes = GRADIENTS[number]
    xs = [np.array(_draw(*shape, seed=i), dtype="float64") for i, shape in enumerate(shapes)]
    for x in xs:
        x.attach_grad()
    with autograd.record():
        y = compute(*xs)
    weight = np.array(_draw(*y.shape, seed=9), dtype="float64")
    y.backward(weight)
    for i, x in enumerate(xs):
        assert type(x.grad) is np.ndarray
        along = np.array(_draw(*x.shape, seed=10 + i), dtype="float64")
        ends = [((compute(*xs[:i], x + step * along, *xs[i + 1:])) * weight).sum()
                for step in (1e-5, -1e-5)]
        slope = (ends[0] - ends[1]) / 2e-5
        assert float((x.grad * along).sum()) == pytest.approx(float(slope), rel=1e-5, abs=1e-7)


def test_functions_of_numpy_alone_have_no_gradient() -> None:
    x = np.ones(3)
    x.attach_grad()
    with autograd.record(), pytest.raises(mx.MXNetError, match="no gradient"):
        np.median(x * 2)
    assert np.median(x).item() == 1


class _Mixed(gluon.HybridBlock):
    def hybrid_forward(self, F: Any, x: Any) -> Any:
        rows = F.np.concatenate([F.npx.relu(x), F.np.mean(x, axis=1, keepdims=True)], axis=1)
        return F.np.where(rows > 0.3, F.np.dot(rows, F.np.transpose(rows)).sum(), rows)


def test_hybridized_as_eager() -> None:
    block, x = _Mixed(), np.array(A - 0.5)
    eager = block(x)
    block.hybridize()
    assert type(block(x)) is np.ndarray
    onp.testing.assert_allclose(block(x).asnumpy(), eager.asnumpy(), rtol=1e-6)


@pytest.mark.parametrize("hybrid", [False, True])
def test_training(hybrid: bool) -> None:
    mx.random.seed(3)
    weight = np.array([2.0, -3.4])
    features = np.random.normal(0, 1, (200, 2))
    labels = (np.dot(features, weight) + 4.2).reshape((-1, 1))
    batches = gluon.data.DataLoader(gluon.data.ArrayDataset(features, labels), 20, shuffle=True)
    net = nn.HybridSequential()
    net.add(nn.Dense(4), nn.Dense(1))
    net.initialize()
    if hybrid:
        net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.05})
    loss = gluon.loss.L2Loss()
    for _ in range(20):
        for data, label in batches:
            assert type(data) is type(label) is np.ndarray
            with autograd.record():
                error = loss(net(data), label)
            error.backward()
            trainer.step(20)
    assert type(net[0].weight.data()) is type(net[0].weight.grad()) is np.ndarray
    assert error.mean().shape == () and float(loss(net(features), labels).mean()) < 1e-3


def test_off_means_nd() -> None:
    npx.reset_np()
    net = nn.Dense(2, in_units=3)
    net.initialize()
    assert type(net.weight.data()) is mx.nd.NDArray and not mx.util.is_np_array()
    assert type(net(mx.nd.ones((1, 3)))) is mx.nd.NDArray
    assert type(net(np.ones((1, 3)))) is np.ndarray
    with mx.util.np_array(True):
        assert mx.util.is_np_array()

    @mx.util.use_np
    def inside() -> bool:
        return mx.util.is_np_array() and mx.util.is_np_shape()

    assert inside() and not mx.util.is_np_shape()


def test_between_the_faces() -> None:
    x = mx.nd.ones((2,))
    x.attach_grad()
    with autograd.record():
        y = (x.as_np_ndarray() * 3).sum().as_nd_ndarray()
    y.backward()
    assert type(y) is mx.nd.NDArray and x.grad.asnumpy().tolist() == [3, 3]
    x.as_np_ndarray()[0] = 7
    assert x[0].asscalar() == 7
    assert type(mx.nd.array(np.ones(2))) is mx.nd.NDArray
    assert type(np.array(x)) is np.ndarray


def test_files(tmp_path: Path) -> None:
    name = str(tmp_path / "x")
    npx.save(name, {"scalar": np.array(2.5), "none": np.zeros((0, 3)), "whole": np.ones(2)})
    found = npx.load(name)
    assert {key: value.shape for key, value in found.items()} == {
        "scalar": (), "none": (0, 3), "whole": (2,)}
    assert all(type(value) is np.ndarray for value in found.values())


def test_npx() -> None:
    x = np.array(A)
    assert npx.topk(x, k=2).shape == (3, 2) and npx.one_hot(np.array([1, 0]), 3).shape == (2, 3)
    assert npx.pick(x, np.array([0, 1, 2])).tolist() == [A[0, 0], A[1, 1], A[2, 2]]
    assert npx.reshape(np.ones((2, 3, 8)), (-2, -2, 2, -1)).shape == (2, 3, 2, 4)
    assert npx.reshape(np.ones((2, 3, 8)), (-5, -4)).shape == (6, 8)
    assert npx.reshape(np.ones((8, 3)), (-6, 2, -1, -4)).shape == (2, 4, 3)
    assert npx.reshape(np.ones((8, 1, 4)), (-1, -3, 2, 2), reverse=False).shape == (8, 2, 2)
    assert npx.nonzero(np.array([[0, 1], [2, 0]])).tolist() == [[0, 1], [1, 0]]
    full = npx.fully_connected(x, np.ones((2, 4)), np.zeros(2), num_hidden=2)
    assert type(full) is np.ndarray and full.shape == (3, 2)
    for dtype in ("float16", "float32", "float64"):
        kept = onp.concatenate([A[:2] > 0.5, onp.zeros((1, 4), "bool")])
        x = np.array(A, dtype=dtype)
        x.attach_grad()
        with autograd.record():
            masked = npx.masked_softmax(x, np.array(kept))
            squares = masked * masked
        squares.backward()
        assert masked.dtype == dtype and not masked.asnumpy()[~kept].any()
        onp.testing.assert_allclose(masked.sum(axis=1).asnumpy(), kept.any(1), rtol=2e-3)
        assert onp.isfinite(x.grad.asnumpy()).all() and not x.grad.asnumpy()[~kept].any()


def test_types_of_the_array_stay() -> None:
    whole = np.array([3, 123, 456], dtype="int32")
    out = np.zeros(3)
    assert np.full_like(whole, 7, out=out) is out and out.tolist() == [7, 7, 7]
    for mine, theirs in ((np.full_like(whole, 2.5), onp.full_like(whole.asnumpy(), 2.5)),
                         (np.full_like(np.ones(2), True, dtype="bool"), onp.ones(2, "bool")),
                         (np.around(whole, -1), onp.around(whole.asnumpy(), -1)),
                         (np.array([50331651], dtype="int64") // 3, onp.array([16777217]))):
        assert mine.dtype == theirs.dtype and mine.tolist() == theirs.tolist()
    assert np.fmax(np.array([float("nan"), 2]), 1).tolist() == [1, 2]


def test_use_np_leaves_static_and_class_methods_what_they_are() -> None:
    npx.reset_np()

    @npx.use_np
    class Thing:
        @staticmethod
        def plain(x: int) -> Any:
            return x, npx.is_np_array()

        @classmethod
        def of_class(cls, x: int) -> Any:
            return cls.__name__, x, npx.is_np_array()

    assert Thing().plain(1) == Thing.plain(1) == (1, True)
    assert Thing().of_class(2) == ("Thing", 2, True) and not npx.is_np_array()


def test_draws() -> None:
    mx.random.seed(1)
    x = np.random.normal(np.array([0.0, 10.0]), 2.0, (4000, 2))
    assert x.dtype == "float32" and abs(x.mean(axis=0) - np.array([0, 10])).max() < 0.2
    assert abs(x.std().item() ** 2 - 29) < 2 and np.random.normal().shape == ()
    assert np.random.multinomial(10, [0.5, 0.5]).sum().item() == 10
    assert sorted(np.random.choice(5, 5, replace=False).tolist()) == [0, 1, 2, 3, 4]
    y = np.arange(6)
    np.random.shuffle(y)
    assert sorted(y.tolist()) == [0, 1, 2, 3, 4, 5]
    scale = np.ones(3)
    scale.attach_grad()
    with autograd.record():
        z = np.random.normal(0, scale)
    z.backward()
    onp.testing.assert_allclose(scale.grad.asnumpy(), z.asnumpy())
    mx.random.seed(1)
    assert (np.random.normal(np.array([0.0, 10.0]), 2.0, (4000, 2)) == x).all()


@pytest.mark.parametrize(("compute", "error", "text"), [
    (lambda x: x.reshape(5), ValueError, "cannot reshape an array of shape"),
    (lambda x: np.dot(x, np.ones(3)), ValueError, "np.dot: shapes"),
    (lambda x: np.concatenate([]), ValueError, "need at least one array"),
    (lambda x: np.split(x, 3), ValueError, "cannot be cut into 3"),
    (lambda x: x.sum(axis=3), IndexError, "axis 3 is out of bounds"),
    (lambda x: bool(x), ValueError, "ambiguous"),
    (lambda x: np.random.normal(0, -1), ValueError, "scale"),
    (lambda x: np.where(x, x), TypeError, "both x and y"),
    (lambda x: np.no_such_function, AttributeError, "no attribute 'no_such_function'"),
    (lambda x: x[0, 5], IndexError, "for shape"),
    (lambda x: np.linalg.det(np.ones((2, 3))), ValueError, "square"),
    (lambda x: npx.set_np(shape=False, array=True), ValueError, "shape=True"),
    (lambda x: npx.reshape(x, (-6, 2)), ValueError, "two sizes that follow"),
])
def test_misuse(compute: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        compute(np.ones((2, 2)))


def _slopes(function, x):
    """The gradient at x by central differences."""
    found = onp.zeros_like(x)
    for place in onp.ndindex(*x.shape):
        ends = []
        for step in (1e-6, -1e-6):
            moved = x.copy()
            moved[place] += step
            ends.append(float(function(np.array(moved, dtype="float64"))))
        found[place] = (ends[0] - ends[1]) / 2e-6
    return found


def _weighed(parts):
    """A number that depends on every element of these in its own way."""
    return sum((part * np.array(onp.cos(onp.arange(part.size)).reshape(part.shape),
                                dtype="float64")).sum() for part in parts)


@pytest.mark.parametrize(("shape", "function"), [
    ((3, 4), np.linalg.svd), ((4, 3), np.linalg.svd), ((3, 3), np.linalg.svd),
    ((2, 2, 3), np.linalg.svd),
    ((3, 3), lambda x: [np.linalg.solve(x, x[0])]), ((3, 3), lambda x: [np.linalg.solve(x, x * x)]),
    ((2, 3, 3), lambda x: [np.linalg.solve(x, x[:, :, :2])]),
    ((3, 3), lambda x: [np.linalg.tensorinv(x, ind=1)]),
    ((4, 2, 2), lambda x: [np.linalg.tensorsolve(x, x[:, 0, 1])]),
    ((2, 3), lambda x: [np.ediff1d(x, to_end=x[0], to_begin=5)]),
    ((2, 3), lambda x: [np.polyval(x[0], x)]),
])
def test_gradients_of_what_numpy_solves(shape, function):
    x = onp.random.RandomState(3).rand(*shape)
    if shape[-1] == shape[-2]:
        x += 2 * onp.eye(shape[-1])
    array = np.array(x, dtype="float64")
    array.attach_grad()
    with mx.autograd.record():
        total = _weighed(function(array))
    total.backward()
    slopes = _slopes(lambda a: _weighed(function(a)), x)
    onp.testing.assert_allclose(array.grad.asnumpy(), slopes, rtol=1e-6, atol=1e-7)


def test_equations_and_singular_values_equal_numpys():
    rng = onp.random.RandomState(1)
    a, b, t = rng.rand(2, 4, 4) + onp.eye(4), rng.rand(2, 4, 3), rng.rand(6, 2, 3)
    ours = [np.array(each, dtype="float64") for each in (a, b, t)]
    onp.testing.assert_allclose(np.linalg.solve(*ours[:2]).asnumpy(), onp.linalg.solve(a, b))
    for found, wanted in zip(np.linalg.svd(ours[1]), onp.linalg.svd(b, full_matrices=False),
                             strict=True):
        onp.testing.assert_allclose(found.asnumpy(), wanted)
    onp.testing.assert_allclose(
        np.linalg.tensorsolve(ours[2].transpose(1, 0, 2), ours[1][0, :2, :3], axes=1).asnumpy(),
        onp.linalg.tensorsolve(t.transpose(1, 0, 2), b[0, :2, :3], axes=(1,)))
    with pytest.raises(MXNetError, match=r"np.linalg.solve: expected \(..., n, n\)"):
        np.linalg.solve(ours[0], ours[0][:, :3])
    with pytest.raises(MXNetError, match=r"np.linalg.solve: expected \(..., n, n\)"):
        np.linalg.solve(np.ones((2, 4, 4)), np.ones((4,)))
    with pytest.raises(MXNetError, match=r"np\.linalg\.solve: [Ss]ingular"):
        np.linalg.solve(np.zeros((2, 2)), np.ones((2, 2))).asnumpy()
    with pytest.raises(ValueError, match="ind"):
        np.linalg.tensorinv(ours[0], ind=0)
    with pytest.raises(ValueError, match=r"tensorsolve: axes: expected a number from -3 to 2"):
        np.linalg.tensorsolve(ours[2], ours[1][0, :2, :3], axes=(7,))


def test_draws_of_npx():
    mx.random.seed(5)
    loc = np.array([0, 100])
    drawn = npx.random.normal_n(loc, 1.0, batch_shape=(1000,))
    assert drawn.shape == (1000, 2) and abs(drawn.mean(axis=0) - loc).max() < 0.2
    drawn = npx.random.uniform_n(np.zeros((2, 1)), np.array([1, 5]), batch_shape=500)
    assert drawn.shape == (500, 2, 2)
    assert drawn.max(axis=0).asnumpy() == pytest.approx(onp.array([[1, 5], [1, 5]]), rel=0.05)
    drawn = npx.random.bernoulli(np.array([0.0, 0.25, 1.0]), size=(2000, 3), dtype="int32")
    assert drawn.dtype == onp.int32
    assert drawn.mean(axis=0).asnumpy() == pytest.approx(onp.array([0, 0.25, 1]), abs=0.05)
    assert float(npx.random.bernoulli(logit=onp.log(3.0), size=2000).mean()) == pytest.approx(
        0.75, abs=0.05)
    for wrong in ({}, {"prob": 0.5, "logit": 0.0}, {"prob": 1.5}):
        with pytest.raises(ValueError, match="bernoulli"):
            npx.random.bernoulli(**wrong)
    assert bool(npx.constraint_check(loc >= 0, "negative"))
    with pytest.raises(ValueError, match="negative"):
        npx.constraint_check(loc > 0, "negative")
