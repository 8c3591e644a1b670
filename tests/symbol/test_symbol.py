"""Symbol: composition, names, attributes, inference, text."""
from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest

import minigluon as mx
from minigluon import symbol as sym
from minigluon.base import (
    ArgumentError,
    ArgumentValueError,
    DTypeError,
    MXNetError,
    NotForThisError,
    NotImplementedForSymbol,
    ShapeError,
)
from minigluon.initializer import One
from minigluon.name import NameManager


@pytest.fixture(autouse=True)
def fresh_names():
    with NameManager():
        yield


def mlp():
    h = sym.FullyConnected(sym.var("data"), name="fc1", num_hidden=1000)
    h = sym.Activation(h, act_type="relu")
    return sym.FullyConnected(h, name="fc2", num_hidden=10)


# -- composition -----------------------------------------------------------------------------------


def test_missing_inputs_become_variables():
    assert mlp().list_arguments() == ["data", "fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias"]
    assert mlp().list_outputs() == ["fc2_output"]
    bare = sym.FullyConnected(num_hidden=3, no_bias=True, name="fc")
    assert bare.list_arguments() == ["fc_data", "fc_weight"]


def test_auxiliary_states_are_listed_apart():
    y = sym.BatchNorm(sym.var("x"), name="bn")
    assert y.list_arguments() == ["x", "bn_gamma", "bn_beta"]
    assert y.list_auxiliary_states() == ["bn_moving_mean", "bn_moving_var"]
    assert y.list_inputs() == ["x", "bn_gamma", "bn_beta", "bn_moving_mean", "bn_moving_var"]
    assert y.list_outputs() == ["bn_output"]


def test_compose_by_name_and_by_position():
    head = sym.Activation(sym.FullyConnected(name="fc3", num_hidden=10), act_type="relu")
    net = head(fc3_data=mlp(), name="composed")
    assert net.name == "composed"
    assert net.list_arguments() == [*mlp().list_arguments(), "fc3_weight", "fc3_bias"]
    assert net.list_outputs() == ["composed_output"]
    assert head.list_arguments() == ["fc3_data", "fc3_weight", "fc3_bias"]  # unchanged
    assert head(mlp()).list_arguments()[0] == "data"
    group = sym.Group([head, head])(fc3_data=sym.var("z"))
    assert group.list_arguments() == ["z", "fc3_weight", "fc3_bias"]


def test_compose_complains():
    head = sym.FullyConnected(name="fc3", num_hidden=10)
    with pytest.raises(ArgumentError, match="no variable 'fc3_dta'; did you mean 'fc3_data'"):
        head(fc3_dta=mlp())
    with pytest.raises(ArgumentError, match="expected a Symbol, got int"):
        head(fc3_data=3)
    with pytest.raises(ArgumentError, match="not both"):
        head(mlp(), fc3_weight=sym.var("w"))
    with pytest.raises(ArgumentError, match="4 symbols for 3 arguments"):
        head(*[sym.var(name) for name in "abcd"])


def test_wrong_calls():
    x = sym.var("x")
    with pytest.raises(ArgumentError, match="unknown argument 'num_hiden'; did you mean"):
        sym.FullyConnected(x, num_hiden=3)
    with pytest.raises(ArgumentError, match="expected a Symbol, got float"):
        sym.FullyConnected(data=3.0, num_hidden=3)
    with pytest.raises(ArgumentError, match=r"expected a Symbol with one output, got 2.*x\[0\]"):
        sym.relu(sym.split(x, num_outputs=2))


def test_outputs_by_number_name_slice_and_iteration():
    pieces = sym.split(sym.var("x"), num_outputs=3, name="sp")
    assert len(pieces) == 3
    assert pieces.list_outputs() == ["sp_output0", "sp_output1", "sp_output2"]
    assert pieces[1].list_outputs() == pieces["sp_output1"].list_outputs() == ["sp_output1"]
    assert pieces[-1].list_outputs() == ["sp_output2"]
    assert [each.list_outputs() for each in pieces[1:]] == [["sp_output1"], ["sp_output2"]]
    assert pieces.name == pieces[1].name == "sp"
    with pytest.raises(ArgumentValueError, match="'sp_outputt1' which names no output; did you"):
        pieces["sp_outputt1"]
    with pytest.raises(ArgumentError, match="picked by number, name or slice"):
        pieces[None]
    assert sym.concat(*pieces, dim=1).list_arguments() == ["x"]
    assert len(sym.Concat(pieces).get_children()) == 3


