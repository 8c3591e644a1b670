"""Every native kernel against the plain body of its operator, over the catalogue of operators."""
from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from samples import ALL

from minigluon.device.cpu import native
from minigluon.ops import Operator, registry

pytestmark = pytest.mark.skipif(not native.enabled, reason=native.reason)

_TOLERANCE = {"float32": 2e-6, "float64": 1e-14, "float16": 1e-3}


def plain(op: Operator, arrays: list[np.ndarray], attrs: dict[str, Any]) -> list[np.ndarray]:
    """The outputs of the operator's body."""
    if op.needs_rng:
        attrs = {**attrs, "rng": np.random.default_rng(0)}
    with np.errstate(all="ignore"):
        result = op.body(np, *arrays, **attrs)
    return [np.ascontiguousarray(one) for one in (result if isinstance(result, tuple)
                                                  else (result,))]


def prepared(op: Operator, arrays: list[np.ndarray], outputs: list[np.ndarray],
             attrs: dict[str, Any]) -> Any:
    """The native step for a call, or None."""
    return native.step(op.name, [native.desc_of(a) for a in arrays],
                       [native.desc_of(a) for a in outputs], attrs)


def compare(op: Operator, arrays: list[np.ndarray], attrs: dict[str, Any], scale: float = 1.0
            ) -> bool:
    """Native against plain, mutated inputs included; false: no kernel takes the call."""
    native_arrays, plain_arrays = copy.deepcopy(arrays), copy.deepcopy(arrays)
    wanted = plain(op, plain_arrays, attrs)
    step = prepared(op, arrays, wanted, attrs)
    if step is None:
        return False
    for got, want in zip([*step(native_arrays), *native_arrays], [*wanted, *plain_arrays],
                         strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        if want.dtype.kind != "f":
            np.testing.assert_array_equal(got, want)
            continue
        size = np.abs(want[np.isfinite(want)]).max(initial=1.0)
        tolerance = _TOLERANCE[want.dtype.name] * scale
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * size)
    return True


def _calls() -> list[Any]:
    """Samples of operators that have a kernel, but for those that draw."""
    chosen = [(label, name, sample) for label, name, sample in ALL
              if native.has_kernel(name) and not sample.random]
    return [pytest.param(name, sample, dtype, id=f"{label}-{dtype}")
            for label, name, sample in chosen for dtype in ("float32", "float64")]


@pytest.mark.parametrize(("name", "sample", "dtype"), _calls())
def test_kernel_equals_body(name: str, sample: Any, dtype: str) -> None:
    op = registry[name]
    attrs = op.parse(sample.attrs)
    if op.needs_training:
        attrs = {**attrs, "training": True}
    scale = 30.0 if "onv" in name or "ully" in name or "dot" in name else 4.0
    compare(op, sample.arrays(dtype), attrs, scale)
    if op.needs_training:
        compare(op, sample.arrays(dtype), {**attrs, "training": False}, scale)


def _is_taken(name: str, sample: Any) -> bool:
    op = registry[name]
    attrs = op.parse(sample.attrs)
    if op.needs_training:
        attrs = {**attrs, "training": True}
    arrays = sample.arrays("float32")
    return prepared(op, arrays, plain(op, copy.deepcopy(arrays), attrs), attrs) is not None


def test_kernels_take_their_operators() -> None:
    """A kernel that refuses all samples of its operator would look tested and be dead."""
    samples: dict[str, list[Any]] = {}
    for _, name, sample in ALL:
        if native.has_kernel(name) and not registry[name].needs_rng:
            samples.setdefault(name, []).append(sample)
    dead = [name for name, several in samples.items()
            if not any(_is_taken(name, sample) for sample in several)]
    assert dead == []
