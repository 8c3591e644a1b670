"""Products of NumPy's interface: dot, matmul, tensordot and einsum.

All of them are sums over shared letters, and one gradient serves them all (the rule of Einstein
sums: the gradient of an operand is the sum of the output's gradient with the other operands).
"""
from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters
from typing import Any, Literal

import numpy as np

from ...base import ArgumentValueError, ShapeError
from ..operator import Attrs, operator
from ..rules import Shapes, known

__all__: list[str] = []

Array = Any
Kind = Literal["dot", "matmul", "tensordot"]


def _letters(kind: str, left: int, right: int, axes: tuple[Any, ...]) -> tuple[list[str], str]:
    """The axes of the operands and of the result, as einsum names them."""
    a, b = ascii_letters[:left], ascii_letters[left:left + right]
    if kind == "matmul":
        if not left or not right:
            raise ValueError("a number is no matrix; use np.multiply")
        lead = "..." if max(left, right) > 2 else ""
        row, column = ("i" if left > 1 else ""), ("j" if right > 1 else "")
        first = (lead if left > 1 else "") + row + "k"
        second = (lead if right > 1 else "") + "k" + column
        return [first, second], lead + row + column
    if kind == "dot":
        axes = ((left - 1,), (max(right - 2, 0),)) if left and right else ((), ())
    for first, second in zip(*axes, strict=True):
        b = b.replace(b[second], a[first])
    out = "".join(letter for letter in a + b if (letter in a) != (letter in b))
    return [a, b], out


def _places(axes: tuple[Any, ...], left: int, right: int) -> tuple[tuple[int, ...], ...]:
    """tensordot's axes as two tuples of places that are not negative."""
    if len(axes) == 1:
        count = int(axes[0])
        axes = (tuple(range(left - count, left)), tuple(range(count)))
    sides = [tuple(side) if isinstance(side, (tuple, list)) else (side,) for side in axes]
    return tuple(tuple(place % ndim for place in side)
                 for side, ndim in zip(sides, (left, right), strict=True))


def _product_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    if not all(known(shape) for shape in shapes):
        return shapes, [None]
    a, b = (np.broadcast_to(np.zeros(()), tuple(shape or ())) for shape in shapes)
    try:
        operands, out = _letters(attrs["kind"], a.ndim, b.ndim,
                                 _places(attrs["axes"], a.ndim, b.ndim) if attrs["axes"] else ())
        sizes: dict[str, int] = {}
        for names, shape in zip(operands, (a.shape, b.shape), strict=True):
            names = names.replace("...", "")
            for letter, size in zip(names, shape[len(shape) - len(names):], strict=True):
                if sizes.setdefault(letter, size) != size:
                    raise ValueError(f"sizes {sizes[letter]} and {size} meet")
        lead: tuple[int, ...] = ()
        if out.startswith("..."):
            lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        return shapes, [(*lead, *[sizes[letter] for letter in out.replace("...", "")])]
    except (ValueError, IndexError, ZeroDivisionError) as error:
        raise ShapeError(f"np.{attrs['kind']}: shapes {a.shape} and {b.shape} do not fit: {error}"
                         ) from None


@operator("_npi_product", infer=_product_shape,
          gradient=lambda F, dy, out, a, b, **how: F._npi_product_grad(dy, a, b, **how))
def product(xp: Any, a: Array, b: Array, *, kind: Kind,
            axes: tuple = ()) -> Array:  # type: ignore[type-arg]
    """``numpy.dot``, ``numpy.matmul`` or ``numpy.tensordot`` of two arrays."""
    if kind == "tensordot":
        return xp.tensordot(a, b, axes=_places(axes, a.ndim, b.ndim))
    return xp.asarray(getattr(xp, kind)(a, b))


@operator("_npi_product_grad", num_outputs=2,
          infer=lambda shapes, attrs: (shapes, [shapes[1], shapes[2]]))
def product_grad(xp: Any, grad: Array, a: Array, b: Array, *, kind: Kind,
                 axes: tuple = ()) -> tuple[Array, Array]:  # type: ignore[type-arg]
    """The gradients of both operands."""
    operands, out = _letters(kind, a.ndim, b.ndim,
                             _places(axes, a.ndim, b.ndim) if axes else ())
    return (_pull(xp, operands, out, grad, (a, b), 0), _pull(xp, operands, out, grad, (a, b), 1))


