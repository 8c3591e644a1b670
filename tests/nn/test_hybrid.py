"""HybridBlock: the graph computes what the eager block computes, whatever happens in between."""
import copy
import gc
import pickle
import threading

import numpy as np
import pytest

import minigluon as mx
from minigluon import autograd, gluon, nd, nn, symbol
from minigluon.gluon import block as gluon_block


def normal(*shape, seed=0):
    return nd.array(np.random.default_rng(seed).normal(size=shape).astype("float32"))


def mlp():
    net = nn.HybridSequential()
    net.add(nn.Dense(8, activation="relu"), nn.Dense(8, activation="tanh"), nn.Dense(3))
    return net, (4, 5)


def lenet():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, activation="tanh"), nn.MaxPool2D(2, 2), nn.Conv2D(6, 2), nn.AvgPool2D(),
            nn.Flatten(), nn.Dense(7, activation="relu"), nn.Dense(3))
    return net, (2, 1, 12, 12)


def batchnorm_net():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, use_bias=False), nn.BatchNorm(), nn.Activation("relu"),
            nn.GlobalAvgPool2D(), nn.Flatten(), nn.LayerNorm(), nn.Dense(3))
    return net, (4, 2, 6, 6)


def embedding_net():
    net = nn.HybridSequential()
    net.add(nn.Embedding(9, 4), nn.Dense(5, flatten=False), nn.PReLU(), nn.Swish(), nn.GELU(),
            nn.SELU(), nn.ELU(), nn.LeakyReLU(0.2), nn.HybridLambda("square"))
    return net, (2, 3)


def train(net, x, steps=3):
    """Outputs, gradients and parameters over some steps of plain gradient descent."""
    seen = []
    params = net.collect_params().values()
    for _ in range(steps):
        seen.append(net(x))
        x.attach_grad()
        with autograd.record():
            y = net(x)
            loss = (y * y).sum()
        loss.backward()
        seen += [y, x.grad.copy()]
        for p in params:
            if p.grad_req != "null":
                seen.append(p.grad().copy())
                p.set_data(p.data() - 0.01 * p.grad())
            seen.append(p.data().copy())
    return [array.asnumpy() for array in seen]


@pytest.mark.parametrize("flags", [{}, {"static_alloc": True, "static_shape": True},
                                   {"inline_limit": 0, "forward_bulk_size": 4}])
@pytest.mark.parametrize("make", [mlp, lenet, batchnorm_net, embedding_net])
@pytest.mark.parametrize("dtype,steps,tolerance", [
    ("float64", 3, 1e-10),  # the same arithmetic
    ("float32", 1, 1e-5),   # native kernels add up in another order than the eager ones
    ("float32", 3, 1e-4),   # which a BatchNorm net makes larger with each step
])
def test_hybridized_equals_eager(make, dtype, steps, tolerance, flags, tmp_path):
    mx.random.seed(1)  # some draws leave LayerNorm almost equal numbers to divide by
    (eager, shape), (graph, _) = make(), make()
    eager.initialize(mx.initializer.Normal(0.3))
    x = nd.floor(normal(*shape) * 2 + 4) if make is embedding_net else normal(*shape)
    eager(x)
    eager.save_parameters(str(tmp_path / "net.params"))
    graph.load_parameters(str(tmp_path / "net.params"))
    graph.hybridize(**flags)
    for net in (eager, graph):
        net.cast(dtype)
    x = x.astype(dtype)
    for one, other in zip(train(eager, x, steps), train(graph, x.copy(), steps), strict=True):
        scale = max(1, np.abs(one).max())
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * scale)


def test_batch_size_and_mode_may_change_between_calls():
    net, _ = batchnorm_net()
    net.initialize()
    net.hybridize()
    for batch in (2, 5, 1):
        assert net(normal(batch, 2, 6, 6)).shape == (batch, 3)
    x = normal(4, 2, 6, 6)
    x.attach_grad()
    grads = []
    for _ in range(2):
        with autograd.record(train_mode=False):
            y = net(x)
        y.backward()
        grads.append(x.grad.asnumpy())
        net(x)
    np.testing.assert_array_equal(*grads)


def test_train_mode_without_recording_draws_dropout():
    net = nn.HybridSequential()
    net.add(nn.Dropout(0.5))
    net.hybridize()
    x = nd.ones((200,))
    assert net(x).asnumpy().tolist() == [1] * 200
    with autograd.train_mode():
        assert set(net(x).asnumpy().tolist()) == {0, 2}
    with autograd.record():
        assert set(net(x).asnumpy().tolist()) == {0, 2}
    with autograd.record(train_mode=False):
        assert net(x).asnumpy().tolist() == [1] * 200


