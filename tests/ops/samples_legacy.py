"""Samples of the operators of the oldest networks."""
from __future__ import annotations

import numpy as np
from sample import Sample, adder, between

from minigluon.base import ArgumentValueError, ShapeError

SAMPLES: dict[str, list[Sample]] = {}
_r, _add = between, adder(SAMPLES)


_LABEL = np.array([0.0, 2.0, 1.0])
# MXNet 1.9.1's gradients for these scores and labels
_SCORES = np.array([[0.5, -1.0, 2.0], [0.2, 0.3, 0.25]])
_NUMBERS = np.array([0.0, 1.0])
_PAST = {"margin": 2.0, "regularization_coefficient": 0.5}

_add("SVMOutput", [_r(3, 4), _LABEL], grad=False, reference=lambda x, y: x,
     bad=[([_r(3, 4), _r(4)], {}, ShapeError, "SVMOutput: expected equal shapes of label")])
_add("SVMOutput", [_r(3, 4, 2), _LABEL], {"use_linear": True}, grad=False)
for _attrs, _expected in (
    ({}, [[-1, 0, 6], [2.4, -1.4, 2.5]]),
    ({"use_linear": True}, [[-1, 0, 1], [1, -1, 1]]),
    (_PAST, [[-1.5, 1, 4], [2.2, -1.7, 2.25]]),
    ({**_PAST, "use_linear": True}, [[-0.5, 0.5, 0.5], [0.5, -0.5, 0.5]]),
):
    _add("_svm_grad", [_SCORES, _NUMBERS], _attrs, grad=False,
         reference=lambda x, y, expected=_expected: np.array(expected, x.dtype))

_add("IdentityAttachKLSparseReg", [_r(4, 3, low=0.1, high=0.9), _r(3, low=0.1, high=0.9)],
     grad=False, reference=lambda x, m: x,
     bad=[([_r(4, 3), _r(4)], {}, ShapeError,
           "IdentityAttachKLSparseReg: expected equal shapes of moving_avg")])
_add("IdentityAttachKLSparseReg", [_r(4, 3, 2, low=0.1, high=0.9), _r(3, low=0.1, high=0.9)],
     {"penalty": 0.1}, grad=False)
_add("_kl_sparse_grad", [np.ones((2, 3)), np.array([[0.2, 0.5, 0.9], [0.3, 0.1, 0.6]]),
                         np.zeros(3)], grad=False,
     reference=lambda dy, x, m: np.array([[0.9969231, 0.9975945, 0.99963963]] * 2, x.dtype))

_IMAGE = _r(2, 3, 5, 6)
_add("Crop", [_IMAGE], {"h_w": (2, 3)}, second_order=True, reference=lambda x: x[:, :, :2, :3],
     bad=[
         ([_IMAGE], {"h_w": (6, 2)}, ShapeError, "Crop: expected a window within (5, 6)"),
         ([_IMAGE], {"h_w": (4, 2), "offset": (3, 3)}, ShapeError,
          "Crop: expected an offset of at most (1, 4), got (3, 3)"),
         ([_IMAGE], {"h_w": (4,)}, ArgumentValueError, "Crop: h_w and offset: expected two"),
         ([_r(5, 6)], {"h_w": (1, 1)}, ShapeError, "Crop: expected arrays of rank 4"),
     ])
_add("Crop", [_IMAGE], {"h_w": (2, 2), "offset": (1, 2)}, reference=lambda x: x[:, :, 1:3, 2:4])
_add("Crop", [_IMAGE], {"h_w": (2, 3), "center_crop": True}, second_order=True,
     reference=lambda x: x[:, :, 1:3, 1:4])
_add("Crop", [_IMAGE, _r(1, 1, 3, 2)], {"num_args": 2}, reference=lambda x, y: x[:, :, :3, :2])
_add("_crop_grad", [_r(2, 3, 2, 2), _IMAGE], {"h_w": (2, 2), "offset": (1, 2)}, second_order=True,
     reference=lambda dy, x: np.pad(dy, ((0, 0), (0, 0), (1, 2), (2, 2))))
