"""Learn what users think of items from some ratings: a vector for each user and each item.

    python examples/matrix_factorization/train.py
    python examples/matrix_factorization/train.py --sparse
    python tools/launch.py -n 2 -s 2 examples/matrix_factorization/train.py --sparse

A rating is the product of the user's vector and the item's. With ``--sparse`` the tables stay in
the KVStore: a step fetches the rows of its users and items, and sends the gradients of these rows.
Losses are those of the dense run, as long as the optimizer changes only what has a gradient (plain
SGD does; Adam would move vectors by their past as well). What travels grows with the rows that a
step touches, and not with the tables. In a job each worker takes its share of every batch.

The ratings are made up: true vectors of a lower rank, and noise.
"""
from __future__ import annotations

import argparse
import os

import numpy as np

import minigluon as mx
from minigluon import autograd, gluon, nd
from minigluon.gluon import nn
from minigluon.gluon.contrib.nn import SparseEmbedding


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=6000)
    parser.add_argument("--items", type=int, default=4000)
    parser.add_argument("--size", type=int, default=32, help="numbers in a vector")
    parser.add_argument("--ratings", type=int, default=100_000)
    parser.add_argument("--batch-size", type=int, default=512, help="ratings a step, all workers")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--limit", type=int, default=None, help="so many steps an epoch at most")
    parser.add_argument("--sparse", action="store_true", help="rows travel, not tables")
    parser.add_argument("--optimizer", default="sgd")
    parser.add_argument("--lr", type=float, default=0.1, help="for each rating")
    parser.add_argument("--kvstore", default=None, help="dist_sync in a job, else local")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def make_ratings(args: argparse.Namespace) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Users, items and ratings."""
    random = np.random.default_rng(args.seed)
    likes = random.normal(0, 1, (args.users, 8)), random.normal(0, 1, (args.items, 8))
    users = random.integers(0, args.users, args.ratings)
    items = random.integers(0, args.items, args.ratings)
    ratings = (likes[0][users] * likes[1][items]).sum(1) / 8 ** 0.5
    noise = random.normal(0, 0.1, args.ratings)
    return users, items, (ratings + noise).astype(np.float32)


class Factors(gluon.Block):
    """Users (N,) and items (N,) -> ratings (N,)."""

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__()
        table = SparseEmbedding if args.sparse else nn.Embedding
        with self.name_scope():
            self.users = table(args.users, args.size)
            self.items = table(args.items, args.size)

    def forward(self, users: nd.NDArray, items: nd.NDArray) -> nd.NDArray:
        return (self.users(users) * self.items(items)).sum(axis=1)


def main() -> None:
    args = parse_args()
    in_job = "DMLC_ROLE" in os.environ
    store = mx.kv.create(args.kvstore or ("dist_sync" if in_job else "local"))
    mx.random.seed(args.seed)
    users, items, ratings = make_ratings(args)
    net = Factors(args)
    net.initialize(mx.init.Normal(0.3))
    trainer = gluon.Trainer(net.collect_params(), args.optimizer, {"learning_rate": args.lr},
                            kvstore=store)
    loss_of = gluon.loss.L2Loss()
    share = args.batch_size // store.num_workers
    steps = min(args.ratings // args.batch_size, args.limit or args.ratings)
    before, rows = None, 0
    for epoch in range(1, args.epochs + 1):
        total = 0.0
        for step in range(steps):
            begin = step * args.batch_size + store.rank * share
            mine = slice(begin, begin + share)
            with autograd.record():
                guess = net(nd.array(users[mine]), nd.array(items[mine]))
                loss = loss_of(guess, nd.array(ratings[mine]))
            loss.backward()
            trainer.step(1)  # a rating moves vectors of its own: nothing to average
            total += float(loss.mean().asscalar())
            rows += len(np.unique(users[mine])) + len(np.unique(items[mine]))
            if before is None:
                nd.waitall()
                before = counted(store)  # the first step brings the tables to the servers
                rows = 0
        print(f"epoch {epoch}: loss {total / steps:.6f}", flush=True)
    nd.waitall()
    if before is not None:
        after, count = counted(store), args.epochs * steps - 1
        moved = [(after[name] - before[name]) / count / store.num_workers for name in after]
        print(f"a step of one worker: {rows / count:.0f} rows; {moved[0]:.0f} bytes sent, "
              f"{moved[1]:.0f} bytes received", flush=True)


def counted(store: mx.kvstore.KVStoreBase) -> dict[str, int]:
    """Bytes of values that have come to servers and gone from them, of all workers; else zeros."""
    found = {}
    if "dist" in store.type:
        store.stats()  # answered when all this worker has sent before has arrived
        store.barrier()
        found = store.stats()
        store.barrier()
    return {name: found.get(name, 0) for name in ("bytes_in", "bytes_out")}


if __name__ == "__main__":
    main()
