"""Trainer: who updates, what a step does, what files hold, what is refused."""
from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minigluon as mx
from minigluon import autograd, gluon, kvstore, nd
from minigluon.lr_scheduler import FactorScheduler

CTX = [mx.cpu(0), mx.cpu(1)]


def _param(value: str = "zeros", ctx: Any = CTX, shape: tuple[int, ...] = (10,),
           name: str = "x") -> gluon.Parameter:
    param = gluon.Parameter(name, shape=shape)
    param.initialize(value, ctx=ctx)
    return param


def _backward(*params: gluon.Parameter, scale: float = 1.0) -> None:
    """Gradients of `scale` on every context."""
    with autograd.record():
        losses = [(x * scale).sum() for param in params for x in param.list_data()]
    autograd.backward(losses)


def _values(param: gluon.Parameter) -> set[float]:
    return {round(float(v), 6) for x in param.list_data() for v in x.asnumpy().ravel()}


@pytest.mark.parametrize("update_on_kvstore", [None, True, False])
@pytest.mark.parametrize("kv", ["local", "device"])
def test_step_sums_over_contexts_and_follows_multipliers(kv: str, update_on_kvstore: Any) -> None:
    x = _param()
    trainer = gluon.Trainer([x], "sgd", {"learning_rate": 1.0, "momentum": 0.5}, kv,
                            update_on_kvstore=update_on_kvstore)
    _backward(x)
    trainer.step(1)
    assert _values(x) == {-2}
    x.lr_mult = 0.5
    _backward(x)
    trainer.step(1)
    assert _values(x) == {-4}
    assert trainer._kvstore.type == kv
    assert trainer._update_on_kvstore is (update_on_kvstore is not False)


def test_step_divides_by_batch_size() -> None:
    x = _param()
    trainer = gluon.Trainer([x], "sgd", {"learning_rate": 1.0})
    for batch_size, expected in ((4, -0.5), (1, -2.5)):
        _backward(x)
        trainer.step(batch_size)
        assert _values(x) == {expected}


# -- who updates ----------------------------------------------------------------------------------


class _Dist(kvstore.KVStore):
    """A store that says it is distributed, with one worker; notes what it is told."""

    def __init__(self, name: str, batch: bool = False) -> None:
        super().__init__(name)
        self.calls: list[Any] = []
        self.batch = batch

    def is_capable(self, capability: str) -> bool:  # type: ignore[override]
        return capability == "optimizer" or (capability == "batch" and self.batch)

    def set_optimizer(self, optimizer: Any) -> None:
        self.server = mx.optimizer.from_wire(*optimizer.wire())
        super().set_optimizer(self.server)

    def update_optimizer_settings(self, settings: dict[str, Any]) -> None:
        self.calls.append(sorted(settings))
        self.server.apply_settings(settings)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: Any = 0) -> None:
        self.calls.append((key, priority))
        super().pushpull(key, value, out, priority)

    def broadcast(self, key: Any, value: Any, out: Any, priority: Any = 0) -> None:
        self.calls.append(("broadcast", key))
        super().broadcast(key, value, out, priority)


@pytest.mark.parametrize("env", ["0", "1"])
@pytest.mark.parametrize(
    ("store", "wish", "effect"),
    [
        ("local", None, "env"), ("local", True, True), ("local", False, False),
        ("device", None, "env"), ("device", True, True), ("device", False, False),
        ("dist_sync", None, "env"), ("dist_sync", True, True), ("dist_sync", False, False),
        ("dist_device_sync", None, "env"),
        ("dist_async", None, True), ("dist_async", True, True), ("dist_async", False, ValueError),
    ],
)
def test_who_updates_dense_parameters(
    store: str, wish: bool | None, effect: Any, env: str, monkeypatch: Any
) -> None:
    monkeypatch.setenv("MXNET_UPDATE_ON_KVSTORE", env)
    x = _param()
    kv = _Dist(store) if "dist" in store else store
    trainer = gluon.Trainer([x], "sgd", {"learning_rate": 1.0}, kv, update_on_kvstore=wish)
    if effect is ValueError:
        with pytest.raises(ValueError, match="update_on_kvstore=False cannot be honoured"):
            trainer._init_kvstore()
        return
    _backward(x)
    trainer.step(2)
    assert trainer._update_on_kvstore is (env == "1" if effect == "env" else effect)
    assert _values(x) == {-1}


