"""Connectionist temporal classification: labels without times, in log space, a batch at once."""
from __future__ import annotations

from typing import Any, Literal

from ...base import ShapeError
from ..operator import Attrs, operator
from ..rules import DTypes, Shapes, merge_shapes

__all__: list[str] = []

Array = Any
Blank = Literal["first", "last"]


def _names(attrs: Attrs) -> list[str]:
    return ["data", "label", *["data_lengths"] * attrs["use_data_lengths"],
            *["label_lengths"] * attrs["use_label_lengths"]]


def _shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data, label, *lengths = shapes
    if data is not None and len(data) != 3:
        raise ShapeError(f"expected data (time, batch, alphabet), got shape {data}")
    if label is not None and len(label) != 2:
        raise ShapeError(f"expected label (batch, length), got shape {label}")
    data = data or (0, 0, 0)
    batch = (data[1],)
    for shape in (None if label is None else label[:1], *lengths):
        batch = merge_shapes(batch, shape, "batch size of data, label and lengths") or batch
    if label is not None and data[0] and label[1] > data[0]:
        raise ShapeError(f"expected labels no longer than the data, got {label[1]} labels for "
                         f"{data[0]} steps")
    full = (data[0], batch[0], data[2])
    kept = None
    if label is not None:
        label = (batch[0], label[1])
        if 0 not in (*full, label[1]):
            kept = (data[0], batch[0], 2 * label[1] + 1)
    return [full if shapes[0] is not None or batch[0] else None, label,
            *[batch if batch[0] else shape for shape in lengths]], [batch, kept]


def _working(dtype: str | None) -> str | None:
    return "float32" if dtype == "float16" else dtype


def _dtype(dtypes: DTypes, attrs: Attrs) -> tuple[DTypes, DTypes]:
    return dtypes, [dtypes[0], _working(dtypes[0])]


def _gradient(F: Any, dy: Any, out: Any, data: Any, label: Any, *lengths: Any, **attrs: Any
              ) -> list[Any]:
    rest = [None] * (1 + len(lengths))
    return [F._ctc_grad(dy[0], data, out[1], label, *lengths, **attrs), *rest]


@operator("CTCLoss", infer=_shape, infer_dtype=_dtype, inputs=_names, num_outputs=2, visible=1,
          gradient=_gradient, output_names=("output0", "output1"),
          aliases=("ctc_loss", "_contrib_CTCLoss", "_contrib_ctc_loss"))
def ctc_loss(
    xp: Any, data: Array, label: Array, data_lengths: Array | None = None,
    label_lengths: Array | None = None, *, use_data_lengths: bool = False,
    use_label_lengths: bool = False, blank_label: Blank = "first",
) -> tuple[Array, Array]:
    """-log of the probability of a sequence of labels, over all ways to spread it in time.

    Args:
        use_data_lengths: the steps from ``data_lengths`` on are padding.
        use_label_lengths: the number of labels is in ``label_lengths``; otherwise they end at
            the first padding value: 0 for blank_label 'first', -1 for 'last'.
        blank_label: which class is the blank. 'first': 0, labels count from 1; 'last': the
            last one, labels count from 0.

    Labels that need more steps than there are have loss 0 and no gradient.

    Shapes:
        data (T, N, C) before the softmax, label (N, L), lengths (N,) -> (N,).

    >>> import minigluon as mx
    >>> loss = mx.nd.ctc_loss(mx.nd.zeros((2, 1, 3)), mx.nd.array([[1, 0]]))
    >>> round(float(loss.asscalar()), 4)  # blank-1, 1-blank, 1-1: three ways of nine
    1.0986
    """
    _shape([data.shape, label.shape], {})
    logp = _log_softmax(xp, data.astype(_working(data.dtype.name), copy=False))
    path = _Path(xp, logp, label, *_lengths(data_lengths, label_lengths, use_data_lengths,
                                            use_label_lengths), blank_label)
    alpha = path.forward()
    loss = -path.total(alpha)
    return path.possible(loss).astype(data.dtype, copy=False), alpha


@operator("_ctc_grad", infer=lambda shapes, attrs: (shapes, [shapes[1]]),
          infer_dtype=lambda dtypes, attrs: (dtypes, [dtypes[1]]),
          inputs=lambda attrs: ["dy", "data", "alpha", *_names(attrs)[1:]])
def ctc_grad(
    xp: Any, dy: Array, data: Array, alpha: Array, label: Array,
    data_lengths: Array | None = None, label_lengths: Array | None = None, *,
    use_data_lengths: bool = False, use_label_lengths: bool = False,
    blank_label: Blank = "first",
) -> Array:
    """Gradient of CTCLoss for its data, given the forward sums `alpha`."""
    logp = _log_softmax(xp, data.astype(alpha.dtype, copy=False))
    path = _Path(xp, logp, label, *_lengths(data_lengths, label_lengths, use_data_lengths,
                                            use_label_lengths), blank_label)
    factor = path.possible(-path.total(alpha), 1) * dy.astype(alpha.dtype, copy=False)
    grad = xp.exp(logp) - path.occupation(alpha, path.backward())
    grad *= (path.live * factor)[:, :, None]
    return grad.astype(data.dtype, copy=False)


