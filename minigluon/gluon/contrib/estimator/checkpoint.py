"""CheckpointHandler: the network and the trainer in files, every few epochs or batches."""
from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

from ....base import ArgumentValueError
from ....metric import EvalMetric
from ....symbol import Symbol
from .event_handler import BatchEnd, EpochEnd, TrainBegin, comparison

__all__ = ["CheckpointHandler"]


class CheckpointHandler(TrainBegin, BatchEnd, EpochEnd):
    """Saves ``PREFIX-epochEbatchB.params`` and ``.states``; ``PREFIX-symbol.json`` once.

    Args:
        model_dir: the folder; made if need be. model_prefix: what the names begin with.
        monitor: a metric of the estimator. verbose: 1: tell of each file.
        save_best: also keep ``PREFIX-best`` of the epoch whose metric is best.
        mode: 'min', 'max' or 'auto': which values of it are better.
        epoch_period, batch_period: after how many epochs and batches; None: never.
        max_checkpoints: more than so many are removed, the oldest first.
        resume_from_checkpoint: go on from the latest in the folder.
    """

    def __init__(self, model_dir: str, model_prefix: str = "model",
                 monitor: EvalMetric | None = None, verbose: int = 0, save_best: bool = False,
                 mode: str = "auto", epoch_period: int | None = 1,
                 batch_period: int | None = None, max_checkpoints: int = 5,
                 resume_from_checkpoint: bool = False) -> None:
        self.monitor = monitor
        self.verbose = verbose
        self.model_dir = model_dir
        self.model_prefix = model_prefix
        self.save_best = save_best
        self.epoch_period = epoch_period
        self.batch_period = batch_period
        self.max_checkpoints = max_checkpoints
        self.resume_from_checkpoint = resume_from_checkpoint
        self.current_batch = self.current_epoch = 0
        self.trained_epoch = self.trained_batch = -1
        self.saved_checkpoints: list[str] = []
        if save_best:
            if not isinstance(monitor, EvalMetric):
                raise ArgumentValueError(
                    "To save best model only, please provide one of the metric objects from "
                    "estimator.train_metrics and estimator.val_metrics as monitor.")
            self.monitor_op = comparison(mode, monitor, "ModelCheckpoint")
            self.best = float("inf") if self.monitor_op(0.0, 1.0) else -float("inf")

    # -- moments ----------------------------------------------------------------------------------

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Make the folder, or go on from what is in it."""
        Path(self.model_dir).mkdir(parents=True, exist_ok=True)
        self.current_batch = self.current_epoch = 0
        self.trained_epoch = self.trained_batch = -1
        self.saved_checkpoints = []
        if self.resume_from_checkpoint:
            self._resume(estimator)

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Save, if it is time to."""
        if self.current_batch == 0:
            self._save_symbol(estimator)
        if self.batch_period and (self.current_batch + 1) % self.batch_period == 0:
            self._save_checkpoint(estimator, self.current_batch + self.trained_batch + 1)
        self.current_batch += 1

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Save, if it is time to."""
        if self.epoch_period and (self.current_epoch + 1) % self.epoch_period == 0:
            self._save_checkpoint(estimator, self.current_batch + max(self.trained_batch, 0))
        self.current_epoch += 1

    # -- files ------------------------------------------------------------------------------------

    def _path(self, stem: str, ending: str) -> str:
        return str(Path(self.model_dir) / f"{stem}{ending}")

    def _save_symbol(self, estimator: Any) -> None:
        path = self._path(self.model_prefix, "-symbol.json")
        graph = getattr(estimator.net, "_trace", None)
        if graph is not None:
            Symbol(graph.entries).save(path)
        else:
            estimator.logger.info(
                "Model architecture(symbol file) is not saved, please use HybridBlock to construct "
                "your model, and call net.hybridize() before passing to Estimator in order to save "
                f"model architecture as {path}.")

    def _save_files(self, estimator: Any, stem: str) -> None:
        estimator.net.save_parameters(self._path(stem, ".params"))
        estimator.trainer.save_states(self._path(stem, ".states"))

    def _save_checkpoint(self, estimator: Any, batch: int) -> None:
        epoch = self.current_epoch + self.trained_epoch + 1
        stem = f"{self.model_prefix}-epoch{epoch}batch{batch}"
        self._save_files(estimator, stem)
        self._tell(estimator, f"[Epoch {self.current_epoch}] CheckpointHandler: saved {stem} at "
                              f"{self.model_dir}")
        if stem not in self.saved_checkpoints:
            self.saved_checkpoints.append(stem)
        while len(self.saved_checkpoints) > self.max_checkpoints:
            oldest = self.saved_checkpoints.pop(0)
            for ending in (".params", ".states"):
                Path(self._path(oldest, ending)).unlink(missing_ok=True)
        if self.save_best:
            self._save_best(estimator)

    def _save_best(self, estimator: Any) -> None:
        assert self.monitor is not None
        name, value = self.monitor.get()
        if value != value:
            warnings.warn(f"Skipping save best. {name} is not a number: nothing updates it, or "
                          "not before checkpoints are saved", RuntimeWarning, stacklevel=2)
        elif self.monitor_op(value, self.best):
            self._save_files(estimator, f"{self.model_prefix}-best")
            self._tell(estimator, f"[Epoch {self.current_epoch}] CheckpointHandler: {name} "
                                  f"improved from {self.best:.5f} to {value:.5f}, saved "
                                  f"{self.model_prefix}-best at {self.model_dir}")
            self.best = value
        else:
            self._tell(estimator, f"[Epoch {self.current_epoch}] CheckpointHandler: {name} did "
                                  f"not improve from {self.best:.5f}")

    def _tell(self, estimator: Any, line: str) -> None:
        if self.verbose > 0:
            estimator.logger.info(line)

    # -- going on ---------------------------------------------------------------------------------

    def _resume(self, estimator: Any) -> None:
        pattern = re.compile(re.escape(self.model_prefix) + r"-epoch(\d+)batch(\d+)\.params$")
        found = sorted((int(match[1]), int(match[2]), match[0].removesuffix(".params"))
                       for path in Path(self.model_dir).iterdir()
                       if (match := pattern.match(path.name)))
        if not found:
            estimator.logger.info(f"CheckpointHandler: No checkpoint with prefix "
                                  f"{self.model_prefix} in {self.model_dir}, training from "
                                  "scratch")
            return
        self.saved_checkpoints = [stem for _, _, stem in found]
        self.trained_epoch, self.trained_batch, stem = found[-1]
        left = self._left(estimator)
        estimator.net.load_parameters(self._path(stem, ".params"), ctx=estimator.context)
        estimator.trainer.load_states(self._path(stem, ".states"))
        estimator.logger.info(f"CheckpointHandler: Checkpoint resumed from epoch "
                              f"{self.trained_epoch} batch {self.trained_batch}, continue to "
                              f"train for {left} ")

    def _left(self, estimator: Any) -> str:
        """Tell the estimator to do only what is left to do."""
        what, most, done = (("epoch", estimator.max_epoch, self.trained_epoch + 1)
                            if estimator.max_epoch else
                            ("batch", estimator.max_batch, self.trained_batch))
        if done >= most:
            raise ArgumentValueError(
                f"Found checkpoint with maximum number of {what} {most} reached, please specify "
                "resume_from_checkpoint=False (default value) if you want to train from scratch.")
        if what == "epoch":
            estimator.max_epoch = most - done
            return f"{estimator.max_epoch} epochs"
        estimator.max_batch = most - done
        return f"{estimator.max_batch} batches"
