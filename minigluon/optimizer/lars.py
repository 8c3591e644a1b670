"""SGD for large batches: a step for each layer (LARS), and a warm-up (LBSGD)."""
from __future__ import annotations

import math
from typing import Any

from ..base import ArgumentValueError
from ..ndarray import NDArray
from .optimizer import Index, State, register
from .sgd import SGD

__all__ = ["LARS", "LBSGD"]


@register
class LARS(SGD):
    """SGD with layer-wise adaptive rates (You, Gitman and Ginsburg, 2017).

    The learning rate of a weight is multiplied by ``eta * |w| / (|g| + wd * |w| + eps)``, g the
    rescaled gradient; that of parameters whose name ends in gamma, beta or bias is not.

    Args:
        momentum, lazy_update: as in SGD.
        eta: trust in the ratio. eps: keeps the division finite.
        momentum_correction: scale the momentum when the learning rate changes.
        kwargs: settings of every Optimizer.
    """

    def __init__(self, momentum: float = 0.0, lazy_update: bool = True, eta: float = 0.001,
                 eps: float = 0.0, momentum_correction: bool = True, **kwargs: Any) -> None:
        super().__init__(momentum=momentum, lazy_update=lazy_update, **kwargs)
        self.eta = eta
        self.eps = eps
        self.momentum_correction = momentum_correction
        self._base_momentum = momentum
        self._last_lrs: dict[Index, float] = {}

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """One step on `weight`; `state` is the momentum or None."""
        settings = self._op_settings(index)
        if self._base_momentum and self.momentum_correction:
            before = self._last_lrs.get(index, settings["lr"])
            if before:
                self.momentum = self._base_momentum * settings["lr"] / before
            self._last_lrs[index] = settings["lr"]
        settings["lr"] *= self._trust(index, weight, grad, settings["wd"])
        self._apply(weight, grad, state, settings)

    def _trust(self, index: Index, weight: NDArray, grad: NDArray, wd: float) -> float:
        name = self.idx2name.get(index, str(index))
        if name.endswith(("gamma", "beta", "bias")):
            return 1.0
        size, slope = self._norm(weight), self._norm(grad) * abs(self.rescale_grad)
        if size <= 0 or slope <= 0:
            return 1.0
        return self.eta * size / (slope + wd * size + self.eps)


@register
class LBSGD(SGD):
    """SGD that gathers `batch_scale` gradients before each step and warms its rate up.

    Args:
        momentum, multi_precision: as in SGD.
        warmup_strategy: 'linear', 'power2' or 'sqrt' raise the learning rate's factor from 1 to
            `batch_scale` in `warmup_epochs`; 'lars' computes it for each weight as
            ``sqrt(|w|^2 / (|g|^2 + wd * |w|^2))`` within [0.01, 100].
        warmup_epochs, updates_per_epoch, begin_epoch, num_epochs: lengths, counted in updates.
        batch_scale: how many gradients make one step.
        kwargs: settings of every Optimizer.
    """

    def __init__(self, momentum: float = 0.0, multi_precision: bool = False,
                 warmup_strategy: str = "linear", warmup_epochs: int = 5, batch_scale: int = 1,
                 updates_per_epoch: int = 32, begin_epoch: int = 0, num_epochs: int = 60,
                 **kwargs: Any) -> None:
        super().__init__(momentum=momentum, multi_precision=multi_precision, **kwargs)
        if warmup_strategy not in ("linear", "power2", "sqrt", "lars"):
            raise ArgumentValueError(
                f"LBSGD: warmup_strategy: expected 'linear', 'power2', 'sqrt' or 'lars', "
                f"got {warmup_strategy!r}"
            )
        self.warmup_strategy = warmup_strategy
        self.warmup_epochs = warmup_epochs
        self.batch_scale = batch_scale
        self.updates_per_epoch = updates_per_epoch
        self.init_updates = begin_epoch * updates_per_epoch
        self.num_epochs = num_epochs
        self._gathered: dict[Index, tuple[Any, int]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_gathered": {}}

    def _settings_on_wire(self, strict: bool) -> dict[str, Any]:
        settings = super()._settings_on_wire(strict=False)
        settings.pop("_gathered", None)
        return settings

    def update(self, index: Index, weight: NDArray, grad: NDArray, state: State) -> None:
        """Gather; at each `batch_scale`-th call one step on `weight`."""
        settings = self._op_settings(index)
        held, count = self._gathered.get(index, (None, self.init_updates))
        total, count = (grad.copy() if held is None else held + grad), count + 1
        if count % self.batch_scale:
            self._gathered[index] = total, count
            return
        self._gathered[index] = None, count
        mean = total / self.batch_scale
        settings["lr"] *= self._factor(weight, mean, settings["wd"], count)
        self._apply(weight, mean, state, settings)

    def _factor(self, weight: NDArray, grad: NDArray, wd: float, count: int) -> float:
        if self.warmup_strategy == "lars":
            size, slope = self._norm(weight) ** 2, self._norm(grad) ** 2
            return min(max(math.sqrt(size / (slope + wd * size + 1e-18)), 0.01), 100.0)
        length = self.warmup_epochs * self.updates_per_epoch
        if count >= length:
            return float(self.batch_scale)
        if length <= 1:
            return 1.0
        power = {"linear": 1.0, "power2": 2.0, "sqrt": 0.5}[self.warmup_strategy]
        return float(1 + (self.batch_scale - 1) * (count / length) ** power)
