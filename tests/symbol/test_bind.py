"""Executor: bind, simple_bind, forward, backward, reshape."""
from __future__ import annotations

import numpy as np
import pytest

import minigluon as mx
from minigluon import ndarray as nd
from minigluon import symbol as sym
from minigluon.base import (
    ArgumentError,
    ArgumentValueError,
    GradientError,
    ShapeError,
)
from minigluon.device.cpu import native
from minigluon.graph import layout, topological
from minigluon.symbol import segment

CPU = mx.cpu()


def arrays(*shapes):
    rng = np.random.default_rng(0)
    return [nd.array(rng.normal(size=shape)) for shape in shapes]


def test_forward_and_backward():
    a, b = arrays((2, 3), (2, 3))
    da, db = nd.zeros((2, 3)), nd.zeros((2, 3))
    x = sym.var("a")
    y = x * sym.var("b") + x
    executor = y.bind(CPU, [a, b], args_grad=[da, db])
    [out] = executor.forward(is_train=True)
    np.testing.assert_allclose(out.asnumpy(), (a * b + a).asnumpy(), rtol=1e-6)
    (head,) = arrays((2, 3))
    executor.backward(head)
    np.testing.assert_allclose(da.asnumpy(), (head * (b + 1)).asnumpy(), rtol=1e-6)
    np.testing.assert_allclose(db.asnumpy(), (head * a).asnumpy(), rtol=1e-6)
    assert executor.grad_dict["a"] is da
    assert executor.arg_arrays[0] is a and executor.arg_dict['b'] is b
    assert executor.output_dict.keys() == {f"{y.name}_output"}
    executor.backward()  # heads default to ones
    np.testing.assert_allclose(db.asnumpy(), a.asnumpy(), rtol=1e-6)


def test_binding_by_name_with_requests():
    a, b = arrays((3,), (3,))
    da = nd.ones((3,))
    executor = (sym.var("a") * sym.var("b")).bind(
        CPU, {"b": b, "a": a}, args_grad={"a": da}, grad_req="add")
    executor.forward(is_train=True)
    executor.backward(nd.ones((3,)))
    executor.backward(nd.ones((3,)))
    np.testing.assert_allclose(da.asnumpy(), 1 + 2 * b.asnumpy(), rtol=1e-6)
    assert executor.grad_dict["b"] is None
    off = (sym.var("a") * 2).bind(CPU, [a], args_grad=[da], grad_req={"a": "null"})
    assert off.grad_arrays == [None]


def test_simple_bind_infers_and_allocates():
    net = sym.FullyConnected(sym.var("x"), num_hidden=3, name="fc")
    executor = net.simple_bind(CPU, x=(2, 4), type_dict={"x": "float64"})
    assert {name: array.shape for name, array in executor.arg_dict.items()} == {
        "x": (2, 4), "fc_weight": (3, 4), "fc_bias": (3,)}
    assert executor.arg_dict["fc_weight"].dtype == np.float64
    executor.arg_dict["fc_bias"][:] = 1
    [out] = executor.forward(is_train=False, x=nd.ones((2, 4)))
    assert out.asnumpy().tolist() == [[1.0] * 3] * 2
    executor.backward(nd.ones((2, 3), dtype="float64"))
    assert executor.grad_dict["fc_bias"].asnumpy().tolist() == [2.0] * 3
    no_grad = net.simple_bind(CPU, grad_req="null", x=(2, 4))
    assert no_grad.grad_arrays == [None] * 3


def test_running_statistics():
    y = sym.BatchNorm(sym.var("x"), name="bn", momentum=0.5, fix_gamma=False)
    executor = y.simple_bind(CPU, x=(4, 2))
    executor.aux_dict["bn_moving_var"][:] = 1
    executor.arg_dict["bn_gamma"][:] = 1
    data = nd.array([[0, 2], [2, 4], [0, 2], [2, 4]])
    executor.forward(is_train=False, x=data)
    assert executor.aux_dict["bn_moving_mean"].asnumpy().tolist() == [0, 0]
    executor.forward(is_train=True)
    assert executor.aux_dict["bn_moving_mean"].asnumpy().tolist() == [0.5, 1.5]
    executor.backward(nd.ones((4, 2)))
    assert executor.aux_dict["bn_moving_mean"].asnumpy().tolist() == [0.5, 1.5]
    assert executor.grad_dict["bn_beta"].asnumpy().tolist() == [4, 4]


