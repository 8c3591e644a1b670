"""Blocks that compute with NumPy's methods, operators and indexing: hybridized as eager."""
import numpy as onp
import pytest

from minigluon import autograd, cpu, gluon, init, np, npx, random
from minigluon.gluon import nn

A = onp.array([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]], "float32")


@pytest.fixture(autouse=True)
def numpy_mode():
    npx.set_np()
    yield
    npx.reset_np()


class Block(gluon.HybridBlock):
    def __init__(self, compute):
        super().__init__()
        self.compute = compute

    def hybrid_forward(self, F, x):
        return self.compute(F, x)


MATRIX = {
    "x.sum()": lambda F, x: x.sum(),
    "x.max()": lambda F, x: x.max(),
    "x.argmax": lambda F, x: x.argmax(axis=1),
    "x.var": lambda F, x: x.var(axis=0),
    "broadcast": lambda F, x: x - x.mean(axis=1, keepdims=True),
    "scalar and array": lambda F, x: x.sum() * x + x.mean(axis=0) / 2,
    "x.T": lambda F, x: x.T,
    "transpose": lambda F, x: x.transpose(1, 0) @ x,
    "reshape": lambda F, x: x.reshape(3, 2).reshape((-1,)),
    "flatten": lambda F, x: x.flatten(),
    "copy": lambda F, x: x.copy(),
    "x[0]": lambda F, x: x[0],
    "x[-1, 1]": lambda F, x: x[-1, 1],
    "x[:, 1:]": lambda F, x: x[:, 1:],
    "x[..., None, ::-1]": lambda F, x: x[..., None, ::-1],
    "outputs": lambda F, x: x.split(3, axis=1)[1],
    "numbers": lambda F, x: (1 - x) ** 2 // 3 + abs(-x) % 2,
    "comparison": lambda F, x: F.np.where(x > x.mean(), x, 0 * x),
    "npx": lambda F, x: F.npx.relu(x - 3).sum(axis=0),
    "einsum": lambda F, x: F.np.einsum("ij,kj->ik", x, x)[0],
    "ones and arange": lambda F, x: F.np.ones((3,)) + F.np.arange(3) * x + F.np.arange(1, 3, 0.7),
    "zeros, concatenated": lambda F, x: F.np.concatenate([x, F.np.zeros((2, 1))], axis=1),
    "full of a Symbol": lambda F, x: F.np.full((2, 3), x[0, 0]) + F.np.full((3,), 2) * x,
    "eye": lambda F, x: F.np.dot(x, F.np.eye(3)) + F.np.dot(x, F.np.identity(3)),
    "linspace": lambda F, x: F.np.linspace(0, 1, 3) + F.np.linspace(0, 2, 3, endpoint=False) * x,
    "draws": lambda F, x: 0 * F.np.random.normal(x, 2) + 0 * F.np.random.uniform(size=(3,)) + x,
    "npx.reshape": lambda F, x: F.npx.reshape(x, (-2, -6, -1, 3)) * 2,
    "hypot, arctan2": lambda F, x: F.np.hypot(x, 2) + F.np.arctan2(1, x),
    "round": lambda F, x: F.np.round(x / 2) + F.np.around(x / 7, 1) + x,
    "draws of integers": lambda F, x: x + F.np.random.randint(2, 3, size=(3,)).astype("float32"),
}
SCALAR = {
    "x[None]": lambda F, x: x[None],
    "x[()]": lambda F, x: x[()] * 2,
    "flatten": lambda F, x: x.flatten(),
    "einsum": lambda F, x: F.np.einsum(",i->i", x, x.reshape(1)),
    "tensordot": lambda F, x: F.np.tensordot(x, x.reshape(1), 0),
}
CASES = [pytest.param(A, each, id=name) for name, each in MATRIX.items()]
CASES += [pytest.param(onp.float32(1.5), each, id=f"() {name}") for name, each in SCALAR.items()]


