"""The store of one process, and what every store promises."""
from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minigluon as mx
from minigluon import kvstore, nd
from minigluon import optimizer as opt
from minigluon.base import MXNetError, NotForThisError

SHAPE = (4, 4)
DEVICES = [mx.cpu(i) for i in range(4)]
TYPES = ["local", "device", "local_update_cpu", "local_allreduce_cpu", "local_allreduce_device"]


def _ones(count: int = 4) -> list[nd.NDArray]:
    return [nd.ones(SHAPE, ctx=ctx) for ctx in DEVICES[:count]]


def _store(name: str = "local", key: Any = 3, value: float = 0) -> kvstore.KVStoreBase:
    kv = kvstore.create(name)
    kv.init(key, nd.full(SHAPE, value))
    return kv


def _pulled(kv: kvstore.KVStoreBase, key: Any = 3, **options: Any) -> Any:
    out = nd.empty(SHAPE)
    kv.pull(key, out=out, **options)
    values = np.unique(out.asnumpy())
    return values[0] if len(values) == 1 else values


@pytest.mark.parametrize("name", TYPES)
def test_types(name: str) -> None:
    kv = kvstore.create(name)
    assert kv.type == name and kv.rank == 0 and kv.num_workers == 1
    assert kv.is_capable("optimizer") and type(kv).is_capable("optimizer")
    kv._barrier()
    kv.close()
    assert kvstore.create().type == "local"


@pytest.mark.parametrize("name", ["horovod", "byteps", "mpi"])
def test_types_of_later(name: str) -> None:
    with pytest.raises(NotForThisError, match=f"'{name}' is not built yet"):
        kvstore.create(name)


def test_no_such_type() -> None:
    with pytest.raises(ValueError, match="did you mean 'device'"):
        kvstore.create("devise")
    with pytest.raises(TypeError, match="name of a store"):
        kvstore.create(3)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("key", [3, "w"])
def test_push_replaces_by_the_sum_of_devices(name: str, key: Any) -> None:
    kv = _store(name, key, 10)
    assert _pulled(kv, key) == 10
    kv.push(key, _ones())
    assert _pulled(kv, key) == 4
    kv.push(key, nd.full(SHAPE, 3))
    assert _pulled(kv, key) == 3


@pytest.mark.parametrize("name", ["local", "device"])
def test_lists_of_keys(name: str) -> None:
    kv = kvstore.create(name)
    keys = [5, 7, 9]
    kv.init(keys, [nd.zeros(SHAPE)] * 3)
    kv.push(keys, [_ones(2)] * 3)
    outs = [[nd.empty(SHAPE, ctx=ctx) for ctx in DEVICES[:2]] for _ in keys]
    kv.pull(keys, out=outs)
    assert all((out.asnumpy() == 2).all() for pair in outs for out in pair)
    assert outs[0][1].context == mx.cpu(1)
    kv.push(keys, [nd.full(SHAPE, k) for k in keys])
    assert [_pulled(kv, k) for k in keys] == keys


def test_a_key_twice_in_one_push_is_summed() -> None:
    kv = _store()
    kv.push([3, 3], [nd.ones(SHAPE), nd.full(SHAPE, 2)])
    assert _pulled(kv) == 3


@pytest.mark.parametrize("name", ["local", "device"])
def test_optimizer(name: str) -> None:
    kv = _store(name, value=1)
    kv.set_optimizer(opt.create("sgd", learning_rate=0.5))
    kv.push(3, _ones(2))
    assert _pulled(kv) == 0
    out = nd.empty(SHAPE)
    kv.pushpull(3, _ones(2), out=out)
    assert (out.asnumpy() == -1).all()


def test_updater_sees_key_merged_and_stored() -> None:
    for key in (3, "w"):
        kv, seen = _store(key=key, value=1), []

        def updater(k: Any, received: nd.NDArray, stored: nd.NDArray, seen: Any = seen) -> None:
            seen.append(k)
            stored += received * 2

        kv._set_updater(updater)
        kv.push(key, _ones())
        assert seen == [key] and _pulled(kv, key) == 9


