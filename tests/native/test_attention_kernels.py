"""Attention on interleaved projections: kernels against the plain bodies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from against_body import Array, check, normal, step_for, threads

from minigluon.device.cpu import native

pytestmark = pytest.mark.skipif(not native.enabled, reason="the native core is not built")

# queries, samples, heads, depth, keys
SIZES = [(5, 3, 2, 4, 7), (37, 2, 3, 20, 150), (200, 1, 2, 70, 33), (64, 2, 2, 64, 64),
         (1, 1, 1, 1, 1)]


def calls(size: tuple[int, ...], dtype: str) -> list[tuple[str, list[Array]]]:
    length, batch, heads, depth, keys = size

    def made(*shape: int) -> Array:
        return normal(*shape, seed=len(shape)).astype(dtype)

    data, weights = made(length, batch, 3 * heads * depth), made(batch * heads, length, length)
    queries, both = made(length, batch, heads * depth), made(keys, batch, 2 * heads * depth)
    cross = made(batch * heads, length, keys)
    matmul = "_contrib_interleaved_matmul"
    return [
        (f"{matmul}_selfatt_qk", [data]), (f"{matmul}_selfatt_valatt", [data, weights]),
        ("_selfatt_qk_grad", [weights, data]), ("_selfatt_valatt_grad", [queries, data, weights]),
        (f"{matmul}_encdec_qk", [queries, both]), (f"{matmul}_encdec_valatt", [both, cross]),
        ("_encdec_qk_grad", [cross, queries, both]),
        ("_encdec_valatt_grad", [queries, both, cross]),
        ("_selfatt", [data]), ("_selfatt_grad", [queries, data, weights]),
    ]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", SIZES)
def test_odd_sizes(size: tuple[int, ...], dtype: str, count: int) -> None:
    with threads(count):
        for op, arrays in calls(size, dtype):
            check(op, arrays, {"heads": size[2]}, 5e-6 if dtype == "float32" else 1e-13)


def test_threads_do_not_change_a_result() -> None:
    for op, arrays in calls((130, 2, 4, 32, 90), "float32"):
        results: list[Any] = []
        for count in (1, 2):
            with threads(count):
                step, _ = step_for(op, arrays, {"heads": 4})
                results.append(step(arrays))
        for one, two in zip(*results, strict=True):
            np.testing.assert_array_equal(one, two)


def test_nan_stays_in_its_row() -> None:
    [data] = calls(SIZES[0], "float32")[-2][1]
    data[2, 1, 0] = np.nan  # a query of sample 1, head 0
    step, [want, _] = step_for("_selfatt", [data], {"heads": 2})
    got, _ = step([data])
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    assert np.isnan(want).sum() == 4
