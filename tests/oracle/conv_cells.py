"""Outputs and gradients of recurrent cells over images as JSON.

    python tests/oracle/conv_cells.py mxnet > tests/oracle/conv_cells.json   (with MXNet 1.9.1)

`gluon/test_conv_cells.py` runs the same program here and compares.
"""
import importlib
import json
import sys

import numpy as np

SHAPES = {1: (3, 6), 2: (2, 5, 4), 3: (2, 4, 3, 3)}
CASES = [f"{axes}{word}-{activation}" for axes in SHAPES for word in ("RNN", "LSTM", "GRU")
         for activation in ("tanh", "softrelu")]
SYMBOLS = ["ConvRNNCell", "ConvLSTMCell", "ConvGRUCell"]


def _waves(shape, step):
    return (0.4 * np.sin(step * np.arange(int(np.prod(shape))))).reshape(shape)


def run_block(mx, case):
    """Shapes of the weights, all outputs of three steps, and the gradient of each weight."""
    word, activation = case.split("-")
    axes, word = int(word[0]), word[1:]
    cell = getattr(mx.gluon.contrib.rnn, f"Conv{axes}D{word}Cell")(
        SHAPES[axes], 2, i2h_kernel=3, h2h_kernel=3, i2h_pad=1, activation=activation,
        prefix="c_")
    cell.initialize()
    weights = sorted(cell.collect_params().items())
    for _, weight in weights:
        weight.set_data(mx.nd.array(_waves(weight.shape, 1.7)))
    inputs = mx.nd.array(_waves((2, 3, *SHAPES[axes]), 0.7))
    with mx.autograd.record():
        outputs, _ = cell.unroll(3, inputs, layout="NTC", merge_outputs=False)
        total = sum((out * out).sum() for out in outputs)
    total.backward()
    return {"repr": repr(cell), "info": json.loads(json.dumps(cell.state_info(2))),
            "out": outputs[-1].asnumpy().ravel().tolist(),
            **{name: weight.grad().asnumpy().ravel().tolist() for name, weight in weights}}


def run_symbol(mx, name):
    """Outputs of two steps of a symbolic cell."""
    cell = getattr(mx.rnn, name)((1, 2, 5, 4), 2, prefix="s_")
    outputs, states = cell.unroll(2, [mx.sym.Variable("x0"), mx.sym.Variable("x1")])
    net = mx.sym.Group([*outputs, *states])
    shapes, _, _ = net.infer_shape(x0=(1, 2, 5, 4), x1=(1, 2, 5, 4))
    values = {word: mx.nd.array(_waves(shape, 1.3))
              for word, shape in zip(net.list_arguments(), shapes, strict=True)}
    found = net.bind(mx.cpu(), values).forward()
    return {"arguments": net.list_arguments(), "outputs": net.list_outputs(),
            "out": [value for out in found for value in out.asnumpy().ravel().tolist()]}


def _rounded(value):
    if isinstance(value, float):
        return round(value, 5)
    return [_rounded(one) for one in value] if isinstance(value, list) else value


if __name__ == "__main__":
    module = importlib.import_module(sys.argv[1])
    found = {**{case: run_block(module, case) for case in CASES},
             **{name: run_symbol(module, name) for name in SYMBOLS}}
    rows = [f"{json.dumps(name)}: " + json.dumps(
        {key: _rounded(value) for key, value in row.items()}, separators=(",", ":"))
        for name, row in found.items()]
    print("{\n" + ",\n".join(rows) + "\n}")
