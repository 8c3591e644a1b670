"""What every store promises; `check(make, folder)` runs it on one worker of stores of any type.

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


def check(make, folder):
    """All there is to a store of this kind; `make()` gives a new one, `folder` is for files."""
    kv = make()
    assert isinstance(kv, KVStoreBase) and kv.type == kv.type.lower()
    assert 0 <= kv.rank < kv.num_workers
    assert capable(kv, "optimizer") == capable(type(kv), "optimizer")
    assert not capable(kv, "flying")
    sync = "async" not in kv.type
    if sync:
        plain(kv)
    if capable(kv, "optimizer"):
        keyed(kv, sync)
        by_rows(kv, sync)
        optimized(kv, sync)
        apart(make())
        compressed(make(), sync)
        kept_states(make(), sync, folder)
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
    listed(kv, sync)
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


def listed(kv, sync):
    """Lists of keys, lists over devices, priorities; a key that comes twice."""
    n = kv.num_workers
    kv.init(["a", "b", "c"], [nd.ones((2,)), nd.ones((3,)) * 2, nd.ones((1, 2)) * 3])
    pairs = [[nd.zeros(shape, ctx=cpu(i)) for i in range(2)] for shape in ((2,), (3,), (1, 2))]
    kv.pull(["a", "b", "c"], out=pairs)
    for i, arrays in enumerate(pairs):
        for array in arrays:
            same(array, i + 1)
    if n > 1:
        kv.barrier()
    for turn in range(2):
        grads = [[nd.ones(one.shape, ctx=one.context) * (i + turn) for one in arrays]
                 for i, arrays in enumerate(pairs)]
        kv.push(["a", "b", "c"], grads, priority=[-i for i in range(3)])
        kv.pull(["a", "b", "c"], out=pairs, priority=[-i for i in range(3)])
        for i, arrays in enumerate(pairs):
            for array in arrays:
                same(array, (i + turn) * (2 * n if sync else 2))
        if n > 1:
            kv.barrier()  # an asynchronous store has what came last
    kv.push(["a", "a"], [nd.ones((2,)), nd.ones((2,))])
    kv.pull("a", out=pairs[0])
    same(pairs[0][1], 2 * n if sync else 2)
    kv.pull("a", out=pairs[0], ignore_sparse=False)
    same(pairs[0][0], 2 * n if sync else 2)
    for dtype in DTYPES:
        kv.init(f"kept {dtype}", nd.ones((5,), dtype=dtype))
        kv.push(f"kept {dtype}", nd.ones((5,), dtype=dtype) * 2)
        held = nd.zeros((5,), dtype=dtype)
        kv.pull(f"kept {dtype}", out=held)
        assert np.dtype(held.dtype) == dtype
        same(held, 2 * n if sync else 2)
    fails(MXNetError, lambda: kv.push(["a", "b"], [nd.ones((2,))]))
    fails((TypeError, MXNetError), lambda: kv.push("a", 3))
    fails((ValueError, MXNetError), lambda: kv.push("a", []))
    fails(MXNetError, lambda: kv.pull("a"))


def apart(kv):
    """A second store of the same type: int keys, and the calls that are about all workers."""
    kv.init([3, 5], [nd.ones((2,)), nd.ones((2,)) * 2])
    out = nd.zeros((2,))
    kv.pull(np.int64(5), out=out)
    same(out, 2)
    fails(MXNetError, lambda: kv.init("three", nd.ones((2,))))
    kv._barrier()
    assert kv.num_dead_node(4) == 0
    if "dist" in kv.type:
        kv.barrier_before_exit = True
        kv.barrier_before_exit = False
        kv._send_command_to_servers(1, "")
        fails(NotImplementedError, lambda: kv._set_updater(lambda *given: None))
    else:
        fails(NotImplementedError, lambda: kv._send_command_to_servers(1, ""))
        kv._set_updater(lambda key, grad, value: value.__isub__(grad * 2))
        kv.push(3, nd.ones((2,)))
        kv.pull(3, out=out)
        same(out, -1)
    kv.close()


def compressed(kv, sync):
    """2bit codes with what is left over; types other than float32 travel as they are."""
    n = kv.num_workers
    if "dist" not in kv.type and "device" not in kv.type:
        fails(MXNetError, lambda: kv.set_gradient_compression({"type": "2bit", "threshold": 0.5}))
        return
    fails(MXNetError, lambda: kv.set_gradient_compression({"type": "3bit"}))
    kv.set_gradient_compression({"type": "2bit", "threshold": 0.5})
    kv.init("codes", nd.zeros((3,)))
    out = nd.zeros((3,))
    for wanted in ([0, 0.5, -0.5], [0.5, 0.5, 0]):
        kv.push("codes", nd.array([0.25, 0.75, -0.5 if wanted[2] else 0]))
        kv.pull("codes", out=out)
        assert out.asnumpy().tolist() == [one * (n if sync else 1) for one in wanted]
        if n > 1:
            kv.barrier()


def by_rows(kv, sync):
    """row_sparse values: rows pushed, rows asked for in any order, several outs."""
    n = kv.num_workers
    kv.init("rows", nd.zeros((6, 2)).tostype("row_sparse"))
    grad = nd.sparse.row_sparse_array((np.ones((2, 2), "float32"), [1, 4]), shape=(6, 2))
    kv.push("rows", grad)
    outs = [nd.zeros((6, 2), stype="row_sparse") for _ in range(2)]
    kv.row_sparse_pull("rows", out=outs, row_ids=[nd.array([4, 1, 4]), nd.array([0, 4])])
    total = n if sync else 1
    assert outs[0].asnumpy()[:, 0].tolist() == [0, total, 0, 0, total, 0]
    assert outs[1].asnumpy()[:, 0].tolist() == [0, 0, 0, 0, total, 0]
    fails(MXNetError, lambda: kv.row_sparse_pull("rows", out=nd.zeros((6, 2)),
                                                row_ids=nd.array([0])))


def kept_states(kv, sync, folder):
    """What an optimizer has gathered goes to a file and comes back, the optimizer with it."""
    kv.init("w", nd.zeros((4,)))
    kv.set_optimizer(opt.SGD(learning_rate=1.0, momentum=0.5))
    weight = nd.zeros((4,))
    for dump in (False, True):
        moved = []
        file = f"{folder}/{kv.rank}.{dump}.states"
        for _ in range(2):
            kv.pull("w", out=weight)
            before = weight.asnumpy()
            if kv.num_workers > 1:
                kv.barrier()
            if moved:
                kv.load_optimizer_states(file)
            else:
                kv.save_optimizer_states(file, dump_optimizer=dump)
            if kv.num_workers > 1:
                kv.barrier()
            kv.pushpull("w", nd.ones((4,)), out=weight)
            moved.append(weight.asnumpy() - before)
            if kv.num_workers > 1:
                kv.barrier()
        assert not sync or (moved[0] == moved[1]).all(), moved  # the same step again
    fails((OSError, MXNetError), lambda: kv.load_optimizer_states(f"{folder}/none"))


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