def test_one_operator_call_and_one_learning(monkeypatch):
    net, shape = mlp()
    net.initialize()
    net.hybridize()
    calls = []
    inner = net.hybrid_forward
    monkeypatch.setattr(net, "hybrid_forward", lambda F, x: calls.append(F) or inner(F, x))
    for batch in (4, 4, 6):
        net(normal(batch, *shape[1:]))
    assert calls == [symbol]


@pytest.mark.parametrize("hybridized", [False, True])
def test_second_order(hybridized):
    net = nn.HybridSequential()
    net.add(nn.Dense(4, activation="tanh", in_units=2), nn.Dense(1, in_units=4))
    net.initialize(mx.initializer.Constant(0.3))
    if hybridized:
        net.hybridize()
    x = nd.array([[0.5, -1.0]])
    x.attach_grad()
    with autograd.record():
        y = net(x)
        dx = autograd.grad(y, [x], create_graph=True, retain_graph=True)[0]
        z = (dx * dx).sum()
    z.backward()
    # y = 4 * 0.3 tanh(0.3 (x0 + x1)), as Dense starts its biases at zero
    t = np.tanh(0.3 * -0.5)
    first = 0.3 * 4 * 0.3 * (1 - t * t)
    second = 2 * 2 * first * (-2 * t * (1 - t * t) * 0.3 * 4 * 0.3 * 0.3)
    np.testing.assert_allclose(x.grad.asnumpy(), [[second, second]], rtol=1e-5)


# -- what changes the graph -----------------------------------------------------------------------


def test_adding_and_replacing_children_is_noticed_at_any_depth():
    outer, inner = nn.HybridSequential(), nn.HybridSequential()
    outer.add(inner)
    inner.add(nn.Dense(10, flatten=False))
    outer.initialize()
    outer.hybridize()
    x = normal(2, 3, 5)
    assert outer(x).shape == (2, 3, 10)
    inner.add(nn.Flatten())
    assert outer(x).shape == (2, 30)
    inner.register_child(nn.Dense(10, flatten=True), "0")
    outer.initialize()  # only the new one has no values yet
    assert outer(x).shape == (2, 10)


def test_changes_elsewhere_do_not_disturb(monkeypatch):
    net, shape = mlp()
    net.initialize()
    net.hybridize()
    net(normal(*shape))
    before = net._trace
    nn.HybridSequential().add(nn.Dense(1))
    gc.collect()
    net(normal(*shape))
    assert net._trace is before


def test_cast_before_and_after():
    net = nn.HybridSequential()
    net.add(nn.Dense(4), nn.BatchNorm(), nn.Dense(2))
    net.initialize()
    net.hybridize()
    x = normal(3, 5)
    assert net(x).dtype is np.float32
    net.cast("float64")
    assert net(x.astype("float64")).dtype is np.float64
    embedding = nn.Embedding(4, 3, dtype="float64")
    embedding.initialize()
    for _ in range(2):
        assert embedding(nd.array([1, 2], dtype="int32")).dtype is np.float64
        embedding.hybridize()


def test_shapes_are_filled_in_by_the_first_forward():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(64, 2, padding=1), nn.BatchNorm(), nn.Dense(10))
    net.initialize()
    net.hybridize()
    net(normal(2, 3, 5, 7))
    assert net[0].weight.shape == (64, 3, 2, 2)
    assert net[1].gamma.shape == (64,) == net[1].running_mean.shape
    assert net[2].weight.shape == (10, 3072)


def test_infer_shape_without_computing():
    net, _ = lenet()
    net.infer_shape(normal(2, 1, 12, 12))
    assert net[0].weight.shape == (4, 1, 3, 3) and net[-1].weight.shape == (3, 7)
    with pytest.raises(RuntimeError):
        net[0].weight.data()


def test_infer_type():
    layer = nn.Dense(3, in_units=2)
    layer.initialize()
    layer.infer_type(normal(1, 2).astype("float64"))
    assert layer(normal(1, 2).astype("float64")).dtype is np.float64


