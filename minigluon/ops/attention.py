"""Products of multi-head attention on interleaved projections: (length, batch, heads * parts * D).

The gradients rebuild the projections from operators that are differentiable themselves.
"""
from __future__ import annotations

import math
from typing import Any

from ..base import ArgumentValueError, ShapeError
from .operator import Attrs, MaybeShape, operator
from .rules import Shapes, merge_shapes, same_shape

__all__: list[str] = []

Array = Any


@operator("_contrib_div_sqrt_dim", infer=same_shape,
          gradient=lambda F, dy, out, data: [F._contrib_div_sqrt_dim(dy)])
def div_sqrt_dim(xp: Any, data: Array) -> Array:
    """The data divided by the square root of the size of its last axis.

    Args:
        data: any array.

    Shapes: data (*S, D) -> (*S, D).

    >>> import minigluon as mx
    >>> mx.nd.contrib.div_sqrt_dim(mx.nd.ones((1, 4))).asnumpy().tolist()
    [[0.5, 0.5, 0.5, 0.5]]
    """
    return data / data.dtype.type(math.sqrt(data.shape[-1]))


# -- shapes ----------------------------------------------------------------------------------------

def _checked(shape: MaybeShape, heads: int, parts: int, what: str) -> MaybeShape:
    if heads < 1:
        raise ArgumentValueError(f"heads: expected 1 or more, got {heads}")
    if shape is not None and (len(shape) != 3 or shape[2] % (heads * parts)):
        raise ShapeError(f"expected {what} of shape (length, batch, a multiple of {heads * parts} "
                         f"= heads * {parts}), got {shape}")
    return shape


def _scores(batch: int, heads: int, rows: int, columns: int) -> tuple[int, int, int]:
    return batch * heads, rows, columns


def _self_scores_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data = _checked(shapes[0], attrs["heads"], 3, "queries_keys_values")
    if data is None:
        return shapes, [None]
    return shapes, [_scores(data[1], attrs["heads"], data[0], data[0])]


