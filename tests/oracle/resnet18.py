"""ResNet-18 with weights from MXNet's file: outputs, loss and every parameter's gradient.

    python tests/oracle/resnet18.py mxnet record           (MXNet 1.9.1)
    python tests/oracle/resnet18.py mxnet check PYTHON     (MXNet 1.9.1; PYTHON runs minigluon)
    python tests/oracle/resnet18.py minigluon run FILE.params full

`record` writes a ResNet-18 whose layers are narrow to `resnet18.params`, and its figures to
`resnet18.json`. `check` does the same with the network in full width and compares at once.

What can be equal: in float64 everything to 1e-8 and better. In float32 the two programs add in
another order, so a value before a relu may be 1e-7 here and -1e-7 there; each such switch changes
a gradient by what one element contributes. So float32 gradients are measured in parts of each
gradient's largest value; the more elements a network has, the more of its relus switch.

MXNet's figures come from its own kernels: with oneDNN its gradient of a max pooling in inference
is wrong (by its own float64, and by itself without oneDNN), and so are all gradients below it.
"""
import importlib
import json
import os
import subprocess
import sys
import tempfile

import model_zoo
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
FIGURES = os.path.join(HERE, "resnet18")
WIDTHS = {"narrow": [4, 4, 6, 8, 12], "full": [64, 64, 128, 256, 512]}
MODES = [(dtype, training) for dtype in ("float32", "float64") for training in (False, True)]
KEPT = 24


def network(mx, width):
    """ResNet-18 of version 1; its layers as wide as told."""
    vision = mx.gluon.model_zoo.vision
    with mx.name.NameManager():
        return vision.ResNetV1(vision.BasicBlockV1, [2, 2, 2, 2], WIDTHS[width], classes=10)


def batch(mx, dtype):
    random = np.random.RandomState(12)
    return (mx.nd.array(random.standard_normal((4, 3, 64, 64)), dtype=dtype),
            mx.nd.array([3, 5, 0, 9], dtype=dtype))


def save(mx, width, path):
    """Make a network, and write its parameters."""
    net = network(mx, width)
    net.initialize(mx.init.Zero())
    net(batch(mx, "float32")[0])
    model_zoo.fill(mx, net)
    net.save_parameters(path)


def run(mx, path, width):
    """Figures of the network whose parameters are in the file, by mode."""
    found = {}
    for dtype, training in MODES:
        net = network(mx, width)
        net.load_parameters(path)
        net.cast(dtype)
        net.hybridize()
        x, label = batch(mx, dtype)
        x.attach_grad()
        with mx.autograd.record(train_mode=training):
            out = net(x)
            loss = mx.gluon.loss.SoftmaxCELoss()(out, label)
        loss.backward(train_mode=training)
        grads = {place: p.grad() for place, p in net._collect_params_with_prefix().items()
                 if p.grad_req != "null"}
        found[f"{dtype} {'training' if training else 'inference'}"] = {
            name: kept(array.asnumpy())
            for name, array in {"output": out, "loss": loss, "input": x.grad, **grads}.items()}
    return found


def kept(values):
    """The largest absolute value, then some of all."""
    flat = values.ravel().astype("float64")
    some = flat[::max(1, -(-flat.size // KEPT))]
    return [float(f"{value:.11g}") for value in (np.abs(flat).max(), *some)]


def apart(ours, theirs):
    """Name -> largest difference in parts of the array's largest value."""
    assert ours.keys() == theirs.keys()
    return {name: float(np.abs(np.array(ours[name]) - theirs[name])[1:].max() / max(
        theirs[name][0], 1e-6)) for name in theirs}


def told(ours, theirs):
    """A line for each mode."""
    for mode, figures in theirs.items():
        errors = apart(ours[mode], figures)
        grads = sorted((value, name) for name, value in errors.items()
                       if name not in ("output", "loss"))
        print(f"{mode:18} output {errors['output']:.1e}, loss {errors['loss']:.1e}, "
              f"{len(grads)} gradients: largest {grads[-1][0]:.1e} ({grads[-1][1]}), "
              f"median {grads[len(grads) // 2][0]:.1e}")


def check(mx, python):
    """MXNet writes, both run the full network; printed is how far apart they are."""
    with tempfile.TemporaryDirectory() as folder:
        for width in WIDTHS:
            path = os.path.join(folder, width)
            save(mx, width, path)
            done = subprocess.run([python, __file__, "minigluon", "run", path, width], check=True,
                                  stdout=subprocess.PIPE,
                                  env={**os.environ, "PYTHONPATH": f"{HERE}/../.."})
            print(width)
            told(json.loads(done.stdout), run(mx, path, width))


if __name__ == "__main__":
    os.environ["MXNET_MKLDNN_ENABLED"] = "0"
    module, action, *rest = sys.argv[1:]
    module = importlib.import_module(module)
    if action == "record":
        save(module, "narrow", f"{FIGURES}.params")
        with open(f"{FIGURES}.json", "w") as file:
            json.dump(run(module, f"{FIGURES}.params", "narrow"), file, separators=(",", ":"))
    elif action == "run":
        print(json.dumps(run(module, *rest)))
    else:
        check(module, *rest)
