"""Hybridized blocks run ahead of Python: same bits, and every way to touch what is not there yet.

A gate in the queue holds the worker: what is queued is certainly pending when it is touched.
"""
import gc
import os
import pickle
import threading
import time

import numpy as np
import pytest
from forked import in_child

import minigluon as mx
from minigluon import autograd, gluon, nd
from minigluon.device import engine
from minigluon.device.cpu import native
from minigluon.gluon import nn

pytestmark = pytest.mark.skipif(not native.enabled, reason="no native core: nothing is queued")
LONG = 60.0


@pytest.fixture(autouse=True)
def ahead():
    """Every graph that can be queued is."""
    workers = engine.workers()
    engine.set_workers(1)
    before = native.core.engine.queue_from(0.0)
    yield
    nd.waitall()
    native.core.engine.queue_from(before)
    engine.set_workers(workers)


class Held:
    """While it is open, nothing queued runs; leaving, or a timer, lets it go on."""

    def __enter__(self):
        self.begun, self.gate = threading.Event(), threading.Event()
        engine.push(lambda: (self.begun.set(), self.gate.wait(LONG)), what="a gate")
        assert self.begun.wait(LONG)
        return self

    def soon(self):
        """Let go from another thread, so that whoever waits here now is woken."""
        threading.Thread(target=self.gate.set).start()

    def __exit__(self, *error):
        self.gate.set()


def pending(array):
    return array._var is not None and array._var.busy


def dense(units=8, inputs=6):
    net = nn.HybridSequential()
    net.add(nn.Dense(16, activation="relu", in_units=inputs), nn.Dense(units, in_units=16))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    return net


def images():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, activation="relu"), nn.BatchNorm(), nn.MaxPool2D(2), nn.Flatten(),
            nn.Dropout(0.3), nn.Dense(5))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    return net


def numbers(*shape):
    return nd.array(np.random.default_rng(sum(shape)).random(shape, np.float32))


def eager(net, x):
    before = native.core.engine.queue_from(float("inf"))
    out = net(x).asnumpy()
    native.core.engine.queue_from(before)
    return out


@pytest.mark.parametrize("hybrid_loss", [False, True])
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "nag"])
@pytest.mark.parametrize("make, shape", [(dense, (7, 6)), (images, (7, 2, 9, 9))])
def test_training_gives_the_same_bits(make, shape, optimizer, hybrid_loss):
    def train(kind):
        native.core.engine.queue_from(0.0 if kind else float("inf"))
        mx.random.seed(3)
        net, loss = make(), gluon.loss.SoftmaxCrossEntropyLoss()
        if hybrid_loss:
            loss.hybridize()
        trainer = gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 0.05})
        x, y, seen = numbers(*shape), nd.array(np.arange(shape[0]) % 5), []
        queued = 0
        for number in range(6):
            with autograd.record():
                out = net(x)
                error = loss(out, y)
            queued += out._var is not None
            error.backward()
            trainer.step(shape[0])
            x[:] = numbers(number + 1, *shape[1:])[0:1]
            seen.append(error)
        return queued, [each.asnumpy() for each in seen] + [
            p.data().asnumpy() for p in net.collect_params().values()]

    plain, ran_ahead = train(False), train(True)
    assert plain[0] == 0 and ran_ahead[0] >= 5  # the first call initializes
    for one, other in zip(plain[1], ran_ahead[1], strict=True):
        assert np.array_equal(one, other)


READERS = {
    "asnumpy": lambda x: x.asnumpy(),
    "array": lambda x: np.asarray(x),
    "dlpack": lambda x: np.from_dlpack(x),
    "operator": lambda x: (x * 1).asnumpy(),
    "short path": lambda x: (x + x).asnumpy() / 2,
    "view": lambda x: x[:].asnumpy(),
    "reshape": lambda x: x.reshape((-1,)).asnumpy().reshape(x.shape),
    "slice": lambda x: np.stack([row.asnumpy() for row in x]),
    "pickle": lambda x: pickle.loads(pickle.dumps(x)).asnumpy(),
    "copyto": lambda x: x.copyto(nd.zeros(x.shape)).asnumpy(),
    "context": lambda x: x.as_in_context(mx.cpu(1)).asnumpy(),
    "detach": lambda x: x.detach().asnumpy(),
    "print": lambda x: (str(x), x.asnumpy())[1],
    "numbers": lambda x: np.array(x.tolist(), np.float32),
    "wait": lambda x: (x.wait_to_read(), x._data)[1],
    "waitall": lambda x: (nd.waitall(), x._data)[1],
    "save": lambda x: _saved(x),
    "kvstore": lambda x: _through_kvstore(x),
    "out": lambda x: nd.identity(x, out=nd.zeros(x.shape)).asnumpy(),
}


