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


def _f_scores(F: Any, pairs: list[tuple[Any, Any]]) -> Any:
    """The sum of left right^T / sqrt(D) over the pairs."""
    found = [F.batch_dot(F._contrib_div_sqrt_dim(left), right, transpose_b=True)
             for left, right in pairs]
    return F.add_n(*found)


# -- gradients, and what goes back through them: each product is linear in both factors ------------

def _unpart(xp: Any, grads: dict[int, Array], heads: int, parts: int) -> Array:
    """The opposite of `_part`: projections put together, zeros where there is none."""
    one = next(iter(grads.values()))
    stack, length, depth = one.shape
    batch = stack // heads
    result = xp.zeros((length, batch, heads, parts, depth), dtype=one.dtype)
    for place, grad in grads.items():
        result[:, :, :, place] = grad.reshape(batch, heads, length, depth).transpose(2, 0, 1, 3)
    return result.reshape(length, batch, -1)


def _score_grads(xp: Any, dy: Array, queries: Array, keys: Array) -> tuple[Array, Array]:
    scale = dy.dtype.type(1 / math.sqrt(queries.shape[-1]))
    return xp.matmul(dy, keys * scale), xp.matmul(dy.transpose(0, 2, 1), queries * scale)


def _value_grads(xp: Any, dy: Array, values: Array, weights: Array, heads: int
                 ) -> tuple[Array, Array]:
    inner = _part(dy, heads, 1, 0)
    return (xp.matmul(weights.transpose(0, 2, 1), inner),
            xp.matmul(inner, values.transpose(0, 2, 1)))


def _self_scores_second(F: Any, u: Any, out: Any, dy: Any, data: Any, *, heads: int) -> list[Any]:
    (q, k), (uq, uk) = ([_f_part(F, one, heads, 3, place) for place in (0, 1)]
                        for one in (data, u))
    return [_f_scores(F, [(uq, k), (q, uk)]), F._selfatt_qk_grad(dy, u, heads=heads)]


@operator("_selfatt_qk_grad", infer=lambda shapes, attrs: (shapes, [shapes[1]]),
          gradient=_self_scores_second)
def selfatt_qk_grad(xp: Any, dy: Array, queries_keys_values: Array, *, heads: int) -> Array:
    """What goes back through the scores of self attention."""
    inner = [_part(queries_keys_values, heads, 3, place) for place in (0, 1)]
    return _unpart(xp, dict(enumerate(_score_grads(xp, dy, *inner))), heads, 3)


def _cross_scores_second(F: Any, us: list[Any], outs: Any, dy: Any, queries: Any, both: Any, *,
                         heads: int) -> list[Any]:
    pairs, to_queries, to_both = [], None, None
    if us[0] is not None:
        pairs.append((_f_part(F, us[0], heads, 1, 0), _f_part(F, both, heads, 2, 0)))
        to_both = F._encdec_qk_grad(dy, us[0], both, heads=heads)[1]
    if us[1] is not None:
        pairs.append((_f_part(F, queries, heads, 1, 0), _f_part(F, us[1], heads, 2, 0)))
        to_queries = F._encdec_qk_grad(dy, queries, us[1], heads=heads)[0]
    return [_f_scores(F, pairs), to_queries, to_both]


@operator("_encdec_qk_grad", num_outputs=2, gradient=_cross_scores_second,
          infer=lambda shapes, attrs: (shapes, shapes[1:]))
def encdec_qk_grad(xp: Any, dy: Array, queries: Array, keys_values: Array, *, heads: int
                   ) -> tuple[Array, Array]:
    """What goes back through the scores of attention between two sequences."""
    to_queries, to_keys = _score_grads(xp, dy, _part(queries, heads, 1, 0),
                                       _part(keys_values, heads, 2, 0))
    return _unpart(xp, {0: to_queries}, heads, 1), _unpart(xp, {0: to_keys}, heads, 2)


