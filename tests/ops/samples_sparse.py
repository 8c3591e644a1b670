"""Samples of operators made for sparse arrays, on dense ones; more: `ndarray/test_sparse.py`."""
from __future__ import annotations

import numpy as np
from sample import Sample, adder, between

from minigluon.base import ArgumentValueError, ShapeError

__all__ = ["SAMPLES"]

SAMPLES: dict[str, list[Sample]] = {}
_r, _add = between, adder(SAMPLES)


_add("cast_storage", [_r(3, 2)], {"stype": "default"}, reference=lambda x: x, second_order=True)
_add("_sparse_retain", [_r(4, 2), np.array([2, 0])], wrt=(0,), second_order=True,
     reference=lambda x, i: x * np.array([[1], [0], [1], [0]], x.dtype))
_add("_square_sum", [_r(3, 4)], {"axis": 1}, second_order=True,
     reference=lambda x: (x * x).sum(1))
_add("_square_sum", [_r(3, 4, 2)], {"axis": 0, "keepdims": True},
     reference=lambda x: (x * x).sum(0, keepdims=True))
_add("_square_sum", [_r(3, 4)], reference=lambda x: (x * x).sum().reshape(1))

_HOW = {"lr": 0.1, "rescale_grad": 0.5, "clip_gradient": 0.2, "epsilon": 1e-3}
_add("_sparse_adagrad_update", [_r(3, 2), _r(3, 2), _r(3, 2, low=0.5)], _HOW, grad=False,
     reference=lambda w, g, h: w - 0.1 * np.clip(g / 2, -0.2, 0.2) / np.sqrt(
         h + np.clip(g / 2, -0.2, 0.2) ** 2 + 1e-3),
     bad=[([_r(3, 2), _r(3, 1), _r(3, 2)], {"lr": 1.0}, ShapeError, "_sparse_adagrad_update"),
          ([_r(3, 2), _r(3, 2), _r(3, 2)], {"lr": 1.0, "wd": 0.5}, ArgumentValueError,
           "weight decay")])
_add("_contrib_group_adagrad_update", [_r(3, 2), _r(3, 2), _r(3, 1, low=0.5)], _HOW, grad=False,
     reference=lambda w, g, h: w - 0.1 * np.clip(g / 2, -0.2, 0.2) / np.sqrt(
         h + (np.clip(g / 2, -0.2, 0.2) ** 2).mean(1, keepdims=True) + 1e-3),
     bad=[([_r(3, 2), _r(3, 2), _r(3, 2)], {"lr": 1.0}, ShapeError, "history")])

_add("_contrib_SparseEmbedding", [np.array([[2, 0], [2, 4]]), _r(5, 3)],
     {"input_dim": 5, "output_dim": 3}, wrt=(1,), second_order=True,
     reference=lambda i, w: w[i],
     bad=[([np.array([1]), _r(4, 3)], {"input_dim": 5, "output_dim": 3}, ShapeError, "weight")])
