"""A worker's script that trains on one key until something ends it; rank `--raise-at` raises."""
import argparse

import minigluon as mx
from minigluon import nd


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--raise-rank", type=int, default=-1)
    parser.add_argument("--raise-at", type=int, default=3)
    args = parser.parse_args()
    kv = mx.kv.create("dist_sync")
    kv.init("w", nd.zeros((4,)))
    kv.set_optimizer(mx.optimizer.create("sgd", learning_rate=0.1))
    out = nd.zeros((4,))
    step = 0
    while True:
        kv.push("w", nd.ones((4,)))
        kv.pull("w", out=out)
        out.wait_to_read()
        step += 1
        if step == 3:
            print(f"reached step {step}", flush=True)
        if kv.rank == args.raise_rank and step == args.raise_at:
            raise ValueError("boom in the user's script")


if __name__ == "__main__":
    main()
