"""When handlers are called, and the handlers that come with an Estimator.

A handler derives from those of the six classes whose moments it wants to see. What its batch_end
and epoch_end return says whether the epoch, or the training, is to stop. Handlers are called in
the order of their `priority` (0 where they have none), lower ones first.
"""
from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ....base import ArgumentValueError
from ....metric import CompositeEvalMetric, EvalMetric, Loss

__all__ = ["BatchBegin", "BatchEnd", "EarlyStoppingHandler", "EpochBegin", "EpochEnd",
           "EventHandler", "GradientUpdateHandler", "LoggingHandler", "MetricHandler",
           "StoppingHandler", "TrainBegin", "TrainEnd", "ValidationHandler", "comparison",
           "metrics_of"]


class EventHandler:
    """What all handlers are."""


class TrainBegin(EventHandler):
    """Wants to know when training begins."""

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> Any:
        """Training begins."""


class TrainEnd(EventHandler):
    """Wants to know when training has ended."""

    def train_end(self, estimator: Any, *args: Any, **kwargs: Any) -> Any:
        """Training has ended."""


class EpochBegin(EventHandler):
    """Wants to know when an epoch begins."""

    def epoch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> Any:
        """An epoch begins."""


class EpochEnd(EventHandler):
    """Wants to know when an epoch has ended."""

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool | None:
        """An epoch has ended; true stops the training."""
        return False


class BatchBegin(EventHandler):
    """Wants to know when a batch begins."""

    def batch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> Any:
        """A batch begins: ``kwargs['batch']``."""


class BatchEnd(EventHandler):
    """Wants to know when a batch has been computed."""

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool | None:
        """A batch has been computed: keywords batch, pred, label, loss; true ends the epoch."""
        return False


def metrics_of(metrics: Any) -> list[EvalMetric]:
    """One metric, a list of them, or None as a list; of a composite metric, those inside.

    >>> metrics_of(None)
    []
    """
    if isinstance(metrics, CompositeEvalMetric):
        return [each for inside in metrics.metrics for each in metrics_of(inside)]
    found = list(metrics or ()) if isinstance(metrics, (list, tuple, type(None))) else [metrics]
    if not all(isinstance(each, EvalMetric) for each in found):
        raise ArgumentValueError("metrics must be a Metric or a list of Metric, refer to "
                                 f"mxnet.metric.EvalMetric: {metrics}")
    return found


class StoppingHandler(TrainBegin, BatchEnd, EpochEnd):
    """Stops after so many epochs or batches.

    Args:
        max_epoch, max_batch: how many; None: no limit. When training begins, the estimator's
            own limits take their place.
    """

    def __init__(self, max_epoch: int | None = None, max_batch: int | None = None) -> None:
        self.max_epoch = max_epoch
        self.max_batch = max_batch
        self.current_batch = self.current_epoch = 0
        self.stop_training = False

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Count from 0."""
        self.max_epoch, self.max_batch = estimator.max_epoch, estimator.max_batch
        self.current_batch = self.current_epoch = 0
        self.stop_training = False

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool:
        """Count a batch."""
        self.current_batch += 1
        self.stop_training = self.stop_training or self.current_batch == self.max_batch
        return self.stop_training

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool:
        """Count an epoch."""
        self.current_epoch += 1
        self.stop_training = self.stop_training or self.current_epoch == self.max_epoch
        return self.stop_training


class MetricHandler(EpochBegin, BatchEnd):
    """Updates metrics by each batch's predictions, those of class Loss by its losses.

    Args:
        metrics: of the estimator. priority: before or after other handlers.
    """

    def __init__(self, metrics: Any, priority: float = -1000) -> None:
        self.metrics = metrics_of(metrics)
        self.priority = priority

    def epoch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Begin anew."""
        for metric in self.metrics:
            metric.reset()

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Take a batch in."""
        for metric in self.metrics:
            if isinstance(metric, Loss):
                metric.update(0, kwargs["loss"])
            else:
                metric.update(kwargs["label"], kwargs["pred"])


class ValidationHandler(TrainBegin, BatchEnd, EpochEnd):
    """Evaluates on other data every few epochs or batches.

    Args:
        val_data: a DataLoader. eval_fn: called with it: ``estimator.evaluate``.
        epoch_period, batch_period: after how many epochs and batches; None: never.
        priority: before or after other handlers. event_handlers: given to `eval_fn`.
    """

    def __init__(self, val_data: Any, eval_fn: Callable[..., Any], epoch_period: int | None = 1,
                 batch_period: int | None = None, priority: float = -1000,
                 event_handlers: Any = None) -> None:
        self.val_data = val_data
        self.eval_fn = eval_fn
        self.epoch_period = epoch_period
        self.batch_period = batch_period
        self.priority = priority
        self.event_handlers = event_handlers
        self.current_batch = self.current_epoch = 0

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Count from 0."""
        self.current_batch = self.current_epoch = 0

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Evaluate, if it is time to."""
        self.current_batch += 1
        if self.batch_period and self.current_batch % self.batch_period == 0:
            self._evaluate(estimator)

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Evaluate, if it is time to."""
        self.current_epoch += 1
        if self.epoch_period and self.current_epoch % self.epoch_period == 0:
            self._evaluate(estimator)

    def _evaluate(self, estimator: Any) -> None:
        self.eval_fn(val_data=self.val_data, batch_axis=estimator.batch_axis,
                     event_handlers=self.event_handlers)


