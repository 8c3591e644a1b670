"""What is measured: shapes, data, starting values and settings, the same for every framework.

Plain NumPy, so that it can be imported in any peer's environment.
"""
import gzip
import os
from itertools import pairwise

import numpy as np

LR, MOMENTUM, SEED = 0.01, 0.9, 0
MLP = (784, 128, 64, 10)  # relu between
LENET = {"conv": (20, 50), "kernel": 5, "hidden": 500, "classes": 10}  # tanh, max-pool 2x2
LSTM = {"vocab": 10000, "embed": 200, "hidden": 200, "layers": 2, "steps": 35, "batch": 20}
BLOCK = {"d": 256, "heads": 4, "ff": 1024, "seq": 128, "batch": 8}  # post-norm encoder block
RESNET = {"stages": (64, 128, 256, 512), "classes": 10, "size": 32}  # ResNet-18 v1, thumbnail
ELEMENTS = 16 * 1024 * 1024
GEMM = 2048
CONV = {"n": 64, "c": 64, "k": 64, "size": 56, "kernel": 3, "pad": 1}

DIGITS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "minigluon", "gluon",
                      "data", "vision", "mnist-10k")


def _glorot(random, shape, fan_in, fan_out):
    bound = np.sqrt(6.0 / (fan_in + fan_out))
    return random.uniform(-bound, bound, shape).astype(np.float32)


def mlp_values():
    """Weight (out, in) and bias of each layer."""
    random = np.random.RandomState(SEED)
    pairs = pairwise(MLP)
    return [v for i, o in pairs for v in (_glorot(random, (o, i), i, o), np.zeros(o, np.float32))]


def lenet_values():
    """Weight and bias of each layer of LeNet."""
    random = np.random.RandomState(SEED)
    first, second = LENET["conv"]
    taps, hidden = LENET["kernel"] ** 2, LENET["hidden"]
    layers = [((first, 1, 5, 5), taps, first * taps),
              ((second, first, 5, 5), first * taps, second * taps),
              ((hidden, second * 16), second * 16, hidden),
              ((LENET["classes"], hidden), hidden, LENET["classes"])]
    return [v for shape, i, o in layers
            for v in (_glorot(random, shape, i, o), np.zeros(shape[0], np.float32))]


def digits(kind, batch, count=16):
    """`count` batches of bundled digits: (x float32, y int32). kind: flat, nchw or rgb32."""
    with gzip.open(os.path.join(DIGITS, "train-images-idx3-ubyte.gz")) as f:
        images = np.frombuffer(f.read(), np.uint8, offset=16).reshape(-1, 28, 28)
    with gzip.open(os.path.join(DIGITS, "train-labels-idx1-ubyte.gz")) as f:
        labels = np.frombuffer(f.read(), np.uint8, offset=8).astype(np.int32)
    random = np.random.RandomState(SEED)
    found = []
    for _ in range(count):
        rows = random.randint(0, len(images), batch)
        x = images[rows].astype(np.float32) / 255
        if kind == "flat":
            x = x.reshape(batch, 784)
        elif kind == "nchw":
            x = x[:, None]
        else:
            x = np.pad(x, ((0, 0), (2, 2), (2, 2)))[:, None].repeat(3, 1)
        found.append((np.ascontiguousarray(x), labels[rows]))
    return found


def words(count=8):
    """Batches (steps, batch) of word numbers and the words that follow, Zipf-distributed."""
    random = np.random.RandomState(SEED)
    shape = (count, LSTM["steps"] + 1, LSTM["batch"])
    drawn = np.minimum(random.zipf(1.2, shape) - 1, LSTM["vocab"] - 1).astype(np.int32)
    return [(row[:-1].copy(), row[1:].copy()) for row in drawn]


def sequences(count=4):
    """Pairs of (batch, seq, d) arrays for the encoder block."""
    random = np.random.RandomState(SEED)
    shape = (BLOCK["batch"], BLOCK["seq"], BLOCK["d"])
    return [tuple(random.randn(*shape).astype(np.float32) for _ in range(2))
            for _ in range(count)]
