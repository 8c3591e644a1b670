"""Update rules against their formulas in float64; counts, multipliers, states, travelling."""
from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minigluon as mx
from minigluon import nd
from minigluon import optimizer as opt
from minigluon.base import NotForThisError
from minigluon.lr_scheduler import FactorScheduler

Array = Any
STEPS, LR = 20, 0.1


def _clip(g: Array, clip: float | None) -> Array:
    return g if clip is None else np.clip(g, -clip, clip)


def _sgd(w: Array, s: dict[str, Array], g: Array, t: int, wd: float, clip: float | None,
         momentum: float) -> Array:
    step = -LR * (_clip(g, clip) + wd * w)
    s["m"] = momentum * s.get("m", 0.0) + step
    return w + s["m"]


def _nag(w: Array, s: dict[str, Array], g: Array, t: int, wd: float, clip: float | None,
         momentum: float) -> Array:
    before = s.get("m", 0.0)
    w = w + momentum**2 * before - LR * (momentum + 1) * (_clip(g, clip) + wd * w)
    s["m"] = momentum * before - LR * (_clip(g, clip) + wd * w)  # of the new w, as in MXNet
    return w


def _adam(w: Array, s: dict[str, Array], g: Array, t: int, wd: float, clip: float | None,
          momentum: float) -> Array:
    g = _clip(g + wd * w, clip)
    b1, b2 = (float(np.float32(b)) for b in (0.9, 0.999))  # MXNet's kernels round them so
    s["m"] = b1 * s.get("m", 0.0) + (1 - b1) * g
    s["v"] = b2 * s.get("v", 0.0) + (1 - b2) * g * g
    rate = LR * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    return w - rate * s["m"] / (np.sqrt(s["v"]) + 1e-8)


RULES: dict[str, tuple[Callable[..., Array], float]] = {
    "sgd": (_sgd, 0.0),
    "sgd momentum": (_sgd, 0.9),
    "nag": (_nag, 0.0),
    "nag momentum": (_nag, 0.9),
    "adam": (_adam, 0.0),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "half"])
@pytest.mark.parametrize("clip", [None, 0.4])
@pytest.mark.parametrize("wd", [0.0, 0.03])
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_its_formula(rule: str, wd: float, clip: float | None, dtype: str) -> None:
    formula, momentum = RULES[rule]
    half = dtype == "half"
    dtype = "float16" if half else dtype
    settings: dict[str, Any] = {"momentum": momentum} if rule != "adam" else {}
    optimizer = opt.create(rule.split()[0], learning_rate=LR, wd=wd, clip_gradient=clip,
                           rescale_grad=0.5, multi_precision=half, **settings)
    updater = opt.get_updater(optimizer)
    rng = np.random.default_rng(3)
    weight = nd.array(rng.normal(size=(3, 4)), dtype=dtype)
    expected, state = weight.asnumpy().astype("float64"), {}
    for t in range(1, STEPS + 1):
        grad = nd.array(rng.normal(size=(3, 4)), dtype=dtype)
        updater(0, grad, weight)
        expected = formula(expected, state, 0.5 * grad.asnumpy().astype("float64"), t, wd, clip,
                           momentum)
    rtol = {"float16": 2e-3, "float32": 2e-5, "float64": 1e-12}[dtype]
    np.testing.assert_allclose(weight.asnumpy(), expected, rtol=rtol, atol=rtol)
    assert weight.dtype == np.dtype(dtype)


def test_the_test_optimizer() -> None:
    updater = opt.get_updater(opt.create("test", rescale_grad=2))
    weight = nd.ones((2,))
    updater("w", nd.array([1, 3]), weight)
    assert weight.asnumpy().tolist() == [3, 7]
    assert updater.states["w"].asnumpy().tolist() == [3, 7]


def test_names() -> None:
    assert type(opt.create("SGD")) is opt.SGD and type(opt.create("Adam")) is opt.Adam
    ready = opt.SGD()
    assert opt.create(ready) is ready
    with pytest.raises(ValueError, match="unknown optimizer 'sdg'; did you mean 'sgd'"):
        opt.create("sdg")
    with pytest.raises(TypeError):
        opt.create("sgd", momentun=0.9)


def test_multi_precision_state_and_the_warning_without_it() -> None:
    weight = nd.ones((2,), dtype="float16")
    sgd = opt.SGD(momentum=0.9, multi_precision=True)
    momentum, master = sgd.create_state_multi_precision(0, weight)
    assert momentum.dtype == master.dtype == np.float32
    assert opt.SGD(multi_precision=True).create_state_multi_precision(0, weight)[0] is None
    master, (mean, _) = opt.Adam(multi_precision=True).create_state_multi_precision(0, weight)
    assert master.asnumpy().tolist() == [1, 1] and mean.asnumpy().tolist() == [0, 0]
    with pytest.warns(UserWarning, match="multi_precision=True"):
        opt.SGD().create_state_multi_precision(0, weight)


