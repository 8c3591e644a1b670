"""autograd: record, pause, gradients, Function, second order."""
import gc
import json
import threading
import weakref

import numpy as np
import pytest

import minigluon as mx
from minigluon import autograd, nd
from minigluon.base import GradientError


def leaf(values, req="write", **kwargs):
    x = nd.array(values, **kwargs)
    x.attach_grad(req)
    return x


def test_flags_nest():
    assert not autograd.is_recording() and not autograd.is_training()
    with autograd.record():
        assert autograd.is_recording() and autograd.is_training()
        with autograd.pause():
            assert not autograd.is_recording() and not autograd.is_training()
            with autograd.train_mode():
                assert autograd.is_training() and not autograd.is_recording()
        with autograd.predict_mode():
            assert autograd.is_recording() and not autograd.is_training()
        assert autograd.is_recording() and autograd.is_training()
    with autograd.record(train_mode=False):
        assert autograd.is_recording() and not autograd.is_training()
    assert autograd.set_recording(True) is False and autograd.set_recording(False) is True


def test_flags_are_put_back_after_an_error_and_are_per_thread():
    with pytest.raises(ZeroDivisionError), autograd.record():
        raise ZeroDivisionError
    assert not autograd.is_recording()
    seen = []
    with autograd.record():
        thread = threading.Thread(target=lambda: seen.append(autograd.is_recording()))
        thread.start()
        thread.join()
    assert seen == [False]


def test_simple_gradients_and_reuse_of_a_value():
    x = leaf([1.0, 2.0])
    with autograd.record():
        y = x * x + x * 3 + x
    y.backward()
    assert x.grad.asnumpy().tolist() == [6.0, 8.0]


def test_write_add_null():
    for req, expected in (("write", [2, 4]), ("add", [4, 8]), ("null", [0, 0])):
        x = leaf([1.0, 2.0], req)
        for _ in range(2):
            with autograd.record():
                y = x * x
            y.backward()
        assert x.grad.asnumpy().tolist() == expected
    with pytest.raises(ValueError, match="grad_req"):
        x.attach_grad("sum")


def test_value_used_many_times_is_the_same_for_write_and_add():
    for n in range(1, 31):
        grads = []
        for req in ("write", "add"):
            a = leaf([1.0], req)
            b = nd.array([2.0])
            with autograd.record():
                y = b
                for _ in range(n):
                    y = y * a
            y.backward()
            grads.append(a.grad.asscalar())
        assert grads == [2 * n, 2 * n]


def test_head_gradients():
    x = leaf([1.0, 2.0])
    with autograd.record():
        y = x * 2
    y.backward(nd.array([10.0, 100.0]))
    assert x.grad.asnumpy().tolist() == [20, 200]
    with autograd.record():
        y, z = x * 2, x * 3
    autograd.backward([y, z], [None, nd.array([2.0, 2.0])])
    assert x.grad.asnumpy().tolist() == [8, 8]
    with autograd.record():
        y = x * 2
    with pytest.raises(ValueError, match="head gradient"):
        y.backward(nd.ones((3,)))


def test_outputs_of_split_can_be_heads_and_unused_outputs_get_zero():
    x = leaf(np.arange(6.0).reshape(3, 2))
    with autograd.record():
        parts = nd.split(x, num_outputs=3, axis=0)
    autograd.backward([parts[0], parts[2]])
    assert x.grad.asnumpy().tolist() == [[1, 1], [0, 0], [1, 1]]


def test_second_backward_needs_retain_graph():
    x = leaf([3.0])
    with autograd.record():
        y = x * x
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.asscalar() == 6
    with pytest.raises(mx.MXNetError, match="retain_graph"):
        y.backward()


def test_backward_without_recording_is_an_error():
    x = leaf([1.0])
    with pytest.raises(mx.MXNetError, match="record"):
        (x * 2).backward()


def test_grad_is_none_for_results_and_before_attach():
    x = nd.ones((2,))
    assert x.grad is None
    x.attach_grad()
    with autograd.record():
        y = x * 2
    assert y.grad is None and x.grad is not None