def _subscripts(text: str, ndims: Sequence[int]) -> tuple[list[str], str]:
    """The operands' letters and the result's; the result may be left out, as in NumPy."""
    text = text.replace(" ", "")
    left, arrow, out = text.partition("->")
    operands = left.split(",")
    if len(operands) != len(ndims):
        raise ArgumentValueError(f"np.einsum: {text!r} names {len(operands)} operands, "
                                 f"got {len(ndims)}")
    if not arrow:
        letters = left.replace(",", "").replace("...", "")
        out = ("..." if "..." in left else "") + "".join(
            sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    return operands, out


def _einsum_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    if not all(known(shape) for shape in shapes):
        return shapes, [None]
    elements = [np.broadcast_to(np.zeros(()), tuple(shape or ())) for shape in shapes]
    try:
        return shapes, [np.einsum(attrs["subscripts"], *elements).shape]
    except ValueError as error:
        raise ShapeError(f"np.einsum: {attrs['subscripts']!r} for shapes "
                         f"{', '.join(str(x.shape) for x in elements)}: {error}") from None


@operator("_npi_einsum", infer=_einsum_shape,
          gradient=lambda F, dy, out, *operands, subscripts: [
              F._npi_einsum_grad(dy, *operands, subscripts=subscripts, place=place)
              for place in range(len(operands))])
def einsum(xp: Any, *operands: Array, subscripts: str) -> Array:
    """``numpy.einsum``: sums of products along the axes that letters name."""
    return xp.array(xp.einsum(subscripts, *operands, optimize=True), copy=True)


@operator("_npi_einsum_grad",
          infer=lambda shapes, attrs: (shapes, [shapes[1 + attrs["place"]]]
                                       if len(shapes) > 1 + attrs["place"] else [None]))
def einsum_grad(xp: Any, *arrays: Array, subscripts: str, place: int) -> Array:
    """The gradient of one operand; `arrays` are the output's gradient, then the operands."""
    grad, *operands = arrays
    names, out = _subscripts(subscripts, [x.ndim for x in operands])
    return _pull(xp, names, out, grad, operands, place)


def _pull(xp: Any, names: Sequence[str], out: str, grad: Array, operands: Sequence[Array],
          place: int) -> Array:
    """The gradient of operand `place` of an Einstein sum."""
    mine, wanted = names[place], operands[place]
    others = [(name, x) for i, (name, x) in enumerate(zip(names, operands, strict=True))
              if i != place]
    there = out + "".join(name for name, _ in others)
    letters = list(dict.fromkeys(mine.replace("...", "")))
    found = [letter for letter in letters if letter in there]
    lead = "..." if "..." in there else ""
    result = xp.einsum(",".join([out, *[name for name, _ in others]]) + "->" + lead
                       + "".join(found), grad, *[x for _, x in others], optimize=True)
    batch = wanted.ndim - len(mine.replace("...", "")) if "..." in mine else 0
    extra = result.ndim - len(found)
    # axes of the ellipsis that this operand does not have, or has with size 1
    drop = tuple(range(extra - batch)) if extra > batch else ()
    if drop:
        result = result.sum(axis=drop)
    for axis in range(min(extra, batch)):
        if wanted.shape[axis] == 1 != result.shape[axis]:
            result = result.sum(axis=axis, keepdims=True)
    # letters that only this operand has were summed alone: each element gets the same
    sizes = dict(zip(mine.replace("...", ""), wanted.shape[batch:], strict=True))
    head = result.shape[:result.ndim - len(found)]
    result = result.reshape((*head, *[sizes[letter] if letter in found else 1
                                      for letter in letters]))
    full = xp.broadcast_to(result, (*wanted.shape[:batch], *[sizes[letter] for letter in letters]))
    if len(letters) == len(mine.replace("...", "")):
        return xp.array(full, dtype=wanted.dtype, copy=True)
    placed = xp.zeros(wanted.shape, wanted.dtype)  # a letter given twice: the diagonal alone
    xp.einsum(mine + "->" + ("..." if batch else "") + "".join(letters), placed)[...] = full
    return placed