class _Own(opt.Optimizer):
    """A user's rule, which knows nothing of float16."""

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        self._update_count(index)
        assert weight.dtype == np.float32
        weight[:] = weight - self._get_lr(index) * grad


def test_a_users_rule_gets_multi_precision_for_nothing() -> None:
    updater = opt.get_updater(_Own(learning_rate=2.0**-12, multi_precision=True))
    weight = nd.ones((2,), dtype="float16")
    for _ in range(8):
        updater(0, nd.ones((2,), dtype="float16"), weight)
    assert weight.asnumpy().tolist() == [1 - 2.0**-9] * 2  # 8 steps too small for float16


def test_multipliers() -> None:
    names = {0: "a_weight", 1: "a_bias", 2: "a_gamma"}
    sgd = opt.SGD(learning_rate=1.0, wd=0.5, param_idx2name=names)
    assert sgd.wd_mult == {"a_bias": 0.0}
    sgd.set_lr_mult({"a_bias": 0.5, 2: 0.25})
    sgd.set_wd_mult({"a_bias": 0.5})
    assert sgd._get_lrs([0, 1, 2]) == [1.0, 0.5, 0.25]
    assert sgd._get_wds([0, 1, 2]) == [0.5, 0.25, 0.5]

    class Parameter:
        lr_mult, wd_mult = 4.0, 0.0

    by_param = opt.SGD(learning_rate=1.0, wd=0.5, param_dict={0: Parameter()})
    assert (by_param._get_lr(0), by_param._get_wd(0), by_param._get_lr(1)) == (4.0, 0.0, 1.0)


def test_multipliers_from_symbol_attributes() -> None:
    class Net:
        def attr_dict(self) -> dict[str, dict[str, str]]:
            return {"w": {"__lr_mult__": "0.0", "__wd_mult__": "0.5"}, "b": {"lr_mult": "3"}}

        def list_arguments(self) -> list[str]:
            return ["x", "w", "b"]

    sgd = opt.SGD(sym=Net(), param_idx2name={0: "w", 1: "b"})
    assert sgd.lr_mult == {"w": 0.0} and sgd.wd_mult == {"w": 0.5, "b": 0.0}


def test_set_learning_rate() -> None:
    sgd = opt.SGD(learning_rate=1.0)
    sgd.set_learning_rate(0.25)
    assert sgd.learning_rate == sgd.lr == 0.25
    with pytest.raises(UserWarning, match="lr_scheduler"):
        opt.SGD(lr_scheduler=FactorScheduler(2)).set_learning_rate(1.0)


def test_counts_start_where_told_and_follow_the_schedule() -> None:
    sgd = opt.SGD(lr_scheduler=FactorScheduler(2, 0.1, base_lr=1), begin_num_update=4)
    updater, weight = opt.get_updater(sgd), nd.zeros((1,))
    assert sgd.num_update == 4 and sgd.learning_rate == pytest.approx(0.1)
    updater(0, nd.ones((1,)), weight)
    assert sgd.num_update == 5 and sgd._index_update_count == {0: 5}
    assert weight.asnumpy() == pytest.approx(-0.01)


def test_several_contexts_count_as_one_step() -> None:
    adam = opt.Adam()
    updaters = [opt.get_updater(adam) for _ in range(3)]
    weights = [nd.ones((2,), ctx=mx.cpu(i)) for i in range(3)]
    for _ in range(4):
        for updater, weight in zip(updaters, weights, strict=True):
            updater(7, nd.ones((2,), ctx=weight.context), weight)
    assert adam.num_update == 4
    assert weights[0].asnumpy().tolist() == weights[2].asnumpy().tolist()
    again = pickle.loads(pickle.dumps(adam))
    again._set_current_context(mx.cpu(5))  # never seen: it goes on from the common count
    again._update_count(7)
    assert again.num_update == 5


def test_update_inside_record_is_not_recorded() -> None:
    weight, updater = nd.ones((2,)), opt.get_updater(opt.SGD(learning_rate=1.0))
    weight.attach_grad()
    with mx.autograd.record():
        loss = (weight * 3).sum()
        updater(0, nd.ones((2,)), weight)
    loss.backward()
    assert weight.asnumpy().tolist() == [0, 0] and weight.grad.asnumpy().tolist() == [3, 3]


def test_lists_of_indices() -> None:
    updater, weights = opt.get_updater(opt.SGD(learning_rate=1.0)), [nd.ones((1,)), nd.zeros((1,))]
    updater([0, 1], [nd.ones((1,))] * 2, weights)
    assert [float(w.asscalar()) for w in weights] == [0, -1]