def _saved(x):
    nd.save("ahead.params", [x])
    return nd.load("ahead.params")[0].asnumpy()


def _through_kvstore(x):
    store = mx.kv.create("local")
    store.init("x", nd.zeros(x.shape))
    store.push("x", x)
    out = nd.zeros(x.shape)
    store.pull("x", out)
    return out.asnumpy()


@pytest.mark.parametrize("how", READERS)
def test_reading_what_is_not_there_yet(how, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    net, x = dense(), numbers(5, 6)
    expected = eager(net, x)
    with Held() as held:
        out = net(x)
        assert pending(out) and out.shape == (5, 8)
        held.soon()
        assert np.array_equal(READERS[how](out), expected)


WRITERS = {
    "set": lambda x: x.__setitem__(slice(None), 7),
    "row": lambda x: x.__setitem__(0, 7),
    "add": lambda x: x.__iadd__(1),
    "view": lambda x: x.reshape((-1,)).__setitem__(slice(None), 7),
    "out": lambda x: nd.identity(nd.ones(x.shape), out=x),
    "copyto": lambda x: nd.ones(x.shape).copyto(x),
    "update": lambda x: nd.sgd_update(x, nd.ones(x.shape), out=x, lr=0.5),
    "dlpack": lambda x: np.from_dlpack(x),
    "begin": lambda x: engine.begin([x._variable()], "pull").done(),
}


@pytest.mark.parametrize("how", WRITERS)
@pytest.mark.parametrize("which", ["data", "weight"])
def test_writing_what_a_queued_graph_reads_comes_after_it(how, which):
    net, x = dense(), numbers(5, 6)
    expected = eager(net, x)
    target = x if which == "data" else net[0].weight.data()
    with Held() as held:
        out = net(x)
        assert pending(out) and target._var.used and not target._var.busy
        held.soon()
        WRITERS[how](target)
        assert held.gate.is_set()
    assert np.array_equal(out.asnumpy(), expected)


def test_writing_a_pending_result_and_reading_it_again():
    net, x = dense(), numbers(5, 6)
    expected = eager(net, x)
    with Held() as held:
        out = net(x)
        held.soon()
        out += 1
        assert np.array_equal(out.asnumpy(), expected + 1)


def test_graphs_follow_graphs():
    first, second, x = dense(6), dense(3), numbers(5, 6)
    expected = eager(second, nd.array(eager(first, x)))
    with Held():
        out = second(first(x))
        assert pending(out)
    assert np.array_equal(out.asnumpy(), expected)


def test_set_data_and_deletion_while_queued():
    net, x = dense(), numbers(5, 6)
    expected = eager(net, x)
    weight = net[0].weight
    with Held() as held:
        out = net(x)
        held.soon()
        weight.set_data(nd.zeros(weight.shape))
        again = net(x)
        del net, weight
        x = None
        gc.collect()
    assert np.array_equal(out.asnumpy(), expected)
    assert not np.array_equal(again.asnumpy(), expected)


def _step(net, x, **kwargs):
    with autograd.record():
        error = (net(x) ** 2).sum()
    error.backward(**kwargs)


def _gradients(net, x, *, on):
    before = native.core.engine.queue_from(0.0 if on else float("inf"))
    _step(net, x)
    found = [p.grad().asnumpy() for p in net.collect_params().values()]
    native.core.engine.queue_from(before)
    return found


def _backward_held(net, x, then):
    """Queue a backward while the worker is held, do `then(held)`, give the gradients."""
    with autograd.record():
        error = (net(x) ** 2).sum()
    with Held() as held:
        error.backward()
        grads = [p.grad() for p in net.collect_params().values()]
        assert all(pending(grad) for grad in grads)
        then(held)
        held.soon()
        return [grad.asnumpy() for grad in grads]


def test_gradients_are_pending_and_right():
    net, x = dense(), numbers(5, 6)
    expected = _gradients(net, x, on=False)
    for one, other in zip(_backward_held(net, x, lambda held: None), expected, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("which", ["data", "weight", "output"])
def test_writing_what_a_queued_backward_reads_comes_after_it(which):
    net, x = dense(), numbers(5, 6)
    expected = _gradients(net, x, on=False)
    kept = {}

    class Wrapped:
        collect_params = net.collect_params

        def __call__(self, data):
            kept["output"] = net(data)
            return kept["output"]

    def write(held):
        target = {"data": x, "weight": net[0].weight.data(), "output": kept.get("output")}[which]
        assert target._var.used
        held.soon()
        target[:] = 0
        assert held.gate.is_set()

    for one, other in zip(_backward_held(Wrapped(), x, write), expected, strict=True):
        assert np.array_equal(one, other)


def test_gradients_written_and_added_and_shared():
    net, x = dense(6), numbers(5, 6)

    def twice(on):
        native.core.engine.queue_from(0.0 if on else float("inf"))
        net.collect_params().setattr("grad_req", "add")
        net.collect_params().zero_grad()
        for _ in range(2):
            with autograd.record():
                error = (net(net(x)) ** 2).sum()  # each weight gets two gradients
            error.backward()
        return [p.grad().asnumpy() for p in net.collect_params().values()]

    for one, other in zip(twice(True), twice(False), strict=True):
        assert np.array_equal(one, other)


def test_a_head_gradient_may_be_changed_right_after_backward():
    net, x = dense(), numbers(5, 6)

    def run(on):
        native.core.engine.queue_from(0.0 if on else float("inf"))
        head = nd.ones((5, 8))
        with autograd.record():
            out = net(x)
        out.backward(head)
        head[:] = 100
        return net[0].weight.grad().asnumpy()

    assert np.array_equal(run(True), run(False))


def test_retained_graphs_and_autograd_grad():
    net, x = dense(), numbers(5, 6)
    weight = net[0].weight.data()
    expected = _gradients(net, x, on=False)
    with autograd.record():
        error = (net(x) ** 2).sum()
    error.backward(retain_graph=True)
    error.backward()
    assert np.array_equal(net[0].weight.grad().asnumpy(), expected[0])
    with autograd.record():
        out = net(x)
    head = 2 * out.detach()
    found = autograd.grad([out], [weight], [head])
    np.testing.assert_allclose(found[0].asnumpy(), expected[0], rtol=1e-5)


def test_updates_are_queued_behind_gradients():
    net, x = dense(), numbers(5, 6)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5}, kvstore=None)
    _step(net, x)
    trainer.step(1)  # states exist now
    nd.waitall()
    before = [p.data().asnumpy() for p in net.collect_params().values()]
    with autograd.record():
        error = (net(x) ** 2).sum()
    error.wait_to_read()
    with Held() as held:
        error.backward()
        trainer.step(1)
        weights = [p.data() for p in net.collect_params().values()]
        assert all(pending(weight) for weight in weights)
        held.soon()
        after = [weight.asnumpy() for weight in weights]
    for old, new, p in zip(before, after, net.collect_params().values(), strict=True):
        np.testing.assert_allclose(new, old - 0.5 * p.grad().asnumpy(), rtol=1e-6, atol=1e-7)


