"""One native call updates all Parameters: the same numbers as one update after the other."""
from __future__ import annotations

import threading
import warnings
from typing import Any

import numpy as np
import pytest

import minigluon as mx
from minigluon import autograd, gluon, nd
from minigluon.device import engine
from minigluon.device.cpu import native
from minigluon.optimizer.together import Together

pytestmark = pytest.mark.skipif(not native.enabled, reason=native.reason)
Array = np.ndarray[Any, Any]
SHAPES = [(3, 5), (1,), (70, 33), (7,), (2, 2, 2)]


class Net:
    """Parameters whose gradients are set by hand."""

    def __init__(self, ctx: Any = None, dtype: str = "float32") -> None:
        self.params = []
        for i, shape in enumerate(SHAPES):
            param = gluon.Parameter(f"p{i}_weight", shape=shape, dtype=dtype)
            param.initialize(mx.init.Constant(nd.array(draw(shape, i)).astype(dtype)), ctx=ctx)
            self.params.append(param)
        self.params[1].lr_mult, self.params[3].wd_mult = 0.5, 0.0

    def backward(self, step: int, without: tuple[int, ...] = ()) -> None:
        losses = []
        for place, ctx in enumerate(self.params[0].list_ctx()):
            with autograd.record():
                losses += [
                    (param.data(ctx) * nd.array(draw(param.shape, 100 * step + i + place), ctx=ctx,
                                                dtype=param.dtype)).sum()
                    for i, param in enumerate(self.params) if i not in without]
        autograd.backward(losses)

    def values(self) -> list[Array]:
        return [data.asnumpy() for param in self.params for data in param.list_data()]


def draw(shape: Any, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many times `run` was called."""
    seen = [0]
    run = Together.run

    def counted(self: Together, number: int) -> None:
        seen[0] += 1
        run(self, number)

    monkeypatch.setattr(Together, "run", counted)
    return seen


def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on every weight is updated by itself."""
    monkeypatch.setattr(Together, "of", classmethod(lambda cls, *a, **k: None))


def both(monkeypatch: pytest.MonkeyPatch, play: Any) -> tuple[Any, Any]:
    """What `play()` gives with updates together, and one by one."""
    together = play()
    with monkeypatch.context() as patch:
        alone(patch)
        return together, play()


RULES: list[tuple[str, dict[str, Any]]] = [
    ("sgd", {}), ("sgd", {"momentum": 0.9, "wd": 0.1}), ("sgd", {"momentum": 0.9}),
    ("sgd", {"wd": 0.1, "clip_gradient": 0.01}),
    ("nag", {"momentum": 0.9}), ("nag", {"momentum": 0.9, "wd": 0.1}),
    ("adam", {"wd": 0.01}), ("adam", {"clip_gradient": 0.01}), ("rmsprop", {"wd": 0.01}),
    ("rmsprop", {"clip_weights": 0.5}), ("rmsprop", {"centered": True}),
    ("ftrl", {"wd": 0.01}), ("ftml", {"wd": 0.01, "clip_gradient": 0.01}),
    ("signum", {"wd": 0.01, "wd_lh": 0.1}),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "settings"), RULES)
def test_same_numbers(name: str, settings: dict[str, Any], dtype: str, count: list[int],
                      monkeypatch: pytest.MonkeyPatch) -> None:
    def play() -> tuple[list[Array], dict[int, int], int]:
        net = Net(dtype=dtype)
        scheduler = mx.lr_scheduler.FactorScheduler(step=2, factor=0.5)
        trainer = gluon.Trainer(net.params, name, {"learning_rate": 0.1, "lr_scheduler": scheduler,
                                                   **settings}, kvstore=None)
        for step in range(6):
            net.backward(step)
            if step == 3:
                net.params[2].lr_mult = 2.0
            trainer.step(2 if step < 4 else 5)
        optimizer = trainer.optimizer
        return net.values(), dict(optimizer._index_update_count), optimizer.num_update

    (values, counts, number), (wanted, wanted_counts, wanted_number) = both(monkeypatch, play)
    assert count[0] == 6
    assert counts == wanted_counts and number == wanted_number == 6
    for got, want in zip(values, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12 if dtype == "float64" else 2e-6,
                                   atol=1e-7)


