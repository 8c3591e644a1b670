"""Learn handwritten digits with one network spread over two devices.

    python examples/mnist/train_model_parallel.py
    python examples/mnist/train_model_parallel.py --first gpu:0 --second gpu:1

Layers are given to a group by AttrScope; `group2ctx` says at binding where each group lives, with
its weights, their gradients and its computation. Values cross from one device to the other.
"""
from __future__ import annotations

import argparse

import numpy as np

import minigluon as mx
from minigluon import nd, sym
from minigluon.test_utils import get_mnist


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", default="cpu:0", help="device of the first layers")
    parser.add_argument("--second", default="cpu:1", help="device of the last layers")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=50)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=int, default=None, help="use only the first N digits")
    return parser.parse_args()


def context(text: str) -> mx.Context:
    kind, _, number = text.partition(":")
    return mx.Context(kind, int(number or 0))


def make_net() -> sym.Symbol:
    with mx.AttrScope(ctx_group="first"):
        net = sym.Variable("data")
        for place, filters in enumerate((20, 50), 1):
            net = sym.Convolution(net, kernel=(5, 5), num_filter=filters, name=f"conv{place}")
            net = sym.Activation(net, act_type="relu", name=f"relu{place}")
            net = sym.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max")
    with mx.AttrScope(ctx_group="second"):
        net = sym.FullyConnected(net, num_hidden=500, name="fc1")
        net = sym.Activation(net, act_type="relu", name="relu3")
        net = sym.FullyConnected(net, num_hidden=10, name="fc2")
        return sym.SoftmaxOutput(net, sym.Variable("label"), name="softmax")


def initialize(executor) -> list[str]:
    """Fill the weights where they are; returns their names."""
    fill = mx.init.Xavier()
    names = [name for name in executor.arg_dict if name not in ("data", "label")]
    for name in names:
        fill(mx.init.InitDesc(name), executor.arg_dict[name])
    return names


def accuracy(executor, batches) -> float:
    measure = mx.metric.Accuracy()
    batches.reset()
    for batch in batches:
        executor.forward(is_train=False, data=batch.data[0])
        measure.update(batch.label, executor.outputs)
    return measure.get()[1]


def main() -> None:
    args = parse_args()
    mx.random.seed(args.seed)
    digits = get_mnist()
    train = mx.io.NDArrayIter(digits["train_data"][:args.limit], digits["train_label"][:args.limit],
                              args.batch_size, shuffle=True, last_batch_handle="discard")
    test = mx.io.NDArrayIter(digits["test_data"], digits["test_label"], args.batch_size)

    groups = {"first": context(args.first), "second": context(args.second)}
    executor = make_net().simple_bind(
        groups["first"], grad_req="write", group2ctx=groups,
        data=(args.batch_size, 1, 28, 28), label=(args.batch_size,))
    names = initialize(executor)
    for name in names:
        print(f"{name} on {executor.arg_dict[name].context}")

    update = mx.optimizer.get_updater(mx.optimizer.create(
        "sgd", learning_rate=args.lr, momentum=0.9, rescale_grad=1 / args.batch_size))
    for epoch in range(1, args.epochs + 1):
        losses = []
        train.reset()
        for batch in train:
            executor.forward(is_train=True, data=batch.data[0], label=batch.label[0])
            executor.backward()
            for number, name in enumerate(names):
                update(number, executor.grad_dict[name], executor.arg_dict[name])
            right = nd.pick(executor.outputs[0], batch.label[0].as_in_context(groups["second"]))
            losses.append(-np.log(right.asnumpy() + 1e-8).mean())
        print(f"epoch {epoch}: loss {np.mean(losses):.4f}", flush=True)
    print(f"test accuracy: {accuracy(executor, test):.3f}", flush=True)


if __name__ == "__main__":
    main()
