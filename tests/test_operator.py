"""Operators written in Python: eager, symbolic, hybridized, in a Module; states and errors."""
from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

import minigluon as mx
from minigluon import autograd, gluon, nd, sym
from minigluon.base import GradientError, MXNetError


class Scale(mx.operator.CustomOp):
    """Multiplies; counts its calls in an auxiliary state."""

    def __init__(self, factor):
        self.factor = factor
        self.seen = None

    def forward(self, is_train, req, in_data, out_data, aux):
        assert not autograd.is_recording()
        assert autograd.is_training() == is_train
        self.seen = in_data[0].asnumpy()
        self.assign(out_data[0], req[0], in_data[0] * self.factor)
        if is_train:
            aux[0][:] = aux[0] + 1

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        np.testing.assert_array_equal(self.seen, in_data[0].asnumpy())
        np.testing.assert_allclose(out_data[0].asnumpy(), self.seen * self.factor, rtol=1e-6)
        self.assign(in_grad[0], req[0], out_grad[0] * self.factor)


@mx.operator.register("test_scale")
class ScaleProp(mx.operator.CustomOpProp):
    def __init__(self, factor="2"):
        super().__init__()
        assert isinstance(factor, str)
        self.factor = float(factor)

    def list_auxiliary_states(self):
        return ["count"]

    def infer_shape(self, in_shape):
        return in_shape, [in_shape[0]], [[1]]

    def create_operator(self, ctx, in_shapes, in_dtypes):
        assert ctx == mx.current_context()
        return Scale(self.factor)


@mx.operator.register("test_softmax")
class SoftmaxProp(mx.operator.CustomOpProp):
    """A loss: its gradient does not depend on what comes from above."""

    def __init__(self):
        super().__init__(need_top_grad=False)

    def list_arguments(self):
        return ["data", "label"]

    def infer_shape(self, in_shape):
        return [in_shape[0], [in_shape[0][0]]], [in_shape[0]], []

    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Softmax()


class Softmax(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], nd.softmax(in_data[0]))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        hot = nd.one_hot(in_data[1], out_data[0].shape[1])
        self.assign(in_grad[0], req[0], out_data[0] - hot)


@mx.operator.register("test_divmod")
class DivmodProp(mx.operator.CustomOpProp):
    def list_arguments(self):
        return ["a", "b"]

    def list_outputs(self):
        return ["quotient", "rest"]

    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Divmod()


class Divmod(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        a, b = in_data
        self.assign(out_data[0], req[0], nd.floor(a / b))
        self.assign(out_data[1], req[1], a - b * out_data[0])

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[1])
        self.assign(in_grad[1], req[1], -out_data[0] * out_grad[1])


