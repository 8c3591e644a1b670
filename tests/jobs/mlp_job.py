"""A worker's script: train the MLP for some steps on this worker's share, save the parameters.

    python tests/jobs/mlp_job.py --store device --share 4 --out one.params
    python tools/launch.py -n 4 -s 2 tests/jobs/mlp_job.py --store dist_sync --out four.params

Worker r of n takes rows [r * B, (r + 1) * B) of each union batch of n * B samples; a single
process with ``--share n`` takes the union. `--delay` makes workers late by random times.
"""
import argparse
import random
import time

import numpy as np

import minigluon as mx
from minigluon import autograd, gluon, nd
from minigluon.gluon import nn
from minigluon.gluon.data.vision import MNIST


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", default="device")
    parser.add_argument("--share", type=int, default=1, help="shares this process takes")
    parser.add_argument("--optimizer", default="sgd")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--update-on-kvstore", type=int, default=None)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=0, help="instead of --steps: whole epochs")
    parser.add_argument("--delay", type=float, default=0.0, help="longest wait before a step, s")
    parser.add_argument("--out", default="")
    parser.add_argument("--test", action="store_true", help="rank 0 prints the test accuracy")
    args = parser.parse_args()

    kv = mx.kv.create(args.store)
    workers, rank = kv.num_workers, kv.rank
    images, labels = MNIST(train=True)._data, MNIST(train=True)._label
    x = images.asnumpy().reshape(-1, 784).astype(np.float32) / 255
    y = np.asarray(labels).astype(np.float32)

    mx.random.seed(3)
    net = nn.HybridSequential()
    net.add(nn.Dense(128, activation="relu"), nn.Dense(64, activation="relu"), nn.Dense(10))
    net.initialize(mx.init.Xavier())
    net.cast(args.dtype)
    net.hybridize()
    settings = {"learning_rate": args.lr}
    if args.optimizer == "sgd":
        settings.update(momentum=args.momentum, wd=1e-4)
    on_store = None if args.update_on_kvstore is None else bool(args.update_on_kvstore)
    trainer = gluon.Trainer(net.collect_params(), args.optimizer, settings, kvstore=kv,
                            update_on_kvstore=on_store)
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    union = args.batch * max(workers, args.share)
    mine = args.batch * args.share
    per_epoch = len(x) // union
    late = random.Random()
    for step in range(args.steps or args.epochs * per_epoch):
        start = (step % per_epoch) * union + rank * mine
        if args.delay:
            time.sleep(late.uniform(0, args.delay))
        with autograd.record():
            data = nd.array(x[start:start + mine], dtype=args.dtype)
            loss = loss_of(net(data), nd.array(y[start:start + mine]))
        loss.backward()
        trainer.step(union)
    mx.nd.waitall()
    if args.out:
        net.save_parameters(args.out if workers == 1 else f"{args.out}.{rank}")
    if args.test and rank == 0:
        test = MNIST(train=False)
        tx = test._data.asnumpy().reshape(-1, 784).astype(np.float32) / 255
        guess = net(nd.array(tx, dtype=args.dtype)).asnumpy().argmax(axis=1)
        hits = guess == np.asarray(test._label)
        print(f"test accuracy: {hits.mean():.3f}", flush=True)


if __name__ == "__main__":
    main()
