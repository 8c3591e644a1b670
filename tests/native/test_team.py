"""The team that shares out work: every part once, from several threads, in a forked child."""

from __future__ import annotations

import multiprocessing
import threading

import numpy as np
import pytest
from against_body import normal, threads

from minigluon.device.cpu import native

pytestmark = pytest.mark.skipif(not native.enabled, reason="the native core is not built")

SHAPE = (300, 257)


def _step() -> tuple[object, list[np.ndarray], np.ndarray]:
    x, y = normal(*SHAPE), normal(*SHAPE, seed=1)
    desc = native.desc_of(x)
    return native.step("broadcast_add", [desc, desc], [desc], {}), [x, y], x + y


def _agrees(repeats: int = 200) -> bool:
    step, given, wanted = _step()
    return all(np.array_equal(step(given)[0], wanted) for _ in range(repeats))  # type: ignore[operator]


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_every_part_is_done_once(count: int) -> None:
    with threads(count):
        assert _agrees()


def test_several_threads_share_one_team() -> None:
    found: list[bool] = []
    with threads(2):
        workers = [threading.Thread(target=lambda: found.append(_agrees())) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60)
    assert found == [True] * 4


def test_a_forked_child_works_alone() -> None:
    with threads(2):
        assert _agrees(3)  # helpers exist now
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(_agrees, [5, 5]) == [True, True]
        assert _agrees(3)


def test_sizes_may_change_between_runs() -> None:
    for count in (2, 1, 4, 2):
        with threads(count):
            assert _agrees(5)
