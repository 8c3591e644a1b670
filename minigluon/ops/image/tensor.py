"""From pixels to what a network takes: to_tensor, normalize."""
from __future__ import annotations

from typing import Any

from ...base import ArgumentValueError, DTypeError, ShapeError
from ..operator import Attrs, MaybeShape, operator
from ..rules import fixed_dtype, merge_shapes, no_gradient, same_dtype

__all__: list[str] = []

Shapes = list[MaybeShape]
ShapePair = tuple[Shapes, Shapes]


def _tensor_shape(shapes: Shapes, attrs: Attrs) -> ShapePair:
    shape = shapes[0]
    if shape is None:
        return shapes, [None]
    if len(shape) not in (3, 4):
        raise ShapeError(
            f"expected an image (height, width, channels) or a batch (N, height, width, channels), "
            f"got {shape}"
        )
    return shapes, [(*shape[:-3], shape[-1], *shape[-3:-1])]


@operator("_image_to_tensor", infer=_tensor_shape, infer_dtype=fixed_dtype("float32"),
          gradient=no_gradient)
def to_tensor(xp: Any, data: Any) -> Any:
    """Pixels 0 to 255 to floats 0 to 1, channels first.

    Shapes: data (H, W, C) -> (C, H, W), (N, H, W, C) -> (N, C, H, W), float32.

    >>> import numpy as np
    >>> to_tensor.body(np, np.full((2, 3, 1), 51, np.uint8))[0, 0].tolist()
    [0.20000000298023224, 0.20000000298023224, 0.20000000298023224]
    """
    _tensor_shape([data.shape], {})
    tensor = xp.ascontiguousarray(xp.moveaxis(data, -1, -3)).astype(xp.float32)
    tensor /= xp.float32(255)
    return tensor


def _normalize_shape(shapes: Shapes, attrs: Attrs, outs: Shapes | None = None) -> ShapePair:
    shape = merge_shapes(shapes[0], outs[0]) if outs else shapes[0]
    if shape is not None:
        if len(shape) not in (3, 4):
            raise ShapeError(
                f"expected an image (channels, height, width) or a batch (N, channels, height, "
                f"width), got {shape}"
            )
        channels = shape[-3]
        if channels not in (0, 1, 3):
            raise ShapeError(f"expected 1 or 3 channels in axis {len(shape) - 3}, got {shape}")
        for word in ("mean", "std"):
            if channels and len(attrs[word]) not in (1, channels):
                raise ArgumentValueError(
                    f"{word}: expected 1 or {channels} values for {channels} channels, "
                    f"got {attrs[word]}"
                )
    return [shape], [shape]


def _normalize_dtype(dtypes: list[Any], attrs: Attrs) -> tuple[list[Any], list[Any]]:
    if dtypes[0] is not None and not str(dtypes[0]).startswith("float"):
        raise DTypeError(f"expected floats, as ToTensor makes them, got {dtypes[0]}")
    return same_dtype(dtypes, attrs)


@operator("_image_normalize", infer=_normalize_shape, infer_dtype=_normalize_dtype,
          gradient=lambda F, dy, out, data, *, mean, std: [
              F._image_normalize(dy, mean=(0.0,), std=std)])
def normalize(xp: Any, data: Any, *, mean: tuple = (0.0,), std: tuple = (1.0,)) -> Any:
    """``(data - mean) / std`` for each channel.

    Shapes: data (C, H, W) or (N, C, H, W) with C 1 or 3, unchanged.

    >>> import numpy as np
    >>> normalize.body(np, np.ones((1, 1, 2)), mean=(0.5,), std=(0.25,)).tolist()
    [[[2.0, 2.0]]]
    """
    _normalize_shape([data.shape], {"mean": mean, "std": std})
    _normalize_dtype([data.dtype.name], {})
    result = data - xp.asarray(mean, dtype=data.dtype).reshape(-1, 1, 1)
    result /= xp.asarray(std, dtype=data.dtype).reshape(-1, 1, 1)
    return result
