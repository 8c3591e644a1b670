"""Distances and correlations of real-valued predictions."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy

from .evalmetric import Arrays, EvalMetric, alias, check_label_shapes, pairs, register

__all__ = ["MAE", "MSE", "RMSE", "PearsonCorrelation"]


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
        for label, pred in pairs(labels, preds):
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
        super().__init__(name, output_names, label_names, has_global_stats=True, average=average)

    def reset(self) -> None:
        self._global_seen = numpy.zeros(6)
        super().reset()

    def reset_local(self) -> None:
        self._seen = numpy.zeros(6)
        super().reset_local()

    def update(self, labels: Arrays, preds: Arrays) -> None:
        for label, pred in pairs(labels, preds):
            check_label_shapes(label, pred, shape=True)
            x, y = label.ravel().astype("float64"), pred.ravel().astype("float64")
            if self.average == "macro":
                self._add(float(numpy.corrcoef(x, y)[0, 1]), 1)
                continue
            self._seen = _merged_moments(self._seen, x, y)
            self._global_seen = _merged_moments(self._global_seen, x, y)
            self.num_inst, self.sum_metric = _weighted_correlation(self._seen)
            self.global_num_inst, self.global_sum_metric = _weighted_correlation(self._global_seen)


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


def _weighted_correlation(moments: Any) -> tuple[int, float]:
    n, _, _, xx, yy, xy = moments
    return int(n), float(n * xy / math.sqrt(xx * yy)) if xx * yy else 0.0
