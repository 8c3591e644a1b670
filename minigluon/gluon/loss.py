"""Losses: blocks that return one value for each sample (the mean over all its other axes)."""
from __future__ import annotations

import math
from typing import Any

from ..base import ParameterMismatch, ShapeError
from ..ndarray import NDArray
from ..nn import HybridBlock

__all__ = [
    "CTCLoss", "CosineEmbeddingLoss", "HingeLoss", "HuberLoss", "KLDivLoss", "L1Loss", "L2Loss",
    "LogisticLoss", "Loss", "PoissonNLLLoss", "SDMLLoss", "SigmoidBCELoss",
    "SigmoidBinaryCrossEntropyLoss", "SoftmaxCELoss", "SoftmaxCrossEntropyLoss",
    "SquaredHingeLoss", "TripletLoss",
]


def _apply_weighting(F: Any, loss: Any, weight: float | None = None,
                     sample_weight: Any = None) -> Any:
    """The loss times a weight for each sample and a common one; losses of users call it."""
    if sample_weight is not None:
        loss = F.broadcast_mul(loss, sample_weight)
    return loss if weight is None else loss * weight


def _reshape_like(F: Any, x: Any, y: Any) -> Any:
    """`x` in the shape of `y`; losses of users call it."""
    return F.reshape_like(x, y)


