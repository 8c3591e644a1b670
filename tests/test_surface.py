"""Names that MXNet programs take from its inner files, and what Symbols do not have."""
import ctypes

import numpy as np
import pytest

import minigluon as mx
from minigluon import base


def test_small_words_of_base() -> None:
    assert base.py_str(b"a") == "a" and base.c_str("a").value == b"a"
    assert list(base.c_array(ctypes.c_int, [1, 2])) == [1, 2]
    assert list(base.c_str_array(["a", "b"])) == [b"a", b"b"]
    assert base._as_list((1, 2)) == [1, 2] and base._as_list("ab") == ["ab"]
    assert base.mx_real_t is np.float32 and base.mx_uint is ctypes.c_uint
    base.check_call(0)
    with pytest.raises(mx.MXNetError, match="returned -1"):
        base.check_call(-1)

    class Named:
        @base.classproperty
        def word(cls) -> str:
            return cls.__name__

    class Meta(type):
        mark = 1

    class Made(base.with_metaclass(Meta)):
        pass

    assert Named.word == "Named" and Made.mark == 1


def test_doors_that_mxnet_has() -> None:
    assert mx.executor.Executor is mx.sym.Executor
    assert issubclass(mx.error.InternalError, mx.MXNetError)
    assert mx.error.register_error("Mine", ValueError) is ValueError
    assert all(path.endswith(".so") for path in mx.libinfo.find_lib_path())
    with pytest.raises(NotImplementedError, match="CustomOp"):
        mx.library.load("x.so")
    with pytest.raises(NotImplementedError, match="no C interface"):
        mx.libinfo.find_include_path()
    assert mx.rnd.seed is mx.random.seed


@pytest.mark.parametrize("name", ["as_in_context", "asnumpy", "asscalar", "backward", "copy",
                                  "detach", "wait_to_read"])
def test_symbols_say_what_only_arrays_can(name: str) -> None:
    with pytest.raises(base.NotImplementedForSymbol, match=f"Function {name} is not implemented"):
        getattr(mx.sym.var("x"), name)()


def test_arguments_by_mxnets_names() -> None:
    x, y = mx.sym.var("x"), mx.sym.var("y")
    values = {"x": mx.nd.array([3.0]), "y": mx.nd.array([2.0])}

    def value(symbol: mx.sym.Symbol) -> float:
        wanted = symbol.list_arguments()
        [out] = symbol.eval(**{name: values[name] for name in wanted})
        return float(out.asscalar())

    assert value(mx.sym.power(base=x, exp=y)) == value(mx.sym.pow(x, exp=2)) == 9
    assert value(mx.sym.maximum(left=x, right=5)) == 5 and value(mx.sym.minimum(x, y)) == 2
    with pytest.raises(TypeError, match="expected base and exp"):
        mx.sym.pow(x)
    with pytest.raises(TypeError, match="got 1 arguments and base= and exp="):
        mx.sym.pow(x, base=y, exp=2)
    assert value(mx.sym.hypot(mx.sym.var("x"), 4)) == 5 and mx.sym.hypot(3, 4) == 5
    executor = x.simple_bind(mx.cpu(), x=(2, 3), stype_dict={"x": "csr"})
    assert executor.arg_dict["x"].stype == "csr"
    assert mx.sym.Group([x, y], create_fn=mx.sym.Symbol).list_outputs() == ["x", "y"]


def test_methods_with_views() -> None:
    x = mx.nd.array([[1, 2, 3]])
    x.expand_dims(axis=-1, inplace=True)[:] = 5
    assert x.asnumpy().tolist() == [[5, 5, 5]]
    x.squeeze(inplace=True)[:] = 6
    assert x.asnumpy().tolist() == [[6, 6, 6]]
    x.flatten(inplace=True)[:] = 7
    assert x.asnumpy().tolist() == [[7, 7, 7]]
    assert x.expand_dims(1).shape == (1, 1, 3) and x.squeeze(axis=0).shape == (3,)
    assert x.broadcast_like(other=mx.nd.ones((2, 3))).shape == (2, 3)
    x.slice_assign(mx.nd.array([[1, 2]]), (0, 0), (1, 2), None)
    x.slice_assign_scalar(9, (0, 2), (1, 3), None)
    assert x.asnumpy().tolist() == [[1, 2, 9]]


def test_split_v2_in_files_is_mxnets() -> None:
    parts = mx.sym.split_v2(mx.sym.var("x"), (1, 3), axis=1)
    assert '"op": "_split_v2"' in parts.tojson() and '"indices": "(0, 1, 3)"' in parts.tojson()
    again = mx.sym.load_json(parts.tojson())
    out = again.eval(x=mx.nd.arange(10).reshape((2, 5)))
    assert [part.shape for part in out] == [(2, 1), (2, 2), (2, 2)]
    assert [part.shape for part in mx.nd.ones((6, 2)).split_v2(3)] == [(2, 2)] * 3
    with pytest.raises(ValueError, match="expected a number or indices"):
        mx.nd.split_v2(mx.nd.ones((2,)), 1.5)


