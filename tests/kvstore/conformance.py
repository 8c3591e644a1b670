"""What every store promises; `check(kv)` runs it on one worker of a store of any type.

All workers of a job run it at the same time, with the same values: so what a push adds up to is
`kv.num_workers` times what one of them gave.
"""
import numpy as np

from minigluon import cpu, nd
from minigluon import optimizer as opt
from minigluon.base import MXNetError
from minigluon.kvstore import KVStoreBase, capable

SHAPES = {"small": (2, 3), "big": (1100, 1000), "odd": (7, 1, 5)}
DTYPES = ("float16", "float32", "float64", "int8", "int32", "int64", "uint8")


def same(array, value):
    got = array.asnumpy()
    assert (got == value).all(), (got.ravel()[:5], value)


def fails(kinds, call):
    try:
        call()
    except kinds as error:
        assert str(error)
        return
    raise AssertionError(f"{call} raised nothing")


def check(kv):
    """All there is to a store of this kind."""
    assert isinstance(kv, KVStoreBase) and kv.type == kv.type.lower()
    assert 0 <= kv.rank < kv.num_workers
    assert capable(kv, "optimizer") == capable(type(kv), "optimizer")
    assert not capable(kv, "flying")
    sync = "async" not in kv.type
    if sync:
        plain(kv)
    if capable(kv, "optimizer"):
        keyed(kv, sync)
        optimized(kv, sync)
    else:
        fails(NotImplementedError, lambda: kv.set_optimizer(opt.SGD()))
        fails(NotImplementedError, lambda: kv.save_optimizer_states("nowhere"))
        fails(NotImplementedError, lambda: kv.load_optimizer_states("nowhere"))
    if kv.num_workers > 1:
        kv.barrier()


def plain(kv):
    """broadcast and pushpull: enough for a Trainer."""
    n = kv.num_workers
    out = [nd.zeros((3,), ctx=cpu(i)) for i in range(2)]
    kv.broadcast("first", nd.ones((3,)) * 4, out)
    for array in out:
        same(array, 4)
    devices = [nd.ones((3,), ctx=cpu(i)) * (i + 1) for i in range(2)]
    kv.pushpull("first", devices, out=out)
    for array in out:
        same(array, 3 * n)
    kv.pushpull("first", devices)
    for array in devices:
        same(array, 3 * n)
    keys = list(SHAPES)
    zeros = [nd.zeros(shape) for shape in SHAPES.values()]
    kv.broadcast(keys, zeros, zeros)
    for turn in range(3):
        values = [nd.ones(shape) * (i + turn) for i, shape in enumerate(SHAPES.values())]
        outs = [nd.zeros(shape) for shape in SHAPES.values()]
        kv.pushpull(keys, values, out=outs, priority=-turn)
        for i, array in enumerate(outs):
            same(array, n * (i + turn))
    for dtype in DTYPES:
        value = nd.ones((5,), dtype=dtype) * 2
        kv.broadcast(f"type {dtype}", value, value)
        kv.pushpull(f"type {dtype}", value)
        assert np.dtype(value.dtype) == dtype
        same(value, 2 * n)
    fails((TypeError, MXNetError), lambda: kv.pushpull("first", 3))
    fails((ValueError, MXNetError), lambda: kv.pushpull(["first", "small"], [nd.ones((3,))]))


def keyed(kv, sync):
    """init, push, pull: values kept under keys."""
    n = kv.num_workers
    kv.init("kept", nd.ones((4,)) * 7)
    out = nd.zeros((4,))
    kv.pull("kept", out=out)
    same(out, 7)
    if n > 1:
        kv.barrier()
    kv.push("kept", [nd.ones((4,), ctx=cpu(i)) for i in range(3)], priority=3)
    kv.pull("kept", out=out)
    same(out, 3 * n if sync else 3)
    view = nd.zeros((2, 4))
    kv.pull("kept", out=view[1])
    same(view[0], 0)
    fails(MXNetError, lambda: kv.init("kept", nd.ones((4,))))
    fails(MXNetError, lambda: kv.push("unknown", nd.ones((4,))))
    fails(MXNetError, lambda: kv.pull("unknown", out=out))
    fails(MXNetError, lambda: kv.push("kept", nd.ones((5,))))
    fails(MXNetError, lambda: kv.init(3, nd.ones((4,))))
    if n > 1:
        kv.barrier()


def optimized(kv, sync):
    """An optimizer in the store: weights move by the sum of the gradients."""
    n = kv.num_workers
    kv.init("weight", nd.ones((1100, 1000)))
    kv.set_optimizer(opt.SGD(learning_rate=0.5))
    if n > 1:
        kv.barrier()
    weight = nd.zeros((1100, 1000))
    for turn in range(2):
        kv.pushpull("weight", nd.ones((1100, 1000)), out=weight)
        if sync:
            same(weight, 1 - 0.5 * n * (turn + 1))
    if n > 1:
        kv.barrier()
    kv.pull("weight", out=weight)
    same(weight, 1 - 0.5 * n * 2)
