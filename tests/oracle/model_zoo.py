"""The model zoo's figures, and a small ResNet in files.

    python tests/oracle/model_zoo.py mxnet tests/oracle/model_zoo.json     (MXNet 1.9.1)
    python tests/oracle/model_zoo.py minigluon FILE.json
    python tests/oracle/model_zoo.py mxnet write tests/oracle/resnet
    python tests/oracle/model_zoo.py minigluon read tests/oracle/resnet     (or the other way round)

For each of the 34 networks a digest of the names, shapes and order of its parameters, of what it
prints and of its graph's nodes; for one or two of each family outputs for fixed parameters, and
gradients of ResNet-18.
"""
import hashlib
import importlib
import json
import sys
import tempfile
import zlib

import numpy as np

NAMES = [f"resnet{n}_v{v}" for v in (1, 2) for n in (18, 34, 50, 101, 152)]
NAMES += [f"vgg{n}{bn}" for bn in ("", "_bn") for n in (11, 13, 16, 19)]
NAMES += ["alexnet", "inceptionv3", "squeezenet1.0", "squeezenet1.1"]
NAMES += [f"densenet{n}" for n in (121, 161, 169, 201)]
NAMES += [f"mobilenet{v}{m}" for v in ("", "v2_") for m in ("1.0", "0.75", "0.5", "0.25")]
RUN = ["resnet18_v1", "resnet18_v2", "mobilenet0.5", "mobilenetv2_0.5", "squeezenet1.1",
       "densenet121", "vgg11_bn", "alexnet", "inceptionv3"]


def side(name):
    """Height and width of the images."""
    return 299 if name == "inceptionv3" else 224


def digest(value):
    """A short word that stands for a value."""
    return hashlib.sha1(json.dumps(value).encode()).hexdigest()[:16]


def structure(mx, name):
    """Digests of the parameters, of the text, and of the nodes."""
    with mx.name.NameManager():
        net = mx.gluon.model_zoo.vision.get_model(name)
        graph = net(mx.sym.var("data"))
    shapes, _, states = graph.infer_shape(data=(1, 3, side(name), side(name)))
    names = graph.list_arguments() + graph.list_auxiliary_states()
    shapes = dict(zip(names, shapes + states, strict=True))
    params = [(place, p.name, list(shapes[p.name]))
              for place, p in net._collect_params_with_prefix().items()]
    return [digest(params), digest(list(net.collect_params())), digest(repr(net)),
            digest(graph.get_internals().list_outputs())]


def fill(mx, net):
    """Fixed parameters: He's normal distribution, drawn anew for each place."""
    for place, parameter in net._collect_params_with_prefix().items():
        shape = parameter.shape
        random = np.random.RandomState(zlib.crc32(place.encode()) & 0x7fffffff)
        if len(shape) > 1:
            some = random.standard_normal(min(99991, int(np.prod(shape))))  # quicker than all
            value = np.resize(some, shape) * np.sqrt(2 / np.prod(shape[1:]))
        elif place.endswith(("gamma", "running_var")):
            value = random.uniform(0.8, 1.2, shape)
        else:
            value = random.uniform(-0.1, 0.1, shape)
        parameter.set_data(mx.nd.array(value.astype(np.float32)))


def images(mx, name, count=1):
    """Noise; small where the first dense layer would else be huge."""
    size = {"vgg11_bn": 32, "alexnet": 64}.get(name, side(name))
    random = np.random.RandomState(5)
    return mx.nd.array(random.standard_normal((count, 3, size, size)))


def made(mx, name):
    """A network with fixed parameters."""
    net = mx.gluon.model_zoo.vision.get_model(name)
    net.initialize(mx.init.Zero())
    x = images(mx, name)
    net.infer_shape(x)
    net.hybridize()
    net(x)
    fill(mx, net)
    return net


def output(mx, name):
    """What the network computes: every hundredth of its outputs."""
    return made(mx, name)(images(mx, name)).asnumpy()[0, ::100].tolist()


def gradients(mx, name="resnet18_v1"):
    """The loss of a training step, and the sum of squares of each gradient, in float64.

    In float32 the sums of both differ from these by 1e-3: some relu switches at another sample.
    """
    net = made(mx, name)
    net.cast("float64")
    x = images(mx, name, 2)[:, :, :64, :64].astype("float64")
    label = mx.nd.array([3, 500], dtype="float64")
    with mx.autograd.record():
        loss = mx.gluon.loss.SoftmaxCELoss()(net(x), label)
    loss.backward()
    squares = {place: float((p.grad() ** 2).sum().asscalar())
               for place, p in net._collect_params_with_prefix().items() if p.grad_req != "null"}
    return {"loss": loss.asnumpy().tolist(), "squares": squares}


def small(mx):
    """A ResNet of a few thousand numbers."""
    vision = mx.gluon.model_zoo.vision
    with mx.name.NameManager():
        net = vision.ResNetV2(vision.BottleneckV2, [1, 2], [4, 8, 12], classes=3, thumbnail=True)
    net.initialize()
    x = mx.nd.array(np.random.RandomState(6).standard_normal((2, 3, 12, 12)))
    net(x)
    fill(mx, net)
    net.hybridize()
    return net, x


def files(mx, action, path):
    """Write the small ResNet's two kinds of files, or read them; what it computes."""
    net, x = small(mx)
    if action == "write":
        out = net(x)
        net.export(path)
        net.save_parameters(f"{path}.params")
        return [out.asnumpy().tolist()] * 2
    net.initialize(mx.init.Zero(), force_reinit=True)
    net.load_parameters(f"{path}.params")
    block = mx.gluon.SymbolBlock.imports(f"{path}-symbol.json", ["data"], f"{path}-0000.params")
    return [net(x).asnumpy().tolist(), block(x).asnumpy().tolist()]


if __name__ == "__main__":
    module = importlib.import_module(sys.argv[1])
    if len(sys.argv) == 4:
        print(json.dumps(files(module, *sys.argv[2:])))
    else:
        with open(sys.argv[2], "w") as file, tempfile.TemporaryDirectory() as folder:
            json.dump({"structure": {name: structure(module, name) for name in NAMES},
                       "output": {name: output(module, name) for name in RUN},
                       "gradients": gradients(module),
                       "small": files(module, "write", f"{folder}/small")}, file, indent=0)
