"""PyTorch on the CPU. Modes: eager, eager_cl (channels last), compile (inductor)."""
import itertools
import sys

import kernels
import numpy as np
import timing
import torch
import torch.nn.functional as F
import workloads as W
from torch import nn

torch.set_num_threads(int(sys.argv[3]))
torch.manual_seed(W.SEED)


def wait(result):
    return result


def _ready(mode, module):
    return torch.compile(module) if mode == "compile" else module


def _set(net, values):
    with torch.no_grad():
        for parameter, value in zip(net.parameters(), values, strict=True):
            parameter.copy_(torch.from_numpy(value))
    return net


def _mlp():
    layers = []
    for size_in, size in zip(W.MLP[:-1], W.MLP[1:], strict=True):
        layers += [nn.Linear(size_in, size), nn.ReLU()]
    return _set(nn.Sequential(*layers[:-1]), W.mlp_values())


def _lenet():
    return _set(nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.Tanh(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.Tanh(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(800, 500), nn.Tanh(), nn.Linear(500, 10)),
        W.lenet_values())


class _Basic(nn.Module):
    def __init__(self, size_in, size, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(size_in, size, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(size, size, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(size), nn.BatchNorm2d(size)
        self.down = None
        if stride > 1:
            self.down = nn.Sequential(nn.Conv2d(size_in, size, 1, stride, bias=False),
                                      nn.BatchNorm2d(size))

    def forward(self, x):
        rest = x if self.down is None else self.down(x)
        return F.relu(self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x))))) + rest)


def _resnet():
    layers, size_in = [nn.Conv2d(3, 64, 3, 1, 1, bias=False)], 64
    for stage, size in enumerate(W.RESNET["stages"]):
        for number in range(2):
            layers.append(_Basic(size_in, size, 2 if stage and not number else 1))
            size_in = size
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


class _WithLoss(nn.Module):
    def __init__(self, net, loss):
        super().__init__()
        self.net, self.loss = net, loss

    def forward(self, x, y):
        return self.loss(self.net(x), y)


def _sgd(net):
    return torch.optim.SGD(net.parameters(), lr=W.LR, momentum=W.MOMENTUM, fused=True)


def _last(mode, x):
    if mode == "eager_cl" and x.dim() == 4:
        return x.contiguous(memory_format=torch.channels_last)
    return x


def _train(name, mode, budget, net, data, loss=F.cross_entropy):
    if mode == "eager_cl":
        net = net.to(memory_format=torch.channels_last)
    model, optimizer = _ready(mode, _WithLoss(net, loss)), _sgd(net)
    data = itertools.cycle(
        [(_last(mode, torch.from_numpy(x)),
          torch.from_numpy(y.astype(np.int64) if y.dtype == np.int32 else y)) for x, y in data])

    def step():
        x, y = next(data)
        optimizer.zero_grad(set_to_none=True)
        error = model(x, y)
        error.backward()
        optimizer.step()
        return error

    timing.measure(name, step, wait, budget)


def mlp(size):
    return lambda mode, threads, budget: _train(
        f"mlp_{size}", mode, budget, _mlp(), W.digits("flat", size))


def lenet(size):
    return lambda mode, threads, budget: _train(
        f"lenet_{size}", mode, budget, _lenet(), W.digits("nchw", size))


def resnet_train(mode, threads, budget):
    _train("resnet_train", mode, budget, _resnet(), W.digits("rgb32", 64, 4))


def resnet_infer(size):
    def run(mode, threads, budget):
        if mode == "compile":
            import torch._inductor.config as settings
            settings.freezing = True
        net = _resnet().eval()
        if mode == "eager_cl":
            net = net.to(memory_format=torch.channels_last)
        inputs = itertools.cycle(
            [_last(mode, torch.from_numpy(x)) for x, _ in W.digits("rgb32", size, 8)])
        model = _ready(mode, net)

        def step():
            with torch.no_grad():
                return model(next(inputs))

        timing.measure(f"resnet_infer_{size}", step, wait, budget, wait_each=True)
    return run


class _Language(nn.Module):
    def __init__(self):
        super().__init__()
        s = W.LSTM
        self.embed = nn.Embedding(s["vocab"], s["embed"])
        self.lstm = nn.LSTM(s["embed"], s["hidden"], s["layers"])
        self.decode = nn.Linear(s["hidden"], s["vocab"])

    def forward(self, x, y, h, c):
        out, (h, c) = self.lstm(self.embed(x), (h, c))
        error = F.cross_entropy(self.decode(out).view(-1, W.LSTM["vocab"]), y.view(-1))
        return error, h, c