@pytest.mark.parametrize(
    ("stype", "grad_stype", "store", "wish", "effect"),
    [
        ("default", "row_sparse", "device", None, False),
        ("default", "row_sparse", "device", True, True),
        ("default", "row_sparse", "device", False, False),
        ("default", "row_sparse", "dist_sync", None, True),
        ("default", "row_sparse", "dist_sync", False, ValueError),
        ("row_sparse", "row_sparse", "local", None, True),
        ("row_sparse", "row_sparse", "local", True, True),
        ("row_sparse", "row_sparse", "local", False, ValueError),
        ("row_sparse", "default", "dist_async", None, True),
    ],
)
def test_who_updates_sparse_parameters(
    stype: str, grad_stype: str, store: str, wish: Any, effect: Any
) -> None:
    """The decision alone; `test_sparse_training.py` trains."""
    x = _param()
    x._stype, x._grad_stype = stype, grad_stype
    kv = _Dist(store) if "dist" in store else store
    trainer = gluon.Trainer([x], "sgd", kvstore=kv, update_on_kvstore=wish)
    if effect is ValueError:
        with pytest.raises(ValueError, match="cannot be honoured"):
            trainer._init_kvstore()
    else:
        trainer._init_kvstore()
        assert trainer._update_on_kvstore is effect


def test_one_context_needs_no_store_unless_it_is_asked_for() -> None:
    x = _param(ctx=mx.cpu(0))
    trainer = gluon.Trainer([x], "sgd", {"learning_rate": 1.0})
    _backward(x)
    trainer.step(1)
    assert trainer._kvstore is None and trainer._update_on_kvstore is None and _values(x) == {-1}
    trainer = gluon.Trainer([x], "sgd", {"learning_rate": 1.0}, update_on_kvstore=True)
    _backward(x)
    trainer.step(1)
    assert trainer._kvstore.type == "device" and trainer._update_on_kvstore is True
    assert _values(x) == {-2}
    trainer = gluon.Trainer([x], "sgd", kvstore=None, update_on_kvstore=True)
    with pytest.raises(ValueError, match="needs a kvstore"):
        trainer._init_kvstore()


def test_update_and_allreduce_are_apart_only_without_the_store() -> None:
    x = _param()
    trainer = gluon.Trainer([x], "sgd", {"learning_rate": 1.0}, update_on_kvstore=True)
    _backward(x)
    for call in (trainer.allreduce_grads, lambda: trainer.update(1)):
        with pytest.raises(AssertionError, match="not possible when the KVStore"):
            call()
    trainer = gluon.Trainer([x], "sgd", {"learning_rate": 1.0}, update_on_kvstore=False)
    with autograd.record():
        losses = [(data * (i + 1)).sum() for i, data in enumerate(x.list_data())]
    autograd.backward(losses)
    trainer.allreduce_grads()
    assert all((grad.asnumpy() == 3).all() for grad in x.list_grad())
    trainer.update(3)
    assert _values(x) == {-1}


# -- parameters -----------------------------------------------------------------------------------


def test_order_of_parameters() -> None:
    b, a = _param(name="b"), _param(name="a")
    assert gluon.Trainer({"b": b, "a": a}, "sgd")._params == [a, b]
    assert gluon.Trainer([b, a], "sgd")._params == [b, a]
    assert gluon.Trainer([b, a, b], "sgd")._params == [b, a]
    for wrong in ("x", [1], b):
        with pytest.raises(ValueError, match="expected a"):
            gluon.Trainer(wrong, "sgd")


def test_all_parameters_are_on_the_same_contexts() -> None:
    with pytest.raises(AssertionError, match="same contexts"):
        gluon.Trainer([_param(), _param(ctx=mx.cpu(0), name="y")], "sgd")


