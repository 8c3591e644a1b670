"""A device's faster body of an operator: which one dispatch takes, and when."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import minigluon as mx
from minigluon import device
from minigluon.dispatch import call
from minigluon.ops import Operator, operator, registry
from minigluon.ops.rules import same_shape

NAME = "_test_of_kernels"


@pytest.fixture
def op(monkeypatch: pytest.MonkeyPatch) -> Iterator[Operator]:
    """An operator of this test alone; its kernels go with it."""

    @operator(NAME, infer=same_shape)
    def plain(xp: Any, x: Any, *, scale: float = 1.0) -> Any:
        return x * scale

    monkeypatch.setattr(device, "_kernels", {})
    yield plain
    del registry[NAME]


def value(op: Operator, size: int) -> float:
    here = device.device_of(mx.cpu())
    [out] = call(op, [np.ones(size, np.float32)], op.parse({"scale": 2.0}), here)
    return float(out[0])


def test_without_a_kernel_the_body_runs(op: Operator) -> None:
    assert value(op, 3) == 2.0


def test_the_latest_kernel_that_accepts_the_call_is_taken(op: Operator) -> None:
    @device.kernel(NAME)
    def always(xp: Any, x: Any, *, scale: float) -> Any:
        return x * scale + 10

    @device.kernel(NAME, when=lambda arrays, attrs: arrays[0].size > 5 and attrs["scale"] == 2)
    def for_large(xp: Any, x: Any, *, scale: float) -> Any:
        return x * scale + 20

    assert value(op, 3) == 12.0
    assert value(op, 9) == 22.0


def test_a_kernel_of_another_device_is_not_taken(op: Operator) -> None:
    @device.kernel(NAME, device="gpu")
    def elsewhere(xp: Any, x: Any, *, scale: float) -> Any:
        raise AssertionError("not on this device")

    assert value(op, 3) == 2.0


def test_the_device_runs_the_body_itself(op: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device may have to be made current first (a second GPU): dispatch leaves that to it."""
    here, seen = device.device_of(mx.cpu(5)), []

    def run(body: Any, arrays: Any, attrs: Any, small_steps: bool) -> Any:
        seen.append(body)
        return body(np, *arrays, **attrs)

    monkeypatch.setattr(here, "run", run)
    [out] = call(op, [np.ones(2, np.float32)], op.parse({"scale": 3.0}), here)
    assert seen == [op.body] and out.tolist() == [3.0, 3.0]
