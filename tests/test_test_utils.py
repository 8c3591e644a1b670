"""minigluon.test_utils: helpers that must notice what is wrong."""
import numpy as np
import pytest

import minigluon as mx
from minigluon import nd, test_utils


@pytest.mark.parametrize(("dtypes", "near", "far"), [
    (("float16", "float64"), 1.09, 1.2),
    (("float32", "float32"), 1.001, 1.002),
    (("float64", "float64"), 1.000009, 1.00002),
    (("float32", "float64"), 1.001, 1.002),
    (("int32", "int32"), 1, 2),
])
def test_tolerance_of_types(dtypes, near, far):
    one = np.ones(3, dtypes[0])
    assert test_utils.almost_equal(one, np.full(3, near, dtypes[1]))
    assert not test_utils.almost_equal(one, np.full(3, far, dtypes[1]))
    test_utils.assert_almost_equal(nd.array(one, dtype=dtypes[0]), np.full(3, near, dtypes[1]))
    with pytest.raises(AssertionError):
        test_utils.assert_almost_equal(one, np.full(3, far, dtypes[1]))


def test_message_shows_the_worst(capsys):
    a, b = np.zeros((2, 2)), np.array([[0, 1], [5, 0]])
    with pytest.raises(AssertionError, match=r"mismatch 50\.0+%\)\.\n.*maximum error: \(1, 0\), "
                                             r"left=0.*right=5"):
        test_utils.assert_almost_equal(a, b, rtol=0.1, atol=0.1, names=("left", "right"))
    assert "  1: Error 8.333333  Location of error: (1, 0)" in capsys.readouterr().out


def test_nan_and_shapes():
    a = np.array([1.0, np.nan])
    assert not test_utils.almost_equal(a, a) and test_utils.almost_equal(a, a, equal_nan=True)
    with pytest.raises(AssertionError, match="nan"):
        test_utils.assert_almost_equal(a, a)
    test_utils.assert_almost_equal(a, a, equal_nan=True)
    with pytest.raises(ValueError):
        test_utils.assert_almost_equal(np.zeros(2), np.zeros(3))
    test_utils.assert_almost_equal(np.ones((2, 2)), np.ones(2))
    with pytest.raises(AssertionError, match="are not equal"):
        test_utils.assert_almost_equal(np.ones((2, 2)), np.ones(2), use_broadcast=False)


def test_same():
    assert test_utils.same(nd.ones((2,)), np.ones(2))
    assert not test_utils.same(np.ones(2), np.ones((1, 2)))
    assert not test_utils.same(np.ones(2), np.array([1, 1 + 1e-9]))


def test_random_data():
    assert len(test_utils.rand_shape_nd(4, 3)) == 4
    assert all(1 <= size <= 3 for _ in range(50) for size in test_utils.rand_shape_nd(4, 3))
    assert any(0 in test_utils.rand_shape_nd(4, 1, allow_zero_size=True) for _ in range(50))
    assert len(test_utils.rand_shape_2d()) == 2 and len(test_utils.rand_shape_3d()) == 3
    array = test_utils.rand_ndarray((3, 4), dtype="float64")
    assert array.shape == (3, 4) and array.dtype == np.float64
    for stype in ("csr", "row_sparse"):
        sparse = test_utils.rand_ndarray((30, 40), stype, density=0.3)
        sparse.check_format()
        assert sparse.stype == stype and 0 < (sparse.asnumpy() != 0).mean() < 0.7
    made, (data, indices) = test_utils.rand_sparse_ndarray((9, 2, 3), "row_sparse", 1.0)
    assert data.shape == (9, 2, 3) and indices.shape == (9,) and made.stype == "row_sparse"
    first, second = test_utils.random_arrays((2,), (3, 1))
    assert first.dtype == np.float32 and second.shape == (3, 1)


def test_contexts():
    assert test_utils.default_context() == mx.cpu(0)
    test_utils.set_default_context(mx.cpu(3))
    try:
        assert test_utils.default_context() == nd.zeros((1,)).context == mx.cpu(3)
    finally:
        test_utils.set_default_context(mx.cpu(0))
    assert len(test_utils.list_gpus()) == mx.num_gpus()


def test_get_mnist(monkeypatch):
    monkeypatch.setenv("MINIGLUON_OFFLINE", "1")
    digits = test_utils.get_mnist()
    assert digits["train_data"].shape[1:] == (1, 28, 28)
    assert 0 <= digits["test_data"].min() < digits["test_data"].max() == 1
    assert len(digits["test_label"]) == len(digits["test_data"])


def test_assert_exception():
    test_utils.assert_exception(int, ValueError, "x")
    with pytest.raises(AssertionError, match="ValueError"):
        test_utils.assert_exception(int, ValueError, "1")


# -- symbols ---------------------------------------------------------------------------------------


