"""Save a net with Block.save, or load one that was saved.

    python tests/oracle/saved_block.py mxnet write tests/oracle/saved     (MXNet 1.9.1)
    python tests/oracle/saved_block.py minigluon read tests/oracle/saved
    python tests/oracle/saved_block.py minigluon write PATH ; ... mxnet read PATH

Both print what the net computes. It holds graphs below a plain block, one of them under a name of
its own, with nested inputs and outputs.
"""
import importlib
import sys

import numpy as np


def make(mx):
    """The net, nothing initialized."""
    nn = mx.gluon.nn

    class Part(mx.gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.conv = nn.Conv2D(3, 1, activation="relu")
                self.rest = nn.HybridSequential(prefix="")
                self.rest.add(nn.BatchNorm(), nn.Dense(2))

        def hybrid_forward(self, F, x, pair):
            return self.rest(self.conv(x)), [pair[0] + 1, pair[1] * 2]

    class Whole(mx.gluon.Block):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.first = Part()
                self.plain = nn.Dense(2)
                self._children["second"] = Part()

        def forward(self, x, pair):
            a, pair = self.first(x, pair)
            b, _ = self._children["second"](x, pair)
            return self.plain(a) + b + pair[0]

    return Whole()


def inputs(mx):
    """One array and a list of two."""
    random = np.random.RandomState(4)
    arrays = [mx.nd.array(random.uniform(-1, 1, shape))
              for shape in ((2, 3, 4, 4), (2, 2), (2, 2))]
    return arrays[0], arrays[1:]


def write(mx, path):
    """Save the net; what it computes."""
    net = make(mx)
    net.initialize()
    net.first.hybridize()
    net._children["second"].hybridize()
    net(*inputs(mx))
    random = np.random.RandomState(1)
    for _, parameter in sorted(net._collect_params_with_prefix().items()):
        parameter.set_data(mx.nd.array(random.uniform(0.5, 1, parameter.shape)))
    net.save(path)
    return net(*inputs(mx)).asnumpy().tolist()


def read(mx, path):
    """A fresh net that was loaded."""
    net = make(mx)
    net.load(path)
    return net


if __name__ == "__main__":
    module = importlib.import_module(sys.argv[1])
    if sys.argv[2] == "write":
        print(write(module, sys.argv[3]))
    else:
        print(read(module, sys.argv[3])(*inputs(module)).asnumpy().tolist())
