"""Outputs and gradients of symbolic recurrent cells as JSON.

    python tests/oracle/rnn_cells.py minigluon
    python tests/oracle/rnn_cells.py mxnet > tests/oracle/rnn_cells.json   (with MXNet 1.9.1)

The same program for both; arguments come from a NumPy generator in the order of list_arguments.
"""
import importlib
import json
import sys

import numpy as np


def stack(rnn):
    cell = rnn.SequentialRNNCell()
    cell.add(rnn.LSTMCell(4, prefix="a_"))
    cell.add(rnn.ResidualCell(rnn.GRUCell(4, prefix="b_")))
    cell.add(rnn.ZoneoutCell(rnn.RNNCell(4, prefix="c_"), 0.3, 0.3))
    cell.add(rnn.DropoutCell(0.5))
    return cell


CELLS = {
    "rnn": lambda rnn: rnn.RNNCell(4),
    "rnn_relu": lambda rnn: rnn.RNNCell(4, activation="relu"),
    "lstm": lambda rnn: rnn.LSTMCell(4),
    "gru": lambda rnn: rnn.GRUCell(4),
    "bidirectional": lambda rnn: rnn.BidirectionalCell(
        rnn.LSTMCell(4, "l_"), rnn.GRUCell(4, "r_")),
    "stack": stack,
    "fused_lstm": lambda rnn: rnn.FusedRNNCell(4, 2, "lstm", bidirectional=True, prefix="f_"),
    "fused_gru": lambda rnn: rnn.FusedRNNCell(4, 2, "gru", prefix="f_"),
    "fused_tanh": lambda rnn: rnn.FusedRNNCell(4, 1, "rnn_tanh", prefix="f_"),
    "unfused_lstm": lambda rnn: rnn.FusedRNNCell(4, 2, "lstm", bidirectional=True,
                                                 prefix="f_").unfuse(),
}


def run(mx, name, layout="NTC"):
    """Outputs in inference, and the gradient of each argument, for a batch of 2 and 3 steps."""
    net, _ = CELLS[name](mx.rnn).unroll(3, mx.sym.Variable("x"), layout=layout, merge_outputs=True)
    shape = (2, 3, 5) if layout == "NTC" else (3, 2, 5)
    executor = net.simple_bind(mx.cpu(), x=shape)
    rng = np.random.RandomState(0)
    for argument in net.list_arguments():
        array = executor.arg_dict[argument]
        array[:] = mx.nd.array(rng.uniform(-0.5, 0.5, array.shape))
    out = executor.forward(is_train=False)[0]
    found = {"out": out.asnumpy().ravel().tolist()}
    if name != "stack":  # which draws
        out = executor.forward(is_train=True)[0]
        executor.backward(mx.nd.array(rng.uniform(-1, 1, out.shape)))
        for argument, grad in sorted(executor.grad_dict.items()):
            found[argument] = grad.asnumpy().ravel().tolist()
    return found


if __name__ == "__main__":
    module = importlib.import_module(sys.argv[1])
    print(json.dumps({name: {key: [round(value, 6) for value in values]
                             for key, values in run(module, name).items()} for name in CELLS}))