def test_fresh_grad():
    x = leaf([1.0])
    assert not x._fresh_grad
    with autograd.record():
        y = x.detach() * 2 + leaf([1.0])
    y.backward()
    assert not x._fresh_grad
    with autograd.record():
        y = x * 2
    y.backward()
    assert x._fresh_grad


def test_inplace_on_recorded_arrays_is_refused():
    x = leaf([1.0, 2.0])
    with autograd.record():
        y = x * 2
        with pytest.raises(mx.MXNetError, match="Inplace"):
            y += 1
        with pytest.raises(mx.MXNetError, match="Inplace"):
            y[0] = 1
        z = nd.zeros((2,))
        with pytest.raises(mx.MXNetError, match="Inplace"):
            z[:] = y
        z[:] = 3
    assert z.asnumpy().tolist() == [3, 3]


@pytest.mark.parametrize("index", [0, slice(1, 3), (slice(None), 1), [0, 0, 2], (0, 1),
                                   (slice(None), None, 1)], ids=repr)
def test_indexing_is_differentiable(index):
    n = np.arange(12.0).reshape(3, 4)
    x = leaf(n, dtype="float64")
    with autograd.record():
        y = x[index] * 2
    y.backward()
    expected = np.zeros_like(n)
    np.add.at(expected, index, 2.0)
    np.testing.assert_array_equal(x.grad.asnumpy(), expected)


def test_reshape_under_record():
    x = leaf(np.ones((2, 3)))
    with autograd.record():
        y = (x.reshape((3, 2)) * nd.array([[1, 2], [3, 4], [5, 6]])).sum()
    y.backward()
    assert x.grad.asnumpy().tolist() == [[1, 2, 3], [4, 5, 6]]


def test_second_order():
    x = leaf([1.0])
    with autograd.record():
        z = nd.exp(x) + x
        dx = autograd.grad(z, [x], create_graph=True)[0]
    assert abs(dx.asscalar() - 3.71828175) < 1e-6
    dx.backward()
    assert abs(x.grad.asscalar() - 2.71828175) < 1e-6


def test_third_order():
    x = leaf([2.0], dtype="float64")
    with autograd.record():
        y = x**4
        for _ in range(2):
            y = autograd.grad(y, x, create_graph=True)[0]
    y.backward()
    assert x.grad.asscalar() == 48


def test_grad_returns_and_leaves_grad_alone():
    x, unused = leaf([3.0]), leaf([1.0])
    with autograd.record():
        y = x * x
    got, zero = autograd.grad(y, [x, unused], retain_graph=True)
    assert got.asscalar() == 6 and zero.asscalar() == 0 and x.grad.asscalar() == 0
    with pytest.raises(mx.MXNetError, match="attach"):
        autograd.grad(y, nd.ones((1,)))


def test_grad_of_an_intermediate():
    x = leaf([3.0])
    with autograd.record():
        h = x * 2
        y = h * h
    assert autograd.grad(y, h)[0].asscalar() == 12


def test_mark_variables():
    x, g = nd.array([2.0]), nd.zeros((1,))
    autograd.mark_variables(x, g)
    with autograd.record():
        y = x * x
    y.backward()
    assert g.asscalar() == 4 and x.grad is g


def test_gradient_dtype_follows_the_variable():
    x = leaf([1.0, 2.0], dtype="float64")
    with autograd.record():
        y = nd.cast(x, "float32") * 2
    y.backward()
    assert x.grad.dtype is np.float64 and x.grad.asnumpy().tolist() == [2, 2]


class Sigmoid(autograd.Function):
    def forward(self, x):
        y = 1 / (1 + nd.exp(-x))
        self.save_for_backward(y)
        return y

    def backward(self, dy):
        (y,) = self.saved_tensors
        return dy * y * (1 - y)


def test_function():
    x = leaf([0.0, 1.0])
    with autograd.record():
        y = Sigmoid()(x) * 2
    y.backward()
    s = 1 / (1 + np.exp(-np.array([0.0, 1.0])))
    np.testing.assert_allclose(x.grad.asnumpy(), 2 * s * (1 - s), rtol=1e-6)
    once = Sigmoid()
    once(x)
    with pytest.raises(mx.MXNetError, match="once"):
        once(x)


