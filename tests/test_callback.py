"""Callbacks: what they log, when; the whole epoch's metric beside the intervals'."""
from __future__ import annotations

import logging
import re

import numpy as np
import pytest

import minigluon as mx
from minigluon import nd, sym


def lines(caplog):
    return [re.sub(r"Speed: [\d.]+", "Speed: N", record.getMessage())
            for record in caplog.records]


def param(nbatch, metric=None, epoch=0):
    return mx.model.BatchEndParam(epoch, nbatch, metric, None)


def right(metric, count, of=10):
    metric.update([nd.zeros((of,))], [nd.array([[1, 0]] * count + [[0, 1]] * (of - count))])


def test_speedometer_speaks_of_intervals(caplog):
    metric, speed = mx.metric.Accuracy(), mx.callback.Speedometer(10, frequent=2)
    with caplog.at_level(logging.INFO):
        for number in range(5):
            right(metric, 2 * number)
            speed(param(number, metric))
        speed(param(0, None, epoch=1))
        speed(param(2, None, epoch=1))
    assert lines(caplog) == [
        "Epoch[0] Batch [0-2]\tSpeed: N samples/sec\taccuracy=0.200000",
        "Epoch[0] Batch [2-4]\tSpeed: N samples/sec\taccuracy=0.700000",
        "Iter[1] Batch [2]\tSpeed: N samples/sec",
    ]
    assert metric.get_global() == ("accuracy", 0.4)


def test_speedometer_without_reset(caplog):
    metric, speed = mx.metric.Accuracy(), mx.callback.Speedometer(10, 2, auto_reset=False)
    with caplog.at_level(logging.INFO):
        for number in range(5):
            right(metric, 2 * number)
            speed(param(number, metric))
    assert lines(caplog) == [
        "Epoch[0] Batch [0-2]\tSpeed: N samples/sec\taccuracy=0.200000",
        "Epoch[0] Batch [0-4]\tSpeed: N samples/sec\taccuracy=0.400000",
    ]


def test_the_line_of_an_epoch_is_about_the_whole_epoch(caplog):
    """10 batches, an interval of 5: nothing is left over for the end of the epoch."""
    data = np.random.RandomState(0).rand(100, 3)
    batches = mx.io.NDArrayIter(data, np.arange(100) % 3, 10)
    net = sym.SoftmaxOutput(sym.FullyConnected(sym.var("data"), num_hidden=3, name="fc"),
                            name="softmax")
    module = mx.mod.Module(net)
    values = []

    def watch(param):
        own = mx.metric.Accuracy()
        own.update(param.locals["data_batch"].label, module.get_outputs())
        values.append(own.get()[1])

    with caplog.at_level(logging.INFO):
        module.fit(batches, num_epoch=1, batch_end_callback=[
            watch, mx.callback.Speedometer(10, frequent=3, auto_reset=True)])
    [line] = [line for line in lines(caplog) if "Train-accuracy" in line]
    assert float(line.split("=")[1]) == pytest.approx(np.mean(values), abs=1e-6)
    assert len(values) == 10 and sum("Batch [" in line for line in lines(caplog)) == 3


def test_log_train_metric(caplog):
    metric = mx.metric.create(["acc", "mse"])
    with caplog.at_level(logging.INFO):
        for number, call in enumerate([mx.callback.log_train_metric(2),
                                       mx.callback.log_train_metric(2, auto_reset=True)]):
            right(metric.metrics[0], 5)
            for nbatch in (1, 2):
                call(param(nbatch, metric, number))
    assert lines(caplog) == [
        "Iter[0] Batch[2] Train-accuracy=0.500000", "Iter[0] Batch[2] Train-mse=nan",
        "Iter[1] Batch[2] Train-accuracy=0.500000", "Iter[1] Batch[2] Train-mse=nan",
    ]
    assert np.isnan(metric.metrics[0].get()[1])


def test_progress_bar_and_validation(caplog):
    metric = mx.metric.Accuracy()
    right(metric, 3)
    with caplog.at_level(logging.INFO):
        bar = mx.callback.ProgressBar(10, length=20)
        bar(param(3))
        bar(param(12))
        mx.callback.LogValidationMetricsCallback()(param(0, metric, 7))
        mx.callback.LogValidationMetricsCallback()(param(0, None))
    assert lines(caplog) == [f"[{'=' * 6}{'-' * 14}] 30%", f"[{'=' * 20}] 100%",
                             "Epoch[7] Validation-accuracy=0.300000"]


def test_checkpoints_come_by_period(tmp_path):
    net = sym.FullyConnected(sym.var("data"), num_hidden=2, name="fc")
    module = mx.mod.Module(net, label_names=None)
    module.bind([("data", (1, 3))])
    module.init_params()
    module.init_optimizer()
    every = mx.callback.module_checkpoint(module, str(tmp_path / "m"), 2, True)
    plain = mx.callback.do_checkpoint(str(tmp_path / "p"), 3)
    for epoch in range(4):
        every(epoch)
        plain(epoch, net, *module.get_params())
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "m-0002.params", "m-0002.states", "m-0004.params", "m-0004.states", "m-symbol.json",
        "p-0003.params", "p-symbol.json"]
    found, args, aux = mx.model.load_checkpoint(str(tmp_path / "p"), 3)
    assert found.tojson() == net.tojson() and set(args) == {"fc_weight", "fc_bias"} and aux == {}
    mx.model.save_checkpoint(str(tmp_path / "q"), 1, None, args, aux)
    assert not (tmp_path / "q-symbol.json").exists()
    assert mx.model.load_params(str(tmp_path / "q"), 1)[0].keys() == args.keys()
    nd.save(str(tmp_path / "q-0002.params"), [nd.ones((1,))])
    with pytest.raises(ValueError, match="got a list of arrays"):
        mx.model.load_params(str(tmp_path / "q"), 2)
