"""gluon.contrib.estimator: fit, evaluate, and every handler; figures are MXNet 1.9.1's."""
import re

import numpy as np
import pytest

import minigluon as mx
from minigluon import gluon, metric, nd
from minigluon.gluon import nn
from minigluon.gluon.contrib import estimator as est
from minigluon.gluon.data import ArrayDataset, DataLoader


def network(**kwargs):
    net = nn.HybridSequential(**kwargs)
    with net.name_scope():
        net.add(nn.Dense(4, activation="relu"))
    return net


def loader(size=32, batch_size=8):
    random = np.random.RandomState(1)
    return DataLoader(ArrayDataset(nd.array(random.uniform(size=(size, 3))),
                                   nd.array(random.randint(0, 4, size))), batch_size=batch_size)


def make(net=None, **settings):
    if net is None:
        net = network()
        net.initialize()
    settings = {"loss": gluon.loss.SoftmaxCrossEntropyLoss(),
                "trainer": gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01}),
                **settings}
    return est.Estimator(net, **settings)


def kinds(handlers):
    return [type(handler).__name__.removesuffix("Handler") for handler in handlers]


# -- what an Estimator is made of ---------------------------------------------------------------


def test_default_metrics():
    estimator = make()
    assert [m.name for m in estimator.train_metrics] == [
        "training accuracy", "training softmaxcrossentropyloss"]
    assert [m.name for m in estimator.val_metrics] == [
        "validation accuracy", "validation softmaxcrossentropyloss"]
    assert [m.name for m in make(loss=gluon.loss.L2Loss()).train_metrics] == ["training l2loss"]


def test_given_metrics():
    estimator = make(train_metrics=[metric.Accuracy(), metric.TopKAccuracy(2)])
    assert [m.name for m in estimator.train_metrics] == ["training accuracy",
                                                         "training top_k_accuracy_2"]
    assert [m.name for m in make(train_metrics=metric.RMSE()).val_metrics] == ["validation rmse"]
    given = make(train_metrics=metric.RMSE(), val_metrics=metric.MAE())
    assert [m.name for m in given.val_metrics] == ["validation mae"]


@pytest.mark.parametrize(("settings", "words"), [
    ({"loss": "mse"}, "loss must be a Loss"),
    ({"val_loss": "mse"}, "loss must be a Loss"),
    ({"train_metrics": "acc"}, "metrics must be a Metric"),
    ({"trainer": "sgd"}, "Trainer must be a Gluon Trainer"),
    ({"context": "cpu"}, "context must be a Context"),
    ({"context": [mx.cpu(), "cpu"]}, "context must be a Context"),
    ({"batch_processor": 1}, "must contain fit_batch"),
])
def test_wrong_arguments(settings, words):
    with pytest.raises(ValueError, match=words):
        make(**settings)


def test_gpus_that_are_not_there():
    with pytest.raises(AssertionError, match=r"gpu\(97\) is not available"):
        make(context=[mx.gpu(97), mx.gpu(98)])


def test_trainer_and_initializer():
    net = network()
    with pytest.warns(UserWarning, match="No trainer specified"):
        estimator = est.Estimator(net, gluon.loss.L2Loss(), initializer=mx.init.One())
    assert estimator.trainer.learning_rate == 0.001 and estimator.context == [mx.cpu()]
    assert net(nd.ones((1, 3))).asnumpy().tolist() == [[3.0] * 4]
    with pytest.warns(UserWarning, match="Network already fully initialized"):
        make(net, initializer=mx.init.One())


# -- fit and evaluate ---------------------------------------------------------------------------