def test_a_shared_parameter_counts_once() -> None:
    first = gluon.nn.Dense(4, in_units=4)
    second = gluon.nn.Dense(4, in_units=4, params=first.params)
    net = gluon.nn.HybridSequential()
    net.add(first, second)
    net.initialize("ones", ctx=CTX)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0},
                            update_on_kvstore=False)
    assert len(trainer._params) == 2
    with autograd.record():
        losses = [net(nd.ones((2, 4), ctx=ctx)).sum() for ctx in CTX]
    autograd.backward(losses)
    w, x = np.ones((4, 4)), np.ones((2, 4))
    hidden, ones = x @ w.T, np.ones((2, 4))
    expected = 2 * (ones.T @ hidden + (ones @ w).T @ x)
    trainer.allreduce_grads()
    assert all((g.asnumpy() == expected).all() for g in first.weight.list_grad())
    trainer.update(1)
    assert all((v.asnumpy() == 1 - expected).all() for v in first.weight.list_data())


@pytest.mark.parametrize("update_on_kvstore", [True, False])
def test_deferred_parameters_enter_the_store_when_they_are_known(update_on_kvstore: bool) -> None:
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(3), gluon.nn.Dense(2))
    net.initialize("ones", ctx=CTX)
    trainer = gluon.Trainer(net.collect_params(), "sgd", update_on_kvstore=update_on_kvstore)
    assert len(trainer._params_to_init) == 4
    with autograd.record():
        losses = [net(nd.ones((2, 5), ctx=ctx)).sum() for ctx in CTX]
    autograd.backward(losses)
    trainer.step(2)
    assert trainer._params_to_init == []
    for param in net.collect_params().values():
        assert param.data(CTX[0]).asnumpy().tolist() == param.data(CTX[1]).asnumpy().tolist()


def test_a_layer_that_forward_never_reached() -> None:
    net = gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(gluon.nn.Dense(3))
        net.unused = gluon.nn.Dense(2, prefix="forgotten_")
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    x = nd.ones((2, 5))
    with autograd.record():
        loss = net[0](x).sum()
    loss.backward()
    with pytest.raises(mx.MXNetError, match=r"forgotten_.*not reached by the forward"):
        trainer.step(1)
    before = net[0].weight.data().asnumpy()
    trainer.step(1, ignore_stale_grad=True)
    assert (net[0].weight.data().asnumpy() != before).any()


@pytest.mark.parametrize("update_on_kvstore", [True, False])
def test_stale_gradients(update_on_kvstore: bool) -> None:
    x, y = _param(), _param(name="y")
    trainer = gluon.Trainer([x, y], "sgd", {"learning_rate": 1.0},
                            update_on_kvstore=update_on_kvstore)
    _backward(x, y)
    trainer.step(1)
    _backward(x)
    with pytest.raises(UserWarning, match=r"Parameter `y` on context cpu\(0\)"):
        trainer.step(1)
    assert _values(x) == {-2}  # refused before anything was changed
    trainer.step(1, ignore_stale_grad=True)
    assert _values(x) == {-4} and _values(y) == {-2}


def test_constants_and_frozen_parameters_stay() -> None:
    x, frozen = _param(), _param("ones", name="y")
    frozen.grad_req = "null"
    constant = gluon.Constant("c", np.ones(3))
    constant.initialize(ctx=CTX)
    trainer = gluon.Trainer([x, frozen, constant], "sgd", {"learning_rate": 1.0, "momentum": 0.5})
    for _ in range(2):
        _backward(x)
        trainer.step(1)
    assert _values(frozen) == {1} and _values(constant) == {1} and _values(x) == {-5}


# -- the learning rate ----------------------------------------------------------------------------


@pytest.mark.parametrize("update_on_kvstore", [True, False])
def test_schedules(update_on_kvstore: bool) -> None:
    x = _param()
    schedule = FactorScheduler(2, 0.1, base_lr=1)
    trainer = gluon.Trainer([x], "sgd", {"lr_scheduler": schedule},
                            update_on_kvstore=update_on_kvstore)
    rate = 1.0
    for i in range(10):
        _backward(x)
        trainer.step(1)
        if i % 2 == 0:
            assert trainer.learning_rate == pytest.approx(rate)
            rate *= 0.1
    with pytest.raises(UserWarning, match="lr_scheduler"):
        trainer.set_learning_rate(1.0)


