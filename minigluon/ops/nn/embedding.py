"""Embedding: rows of a table, looked up by number."""
from __future__ import annotations

from typing import Any

from ..attrs import DType
from ..operator import Attrs, MaybeShape, operator
from ..rules import like_shape, merge_shapes
from ..storage import RowSparse, dense_of, row_sums

__all__ = ["embedding", "embedding_grad", "embedding_grad_rows", "sparse_embedding"]


def _embedding_shape(shapes: list[MaybeShape], attrs: Attrs) -> tuple[list[MaybeShape],
                                                                      list[MaybeShape]]:
    data, weight = shapes
    if data is None:
        return shapes, [None]
    weight = merge_shapes((attrs["input_dim"], attrs["output_dim"]), weight,
                          "shapes of weight (needed and given)")
    return [data, weight], [(*data, attrs["output_dim"])]


def _embedding_dtype(dtypes: list[Any], attrs: Attrs) -> tuple[list[Any], list[Any]]:
    data, weight = dtypes
    weight = weight or attrs["dtype"]
    return [data or "float32", weight], [weight]


def _embedding_gradient(F: Any, dy: Any, out: Any, data: Any, weight: Any,
                        **attrs: Any) -> list[Any]:
    back = F._embedding_grad_rows if attrs["sparse_grad"] else F._embedding_grad
    return [None, back(dy, data, weight, **attrs)]


def _rows(xp: Any, data: Any, count: int) -> Any:
    return xp.clip(data, 0, count - 1).astype(xp.int64)


@operator("Embedding", infer=_embedding_shape, infer_dtype=_embedding_dtype,
          gradient=_embedding_gradient)
def embedding(
    xp: Any, data: Any, weight: Any, *, input_dim: int, output_dim: int,
    dtype: DType = "float32", sparse_grad: bool = False,  # type: ignore[assignment]
) -> Any:
    """The rows of `weight` that `data` numbers; numbers out of range are clipped.

    Args:
        data: row numbers, of any element type. weight: the table.
        input_dim, output_dim: rows and columns of the table. dtype: its element type.
        sparse_grad: the gradient for `weight` is a row_sparse array of the rows looked up.

    Shapes:
        data (*S), weight (input_dim, output_dim) -> (*S, output_dim).

    >>> import numpy as np
    >>> table = np.arange(6.0).reshape(3, 2)
    >>> embedding.body(np, np.array([2, 0]), table, input_dim=3, output_dim=2).tolist()
    [[4.0, 5.0], [0.0, 1.0]]
    """
    if weight.shape != (input_dim, output_dim):
        raise ValueError(f"weight {weight.shape} is not ({input_dim}, {output_dim})")
    return xp.take(weight, _rows(xp, data, input_dim), axis=0)


@operator("_contrib_SparseEmbedding", infer=_embedding_shape, infer_dtype=_embedding_dtype,
          gradient=lambda F, dy, out, data, weight, *, deterministic, **attrs: [
              None, F._embedding_grad_rows(dy, data, weight, **attrs)])
def sparse_embedding(
    xp: Any, data: Any, weight: Any, *, input_dim: int, output_dim: int,
    dtype: DType = "float32", deterministic: bool = False,  # type: ignore[assignment]
) -> Any:
    """Embedding whose gradient for `weight` is a row_sparse array of the rows looked up.

    Args:
        data, weight, input_dim, output_dim, dtype: as in Embedding.
        deterministic: accepted; rows are always added up in one order.

    Shapes:
        data (*S), weight (input_dim, output_dim) -> (*S, output_dim).

    >>> import minigluon as mx
    >>> table = mx.nd.array([[1], [2]])
    >>> mx.nd.contrib.SparseEmbedding(mx.nd.array([1]), table, 2, 1).asnumpy().tolist()
    [[2.0]]
    """
    return embedding.body(xp, data, weight, input_dim=input_dim, output_dim=output_dim)


def _grad_gradient(F: Any, u: Any, out: Any, dy: Any, data: Any, weight: Any,
                   **attrs: Any) -> list[Any]:
    return [F.Embedding(data, u, **attrs), None, None]


@operator("_embedding_grad", infer=like_shape(2),
          infer_dtype=lambda dtypes, attrs: (dtypes, [dtypes[2]]), gradient=_grad_gradient)
def embedding_grad(
    xp: Any, dy: Any, data: Any, weight: Any, *, input_dim: int, output_dim: int,
    dtype: DType = "float32", sparse_grad: bool = False,  # type: ignore[assignment]
) -> Any:
    """Gradient of Embedding for its table: each row's gradients summed."""
    total = xp.zeros(weight.shape, weight.dtype)
    rows, sums = _summed(xp, dy, data, weight)
    total[rows] = sums
    return total


@operator("_embedding_grad_rows", infer=like_shape(2), gives_stored=True,
          infer_dtype=lambda dtypes, attrs: (dtypes, [dtypes[2]]), gradient=_grad_gradient)
def embedding_grad_rows(
    xp: Any, dy: Any, data: Any, weight: Any, *, input_dim: int, output_dim: int,
    dtype: DType = "float32", sparse_grad: bool = True,  # type: ignore[assignment]
) -> Any:
    """Gradient of Embedding for its table: a row_sparse array of the rows looked up."""
    return RowSparse(weight.shape, *_summed(xp, dy, data, weight))


def _summed(xp: Any, dy: Any, data: Any, weight: Any) -> tuple[Any, Any]:
    """The rows looked up, each once, and the sums of their gradients, float16 added in float32."""
    count, width = weight.shape
    rows, sums = row_sums(xp, _rows(xp, data, count).reshape(-1),
                          dense_of(xp, dy).reshape(-1, width),
                          xp.float32 if weight.dtype == xp.float16 else weight.dtype)
    return rows, sums.astype(weight.dtype, copy=False)
