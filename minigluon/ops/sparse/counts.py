"""What a csr array holds: how many elements, and which of those that are asked for."""
from __future__ import annotations

from typing import Any

from ...base import ShapeError
from ..operator import Attrs, operator
from ..rules import Shapes, axis_of, fixed_dtype, follow_dtype, merge_shapes, no_gradient
from ..storage import Csr
from .form import form

__all__: list[str] = []

Array = Any


def _count_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data, axis = shapes[0], attrs["axis"]
    if axis is None:
        return shapes, [(1,)]
    if data is None:
        return shapes, [None]
    if len(data) != 2:
        raise ShapeError(f"expected a matrix, got shape {data}")
    return shapes, [(data[1 - axis_of(axis, 2)],)]


@operator("_contrib_getnnz", infer=_count_shape, infer_dtype=fixed_dtype("int64"),
          gradient=no_gradient)
def getnnz(xp: Any, data: Array, *, axis: int | None = None) -> Array:
    """How many elements a csr array holds, those that are 0 counted; of a dense one, not 0.

    Args:
        data: a matrix. axis: None: all together; 0 or 1: along that axis.

    Shapes: data (R, C) -> (1,), (C,) for axis 0 or (R,) for axis 1.

    >>> import minigluon as mx
    >>> x = mx.nd.array([[0, 1], [2, 3]]).tostype("csr")
    >>> mx.nd.contrib.getnnz(x).asnumpy().tolist(), mx.nd.contrib.getnnz(x, 1).asnumpy().tolist()
    ([3], [1, 2])
    """
    found = (data != 0).sum(axis=axis, dtype="int64")
    return found.reshape(-1)


@form("_contrib_getnnz", "csr")
def _held(xp: Any, data: Csr, *, axis: int | None = None) -> Array:
    if axis is None:
        return xp.asarray([len(data.data)], "int64")
    if axis_of(axis, 2) == 1:
        return xp.diff(data.indptr).astype("int64")
    return xp.bincount(data.indices, minlength=data.shape[1]).astype("int64")


def _edge_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    ends = merge_shapes(shapes[1], shapes[2], "shapes of u and v")
    return [shapes[0], ends, ends], [ends]


def _places(u: Array, v: Array) -> tuple[Array, Array]:
    merge_shapes(u.shape, v.shape, "shapes of u and v")
    return u.astype("int64"), v.astype("int64")


@operator("_contrib_edge_id", infer=_edge_shape, infer_dtype=follow_dtype(), gradient=no_gradient)
def edge_id(xp: Any, data: Array, u: Array, v: Array) -> Array:
    """The numbers of the edges from u to v of a graph; -1 where there is none.

    Args:
        data: a square csr matrix: the number of the edge from row to column. u, v: vertices.

    Shapes: data (N, N), u, v (E,) -> (E,).

    >>> import minigluon as mx
    >>> graph = mx.nd.array([[0, 7], [8, 0]]).tostype("csr")
    >>> mx.nd.contrib.edge_id(graph, mx.nd.array([0, 1, 1]), mx.nd.array([1, 1, 0])).asnumpy()
    array([ 7., -1.,  8.], dtype=float32)
    """
    found = data[_places(u, v)]
    return xp.where(found == 0, xp.asarray(-1, data.dtype), found)


@form("_contrib_edge_id", "csr", "default", "default")
def _edges(xp: Any, data: Csr, u: Array, v: Array) -> Array:
    known = {(int(row), int(column)): value
             for row, column, value in zip(data.rows(xp), data.indices, data.data, strict=True)}
    rows, columns = _places(u, v)
    return xp.asarray([known.get((int(row), int(column)), -1)
                       for row, column in zip(rows, columns, strict=True)], data.data.dtype)
