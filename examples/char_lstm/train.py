"""Learn to write, character by character: an LSTM on a small text, then a sample of its own.

    python examples/char_lstm/train.py
    python examples/char_lstm/train.py --text my.txt --epochs 40 --temperature 0.5

The text (this repository's LICENSE, in its own words) is cut into `--batch-size` long strips that
are read side by side. Each step reads the next `--steps` characters of every strip and guesses the
character that follows each; the states are handed on from step to step, without their history.
"""
from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import numpy as np

import minigluon as mx
from minigluon import autograd, gluon, nd
from minigluon.gluon import nn, rnn

TEXT = Path(__file__).resolve().parents[2] / "LICENSE"


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, default=TEXT, help="the file to learn from")
    parser.add_argument("--limit", type=int, default=None, help="use only its first N characters")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=16, help="strips read side by side")
    parser.add_argument("--steps", type=int, default=35, help="characters between two updates")
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--lr", type=float, default=0.005)
    parser.add_argument("--clip", type=float, default=1.0, help="largest norm of all gradients")
    parser.add_argument("--hybridize", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--prime", default="You may ", help="what the sample begins with")
    parser.add_argument("--length", type=int, default=300, help="characters of the sample")
    parser.add_argument("--temperature", type=float, default=0.5, help="0: always the likeliest")
    return parser.parse_args()


class CharLSTM(gluon.HybridBlock):
    """Characters (time, batch) -> scores of the next one (time, batch, characters), and states."""

    def __init__(self, size: int, hidden: int, layers: int, dropout: float) -> None:
        super().__init__()
        with self.name_scope():
            self.embed = nn.Embedding(size, 32)
            self.lstm = rnn.LSTM(hidden, layers, dropout=dropout)
            self.score = nn.Dense(size, flatten=False)

    def hybrid_forward(self, F, characters, states):
        out, states = self.lstm(self.embed(characters), states)
        return self.score(out), states


def strips(codes: np.ndarray, count: int) -> np.ndarray:
    """The text as (time, count): `count` parts of equal length, side by side."""
    length = len(codes) // count
    return codes[:length * count].reshape(count, length).T


def train_epoch(net, trainer, loss_of, text, args) -> float:
    """One reading of the text; returns the mean loss of a character."""
    states = net.lstm.begin_state(batch_size=text.shape[1])
    params = list(net.collect_params().values())
    total, count = 0.0, 0
    for start in range(0, len(text) - 1, args.steps):
        end = min(start + args.steps, len(text) - 1)
        inputs, targets = nd.array(text[start:end]), nd.array(text[start + 1:end + 1])
        with autograd.record():
            scores, states = net(inputs, states)
            loss = loss_of(scores, targets).mean()
        loss.backward()
        gluon.utils.clip_global_norm([p.grad() for p in params], args.clip)
        trainer.step(1)
        states = [state.detach() for state in states]
        total += loss.asscalar() * (end - start)
        count += end - start
    return total / count


def sample(net, letters: str, prime: str, length: int, temperature: float, random) -> str:
    """`prime`, and what the net writes after it, one character at a time."""
    places = {letter: place for place, letter in enumerate(letters)}
    text = "".join(letter for letter in prime if letter in places) or letters[0]
    states = net.lstm.begin_state(batch_size=1)
    scores, states = net(nd.array([[places[letter]] for letter in text]), states)
    for _ in range(length):
        last = scores[-1, 0]
        if temperature > 0:
            chances = nd.softmax(last / temperature).asnumpy().astype("float64")
            place = random.choice(len(letters), p=chances / chances.sum())
        else:
            place = int(last.argmax(axis=0).asscalar())
        text += letters[place]
        scores, states = net(nd.array([[place]]), states)
    return text


def main() -> None:
    args = parse_args()
    mx.random.seed(args.seed)
    # without the line breaks of a page: the words matter here
    words = " ".join(args.text.read_text(encoding="utf-8").split())[:args.limit]
    letters = "".join(sorted(set(words)))
    codes = np.array([letters.index(letter) for letter in words])
    text = strips(codes, args.batch_size)
    print(f"{len(words)} characters, {len(letters)} different ones", flush=True)

    net = CharLSTM(len(letters), args.hidden, args.layers, args.dropout)
    net.initialize(mx.init.Xavier())
    if args.hybridize:
        net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": args.lr})
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    for epoch in range(1, args.epochs + 1):
        start = time.perf_counter()
        loss = train_epoch(net, trainer, loss_of, text, args)
        speed = text.size / (time.perf_counter() - start)
        print(f"epoch {epoch}: loss {loss:.3f}, perplexity {math.exp(loss):.2f}, "
              f"{speed:.0f} characters/s", flush=True)
    random = np.random.default_rng(args.seed)
    print("sample:", sample(net, letters, args.prime, args.length, args.temperature, random))


if __name__ == "__main__":
    main()