def test_an_error_in_the_queue_surfaces_at_the_first_reader():
    net, after, x = dense(), dense(3, 8), numbers(5, 6)
    after(net(x)).wait_to_read()

    def fails():
        raise mx.MXNetError("the data never came")

    with Held():
        engine.push(fails, writes=[x._variable()])
        out = net(x)
        behind = after(out)
        assert pending(out) and pending(behind)
    with pytest.raises(mx.MXNetError, match="never came"):
        behind.asnumpy()
    out.asnumpy()  # somebody has seen it
    nd.waitall()
    x[:] = 1
    assert np.isfinite(net(x).asnumpy()).all()


def test_two_threads_share_a_net():
    net, wrong = dense(), []
    inputs = [numbers(5 + k, 6) for k in range(2)]
    expected = [eager(net, x) for x in inputs]

    def work(k):
        for _ in range(50):
            if not np.array_equal(net(inputs[k]).asnumpy(), expected[k]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert wrong == []


def test_the_profiler_sees_graphs_at_their_place():
    net, x = dense(), numbers(5, 6)
    mx.profiler.set_config(filename=os.devnull)
    mx.profiler.set_state("run")
    out = net(x)
    mx.profiler.set_state("stop")
    assert out._var is None and net(x)._var is not None


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_computes_nothing_from_what_was_pending():
    net, x = dense(), numbers(5, 6)
    expected = eager(net, x)
    ticket = engine.begin([x._variable()], "the batch from afar")
    assert "the batch from afar" in in_child(lambda: str(net(x).asnumpy()))
    ticket.done()
    np.testing.assert_array_equal(net(x).asnumpy(), expected)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_data_loader_workers_fork_while_graphs_are_queued():
    net, x = dense(), numbers(5, 6)
    expected = eager(net, x)
    data = gluon.data.ArrayDataset(np.arange(24, dtype=np.float32).reshape(12, 2))
    outs = []
    for batch in gluon.data.DataLoader(data, batch_size=4, num_workers=2):
        outs.append(net(x))
        assert batch.shape == (4, 2)
    for out in outs:
        assert np.array_equal(out.asnumpy(), expected)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_can_run_the_net_but_not_read_what_was_pending():
    net, x = dense(), numbers(5, 6)
    expected = eager(net, x)
    with Held():
        out = net(x)

        def child():
            try:
                out.asnumpy()
                said = "no error"
            except mx.MXNetError as error:
                said = str(error)
            return f"{np.array_equal(net(x).asnumpy(), expected)} {said}"

        text = in_child(child)
    assert text.startswith("True a compiled graph") and "forked" in text
    assert np.array_equal(out.asnumpy(), expected)


# -- weights that are still on their way -----------------------------------------------------------

def coming(array):
    """An array whose new value somebody is bringing: the ticket to say that it is there."""
    return engine.begin([array._variable()], "weights from afar")


def three_layers():
    net = nn.HybridSequential()
    net.add(nn.Dense(16, activation="tanh", in_units=6), nn.Dropout(0.5),
            nn.BatchNorm(in_channels=16), nn.Dense(12, activation="tanh", in_units=16),
            nn.Dense(3, in_units=12))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    return net


def parts_run(least):
    """Wait until so many parts of graphs have run; their names."""
    found = []
    deadline = time.monotonic() + LONG
    while len(found) < least and time.monotonic() < deadline:
        found += [what for what, _, _, work in native.core.engine.spans() if work]
    return found


@pytest.fixture
def traced():
    native.core.engine.trace(True)
    yield
    native.core.engine.trace(False)


@pytest.mark.parametrize("training", [False, True])
def test_a_forward_starts_before_the_last_layers_weights_are_there(traced, training):
    net, x = three_layers(), numbers(4, 6)
    net(x).wait_to_read()
    mx.random.seed(3)
    with autograd.record(training):
        expected = net(x)
    expected = expected.asnumpy()
    last, middle = net[4].weight.data(), net[3].weight.data()
    tickets = coming(last), coming(middle)
    native.core.engine.spans()
    mx.random.seed(3)
    with autograd.record(training):
        out = net(x)
    assert parts_run(1) == ["a compiled graph (1 of 3)"] and pending(out)
    tickets[1].done()
    assert parts_run(1) == ["a compiled graph (2 of 3)"] and pending(out)
    tickets[0].done()
    assert out.asnumpy().tobytes() == expected.tobytes()


def test_runs_of_one_graph_that_wait_do_not_mix(traced):
    net = three_layers()
    xs = [numbers(4, 6), numbers(4, 6) * 3]
    expected = [eager(net, x) for x in xs]
    ticket = coming(net[4].weight.data())
    native.core.engine.spans()
    outs = [net(x) for x in xs]
    assert parts_run(2) == ["a compiled graph (1 of 2)"] * 2
    ticket.done()
    for out, right in zip(outs, expected, strict=True):
        np.testing.assert_array_equal(out.asnumpy(), right)


def test_the_late_value_is_what_counts_and_later_writes_wait(traced):
    net, x = three_layers(), numbers(4, 6)
    net(x).wait_to_read()
    weight = net[4].weight.data()
    ticket = coming(weight)
    native.core.engine.spans()
    out = net(x)
    parts_run(1)
    value = np.full(weight.shape, 0.25, np.float32)
    weight._data[...] = value  # as the one who brings it does
    threading.Timer(0.05, ticket.done).start()
    x[:] = 100        # what has been read already may still be needed: waits for the whole graph
    weight[:] = 7
    assert not pending(out)
    weight[:] = value
    np.testing.assert_array_equal(out.asnumpy(), eager(net, numbers(4, 6)))


def test_weights_that_do_not_come_fail_what_needs_them_once(traced):
    net, x = three_layers(), numbers(4, 6)
    expected = eager(net, x)
    weight = net[4].weight.data()
    ticket = coming(weight)
    native.core.engine.spans()
    out = net(x)
    parts_run(1)
    ticket.fail(OSError("no weights"))
    with pytest.raises(OSError, match="no weights"):
        out.wait_to_read()
    nd.waitall()  # nobody is told twice
    net[4].weight.set_data(nd.array(weight._data))
    np.testing.assert_array_equal(net(x).asnumpy(), expected)


@pytest.mark.parametrize("lost", [0, 3])
def test_a_part_stops_those_behind_it_also_where_its_error_was_seen_before_they_begin(traced, lost):
    net, x = three_layers(), numbers(4, 6)
    expected = eager(net, x)
    weight, last = net[lost].weight.data(), net[4].weight.data()
    tickets = coming(weight), coming(last)
    native.core.engine.spans()
    out = net(x)
    if lost:
        parts_run(1)
    tickets[0].fail(OSError("no weights"))
    assert parts_run(1) == [f"a compiled graph ({'2 of 3' if lost else '1 of 2'})"]
    with pytest.raises(OSError, match="no weights"):
        weight.wait_to_read()
    out._data[...] = 7
    tickets[1].done()
    nd.waitall()  # nobody is told twice
    assert (out._data == 7).all()  # and nothing was computed from what is not there
    net[lost].weight.set_data(nd.array(weight._data))
    np.testing.assert_array_equal(net(x).asnumpy(), expected)


def test_a_weight_that_two_layers_share_is_waited_for_before_the_first(traced):
    shared = nn.Dense(6, activation="tanh", in_units=6)
    net = nn.HybridSequential()
    net.add(shared, nn.Dense(6, in_units=6), nn.Dense(6, in_units=6, params=shared.params))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    x = numbers(2, 6)
    expected = eager(net, x)
    ticket = coming(shared.weight.data())
    native.core.engine.spans()
    out = net(x)
    assert pending(out) and native.core.engine.spans() == []
    ticket.done()
    assert parts_run(1) == ["a compiled graph"]
    np.testing.assert_array_equal(out.asnumpy(), expected)


def test_many_late_weights_are_waited_for_in_few_shares(traced):
    net = nn.HybridSequential()
    for _ in range(40):
        net.add(nn.Dense(8, activation="tanh", in_units=8))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    x = numbers(2, 8)
    expected = eager(net, x)
    tickets = [coming(p.data()) for p in net.collect_params().values()]
    native.core.engine.spans()
    out = net(x)
    for ticket in tickets:
        ticket.done()
    np.testing.assert_array_equal(out.asnumpy(), expected)
    parts = [what for what, _, _, work in native.core.engine.spans() if work]
    assert parts == [f"a compiled graph ({i + 1} of {len(parts)})" for i in range(len(parts))]
    assert 10 <= len(parts) <= 17


def test_a_forked_child_and_the_end_of_waiting(traced):
    net, x = three_layers(), numbers(4, 6)
    expected = eager(net, x)
    ticket = coming(net[4].weight.data())
    native.core.engine.spans()
    out = net(x)
    parts_run(1)

    assert "fork" in in_child(lambda: str(out.asnumpy()))
    ticket.done()
    np.testing.assert_array_equal(out.asnumpy(), expected)
