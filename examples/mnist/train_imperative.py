"""Learn handwritten digits with arrays and autograd alone: no layers, no Trainer.

    python examples/mnist/train_imperative.py
"""
from __future__ import annotations

import argparse
import time

import minigluon as mx
from minigluon import autograd, nd
from minigluon.gluon.data import DataLoader
from minigluon.gluon.data.vision import MNIST, transforms


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=int, default=None, help="use only the first N digits")
    return parser.parse_args()


def make_parameters(hidden: int) -> list[nd.NDArray]:
    """Weights and biases of two layers, each with room for its gradient."""
    parameters = [nd.random.normal(scale=0.05, shape=(784, hidden)), nd.zeros((hidden,)),
                  nd.random.normal(scale=0.05, shape=(hidden, 10)), nd.zeros((10,))]
    for parameter in parameters:
        parameter.attach_grad()
    return parameters


def forward(x: nd.NDArray, parameters: list[nd.NDArray]) -> nd.NDArray:
    w1, b1, w2, b2 = parameters
    hidden = nd.relu(nd.dot(x.reshape((0, -1)), w1) + b1)
    return nd.dot(hidden, w2) + b2


def cross_entropy(outputs: nd.NDArray, labels: nd.NDArray) -> nd.NDArray:
    return -nd.pick(nd.log_softmax(outputs), labels)


def main() -> None:
    args = parse_args()
    mx.random.seed(args.seed)
    to_tensor = transforms.ToTensor()
    digits = MNIST(train=True).take(args.limit).transform_first(to_tensor)
    loader = DataLoader(digits, args.batch_size, shuffle=True, last_batch="discard")
    parameters = make_parameters(args.hidden)

    for epoch in range(1, args.epochs + 1):
        total, count, start = 0.0, 0, time.perf_counter()
        for images, labels in loader:
            with autograd.record():
                loss = cross_entropy(forward(images, parameters), labels.astype("float32")).mean()
            loss.backward()
            for parameter in parameters:
                parameter -= args.lr * parameter.grad
            total += loss.asscalar() * len(images)
            count += len(images)
        speed = count / (time.perf_counter() - start)
        print(f"epoch {epoch}: loss {total / count:.4f}, {speed:.0f} samples/s", flush=True)

    right = count = 0
    for images, labels in DataLoader(MNIST(train=False).transform_first(to_tensor), 500):
        predicted = forward(images, parameters).argmax(axis=1)
        right += (predicted == labels.astype("float32")).sum().asscalar()
        count += len(images)
    print(f"test accuracy: {right / count:.3f}", flush=True)


if __name__ == "__main__":
    main()