def _lengths(data_lengths: Array | None, label_lengths: Array | None, use_data: bool,
             use_label: bool) -> tuple[Array | None, Array | None]:
    """The two lengths; where only those of labels are used they came in the other's place."""
    if use_label and not use_data:
        return None, data_lengths if label_lengths is None else label_lengths
    return data_lengths if use_data else None, label_lengths if use_label else None


def _log_softmax(xp: Any, data: Array) -> Array:
    data = data - data.max(axis=2, keepdims=True)
    return data - xp.log(xp.exp(data).sum(axis=2, keepdims=True))


class _Path:
    """The labels with blanks around them, (N, S) with S = 2 L + 1, and sums over ways through.

    Args:
        logp: (T, N, C) log probabilities. label: (N, L). The lengths: (N,), None for full.
    """

    def __init__(self, xp: Any, logp: Array, label: Array, data_lengths: Array | None,
                 label_lengths: Array | None, blank_label: Blank) -> None:
        self.xp, self.logp = xp, logp
        steps, batch, classes = logp.shape
        blank, padding = (0, 0) if blank_label == "first" else (classes - 1, -1)
        label = label.astype("int64")
        count = label.shape[1]
        if label_lengths is None:
            ends = label == padding
            label_lengths = xp.where(ends.any(axis=1), ends.argmax(axis=1), count)
        self.sizes = 2 * label_lengths.astype("int64") + 1
        self.steps = (xp.full(batch, steps) if data_lengths is None
                      else data_lengths.astype("int64"))
        self.live = xp.arange(steps)[:, None] < self.steps
        self.classes = xp.full((batch, 2 * count + 1), blank)
        self.classes[:, 1::2] = xp.clip(label, 0, classes - 1)
        self.skips = xp.zeros(self.classes.shape, bool)  # may come from two places before
        self.skips[:, 2:] = ((self.classes[:, 2:] != blank)
                             & (self.classes[:, 2:] != self.classes[:, :-2]))
        inside = xp.arange(2 * count + 1) < self.sizes[:, None]
        emitted = xp.take_along_axis(
            logp, xp.broadcast_to(self.classes, (steps, *self.classes.shape)), axis=2)
        self.emitted = xp.where(inside, emitted, -xp.inf)
        self.rows = xp.arange(batch)

    def _ends(self) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """Where a way may end: in the last blank, or in the last label before it."""
        last = self.sizes - 1
        return (self.rows, last), (self.rows, self.xp.maximum(last - 1, 0))

    def _spread(self, sums: Array, skips: Array) -> Array:
        """Sums of staying, and of going on by one place, or by two where `skips` allows it."""
        xp, found = self.xp, sums.copy()
        found[:, 1:] = xp.logaddexp(found[:, 1:], sums[:, :-1])
        found[:, 2:] = xp.logaddexp(found[:, 2:], xp.where(skips[:, 2:], sums[:, :-2], -xp.inf))
        return found

    def forward(self) -> Array:
        """(T, N, S): sums over ways that are in place s after step t, that step included."""
        alpha = self.xp.full(self.emitted.shape, -self.xp.inf, self.emitted.dtype)
        if alpha.shape[0]:
            alpha[0, :, :2] = self.emitted[0, :, :2]
        for t in range(1, alpha.shape[0]):
            alpha[t] = self._spread(alpha[t - 1], self.skips) + self.emitted[t]
        return alpha

    def total(self, alpha: Array) -> Array:
        """(N,): the log probability of the labels."""
        blank, label = self._ends()
        final = alpha[self.xp.maximum(self.steps - 1, 0), self.rows]
        both = self.xp.logaddexp(final[blank], final[label])
        return self.xp.where(self.sizes > 1, both, final[blank])

    def possible(self, loss: Array, value: Any = None) -> Array:
        """`loss` (or `value`) where there is a way at all, else 0."""
        there = self.xp.isfinite(loss)
        return self.xp.where(there, loss if value is None else loss.dtype.type(value),
                             loss.dtype.type(0))

    def backward(self) -> Array:
        """(T, N, S): sums over the ways from place s after step t to an end, that step excluded."""
        xp = self.xp
        steps = len(self.emitted)
        beta = xp.full(self.emitted.shape, -xp.inf, self.emitted.dtype)
        ends = xp.full(self.classes.shape, -xp.inf, beta.dtype)
        for place in self._ends():
            ends[place] = 0
        skips = xp.zeros(self.skips.shape, bool)  # seen from the other end
        skips[:, 2:] = self.skips[:, ::-1][:, :-2]
        state = ends
        for t in range(steps - 1, -1, -1):
            if t < steps - 1:
                ahead = (state + self.emitted[t + 1])[:, ::-1]
                state = self._spread(ahead, skips)[:, ::-1]
            state = xp.where((self.steps - 1 > t)[:, None], state, ends)
            beta[t] = state
        return beta

    def occupation(self, alpha: Array, beta: Array) -> Array:
        """(T, N, C): how likely each step is to show each class, given the labels."""
        xp = self.xp
        both = alpha + beta
        total = self.total(alpha)[:, None]
        share = xp.where(xp.isfinite(both), xp.exp(both - total), both.dtype.type(0))
        found = xp.zeros(self.logp.shape, self.logp.dtype)
        for place in range(self.classes.shape[1]):  # two places of a row may be one class
            found[:, self.rows, self.classes[:, place]] += share[:, :, place]
        return found
