"""Measures of how good predictions are, gathered over many batches."""
from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from ..base import ArgumentError, ArgumentValueError, Registry, ShapeError
from ..ndarray import NDArray

__all__ = [
    "Arrays", "CompositeEvalMetric", "CustomMetric", "EvalMetric", "alias", "check_label_shapes",
    "create", "host", "np", "pairs", "register",
]

Arrays = Any  # an NDArray or NumPy array, or a list of them
Value = tuple[Any, Any]  # (name, value), or two lists of equal length


def host(x: Any) -> numpy.ndarray[Any, Any]:
    """The NumPy array of an NDArray, or of anything NumPy takes."""
    return x.asnumpy() if isinstance(x, NDArray) else numpy.asarray(x)


def check_label_shapes(
    labels: Arrays, preds: Arrays, wrap: bool = False, shape: bool = False
) -> tuple[Arrays, Arrays]:
    """Complain (ValueError) about labels and predictions that do not pair up.

    Args:
        wrap: put single arrays into lists. shape: compare shapes instead of lengths.
    """
    given = (labels.shape, preds.shape) if shape else (len(labels), len(preds))
    if given[0] != given[1]:
        raise ShapeError(f"metric: labels have {'shape' if shape else 'length'} {given[0]}, "
                         f"predictions {given[1]}")
    if wrap:
        labels = labels if isinstance(labels, (list, tuple)) else [labels]
        preds = preds if isinstance(preds, (list, tuple)) else [preds]
    return labels, preds


def pairs(labels: Arrays, preds: Arrays) -> list[tuple[Any, Any]]:
    """(label, prediction) as NumPy arrays, one pair for each output of a model."""
    if not isinstance(labels, (list, tuple)) and not isinstance(preds, (list, tuple)):
        return [(host(labels), host(preds))]
    labels, preds = check_label_shapes(labels, preds, wrap=True)
    return [(host(a), host(b)) for a, b in zip(labels, preds, strict=True)]


class EvalMetric:
    """Base: a sum over a count, twice: since the last reset, and since the last `reset_local`.

    A subclass implements ``update(labels, preds)`` and adds with ``self._add(total, count)``. One
    that only keeps ``sum_metric`` and ``num_inst`` up to date, or overrides `reset` and `get`, has
    nothing global: `get_global` is its `get`.

    Args:
        name: shown by `get`. output_names, label_names: which entries `update_dict` takes.
        has_global_stats: the subclass itself keeps ``global_sum_metric`` and ``global_num_inst``.
        kwargs: further settings, kept for `get_config`.
    """

    _has_global_stats = False

    def __init__(
        self,
        name: str,
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
        has_global_stats: bool = False,
        **kwargs: Any,
    ) -> None:
        self.name = str(name)
        self._has_global_stats = has_global_stats
        self.output_names = output_names
        self.label_names = label_names
        self._kwargs = kwargs
        self.reset()

    def __str__(self) -> str:
        return f"EvalMetric: {dict(self.get_name_value())}"

    def get_config(self) -> dict[str, Any]:
        """Settings from which ``create(json.dumps(...))`` makes an equal metric."""
        return {
            **self._kwargs, "metric": type(self).__name__, "name": self.name,
            "output_names": self.output_names, "label_names": self.label_names,
        }

    def update(self, labels: Arrays, preds: Arrays) -> None:
        """Take a batch in."""
        raise NotImplementedError(f"{type(self).__name__} must implement update(labels, preds)")

    def update_dict(self, label: dict[str, Any], pred: dict[str, Any]) -> None:
        """`update` with labels and predictions by name."""
        preds = [pred[n] for n in self.output_names] if self.output_names else list(pred.values())
        labels = [label[n] for n in self.label_names] if self.label_names else list(label.values())
        self.update(labels, preds)

    def _add(self, total: float, count: int) -> None:
        self._has_global_stats = True
        self.sum_metric += total
        self.num_inst += count
        self.global_sum_metric += total
        self.global_num_inst += count

    def reset(self) -> None:
        """Forget everything."""
        self.global_sum_metric: float = 0.0
        self.global_num_inst = 0
        self.reset_local()

    def reset_local(self) -> None:
        """Forget what `get` shows; `get_global` goes on."""
        self.sum_metric: float = 0.0
        self.num_inst = 0

    def _value(self, total: float, count: int) -> float:
        return total / count if count else math.nan

    def get(self) -> Value:
        """(name, value) since the last `reset` or `reset_local`; nan without data."""
        return self.name, self._value(self.sum_metric, self.num_inst)

    def get_global(self) -> Value:
        """(name, value) since the last `reset`."""
        if not self._has_global_stats:
            return self.get()
        return self.name, self._value(self.global_sum_metric, self.global_num_inst)

    def get_name_value(self) -> list[tuple[str, float]]:
        """`get` as a list of pairs."""
        return _as_pairs(self.get())

    def get_global_name_value(self) -> list[tuple[str, float]]:
        """`get_global` as a list of pairs."""
        return _as_pairs(self.get_global()) if self._has_global_stats else self.get_name_value()


