"""Metrics for TensorBoard, written as training goes."""
from __future__ import annotations

import logging
from typing import Any

__all__ = ["LogMetricsCallback"]


class LogMetricsCallback:
    """A callback of ``fit`` that writes metrics as event files; it needs the package mxboard.

    Args:
        logging_dir: the folder for ``tensorboard --logdir``. prefix: put before metrics' names.
        writer: writes them by ``add_scalar(name, value)``; mxboard's SummaryWriter when None.
    """

    def __init__(self, logging_dir: str, prefix: str | None = None, writer: Any = None) -> None:
        self.prefix = prefix
        self.step = 0
        self.summary_writer = writer
        if writer is None:
            try:
                from mxboard import SummaryWriter
            except ImportError:
                logging.error("You can install mxboard via `pip install mxboard`.")
            else:
                self.summary_writer = SummaryWriter(logging_dir)

    def __call__(self, param: Any) -> None:
        """Write the metric of a BatchEndParam."""
        self.step += 1
        if param.eval_metric is None or self.summary_writer is None:
            return
        for name, value in param.eval_metric.get_name_value():
            if self.prefix is not None:
                name = f"{self.prefix}-{name}"
            self.summary_writer.add_scalar(name, value, self.step)