def test_backward_takes_gradients_by_the_outputs_names():
    x = sym.var("x")
    both = sym.Group([sym.square(x, name="a"), sym.square(x, name="b")])
    executor = both.simple_bind(mx.cpu(), x=(2,))
    executor.forward(is_train=True, x=nd.array([1, 2]))
    executor.backward({"b_output": nd.array([0, 1]), "a_output": nd.array([3, 0])})
    assert executor.grad_dict["x"].asnumpy().tolist() == [6, 4]


def test_dropout_backward_uses_the_same_mask():
    executor = sym.Dropout(sym.var("x"), p=0.5).simple_bind(CPU, x=(1000,))
    [out] = executor.forward(is_train=True, x=nd.ones((1000,)))
    executor.backward(nd.ones((1000,)))
    np.testing.assert_array_equal(executor.grad_dict["x"].asnumpy(), out.asnumpy())
    [out] = executor.forward(is_train=False)
    assert (out.asnumpy() == 1).all()
    executor.backward(nd.ones((1000,)))
    assert (executor.grad_dict["x"].asnumpy() == 1).all()


def test_several_outputs():
    x = sym.var("x")
    executor = sym.Group([x, x * 2, x * 2]).bind(CPU, [nd.ones((2,))], [nd.zeros((2,))])
    outputs = executor.forward(is_train=True)
    outputs[0][:] = 9
    outputs[1][:] = 9
    assert executor.arg_dict["x"].asnumpy().tolist() == [1, 1]
    assert outputs[2].asnumpy().tolist() == [2, 2]
    executor.backward([nd.ones((2,)), nd.ones((2,)), None])
    assert executor.grad_dict["x"].asnumpy().tolist() == [5, 5]
    with pytest.raises(ArgumentValueError, match="expected 3 output gradients, got 1"):
        executor.backward([nd.ones((2,))])


def test_a_gradient_that_does_not_exist_is_zero():
    executor = (sym.BlockGrad(sym.var("x")) * sym.var("z")).bind(
        CPU, arrays((2,), (2,)), [nd.ones((2,)), nd.ones((2,))])
    executor.forward(is_train=True)
    executor.backward(nd.ones((2,)))
    assert executor.grad_arrays[0].asnumpy().tolist() == [0, 0]


def test_eval():
    y = sym.Group([sym.var("a") + 1, sym.var("b") * 2])
    first, second = y.eval(ctx=CPU, a=nd.ones((2,)), b=nd.ones((3,)))
    assert first.asnumpy().tolist() == [2, 2]
    assert second.asnumpy().tolist() == [2, 2, 2]


def test_reshape_shares_what_it_can():
    net = sym.FullyConnected(sym.var("x"), num_hidden=4, name="fc")
    executor = net.simple_bind(CPU, x=(5, 4))
    executor.arg_dict["fc_weight"][:] = 1
    small = executor.reshape(x=(3, 4))
    assert small.arg_dict["fc_weight"] is executor.arg_dict["fc_weight"]
    small.forward(x=nd.ones((3, 4)))
    assert (small.outputs[0].asnumpy() == 4).all()
    assert (executor.arg_dict["x"].asnumpy()[:3] == 1).all()
    assert (executor.arg_dict["x"].asnumpy()[3:] == 0).all()
    with pytest.raises(ShapeError, match=r"x would grow.*allow_up_sizing=True"):
        executor.reshape(x=(6, 4))
    big = executor.reshape(allow_up_sizing=True, x=(6, 4))
    big.forward(x=nd.ones((6, 4)))
    assert (executor.arg_dict["x"].asnumpy()[3:] == 0).all()
    with pytest.raises(ShapeError, match="fc_weight would change"):
        executor.reshape(x=(5, 3))


