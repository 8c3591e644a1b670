"""Parameter, Constant, ParameterDict: values, contexts, deferred shapes, errors."""
import numpy as np
import pytest

import minigluon as mx
from minigluon import nd
from minigluon.base import (
    DeferredInitializationError,
    MXNetError,
    ParameterMismatch,
)
from minigluon.nn import Constant, Parameter, ParameterDict

TWO = [mx.cpu(0), mx.cpu(1)]


def test_a_copy_and_a_gradient_on_each_context_in_order():
    p = Parameter("weight", shape=(10, 5))
    p.initialize(init="xavier", ctx=TWO)
    assert [a.context for a in p.list_data()] == TWO == p.list_ctx()
    assert [g.context for g in p.list_grad()] == TWO
    assert p.data(mx.cpu(1)).context == mx.cpu(1)
    assert p.grad(mx.cpu(0)).stype == "default"
    np.testing.assert_array_equal(p.data(TWO[0]).asnumpy(), p.data(TWO[1]).asnumpy())
    assert abs(p.data(TWO[0]).asnumpy()).max() <= np.sqrt(3 / 7.5)
    p.data(TWO[0])[:] = 7
    assert p.data(TWO[1]).asnumpy().max() < 7


def test_pinned_host_memory_finds_the_copy_in_plain_host_memory():
    p = Parameter("weight", shape=(1,))
    p.initialize(ctx=TWO)
    assert p.data(mx.cpu_pinned(1)) is p.data(mx.cpu(1))


def test_before_initialize_everything_says_so():
    p = Parameter("w", shape=(2, 3))
    for ask in (p.data, p.list_data, p.grad, p.list_grad, p.list_ctx):
        with pytest.raises(RuntimeError, match="'w' has not been initialized"):
            ask()
    with pytest.raises(ValueError, match="has not been initialized"):
        p.reset_ctx(mx.cpu(1))
    with pytest.raises(AssertionError, match="has not been initialized"):
        p.set_data(nd.ones((2, 3)))
    with pytest.raises(TypeError):
        Parameter()


def test_a_context_it_is_not_on():
    p = Parameter("w", shape=(2,))
    p.initialize(ctx=TWO)
    with pytest.raises(RuntimeError, match=r"'w' was not initialized on context cpu\(2\)"):
        p.data(mx.cpu(2))


@pytest.mark.parametrize("shape", [(0, 3), (-1, 3), None])
def test_unknown_shape_without_permission_to_wait(shape):
    with pytest.raises(ValueError, match=r"'w'.*unknown sizes"):
        Parameter("w", shape=shape).initialize()


def test_deferred_initialization():
    p = Parameter("w", shape=(0, 3), allow_deferred_init=True, init="ones")
    p.initialize(ctx=[mx.cpu(1)])
    assert p.list_ctx() == [mx.cpu(1)]
    with pytest.raises(DeferredInitializationError, match="initialization was deferred"):
        p.data()
    p.reset_ctx(mx.cpu(2))
    assert p.list_ctx() == [mx.cpu(2)]
    with pytest.raises(AssertionError, match=r"\(4, 4\).*\(0, 3\)"):
        p.shape = (4, 4)
    p.shape = (4, 3)
    p._finish_deferred_init()
    assert p.data().asnumpy().tolist() == [[1] * 3] * 4
    assert p.data().context == mx.cpu(2)


def test_set_data_fills_in_unknown_sizes_and_waits_with_the_value():
    p = Parameter("w", shape=(0, 3), allow_deferred_init=True)
    p.initialize()
    with pytest.raises(AssertionError):
        p.set_data(nd.ones((4, 4)))
    p.set_data(nd.ones((4, 3)) * 5)
    p._finish_deferred_init()
    assert p.shape == (4, 3) and p.data().asnumpy().min() == 5


def test_initialize_again_warns_and_changes_nothing():
    p = Parameter("w", shape=(2,))
    p.initialize(init="ones")
    with pytest.warns(UserWarning, match="already initialized"):
        p.initialize(init="zeros")
    assert p.data().asnumpy().tolist() == [1, 1]
    p.initialize(init="zeros", force_reinit=True)
    assert p.data().asnumpy().tolist() == [0, 0]


def test_which_initializer_wins():
    own = Parameter("w_bias", shape=(3,), init="ones")
    own.initialize(default_init="zeros")
    assert own.data().asnumpy().tolist() == [1] * 3
    own.initialize(init="zeros", force_reinit=True)
    assert own.data().asnumpy().tolist() == [0] * 3
    plain = Parameter("w_bias", shape=(3,))
    plain.initialize(default_init=mx.initializer.Constant(4))  # the name does not count here
    assert plain.data().asnumpy().tolist() == [4] * 3


