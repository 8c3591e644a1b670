"""The frame that carries native kernels: the door, steps, and what they refuse."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from minigluon.device.cpu import native

pytestmark = pytest.mark.skipif(not native.enabled, reason=native.reason)

F32 = "float32"


def _copy(shape: tuple[int, ...], dtype: str = F32) -> object:
    return native.step("_copy", [(dtype, shape)], [(dtype, shape)], {})


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int64", "uint8",
                                   "int8", "bool"])
@pytest.mark.parametrize("shape", [(1,), (3, 5), (0, 4), (2, 300000)])
def test_copy(shape: tuple[int, ...], dtype: str) -> None:
    x = (np.random.default_rng(0).random(shape) * 9).astype(dtype)
    [y] = _copy(shape, dtype)([x])
    assert y.dtype == x.dtype and y.base is None
    np.testing.assert_array_equal(y, x)


def test_run_fills_given_arrays() -> None:
    x, y = np.arange(6, dtype=F32).reshape(2, 3), np.zeros((2, 3), F32)
    _copy((2, 3)).run([x], [y])
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("wrong", [
    np.zeros((3, 2), "float64"), np.zeros((2, 2), F32), np.zeros((2, 6), F32)[:, ::2],
])
def test_a_step_refuses_other_arrays(wrong: np.ndarray) -> None:
    with pytest.raises(ValueError, match="not the dense array"):
        _copy((2, 3))([wrong])


def test_unknown_operators_and_types_have_no_step() -> None:
    assert native.step("no such operator", [], [], {}) is None
    assert _copy((2,), "complex64") is None
    assert not native.has_kernel("no such operator")


def test_attributes_of_an_unknown_kind_are_no_error() -> None:
    assert native.step("_copy", [(F32, (2,))], [(F32, (2,))], {"odd": object()}) is None
    attrs = {"a": None, "b": True, "c": 3, "d": 0.5, "e": "x", "f": (1, 2), "g": (1, 0.5)}
    assert native.step("_copy", [(F32, (2,))], [(F32, (2,))], attrs) is not None


@pytest.mark.parametrize(("wish", "seen"), [
    ({}, "3000"), ({"GOMP_SPINCOUNT": "777"}, "777"), ({"OMP_WAIT_POLICY": "PASSIVE"}, "0")])
def test_idle_threads_sleep_soon_unless_the_user_wants_otherwise(
        wish: dict[str, str], seen: str) -> None:
    own = {name: value for name, value in os.environ.items()
           if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    done = subprocess.run(
        [sys.executable, "-c", "import os, minigluon; print(os.environ.get('GOMP_SPINCOUNT'))"],
        env={**own, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_DISPLAY_ENV": "VERBOSE", **wish},
        capture_output=True, text=True, check=True)
    if "GOMP_SPINCOUNT" not in done.stderr:
        pytest.skip("another OpenMP library than GNU's")
    assert f"GOMP_SPINCOUNT = '{seen}'" in done.stderr
    assert done.stdout.strip() == wish.get("GOMP_SPINCOUNT", "None")