def test_a_child_that_forward_does_not_reach_stays_deferred():
    class Partly(nn.HybridBlock):
        def __init__(self):
            super().__init__()
            self.used = nn.Dense(2)
            self.unused = nn.Dense(2)

        def hybrid_forward(self, F, x):
            return self.used(x)

    for hybridized in (False, True):
        net = Partly()
        net.initialize()
        if hybridized:
            net.hybridize()
        assert net(normal(1, 3)).shape == (1, 2)
        with pytest.raises(mx.base.DeferredInitializationError):
            net.unused.weight.data()


def test_a_shape_that_cannot_be_inferred_names_the_parameter():
    class Odd(nn.HybridBlock):
        def __init__(self):
            super().__init__(prefix="odd_")
            self.w = self.params.get("w", shape=(0,), allow_deferred_init=True)

        def hybrid_forward(self, F, x, w):
            return F.Concat(x, w, dim=0)

    net = Odd()
    net.initialize()
    for _ in range(2):
        with pytest.raises(mx.MXNetError, match="odd_w"):
            net(nd.ones((2,)))
        net.hybridize()


def test_wrong_input_shape_is_an_error_that_names_the_node():
    layer = nn.Dense(3, in_units=2, prefix="fc_")
    layer.initialize()
    with pytest.raises(mx.MXNetError, match=r"FullyConnected.*\(3, 2\).*\[block fc\]$"):
        layer(nd.ones((2, 4)))
    layer.hybridize()
    with pytest.raises(mx.MXNetError, match=r"\(3, 2\).*fc_fwd"):
        layer(nd.ones((2, 4)))
    norm = nn.LayerNorm(in_channels=10)
    norm.initialize()
    for _ in range(2):
        with pytest.raises(mx.MXNetError, match="LayerNorm"):
            norm(nd.ones((2, 11)))
        norm.hybridize()


# -- inputs and outputs ---------------------------------------------------------------------------


class Nested(nn.HybridBlock):
    def hybrid_forward(self, F, x, y=None, z=None):
        if y is not None:
            x = x + y
        if isinstance(z, (list, tuple)):
            x = x + z[0] * z[1][0]
        return [x, (x * 2, [x * 3]), None]


@pytest.mark.parametrize("hybridized", [False, True])
def test_nested_and_missing_inputs(hybridized):
    net, one = Nested(), nd.ones((2,))
    if hybridized:
        net.hybridize()
    out = net(one, None, [one, (one * 4, one)])
    assert isinstance(out, list) and isinstance(out[1], tuple) and out[2] is None
    assert [a.asnumpy()[0] for a in (out[0], out[1][0], out[1][1][0])] == [5, 10, 15]
    if hybridized:
        for args in ((one,), (one, one), (one, None, [one, [one]])):
            with pytest.raises(ValueError, match="argument structure"):
                net(*args)
        assert net(one, None, (one, [one, one]))[0].asnumpy()[0] == 2  # a tuple is as good
        net.hybridize()
    assert net(one)[0].asnumpy()[0] == 1
    assert net(one, None, None)[0].asnumpy()[0] == 1


def test_inputs_that_are_refused():
    one = nd.ones((2,))
    for hybridized in (False, True):
        net = Nested()
        if hybridized:
            net.hybridize()
        with pytest.raises(ValueError, match="must be one NDArray or one Symbol"):
            net(None)
        with pytest.raises(ValueError, match="got ndarray"):
            net(np.ones(2))
        with pytest.raises(ValueError, match="mixed"):
            net(one, symbol.var("y"))
    with pytest.raises(ValueError, match="got 3 of type"):
        net(one, 3)
    with pytest.raises(ValueError, match="multiple contexts"):
        net(one, one.as_in_context(mx.cpu(1)))
    assert net(one, one.as_in_context(mx.cpu_pinned(0)))[0].asnumpy()[0] == 2
    assert Nested()(one, 3)[0].asnumpy()[0] == 4


def test_an_input_returned_as_it_is_and_twice():
    class Same(nn.HybridBlock):
        def hybrid_forward(self, F, x):
            y = x * 1
            return x, y, y

    net, x = Same(), nd.array([1.0, 2.0])
    net.hybridize()
    x.attach_grad()
    with autograd.record():
        a, b, c = net(x)
        total = a + 2 * b + 4 * c
    total.backward()
    assert x.grad.asnumpy().tolist() == [7, 7]
    a[:] = 0
    b[:] = 5
    assert x.asnumpy().tolist() == [1, 2] and c.asnumpy().tolist() == [1, 2]