def test_training_learns():
    random = np.random.RandomState(0)
    x = random.normal(size=(64, 3)).astype("float32")
    data = DataLoader(ArrayDataset(nd.array(x), nd.array(x.argmax(1))), batch_size=16)
    net = nn.Dense(3)
    net.initialize()
    estimator = make(net, trainer=gluon.Trainer(net.collect_params(), "adam",
                                                {"learning_rate": 0.1}))
    estimator.logger.setLevel("ERROR")
    estimator.fit(data, data, epochs=15)
    assert estimator.train_metrics[0].get()[1] > 0.9
    assert estimator.val_metrics[0].get()[1] > 0.9
    estimator.evaluate(data)
    predicted = net(nd.array(x)).asnumpy().argmax(1)
    assert estimator.val_metrics[0].get()[1] == np.mean(predicted == x.argmax(1))


def test_what_fit_refuses():
    estimator = make()
    for data in ([1], mx.io.NDArrayIter(nd.ones((3, 2)))):
        for call in (lambda d=data: estimator.fit(d, epochs=1),
                     lambda d=data: estimator.fit(loader(), d, epochs=1),
                     lambda d=data: estimator.evaluate(d)):
            with pytest.raises(ValueError, match="only support input as Gluon DataLoader"):
                call()
    for limits in ({}, {"epochs": 1, "batches": 1}):
        with pytest.raises(ValueError, match="exactly one type of iteration"):
            estimator.fit(loader(), **limits)
    with pytest.raises(ValueError, match="no batches"):
        estimator.fit(DataLoader(ArrayDataset(nd.ones((3, 3)), nd.ones((3,))), batch_size=8,
                                 last_batch="discard"), epochs=1)
    with pytest.raises(ValueError, match="must be an EventHandler"):
        estimator.fit(loader(), epochs=1, event_handlers=[1])


def test_several_contexts_do_what_one_does():
    weights = []
    for contexts in ([mx.cpu(0)], [mx.cpu(0), mx.cpu(1)]):
        net = network()
        net.initialize(mx.init.One(), ctx=contexts)
        estimator = make(net, context=contexts)
        estimator.fit(loader(30), loader(30), epochs=2)
        weights.append(net[0].weight.data(contexts[0]).asnumpy())
        weights.append(estimator.val_metrics[1].get()[1])
    np.testing.assert_allclose(weights[2], weights[0], rtol=1e-5)
    assert weights[3] == pytest.approx(weights[1], rel=1e-5)