def test_reshape_of_a_graph_with_images():
    """Layouts of images suit one shape: another shape gets its own program, and both stay right."""
    x = sym.Convolution(sym.var("x"), num_filter=16, kernel=(3, 3), pad=(1, 1), name="c")
    net = sym.Pooling(sym.relu(x), global_pool=True, kernel=(1, 1), pool_type="avg")
    executor = net.simple_bind(CPU, x=(16, 8, 6, 6))
    executor.arg_dict["c_weight"][:] = 0.5
    images = nd.array(np.random.RandomState(0).rand(18, 8, 6, 6))
    whole = executor.forward(is_train=True, x=images[:16])[0].asnumpy()
    for count in (5, 18, 16):
        other = executor.reshape(allow_up_sizing=True, x=(count, 8, 6, 6))
        out = other.forward(is_train=True, x=images[:count])[0]
        other.backward(nd.ones(out.shape))
        np.testing.assert_allclose(out.asnumpy()[:16], whole[:count], rtol=1e-5)
        padded = np.pad(images.asnumpy()[:count], ((0, 0), (0, 0), (1, 1), (1, 1)))
        corner = padded[:, :, :6, :6].mean((2, 3)).sum(0)
        np.testing.assert_allclose(other.grad_dict["c_weight"].asnumpy()[:, :, 0, 0],
                                   np.tile(corner, (16, 1)), rtol=1e-4)
    np.testing.assert_allclose(executor.forward(x=images[:16])[0].asnumpy(), whole, rtol=1e-5)


def test_copy_params():
    executor = (sym.var("x") * sym.var("w")).simple_bind(CPU, x=(2,))
    executor.copy_params_from({"w": nd.array([3, 4])})
    assert executor.arg_dict["w"].asnumpy().tolist() == [3, 4]
    with pytest.raises(ArgumentValueError, match="no 'v' in this executor"):
        executor.copy_params_from({"v": nd.array([3, 4])})
    executor.copy_params_from({"v": nd.array([3, 4])}, allow_extra_params=True)


def test_what_does_not_fit_is_told_when_binding():
    net = sym.FullyConnected(sym.var("x"), num_hidden=3, name="fc")
    with pytest.raises(ShapeError, match="node fc"):
        net.bind(CPU, arrays((2, 4), (3, 5), (3,)))
    with pytest.raises(ShapeError, match="node fc"):
        net.simple_bind(CPU, x=(2, 4), fc_weight=(3, 5))
    with pytest.raises(ShapeError, match=r"cannot tell the shapes of .*'x': None"):
        net.simple_bind(CPU)
    with pytest.raises(ArgumentValueError, match="args: missing fc_weight, fc_bias"):
        net.bind(CPU, {"x": nd.ones((2, 4))})
    with pytest.raises(ArgumentValueError, match="args: expected 3 arrays"):
        net.bind(CPU, arrays((2, 4)))
    with pytest.raises(ArgumentValueError, match="grad_req: expected one of"):
        net.bind(CPU, arrays((2, 4), (3, 4), (3,)), grad_req="wirte")


def test_wrong_calls():
    executor = (sym.var("x") * 2).simple_bind(CPU, x=(2,))
    with pytest.raises(GradientError, match="nothing was computed yet"):
        executor.backward()
    with pytest.raises(ArgumentError, match="no argument 'y'"):
        executor.forward(y=nd.ones((2,)))
    with pytest.raises(ShapeError, match=r"x: expected shape \(2,\), got \(3,\)"):
        executor.forward(x=nd.ones((3,)))


def test_identity_does_not_share_memory_with_its_argument():
    x = nd.ones((2,))
    [out] = sym.var("x").eval(x=x)
    out[:] = 5
    assert x.asnumpy().tolist() == [1, 1]


def chain():
    """Layers that go back and forth between two groups, with running statistics on the second."""
    data = sym.var("data")
    with mx.AttrScope(ctx_group="one"):
        hidden = sym.FullyConnected(data, num_hidden=4, name="fc1")
    with mx.AttrScope(ctx_group="two"):
        hidden = sym.Activation(sym.BatchNorm(hidden, name="bn", fix_gamma=False), act_type="tanh")
    with mx.AttrScope(ctx_group="one"):
        out = sym.broadcast_mul(sym.FullyConnected(hidden, num_hidden=3, name="fc2"),
                                sym.sum(hidden))
    return sym.Group([out, hidden])


