"""Samples of windows as columns, shifts, densities, replaced parts; MXNet's figures: tail_cases."""
from __future__ import annotations

from typing import Any

import numpy as np
from sample import Input, Sample, adder, between, floats

from minigluon.base import ArgumentValueError, ShapeError

SAMPLES: dict[str, list[Sample]] = {}
_r, _f, _add = between, floats, adder(SAMPLES)


# -- windows ---------------------------------------------------------------------------------------

_WINDOWS = {"kernel": (2, 3), "stride": (1, 2), "pad": (1, 0)}
_add("im2col", [_r(2, 3, 4, 5)], _WINDOWS, second_order=True,
     bad=[([_r(2, 3, 4, 2)], {"kernel": (2, 3)}, ShapeError, "larger than the spatial sizes"),
          ([_r(2, 3, 4)], _WINDOWS, ShapeError, "expected 2 spatial axes"),
          ([_r(2, 3, 4, 5)], {"kernel": ()}, ArgumentValueError, "1, 2 or 3 positive sizes")])
_add("im2col", [_r(1, 1, 4)], {"kernel": (2,)},
     reference=lambda x: np.stack([x[0, 0, :3], x[0, 0, 1:]])[None])
_add("col2im", [_r(2, 12, 6)], {"kernel": (2, 2), "output_size": (3, 4)}, second_order=True,
     bad=[([_r(2, 13, 6)], {"kernel": (2, 2), "output_size": (3, 4)}, ShapeError, "C * 4"),
          ([_r(2, 12, 5)], {"kernel": (2, 2), "output_size": (3, 4)}, ShapeError, ", 6)")])
_add("col2im", [_r(1, 2, 3)], {"kernel": (2,), "output_size": (4,)},
     reference=lambda x: np.array([[[x[0, 0, 0], x[0, 0, 1] + x[0, 1, 0],
                                     x[0, 0, 2] + x[0, 1, 1], x[0, 1, 2]]]]))
_add("_im2col_grad", [_r(1, 2, 3), _r(1, 1, 4)], {"kernel": (2,)}, wrt=(0,))

_SHIFT = {"max_displacement": 1, "pad_size": 1}
_add("Correlation", [_r(2, 3, 4, 5), _r(2, 3, 4, 5)], _SHIFT,
     bad=[([_r(1, 1, 4, 4), _r(1, 1, 4, 4)], {"max_displacement": 2}, ShapeError, "pad_size=2"),
          ([_r(1, 1, 4, 4), _r(1, 1, 4, 5)], _SHIFT, ShapeError, "shapes of data1 and data2"),
          ([_r(1, 1, 4, 4), _r(1, 1, 4, 4)], {"kernel_size": 2}, ArgumentValueError, "odd")])
_add("Correlation", [_r(1, 2, 6, 6), _r(1, 2, 6, 6)],
     {"kernel_size": 3, "max_displacement": 2, "stride1": 2, "stride2": 2, "pad_size": 3,
      "is_multiply": False})
_add("_correlation_grad", [_r(2, 9, 4, 5), _r(2, 3, 4, 5), _r(2, 3, 4, 5)], _SHIFT, grad=False)

# -- densities -------------------------------------------------------------------------------------

_COUNTS = np.array([[0, 1, 4], [2, 3, 7]], "float32")
_DENSITIES: dict[str, tuple[Input, list[Input], tuple[int, ...]]] = {
    "uniform": (_r(2, 3, low=0.1, high=0.9), [_f(0, -1), _f(1, 2)], (0, 1, 2)),
    "normal": (_r(2, 3), [_f(0.5, -1), _f(1.5, 0.7)], (0, 1, 2)),
    "gamma": (_r(2, 3, low=0.5, high=3), [_f(2, 0.6), _f(1.5, 0.4)], (0, 1, 2)),
    "exponential": (_r(2, 3, low=0.5, high=3), [_f(0.5, 2)], (0, 1)),
    "poisson": (_COUNTS, [_f(0.5, 2)], (1,)),
    "negative_binomial": (_COUNTS, [_f(2, 5), _f(0.3, 0.6)], (1, 2)),
    "generalized_negative_binomial": (_COUNTS, [_f(2, 0.5), _f(0.3, 1.2)], (1, 2)),
    "dirichlet": (_r(2, 3, 2, low=0.2, high=0.8), [_r(2, 2, low=0.5, high=2)], (0, 1)),
}
for _name, (_sample, _parameters, _wrt) in _DENSITIES.items():
    _add(f"_random_pdf_{_name}", [_sample, *_parameters], wrt=_wrt,
         bad=[([_r(3, 3), *_parameters], {}, ShapeError, "begins as the parameters'")])
    _add(f"_random_pdf_{_name}", [_sample, *_parameters], {"is_log": True}, wrt=_wrt)
    _add(f"_pdf_{_name}_grad", [_r(2, 3), _sample, *_parameters], grad=False)
for _name in ("negative_binomial", "generalized_negative_binomial"):
    _add(f"_random_{_name}_like", [_r(2, 3)], grad=False, random=True)
