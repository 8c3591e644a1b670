"""Describe a LeNet-like net as a symbol and print its JSON, or check a file that minigluon wrote.

    python tests/oracle/lenet_symbol.py mxnet > tests/oracle/lenet-symbol.json
    python tests/oracle/lenet_symbol.py minigluon > ours.json
    python tests/oracle/lenet_symbol.py mxnet ours.json       (MXNet reads ours; prints its shapes)

The same program for both, only the import differs. `lenet-symbol.json` is what MXNet 1.9.1 wrote.
"""
import importlib
import sys


def lenet(sym, widths=(20, 50, 500)):
    """Convolutions, batch norm, dropout, concatenation, a scalar operator, a loss."""
    first, second, dense = widths
    h = sym.Convolution(sym.var("data"), kernel=(5, 5), num_filter=first, name="conv1")
    h = sym.Activation(h, act_type="tanh", name="act1")
    h = sym.Pooling(h, pool_type="max", kernel=(2, 2), stride=(2, 2), name="pool1")
    h = sym.Convolution(h, kernel=(5, 5), num_filter=second, no_bias=True, name="conv2")
    h = sym.BatchNorm(h, fix_gamma=False, name="bn2")
    h = sym.relu(h)
    h = sym.Pooling(h, pool_type="max", kernel=(2, 2), stride=(2, 2), name="pool2")
    h = sym.Flatten(h)
    h = sym.FullyConnected(h, num_hidden=dense, name="fc1", attr={"__lr_mult__": "2"})
    h = sym.Dropout(h, p=0.5, name="drop")
    h = sym.FullyConnected(sym.Concat(h, h * 2, dim=1), num_hidden=10, name="fc2")
    return sym.SoftmaxOutput(h, name="softmax")


if __name__ == "__main__":
    module = importlib.import_module(sys.argv[1])
    if len(sys.argv) > 2:
        read = module.sym.load(sys.argv[2])
        print(read.list_arguments(), read.list_auxiliary_states())
        print(read.infer_shape(data=(2, 1, 28, 28)))
    else:
        print(lenet(module.sym).tojson())
