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


def test_message_shows_the_worst():
    a, b = np.zeros((2, 2)), np.array([[0, 1], [5, 0]])
    with pytest.raises(AssertionError, match=r"2 of 4.*rtol=0\.1.*\n.*\(1, 0\): left=.*right=.*5"):
        test_utils.assert_almost_equal(a, b, rtol=0.1, names=("left", "right"))


def test_nan_and_shapes():
    a = np.array([1.0, np.nan])
    assert not test_utils.almost_equal(a, a) and test_utils.almost_equal(a, a, equal_nan=True)
    with pytest.raises(AssertionError, match="nan"):
        test_utils.assert_almost_equal(a, a)
    test_utils.assert_almost_equal(a, a, equal_nan=True)
    with pytest.raises(ValueError):
        test_utils.assert_almost_equal(np.zeros(2), np.zeros(3))
    test_utils.assert_almost_equal(np.ones((2, 2)), np.ones(2))
    with pytest.raises(AssertionError, match="shapes"):
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
    with pytest.raises(AssertionError, match="forward"):
        test_utils.check_symbolic_forward(product(), [X, Y], [X * Y + 1])
    assert test_utils.simple_forward(product(), x=X, y=Y).tolist() == (X * Y).tolist()


@pytest.mark.parametrize("grad_req", ["write", "add"])
def test_symbolic_backward(grad_req):
    head = np.full((2, 2), 3.0)
    test_utils.check_symbolic_backward(product(), [X, Y], [head], [3 * Y, 3 * X],
                                       grad_req=grad_req)
    with pytest.raises(AssertionError, match="expected x"):
        test_utils.check_symbolic_backward(product(), [X, Y], [head], {"x": 2 * Y},
                                           grad_req=grad_req)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numeric_gradient(dtype):
    test_utils.check_numeric_gradient(mx.sym.sin(product()), [X, Y], dtype=dtype)
    wrong = mx.sym.BlockGrad(mx.sym.var("x")) * mx.sym.var("y")
    with pytest.raises(AssertionError, match="numeric x"):
        test_utils.check_numeric_gradient(wrong, [X, Y], dtype=dtype)
    test_utils.check_numeric_gradient(wrong, [X, Y], grad_nodes=["y"], dtype=dtype)


def test_numeric_gradient_with_running_statistics():
    x = mx.sym.var("x")
    net = mx.sym.BatchNorm(x, name="bn", fix_gamma=False)
    values = {"x": np.random.default_rng(1).normal(size=(4, 3)), "bn_gamma": np.ones(3),
              "bn_beta": np.zeros(3)}
    test_utils.check_numeric_gradient(net, values, [np.zeros(3), np.ones(3)])
