"""What can be called at the end of batches and epochs: checkpoints, log lines, speed."""
from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from .checkpoint import BatchEndParam, save_checkpoint
from .ndarray import NDArray
from .symbol import Symbol

__all__ = ["LogValidationMetricsCallback", "ProgressBar", "Speedometer", "do_checkpoint",
           "log_train_metric", "module_checkpoint"]

EpochEnd = Callable[..., None]
BatchEnd = Callable[[BatchEndParam], None]


def module_checkpoint(mod: Any, prefix: str, period: int = 1, save_optimizer_states: bool = False
                      ) -> EpochEnd:
    """An epoch_end_callback that writes the module's checkpoint every `period` epochs."""
    period = max(1, int(period))

    def callback(iter_no: int, sym: Any = None, arg: Any = None, aux: Any = None) -> None:
        if (iter_no + 1) % period == 0:
            mod.save_checkpoint(prefix, iter_no + 1, save_optimizer_states)

    return callback


def do_checkpoint(prefix: str, period: int = 1) -> EpochEnd:
    """An epoch_end_callback that writes symbol and parameters every `period` epochs.

    After the first epoch the parameters are in ``PREFIX-0001.params``.
    """
    period = max(1, int(period))

    def callback(iter_no: int, sym: Symbol, arg: Mapping[str, NDArray],
                 aux: Mapping[str, NDArray]) -> None:
        if (iter_no + 1) % period == 0:
            save_checkpoint(prefix, iter_no + 1, sym, arg, aux)

    return callback


def log_train_metric(period: int, auto_reset: bool = False) -> BatchEnd:
    """A batch_end_callback that logs the metric every `period` batches.

    Args:
        period: in batches. auto_reset: begin to measure anew after each line.
    """
    def callback(param: BatchEndParam) -> None:
        if param.nbatch % period == 0 and param.eval_metric is not None:
            for name, value in param.eval_metric.get_name_value():
                logging.info("Iter[%d] Batch[%d] Train-%s=%f", param.epoch, param.nbatch, name,
                             value)
            if auto_reset:
                param.eval_metric.reset_local()

    return callback


class Speedometer:
    """A batch_end_callback that logs samples per second, and the metric.

    Args:
        batch_size: samples in a batch.
        frequent: a line after so many batches.
        auto_reset: each line is about the batches since the last one; the metric's
            ``get_global`` still counts all batches of the epoch.
    """

    def __init__(self, batch_size: int, frequent: int = 50, auto_reset: bool = True) -> None:
        self.batch_size = batch_size
        self.frequent = frequent
        self.auto_reset = auto_reset
        self.init = False
        self.tic = 0.0
        self.last_count = 0

    def __call__(self, param: BatchEndParam) -> None:
        count = param.nbatch
        if self.last_count > count:
            self.init = False  # another epoch
        self.last_count = count
        if not self.init:
            self.init = True
            self.tic = time.perf_counter()
        elif count % self.frequent == 0:
            self._log(param)
            self.tic = time.perf_counter()

    def _log(self, param: BatchEndParam) -> None:
        seconds = max(time.perf_counter() - self.tic, 1e-9)
        speed = self.frequent * self.batch_size / seconds
        metric = param.eval_metric
        if metric is None:
            logging.info("Iter[%d] Batch [%d]\tSpeed: %.2f samples/sec", param.epoch,
                         param.nbatch, speed)
            return
        begin = max(0, param.nbatch - self.frequent) if self.auto_reset else 0
        values = "".join(f"\t{name}={value:f}" for name, value in metric.get_name_value())
        if self.auto_reset:
            metric.reset_local()
        logging.info("Epoch[%d] Batch [%d-%d]\tSpeed: %.2f samples/sec%s", param.epoch, begin,
                     param.nbatch, speed, values)


class ProgressBar:
    """A batch_end_callback that logs a bar.

    Args:
        total: batches in an epoch. length: characters of the bar.
    """

    def __init__(self, total: int, length: int = 80) -> None:
        self.bar_len = length
        self.total = total

    def __call__(self, param: BatchEndParam) -> None:
        done = min(1.0, param.nbatch / float(self.total))
        filled = round(self.bar_len * done)
        logging.info("[%s] %s%%", "=" * filled + "-" * (self.bar_len - filled),
                     math.ceil(100.0 * done))


class LogValidationMetricsCallback:
    """A callback for the end of an evaluation that logs its metrics."""

    def __call__(self, param: BatchEndParam) -> None:
        if param.eval_metric is not None:
            for name, value in param.eval_metric.get_name_value():
                logging.info("Epoch[%d] Validation-%s=%f", param.epoch, name, value)
