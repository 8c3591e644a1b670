"""Train one MLP for 100 steps with each optimizer and print its loss at each step as JSON.

    python tests/oracle/mlp_curve.py mxnet > tests/oracle/mlp_curve.json    (MXNet 1.9.1)
    python tests/oracle/mlp_curve.py minigluon
    python tests/oracle/mlp_curve.py minigluon adam ftrl    (these alone)

The same program for both, only the import differs: initial parameters and batches come from a
NumPy generator, so the curves can be compared. So does the noise of SGLD: its one call of
``normal`` is replaced. `mlp_curve.json` holds MXNet 1.9.1's figures, in float32 and float64.
"""
import contextlib
import gzip
import importlib
import json
import os
import sys

import numpy as np

DIGITS = os.path.join(os.path.dirname(__file__), "..", "..", "minigluon", "gluon", "data",
                      "vision", "mnist-10k")
# Rates are moderate: with larger ones the loss is a chaotic function of rounding. (nag with 0.1:
# the curves part by 1.2e-2 in float32, by 5e-8 in float64; signum with 0.001: by 3.8e-2, 4e-8.)
# Two settings go round faults of MXNet: lbsgd begins where its first gradient is a whole step (it
# keeps the array itself, which the next backward overwrites), dcasgd has no momentum (an error).
OPTIMIZERS = {
    "sgd": ["sgd", {"learning_rate": 0.1, "momentum": 0.9, "wd": 1e-4}],
    "sgd-clip": ["sgd", {"learning_rate": 0.1, "clip_gradient": 0.01}],
    "nag": ["nag", {"learning_rate": 0.02, "momentum": 0.9, "wd": 1e-4}],
    "adam": ["adam", {"learning_rate": 0.001}],
    "adagrad": ["adagrad", {"learning_rate": 0.005, "wd": 1e-4}],
    "groupadagrad": ["groupadagrad", {"learning_rate": 0.02}],
    "rmsprop": ["rmsprop", {"learning_rate": 0.0003, "wd": 1e-4}],
    "rmsprop-centered": ["rmsprop", {"learning_rate": 0.0003, "centered": True}],
    "adadelta": ["adadelta", {"rho": 0.95, "epsilon": 1e-6, "wd": 1e-4}],
    "ftrl": ["ftrl", {"learning_rate": 0.005, "lamda1": 1e-6, "beta": 0.001, "wd": 1e-4}],
    "ftml": ["ftml", {"learning_rate": 0.001, "wd": 1e-4}],
    "adamax": ["adamax", {"learning_rate": 0.001, "wd": 1e-4}],
    "nadam": ["nadam", {"learning_rate": 0.0005, "wd": 1e-4}],
    "signum": ["signum", {"learning_rate": 0.0001, "wd": 1e-4, "wd_lh": 1e-4}],
    "lamb": ["lamb", {"learning_rate": 0.001, "wd": 1e-4}],
    "lars": ["lars", {"learning_rate": 0.5, "momentum": 0.9, "wd": 1e-4}],
    "lbsgd": ["lbsgd", {"learning_rate": 0.05, "momentum": 0.9, "batch_scale": 2,
                        "begin_epoch": 1, "warmup_epochs": 3, "updates_per_epoch": 25}],
    "lbsgd-lars": ["lbsgd", {"learning_rate": 0.05, "momentum": 0.9, "wd": 1e-4,
                             "warmup_strategy": "lars"}],
    "sgld": ["sgld", {"learning_rate": 1e-4, "rescale_grad": 500.0, "wd": 1e-4}],
    "dcasgd": ["dcasgd", {"learning_rate": 0.1, "lamda": 0.04, "wd": 1e-4}],
    "test": ["test", {"rescale_grad": -0.05}],  # it adds the gradient to the weight
}
# In float32 relu switches where the two programs' rounding parts a value from zero, and a switch
# moves the loss by 1e-4 and more (the one with 0.05 of "test": 1.4e-3, in float64: none). So each
# optimizer is compared with relu in float64, if MXNet has its states in float64, and with
# the smooth relu, log(1 + exp(x)), in float32; some with relu in float32 as well.
MODES = [("float64", "relu"), ("float32", "softrelu"), ("float32", "relu")]
ALSO = ("sgd", "sgd-clip", "nag", "adam", "nadam", "lars", "groupadagrad", "sgld")
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


@contextlib.contextmanager
def fixed_noise(mx):
    """``normal``, wherever an optimizer may find it, draws from one NumPy generator."""
    random = np.random.RandomState(11)

    def normal(loc, scale, shape, dtype, ctx):
        return mx.nd.array(random.normal(loc, scale, shape), dtype=dtype, ctx=ctx)

    owners = [owner for owner in (mx.nd.random, mx.optimizer.optimizer) if hasattr(owner, "normal")]
    before = [owner.normal for owner in owners]
    for owner in owners:
        owner.normal = normal
    try:
        yield
    finally:
        for owner, function in zip(owners, before, strict=True):
            owner.normal = function


def curve(mx, case, dtype="float32", activation="relu", hybridize=False):
    """Mean loss before each of the 100 updates."""
    nn, gluon, autograd, nd = mx.gluon.nn, mx.gluon, mx.autograd, mx.nd
    net = nn.HybridSequential()
    for units in SIZES[1:-1]:
        net.add(nn.Dense(units, activation=activation))
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
    optimizer, settings = OPTIMIZERS[case]
    if optimizer == "groupadagrad":  # it takes matrices alone
        net.collect_params(".*bias").setattr("grad_req", "null")
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), optimizer, dict(settings))
    losses = []
    with fixed_noise(mx):
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
    module = importlib.import_module(sys.argv[1])
    found = {}
    for case in sys.argv[2:] or OPTIMIZERS:
        for dtype, activation in MODES[:3 if case in ALSO else 2]:
            try:
                losses = curve(module, case, dtype, activation)
            except Exception as error:  # MXNet keeps some states in float32 always
                print(case, dtype, str(error).strip().splitlines()[-1], file=sys.stderr)
                continue
            if np.isfinite(losses).all():
                found[f"{case} {dtype} {activation}"] = [float(f"{loss:.9g}") for loss in losses]
    print("{" + ",\n".join(f'"{key}": {json.dumps(value, separators=(",", ":"))}'
                           for key, value in found.items()) + "}")
