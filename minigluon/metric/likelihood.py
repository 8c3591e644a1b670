"""Likelihoods of the labels, and losses that the network computed itself."""
from __future__ import annotations

import math
from collections.abc import Sequence

import numpy

from .evalmetric import Arrays, EvalMetric, alias, check_label_shapes, host, pairs, register

__all__ = ["Caffe", "CrossEntropy", "Loss", "NegativeLogLikelihood", "Perplexity", "Torch"]


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
        for label, pred in pairs(labels, preds):
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
        for label, pred in pairs(labels, preds):
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
            values = host(pred)
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
