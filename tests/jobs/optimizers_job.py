"""A worker's script: train with each optimizer over dist_sync, and alone on the same samples.

    python tools/launch.py -n 2 -s 2 tests/jobs/optimizers_job.py

Worker r of n takes the r-th part of each batch. Alone means two things: one array with the whole
batch, and as many devices as there are workers, each with one worker's part. Rank 0 prints a line
of JSON for each optimizer and type: the largest difference of any weight from either.
"""
import json

import numpy as np

import minigluon as mx
from minigluon import autograd, gluon, nd
from minigluon.gluon import nn

STEPS, BATCH, INPUTS = 8, 8, 12
CASES = {
    "sgd": ("sgd", {"learning_rate": 0.1, "wd": 0.01}),
    "sgd momentum": ("sgd", {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.01}),
    "nag": ("nag", {"learning_rate": 0.1, "momentum": 0.9}),
    "adam": ("adam", {"learning_rate": 0.01}),
    "adagrad": ("adagrad", {"learning_rate": 0.05}),
    "adadelta": ("adadelta", {}),
    "adamax": ("adamax", {"learning_rate": 0.01}),
    "nadam": ("nadam", {"learning_rate": 0.01}),
    "rmsprop": ("rmsprop", {"learning_rate": 0.01}),
    "rmsprop centered": ("rmsprop", {"learning_rate": 0.01, "centered": True}),
    "ftrl": ("ftrl", {"learning_rate": 0.1}),
    "ftml": ("ftml", {"learning_rate": 0.01}),
    "signum": ("signum", {"learning_rate": 0.01, "momentum": 0.9}),
    "dcasgd": ("dcasgd", {"learning_rate": 0.1, "momentum": 0.9}),
    "groupadagrad": ("groupadagrad", {"learning_rate": 0.05}),
    "lamb": ("lamb", {"learning_rate": 0.01}),
    "lars": ("lars", {"learning_rate": 0.1, "momentum": 0.9}),
    "lbsgd": ("lbsgd", {"learning_rate": 0.1, "momentum": 0.9}),
    "test": ("test", {}),
}
"""All registered ones but sgld, which adds noise that it draws."""


def train(case, dtype, store, contexts, places):
    """Weights after some steps, where each context takes one of `places` of each batch."""
    name, settings = CASES[case]
    random = np.random.RandomState(7)
    net = nn.HybridSequential()
    # Nadam's schedule moves on with each array of its process: alone and on two servers it is the
    # same for one array only.
    alone, bias = case == "nadam", case not in ("nadam", "groupadagrad")  # that takes matrices
    if not alone:
        net.add(nn.Dense(20, activation="tanh", in_units=INPUTS, use_bias=bias))
    net.add(nn.Dense(3, in_units=INPUTS if alone else 20, use_bias=bias))
    mx.random.seed(3)
    net.initialize(mx.init.Xavier(), ctx=contexts)
    net.cast(dtype)
    trainer = gluon.Trainer(net.collect_params(), name, dict(settings), kvstore=store)
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    for _ in range(STEPS):
        x = random.normal(size=(len(SHARES) * BATCH, INPUTS)).astype(dtype)
        y = random.randint(0, 3, len(SHARES) * BATCH)
        with autograd.record():
            losses = [loss_of(net(nd.array(x[rows], ctx, dtype)), nd.array(y[rows], ctx))
                      for ctx, rows in zip(contexts, places, strict=True)]
        autograd.backward(losses)
        trainer.step(len(x))
    weights = {key: param.data(contexts[0]).asnumpy()
               for key, param in net._collect_params_with_prefix().items()}
    if store == "dist_sync":
        trainer._kvstore.barrier()
        trainer._kvstore.close()
    return weights


def difference(a, b):
    return max(float(np.abs(a[key] - b[key]).max()) for key in a)


kv = mx.kv.create("dist_sync")
SHARES = [slice(i * BATCH, (i + 1) * BATCH) for i in range(kv.num_workers)]
for case in CASES:
    for dtype in ("float32", "float64"):
        found = train(case, dtype, "dist_sync", [mx.cpu()], [SHARES[kv.rank]])
        union = train(case, dtype, None, [mx.cpu()], [slice(0, len(SHARES) * BATCH)])
        devices = train(case, dtype, "device", [mx.cpu(i) for i in range(len(SHARES))], SHARES)
        if kv.rank == 0:
            moved = max(float(np.abs(value).max()) for value in found.values())
            print(json.dumps({"case": case, "dtype": dtype, "union": difference(found, union),
                              "devices": difference(found, devices), "largest": moved}), flush=True)
