"""Schedulers against the figures of MXNet 1.9.1."""
from __future__ import annotations

import pickle

import pytest

from minigluon import optimizer
from minigluon.lr_scheduler import (
    CosineScheduler,
    FactorScheduler,
    LRScheduler,
    MultiFactorScheduler,
    PolyScheduler,
)


def _at(schedule: LRScheduler, *updates: int) -> list[float]:
    return [schedule(n) for n in updates]


def test_factor_with_constant_warmup_and_floor() -> None:
    schedule = FactorScheduler(100, 0.1, 1e-4, 1, 20, 0.1, "constant")
    expected = [0.1, 0.1, 1, 1, 0.1, 0.01, 1e-4]
    assert _at(schedule, 0, 10, 21, 100, 101, 201, 1000) == pytest.approx(expected)


def test_multi_factor_with_linear_warmup() -> None:
    schedule = MultiFactorScheduler([15, 25], 0.1, 0.1, warmup_steps=10, warmup_begin_lr=0.05)
    found = _at(schedule, 0, 1, 5, 10, 15, 16, 25, 26)
    assert found == pytest.approx([0.05, 0.055, 0.075, 0.1, 0.1, 0.01, 0.01, 0.001])


def test_poly_and_cosine() -> None:
    poly = PolyScheduler(1000, 3, 2, warmup_steps=100)
    assert _at(poly, 50, 100, 101, 500, 1000, 1500) == pytest.approx(
        [1.5, 3, 2.9933370370370374, 0.925925925925926, 0, 0]
    )
    cosine = CosineScheduler(1000, 3, 0.1)
    assert _at(cosine, 0, 101, 500, 1000, 1001) == pytest.approx(
        [3, 2.927617477696119, 1.55, 0.1, 0.1]
    )


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: FactorScheduler(0), "step=0"),
        (lambda: FactorScheduler(1, factor=1.5), "factor=1.5"),
        (lambda: MultiFactorScheduler([5, 5]), "rising"),
        (lambda: MultiFactorScheduler([]), "rising"),
        (lambda: PolyScheduler(0), "max_update=0"),
        (lambda: CosineScheduler(10, warmup_steps=-1), "warmup_steps=-1"),
        (lambda: CosineScheduler(10, base_lr=0.1, warmup_begin_lr=1), "at most base_lr"),
        (lambda: CosineScheduler(10, warmup_mode="cubic"), "warmup_mode='cubic'"),
    ],
)
def test_settings_that_make_no_sense(make: object, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()  # type: ignore[operator]


def test_the_base_class_has_no_schedule() -> None:
    with pytest.raises(NotImplementedError, match="__call__"):
        LRScheduler()(1)


def test_an_optimizers_learning_rate_becomes_base_lr() -> None:
    schedule = FactorScheduler(10, base_lr=1024)
    assert optimizer.SGD(lr_scheduler=schedule).learning_rate == 1024
    optimizer.SGD(learning_rate=0.3, lr_scheduler=schedule)
    assert schedule.base_lr == 0.3


@pytest.mark.parametrize(
    "make",
    [
        lambda: FactorScheduler(3, 0.5),
        lambda: MultiFactorScheduler([3, 8], 0.5, warmup_steps=2),
        lambda: PolyScheduler(20, 0.5),
        lambda: CosineScheduler(20, 0.5, warmup_steps=4),
    ],
)
def test_a_schedule_goes_on_after_travelling(make: object) -> None:
    """By pickle (checkpoints) and by wire (parameter servers), from where it stood."""
    whole = [make()(n) for n in (9, 10, 11, 15)]  # type: ignore[operator]
    schedule = make()  # type: ignore[operator]
    for n in range(9):
        schedule(n)
    name, settings = optimizer.SGD(lr_scheduler=schedule).wire()
    sent = optimizer.from_wire(name, settings).lr_scheduler
    assert sent is not None and type(sent) is type(schedule)
    assert _at(sent, 9, 10, 11, 15) == pytest.approx(whole)
    assert _at(pickle.loads(pickle.dumps(schedule)), 9, 10, 11, 15) == pytest.approx(whole)


def test_changes_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    FactorScheduler(2, 0.5, stop_factor_lr=0.4, base_lr=1)(5)
    MultiFactorScheduler([2], 0.1, base_lr=1)(3)
    assert caplog.messages == [
        "Update[5]: Change learning rate to 5.00000e-01",
        "Update[5]: now learning rate arrived at 4.00000e-01, will not change in the future",
        "Update[3]: Change learning rate to 1.00000e-01",
    ]
