"""Shares of right predictions."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from .evalmetric import Arrays, EvalMetric, alias, check_label_shapes, pairs

__all__ = ["Accuracy", "TopKAccuracy"]


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
        for label, pred in pairs(labels, preds):
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
        for label, pred in pairs(labels, preds):
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