def test_classes_drawn_by_zipf() -> None:
    mx.random.seed(3)
    drawn, of_true, of_drawn = mx.nd.contrib.rand_zipfian(mx.nd.array([3]), 4, 5)
    assert drawn.dtype == np.int64 and drawn.shape == of_drawn.shape == (4,)
    assert abs(float(of_true.asscalar()) - 4 * np.log(5 / 4) / np.log(6)) < 1e-6
    classes = mx.sym.contrib.rand_zipfian(mx.sym.var("t"), 4, 5)[0].eval()[0]
    assert classes.shape == (4,) and 0 <= classes.asnumpy().min() <= classes.asnumpy().max() < 5
    unique, tries = mx.nd._internal._sample_unique_zipfian(range_max=6, shape=(2, 6))
    assert [sorted(row) for row in unique.asnumpy().tolist()] == [list(range(6))] * 2
    assert (tries.asnumpy() >= 6).all()


def test_old_names() -> None:
    assert isinstance(mx.optimizer.create("ccsgd"), mx.optimizer.SGD)
    with pytest.raises(DeprecationWarning, match="set_lr_mult"):
        mx.optimizer.SGD().set_lr_scale({})
    assert mx.nd.op.relu is mx.nd.relu and mx.sym.op.relu is mx.sym.relu
    net = mx.sym.relu(mx.sym.var("x"), name="r")
    assert net.simple_bind(mx.cpu(), x=(2,)).debug_str() == net.debug_str()
    with pytest.raises(AssertionError, match="less than 0"):
        mx.gluon.utils.shape_is_known((-1,))


def test_known_shapes_are_mxnets() -> None:
    known, shapes = mx.gluon.utils.shape_is_known, [(), (0,), (2, 3), (2, 0)]
    assert [known(shape) for shape in shapes] == [False, False, True, False]
    with mx.util.np_shape(True):
        assert [known(shape) for shape in shapes] == [True] * 4
        weight = mx.gluon.Parameter("w", shape=(0, 3), allow_deferred_init=True)
        assert weight.shape == (-1, 3) and not known(weight.shape)
        with pytest.raises(AssertionError, match="less than -1"):
            known((-2,))


def test_parameters_are_shared_by_shapes_that_numpys_way_calls_unknown() -> None:
    shared = mx.gluon.ParameterDict()
    with mx.util.np_shape(True):
        weight = shared.get("w", shape=(0, 3), allow_deferred_init=True)
        assert shared.get("w", shape=(-1, 3)).shape == (-1, 3)
        assert shared.get("w", shape=(5, -1)) is weight and weight.shape == (5, 3)


def test_csr_arrays_hold_zeros_too() -> None:
    held = mx.nd.sparse.csr_matrix(([0.0, 1, 2], [1, 2, 0], [0, 2, 3]), shape=(2, 3))
    assert mx.nd.contrib.getnnz(held).asnumpy().tolist() == [3]
    assert mx.nd.contrib.getnnz(held, axis=1).asnumpy().tolist() == [2, 1]
    assert mx.nd.contrib.getnnz(held, axis=0).asnumpy().tolist() == [1, 1, 1]
    edges = mx.nd.contrib.edge_id(held, mx.nd.array([0, 0, 1]), mx.nd.array([1, 0, 0]))
    assert edges.asnumpy().tolist() == [0, -1, 2]


def test_one_number_stands_for_a_tuple() -> None:
    boxes = mx.nd.contrib.MultiBoxPrior(mx.nd.ones((1, 3, 2, 2)), sizes=0.5, ratios=1)
    assert boxes.shape == (1, 4, 4)


def test_a_symbol_is_called_on_arrays() -> None:
    x, weight = mx.sym.var("x"), mx.sym.var("w")
    net = mx.sym.Dropout(x * weight, p=0.5)
    call = mx.nd.CachedOp(mx.sym.Group([net, x + weight]))
    assert net.list_inputs() == ["x", "w"]
    a, b = mx.nd.array([1, 2]), mx.nd.array([3, 4])
    first, second = call(a, b)
    assert first.asnumpy().tolist() == [3, 8] and second.asnumpy().tolist() == [4, 6]
    a.attach_grad()
    with mx.autograd.record():
        dropped, total = call(a, b)
        total.backward()
    assert set(dropped.asnumpy() / [3, 8]) <= {0, 2} and a.grad.asnumpy().tolist() == [1, 1]
    with pytest.raises(ValueError, match=r"expected 2 arrays \(x, w\), got 1"):
        call(a)
    with pytest.raises(TypeError, match="Symbol"):
        mx.nd.CachedOp(a)