@pytest.mark.parametrize(("host", "compute"), CASES)
def test_hybridized_as_eager(host, compute):
    results = []
    for hybrid in (False, True):
        block, x = Block(compute), np.array(host)
        if hybrid:
            block.hybridize()
        x.attach_grad()
        with autograd.record():
            y = block(x)
        y.backward()
        results.append((y, x.grad))
    for eager, graph in zip(*results, strict=True):
        assert type(graph) is np.ndarray
        assert (graph.shape, graph.dtype) == (eager.shape, eager.dtype)
        onp.testing.assert_allclose(graph.asnumpy(), eager.asnumpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("compute", "text"), [
    (lambda F, x: x[x > 2], "np.take"),
    (lambda F, x: x[[0, 1]], "np.take"),
    (lambda F, x: x + F.np.array([1, 2, 3]), "np.full_like"),
])
def test_what_a_graph_cannot(compute, text):
    block = Block(compute)
    block.hybridize()
    with pytest.raises(TypeError, match=text):
        block(np.array(A))


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adadelta", "lamb", "nadam", "adamax"])
def test_parameters_of_shape_nothing(hybrid, optimizer, tmp_path):
    class Scaled(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.scale = self.params.get("scale", shape=(), init=init.Constant(2))

        def hybrid_forward(self, F, x, scale):
            return (x * scale).sum()

    block = Scaled()
    block.initialize()
    if hybrid:
        block.hybridize()
    trainer = gluon.Trainer(block.collect_params(), optimizer)
    with autograd.record():
        loss = block(np.ones((2, 2)))
    loss.backward()
    assert loss.shape == block.scale.grad().shape == ()
    assert float(block.scale.grad()) == 4
    trainer.step(1)
    assert block.scale.data().shape == () and float(block.scale.data()) < 2
    block.save_parameters(str(tmp_path / "p"))
    other = Scaled()
    other.load_parameters(str(tmp_path / "p"))
    assert float(other.scale.data()) == float(block.scale.data())


def test_a_scalar_on_two_devices():
    scale = gluon.Parameter("scale", shape=())
    scale.initialize(init.One(), ctx=[cpu(0), cpu(1)])
    trainer = gluon.Trainer([scale], "sgd", {"learning_rate": 1.0})
    with autograd.record():
        losses = [scale.data(ctx) * 2 for ctx in scale.list_ctx()]
    autograd.backward(losses)
    trainer.step(1)
    assert [float(each) for each in scale.list_data()] == [-3, -3]


@pytest.mark.parametrize("hybrid", [False, True])
def test_a_batch_of_no_samples(hybrid):
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3), nn.BatchNorm(), nn.MaxPool2D(), nn.Flatten(), nn.Dense(2))
    net.initialize()
    if hybrid:
        net.hybridize()
    net(np.ones((2, 3, 8, 8)))
    x = np.zeros((0, 3, 8, 8))
    x.attach_grad()
    with autograd.record():
        y = net(x)
        loss = y.sum()
    loss.backward()
    assert y.shape == (0, 2) and x.grad.shape == x.shape
    assert float(abs(net[0].weight.grad()).max()) == 0
    assert float(net[1].running_mean.data().sum()) == 0  # not nan


def test_no_rows_to_fold():
    x = np.zeros((0, 3))
    for name in ("max", "min", "argmax", "argmin"):
        assert getattr(x, name)(axis=1).shape == (0,)
        with pytest.raises(ValueError, match="no elements"):
            getattr(x, name)(axis=0)


def test_new_arrays_of_a_graph_have_the_types_of_eager_ones():
    made = [lambda F, x: F.np.ones((2,), dtype="int32"), lambda F, x: F.np.zeros(3),
            lambda F, x: F.np.full((2,), True), lambda F, x: F.np.random.randint(5, size=4),
            lambda F, x: F.np.arange(3, dtype="int64"), lambda F, x: F.np.random.randn(2, 3),
            lambda F, x: F.np.random.exponential(size=(2,)), lambda F, x: F.np.empty((1, 2))]
    for compute in made:
        eager, hybrid = (Block(lambda F, x, compute=compute: (compute(F, x), x))
                         for _ in range(2))
        hybrid.hybridize()
        (a, _), (b, _) = eager(np.array(A)), hybrid(np.array(A))
        assert (a.shape, a.dtype, type(a)) == (b.shape, b.dtype, type(b))


@pytest.mark.parametrize("compute", [
    lambda F, i: i + 2.5, lambda F, i: 0.5 * i, lambda F, i: i / 2, lambda F, i: 3 / (i + 1),
    lambda F, i: i // 2, lambda F, i: (i - 7) // 2, lambda F, i: i // 2.0,
    lambda F, i: i // (i + 1), lambda F, i: i**0.5, lambda F, i: i == 2.5, lambda F, i: i < 1.5,
    lambda F, i: i + 2, lambda F, i: i / (i + 1), lambda F, i: F.np.exp(i),
    lambda F, i: i.mean(), lambda F, i: i.sum(),
    lambda F, i: F.np.std(i), lambda F, i: F.np.hypot(i, 1), lambda F, i: F.np.arctan2(1, i),
    lambda F, i: (2 - i % 4).sum() / 2, lambda F, i: F.np.maximum(i, 6).max() // 4,
    lambda F, i: i.reshape(1, 3).T * 2 - 0.5, lambda F, i: F.np.clip(i, 0.5, None),
])
@pytest.mark.parametrize("made", [
    lambda F, x: F.np.arange(5, 8, dtype="int32"), lambda F, x: (3 * x[1]).astype("int64"),
    lambda F, x: F.np.argmax(F.np.stack([x[0], x[1], 9 - x[1]]), axis=0)])
