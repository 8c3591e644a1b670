"""Kernels that go over axes in odd ways: transposes, slices, reductions, broadcast sums."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from against_body import check, normal, step_for, threads

from minigluon.device.cpu import native

pytestmark = pytest.mark.skipif(not native.enabled, reason="the native core is not built")

DTYPES = ("float32", "float64", "float16", "int8")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 3), (16, 16), (17, 33), (100, 70), (3, 4, 5), (2, 64, 48),
                                   (6, 20, 30, 4)])
def test_transpose_in_every_order(shape: tuple[int, ...], dtype: str) -> None:
    x = (normal(*shape) * 50).astype(dtype)
    for axes in itertools.permutations(range(len(shape))):
        step, [want] = step_for("transpose", [x], {"axes": axes})
        np.testing.assert_array_equal(step([x])[0], want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("begin", "end", "step"), [
    ((1, 2), (-1, -3), None), ((0,), (20,), (3,)), ((-1, -1, -1), (-21, -31, -8), (-1, -1, -1)),
    ((5, 3, 2), (18, 29, 6), (2, 3, 1)), ((19,), (0,), (-4,)), ((-100,), (100,), None),
    ((0, 0), (20, 30), (2, 2)), ((25,), (2,), (-3,))])
def test_slices(begin: Any, end: Any, step: Any, dtype: str) -> None:
    x = (normal(20, 30, 7) * 50).astype(dtype)
    made, [want] = step_for("slice", [x], {"begin": begin, "end": end, "step": step})
    np.testing.assert_array_equal(made([x])[0], want)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_every_length(dtype: str) -> None:
    for size in (1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 64, 100, 129, 256, 300, 1025):
        x = (normal(3, 4, 2, size) * 50).astype(dtype)
        for op, arrays, attrs in (("transpose", [x], {"axes": (2, 1, 0, 3)}),
                                  ("Concat", [x, x[:, :3].copy()], {"dim": 1}),
                                  ("take", [x, np.array([2, 0, 2, 9], "int32")], {"axis": 1})):
            step, [want] = step_for(op, arrays, attrs)
            np.testing.assert_array_equal(step(arrays)[0], want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("axis", "begin", "end"), [
    (0, 0, 4), (0, 2, None), (1, 3, 5), (-1, -4, -1), (2, 0, 7), (-2, -1, None)])
def test_gradient_of_slices_along_an_axis(axis: int, begin: int, end: Any, dtype: str) -> None:
    x = (normal(6, 5, 7) * 50).astype(dtype)
    attrs = {"axis": axis, "begin": begin, "end": end}
    _, [cut] = step_for("slice_axis", [x], attrs)
    for count in (1, 2):
        with threads(count):
            step, [want] = step_for("_slice_axis_grad", [cut, x], attrs)
            np.testing.assert_array_equal(step([cut, x])[0], want)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("shape", [(3, 5, 7, 4), (40, 5, 100, 4), (3, 2, 5, 2, 6)])
def test_reductions_over_alternating_axes(shape: tuple[int, ...], count: int) -> None:
    x = normal(*shape)
    with threads(count):
        for size in (1, 2, 3):
            for axes in itertools.combinations(range(len(shape)), size):
                for op in ("sum", "mean", "max", "min"):
                    check(op, [x], {"axis": axes}, 3e-6)
                if size < 3:
                    for order in (1, 2):
                        check("norm", [x], {"axis": axes, "ord": order}, 3e-6)


def test_extremes_of_few_elements_keep_nan() -> None:
    x = normal(6, 3)
    x[2, 1] = x[4, 0] = np.nan
    for op in ("max", "min", "sum"):
        step, [want] = step_for(op, [x], {"axis": 1})
        np.testing.assert_array_equal(np.isnan(step([x])[0]), np.isnan(want))


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(("one", "other"), [
    ((25, 40), (1, 40)), ((250, 400), (1, 400)), ((250, 400), (250, 1)),
    ((33, 17, 19), (1, 17, 19)), ((33, 17, 19), (17, 1)), ((64, 5000), (1, 5000)),
    ((300, 1000), (1000,)), ((2000, 3), (3,)), ((50, 7, 9), (1, 7, 1)), ((90, 4), (1, 1))])
def test_broadcasting(one: tuple[int, ...], other: tuple[int, ...], count: int) -> None:
    with threads(count):
        for dtype in ("float32", "float64"):
            x, y = normal(*one).astype(dtype), normal(*other, seed=1).astype(dtype)
            check("broadcast_add", [x, y], {}, 0)
            check("broadcast_sub", [y, x], {}, 0)