def test_signatures_in_mxnets_order() -> None:
    x = mx.nd.array(source_array=[[1, -2], [3, 4]])
    found = mx.nd.norm(x, 1, 1, "float64", True)
    assert found.shape == (2, 1) and found.dtype == np.float64
    assert mx.nd.power(base=x, exp=2).asnumpy().tolist() == [[1, 4], [9, 16]]
    assert mx.nd.from_numpy(np.ones((1, 2), "float32"), True, mx.nd.NDArray).shape == (1, 2)
    drawn = mx.sym.random.multinomial(mx.sym.var("p"), shape=3)
    assert drawn.infer_shape(p=(2, 4))[1] == [(2, 3), (2, 3)]  # nd.random's gives no logarithms
    assert len(mx.sym.random.multinomial(mx.sym.var("p"), get_prob=False).list_outputs()) == 1


def test_files_say_what_mxnet_reads() -> None:
    x = mx.sym.var("x")
    assert mx.sym.make_loss(x, name="a").list_outputs() == ["a_loss"]
    scaled = mx.sym.MakeLoss(x, grad_scale=3.0, name="b")
    assert scaled.list_outputs() == ["b_output"] and '"op": "MakeLoss"' in scaled.tojson()
    assert '"op": "_shuffle"' in mx.sym.random.shuffle(x).tojson()
    assert '"indices": "()"' in mx.sym.split_v2(x, 2).tojson()
    squares = mx.sym.multi_sum_sq(x, mx.sym.var("y"), num_arrays=2).tojson()
    assert '"num_arrays": "2"' in squares and "num_args" not in squares
    for net, slope in ((mx.sym.make_loss(x), 1), (scaled, 3)):
        grad = mx.nd.zeros((2,))
        executor = net.bind(mx.cpu(), {"x": mx.nd.array([1, 2])}, {"x": grad})
        executor.forward(is_train=True)
        executor.backward()
        assert grad.asnumpy().tolist() == [slope] * 2
    nan = mx.nd.array([np.nan])
    assert mx.nd.contrib.allclose(nan, nan).asscalar() == 1


def test_settings_that_change_nothing_are_taken() -> None:
    x = mx.nd.array([[1, 2]])
    assert mx.nd.log_softmax(x, use_length=False).shape == (1, 2)
    with pytest.raises(TypeError, match="use_length"):
        mx.nd.log_softmax(x, use_length=True)
    norm = mx.sym.BatchNorm(mx.sym.var("x"), min_calib_range=None, name="n")
    assert "calib" not in norm.tojson()
    data = mx.sym.var("x")
    assert data.expand_dims(axis=1, inplace=True).infer_shape(x=(2, 3))[1] == [(2, 1, 3)]
    assert data.flatten(inplace=True).infer_shape(x=(2, 3, 4))[1] == [(2, 12)]
    assert data.squeeze(axis=0, inplace=True).infer_shape(x=(1, 3))[1] == [(3,)]


def test_self_exciting_events_as_in_mxnet() -> None:
    nd = mx.nd
    inputs = [nd.array([[1.5, 2, 3], [1, 0.5, 0.8]]), nd.array([0.2, 0.3, 0.4]),
              nd.array([1, 2, 3]), nd.array([[0.1, 0.2, 0.3], [0, 0, 1]]),
              nd.array([[0.6, 0.7, 0.8, 0.9]] * 2),
              nd.array([[0, 1, 2, 1], [0, 0, 0, 2]], dtype="int32"), nd.array([3, 4]),
              nd.array([4, 5])]
    for array in inputs[:3]:
        array.attach_grad()
    with mx.autograd.record():
        likelihood, state = nd.contrib.hawkesll(*inputs)
        (likelihood * nd.array([1, 2])).sum().backward()
    np.testing.assert_allclose(likelihood.asnumpy(), [-24.8811, -12.8827], atol=1e-3)
    np.testing.assert_allclose(state.asnumpy(), [[0.0352, 0.00458, 0.00335],
                                                 [0.09202, 0, 0.00248]], atol=1e-4)
    for array, slopes in zip(inputs, (
            [[-3.3382, -3.5022, -3.6667], [-4.4178, -10, -7.5005]], [-4.7555, -1.1806, -5.2902],
            [-0.0967, -0.0073, -0.0079]), strict=False):
        np.testing.assert_allclose(array.grad.asnumpy(), slopes, atol=1e-3)
