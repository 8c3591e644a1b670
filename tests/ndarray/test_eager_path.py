"""The short path of eager calls says the same as the general one."""

from __future__ import annotations

import gc
import operator
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import minigluon as mx
from minigluon import autograd, nd, tape
from minigluon.base import DTypeError, GradientError, MXNetError
from minigluon.device import engine
from minigluon.device.cpu import native
from minigluon.dispatch import prepared
from minigluon.ndarray.words import binary
from minigluon.ops import find_operator

WORDS = {"add": operator.add, "subtract": operator.sub, "multiply": operator.mul,
         "divide": operator.truediv}


def _array(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> Any:
    values = np.random.default_rng(seed).standard_normal(shape) * 3
    return nd.array(values, dtype=dtype)


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("shapes", [((4, 4), (4, 4)), ((4, 4), (4,)), ((3,), (2, 3)),
                                    ((0, 2), (0, 2)), ((200, 200), (200, 200)), ((1,), (5, 1)),
                                    ((181, 181), (181, 181)), ((3, 67), (3, 67))])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_pairs(word: str, shapes: Any, dtype: str) -> None:
    x, y = _array(shapes[0], dtype), _array(shapes[1], dtype, 1)
    if dtype == "int32":
        y = y * 0 + 2
    got, expected = WORDS[word](x, y), binary(word, x, y)
    assert type(got) is nd.NDArray and got.dtype == expected.dtype and got._data.base is None
    np.testing.assert_array_equal(got.asnumpy(), expected.asnumpy())


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("size", [32_768, 32_769, 65_537, 131_072, 131_073])
def test_pairs_that_helpers_take_their_share_of(word: str, size: int) -> None:
    x, y = _array((size,)), _array((size,), seed=1)
    a, b = x.asnumpy(), y.asnumpy()
    for _ in range(3):  # the helpers are awake by then
        np.testing.assert_array_equal(WORDS[word](x, y).asnumpy(), WORDS[word](a, b))
        np.testing.assert_array_equal(WORDS[word](3, x).asnumpy(), WORDS[word](np.float32(3), a))
        np.testing.assert_array_equal(WORDS[word](x, 3).asnumpy(), WORDS[word](a, np.float32(3)))


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("number", [2, 2.5, -1, 0, True, 1e300, float("nan"), np.float32(0.1),
                                    np.int64(3), np.float64(0.1), 10**30])
def test_numbers(word: str, number: Any) -> None:
    x = _array((3, 67))  # whole vectors and a rest
    for got, expected in [(WORDS[word](x, number), binary(word, x, number)),
                          (WORDS[word](number, x), binary(word, number, x))]:
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got.asnumpy(), expected.asnumpy())


def test_integers_too_large_for_kernels_go_the_general_way() -> None:
    x = nd.array([1.0, 2.0, 3.0])
    assert nd.clip(x, 2, 10**30).asnumpy().tolist() == [2, 2, 3]
    assert nd.slice_axis(x, axis=0, begin=1, end=10**30).asnumpy().tolist() == [2, 3]
    with pytest.raises(MXNetError, match="tile"):
        nd.tile(x, reps=(1, 10**30))


def test_special_values_make_no_noise() -> None:
    x = nd.array([0.0, np.inf, np.nan, -0.0])
    np.testing.assert_array_equal((x / x).asnumpy(), [np.nan] * 4)
    np.testing.assert_array_equal((1 / x).asnumpy(), [np.inf, 0, np.nan, -np.inf])


def test_what_is_no_number_and_no_array() -> None:
    x = _array((2,))
    with pytest.raises(TypeError):
        x + "a"
    with pytest.raises(TypeError):
        [] * x
    with pytest.raises(MXNetError, match="broadcast_add"):
        x + _array((3,))
    with pytest.raises(DTypeError):
        x + _array((2,), "float64")
    host = np.ones(2, np.float32)
    assert type(x + host) is type(host + x) is nd.NDArray


def test_contexts_must_agree() -> None:
    with pytest.raises(MXNetError, match="context"):
        nd.ones((2,)) + nd.ones((2,), ctx=mx.cpu(1))
    assert (nd.ones((2,), ctx=mx.cpu(1)) * 2).context == mx.cpu(1)