def test_batch_axis():
    class Sideways(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.layer = nn.Dense(4)

        def hybrid_forward(self, F, x):
            return self.layer(F.transpose(x))

    net = Sideways()
    net.initialize()
    data = DataLoader(ArrayDataset(nd.ones((16, 3)), nd.ones((16,))), batch_size=8,
                      batchify_fn=lambda rows: (nd.stack(*[x for x, _ in rows], axis=1),
                                                nd.array([float(y) for _, y in rows])))
    estimator = make(net)
    handler = est.LoggingHandler(1, estimator.train_metrics)
    estimator.fit(data, epochs=1, batch_axis=1, event_handlers=handler)
    assert handler.processed_samples == 16


def test_another_network_to_validate_with():
    net = network(prefix="a_")
    net.initialize()
    make(net, val_net=network(prefix="b_", params=net.collect_params())).fit(
        loader(), loader(), epochs=1)
    with pytest.raises(RuntimeError, match="has not been initialized"):
        make(net, val_net=network()).fit(loader(), loader(), epochs=1)


def test_own_batch_processor():
    class Doubled(est.BatchProcessor):
        def fit_batch(self, estimator, train_batch, batch_axis=0):
            self.parts = super().fit_batch(estimator, train_batch, batch_axis)
            return self.parts

    processor = Doubled()
    make(batch_processor=processor).fit(loader(), batches=1)
    assert [len(part) for part in processor.parts] == [1] * 4
    assert processor.parts[2][0].shape == (8, 4)


# -- handlers -----------------------------------------------------------------------------------


def test_order_of_default_handlers():
    estimator = make()
    assert kinds(estimator._prepare_default_handlers(loader(), [])) == [
        "GradientUpdate", "Metric", "Validation", "Stopping", "Logging"]
    early = est.EarlyStoppingHandler(estimator.train_metrics[0], mode="max")
    handlers = estimator._prepare_default_handlers(None, early)
    assert kinds(handlers) == ["GradientUpdate", "Metric", "EarlyStopping", "Stopping", "Logging"]
    assert [kinds(group) for group in estimator._categorize_handlers(handlers)] == [
        ["EarlyStopping", "Stopping", "Logging"], ["Metric", "Logging"], ["Logging"],
        ["GradientUpdate", "Metric", "Stopping", "Logging"],
        ["EarlyStopping", "Stopping", "Logging"], ["EarlyStopping", "Logging"]]


@pytest.mark.parametrize("kind", [est.LoggingHandler, est.MetricHandler])
def test_a_foreign_metric_among_default_handlers(kind):
    estimator = make()
    with pytest.raises(ValueError, match="outside of the known training and validation metrics"):
        estimator.fit(loader(), epochs=1, event_handlers=[kind(metrics=[metric.RMSE()])])
    known = kind(metrics=estimator.train_metrics)
    estimator.fit(loader(), epochs=1, event_handlers=[known])


class Stop(est.TrainBegin, est.BatchBegin, est.BatchEnd, est.EpochEnd):
    def __init__(self, batches=None, epochs=None):
        self.batches, self.epochs = batches, epochs

    def train_begin(self, estimator, *args, **kwargs):
        self.num_batch = self.num_epoch = 0
        self.stop_training = False

    def batch_begin(self, estimator, *args, **kwargs):
        assert kwargs["batch"][0].shape == (8, 3)

    def batch_end(self, estimator, *args, **kwargs):
        assert sorted(kwargs) == ["batch", "label", "loss", "pred"]
        self.num_batch += 1
        self.stop_training = self.stop_training or self.num_batch == self.batches
        return self.stop_training

    def epoch_end(self, estimator, *args, **kwargs):
        self.num_epoch += 1
        self.stop_training = self.stop_training or self.num_epoch == self.epochs
        return self.stop_training


@pytest.mark.parametrize(("limits", "expected"), [((3, None), (3, 1)), ((None, 5), (20, 5))])
def test_own_handler_stops(limits, expected):
    handler = Stop(*limits)
    make().fit(loader(), epochs=10, event_handlers=[handler])
    assert (handler.num_batch, handler.num_epoch) == expected


def test_number_of_batches():
    handler = Stop()
    make().fit(loader(), batches=6, event_handlers=handler)
    assert (handler.num_batch, handler.num_epoch) == (6, 2)


def test_validation_by_batches():
    calls = []
    handler = est.ValidationHandler(loader(), lambda **kwargs: calls.append(kwargs),
                                    epoch_period=None, batch_period=3)
    make().fit(loader(), epochs=2, event_handlers=handler)
    assert len(calls) == 2
    assert sorted(calls[0]) == ["batch_axis", "event_handlers", "val_data"]


@pytest.mark.parametrize("interval", [1, 3, "epoch"])
def test_log(interval, capsys):
    estimator = make()
    handler = est.LoggingHandler(interval, estimator.train_metrics)
    estimator.fit(loader(), epochs=2, event_handlers=handler)
    text = re.sub(r"\d+\.\d+", "#", capsys.readouterr().out)
    shown = "training accuracy: #, training softmaxcrossentropyloss: #"
    lines = ["Training begin: using optimizer SGD with current learning rate # ",
             "Train for 2 epochs."]
    for epoch in range(2):
        lines.append(f"[Epoch {epoch}] Begin, current learning rate: #")
        for batch in range(0, 4, interval) if interval != "epoch" else ():
            samples = 32 * epoch + 8 * batch + 8
            lines.append(f"[Epoch {epoch}][Batch {batch}][Samples {samples}] time/interval: #s "
                         f"{shown}")
        lines.append(f"[Epoch {epoch}] Finished in #s, {shown}")
    lines.append(f"Train finished using total 0s with 2 epochs. {shown}")
    assert text.splitlines() == lines
    assert (handler.batch_index, handler.current_epoch) == (0, 2)
    with pytest.raises(ValueError, match="either an integer or string 'epoch'"):
        est.LoggingHandler("batch")


def test_log_of_validation(capsys):
    make().evaluate(loader())
    text = re.sub(r"\d+\.\d+", "#", capsys.readouterr().out).splitlines()
    assert text == ["Validation Begin", "[Epoch 0] Finished in #s, validation accuracy: #, "
                                        "validation softmaxcrossentropyloss: #"]


def checkpoints(folder, epochs=3, hybridize=True, monitored=None, **settings):
    estimator = make()
    estimator.net.hybridize(hybridize)
    if monitored is not None:
        settings["monitor"] = estimator.train_metrics[monitored]
    handler = est.CheckpointHandler(str(folder), **settings)
    estimator.fit(loader(), epochs=epochs, event_handlers=handler)
    return handler, estimator, sorted(path.name for path in folder.iterdir())


def pairs(*stems):
    return sorted(stem + ending for stem in stems for ending in (".params", ".states"))


def test_checkpoints_each_epoch(tmp_path):
    handler, estimator, files = checkpoints(tmp_path)
    assert files == [*pairs("model-epoch0batch4", "model-epoch1batch8", "model-epoch2batch12"),
                     "model-symbol.json"]
    assert (handler.current_batch, handler.current_epoch) == (12, 3)
    graph = mx.sym.load(str(tmp_path / "model-symbol.json"))
    assert graph.list_arguments()[0] == "data" and len(graph.list_arguments()) == 3
    fresh = network()
    fresh.load_parameters(str(tmp_path / "model-epoch2batch12.params"))
    np.testing.assert_array_equal(fresh[0].weight.data().asnumpy(),
                                  estimator.net[0].weight.data().asnumpy())


def test_checkpoints_each_second_batch_the_last_two_are_kept(tmp_path):
    _, _, files = checkpoints(tmp_path, epoch_period=None, batch_period=2, max_checkpoints=2)
    assert files == [*pairs("model-epoch2batch11", "model-epoch2batch9"), "model-symbol.json"]


def test_the_best_checkpoint(tmp_path, capsys):
    handler, estimator, files = checkpoints(tmp_path, hybridize=False, monitored=1, mode="min",
                                            save_best=True, model_prefix="m", verbose=1)
    assert files == pairs("m-best", "m-epoch0batch4", "m-epoch1batch8", "m-epoch2batch12")
    assert handler.best == pytest.approx(estimator.train_metrics[1].get()[1])
    text = capsys.readouterr().out
    assert "Model architecture(symbol file) is not saved" in text
    assert "improved from inf to" in text and "saved m-epoch1batch8" in text
    for monitor in (None, "acc"):
        with pytest.raises(ValueError, match="please provide one of the metric objects"):
            est.CheckpointHandler(str(tmp_path), save_best=True, monitor=monitor)


def test_going_on_from_a_checkpoint(tmp_path, capsys):
    checkpoints(tmp_path, epochs=2)
    handler, estimator, files = checkpoints(tmp_path, epochs=5, resume_from_checkpoint=True)
    assert "resumed from epoch 1 batch 8, continue to train for 3 epochs" in capsys.readouterr().out
    assert "model-epoch4batch20.params" in files
    assert (handler.current_epoch, estimator.max_epoch) == (3, 3)
    with pytest.raises(ValueError, match="maximum number of epoch 5 reached"):
        checkpoints(tmp_path, epochs=5, resume_from_checkpoint=True)
    _, _, files = checkpoints(tmp_path / "other", epochs=1, resume_from_checkpoint=True)
    assert "model-epoch0batch4.params" in files


def test_resumed_training_goes_on_as_if_it_had_not_stopped(tmp_path):
    def run(folder, epochs, resume=False):
        net = network()
        net.initialize(mx.init.One())
        estimator = make(net, trainer=gluon.Trainer(
            net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9}))
        estimator.fit(loader(), epochs=epochs, event_handlers=est.CheckpointHandler(
            str(folder), resume_from_checkpoint=resume))
        return net[0].weight.data().asnumpy()

    run(tmp_path / "a", 2)
    np.testing.assert_allclose(run(tmp_path / "a", 4, resume=True), run(tmp_path / "b", 4),
                               rtol=1e-6)


