"""LeNet, ResNet and LSTM in files: written by one, read and run by the other.

    python tests/oracle/both_ways.py mxnet check PYTHON    (MXNet 1.9.1; PYTHON runs minigluon)
    python tests/oracle/both_ways.py mxnet record          (LeNet and lstm-net.params here)

`write FOLDER` puts a symbol with its checkpoint (LeNet), two exported nets and their `.params` by
place (ResNet, LSTM), and the arrays and the symbol of LeNet in the formats of older releases into
a folder; it prints what the nets computed. `read FOLDER` reads them all and prints the same.
`check` writes and reads with both and prints the largest difference of each pair. What MXNet wrote
of ResNet and LSTM stands beside this file as `resnet` (model_zoo.py) and `lstm-net` (lstm_net.py).
"""
import importlib
import json
import os
import struct
import subprocess
import sys
import tempfile

import lenet_symbol
import lstm_net
import model_zoo
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
LENET = os.path.join(HERE, "lenet")
# the words before an array's shape: format 1, and the one before it (which begins with the rank)
OLD = {"v1": lambda shape: struct.pack(f"<II{len(shape)}q", 0xF993FAC8, len(shape), *shape),
       "v0": lambda shape: struct.pack(f"<I{len(shape)}I", len(shape), *shape)}


def images(mx):
    return mx.nd.array(np.random.RandomState(4).uniform(size=(2, 1, 28, 28)))


def lenet(mx):
    """The symbol, and fixed arguments and auxiliary states."""
    symbol = lenet_symbol.lenet(mx.sym, (4, 6, 10))
    shapes, _, states = symbol.infer_shape(data=(2, 1, 28, 28))
    random = np.random.RandomState(8)

    def drawn(names, shapes):
        made = {}
        for name, shape in zip(names, shapes, strict=True):
            low = 0.5 if name.endswith("var") else -0.1
            made[name] = mx.nd.array(random.uniform(low, low + 0.2, shape))
        return made

    arguments = drawn(symbol.list_arguments(), shapes)
    del arguments["data"], arguments["softmax_label"]
    return symbol, arguments, drawn(symbol.list_auxiliary_states(), states)


def run(mx, symbol, arguments, states):
    """What LeNet says about the images."""
    executor = symbol.simple_bind(mx.cpu(), data=(2, 1, 28, 28), grad_req="null")
    executor.copy_params_from(arguments, states)
    return executor.forward(is_train=False, data=images(mx))[0].asnumpy().tolist()


def older_arrays(head, arrays):
    """The bytes of a file of arrays as older releases wrote it."""
    names = [name.encode() for name in arrays]
    parts = [struct.pack("<QQQ", 0x112, 0, len(names))]
    for array in arrays.values():
        parts += [head(array.shape), struct.pack("<iii", 1, 0, 0),  # cpu(0), float32
                  array.asnumpy().astype("<f4").tobytes()]
    parts.append(struct.pack("<Q", len(names)))
    parts += [struct.pack("<Q", len(name)) + name for name in names]
    return b"".join(parts)


def older_symbol(text, word):
    """A symbol's JSON with `word` for the attributes of nodes, and no version."""
    graph = json.loads(text)
    graph.pop("attrs", None)
    for node in graph["nodes"]:
        if "attrs" in node:
            node[word] = node.pop("attrs")
    return json.dumps(graph)


def write_lenet(mx, folder):
    """LeNet in the present format and two older ones; name -> what it says."""
    symbol, arguments, states = lenet(mx)
    mx.model.save_checkpoint(f"{folder}/lenet", 0, symbol, arguments, states)
    every = {**{f"arg:{name}": value for name, value in arguments.items()},
             **{f"aux:{name}": value for name, value in states.items()}}
    for name, head in OLD.items():
        with open(f"{folder}/{name}-0000.params", "wb") as file:
            file.write(older_arrays(head, every))
    for name, word in (("v1", "attr"), ("v0", "param")):
        with open(f"{folder}/{name}-symbol.json", "w") as file:
            file.write(older_symbol(symbol.tojson(), word))
    return {name: run(mx, symbol, arguments, states) for name in ("lenet", *OLD)}


def read_lenet(mx, folder):
    """What LeNet says, read from each format."""
    return {name: run(mx, *mx.model.load_checkpoint(f"{folder}/{name}", 0))
            for name in ("lenet", *OLD)}


def nets(mx):
    """(name, net, data) of the ResNet and the recurrent net, hybridized."""
    recurrent = lstm_net.make(mx)
    recurrent.hybridize()
    return [("resnet", *model_zoo.small(mx)), ("lstm", recurrent, lstm_net.data(mx))]


def write(mx, folder):
    """Write all files; name -> what was computed."""
    found = write_lenet(mx, folder)
    for name, net, data in nets(mx):
        found[name] = found[f"{name} by place"] = net(data).asnumpy().tolist()
        net.export(f"{folder}/{name}")
        net.save_parameters(f"{folder}/{name}.params")
    return found


def read(mx, folder):
    """Read all files; name -> what was computed."""
    found = read_lenet(mx, folder)
    for name, net, data in nets(mx):
        block = mx.gluon.SymbolBlock.imports(f"{folder}/{name}-symbol.json", ["data"],
                                             f"{folder}/{name}-0000.params")
        found[name] = block(data).asnumpy().tolist()
        net.initialize(mx.init.Zero(), force_reinit=True)
        net.load_parameters(f"{folder}/{name}.params")
        found[f"{name} by place"] = net(data).asnumpy().tolist()
    return found


def apart(ours, theirs):
    """Name -> largest difference, relative to the largest value."""
    assert ours.keys() == theirs.keys()
    return {name: float(np.abs(np.array(ours[name]) - theirs[name]).max()
                        / np.abs(theirs[name]).max()) for name in ours}


def check(mx, python):
    """Both ways; whether all agree to 1e-5."""
    def ours(action, folder):
        found = subprocess.run([python, __file__, "minigluon", action, folder], check=True,
                               stdout=subprocess.PIPE,
                               env={**os.environ, "PYTHONPATH": f"{HERE}/../.."})
        return json.loads(found.stdout)

    worst = 0.0
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        for title, written, found in (
                ("MXNet wrote, minigluon read", write(mx, one), ours("read", one)),
                ("minigluon wrote, MXNet read", ours("write", other), read(mx, other))):
            for name, difference in apart(found, written).items():
                print(f"{title}  {name:16} {difference:.1e}")
                worst = max(worst, difference)
    return worst < 1e-5


if __name__ == "__main__":
    module, action, *where = sys.argv[1:]
    module = importlib.import_module(module)
    if action == "check":
        sys.exit(0 if check(module, *where) else 1)
    if action == "record":
        os.makedirs(LENET, exist_ok=True)
        with open(f"{LENET}/figures.json", "w") as file:
            json.dump(write_lenet(module, LENET), file)
        lstm_net.make(module).save_parameters(f"{HERE}/lstm-net.params")
    else:
        print(json.dumps({"write": write, "read": read}[action](module, *where)))