def test_pushpull_in_place_and_broadcast() -> None:
    kv = kvstore.create("device")
    outs = _ones()
    kv.broadcast("w", nd.full(SHAPE, 7), out=outs)
    assert all((out.asnumpy() == 7).all() for out in outs)
    grads = _ones(3)
    kv.pushpull("w", grads)
    assert all((grad.asnumpy() == 3).all() for grad in grads)


def test_a_push_takes_the_value_of_its_moment() -> None:
    kv, value = _store(), nd.ones(SHAPE)
    kv.push(3, value)
    value[:] = 7
    assert _pulled(kv) == 1
    first = nd.ones(SHAPE)
    kv.init(4, first)
    first[:] = 9
    assert _pulled(kv, 4) == 1
    mine = nd.empty(SHAPE)
    kv.pull(3, out=mine)
    mine[:] = 5
    assert _pulled(kv) == 1


def test_sums_do_not_depend_on_the_run() -> None:
    values = [nd.array(np.random.default_rng(i).normal(size=SHAPE), ctx=c)
              for i, c in enumerate(DEVICES)]
    expected = values[0].asnumpy()
    for value in values[1:]:
        expected = expected + value.asnumpy()
    for _ in range(3):
        kv = _store("device")
        kv.push(3, values)
        out = nd.empty(SHAPE)
        kv.pull(3, out=out)
        assert (out.asnumpy() == expected).all()


def test_float16_and_integers_keep_their_type() -> None:
    for dtype in ("float16", "float64", "int32"):
        kv, out = kvstore.create("device"), nd.empty(SHAPE, dtype=dtype)
        kv.init(1, nd.zeros(SHAPE, dtype=dtype))
        kv.pushpull(1, [nd.ones(SHAPE, dtype=dtype, ctx=c) for c in DEVICES], out=out)
        assert out.dtype == np.dtype(dtype) and (out.asnumpy() == 4).all()


@pytest.mark.parametrize("first", [3, "w"])
def test_int_and_str_keys_do_not_mix(first: Any) -> None:
    kv, other = _store(key=first), "x" if first == 3 else 4
    for call in (kv.init, kv.push, kv.pull):
        with pytest.raises(MXNetError, match="keep to one kind"):
            call(other, nd.ones(SHAPE))


def test_wrong_calls() -> None:
    kv = _store()
    with pytest.raises(MXNetError, match="initialized already"):
        kv.init(3, nd.ones(SHAPE))
    with pytest.raises(MXNetError, match="key 4 has not been initialized"):
        kv.push(4, nd.ones(SHAPE))
    with pytest.raises(MXNetError, match="key 4 has not been initialized"):
        kv.pull(4, out=nd.ones(SHAPE))
    with pytest.raises(MXNetError, match=r"key 3 has shape \(4, 4\), got \(2,\)"):
        kv.push(3, nd.ones((2,)))
    with pytest.raises(MXNetError, match="must agree"):
        kv.push(3, [nd.ones(SHAPE), nd.ones(SHAPE, dtype="float64")])
    with pytest.raises(MXNetError, match="2 keys"):
        kv.push([3, 3], nd.ones(SHAPE))
    with pytest.raises(MXNetError, match="int or str key"):
        kv.push(1.5, nd.ones(SHAPE))


def test_what_is_not_built_yet() -> None:
    device = kvstore.create("device")
    with pytest.raises(mx.MXNetError, match="row_sparse arrays to fill"):
        device.row_sparse_pull(3, out=nd.ones(SHAPE), row_ids=nd.ones((1,)))


