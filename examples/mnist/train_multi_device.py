"""Learn handwritten digits on several devices of one machine: each computes a part of every batch.

    python examples/mnist/train_multi_device.py                  two parts, both on the CPU
    python examples/mnist/train_multi_device.py --ctx gpu --devices 4

Any ``mx.cpu(i)`` is a device of its own, so the program can be tried without GPUs. A copy of each
parameter lives on every device; the KVStore 'device' adds their gradients up and gives every copy
the same new value.
"""
from __future__ import annotations

import argparse
import time

import minigluon as mx
from minigluon import autograd, gluon
from minigluon.gluon import nn
from minigluon.gluon.data import DataLoader
from minigluon.gluon.data.vision import MNIST, transforms


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ctx", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=64, help="digits for all devices")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=int, default=None, help="use only the first N digits")
    return parser.parse_args()


def make_net(ctx: list[mx.Context]) -> nn.HybridSequential:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(16, kernel_size=5, activation="relu"), nn.MaxPool2D(2, 2),
            nn.Conv2D(32, kernel_size=5, activation="relu"), nn.MaxPool2D(2, 2),
            nn.Dense(64, activation="relu"), nn.Dense(10))
    net.initialize(mx.init.Xavier(), ctx=ctx)
    net.hybridize()
    return net


def parts(arrays, ctx):
    """Each array cut into a part for every device."""
    return [gluon.utils.split_and_load(array, ctx, even_split=False) for array in arrays]


def main() -> None:
    args = parse_args()
    mx.random.seed(args.seed)
    ctx = [mx.Context(args.ctx, i) for i in range(args.devices)]
    to_tensor = transforms.ToTensor()
    digits = MNIST(train=True).take(args.limit).transform_first(to_tensor)
    loader = DataLoader(digits, args.batch_size, shuffle=True, last_batch="discard")
    net = make_net(ctx)
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd",
                            {"learning_rate": args.lr, "momentum": 0.5}, kvstore="device")

    for epoch in range(1, args.epochs + 1):
        loss = mx.metric.Loss()
        start = time.perf_counter()
        for batch in loader:
            images, labels = parts(batch, ctx)
            with autograd.record():
                losses = [loss_of(net(x), y) for x, y in zip(images, labels, strict=True)]
            autograd.backward(losses)
            trainer.step(len(batch[0]))
            loss.update(None, losses)
        speed = loss.num_inst / (time.perf_counter() - start)
        print(f"epoch {epoch}: loss {loss.get()[1]:.4f}, {speed:.0f} samples/s on "
              f"{', '.join(map(str, ctx))}", flush=True)

    accuracy = mx.metric.Accuracy()
    for batch in DataLoader(MNIST(train=False).transform_first(to_tensor), 500):
        images, labels = parts(batch, ctx)
        accuracy.update(labels, [net(x) for x in images])
    first, *others = net[-1].weight.list_data()
    apart = max((abs(first.asnumpy() - other.asnumpy()).max() for other in others), default=0)
    print(f"largest difference between the devices' copies: {apart}")
    print(f"test accuracy: {accuracy.get()[1]:.3f}", flush=True)


if __name__ == "__main__":
    main()
