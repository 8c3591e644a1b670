"""What a confused user gives: an error at the call, of the built-in class one would catch."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minigluon as mx
from minigluon import autograd, gluon, nd
from minigluon.gluon import nn

CPU2 = [mx.cpu(0), mx.cpu(0)]


def _dense() -> nn.Dense:
    net = nn.Dense(2, in_units=3)
    net.initialize()
    return net


def _store(kind: str = "local") -> Any:
    kv = mx.kv.create(kind)
    kv.init("a", nd.ones((2,)))
    return kv


def _step(batch_size: Any, net: Any = None, **settings: Any) -> None:
    net = net or _dense()
    trainer = gluon.Trainer(net.collect_params(), "sgd", **settings)
    with autograd.record():
        loss = net(nd.ones((2, 3))).sum()
    loss.backward()
    trainer.step(batch_size)


def _grad(shape: tuple[int, ...]) -> None:
    autograd.mark_variables([nd.ones((2,))], [nd.ones(shape)])


def _assign(value: Any, dtype: str = "float32") -> None:
    nd.zeros((2,), dtype=dtype)[0] = value


CALLS: dict[str, tuple[Any, type[Exception], str]] = {
    # arrays
    "shape 2.5": (lambda: nd.zeros((2.5,)), TypeError, "shape: expected an integer"),
    "shape text": (lambda: nd.zeros("ab"), TypeError, "shape: expected an integer"),
    "shape None": (lambda: nd.ones(None), TypeError, "shape: expected an integer"),
    "shape ()": (lambda: nd.zeros(()), ValueError, r"shape \(\)"),
    "cpu(-1)": (lambda: mx.cpu(-1), ValueError, "device_id: expected 0 or more"),
    "cpu('a')": (lambda: mx.cpu("a"), TypeError, "device_id: expected an integer"),
    "stack of nothing": (lambda: nd.stack(), TypeError, "stack: expected at least one array"),
    "add_n of nothing": (lambda: nd.add_n(), TypeError, "add_n: expected at least one array"),
    "concat of nothing": (lambda: nd.concat(), TypeError, "at least one array for 'data'"),
    "split by 0": (lambda: nd.split(nd.ones((4,)), 0, axis=0), mx.MXNetError,
                   "SliceChannel"),
    "gather_nd": (lambda: nd.gather_nd(nd.ones((2, 2)), nd.array([[5], [1]])), IndexError,
                  "index 5 is out of bounds"),
    "reshape()": (lambda: nd.ones((2, 3)).reshape(), ValueError, "Reshape"),
    "reshape 0": (lambda: nd.ones((0, 3)).reshape((3, 0)), ValueError, "Reshape: .* 0 elements"),
    "ctx='cpu'": (lambda: nd.array([1], ctx="gpu:0"), TypeError, "ctx: expected a Context"),
    "x[0] = None": (lambda: _assign(None), TypeError, "expected a number or an array"),
    "x[0] = 'a'": (lambda: _assign("a"), ValueError, r"assignment x\[0\] = value"),
    "x[0] = 2**70": (lambda: _assign(2**70, "int32"), ValueError, r"assignment x\[0\]"),
    "out='a'": (lambda: nd.relu(nd.ones((2,)), out="a"), TypeError, "relu: out=: expected"),
    "out NumPy": (lambda: nd.relu(nd.ones((2,)), out=np.ones(2)), TypeError, "relu: out=: exp"),
    "astype(None)": (lambda: nd.ones((2,)).astype(None), TypeError, "dtype: expected"),
    "complex": (lambda: nd.array([1], dtype="complex64"), TypeError, "real numbers"),
    "long double": (lambda: nd.zeros((2,), dtype=np.longdouble), TypeError, "up to 8 bytes"),
    "text type": (lambda: nd.zeros((2,), dtype="str"), TypeError, "real numbers"),
    "concat shapes": (lambda: nd.concat(nd.ones((2, 3)), nd.ones((2, 4)), dim=0), ValueError,
                      r"got \(2, 3\), \(2, 4\)"),
    "pool of nothing": (lambda: nd.Pooling(nd.ones((1, 1, 0, 2)), global_pool=True), ValueError,
                        "Pooling: expected spatial axes with elements"),
    # autograd
    "backward of text": (lambda: autograd.backward("a"), TypeError, "backward: expected"),
    "grad for text": (lambda: autograd.grad(nd.ones((1,)), "a"), TypeError, "grad: variables"),
    "other gradient": (lambda: _grad((3,)), ValueError, r"shape \(2,\) cannot .* \(3,\)"),
    # parameters and layers
    "ctx text": (lambda: nn.Dense(2, in_units=2).initialize(ctx="cpu"), TypeError, "ctx"),
    "no ctx": (lambda: nn.Dense(2, in_units=2).initialize(ctx=[]), ValueError, "ctx"),
    "ctx twice": (lambda: nn.Dense(2, in_units=2).initialize(ctx=CPU2), ValueError, "different"),
    "set_data text": (lambda: _dense().weight.set_data("a"), TypeError, "cannot make an array"),
    "Dense(0)": (lambda: nn.Dense(0), ValueError, "units: expected 1 or more"),
    "Dense('a')": (lambda: nn.Dense("a"), ValueError, "units: expected 1 or more"),
    "no groups": (lambda: nn.Conv2D(3, 3, groups=0), ValueError, "groups: expected 1 or more"),
    "4 by 3 groups": (lambda: nn.Conv2D(4, 3, groups=3), ValueError, "groups: expected a divisor"),
    "no channels": (lambda: nn.Conv2D(0, 3), ValueError, "channels: expected 1 or more"),
    "add(3)": (lambda: nn.Sequential().add(3), TypeError, "Sequential: expected a Block"),
    # trainer
    "step(0)": (lambda: _step(0), ValueError, "batch_size: expected a positive"),
    "step(-1)": (lambda: _step(-1), ValueError, "batch_size: expected a positive"),
    "step(nan)": (lambda: _step(float("nan")), ValueError, "batch_size: expected a positive"),
    "step('a')": (lambda: _step("a"), TypeError, "batch_size: expected a number"),
    "step(None)": (lambda: _step(None), TypeError, "batch_size: expected a number"),
    "kvstore foo": (lambda: _step(1, kvstore="foo"), ValueError, "unknown KVStore type 'foo'"),
    # stores
    "init with text": (lambda: mx.kv.create().init("a", "b"), TypeError, "init of key 'a'"),
    "init with none": (lambda: mx.kv.create().init("a", []), ValueError, "init of key 'a'"),
    "push NumPy": (lambda: _store().push("a", np.ones(2)), TypeError, "push of key 'a'"),
    "push number": (lambda: _store().push("a", 3), TypeError, "push of key 'a'"),
    "push nothing": (lambda: _store().push("a", []), ValueError, "push of key 'a'"),
    "pull nowhere": (lambda: _store().pull("a"), TypeError, "pull of key 'a'"),
    "pull to NumPy": (lambda: _store("device").pull("a", np.ones(2)), TypeError, "pull of key"),
    "optimizer text": (lambda: _store().set_optimizer("sgd"), mx.MXNetError,
                       "expected an Optimizer"),
    "updater 3": (lambda: _store().set_updater(3), TypeError, "expected a function"),
    # helpers
    "0 slices": (lambda: gluon.utils.split_data(nd.ones((4,)), 0), ValueError, "num_slice"),
    "-2 slices": (lambda: gluon.utils.split_data(nd.ones((4,)), -2), ValueError, "num_slice"),
    "slice text": (lambda: gluon.utils.split_data("a", 2), TypeError, "expected an NDArray"),
    "axis 3": (lambda: gluon.utils.split_data(nd.ones((4,)), 2, 3), ValueError, "batch_axis"),
    "load nowhere": (lambda: gluon.utils.split_and_load(nd.ones((4,)), []), ValueError, "ctx_list"),
    "clip to -1": (lambda: gluon.utils.clip_global_norm([nd.ones((2,))], -1), ValueError,
                   "max_norm: expected a positive"),
}


@pytest.mark.parametrize("name", CALLS)
def test_is_refused_at_the_call(name: str) -> None:
    call, kind, words = CALLS[name]
    with pytest.raises(kind, match=words) as caught:
        call()
    assert isinstance(caught.value, mx.MXNetError)


def test_a_refused_step_changes_nothing() -> None:
    net = _dense()
    before = net.weight.data().asnumpy()
    with pytest.raises(ValueError, match="batch_size"):
        _step(-1, net)
    assert (net.weight.data().asnumpy() == before).all()


def test_integers_too_big_for_the_type_wrap_around_on_every_numpy() -> None:
    small, x = nd.ones((1,), dtype="uint8"), nd.zeros((2,), dtype="uint8")
    x[0], x[1] = 300, -1
    assert x.asnumpy().tolist() == [44, 255]
    for found, value in ((small * 300, 44), (small + -2, 255), (small - 2, 255),
                         (nd.ones((1,), dtype="int8") * 200, -56),
                         (nd.ones((1,), dtype="int32") + 2**33, 1)):
        assert found.asscalar() == value


def test_stores_of_later_versions_need_none_on_one_context() -> None:
    _step(1, kvstore="nccl")
    _step(nd.array([2]), kvstore="device")