def test_integers_that_a_graph_tells_meet_numbers_as_outside_it(made, compute):
    found = []
    for hybrid in (False, True):
        block = Block(lambda F, x: (compute(F, made(F, x)), x))
        block.hybridize(hybrid)
        found.append(block(np.array(A))[0])
    eager, graph = found
    assert (graph.shape, graph.dtype) == (eager.shape, eager.dtype)
    onp.testing.assert_allclose(graph.asnumpy(), eager.asnumpy(), rtol=1e-6)


@pytest.mark.parametrize("axis", [(0, 2), (2, 0), (-1, -3), (-3, -2)])
def test_norms_of_singular_values_keep_their_axes_in_a_graph(axis):
    block = Block(lambda F, x: F.np.linalg.norm(x, "nuc", axis=axis, keepdims=True))
    x = np.array(onp.random.RandomState(1).normal(size=(2, 3, 4)))
    expected = onp.linalg.norm(x.asnumpy(), "nuc", axis=axis, keepdims=True)
    for hybrid in (False, True):
        block.hybridize(hybrid)
        assert block(x).shape == expected.shape
        onp.testing.assert_allclose(block(x).asnumpy(), expected, rtol=1e-5)


@pytest.mark.parametrize(("name", "parameters"), [
    ("normal", (1, 2)), ("uniform", (-1, 2)), ("exponential", (2,)), ("gumbel", (1, 2)),
    ("logistic", (1, 2)), ("laplace", (1, 2)), ("rayleigh", (2,)), ("lognormal", (0.1, 0.3)),
    ("weibull", (2,)), ("pareto", (5,)), ("power", (3,)), ("gamma", (3, 2)), ("chisquare", (3,)),
    ("beta", (2, 3)),
])
def test_draws_in_a_graph_have_the_distribution_of_eager_ones(name, parameters):
    size = (20000,)
    block = Block(lambda F, x: getattr(F.np.random, name)(*parameters, size=size) + 0 * x.sum())
    block.hybridize()
    drawn = block(np.array(A)).asnumpy()
    eager = getattr(np.random, name)(*parameters, size=size).asnumpy()
    quarters = onp.quantile(eager, [0.1, 0.25, 0.5, 0.75, 0.9])
    spread = quarters[3] - quarters[1]
    assert abs(onp.quantile(drawn, [0.1, 0.25, 0.5, 0.75, 0.9]) - quarters).max() < 0.1 * spread


@pytest.mark.parametrize(("name", "draw", "shape"), [
    ("numbers", lambda R, x: R.normal_n(1, 2, batch_shape=(4000, 3)) + 0 * x[0], (4000, 3)),
    ("an array", lambda R, x: R.normal_n(x, 2, batch_shape=(4000, 2)), (4000, 2, 2, 3)),
    ("two", lambda R, x: R.normal_n(x, x[:1], batch_shape=4000), (4000, 2, 3)),
    ("no batch", lambda R, x: R.uniform_n(x, x + 1), (2, 3)),
    ("evenly", lambda R, x: R.uniform_n(x, 9.0, batch_shape=(4000,)), (4000, 2, 3)),
    ("prob", lambda R, x: R.bernoulli(x / 10, size=(4000, 2, 3)), (4000, 2, 3)),
    ("logit", lambda R, x: R.bernoulli(logit=x - 3, size=(4000, 2, 3), dtype="int32"),
     (4000, 2, 3)),
    ("its shape", lambda R, x: R.bernoulli(x > 2), (2, 3)),
])
def test_batches_drawn_in_a_graph_have_the_distribution_of_eager_ones(name, draw, shape):
    random.seed(5)
    seen = []
    for hybridized in (False, True):
        block = Block(lambda F, x: draw(F.npx.random, x))
        block.hybridize(hybridized)
        seen.append(block(np.array(A)))
    eager, drawn = seen
    assert eager.shape == drawn.shape == shape and eager.dtype == drawn.dtype
    assert type(eager) is type(drawn)
    if shape[0] > 2:
        for part in (onp.mean, onp.std):
            onp.testing.assert_allclose(*(part(each.asnumpy(), axis=0) for each in seen), atol=0.4)


def test_batches_drawn_in_a_graph_have_gradients_and_refuse_what_eager_ones_do():
    x = np.array(A)
    x.attach_grad()
    block = Block(lambda F, x: F.npx.random.uniform_n(x, x + 1, batch_shape=(5, 2)))
    block.hybridize()
    with autograd.record():
        total = block(x).sum()
    total.backward()
    assert (x.grad.asnumpy() == 10).all()
    block = Block(lambda F, x: F.npx.random.bernoulli(x, logit=x))
    block.hybridize()
    with pytest.raises(ValueError, match="expected one of prob and logit, got both"):
        block(x)
