"""Fine-tune a network of the model zoo: what it knows of some digits helps it to learn others.

    python examples/fine_tune/train.py
    python examples/fine_tune/train.py --model mobilenetv2_0.25

First the network learns the digits 0 to 4, of which there are many. Then it gets a new output
layer and learns 5 to 9 from a few hundred: once from scratch, once with what it has learned before.
With ``get_model(name, pretrained=True)`` the same is done with weights trained on ImageNet, where
those can be fetched.
"""
from __future__ import annotations

import argparse
import os
import tempfile

import minigluon as mx
from minigluon import autograd, gluon, nd
from minigluon.gluon.data import ArrayDataset, DataLoader
from minigluon.gluon.data.vision import MNIST
from minigluon.gluon.model_zoo import vision


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="mobilenet0.25", help="a name of vision.get_model")
    parser.add_argument("--epochs", type=int, default=4, help="passes over the digits 0 to 4")
    parser.add_argument("--few", type=int, default=250, help="samples of the digits 5 to 9")
    parser.add_argument("--tune-epochs", type=int, default=12, help="passes over the few")
    parser.add_argument("--batch-size", type=int, default=50)
    parser.add_argument("--lr", type=float, default=0.005)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=int, default=None, help="use only N samples of 0 to 4")
    return parser.parse_args()


def digits(train: bool, high: bool, limit: int | None = None) -> ArrayDataset:
    """The digits 0 to 4, or 5 to 9 (labelled 0 to 4), as (3, 32, 32) images of mean 0."""
    images, labels = MNIST(train=train)[:]
    chosen = [i for i, label in enumerate(labels) if (label > 4) == high][:limit]
    pictures = nd.array(images.asnumpy()[chosen], dtype="float32").transpose((0, 3, 1, 2))
    pictures = nd.pad(pictures, mode="constant", pad_width=(0, 0, 0, 0, 2, 2, 2, 2))
    return ArrayDataset(nd.tile(pictures / 128 - 1, (1, 3, 1, 1)), labels[chosen] % 5)


def learn(net, data: ArrayDataset, args: argparse.Namespace, epochs: int) -> float:
    """Train; returns the last epoch's loss."""
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": args.lr})
    for _ in range(epochs):
        mean = mx.metric.Loss()
        for images, labels in DataLoader(data, args.batch_size, shuffle=True):
            with autograd.record():
                loss = loss_of(net(images), labels)
            loss.backward()
            trainer.step(len(images))
            mean.update(None, loss)
    return mean.get()[1]


def accuracy(net, data: ArrayDataset) -> float:
    found = mx.metric.Accuracy()
    for images, labels in DataLoader(data, 500):
        found.update(labels, net(images))
    return found.get()[1]


def make_net(name: str) -> gluon.HybridBlock:
    net = vision.get_model(name, classes=5)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    return net


def main() -> None:
    args = parse_args()
    mx.random.seed(args.seed)
    many, few = digits(True, False, args.limit), digits(True, True, args.few)
    tests = digits(False, True)

    before = make_net(args.model)
    loss = learn(before, many, args, args.epochs)
    print(f"{args.model} on {len(many)} digits 0 to 4: loss {loss:.4f}", flush=True)

    scratch = make_net(args.model)
    learn(scratch, few, args, args.tune_epochs)
    print(f"5 to 9 from scratch, {len(few)} samples: accuracy {accuracy(scratch, tests):.3f}",
          flush=True)

    tuned = make_net(args.model)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "features.params")
        before.features.save_parameters(path)  # all but the output layer
        tuned.features.load_parameters(path)
    tuned.features.collect_params().setattr("lr_mult", 0.3)  # they know something already
    learn(tuned, few, args, args.tune_epochs)
    print(f"5 to 9 fine-tuned, {len(few)} samples: accuracy {accuracy(tuned, tests):.3f}",
          flush=True)


if __name__ == "__main__":
    main()