def _as_pairs(value: Value) -> list[tuple[str, float]]:
    names, values = value
    if not isinstance(names, list):
        names = [names]
    return list(zip(names, values if isinstance(values, list) else [values], strict=True))


_registry = Registry("metric", EvalMetric)


def register(klass: type[Any]) -> type[Any]:
    """Decorator: make a metric known to ``create`` under its lower-case class name."""
    return _registry.register(klass)


def alias(*aliases: str) -> Callable[[type[Any]], type[Any]]:
    """Decorator: make a metric known to ``create`` under its own name and these."""
    return _registry.alias(*aliases)


def create(metric: Any, *args: Any, **kwargs: Any) -> EvalMetric:
    """A metric from a name, a function, a list of such, a config as JSON, or a metric.

    >>> create("acc").get_config()["metric"], create(["mse", "mae"]).get()[0]
    ('Accuracy', ['mse', 'mae'])
    """
    if isinstance(metric, str) and metric.startswith("{"):
        metric = json.loads(metric)
    if isinstance(metric, dict):
        settings = dict(metric)
        return create(settings.pop("metric"), **settings)
    if isinstance(metric, (list, tuple)):
        return CompositeEvalMetric(list(metric), *args, **kwargs)
    if callable(metric) and not isinstance(metric, EvalMetric):
        return CustomMetric(metric, *args, **kwargs)
    made: EvalMetric = _registry.create(metric, *args, **kwargs)
    return made


@alias("composite")
class CompositeEvalMetric(EvalMetric):
    """Several metrics updated together; `get` returns two lists.

    >>> both = CompositeEvalMetric(["mse", "mae"])
    >>> both.update([numpy.ones(2)], [numpy.zeros(2)])
    >>> both.get()
    (['mse', 'mae'], [1.0, 1.0])
    """

    def __init__(
        self,
        metrics: Sequence[Any] | None = None,
        name: str = "composite",
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
    ) -> None:
        self.metrics = [create(metric) for metric in metrics or []]
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def add(self, metric: Any) -> None:
        """Put one more metric in."""
        self.metrics.append(create(metric))

    def get_metric(self, index: int) -> EvalMetric:
        """Metric number `index`."""
        if not 0 <= index < len(self.metrics):
            raise ArgumentValueError(f"metric {index} is out of range 0 to {len(self.metrics)}")
        return self.metrics[index]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "metrics": [m.get_config() for m in self.metrics]}

    def update(self, labels: Arrays, preds: Arrays) -> None:
        for metric in self.metrics:
            metric.update(labels, preds)

    def update_dict(self, label: dict[str, Any], pred: dict[str, Any]) -> None:
        for metric in self.metrics:
            metric.update_dict(label, pred)

    def reset(self) -> None:
        for metric in self.metrics:
            metric.reset()

    def reset_local(self) -> None:
        for metric in self.metrics:
            metric.reset_local()

    def _gather(self, pairs: list[tuple[str, float]]) -> Value:
        return [name for name, _ in pairs], [value for _, value in pairs]

    def get(self) -> Value:
        return self._gather([pair for m in self.metrics for pair in m.get_name_value()])

    def get_global(self) -> Value:
        return self._gather([pair for m in self.metrics for pair in m.get_global_name_value()])


class CustomMetric(EvalMetric):
    """A function ``feval(label, pred)`` on NumPy arrays, averaged over calls.

    Args:
        feval: returns a value, or a pair (sum, count).
        allow_extra_outputs: more predictions than labels are allowed; the rest is ignored.

    >>> metric = CustomMetric(lambda x, y: float(abs(x - y).sum()), name="distance")
    >>> metric.update(numpy.ones(2), numpy.zeros(2))
    >>> metric.get()
    ('distance', 2.0)
    """

    def __init__(
        self,
        feval: Callable[[Any, Any], Any],
        name: str | None = None,
        allow_extra_outputs: bool = False,
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
    ) -> None:
        if name is None:
            word = getattr(feval, "__name__", type(feval).__name__)
            name = f"custom({word})" if "<" in word else word
        super().__init__(name, output_names, label_names)
        self._feval = feval
        self._allow_extra_outputs = allow_extra_outputs

    def get_config(self) -> dict[str, Any]:
        raise NotImplementedError("CustomMetric: a Python function has no JSON form")

    def update(self, labels: Arrays, preds: Arrays) -> None:
        if self._allow_extra_outputs and isinstance(labels, (list, tuple)):
            preds = preds[: len(labels)]
        for label, pred in pairs(labels, preds):
            value = self._feval(label, pred)
            total, count = value if isinstance(value, tuple) else (value, 1)
            self._add(total, count)


def np(
    numpy_feval: Callable[[Any, Any], Any],
    name: str | None = None,
    allow_extra_outputs: bool = False,
) -> CustomMetric:
    """A CustomMetric from a function on NumPy arrays."""
    if not callable(numpy_feval):
        raise ArgumentError(f"metric.np: expected a function, got {numpy_feval!r}")
    return CustomMetric(numpy_feval, name, allow_extra_outputs)