def product():
    return mx.sym.var("x") * mx.sym.var("y")


X, Y = np.array([[1.0, 2], [3, 4]]), np.array([[5.0, 6], [7, 8]])


def test_symbolic_forward():
    (output,) = test_utils.check_symbolic_forward(product(), [X, Y], [X * Y])
    assert output.shape == (2, 2)
    test_utils.check_symbolic_forward(product(), {"y": Y, "x": X}, [X * Y])
    with pytest.raises(AssertionError, match="FORWARD_"):
        test_utils.check_symbolic_forward(product(), [X, Y], [X * Y + 1])
    assert test_utils.simple_forward(product(), x=X, y=Y).tolist() == (X * Y).tolist()


@pytest.mark.parametrize("grad_req", ["write", "add"])
def test_symbolic_backward(grad_req):
    head = np.full((2, 2), 3.0)
    test_utils.check_symbolic_backward(product(), [X, Y], [head], [3 * Y, 3 * X],
                                       grad_req=grad_req)
    with pytest.raises(AssertionError, match="EXPECTED_x"):
        test_utils.check_symbolic_backward(product(), [X, Y], [head], {"x": 2 * Y},
                                           grad_req=grad_req)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numeric_gradient(dtype):
    exact = {"rtol": 1e-6, "atol": 1e-6} if dtype == "float64" else {}
    test_utils.check_numeric_gradient(mx.sym.sin(product() / 9), [X, Y], dtype=dtype, **exact)
    wrong = mx.sym.BlockGrad(mx.sym.var("x")) * mx.sym.var("y")
    with pytest.raises(AssertionError, match="NUMERICAL_x"):
        test_utils.check_numeric_gradient(wrong, [X, Y], dtype=dtype)
    test_utils.check_numeric_gradient(wrong, [X, Y], grad_nodes=["y"], dtype=dtype,
                                      **exact)
    test_utils.check_numeric_gradient(wrong, [X, Y], grad_nodes={"y": "add", "x": "null"},
                                      dtype=dtype, **exact)


def test_numeric_gradient_with_running_statistics():
    x = mx.sym.var("x")
    net = mx.sym.BatchNorm(x, name="bn", fix_gamma=False)
    values = {"x": np.random.default_rng(1).normal(size=(4, 3)), "bn_gamma": np.ones(3),
              "bn_beta": np.zeros(3)}
    test_utils.check_numeric_gradient(net, values, [np.zeros(3), np.ones(3)])


def test_facts_that_mxnet_recorded():
    rtols, atols = test_utils.default_rtols(), test_utils.default_atols()
    steps = test_utils.default_numeric_eps()
    for name, row in {"float16": (1e-2, 1e-1, 0.015625), "float32": (1e-4, 1e-3, 0.001953125),
                      "float64": (1e-5, 1e-20, 6.103515625e-05)}.items():
        kind = np.dtype(name)
        assert (rtols[kind], atols[kind], steps[kind]) == row
        assert (test_utils.get_rtol(None, kind), test_utils.get_atol(None, kind)) == row[:2]
    assert test_utils.get_rtol(0.3) == 0.3 and test_utils.get_etol() == 0
    half, double = np.ones(2, "float16"), np.ones(2)
    assert test_utils.get_tols(half, double, None, None) == (1e-2, 1e-1)
    a = np.array([[1.0, 2], [3, 4]], "float32")
    b = np.array([[1.0, 2.5], [3, 4.1]], "float32")
    with pytest.raises(AssertionError) as caught:
        test_utils.assert_almost_equal(a, b, rtol=1e-3, atol=1e-4, mismatches=(1, 1))
    assert str(caught.value).splitlines()[1:4] == [
        "Items are not equal:",
        "Error 192.307678 exceeds tolerance rtol=1.000000e-03, atol=1.000000e-04 "
        "(mismatch at least 50.000000%).",
        "Location of maximum error: (0, 1), a=2.00000000, b=2.50000000"]
    counts = np.diff(test_utils.rand_sparse_ndarray(
        (20, 50), "csr", density=0.5, distribution="powerlaw")[0].indptr.asnumpy())
    assert counts.tolist() == [2, 4, 8, 16, 32, *[50] * 8, 32, *[1] * 6]


def test_a_share_of_errors_may_be_allowed():
    a, b = np.zeros(10), np.array([0] * 7 + [1] * 3)
    test_utils.assert_almost_equal_with_err(a, b, etol=0.3)
    with pytest.raises(AssertionError, match="mismatch 30"):
        test_utils.assert_almost_equal_with_err(a, b, etol=0.2)
    holed = np.where(np.arange(10) < 7, 0, np.nan)
    test_utils.assert_almost_equal_ignore_nan(holed, b)
    with pytest.raises(AssertionError):
        test_utils.assert_almost_equal_ignore_nan(holed, b + 1)


