"""Metrics against NumPy and the figures of MXNet 1.9.1; local and global sums; configs."""
from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from minigluon import metric, nd

RNG = np.random.default_rng(5)


def _probabilities(*shape: int) -> Any:
    values = np.exp(RNG.normal(size=shape))
    return values / values.sum(-1, keepdims=True)


def test_accuracy_over_batches_of_ndarrays_and_numpy() -> None:
    accuracy = metric.Accuracy()
    pred = np.array([[0.3, 0.7], [0.6, 0.4], [0.2, 0.8]])
    accuracy.update([nd.array([1, 1, 1])], [nd.array(pred)])
    assert accuracy.get() == ("accuracy", pytest.approx(2 / 3))
    accuracy.update(np.array([0]), np.array([0]))  # classes instead of scores
    assert accuracy.get() == ("accuracy", 3 / 4)
    with pytest.raises(ValueError, match="length"):
        accuracy.update([nd.array([1, 0])], [nd.array(pred)])


def test_accuracy_of_2d_labels_uses_axis() -> None:
    label, pred = RNG.integers(0, 5, (2, 4)), _probabilities(2, 4, 5)
    accuracy = metric.create("acc", axis=2)
    accuracy.update([nd.array(label)], [nd.array(pred)])
    assert accuracy.get()[1] == (pred.argmax(2) == label).mean()


def test_whole_epoch_and_interval_are_two_values() -> None:
    """A display that resets the local value must not spoil the epoch's."""
    accuracy = metric.Accuracy()
    hits = [1, 0, 1, 1, 0, 1, 1, 1, 0, 1]
    for i, hit in enumerate(hits):
        accuracy.update([nd.array([1])], [nd.array([[1 - hit, hit]])])
        if i % 5 == 4:
            assert accuracy.get()[1] == np.mean(hits[i - 4 : i + 1])
            accuracy.reset_local()
    assert math.isnan(accuracy.get()[1])
    assert accuracy.get_global() == ("accuracy", np.mean(hits))
    accuracy.reset()
    assert math.isnan(accuracy.get_global()[1])


def test_top_k() -> None:
    label, pred = RNG.integers(0, 6, 40), _probabilities(40, 6)
    top = metric.create("top_k_acc", top_k=3)
    top.update([nd.array(label)], [nd.array(pred)])
    best = np.argsort(pred, axis=1)[:, -3:]
    assert top.get() == ("top_k_accuracy_3", (best == label[:, None]).any(1).mean())
    with pytest.raises(AssertionError, match="more than 1"):
        metric.TopKAccuracy()


def test_likelihoods() -> None:
    label, pred = RNG.integers(0, 4, 12), _probabilities(12, 4)
    nll = -np.log(pred[np.arange(12), label]).mean()
    for name in ("ce", "nll_loss"):
        found = metric.create(name)
        found.update([nd.array(label)], [nd.array(pred)])
        assert found.get()[1] == pytest.approx(nll, rel=1e-5)
    perplexity = metric.create("perplexity", ignore_label=0)
    perplexity.update([nd.array(label)], [nd.array(pred)])
    kept = label != 0
    expected = np.exp(-np.log(pred[np.arange(12), label][kept]).mean())
    assert perplexity.get()[1] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mae", lambda d: np.abs(d).mean()),
        ("mse", lambda d: (d**2).mean()),
        ("rmse", lambda d: np.sqrt((d**2).mean())),
    ],
)
def test_regression_is_the_mean_over_batches(name: str, value: Any) -> None:
    found, expected = metric.create(name), []
    for size in (3, 5):
        label, pred = RNG.normal(size=size), RNG.normal(size=(size, 1))
        found.update(nd.array(label), nd.array(pred))
        expected.append(value(label[:, None] - pred))
    assert found.get() == (name, pytest.approx(np.mean(expected), rel=1e-5))


def test_pearson_macro_and_micro() -> None:
    macro, micro = metric.create("pearsonr"), metric.create("pearsonr", average="micro")
    x, y = RNG.normal(size=(4, 6)), RNG.normal(size=(4, 6))
    for a, b in zip(x, y, strict=True):
        macro.update([nd.array(a)], [nd.array(b)])
        micro.update([nd.array(a)], [nd.array(b)])
    each = np.mean([np.corrcoef(a, b)[0, 1] for a, b in zip(x, y, strict=True)])
    assert macro.get()[1] == pytest.approx(each, rel=1e-5)
    assert micro.get()[1] == pytest.approx(np.corrcoef(x.ravel(), y.ravel())[0, 1], rel=1e-5)


def test_f1_and_mcc() -> None:
    label = np.array([1, 1, 1, 0, 0, 0, 0, 1])
    guess = np.array([1, 1, 0, 0, 1, 0, 0, 1])
    pred = np.eye(2)[guess]
    tp, fp, fn, tn = 3, 1, 1, 3
    for average in ("macro", "micro"):
        f1, mcc = metric.create("f1", average=average), metric.create("mcc", average=average)
        for found in (f1, mcc):
            found.update([nd.array(label)], [nd.array(pred)])
        assert f1.get()[1] == pytest.approx(2 * tp / (2 * tp + fp + fn))
        assert mcc.get()[1] == pytest.approx((tp * tn - fp * fn) / 16)
        assert f1.num_inst == (1 if average == "macro" else 8)
    with pytest.raises(ValueError, match="two classes"):
        metric.F1().update([nd.array([0, 1, 2])], [nd.array(np.eye(2)[[0, 1, 1]])])


