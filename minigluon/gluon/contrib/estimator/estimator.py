"""Estimator: a training loop."""
from __future__ import annotations

import copy
import logging
import sys
import warnings
from typing import Any

from ....base import ArgumentValueError
from ....context import Context, cpu, gpu
from ....device import num_gpus
from ....metric import Accuracy, Loss
from ... import loss as losses
from ...data import DataLoader
from ...trainer import Trainer
from .batch_processor import BatchProcessor
from .event_handler import (
    BatchBegin,
    BatchEnd,
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
    metrics_of,
)

__all__ = ["Estimator"]

_MOMENTS = (TrainBegin, EpochBegin, BatchBegin, BatchEnd, EpochEnd, TrainEnd)


class Estimator:
    """Trains and evaluates a network; handlers say what happens around it.

    Args:
        net: the network. loss: a gluon Loss.
        train_metrics, val_metrics: metrics; None: those that fit the loss, and the loss itself.
        initializer: for a network that is not initialized yet. trainer: None means sgd, 0.001.
        context: where to train: a Context or several.
        val_net, val_loss: other ones to validate with.
        batch_processor: what is done with one batch.

    >>> import minigluon as mx
    >>> net = mx.gluon.nn.Dense(2)
    >>> net.initialize()
    >>> data = mx.gluon.data.DataLoader(
    ...     mx.gluon.data.ArrayDataset(mx.nd.ones((8, 3)), mx.nd.zeros((8,))), batch_size=4)
    >>> estimator = Estimator(net, mx.gluon.loss.SoftmaxCELoss(),
    ...                       trainer=mx.gluon.Trainer(net.collect_params(), "adam"))
    >>> estimator.logger.setLevel("WARNING")
    >>> estimator.fit(data, epochs=2)
    >>> [metric.name for metric in estimator.train_metrics]
    ['training accuracy', 'training softmaxcrossentropyloss']
    """

    def __init__(self, net: Any, loss: Any, train_metrics: Any = None, val_metrics: Any = None,
                 initializer: Any = None, trainer: Trainer | None = None, context: Any = None,
                 val_net: Any = None, val_loss: Any = None,
                 batch_processor: BatchProcessor | None = None) -> None:
        self.net = net
        self.loss = _loss(loss)
        self.val_net = net if val_net is None else val_net
        self.val_loss = self.loss if val_loss is None else _loss(val_loss)
        self._train_metrics = metrics_of(train_metrics)
        self._val_metrics = metrics_of(val_metrics)
        self._name_metrics()
        self.logger = logging.Logger("Estimator", logging.INFO)
        self.logger.addHandler(logging.StreamHandler(sys.stdout))
        self.context = _contexts(context)
        self._initialize(initializer)
        self.trainer = self._checked_trainer(trainer)
        self.batch_processor = BatchProcessor() if batch_processor is None else batch_processor
        if not all(hasattr(self.batch_processor, name) for name in ("fit_batch",
                                                                    "evaluate_batch")):
            raise ArgumentValueError("Customized Batch Processor must contain fit_batch() and "
                                     "evaluate_batch() methods")
        self.max_epoch: int | None = None
        self.max_batch: int | None = None
        self.batch_axis = 0

    # -- what it is made of -----------------------------------------------------------------------

    @property
    def train_metrics(self) -> list[Any]:
        """Metrics of the training data."""
        return self._train_metrics

    @property
    def val_metrics(self) -> list[Any]:
        """Metrics of the validation data."""
        return self._val_metrics

    def _name_metrics(self) -> None:
        if not self._train_metrics:
            if isinstance(self.loss, losses.SoftmaxCrossEntropyLoss):
                self._train_metrics.append(Accuracy())
            self._train_metrics.append(Loss(self.loss.name.rstrip("0123456789")))
        if not self._val_metrics:
            self._val_metrics = [copy.deepcopy(metric) for metric in self._train_metrics]
        for word, metrics in (("training", self._train_metrics),
                              ("validation", self._val_metrics)):
            for metric in metrics:
                if not metric.name.startswith(word):
                    metric.name = f"{word} {metric.name}"

    def _initialize(self, initializer: Any) -> None:
        try:
            for parameter in self.net.collect_params().values():
                parameter.list_ctx()
        except RuntimeError:
            self.net.initialize(**({} if initializer is None else {"init": initializer}),
                                ctx=self.context)
            return
        if initializer is not None:
            warnings.warn(
                "Network already fully initialized, skipping initialization. You don't need to "
                "pass initializer if you already initialized your net. You can use "
                "net.initialize(init=your_initializer, force_reinit=True) to force "
                "re-initialize.", stacklevel=3)

    def _checked_trainer(self, trainer: Any) -> Trainer:
        if trainer is None:
            warnings.warn("No trainer specified, default SGD optimizer with learning rate 0.001 "
                          "is used.", stacklevel=3)
            return Trainer(self.net.collect_params(), "sgd", {"learning_rate": 0.001})
        if not isinstance(trainer, Trainer):
            raise ArgumentValueError("Trainer must be a Gluon Trainer instance, refer to "
                                     f"gluon.Trainer: {trainer}")
        return trainer

    # -- the loops --------------------------------------------------------------------------------

    def fit(self, train_data: DataLoader, val_data: DataLoader | None = None,
            epochs: int | None = None, event_handlers: Any = None, batches: int | None = None,
            batch_axis: int = 0) -> None:
        """Train for so many epochs, or so many batches.

        Args:
            train_data: batches of data and label. val_data: evaluated after each epoch.
            epochs, batches: one of them. event_handlers: one or a list; those that are missing
                are added: updates, metrics, validation, stopping, logging.
            batch_axis: along which batches are cut for several contexts.
        """
        _check_loader(train_data)
        if (not epochs) == (not batches):
            raise ArgumentValueError(
                "Fit only support exactly one type of iteration, train by number of epochs or "
                "number of batches. Please specify one and only one of: epochs or batches.")
        self.max_epoch, self.max_batch, self.batch_axis = epochs, batches, batch_axis
        handlers = self._prepare_default_handlers(val_data, event_handlers)
        begin, epoch_begin, batch_begin, batch_end, epoch_end, end = (
            self._categorize_handlers(handlers))
        for handler in begin:
            handler.train_begin(self)
        stop = False
        while not stop:
            for handler in epoch_begin:
                handler.epoch_begin(self)
            batch = None
            for batch in train_data:
                for handler in batch_begin:
                    handler.batch_begin(self, batch=batch)
                _, label, pred, loss = self.batch_processor.fit_batch(self, batch, batch_axis)
                if any([handler.batch_end(self, batch=batch, pred=pred, label=label, loss=loss)
                        for handler in batch_end]):  # a list: all of them are called
                    break
            if batch is None:
                raise ArgumentValueError("Estimator.fit: train_data has no batches")
            stop = any([handler.epoch_end(self) for handler in epoch_end])
        for handler in end:
            handler.train_end(self)

    def evaluate(self, val_data: DataLoader, batch_axis: int = 0,
                 event_handlers: Any = None) -> None:
        """Bring the validation metrics up to date.

        Args:
            val_data: batches of data and label. batch_axis: along which they are cut.
            event_handlers: one or a list; metrics and logging are added if missing.
        """
        _check_loader(val_data)
        for metric in self.val_metrics:
            metric.reset()
        handlers = _handlers(event_handlers)
        for kind in (MetricHandler, LoggingHandler):
            if not any(isinstance(each, kind) for each in handlers):
                handlers.append(kind(metrics=self.val_metrics))
        _, epoch_begin, batch_begin, batch_end, epoch_end, _ = (
            self._categorize_handlers(sorted(handlers, key=_priority)))
        for handler in epoch_begin:
            handler.epoch_begin(self)
        for batch in val_data:
            for handler in batch_begin:
                handler.batch_begin(self, batch=batch)
            _, label, pred, loss = self.batch_processor.evaluate_batch(self, batch, batch_axis)
            for handler in batch_end:
                handler.batch_end(self, batch=batch, pred=pred, label=label, loss=loss)
        for handler in epoch_end:
            handler.epoch_end(self)

    # -- handlers ---------------------------------------------------------------------------------

    def _prepare_default_handlers(self, val_data: DataLoader | None, event_handlers: Any
                                  ) -> list[Any]:
        """The given handlers and those that are missing, in the order of their priorities."""
        handlers = given = _handlers(event_handlers)
        handlers = [*given, StoppingHandler(self.max_epoch, self.max_batch)]

        def lacks(kind: type) -> bool:
            return not any(isinstance(each, kind) for each in given)

        if lacks(GradientUpdateHandler):
            handlers.append(GradientUpdateHandler())
        if lacks(MetricHandler):
            handlers.append(MetricHandler(self.train_metrics))
        if val_data is not None and lacks(ValidationHandler):
            _check_loader(val_data)
            handlers.append(ValidationHandler(val_data, self.evaluate))
        if lacks(LoggingHandler):
            handlers.append(LoggingHandler(metrics=self.train_metrics))
        if lacks(MetricHandler) or lacks(LoggingHandler):
            self._check_metrics_of(given)
        return sorted(handlers, key=_priority)

    def _check_metrics_of(self, handlers: list[Any]) -> None:
        """Default handlers look after the estimator's own metrics only."""
        known = [*self.train_metrics, *self.val_metrics]
        for handler in handlers:
            for metric in getattr(handler, "metrics", ()):
                if not any(metric is each for each in known):
                    raise ArgumentValueError(
                        f"Event handler {type(handler).__name__} refers to a metric instance "
                        f"{metric} outside of the known training and validation metrics. Please "
                        "use the metrics from estimator.train_metrics and estimator.val_metrics "
                        "instead.")

    def _categorize_handlers(self, event_handlers: list[Any]) -> list[list[Any]]:
        """For each of the six moments, the handlers that want to see it."""
        return [[each for each in event_handlers if isinstance(each, moment)]
                for moment in _MOMENTS]