def test_set_learning_rate_and_an_optimizer_of_ones_own() -> None:
    x, sgd = _param(), mx.optimizer.SGD(learning_rate=0.5)
    trainer = gluon.Trainer([x], sgd)
    assert trainer.optimizer is sgd and trainer.learning_rate == 0.5
    trainer.set_learning_rate(0.25)
    _backward(x)
    trainer.step(1)
    assert _values(x) == {-0.5}
    with pytest.raises(AssertionError, match="optimizer_params must be None"):
        gluon.Trainer([x], sgd, {"learning_rate": 1})


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_two_contexts_with_halves_equal_one_with_the_whole(name: str) -> None:
    batch = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")

    def train(contexts: list[mx.Context]) -> gluon.Trainer:
        w = _param("ones", contexts, (3,), "w")
        trainer = gluon.Trainer([w], name, {"learning_rate": 0.1}, update_on_kvstore=False)
        for _ in range(3):
            with autograd.record():
                losses = [((part * w.data(part.context)) ** 2).sum()
                          for part in gluon.utils.split_and_load(batch, contexts)]
            autograd.backward(losses)
            trainer.step(8)
        results.append(w.data(contexts[0]).asnumpy())
        return trainer

    results: list[Any] = []
    assert train(CTX)._optimizer.num_update == train([mx.cpu(0)])._optimizer.num_update == 3
    np.testing.assert_allclose(results[0], results[1], rtol=1e-6)


# -- files ----------------------------------------------------------------------------------------


def _momentum_trainer(ctx: Any, update_on_kvstore: bool, value: str = "zeros"
                      ) -> tuple[gluon.Parameter, gluon.Trainer]:
    x = _param(value, ctx)
    return x, gluon.Trainer([x], "sgd", {"learning_rate": 0.5, "momentum": 0.5},
                            update_on_kvstore=update_on_kvstore)


def _steps(x: gluon.Parameter, trainer: gluon.Trainer, count: int) -> None:
    for _ in range(count):
        _backward(x)
        trainer.step(1)


@pytest.mark.parametrize("update_on_kvstore", [True, False])
def test_states_of_all_contexts_survive(tmp_path: Path, update_on_kvstore: bool) -> None:
    """Also when they are loaded before the first step."""
    path = str(tmp_path / "trainer.states")
    x, trainer = _momentum_trainer(CTX, update_on_kvstore)
    _steps(x, trainer, 2)
    trainer.save_states(path)
    values = x.data(CTX[0]).asnumpy()
    _steps(x, trainer, 1)
    y, again = _momentum_trainer(CTX, update_on_kvstore)
    y.set_data(nd.array(values))
    again.load_states(path)
    _steps(y, again, 1)
    assert _values(y) == _values(x)
    if not update_on_kvstore:
        contexts = [updater.states[0].context for updater in again._updaters]
        assert contexts == CTX
        assert all(updater.optimizer is again._optimizer for updater in again._updaters)
    else:
        assert again._kvstore._updater.optimizer is again._optimizer


@pytest.mark.parametrize("update_on_kvstore", [True, False])
def test_save_before_the_first_step(tmp_path: Path, update_on_kvstore: bool) -> None:
    path = str(tmp_path / "trainer.states")
    x, trainer = _momentum_trainer(CTX, update_on_kvstore)
    trainer.save_states(path)
    trainer.load_states(path)
    _steps(x, trainer, 1)
    assert _values(x) == {-1}


def test_states_made_in_the_store_load_outside_it_and_back(tmp_path: Path) -> None:
    path = str(tmp_path / "trainer.states")
    for there, here in ((True, False), (False, True)):
        x, trainer = _momentum_trainer(CTX, there)
        _steps(x, trainer, 2)
        trainer.save_states(path)
        values = nd.array(x.data(CTX[0]).asnumpy())
        _steps(x, trainer, 1)
        y, again = _momentum_trainer(CTX, here)
        y.set_data(values)
        again.load_states(path)
        _steps(y, again, 1)
        assert _values(y) == _values(x)


