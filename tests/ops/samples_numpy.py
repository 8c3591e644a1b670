"""Samples of the operators behind ``mx.np``."""
from __future__ import annotations

from typing import Any

import numpy as np
from sample import Sample, adder, between

from minigluon.base import ArgumentValueError, DTypeError, ShapeError

SAMPLES: dict[str, list[Sample]] = {}
_r, _add = between, adder(SAMPLES)


def _moved(function: str, shape: tuple[int, ...], *args: Any, bad: Any = (), **named: Any) -> None:
    attrs = {"function": function, "args": args, "named": tuple(named.items())}
    _add("_npi_arrange", [_r(*shape)], attrs, second_order=True, bad=bad,
         reference=lambda x: getattr(np, function)(x, *args, **named))


_moved("roll", (3, 4), 2, bad=[
    ([_r(2)], {"function": "exp"}, ArgumentValueError, "function: expected one of"),
    ([_r(2)], {"function": "reshape", "args": ((3,),)}, ShapeError, "np.reshape: array of shape"),
    ([_r(2)], {"function": "squeeze", "args": (0,)}, ShapeError, "np.squeeze"),
])
_moved("tril", (3, 4), 1)
_moved("diag", (3,))
_moved("diagonal", (2, 3, 4), offset=1, axis1=1, axis2=2)
_moved("pad", (2, 3), pad_width=((1, 0), (2, 1)), mode="constant", constant_values=2.0)
_moved("pad", (2, 3), pad_width=1, mode="reflect")
_moved("tile", (2, 3), (2, 1, 2))
_moved("repeat", (2, 3), (1, 2), axis=0)
_moved("reshape", (2, 3), ((3, -1)))
_moved("reshape", (1,), ())
_moved("squeeze", (2, 1, 3), axis=1)
_moved("rot90", (2, 3))
_moved("delete", (4, 2), (1, 3), 0)
_moved("broadcast_to", (2, 1), (3, 2, 4))
_moved("resize", (2, 3), (4, 2))
_add("_npi_arrange_grad", [_r(2, 6), _r(2, 3)], {"function": "tile", "args": ((1, 2),)}, wrt=(0,),
     second_order=True, reference=lambda g, x: g[:, :3] + g[:, 3:])
_add("_npi_arrange_grad", [_r(3, 2), _r(2, 3)], {"function": "reshape", "args": ((3, 2),)},
     wrt=(0,), reference=lambda g, x: g.reshape(2, 3))

_CONDITION = np.array([[1.0], [0.0]], "float32")
_add("_npi_where", [_CONDITION, _r(2, 3), _r(3)], {}, wrt=(1, 2), second_order=True,
     reference=lambda c, x, y: np.where(c != 0, x, y),
     bad=[([_CONDITION, _r(2, 3), _r(2)], {}, ShapeError, "cannot be broadcast together")])
_add("_npi_around", [np.array([0.5, 1.5, -2.5, 0.26], "float32")], {}, grad=False,
     reference=np.round)
_add("_npi_around", [_r(2, 3)], {"decimals": 1}, grad=False, reference=lambda x: np.round(x, 1))
_add("_npx_reshape", [_r(2, 3, 8)], {"newshape": (-2, -6, 1, -1, -1)}, second_order=True,
     reference=lambda x: x.reshape(2, 1, 3, 8),
     bad=[([_r(2, 3)], {"newshape": (-3, -2)}, ArgumentValueError, "drops an axis of size 1"),
          ([_r(2, 3)], {"newshape": (-2, -2, -2)}, ArgumentValueError, "more axes than shape"),
          ([_r(2, 3)], {"newshape": (4, -1)}, ArgumentValueError, "cannot turn")])
_add("_npx_reshape", [_r(8, 3, 2)], {"newshape": (-1, -5), "reverse": True},
     reference=lambda x: x.reshape(8, 6))
_add("_npi_arctan2", [_r(2, 3, low=0.5), _r(3, low=0.5)], {}, second_order=True,
     reference=np.arctan2,
     bad=[([_r(2), _r(3)], {}, ShapeError, "cannot be broadcast together")])

for _first, _second in (((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3, 4), (5, 4, 2))):
    _add("_npi_product", [_r(*_first), _r(*_second)], {"kind": "dot"}, reference=np.dot,
         bad=[([_r(2, 3), _r(2, 3)], {"kind": "dot"}, ShapeError, "np.dot: shapes")])
