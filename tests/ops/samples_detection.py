"""Samples of the detection operators; MXNet's own figures are in oracle/tail_cases.json."""
from __future__ import annotations

import numpy as np
from sample import Input, Sample, adder, between

from minigluon.base import ArgumentValueError, NotForThisError, ShapeError

SAMPLES: dict[str, list[Sample]] = {}
_r, _add = between, adder(SAMPLES, grad=False)


_BOXES = np.array([[0, 0, 2, 2], [1, 1, 3, 3], [4, 4, 5, 6]], "float32")


def _iou(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    out = np.zeros((len(a), len(b)), a.dtype)
    for i, j in np.ndindex(out.shape):
        low, high = np.maximum(a[i, :2], b[j, :2]), np.minimum(a[i, 2:], b[j, 2:])
        shared = np.maximum(high - low, 0).prod()
        out[i, j] = shared / ((a[i, 2:] - a[i, :2]).prod() + (b[j, 2:] - b[j, :2]).prod() - shared)
    return out


_add("_contrib_box_iou", [_BOXES, _BOXES[1:]], reference=_iou,
     bad=[([_r(2, 3), _r(2, 4)], {}, ShapeError, "expected lhs with 4 numbers")])
_add("_contrib_box_iou", [_BOXES, _BOXES[None]], {"format": "center"})
_NMS = np.array([[0, 0.5, 0, 0, 2, 2], [0, 0.9, 0, 0, 2, 2], [1, 0.3, 5, 5, 6, 6]], "float32")
# its gradient goes with the rows, whose order does not change by small steps
_add("_contrib_box_nms", [_NMS], grad=True,
     reference=lambda x: np.stack([x[1], x[2], np.full(6, -1)]),
     bad=[([_r(3)], {}, ShapeError, "rows of boxes"),
          ([_r(2, 5)], {}, ArgumentValueError, "coord_start: expected a place within the 5"),
          ([_r(2, 6)], {"in_format": "middle"}, ArgumentValueError, "in_format: expected one of")])
_add("_contrib_box_nms", [np.stack([_NMS, _NMS + 0.01])],
     {"id_index": 0, "background_id": 0, "topk": 2, "out_format": "center"})
# class -1 is the background unless another is named, as in MXNet 1.9.1
_add("_contrib_box_nms", [_NMS * np.array([-1, 1, 1, 1, 1, 1], "float32")], {"id_index": 0},
     reference=lambda x: np.stack([x[1], np.full(6, -1), np.full(6, -1)]))
_add("_box_nms_grad", [_r(3, 6), np.array([[1], [2], [-1]], "int32")],
     reference=lambda dy, i: np.stack([np.zeros(6), dy[0], dy[1]]))
_add("_contrib_bipartite_matching", [np.array([[0.5, 0.6], [0.1, 0.2], [0.3, 0.4]], "float32")],
     {"threshold": 1e-12}, reference=lambda x: [np.array([1, -1, 0]), np.array([2, 0])],
     bad=[([_r(3)], {"threshold": 0}, ShapeError, "scores (rows, columns)")])
_add("_contrib_bipartite_matching", [_r(2, 3, 4)], {"threshold": 0.5, "is_ascend": True,
                                                    "topk": 1})
_FIVE = [np.ones((1, 3), "float32"), np.zeros((1, 3), "float32"), _BOXES[None], _BOXES[None]]
_STATS = [np.zeros(4, "float32"), np.ones(4, "float32")]
_add("_contrib_box_encode", [*_FIVE, *_STATS],
     bad=[([np.ones((1, 2), "float32"), *_FIVE[1:], *_STATS], {}, ShapeError,
           "shapes of samples and matches")])
_add("_contrib_box_decode", [_r(2, 3, 4), _BOXES[None]], {"format": "corner", "clip": 0.5},
     bad=[([_r(2, 3, 4), _r(1, 2, 4)], {}, ShapeError, "shapes of anchors"),
          ([_r(3, 4), _r(1, 3, 4)], {}, ShapeError, "data (batch, boxes, 4)")])
_add("_contrib_MultiBoxPrior", [_r(1, 3, 1, 2)], {"sizes": (0.5,)},
     reference=lambda x: np.array([[[0.125, 0.25, 0.375, 0.75], [0.625, 0.25, 0.875, 0.75]]]),
     bad=[([_r(1, 3)], {}, ShapeError, "data (N, C, H, W)"),
          ([_r(1, 3, 1, 1)], {"sizes": ()}, ArgumentValueError, "sizes: expected some numbers"),
          ([_r(1, 3, 1, 1)], {"steps": (1, 2, 3)}, ArgumentValueError, "steps: expected 2")])
_add("_contrib_MultiBoxPrior", [_r(1, 3, 2, 2)], {"ratios": (1, 2), "clip": True})
_LABEL = np.array([[[1, 0, 0, 2, 2.1], [-1, -1, -1, -1, -1]]], "float32")
_add("_contrib_MultiBoxTarget", [_BOXES[None], _LABEL, _r(1, 3, 3)],
     {"negative_mining_ratio": 1.0},
     bad=[([_BOXES[None], _r(1, 1, 4), _r(1, 3, 3)], {}, ShapeError, "label (B, M, 5 or more)"),
          ([_BOXES[None], _LABEL, _r(1, 3, 2)], {}, ShapeError, "shapes of cls_pred"),
          ([_BOXES[None], _LABEL, _r(1, 3, 3)], {"variances": (1,)}, ArgumentValueError,
           "variances: expected 4 numbers")])
_add("_contrib_MultiBoxDetection", [_r(2, 3, 3, low=0), _r(2, 12), _BOXES[None] / 6],
     bad=[([_r(2, 3, 3), _r(2, 11), _BOXES[None]], {}, ShapeError, "shapes of loc_pred"),
          ([_r(2, 3, 3), _r(2, 12), _BOXES[None]], {"background_id": 1}, ArgumentValueError,
           "background_id: expected 0")])
_MAPS: list[Input] = [_r(1, 12, 3, 4, low=0), _r(1, 24, 3, 4, low=-0.3, high=0.3),
                      np.array([[50, 60, 1]], "float32")]
_RPN = {"scales": (2, 4), "rpn_post_nms_top_n": 8}
_add("_contrib_Proposal", _MAPS, _RPN,
     bad=[([_r(1, 11, 3, 4), *_MAPS[1:]], _RPN, ShapeError, "cls_prob (B, 12"),
          ([_r(2, 12, 3, 4), _r(2, 24, 3, 4), _r(2, 3)], _RPN, ShapeError, "use MultiProposal"),
          (_MAPS, {**_RPN, "iou_loss": True}, NotForThisError, "iou_loss=True is not built")])
_add("_contrib_Proposal", _MAPS, {**_RPN, "output_score": True})
_add("_contrib_MultiProposal",
     [_r(2, 12, 3, 4, low=0), _r(2, 24, 3, 4, low=-0.3, high=0.3),
      np.array([[50, 60, 1]] * 2, "float32")], _RPN,
     bad=[([*_MAPS[:2], _r(2, 3)], _RPN, ShapeError, "shapes of im_info")])