def test_internals_and_children():
    net = mlp()
    internals = net.get_internals()
    assert internals.list_outputs() == [
        "data", "fc1_weight", "fc1_bias", "fc1_output", "activation0_output", "fc2_weight",
        "fc2_bias", "fc2_output"]
    assert internals["fc1_output"].list_arguments() == ["data", "fc1_weight", "fc1_bias"]
    assert net.get_children().list_outputs() == ["activation0_output", "fc2_weight", "fc2_bias"]
    assert sym.var("x").get_children() is None


def test_group():
    a, b = sym.var("a"), sym.var("b")
    both = sym.Group([a + b, b])
    assert both.list_outputs() == ["_plus0_output", "b"]
    assert both.name is None
    assert repr(both) == "<Symbol group [_plus0, b]>"
    assert repr(both[0]) == "<Symbol _plus0>"
    with pytest.raises(ArgumentError, match="non-empty list of Symbols"):
        sym.Group([a, 3])


# -- Python operators ------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "op", "name"), [
    (lambda a, b: a + b, "elemwise_add", "_plus0"),
    (lambda a, b: a - b, "elemwise_sub", "_minus0"),
    (lambda a, b: a * b, "elemwise_mul", "_mul0"),
    (lambda a, b: a / b, "elemwise_div", "_div0"),
    (lambda a, b: a + 1, "_plus_scalar", "_plusscalar0"),
    (lambda a, b: 1 - a, "_rminus_scalar", "_rminusscalar0"),
    (lambda a, b: 2 / a, "_rdiv_scalar", "_rdivscalar0"),
    (lambda a, b: a**2, "_power_scalar", "_powerscalar0"),
    (lambda a, b: -a, "_mul_scalar", "_mulscalar0"),
    (lambda a, b: abs(a), "abs", "abs0"),
    (lambda a, b: a.sum(axis=1), "sum", "sum0"),
])
def test_operators_and_their_names(make, op, name):
    y = make(sym.var("a"), sym.var("b"))
    assert y.entries[0].node.op.name == op
    assert y.name == name


@pytest.mark.parametrize("make", [
    lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / b,
    lambda a, b: a % b, lambda a, b: a**b, lambda a, b: 3 - a, lambda a, b: 3 / a,
    lambda a, b: 3**a, lambda a, b: 3 % a, lambda a, b: a == b, lambda a, b: a != b,
    lambda a, b: a > b, lambda a, b: a >= b, lambda a, b: a < b, lambda a, b: a <= b,
    lambda a, b: a > 2, lambda a, b: 2 > a, lambda a, b: 2 >= a, lambda a, b: -a,
])
def test_operators_compute_what_python_does(make):
    a, b = np.array([1.0, 2.0, 3.5]), np.array([2.0, 2.0, 0.5])
    [got] = evaluate(make(sym.var("a"), sym.var("b")), a=a, b=b)
    np.testing.assert_allclose(got, np.asarray(make(a, b), dtype="float64"))


def evaluate(symbol, **arrays):
    from minigluon import ndarray as nd

    given = {name: nd.array(value, dtype="float64") for name, value in arrays.items()
             if name in symbol.list_inputs()}
    return [y.asnumpy() for y in symbol.eval(**given)]


def test_functions_of_symbols_and_numbers():
    a = sym.var("a")
    x = np.array([1.0, 2.0, 3.0])
    for made, want in ((sym.maximum(a, 2), [2, 2, 3]), (sym.minimum(2, a), [1, 2, 2]),
                       (sym.power(2, a), [2, 4, 8]), (sym.maximum(a, a * 2), [2, 4, 6])):
        assert evaluate(made, a=x)[0].tolist() == want
    assert sym.maximum(2, 3) == 3
    assert sym.power(2, 3) == 8
    assert sym.maximum(a, 1, name="mine").name == "mine"
    with pytest.raises(DTypeError, match="expected Symbols or numbers"):
        sym.add(a, "x")


