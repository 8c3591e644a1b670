"""minigluon and MXNet: one Gluon program for both; the module's name is the fifth argument."""
import importlib
import itertools
import sys

import gluon_nets as nets
import kernels
import numpy as np
import timing
import workloads as W

mx = importlib.import_module(sys.argv[5])
nd, autograd, gluon, nn = mx.nd, mx.autograd, mx.gluon, mx.gluon.nn
mx.random.seed(W.SEED)
np.random.seed(W.SEED)


def wait(result):
    first = result[0] if isinstance(result, (list, tuple)) else result
    first.wait_to_read()


def _ready(mode, *blocks):
    if mode == "hybrid":
        for block in blocks:
            block.hybridize(static_alloc=True, static_shape=True)


def _set(net, values):
    for parameter, value in zip(net.collect_params().values(), values, strict=True):
        parameter.set_data(nd.array(value))
    return net


def _mlp():
    net = nn.HybridSequential()
    for size_in, size in zip(W.MLP[:-2], W.MLP[1:-1], strict=True):
        net.add(nn.Dense(size, activation="relu", in_units=size_in))
    net.add(nn.Dense(W.MLP[-1], in_units=W.MLP[-2]))
    net.initialize()
    return _set(net, W.mlp_values())


def _lenet():
    net = nets.lenet(mx)
    net.initialize()
    return _set(net, W.lenet_values())


def _train(name, mode, budget, net, data, size, loss=None):
    loss = loss or gluon.loss.SoftmaxCrossEntropyLoss()
    _ready(mode, net, loss)
    data = [(nd.array(x), nd.array(y)) for x, y in data]
    net(data[0][0])
    data = itertools.cycle(data)
    trainer = gluon.Trainer(net.collect_params(), "sgd",
                            {"learning_rate": W.LR, "momentum": W.MOMENTUM}, kvstore=None)

    def step():
        x, y = next(data)
        with autograd.record():
            error = loss(net(x), y)
        error.backward()
        trainer.step(size)
        return error

    def all_done(error):
        for parameter in net.collect_params().values():
            if parameter.grad_req != "null":
                parameter.data().wait_to_read()
        wait(error)

    timing.measure(name, step, all_done, budget)


def mlp(size):
    return lambda mode, threads, budget: _train(
        f"mlp_{size}", mode, budget, _mlp(), W.digits("flat", size), size)


def lenet(size):
    return lambda mode, threads, budget: _train(
        f"lenet_{size}", mode, budget, _lenet(), W.digits("nchw", size), size)


def resnet_train(mode, threads, budget):
    _train("resnet_train", mode, budget, nets.resnet18(mx), W.digits("rgb32", 64, 4), 64)


def resnet_infer(size):
    def run(mode, threads, budget):
        net = nets.resnet18(mx)
        inputs = [nd.array(x) for x, _ in W.digits("rgb32", size, 8)]
        with autograd.train_mode():
            net(inputs[0])
        _ready(mode, net)
        inputs = itertools.cycle(inputs)
        timing.measure(f"resnet_infer_{size}", lambda: net(next(inputs)), wait, budget,
                       wait_each=True)
    return run