@pytest.mark.parametrize("update_on_kvstore", [True, False])
def test_the_loaded_optimizer_is_tied_to_the_parameters(
    tmp_path: Path, update_on_kvstore: bool
) -> None:
    path = str(tmp_path / "trainer.states")
    x = _param()
    trainer = gluon.Trainer([x], "sgd", {"learning_rate": 0.1}, update_on_kvstore=update_on_kvstore)
    _steps(x, trainer, 1)
    trainer.save_states(path)
    trainer.load_states(path)
    x.lr_mult = 2.0
    assert trainer._optimizer._get_lr(0) == pytest.approx(0.2)
    assert trainer.learning_rate == pytest.approx(0.1)


@pytest.mark.parametrize("update_on_kvstore", [True, False])
@pytest.mark.parametrize("kv", ["local", "device"])
def test_loaded_parameters_reset_the_store(
    tmp_path: Path, kv: str, update_on_kvstore: bool
) -> None:
    path = str(tmp_path / "x.params")
    params = gluon.ParameterDict()
    x = params.get("x", shape=(10,), lr_mult=1.0)
    params.initialize("zeros", ctx=CTX)
    trainer = gluon.Trainer(params, "sgd", {"learning_rate": 0.1}, kv,
                            update_on_kvstore=update_on_kvstore)
    params.save(path)
    _steps(x, trainer, 1)
    assert trainer._kvstore.type == kv
    params.load(path)
    assert trainer._kvstore is None and trainer._kv_initialized is False
    _steps(x, trainer, 1)
    assert _values(x) == {-0.2}


def test_momentum_survives_loaded_parameters_wherever_it_is_kept() -> None:
    found = []
    for update_on_kvstore in (True, False):
        x, trainer = _momentum_trainer(CTX, update_on_kvstore)
        _steps(x, trainer, 2)
        x.set_data(nd.zeros((10,)))
        _steps(x, trainer, 1)
        found.append(_values(x))
    assert found[0] == found[1] == {-1.75}


# -- distributed stores ---------------------------------------------------------------------------


def test_setting_parameters_under_a_distributed_store() -> None:
    for update_on_kvstore in (True, False):
        x = _param()
        trainer = gluon.Trainer([x], "sgd", {"learning_rate": 1.0}, _Dist("dist_sync"),
                                update_on_kvstore=update_on_kvstore)
        _steps(x, trainer, 1)
        if update_on_kvstore:
            with pytest.raises(RuntimeError, match="servers of a distributed KVStore"):
                x.set_data(nd.ones((10,)))
        else:
            x.set_data(nd.ones((10,)))
            assert trainer._kv_initialized


@pytest.mark.parametrize("batch", [False, True])
def test_keys_priorities_and_batches(batch: bool) -> None:
    params = [_param(name=name) for name in "abc"]
    params[1].grad_req = "null"
    kv = _Dist("dist_sync", batch)
    trainer = gluon.Trainer(params, "sgd", {"learning_rate": 1.0}, kv)
    _backward(params[0], params[2])
    trainer.step(1)
    if batch:
        assert kv.calls == [("broadcast", [0, 1, 2]), ([0, 2], [0, -2])]
    else:
        assert kv.calls == [*(("broadcast", i) for i in range(3)), (0, 0), (2, -2)]
    assert _values(params[0]) == _values(params[2]) == {-2} and _values(params[1]) == {0}


def test_what_the_user_changes_reaches_the_servers_once() -> None:
    x, kv = _param(), _Dist("dist_sync")
    trainer = gluon.Trainer([x], "sgd", {"learning_rate": 1.0}, kv)

    def told(change: Any) -> list[Any]:
        change()
        kv.calls.clear()
        _steps(x, trainer, 1)
        return [call for call in kv.calls if isinstance(call, list)]

    assert told(lambda: None) == []
    assert told(lambda: trainer.set_learning_rate(0.5)) == [["lr"]]
    assert told(lambda: None) == []
    assert told(lambda: setattr(x, "lr_mult", 0.5)) == [["lr_mult"]]
    assert told(lambda: setattr(trainer.optimizer, "momentum", 0.25)) == [["momentum"]]
    assert kv.server._get_lr(0) == 0.25 and kv.server.momentum == 0.25
    assert trainer.optimizer.num_update == kv.server.num_update == 5


