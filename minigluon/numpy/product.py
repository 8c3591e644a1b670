"""Products: dot, matmul, tensordot, einsum and their kin."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ndarray import NDArray
from ..symbol import Symbol
from .arrange import ravel, reshape
from .array import face, ndarray
from .elementwise import binary, common, into, lifted

FUNCTIONS: dict[str, Callable[..., Any]] = {}


def _enter(function: Callable[..., Any]) -> Callable[..., Any]:
    FUNCTIONS[function.__name__] = function
    function.__module__ = "minigluon.numpy"
    return function


def _of_one_type(*arrays: Any) -> list[Any]:
    found = [lifted(x) for x in arrays]
    if any(isinstance(x, Symbol) for x in found) or len({x._data.dtype for x in found}) == 1:
        return found
    wanted = found[0]
    for x in found[1:]:
        if common(wanted, x) != wanted._data.dtype:
            wanted = x
    return [x.astype(wanted.dtype, copy=False) for x in found]


def _product(kind: str, a: Any, b: Any, axes: tuple[Any, ...] = ()) -> Any:
    a, b = _of_one_type(a, b)
    if isinstance(a, NDArray) and a.ndim == 2 and a._data.dtype.kind == "f" and (
            isinstance(b, NDArray) and b.ndim == 2 and kind != "tensordot"):
        return face(a).dot(a, b)  # the operator that has a kernel
    return face(a, b)._npi_product(a, b, kind=kind, axes=axes)


@_enter
def dot(a: Any, b: Any, out: Any = None) -> Any:
    """Sum over the last axis of `a` and the last but one of `b` (its only one if a vector).

    >>> from minigluon import np
    >>> dot(np.ones((2, 3)), np.ones((3,)))
    array([3., 3.])
    """
    if not isinstance(a, Symbol) and not isinstance(b, Symbol):
        a, b = lifted(a), lifted(b)
        if a.ndim == 0 or b.ndim == 0:
            return into(out, binary("multiply", a, b))
    return into(out, _product("dot", a, b))


@_enter
def polyval(p: Any, x: Any) -> Any:
    """The polynomial with coefficients `p`, the highest power first, at each x (Horner's rule).

    >>> from minigluon import np
    >>> polyval(np.array([1, 0, 2]), np.array([3, 4]))
    array([11., 18.])
    """
    p, x = lifted(p), lifted(x)
    value = binary("multiply", x, 0)
    for place in range(p.shape[0]):
        value = binary("add", binary("multiply", value, x), p[place])
    return value


@_enter
def matmul(a: Any, b: Any, out: Any = None) -> Any:
    """Products of the matrices in the last two axes; the axes before are broadcast."""
    return into(out, _product("matmul", a, b))


@_enter
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Sum over the last `axes` axes of `a` and the first of `b`, or over two lists of axes."""
    pair = (axes,) if isinstance(axes, int) else tuple(
        tuple(side) if isinstance(side, (list, tuple)) else (int(side),) for side in axes)
    return _product("tensordot", a, b, pair)


@_enter
def einsum(subscripts: str, *operands: Any, out: Any = None, optimize: Any = False) -> Any:
    """Sums of products along the axes that letters name.

    >>> from minigluon import np
    >>> einsum("ij,j->i", np.ones((2, 3)), np.ones((3,)))
    array([3., 3.])
    """
    operands = tuple(_of_one_type(*operands))
    return into(out, face(*operands)._npi_einsum(*operands, subscripts=subscripts))


@_enter
def inner(a: Any, b: Any) -> Any:
    """Sum over the last axes of both."""
    a, b = lifted(a), lifted(b)
    if any(isinstance(x, NDArray) and x.ndim == 0 for x in (a, b)):
        return binary("multiply", a, b)
    return tensordot(a, b, ((-1,), (-1,)))


@_enter
def outer(a: Any, b: Any) -> Any:
    """All products of an element of `a` with one of `b`."""
    return binary("multiply", reshape(a, (-1, 1)), reshape(b, (1, -1)))


@_enter
def vdot(a: Any, b: Any) -> Any:
    """Sum of the products of the flattened arrays."""
    return dot(ravel(a), ravel(b))


@_enter
def kron(a: Any, b: Any) -> Any:
    """Blocks of `b`, each times an element of `a`."""
    a, b = lifted(a), lifted(b)
    ndim = max(a.ndim, b.ndim)
    first, second = (1,) * (ndim - a.ndim) + a.shape, (1,) * (ndim - b.ndim) + b.shape
    left = reshape(a, [size for one in first for size in (one, 1)])
    right = reshape(b, [size for one in second for size in (1, one)])
    return reshape(binary("multiply", left, right),
                   [x * y for x, y in zip(first, second, strict=True)])


@_enter
def cross(a: Any, b: Any, axis: int = -1) -> Any:
    """The vector at right angles to both, for vectors of three along `axis`."""
    a, b = lifted(a), lifted(b)
    lead = (slice(None),) * (axis % a.ndim)

    def part(x: Any, place: int) -> Any:
        return x[(*lead, slice(place, place + 1))]

    from_pairs = [part(a, i) * part(b, j) - part(a, j) * part(b, i)
                  for i, j in ((1, 2), (2, 0), (0, 1))]
    return face(*from_pairs).concat(*from_pairs, dim=axis)


def attach_operators() -> None:
    """``@`` of ``np.ndarray``."""
    cls: Any = ndarray
    cls.__matmul__ = lambda self, other: matmul(self, other)
    cls.__rmatmul__ = lambda self, other: matmul(other, self)
