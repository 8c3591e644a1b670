"""Which reference each anchor belongs to, and what the network should say about the difference."""
from __future__ import annotations

from typing import Any

from ...base import ShapeError
from ..operator import Attrs, operator
from ..rules import DTypes, Shapes, merge_shapes, no_gradient
from .box import Format, as_centers, boxes_of

__all__: list[str] = []

Array = Any


def _matching_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data = shapes[0]
    if data is None:
        return shapes, [None, None]
    if len(data) < 2:
        raise ShapeError(f"expected scores (rows, columns) on the last two axes, got {data}")
    return shapes, [data[:-1], (*data[:-2], data[-1])]


def _twice(dtypes: DTypes, attrs: Attrs) -> tuple[DTypes, DTypes]:
    return dtypes, [dtypes[0]] * 2


@operator("_contrib_bipartite_matching", infer=_matching_shape, infer_dtype=_twice,
          gradient=no_gradient, num_outputs=2)
def bipartite_matching(xp: Any, data: Array, *, is_ascend: bool = False, threshold: float,
                       topk: int = -1) -> tuple[Array, Array]:
    """Pairs of rows and columns, best score first, each row and column at most once.

    Args:
        data: scores. is_ascend: small scores are good. threshold: worse scores make no pair.
        topk: at most so many pairs; -1: no limit.

    Shapes: data (*S, N, M) -> (*S, N): each row's column or -1; (*S, M): each column's row or -1.

    >>> import minigluon as mx
    >>> rows, columns = mx.nd.contrib.bipartite_matching(
    ...     mx.nd.array([[0.5, 0.6], [0.1, 0.2], [0.3, 0.4]]), threshold=1e-12)
    >>> rows.asnumpy().tolist(), columns.asnumpy().tolist()
    ([1.0, -1.0, 0.0], [2.0, 0.0])
    """
    _matching_shape([data.shape], {})
    batches = data.reshape(-1, *data.shape[-2:])
    of_row = xp.full(batches.shape[:2], -1, data.dtype)
    of_column = xp.full((len(batches), data.shape[-1]), -1, data.dtype)
    for scores, rows, columns in zip(batches, of_row, of_column, strict=True):
        flat = scores.reshape(-1)
        order = xp.argsort(flat if is_ascend else -flat, kind="stable")
        pairs = 0
        for place in order.tolist():
            row, column = divmod(place, data.shape[-1])
            if rows[row] >= 0 or columns[column] >= 0:
                continue
            value = float(flat[place])
            if value > threshold if is_ascend else value < threshold:
                break
            rows[row], columns[column] = column, row
            pairs += 1
            if 0 < topk <= pairs:
                break
    return of_row.reshape(data.shape[:-1]), of_column.reshape(*data.shape[:-2], data.shape[-1])


# -- offsets ---------------------------------------------------------------------------------------

def _encode_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    samples, matches, anchors, refs, means, stds = shapes
    boxes_of(refs, "refs")
    anchors = boxes_of(anchors, "anchors")
    both = merge_shapes(samples, matches, "shapes of samples and matches")
    if anchors is not None:
        both = merge_shapes(both, anchors[:-1], "shapes of samples and anchors")
    four = (4,)
    done = None if both is None else (*both, 4)
    return [both, both, done if anchors is None else anchors, refs, merge_shapes(means, four),
            merge_shapes(stds, four)], [done, done]


def _encode_dtype(dtypes: DTypes, attrs: Attrs) -> tuple[DTypes, DTypes]:
    led = dtypes[2] or dtypes[0]
    return [dtype or led for dtype in dtypes], [led] * 2


@operator("_contrib_box_encode", infer=_encode_shape, gradient=no_gradient, num_outputs=2,
          infer_dtype=_encode_dtype)
def box_encode(xp: Any, samples: Array, matches: Array, anchors: Array, refs: Array, means: Array,
               stds: Array) -> tuple[Array, Array]:
    """What a network should say to turn anchors into the boxes they match: offsets and a mask.

    Args:
        samples: 1 for anchors to learn, others are masked. matches: each anchor's reference.
        anchors, refs: corner boxes. means, stds: the offsets are (offset - means) / stds.

    Shapes: samples (B, N), matches (B, N), anchors (B, N, 4), refs (B, M, 4), means (4,),
        stds (4,) -> (B, N, 4) and (B, N, 4).

    >>> import minigluon as mx
    >>> one, box = mx.nd.ones((1, 1)), mx.nd.array([[[0, 0, 2, 2]]])
    >>> offsets, mask = mx.nd.contrib.box_encode(one, one * 0, box, box, mx.nd.zeros(4),
    ...                                          mx.nd.ones(4))
    >>> offsets.asnumpy().tolist(), mask.asnumpy().tolist()
    ([[[0.0, 0.0, 0.0, 0.0]]], [[[1.0, 1.0, 1.0, 1.0]]])
    """
    _encode_shape([array.shape for array in (samples, matches, anchors, refs, means, stds)], {})
    chosen = xp.take_along_axis(refs, matches.astype("int64")[..., None], axis=1)
    from_box, to_box = as_centers(xp, anchors, "corner"), as_centers(xp, chosen, "corner")
    moved = (to_box[..., :2] - from_box[..., :2]) / from_box[..., 2:]
    grown = xp.log(to_box[..., 2:] / from_box[..., 2:])
    offsets = (xp.concatenate([moved, grown], axis=-1) - means) / stds
    learnt = (samples > 0.5)[..., None]
    mask = xp.broadcast_to(learnt, offsets.shape).astype(anchors.dtype)
    return xp.where(learnt, offsets, 0).astype(anchors.dtype, copy=False), mask


def _decode_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data, anchors = boxes_of(shapes[0], "data"), boxes_of(shapes[1], "anchors")
    if data is not None and len(data) != 3:
        raise ShapeError(f"expected data (batch, boxes, 4), got {data}")
    if data is not None and anchors is not None:
        merge_shapes((1, *data[1:]), anchors, "shapes of anchors (needed and given)")
    return [data, anchors], [data]


@operator("_contrib_box_decode", infer=_decode_shape, gradient=no_gradient)
def box_decode(
    xp: Any, data: Array, anchors: Array, *, std0: float = 1.0, std1: float = 1.0,
    std2: float = 1.0, std3: float = 1.0, clip: float = -1.0, format: Format = "center",
) -> Array:
    """Anchors turned into boxes by what a network says: corner boxes.

    Args:
        data: offsets, as box_encode makes them. anchors: boxes. std0, std1, std2, std3: what the
            offsets are multiplied with. clip: the largest logarithm of growth; not positive: none.
        format: of the anchors.

    Shapes: data (B, N, 4), anchors (1, N, 4) -> (B, N, 4).

    >>> import minigluon as mx
    >>> still, box = mx.nd.zeros((1, 1, 4)), mx.nd.array([[[1, 1, 2, 2]]])
    >>> mx.nd.contrib.box_decode(still, box).asnumpy().tolist()
    [[[0.0, 0.0, 2.0, 2.0]]]
    """
    _decode_shape([data.shape, anchors.shape], {})
    scaled = data * xp.asarray([std0, std1, std2, std3], dtype=data.dtype)
    boxes = as_centers(xp, anchors, format)
    growth = scaled[..., 2:]
    if clip > 0:
        growth = xp.minimum(growth, data.dtype.type(clip))
    center = scaled[..., :2] * boxes[..., 2:] + boxes[..., :2]
    half = xp.exp(growth) * boxes[..., 2:] / 2
    return xp.concatenate([center - half, center + half], axis=-1).astype(data.dtype, copy=False)
