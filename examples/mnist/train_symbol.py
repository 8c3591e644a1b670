"""Learn handwritten digits with a symbol and a Module: the way before Gluon.

    python examples/mnist/train_symbol.py
    python examples/mnist/train_symbol.py --net mlp --ctx cpu:2 --prefix digits
    python tools/launch.py -n 2 -s 1 examples/mnist/train_symbol.py

With `--prefix digits` each epoch leaves a checkpoint, and `--load-epoch 2` goes on from one.
"""
from __future__ import annotations

import argparse
import logging
import os

import minigluon as mx
from minigluon import sym
from minigluon.test_utils import get_mnist


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    launched = "DMLC_ROLE" in os.environ  # by tools/launch.py
    parser.add_argument("--net", choices=["mlp", "lenet"], default="lenet")
    parser.add_argument("--kvstore", default="dist_sync" if launched else "local")
    parser.add_argument("--ctx", default="cpu", help="cpu, gpu, or with a count: cpu:2, gpu:4")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=50, help="digits per worker and step")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--prefix", default=None, help="of the files of checkpoints")
    parser.add_argument("--load-epoch", type=int, default=None, help="go on from this checkpoint")
    parser.add_argument("--limit", type=int, default=None, help="use only the first N digits")
    return parser.parse_args()


def contexts(text: str) -> list[mx.Context]:
    kind, _, count = text.partition(":")
    return [mx.Context(kind, i) for i in range(int(count or 1))]


def make_net(name: str) -> sym.Symbol:
    net = sym.Variable("data")
    if name == "mlp":
        for place, size in enumerate((128, 64), 1):
            net = sym.FullyConnected(net, num_hidden=size, name=f"fc{place}")
            net = sym.Activation(net, act_type="relu", name=f"relu{place}")
    else:
        for place, filters in enumerate((20, 50), 1):
            net = sym.Convolution(net, kernel=(5, 5), num_filter=filters, name=f"conv{place}")
            net = sym.Activation(net, act_type="relu", name=f"relu{place}")
            net = sym.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max")
        net = sym.FullyConnected(net, num_hidden=500, name="fc1")
        net = sym.Activation(net, act_type="relu", name="relu3")
    net = sym.FullyConnected(net, num_hidden=10, name="scores")
    return sym.SoftmaxOutput(net, name="softmax")


def main() -> None:
    args = parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    mx.random.seed(args.seed)
    kv = mx.kv.create(args.kvstore)
    digits = get_mnist()

    mine = slice(kv.rank, args.limit, kv.num_workers)  # every worker has its own part
    train = mx.io.NDArrayIter(digits["train_data"][mine], digits["train_label"][mine],
                              args.batch_size, shuffle=True, last_batch_handle="discard")
    test = mx.io.NDArrayIter(digits["test_data"], digits["test_label"], args.batch_size)

    settings = {"context": contexts(args.ctx)}
    if args.load_epoch is None:
        module = mx.mod.Module(make_net(args.net), **settings)
    else:
        module = mx.mod.Module.load(args.prefix, args.load_epoch, True, **settings)
    after_epoch = []
    if args.prefix and kv.rank == 0:
        after_epoch = [mx.callback.module_checkpoint(module, args.prefix,
                                                     save_optimizer_states=True)]
    module.fit(
        train,
        kvstore=kv,
        optimizer="sgd",
        optimizer_params={"learning_rate": args.lr, "momentum": 0.9},
        initializer=mx.init.Xavier(),
        begin_epoch=args.load_epoch or 0,
        num_epoch=args.epochs,
        batch_end_callback=mx.callback.Speedometer(args.batch_size, 50),
        epoch_end_callback=after_epoch,
    )
    if kv.rank == 0:
        [(_, accuracy)] = module.score(test, "acc")
        print(f"test accuracy: {accuracy:.3f}", flush=True)


if __name__ == "__main__":
    main()