def test_not_for_symbols():
    a = sym.var("a")
    with pytest.raises(NotImplementedForSymbol, match="truth of a Symbol"):
        bool(a)
    with pytest.raises(NotImplementedError):
        if a > 1:
            raise AssertionError
    with pytest.raises(TypeError):
        a + "x"
    assert (a == None) is False  # noqa: E711
    assert (a != None) is True  # noqa: E711
    assert len({a, a, sym.var("a")}) == 2


def test_methods():
    x = sym.var("x")
    assert x.reshape((2, -1)).entries[0].node.attrs["shape"] == (2, -1)
    assert x.reshape(2, -1).entries[0].node.attrs["shape"] == (2, -1)
    assert x.reshape(shape=(4,)).entries[0].node.attrs["shape"] == (4,)
    assert x.astype("float16").entries[0].node.attrs["dtype"] == "float16"
    assert x.relu().name == "relu0"


# -- attributes ------------------------------------------------------------------------------------


def test_attributes_of_variables():
    v = sym.var("v", shape=(2, 3), lr_mult=2, wd_mult=0.5, dtype="float16", __foo__="3",
                attr={"mood": "angry"}, init='["one", {}]')
    assert v.attr("lr_mult") == v.attr("__lr_mult__") == "2"
    assert v.attr("wd_mult") == "0.5"
    assert v.list_attr() == {"__shape__": "(2, 3)", "__lr_mult__": "2", "lr_mult": "2",
                             "__wd_mult__": "0.5", "wd_mult": "0.5", "__dtype__": "2",
                             "__foo__": "3", "mood": "angry", "__init__": '["one", {}]'}
    assert v.attr("nothing") is None
    with pytest.raises(ArgumentValueError, match=r"unknown argument 'foo'.*__foo__"):
        sym.var("v", foo="3")
    with pytest.raises(ArgumentError, match="expected a name"):
        sym.var(3)


def test_attributes_of_nodes():
    data = sym.var("data", attr={"mood": "angry"})
    y = sym.Convolution(data, name="conv", kernel=(1, 1), num_filter=1,
                        attr={"__mood__": "so so"}, lr_mult=3)
    found = y.attr_dict()
    assert found["data"] == {"mood": "angry"}
    assert found["conv"]["kernel"] == "(1, 1)"
    assert found["conv"]["num_filter"] == "1"
    assert found["conv"]["__mood__"] == "so so"
    assert found["conv_weight"]["__mood__"] == "so so"
    assert found["conv_weight"]["lr_mult"] == "3"
    assert y.attr("kernel") == "(1, 1)"
    y._set_attr(mood="better", lr_mult="4")
    assert y.attr("mood") == "better"
    assert y.attr("__lr_mult__") == "4"
    with pytest.raises(ArgumentValueError, match="mood: expected a string"):
        y._set_attr(mood=3)


# -- inference -------------------------------------------------------------------------------------


def test_infer_shape():
    net = mlp()
    want = ([(100, 100), (1000, 100), (1000,), (10, 1000), (10,)], [(100, 10)], [])
    assert net.infer_shape(data=(100, 100)) == want
    assert net.infer_shape((100, 100)) == want
    assert net.infer_shape() == (None, None, None)
    assert net.infer_shape_partial() == ([()] * 5, [()], [])  # as MXNet: nothing without data
    assert net.infer_shape_partial(data=(0, 100))[1] == [(0, 10)]
    assert net.infer_shape(data=(0, 100)) == (None, None, None)
    with pytest.raises(ShapeError, match="node fc1"):
        net.infer_shape(data=(100, 100), fc1_weight=(1, 100))
    with pytest.raises(MXNetError, match="no variable 'dta'; did you mean 'data'"):
        net.infer_shape(dta=(1, 1))


def test_infer_shape_of_auxiliary_states():
    y = sym.BatchNorm(sym.var("x"), name="bn")
    assert y.infer_shape(x=(2, 5)) == ([(2, 5), (5,), (5,)], [(2, 5)], [(5,), (5,)])