def test_initializers_that_choose_by_name(tmp_path):
    params = ParameterDict()
    a, b, own = (params.get(name, shape=(2,), init=init) for name, init in
                 (("a_weight", None), ("b_weight", None), ("a_bias", "ones")))
    params.initialize(mx.initializer.Mixed(["a", ".*"], [mx.initializer.Constant(4), "zeros"]))
    assert [p.data().asnumpy().tolist() for p in (a, b, own)] == [[4, 4], [0, 0], [1, 1]]
    params.initialize(mx.initializer.Load({"b_weight": nd.ones((2,)) * 7}, "ones"),
                      force_reinit=True)
    assert [p.data().asnumpy().tolist() for p in (a, b, own)] == [[1, 1], [7, 7], [1, 1]]


def test_reset_ctx_moves_the_mean():
    p = Parameter("w", shape=(1,))
    p.initialize(ctx=TWO, init="zeros")
    p.data(TWO[1])[:] = 4
    p.reset_ctx([mx.cpu(1), mx.cpu(2)])
    assert p.list_ctx() == [mx.cpu(1), mx.cpu(2)]
    assert [a.asscalar() for a in p.list_data()] == [2, 2]


def test_grad_req_takes_effect_at_once():
    p = Parameter("w", shape=(2,))
    p.initialize(init="ones")
    p.grad_req = "null"
    assert p._grad is None
    with pytest.raises(RuntimeError, match="grad_req='null'"):
        p.grad()
    with mx.autograd.record():
        y = p.data() * 3
    with pytest.raises(MXNetError):
        y.backward()
    p.grad_req = "add"
    for _ in range(2):
        with mx.autograd.record():
            y = p.data() * 3
        y.backward()
    assert p.grad().asnumpy().tolist() == [6, 6]
    p.zero_grad()
    assert p.grad().asnumpy().tolist() == [0, 0]
    with pytest.raises(AssertionError, match="'write', 'add', or 'null'"):
        p.grad_req = "often"


def test_not_differentiable_stays_null():
    p = Parameter("running_mean", shape=(2,), differentiable=False)
    p.grad_req = "write"
    assert p.grad_req == "null"


def test_cast_keeps_values_and_the_link_to_the_gradient():
    p = Parameter("w", shape=(2,))
    p.initialize(init="ones")
    p.cast("float64")
    assert p.data().dtype is np.float64 and p.dtype == "float64"
    with mx.autograd.record():
        y = p.data() * 3
    y.backward()
    assert p.grad().dtype is np.float64 and p.grad().asnumpy().tolist() == [3, 3]


def test_var_is_one_symbol_with_the_settings():
    p = Parameter("w", shape=(2, 3), lr_mult=2, init="zeros")
    assert p.var() is p.var() and p.var().name == "w"
    attrs = p.var().attr_dict()["w"]
    assert attrs["__shape__"] == "(2, 3)" and attrs["lr_mult"] == "2"
    assert attrs["__init__"] == "zeros" and attrs["__storage_type__"] == "0"
    assert Parameter("r", shape=(2,), stype="row_sparse").var().attr("__storage_type__") == "1"


def test_what_sparse_and_dense_parameters_refuse():
    with pytest.raises(AssertionError, match=r"stype.*'often'"):
        Parameter("w", stype="often")
    with pytest.raises(AssertionError, match="grad_stype"):
        Parameter("w", grad_stype="often")
    dense = Parameter("w", shape=(2,))
    with pytest.raises(RuntimeError, match="is default"):
        dense.row_sparse_data(nd.ones((1,)))
    with pytest.raises(RuntimeError, match="is default"):
        dense.list_row_sparse_data(nd.ones((1,)))
    sparse = Parameter("r", shape=(2,), stype="row_sparse")
    sparse.initialize()
    assert sparse._data[0].stype == "row_sparse"
    for ask in (sparse.row_sparse_data, sparse.list_row_sparse_data):
        with pytest.raises(RuntimeError, match="Trainer"):
            ask(nd.array([1]))
        with pytest.raises(TypeError, match="NDArray"):
            ask([1])
    for ask in (sparse.data, sparse.list_data):
        with pytest.raises(RuntimeError, match="row_sparse_data"):
            ask()


def test_constant_never_changes():
    c = Constant("c", np.array([[1, 2.0]]))
    with pytest.warns(UserWarning, match="does not support grad_req"):
        c.grad_req = "write"
    assert c.grad_req == "null" and c.shape == (1, 2)
    c.initialize()
    assert c.data().asnumpy().tolist() == [[1, 2]]


# -- ParameterDict ---------------------------------------------------------------------------------


def test_get_creates_once_and_merges_what_was_unknown():
    params = ParameterDict("net_")
    w = params.get("w0", shape=(10, 0))
    assert w.name == "net_w0" and params.get("w0", shape=(0, 5)) is w and w.shape == (10, 5)
    assert params.get("w0", init="zeros").init == "zeros"
    for setting, value in {"shape": (10, 6), "dtype": "float16", "lr_mult": 3}.items():
        with pytest.raises(AssertionError, match=f"'net_w0'.*'{setting}'"):
            params.get("w0", **{setting: value})
    params.get("b", shape=(1,))
    assert list(params.keys()) == ["net_w0", "net_b"]