def test_same_array_looks_at_memory():
    x = nd.ones((2, 3))
    assert test_utils.same_array(x, x) and not test_utils.same_array(x, x.copy())
    assert x.asnumpy().tolist() == np.ones((2, 3)).tolist()


def test_retry_and_environment(monkeypatch):
    tries = []

    @test_utils.retry(3)
    def works_at_last():
        tries.append(1)
        assert len(tries) == 3

    works_at_last()
    assert len(tries) == 3

    @test_utils.retry(2)
    def fails():
        tries.append(1)
        raise AssertionError("always")

    with pytest.raises(AssertionError, match="always"):
        fails()
    assert len(tries) == 5
    monkeypatch.setenv("MINIGLUON_A", "1")
    with test_utils.environment({"MINIGLUON_A": None, "MINIGLUON_B": "2"}):
        assert (test_utils.getenv("MINIGLUON_A"), test_utils.getenv("MINIGLUON_B")) == (None, "2")
    assert (test_utils.getenv("MINIGLUON_A"), test_utils.getenv("MINIGLUON_B")) == ("1", None)
    with pytest.raises(AssertionError, match="two args"), test_utils.environment(1):
        pass


def test_generators_are_judged():
    generator = np.random.default_rng(3)
    buckets, probs = test_utils.gen_buckets_probs_with_ppf(lambda chance: 2 * chance, 5)
    even = test_utils.verify_generator(lambda n: generator.uniform(0, 2, n), buckets, probs,
                                       nsamples=5000)
    assert len(even) == 5 and all(0 <= chance <= 1 for chance in even)
    with pytest.raises(AssertionError, match="Chi-square"):
        test_utils.verify_generator(lambda n: 2 * generator.random(n) ** 2, buckets, probs, 5000)
    chance, found, expected = test_utils.chi_square_check(lambda n: np.arange(n) % 4, [0, 1, 2, 3],
                                                          [0.25] * 4, 1000)
    assert chance == 1 and found.tolist() == expected.tolist() == [250] * 4
    # chi-square 3.841 at one degree of freedom is the 5% point of every table
    chance, _, _ = test_utils.chi_square_check(
        lambda n: np.arange(n) < 500 + 0.5 * np.sqrt(3.841459 * 1000), [0, 1], [0.5] * 2, 1000)
    assert abs(chance - 0.05) < 0.003
    assert test_utils.mean_check(lambda n: generator.normal(1, 2, n), 1, 2, 10000)
    assert not test_utils.mean_check(lambda n: generator.normal(1.2, 2, n), 1, 2, 10000)
    assert test_utils.var_check(lambda n: generator.normal(1, 2, n), 2, 10000)
    assert not test_utils.var_check(lambda n: generator.normal(1, 3, n), 2, 10000)


def test_consistency_of_types_is_checked():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
    runs = [{"ctx": mx.cpu(), "data": (2, 3), "type_dict": {"data": kind}}
            for kind in (np.float32, np.float64)]
    assert sorted(test_utils.check_consistency(net, runs)) == ["data", "fc_bias", "fc_output",
                                                               "fc_weight"]
    other = mx.sym.FullyConnected(mx.sym.Variable("data") * 2, num_hidden=2, name="fc")
    with pytest.raises(AssertionError, match="exceeds tolerance"):
        test_utils.check_consistency([net, other], runs)


def test_optimizers_are_compared():
    for stype in ("default", "row_sparse"):
        test_utils.compare_optimizer(mx.optimizer.SGD(momentum=0.9), mx.optimizer.SGD(momentum=0.9),
                                     (3, 4), "float32", stype, stype)
    with pytest.raises(AssertionError):
        test_utils.compare_optimizer(mx.optimizer.SGD(learning_rate=0.1),
                                     mx.optimizer.SGD(learning_rate=0.2), (3, 4), "float32")


def test_hybridized_blocks_are_compared():
    test_utils.check_gluon_hybridize_consistency(
        lambda **settings: mx.gluon.nn.Dense(2, in_units=3, **settings), [nd.ones((2, 3))])

    class Differs(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return x * 2 if F is mx.nd else x * 3

    with pytest.raises(AssertionError, match="exceeds"):
        test_utils.check_gluon_hybridize_consistency(Differs, [nd.ones((2, 3))])


def test_symbols_of_one_structure():
    a, b, c = (mx.sym.Variable(name) for name in "abc")
    assert test_utils.same_symbol_structure(a * b, b * c)
    assert not test_utils.same_symbol_structure(a * b, a + b)
    assert test_utils.check_speed(a * b, N=1, a=(2,), b=(2,)) > 0
    with pytest.raises(ValueError, match="typ can only"):
        test_utils.check_speed(a * b, N=1, typ="x", a=(2,), b=(2,))
