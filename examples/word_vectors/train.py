"""Learn a vector for each word from the words around it: skip-gram with negative samples.

    python examples/word_vectors/train.py
    python examples/word_vectors/train.py --text my.txt --like king queen
    python examples/word_vectors/train.py --sparse

Two tables are learned. A word's vector in the first shall agree with the vectors in the second of
the words near it, and not with those of words drawn at random. The text is this repository's own
documents, unless another is given. With ``--sparse`` the gradients of the tables are row_sparse: a
step handles the vectors of its words alone.
"""
from __future__ import annotations

import argparse
import re
from collections import Counter
from pathlib import Path

import numpy as np

import minigluon as mx
from minigluon import autograd, gluon, nd
from minigluon.gluon import nn
from minigluon.gluon.data import ArrayDataset, DataLoader

ROOT = Path(__file__).resolve().parents[2]


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, nargs="*", help="files to learn from")
    parser.add_argument("--like", nargs="*", default=["worker", "array", "license"],
                        help="words whose neighbours are shown")
    parser.add_argument("--size", type=int, default=48, help="numbers in a vector")
    parser.add_argument("--window", type=int, default=4, help="how far apart near words may be")
    parser.add_argument("--negative", type=int, default=5, help="random words for each near one")
    parser.add_argument("--least", type=int, default=3, help="rarer words are left out")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--sparse", action="store_true", help="row_sparse gradients")
    parser.add_argument("--optimizer", default="adam")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=int, default=None, help="use only the first N words")
    return parser.parse_args()


def read(paths: list[Path] | None, limit: int | None) -> list[str]:
    paths = paths or [ROOT / "LICENSE", ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    text = " ".join(path.read_text(encoding="utf-8") for path in paths)
    return re.findall(r"[a-z]+", text.lower())[:limit]


def near_pairs(numbers: np.ndarray, window: int) -> np.ndarray:
    """All (word, near word)."""
    pairs = []
    for distance in range(1, window + 1):
        pairs += [np.stack([numbers[:-distance], numbers[distance:]], 1),
                  np.stack([numbers[distance:], numbers[:-distance]], 1)]
    return np.concatenate(pairs)


class SkipGram(gluon.HybridBlock):
    """How well words agree with others: (N,), (N, K) -> (N, K)."""

    def __init__(self, words: int, size: int, sparse: bool, **kwargs) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.vectors = nn.Embedding(words, size, sparse_grad=sparse)
            self.contexts = nn.Embedding(words, size, sparse_grad=sparse)

    def hybrid_forward(self, F, word, others):
        return F.batch_dot(self.contexts(others), self.vectors(word).expand_dims(2)).squeeze(2)


def main() -> None:
    args = parse_args()
    mx.random.seed(args.seed)
    random = np.random.default_rng(args.seed)
    counts = Counter(read(args.text, args.limit))
    words = [word for word, count in counts.most_common() if count >= args.least]
    number = {word: i for i, word in enumerate(words)}
    text = np.array([number[w] for w in read(args.text, args.limit) if w in number])
    often = np.array([counts[word] for word in words]) ** 0.75  # as in word2vec
    pairs = near_pairs(text, args.window)
    print(f"{len(words)} words, {len(pairs)} pairs", flush=True)

    net = SkipGram(len(words), args.size, args.sparse)
    net.initialize(mx.init.Uniform(0.5 / args.size))
    net.hybridize()
    loss_of = gluon.loss.SigmoidBinaryCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), args.optimizer, {"learning_rate": args.lr})
    loader = DataLoader(ArrayDataset(pairs.astype("float32")), args.batch_size, shuffle=True,
                        last_batch="discard")
    label = nd.concat(nd.ones((args.batch_size, 1)),
                      nd.zeros((args.batch_size, args.negative)), dim=1)
    for epoch in range(1, args.epochs + 1):
        mean = mx.metric.Loss()
        for batch in loader:
            drawn = random.choice(len(words), (args.batch_size, args.negative),
                                  p=often / often.sum())
            others = nd.concat(batch[:, 1:], nd.array(drawn), dim=1)
            with autograd.record():
                loss = loss_of(net(batch[:, 0], others), label)
            loss.backward()
            trainer.step(args.batch_size)
            mean.update(None, loss)
        print(f"epoch {epoch}: loss {mean.get()[1]:.4f}", flush=True)

    vectors = nd.L2Normalization(net.vectors.weight.data())
    for word in args.like:
        if word in number:
            likeness = nd.dot(vectors, vectors[number[word]])
            best = nd.topk(likeness, k=6).asnumpy().astype(int)[1:]
            print(f"{word}: {', '.join(words[i] for i in best)}", flush=True)


if __name__ == "__main__":
    main()