def test_function_with_two_inputs_and_outputs():
    class Both(autograd.Function):
        def forward(self, a, b):
            return a + b, a * b

        def backward(self, da, db):
            return da + db, da - db

    a, b = leaf([1.0]), leaf([2.0])
    with autograd.record():
        s, p = Both()(a, b)
        y = s * 3
    y.backward()
    assert (a.grad.asscalar(), b.grad.asscalar()) == (3, 3)
    assert p.asscalar() == 2


def test_deep_graphs_do_not_overflow_the_stack():
    x = leaf([1.0])
    with autograd.record():
        y = x
        for _ in range(20000):
            y = y + 1
    y.backward()
    assert x.grad.asscalar() == 1
    del y


def test_graph_is_freed_with_its_arrays():
    x = leaf([1.0])
    with autograd.record():
        y = x * 2
        entry = y._ag.entry
    kept = weakref.ref(y)
    raw = weakref.ref(entry.outputs[0])
    del y, entry
    gc.collect()
    assert kept() is None and raw() is None


def test_recording_in_two_threads():
    results = {}

    def work(k):
        x = leaf([float(k)])
        for _ in range(50):
            with autograd.record():
                y = x * x
            y.backward()
        results[k] = x.grad.asscalar()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == {k: 2 * k for k in range(1, 5)}


def test_get_symbol_shows_what_was_recorded():
    x = nd.ones((1,))
    x.attach_grad()
    with autograd.record():
        y = x * x + 2 * x - 1
    found = autograd.get_symbol(y)
    assert len(found.list_arguments()) == 1
    np.testing.assert_array_equal(found.eval(**{found.list_arguments()[0]: x})[0].asnumpy(),
                                  y.asnumpy())
    z = nd.ones((1,))
    z.attach_grad()
    with autograd.record():
        y = x * x + 2 * z - 1
    assert len(autograd.get_symbol(y).list_arguments()) == 2
    with pytest.raises(GradientError, match="not computed inside"):
        autograd.get_symbol(nd.ones((1,)))


def test_get_symbol_looks_into_small_hybridized_blocks():
    counts = []
    for limit in (3, 0):
        net = mx.gluon.nn.HybridSequential()
        net.add(*[mx.gluon.nn.Dense(10) for _ in range(3)])
        net.initialize()
        net.hybridize(inline_limit=limit)
        with autograd.record():
            y = net(nd.zeros((1, 10)))
        counts.append(len(json.loads(autograd.get_symbol(y).tojson())["nodes"]))
        y.backward()
    assert counts[0] == counts[1] + 2


@pytest.mark.parametrize("later", ["operator", "function"])
def test_what_a_backward_has_used_up_is_a_constant_for_later_calls(later):
    class Product(autograd.Function):
        def forward(self, a, b):
            self.save_for_backward(a, b)
            return a * b

        def backward(self, dy):
            a, b = self.saved_tensors
            return dy * b, dy * a

    x, w = nd.array([2.0]), nd.array([3.0])
    x.attach_grad()
    w.attach_grad()
    with autograd.record():
        state = x * x
        first = state * w
    first.backward()
    assert (x.grad.asscalar(), w.grad.asscalar()) == (12, 4)
    x.grad[:] = w.grad[:] = 0
    with autograd.record():
        second = state * w if later == "operator" else Product()(state, w)
        alone = nd.exp(state)
    second.backward()
    assert (x.grad.asscalar(), w.grad.asscalar()) == (0, 4)
    with pytest.raises(GradientError, match="not computed inside"):
        alone.backward()


def test_a_graph_recorded_before_the_other_was_used_up_is_refused():
    x = nd.array([2.0])
    x.attach_grad()
    with autograd.record():
        shared = x * x
        one, other = shared * 2, shared + 1
    one.backward()
    with pytest.raises(GradientError, match="already used"):
        other.backward()


def test_big_gradients_change_hands_only_where_nobody_looks() -> None:
    """A backward may hand over its memory; who holds a view sees the new gradient all the same."""
    x = mx.nd.ones((200, 200))
    x.attach_grad()
    for looked_at in (False, True, True):
        view = x.grad.reshape((-1,)) if looked_at else None
        with autograd.record():
            y = x * (3 if looked_at else 2)
        y.backward(retain_graph=looked_at)
        assert (x.grad.asnumpy() == (3 if looked_at else 2)).all()
        if view is not None:
            assert (view.asnumpy() == 3).all()
            x.grad[:] = 7
            assert (view.asnumpy() == 7).all()
            y.backward()
            assert (view.asnumpy() == 3).all()