def test_another_batch_size_warns_and_reaches_the_servers() -> None:
    x = _param()
    trainer = gluon.Trainer([x], "sgd", {"learning_rate": 1.0}, _Dist("dist_sync"))
    _steps(x, trainer, 1)
    _backward(x)
    with pytest.warns(UserWarning, match="another batch_size"):
        trainer.step(4)
    assert _values(x) == {-2.5}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _backward(x)
        trainer.step(4)


def test_the_schedule_shows_on_the_worker_while_the_servers_follow_it() -> None:
    x, kv = _param(), _Dist("dist_sync")
    schedule = FactorScheduler(1, 0.5, base_lr=1)
    trainer = gluon.Trainer([x], "sgd", {"lr_scheduler": schedule}, kv)
    _steps(x, trainer, 3)
    assert trainer.learning_rate == kv.server.learning_rate == 0.25
    assert _values(x) == {-3.5}


def test_stale_gradients_are_pushed_as_zeros_so_that_all_workers_push_alike() -> None:
    x, y, kv = _param(), _param(name="y"), _Dist("dist_sync")
    trainer = gluon.Trainer([x, y], "sgd", {"learning_rate": 1.0}, kv)
    _backward(x, y)
    trainer.step(1)
    kv.calls.clear()
    _backward(x)
    trainer.step(1, ignore_stale_grad=True)
    assert kv.calls == [(0, 0), (1, -1)]
    assert _values(x) == {-4} and _values(y) == {-2}


def test_compression_is_passed_on() -> None:
    x = _param()
    trainer = gluon.Trainer([x], "sgd", {"learning_rate": 1},
                            compression_params={"type": "2bit", "threshold": 0.5})
    before = x.list_data()[0].asnumpy()
    for grad in x.list_grad():
        grad[:] = 0.75
    for data in x.list_data():
        data._fresh_grad = True
    trainer.step(1)
    # 0.5 is sent by each device, 0.25 stays there
    assert (before - x.list_data()[0].asnumpy() == 0.5 * len(x.list_grad())).all()


@pytest.mark.parametrize("update_on_kvstore", [True, False])
def test_gradients_of_several_steps_are_added_up(update_on_kvstore: bool) -> None:
    x = gluon.Parameter("x", shape=(2,))
    x.initialize("zeros")
    trainer = gluon.Trainer([x], "sgd", {"learning_rate": 1}, update_interval=3,
                            update_on_kvstore=update_on_kvstore)
    seen = []
    for step in range(7):
        with autograd.record():
            loss = -(x.data() * (step + 1)).sum()
        loss.backward()
        trainer.step(2)
        seen.append(float(x.data().asnumpy()[0]))
    np.testing.assert_allclose(seen, [0, 0, 1, 1, 1, 3.5, 3.5], rtol=1e-6)
    assert x.grad().asnumpy().tolist() == [-7, -7]
    with pytest.raises(ValueError, match="call step"):
        trainer.update(1)
    with pytest.raises(ValueError, match="expected 1 or more, got 0"):
        gluon.Trainer([x], "sgd", update_interval=0)
    with pytest.raises(TypeError, match="expected an int"):
        gluon.Trainer([x], "sgd", update_interval=1.5)


@pytest.mark.parametrize("optimizer", ["nag", "adadelta"])
def test_states_follow_parameters_to_another_context(optimizer):
    settings = {"momentum": 0.9} if optimizer == "nag" else {}

    def trained(moves):
        w = gluon.Parameter("w", shape=(3,))
        w.initialize("ones", ctx=mx.cpu(0))
        trainer = gluon.Trainer([w], optimizer, {"learning_rate": 0.1, **settings})
        for step in range(4):
            if moves and step == 2:
                w.reset_ctx(mx.cpu(1))
            with autograd.record():
                loss = (w.data() * (step + 1.0)).sum()
            loss.backward()
            trainer.step(1)
        return w.data()

    moved = trained(True)
    assert moved.context == mx.cpu(1)
    np.testing.assert_allclose(moved.asnumpy(), trained(False).asnumpy(), rtol=1e-6)