def test_optimizer_states_go_through_a_file(tmp_path: Path) -> None:
    path = str(tmp_path / "kv.states")
    whole = _store(value=1)
    whole.set_optimizer(opt.SGD(momentum=0.5))
    for _ in range(2):
        whole.push(3, nd.ones(SHAPE))
    whole.save_optimizer_states(path, dump_optimizer=True)
    again = kvstore.create("device")
    out = nd.empty(SHAPE)
    whole.pull(3, out=out)
    again.init(3, out)
    again.set_optimizer(opt.SGD())
    again.load_optimizer_states(path)
    for kv in (whole, again):
        kv.push(3, nd.ones(SHAPE))
    assert _pulled(whole) == _pulled(again)
    with pytest.raises(MXNetError, match="call set_optimizer first"):
        kvstore.create().save_optimizer_states(path)


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: Any) -> None:
    kv, path = _store(), tmp_path / "kv.states"
    kv.set_optimizer(opt.SGD(momentum=0.5))
    kv.push(3, nd.ones(SHAPE))
    kv.save_optimizer_states(str(path))
    before = path.read_bytes()

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match=r"No space left.*kv\.states"):
        kv.save_optimizer_states(str(path))
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


# -- stores of one's own --------------------------------------------------------------------------


@pytest.fixture
def own() -> Any:
    """A registered store that can only broadcast and pushpull, as users write them."""

    @kvstore.KVStoreBase.register
    class OwnStore(kvstore.KVStoreBase):
        @staticmethod
        def is_capable(capability: str) -> bool:
            if capability.lower() == kvstore.KVStoreBase.OPTIMIZER:
                return False
            raise MXNetError(f"Unknown capability: {capability}")

        def broadcast(self, key: Any, value: Any, out: Any, priority: Any = 0) -> None:
            for target in out if isinstance(out, list) else [out]:
                target[:] = value

        def pushpull(self, key: Any, value: Any, out: Any = None, priority: Any = 0) -> None:
            values = value if isinstance(value, list) else [value]
            total = sum(v.asnumpy() for v in values)
            for target in values if out is None else out if isinstance(out, list) else [out]:
                target[:] = nd.array(total)

    yield OwnStore
    del kvstore.KVStoreBase.registry.entries["ownstore"]


def test_a_registered_store(own: Any) -> None:
    kv = kvstore.create("OwnStore")
    assert type(kv) is own and kv.type == "ownstore"
    assert own.is_capable("optimizer") is False and kv.is_capable("optimizer") is False
    out = nd.empty(SHAPE)
    kv.pushpull("w", _ones(), out=out)
    assert (out.asnumpy() == 4).all()
    for call in (kv.set_optimizer, kv.save_optimizer_states, kv.load_optimizer_states):
        with pytest.raises(NotImplementedError):
            call("x")
    with pytest.raises(NotImplementedError, match="'ownstore' has no push"):
        kv.push("w", _ones())


def test_a_trainer_with_a_registered_store(own: Any) -> None:
    for wish, error in ((None, None), (False, None), (True, ValueError)):
        w = mx.gluon.Parameter("w", shape=(2,))
        w.initialize("ones", ctx=DEVICES[:2])
        trainer = mx.gluon.Trainer([w], "sgd", {"learning_rate": 0.5}, "ownstore",
                                   update_on_kvstore=wish)
        if error:
            with pytest.raises(error, match="cannot run an optimizer"):
                trainer._init_kvstore()
            continue
        with mx.autograd.record():
            losses = [(w.data(ctx) * 2).sum() for ctx in DEVICES[:2]]
        mx.autograd.backward(losses)
        trainer.step(1)
        assert trainer._update_on_kvstore is False
        assert [w.data(ctx).asnumpy().tolist() for ctx in DEVICES[:2]] == [[-1, -1]] * 2


def test_misuse_that_mxnet_asserts_against_is_an_assertion_error():
    kv = _store()
    sparse = nd.zeros(SHAPE, stype="row_sparse")
    for call in (lambda: kv.init([8, 9], [nd.ones(SHAPE)]), lambda: kv.init(1.5, nd.ones(SHAPE)),
                 lambda: kv.row_sparse_pull(3, out=sparse),
                 lambda: kv.row_sparse_pull(3, row_ids=nd.array([1])),
                 lambda: kv.save_optimizer_states("none"),
                 lambda: kv.load_optimizer_states("none")):
        with pytest.raises(AssertionError):
            call()
