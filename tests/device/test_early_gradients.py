"""A queued backward hands out each gradient as soon as it is there, and stores send it then."""
import numpy as np
import pytest
from test_engine_ahead import Held, ahead, numbers, pending  # noqa: F401

import minigluon as mx
from minigluon import autograd, gluon, nd
from minigluon.device import engine
from minigluon.device.cpu import native
from minigluon.gluon import nn
from minigluon.gluon.exchange import pieces

pytestmark = pytest.mark.skipif(not native.enabled, reason="no native core: nothing is queued")
SIZES = (700, 900, 1100, 30)


def layers():
    net = nn.HybridSequential()
    for units, inputs in zip(SIZES[1:], SIZES, strict=False):
        net.add(nn.Dense(units, activation="tanh", in_units=inputs))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    return net


def forward(net, x):
    with autograd.record():
        return (net(x) * 2).sum()


def ready_for_backward():
    """A net whose backward has run before, and a loss that is there."""
    net, x = layers(), numbers(4, SIZES[0])
    forward(net, x).backward()
    nd.waitall()
    loss = forward(net, x)
    loss.wait_to_read()
    return net, x, loss


def test_gradients_end_one_by_one_inside_their_graph():
    _, _, loss = ready_for_backward()
    engine.spans()
    engine.trace(True)
    with Held():  # else it may be done before the gradients are asked for one by one
        loss.backward()
    nd.waitall()
    engine.trace(False)
    spans = engine.spans()
    (graph,) = [span for span in spans if span[0] == "a compiled graph"]
    ends = sorted((end, what) for what, _, end, _ in spans if what.startswith("gradient of "))
    assert len(ends) == 6 and ends[-1][0] <= graph[2] and ends[0][0] > graph[1]
    weights = [what for _, what in ends if int(what.split()[2]) > 2000]
    assert weights == [f"gradient of {SIZES[i] * SIZES[i + 1]} elements" for i in (2, 1, 0)]
    assert engine.spans() == []


@pytest.mark.parametrize("req", ["write", "add"])
def test_they_are_the_same_bits(req):
    def grads(from_seconds):
        native.core.engine.queue_from(from_seconds)
        mx.random.seed(5)
        net, x = layers(), numbers(4, SIZES[0])
        net.collect_params().setattr("grad_req", req)
        for _ in range(3):
            forward(net, x).backward()
        return [param.grad().asnumpy() for param in net.collect_params().values()]

    for one, other in zip(grads(0.0), grads(float("inf")), strict=True):
        assert np.array_equal(one, other)


def test_gradients_of_a_graph_that_did_not_run_say_why():
    net, x, loss = ready_for_backward()
    with Held() as held:
        engine.push(lambda: 1 / 0, writes=[net[0].weight.data()._variable()], what="a bad write")
        loss.backward()
        assert pending(net[0].weight.grad())
        held.soon()
        with pytest.raises(ZeroDivisionError):
            net[0].weight.grad().asnumpy()
    net[0].weight.data()[:] = 0
    forward(net, x).backward()
    assert net[2].weight.grad().asnumpy().shape == (SIZES[3], SIZES[2])
    nd.waitall()


def test_many_steps_with_a_reader_for_each_gradient():
    net, x = layers(), numbers(4, SIZES[0])
    wanted = None
    for _ in range(30):
        forward(net, x).backward()
        params = list(net.collect_params().values())
        found = [param.grad().asnumpy() for param in params[::-1]]
        if wanted is None:
            wanted = found
        assert all(map(np.array_equal, found, wanted))


class DistLog(mx.kvstore.TestStore):
    """Writes down calls; lets a held queue go on at the first."""

    type = "dist_log"

    def __init__(self):
        super().__init__()
        self.calls, self.held = [], None

    @staticmethod
    def is_capable(capability):
        return True

    def set_optimizer(self, optimizer):
        self.calls.append("optimizer")

    def init(self, key, value):
        pass

    def broadcast(self, key, value, out, priority=0):
        pass

    def _note(self, what, key, arrays):
        self.calls.append((what, key, [pending(several[0]) for several in arrays]))
        if self.held is not None:
            self.held.soon()
            self.held = None
        for several in arrays:
            several[0].wait_to_read()

    def push(self, key, value, priority=0):
        self._note("push", key, value)

    def pull(self, key, out=None, priority=0, ignore_sparse=True):
        self._note("pull", key, out)

    def pushpull(self, key, value, out=None, priority=0):
        self._note("pushpull", key, value)


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("on_store", [True, False])
def test_a_trainer_sends_the_last_layers_first(there, on_store):
    sizes = (1000, 1200, 1200, 10)
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        for units, inputs in zip(sizes[1:], sizes, strict=False):
            net.add(nn.Dense(units, in_units=inputs, use_bias=False))
    net.initialize()
    net.hybridize()
    store = DistLog()
    trainer = gluon.Trainer(net.collect_params(), "sgd", kvstore=store, update_on_kvstore=on_store)
    x = numbers(2, 1000)
    forward(net, x).backward()
    trainer.step(2)
    nd.waitall()
    del store.calls[:]
    loss = forward(net, x)
    loss.wait_to_read()
    with Held() as held:
        loss.backward()
        if there:
            held.soon()
            nd.waitall()
        else:
            store.held = held
        trainer.step(2)
    late = not there
    if on_store and there:
        assert store.calls == [("pushpull", [0, 1, 2], [False] * 3)]
    elif on_store:
        assert [call[:2] for call in store.calls] == [
            ("push", [1, 2]), ("push", [0]), ("pull", [0, 1, 2])]
    else:
        assert [call[:2] for call in store.calls] == [("pushpull", [1, 2]), ("pushpull", [0])]
    assert store.calls[0][2] == [late] * len(store.calls[0][1])


def test_pieces_depend_on_sizes_alone():
    big, small = nd.zeros((1 << 20,)), nd.zeros((10,))
    assert pieces([]) == []
    assert pieces([[small]] * 3) == [slice(0, 3)]
    assert pieces([[small], [big], [small], [big], [big]]) == [
        slice(4, 5), slice(3, 4), slice(1, 3), slice(0, 1)]
