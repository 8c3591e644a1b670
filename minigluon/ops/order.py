"""Operators that sort: sort, argsort, topk. Equal elements keep their order."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ..base import ShapeError
from .attrs import DType
from .operator import Attrs, operator
from .rules import (
    DTypes,
    Shapes,
    attr_dtype,
    axis_of,
    follow_dtype,
    like_shape,
    no_gradient,
    size_of,
)

__all__: list[str] = []

Array = Any


def _flat(data: Array, axis: int | None) -> tuple[Array, int]:
    """(array, axis); a missing axis means the flattened array."""
    if axis is None:
        return data.reshape(-1), 0
    return data, axis_of(axis, data.ndim)


def _order(xp: Any, data: Array, axis: int, ascending: bool) -> Array:
    """Places along `axis` in sorted order, equal elements in theirs."""
    if ascending:
        return xp.argsort(data, axis=axis, kind="stable")
    # sort the mirrored array and mirror back: descending, yet stable
    places = xp.flip(xp.argsort(xp.flip(data, axis), axis=axis, kind="stable"), axis)
    return data.shape[axis] - 1 - places


def _line_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    shape, axis = shapes[0], attrs["axis"]
    if shape is None:
        return shapes, [None]
    if axis is None:
        return shapes, [(size_of(shape),)]
    axis_of(axis, len(shape))
    return shapes, [shape]


# -- elements along an axis, and back --------------------------------------------------------------

@operator("_take_along", infer=like_shape(1), infer_dtype=follow_dtype(0),
          gradient=lambda F, dy, out, data, places, **attrs: [
              F._put_along(dy, data, places, **attrs), None])
def _take_along(xp: Any, data: Array, places: Array, *, axis: int | None) -> Array:
    """The elements of `data` at different integer `places` along `axis`."""
    line, axis = _flat(data, axis)
    return xp.take_along_axis(line, places, axis=axis)


@operator("_put_along", infer=like_shape(1), infer_dtype=follow_dtype(0),
          gradient=lambda F, dy, out, grad, data, places, **attrs: [
              F._take_along(dy, places, **attrs), None, None])
def _put_along(xp: Any, grad: Array, data: Array, places: Array, *, axis: int | None) -> Array:
    """Zeros like `data` with `grad` at different integer `places` along `axis`."""
    result = xp.zeros(data.shape, dtype=grad.dtype)
    line, axis = _flat(result, axis)
    key = list(xp.indices(places.shape, sparse=True))
    key[axis] = places
    line[tuple(key)] = grad
    return result


# -- sort ------------------------------------------------------------------------------------------

def _sort_back(F: Any, dy: Any, out: Any, data: Any, *, axis: Any, is_ascend: bool) -> list[Any]:
    places = F.argsort(data, axis=axis, is_ascend=is_ascend, dtype="int64")
    return [F._put_along(dy, data, places, axis=axis)]


@operator("sort", infer=_line_shape, gradient=_sort_back, methods=("sort",),
          output_names=("output0",))
def sort(xp: Any, data: Array, *, axis: int | None = -1, is_ascend: bool = True) -> Array:
    """The elements in order along an axis.

    Args:
        data: any array. axis: along which; None flattens first. is_ascend: smallest first.

    Shapes: data (*S) -> (*S).

    >>> import minigluon as mx
    >>> mx.nd.sort(mx.nd.array([3, 1, 2]), is_ascend=False).asnumpy().tolist()
    [3.0, 2.0, 1.0]
    """
    line, place = _flat(data, axis)
    result = xp.sort(line, axis=place)
    return result if is_ascend else xp.flip(result, place)


@operator("argsort", infer=_line_shape, infer_dtype=attr_dtype(), gradient=no_gradient,
          methods=("argsort",))
def argsort(xp: Any, data: Array, *, axis: int | None = -1, is_ascend: bool = True,
            dtype: DType = "float32") -> Array:  # type: ignore[assignment]
    """The places of the elements in order along an axis.

    Args:
        data: any array. axis: along which; None flattens first. is_ascend: smallest first.
        dtype: element type of the places.

    Shapes: data (*S) -> (*S).

    >>> import minigluon as mx
    >>> mx.nd.argsort(mx.nd.array([3, 1, 2])).asnumpy().tolist()
    [1.0, 2.0, 0.0]
    """
    line, place = _flat(data, axis)
    return _order(xp, line, place, is_ascend).astype(dtype)


# -- topk ------------------------------------------------------------------------------------------

def _count(size: int, k: int) -> int:
    if k > size > 0:
        raise ShapeError(f"k: expected up to {size} elements, got {k}")
    return k if k > 0 else size


def _topk_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    shape, axis = shapes[0], attrs["axis"]
    count = 2 if attrs["ret_typ"] == "both" else 1
    if shape is None:
        return shapes, [None] * count
    if attrs["ret_typ"] == "mask":
        return shapes, [shape]
    line = (size_of(shape),) if axis is None else shape
    place = axis_of(axis or 0, len(line))
    result = (*line[:place], _count(line[place], attrs["k"]), *line[place + 1:])
    return shapes, [result] * count


def _topk_dtype(dtypes: DTypes, attrs: Attrs) -> tuple[DTypes, DTypes]:
    kinds = {"value": [dtypes[0]], "mask": [dtypes[0]], "indices": [attrs["dtype"]],
             "both": [dtypes[0], attrs["dtype"]]}
    return dtypes, kinds[attrs["ret_typ"]]


def _topk_back(F: Any, dy: Sequence[Any], out: Any, data: Any, *, ret_typ: str, axis: Any, k: int,
               is_ascend: bool, dtype: str) -> list[Any]:
    if ret_typ in ("indices", "mask") or dy[0] is None:
        return [None]
    places = F.topk(data, ret_typ="indices", axis=axis, k=k, is_ascend=is_ascend, dtype="int64")
    return [F._put_along(dy[0], data, places, axis=axis)]


@operator("topk", infer=_topk_shape, infer_dtype=_topk_dtype, gradient=_topk_back,
          methods=("topk",), num_outputs=lambda attrs: 2 if attrs["ret_typ"] == "both" else 1)
def topk(xp: Any, data: Array, *, axis: int | None = -1, k: int = 1,
         ret_typ: Literal["indices", "value", "mask", "both"] = "indices",
         is_ascend: bool = False, dtype: DType = "float32") -> Any:  # type: ignore[assignment]
    """The k largest elements along an axis, in order.

    Args:
        data: any array. axis: along which; None flattens first. k: how many; below 1 all.
        ret_typ: their 'indices', their 'value', 'both' (values, indices), or a 'mask' of the
            data's shape that is 1 at them. is_ascend: the smallest instead. dtype: element type
            of the indices.

    Shapes: data (*S) -> S with k at axis.

    >>> import minigluon as mx
    >>> mx.nd.topk(mx.nd.array([3, 1, 2]), k=2, ret_typ="value").asnumpy().tolist()
    [3.0, 2.0]
    """
    line, place = _flat(data, axis)
    count = _topk_count(line.shape[place], k)
    lead = (slice(None),) * place
    places = _order(xp, line, place, is_ascend)[(*lead, slice(0, count))]
    if ret_typ == "indices":
        return places.astype(dtype)
    if ret_typ == "mask":
        ones = xp.ones(places.shape, dtype=data.dtype)
        return _put_along.body(xp, ones, data, places, axis=axis)
    values = xp.take_along_axis(line, places, axis=place)
    return values if ret_typ == "value" else (values, places.astype(dtype))


def _topk_count(size: int, k: int) -> int:
    try:
        return _count(size, k)
    except ShapeError as error:
        raise ShapeError(f"topk: {error}") from None