def test_get_constant():
    params = ParameterDict("net_")
    with pytest.raises(KeyError, match="net_c"):
        params.get_constant("c")
    c = params.get_constant("c", [1, 2])
    assert params.get_constant("c", np.array([1, 2])) is c and params.get_constant("c") is c
    for other in ([1, 3], [1, 2, 3]):
        with pytest.raises(AssertionError, match="value doesn't match"):
            params.get_constant("c", other)


def test_text_of_a_dict():
    params = ParameterDict("net1_")
    params.get("w0", shape=(10, 5))
    assert str(params).splitlines() == [
        "net1_ (", "  Parameter net1_w0 (shape=(10, 5), dtype=float32)", ")"]
    assert str(ParameterDict()) == "(\n\n)"


def test_update_refuses_another_parameter_of_the_same_name():
    one, other = ParameterDict("p_"), ParameterDict("p_")
    one.get("w")
    other.get("w")
    with pytest.raises(ParameterMismatch, match="same name 'p_w'"):
        one.update(other)


def test_shared_dict_is_looked_in_first():
    first = ParameterDict("net_")
    w = first.get("w", shape=(1,))
    second = ParameterDict("net_", shared=first)
    assert second.get("w") is w
    second.get("v")
    assert "net_v" not in first


def test_contexts_and_attributes_of_all():
    params = ParameterDict()
    params.get("a", shape=(1,)).initialize(ctx=mx.cpu(0))
    params.get("b", shape=(1,)).initialize(ctx=mx.cpu(1))
    assert params.list_ctx() == [mx.cpu(0), mx.cpu(1)]
    params.reset_ctx(mx.cpu(2))
    assert params.list_ctx() == [mx.cpu(2)]
    params.setattr("grad_req", "null")
    assert all(p._grad is None for p in params.values())
    params.setattr("grad_req", "write")
    assert all(len(p._grad) == 1 for p in params.values())


def saved(tmp_path, **values):
    path = str(tmp_path / "p.params")
    nd.save(path, {name: nd.array(value, dtype=np.asarray(value).dtype)
                   for name, value in values.items()})
    return path


def test_save_and_load_by_full_name(tmp_path):
    params = ParameterDict("net1_")
    params.get("w", shape=(2,), init="ones").initialize()
    path = str(tmp_path / "a.params")
    params.save(path)
    assert list(nd.load(path)) == ["net1_w"]
    params.save(path, strip_prefix="net1_")
    assert list(nd.load(path)) == ["w"]
    with pytest.raises(ValueError, match="'net2_'"):
        params.save(path, strip_prefix="net2_")
    other = ParameterDict("net2_")
    other.get("w", shape=(0,))
    with pytest.raises(AssertionError, match="'net2_w' is missing"):
        other.load(path)
    with pytest.raises(AssertionError, match="restore_prefix"):
        other.load(path, restore_prefix="net3_")
    other.load(path, ctx=TWO, restore_prefix="net2_")
    assert other["net2_w"].shape == (2,) and other.list_ctx() == TWO


def test_load_says_what_does_not_fit(tmp_path):
    path = saved(tmp_path, w=np.ones(2, "float32"), extra=np.ones(1, "float32"))
    params = ParameterDict()
    w = params.get("w", shape=(2,))
    with pytest.raises(AssertionError, match=r"'extra'.*not present"):
        params.load(path)
    params.load(path, ignore_extra=True, ctx=mx.cpu(1))
    with pytest.raises(AssertionError, match="initialized on"):
        params.load(path, ignore_extra=True, ctx=mx.cpu(2))
    wrong = ParameterDict()
    wrong.get("w", shape=(3,))
    with pytest.raises(AssertionError, match=r"'w'.*expected \(3,\) vs saved \(2,\)"):
        wrong.load(path, ignore_extra=True)
    assert w.list_ctx() == [mx.cpu(1)]


def test_a_load_that_does_nothing_warns(tmp_path):
    path = saved(tmp_path, w=np.ones(2, "float32"))
    params = ParameterDict()
    params.get("v", shape=(2,))
    with pytest.warns(UserWarning, match="Nothing was loaded.*0 parameters loaded, 1 in the file"):
        params.load(path, allow_missing=True, ignore_extra=True)


@pytest.mark.parametrize(("source", "dtype"), [("current", "float16"), ("saved", "float32")])
def test_dtype_of_a_loaded_parameter(tmp_path, source, dtype):
    path = saved(tmp_path, w=np.ones(2, "float32"))
    params = ParameterDict()
    p = params.get("w", shape=(2,), dtype="float16")
    with pytest.raises(AssertionError, match="cast_dtype=True"):
        params.load(path)
    params.load(path, cast_dtype=True, dtype_source=source)
    assert np.dtype(p.dtype) == np.dtype(p.data().dtype) == np.dtype(dtype)


def test_integer_values_may_become_the_parameters_type(tmp_path):
    params = ParameterDict()
    p = params.get("w", shape=(2,), grad_req="null")
    params.load(saved(tmp_path, w=np.array([1, -2], "int8")), cast_dtype=True,
                dtype_source="saved")
    assert p.data().dtype is np.int8 and p.data().asnumpy().tolist() == [1, -2]