def test_a_head_gradient_stays_the_callers() -> None:
    """What was given to backward is not made the gradient's own memory."""
    x, head = mx.nd.ones((200, 200)), mx.nd.ones((200, 200)) * 5
    x.attach_grad()
    with autograd.record():
        y = x.reshape((-1,)).reshape((200, 200))
    y.backward(head)
    x.grad[:] = 0
    assert (head.asnumpy() == 5).all()


def graph_without_flow(x, w):
    """x counts twice; no gradient flows to w, whose gradient is zero all the same."""
    return x * 2 + nd.BlockGrad(w * 3) + (w > 1)


@pytest.mark.parametrize("req, kept", [("write", 0), ("add", 7)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])  # the core's walk, and tape's
def test_a_variable_that_no_gradient_reaches_gets_zero(req, kept, dtype):
    x, w = leaf([1.0, 2.0], req, dtype=dtype), leaf([3.0, 4.0], req, dtype=dtype)
    cut = leaf([5.0, 6.0], req, dtype=dtype)
    for variable in (x, w, cut):
        variable.grad[:] = 7
    with autograd.record():
        y = graph_without_flow(x, w) + cut.detach()
    y.backward()
    assert x.grad.asnumpy().tolist() == [2 + kept] * 2
    assert w.grad.asnumpy().tolist() == [kept] * 2 and w._fresh_grad
    assert cut.grad.asnumpy().tolist() == [7, 7] and not cut._fresh_grad
    with autograd.record():
        y = graph_without_flow(x, w)
    assert autograd.grad(y, w)[0].asnumpy().tolist() == [0, 0]


def test_a_trainer_takes_a_blocked_gradient_for_fresh():
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(1, in_units=2),
            mx.gluon.nn.HybridLambda(lambda F, x: F.BlockGrad(x)),
            mx.gluon.nn.Dense(1, in_units=1))
    net.initialize(mx.init.One())
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    for hybrid in (False, True):
        net.hybridize(hybrid)
        net[0].weight.grad()[:] = 9
        with autograd.record():
            loss = net(nd.ones((1, 2)))
        loss.backward()
        trainer.step(1)
    assert net[0].weight.data().asnumpy().tolist() == [[1, 1]]
    assert net[2].weight.data().asscalar() == 1 - 0.5 * 2 * 2


def test_copies_pass_their_gradient_on():
    x = leaf([1.0, 2.0])
    with autograd.record():
        there = (x * 2).as_in_context(mx.cpu(1))
        back = nd.zeros((2,))
        (there * there).copyto(back)
        y = back + nd.array(x)
    y.backward()
    assert x.grad.asnumpy().tolist() == [8 * 1 + 1, 8 * 2 + 1]
    with autograd.record():
        dx = autograd.grad(x.copyto(mx.cpu(1)) ** 2, x, create_graph=True)[0]
        dx.backward()
    assert x.grad.asnumpy().tolist() == [2, 2]
    with autograd.record(), pytest.raises(mx.MXNetError, match="Inplace"):
        x.copyto(leaf([0.0, 0.0]))


def test_function_says_what_is_wrong_with_what_it_was_given():
    class Wrong(autograd.Function):
        def __init__(self, result, gradient):
            super().__init__()
            self.result, self.gradient = result, gradient

        def forward(self, x):
            return x if self.result is None else self.result

        def backward(self, dy):
            return self.gradient

    x = nd.ones((2,))
    x.attach_grad()
    assert Wrong(3, None)(x) == 3  # nothing is remembered of it
    with autograd.record():
        with pytest.raises(TypeError, match=r"Wrong\.forward: expected an NDArray"):
            Wrong(3, None)(x)
        y = Wrong(None, 3)(x)
    with pytest.raises(TypeError, match=r"Wrong\.backward: expected an NDArray"):
        y.backward()
    once = Wrong(None, None)
    once(x)
    with pytest.raises(AssertionError, match="only once"):  # MXNet asserts it
        once(x)
