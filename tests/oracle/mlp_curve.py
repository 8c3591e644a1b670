"""Train one MLP for 100 steps and print its loss at each step as JSON.

    python tests/oracle/mlp_curve.py minigluon sgd float32
    python tests/oracle/mlp_curve.py mxnet adam float64     (in an environment with MXNet 1.9.1)

The same program for both, only the import differs: initial parameters and batches come from a
NumPy generator, so the curves can be compared. `mlp_curve.json` holds MXNet 1.9.1's figures.
"""
import gzip
import importlib
import json
import os
import sys

import numpy as np

DIGITS = os.path.join(os.path.dirname(__file__), "..", "..", "minigluon", "gluon", "data",
                      "vision", "mnist-10k")
OPTIMIZERS = {
    "sgd": {"learning_rate": 0.1, "momentum": 0.9, "wd": 1e-4},
    "adam": {"learning_rate": 0.001},
}
SIZES = (784, 128, 64, 10)
STEPS, BATCH = 100, 64


def digits():
    """The first 6,400 bundled training digits as float32 rows in [0, 1], and their labels."""
    with gzip.open(os.path.join(DIGITS, "train-images-idx3-ubyte.gz")) as f:
        images = np.frombuffer(f.read(), np.uint8, offset=16).reshape(-1, 784)
    with gzip.open(os.path.join(DIGITS, "train-labels-idx1-ubyte.gz")) as f:
        labels = np.frombuffer(f.read(), np.uint8, offset=8)
    count = STEPS * BATCH
    return images[:count].astype(np.float32) / 255, labels[:count].astype(np.float32)


def curve(mx, optimizer, hybridize=False, dtype="float32"):
    """Mean loss before each of the 100 updates."""
    nn, gluon, autograd, nd = mx.gluon.nn, mx.gluon, mx.autograd, mx.nd
    net = nn.HybridSequential()
    for units in SIZES[1:-1]:
        net.add(nn.Dense(units, activation="relu"))
    net.add(nn.Dense(SIZES[-1]))
    net.initialize()
    net.cast(dtype)
    if hybridize:
        net.hybridize()
    x, y = digits()
    net(nd.array(x[:1], dtype=dtype))
    random = np.random.RandomState(7)
    for layer, fan_in, fan_out in zip(net, SIZES[:-1], SIZES[1:], strict=True):
        bound = np.sqrt(6.0 / (fan_in + fan_out))
        weight = random.uniform(-bound, bound, (fan_out, fan_in)).astype(np.float32)
        layer.weight.set_data(nd.array(weight, dtype=dtype))
        layer.bias.set_data(nd.zeros((fan_out,), dtype=dtype))
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), optimizer, dict(OPTIMIZERS[optimizer]))
    losses = []
    for start in range(0, STEPS * BATCH, BATCH):
        data = nd.array(x[start:start + BATCH], dtype=dtype)
        label = nd.array(y[start:start + BATCH], dtype=dtype)
        with autograd.record():
            loss = loss_of(net(data), label)
        loss.backward()
        trainer.step(BATCH)
        losses.append(float(loss.mean().asscalar()))
    return losses


if __name__ == "__main__":
    module, optimizer, dtype = sys.argv[1:]
    print(json.dumps(curve(importlib.import_module(module), optimizer, dtype=dtype)))
