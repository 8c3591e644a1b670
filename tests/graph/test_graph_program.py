"""A graph as a native program gives what the same graph gives call by call."""

from __future__ import annotations

import gc
import random
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import minigluon as mx
from minigluon import nd
from minigluon.base import MXNetError
from minigluon.context import cpu
from minigluon.device import device_of
from minigluon.device.cpu import native
from minigluon.graph import CompiledGraph, Entry, F, Node, variables

pytestmark = pytest.mark.skipif(not native.enabled, reason=native.reason)


def _var(name: str) -> Entry:
    return Entry(Node(None, name), 0)


def _both(compiled: CompiledGraph, arrays: list[np.ndarray]) -> tuple[Any, Any]:
    """Results of the native program and of the Python one."""
    device = device_of(cpu())
    fast = compiled._run(arrays, device)
    programs, compiled._programs = compiled._programs, None
    plain = compiled._run(arrays, device)
    compiled._programs = programs
    assert any(programs.list()), "no program was made"
    return fast, plain


def _random_graph(rng: random.Random) -> tuple[list[Entry], list[Node]]:
    entries = [_var(f"x{i}") for i in range(3)]
    inputs = [entry.node for entry in entries]
    unary: list[Any] = [F.relu, F.sigmoid, F.tanh, F.square, F.negative, F._copy, F.BlockGrad,
                        F.exp, lambda x: F.reshape_like(F.Reshape(x, shape=(-1,)), x),
                        lambda x: F._mul_scalar(x, scalar=0.5),
                        lambda x: F.expand_dims(F.sum(x, axis=1), axis=1),
                        lambda x: F.softmax(x), lambda x: F.transpose(F.transpose(x)),
                        lambda x: F.flip(x, axis=0),
                        lambda x: F.slice_axis(x, axis=0, begin=0, end=1)]
    binary: list[Any] = [F.broadcast_add, F.broadcast_mul, F.broadcast_sub, F.broadcast_maximum]
    for _ in range(rng.randint(1, 15)):
        if rng.random() < 0.5:
            entries.append(rng.choice(unary)(rng.choice(entries)))
        else:
            entries.append(rng.choice(binary)(rng.choice(entries), rng.choice(entries)))
    return [rng.choice(entries[1:]) for _ in range(rng.randint(1, 3))], inputs


@pytest.mark.parametrize("seed", range(120))
def test_random_graphs(seed: int) -> None:
    outputs, inputs = _random_graph(random.Random(seed))
    compiled = CompiledGraph(outputs, inputs, record=seed % 2 == 0)
    make = np.random.default_rng(seed)
    arrays = [make.standard_normal((4, 6), np.float32) for _ in inputs]
    before = [array.copy() for array in arrays]
    for _ in range(2):
        fast, plain = _both(compiled, arrays)
        for one, other in zip(fast, plain, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    for array, old in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, old)


