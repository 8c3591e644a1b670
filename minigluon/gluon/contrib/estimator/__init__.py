"""Training loops that need not be written: an Estimator, and handlers for what happens in it.

==============  ==================================================================================
estimator       Estimator: fit, evaluate
event_handler   when a handler is called; those that come with it: stopping, metrics, logging ...
batch_processor BatchProcessor: what is done with one batch
==============  ==================================================================================
"""
from __future__ import annotations

from .batch_processor import BatchProcessor
from .checkpoint import CheckpointHandler
from .estimator import Estimator
from .event_handler import (
    BatchBegin,
    BatchEnd,
    EarlyStoppingHandler,
    EpochBegin,
    EpochEnd,
    EventHandler,
    GradientUpdateHandler,
    LoggingHandler,
    MetricHandler,
    StoppingHandler,
    TrainBegin,
    TrainEnd,
    ValidationHandler,
)

__all__ = [
    "BatchBegin", "BatchEnd", "BatchProcessor", "CheckpointHandler", "EarlyStoppingHandler",
    "EpochBegin", "EpochEnd", "Estimator", "EventHandler", "GradientUpdateHandler",
    "LoggingHandler", "MetricHandler", "StoppingHandler", "TrainBegin", "TrainEnd",
    "ValidationHandler",
]