def test_macro_and_micro_differ_over_uneven_batches() -> None:
    macro, micro = metric.F1(average="macro"), metric.F1(average="micro")
    batches = [([1, 1], [1, 1]), ([1, 0, 0, 1], [0, 1, 1, 1])]
    for label, guess in batches:
        macro.update([nd.array(label)], [nd.array(np.eye(2)[guess])])
        micro.update([nd.array(label)], [nd.array(np.eye(2)[guess])])
    assert macro.get()[1] == pytest.approx((1 + 0.4) / 2)
    assert micro.get()[1] == pytest.approx(6 / 9)


def test_pcc_equals_mcc_for_two_classes_and_ignores_batch_borders() -> None:
    label, pred = RNG.integers(0, 2, 12), _probabilities(12, 2)
    pcc, mcc = metric.create("pcc"), metric.create("mcc", average="micro")
    for part in (slice(0, 5), slice(5, 12)):
        pcc.update([nd.array(label[part])], [nd.array(pred[part])])
        mcc.update([nd.array(label[part])], [nd.array(pred[part])])
    assert pcc.get()[1] == pytest.approx(mcc.get()[1])


def test_loss_takes_a_list_or_one_array() -> None:
    loss = metric.Loss()
    loss.update(None, nd.array([1, 3]))
    loss.update(None, [nd.array([[5, 7]])])
    assert loss.get() == ("loss", 4)


def test_custom_metrics() -> None:
    def count(label: Any, pred: Any) -> tuple[float, int]:
        return float((label == pred).sum()), len(label)

    found = metric.np(count)
    found.update([nd.array([1, 2, 3])], [nd.array([1, 0, 3])])
    assert found.get() == ("count", pytest.approx(2 / 3))
    lenient = metric.CustomMetric(lambda a, b: 1.0, allow_extra_outputs=True)
    lenient.update([nd.ones((1,))], [nd.ones((1,)), nd.ones((1,))])
    assert lenient.get() == ("custom(<lambda>)", 1.0)
    with pytest.raises(NotImplementedError):
        found.get_config()


def test_composite() -> None:
    both = metric.create(["acc", metric.MSE(name="m")])
    assert isinstance(both, metric.CompositeEvalMetric)
    both.add(lambda label, pred: 2.0)
    both.update([nd.array([1, 0])], [nd.array([1, 1])])
    names, values = both.get()
    assert names == ["accuracy", "m", "custom(<lambda>)"] and values == [0.5, 0.5, 2.0]
    both.reset_local()
    assert both.get_global()[1] == [0.5, 0.5, 2.0] and math.isnan(both.get()[1][0])
    with pytest.raises(ValueError, match="out of range"):
        both.get_metric(3)


def test_update_dict_takes_the_named_entries() -> None:
    loss = metric.Loss(output_names=["b"])
    loss.update_dict({}, {"a": nd.array([1]), "b": nd.array([5])})
    assert loss.get_name_value() == [("loss", 5)]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("acc", {"axis": 2}), ("top_k_accuracy", {"top_k": 4}), ("f1", {"average": "micro"}),
        ("perplexity", {"ignore_label": -1}), ("ce", {"eps": 1e-6}), ("mse", {"name": "mine"}),
        ("loss", {"output_names": ["o"]}), ("composite", {"metrics": ["acc", "mae"]}),
        ("pcc", {}), ("mcc", {}), ("pearsonr", {"average": "micro"}), ("torch", {}), ("caffe", {}),
    ],
)
def test_configs_survive_json(name: str, settings: dict[str, Any]) -> None:
    made = metric.create(name, **settings)
    again = metric.create(json.dumps(made.get_config()))
    assert type(again) is type(made) and again.get_config() == made.get_config()


def test_unknown_names_and_own_classes() -> None:
    with pytest.raises(ValueError, match="did you mean 'accuracy'"):
        metric.create("acuracy")

    @metric.alias("mine-too")
    class Mine(metric.EvalMetric):
        def __init__(self) -> None:
            super().__init__("mine")

    assert type(metric.create("mine-too")) is Mine
    with pytest.raises(NotImplementedError, match="Mine must implement update"):
        Mine().update([], [])


class Halves(metric.EvalMetric):
    """A user's metric: keeps its own sums, says nothing of global ones."""

    def __init__(self):
        super().__init__("halves")

    def reset(self):
        self.sums = [0.0, 0.0]

    def update(self, labels, preds):
        self.sums[0] += float(preds[0][0].asscalar())
        self.sums[1] += float(preds[0][1].asscalar())

    def get(self):
        return ["first", "second"], self.sums


def test_a_metric_without_global_figures_shows_its_own():
    plain = metric.EvalMetric("plain")
    plain.sum_metric, plain.num_inst = 3.0, 2
    assert plain.get_global() == ("plain", 1.5) == plain.get()
    own = Halves()
    own.update(None, [nd.array([1, 2])])
    assert own.get_global_name_value() == [("first", 1.0), ("second", 2.0)]
    both = metric.CompositeEvalMetric([own, metric.Loss()])
    both.update(None, [nd.array([1, 2])])
    assert both.get_global_name_value() == [("first", 1.0), ("second", 2.0), ("loss", 1.5)]
    counting = metric.EvalMetric("counting", has_global_stats=True)
    counting.global_sum_metric, counting.global_num_inst = 4.0, 1
    assert counting.get_global()[1] == 4.0
