"""Learning rates as functions of the number of updates done so far.

An optimizer calls its scheduler with `num_update`, the largest count of updates any weight has had.
"""
from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from .base import ArgumentValueError

__all__ = [
    "CosineScheduler",
    "FactorScheduler",
    "LRScheduler",
    "MultiFactorScheduler",
    "PolyScheduler",
]


def _log_change(num_update: int, lr: float) -> None:
    logging.info("Update[%d]: Change learning rate to %0.5e", num_update, lr)


class LRScheduler:
    """Base: a warm-up to `base_lr`, after which the subclass takes over in ``__call__``.

    Args:
        base_lr: the learning rate after the warm-up; an Optimizer with a `learning_rate` of its
            own sets the attribute (Poly and Cosine fall from the value given here all the same).
        warmup_steps: updates until `base_lr` is reached.
        warmup_begin_lr: the learning rate of the first update of a warm-up.
        warmup_mode: 'linear' climbs evenly, 'constant' stays at `warmup_begin_lr`.

    >>> LRScheduler(base_lr=1, warmup_steps=4, warmup_begin_lr=0).get_warmup_lr(1)
    0.25
    """

    def __init__(
        self,
        base_lr: float = 0.01,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        if not isinstance(warmup_steps, int) or warmup_steps < 0:
            raise self._wrong("warmup_steps", warmup_steps, "an integer >= 0")
        if warmup_mode not in ("linear", "constant"):
            raise self._wrong("warmup_mode", warmup_mode, "'linear' or 'constant'")
        if warmup_begin_lr > base_lr:
            raise self._wrong("warmup_begin_lr", warmup_begin_lr, f"at most base_lr = {base_lr}")
        self.base_lr = base_lr
        self.warmup_steps = warmup_steps
        self.warmup_begin_lr = warmup_begin_lr
        self.warmup_final_lr = base_lr
        self.warmup_mode = warmup_mode

    def _wrong(self, name: str, value: Any, expected: str) -> ArgumentValueError:
        return ArgumentValueError(f"{type(self).__name__}: {name}={value!r}; expected {expected}")

    def get_warmup_lr(self, num_update: int) -> float:
        """The learning rate at an update inside the warm-up."""
        if self.warmup_mode == "constant":
            return self.warmup_begin_lr
        rise = self.warmup_final_lr - self.warmup_begin_lr
        return self.warmup_begin_lr + rise * num_update / self.warmup_steps

    def __call__(self, num_update: int) -> float:
        """The learning rate of update number `num_update`."""
        raise NotImplementedError(f"{type(self).__name__} must implement __call__(num_update)")


class FactorScheduler(LRScheduler):
    """Multiply the learning rate by `factor` after every `step` updates, down to a floor.

    Args:
        step: updates between two changes.
        factor: what the learning rate is multiplied by, at most 1.
        stop_factor_lr: the floor.

    >>> schedule = FactorScheduler(step=2, factor=0.1, base_lr=1)
    >>> [round(schedule(n), 3) for n in (1, 2, 3, 4, 5)]
    [1, 1, 0.1, 0.1, 0.01]
    """

    def __init__(
        self,
        step: int,
        factor: float = 1,
        stop_factor_lr: float = 1e-8,
        base_lr: float = 0.01,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        if step < 1:
            raise self._wrong("step", step, "at least 1")
        if factor > 1.0:
            raise self._wrong("factor", factor, "at most 1, or the learning rate would grow")
        self.step = step
        self.factor = factor
        self.stop_factor_lr = stop_factor_lr
        self.count = 0

    def __call__(self, num_update: int) -> float:
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        while num_update > self.count + self.step:
            self.count += self.step
            self.base_lr *= self.factor
            if self.base_lr >= self.stop_factor_lr:
                _log_change(num_update, self.base_lr)
                continue
            self.base_lr = self.stop_factor_lr
            logging.info("Update[%d]: now learning rate arrived at %0.5e, will not change in the "
                         "future", num_update, self.base_lr)
        return self.base_lr


class MultiFactorScheduler(LRScheduler):
    """Multiply the learning rate by `factor` after each of the given numbers of updates.

    Args:
        step: the numbers of updates, rising.
        factor: what the learning rate is multiplied by, at most 1.

    >>> schedule = MultiFactorScheduler(step=[2, 3], factor=0.1, base_lr=1)
    >>> [round(schedule(n), 3) for n in (1, 2, 3, 4)]
    [1, 1, 0.1, 0.01]
    """

    def __init__(
        self,
        step: Sequence[int],
        factor: float = 1,
        base_lr: float = 0.01,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        steps = list(step)
        if not steps or steps[0] < 1 or any(b <= a for a, b in pairwise(steps)):
            raise self._wrong("step", step, "rising integers, the first at least 1")
        if factor > 1.0:
            raise self._wrong("factor", factor, "at most 1, or the learning rate would grow")
        self.step = steps
        self.factor = factor
        self.cur_step_ind = 0
        self.count = 0

    def __call__(self, num_update: int) -> float:
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        while self.cur_step_ind < len(self.step) and num_update > self.step[self.cur_step_ind]:
            self.count = self.step[self.cur_step_ind]
            self.cur_step_ind += 1
            self.base_lr *= self.factor
            _log_change(num_update, self.base_lr)
        return self.base_lr


class _Fall(LRScheduler):
    """From the first learning rate to `final_lr` in `max_update` updates, along a curve."""

    def __init__(
        self,
        max_update: int,
        base_lr: float = 0.01,
        final_lr: float = 0,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        if not isinstance(max_update, int) or max_update < 1:
            raise self._wrong("max_update", max_update, "an integer of at least 1")
        self.base_lr_orig = base_lr
        self.max_update = max_update
        self.final_lr = final_lr
        self.max_steps = max_update - warmup_steps

    def _height(self, done: float) -> float:
        """The height of the curve from 1 to 0, when the share `done` of the way is behind."""
        raise NotImplementedError(f"{type(self).__name__} must implement _height(done)")

    def __call__(self, num_update: int) -> float:
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        if num_update <= self.max_update:
            done = (num_update - self.warmup_steps) / self.max_steps if self.max_steps else 1.0
            height = self._height(done)
            self.base_lr = self.final_lr + (self.base_lr_orig - self.final_lr) * height
        return self.base_lr


class PolyScheduler(_Fall):
    """Fall to `final_lr` by the polynomial ``(1 - share done) ** pwr``.

    Args:
        max_update: the update at which `final_lr` is reached.
        pwr: the power.

    >>> schedule = PolyScheduler(max_update=10, base_lr=1, pwr=2)
    >>> schedule(0), schedule(5), schedule(10)
    (1.0, 0.25, 0.0)
    """

    def __init__(
        self,
        max_update: int,
        base_lr: float = 0.01,
        pwr: float = 2,
        final_lr: float = 0,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(
            max_update, base_lr, final_lr, warmup_steps, warmup_begin_lr, warmup_mode
        )
        self.power = pwr

    def _height(self, done: float) -> float:
        return float((1 - done) ** self.power)


class CosineScheduler(_Fall):
    """Fall to `final_lr` by half a cosine wave.

    Args:
        max_update: the update at which `final_lr` is reached.

    >>> schedule = CosineScheduler(max_update=10, base_lr=1, final_lr=0.2)
    >>> schedule(0), round(schedule(5), 6), round(schedule(10), 6)
    (1.0, 0.6, 0.2)
    """

    def _height(self, done: float) -> float:
        return (1 + math.cos(math.pi * done)) / 2