for _first, _second in (((2, 3, 4), (4, 2)), ((2, 1, 3, 4), (5, 4, 2)), ((4,), (2, 4, 3)),
                        ((2, 3, 4), (4,))):
    _add("_npi_product", [_r(*_first), _r(*_second)], {"kind": "matmul"}, reference=np.matmul,
         bad=[([_r(2, 3), _r(2, 3)], {"kind": "matmul"}, ShapeError, "np.matmul: shapes")])
_add("_npi_product", [_r(2, 3, 4), _r(4, 2, 5)], {"kind": "tensordot", "axes": ((0, -1), (1, 0))},
     reference=lambda a, b: np.tensordot(a, b, ((0, 2), (1, 0))))
_add("_npi_product", [_r(2, 3, 4), _r(3, 4, 5)], {"kind": "tensordot", "axes": (2,)},
     reference=lambda a, b: np.tensordot(a, b, 2))
_add("_npi_product_grad", [_r(2, 2), _r(2, 3), _r(3, 2)], {"kind": "matmul"}, grad=False,
     reference=lambda g, a, b: [g @ b.T, a.T @ g])

_DIFFERENT = "'ij,jk' for shapes"
_add("_npi_einsum", [_r(2, 3), _r(3, 4)], {"subscripts": "ij,jk"}, reference=np.matmul,
     bad=[([_r(2, 3), _r(2, 3)], {"subscripts": "ij,jk"}, ShapeError, _DIFFERENT)])
for _text, _shapes in (("ii->i", [(3, 3)]), ("ii", [(3, 3)]), ("ij->", [(2, 3)]),
                       ("...ij,...jk", [(2, 2, 3), (3, 4)]), ("i,ij,j", [(2,), (2, 3), (3,)]),
                       ("ijk->kj", [(2, 3, 4)]), ("...a,...a->...", [(1, 3), (2, 3)])):
    _add("_npi_einsum", [_r(*shape) for shape in _shapes], {"subscripts": _text},
         reference=lambda *x, _text=_text: np.einsum(_text, *x))
_add("_npi_einsum_grad", [_r(2, 2), _r(2, 3), _r(3, 2)],
     {"subscripts": "ij,jk->ik", "place": 1}, grad=False, reference=lambda g, a, b: a.T @ g)

_SYSTEM = (np.random.default_rng(2).random((2, 3, 3)) + 3 * np.eye(3)).astype("float32")
for _transpose in (False, True):
    _add("_npi_solve", [_SYSTEM, _r(2, 3, 2)], {"transpose": _transpose}, second_order=True,
         reference=lambda a, b, t=_transpose: np.linalg.solve(a.swapaxes(1, 2) if t else a, b),
         bad=[([_SYSTEM, _r(2, 2, 2)], {}, ShapeError, "np.linalg.solve: expected"),
              ([_r(2, 3), _r(3, 1)], {}, ShapeError, "np.linalg.solve: expected")])
for _shape in ((2, 3), (3, 2), (2, 3, 3)):
    _add("_npi_svd", [_r(*_shape)], {},
         reference=lambda a: list(np.linalg.svd(a, full_matrices=False)))
_add("_npi_svd_grad", [np.eye(2, dtype="float32") * 0, np.ones(2, "float32"),
                       np.zeros((2, 3), "float32"), np.eye(2, dtype="float32"),
                       np.array([2, 1], "float32"), np.eye(2, 3, dtype="float32")], {}, grad=False,
     reference=lambda du, ds, dv, u, s, v: u @ v)

_WHOLE, _OTHER = np.array([[6, 3], [5, 12]], "int32"), np.array([4, 6], "int32")
for _kind in ("bitwise_and", "bitwise_or", "bitwise_xor", "lcm", "gcd"):
    _add("_npi_bits", [_WHOLE, _OTHER], {"kind": _kind}, grad=False, reference=getattr(np, _kind),
         bad=[([_r(2), _r(2)], {"kind": _kind}, DTypeError, "expected integers or truth values")])
_add("_npi_bitwise_not", [_WHOLE], {}, grad=False, reference=np.invert,
     bad=[([_r(2)], {}, DTypeError, "expected integers or truth values")])
_add("_npi_alike", [_WHOLE, np.array([1.0], "float16")], {}, grad=False,
     reference=lambda data, other: data.astype("float16"))
_add("_npi_alike", [_WHOLE, np.array([1], "int8")], {}, grad=False,
     reference=lambda data, other: data)
