"""Errors that only running an operator can tell: raised to who reads, once."""
from __future__ import annotations

import threading

import numpy as np
import pytest

import minigluon as mx
from minigluon import autograd, gluon, nd, sym
from minigluon.base import MXNetError, ShapeError


@pytest.fixture(autouse=True)
def nothing_left():
    yield
    try:
        nd.waitall()
    except MXNetError:
        nd.waitall()


def bad(shape=(2, 2)):
    return nd.random.normal(0, -1, shape)


def test_the_call_returns_and_the_reader_gets_the_error():
    for read in (lambda x: x.asnumpy(), lambda x: x.wait_to_read(), lambda x: nd.waitall()):
        x = bad()
        assert x.shape == (2, 2) and x.dtype == np.float32
        with pytest.raises(MXNetError, match=r"scale: expected 0 or more, got -1\.0"):
            read(x)
        nd.waitall()


def test_once_reported_it_is_over():
    x = bad()
    first, second = x.copyto(mx.cpu(1))
    with pytest.raises(MXNetError):
        first.asnumpy()
    second.asnumpy()
    x.asnumpy()
    with pytest.raises(MXNetError):  # a new failure is a new error
        bad().asnumpy()


def test_what_is_derived_fails_and_what_is_not_does_not():
    x, y = bad(), nd.ones((2, 2))
    derived = nd.dot(x + 1, y)
    assert (y * 2).asnumpy().sum() == 8
    with pytest.raises(MXNetError, match="scale"):
        derived.asnumpy()
    failed = [bad() for _ in range(2)]
    joined = nd.concat(*failed, dim=0)
    assert joined.shape == (4, 2)
    with pytest.raises(MXNetError):
        joined[1:2].asnumpy()


def test_writing_a_failed_array_fails_the_target():
    writes = [lambda y: y.__setitem__(slice(None), bad()), lambda y: y.__iadd__(bad()),
              lambda y: bad().copyto(y), lambda y: nd.elemwise_add(y, bad(), out=y),
              lambda y: nd.sgd_update(y, bad(), lr=0.1, out=y)]
    for write in writes:
        y = nd.ones((2, 2))
        write(y)
        with pytest.raises(MXNetError):
            y.asnumpy()


def test_an_index_out_of_range():
    taken = nd.take(nd.arange(3), nd.array([7]), mode="raise")
    with pytest.raises(MXNetError, match="index 7 is out of range"):
        taken.asnumpy()


def test_shapes_are_told_at_once():
    with pytest.raises(ShapeError):
        nd.dot(bad(), nd.ones((3, 2)))


@pytest.mark.parametrize("hybridize", [False, True])
def test_blocks_and_backward(hybridize):
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(3, activation="tanh"), gluon.nn.Dropout(0.5), gluon.nn.Dense(2))
    net.initialize()
    if hybridize:
        net.hybridize()
    net(nd.ones((4, 2)))
    with pytest.raises(MXNetError):
        net(bad((4, 2))).wait_to_read()
    with autograd.record():
        out = net(bad((4, 2)))
    out.backward()
    with pytest.raises(MXNetError):
        net[0].weight.grad().asnumpy()
    with autograd.record():
        out = net(nd.ones((4, 2)))
    out.backward()
    net[0].weight.grad().asnumpy()


def test_inside_a_hybridized_block():
    class Noise(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return x + F.random.normal_like(x, 0, -1)

    net = Noise()
    net.hybridize()
    x = nd.ones((2, 3))
    x.attach_grad()
    with autograd.record():
        y = net(x)
    assert y.shape == (2, 3)
    y.backward()
    with pytest.raises(MXNetError, match="normal"):
        x.grad.asnumpy()


def test_executors():
    noise = sym.random.normal(0, -1, shape=(2, 2))
    net = sym.dot(sym.var("x"), noise)
    for read in (lambda executor: executor.outputs[0].asnumpy(), lambda executor: nd.waitall()):
        executor = net.simple_bind(mx.cpu(), x=(3, 2))
        [out] = executor.forward(is_train=True)
        assert out.shape == (3, 2)
        with pytest.raises(MXNetError, match="scale"):
            read(executor)
        executor.forward(is_train=True)
        executor.backward()
        with pytest.raises(MXNetError, match="scale"):
            executor.grad_arrays[0].asnumpy()
    plain = sym.dot(sym.var("x"), sym.var("y"))
    executor = plain.simple_bind(mx.cpu(), x=(2, 2), y=(2, 2))
    executor.forward(x=bad())
    with pytest.raises(MXNetError):
        executor.outputs[0].asnumpy()
    executor.forward(x=nd.ones((2, 2)), y=nd.ones((2, 2)))
    assert executor.outputs[0].asnumpy().sum() == 8


def test_in_threads():
    seen = []

    def work():
        try:
            bad().asnumpy()
        except MXNetError as error:
            seen.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 3
