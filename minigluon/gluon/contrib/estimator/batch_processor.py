"""What an Estimator does with one batch; override it for other networks and losses."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import autograd
from ....context import Context
from ...utils import split_and_load

__all__ = ["BatchProcessor"]

Arrays = list[Any]


class BatchProcessor:
    """Forward and backward of a training batch, forward of a validation batch."""

    def _get_data_and_label(self, batch: Any, ctx: Sequence[Context], batch_axis: int = 0
                            ) -> tuple[Arrays, Arrays]:
        """The batch's two arrays, cut into a part for each context."""
        data, label = (split_and_load(part, ctx, batch_axis, even_split=False)
                       for part in batch[:2])
        return data, label

    def fit_batch(self, estimator: Any, train_batch: Any, batch_axis: int = 0
                  ) -> tuple[Arrays, Arrays, Arrays, Arrays]:
        """Compute predictions, losses and gradients.

        Args:
            estimator: whose ``net`` and ``loss`` are used. train_batch: data and label.
            batch_axis: along which it is cut for several contexts.

        Returns:
            data, label, predictions, losses: a list with a part for each context of each.
        """
        data, label = self._get_data_and_label(train_batch, estimator.context, batch_axis)
        with autograd.record():
            pred = [estimator.net(x) for x in data]
            loss = [estimator.loss(p, y) for p, y in zip(pred, label, strict=True)]
        autograd.backward(loss)
        return data, label, pred, loss

    def evaluate_batch(self, estimator: Any, val_batch: Any, batch_axis: int = 0
                       ) -> tuple[Arrays, Arrays, Arrays, Arrays]:
        """Compute predictions and losses; arguments and result as those of `fit_batch`."""
        data, label = self._get_data_and_label(val_batch, estimator.context, batch_axis)
        pred = [estimator.val_net(x) for x in data]
        loss = [estimator.val_loss(p, y) for p, y in zip(pred, label, strict=True)]
        return data, label, pred, loss
