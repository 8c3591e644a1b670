"""How likely events are that make more of their kind: ``contrib.hawkesll``.

Each mark k has the intensity ``mu + alpha beta sum exp(-beta (t - t_i))`` over its own events t_i
(A. Hawkes, "Spectra of some self-exciting and mutually exciting point processes", 1971); the sum
is carried along as a state that each event raises by 1.
"""
from __future__ import annotations

import math
from typing import Any

from ..base import ShapeError
from .operator import Attrs, operator
from .rules import DTypes, Shapes, merge_shapes

__all__: list[str] = []

Array = Any


def _shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    lda, alpha, beta, state, lags, marks, valid, end = shapes
    table = merge_shapes(lda, state, "shapes of lda and state")
    events = merge_shapes(lags, marks, "shapes of lags and marks")
    if table is None:
        return shapes, [None, None]
    if len(table) != 2 or (events is not None and len(events) != 2):
        raise ShapeError(f"expected lda (N, K) and lags (N, T), got {table} and {events}")
    each = (table[1],)
    batch = merge_shapes((table[0],), merge_shapes(valid, end), "sizes of the batch")
    return [table, merge_shapes(each, alpha), merge_shapes(each, beta), table, events, events,
            batch, batch], [batch, table]


def _dtype(dtypes: DTypes, attrs: Attrs) -> tuple[DTypes, DTypes]:
    led = dtypes[0]
    return [*(dtype or led for dtype in dtypes[:5]), dtypes[5] or "int32",
            *(dtype or led for dtype in dtypes[6:])], [led, led]


# log likelihood, last states, slopes by lda, alpha and beta of each mark
Walked = tuple[float, list[float], list[list[float]]]


def _walk(lda: list[float], alpha: list[float], beta: list[float], state: Array, lags: Array,
          marks: Array, count: int, end: float) -> Walked:
    """Go along the events of one row."""
    kinds = len(lda)
    held, slope, last = list(map(float, state)), [0.0] * kinds, [0.0] * kinds
    total, now = 0.0, 0.0
    slopes = [[0.0] * kinds for _ in range(3)]

    def pass_time(k: int, until: float) -> tuple[float, float]:
        """Take off what was expected since the last event; (time, decay)."""
        nonlocal total
        passed = until - last[k]
        decay = math.exp(-beta[k] * passed)
        total -= lda[k] * passed + alpha[k] * held[k] * (1 - decay)
        slopes[0][k] -= passed
        slopes[1][k] -= held[k] * (1 - decay)
        slopes[2][k] -= alpha[k] * (slope[k] * (1 - decay) + held[k] * passed * decay)
        return passed, decay

    for lag, mark in zip(lags[:count], marks[:count], strict=True):
        now += float(lag)
        k = int(mark)
        passed, decay = pass_time(k, now)
        left = held[k] * decay
        bend = slope[k] * decay - passed * left
        intensity = lda[k] + alpha[k] * beta[k] * left
        total += math.log(intensity)
        slopes[0][k] += 1 / intensity
        slopes[1][k] += beta[k] * left / intensity
        slopes[2][k] += alpha[k] * (left + beta[k] * bend) / intensity
        held[k], slope[k], last[k] = 1 + left, bend, now
    for k in range(kinds):
        _, decay = pass_time(k, end)
        held[k] *= decay
    return total, held, slopes


def _rows(lda: Array, alpha: Array, beta: Array, state: Array, lags: Array, marks: Array,
          valid_length: Array, max_time: Array) -> list[Walked]:
    strengths, decays = alpha.tolist(), beta.tolist()
    return [_walk(lda[i].tolist(), strengths, decays, state[i], lags[i], marks[i],
                  int(valid_length[i]), float(max_time[i])) for i in range(len(lda))]


@operator("_contrib_hawkesll", infer=_shape, infer_dtype=_dtype, num_outputs=2,
          output_names=("output", "out_state"),
          gradient=lambda F, dy, out, *inputs: [
              *([None] * 3 if dy[0] is None else F._hawkes_grad(dy[0], *inputs)), *[None] * 5])
def hawkesll(xp: Any, lda: Array, alpha: Array, beta: Array, state: Array, lags: Array,
             marks: Array, valid_length: Array, max_time: Array) -> tuple[Array, Array]:
    """The log likelihood of marked events that excite themselves, and the states afterwards.

    Args:
        lda: background intensities mu. alpha, beta: strength and decay for each mark.
        state: what is left of events before. lags: times between events. marks: their kinds.
        valid_length: how many events of a row count. max_time: the end of observation.

    Shapes: lda, state (N, K), alpha, beta (K,), lags, marks (N, T), valid_length, max_time (N,) ->
        (N,), (N, K). Gradients of the first for lda, alpha and beta.

    >>> import minigluon as mx
    >>> one = mx.nd.ones((1, 1))
    >>> found, _ = mx.nd.contrib.hawkesll(one, mx.nd.zeros((1,)), mx.nd.ones((1,)), one * 0, one,
    ...                                   one * 0, mx.nd.ones((1,)), mx.nd.array([4]))
    >>> found.asnumpy().tolist()
    [-4.0]
    """
    rows = _rows(lda, alpha, beta, state, lags, marks, valid_length, max_time)
    return (xp.asarray([row[0] for row in rows], lda.dtype).reshape(len(lda)),
            xp.asarray([row[1] for row in rows], lda.dtype).reshape(lda.shape))


@operator("_hawkes_grad", infer=lambda shapes, attrs: (shapes, shapes[1:4]), num_outputs=3,
          infer_dtype=lambda dtypes, attrs: (dtypes, [dtypes[1]] * 3))
def _hawkes_grad(xp: Any, dy: Array, lda: Array, alpha: Array, beta: Array, state: Array,
                 lags: Array, marks: Array, valid_length: Array, max_time: Array
                 ) -> tuple[Array, Array, Array]:
    """The gradients of the log likelihood for lda, alpha and beta."""
    rows = _rows(lda, alpha, beta, state, lags, marks, valid_length, max_time)
    slopes = xp.asarray([row[2] for row in rows]).reshape(len(lda), 3, lda.shape[1])
    weighted = slopes * dy[:, None, None]
    return (weighted[:, 0].astype(lda.dtype), weighted[:, 1].sum(axis=0).astype(lda.dtype),
            weighted[:, 2].sum(axis=0).astype(lda.dtype))
