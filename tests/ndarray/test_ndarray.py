"""NDArray behaviour: making, indexing, views, arithmetic, errors."""
import copy
import pickle

import numpy as np
import pytest

import minigluon as mx
from minigluon import nd


def test_array_dtype_rules():
    assert nd.array([1, 2]).dtype is np.float32
    assert nd.array(np.arange(3)).dtype is np.float32
    assert nd.array(np.ones(2)).dtype is np.float32
    assert nd.array([1], dtype="int32").dtype is np.int32
    assert nd.array(nd.array([1], dtype="int64")).dtype is np.int64
    assert nd.array(np.array(5.0)).shape == ()
    with pytest.raises(mx.MXNetError):
        nd.zeros(())
    with pytest.raises(TypeError, match="array of text"):
        nd.array(["a"])
    with pytest.raises(TypeError, match="unequal"):
        nd.array([[1, 2], [3]])


def test_contexts_are_distinct_devices():
    x = nd.ones((2,), ctx=mx.cpu(1))
    assert x.context == mx.cpu(1) and (x + 1).context == mx.cpu(1)
    assert x.as_in_context(mx.cpu(1)) is x
    y = x.as_in_context(mx.cpu(0))
    assert y.context == mx.cpu(0)
    y[:] = 3
    assert x.asnumpy().tolist() == [1, 1]
    with pytest.raises(ValueError, match="one context"):
        x + y
    with mx.cpu(2):
        assert nd.zeros((1,)).context == mx.cpu(2)
    pinned = nd.ones((2,), ctx=mx.cpu_pinned())
    assert (pinned + nd.ones((2,))).asnumpy().tolist() == [2, 2]


def test_gpu_without_device_says_what_to_install():
    if mx.num_gpus():
        pytest.skip("this machine has a GPU")
    with pytest.raises(mx.MXNetError, match=r"minigluon\[cuda13x\]"):
        nd.zeros((1,), ctx=mx.gpu(0))


def test_arithmetic_and_reflected_scalars():
    x = nd.array([[1, 2], [3, 4]])
    n = x.asnumpy()
    for ours, theirs in [
        (x + 1, n + 1), (1 - x, 1 - n), (2 / x, 2 / n), (x % 3, n % 3), (7 % x, 7 % n),
        (x**2, n**2), (2**x, 2**n), (-x, -n), (abs(-x), n), (x - x.T, n - n.T),
        (x > 2, n > 2), (2 >= x, n <= 2), (x == 2, n == 2), (x != x, n != n),
    ]:
        assert ours.dtype is np.float32
        np.testing.assert_allclose(ours.asnumpy(), theirs, rtol=1e-6)
    numpy_left = n + x
    assert isinstance(numpy_left, nd.NDArray)
    assert (x == None) is False  # noqa: E711
    with pytest.raises(TypeError):
        x + "a"


def test_int_arrays_stay_int():
    x = nd.array([5, 7], dtype="int32")
    assert (x / 2).dtype is np.int32 and (x / 2).asnumpy().tolist() == [2, 3]
    assert (x + 1.5).asnumpy().tolist() == [6, 8]
    with pytest.raises(mx.MXNetError, match="one dtype"):
        x + nd.array([1.0, 2.0])


def test_bad_shapes_raise_at_once():
    with pytest.raises(ValueError, match="broadcast_add"):
        nd.ones((2, 3)) + nd.ones((2, 4))
    assert (nd.ones((2,)) + 1).asnumpy().tolist() == [2, 2]


def test_inplace():
    x = nd.array([1.0, 2.0])
    alias = x
    x += 1
    x *= nd.array([2.0, 3.0])
    x -= 1
    x /= 2
    assert alias is x and alias.asnumpy().tolist() == [1.5, 4.0]
    with pytest.raises(ValueError, match="in-place"):
        x += nd.ones((3, 2))


def test_truth_and_scalars():
    assert not nd.zeros((0,)) and not nd.zeros((1,)) and nd.ones((1, 1))
    with pytest.raises(ValueError, match="truth"):
        bool(nd.ones((2,)))
    assert nd.array([3]).asscalar() == 3 and int(nd.array([3])) == 3
    with pytest.raises(ValueError, match="asscalar"):
        nd.ones((2,)).asscalar()
    assert nd.ones((2, 3)).sum().shape == (1,)


