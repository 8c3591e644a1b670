"""Export a recurrent net, or check a net that was exported.

    python tests/oracle/lstm_net.py mxnet write tests/oracle/lstm-net     (MXNet 1.9.1)
    python tests/oracle/lstm_net.py minigluon read tests/oracle/lstm-net
    python tests/oracle/lstm_net.py minigluon write PATH ; ... mxnet read PATH

The net holds fused layers, an unrolled stack of cells and a projection. Writing and reading print
the sum of its outputs for fixed inputs and parameters; the two must agree.
"""
import importlib
import sys

import numpy as np


def make(mx):
    """The net, its parameters set."""
    rnn = mx.gluon.rnn

    class Net(mx.gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.fused = rnn.LSTM(3, 2, bidirectional=True, dropout=0.5)
                self.gru = rnn.GRU(4)
                self.cells = rnn.HybridSequentialRNNCell()
                with self.cells.name_scope():
                    self.cells.add(rnn.BidirectionalCell(rnn.LSTMCell(2), rnn.RNNCell(2)))
                    self.cells.add(rnn.ResidualCell(rnn.GRUCell(4)))
                self.out = mx.gluon.nn.Dense(2, flatten=False)

        def hybrid_forward(self, F, x):
            x, _ = self.cells.unroll(5, self.gru(self.fused(x)), layout="TNC", merge_outputs=True)
            return self.out(x)

    net = Net(prefix="net_")
    net.initialize()
    net(data(mx))
    random = np.random.RandomState(1)
    for _, parameter in sorted(net.collect_params().items()):
        parameter.set_data(mx.nd.array(random.uniform(-1, 1, parameter.shape)))
    return net


def data(mx, batch=2):
    """(5, batch, 3)"""
    return mx.nd.array(np.random.RandomState(2).uniform(-1, 1, (5, batch, 3)))


def read(mx, path):
    """A net that was exported."""
    return mx.gluon.SymbolBlock.imports(f"{path}-symbol.json", ["data"], f"{path}-0000.params")


def figures(mx, net):
    """Sums of the outputs for two batch sizes."""
    return [round(float((net(data(mx, batch)) ** 2).sum().asscalar()), 4) for batch in (2, 3)]


if __name__ == "__main__":
    module = importlib.import_module(sys.argv[1])
    if sys.argv[2] == "write":
        made = make(module)
        made.hybridize()
        made(data(module))
        made.export(sys.argv[3])
    else:
        made = read(module, sys.argv[3])
    print(figures(module, made))