@pytest.mark.parametrize("word", WORDS)
def test_gradients_of_pairs_and_numbers(word: str) -> None:
    x, y = _array((3, 4)), _array((3, 4), seed=1)
    x.attach_grad()
    y.attach_grad()
    seen = []
    for function in (WORDS[word], lambda a, b: binary(word, a, b)):
        with autograd.record():
            z = function(function(x, y), 1.5) * function(0.5, x)
        z.backward()
        seen += [[z.asnumpy(), x.grad.asnumpy(), y.grad.asnumpy()]]
    for one, other in zip(*seen, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_a_subclass_keeps_its_own_ways() -> None:
    class Mine(nd.NDArray):
        __slots__ = ()

        def __add__(self, other: Any) -> str:
            return "mine"

    mine = Mine(np.ones(2, np.float32), mx.cpu())
    assert mine + mine == "mine" and (mine * 2).asnumpy().tolist() == [2, 2]
    assert (nd.ones((2,)) * mine).asnumpy().tolist() == [1, 1]


def test_flags_belong_to_the_thread() -> None:
    seen = []
    with autograd.record():
        thread = threading.Thread(target=lambda: seen.append(
            (autograd.is_recording(), autograd.is_training())))
        thread.start()
        thread.join()
        assert autograd.is_recording() and autograd.is_training()
    assert seen == [(False, False)] and not autograd.is_recording()


def test_pending_writes_are_waited_for() -> None:
    x = _array((2, 2))
    ticket = engine.begin([x._variable()])

    def end() -> None:
        x._data[...] = 7
        ticket.done()

    threading.Timer(0.05, end).start()
    assert (x + x).asnumpy().tolist() == [[14, 14], [14, 14]]


def test_arrays_and_tapes_are_collected() -> None:
    x = _array((2, 2))
    x.attach_grad()
    with autograd.record():
        z = x * x
    gone = weakref.ref(z)
    entry = sys.getrefcount(z._ag.entry)
    assert entry < 5
    x._ag.array = z  # a cycle through leaf, entry and arrays
    del z, x
    gc.collect()
    assert gone() is None


def test_a_long_tape_ends_well() -> None:
    x = _array((2,))
    x.attach_grad()
    with autograd.record():
        y = x
        for _ in range(20000):
            y = y + x
    y.backward()
    assert x.grad.asnumpy().tolist() == [20001, 20001]
    with autograd.record():
        y = x
        for _ in range(20000):
            y = y * 1.0
    del y  # the whole chain goes at once


def test_a_graph_is_used_up_once() -> None:
    x = _array((2,))
    x.attach_grad()
    with autograd.record():
        y = x * x
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(GradientError, match="retain_graph"):
        y.backward()


def test_grad_req_add_and_null() -> None:
    x, y = _array((2,)), _array((2,), seed=1)
    x.attach_grad("add")
    y.attach_grad("null")
    for _ in range(3):
        with autograd.record():
            z = x * y
        z.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), 3 * y.asnumpy(), rtol=1e-6)
    assert not y.grad.asnumpy().any()


@pytest.mark.skipif(not native.enabled, reason=native.reason)
def test_steps_are_prepared_once() -> None:
    op = find_operator("relu")
    steps = prepared(op)
    nd.relu(_array((7, 11)))
    before = len(steps)
    for _ in range(3):
        nd.relu(_array((7, 11)))
        _array((7, 11)).relu()
    assert len(steps) == before
    nd.relu(_array((11, 7)))
    assert len(steps) == before + 1


def test_out_receives_the_result() -> None:
    x = _array((3, 4))
    out = nd.zeros((3, 4))
    assert nd.relu(x, out=out) is out
    np.testing.assert_array_equal(out.asnumpy(), np.maximum(x.asnumpy(), 0))
    nd.relu(x, out=x)
    np.testing.assert_array_equal(x.asnumpy(), out.asnumpy())
    wide = nd.zeros((4, 3))
    with pytest.raises(MXNetError):
        nd.relu(x, out=wide)


def test_threads_share_prepared_steps() -> None:
    wrong = []

    def work(value: float) -> None:
        x = nd.full((64, 128), value)
        for _ in range(100):
            if not (nd.relu(x).asnumpy() == value).all():
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(float(i),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_tape_objects_have_their_parts() -> None:
    output = tape.Output(tape.Entry(None, {}, None, (), (), ()), 0)
    assert output.index == 0 and output.entry.sources == () and output.entry.attrs == {}
    with pytest.raises(TypeError):
        tape.Output(None)


@pytest.mark.parametrize("call", [
    lambda x, y: nd.FullyConnected(x, y, num_hidden=4, no_bias=True),
    lambda x, y: nd.dot(x, y), nd.broadcast_maximum, nd.elemwise_add, nd.concat,
    lambda x, y: nd.sgd_update(x, y, lr=0.1),
])
def test_types_that_differ_are_refused(call: Any) -> None:
    with pytest.raises(DTypeError):
        call(_array((4, 4)), _array((4, 4), "float64"))


@pytest.mark.parametrize("call", [
    lambda x, y: nd.FullyConnected(x, y, num_hidden=5, no_bias=True),
    lambda x, y: nd.sgd_update(x, y, lr=0.1), nd.elemwise_mul, nd.dot, nd.reshape_like,
])
def test_shapes_that_do_not_fit_are_refused(call: Any) -> None:
    with pytest.raises(MXNetError):
        call(_array((4, 4)), _array((5, 3)))
