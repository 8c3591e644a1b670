"""Scores of classifiers computed from a confusion matrix."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy

from ..base import ArgumentValueError
from .evalmetric import Arrays, EvalMetric, check_label_shapes, pairs, register

__all__ = ["F1", "MCC", "PCC"]


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
        super().__init__(name, output_names, label_names, has_global_stats=True, average=average)

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
        for label, pred in pairs(labels, preds):
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
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def reset(self) -> None:
        self._global_counts = numpy.zeros((2, 2))
        super().reset()

    def reset_local(self) -> None:
        self._counts = numpy.zeros((2, 2))
        super().reset_local()

    def update(self, labels: Arrays, preds: Arrays) -> None:
        for label, pred in pairs(labels, preds):
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