def lstm(mode, threads, budget):
    s = W.LSTM
    net = _Language()
    model, optimizer = _ready(mode, net), _sgd(net)
    data = itertools.cycle(
        [(torch.from_numpy(x).long(), torch.from_numpy(y).long()) for x, y in W.words()])
    state = [torch.zeros(s["layers"], s["batch"], s["hidden"]) for _ in range(2)]

    def step():
        x, y = next(data)
        optimizer.zero_grad(set_to_none=True)
        error, h, c = model(x, y, state[0].detach(), state[1].detach())
        error.backward()
        optimizer.step()
        state[:] = h, c
        return error

    timing.measure("lstm", step, wait, budget)


class _Block(nn.Module):
    def __init__(self):
        super().__init__()
        d, ff = W.BLOCK["d"], W.BLOCK["ff"]
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, ff), nn.Linear(ff, d)
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x):
        batch, steps, d = x.shape
        heads = W.BLOCK["heads"]
        q, k, v = self.qkv(x).view(batch, steps, 3, heads, d // heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v)
        x = self.norm1(x + self.proj(mixed.transpose(1, 2).reshape(batch, steps, d)))
        return self.norm2(x + self.down(F.relu(self.up(x))))


def block(mode, threads, budget):
    _train("block", mode, budget, _Block(), W.sequences(), lambda o, y: 0.5 * F.mse_loss(o, y))


def eager(mode, threads, budget):
    start, add = torch.ones(4, 4), torch.full((4, 4), 1e-3)

    def chain():
        x = start
        for _ in range(1000):
            x = x + add
        return x

    def both():
        add.grad = None
        chain().sum().backward()
        return add.grad

    timing.measure("op", chain, wait, budget, per=1000)
    add.requires_grad_()
    timing.measure("op_recorded", both, wait, budget, per=1000)


def sizes(mode, threads, budget):
    timing.sizes(torch.ones, wait, budget)


def elementwise(mode, threads, budget):
    arrays = [torch.rand(W.ELEMENTS) * 2 - 1 for _ in range(5)]
    chain = _ready(mode, lambda a, b, c, d, e: torch.relu(a * b + c) * d - e)
    with torch.no_grad():
        timing.measure("elementwise", lambda: chain(*arrays), wait, budget)


def gemm(mode, threads, budget):
    x, y = torch.rand(W.GEMM, W.GEMM), torch.rand(W.GEMM, W.GEMM)
    timing.measure("gemm", lambda: torch.mm(x, y), wait, budget)


def conv(mode, threads, budget):
    s = W.CONV
    net = nn.Conv2d(s["c"], s["k"], s["kernel"], padding=s["pad"], bias=False)
    x = torch.rand(s["n"], s["c"], s["size"], s["size"])
    if mode == "eager_cl":
        net = net.to(memory_format=torch.channels_last)
    x = _last(mode, x).requires_grad_()

    def step():
        x.grad = net.weight.grad = None
        out = net(x)
        out.backward(torch.ones_like(out))
        return x.grad

    timing.measure("conv", step, wait, budget)


class _Images(torch.utils.data.Dataset):
    def __init__(self):
        self.images = np.random.RandomState(0).randint(0, 255, (16384, 28, 28)).astype(np.uint8)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return torch.from_numpy(self.images[i]).unsqueeze(0).float().div_(255), i


def loader(mode, threads, budget):
    batches = torch.utils.data.DataLoader(_Images(), batch_size=64, shuffle=True, drop_last=True)
    timing.loader(batches, wait)


timing.main({"mlp_64": mlp(64), "mlp_512": mlp(512), "mlp_1": mlp(1), "mlp_8": mlp(8),
             "lenet_64": lenet(64), "lenet_1": lenet(1), "lenet_8": lenet(8),
             "lenet_512": lenet(512), "resnet_train": resnet_train,
             "resnet_infer_1": resnet_infer(1), "resnet_infer_64": resnet_infer(64),
             "lstm": lstm, "block": block, "op": eager, "op_sizes": sizes,
             "elementwise": elementwise, "gemm": gemm, "conv": conv, "loader": loader,
             "kernels": lambda mode, threads, budget: kernels.torch(torch, wait)})