def test_groups_place_arguments_and_calls():
    groups = {"one": mx.cpu(1), "two": [mx.cpu(2)]}
    net = chain()
    executor = net.simple_bind(CPU, group2ctx=groups, data=(5, 6))
    plain = net.simple_bind(CPU, data=(5, 6))
    places = {name: array.context for name, array in executor.arg_dict.items()}
    assert places == {"data": CPU, "fc1_weight": mx.cpu(1), "fc1_bias": mx.cpu(1),
                      "bn_gamma": mx.cpu(2), "bn_beta": mx.cpu(2), "fc2_weight": mx.cpu(1),
                      "fc2_bias": mx.cpu(1)}
    assert {array.context for array in executor.aux_arrays} == {mx.cpu(2)}
    for name, array in plain.arg_dict.items():
        (array[:],) = arrays(array.shape)
        executor.arg_dict[name][:] = array
    for run in (executor, plain):
        run.forward(is_train=True)
        run.backward([nd.ones((5, 3)), None])
    assert [out.context for out in executor.outputs] == [mx.cpu(1), mx.cpu(2)]
    for one, other in zip((*executor.outputs, *executor.grad_arrays, *executor.aux_arrays),
                          (*plain.outputs, *plain.grad_arrays, *plain.aux_arrays), strict=True):
        np.testing.assert_allclose(one.asnumpy(), other.asnumpy(), rtol=1e-5, atol=1e-6)
        assert one.asnumpy().any()
    assert executor.grad_dict["bn_gamma"].context == mx.cpu(2)
    assert executor.reshape(data=(2, 6)).forward()[0].context == mx.cpu(1)
    with pytest.raises(ArgumentValueError, match="group 'one': expected one context"):
        net.simple_bind(CPU, group2ctx={"one": [CPU, CPU]}, data=(5, 6))


def test_bind_with_groups_takes_the_arrays_as_they_are():
    with mx.AttrScope(ctx_group="one"):
        y = sym.var("x") * 2
    z = y + sym.var("w")
    x, w = nd.ones((2,), ctx=mx.cpu(1)), nd.ones((2,))
    executor = z.bind(CPU, [x, w], [nd.zeros((2,), ctx=mx.cpu(1)), nd.zeros((2,))],
                      group2ctx={"one": mx.cpu(1)}, grad_req="add")
    for _ in range(2):
        assert executor.forward()[0].asnumpy().tolist() == [3, 3]
        executor.backward()
    assert [grad.asnumpy().tolist() for grad in executor.grad_arrays] == [[4, 4], [2, 2]]


def test_monitor_callback_sees_every_output():
    net = sym.FullyConnected(sym.var("data"), num_hidden=2, name="fc")
    net = sym.SliceChannel(sym.Activation(net, act_type="relu", name="act"), num_outputs=2,
                           name="cut")
    executor = net.simple_bind(CPU, data=(2, 3))
    executor.arg_dict["fc_bias"][:] = nd.array([-1, 2])
    seen = {}
    executor.set_monitor_callback(lambda name, array: seen.update({name: array.asnumpy()}))
    executor.forward(is_train=True)
    assert list(seen) == ["fc_output", "act_output", "cut_output0", "cut_output1"]
    assert seen["fc_output"].tolist() == [[-1, 2]] * 2
    assert seen["act_output"].tolist() == [[0, 2]] * 2
    executor.backward([nd.ones((2, 1))] * 2)
    assert executor.grad_dict["fc_bias"].asnumpy().tolist() == [0, 2]
    seen.clear()
    executor.set_monitor_callback(lambda name, array: seen.update({name: array}), True)
    executor.forward()
    assert list(seen)[:5] == ["fc_data", "fc_weight", "fc_bias", "fc_output", "act_data"]


def test_one_entry_twice_gives_two_arrays():
    y = sym.var("x") * 2
    first, second = sym.Group([y, y]).eval(x=nd.ones((2,)))
    first[:] = 0
    assert second.asnumpy().tolist() == [2, 2]


def test_a_penalty_updates_its_running_mean_in_backward():
    """Figures of MXNet 1.9.1."""
    net = sym.IdentityAttachKLSparseReg(sym.var("x"), name="kl")
    assert net.list_auxiliary_states() == ["kl_moving_avg"]
    executor = net.simple_bind(CPU, x=(2, 3))
    executor.arg_dict["x"][:] = nd.array([[.2, .5, .9], [.3, .1, .6]])
    for mean, grad in (([.025, .03, .075], [.9969231, .9975945, .99963963]),
                       ([.0475, .057, .1425], [.9988396, .9992, 1.0003479])):
        executor.forward(is_train=True)
        executor.backward(nd.ones((2, 3)))
        np.testing.assert_allclose(executor.aux_dict["kl_moving_avg"].asnumpy(), mean, rtol=1e-5)
        np.testing.assert_allclose(executor.grad_dict["x"].asnumpy(), [grad] * 2, rtol=1e-6)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("kind", ["NHWC", "blocked"])
