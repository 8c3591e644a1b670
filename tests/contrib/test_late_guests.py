"""contrib.io, contrib.autograd, contrib.tensorboard, contrib.svrg_optimization.

Figures are those of MXNet 1.9.1 for the same calls.
"""
import numpy as np
import pytest

import minigluon as mx
from minigluon.contrib import autograd, io, tensorboard
from minigluon.contrib.svrg_optimization.svrg_module import SVRGModule


def test_a_loader_feeds_a_module():
    pairs = mx.gluon.data.ArrayDataset(np.arange(20.0).reshape(10, 2), np.arange(10))
    batches = io.DataLoaderIter(mx.gluon.data.DataLoader(pairs, 4), "x", "y")
    assert [(one.name, one.shape) for one in (*batches.provide_data, *batches.provide_label)] == [
        ("x", (4, 2)), ("y", (4,))]
    for _ in range(2):
        seen = list(batches)
        assert [batch.pad for batch in seen] == [0, 0, 2]
        assert seen[2].data[0].asnumpy().tolist() == [[16, 17], [18, 19], [0, 0], [0, 0]]
        assert seen[2].label[0].asnumpy().tolist() == [8, 9, 0, 0]
        assert seen[0].data[0].dtype == seen[0].label[0].dtype == np.float32
        batches.reset()
    with pytest.raises(ValueError, match="pairs"):
        io.DataLoaderIter(mx.gluon.data.DataLoader(mx.gluon.data.ArrayDataset(np.ones(3)), 2))


def test_the_first_autograd():
    x, grad = mx.nd.array([1, 2]), mx.nd.zeros((2,))
    autograd.mark_variables([x], [grad])
    with autograd.train_section():
        y = x * x
        with autograd.test_section():
            assert not mx.autograd.is_recording() and not mx.autograd.is_training()
        assert mx.autograd.is_recording() and mx.autograd.is_training()
    assert not mx.autograd.is_recording()
    autograd.compute_gradient([y])
    assert grad.asnumpy().tolist() == [2, 4]
    autograd.mark_variables([x], [grad], "add")
    with autograd.train_section():
        y = x * x * x
    autograd.backward([y], [mx.nd.array([2, 1])])
    assert grad.asnumpy().tolist() == [8, 16]
    other = mx.nd.array([3, 4])
    (first, second), value = autograd.grad_and_loss(lambda a, b: a * b)(x, other)
    assert (first.asnumpy().tolist(), second.asnumpy().tolist()) == ([3, 4], [1, 2])
    assert value.asnumpy().tolist() == [3, 8]
    [only] = autograd.grad(lambda a, b: a * b, argnum=1)(x, other)
    assert only.asnumpy().tolist() == [1, 2]
    with pytest.raises(TypeError, match="NDArray"):
        autograd.grad(lambda a: a)(3)


def test_metrics_are_written():
    written = []

    class Writer:
        def add_scalar(self, *row):
            written.append(row)

    callback = tensorboard.LogMetricsCallback("logs", prefix="train", writer=Writer())
    accuracy = mx.metric.Accuracy()
    accuracy.update(mx.nd.array([1, 0]), mx.nd.array([[0, 1], [0, 1]]))
    for number in range(2):
        callback(mx.model.BatchEndParam(0, number, accuracy, None))
    callback(mx.model.BatchEndParam(0, 2, None, None))
    assert written == [("train-accuracy", 0.5, 1), ("train-accuracy", 0.5, 2)]


def _net():
    layer = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1, name="fc")
    return mx.sym.LinearRegressionOutput(layer, mx.sym.Variable("label"), name="out")


def _data():
    x = np.sin(np.arange(120)).reshape(40, 3).astype("float32")
    y = (x @ np.array([1.0, -2, 3]) + 0.5).astype("float32")
    return mx.io.NDArrayIter({"data": x}, {"label": y}, batch_size=8)


def _module(update_freq, context=None):
    return SVRGModule(_net(), ["data"], ["label"], update_freq=update_freq, context=context)


@pytest.mark.parametrize("context", [None, [mx.cpu(0), mx.cpu(1)]], ids=["one", "two contexts"])
@pytest.mark.parametrize(("optimizer", "params", "bias", "weight"), [
    ("sgd", (("learning_rate", 0.1), ("momentum", 0.5), ("wd", 0.01)), 0.49732,
     [-0.84957, 0.07892, 1.02424]),
    ("adam", (("learning_rate", 0.05),), 0.60308, [-0.59002, -0.01575, 0.79936])])
def test_reduced_variance_fits_as_in_mxnet(optimizer, params, bias, weight, context):
    module = _module(9, context)
    module.fit(_data(), eval_metric="mse", optimizer=optimizer, optimizer_params=params,
               num_epoch=3, initializer=mx.init.Constant(0.1))
    args = module.get_params()[0]
    np.testing.assert_allclose(args["fc_bias"].asnumpy(), [bias], atol=2e-4)
    np.testing.assert_allclose(args["fc_weight"].asnumpy()[0], weight, atol=2e-4)


def test_each_period_starts_from_a_fresh_mean():
    """Where the weights kept are the weights, every batch's gradient is the mean over all."""
    module, data = _module(1), _data()
    module.bind(data.provide_data, data.provide_label)
    module.init_params(mx.init.Constant(0.1))
    module.init_optimizer(None, "sgd", (("learning_rate", 0.0),))
    plain = mx.mod.Module(_net(), ["data"], ["label"])
    plain.bind(data.provide_data, data.provide_label)
    plain.init_params(mx.init.Constant(0.1))
    total = 0
    for batch in data:
        plain.forward(batch, is_train=True)
        plain.backward()
        total = total + plain._group().grad_arrays[0][0].asnumpy()
    for _ in range(2):
        module.update_full_grads(data)
        batch = next(iter(data))
        module.forward(batch, is_train=True)
        module.backward()
        module.update()
        np.testing.assert_allclose(module._group().grad_arrays[0][0].asnumpy(), total / 5,
                                   rtol=1e-4, atol=1e-4)
        data.reset()


def test_bad_settings_of_svrg():
    with pytest.raises(TypeError, match="integer"):
        _module(None)
    with pytest.raises(ValueError, match="positive"):
        _module(0)
    module, data = _module(1), _data()
    module.bind(data.provide_data, data.provide_label)
    module.init_params()
    with pytest.raises(NotImplementedError, match="dist_sync"):
        module.init_optimizer("dist_sync")
