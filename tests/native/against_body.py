"""Compare a native kernel with its operator's plain body; what the kernel tests share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from minigluon.device.cpu import native
from minigluon.ops import registry

Array = np.ndarray[Any, Any]


def normal(*shape: int, seed: int = 0) -> Array:
    """Standard normal numbers in single precision."""
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype("float32")


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let kernels use that many threads."""
    before = native.core.threads()
    native.core.set_threads(count)
    try:
        yield
    finally:
        native.core.set_threads(before)


def step_for(op: str, arrays: list[Array], attrs: dict[str, Any]) -> tuple[Any, list[Array]]:
    """The native step of a call (or None), and what the plain body gives for it."""
    record = registry[op]
    complete = record.parse(attrs)
    wanted = record.body(np, *arrays, **complete)
    wanted = list(wanted) if isinstance(wanted, tuple) else [wanted]
    descs = [[native.desc_of(array) for array in group] for group in (arrays, wanted)]
    return native.step(op, *descs, complete), wanted


def check(op: str, arrays: list[Array], attrs: dict[str, Any], tolerance: float = 1e-5) -> None:
    """The kernel takes the call and agrees with the body, relative to the largest value."""
    step, wanted = step_for(op, arrays, attrs)
    assert step is not None, f"no native kernel takes {op} {attrs}"
    for got, want in zip(step(arrays), wanted, strict=True):
        assert got.shape == want.shape and got.dtype == want.dtype
        scale = np.abs(want[np.isfinite(want)]).max(initial=1e-30)
        np.testing.assert_allclose(got / scale, want / scale, rtol=0, atol=tolerance)
