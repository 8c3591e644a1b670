"""Pooled memory: reused, aligned, bounded, safe across threads and forks."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from minigluon import nd
from minigluon.device.cpu import native

pytestmark = pytest.mark.skipif(not native.enabled, reason=native.reason)
BIG = (1 << 20,)  # 4 MB of float32


@pytest.fixture(autouse=True)
def empty_pool() -> Iterator[None]:
    limit = native.core.pool_stats()["limit"]
    native.core.pool_limit(0)
    native.core.pool_limit(limit)
    yield
    native.core.pool_limit(limit)


def _stats() -> Any:
    return native.core.pool_stats()


def _place(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def test_a_block_comes_back() -> None:
    one = native.core.empty(BIG, "float32")
    place, before = _place(one), _stats()
    assert one.flags.owndata and one.base is None and place % 4096 == 0
    del one
    assert _stats()["idle"] - before["idle"] == before["used"] - _stats()["used"] >= 4 << 20
    two = native.core.empty((BIG[0] - 100,), "float32")  # a little smaller will do
    assert _place(two) == place and _stats()["reused"] == before["reused"] + 1


def test_big_blocks_lie_on_huge_pages() -> None:
    assert _place(native.core.empty((3 << 20,), "float32")) % (2 << 20) == 0


def test_small_arrays_are_not_pooled() -> None:
    before = _stats()
    assert native.core.empty((10, 10), "float32").shape == (10, 10)
    assert _stats() == before


def test_results_of_operators_are_pooled() -> None:
    x = nd.ones(BIG)
    before = _stats()
    for function in (lambda: x + x, lambda: nd.relu(x), lambda: nd.arccosh(x)):
        results = function()
        assert _stats()["used"] >= before["used"] + (4 << 20)
        del results
    assert _stats()["used"] == before["used"]


def test_idle_memory_is_bounded() -> None:
    native.core.pool_limit(10 << 20)
    arrays = [native.core.empty(BIG, "float32") for _ in range(5)]
    places = [_place(array) for array in arrays]
    while arrays:
        del arrays[0]
    assert 4 << 20 <= _stats()["idle"] <= 10 << 20
    assert _place(native.core.empty(BIG, "float32")) in places[-2:]  # the oldest went


def test_resized_arrays_keep_their_values() -> None:
    array = native.core.empty(BIG, "float32")
    array[:] = np.arange(BIG[0], dtype=np.float32)
    for size in (BIG[0] * 2, 100, BIG[0], 10, 0, 5):
        kept = min(size, len(array))
        expected = array[:kept].copy()
        array.resize(size, refcheck=False)
        np.testing.assert_array_equal(array[:kept], expected)


def test_zeros_are_zeros_in_a_used_block() -> None:
    array = native.core.empty(BIG, "float32")
    array[:] = 7
    del array
    before = native.core.pooled_begin()
    try:
        zeros = np.zeros(BIG, np.float32)
    finally:
        native.core.pooled_end(before)
    assert not zeros.any()
    assert np.empty(3).sum() is not None  # NumPy's own memory again


def test_threads() -> None:
    wrong = []

    def work(value: int) -> None:
        for _ in range(200):
            array = native.core.empty((70000 + value,), "float32")
            array[:] = value
            if not (array == value).all():
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_forked_child_computes() -> None:
    x = nd.ones(BIG)
    (x + x).wait_to_read()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = b"0"
        try:
            y = (nd.relu(x * 2) + x).sum().asscalar()
            status = b"1" if y == 3 * BIG[0] and native.core.threads() == 1 else b"2"
        finally:
            os.write(writer, status)
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    assert os.read(reader, 1) == b"1"
    os.close(reader)