def test_views_share_and_copies_do_not():
    x = nd.zeros((4, 3))
    x[1:3][:] = 1
    x[0][1] = 5
    x.reshape((12,))[11] = 9
    assert x.asnumpy().tolist() == [[0, 5, 0], [1, 1, 1], [1, 1, 1], [0, 0, 9]]
    before = x.asnumpy()
    x[::2][:] = 7
    x[:, 1][:] = 7
    x[[0, 1]][:] = 7
    x.flatten()[:] = 7
    x.expand_dims(0)[:] = 7
    x.T[:] = 7
    assert np.array_equal(x.asnumpy(), before)


def test_full_integer_index_has_shape_one():
    x = nd.arange(6).reshape((2, 3))
    assert x[1, 2].shape == (1,) and x[1, 2].asscalar() == 5
    assert x[1, -1].asscalar() == 5 and x[-1][-1].asscalar() == 5
    y = x[0, 1]
    y[:] = 40
    assert x[0, 1].asscalar() == 40


INDEXES = [
    0, -1, np.int64(1), slice(1, 3), slice(None, None, 2), slice(None, None, -1), Ellipsis, None,
    (0, 1), (slice(None), 1), (Ellipsis, 1), (None, 0), (slice(1, 3), None, slice(0, 2)),
    [0, 2], [[0, 1], [2, 1]], np.array([0, 2]), (slice(None), [0, 2]), ([0, 1], [1, 2]),
    (slice(0, 2), [1, 0], slice(None)), ([0], slice(None), [1, 2]), (0, [1, 2]), (np.array([1]), 0),
]


@pytest.mark.parametrize("index", INDEXES, ids=repr)
def test_get_and_set_equal_numpy(index):
    n = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    x = nd.array(n)
    np.testing.assert_array_equal(x[index].asnumpy(), n[index])
    filled = n.copy()
    filled[index] = 3.5
    x[index] = 3.5
    np.testing.assert_array_equal(x.asnumpy(), filled)
    value = np.random.default_rng(0).normal(size=n[index].shape).astype(np.float32)
    filled[index] = value
    x[index] = nd.array(value)
    np.testing.assert_array_equal(x.asnumpy(), filled)


def test_index_arrays_of_our_own_and_leading_ones():
    x = nd.arange(12).reshape((3, 4))
    assert x[nd.array([2, 0])].asnumpy().tolist() == [[8, 9, 10, 11], [0, 1, 2, 3]]
    assert x[nd.array([0, 1], dtype="int32"), nd.array([1, 2])].asnumpy().tolist() == [1, 6]
    x[0, :2] = [7, 8]
    x[1:3] = nd.ones((1, 1, 2, 4))
    assert x.asnumpy().tolist() == [[7, 8, 2, 3], [1] * 4, [1] * 4]


def test_index_errors():
    x = nd.ones((10, 10))
    for bad in [10, -11, (0, 10), ([0, 10],)]:
        with pytest.raises(IndexError):
            x[bad]
    with pytest.raises(ValueError, match="assignment"):
        x[0] = nd.ones((3,))
    rows = np.arange(-1, 3)
    assert np.array_equal(x[rows, rows].asnumpy(), np.ones((10, 10))[rows, rows])


def test_self_assignment_of_a_column():
    w = nd.arange(20).reshape((10, 2))
    w[:, 0] = w[:, 0]
    assert np.array_equal(w.asnumpy(), np.arange(20).reshape(10, 2))


def test_large_integers_are_exact():
    x = nd.zeros((1,), dtype="int32")
    x[0] = 16800001
    assert x.asscalar() == 16800001
    big = nd.array([50000001], dtype="int32")
    for name in ("floor", "round", "ceil", "trunc"):
        assert getattr(big, name)().asscalar() == 50000001


