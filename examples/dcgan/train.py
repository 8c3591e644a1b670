"""Draw digits that nobody wrote: a deep convolutional generative adversarial network.

    python examples/dcgan/train.py

A generator makes images from noise; a discriminator learns to tell them from real digits; each
learns from the other's mistakes. At the end some drawings are shown as text, and can be saved.
"""
from __future__ import annotations

import argparse
import time

import numpy as np

import minigluon as mx
from minigluon import autograd, gluon, nd
from minigluon.gluon import nn
from minigluon.gluon.data import DataLoader
from minigluon.gluon.data.vision import MNIST


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--noise", type=int, default=32, help="numbers a drawing is made from")
    parser.add_argument("--width", type=int, default=16, help="channels of the widest image")
    parser.add_argument("--lr", type=float, default=0.001)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=int, default=None, help="use only the first N digits")
    parser.add_argument("--save", default="", help="file for the drawings (a PGM image)")
    return parser.parse_args()


def make_generator(width: int) -> nn.HybridSequential:
    """(N, noise, 1, 1) -> (N, 1, 28, 28) in -1..1."""
    net = nn.HybridSequential()
    net.add(nn.Conv2DTranspose(4 * width, 7, use_bias=False), nn.BatchNorm(),
            nn.Activation("relu"),
            nn.Conv2DTranspose(2 * width, 4, strides=2, padding=1, use_bias=False),
            nn.BatchNorm(), nn.Activation("relu"),
            nn.Conv2DTranspose(1, 4, strides=2, padding=1), nn.Activation("tanh"))
    return net


def make_discriminator(width: int) -> nn.HybridSequential:
    """(N, 1, 28, 28) -> (N, 1): greater than 0 for what looks real."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(width, 4, strides=2, padding=1), nn.LeakyReLU(0.2),
            nn.Conv2D(2 * width, 4, strides=2, padding=1, use_bias=False), nn.BatchNorm(),
            nn.LeakyReLU(0.2), nn.Dense(1))
    return net


def trained(net: nn.HybridSequential, lr: float) -> gluon.Trainer:
    net.initialize(mx.init.Normal(0.05))
    net.hybridize()
    return gluon.Trainer(net.collect_params(), "adam", {"learning_rate": lr, "beta1": 0.5})


def as_text(image: np.ndarray) -> str:
    """Every second row of an image in -1..1, one character a pixel."""
    shades = np.array(list(" .:oO@"))
    return "\n".join("".join(row) for row in shades[((image[::2] + 1) * 2.99).astype(int)])


def main() -> None:
    args = parse_args()
    mx.random.seed(args.seed)
    digits = MNIST(train=True).take(args.limit).transform_first(
        lambda image: image.transpose((2, 0, 1)).astype("float32") / 127.5 - 1)
    loader = DataLoader(digits, args.batch_size, shuffle=True, last_batch="discard")
    generator, discriminator = make_generator(args.width), make_discriminator(args.width)
    draws, judges = trained(generator, args.lr), trained(discriminator, args.lr)
    loss_of = gluon.loss.SigmoidBinaryCrossEntropyLoss()
    ones, zeros = nd.ones((args.batch_size, 1)), nd.zeros((args.batch_size, 1))

    def noise() -> nd.NDArray:
        return nd.random.normal(shape=(args.batch_size, args.noise, 1, 1))

    for epoch in range(1, args.epochs + 1):
        judged, fooled, start = mx.metric.Loss(), mx.metric.Loss(), time.perf_counter()
        for real, _ in loader:
            with autograd.record():
                drawn = generator(noise())
                loss = (loss_of(discriminator(real), ones)
                        + loss_of(discriminator(drawn.detach()), zeros)) / 2
            loss.backward()
            judges.step(args.batch_size)
            judged.update(None, loss)

            with autograd.record():
                loss = loss_of(discriminator(generator(noise())), ones)
            loss.backward()
            draws.step(args.batch_size)
            fooled.update(None, loss)
        speed = judged.num_inst / (time.perf_counter() - start)
        print(f"epoch {epoch}: discriminator {judged.get()[1]:.3f}, generator "
              f"{fooled.get()[1]:.3f}, {speed:.0f} samples/s", flush=True)

    images = generator(noise()).asnumpy()[:, 0]
    print(as_text(np.hstack(images[:3])))
    if args.save:
        sheet = np.vstack([np.hstack(images[i:i + 8]) for i in range(0, 32, 8)])
        with open(args.save, "wb") as file:
            file.write(b"P5 %d %d 255\n" % sheet.shape[::-1])
            file.write(((sheet + 1) * 127.5).astype(np.uint8).tobytes())
    ink = [float((part > 0).mean()) for part in (images, real.asnumpy())]
    print(f"share of ink: drawn {ink[0]:.3f}, real {ink[1]:.3f}", flush=True)


if __name__ == "__main__":
    main()
