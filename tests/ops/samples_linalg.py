"""Samples of linear algebra: triangles, decompositions, determinants."""
from __future__ import annotations

import numpy as np
from sample import Sample, adder, between

from minigluon.base import MXNetError, ShapeError

SAMPLES: dict[str, list[Sample]] = {}
_r, _add = between, adder(SAMPLES)


def _steep(*shape: int, seed: int = 0) -> np.ndarray:
    """Square matrices that are far from singular."""
    drawn = np.random.default_rng(seed).uniform(-0.5, 0.5, shape)
    return (drawn + 1.5 * np.eye(shape[-1])).astype("float32")


def _definite(*shape: int, seed: int = 0) -> np.ndarray:
    drawn = np.random.default_rng(seed).uniform(-1, 1, shape)
    return (drawn @ drawn.swapaxes(-1, -2) + np.eye(shape[-1])).astype("float32")


def _turned(array: np.ndarray) -> np.ndarray:
    return array.swapaxes(-1, -2)


# -- products ------------------------------------------------------------------------------------

_add("_linalg_gemm2", [_r(2, 5, 3), _r(3, 5, 4)], {"axis": 0, "alpha": 0.5}, second_order=True,
     reference=lambda a, b: 0.5 * np.einsum("nbk,kbm->nbm", a, b))
_add("_linalg_gemm", [_r(2, 3, 4), _r(2, 4, 5), _r(2, 3, 5)], {"alpha": 2.0, "beta": -1.0},
     second_order=True, reference=lambda a, b, c: 2 * a @ b - c,
     bad=[([_r(2, 3), _r(3, 4), _r(2, 3)], {}, ShapeError, "expected equal shapes of A B and C"),
          ([_r(2, 3), _r(4, 4), _r(2, 4)], {}, ShapeError, "inner sizes agree"),
          ([_r(2, 3), _r(3, 4), _r(2, 4)], {"axis": 1}, ShapeError, "rows on axis 1")])
_add("_linalg_gemm", [_r(3, 2), _r(4, 3), _r(2, 4)], {"transpose_a": True, "transpose_b": True},
     reference=lambda a, b, c: a.T @ b.T + c)
_add("_linalg_gemm", [_r(2, 5, 3), _r(3, 5, 4), _r(2, 5, 4)], {"axis": 0},
     reference=lambda a, b, c: np.einsum("nbk,kbm->nbm", a, b) + c)
_add("_linalg_syrk", [_r(2, 3, 4)], {"alpha": 0.5}, second_order=True,
     reference=lambda a: 0.5 * a @ _turned(a),
     bad=[([_r(3)], {}, ShapeError, "expected matrices")])
_add("_linalg_syrk", [_r(3, 4)], {"transpose": True}, reference=lambda a: a.T @ a)

# -- triangles -----------------------------------------------------------------------------------


def _op(a: np.ndarray, transpose: bool, lower: bool) -> np.ndarray:
    part = np.tril(a) if lower else np.triu(a)
    return _turned(part) if transpose else part


for _flags in range(8):
    _transpose, _right, _lower = bool(_flags & 1), bool(_flags & 2), bool(_flags & 4)
    _attrs = {"transpose": _transpose, "rightside": _right, "lower": _lower, "alpha": 1.5}
    _other = _r(2, 4, 3) if _right else _r(2, 3, 4)
    _add("_linalg_trmm", [_steep(2, 3, 3), _other], _attrs, second_order=_flags in (0, 7),
         reference=lambda a, b, t=_transpose, r=_right, low=_lower: 1.5 * (
             b @ _op(a, t, low) if r else _op(a, t, low) @ b))
    _add("_linalg_trsm", [_steep(2, 3, 3), _other], _attrs, second_order=_flags in (0, 7),
         reference=lambda a, b, t=_transpose, r=_right, low=_lower: 1.5 * (
             b @ np.linalg.inv(_op(a, t, low)) if r else np.linalg.inv(_op(a, t, low)) @ b),
         tolerance=1e-4,
         bad=[([_r(2, 3), _r(2, 4)], {}, ShapeError, "square matrices"),
              ([_r(2, 2), _r(3, 2)], {}, ShapeError, "where they meet"),
              ([_r(2, 2), _r(1, 2, 2)], {}, ShapeError, "as many axes"),
              ([np.zeros((2, 2), "float32"), _r(2, 2)], {}, MXNetError, "zero on its diagonal"),
              ] if not _flags else ())
_add("_linalg_potri", [_steep(2, 3, 3)], second_order=True, tolerance=1e-4,
     reference=lambda a: np.linalg.inv(np.tril(a) @ _turned(np.tril(a))))