class Loss(HybridBlock):
    """Base of losses; a subclass ends its hybrid_forward with ``return self._finish(...)``.

    Args:
        weight: factor on the loss, or None.
        batch_axis: the axis of samples, which is not averaged over.
    """

    def __init__(self, weight: float | None, batch_axis: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._weight = weight
        self._batch_axis = batch_axis

    def __repr__(self) -> str:
        return f"{type(self).__name__}(batch_axis={self._batch_axis}, w={self._weight})"

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """The loss of each sample."""
        raise NotImplementedError(f"{type(self).__name__} must implement hybrid_forward")

    def _weighted(self, F: Any, loss: Any, sample_weight: Any, weight: float | None) -> Any:
        return _apply_weighting(F, loss, weight, sample_weight)

    def _mean(self, F: Any, loss: Any) -> Any:
        return F.mean(loss, axis=self._batch_axis, exclude=True)

    def _finish(self, F: Any, loss: Any, sample_weight: Any) -> Any:
        """Weigh and average."""
        return self._mean(F, self._weighted(F, loss, sample_weight, self._weight))


class L2Loss(Loss):
    """Half the squared difference: ``0.5 * weight * (label - pred) ** 2``.

    Shapes:
        pred and label of equal size; sample_weight broadcasts to pred; result (batch,).

    >>> import minigluon as mx
    >>> L2Loss()(mx.nd.array([1, 2]), mx.nd.array([1, 4])).asnumpy().tolist()
    [0.0, 2.0]
    """

    def __init__(self, weight: float = 1.0, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """The loss of each sample."""
        loss = F.square(F.reshape_like(label, pred) - pred)
        loss = self._weighted(F, loss, sample_weight, None if self._weight is None
                              else self._weight / 2)
        return self._mean(F, loss)


class L1Loss(Loss):
    """The absolute difference: ``weight * |label - pred|``. Shapes as in L2Loss."""

    def __init__(self, weight: float | None = None, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """The loss of each sample."""
        return self._finish(F, F.abs(F.reshape_like(label, pred) - pred), sample_weight)


class SoftmaxCrossEntropyLoss(Loss):
    """-log of the softmax probability of the label.

    Args:
        axis: the class axis.
        sparse_label: labels are class numbers; False: probabilities, shaped like pred.
        from_logits: pred holds log probabilities already.
        weight, batch_axis: as in Loss.

    Shapes:
        pred (N, C, ...) with C at `axis`; label without that axis, or like pred; result (N,).

    >>> import minigluon as mx
    >>> pred, label = mx.nd.array([[0, 2], [1, 4]]), mx.nd.array([0, 1])
    >>> print(SoftmaxCrossEntropyLoss()(pred, label).asnumpy().round(4))
    [2.1269 0.0486]
    """

    def __init__(
        self,
        axis: int = -1,
        sparse_label: bool = True,
        from_logits: bool = False,
        weight: float | None = None,
        batch_axis: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._axis = axis
        self._sparse_label = sparse_label
        self._from_logits = from_logits

    def __call__(self, pred: Any, label: Any, *args: Any) -> Any:
        if self._sparse_label and isinstance(pred, NDArray) and isinstance(label, NDArray):
            if label.shape == pred.shape and pred.shape[self._axis] > 1:
                raise ShapeError(
                    f"SoftmaxCrossEntropyLoss: label has the shape of pred, {pred.shape}, but "
                    f"class numbers have no axis {self._axis} of classes; for one-hot or "
                    "probability labels make the loss with sparse_label=False"
                )
        return super().__call__(pred, label, *args)

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """The loss of each sample."""
        if not self._from_logits:
            pred = F.log_softmax(pred, axis=self._axis)
        if self._sparse_label:
            loss = -F.pick(pred, label, axis=self._axis, keepdims=True)
        else:
            label = F.reshape_like(label, pred)
            loss = -F.sum(pred * label, axis=self._axis, keepdims=True)
        return self._finish(F, loss, sample_weight)


SoftmaxCELoss = SoftmaxCrossEntropyLoss


class SigmoidBinaryCrossEntropyLoss(Loss):
    """Cross entropy of independent yes/no labels: -(y log p + (1 - y) log(1 - p)).

    Args:
        from_sigmoid: pred holds probabilities; False: values before the sigmoid.
        weight, batch_axis: as in Loss.

    A fourth argument `pos_weight` of the call is a factor on the term of label 1.

    >>> import minigluon as mx
    >>> loss = SigmoidBinaryCrossEntropyLoss()(mx.nd.zeros((1, 2)), mx.nd.array([[0, 1]]))
    >>> round(float(loss.asscalar()), 4)
    0.6931
    """

    def __init__(
        self,
        from_sigmoid: bool = False,
        weight: float | None = None,
        batch_axis: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._from_sigmoid = from_sigmoid

    def hybrid_forward(
        self, F: Any, pred: Any, label: Any, sample_weight: Any = None, pos_weight: Any = None
    ) -> Any:
        """The loss of each sample."""
        label = F.reshape_like(label, pred)
        if self._from_sigmoid:
            yes, no = F.log(pred + 1e-12), F.log(1.0 - pred + 1e-12)
            found = yes * label
            if pos_weight is not None:
                found = F.broadcast_mul(found, pos_weight)
            loss = -(found + no * (1.0 - label))
        else:
            softplus = F.Activation(-F.abs(pred), act_type="softrelu") + F.relu(-pred)
            if pos_weight is not None:
                factor = F.broadcast_mul(label, pos_weight - 1.0) + 1.0
                softplus = F.broadcast_mul(softplus, factor)
            loss = pred - pred * label + softplus
        return self._finish(F, loss, sample_weight)


SigmoidBCELoss = SigmoidBinaryCrossEntropyLoss


class KLDivLoss(Loss):
    """Kullback-Leibler divergence: ``label * (log label - log pred)``, summed for each sample.

    Args:
        from_logits: pred holds log probabilities; False: values before a softmax along `axis`.
    """

    def __init__(
        self,
        from_logits: bool = True,
        axis: int = -1,
        weight: float | None = None,
        batch_axis: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits = from_logits
        self._axis = axis

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """The loss of each sample."""
        if not self._from_logits:
            pred = F.log_softmax(pred, axis=self._axis)
        loss = label * (F.log(label + 1e-12) - pred)
        loss = self._weighted(F, loss, sample_weight, self._weight)
        return F.sum(loss, axis=self._batch_axis, exclude=True)


class HuberLoss(Loss):
    """Squared below a distance of `rho`, linear beyond.

    ``|d| - rho / 2`` where ``|d| > rho``, else ``d ** 2 / (2 * rho)``.
    """

    def __init__(
        self, rho: float = 1, weight: float | None = None, batch_axis: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._rho = rho

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """The loss of each sample."""
        far = F.abs(F.reshape_like(label, pred) - pred)
        loss = F.where(far > self._rho, far - 0.5 * self._rho, (0.5 / self._rho) * F.square(far))
        return self._finish(F, loss, sample_weight)


class HingeLoss(Loss):
    """``max(0, margin - pred * label)`` for labels -1 and 1."""

    def __init__(
        self, margin: float = 1, weight: float | None = None, batch_axis: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """The loss of each sample."""
        loss = F.relu(self._margin - pred * F.reshape_like(label, pred))
        return self._finish(F, loss, sample_weight)


class SquaredHingeLoss(HingeLoss):
    """``max(0, margin - pred * label) ** 2`` for labels -1 and 1."""

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """The loss of each sample."""
        loss = F.square(F.relu(self._margin - pred * F.reshape_like(label, pred)))
        return self._finish(F, loss, sample_weight)


class LogisticLoss(Loss):
    """``log(1 + exp(-pred * label))``.

    Args:
        label_format: 'signed' for labels -1 and 1, 'binary' for 0 and 1.
    """

    def __init__(
        self,
        weight: float | None = None,
        batch_axis: int = 0,
        label_format: str = "signed",
        **kwargs: Any,
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        if label_format not in ("signed", "binary"):
            raise ValueError(
                f"label_format can only be signed or binary, received {label_format}."
            )
        self._label_format = label_format

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """The loss of each sample."""
        label = F.reshape_like(label, pred)
        if self._label_format == "signed":
            label = (label + 1.0) / 2.0
        loss = F.relu(pred) - pred * label + F.Activation(-F.abs(pred), act_type="softrelu")
        return self._finish(F, loss, sample_weight)


class TripletLoss(Loss):
    """``max(0, |pos - pred|^2 - |neg - pred|^2 + margin)``, summed over all but the batch axis."""

    def __init__(
        self, margin: float = 1, weight: float | None = None, batch_axis: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(
        self, F: Any, pred: Any, positive: Any, negative: Any, sample_weight: Any = None
    ) -> Any:
        """The loss of each sample."""
        near = F.square(F.reshape_like(positive, pred) - pred)
        far = F.square(F.reshape_like(negative, pred) - pred)
        loss = F.relu(F.sum(near - far, axis=self._batch_axis, exclude=True) + self._margin)
        return self._weighted(F, loss, sample_weight, self._weight)


class PoissonNLLLoss(Loss):
    """Negative log likelihood of counts under a Poisson distribution; the mean over everything.

    Args:
        from_logits: pred holds the log of the rate; False: the rate.
        compute_full: add Stirling's approximation of log(target!) where target > 1.
    """

    def __init__(
        self,
        weight: float | None = None,
        from_logits: bool = True,
        batch_axis: int = 0,
        compute_full: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits = from_logits
        self._compute_full = compute_full

    def hybrid_forward(
        self, F: Any, pred: Any, target: Any, sample_weight: Any = None, epsilon: float = 1e-8
    ) -> Any:
        """The mean loss, of shape (1,)."""
        target = F.reshape_like(target, pred)
        if self._from_logits:
            loss = F.exp(pred) - target * pred
        else:
            loss = pred - target * F.log(pred + epsilon)
        if self._compute_full:
            stirling = target * F.log(target) - target + 0.5 * F.log(2 * target * 3.1415926)
            loss = loss + F.where(target > 1, stirling, F.zeros_like(target))
        return F.mean(self._weighted(F, loss, sample_weight, self._weight))


class CosineEmbeddingLoss(Loss):
    """``1 - cos(a, b)`` for label 1, ``max(0, cos(a, b) - margin)`` for label -1."""

    def __init__(
        self, weight: float | None = None, batch_axis: int = 0, margin: float = 0, **kwargs: Any
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(
        self, F: Any, input1: Any, input2: Any, label: Any, sample_weight: Any = None
    ) -> Any:
        """The loss of each sample, of shape (batch, 1)."""
        input1 = F.reshape_like(input1, input2)
        product = F.sum(input1 * input2, axis=-1, keepdims=True)
        lengths = F.sqrt(F.sum(F.square(input1), axis=-1, keepdims=True)
                         * F.sum(F.square(input2), axis=-1, keepdims=True))
        cosine = product / F.maximum(lengths, 1e-12)
        label = F.reshape_like(label, cosine)
        loss = F.where(label == 1, 1.0 - cosine, F.relu(cosine - self._margin))
        return self._weighted(F, loss, sample_weight, self._weight)


class CTCLoss(Loss):
    """Connectionist temporal classification: sequences of labels without their times.

    Args:
        layout: of pred, 'NTC' or 'TNC'. label_layout: 'NT' or 'TN'.
        weight: factor on the loss, or None.

    The last of the C classes is the blank; labels are padded with -1 at their end.

    Shapes:
        pred (N, T, C) before the softmax, label (N, L), pred_lengths and label_lengths (N,) or
        None, sample_weight -> (N,).

    >>> import minigluon as mx
    >>> label = mx.nd.array([[1, 0, -1, -1], [2, 1, 1, -1]])
    >>> print(CTCLoss()(mx.nd.ones((2, 20, 4)), label).asnumpy().round(4))
    [18.8282 16.5058]
    """

    def __init__(self, layout: str = "NTC", label_layout: str = "NT",
                 weight: float | None = None, **kwargs: Any) -> None:
        if layout not in ("NTC", "TNC"):
            raise ParameterMismatch("Only 'NTC' and 'TNC' layouts for pred are supported. "
                                    f"Got: {layout}")
        if label_layout not in ("NT", "TN"):
            raise ParameterMismatch("Only 'NT' and 'TN' layouts for label are supported. "
                                    f"Got: {label_layout}")
        self._layout = layout
        self._label_layout = label_layout
        super().__init__(weight, label_layout.index("N"), **kwargs)

    def hybrid_forward(self, F: Any, pred: Any, label: Any, pred_lengths: Any = None,
                       label_lengths: Any = None, sample_weight: Any = None) -> Any:
        """The loss of each sample."""
        if self._layout == "NTC":
            pred = F.swapaxes(pred, 0, 1)
        if self._batch_axis == 1:
            label = F.swapaxes(label, 0, 1)
        loss = F.CTCLoss(pred, label, pred_lengths, label_lengths,
                         use_data_lengths=pred_lengths is not None,
                         use_label_lengths=label_lengths is not None, blank_label="last")
        return self._weighted(F, loss, sample_weight, self._weight)


class SDMLLoss(Loss):
    """Smoothed deep metric learning: row i of x1 and row i of x2 are near, all others far.

    The softmax of minus the squared distances of a row of x1 to all rows of x2 is compared with a
    smoothed identity (Kullback-Leibler divergence, summed).

    Args:
        smoothing_parameter: probability mass that the other rows share.
        weight, batch_axis: accepted, but without effect, as in MXNet.

    Shapes:
        x1 and x2 (N, C), N > 1 -> (N,).

    >>> import minigluon as mx
    >>> far = mx.nd.array([[0, 0], [9, 9]])
    >>> SDMLLoss(smoothing_parameter=0.0)(far, far).asnumpy().round(3).tolist()
    [0.0, 0.0]
    """

    def __init__(self, smoothing_parameter: float = 0.3, weight: float = 1.0,
                 batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self.smoothing_parameter = smoothing_parameter

    def hybrid_forward(self, F: Any, x1: Any, x2: Any) -> Any:
        """The loss of each row."""
        apart = F.broadcast_sub(F.expand_dims(x1, axis=1), F.expand_dims(x2, axis=0))
        logp = F.log_softmax(-F.sum(F.square(apart), axis=2), axis=1)
        own = F.diag(logp)
        others = F.sum(logp, axis=1) - own
        mass = self.smoothing_parameter
        share = mass / (F.sum(F.ones_like(logp), axis=1) - 1)  # of each other row
        entropy = (1 - mass) * math.log(1 - mass + 1e-12) + mass * F.log(share + 1e-12)
        return entropy - (1 - mass) * own - share * others
