"""Pooling and transposition: kernels against the plain bodies."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from against_body import check, normal, step_for, threads

from minigluon.device.cpu import native
from minigluon.ops import registry

pytestmark = pytest.mark.skipif(not native.enabled, reason="the native core is not built")

TYPES = ["max", "avg", "sum"]


def _check(shape: tuple[int, ...], pool_type: str, **attrs: Any) -> None:
    x = np.round(normal(*shape) * 2) / 2  # many equal maxima
    attrs["pool_type"] = pool_type
    record = registry["Pooling"]
    y = record.body(np, x, **record.parse(attrs))
    check("Pooling", [x], attrs)
    check("_pool_grad", [normal(*y.shape, seed=1), x, y], attrs)


@pytest.mark.parametrize("pool_type", TYPES)
@pytest.mark.parametrize(("layout", "shape"), [(None, (3, 4, 9, 8)), ("NHWC", (3, 9, 8, 37))])
@pytest.mark.parametrize("attrs", [
    {"kernel": (2, 2), "stride": (2, 2)},
    {"kernel": (3, 2), "stride": (2, 1), "pad": (1, 0)},
    {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "count_include_pad": False},
    {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "count_include_pad": True},
    {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "pooling_convention": "full"},
    {"kernel": (2, 2), "stride": (2, 2), "pooling_convention": "same"},
    {"kernel": (2, 2), "stride": (3, 3)},
    {"kernel": (2, 3)},
    {"global_pool": True},
])
def test_two_dimensions(pool_type: str, layout: str | None, shape: tuple[int, ...],
                        attrs: dict[str, Any]) -> None:
    _check(shape, pool_type, layout=layout, **attrs)


@pytest.mark.parametrize("pool_type", TYPES)
def test_other_dimensions(pool_type: str) -> None:
    _check((3, 4, 9), pool_type, kernel=(3,), stride=(2,), pad=(1,))
    _check((3, 9, 20), pool_type, kernel=(3,), stride=(2,), pad=(1,), layout="NWC")
    _check((2, 5, 8, 8, 16), pool_type, kernel=(2, 2, 1), stride=(2, 2, 1))
    _check((2, 5, 9, 7, 16), pool_type, kernel=(3, 2, 1), stride=(2, 2, 1), pad=(1, 0, 0))
    _check((2, 3, 4, 5, 6), pool_type, global_pool=True)


@pytest.mark.parametrize("pool_type", TYPES)
def test_two_threads_give_the_same(pool_type: str) -> None:
    with threads(2):
        _check((8, 20, 24, 24, 16), pool_type, kernel=(2, 2, 1), stride=(2, 2, 1))
        _check((8, 40, 40, 24), pool_type, kernel=(3, 3), stride=(2, 2), pad=(1, 1), layout="NHWC")


@pytest.mark.parametrize("attrs", [{"kernel": (2, 2), "stride": (2, 2)},
                                   {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1)}])
@pytest.mark.parametrize("lanes", [None, 16])
def test_nan_and_infinity(attrs: dict[str, Any], lanes: int | None) -> None:
    x = normal(2, 3, 6, 6)
    x[0, 0, 0, 0], x[0, 1, :2, :2], x[1, 2, 3, 3] = np.nan, -np.inf, np.inf
    if lanes is not None:  # as images lie in blocks of samples
        x = np.stack([np.roll(x, i, 3) for i in range(lanes)], -1)
        attrs = {name: (*size, int(name != "pad")) for name, size in attrs.items()}
        attrs["pad"] = (*attrs.get("pad", (0, 0, 0))[:2], 0)
    step, [want] = step_for("Pooling", [x], attrs)
    np.testing.assert_array_equal(step([x])[0], want)
    dy = normal(*want.shape, seed=1)
    step, [dx] = step_for("_pool_grad", [dy, x, want], attrs)
    np.testing.assert_allclose(step([dy, x, want])[0], dx, rtol=1e-6)


def test_what_kernels_leave_to_the_body() -> None:
    x = normal(2, 3, 6, 6)
    step, _ = step_for("Pooling", [x], {"kernel": (2, 2), "pool_type": "lp", "p_value": 2})
    assert step is None
    step, _ = step_for("Pooling", [x.astype("float64")], {"kernel": (2, 2)})
    assert step is None
    step, _ = step_for("Pooling", [x[:0]], {"kernel": (2, 2)})
    assert step is None


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "float16"])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (70, 65), (1, 5, 1, 3), (2, 1, 1, 1), (3, 4, 5, 6),
                                   (2, 16, 3, 5, 7)])
def test_transpose(shape: tuple[int, ...], dtype: str) -> None:
    x = (np.random.default_rng(0).random(shape) * 100).astype(dtype)
    for axes in itertools.islice(itertools.permutations(range(len(shape))), 40):
        step, [want] = step_for("transpose", [x], {"axes": axes})
        np.testing.assert_array_equal(step([x])[0], want)
    step, [want] = step_for("transpose", [x], {})
    np.testing.assert_array_equal(step([x])[0], want)
    with threads(2):
        big = normal(9, 70, 300)
        step, [want] = step_for("transpose", [big], {"axes": (0, 2, 1)})
        np.testing.assert_array_equal(step([big])[0], want)
