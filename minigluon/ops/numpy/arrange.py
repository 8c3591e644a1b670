"""One operator for everything that puts elements elsewhere: ``roll``, ``tril``, ``diag``, ``pad``.

Each is named by NumPy's function. Its gradient needs no rule of its own: the function, applied to
the elements' numbers, tells where each element went.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from ...base import ArgumentError, ArgumentValueError, ShapeError
from ..operator import Attrs, operator
from ..rules import Shapes, follow_dtype, known, like_shape

__all__: list[str] = []

Array = Any
Named = tuple[tuple[str, Any], ...]

_FUNCTIONS = frozenset((
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_to", "delete", "diag", "diagflat",
    "diagonal", "expand_dims", "flip", "fliplr", "flipud", "moveaxis", "pad", "ravel", "repeat",
    "reshape", "resize", "roll", "rollaxis", "rot90", "squeeze", "swapaxes", "tile", "transpose",
    "tril", "triu",
))
# Of these the elements stay in their order.
_SAME_ORDER = frozenset(("atleast_1d", "atleast_2d", "expand_dims", "ravel", "reshape", "squeeze"))


def _apply(xp: Any, data: Array, function: str, args: tuple[Any, ...], named: Named) -> Array:
    if function not in _FUNCTIONS:
        raise ArgumentValueError(f"_npi_arrange: function: expected one of "
                                 f"{', '.join(sorted(_FUNCTIONS))}, got {function!r}")
    try:
        return getattr(xp, function)(data, *args, **dict(named))
    except (ValueError, IndexError) as error:
        raise ShapeError(f"np.{function}: array of shape {tuple(data.shape)}: {error}") from error
    except TypeError as error:
        if function in ("tril", "triu") and not data.ndim:
            raise ShapeError(f"np.{function}: expected a vector or matrices, got shape ()"
                             ) from None
        raise ArgumentError(f"np.{function}: {error}") from error


def _arrange_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    shape = shapes[0]
    if not known(shape):
        return shapes, [None]
    elements = np.broadcast_to(np.zeros((), "bool"), shape or ())  # one element, stretched
    return shapes, [_apply(np, elements, attrs["function"], attrs["args"], attrs["named"]).shape]


@operator("_npi_arrange", infer=_arrange_shape,
          gradient=lambda F, dy, out, data, **how: [F._npi_arrange_grad(dy, data, **how)])
def arrange(xp: Any, data: Array, *, function: str, args: tuple = (),  # type: ignore[type-arg]
            named: tuple = ()) -> Array:  # type: ignore[type-arg]
    """``numpy.function(data, *args, **named)`` for a function that only moves elements."""
    return xp.array(_apply(xp, data, function, args, named), copy=True)


@operator("_npi_arrange_grad", infer=like_shape(1), infer_dtype=follow_dtype(0),
          gradient=lambda F, dy, out, grad, data, **how: [F._npi_arrange(dy, **how), None])
def arrange_grad(xp: Any, grad: Array, data: Array, *, function: str,
                 args: tuple = (), named: tuple = ()) -> Array:  # type: ignore[type-arg]
    """`grad` brought back to the places of `data`; what went to several places gets the sum."""
    if function in _SAME_ORDER:
        return xp.array(grad.reshape(data.shape), copy=True)
    # number 0 stands for elements that are not from `data` (zeros of tril, constants of pad)
    numbers = xp.arange(1, data.size + 1).reshape(data.shape)
    plain = tuple((name, value) for name, value in named if name != "constant_values")
    places = _apply(xp, numbers, function, args, plain)
    sums = xp.bincount(places.reshape(-1), weights=grad.reshape(-1), minlength=data.size + 1)
    return sums[1:].reshape(data.shape).astype(grad.dtype)