@pytest.mark.parametrize("shape", [(4, 6), (300, 256)])  # a backward reuses large memory
@pytest.mark.parametrize("seed", range(40))
def test_gradients_of_random_graphs(seed: int, shape: tuple[int, ...]) -> None:
    outputs, inputs = _random_graph(random.Random(seed))
    make = np.random.default_rng(seed)
    values = [make.standard_normal(shape, np.float32) for _ in inputs]
    grads = []
    for enabled in (True, False):
        compiled = CompiledGraph(outputs, inputs, training=True, record=True)
        if not enabled:
            compiled._programs = None
            compiled._make_backward = _plain(compiled._make_backward)  # type: ignore[method-assign]
        arrays = [nd.array(value) for value in values]
        for array in arrays:
            array.attach_grad()
        with mx.autograd.record():
            results = nd.invoke(compiled.operator, arrays, {})
        results = results if isinstance(results, list) else [results]
        if any(result._ag is None for result in results):
            return
        for retain in (True, True, False):
            mx.autograd.backward(results, retain_graph=retain)
            grads.append([array.grad.asnumpy() for array in arrays])
    for some in grads[1:]:
        for one, other in zip(grads[0], some, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def _normal_net() -> tuple[CompiledGraph, list[mx.nd.NDArray]]:
    """relu(BatchNorm(tanh(x) w)) w2, large enough for memory to be reused; and its arrays."""
    x, gamma, beta, mean, var, w = map(_var, ("x", "gamma", "beta", "mean", "var", "w"))
    h = F.relu(F.BatchNorm(F.broadcast_mul(F.tanh(x), w), gamma, beta, mean, var,
                           fix_gamma=False, axis=1))
    y = F.sum(F.square(F.broadcast_mul(h, w)))
    compiled = CompiledGraph([y], training=True, record=True)
    make = np.random.default_rng(1)
    arrays = [mx.nd.array(make.random(value.shape) + 0.5) for value in
              (np.ones((64, 8, 20, 20)), *[np.ones(8)] * 4, np.ones((1, 8, 20, 20)))]
    by_name = dict(zip(("x", "gamma", "beta", "mean", "var", "w"), arrays, strict=True))
    return compiled, [by_name[name] for name in compiled.input_names]


def _gradients(compiled: CompiledGraph, arrays: list[mx.nd.NDArray], retain: bool = False
               ) -> list[np.ndarray]:
    with mx.autograd.record():
        y = nd.invoke(compiled.operator, arrays, {})
    y.backward(retain_graph=retain)
    return [array.grad.asnumpy() for array in arrays]


def test_a_backward_lies_in_what_it_was_given() -> None:
    compiled, arrays = _normal_net()
    for array in arrays:
        array.attach_grad()
    kept = _gradients(compiled, arrays, retain=True)
    for _ in range(2):
        for one, other in zip(_gradients(compiled, arrays), kept, strict=True):
            np.testing.assert_array_equal(one, other)
    [back] = compiled._backwards.values()
    roomy, tight = sorted((p.arena_bytes for p in back.graph._programs.list()), reverse=True)
    assert tight <= roomy - 64 * 8 * 20 * 20 * 4


def test_relu_of_what_was_normalised_is_not_kept() -> None:
    compiled, arrays = _normal_net()
    kept = [(entry.node.op.name, entry.index) for entry in compiled.hidden]
    assert "relu" not in [name for name, _ in kept] and ("BatchNorm", 1) in kept
    names = {name for p in _programs_of(compiled, arrays) for name in p}
    assert names >= {"_contrib_BatchNormWithReLU", "_batch_norm_apply"} and "relu" not in names


def _programs_of(compiled: CompiledGraph, arrays: list[mx.nd.NDArray]) -> list[list[str]]:
    """The calls of the programs that a step runs."""
    for array in arrays:
        array.attach_grad()
    _gradients(compiled, arrays)
    graphs = [compiled, *(back.graph for back in compiled._backwards.values())]
    programs = [p for graph in graphs for p in graph._programs.list()]
    for p in programs:
        p.measure(True)
    _gradients(compiled, arrays)
    return [[name for name, _ in p.times()] for p in programs]


def test_gradients_are_written_where_the_old_ones_lie() -> None:
    compiled, arrays = _normal_net()
    for array in arrays:
        array.attach_grad()
    before = [array.grad._data for array in arrays if array.size > 100_000]
    _gradients(compiled, arrays)
    assert len(before) == 1
    assert next(array.grad._data for array in arrays if array.size > 100_000) is before[0]


def test_a_gradient_that_backward_reads_is_not_written_over_meanwhile() -> None:
    """x's old gradient is an input of two calls; the later one's gradient goes to x."""
    x, w = _var("x"), _var("w")
    product = CompiledGraph([F.broadcast_mul(F.square(x), w)], [x.node, w.node], training=True,
                            record=True)
    make = np.random.default_rng(1)
    start, other = make.random((300, 256)), make.random((300, 256))
    found = []
    for enabled in (True, False):
        if not enabled:
            product._programs = None
            product._make_backward = _plain(product._make_backward)  # type: ignore[method-assign]
            product._backwards.clear()
        a, b = nd.array(start), nd.array(other)
        a.attach_grad()
        b.attach_grad()
        a.grad[:] = 3 * b
        with mx.autograd.record():
            first = nd.invoke(product.operator, [a.grad, b], {})  # b's gradient is grad ** 2
            second = nd.invoke(product.operator, [a, a.grad], {})
            (first + second).backward()
        found.append((a.grad.asnumpy(), b.grad.asnumpy()))
    np.testing.assert_allclose(found[0][0], 2 * start * 3 * other, rtol=1e-5)
    np.testing.assert_allclose(found[0][1], 9 * other ** 2, rtol=1e-5)
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-6)


