"""Casts against NumPy's astype, bit for bit."""
from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from against_body import threads

from minigluon import nd
from minigluon.device.cpu import native

pytestmark = pytest.mark.skipif(not native.enabled, reason=native.reason)
Array = np.ndarray[Any, Any]
TYPES = ["float16", "float32", "float64", "int32", "int64", "uint8", "int8", "bool"]


def numbers(dtype: str, n: int) -> Array:
    """Ordinary and extreme numbers of a type."""
    rng = np.random.default_rng(n)
    if dtype == "bool":
        return rng.integers(0, 2, n).astype(bool)
    if dtype.startswith(("int", "uint")):
        info = np.iinfo(dtype)
        made = rng.integers(info.min, info.max, n, dtype=dtype, endpoint=True)
        made[:3] = np.array([info.min, info.max, 1])[:n]
        return made
    with np.errstate(over="ignore"):
        made = (rng.standard_normal(n) * 10.0 ** rng.integers(-8, 6, n)).astype(dtype)
        special = np.array([
            np.nan, np.inf, -np.inf, 0.0, -0.0, 65504, 65519.99, 65520, 6e-8, 2.98e-8, 2.99e-8,
            1e-9, -6.1e-5, 2047.5, 2049, 1 + 2.0**-11, 1 + 2.0**-11 + 2.0**-40, 255, 256, -1, 1e10,
            -1e30, 2.0**31, 2.0**63, 0.5, -0.5]).astype(dtype)
    made[:len(special)] = special[:n]
    return made


def same(got: Array, want: Array) -> None:
    assert got.dtype == want.dtype
    if want.dtype.kind == "f":
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        keep = ~np.isnan(want)
        got, want = got[keep], want[keep]
    np.testing.assert_array_equal(got.view(f"u{got.itemsize}"), want.view(f"u{want.itemsize}"))


@pytest.mark.parametrize(("source", "to"), [*itertools.permutations(TYPES, 2)])
def test_equals_numpy(source: str, to: str) -> None:
    for n in (1, 7, 61, 1025, 70001):
        x = numbers(source, n)
        step = native.step("Cast", [(source, (n,))], [(to, (n,))], {"dtype": to})
        assert step is not None
        with np.errstate(all="ignore"):
            want = x.astype(to)
        same(step([x])[0], want)
        with threads(2):
            same(step([x])[0], want)


def test_every_float16() -> None:
    every = np.arange(65536, dtype="uint16").view("float16")
    step = native.step("Cast", [("float16", (65536,))], [("float32", (65536,))], {})
    same(step([every])[0], every.astype("float32"))


@pytest.mark.parametrize("source", ["float32", "float64"])
def test_rounding_to_float16_between_all_neighbours(source: str) -> None:
    every = np.arange(0x7C00, dtype="uint16").view("float16").astype("float64")
    middle = (every[:-1] + every[1:]) / 2
    near = np.concatenate([middle, np.nextafter(middle, 0), np.nextafter(middle, 1e9), -middle])
    x = near.astype(source)
    step = native.step("Cast", [(source, x.shape)], [("float16", x.shape)], {})
    same(step([x])[0], x.astype("float16"))


def test_astype_of_arrays() -> None:
    x = nd.array([1.5, -2.25, 3])
    for to in TYPES[:-1]:
        if to == "uint8":
            continue
        np.testing.assert_array_equal(x.astype(to).asnumpy(), x.asnumpy().astype(to))
