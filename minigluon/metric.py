"""Measures of how good predictions are, gathered over many batches."""
from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from .base import ArgumentError, ArgumentValueError, Registry, ShapeError
from .ndarray import NDArray

__all__ = [
    "F1", "MAE", "MCC", "MSE", "PCC", "RMSE", "Accuracy", "Caffe", "CompositeEvalMetric",
    "CrossEntropy", "CustomMetric", "EvalMetric", "Loss", "NegativeLogLikelihood",
    "PearsonCorrelation", "Perplexity", "TopKAccuracy", "Torch", "alias", "check_label_shapes",
    "create", "np", "register",
]

Arrays = Any  # an NDArray or NumPy array, or a list of them
Value = tuple[Any, Any]  # (name, value), or two lists of equal length


def _host(x: Any) -> numpy.ndarray[Any, Any]:
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


def _pairs(labels: Arrays, preds: Arrays) -> list[tuple[Any, Any]]:
    if not isinstance(labels, (list, tuple)) and not isinstance(preds, (list, tuple)):
        return [(_host(labels), _host(preds))]
    labels, preds = check_label_shapes(labels, preds, wrap=True)
    return [(_host(a), _host(b)) for a, b in zip(labels, preds, strict=True)]


class EvalMetric:
    """Base: a sum over a count, twice: since the last reset, and since the last `reset_local`.

    A subclass implements ``update(labels, preds)`` and adds with ``self._add(total, count)``.

    Args:
        name: shown by `get`. output_names, label_names: which entries `update_dict` takes.
        kwargs: further settings, kept for `get_config`.
    """

    def __init__(
        self,
        name: str,
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        self.name = str(name)
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
        return self.name, self._value(self.global_sum_metric, self.global_num_inst)

    def get_name_value(self) -> list[tuple[str, float]]:
        """`get` as a list of pairs."""
        return _as_pairs(self.get())

    def get_global_name_value(self) -> list[tuple[str, float]]:
        """`get_global` as a list of pairs."""
        return _as_pairs(self.get_global())


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
        return CompositeEvalMetric(*args, metrics=list(metric), **kwargs)
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
        super().__init__(name, output_names, label_names)

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


@alias("acc")
class Accuracy(EvalMetric):
    """Share of predictions equal to the label.

    Args:
        axis: the class axis, along which a prediction with more values than labels is arg-maxed.

    >>> accuracy = Accuracy()
    >>> accuracy.update(numpy.array([1, 0]), numpy.array([[0.1, 0.9], [0.2, 0.8]]))
    >>> accuracy.get()
    ('accuracy', 0.5)
    """

    def __init__(
        self,
        axis: int = 1,
        name: str = "accuracy",
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(name, output_names, label_names, axis=axis)
        self.axis = axis

    def update(self, labels: Arrays, preds: Arrays) -> None:
        for label, pred in _pairs(labels, preds):
            if pred.shape != label.shape:
                pred = pred.argmax(self.axis)
            pred, label = pred.astype("int32").ravel(), label.astype("int32").ravel()
            check_label_shapes(label, pred)
            self._add(int((pred == label).sum()), len(pred))


@alias("top_k_accuracy", "top_k_acc")
class TopKAccuracy(EvalMetric):
    """Share of labels that are among the `top_k` highest predictions.

    Args:
        top_k: how many, more than 1 (otherwise use Accuracy).
    """

    def __init__(
        self,
        top_k: int = 1,
        name: str = "top_k_accuracy",
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(name, output_names, label_names, top_k=top_k)
        assert top_k > 1, "TopKAccuracy: top_k must be more than 1; otherwise use Accuracy"
        self.top_k = top_k
        self.name += f"_{top_k}"

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "name": self.name[: -len(f"_{self.top_k}")]}

    def update(self, labels: Arrays, preds: Arrays) -> None:
        for label, pred in _pairs(labels, preds):
            assert pred.ndim <= 2, "TopKAccuracy: predictions must have 1 or 2 axes"
            label = label.astype("int32").ravel()
            if pred.ndim == 1:
                hits = pred.astype("int32") == label
            else:
                top = min(self.top_k, pred.shape[1])
                best = numpy.argpartition(pred.astype("float32"), -top)[:, -top:]
                check_label_shapes(label, best)
                hits = best == label[:, None]
            self._add(int(hits.sum()), len(label))


# -- from the counts of a confusion matrix --------------------------------------------------------


class _Binary(EvalMetric):
    """Two classes; a score computed from the counts, per batch (macro) or of all (micro)."""

    def __init__(
        self,
        name: str,
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
        average: str = "macro",
    ) -> None:
        self.average = average
        super().__init__(name, output_names, label_names, average=average)

    def reset(self) -> None:
        self._global_counts = numpy.zeros((2, 2))
        super().reset()

    def reset_local(self) -> None:
        self._counts = numpy.zeros((2, 2))
        super().reset_local()

    def _score(self, counts: Any) -> float:
        raise NotImplementedError(f"{type(self).__name__} must implement _score(counts)")

    def update(self, labels: Arrays, preds: Arrays) -> None:
        batch = numpy.zeros((2, 2))
        for label, pred in _pairs(labels, preds):
            label, pred = label.astype("int32").ravel(), pred.argmax(1)
            check_label_shapes(label, pred)
            if len(numpy.unique(label)) > 2:
                raise ArgumentValueError(f"{self.name} is for two classes; labels have more")
            numpy.add.at(batch, (label, pred), 1)
        if self.average == "macro":
            self._add(self._score(batch), 1)
            return
        self._counts += batch
        self._global_counts += batch
        for scope, counts in (("", self._counts), ("global_", self._global_counts)):
            seen = int(counts.sum())
            setattr(self, f"{scope}num_inst", seen)
            setattr(self, f"{scope}sum_metric", self._score(counts) * seen)


@register
class F1(_Binary):
    """2 * precision * recall / (precision + recall) for labels 0 and 1; 0 where undefined.

    Args:
        average: 'macro' means over batches, 'micro' counts over all samples.
    """

    def __init__(self, name: str = "f1", output_names: Sequence[str] | None = None,
                 label_names: Sequence[str] | None = None, average: str = "macro") -> None:
        super().__init__(name, output_names, label_names, average)

    def _score(self, counts: Any) -> float:
        wrong = counts[0, 1] + counts[1, 0]
        total = 2 * counts[1, 1] + wrong
        return float(2 * counts[1, 1] / total) if total else 0.0


def _correlation(counts: Any) -> float:
    """The correlation coefficient R_K of a K-class confusion matrix; 0 where undefined."""
    n = counts.sum()
    x, y = counts.sum(axis=1), counts.sum(axis=0)
    cov_xx, cov_yy = (x * (n - x)).sum(), (y * (n - y)).sum()
    if cov_xx == 0 or cov_yy == 0:
        return 0.0
    cov_xy = (numpy.diag(counts) * n - x * y).sum()
    return float(cov_xy / math.sqrt(cov_xx * cov_yy))


@register
class MCC(_Binary):
    """Matthews' correlation coefficient for labels 0 and 1; 0 where undefined.

    Args:
        average: 'macro' means over batches, 'micro' counts over all samples.
    """

    def __init__(self, name: str = "mcc", output_names: Sequence[str] | None = None,
                 label_names: Sequence[str] | None = None, average: str = "macro") -> None:
        super().__init__(name, output_names, label_names, average)

    def _score(self, counts: Any) -> float:
        return _correlation(counts)


@register
class PCC(EvalMetric):
    """Correlation of labels and predictions for any number of classes; equals MCC for two."""

    def __init__(self, name: str = "pcc", output_names: Sequence[str] | None = None,
                 label_names: Sequence[str] | None = None) -> None:
        super().__init__(name, output_names, label_names)

    def reset(self) -> None:
        self._global_counts = numpy.zeros((2, 2))
        super().reset()

    def reset_local(self) -> None:
        self._counts = numpy.zeros((2, 2))
        super().reset_local()

    def update(self, labels: Arrays, preds: Arrays) -> None:
        for label, pred in _pairs(labels, preds):
            label = label.astype("int32").ravel()
            pred = pred.astype("int32").ravel() if pred.shape == label.shape else pred.argmax(1)
            size = int(max(label.max(), pred.max())) + 1
            batch = numpy.zeros((size, size))
            numpy.add.at(batch, (label, pred), 1)
            self._counts = _grown_sum(self._counts, batch)
            self._global_counts = _grown_sum(self._global_counts, batch)
        self.num_inst = self.global_num_inst = 1
        self.sum_metric = _correlation(self._counts)
        self.global_sum_metric = _correlation(self._global_counts)


def _grown_sum(a: Any, b: Any) -> Any:
    total = numpy.zeros([max(len(a), len(b))] * 2)
    total[: len(a), : len(a)] += a
    total[: len(b), : len(b)] += b
    return total


# -- regression -----------------------------------------------------------------------------------


class _Regression(EvalMetric):
    """The mean over batches of an error between arrays."""

    word = ""

    def __init__(
        self,
        name: str | None = None,
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(name or self.word, output_names, label_names)

    def _error(self, difference: Any) -> float:
        raise NotImplementedError(f"{type(self).__name__} must implement _error(difference)")

    def update(self, labels: Arrays, preds: Arrays) -> None:
        for label, pred in _pairs(labels, preds):
            label = label.reshape(-1, 1) if label.ndim == 1 else label
            pred = pred.reshape(-1, 1) if pred.ndim == 1 else pred
            self._add(self._error(label - pred), 1)


@register
class MAE(_Regression):
    """Mean absolute error."""

    word = "mae"

    def _error(self, difference: Any) -> float:
        return float(numpy.abs(difference).mean())


@register
class MSE(_Regression):
    """Mean squared error."""

    word = "mse"

    def _error(self, difference: Any) -> float:
        return float((difference**2).mean())


@register
class RMSE(_Regression):
    """Root of the mean squared error, averaged over batches."""

    word = "rmse"

    def _error(self, difference: Any) -> float:
        return math.sqrt((difference**2).mean())


@alias("pearsonr")
class PearsonCorrelation(EvalMetric):
    """Pearson's correlation of labels and predictions.

    Args:
        average: 'macro' means over batches, 'micro' is that of all samples seen.
    """

    def __init__(
        self,
        name: str = "pearsonr",
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
        average: str = "macro",
    ) -> None:
        self.average = average
        super().__init__(name, output_names, label_names, average=average)

    def reset(self) -> None:
        self._global_seen: list[Any] = []
        super().reset()

    def reset_local(self) -> None:
        self._seen = numpy.zeros(6)
        super().reset_local()

    def update(self, labels: Arrays, preds: Arrays) -> None:
        for label, pred in _pairs(labels, preds):
            check_label_shapes(label, pred, shape=True)
            x, y = label.ravel().astype("float64"), pred.ravel().astype("float64")
            if self.average == "macro":
                self._add(float(numpy.corrcoef(x, y)[0, 1]), 1)
                continue
            self._seen = _merged_moments(self._seen, x, y)
            self.num_inst = int(self._seen[0])
            _, _, _, xx, yy, xy = self._seen
            self.sum_metric = self.num_inst * float(xy / math.sqrt(xx * yy))
            self.global_num_inst, self.global_sum_metric = self.num_inst, self.sum_metric


def _merged_moments(seen: Any, x: Any, y: Any) -> Any:
    """(n, mean x, mean y, sums of xx, yy, xy about the means) with more samples taken in."""
    n, m, mean_x, mean_y = seen[0], len(x), x.mean(), y.mean()
    dx, dy, weight = mean_x - seen[1], mean_y - seen[2], n * m / (n + m)
    return numpy.array([
        n + m,
        seen[1] + dx * m / (n + m),
        seen[2] + dy * m / (n + m),
        seen[3] + ((x - mean_x) ** 2).sum() + dx * dx * weight,
        seen[4] + ((y - mean_y) ** 2).sum() + dy * dy * weight,
        seen[5] + ((x - mean_x) * (y - mean_y)).sum() + dx * dy * weight,
    ])


# -- likelihoods and losses -----------------------------------------------------------------------


class _Likelihood(EvalMetric):
    """Mean of -log(the probability predicted for the label)."""

    word = ""

    def __init__(
        self,
        eps: float = 1e-12,
        name: str | None = None,
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(name or self.word, output_names, label_names, eps=eps)
        self.eps = eps

    def update(self, labels: Arrays, preds: Arrays) -> None:
        for label, pred in _pairs(labels, preds):
            label = label.ravel()
            check_label_shapes(label, pred)
            chosen = pred[numpy.arange(len(label)), label.astype("int64")]
            self._add(float(-numpy.log(chosen + self.eps).sum()), len(label))


@alias("ce")
class CrossEntropy(_Likelihood):
    """Cross entropy of predicted class probabilities (N, C) and labels (N,)."""

    word = "cross-entropy"


@alias("nll_loss")
class NegativeLogLikelihood(_Likelihood):
    """Negative log likelihood of labels (N,) under predicted probabilities (N, C)."""

    word = "nll-loss"


@register
class Perplexity(EvalMetric):
    """exp of the mean of -log(probability of the label).

    Args:
        ignore_label: labels with this value do not count; None: all count.
        axis: the class axis of the predictions.
    """

    def __init__(
        self,
        ignore_label: int | None,
        axis: int = -1,
        name: str = "perplexity",
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(name, output_names, label_names, ignore_label=ignore_label, axis=axis)
        self.ignore_label = ignore_label
        self.axis = axis

    def update(self, labels: Arrays, preds: Arrays) -> None:
        total, count = 0.0, 0
        for label, pred in _pairs(labels, preds):
            label = label.astype("int64").ravel()
            pred = numpy.moveaxis(pred, self.axis, -1)
            pred = pred.reshape(-1, pred.shape[-1])
            check_label_shapes(label, pred)
            kept = label != self.ignore_label if self.ignore_label is not None else label == label
            chosen = pred[numpy.arange(len(label))[kept], label[kept]]
            total -= float(numpy.log(numpy.maximum(chosen, 1e-10)).sum())
            count += int(kept.sum())
        self._add(total, count)

    def _value(self, total: float, count: int) -> float:
        return math.exp(total / count) if count else math.nan


@register
class Loss(EvalMetric):
    """Mean of the predictions themselves, which are losses; labels are not looked at."""

    def __init__(
        self,
        name: str = "loss",
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(name, output_names, label_names)

    def update(self, _: Arrays, preds: Arrays) -> None:
        for pred in preds if isinstance(preds, (list, tuple)) else [preds]:
            values = _host(pred)
            self._add(float(values.sum()), values.size)


@register
class Torch(Loss):
    """`Loss` under the name 'torch'."""

    def __init__(self, name: str = "torch", output_names: Sequence[str] | None = None,
                 label_names: Sequence[str] | None = None) -> None:
        super().__init__(name, output_names, label_names)


@register
class Caffe(Loss):
    """`Loss` under the name 'caffe'."""

    def __init__(self, name: str = "caffe", output_names: Sequence[str] | None = None,
                 label_names: Sequence[str] | None = None) -> None:
        super().__init__(name, output_names, label_names)


# -- a user's function ----------------------------------------------------------------------------


class CustomMetric(EvalMetric):
    """A function ``feval(label, pred)`` on NumPy arrays, averaged over calls.

    Args:
        feval: returns a value, or a pair (sum, count).
        allow_extra_outputs: more predictions than labels are allowed; the rest is ignored.

    >>> metric = CustomMetric(lambda label, pred: abs(label - pred).sum(), name="distance")
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
        for label, pred in _pairs(labels, preds):
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
    return CustomMetric(numpy_feval, name or numpy_feval.__name__, allow_extra_outputs)
