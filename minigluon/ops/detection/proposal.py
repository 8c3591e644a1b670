"""Faster R-CNN: regions that a region proposal network thinks to hold an object."""
from __future__ import annotations

from typing import Any

from ...base import NotForThisError, ShapeError
from ..operator import Attrs, operator
from ..rules import Shapes, merge_shapes, no_gradient
from .box import suppress

__all__: list[str] = []

Array = Any
_SCALES, _RATIOS = (4.0, 8.0, 16.0, 32.0), (0.5, 1.0, 2.0)


def _proposal_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    scores, deltas, info = shapes
    count = len(attrs["scales"]) * len(attrs["ratios"])
    if scores is None:
        return shapes, [None] * (2 if attrs["output_score"] else 1)
    if len(scores) != 4 or scores[1] not in (0, 2 * count):
        raise ShapeError(f"expected cls_prob (B, {2 * count} = 2 scales ratios, H, W), got "
                         f"{scores}")
    deltas = merge_shapes(deltas, (scores[0], 4 * count, *scores[2:]), "shapes of bbox_pred")
    info = merge_shapes(info, (scores[0], 3), "shapes of im_info")
    rows = scores[0] * attrs["rpn_post_nms_top_n"]
    outs = [(rows, 5), (rows, 1)] if attrs["output_score"] else [(rows, 5)]
    return [scores, deltas, info], list(outs)


def _anchors(xp: Any, attrs: Attrs) -> Array:
    """Boxes of all ratios and scales around the first pixel, in whole numbers as in the paper's
    code: (ratios scales, 4)."""
    base = float(attrs["feature_stride"])
    middle = (base - 1) / 2
    made = []
    for ratio in attrs["ratios"]:
        width = xp.floor(xp.sqrt(xp.asarray(xp.floor(base * base / ratio))) + 0.5)
        height = xp.floor(width * ratio + 0.5)
        for scale in attrs["scales"]:
            half = [(float(size) * scale - 1) / 2 for size in (width, height)]
            made.append([middle - half[0], middle - half[1], middle + half[0], middle + half[1]])
    return xp.asarray(made)


def _shifted(xp: Any, attrs: Attrs, height: int, width: int) -> Array:
    """Anchors around all pixels: (H W anchors, 4)."""
    stride = attrs["feature_stride"]
    rows, columns = xp.meshgrid(xp.arange(height) * stride, xp.arange(width) * stride,
                                indexing="ij")
    moves = xp.stack([columns, rows, columns, rows], axis=-1)[:, :, None, :]
    return (moves + _anchors(xp, attrs)).reshape(-1, 4)


def _moved(xp: Any, boxes: Array, deltas: Array, height: float, width: float) -> Array:
    """Boxes changed as the network says, cut to the image."""
    size = boxes[:, 2:] - boxes[:, :2] + 1
    center = boxes[:, :2] + 0.5 * (size - 1) + deltas[:, :2] * size
    half = 0.5 * (xp.exp(deltas[:, 2:]) * size - 1)
    limit = xp.asarray([width - 1, height - 1])
    return xp.concatenate([xp.clip(center - half, 0, limit), xp.clip(center + half, 0, limit)],
                          axis=1)


def _proposed(xp: Any, scores: Array, deltas: Array, info: Array, attrs: Attrs
              ) -> tuple[Array, Array]:
    """The regions of one image and their scores."""
    count = deltas.shape[0] // 4
    height, width = deltas.shape[1:]
    score = scores[count:].transpose(1, 2, 0).reshape(-1).astype("float64")
    change = deltas.reshape(count, 4, height, width).transpose(2, 3, 0, 1).reshape(-1, 4)
    image_height, image_width, scale = (float(value) for value in info)
    boxes = _moved(xp, _shifted(xp, attrs, height, width), change.astype("float64"),
                   image_height, image_width)
    smallest = attrs["rpn_min_size"] * scale
    size = boxes[:, 2:] - boxes[:, :2] + 1
    small = (size < smallest).any(axis=1)
    boxes[small] += xp.asarray([-smallest / 2, -smallest / 2, smallest / 2, smallest / 2])
    score[small] = -1
    outside = ((xp.arange(height) >= int(image_height / attrs["feature_stride"]))[:, None]
               | (xp.arange(width) >= int(image_width / attrs["feature_stride"]))[None, :])
    score[xp.repeat(outside.reshape(-1), count)] = -1
    order = xp.argsort(-score, kind="stable")
    if attrs["rpn_pre_nms_top_n"] > 0:
        order = order[:attrs["rpn_pre_nms_top_n"]]
    wanted = attrs["rpn_post_nms_top_n"]
    kept = order[suppress(xp, boxes[order], attrs["threshold"], extra=1.0, most=wanted)]
    filled = kept[xp.arange(wanted) % len(kept)]
    return boxes[filled], score[filled]