def test_several_outputs_of_one_operator():
    class Split(nn.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.split(x, num_outputs=2, axis=1), x

    net, x = Split(), normal(2, 4)
    eager = net(x)
    net.hybridize()
    graph = net(x)
    assert len(graph[0]) == 2 and graph[0][1].shape == (2, 2)
    np.testing.assert_array_equal(graph[0][1].asnumpy(), eager[0][1].asnumpy())


def test_parameters_on_several_contexts():
    net, shape = batchnorm_net()
    net.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    net.hybridize()
    results = []
    for ctx in (mx.cpu(0), mx.cpu(1)):
        x = normal(*shape).as_in_context(ctx)
        with autograd.record():
            y = net(x)
        y.backward()
        assert y.context == ctx
        results.append(net[-1].weight.grad(ctx).asnumpy())
    np.testing.assert_array_equal(*results)
    with pytest.raises(RuntimeError, match=r"not initialized on context cpu\(2\)"):
        net(normal(*shape).as_in_context(mx.cpu(2)))


def test_new_arrays_go_to_the_inputs_context():
    class Adds(nn.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.broadcast_add(x, F.ones((1,)))

    net, x = Adds(), nd.ones((2,), ctx=mx.cpu(1))
    for _ in range(2):
        out = net(x)
        assert out.context == mx.cpu(1) and out.asnumpy().tolist() == [2, 2]
        net.hybridize()


def test_grad_req_add_and_null():
    layer = nn.Dense(1, in_units=2)
    layer.initialize()
    layer.weight.grad_req = "add"
    layer.bias.grad_req = "null"
    layer.hybridize()
    x = nd.ones((3, 2))
    for _ in range(2):
        with autograd.record():
            y = layer(x)
        y.backward()
    assert layer.weight.grad().asnumpy().tolist() == [[6, 6]]


# -- symbols --------------------------------------------------------------------------------------


def test_on_a_symbol_it_gives_a_symbol():
    net = nn.HybridSequential()
    net.add(nn.Dense(128, "tanh", prefix="test_"), nn.Dropout(0.5), nn.Dense(64, "tanh"),
            nn.Dense(32, in_units=64), nn.Activation("relu"))
    x = symbol.var("data")
    first = net[0](x)
    assert first.list_outputs() == ["test_tanh_fwd_output"]
    assert set(first.list_arguments()) == {"data", "test_weight", "test_bias"}
    assert len(net(x).list_arguments()) == 7


def test_names_of_nodes():
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Conv2D(3, 3, activation="relu"), nn.Flatten(), nn.BatchNorm(), nn.LayerNorm(),
                nn.Swish(), nn.ELU())
    y = net(symbol.var("data"))
    names = [name for name in y.get_internals().list_outputs() if name.endswith("output")]
    assert names == [
        "net_conv0_fwd_output", "net_conv0_relu_fwd_output", "net_flatten0_flatten0_output",
        "net_batchnorm0_fwd_output", "net_layernorm0_layernorm0_output",
        "net_swish0__mulscalar0_output", "net_swish0_fwd_output", "net_swish0__mul0_output",
        "net_elu0_leakyrelu0_output"]
    assert y.list_auxiliary_states() == ["net_batchnorm0_running_mean",
                                         "net_batchnorm0_running_var"]


# -- the other style ------------------------------------------------------------------------------


class Own(nn.HybridBlock):
    def __init__(self):
        super().__init__()
        self.body = nn.HybridSequential()
        self.body.add(nn.Dense(4), nn.Dense(2))

    def forward(self, x):
        assert x.shape[0] > 0
        return self.body(x) * 2


def test_a_block_that_overrides_forward():
    net, x = Own(), normal(3, 5)
    net.initialize()
    eager = net(x).asnumpy()
    net.hybridize()
    np.testing.assert_allclose(net(x).asnumpy(), eager, rtol=1e-6)
    assert net.body._trace is not None and net._trace is None
    with pytest.raises(RuntimeError, match="hybridize"):
        net.export("nowhere")


def test_neither_forward_is_an_error():
    with pytest.raises(NotImplementedError, match="hybrid_forward"):
        nn.HybridBlock()(nd.ones((1,)))


# -- hooks, threads, refusals ---------------------------------------------------------------------


@pytest.mark.parametrize("flags", [{}, {"static_alloc": True}])
def test_operator_hook(flags):
    net = nn.Dense(2, in_units=3, prefix="dense_")
    net.initialize()
    net.hybridize(**flags)
    seen = []
    net.register_op_hook(lambda name, op, array: seen.append((name, op, array.shape)))
    x = normal(4, 3)
    y = net(x)
    assert seen == [("dense_fwd_output", "FullyConnected", (4, 2))]
    net.register_op_hook(lambda name, op, array: seen.append(name), monitor_all=True)
    np.testing.assert_array_equal(net(x).asnumpy(), y.asnumpy())
    assert seen[1:] == ["dense_fwd_data", "dense_fwd_weight", "dense_fwd_bias",
                        "dense_fwd_output"]


@pytest.mark.parametrize("hybridized", [False, True])
def test_first_forward_in_two_threads(hybridized):
    contexts = [mx.cpu(0), mx.cpu(1)]
    for _ in range(20):
        net = nn.HybridSequential()
        net.add(nn.Dense(10), nn.BatchNorm())
        net.initialize(ctx=contexts)
        if hybridized:
            net.hybridize()
        start, results = threading.Barrier(2), [None, None]

        def work(place, net=net, start=start, results=results):
            x = nd.ones((2, 3), ctx=contexts[place])
            start.wait()
            try:
                with autograd.record():
                    y = net(x)
                y.backward()
                results[place] = net[0].weight.grad(contexts[place]).asnumpy()
            except Exception as error:
                results[place] = error

        threads = [threading.Thread(target=work, args=(place,)) for place in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for result in results:
            assert isinstance(result, np.ndarray), result
        np.testing.assert_array_equal(*[net[0].weight.data(ctx).asnumpy() for ctx in contexts])


def test_backends_are_refused_by_name():
    with pytest.raises(NotImplementedError, match="MKLDNN"):
        nn.Dense(1).hybridize(backend="MKLDNN")
    with pytest.raises(NotImplementedError, match="TensorRT"):
        nn.Dense(1).optimize_for(nd.ones((1, 1)), backend="TensorRT")
    with pytest.raises(ValueError, match='Must specify "backend"'):  # MXNet's words
        nn.Dense(1).optimize_for(nd.ones((1, 1)))


class Choosing(nn.HybridBlock):
    """forward takes more than hybrid_forward, and calls it only for some inputs."""

    def forward(self, x, rows):
        return x.take(rows) if rows is not None else super().forward(x)

    def hybrid_forward(self, F, x):
        return F.relu(x)


def test_a_forward_of_ones_own_may_take_other_arguments_than_hybrid_forward():
    block = Choosing()
    block.hybridize()
    x = nd.array([-1, 2])
    assert block(x, None).asnumpy().tolist() == [0, 2]
    assert block(x, nd.array([1])).asnumpy().tolist() == [2]


def test_nested_arguments_as_other_libraries_take_them_apart():
    a, b = nd.ones((1,)), symbol.var("b")
    assert gluon_block._flatten([a, (None, [b])], "input") == ([a, None, b], [0, [-1, [0]]])
    with pytest.raises(ValueError, match="input of a HybridBlock"):
        gluon_block._flatten(3, "input")


def _pickled(block):
    return pickle.loads(pickle.dumps(block))


@pytest.mark.parametrize("copied", [copy.deepcopy, _pickled])
@pytest.mark.parametrize("hybridized", [False, True])
def test_a_copy_of_a_trained_block_computes_and_trains_by_itself(copied, hybridized):
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=2, activation="tanh"), nn.Dense(1, in_units=3))
    net.initialize()
    if hybridized:
        net.hybridize()
    x = nd.array([[1, 2], [3, 4]])

    def train(block):
        trainer = gluon.Trainer(block.collect_params(), "sgd", {"learning_rate": 0.1})
        with autograd.record():
            error = (block(x) ** 2).sum()
        error.backward()
        trainer.step(1)

    train(net)
    before = net(x).asnumpy()
    other = copied(net)
    np.testing.assert_array_equal(other(x).asnumpy(), before)
    train(other)
    assert np.abs(other(x).asnumpy() - before).max() > 1e-6
    np.testing.assert_array_equal(net(x).asnumpy(), before)
    train(net)
    np.testing.assert_array_equal(net(x).asnumpy(), other(x).asnumpy())


@pytest.mark.parametrize("hybridized", [False, True])
def test_a_shape_that_inputs_do_not_tell_is_a_value_error(hybridized):
    class Net(nn.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.w = self.params.get("w", shape=(0, 3), allow_deferred_init=True)

        def hybrid_forward(self, F, x, w):
            return F.dot(x, w)

    net = Net()
    net.initialize()
    net.hybridize(hybridized)
    with pytest.raises(ValueError, match=r"shape .*\(0, 3\)"):
        net(nd.ones((2, 4)))
