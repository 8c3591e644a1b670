"""``npx.reshape``: shapes with codes that say what becomes of each axis."""
from __future__ import annotations

from typing import Any

from ...base import ArgumentValueError
from ..attrs import Shape
from ..operator import Attrs, operator
from ..rules import Shapes, known, size_of

__all__ = ["decoded"]


def decoded(shape: list[int], codes: list[int], reverse: bool) -> tuple[int, ...]:
    """The sizes that npx.reshape's codes stand for; the codes are MXNet's (``npx.reshape``)."""
    from_right = reverse
    if -6 in codes[-2:]:
        raise ArgumentValueError("npx.reshape: code -6 splits an axis into the two sizes that "
                                 f"follow it, got {codes}")
    if from_right:
        shape = shape[::-1]
        codes = _reversed_codes(codes)
    sizes: list[int] = []
    place = 0

    def next_size() -> int:
        nonlocal place
        if place >= len(shape):
            raise ArgumentValueError(
                f"npx.reshape: the codes ask for more axes than shape {shape} has")
        place += 1
        return shape[place - 1]

    at = 0
    while at < len(codes):
        code = codes[at]
        if code == -2:
            sizes.append(next_size())
        elif code == -3:
            if next_size() != 1:
                raise ArgumentValueError("npx.reshape: code -3 drops an axis of size 1, got "
                                         f"{shape[place - 1]} in {shape}")
        elif code == -4:
            sizes += shape[place:]
            place = len(shape)
        elif code == -5:
            sizes.append(next_size() * next_size())
        elif code == -6:
            whole, first, second = next_size(), codes[at + 1], codes[at + 2]
            if from_right:
                first, second = second, first
            first = whole // second if first == -1 else first
            second = whole // first if second == -1 else second
            sizes += [second, first] if from_right else [first, second]
            at += 2
        else:
            sizes.append(code)
            place += 1
        at += 1
    return tuple(sizes[::-1] if from_right else sizes)


def _reversed_codes(codes: list[int]) -> list[int]:
    """The codes from right to left; a -6 stays in front of its two sizes."""
    groups: list[list[int]] = []
    at = 0
    while at < len(codes):
        width = 3 if codes[at] == -6 else 1
        groups.append(codes[at:at + width])
        at += width
    return [code for group in reversed(groups)
            for code in ([group[0], group[2], group[1]] if len(group) == 3 else group)]


def _recoded_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    shape = shapes[0]
    if shape is None or not known(shape):
        return shapes, [None]
    sizes = decoded(list(shape), list(attrs["newshape"]), attrs["reverse"])
    rest = size_of(size for size in sizes if size != -1)
    sizes = tuple(size_of(shape) // rest if size == -1 and rest else size for size in sizes)
    if size_of(sizes) != size_of(shape) or sizes.count(-1):
        raise ArgumentValueError(f"npx.reshape: newshape: cannot turn {shape} into {sizes}")
    return shapes, [sizes]


@operator("_npx_reshape", infer=_recoded_shape,
          gradient=lambda F, dy, out, data, **how: [F.reshape_like(dy, data)])
def recode(xp: Any, data: Any, *, newshape: Shape, reverse: bool = False) -> Any:
    """The same elements in a shape that codes describe (``npx.reshape`` says which)."""
    return data.reshape(decoded(list(data.shape), list(newshape), reverse)).copy()
