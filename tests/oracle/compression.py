"""Records what MXNet 1.9.1 makes of gradients under 2bit compression: `compression.json`.

Run by hand with a Python that has mxnet 1.9.1: ``python tests/oracle/compression.py``. The same
pushes go through a store of type 'device' with two devices and through a job of two workers and one
server, one device a worker. Values are recorded in units of the threshold; those of jobs whose
server runs an optimizer (`RULES`) as they are.
"""
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np

RULE = os.environ.get("COMPRESSION_RULE", "")  # what the server of this job runs
FILE = Path(__file__).with_name("compression.json")
SIZE, STEPS, THRESHOLD = 37, 6, 0.5
RULES = {"sgd": {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.01},
         "adam": {"learning_rate": 0.01}, "rmsprop": {"learning_rate": 0.01}}


def gradients(worker):
    rng = np.random.RandomState(7 + worker)
    return [rng.normal(0, 0.5, SIZE).astype("float32") for _ in range(STEPS)]


def start():
    return np.linspace(-1, 1, SIZE).astype("float32")


def pull(mx, kv):
    out = mx.nd.zeros((SIZE,))
    kv.pull("w", out)
    if RULE:
        return out.asnumpy().tolist()
    return (out.asnumpy() / THRESHOLD).astype(int).tolist()


def of_devices(mx):
    kv = mx.kv.create("device")
    kv.set_gradient_compression({"type": "2bit", "threshold": THRESHOLD})
    kv.init("w", mx.nd.zeros((SIZE,)))
    found = []
    for pair in zip(gradients(0), gradients(1), strict=True):
        kv.push("w", [mx.nd.array(g, ctx=mx.cpu(i)) for i, g in enumerate(pair)])
        found.append(pull(mx, kv))
    return found


def worker(mx):
    kv = mx.kv.create("dist_sync")
    kv.set_gradient_compression({"type": "2bit", "threshold": THRESHOLD})
    kv.init("w", mx.nd.array(start()) if RULE else mx.nd.zeros((SIZE,)))
    if RULE:
        kv.set_optimizer(mx.optimizer.create(RULE, **RULES[RULE]))
    found = []
    for gradient in gradients(kv.rank):
        kv.push("w", mx.nd.array(gradient))
        found.append(pull(mx, kv))
        kv._barrier()
    if kv.rank == 0:
        print(json.dumps(found), flush=True)


def job(rule=""):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {**os.environ, "DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_NODE_HOST": "127.0.0.1",
           "DMLC_PS_ROOT_PORT": str(port), "DMLC_NUM_WORKER": "2", "DMLC_NUM_SERVER": "1",
           "COMPRESSION_RULE": rule}
    roles = [subprocess.Popen([sys.executable, __file__], env={**env, "DMLC_ROLE": role},
                              stdout=subprocess.PIPE, text=True)
             for role in ("scheduler", "server", "worker", "worker")]
    said = [role.communicate(timeout=60)[0] for role in roles]
    return next(json.loads(text) for text in said if text.startswith("[["))


if __name__ == "__main__":
    import mxnet

    if os.environ.get("DMLC_ROLE") == "worker":
        worker(mxnet)
    else:
        recorded = {"mxnet": mxnet.__version__, "device": of_devices(mxnet), "dist_sync": job(),
                    **{f"dist_sync {rule}": job(rule) for rule in RULES}}
        FILE.write_text(json.dumps(recorded) + "\n")