# the gradients of symmetric matrices are checked by test_linalg.py, along symmetric directions
_add("_linalg_potrf", [_definite(2, 3, 3)], grad=False, reference=np.linalg.cholesky,
     tolerance=1e-5,
     bad=[([-np.eye(2, dtype="float32")], {}, MXNetError, "not positive definite"),
          ([_r(2, 3)], {}, ShapeError, "square matrices")])
_add("_linalg_potrf", [_definite(2, 3, 3)], {"lower": False}, grad=False, tolerance=1e-5,
     reference=lambda a: _turned(np.linalg.cholesky(a)))
_add("_linalg_potri", [_steep(2, 3, 3)], {"lower": False}, second_order=True, tolerance=1e-4,
     reference=lambda a: np.linalg.inv(_turned(np.triu(a)) @ np.triu(a)))
_add("_linalg_extractdiag", [_r(2, 3, 3)], {"offset": -1}, second_order=True,
     reference=lambda a: np.diagonal(a, -1, 1, 2),
     bad=[([_r(2, 2)], {"offset": 2}, ShapeError, "offset within the matrices")])
_add("_linalg_makediag", [_r(2, 3)], {"offset": 1}, second_order=True,
     reference=lambda a: np.stack([np.diag(row, 1) for row in a]))
_add("_linalg_extracttrian", [_r(2, 3, 3)], second_order=True,
     reference=lambda a: a[(slice(None), *np.tril_indices(3))])
_add("_linalg_extracttrian", [_r(4, 4)], {"offset": 1},
     reference=lambda a: a.T[np.tril_indices(4, -1)])
_add("_linalg_extracttrian", [_r(3, 3)], {"lower": False},
     reference=lambda a: a.T[np.tril_indices(3)])
_add("_linalg_maketrian", [_r(2, 3)], {"offset": -1}, second_order=True,
     reference=lambda a: np.stack([[[0, 0, 0], [r[0], 0, 0], [r[1], r[2], 0]] for r in a]),
     bad=[([_r(2, 4)], {}, ShapeError, "n (n + 1) / 2 elements")])
_add("_linalg_maketrian", [_r(6)], {"lower": False},
     reference=lambda a: np.array([[a[0], a[1], a[3]], [0, a[2], a[4]], [0, 0, a[5]]]))
_add("_linalg_triangle", [_r(2, 3, 3)], {"lower": False, "diagonal": 0.5}, second_order=True,
     reference=lambda a: np.triu(a) * (1 - 0.5 * np.eye(3, dtype="float32")))
_add("_linalg_transpose", [_r(2, 3, 4)], second_order=True, reference=_turned)

# -- decompositions ------------------------------------------------------------------------------

_add("_linalg_sumlogdiag", [_r(2, 3, 3, low=0.5, high=2)], second_order=True, tolerance=1e-5,
     reference=lambda a: np.log(np.diagonal(a, 0, 1, 2)).sum(1))
_add("_linalg_sumlogdiag", [_r(3, 3, low=0.5, high=2)],
     reference=lambda a: np.log(np.diagonal(a)).sum().reshape(1))
_add("_linalg_det", [_steep(2, 3, 3)], second_order=True, reference=np.linalg.det,
     bad=[([_r(2, 3)], {}, ShapeError, "square matrices")])
_add("_linalg_det", [_steep(3, 3)], reference=lambda a: np.linalg.det(a).reshape(1))
_add("_linalg_slogdet", [_steep(2, 3, 3)], second_order=True,
     reference=lambda a: list(np.linalg.slogdet(a)))
_add("_linalg_inverse", [_steep(2, 3, 3)], second_order=True, reference=np.linalg.inv,
     tolerance=1e-4,
     bad=[([np.zeros((2, 2), "float32")], {}, MXNetError, "A is singular")])
_add("_linalg_syevd", [_definite(2, 3, 3)], grad=False,
     bad=[([_r(2, 3)], {}, ShapeError, "square matrices")])
_add("_linalg_gaps", [np.array([[1, 2, 4]], "float32")], grad=False,
     reference=lambda v: np.array([[[0, -1, -1 / 3], [1, 0, -0.5], [1 / 3, 0.5, 0]]]))
_add("_linalg_gelqf", [_r(2, 3, 4)], second_order=True,
     bad=[([_r(3, 2)], {}, ShapeError, "as many columns as rows")])
_add("_linalg_spread", [_r(2), _r(2, 3, 3)], second_order=True, wrt=(0,),
     reference=lambda v, a: np.broadcast_to(v[:, None, None], a.shape))
_add("_linalg_column", [_r(1), _r(3, 3)], second_order=True, wrt=(0,),
     reference=lambda v, a: v.reshape(1, 1))
