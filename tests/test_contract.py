"""Lines of the contract that no other file shows as they stand: corners, methods, failed rows."""
import numpy as np
import pytest

import minigluon as mx
from minigluon import autograd, nd, nn

METHODS = """flatten norm round rint fix floor ceil trunc zeros_like ones_like abs sign sin cos tan
arcsin arctan sinh cosh tanh arcsinh degrees radians exp expm1 square reciprocal argmax_channel
shape_array size_array log log10 log2 log1p sqrt rsqrt cbrt rcbrt relu sigmoid softmax log_softmax
softmin sort topk argsort transpose sum nansum prod nanprod mean max min argmax argmin diag
squeeze""".split()
WITH_SETTINGS = [
    ("expand_dims", {"axis": 1}), ("flip", {"axis": 0}), ("one_hot", {"depth": 3}),
    ("tile", {"reps": (2, 1)}), ("repeat", {"repeats": 2}), ("slice", {"begin": (1, 0),
                                                                       "end": (2, 2)}),
    ("slice_axis", {"axis": 1, "begin": 0, "end": 2}), ("clip", {"a_min": 0.2, "a_max": 0.8}),
    ("swapaxes", {"dim1": 0, "dim2": 1}), ("broadcast_to", {"shape": (2, 3)})]


@pytest.mark.parametrize(("name", "settings"), [*((name, {}) for name in METHODS),
                                                *WITH_SETTINGS])
def test_a_method_is_its_function(name, settings):
    x = nd.array(np.random.RandomState(1).uniform(0.1, 0.9, (2, 3)))
    by_method, by_function = getattr(x, name)(**settings), getattr(nd, name)(x, **settings)
    assert by_method.dtype == by_function.dtype
    np.testing.assert_array_equal(by_method.asnumpy(), by_function.asnumpy())


@pytest.mark.parametrize(("dtype", "digits"), [("float16", 1), ("float32", 4), ("float64", 6)])
@pytest.mark.parametrize("name", ["sum", "max", "min"])
@pytest.mark.parametrize("special", [(), (np.nan,), (np.inf,), (-np.inf,), (np.inf, -np.inf)])
def test_reductions_of_nan_and_inf_are_numpys(name, dtype, digits, special):
    values = np.random.RandomState(2).uniform(-1, 1, (3, 4)).astype(dtype)
    for place, value in enumerate(special):
        values[place, 2] = value
    x = nd.array(values, dtype=dtype)
    for axis in (None, 0, 1):
        with np.errstate(invalid="ignore"):
            expected = getattr(values, name)(axis=axis)
        found = getattr(nd, name)(x) if axis is None else getattr(nd, name)(x, axis=axis)
        assert found.dtype == np.dtype(dtype).type
        np.testing.assert_almost_equal(found.asnumpy(), np.reshape(expected, found.shape), digits)


def test_rounding_and_its_gradients():
    x = nd.array([2.5, -0.5, 0.5, 1.5, -1.5])
    assert nd.round(x).asnumpy().tolist() == [3, -1, 1, 2, -2]
    assert nd.rint(x).asnumpy().tolist() == [2, -1, 0, 1, -2]
    assert nd.fix(x).asnumpy().tolist() == nd.trunc(x).asnumpy().tolist() == [2, 0, 0, 1, -1]
    x.attach_grad()
    for function in (nd.round, nd.rint, nd.fix, nd.trunc, nd.floor, nd.ceil):
        with autograd.record():
            y = function(x)
        y.backward()
        assert x.grad.asnumpy().tolist() == [0] * 5


def test_gradients_at_corners():
    x, y = nd.array([1.0, 2.0, 3.0]), nd.array([1.0, 3.0, 2.0])
    for function, left in ((nd.maximum, [1, 0, 1]), (nd.minimum, [1, 1, 0])):
        x.attach_grad()
        y.attach_grad()
        with autograd.record():
            z = function(x, y)
        z.backward()
        assert x.grad.asnumpy().tolist() == left
        assert y.grad.asnumpy().tolist() == [1 - one for one in left]
    x.attach_grad()
    with autograd.record():
        z = nd.clip(x, 1, 2)
    z.backward()
    assert x.grad.asnumpy().tolist() == [1, 1, 0]


class Reshaped(nn.HybridBlock):
    def __init__(self, layer, change, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.layer, self.change = layer, change

    def hybrid_forward(self, F, x):
        return self.layer(self.change(x))


@pytest.mark.parametrize("change", [
    lambda x: x.slice(begin=(0, 0, 1, 1), end=(4, 3, 5, 6)), lambda x: x.reshape((0, 0, -3)),
    lambda x: x.reshape((-1, 3, 12, 3)), lambda x: x.slice(
        begin=(1, 0, 0, 0), end=(3, 2, 6, 6)).reshape((0, 4, 3, -1))],
    ids=["slice", "fold", "reshape", "both"])
@pytest.mark.parametrize("make", [
    lambda: nn.Dense(3), lambda: nn.Activation("tanh"), lambda: nn.BatchNorm(),
    lambda: nn.Conv2D(2, 3), lambda: nn.Conv2DTranspose(2, 3), lambda: nn.MaxPool2D(2),
    lambda: nn.GlobalAvgPool2D()], ids=["dense", "act", "bn", "conv", "deconv", "pool", "global"])
def test_slices_and_reshapes_before_a_layer(make, change):
    x = nd.array(np.random.RandomState(3).uniform(-1, 1, (4, 3, 6, 6)))
    layer = make()
    if change(x).ndim == 3 and not isinstance(layer, (nn.Dense, nn.Activation, nn.BatchNorm)):
        pytest.skip("a layer of images")
    net = Reshaped(layer, change)
    net.initialize()
    x.attach_grad()
    found = []
    for hybridize in (False, True):
        net.hybridize(hybridize)
        with autograd.record():
            y = net(x)
        y.backward()
        found.append((y.asnumpy(), x.grad.asnumpy()))
    for eager, graph in zip(*found, strict=True):
        np.testing.assert_allclose(graph, eager, rtol=1e-5, atol=1e-6)


def test_rows_of_a_failed_array():
    failed = nd.random.normal(0, -1, (10, 10))
    with pytest.raises(mx.MXNetError):
        failed[0].asnumpy()
    failed[1].asnumpy()  # it was told


def test_pickled_optimizers_and_symbols():
    import pickle

    symbol = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")
    assert pickle.loads(pickle.dumps(symbol)).tojson() == symbol.tojson()
    for name in ("sgd", "adam", "rmsprop", "ftrl"):
        optimizer = mx.optimizer.create(name, learning_rate=0.25, wd=0.5)
        again = pickle.loads(pickle.dumps(optimizer))
        assert type(again) is type(optimizer) and (again.lr, again.wd) == (0.25, 0.5)