def test_bitwise_equal_for_sgd_and_adam(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sgd", "adam"):
        def play(name: str = name) -> list[Array]:
            net = Net()
            trainer = gluon.Trainer(net.params, name, {"wd": 0.1}, kvstore=None)
            for step in range(3):
                net.backward(step)
                trainer.step(3)
            return net.values()

        for got, want in zip(*both(monkeypatch, play), strict=True):
            np.testing.assert_array_equal(got, want)


def test_large_weights_on_two_threads_equal_one() -> None:
    threads = native.core.threads()

    def play(count: int) -> Array:
        native.core.set_threads(count)
        try:
            param = gluon.Parameter("big_weight", shape=(300, 1001))
            small = gluon.Parameter("small_weight", shape=(3,))
            for one in (param, small):
                one.initialize(mx.init.One())
            trainer = gluon.Trainer([param, small], "adam", kvstore=None)
            for step in range(3):
                with autograd.record():
                    loss = (param.data() * nd.array(draw((300, 1001), step))).sum()
                    loss = loss + small.data().sum()
                loss.backward()
                trainer.step(1)
            return np.concatenate([param.data().asnumpy().ravel(), small.data().asnumpy()])
        finally:
            native.core.set_threads(threads)

    np.testing.assert_array_equal(play(1), play(2))


def test_stale_gradients_go_the_general_way(count: list[int], monkeypatch: pytest.MonkeyPatch
                                            ) -> None:
    def play() -> tuple[list[Array], dict[int, int]]:
        net = Net()
        trainer = gluon.Trainer(net.params, "adam", kvstore=None)
        net.backward(0)
        trainer.step(1)
        net.backward(1, without=(2,))
        with pytest.raises(UserWarning, match="p2_weight"):
            trainer.step(1)
        trainer.step(1, ignore_stale_grad=True)
        net.backward(2)
        trainer.step(1)  # the counts differ now
        return net.values(), dict(trainer.optimizer._index_update_count)

    (values, counts), (wanted, wanted_counts) = both(monkeypatch, play)
    assert count[0] == 2  # all of step 1, and the four fresh ones of the next
    assert counts == wanted_counts == {0: 3, 1: 3, 2: 2, 3: 3, 4: 3}
    for got, want in zip(values, wanted, strict=True):
        np.testing.assert_array_equal(got, want)


def test_two_contexts_and_frozen_parameters(count: list[int], monkeypatch: pytest.MonkeyPatch
                                            ) -> None:
    def play() -> list[Array]:
        net = Net(ctx=[mx.cpu(0), mx.cpu(1)])
        trainer = gluon.Trainer(net.params, "sgd", {"momentum": 0.9}, kvstore=None)
        for step in range(5):
            net.params[4].grad_req = "null" if step in (2, 3) else "write"
            net.backward(step, without=(4,) if step in (2, 3) else ())
            trainer.step(1)
        return net.values()

    together, apart = both(monkeypatch, play)
    for got, want in zip(together, apart, strict=True):
        np.testing.assert_array_equal(got, want)
    assert count[0] == 8  # two contexts; in step 4 the counts differ


def test_settings_changed_between_steps_count_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def play() -> list[Array]:
        net = Net()
        trainer = gluon.Trainer(net.params, "sgd", {"momentum": 0.9}, kvstore=None)
        for step in range(6):
            net.backward(step)
            if step == 1:
                trainer.set_learning_rate(0.5)
            if step == 2:
                trainer.optimizer.wd = np.float32(0.25)
            if step == 3:
                trainer.optimizer.momentum = 0.5
            if step == 4:
                net.params[0].set_data(nd.ones(SHAPES[0]))
            if step == 5:
                trainer.optimizer.clip_gradient = 0.01
            trainer.step(1)
        return net.values()

    for got, want in zip(*both(monkeypatch, play), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_states_saved_and_loaded(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def play() -> list[Array]:
        net = Net()
        trainer = gluon.Trainer(net.params, "adam", kvstore=None)
        for step in range(4):
            net.backward(step)
            trainer.step(1)
            if step == 1:
                trainer.save_states(str(tmp_path / "states"))
            if step == 2:
                trainer.load_states(str(tmp_path / "states"))
        return net.values()

    for got, want in zip(*both(monkeypatch, play), strict=True):
        np.testing.assert_array_equal(got, want)


def test_optimizers_of_ones_own_stay_one_by_one(count: list[int]) -> None:
    class Plain(mx.optimizer.Optimizer):
        def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
            self._update_count(index)
            weight[:] = weight - self._get_lr(index) * grad

    class Halved(mx.optimizer.SGD):
        def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
            super().update(index, weight, grad * 0.5, state)

    for optimizer, scale in ((Plain(learning_rate=0.1), 1.0), (Halved(learning_rate=0.1), 0.5)):
        net = Net()
        before = net.values()
        trainer = gluon.Trainer(net.params, optimizer, kvstore=None)
        net.backward(0)
        grads = [param.grad().asnumpy() for param in net.params]
        trainer.step(1)
        for i, (got, old, grad) in enumerate(zip(net.values(), before, grads, strict=True)):
            lr = 0.1 * (0.5 if i == 1 else 1.0)
            np.testing.assert_allclose(got, old - lr * scale * grad, rtol=1e-5, atol=1e-6)
    assert count[0] == 0


def test_a_user_optimizer_is_handed_lists_of_one_type() -> None:
    calls: list[list[int]] = []

    class Lists(mx.optimizer.Optimizer):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.aggregate_num = 2

        def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
            calls.append(index)
            self._update_count(index)
            rates = zip(self._get_lrs(index), self._get_wds(index), strict=True)
            for w, g, (lr, wd) in zip(weight, grad, rates, strict=True):
                w[:] = w - lr * (g + wd * w)

    net = Net()
    net.params[3].cast("float64")
    trainer = gluon.Trainer(net.params, Lists(learning_rate=0.1), kvstore=None)
    net.backward(0)
    before, grad = net.values()[4], net.params[4].grad().asnumpy()
    trainer.step(1)
    assert calls == [[0, 1], [2, 4], [3]]
    np.testing.assert_allclose(net.values()[4], before - 0.1 * grad, rtol=1e-5, atol=1e-6)


def test_aggregation_size_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert mx.optimizer.SGD().aggregate_num == 4 and mx.optimizer.Adam().aggregate_num == 0
    monkeypatch.setenv("MXNET_OPTIMIZER_AGGREGATION_SIZE", "7")
    assert mx.optimizer.SGD().aggregate_num == 7


def test_lists_by_hand_and_through_an_updater(count: list[int]) -> None:
    weights = [nd.ones((2,)), nd.ones((3,))]
    grads = [nd.ones((2,)), nd.ones((3,))]
    sgd = mx.optimizer.SGD(learning_rate=0.5)
    sgd.update_multi_precision([0, 1], weights, grads, [None, None])
    assert [w.asnumpy()[0] for w in weights] == [0.5, 0.5]
    updater = mx.optimizer.get_updater(mx.optimizer.SGD(learning_rate=0.5, momentum=0.5))
    updater([0, 1], grads, weights)
    assert count[0] == 1 and [w.asnumpy()[0] for w in weights] == [0, 0]
    updater.optimizer.set_lr_mult({1: 0.0})
    updater([0, 1], grads, weights)
    assert count[0] == 2 and [w.asnumpy()[0] for w in weights] == [-0.75, -0.25]
    updater([0, 1], [weights[0], weights[1]], weights)  # a weight that is its own gradient
    assert count[0] == 2


def test_half_precision_goes_the_general_way(count: list[int]) -> None:
    param = gluon.Parameter("half_weight", shape=(3,), dtype="float16")
    param.initialize(mx.init.One())
    trainer = gluon.Trainer([param], "sgd", {"multi_precision": True, "learning_rate": 0.5},
                            kvstore=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with autograd.record():
            loss = param.data().sum()
        loss.backward()
        trainer.step(1)
    assert param.data().asnumpy().tolist() == [0.5] * 3 and count[0] == 0


def test_pending_work_is_waited_for(count: list[int]) -> None:
    net = Net()
    trainer = gluon.Trainer(net.params, "sgd", {"learning_rate": 0.5}, kvstore=None)
    net.backward(0)
    trainer.step(1)
    net.backward(1)
    weight, grad = net.params[0].data(), net.params[0].grad()
    before = weight.asnumpy()
    seen: list[Array] = []
    gate = threading.Event()

    def late() -> None:
        assert gate.wait(30)
        seen.append(weight.asnumpy())
        grad[:] = 1

    engine.push(late, reads=[weight._variable()], writes=[grad._variable()])
    timer = threading.Timer(0.05, gate.set)
    timer.start()
    trainer.step(1)
    timer.join()
    np.testing.assert_allclose(weight.asnumpy(), before - 0.5, rtol=1e-6)
    np.testing.assert_array_equal(seen[0], before)
    assert count[0] == 2


def test_the_profiler_sees_each_operator() -> None:
    net = Net()
    trainer = gluon.Trainer(net.params, "sgd", kvstore=None)
    mx.profiler.set_config(profile_imperative=True, aggregate_stats=True)
    mx.profiler.set_state("run")
    try:
        net.backward(0)
        trainer.step(1)
    finally:
        mx.profiler.set_state("stop")
    assert "sgd_update" in mx.profiler.dumps(reset=True)


def test_gradients_are_read_while_others_are_delivered():
    """An operator in one thread keeps the buffer it reads when a backward exchanges it."""
    w = nd.ones((1024, 1024))
    w.attach_grad()
    (w.grad + 1).wait_to_read()
    wrong, done = [], threading.Event()

    def read():
        for _ in range(60):
            seen = np.unique(nd.exp(w.grad).asnumpy())
            near = np.abs(np.log(seen)[:, None] - np.arange(4)).min(1)
            if near.max() > 1e-3:
                wrong.append(seen)
        done.set()

    thread = threading.Thread(target=read)
    thread.start()
    step = 0
    while not done.is_set():
        step += 1
        with autograd.record():
            out = w * float(step % 3 + 1)
        out.backward()
        _others = [nd.full(w.shape, 77.0) for _ in range(2)]  # takes memory that was given up
    thread.join()
    assert not wrong
