"""Dropout's kernels: the generator against its definition, the loops against the plain body."""
from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from against_body import threads

import minigluon as mx
from minigluon import autograd, gluon, nd
from minigluon.device import device_of
from minigluon.device.cpu import native
from minigluon.graph import CompiledGraph, Entry, F, Node
from minigluon.ops import registry

pytestmark = pytest.mark.skipif(not native.enabled, reason=native.reason)
Array = np.ndarray[Any, Any]


def philox(counter: Array, key: tuple[int, int]) -> Array:
    """Philox4x32-10 as its authors define it (SC'11, section 3.3): (n, 4) words -> (n, 4)."""
    c = counter.astype(np.uint64)
    k0, k1 = key
    for _ in range(10):
        p0, p1 = c[:, 0] * 0xD2511F53, c[:, 2] * 0xCD9E8D57
        c = np.stack([(p1 >> 32) ^ c[:, 1] ^ k0, p1 & 0xFFFFFFFF,
                      (p0 >> 32) ^ c[:, 3] ^ k1, p0 & 0xFFFFFFFF], 1)
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c


def numbers(n: int, key: int, run: int) -> Array:
    """The first n numbers of a run, in the order of philox.inl."""
    blocks = -(-n // 32)
    place = np.arange(blocks * 8, dtype=np.uint64)
    high = np.full_like(place, run)
    counter = np.stack([place & 0xFFFFFFFF, place >> 32, high & 0xFFFFFFFF, high >> 32], 1)
    words = philox(counter, (key & 0xFFFFFFFF, key >> 32))
    return words.reshape(blocks, 8, 4).transpose(0, 2, 1).ravel()[:n]


def test_the_reference_is_philox() -> None:
    """The known answers that come with the authors' Random123 (kat_vectors)."""
    ones = 0xFFFFFFFF
    cases = [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ones,) * 4, (ones, ones), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
         (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
    ]
    for counter, key, wanted in cases:
        assert tuple(philox(np.array([counter], np.uint64), key)[0].tolist()) == wanted


def step_for(data: Array, **attrs: Any) -> Any:
    op = registry["Dropout"]
    complete = {**op.parse(attrs), "training": True}
    _, [_, mask] = op.infer([data.shape], op.parse(attrs))
    return native.step("Dropout", [native.desc_of(data)],
                       [native.desc_of(data), ("uint8", mask)], complete)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "axes"), [
    ((1,), ()), ((31,), ()), ((5, 7, 3), ()), ((70001,), ()), ((4097,), ()), ((300, 1000), ()),
    ((5, 7, 3), (1,)), ((5, 7, 3), (0, 2)), ((5, 7, 33), (0,)), ((6, 5), (-1,)), ((6, 5), (0, 1)),
    ((2, 1, 3), (1,)),
])
@pytest.mark.parametrize("p", [0.5, 0.1, 0.999])
def test_kernel_draws_by_place_and_equals_body(dtype: str, shape: Any, axes: Any, p: float
                                               ) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    x.ravel()[0] = np.nan
    step = step_for(x, p=p, axes=axes)
    key, run = 0x0123456789ABCDEF, (1 << 40) + 3
    step.seed(key, run)
    out, mask = step([x])
    drawn = [1 if d in axes or d - len(shape) in axes else n for d, n in enumerate(shape)]
    kept = numbers(int(np.prod(drawn)), key, run) >= round(p * 2**32)
    np.testing.assert_array_equal(mask, np.packbits(kept, bitorder="little"))
    again = registry["_dropout_grad"].body(np, x, mask, p=p, axes=axes)
    np.testing.assert_allclose(out, again, rtol=1e-7)
    grad = native.step("_dropout_grad", [native.desc_of(x), native.desc_of(mask)],
                       [native.desc_of(x)], {"p": p, "axes": axes})
    np.testing.assert_array_equal(grad([x, mask])[0], out)
    with threads(2):
        two, mask2 = step([x])
        np.testing.assert_array_equal(two, out)
        np.testing.assert_array_equal(mask2, mask)
    step.seed(key, run + 1)
    assert int(np.prod(drawn)) < 30 or p > 0.99 or (step([x])[1] != mask).any()


def test_inactive_is_a_copy_and_p_1_is_left_to_the_body() -> None:
    x = np.arange(70, dtype="float32")
    op = registry["Dropout"]
    attrs = {**op.parse({"p": 0.5}), "training": False}
    step = native.step("Dropout", [native.desc_of(x)], [native.desc_of(x), ("uint8", (9,))], attrs)
    out, mask = step([x])
    np.testing.assert_array_equal(out, x)
    assert (mask == 255).all()
    assert step_for(x, p=1.0) is None


def test_the_share_of_zeros() -> None:
    x = nd.ones((1000, 1000))
    for p in (0.1, 0.5, 0.9):
        with autograd.train_mode():
            zeros = float((nd.Dropout(x, p=p).asnumpy() == 0).mean())
        assert abs(zeros - p) < 5 * (p * (1 - p) / 1e6) ** 0.5


def test_eager_and_hybridized_draw_alike_and_differ_from_call_to_call() -> None:
    x = nd.ones((50, 40))
    results = []
    for hybrid in (False, True):
        net = gluon.nn.HybridSequential()
        net.add(gluon.nn.Dropout(0.3), gluon.nn.Dropout(0.5, axes=(0,)))
        if hybrid:
            net.hybridize()
        mx.random.seed(3)
        with autograd.train_mode():
            results.append([net(x).asnumpy() for _ in range(3)])
    for eager, hybridized in zip(*results, strict=True):
        np.testing.assert_array_equal(eager, hybridized)
    assert (results[0][0] != results[0][1]).any()


def test_programs_forwards_and_backwards_have_no_callback() -> None:
    x = Entry(Node(None, "x"), 0)
    graph = CompiledGraph([F.Dropout(F.square(x), p=0.5)], training=True, record=True)
    given = nd.ones((40, 30))
    given.attach_grad()
    with autograd.record():
        y = nd.invoke(graph.operator, [given], {})
    y.backward()
    backward = next(iter(graph._backwards.values())).graph
    for one in (graph, backward):
        assert [program.callback_names() for program in one._programs.list()] == [[]]
    np.testing.assert_array_equal(given.grad.asnumpy(), 2 * y.asnumpy())
    assert set(np.unique(y.asnumpy())) == {0.0, 2.0}


def test_contexts_have_streams_of_their_own() -> None:
    def drawn(ctx: mx.Context) -> Array:
        with autograd.train_mode():
            return np.asarray(nd.Dropout(nd.ones((200,), ctx=ctx)).asnumpy())

    mx.random.seed(9)
    first, other = drawn(mx.cpu(0)), drawn(mx.cpu(1))
    assert (first != other).any()
    mx.random.seed(9)
    np.testing.assert_array_equal(drawn(mx.cpu(1)), other)
    mx.random.seed(4, ctx=mx.cpu(1))
    np.testing.assert_array_equal(drawn(mx.cpu(0)), first)


def test_two_threads_never_share_a_run() -> None:
    source = device_of(mx.cpu()).source
    taken: list[list[int]] = [[], []]

    def take(into: list[int]) -> None:
        into.extend(source.next()[1] for _ in range(2000))

    workers = [threading.Thread(target=take, args=(into,)) for into in taken]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len({*taken[0], *taken[1]}) == 4000