def test_images_lie_as_the_kernels_like_them(grouped, kind, monkeypatch):
    if not native.onednn:
        pytest.skip("oneDNN's kernels are not built")
    monkeypatch.setattr(
        layout, "_choose", lambda *_: layout._NHWC if kind == "NHWC" else layout._BLOCKED)
    found = []

    def noted(*args):
        found.extend(layout.assign_layout(*args))
        return found[-1:]

    monkeypatch.setattr(segment, "assign_layout", noted)

    def gradients(watched):
        with mx.AttrScope(ctx_group="first"):
            x = sym.Convolution(sym.var("x"), kernel=(3, 3), num_filter=5, name="one")
            x = sym.Pooling(sym.relu(sym.BatchNorm(x, name="norm")), kernel=(2, 2), stride=(2, 2))
        with mx.AttrScope(ctx_group="second"):
            x = sym.tanh(sym.Convolution(x, kernel=(3, 3), num_filter=3, name="two"))
        places = {"first": mx.cpu(1), "second": mx.cpu(2)} if grouped else None
        executor = x.simple_bind(CPU, x=(16, 2, 10, 10), group2ctx=places)
        random = np.random.default_rng(1)
        for array in executor.arg_arrays:
            array[:] = nd.array(random.normal(size=array.shape))
        if watched:
            executor.set_monitor_callback(lambda name, array: None)
        [out] = executor.forward(is_train=True)
        executor.backward(nd.array(np.cos(np.arange(out.size)).reshape(out.shape)))
        return [array.asnumpy() for array in (out, *executor.grad_arrays, *executor.aux_arrays)]

    wanted = gradients(watched=True)
    found.clear()
    for got, want in zip(gradients(watched=False), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * max(1, np.abs(want).max()))
    convolutions = [node for node in topological(found) if node.op
                    and node.op.name == "Convolution"]
    assert len(convolutions) == 2
    for node in convolutions:
        assert (node.attrs["layout"], len(node.attrs["kernel"])) == (
            ("NHWC/OIHW", 2) if kind == "NHWC" else (None, 3))


def test_outputs_are_there_before_a_forward_and_stay_the_same_arrays():
    executor = sym.exp(sym.var("x"), name="e").simple_bind(mx.cpu(), x=(2,))
    out = executor.outputs[0]
    assert executor.output_dict["e_output"] is out and out.asnumpy().tolist() == [0, 0]
    for value in (0.0, 1.0):
        assert executor.forward(x=nd.full((2,), value))[0] is out
        assert np.allclose(out.asnumpy(), np.exp(value))


@pytest.mark.parametrize("args", [{"x": 3}, [3], 3, [np.ones(2)], [None]])
def test_bind_wants_arrays(args):
    with pytest.raises(TypeError, match="bind: args: expected NDArrays"):
        (mx.sym.var("x") + 1).bind(mx.cpu(), args)


def test_shapes_are_tuples():
    y = mx.sym.var("x") + 1
    with pytest.raises(RuntimeError, match="x: expected a shape"):
        y.simple_bind(mx.cpu(), x=3)
    with pytest.raises(RuntimeError, match="x: expected a shape"):
        y.bind(mx.cpu(), [mx.nd.ones((2,))]).reshape(x=3)


def test_calls_of_no_group_run_where_their_first_input_is():
    with mx.AttrScope(ctx_group="one"):
        a = sym.var("a") * 2
    with mx.AttrScope(ctx_group="two"):
        b = a * 3
    z = sym.var("z")
    groups = {"one": mx.cpu(1), "two": mx.cpu(2)}
    for net, places in (  # as in MXNet
            (b + 1, [2]), (sym.broadcast_add(b, z), [2]), (sym.broadcast_add(z, b), [0]),
            (sym.broadcast_add(a, b), [1]), (sym.zeros((2, 3)) + b, [2]),
            (sym.Group([b + 1, z * 2, a + 1]), [2, 0, 1])):
        shapes = {name: (2, 3) for name in net.list_arguments()}
        executor = net.simple_bind(CPU, group2ctx=groups, **shapes)
        assert [out.context.device_id for out in executor.forward()] == places
        assert executor.arg_dict["a"].context == mx.cpu(1)