def test_astype_copy_and_pickle():
    x = nd.array([1.5, 2.5])
    assert x.astype("float32", copy=False) is x and x.astype("float32") is not x
    assert x.astype(np.int32).dtype is np.int32
    for other in (x.copy(), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        other[:] = 0
        assert x.asnumpy().tolist() == [1.5, 2.5] and other.context == x.context
    with pytest.raises(TypeError, match="dtype"):
        x.astype("float33")


def test_copyto_and_out():
    x, y = nd.ones((2, 2)), nd.zeros((2, 2), ctx=mx.cpu(1))
    assert x.copyto(y) is y and y.asnumpy().sum() == 4
    assert x.copyto(mx.cpu(3)).context == mx.cpu(3)
    out = nd.zeros((2, 2))
    assert nd.broadcast_add(x, x, out=out) is out and out.asnumpy().sum() == 8
    with pytest.raises(ValueError, match="out="):
        nd.broadcast_add(x, x, out=nd.zeros((3,)))
    with pytest.raises(ValueError, match="copyto"):
        x.copyto(nd.zeros((3,)))


def test_operators_do_not_alias_their_input():
    x = nd.ones((2, 3))
    for y in (nd.identity(x), nd.reshape(x, (3, 2)), nd.transpose(x), nd.slice_axis(
            x, axis=0, begin=0, end=1), nd.BlockGrad(x), nd.broadcast_to(x, (2, 3))):
        y[:] = 9
        assert x.asnumpy().sum() == 6


def test_calls_with_wrong_arguments():
    x = nd.ones((2, 2))
    with pytest.raises(TypeError, match="did you mean 'axis'"):
        nd.sum(x, axes=1)
    with pytest.raises(ValueError, match="axis: expected"):
        nd.expand_dims(x, axis="b")
    with pytest.raises(TypeError, match="missing input 'rhs'"):
        nd.broadcast_add(x)
    with pytest.raises(TypeError, match=r"nd\.array"):
        nd.sum(np.ones(3))
    with pytest.raises(TypeError, match="required argument 'axis'"):
        nd.expand_dims(x)
    assert nd.clip(x, 0, 0.5).asnumpy().max() == 0.5
    assert nd.sum(data=x, axis=0).shape == (2,)
    assert "axis" in (nd.sum.__doc__ or "") or "axis" in str(nd.sum.__signature__)


def test_creation():
    assert nd.arange(4).asnumpy().tolist() == [0, 1, 2, 3]
    assert nd.arange(2, 6, 2, repeat=2).asnumpy().tolist() == [2, 2, 4, 4]
    np.testing.assert_allclose(nd.linspace(0, 1, 5).asnumpy(), np.linspace(0, 1, 5))
    assert nd.linspace(0, 1, 4, endpoint=False).asnumpy().tolist() == [0, 0.25, 0.5, 0.75]
    np.testing.assert_array_equal(nd.eye(2, 3, 1).asnumpy(), np.eye(2, 3, 1))
    assert nd.full((2,), 3, dtype="int32").asnumpy().tolist() == [3, 3]
    assert nd.ones(3).shape == (3,) and nd.empty((2, 0)).size == 0
    assert nd.concatenate([nd.ones((1, 2)), nd.zeros((2, 2))]).shape == (3, 2)
    with pytest.raises(ValueError, match="negative"):
        nd.zeros((-1,))
    assert nd.zeros((2, 2), stype="row_sparse").stype == "row_sparse"
    with pytest.raises(ValueError, match="'rows'"):
        nd.zeros((2, 2), stype="rows")


def test_moveaxis_equals_numpy():
    x = nd.zeros((2, 3, 4))
    for source, target in [(0, -1), ([0, 1], [-1, 0]), (2, 0)]:
        expected = np.moveaxis(x.asnumpy(), source, target)
        assert nd.moveaxis(x, source, target).shape == expected.shape
    with pytest.raises(ValueError, match="moveaxis"):
        nd.moveaxis(x, 3, 0)


def test_exchange_with_numpy_and_dlpack():
    n = np.ones((2, 3), np.float32)
    x = nd.from_numpy(n)
    x[0, 0] = 5
    assert n[0, 0] == 5
    with pytest.raises(ValueError):
        n[0, 0] = 1
    with pytest.raises(ValueError, match="contiguous"):
        nd.from_numpy(np.ones((3, 2)).T)
    y = nd.from_dlpack(nd.to_dlpack_for_read(x))
    assert y.asnumpy()[0, 0] == 5
    assert np.asarray(x).sum() == 10 and np.exp(x).shape == (2, 3)


def test_repr_len_iter():
    x = nd.array([[1, 2], [3, 4]])
    assert repr(x) == "\n[[1. 2.]\n [3. 4.]]\n<NDArray 2x2 @cpu(0)>"
    assert len(x) == 2 and [row.asnumpy().tolist() for row in x] == [[1, 2], [3, 4]]


def test_reshape_codes():
    x = nd.zeros((2, 3, 4))
    assert x.reshape(-1).shape == (24,) and x.reshape((0, -1)).shape == (2, 12)
    assert x.reshape((-3, 0)).shape == (6, 4)
    assert x.reshape((-4, 1, 2, -2)).shape == (1, 2, 3, 4)
    assert x.reshape((0, 0, -1), reverse=True).shape == (2, 3, 4)
    with pytest.raises(ValueError):
        x.reshape((5, 5))


def test_array_reads_numbers_written_as_text() -> None:
    assert nd.array(["1", "20"], dtype="int32").asnumpy().tolist() == [1, 20]
    made = nd.array([["1", "2.5"], ["-3", "1e2"]])
    assert made.dtype == np.float32
    assert made.asnumpy().tolist() == [[1, 2.5], [-3, 100]]
    with pytest.raises(mx.base.DTypeError, match="could not convert string"):
        nd.array(["1", "one"])
    with pytest.raises(mx.base.DTypeError, match="text not int32"):
        nd.array(["1.5"], dtype="int32")


def test_broadcast_to_may_add_axes_in_front():
    assert nd.ones((3,)).broadcast_to((2, 3)).asnumpy().tolist() == [[1, 1, 1], [1, 1, 1]]
    assert nd.ones((1, 3)).broadcast_to((4, 2, 3)).shape == (4, 2, 3)
    with pytest.raises(mx.MXNetError, match="broadcast_to"):
        nd.ones((2, 3)).broadcast_to((3,))


def test_words_for_two_plain_numbers():
    assert (nd.add(2, 3), nd.maximum(2, 3), nd.equal(2, 3), nd.divide(1, 4)) == (5, 3, 0, 0.25)
    assert (nd.logical_xor(1, 0), nd.lesser(1, 2), nd.logical_and(2, 0)) == (1, 1, 0)


@pytest.mark.parametrize("recording", [False, True])
def test_an_element_under_numpy_shapes(recording):
    x = nd.array([[1, 2], [3, 4]])
    x.attach_grad()
    with mx.np_shape(True), mx.autograd.record() if recording else mx.autograd.pause():
        element = x[1][0]
        assert element.shape == x[1, 0].shape == x[nd.array([1]), nd.array([0])][0].shape == ()
        assert element.asscalar() == 3
    assert x[1][0].shape == (1,)
    if recording:
        element.backward()
        assert x.grad.asnumpy().tolist() == [[0, 0], [1, 0]]


def test_whether_a_piece_stays_contiguous_is_told_as_numpy_tells_it():
    random = np.random.RandomState(3)
    for _ in range(300):
        shape = tuple(int(size) for size in random.randint(1, 5, random.randint(1, 4)))
        key = tuple(slice(*(None if random.rand() < 0.3 else int(random.randint(-5, 6))
                            for _ in range(2)), int(random.choice([-2, -1, 1, 1, 2])))
                    for _ in shape)
        told = nd.NDArray._basic_indexing_slice_is_contiguous(key, shape)
        assert told == np.zeros(shape)[key].flags.c_contiguous, (key, shape)
    with pytest.raises(AssertionError, match="each of 2 axes"):
        nd.NDArray._basic_indexing_slice_is_contiguous((slice(None),), (3, 4))


def test_under_np_shape_one_element_may_lose_its_axes():
    with mx.util.np_shape():
        x = nd.ones((1, 1))
        assert x.reshape(()).shape == nd.reshape(x, shape=()).shape == ()
        assert mx.sym.reshape(mx.sym.var("a"), shape=()).infer_shape(a=(1,))[1] == [()]
        with pytest.raises(mx.MXNetError):
            nd.ones((2,)).reshape(())
    with pytest.raises(mx.MXNetError, match="sizes or codes"):
        x.reshape(())


def test_errors_are_of_the_class_mxnet_raises():
    """Each seen with MXNet 1.9.1."""
    x = nd.zeros((2, 3))
    for key in ("a", 1.0, np.float32(1)):
        with pytest.raises(ValueError, match="cannot index"):
            x[key]
        with pytest.raises(ValueError, match="cannot index"):
            x[key] = 1
    for number in (int, float):
        with pytest.raises(TypeError, match=r"one element, got shape \(2, 3\)"):
            number(x)
        assert number(nd.array([[3]])) == 3
    with pytest.raises(AssertionError, match=r"apart from axis 0, got \(2, 3\), \(2, 2\)"):
        nd.concatenate([x, nd.zeros((2, 2))])
    assert nd.concatenate([x, nd.zeros((2, 2))], axis=-1).shape == (2, 5)
    with pytest.raises(AssertionError, match="not yet used, got 3"):
        nd.from_dlpack(3)
    capsule = x.to_dlpack_for_read()
    assert nd.from_dlpack(capsule).shape == (2, 3)
    with pytest.raises(AssertionError, match="not yet used"):
        nd.from_dlpack(capsule)


def test_full_takes_an_array_to_broadcast():
    for row in (np.array([1, 2]), [1, 2]):
        assert nd.full((2, 2), row).asnumpy().tolist() == [[1, 2], [1, 2]]
    out = nd.zeros((2,), dtype="int32")
    assert nd.full((2,), nd.array([1.5, 2]), out=out) is out and out.asnumpy().tolist() == [1, 2]
    assert nd.full((2,), nd.array([1.5, 2]), dtype="int32").dtype is np.int32
