"""SSD: anchors at each pixel, what to learn for them, and how to read the network's answer."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...base import ArgumentValueError, ShapeError
from ..operator import Attrs, operator
from ..rules import Shapes, merge_shapes, no_gradient
from .box import as_centers, as_corners, overlaps, suppress

__all__: list[str] = []

Array = Any
_VARIANCES = (0.1, 0.1, 0.2, 0.2)


def _numbers(value: Any, what: str, count: int = 0) -> tuple[float, ...]:
    numbers = (value,) if isinstance(value, (int, float)) else tuple(value)
    if not numbers or (count and len(numbers) != count):
        raise ArgumentValueError(f"{what}: expected {count or 'some'} numbers, got {value}")
    return tuple(float(number) for number in numbers)


# -- MultiBoxPrior ---------------------------------------------------------------------------------

def _prior_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data = shapes[0]
    if data is None:
        return shapes, [None]
    if len(data) != 4:
        raise ShapeError(f"expected data (N, C, H, W), got {data}")
    each = len(_numbers(attrs["sizes"], "sizes")) + len(_numbers(attrs["ratios"], "ratios")) - 1
    return shapes, [(1, data[2] * data[3] * each, 4)]


@operator("_contrib_MultiBoxPrior", infer=_prior_shape, gradient=no_gradient,
          aliases=("MultiBoxPrior",))
def multibox_prior(
    xp: Any, data: Array, *, sizes: tuple = (1.0,), ratios: tuple = (1.0,),  # type: ignore[type-arg]
    clip: bool = False, steps: tuple = (-1.0, -1.0),  # type: ignore[type-arg]
    offsets: tuple = (0.5, 0.5),  # type: ignore[type-arg]
) -> Array:
    """Anchors around each pixel: all sizes with the first ratio, then the first size with the
    other ratios.

    Args:
        data: only its height and width count. sizes: shares of the image's height.
        ratios: width / height. clip: cut the boxes to the image. steps: distance of the pixels
            (y, x); -1: 1 / height, 1 / width. offsets: of the centers within a pixel (y, x).

    Shapes: data (N, C, H, W) -> (1, H W (len(sizes) + len(ratios) - 1), 4), corners from 0 to 1.

    >>> import minigluon as mx
    >>> mx.nd.contrib.MultiBoxPrior(mx.nd.zeros((1, 3, 1, 1)), sizes=(0.5,)).asnumpy().tolist()
    [[[0.25, 0.25, 0.75, 0.75]]]
    """
    _prior_shape([data.shape], {"sizes": sizes, "ratios": ratios})
    scales, shapes = _numbers(sizes, "sizes"), _numbers(ratios, "ratios")
    step, shift = _numbers(steps, "steps", 2), _numbers(offsets, "offsets", 2)
    height, width = data.shape[2:]
    step_y = step[0] if step[0] > 0 else 1 / height
    step_x = step[1] if step[1] > 0 else 1 / width
    kinds = [(size, shapes[0]) for size in scales] + [(scales[0], ratio) for ratio in shapes[1:]]
    halves = xp.asarray([[size * height / width * math.sqrt(ratio) / 2,
                          size / math.sqrt(ratio) / 2] for size, ratio in kinds])
    rows, columns = xp.meshgrid((xp.arange(height) + shift[0]) * step_y,
                                (xp.arange(width) + shift[1]) * step_x, indexing="ij")
    centers = xp.stack([columns, rows], axis=-1)[:, :, None, :]
    boxes = xp.concatenate([centers - halves, centers + halves], axis=-1).reshape(1, -1, 4)
    return (xp.clip(boxes, 0, 1) if clip else boxes).astype(data.dtype)


# -- MultiBoxTarget --------------------------------------------------------------------------------

def _target_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    anchor, label, scores = shapes
    anchor = merge_shapes(anchor, (1, 0, 4), "shapes of anchor (given and (1, N, 4))")
    assert anchor is not None
    if label is not None and (len(label) != 3 or 0 < label[2] < 5):
        raise ShapeError(f"expected label (B, M, 5 or more), got {label}")
    if scores is not None:
        scores = merge_shapes(scores, (label[0] if label else 0, 0, anchor[1]),
                              "shapes of cls_pred (given and (B, classes, N))")
    batch = (label or scores or (0,))[0]
    return [anchor, label, scores], [(batch, anchor[1] * 4), (batch, anchor[1] * 4),
                                     (batch, anchor[1])]


def _matched(xp: Any, shared: Array, threshold: float) -> tuple[Array, Array]:
    """For each anchor the truth it is to learn, or -1; and the overlap it was judged by."""
    match = xp.full(len(shared), -1, "int64")
    open_pairs = shared.copy()
    best = shared.max(axis=1)
    for _ in range(shared.shape[1]):  # each truth gets its best anchor, the best pair first
        place = int(open_pairs.argmax())
        anchor, truth = divmod(place, shared.shape[1])
        if open_pairs[anchor, truth] <= 1e-6:
            break
        match[anchor] = truth
        open_pairs[anchor, :] = -1
        open_pairs[:, truth] = -1
    if threshold > 0:
        more = (match < 0) & (best > threshold)
        match[more] = shared.argmax(axis=1)[more]
    return match, best


def _negatives(xp: Any, scores: Array, match: Array, best: Array, attrs: Attrs) -> Array:
    """Which anchors to learn as background."""
    free = match < 0
    ratio = attrs["negative_mining_ratio"]
    if ratio <= 0:
        return free
    positives = int((~free).sum())
    wanted = max(int(positives * ratio), attrs["minimum_negative_samples"])
    wanted = min(wanted, len(match) - positives)
    chosen = xp.zeros(len(match), bool)
    candidates = xp.nonzero(free & (best < attrs["negative_mining_thresh"]))[0]
    shifted = scores - scores.max(axis=0)
    background = xp.exp(shifted[0]) / xp.exp(shifted).sum(axis=0)
    hardest = candidates[xp.argsort(background[candidates], kind="stable")]
    chosen[hardest[:wanted]] = True
    return chosen


@operator("_contrib_MultiBoxTarget", infer=_target_shape, gradient=no_gradient, num_outputs=3,
          aliases=("MultiBoxTarget",), output_names=("loc_target", "loc_mask", "cls_target"),
          infer_dtype=lambda dtypes, attrs: (dtypes, [dtypes[0]] * 3))
def multibox_target(
    xp: Any, anchor: Array, label: Array, cls_pred: Array, *, overlap_threshold: float = 0.5,
    ignore_label: float = -1.0, negative_mining_ratio: float = -1.0,
    negative_mining_thresh: float = 0.5, minimum_negative_samples: int = 0,
    variances: tuple = _VARIANCES,  # type: ignore[type-arg]
) -> tuple[Array, Array, Array]:
    """What SSD has to learn: for each anchor a class, and the way from it to the true box.

    Args:
        anchor: corner boxes. label: rows [class, xmin, ymin, xmax, ymax, ...], from the first
            class of -1 on only padding. cls_pred: the network's scores, for negative mining.
        overlap_threshold: anchors that overlap a truth more learn it.
        ignore_label: class of the anchors that learn nothing.
        negative_mining_ratio: so many background anchors for one other, those the network is
            most wrong about; -1: all. negative_mining_thresh: anchors that overlap a truth more
            are no background. minimum_negative_samples: at least so many.
        variances: the offsets are divided by them.

    Shapes: anchor (1, N, 4), label (B, M, 5), cls_pred (B, C, N) ->
        (B, 4 N) offsets, (B, 4 N) mask, (B, N) classes (0: background).

    >>> import minigluon as mx
    >>> box = mx.nd.array([[[0, 0, 1, 1]]])
    >>> found = mx.nd.contrib.MultiBoxTarget(box, mx.nd.array([[[3, 0, 0, 1, 1]]]),
    ...                                      mx.nd.zeros((1, 5, 1)))
    >>> [x.asnumpy().tolist() for x in found]
    [[[0.0, 0.0, 0.0, 0.0]], [[1.0, 1.0, 1.0, 1.0]], [[4.0]]]
    """
    _target_shape([anchor.shape, label.shape, cls_pred.shape], {})
    attrs = {"negative_mining_ratio": negative_mining_ratio,
             "negative_mining_thresh": negative_mining_thresh,
             "minimum_negative_samples": minimum_negative_samples}
    scale = xp.asarray(_numbers(variances, "variances", 4), dtype=anchor.dtype)
    boxes, count = anchor[0], anchor.shape[1]
    offsets = xp.zeros((len(label), count, 4), anchor.dtype)
    mask = xp.zeros_like(offsets)
    classes = xp.full((len(label), count), ignore_label, anchor.dtype)
    for at, rows in enumerate(label):
        ends = xp.nonzero(rows[:, 0] == -1)[0]
        truths = rows[:int(ends[0])] if len(ends) else rows
        if not len(truths):
            continue
        match, best = _matched(xp, overlaps(xp, boxes, truths[:, 1:5]), overlap_threshold)
        learnt = xp.nonzero(match >= 0)[0]
        chosen = truths[match[learnt]]
        offsets[at, learnt] = _offsets(xp, boxes[learnt], chosen[:, 1:5], scale)
        mask[at, learnt] = 1
        classes[at, _negatives(xp, cls_pred[at], match, best, attrs)] = 0
        classes[at, learnt] = chosen[:, 0] + 1
    return offsets.reshape(len(label), -1), mask.reshape(len(label), -1), classes


def _offsets(xp: Any, boxes: Array, truths: Array, scale: Array) -> Array:
    one, other = as_centers(xp, boxes, "corner"), as_centers(xp, truths, "corner")
    moved = (other[:, :2] - one[:, :2]) / one[:, 2:]
    grown = xp.log(xp.maximum(other[:, 2:] / one[:, 2:], 1e-8))
    return xp.concatenate([moved, grown], axis=1) / scale


# -- MultiBoxDetection -----------------------------------------------------------------------------

def _detection_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    scores, offsets, anchor = shapes
    if scores is not None and len(scores) != 3:
        raise ShapeError(f"expected cls_prob (B, classes, N), got {scores}")
    if scores is None:
        return shapes, [None]
    offsets = merge_shapes(offsets, (scores[0], scores[2] * 4), "shapes of loc_pred")
    anchor = merge_shapes(anchor, (1, scores[2], 4), "shapes of anchor")
    return [scores, offsets, anchor], [(scores[0], scores[2], 6)]


@operator("_contrib_MultiBoxDetection", infer=_detection_shape, gradient=no_gradient,
          aliases=("MultiBoxDetection",))
def multibox_detection(
    xp: Any, cls_prob: Array, loc_pred: Array, anchor: Array, *, clip: bool = True,
    threshold: float = 0.01, background_id: int = 0, nms_threshold: float = 0.5,
    force_suppress: bool = False, variances: tuple = _VARIANCES,  # type: ignore[type-arg]
    nms_topk: int = -1,
) -> Array:
    """What SSD has found: rows [class, score, xmin, ymin, xmax, ymax], best first.

    Args:
        cls_prob: probabilities, class 0 the background. loc_pred: offsets from the anchors.
        anchor: corner boxes. clip: cut the boxes to the image. threshold: lower scores go.
        background_id: only 0. nms_threshold: of boxes that overlap more the better one stays.
        force_suppress: also among classes. variances: the offsets are multiplied with them.
        nms_topk: only so many of the best are looked at; -1: all.

    Shapes: cls_prob (B, C, N), loc_pred (B, 4 N), anchor (1, N, 4) -> (B, N, 6); class -1 marks
        what was suppressed, rows of -1 are padding.

    >>> import minigluon as mx
    >>> found = mx.nd.contrib.MultiBoxDetection(
    ...     mx.nd.array([[[0.2], [0.8]]]), mx.nd.zeros((1, 4)), mx.nd.array([[[0, 0, 1, 1]]]))
    >>> found.asnumpy().round(1).tolist()
    [[[0.0, 0.800000011920929, 0.0, 0.0, 1.0, 1.0]]]
    """
    _detection_shape([cls_prob.shape, loc_pred.shape, anchor.shape], {})
    if background_id != 0:
        raise ArgumentValueError(f"background_id: expected 0, got {background_id}")
    scale = _numbers(variances, "variances", 4)
    out = xp.full((len(cls_prob), anchor.shape[1], 6), -1, cls_prob.dtype)
    centers = as_centers(xp, anchor[0], "corner")
    for rows, scores, offsets in zip(out, cls_prob, loc_pred, strict=True):
        boxes = _decoded(xp, offsets.reshape(-1, 4), centers, scale, clip)
        best = scores[1:].argmax(axis=0)
        score = scores[1:].max(axis=0)
        valid = xp.nonzero(score >= threshold)[0]
        order = valid[xp.argsort(-score[valid], kind="stable")]
        rows[:len(order), 0] = best[order]
        rows[:len(order), 1] = score[order]
        rows[:len(order), 2:] = boxes[order]
        _keep_best(xp, rows, len(order), nms_threshold, force_suppress, nms_topk)
    return out


def _decoded(xp: Any, offsets: Array, centers: Array, scale: Sequence[float], clip: bool) -> Array:
    scaled = offsets * xp.asarray(scale, dtype=offsets.dtype)
    middle = scaled[:, :2] * centers[:, 2:] + centers[:, :2]
    size = xp.exp(scaled[:, 2:]) * centers[:, 2:]
    boxes = as_corners(xp, xp.concatenate([middle, size], axis=1), "center")
    return xp.clip(boxes, 0, 1) if clip else boxes


def _keep_best(xp: Any, rows: Array, count: int, threshold: float, force: bool, topk: int) -> None:
    """Class -1 for the rows that overlap a better one, and for those beyond topk."""
    if not 0 < threshold <= 1 or not count:
        return
    looked = min(count, topk) if topk > 0 else count
    kept = suppress(xp, rows[:looked, 2:], threshold, None if force else rows[:looked, 0].copy())
    gone = xp.ones(count, bool)
    gone[kept] = False
    rows[:count, 0][gone] = -1