# -- states ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dump_optimizer", [False, True])
def test_states_go_on_after_saving(dump_optimizer: bool) -> None:
    def run(updater: opt.Updater, weight: Any, steps: int) -> Any:
        for _ in range(steps):
            updater(0, nd.ones((2,), ctx=weight.context), weight)
        return weight

    whole = run(opt.get_updater(opt.SGD(momentum=0.9, learning_rate=0.5)), nd.ones((2,)), 4)
    first = opt.get_updater(opt.SGD(momentum=0.9, learning_rate=0.5))
    half = run(first, nd.ones((2,)), 2)
    second = opt.get_updater(opt.SGD(momentum=0.9, learning_rate=0.5))
    second.set_states(first.get_states(dump_optimizer))
    assert (second.optimizer.num_update == 2) is dump_optimizer
    moved = run(second, half.copyto(mx.cpu(3)), 2)  # on another device than it was saved from
    assert moved.asnumpy().tolist() == whole.asnumpy().tolist()
    assert second.states[0].context == mx.cpu(3)


def test_states_of_each_context_are_kept_where_they_differ(tmp_path: Any) -> None:
    sgd, path = opt.SGD(momentum=0.9), str(tmp_path / "states")
    updaters = [opt.get_updater(sgd) for _ in range(2)]
    for i, updater in enumerate(updaters):
        for index in (0, 1):
            grad = nd.full((2,), 1.0 + i * index, ctx=mx.cpu(i))
            updater(index, grad, nd.zeros((2,), ctx=mx.cpu(i)))
    opt.save_states(path, updaters, dump_optimizer=True)
    loaded = [opt.get_updater(opt.SGD()) for _ in range(3)]
    opt.load_states(path, loaded)
    assert loaded[0].optimizer is loaded[2].optimizer
    assert loaded[1].states[1].asnumpy() == pytest.approx(np.full(2, -0.02))
    assert loaded[2].states[1].asnumpy() == pytest.approx(np.full(2, -0.01))  # beyond: the first's
    assert loaded[0].states[0] is not loaded[1].states[0]
    assert [entry.name for entry in tmp_path.iterdir()] == ["states"]


def test_bytes_that_are_no_states() -> None:
    with pytest.raises(ValueError, match="get_states"):
        opt.get_updater(opt.SGD()).set_states(pickle.dumps([1, 2]))


# -- travelling -----------------------------------------------------------------------------------


def test_an_optimizer_travels_as_json() -> None:
    class Parameter:
        lr_mult, wd_mult = 2.0, 0.0

    sgd = opt.SGD(learning_rate=0.5, momentum=np.float32(0.5), wd=0.25, clip_gradient=3,
                  rescale_grad=1 / 8, multi_precision=True, begin_num_update=3,
                  param_idx2name={0: "a_weight", 1: "b_bias"}, param_dict={5: Parameter()})
    sgd.set_lr_mult({"b_bias": 0.5})
    sgd._update_count([0, 5])
    name, settings = json.loads(json.dumps(sgd.wire()))
    sent = opt.from_wire(name, settings)
    assert type(sent) is opt.SGD
    for word in ("lr", "momentum", "wd", "clip_gradient", "rescale_grad", "multi_precision",
                 "num_update", "idx2name"):
        assert getattr(sent, word) == getattr(sgd, word)
    assert sent._get_lrs([0, 1, 5]) == sgd._get_lrs([0, 1, 5]) == [0.5, 0.25, 1.0]
    assert sent._get_wds([0, 1, 5]) == sgd._get_wds([0, 1, 5]) == [0.25, 0.0, 0.0]
    sent._update_count(0)
    assert sent.num_update == 5


def test_changes_travel_alone() -> None:
    sgd = opt.SGD(learning_rate=0.5, momentum=0.5)
    there = opt.from_wire(*sgd.wire())
    before = sgd.live_settings()
    sgd.set_learning_rate(0.25)
    sgd.set_lr_mult({3: 0.5})
    after = sgd.live_settings()
    changed = {name: value for name, value in after.items() if before[name] != value}
    assert sorted(changed) == ["lr", "lr_mult"]
    there.apply_settings(json.loads(json.dumps(changed)))
    assert there._get_lr(3) == 0.125 and there.momentum == 0.5


def test_what_cannot_travel_says_so() -> None:
    with pytest.raises(NotForThisError, match="optimizer _Own is defined in module"):
        _Own().wire()

    class Mine(FactorScheduler):
        pass

    with pytest.raises(NotForThisError, match="lr_scheduler Mine"):
        opt.SGD(lr_scheduler=Mine(3)).wire()
    sgd = opt.SGD()
    sgd.extra = nd.ones((1,))  # type: ignore[attr-defined]
    with pytest.raises(NotForThisError, match="setting 'extra': NDArray has no JSON form"):
        sgd.wire()
    assert "extra" not in sgd.live_settings()


@pytest.mark.parametrize("name", ["update", "__class__", "learning_rate"])
def test_settings_cannot_replace_methods(name: str) -> None:
    with pytest.raises(ValueError, match="is not a setting"):
        opt.SGD().apply_settings({name: 1})


def test_unknown_things_from_the_wire() -> None:
    with pytest.raises(ValueError, match="unknown optimizer"):
        opt.from_wire("os.system", {})
    with pytest.raises(ValueError, match="unknown learning rate scheduler"):
        opt.from_wire("sgd", {"lr_scheduler": ["Popen", {}]})