def failing(where):
    class Op(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            if where == "forward":
                raise KeyError("no such thing")
            self.assign(out_data[0], req[0], in_data[0])

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            raise KeyError("no such thing")

    @mx.operator.register(f"test_fails_in_{where}")
    class Prop(mx.operator.CustomOpProp):
        def create_operator(self, ctx, in_shapes, in_dtypes):
            return Op()


failing("forward")
failing("backward")


def test_eager_with_gradient_and_state():
    x, count = nd.array([1, 2]), nd.zeros((1,))
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(x, count, op_type="test_scale", factor=3)
        z = nd.Custom(x * 2, count, op_type="test_scale")
    autograd.backward([y, z])
    assert y.asnumpy().tolist() == [3, 6] and z.asnumpy().tolist() == [4, 8]
    assert x.grad.asnumpy().tolist() == [7, 7]
    assert count.asscalar() == 2
    nd.Custom(data=x, count=count, op_type="test_scale")  # by name; not training
    assert count.asscalar() == 2


def test_in_a_symbol():
    y = sym.Custom(sym.var("x") + 1, op_type="test_scale", factor=3, name="times")
    assert y.list_arguments() == ["x"]
    assert y.list_auxiliary_states() == ["times_count"]
    assert y.list_outputs() == ["times_output"]
    assert y.infer_shape(x=(2, 3)) == ([(2, 3)], [(2, 3)], [(1,)])
    assert y.attr_dict()["times"] == {"op_type": "test_scale", "factor": "3"}
    for each in (y, sym.load_json(y.tojson())):
        executor = each.simple_bind(mx.cpu(), x=(2,))
        for number in (1, 2):
            executor.forward(is_train=True, x=nd.array([1, number]))
            executor.backward(nd.ones((2,)))
            assert executor.outputs[0].asnumpy().tolist() == [6, 3 + 3 * number]
            assert executor.grad_dict["x"].asnumpy().tolist() == [3, 3]
            assert executor.aux_dict["times_count"].asscalar() == number
    assert sym.Custom(sym.var("x"), op_type="test_softmax", name="c").list_arguments() == [
        "x", "c_label"]


def test_in_a_hybrid_block():
    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.count = self.params.get("count", shape=(1,), init="zeros",
                                         differentiable=False)
            self.dense = gluon.nn.Dense(2)

        def hybrid_forward(self, F, x, count):
            return F.Custom(self.dense(F.sin(x)), count, op_type="test_scale", factor=5)

    results = []
    for hybridize in (False, True):
        net = Net()
        net.initialize(mx.init.One())
        if hybridize:
            net.hybridize()
        x = nd.array([[1, 2, 3], [4, 5, 6]])
        x.attach_grad()
        for _ in range(2):
            with autograd.record():
                y = net(x)
            y.backward()
        results.append([y.asnumpy(), x.grad.asnumpy(), net.dense.weight.grad().asnumpy(),
                        net.count.data().asnumpy()])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    assert results[0][3].tolist() == [2]


def test_several_outputs_of_which_some_are_unused():
    a, b = nd.array([7, 8]), nd.array([2, 3])
    a.attach_grad()
    b.attach_grad()
    with autograd.record():
        quotient, rest = nd.Custom(a, b, op_type="test_divmod")
        rest.backward()
    assert (quotient.asnumpy().tolist(), rest.asnumpy().tolist()) == ([3, 2], [1, 2])
    assert (a.grad.asnumpy().tolist(), b.grad.asnumpy().tolist()) == ([1, 1], [-3, -2])
    pair = sym.Custom(sym.var("a"), sym.var("b"), op_type="test_divmod", name="d")
    assert pair.list_outputs() == ["d_quotient", "d_rest"]
    executor = pair[1].bind(mx.cpu(), [a, b], [nd.zeros((2,)), nd.zeros((2,))])
    executor.forward(is_train=True)
    executor.backward()
    assert executor.grad_arrays[1].asnumpy().tolist() == [-3, -2]


def test_no_input():
    class Op(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            self.assign(out_data[0], req[0], nd.ones((2,)) * 4)

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            assert in_grad == []

    @mx.operator.register("test_no_input")
    class Prop(mx.operator.CustomOpProp):
        def list_arguments(self):
            return []

        def infer_shape(self, in_shape):
            return [], [(2,)], []

        def infer_type(self, in_type):
            return [], [np.float32], []

        def create_operator(self, ctx, in_shapes, in_dtypes):
            return Op()

    x = nd.ones((2,))
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(op_type="test_no_input") * x
    y.backward()
    assert y.asnumpy().tolist() == x.grad.asnumpy().tolist() == [4, 4]
    assert sym.Custom(op_type="test_no_input").eval()[0].asnumpy().tolist() == [4, 4]


def test_trains_in_a_module():
    rng = np.random.RandomState(0)
    data = rng.randn(60, 4).astype("float32")
    labels = data.argmax(axis=1)
    batches = mx.io.NDArrayIter(data, labels, 20)
    losses = {}
    for kind in ("SoftmaxOutput", "Custom"):
        net = sym.FullyConnected(sym.var("data"), num_hidden=4, name="fc")
        settings = {"op_type": "test_softmax"} if kind == "Custom" else {}
        net = getattr(sym, kind)(net, sym.var("softmax_label"), name="softmax", **settings)
        module = mx.mod.Module(net, context=[mx.cpu(0), mx.cpu(1)])
        batches.reset()
        module.fit(batches, num_epoch=5, initializer=mx.init.One(),
                   optimizer_params={"learning_rate": 1.0})
        losses[kind] = module.score(batches, "ce")[0][1]
    assert losses["Custom"] == pytest.approx(losses["SoftmaxOutput"], rel=1e-5)
    assert losses["Custom"] < 0.8


def test_float64_and_float16_keep_their_type():
    for dtype in ("float16", "float64"):
        x = nd.ones((2,), dtype=dtype)
        label = nd.zeros((2,), dtype=dtype)
        assert nd.Custom(x.reshape((2, 1)), label, op_type="test_softmax").dtype == np.dtype(dtype)


def test_errors_of_the_user_are_mxnet_errors():
    x = nd.ones((2,))
    x.attach_grad()
    with pytest.raises(MXNetError, match="Custom 'test_fails_in_forward': forward raised KeyErr"):
        nd.Custom(x, op_type="test_fails_in_forward").wait_to_read()
    with autograd.record():
        y = nd.Custom(x, op_type="test_fails_in_backward")
    with pytest.raises(MXNetError, match="backward raised KeyError"):
        y.backward()
        x.grad.wait_to_read()
    y = sym.Custom(sym.var("x"), op_type="test_fails_in_forward", name="bad")
    with pytest.raises(MXNetError, match=r"forward raised KeyError.*\[node bad\]"):
        y.eval(x=x)[0].wait_to_read()
    with autograd.record():
        y = nd.Custom(x.reshape((2, 1)), x, op_type="test_softmax")
        with pytest.raises(GradientError, match="not differentiable"):
            autograd.grad(autograd.grad(y, x, create_graph=True)[0], x)


def test_wrong_use():
    x = nd.ones((2,))
    with pytest.raises(MXNetError, match="no operator is registered as 'test_scal'; did you mean"):
        nd.Custom(x, op_type="test_scal")
    with pytest.raises(TypeError, match="missing required argument 'op_type'"):
        sym.Custom(sym.var("x"))
    with pytest.raises(MXNetError, match="missing input 'count'"):
        nd.Custom(x, op_type="test_scale")
    with pytest.raises(TypeError, match="expected a subclass of CustomOpProp"):
        mx.operator.register("x")(Scale)

    @mx.operator.register("test_wrong_shapes")
    class Prop(mx.operator.CustomOpProp):
        def infer_shape(self, in_shape):
            return in_shape, [], []

    with pytest.raises(ValueError, match=r"infer_shape: expected shapes of 1 inputs, 1 outputs"):
        nd.Custom(x, op_type="test_wrong_shapes")

    @mx.operator.register("test_twice")
    class Twice(mx.operator.CustomOpProp):
        def list_auxiliary_states(self):
            return ["data"]

    with pytest.raises(ValueError, match="must have different names"):
        nd.Custom(x, op_type="test_twice")


def test_assign_does_as_requested():
    op, x = mx.operator.CustomOp(), nd.ones((2,))
    op.assign(x, "null", 5)
    assert x.asnumpy().tolist() == [1, 1]
    op.assign(x, "add", nd.ones((2,)))
    assert x.asnumpy().tolist() == [2, 2]
    op.assign(x, "inplace", 7)
    assert x.asnumpy().tolist() == [7, 7]


def test_operators_made_by_an_instance():
    class Softmax(mx.operator.NumpyOp):
        def __init__(self):
            super().__init__(need_top_grad=False)

        def list_arguments(self):
            return ["data", "label"]

        def infer_shape(self, in_shape):
            return [in_shape[0], (in_shape[0][0],)], [in_shape[0]]

        def forward(self, in_data, out_data):
            assert isinstance(in_data[0], np.ndarray)
            e = np.exp(in_data[0])
            out_data[0][:] = e / e.sum(axis=1, keepdims=True)

        def backward(self, out_grad, in_data, out_data, in_grad):
            hot = np.eye(out_data[0].shape[1])[in_data[1].astype(int)]
            in_grad[0][:] = out_data[0] - hot

    class Double(mx.operator.NDArrayOp):
        def forward(self, in_data, out_data):
            out_data[0][:] = in_data[0] * 2

        def backward(self, out_grad, in_data, out_data, in_grad):
            in_grad[0][:] = out_grad[0] * 2

    net = Softmax()(data=Double()(sym.var("x")), name="softmax")
    assert net.list_arguments() == ["x", "softmax_label"]
    executor = net.simple_bind(mx.cpu(), x=(2, 3))
    executor.forward(is_train=True, x=nd.ones((2, 3)), softmax_label=nd.array([0, 2]))
    executor.backward()
    np.testing.assert_allclose(executor.grad_dict["x"].asnumpy() * 3,
                               [[-4, 2, 2], [2, 2, -4]], rtol=1e-5)
    assert "Custom" in mx.operator.get_all_registered_operators()


class SparseSquare(mx.operator.CustomOp):
    """Squares what is kept; `seen` tells how the arrays of the last calls were stored."""

    seen: ClassVar[dict[str, list[str]]] = {}

    def forward(self, is_train, req, in_data, out_data, aux):
        [x], [out] = in_data, out_data
        self.seen["forward"] = [x.stype, out.stype]
        squared = (mx.nd.sparse.csr_matrix((x.data ** 2, x.indices, x.indptr), shape=x.shape)
                   if x.stype == "csr" else
                   mx.nd.sparse.row_sparse_array((x.data ** 2, x.indices), shape=x.shape))
        self.assign(out, req[0], squared.tostype(out.stype))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        [dy], [x], [out], [dx] = out_grad, in_data, out_data, in_grad
        self.seen["backward"] = [dy.stype, x.stype, out.stype, dx.stype]
        grad = 2 * x.tostype("default") * dy.tostype("default")
        self.assign(dx, req[0], grad.tostype(dx.stype))


def sparse_square(out, back):
    """A name for SparseSquare whose results and backward are stored like this."""
    name = f"sparse_square_{out}_{'_'.join(back)}"

    @mx.operator.register(name)
    class Prop(mx.operator.CustomOpProp):
        def infer_storage_type(self, in_stype):
            return in_stype, [out], []

        def infer_storage_type_backward(self, ograd_stype, in_stype, out_stype, igrad_stype,
                                        aux_stype):
            return (*([stype] for stype in back), aux_stype)

        def create_operator(self, ctx, in_shapes, in_dtypes):
            return SparseSquare()

    return name


@pytest.mark.parametrize(("stype", "out", "back"), [
    ("csr", "csr", ("csr", "csr", "csr", "csr")),
    ("row_sparse", "row_sparse", ("row_sparse",) * 4),
    ("csr", "default", ("default", "csr", "default", "default")),
    ("csr", "default", ("default", "default", "default", "csr")),
])
def test_sparse_arrays(stype, out, back):
    name = sparse_square(out, back)
    x = nd.array([[0, 1], [2, 0]]).tostype(stype)
    head = nd.array([[1, 2], [3, 4]]).tostype(out)
    x.attach_grad(stype=back[3])
    with mx.autograd.record():
        y = mx.nd.Custom(x, op_type=name)
    y.backward(head)
    bound = mx.sym.Custom(mx.sym.var("data", stype=stype), op_type=name).bind(
        mx.cpu(), {"data": x}, args_grad={"data": nd.zeros((2, 2), stype=back[3])})
    [result] = bound.forward(is_train=True)
    bound.backward(head)
    for value, grad in ((y, x.grad), (result, bound.grad_dict["data"])):
        assert (value.stype, grad.stype) == (out, back[3])
        assert value.asnumpy().tolist() == [[0, 1], [4, 0]]
        assert grad.asnumpy().tolist() == [[0, 4], [12, 0]]
    assert SparseSquare.seen == {"forward": [stype, out], "backward": list(back)}
