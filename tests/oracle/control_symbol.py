"""Describe a loop, a while loop and a branch as one symbol and print its JSON, or run a file.

    python tests/oracle/control_symbol.py mxnet > tests/oracle/control-symbol.json
    python tests/oracle/control_symbol.py minigluon > ours.json
    python tests/oracle/control_symbol.py mxnet ours.json     (MXNet runs ours; prints its results)

The same program for both, only the import differs.
"""
import importlib
import sys


def control(sym):
    """A recurrent sum, a while loop on its last state, a branch."""
    data, first, weight = sym.var("data"), sym.var("first"), sym.var("weight")
    outs, last = sym.contrib.foreach(
        lambda row, state: (row * weight + state, sym.tanh(state + row)), data, first)
    steps, [count, _] = sym.contrib.while_loop(
        lambda n, total: n < 3, lambda n, total: (total * n, [n + 1, total + n]),
        [sym.var("n"), sym.var("total")], max_iterations=4)
    chosen = sym.contrib.cond(sym.var("flag") > 0, lambda: last * 2, lambda: last - weight)
    return sym.Group([outs, sym.slice_axis(steps, axis=0, begin=0, end=3), count, chosen])


def results(mx, symbol):
    """What it computes for fixed numbers."""
    values = {"data": [[1, 2], [3, 4], [5, 6]], "first": [0.1, 0.2], "weight": [0.5, 2],
              "n": [0], "total": [1], "flag": [1]}
    found = symbol.eval(ctx=mx.cpu(), **{name: mx.nd.array(v) for name, v in values.items()})
    return [array.asnumpy().round(5).tolist() for array in found]


if __name__ == "__main__":
    module = importlib.import_module(sys.argv[1])
    if len(sys.argv) > 2:
        print(results(module, module.sym.load(sys.argv[2])))
    else:
        print(control(module.sym).tojson())