class _Language(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        s = W.LSTM
        with self.name_scope():
            self.embed = nn.Embedding(s["vocab"], s["embed"])
            self.lstm = gluon.rnn.LSTM(s["hidden"], s["layers"], input_size=s["embed"])
            self.decode = nn.Dense(s["vocab"], flatten=False, in_units=s["hidden"])

    def hybrid_forward(self, F, x, h, c):
        out, (h, c) = self.lstm(self.embed(x), [h, c])
        return self.decode(out), h, c


def lstm(mode, threads, budget):
    s = W.LSTM
    net, loss = _Language(), gluon.loss.SoftmaxCrossEntropyLoss()
    net.initialize(mx.init.Xavier())
    _ready(mode, net, loss)
    data = itertools.cycle([(nd.array(x), nd.array(y)) for x, y in W.words()])
    state = [nd.zeros((s["layers"], s["batch"], s["hidden"])) for _ in range(2)]
    trainer = gluon.Trainer(net.collect_params(), "sgd",
                            {"learning_rate": W.LR, "momentum": W.MOMENTUM}, kvstore=None)

    def step():
        x, y = next(data)
        h, c = state[0].detach(), state[1].detach()
        with autograd.record():
            out, h, c = net(x, h, c)
            error = loss(out.reshape((-1, s["vocab"])), y.reshape((-1,)))
        error.backward()
        trainer.step(s["steps"] * s["batch"])
        state[:] = h, c
        return error

    def all_done(error):
        for parameter in net.collect_params().values():
            parameter.data().wait_to_read()
        wait(error)

    timing.measure("lstm", step, all_done, budget)


class _Block(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        d = W.BLOCK["d"]
        with self.name_scope():
            self.qkv = nn.Dense(3 * d, flatten=False, in_units=d)
            self.proj = nn.Dense(d, flatten=False, in_units=d)
            self.up = nn.Dense(W.BLOCK["ff"], flatten=False, in_units=d, activation="relu")
            self.down = nn.Dense(d, flatten=False, in_units=W.BLOCK["ff"])
            self.norm1, self.norm2 = nn.LayerNorm(in_channels=d), nn.LayerNorm(in_channels=d)

    def hybrid_forward(self, F, x):  # (seq, batch, d)
        heads, qkv = W.BLOCK["heads"], self.qkv(x)
        scores = F.contrib.interleaved_matmul_selfatt_qk(qkv, heads=heads)
        mixed = F.contrib.interleaved_matmul_selfatt_valatt(qkv, F.softmax(scores), heads=heads)
        x = self.norm1(x + self.proj(mixed))
        return self.norm2(x + self.down(self.up(x)))


def block(mode, threads, budget):
    net = _Block()
    net.initialize(mx.init.Xavier())
    data = [(x.transpose(1, 0, 2), y.transpose(1, 0, 2)) for x, y in W.sequences()]
    _train("block", mode, budget, net, data, W.BLOCK["seq"], gluon.loss.L2Loss())


def eager(mode, threads, budget):
    start, add = nd.ones((4, 4)), nd.ones((4, 4)) * 1e-3

    def chain():
        x = start
        for _ in range(1000):
            x = x + add
        return x

    def both():
        x = start
        with autograd.record():
            for _ in range(1000):
                x = x + add
        x.backward()
        return add.grad

    timing.measure("op", chain, wait, budget, per=1000)
    add.attach_grad()
    timing.measure("op_recorded", both, wait, budget, per=1000)


def sizes(mode, threads, budget):
    timing.sizes(lambda size: nd.ones((size,)), wait, budget)


def elementwise(mode, threads, budget):
    class Chain(gluon.HybridBlock):
        def hybrid_forward(self, F, a, b, c, d, e):
            return F.relu(a * b + c) * d - e

    net, arrays = Chain(), [nd.random.uniform(-1, 1, (W.ELEMENTS,)) for _ in range(5)]
    _ready(mode, net)
    timing.measure("elementwise", lambda: net(*arrays), wait, budget)


def gemm(mode, threads, budget):
    x, y = (nd.random.uniform(-1, 1, (W.GEMM, W.GEMM)) for _ in range(2))
    timing.measure("gemm", lambda: nd.dot(x, y), wait, budget)


def conv(mode, threads, budget):
    s = W.CONV
    net = nn.Conv2D(s["k"], s["kernel"], padding=s["pad"], in_channels=s["c"], use_bias=False)
    net.initialize(mx.init.Xavier())
    _ready(mode, net)
    x = nd.random.uniform(-1, 1, (s["n"], s["c"], s["size"], s["size"]))
    x.attach_grad()

    def step():
        with autograd.record():
            out = net(x)
        out.backward()
        net.weight.grad().wait_to_read()
        return x.grad

    timing.measure("conv", step, wait, budget)


def loader(mode, threads, budget):
    images = nd.array(np.random.RandomState(0).randint(0, 255, (16384, 28, 28, 1)), dtype="uint8")
    labels = np.arange(16384, dtype=np.int32)
    to_tensor = gluon.data.vision.transforms.ToTensor()
    data = gluon.data.ArrayDataset(images, labels).transform_first(to_tensor)
    batches = gluon.data.DataLoader(data, batch_size=64, shuffle=True, last_batch="discard")
    timing.loader(batches, wait)


timing.main({"mlp_64": mlp(64), "mlp_512": mlp(512), "mlp_1": mlp(1), "mlp_8": mlp(8),
             "lenet_64": lenet(64), "lenet_1": lenet(1), "lenet_8": lenet(8),
             "lenet_512": lenet(512), "resnet_train": resnet_train,
             "resnet_infer_1": resnet_infer(1), "resnet_infer_64": resnet_infer(64),
             "lstm": lstm, "block": block, "op": eager, "op_sizes": sizes,
             "elementwise": elementwise, "gemm": gemm, "conv": conv, "loader": loader,
             "kernels": lambda mode, threads, budget: kernels.gluon(mx, wait)})