_add("_sample_unique_zipfian", [], {"range_max": 9, "shape": (2, 5)}, grad=False, random=True,
     bad=[([], {"range_max": 4, "shape": (2, 5)}, ArgumentValueError, "range_max 4")])

# -- rotated regions -------------------------------------------------------------------------------

_TURNED = _f([0, 2.5, 2.5, 4, 3, 30], [1, 3, 2, 3, 2, -45])
_BINS = {"pooled_size": (2, 3), "spatial_scale": 0.8}
_add("_contrib_RROIAlign", [_r(2, 3, 5, 6), _TURNED], _BINS, wrt=(0,), second_order=True,
     bad=[([_r(2, 3, 5), _TURNED], _BINS, ShapeError, "(N, C, H, W)"),
          ([_r(2, 3, 5, 6), _r(2, 5)], _BINS, ShapeError, "(R, 6)")])
_add("_rotated_align_grad", [_r(2, 3, 2, 3), _r(2, 3, 5, 6), _TURNED], _BINS, wrt=(0,))

# -- events ----------------------------------------------------------------------------------------

_EVENTS = [_r(2, 3, low=0.5, high=2), _r(3, low=0.2, high=0.5), _r(3, low=1, high=3),
           _r(2, 3, low=0, high=0.5), _r(2, 4, low=0.5, high=1),
           np.array([[0, 1, 2, 1], [0, 0, 0, 2]], "int32"), _f(3, 4), _f(4, 5)]
_add("_contrib_hawkesll", _EVENTS, grad=False, tolerance=1e-4,
     bad=[([_r(2, 3), *_EVENTS[1:3], _r(2, 2), *_EVENTS[4:]], {}, ShapeError,
           "shapes of lda and state")])
_add("_hawkes_grad", [_r(2), *_EVENTS], grad=False)

# -- what matrices hold ---------------------------------------------------------------------------

_SPARSE = _f([0, 1, 2], [0, 0, 3], [4, 0, 0])
_add("_contrib_getnnz", [_SPARSE], grad=False, reference=lambda x: np.array([4]),
     bad=[([_r(2)], {"axis": 1}, ShapeError, "expected a matrix")])
_add("_contrib_getnnz", [_SPARSE], {"axis": 1}, grad=False, reference=lambda x: (x != 0).sum(1))
_add("_contrib_edge_id", [_SPARSE, np.array([0, 0, 1]), np.array([1, 0, 2])], grad=False,
     reference=lambda x, u, v: np.array([1, -1, 3], "float32"),
     bad=[([_SPARSE, np.array([0, 0]), np.array([1])], {}, ShapeError, "shapes of u and v")])

# -- replaced parts --------------------------------------------------------------------------------

_BOX = {"begin": (0, 1), "end": (2, None), "step": (1, 2)}


def _boxed(x: np.ndarray, value: Any) -> np.ndarray:
    out = x.copy()
    out[0:2, 1::2] = value
    return out


_add("_slice_assign", [_r(3, 4), _r(2, 2)], _BOX, second_order=True, reference=_boxed,
     bad=[([_r(3, 4), _r(2, 3)], _BOX, ShapeError, "shapes of rhs and of the box")])
_add("_slice_assign_scalar", [_r(3, 4)], {**_BOX, "scalar": 2.5}, second_order=True,
     reference=lambda x: _boxed(x, 2.5))


def _pointed(x: np.ndarray, values: np.ndarray, points: np.ndarray) -> np.ndarray:
    out = x.copy()
    out[tuple(points.astype(int))] = values
    return out


_POINTS = np.array([[0, 2], [1, 1]], "int32")
_add("_scatter_set_nd", [_r(3, 2), _r(2), _POINTS], {"shape": (3, 2)}, wrt=(0, 1),
     reference=_pointed,
     bad=[([_r(3, 2), _r(2), _POINTS], {"shape": (3, 3)}, ShapeError, "that of lhs")])
_add("_identity_with_attr_like_rhs", [_r(2, 3), _r(2, 3)], reference=lambda x, y: x)
_add("_zeros_without_dtype", [], {"shape": (2, 3)}, grad=False, reference=lambda: np.zeros((2, 3)))
for _name in ("_CrossDeviceCopy", "_copyto"):
    _add(_name, [_r(2, 3)], second_order=True, reference=lambda x: x)
_add("_histogram", [_r(3, 4)], {"bin_cnt": 4, "range": (-1, 1)}, grad=False,
     reference=lambda x: list(np.histogram(x, 4, (-1, 1))),
     bad=[([_r(3)], {"bin_cnt": 4}, ArgumentValueError, "range (low, high)")])
_add("_histogram", [_r(3, 4), _f(-1, -0.3, 1)], grad=False,
     reference=lambda x, edges: list(np.histogram(x, edges)))
_add("_scatter_elemwise_div", [_r(2, 3), _r(2, 3, low=0.5)], reference=lambda x, y: x / y)
_add("_scatter_plus_scalar", [_r(2, 3)], {"scalar": 2.0}, reference=lambda x: x + 2)
_add("_scatter_minus_scalar", [_r(2, 3)], {"scalar": 2.0}, reference=lambda x: x - 2)
