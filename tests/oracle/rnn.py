"""Run recurrent cells and layers and print their figures and graphs as JSON.

    python tests/oracle/rnn.py mxnet > tests/oracle/rnn.json    (in an environment with MXNet 1.9.1)
    python tests/oracle/rnn.py minigluon

The same program for both, only the import differs. Parameters and inputs come from a NumPy
generator. Of each array its sum with a fixed random array is kept.
"""
import importlib
import json
import sys

import numpy as np

T, N, C, H = 4, 3, 5, 6
VALID = [2, 4, 1]


def cells(mx):
    """Name -> function that makes the cell."""
    rnn, contrib = mx.gluon.rnn, mx.gluon.contrib.rnn

    def stack(kind, *more):
        whole = kind(prefix="stack_")
        with whole.name_scope():
            for cell in (rnn.LSTMCell(H), rnn.ResidualCell(rnn.GRUCell(H)), *more,
                         rnn.RNNCell(H, activation="relu")):
                whole.add(cell)
        return whole

    def both(one, other):
        return rnn.BidirectionalCell(one(H, prefix="l_"), other(H, prefix="r_"),
                                     output_prefix="both_")

    return {
        "rnn": lambda: rnn.RNNCell(H, prefix="c_"),
        "rnn relu": lambda: rnn.RNNCell(H, activation="relu", prefix="c_"),
        "lstm": lambda: rnn.LSTMCell(H, prefix="c_"),
        "lstm activations": lambda: rnn.LSTMCell(H, prefix="c_", activation="softsign",
                                                 recurrent_activation="tanh"),
        "gru": lambda: rnn.GRUCell(H, prefix="c_"),
        "lstmp": lambda: contrib.LSTMPCell(H, 4, prefix="c_"),
        "residual": lambda: rnn.ResidualCell(rnn.LSTMCell(C, prefix="c_")),
        "zoneout": lambda: rnn.ZoneoutCell(rnn.GRUCell(H, prefix="c_"), 0.5, 0.5),
        "variational": lambda: contrib.VariationalDropoutCell(rnn.LSTMCell(H, prefix="c_"),
                                                              0.3, 0.4, 0.5),
        "bidirectional": lambda: both(rnn.LSTMCell, rnn.GRUCell),
        "stack": lambda: stack(rnn.SequentialRNNCell),
        "hybrid stack": lambda: stack(rnn.HybridSequentialRNNCell, rnn.DropoutCell(0.5)),
    }


def layers(mx):
    """Name -> function that makes the layer."""
    rnn = mx.gluon.rnn
    made = {}
    for count in (1, 2, 3):
        for sides in (False, True):
            for layout in ("TNC", "NTC"):
                settings = {"num_layers": count, "bidirectional": sides, "layout": layout,
                            "prefix": "layer_"}
                words = f"{count} {'both' if sides else 'one'} {layout}"
                for name, make, more in (
                        ("relu", rnn.RNN, {"activation": "relu"}),
                        ("tanh", rnn.RNN, {"activation": "tanh"}),
                        ("lstm", rnn.LSTM, {}), ("lstmp", rnn.LSTM, {"projection_size": 4}),
                        ("gru", rnn.GRU, {})):
                    if name != "lstmp" or layout == "TNC":
                        made[f"{name} {words}"] = (
                            lambda make=make, more=more, settings=settings:
                            make(H, **settings, **more))
    return made


def fill(mx, net, random):
    """Set all parameters, in their order."""
    for parameter in net.collect_params().values():
        value = random.uniform(-0.5, 0.5, parameter.shape).astype(np.float32)
        parameter.set_data(mx.nd.array(value))


def one(array):
    """One figure for an array."""
    values = array.asnumpy().astype(np.float64)
    total = (values * np.random.RandomState(values.size).uniform(-1, 1, values.shape)).sum()
    return float(f"{total:.7g}")


def listed(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


def run(mx, net, call, x, backward=True):
    """Figures of outputs, states, gradients of parameters and input; nothing is dropped."""
    net.initialize()
    call(net, x)
    fill(mx, net, np.random.RandomState(5))
    if not backward:
        outputs, states = call(net, x)
        return {"outputs": [one(r) for r in listed(outputs) + listed(states)]}
    x.attach_grad()
    with mx.autograd.record(train_mode=False):
        outputs, states = call(net, x)
        results = listed(outputs) + listed(states)
        weights = [mx.nd.array(np.random.RandomState(7).uniform(-1, 1, r.shape)) for r in results]
        loss = mx.nd.add_n(*[(r * w).sum() for r, w in zip(results, weights, strict=True)])
    loss.backward()
    return {"outputs": [one(r) for r in results], "input": one(x.grad),
            "params": {name: one(p.grad()) for name, p in net.collect_params().items()}}


def figures(mx, hybridize=False, keep=lambda name: True):
    """All figures, by case; of the cases that `keep` accepts."""
    found = {}
    random = np.random.RandomState(3)
    data = random.uniform(-1, 1, (N, T, C)).astype(np.float32)
    valid = mx.nd.array(VALID)
    for name, make in cells(mx).items():
        for layout in ("NTC", "TNC"):
            for lengths in (None, valid):
                def unroll(cell, x, layout=layout, lengths=lengths):
                    return cell.unroll(T, x, layout=layout, merge_outputs=True,
                                       valid_length=lengths)

                cell = make()
                if hybridize:
                    cell.hybridize()
                x = mx.nd.array(data if layout == "NTC" else data.transpose(1, 0, 2))
                key = f"{name} {layout}{' valid' if lengths is not None else ''}"
                if keep(key):
                    found[key] = run(mx, cell, unroll, x)
    for name, make in layers(mx).items():
        def whole(layer, x):
            states = [mx.nd.array(np.random.RandomState(9).uniform(-1, 1, info["shape"]))
                      for info in layer.state_info(N)]
            return layer(x, states)

        layer = make()
        if hybridize:
            layer.hybridize()
        x = mx.nd.array(data if "NTC" in name else data.transpose(1, 0, 2))
        if keep(name):  # gradients of lstmp: MXNet has them on a GPU only
            found[name] = run(mx, layer, whole, x, "lstmp" not in name)
    return found


def nodes(symbol):
    """(operator, name, inputs) of every node."""
    return [[node["op"], node["name"], [list(place[:2]) for place in node["inputs"]]]
            for node in json.loads(symbol.tojson())["nodes"]]


def graphs(mx):
    """Nodes of the graphs of all cells, unrolled, and of some layers; their reprs."""
    found = {}
    for name, make in cells(mx).items():
        with mx.name.NameManager():
            cell = make()
            outputs, states = cell.unroll(2, mx.sym.var("data"))
            found[name] = [repr(cell), nodes(mx.sym.Group(listed(outputs) + states))]
    for name, make in layers(mx).items():
        if name in ("lstm 2 both TNC", "lstmp 1 one TNC", "gru 1 one NTC", "relu 2 one TNC"):
            with mx.name.NameManager():
                layer = make()
                found[name] = [repr(layer), nodes(layer(mx.sym.var("data")))]
                if "lstmp" not in name:
                    found[name].append(repr(layer._unfuse()))
    return found


if __name__ == "__main__":
    module = importlib.import_module(sys.argv[1])
    found = {"figures": figures(module), "graphs": graphs(module)}
    lines = [f'"{part}": {{\n' + ",\n".join(
        f"{json.dumps(name)}: {json.dumps(value)}" for name, value in found[part].items()) + "\n}"
        for part in found]
    print("{" + ",\n".join(lines) + "}")
