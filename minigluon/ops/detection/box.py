"""Boxes: how much they overlap, which of them to keep.

A box is four numbers: its corners (xmin, ymin, xmax, ymax), or its center and size (x, y, width,
height).
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ...base import ArgumentValueError, ShapeError
from ..operator import Attrs, MaybeShape, operator
from ..rules import Shapes, follow_dtype, like_shape, no_gradient, size_of

__all__ = ["Format", "as_centers", "as_corners", "boxes_of", "overlaps", "suppress"]

Array = Any
Format = Literal["corner", "center"]


def boxes_of(shape: MaybeShape, what: str) -> MaybeShape:
    """The shape, if its last axis may hold boxes."""
    if shape is not None and (not shape or shape[-1] not in (0, 4)):
        raise ShapeError(f"expected {what} with 4 numbers along the last axis, got {shape}")
    return shape


def as_corners(xp: Any, boxes: Array, form: str) -> Array:
    """Boxes (..., 4) by their corners."""
    if form == "corner":
        return boxes
    half = boxes[..., 2:] / 2
    return xp.concatenate([boxes[..., :2] - half, boxes[..., :2] + half], axis=-1)


def as_centers(xp: Any, boxes: Array, form: str) -> Array:
    """Boxes (..., 4) by center and size."""
    if form == "center":
        return boxes
    size = boxes[..., 2:] - boxes[..., :2]
    return xp.concatenate([boxes[..., :2] + size / 2, size], axis=-1)


def overlaps(xp: Any, one: Array, other: Array, extra: float = 0.0) -> Array:
    """Intersection over union of corner boxes (N, 4) and (M, 4) -> (N, M).

    Args:
        extra: added to widths and heights; 1 where boxes are counted in whole pixels.
    """
    low = xp.maximum(one[:, None, :2], other[None, :, :2])
    high = xp.minimum(one[:, None, 2:4], other[None, :, 2:4])
    shared = xp.maximum(high - low + extra, 0).prod(axis=2)
    areas = [xp.maximum(boxes[:, 2:4] - boxes[:, :2] + extra, 0).prod(axis=1)
             for boxes in (one, other)]
    union = areas[0][:, None] + areas[1][None, :] - shared
    return xp.where(union > 0, shared / xp.where(union > 0, union, 1), 0)


def suppress(xp: Any, boxes: Array, threshold: float, classes: Array | None = None,
             extra: float = 0.0, most: int = 0) -> list[int]:
    """Which of the boxes (best first) stay when those that overlap a better one go.

    Args:
        boxes: corner boxes (N, 4). threshold: an overlap beyond it is too much.
        classes: only boxes of one class suppress each other; None: all do.
        extra: as in `overlaps`. most: stop after so many; 0: never.
    """
    alive = xp.ones(len(boxes), bool)
    kept: list[int] = []
    for place in range(len(boxes)):
        if not alive[place]:
            continue
        kept.append(place)
        if most and len(kept) == most:
            break
        rest = slice(place + 1, None)
        close = overlaps(xp, boxes[place:place + 1], boxes[rest], extra)[0] > threshold
        if classes is not None:
            close &= classes[rest] == classes[place]
        alive[rest] &= ~close
    return kept


# -- box_iou ---------------------------------------------------------------------------------------

def _iou_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    lhs, rhs = boxes_of(shapes[0], "lhs"), boxes_of(shapes[1], "rhs")
    if lhs is None or rhs is None:
        return shapes, [None]
    return [(*lhs[:-1], 4), (*rhs[:-1], 4)], [(*lhs[:-1], *rhs[:-1]) or (1,)]


@operator("_contrib_box_iou", infer=_iou_shape, gradient=no_gradient)
def box_iou(xp: Any, lhs: Array, rhs: Array, *, format: Format = "corner") -> Array:
    """Intersection over union of each box of `lhs` with each box of `rhs`.

    Args:
        lhs, rhs: boxes. format: 'corner' or 'center'.

    Shapes: lhs (*A, 4), rhs (*B, 4) -> (*A, *B).

    >>> import minigluon as mx
    >>> a, b = mx.nd.array([[0, 0, 2, 1]]), mx.nd.array([[1, 0, 3, 1]])
    >>> round(mx.nd.contrib.box_iou(a, b).item(), 4)
    0.3333
    """
    shape = _iou_shape([lhs.shape, rhs.shape], {})[1][0]
    one, other = (as_corners(xp, boxes.reshape(-1, 4), format) for boxes in (lhs, rhs))
    return overlaps(xp, one, other).astype(lhs.dtype, copy=False).reshape(shape)


# -- box_nms ---------------------------------------------------------------------------------------

def _nms_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data = shapes[0]
    if data is None:
        return shapes, [None, None]
    if len(data) < 2:
        raise ShapeError(f"expected rows of boxes on the last two axes, got {data}")
    width = data[-1]
    for word, place in (("coord_start", attrs["coord_start"] + 3),
                        ("score_index", attrs["score_index"]), ("id_index", attrs["id_index"])):
        if width and place >= width:
            raise ArgumentValueError(f"{word}: expected a place within the {width} numbers of a "
                                     f"box, got {attrs[word]}")
    return shapes, [data, (*data[:-1], 1)]


def _nms_back(F: Any, dy: Sequence[Any], out: Sequence[Any], data: Any, **attrs: Any) -> list[Any]:
    return [F._box_nms_grad(dy[0], out[1])]


@operator("_contrib_box_nms", infer=_nms_shape, gradient=_nms_back, num_outputs=2, visible=1,
          aliases=("_contrib_box_non_maximum_suppression",), output_names=("output0", "index"),
          infer_dtype=lambda dtypes, attrs: (dtypes, [dtypes[0], "int32"]))
def box_nms(
    xp: Any, data: Array, *, overlap_thresh: float = 0.5, valid_thresh: float = 0.0,
    topk: int = -1, coord_start: int = 2, score_index: int = 1, id_index: int = -1,
    background_id: int = -1, force_suppress: bool = False, in_format: Format = "corner",
    out_format: Format = "corner",
) -> tuple[Array, Array]:
    """Rows of boxes, best first; rows that overlap a better one too much become -1.

    Args:
        data: rows such as [id, score, xmin, ymin, xmax, ymax, ...].
        overlap_thresh: how much is too much. valid_thresh: lower scores go first of all.
        topk: only so many of the best are looked at; -1: all.
        coord_start, score_index, id_index: where box, score and class stand; id_index -1: no
            classes. background_id: rows of this class go (-1: as detectors mark rows of none).
        force_suppress: boxes of different classes suppress each other, too.
        in_format, out_format: 'corner' or 'center'.

    Shapes: data (*S, N, K) -> (*S, N, K).

    >>> import minigluon as mx
    >>> x = mx.nd.array([[0, 0.5, 0, 0, 2, 2], [0, 0.9, 0, 0, 2, 2], [0, 0.3, 5, 5, 6, 6]])
    >>> mx.nd.contrib.box_nms(x).asnumpy()[:, 1].round(1).tolist()
    [0.8999999761581421, 0.30000001192092896, -1.0]
    """
    attrs = {"coord_start": coord_start, "score_index": score_index, "id_index": id_index}
    _nms_shape([data.shape], attrs)
    batches = data.reshape(-1, *data.shape[-2:])
    out, index = xp.full_like(batches, -1), xp.full((*batches.shape[:2], 1), -1, "int32")
    place = slice(coord_start, coord_start + 4)
    for rows, result, origin in zip(batches, out, index, strict=True):
        valid = rows[:, score_index] > valid_thresh
        if id_index >= 0:
            valid &= rows[:, id_index] != background_id
        order = xp.argsort(-rows[:, score_index], kind="stable")
        order = order[valid[order]]
        if topk > 0:
            order = order[:topk]
        boxes = as_corners(xp, rows[order][:, place], in_format)
        classes = None if force_suppress or id_index < 0 else rows[order, id_index]
        kept = order[suppress(xp, boxes, overlap_thresh, classes)] if len(order) else order
        result[:len(kept)] = rows[kept]
        if in_format != out_format:
            change = as_corners if out_format == "corner" else as_centers
            result[:len(kept), place] = change(xp, rows[kept][:, place], in_format)
        origin[:len(kept), 0] = kept
    return out.reshape(data.shape), index.reshape(*data.shape[:-1], 1)


@operator("_box_nms_grad", infer=like_shape(0), infer_dtype=follow_dtype())
def box_nms_grad(xp: Any, dy: Array, index: Array) -> Array:
    """The gradient of box_nms: each row's goes back to where the row came from."""
    batch, count = size_of(dy.shape[:-2]), dy.shape[-2]
    grad = xp.zeros((batch * count, dy.shape[-1]), dy.dtype)
    origin = index.reshape(batch, count)
    flat = (origin + xp.arange(batch)[:, None] * count).reshape(-1)
    rows = origin.reshape(-1) >= 0
    grad[flat[rows]] = dy.reshape(grad.shape)[rows]
    return grad.reshape(dy.shape)