def _priority(handler: Any) -> float:
    return getattr(handler, "priority", 0)


def _handlers(given: Any) -> list[Any]:
    handlers = [given] if isinstance(given, EventHandler) else list(given or ())
    for handler in handlers:
        if not isinstance(handler, EventHandler):
            raise ArgumentValueError("event_handlers must be an EventHandler or a list of "
                                     f"EventHandler, got: {handler}")
    return handlers


def _check_loader(data: Any) -> None:
    if not isinstance(data, DataLoader):
        raise ArgumentValueError(
            "Estimator only support input as Gluon DataLoader. Alternatively, you can transform "
            "your DataIter or any NDArray into Gluon DataLoader. Refer to gluon.data.DataLoader; "
            f"got {type(data).__name__}")


def _loss(loss: Any) -> Any:
    if not isinstance(loss, losses.Loss):
        raise ArgumentValueError(f"loss must be a Loss, refer to gluon.loss.Loss: {loss}")
    return loss


def _contexts(context: Any) -> list[Context]:
    if context is None:
        return [gpu(0)] if num_gpus() else [cpu()]
    contexts = [context] if isinstance(context, Context) else context
    if not isinstance(contexts, (list, tuple)) or not all(
            isinstance(each, Context) for each in contexts):
        raise ArgumentValueError(
            "context must be a Context or a list of Context, for example mx.cpu() or "
            f"[mx.gpu(0), mx.gpu(1)], refer to mxnet.Context: {context}")
    for each in contexts:
        assert each.device_type != "gpu" or each.device_id < num_gpus(), (
            f"{each} is not available: there are {num_gpus()} GPUs; use mx.cpu()")
    return list(contexts)
