"""Learn handwritten digits: in one process, on several devices, or with many workers.

    python examples/mnist/train.py
    python examples/mnist/train.py --net mlp --ctx cpu:2 --no-hybridize
    python tools/launch.py -n 4 -s 2 examples/mnist/train.py

Each worker trains on its own part of the digits; the KVStore adds the workers' gradients up, so
the batch of one step is `--batch-size` times the number of workers.
"""
from __future__ import annotations

import argparse
import os
import time

from tqdm import tqdm

import minigluon as mx
from minigluon import autograd, gluon
from minigluon.gluon import nn
from minigluon.gluon.data import DataLoader, SplitSampler
from minigluon.gluon.data.vision import MNIST, transforms


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    launched = "DMLC_ROLE" in os.environ  # by tools/launch.py
    parser.add_argument("--net", choices=["mlp", "lenet"], default="lenet")
    parser.add_argument("--kvstore", default="dist_sync" if launched else "device")
    parser.add_argument("--ctx", default="cpu", help="cpu, gpu, or with a count: cpu:2, gpu:4")
    parser.add_argument("--hybridize", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=32, help="digits per worker and step")
    parser.add_argument("--lr", type=float, default=0.03)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data-dir", default=None, help="folder with the four MNIST files")
    parser.add_argument("--save", default="mnist.params", help="file of the parameters, or ''")
    parser.add_argument("--num-workers", type=int, default=0, help="processes that make batches")
    parser.add_argument("--log-interval", type=int, default=20, help="steps between figures")
    parser.add_argument("--limit", type=int, default=None, help="use only the first N digits")
    return parser.parse_args()


def contexts(text: str) -> list[mx.Context]:
    kind, _, count = text.partition(":")
    return [mx.Context(kind, i) for i in range(int(count or 1))]


def make_net(name: str) -> nn.HybridSequential:
    net = nn.HybridSequential()
    if name == "mlp":
        net.add(nn.Dense(128, activation="relu"),
                nn.Dense(64, activation="relu"))
    else:
        net.add(nn.Conv2D(20, kernel_size=5, activation="relu"), nn.MaxPool2D(2, 2),
                nn.Conv2D(50, kernel_size=5, activation="relu"), nn.MaxPool2D(2, 2),
                nn.Dense(500, activation="relu"))
    net.add(nn.Dense(10))
    return net


def train_epoch(net, trainer, batches, loss_of, ctx, workers, log_interval):
    """One pass over this worker's digits; returns mean loss, accuracy, samples per second."""
    accuracy, total, count, start = mx.metric.Accuracy(), 0.0, 0, time.perf_counter()
    for step, (images, labels) in enumerate(batches, 1):
        xs = gluon.utils.split_and_load(images, ctx, even_split=False)
        ys = gluon.utils.split_and_load(labels, ctx, even_split=False)
        with autograd.record():
            outputs = [net(x) for x in xs]
            losses = [loss_of(output, y) for output, y in zip(outputs, ys, strict=True)]
        autograd.backward(losses)
        trainer.step(len(images) * workers)

        accuracy.update(ys, outputs)
        total += sum(loss.sum().asscalar() for loss in losses)
        count += len(images)
        if step % log_interval == 0:
            batches.set_postfix(loss=f"{total / count:.4f}", accuracy=f"{accuracy.get()[1]:.3f}")
    return total / count, accuracy.get()[1], count / (time.perf_counter() - start)


def evaluate(net, batches, ctx) -> float:
    accuracy = mx.metric.Accuracy()
    for images, labels in batches:
        accuracy.update([labels], [net(images.as_in_context(ctx))])
    return accuracy.get()[1]


def main() -> None:
    args = parse_args()
    mx.random.seed(args.seed)
    ctx = contexts(args.ctx)
    kv = mx.kv.create(args.kvstore)
    rank, workers = kv.rank, kv.num_workers

    to_tensor = transforms.ToTensor()
    digits = MNIST(args.data_dir, train=True).take(args.limit).transform_first(to_tensor)
    part = SplitSampler(len(digits), workers, rank, seed=args.seed)
    loader = DataLoader(digits, args.batch_size, sampler=part, last_batch="discard",
                        num_workers=args.num_workers)

    net = make_net(args.net)
    net.initialize(mx.init.Xavier(), ctx=ctx)
    if args.hybridize:
        net.hybridize()
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd",
                            {"learning_rate": args.lr, "momentum": args.momentum}, kvstore=kv)

    for epoch in range(1, args.epochs + 1):
        with tqdm(loader, f"epoch {epoch}", disable=rank != 0, leave=False) as batches:
            loss, accuracy, speed = train_epoch(net, trainer, batches, loss_of, ctx, workers,
                                                args.log_interval)
        if rank == 0:
            print(f"epoch {epoch}: loss {loss:.4f}, train accuracy {accuracy:.3f}, "
                  f"{speed * workers:.0f} samples/s", flush=True)

    if rank == 0:
        tests = MNIST(args.data_dir, train=False).transform_first(to_tensor)
        if args.save:
            net.save_parameters(args.save)
            print(f"parameters saved in {args.save}")
        print(f"test accuracy: {evaluate(net, DataLoader(tests, 500), ctx[0]):.3f}", flush=True)


if __name__ == "__main__":
    main()