class LoggingHandler(TrainBegin, TrainEnd, EpochBegin, EpochEnd, BatchBegin, BatchEnd):
    """Tells of the training in the estimator's log.

    Args:
        log_interval: 'epoch', or a number of batches after which there is a line, too.
        metrics: shown in it. priority: before or after other handlers.
    """

    def __init__(self, log_interval: int | str = "epoch", metrics: Any = None,
                 priority: float = float("inf")) -> None:
        if not isinstance(log_interval, int) and log_interval != "epoch":
            raise ArgumentValueError("log_interval must be either an integer or string 'epoch'")
        self.metrics = metrics_of(metrics)
        self.log_interval = log_interval
        self.priority = priority
        self.batch_index = self.current_epoch = self.processed_samples = 0
        self.log_interval_time = 0.0

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """The optimizer, and how long it will train."""
        self.train_start = time.time()
        trainer = estimator.trainer
        length = (f"{estimator.max_epoch} epochs" if estimator.max_epoch else
                  f"{estimator.max_batch} batches")
        estimator.logger.info(
            f"Training begin: using optimizer {type(trainer.optimizer).__name__} with current "
            f"learning rate {trainer.learning_rate:.4f} ")
        estimator.logger.info(f"Train for {length}.")
        self.batch_index = self.current_epoch = self.processed_samples = 0
        self.log_interval_time = 0.0

    def train_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """How long it took."""
        seconds = int(time.time() - self.train_start)
        estimator.logger.info(f"Train finished using total {seconds}s with "
                              f"{self.current_epoch} epochs. {self._shown()}")

    def epoch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """The learning rate."""
        self.epoch_start = time.time()
        if any("training" in metric.name for metric in self.metrics):  # of both: it trains
            estimator.logger.info(f"[Epoch {self.current_epoch}] Begin, current learning rate: "
                                  f"{estimator.trainer.learning_rate:.4f}")
        else:
            estimator.logger.info("Validation Begin")

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """How long it took, and the metrics."""
        seconds = time.time() - self.epoch_start
        estimator.logger.info(f"[Epoch {self.current_epoch}] Finished in {seconds:.3f}s, "
                              f"{self._shown()}")
        self.current_epoch += 1
        self.batch_index = 0

    def batch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Look at the clock."""
        self.batch_start = time.time()

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """The metrics, if it is time to."""
        self.batch_index += 1
        if not isinstance(self.log_interval, int):
            return
        batch = self.batch_index - 1
        self.log_interval_time += time.time() - self.batch_start
        self.processed_samples += kwargs["batch"][0].shape[estimator.batch_axis]
        if batch % self.log_interval == 0:
            estimator.logger.info(
                f"[Epoch {self.current_epoch}][Batch {batch}]"
                f"[Samples {self.processed_samples}] time/interval: "
                f"{self.log_interval_time:.3f}s {self._shown()}")
            self.log_interval_time = 0.0

    def _shown(self) -> str:
        values = [metric.get() for metric in self.metrics]
        return ", ".join(f"{name}: {value:.4f}" for name, value in values)


def comparison(mode: str, monitor: EvalMetric, what: str) -> Callable[[float, float], bool]:
    """Whether one value of a metric is better than another.

    Args:
        mode: 'min', 'max', or 'auto': more is better where the metric's name says 'acc' or 'f1'.
        monitor: the metric. what: who asks, for the warning.
    """
    if mode not in ("auto", "min", "max"):
        warnings.warn(f"{what} mode {mode} is unknown, fallback to auto mode, which takes the "
                      "greatest accuracy or f1, and the least of everything else",
                      RuntimeWarning, stacklevel=3)
        mode = "auto"
    if mode == "auto":
        name = str(monitor.get()[0]).lower()
        mode = "max" if "acc" in name or "f1" in name else "min"
        word, other = ("greater", "min") if mode == "max" else ("less", "max")
        warnings.warn(f"`{word}` operator will be used to determine if {monitor.get()[0]} has "
                      f"improved. Please specify `mode='{other}'` to use the other one. Specify "
                      f"`mode='{mode}'` to disable this warning.", stacklevel=3)
    return (lambda new, old: new > old) if mode == "max" else (lambda new, old: new < old)


class EarlyStoppingHandler(TrainBegin, EpochEnd, TrainEnd):
    """Stops when a metric does not get better.

    Args:
        monitor: the metric. min_delta: by how much it must get better.
        patience: epochs in which it need not. mode: 'min', 'max', 'auto' (see `comparison`).
        baseline: what it must be better than at first.
    """

    def __init__(self, monitor: EvalMetric, min_delta: float = 0, patience: int = 0,
                 mode: str = "auto", baseline: float | None = None) -> None:
        [self.monitor] = metrics_of(monitor)
        self.baseline = baseline
        self.patience = patience
        self.min_delta = min_delta
        self.monitor_op = comparison(mode, monitor, "EarlyStopping")
        self.wait = self.stopped_epoch = self.current_epoch = 0
        self.stop_training = False

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Begin anew."""
        self.wait = self.stopped_epoch = self.current_epoch = 0
        self.stop_training = False
        worst = float("inf") if self.monitor_op(0.0, 1.0) else -float("inf")
        self.best = worst if self.baseline is None else self.baseline

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool:
        """Look at the metric."""
        name, value = self.monitor.get()
        if value != value:
            warnings.warn(f"{name} is not a number (nothing updates it?); early stopping ignores "
                          "it", RuntimeWarning, stacklevel=2)
        elif self.monitor_op(value, self.best + self._margin()):
            self.best, self.wait = value, 0
        else:
            self.wait += 1
            if self.wait >= self.patience:
                self.stopped_epoch = self.current_epoch
                self.stop_training = True
        self.current_epoch += 1
        return self.stop_training

    def _margin(self) -> float:
        return -self.min_delta if self.monitor_op(0.0, 1.0) else self.min_delta

    def train_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Say that it has stopped early."""
        if self.stop_training:
            estimator.logger.info(f"[Epoch {self.stopped_epoch}] EarlyStoppingHandler: early "
                                  f"stopping due to {self.monitor.get()[0]} not improving")


class GradientUpdateHandler(BatchEnd):
    """Applies the gradients after each batch.

    Args:
        priority: before or after other handlers.
    """

    def __init__(self, priority: float = -2000) -> None:
        self.priority = priority

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """One step of the trainer."""
        losses: Sequence[Any] = kwargs["loss"]
        if not isinstance(losses, (list, tuple)):
            losses = [losses]
        estimator.trainer.step(sum(loss.shape[0] for loss in losses))