def _cross_scores_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    queries = _checked(shapes[0], attrs["heads"], 1, "queries")
    both = _checked(shapes[1], attrs["heads"], 2, "keys_values")
    if queries is None or both is None:
        return shapes, [None]
    merge_shapes(queries[1:], (both[1], both[2] // 2), "batch and width of queries and keys")
    return shapes, [_scores(queries[1], attrs["heads"], queries[0], both[0])]


def _values_shape(shapes: Shapes, attrs: Attrs, parts: int) -> tuple[Shapes, Shapes]:
    data = _checked(shapes[0], attrs["heads"], parts, "values")
    weights = shapes[1]
    if data is None:
        return shapes, [None]
    weights = merge_shapes(weights, _scores(data[1], attrs["heads"], 0, data[0]),
                           "shapes of attention (given, and (batch heads, queries, values))")
    assert weights is not None
    return [data, weights], [(weights[1], data[1], data[2] // parts)]


# -- numbers ---------------------------------------------------------------------------------------

def _part(data: Array, heads: int, parts: int, place: int) -> Array:
    """One of the interleaved projections as (batch heads, length, D)."""
    length, batch, width = data.shape
    inner = data.reshape(length, batch, heads, parts, width // (heads * parts))[:, :, :, place]
    return inner.transpose(1, 2, 0, 3).reshape(batch * heads, length, -1)


def _scaled_product(xp: Any, queries: Array, keys: Array) -> Array:
    scale = queries.dtype.type(1 / math.sqrt(queries.shape[-1]))
    return xp.matmul(queries * scale, keys.transpose(0, 2, 1))


def _weighted(xp: Any, weights: Array, values: Array, heads: int) -> Array:
    found = xp.matmul(weights, values)
    batch = found.shape[0] // heads
    split = found.reshape(batch, heads, *found.shape[1:]).transpose(2, 0, 1, 3)
    return split.reshape(found.shape[1], batch, -1)


# -- the same with the functions of F, for gradients -----------------------------------------------

def _f_part(F: Any, data: Any, heads: int, parts: int, place: int) -> Any:
    split = F.reshape(data, shape=(0, 0, heads, parts, -1))
    one = F.reshape(F.slice_axis(split, axis=3, begin=place, end=place + 1),
                    shape=(0, 0, heads, -1))
    return F.reshape(F.transpose(one, axes=(1, 2, 0, 3)), shape=(-3, 0, 0))


def _f_back(F: Any, part: Any, heads: int) -> Any:
    """(batch heads, length, D) -> (length, batch, heads, 1, D)."""
    split = F.reshape(part, shape=(-4, -1, heads, 0, 0))
    return F.expand_dims(F.transpose(split, axes=(2, 0, 1, 3)), axis=3)


def _f_interleaved(F: Any, parts: list[Any], heads: int, like: Any) -> Any:
    """Gradients of the projections put together again; None stands for zeros."""
    known = [None if part is None else _f_back(F, part, heads) for part in parts]
    some = next(part for part in known if part is not None)
    full = [F.zeros_like(some) if part is None else part for part in known]
    return F.reshape_like(full[0] if len(full) == 1 else F.concat(*full, dim=3), like)


def _score_grads(F: Any, dy: Any, queries: Any, keys: Any) -> tuple[Any, Any]:
    to_queries = F._contrib_div_sqrt_dim(F.batch_dot(dy, keys))
    return to_queries, F.batch_dot(dy, F._contrib_div_sqrt_dim(queries), transpose_a=True)


def _self_scores_back(F: Any, dy: Any, out: Any, data: Any, *, heads: int) -> list[Any]:
    queries, keys = (_f_part(F, data, heads, 3, place) for place in (0, 1))
    to_queries, to_keys = _score_grads(F, dy, queries, keys)
    return [_f_interleaved(F, [to_queries, to_keys, None], heads, data)]


def _cross_scores_back(F: Any, dy: Any, out: Any, queries: Any, both: Any, *, heads: int
                       ) -> list[Any]:
    to_queries, to_keys = _score_grads(F, dy, _f_part(F, queries, heads, 1, 0),
                                       _f_part(F, both, heads, 2, 0))
    return [_f_interleaved(F, [to_queries], heads, queries),
            _f_interleaved(F, [to_keys, None], heads, both)]


def _values_back(F: Any, dy: Any, data: Any, weights: Any, heads: int, parts: int) -> list[Any]:
    inner = _f_part(F, dy, heads, 1, 0)
    to_weights = F.batch_dot(inner, _f_part(F, data, heads, parts, parts - 1), transpose_b=True)
    to_values = F.batch_dot(weights, inner, transpose_a=True)
    rest = [None] * (parts - 1)
    return [_f_interleaved(F, [*rest, to_values], heads, data), to_weights]


# -- operators -------------------------------------------------------------------------------------

@operator("_contrib_interleaved_matmul_selfatt_qk", infer=_self_scores_shape,
          gradient=_self_scores_back)
def selfatt_qk(xp: Any, queries_keys_values: Array, *, heads: int) -> Array:
    """The scores of self attention: queries / sqrt(D) times keys, for each sample and head.

    Args:
        queries_keys_values: the three projections, interleaved by head. heads: how many.

    Shapes: queries_keys_values (L, B, 3 H D) -> (B H, L, L).

    >>> import minigluon as mx
    >>> x = mx.nd.ones((5, 2, 3 * 4 * 8))
    >>> mx.nd.contrib.interleaved_matmul_selfatt_qk(x, heads=4).shape
    (8, 5, 5)
    """
    _checked(queries_keys_values.shape, heads, 3, "queries_keys_values")
    queries, keys = (_part(queries_keys_values, heads, 3, place) for place in (0, 1))
    return _scaled_product(xp, queries, keys)


@operator("_contrib_interleaved_matmul_selfatt_valatt",
          infer=lambda shapes, attrs: _values_shape(shapes, attrs, 3),
          gradient=lambda F, dy, out, data, weights, heads: _values_back(
              F, dy, data, weights, heads, 3))
def selfatt_valatt(xp: Any, queries_keys_values: Array, attention: Array, *, heads: int) -> Array:
    """The values of self attention weighted by the attention.

    Args:
        queries_keys_values: the three projections, interleaved by head.
        attention: weights for each sample and head. heads: how many.

    Shapes: queries_keys_values (L, B, 3 H D), attention (B H, L, L) -> (L, B, H D).

    >>> import minigluon as mx
    >>> x, w = mx.nd.ones((5, 2, 3 * 4 * 8)), mx.nd.ones((8, 5, 5))
    >>> mx.nd.contrib.interleaved_matmul_selfatt_valatt(x, w, heads=4).shape
    (5, 2, 32)
    """
    _values_shape([queries_keys_values.shape, attention.shape], {"heads": heads}, 3)
    return _weighted(xp, attention, _part(queries_keys_values, heads, 3, 2), heads)


@operator("_contrib_interleaved_matmul_encdec_qk", infer=_cross_scores_shape,
          gradient=_cross_scores_back)
def encdec_qk(xp: Any, queries: Array, keys_values: Array, *, heads: int) -> Array:
    """The scores of attention between two sequences: queries / sqrt(D) times keys.

    Args:
        queries: their projection. keys_values: two projections, interleaved by head.
        heads: how many.

    Shapes: queries (L, B, H D), keys_values (K, B, 2 H D) -> (B H, L, K).

    >>> import minigluon as mx
    >>> q, kv = mx.nd.ones((5, 2, 32)), mx.nd.ones((7, 2, 64))
    >>> mx.nd.contrib.interleaved_matmul_encdec_qk(q, kv, heads=4).shape
    (8, 5, 7)
    """
    _cross_scores_shape([queries.shape, keys_values.shape], {"heads": heads})
    return _scaled_product(xp, _part(queries, heads, 1, 0), _part(keys_values, heads, 2, 0))


@operator("_contrib_interleaved_matmul_encdec_valatt",
          infer=lambda shapes, attrs: _values_shape(shapes, attrs, 2),
          gradient=lambda F, dy, out, data, weights, heads: _values_back(
              F, dy, data, weights, heads, 2))
def encdec_valatt(xp: Any, keys_values: Array, attention: Array, *, heads: int) -> Array:
    """The values of attention between two sequences, weighted by the attention.

    Args:
        keys_values: two projections, interleaved by head.
        attention: weights for each sample and head. heads: how many.

    Shapes: keys_values (K, B, 2 H D), attention (B H, L, K) -> (L, B, H D).

    >>> import minigluon as mx
    >>> kv, w = mx.nd.ones((7, 2, 64)), mx.nd.ones((8, 5, 7))
    >>> mx.nd.contrib.interleaved_matmul_encdec_valatt(kv, w, heads=4).shape
    (5, 2, 32)
    """
    _values_shape([keys_values.shape, attention.shape], {"heads": heads}, 2)
    return _weighted(xp, attention, _part(keys_values, heads, 2, 1), heads)
