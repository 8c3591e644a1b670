"""Losses of gluon as the heads of symbols that a Module trains."""
from __future__ import annotations

import numpy as np
import pytest

import minigluon as mx
from minigluon import gluon, nd, sym

N = 20
FIT = {"optimizer": "adam", "optimizer_params": {"learning_rate": 0.01}, "num_epoch": 200}


def mlp(outputs, flatten=True):
    net = sym.Variable("data")
    for place, size in enumerate((128, 64)):
        net = sym.FullyConnected(net, num_hidden=size, name=f"fc{place + 1}", flatten=flatten)
        net = sym.Activation(net, act_type="relu", name=f"act{place + 1}")
    return sym.FullyConnected(net, num_hidden=outputs, name="fc3", flatten=flatten)


def trained(loss, data, labels, names=("label",), **settings):
    batches = mx.io.NDArrayIter(data, labels, batch_size=10, label_name="label",
                                **settings.pop("iterator", {}))
    module = mx.mod.Module(sym.make_loss(loss), data_names=("data",), label_names=names)
    module.fit(batches, eval_metric=mx.metric.Loss(), initializer=mx.init.Xavier(magnitude=2),
               **{**FIT, **settings})
    return module, module.score(batches, mx.metric.Loss())[0][1]


def draw(*shape, low=-1.0, high=1.0):
    return nd.random.uniform(low, high, shape=shape)


LABEL = sym.Variable("label")
CLASSES = np.random.RandomState(0).randint(0, 10, N)
BITS = CLASSES % 2

CASES = {
    "ce": (lambda: gluon.loss.SoftmaxCrossEntropyLoss()(mlp(10), LABEL),
           lambda: nd.array(CLASSES, dtype="int32"), 0.05),
    "bce": (lambda: gluon.loss.SigmoidBCELoss()(mlp(1), LABEL), lambda: nd.array(BITS), 0.01),
    "logistic": (lambda: gluon.loss.LogisticLoss(label_format="binary")(mlp(1), LABEL),
                 lambda: nd.array(BITS), 0.02),
    "kl": (lambda: gluon.loss.KLDivLoss()(sym.log_softmax(mlp(2)), LABEL),
           lambda: nd.softmax(draw(N, 2)), 0.05),
    "l2": (lambda: gluon.loss.L2Loss()(mlp(2), LABEL), lambda: draw(N, 2), 0.05),
    "l1": (lambda: gluon.loss.L1Loss()(mlp(2), LABEL), lambda: draw(N, 2), 0.1),
    "huber": (lambda: gluon.loss.HuberLoss()(mlp(2), LABEL), lambda: draw(N, 2), 0.05),
    "hinge": (lambda: gluon.loss.HingeLoss()(mlp(10), LABEL), lambda: nd.sign(draw(N, 10)), 0.06),
    "squared_hinge": (lambda: gluon.loss.SquaredHingeLoss()(mlp(10), LABEL),
                      lambda: nd.sign(draw(N, 10)), 0.05),
    "triplet": (lambda: gluon.loss.TripletLoss()(mlp(2), LABEL, LABEL * -1.0 + 0.5),
                lambda: draw(N, 2), 0.05),
    "cosine": (lambda: gluon.loss.CosineEmbeddingLoss()(
        mlp(2), LABEL, sym.ones_like(sym.slice_axis(LABEL, axis=1, begin=0, end=1))),
               lambda: draw(N, 2), 0.05),
}


@pytest.mark.parametrize("name", CASES)
def test_a_module_trains_it(name):
    mx.random.seed(1234)
    loss, labels, below = CASES[name]
    _, score = trained(loss(), draw(N, 10), labels())
    assert score < below


def test_positive_weights():
    mx.random.seed(1234)
    data = draw(N, 20)
    weight = sym.Variable("pos_w")
    loss = gluon.loss.SigmoidBCELoss()(mlp(10), LABEL, None, weight)
    labels = {"label": nd.array((np.random.RandomState(1).rand(N, 10) > 0.5).astype("float32")),
              "pos_w": nd.ones((N, 10)) * 1.2}
    _, score = trained(loss, data, labels, ("label", "pos_w"))
    assert score < 0.01


def test_ctc():
    mx.random.seed(1234)
    labels = nd.array(np.repeat(np.arange(4), N).reshape(N, 4))
    loss = gluon.loss.CTCLoss(layout="NTC", label_layout="NT")(mlp(5, flatten=False), LABEL)
    _, score = trained(loss, draw(N, 20, 10), labels, num_epoch=40, iterator={"shuffle": True})
    assert score < 10


def test_samples_of_weight_zero_are_not_learned():
    mx.random.seed(1234)
    data, labels = draw(N, 10), nd.array(CLASSES, dtype="int32")
    weights = nd.array([1] * 10 + [0] * 10)
    loss = gluon.loss.SoftmaxCrossEntropyLoss()(mlp(10), LABEL, sym.Variable("w"))
    module, _ = trained(loss, data, {"label": labels, "w": weights}, ("label", "w"))

    def score(part):
        given = {"label": labels[part], "w": nd.ones((N,))}  # more weights than samples
        batches = mx.io.NDArrayIter(data[part], given, batch_size=10)
        return module.score(batches, mx.metric.Loss())[0][1]

    assert score(slice(10, 20)) > 1
    assert score(slice(0, 10)) < 0.05


def test_saved_and_trained_on(tmp_path):
    mx.random.seed(1234)
    data, labels = draw(N, 10), nd.array(CLASSES, dtype="int32")
    loss = gluon.loss.SoftmaxCrossEntropyLoss()(mlp(10), LABEL)
    module, first = trained(loss, data, labels, num_epoch=5)
    prefix = str(tmp_path / "test")
    module.save_checkpoint(prefix, 5, save_optimizer_states=True)
    loaded = mx.mod.Module.load(prefix, 5, load_optimizer_states=True, data_names=("data",),
                                label_names=("label",))
    batches = mx.io.NDArrayIter(data, labels, batch_size=10, label_name="label")
    loaded.fit(batches, eval_metric=mx.metric.Loss(), **{**FIT, "num_epoch": 100})
    score = loaded.score(batches, mx.metric.Loss())[0][1]
    assert score < 0.05 < first