def _values_second(product: str) -> Any:
    """The gradient rule of what goes back through weighted values; `product` is their operator."""
    def rule(F: Any, us: list[Any], outs: Any, dy: Any, data: Any, weights: Any, *, heads: int
             ) -> list[Any]:
        forward = getattr(F, f"_contrib_interleaved_matmul_{product}")
        back = getattr(F, f"_{product}_grad")
        parts, to_data, to_weights = [], None, None
        if us[0] is not None:
            parts.append(forward(us[0], weights, heads=heads))
            to_weights = back(dy, us[0], weights, heads=heads)[1]
        if us[1] is not None:
            parts.append(forward(data, us[1], heads=heads))
            to_data = back(dy, data, us[1], heads=heads)[0]
        return [F.add_n(*parts), to_data, to_weights]
    return rule


@operator("_selfatt_valatt_grad", num_outputs=2, gradient=_values_second("selfatt_valatt"),
          infer=lambda shapes, attrs: (shapes, shapes[1:]))
def selfatt_valatt_grad(xp: Any, dy: Array, queries_keys_values: Array, attention: Array, *,
                        heads: int) -> tuple[Array, Array]:
    """What goes back through the weighted values of self attention."""
    to_values, to_weights = _value_grads(xp, dy, _part(queries_keys_values, heads, 3, 2),
                                         attention, heads)
    return _unpart(xp, {2: to_values}, heads, 3), to_weights


@operator("_encdec_valatt_grad", num_outputs=2, gradient=_values_second("encdec_valatt"),
          infer=lambda shapes, attrs: (shapes, shapes[1:]))
def encdec_valatt_grad(xp: Any, dy: Array, keys_values: Array, attention: Array, *, heads: int
                       ) -> tuple[Array, Array]:
    """What goes back through the weighted values of attention between two sequences."""
    to_values, to_weights = _value_grads(xp, dy, _part(keys_values, heads, 2, 1), attention, heads)
    return _unpart(xp, {1: to_values}, heads, 2), to_weights


# -- operators -------------------------------------------------------------------------------------

@operator("_contrib_interleaved_matmul_selfatt_qk", infer=_self_scores_shape,
          gradient=lambda F, dy, out, data, heads: [F._selfatt_qk_grad(dy, data, heads=heads)])
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
          gradient=lambda F, dy, out, *inputs, heads: F._selfatt_valatt_grad(
              dy, *inputs, heads=heads))
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
          gradient=lambda F, dy, out, *inputs, heads: F._encdec_qk_grad(
              dy, *inputs, heads=heads))
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
          gradient=lambda F, dy, out, *inputs, heads: F._encdec_valatt_grad(
              dy, *inputs, heads=heads))
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


# -- self attention as a whole: in compiled graphs (graph/rewrite.py joins its parts) --------------

def _whole_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    _, [scores] = _self_scores_shape(shapes, attrs)
    data = shapes[0]
    return shapes, [None if data is None else (*data[:2], data[2] // 3), scores]


@operator("_selfatt", infer=_whole_shape, num_outputs=2)
def selfatt(xp: Any, queries_keys_values: Array, *, heads: int) -> tuple[Array, Array]:
    """Values weighted by the softmax of the scores; the weights are the second output."""
    scores = selfatt_qk.body(xp, queries_keys_values, heads=heads)
    weights = xp.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return selfatt_valatt.body(xp, queries_keys_values, weights, heads=heads), weights


@operator("_selfatt_grad", infer=lambda shapes, attrs: (shapes, [shapes[1]]))
def selfatt_grad(xp: Any, dy: Array, queries_keys_values: Array, attention: Array, *, heads: int
                 ) -> Array:
    """What goes back through self attention as a whole; `attention`: the weights."""
    queries, keys, values = (_part(queries_keys_values, heads, 3, place) for place in range(3))
    to_values, to_weights = _value_grads(xp, dy, values, attention, heads)
    inner = (to_weights * attention).sum(axis=-1, keepdims=True)
    grads = _score_grads(xp, attention * (to_weights - inner), queries, keys)
    return _unpart(xp, {0: grads[0], 1: grads[1], 2: to_values}, heads, 3)