def _plain(make: Any) -> Any:
    def made(*args: Any) -> Any:
        plan = make(*args)
        if plan.graph is not None:
            plan.graph._programs = None
        return plan

    return made


def test_results_of_two_runs_share_nothing() -> None:
    x = _var("x")
    compiled = CompiledGraph([F.relu(F._mul_scalar(x, scalar=2.0))])
    device = device_of(cpu())
    [one] = compiled._run([np.ones((300, 400), np.float32)], device)
    [two] = compiled._run([np.full((300, 400), 2.0, np.float32)], device)
    assert one.base is None and one.flags.owndata and not np.shares_memory(one, two)
    assert one[0, 0] == 2.0 and two[0, 0] == 4.0


def test_visible_results_share_nothing_with_what_backward_keeps() -> None:
    h = F.sigmoid(_var("x"))  # its gradient needs h
    for seen in ([F.BlockGrad(h), h], [F.Reshape(h, shape=(-1,)), F.BlockGrad(h)], [F._copy(h)]):
        compiled = CompiledGraph(seen, training=True, record=True)
        results = compiled._run([np.ones((3, 4), np.float32)], device_of(cpu()))
        for i in range(len(seen)):
            for j, other in enumerate(results):
                assert i == j or not np.shares_memory(results[i], other)


def test_every_signature_has_its_program() -> None:
    x = _var("x")
    compiled = CompiledGraph([F.relu(x)])
    device = device_of(cpu())
    for shape in [(2, 3), (3, 2), (2, 3)]:
        for dtype in ("float32", "float64"):
            [y] = compiled._run([-np.ones(shape, dtype)], device)
            assert y.shape == shape and y.dtype == dtype and not y.any()
    assert len(compiled._programs.list()) == 4


@pytest.mark.parametrize("array", [np.zeros((0, 3), np.float32), np.float32(2.0).reshape(()),
                                   np.arange(12, dtype=np.float32).reshape(3, 4).T,
                                   np.arange(12, dtype=">f4")[::2]])
def test_odd_inputs(array: np.ndarray) -> None:
    compiled = CompiledGraph([F.square(F.square(_var("x")))])
    [y] = compiled._run([array], device_of(cpu()))
    np.testing.assert_allclose(y, array**4)


def test_an_error_names_the_node() -> None:
    x = _var("x")
    take = F.reshape_like(x, _var("y"))
    take.node.name = "culprit"
    compiled = CompiledGraph([F.relu(take)])
    with pytest.raises(MXNetError, match="culprit"):
        compiled._run([np.ones((2, 3), np.float32), np.ones((5,), np.float32)], device_of(cpu()))


def test_several_threads_may_run_one_graph() -> None:
    x = _var("x")
    y = x
    for _ in range(10):
        y = F.flip(F._plus_scalar(F.relu(y), scalar=1.0), axis=0)
    compiled = CompiledGraph([y])
    device = device_of(cpu())
    wrong = []

    def work(value: float) -> None:
        for _ in range(50):
            [got] = compiled._run([np.full((64, 64), value, np.float32)], device)
            if not (got == value + 10).all():
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(float(i),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_running_statistics_are_written() -> None:
    x, gamma, beta, mean, var = (_var(name) for name in ("x", "g", "b", "m", "v"))
    out = F.BatchNorm(x, gamma, beta, mean, var, fix_gamma=False)
    out = out[0] if isinstance(out, list) else out
    make = np.random.default_rng(0)
    values = [make.standard_normal((8, 3, 4, 4), np.float32), *[np.ones(3, np.float32)] * 2]
    seen = []
    for enabled in (True, False):
        compiled = CompiledGraph([out], variables([out]), training=True)
        if not enabled:
            compiled._programs = None
        state = [np.zeros(3, np.float32), np.ones(3, np.float32)]
        [y] = compiled._run([*values, *state], device_of(cpu()))
        seen.append([y, *state])
    for one, other in zip(*seen, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    assert abs(seen[0][1]).max() > 0


def test_a_graph_goes_when_nobody_holds_it() -> None:
    compiled = CompiledGraph([F.relu(_var("x"))])
    compiled._run([np.ones((2, 2), np.float32)], device_of(cpu()))
    gone = weakref.ref(compiled)
    del compiled
    gc.collect()
    assert gone() is None
