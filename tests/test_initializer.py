"""Initializers: which rule a name gets, ranges and spreads, names and texts, files."""
import json
import math

import numpy as np
import pytest

import minigluon as mx
from minigluon import initializer as init
from minigluon import nd
from minigluon.initializer import InitDesc


def filled(initializer, name, shape=(20, 40), **attrs):
    arr = nd.full(shape, 7.0)
    initializer(InitDesc(name, attrs), arr)
    return arr.asnumpy()


@pytest.mark.parametrize(("ending", "value"), [
    ("bias", 0), ("gamma", 1), ("beta", 0), ("running_mean", 0), ("running_var", 1),
    ("moving_mean", 0), ("moving_var", 1), ("moving_avg", 0), ("min", 0), ("max", 1)])
def test_the_ending_of_the_name_decides(ending, value):
    assert (filled(init.Uniform(), "net_" + ending) == value).all()
    assert (filled(init.Uniform(), ("net_" + ending).upper()) == value).all()


def test_unknown_endings():
    with pytest.raises(ValueError, match="no rule for a parameter called 'net_foo'"):
        filled(init.Uniform(), "net_foo")
    assert (filled(init.One(), "net_foo") == 1).all()
    assert (filled(init.Zero(), "net_foo") == 0).all()
    assert (filled(init.Constant(3), "net_foo") == 3).all()
    with pytest.raises(TypeError, match="expected the parameter's name"):
        init.One()(3, nd.ones((1,)))


def test_the_attribute_comes_before_the_name():
    assert (filled(init.Uniform(), "x_bias", __init__="one") == 1).all()
    values = filled(init.Uniform(), "x_bias", __init__=init.LSTMBias(3).dumps(), shape=(8,))
    assert values.tolist() == [0, 0, 3, 3, 0, 0, 0, 0]


# expected: the bounds of a uniform draw, or the deviation of a normal one (formulas of MXNet)
@pytest.mark.parametrize(("initializer", "shape", "bound", "deviation"), [
    (init.Uniform(0.5), (20, 40), 0.5, None),
    (init.Normal(2), (20, 40), None, 2),
    (init.Xavier(), (20, 40), math.sqrt(3 / 30), None),
    (init.Xavier(), (20, 3, 3, 3), math.sqrt(3 / 103.5), None),
    (init.Xavier("uniform", "out", 1), (20, 40), math.sqrt(1 / 20), None),
    (init.Xavier("gaussian", "in", 2), (20, 40), None, math.sqrt(2 / 40)),
    (init.MSRAPrelu(), (20, 40), None, math.sqrt(2 / 1.0625 / 30)),
    (init.MSRAPrelu("in", 0.1), (20, 40), None, math.sqrt(2 / 1.01 / 40)),
])
def test_ranges_and_spreads(initializer, shape, bound, deviation):
    mx.random.seed(3)
    values = filled(initializer, "w_weight", shape)
    if bound is not None:
        assert 0.9 * bound < abs(values).max() <= bound
        deviation = bound / math.sqrt(3)
    assert values.std() == pytest.approx(deviation, rel=0.1)
    assert abs(values.mean()) < 0.15 * deviation


@pytest.mark.parametrize("shape", [(20, 40), (40, 20), (6, 3, 2, 2)])
@pytest.mark.parametrize("kind", ["uniform", "normal"])
def test_orthogonal(shape, kind):
    values = filled(init.Orthogonal(2, kind), "w_weight", shape).reshape(shape[0], -1) / 2
    product = values @ values.T if values.shape[0] <= values.shape[1] else values.T @ values
    np.testing.assert_allclose(product, np.eye(len(product)), atol=1e-5)


def test_bilinear_is_an_outer_product():
    row = [0.25, 0.75, 0.75, 0.25]
    values = filled(init.Bilinear(), "up_weight", (2, 1, 4, 4))
    np.testing.assert_allclose(values, np.broadcast_to(np.outer(row, row), (2, 1, 4, 4)))


def test_equal_seeds_give_equal_draws():
    for one in (init.Xavier(), init.Normal(), init.Orthogonal()):
        mx.random.seed(11)
        first = filled(one, "w_weight")
        other = filled(one, "w_weight")
        mx.random.seed(11)
        assert (filled(one, "w_weight") == first).all() and (other != first).any()


def test_element_type_is_kept():
    for dtype in ("float16", "float64"):
        arr = nd.zeros((3, 4), dtype=dtype)
        init.Xavier()(InitDesc("w_weight"), arr)
        assert arr.dtype is np.dtype(dtype).type and arr.asnumpy().any()


def test_settings_that_cannot_be():
    with pytest.raises(ValueError, match="two axes"):
        filled(init.Xavier(), "w_weight", (20,))
    with pytest.raises(ValueError, match="factor_type"):
        filled(init.Xavier(factor_type="sideways"), "w_weight")
    with pytest.raises(ValueError, match="rnd_type"):
        filled(init.Xavier("cauchy"), "w_weight")
    with pytest.raises(ValueError, match="rand_type"):
        init.Orthogonal(rand_type="cauchy")
    with pytest.raises(ValueError, match="cannot hold the parameters of mode 'lstm'"):
        init.FusedRNN("one", 3, 1, "lstm")("rnn_weight", nd.zeros((85,)))
    with pytest.raises(ValueError, match="no initializer for the weights"):
        init.FusedRNN(None, 3, 1, "lstm")._init_weight("rnn_weight", nd.zeros((84,)))