class Constant(metric.EvalMetric):
    def update(self, labels, preds):
        """Nothing to do."""

    def get(self):
        return "constant", 1.0


@pytest.mark.parametrize(("settings", "expected"), [
    ({"mode": "min"}, (2, 1)), ({"mode": "max", "patience": 2}, (3, 2)),
    ({"mode": "min", "baseline": 2.0}, (2, 1)), ({"mode": "max", "baseline": 2.0}, (1, 0)),
    ({"mode": "min", "min_delta": 0.5, "patience": 3}, (4, 3))])
def test_early_stopping(settings, expected, capsys):
    estimator = make()
    handler = est.EarlyStoppingHandler(Constant("c"), **settings)
    estimator.fit(loader(), epochs=5, event_handlers=handler)
    assert (handler.current_epoch, handler.stopped_epoch) == expected
    assert "early stopping due to constant not improving" in capsys.readouterr().out


def test_which_values_are_better():
    with pytest.warns(UserWarning, match="`greater` operator"):
        assert est.EarlyStoppingHandler(metric.Accuracy()).monitor_op(2, 1)
    with pytest.warns(UserWarning, match="`less` operator"):
        assert est.EarlyStoppingHandler(metric.MAE()).monitor_op(1, 2)
    with (pytest.warns(RuntimeWarning, match="mode sideways is unknown"),
          pytest.warns(UserWarning, match="`less` operator")):
        est.EarlyStoppingHandler(metric.MAE(), mode="sideways")