def _propose(xp: Any, cls_prob: Array, bbox_pred: Array, im_info: Array, attrs: Attrs) -> Any:
    _proposal_shape([cls_prob.shape, bbox_pred.shape, im_info.shape], attrs)
    if attrs["iou_loss"]:
        raise NotForThisError("iou_loss=True is not built")
    rows, scores = [], []
    for place, (score, deltas, info) in enumerate(zip(cls_prob, bbox_pred, im_info, strict=True)):
        boxes, values = _proposed(xp, score, deltas, info, attrs)
        rows.append(xp.concatenate([xp.full((len(boxes), 1), float(place)), boxes], axis=1))
        scores.append(values[:, None])
    found = xp.concatenate(rows).astype(cls_prob.dtype)
    if not attrs["output_score"]:
        return found
    return found, xp.concatenate(scores).astype(cls_prob.dtype)


def _outputs(attrs: Attrs) -> int:
    return 2 if attrs["output_score"] else 1


def _dtypes(dtypes: list[Any], attrs: Attrs) -> tuple[list[Any], list[Any]]:
    return dtypes, [dtypes[0]] * _outputs(attrs)


@operator("_contrib_Proposal", infer=_proposal_shape, infer_dtype=_dtypes, gradient=no_gradient,
          num_outputs=_outputs, output_names=("output", "score"))
def proposal(
    xp: Any, cls_prob: Array, bbox_pred: Array, im_info: Array, *, rpn_pre_nms_top_n: int = 6000,
    rpn_post_nms_top_n: int = 300, threshold: float = 0.7, rpn_min_size: int = 16,
    scales: tuple = _SCALES, ratios: tuple = _RATIOS,  # type: ignore[type-arg]
    feature_stride: int = 16, output_score: bool = False, iou_loss: bool = False,
) -> Any:
    """Regions of one image that may hold an object, best first.

    Args:
        cls_prob: probabilities of background, then of an object, for each anchor and pixel.
        bbox_pred: how each anchor is to be changed. im_info: height, width and scale.
        rpn_pre_nms_top_n: so many of the best are looked at. rpn_post_nms_top_n: so many are
            returned, from the first again where there are too few.
        threshold: of regions that overlap more the better one stays.
        rpn_min_size: smaller regions (times the scale) go last.
        scales, ratios: of the anchors. feature_stride: pixels of the image in one of the map.
        output_score: also return the scores. iou_loss: not built.

    Shapes: cls_prob (1, 2 A, H, W), bbox_pred (1, 4 A, H, W), im_info (1, 3) ->
        (rpn_post_nms_top_n, 5): image, xmin, ymin, xmax, ymax.

    >>> import minigluon as mx
    >>> mx.nd.contrib.Proposal(mx.nd.ones((1, 24, 2, 2)), mx.nd.zeros((1, 48, 2, 2)),
    ...                        mx.nd.array([[32, 32, 1]]), rpn_post_nms_top_n=7).shape
    (7, 5)
    """
    if len(cls_prob) != 1:
        raise ShapeError(f"expected one image, got {len(cls_prob)}; use MultiProposal")
    return _propose(xp, cls_prob, bbox_pred, im_info, {
        "rpn_pre_nms_top_n": rpn_pre_nms_top_n, "rpn_post_nms_top_n": rpn_post_nms_top_n,
        "threshold": threshold, "rpn_min_size": rpn_min_size, "scales": scales,
        "ratios": ratios, "feature_stride": feature_stride, "output_score": output_score,
        "iou_loss": iou_loss})


@operator("_contrib_MultiProposal", infer=_proposal_shape, infer_dtype=_dtypes,
          gradient=no_gradient, num_outputs=_outputs, output_names=("output", "score"))
def multi_proposal(
    xp: Any, cls_prob: Array, bbox_pred: Array, im_info: Array, *, rpn_pre_nms_top_n: int = 6000,
    rpn_post_nms_top_n: int = 300, threshold: float = 0.7, rpn_min_size: int = 16,
    scales: tuple = _SCALES, ratios: tuple = _RATIOS,  # type: ignore[type-arg]
    feature_stride: int = 16, output_score: bool = False, iou_loss: bool = False,
) -> Any:
    """Proposal for several images at once; their regions one after the other.

    Args:
        cls_prob, bbox_pred, im_info: as in Proposal. rpn_pre_nms_top_n, rpn_post_nms_top_n,
            threshold, rpn_min_size, scales, ratios, feature_stride, output_score, iou_loss: too.

    Shapes: cls_prob (B, 2 A, H, W), bbox_pred (B, 4 A, H, W), im_info (B, 3) ->
        (B rpn_post_nms_top_n, 5).

    >>> import minigluon as mx
    >>> mx.nd.contrib.MultiProposal(mx.nd.ones((2, 24, 2, 2)), mx.nd.zeros((2, 48, 2, 2)),
    ...                             mx.nd.array([[32, 32, 1]] * 2), rpn_post_nms_top_n=7).shape
    (14, 5)
    """
    return _propose(xp, cls_prob, bbox_pred, im_info, {
        "rpn_pre_nms_top_n": rpn_pre_nms_top_n, "rpn_post_nms_top_n": rpn_post_nms_top_n,
        "threshold": threshold, "rpn_min_size": rpn_min_size, "scales": scales,
        "ratios": ratios, "feature_stride": feature_stride, "output_score": output_score,
        "iou_loss": iou_loss})