@pytest.mark.parametrize(("made", "text"), [
    (init.Zero(), '["zero", {}]'), (init.One(), '["one", {}]'),
    (init.Constant(1), '["constant", {"value": 1}]'),
    (init.Constant(nd.ones((2,))), '["constant", {"value": [1.0, 1.0]}]'),
    (init.Constant(np.ones(2)), '["constant", {"value": [1.0, 1.0]}]'),
    (init.Uniform(), '["uniform", {"scale": 0.07}]'),
    (init.Normal(), '["normal", {"sigma": 0.01}]'),
    (init.Orthogonal(), '["orthogonal", {"scale": 1.414, "rand_type": "uniform"}]'),
    (init.Xavier(),
     '["xavier", {"rnd_type": "uniform", "factor_type": "avg", "magnitude": 3}]'),
    (init.MSRAPrelu(), '["msraprelu", {"factor_type": "avg", "slope": 0.25}]'),
    (init.Bilinear(), '["bilinear", {}]'), (init.LSTMBias(), '["lstmbias", {"forget_bias": 1.0}]'),
])
def test_texts_are_mxnets_and_make_an_equal_one(made, text):
    assert made.dumps() == text
    again = init.create(text)
    assert again == made and again.dumps() == text and type(again) is type(made)


def test_create():
    assert init.create("Zeros") == init.Zero() and init.create("ones") == init.One()
    assert init.create("xavier", magnitude=2).magnitude == 2
    one = init.Uniform(0.3)
    assert init.create(one) is one and one != init.Uniform() and one != init.Normal(0.3)
    with pytest.raises(ValueError, match="did you mean 'xavier'"):
        init.create("xaviar")


def test_constant_arrays():
    value = np.arange(6.0).reshape(2, 3)
    for given in (value, nd.array(value), value.tolist()):
        assert (filled(init.Constant(given), "w_weight", (2, 3)) == value).all()


def test_an_initializer_of_ones_own():
    @init.register
    class Doubling(init.Initializer):
        def __init__(self, start):
            super().__init__(start=start)
            self.start = start

        def _init_weight(self, name, arr):
            arr[:] = self.start * 2

    try:
        assert Doubling(3).dumps() == json.dumps(["doubling", {"start": 3}])
        assert (filled(init.create("doubling", start=3), "w_weight") == 6).all()
        assert (filled(init.create(Doubling(4).dumps()), "w_weight") == 8).all()
        assert (filled(Doubling(4), "w_bias") == 0).all()
    finally:
        del init.registry.entries["doubling"]


def test_mixed():
    mixed = init.Mixed([".*bias", ".*"], [init.One(), "zeros"])
    assert (filled(mixed, "a_bias") == 0).all()  # as MXNet: One itself gives biases zero
    assert (filled(init.Mixed(["b"], [init.Constant(3)]), "b_weight") == 3).all()
    with pytest.raises(ValueError, match="no pattern matches parameter 'a_weight'"):
        filled(init.Mixed(["b"], [init.One()]), "a_weight")
    with pytest.raises(ValueError, match="1 patterns but 2"):
        init.Mixed(["b"], [init.One(), init.Zero()])


def test_load(tmp_path):
    path = str(tmp_path / "a.params")
    nd.save(path, {"arg:a_weight": nd.ones((2,)) * 5, "aux:m": nd.zeros((3,))})
    load = init.Load(path, default_init=init.One())
    assert filled(load, "a_weight", (2,)).tolist() == [5, 5]
    assert filled(load, "m", (3,)).tolist() == [0, 0, 0]
    assert filled(load, "other_weight", (3,)).tolist() == [1, 1, 1]
    with pytest.raises(AssertionError, match=r"\(3,\), the loaded value \(2,\)"):
        filled(load, "a_weight", (3,))
    with pytest.raises(ValueError, match="not among the loaded"):
        filled(init.Load({}), "a_weight", (3,))


def test_verbose(caplog):
    caplog.set_level("INFO")
    filled(init.One().set_verbosity(True), "a_weight", (4,))
    assert "Initialized a_weight as weight: 1" in caplog.text


def test_fused_rnn_fills_each_gate_as_a_matrix():
    """Figures of MXNet 1.9.1: weights by `init`, biases 0 but for lstm's forget gates."""
    vector = nd.zeros((84,))
    fused = init.FusedRNN(init.One(), 3, 1, "lstm", forget_bias=2.0)
    vector_init = init.InitDesc("lstm_parameters", {"__init__": fused.dumps()})
    init.Zero()(vector_init, vector)
    assert vector.asnumpy().tolist() == [1] * 60 + ([0] * 3 + [2] * 3 + [0] * 6) * 2
    assert fused.dumps() == (
        '["fusedrnn", {"init": "[\\"one\\", {}]", "num_hidden": 3, "num_layers": 1, '
        '"mode": "lstm", "bidirectional": false, "forget_bias": 2.0}]')
    general = init.InitDesc("lstm_weight", global_init=init.Constant(7))
    init.FusedRNN(None, 2, 2, "gru", bidirectional=True)(general, vector := nd.zeros((264,)))
    assert vector.asnumpy().tolist() == [7] * 216 + [0] * 48
    init.FusedRNN("orthogonal", 3, 1, "gru")("gru_weight", vector := nd.zeros((3 * 3 * 8,)))
    gate = vector.asnumpy()[:9].reshape(3, 3)
    np.testing.assert_allclose(gate @ gate.T, 1.414**2 * np.eye(3), atol=1e-5)
