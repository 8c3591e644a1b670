"""Peak memory of ResNet-18 training, and whether it stays the same.

    python -m benchmarks.memory [minigluon | mxnet] [STEPS] [BATCH]

Trains ResNet-18 (32 x 32 images, hybridized, SGD with momentum) on bundled digits and prints one
JSON line: resident memory in MB after a tenth and half of the steps and at the end, and the peak.
Run it in MXNet's environment with ``python benchmarks/memory.py mxnet``.
"""
import importlib
import json
import os
import resource
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
if __package__ in (None, ""):  # as a file: the checkout is not on the path
    sys.path.insert(1, os.path.dirname(sys.path[0]))

import gluon_nets
import workloads as W


def resident():
    """Resident memory of this process in MB."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize() / 2**20


def main(name="minigluon", steps="200", batch="64"):
    """Train and print what was seen."""
    mx, steps, batch = importlib.import_module(name), int(steps), int(batch)
    net, loss = gluon_nets.resnet18(mx), mx.gluon.loss.SoftmaxCrossEntropyLoss()
    for block in (net, loss):
        block.hybridize(static_alloc=True, static_shape=True)
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd",
                               {"learning_rate": W.LR, "momentum": W.MOMENTUM}, kvstore=None)
    data = [(mx.nd.array(x), mx.nd.array(y)) for x, y in W.digits("rgb32", batch, 4)]
    seen = {}
    for step in range(1, steps + 1):
        x, y = data[step % len(data)]
        with mx.autograd.record():
            error = loss(net(x), y)
        error.backward()
        trainer.step(batch)
        error.wait_to_read()
        if step in (max(1, steps // 10), steps // 2, steps):
            mx.nd.waitall()
            seen[f"mb_at_{step}"] = round(resident(), 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"framework": name, "steps": steps, "batch": batch,
                      **seen, "peak_mb": round(peak, 1),
                      "loss": float(error.mean().asscalar())}))


if __name__ == "__main__":
    main(*sys.argv[1:])
