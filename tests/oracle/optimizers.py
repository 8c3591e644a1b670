"""Twelve updates of a fixed weight by each optimizer; prints the weights as JSON.

    python tests/oracle/optimizers.py minigluon
    python tests/oracle/optimizers.py mxnet     (in an environment with MXNet 1.9.1)

`optimizers.json` holds MXNet's figures.
"""
import importlib
import json
import sys

import numpy as np

CASES = {
    "adagrad": ["adagrad", {"learning_rate": 0.1, "wd": 0.01}],
    "adagrad-clip": ["adagrad", {"learning_rate": 0.1, "clip_gradient": 0.3}],
    "groupadagrad": ["groupadagrad", {"learning_rate": 0.1}],
    "adadelta": ["adadelta", {"wd": 0.01}],
    "adamax": ["adamax", {"wd": 0.01, "learning_rate": 0.05}],
    "nadam": ["nadam", {"wd": 0.01, "learning_rate": 0.05}],
    "rmsprop": ["rmsprop", {"wd": 0.01, "learning_rate": 0.02}],
    "rmsprop-centered": ["rmsprop", {"centered": True, "learning_rate": 0.02, "wd": 0.01}],
    "rmsprop-clip": ["rmsprop", {"learning_rate": 0.2, "clip_weights": 0.5}],
    "ftrl": ["ftrl", {"wd": 0.01}],
    "ftml": ["ftml", {"wd": 0.01, "learning_rate": 0.05}],
    "signum": ["signum", {"wd": 0.01, "wd_lh": 0.1}],
    "signum-plain": ["signum", {"momentum": 0.0, "wd": 0.01}],
    "lamb": ["lamb", {"wd": 0.01, "learning_rate": 0.05}],
    "lamb-bounds": ["lamb", {"wd": 0.01, "learning_rate": 0.05, "lower_bound": 0.1,
                             "upper_bound": 2.0, "bias_correction": False}],
    "lars": ["lars", {"momentum": 0.9, "learning_rate": 1.0, "wd": 0.01}],
    "lbsgd": ["lbsgd", {"momentum": 0.9, "batch_scale": 2, "updates_per_epoch": 2}],
    "lbsgd-lars": ["lbsgd", {"warmup_strategy": "lars"}],
    "dcasgd": ["dcasgd", {"wd": 0.01, "learning_rate": 0.1}],
}
UPDATES = 12


def weights(mx, case):
    """The weight after each of the updates, flat."""
    name, settings = CASES[case]
    shape = (3, 4)
    random = np.random.RandomState(5)
    weight = mx.nd.array(random.normal(size=shape))
    optimizer = mx.optimizer.create(name, rescale_grad=0.5, **settings)
    optimizer.idx2name = {0: "dense0_weight"}
    updater = mx.optimizer.get_updater(optimizer)
    found = []
    for _ in range(UPDATES):
        grad = mx.nd.array(random.normal(size=shape))
        updater(0, grad, weight)
        found.append([float(v) for v in weight.asnumpy().ravel()])
    return found


if __name__ == "__main__":
    module = importlib.import_module(sys.argv[1])
    print(json.dumps({case: weights(module, case) for case in CASES}))