def test_the_hint_of_a_variable_is_overridden():
    y = sym.var("a", shape=(2, 3)) * 2
    assert y.infer_shape() == ([(2, 3)], [(2, 3)], [])
    assert y.infer_shape(a=(5, 6)) == ([(5, 6)], [(5, 6)], [])


def test_infer_type():
    net = mlp()
    assert net.infer_type(data="float64") == ([np.float64] * 5, [np.float64], [])
    assert net.infer_type() == (None, None, None)
    assert net.infer_type_partial() == ([None] * 5, [None], [])
    assert sym.Cast(sym.var("x"), dtype="int32").infer_type_partial() == (
        [None], [np.int32], [])


# -- copies and text -------------------------------------------------------------------------------


def test_copies_are_independent():
    net = mlp()
    for twin in (copy.copy(net), copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert twin.tojson() == net.tojson()
        twin._set_attr(mood="changed")
        assert net.attr("mood") is None


def test_save_and_load(tmp_path):
    net = sym.Group([mlp(), sym.BatchNorm(sym.var("z"), name="bn", eps=1e-5)])
    path = str(tmp_path / "net-symbol.json")
    net.save(path)
    again = sym.load(path)
    assert again.tojson() == net.tojson() == sym.load_json(net.tojson()).tojson()
    assert again.list_auxiliary_states() == net.list_auxiliary_states()
    assert again.list_outputs() == net.list_outputs()
    with pytest.raises(ArgumentError, match="expected a string, got int"):
        sym.load_json(3)


def test_the_module_shows_operators_with_help():
    signature = str(sym.FullyConnected.__signature__)
    assert "num_hidden" in signature and "name=None" in signature
    assert sym.Variable is sym.var
    assert sym.pow(sym.var("x"), 2).entries[0].node.op.name == "_power_scalar"
    assert callable(sym.random.uniform)
    assert "FullyConnected" in sym.__all__


def test_constants():
    assert evaluate(sym.zeros((2, 2)) + 1)[0].tolist() == [[1, 1], [1, 1]]
    assert evaluate(sym.full((2,), 3.5))[0].tolist() == [3.5, 3.5]
    assert evaluate(sym.arange(3))[0].tolist() == [0, 1, 2]
    assert evaluate(sym.arange(2, 8, 2, dtype="int32"))[0].dtype == np.int32
    assert evaluate(sym.ones(3, dtype="float16"))[0].dtype == np.float16
    assert evaluate(sym.eye(2))[0].tolist() == [[1, 0], [0, 1]]


def test_debug_str_lists_the_nodes():
    x = sym.var("x")
    assert x.debug_str() == "Variable:x\n"
    assert sym.FullyConnected(x, num_hidden=2, no_bias=True, name="f").debug_str() == (
        "Symbol Outputs:\n\toutput[0]=f(0)\nVariable:x\nVariable:f_weight\n" + "-" * 20
        + "\nOp:FullyConnected, Name=f\nInputs:\n\targ[0]=x(0) version=0\n"
        "\targ[1]=f_weight(0) version=0\nAttrs:\n\tno_bias=True\n\tnum_hidden=2\n")


def test_there_are_no_partitioners():
    for call in (lambda x: x.optimize_for("TensorRT"), lambda x: x.get_backend_symbol("MKLDNN")):
        with pytest.raises(NotForThisError, match="has no graph partitioners"):
            call(sym.var("x"))


def test_attributes_with_a_meaning_may_be_numbers_or_initializers():
    made = sym.FullyConnected(sym.var("x"), num_hidden=1, name="f",
                              attr={"__init__": One(), "__lr_mult__": 2})
    assert made.attr_dict()["f_weight"]["__init__"] == One().dumps()
    assert made.attr("__lr_mult__") == "2"
    with pytest.raises(ValueError, match="expected a string"):
        sym.FullyConnected(sym.var("x"), num_hidden=1, attr={"note": 2})


def test_numpy_shapes():
    a, b = sym.var("a"), sym.var("b")
    net = sym.Convolution(a, kernel=(7, 7), num_filter=64, name="c")
    assert net.infer_shape_partial(a=(2, 0, 14, 14)) == (
        [(2, 0, 14, 14), (64, 0, 7, 7), (64,)], [(2, 64, 8, 8)], [])
    assert (a + b).infer_shape_partial() == ([(), ()], [()], [])
    assert json.loads(net.tojson())["attrs"] == {"mxnet_version": ["int", 10901]}
    with mx.np_shape(True):
        assert net.infer_shape_partial(a=(2, -1, 14, 14)) == (
            [(2, -1, 14, 14), (64, -1, 7, 7), (64,)], [(2, 64, 8, 8)], [])
        assert (a + b).infer_shape_partial(a=(-1, 3)) == ([(-1, 3), (-1, 3)], [(-1, 3)], [])
        assert (a + b).infer_shape_partial() == ([None, None], [None], [])
        assert (a + b).infer_shape(a=()) == ([(), ()], [()], [])
        assert (a + b).infer_shape(a=(-1, 3)) == (None, None, None)
        assert (a * sym.var("v", shape=(-1, 3))).infer_shape(a=(4, 3))[1] == [(4, 3)]
        text = net.tojson()
    assert json.loads(text)["attrs"]["is_np_shape"] == ["int", 1]
    assert mx.sym.load_json(text).list_arguments() == net.list_arguments()


def test_attributes_stand_as_they_were_said() -> None:
    x = sym.var("x")
    y = sym.Pooling(x, kernel=(2, 2), stride=[2, 2], pool_type="max", name="pool")
    said = {"kernel": "(2, 2)", "stride": "[2, 2]", "pool_type": "max"}  # defaults, too
    assert y.list_attr() == said
    y = sym.load_json(y.tojson())
    assert y.list_attr() == said
    assert sym.clip(y, 0, 1).list_attr() == {"a_min": "0", "a_max": "1"}
    assert sym.load_json(y.tojson()).tojson() == y.tojson()
    assert sym.Concat(y, y, dim=1).list_attr() == {"dim": "1", "num_args": "2"}


def test_names_of_numbers_with_symbols_are_mxnets() -> None:
    x = sym.var("x")
    with mx.name.NameManager():
        names = [y.name for y in (2 ** x, sym.power(2, x), x ** 2, x < 1, 1 < x, x >= 1, x != 1,
                                  1 - x, x * 2)]
    assert names == [
        "_rpower_scalar0", "_rpowerscalar0", "_powerscalar0", "_lesser_scalar0",
        "_greater_scalar0", "_greater_equal_scalar0", "_not_equal_scalar0", "_rminusscalar0",
        "_mulscalar0"]


def test_labels_of_softmax_outputs() -> None:
    x = sym.var("x")
    shapes = [sym.SoftmaxOutput(x, name="s", **how).infer_shape(x=shape)[0][1]
              for shape, how in [((4, 3), {}), ((4, 3, 2), {}),
                                 ((4, 3, 2), {"preserve_shape": True}),
                                 ((4, 3, 2, 5), {"multi_output": True})]]
    assert shapes == [(4,), (4, 3), (4, 3), (4, 10)]
    for label in [(4, 10), (4, 2, 5), (4, 1, 2, 5)]:
        many = sym.SoftmaxOutput(x, name="s", multi_output=True)
        assert many.infer_shape(x=(4, 3, 2, 5), s_label=label)[0][1] == label


def test_names_of_draws_and_ranges_are_mxnets() -> None:
    with mx.name.NameManager():
        x = sym.var("x")
        names = [y.name for y in (sym.random.randint(0, 3), sym.random.shuffle(x), sym.shuffle(x),
                                  sym.random.multinomial(x)[0], sym.linspace(0, 1, 3))]
    assert names == ["_random_randint0", "_shuffle0", "shuffle0", "_sample_multinomial0",
                     "_linspace0"]


def test_numpy_scalars_go_with_symbols_and_numpy_arrays_do_not():
    x = sym.var("x")
    assert (np.float32(3) - x).eval(x=mx.nd.ones((2,)))[0].asnumpy().tolist() == [2, 2]
    for wrong in (lambda: x + np.ones(3), lambda: np.ones(3) * x, lambda: x + None):
        with pytest.raises(TypeError):
            wrong()


def test_names_of_the_outputs_of_hawkesll():
    names = sym.contrib.hawkesll(sym.var("lda"), name="h").list_outputs()
    assert names == ["h_output", "h_out_state"]