# -- as MXNet, in small things --------------------------------------------------------------------


def test_a_composite_metric_is_its_parts_and_no_epochs_is_an_error():
    both = metric.CompositeEvalMetric([metric.Accuracy(), metric.CompositeEvalMetric(
        [metric.TopKAccuracy(2)])])
    estimator = make(train_metrics=both)
    assert [type(m) for m in estimator.train_metrics] == [metric.Accuracy, metric.TopKAccuracy]
    for settings in ({"epochs": 0}, {"batches": 0}, {"epochs": 0, "batches": 0}):
        with pytest.raises(ValueError, match="one and only one of"):
            estimator.fit(loader(), **settings)
    with pytest.raises(ValueError, match="context must be a Context"):
        make(context=3)


def test_evaluate_begins_with_fresh_metrics_even_of_handlers_that_do_not():
    estimator = make(train_metrics=metric.Accuracy())

    class Adding(est.MetricHandler):
        def epoch_begin(self, estimator, *args, **kwargs):
            pass

    for _ in range(2):
        estimator.evaluate(loader(), event_handlers=Adding(estimator.val_metrics))
    assert estimator.val_metrics[0].num_inst == 32


def test_logging_with_metrics_of_both_kinds_tells_of_training():
    estimator = make(train_metrics=metric.Accuracy())
    told = []
    estimator.logger.info = told.append
    handler = est.LoggingHandler(metrics=estimator.train_metrics + estimator.val_metrics)
    estimator.fit(loader(), epochs=1, event_handlers=handler)
    assert [line.split(":")[0] for line in told] == [
        "Training begin", "Train for 1 epochs.", "[Epoch 0] Begin, current learning rate",
        told[3].split(":")[0], told[4].split(":")[0]]
    assert told[3].startswith("[Epoch 0] Finished in ") and "validation accuracy: nan" in told[3]
