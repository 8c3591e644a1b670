"""Matrix products: kernels against the plain bodies."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from against_body import check, normal, step_for, threads

from minigluon.device.cpu import native
from minigluon.ops import registry

pytestmark = pytest.mark.skipif(not native.onednn, reason="oneDNN's kernels are not built")

FLAGS = list(itertools.product((False, True), repeat=2))


@pytest.mark.parametrize("flatten", [True, False])
@pytest.mark.parametrize("shape", [(6, 3, 4), (5, 7), (1, 1), (70, 130)])
def test_fully_connected(flatten: bool, shape: tuple[int, ...]) -> None:
    width = int(np.prod(shape[1:])) if flatten else shape[-1]
    x, w, b = normal(*shape), normal(5, width), normal(5)
    attrs = {"num_hidden": 5, "flatten": flatten}
    check("FullyConnected", [x, w, b], attrs)
    check("FullyConnected", [x, w], {**attrs, "no_bias": True})
    dy = normal(shape[0], 5) if flatten else normal(*shape[:-1], 5)
    check("_fc_grad_data", [dy, w, x], attrs)
    check("_fc_grad_weight", [dy, x], attrs)


@pytest.mark.parametrize(("a", "b"), FLAGS)
@pytest.mark.parametrize(("left", "right"), [
    ((3, 4), (4, 5)), ((2, 3, 4), (4, 5, 6)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)),
])
def test_dot(a: bool, b: bool, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    lhs = normal(*((left[-1], *left[:-1]) if a else left))
    rhs = normal(*((*right[1:], right[0]) if b else right))
    attrs = {"transpose_a": a, "transpose_b": b}
    out = registry["dot"].body(np, lhs, rhs, **attrs)
    check("dot", [lhs, rhs], attrs)
    for side in ("lhs", "rhs"):
        check("_dot_grad", [normal(*out.shape, seed=1), lhs, rhs], {**attrs, "side": side})


@pytest.mark.parametrize(("a", "b"), FLAGS)
@pytest.mark.parametrize("stack", [(), (7,), (2, 3)])
def test_stacks(a: bool, b: bool, stack: tuple[int, ...]) -> None:
    lhs = normal(*stack, *((4, 3) if a else (3, 4)))
    rhs = normal(*stack, *((5, 4) if b else (4, 5)))
    attrs: dict[str, Any] = {"transpose_a": a, "transpose_b": b}
    if len(stack) == 1:
        check("batch_dot", [lhs, rhs], attrs)
    check("_linalg_gemm2", [lhs, rhs], {**attrs, "alpha": -0.5})
    check("_linalg_gemm2", [lhs, rhs], attrs)


def test_two_threads_give_the_same() -> None:
    with threads(2):
        check("dot", [normal(200, 300), normal(300, 170)], {})
        check("FullyConnected", [normal(128, 400), normal(90, 400), normal(90)],
              {"num_hidden": 90})
        check("batch_dot", [normal(9, 64, 60), normal(9, 60, 70)], {})


def test_what_kernels_leave_to_the_body() -> None:
    for one, other in ((normal(3, 4).astype("int32"), normal(4, 2).astype("int32")),
                       (normal(0, 4), normal(4, 2)), (normal(3, 0), normal(0, 2))):
        step, _ = step_for("dot", [one, other], {})
        assert step is None


def test_nan_and_infinity_reach_their_rows() -> None:
    x, w = normal(3, 4), normal(5, 4)
    x[0, 1], x[2, 2] = np.nan, np.inf
    step, [want] = step_for("FullyConnected", [x, w], {"num_hidden": 5, "no_bias": True})
    [got] = step([x, w])
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("rows", [1, 2, 11, 12, 25, 97, 200])
def test_sizes_around_those_of_tiles_and_pieces(rows: int, count: int, dtype: str) -> None:
    with threads(count):
        for k, n in itertools.product((1, 15, 17, 129, 300), (1, 3, 16, 33, 64, 130)):
            x, w, b = (normal(*shape).astype(dtype) for shape in ((rows, k), (n, k), (n,)))
            check("FullyConnected", [x, w, b], {"num_hidden": n})
            check("_fc_grad_data", [normal(rows, n).astype(dtype), w, x], {"num_hidden": n})
            check("_fc_grad_weight", [normal(rows, n).astype(dtype), x], {"num_hidden": n})


LARGE = [(700, 500, 510), (125, 2100, 600), (1300, 257, 513), (26, 4097, 1500), (3000, 70, 770)]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(("m", "k", "n"), LARGE)
def test_large_products(m: int, k: int, n: int, count: int) -> None:
    with threads(count):
        x, w, dy = normal(m, k), normal(n, k), normal(m, n)
        check("FullyConnected", [x, w, normal(n)], {"num_hidden": n})
        check("_fc_grad_data", [dy, w, x], {"num_hidden": n})
        check("_fc_grad_weight", [dy, x], {"num_hidden": n})


@pytest.mark.parametrize(("a", "b"), FLAGS)
def test_large_products_of_turned_matrices(a: bool, b: bool) -> None:
    lhs = normal(*((520, 401) if a else (401, 520)))
    rhs = normal(*((770, 520) if b else (520, 770)))
    attrs = {"transpose_a": a, "transpose_b": b}
    check("dot", [lhs, rhs], attrs)
    check("dot", [lhs.astype("float64"), rhs.astype("float64")], attrs, 1e-13)
    check("_linalg_gemm2", [lhs, rhs], {**attrs, "alpha": -0.5})
    stacked = [np.stack([one, -one, one + 1]) for one in (lhs, rhs)]
    check("batch_dot", stacked, attrs)


def test_nan_and_infinity_of_large_products_reach_their_rows() -> None:
    x, w = normal(300, 600), normal(900, 600)
    x[7, 1], x[299, 599] = np.nan, np.inf
    step, [want] = step_for("FullyConnected", [x, w], {"num_hidden": 900, "no_bias": True})
    with np.errstate(invalid="ignore"):
        [got] = step([x, w])
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))
