"""Max pooling of 2 by 2 windows side by side that tells where each maximum stood.

Graphs use it for images in blocks (`graph/layout.py`): a backward then needs a byte for each window
instead of the pooled image. Alone, or joined to the convolution before it and to the gradients
behind it (`graph/pooled.py`); what is joined exists in programs only and has no gradient.
"""
from __future__ import annotations

from typing import Any

from ...base import ShapeError
from ..attrs import Shape
from ..operator import Attrs, MaybeShape, operator
from .conv import conv_grad_data, conv_grad_weight, convolution

__all__ = ["conv_pool", "conv_pool_grad_data", "conv_pool_grad_weight", "pool_two",
           "pool_two_pick", "pool_two_spread"]


def _halved(shape: MaybeShape) -> MaybeShape:
    if shape is None:
        return None
    if len(shape) < 4 or shape[2] % 2 or shape[3] % 2:
        raise ShapeError(f"expected data (N, C, H, W, ...) with even H and W, got {shape}")
    return (*shape[:2], shape[2] // 2, shape[3] // 2, *shape[4:])


def _doubled(shape: MaybeShape) -> MaybeShape:
    return shape and (*shape[:2], 2 * shape[2], 2 * shape[3], *shape[4:])


def _pool_shape(shapes: list[MaybeShape], attrs: Attrs
                ) -> tuple[list[MaybeShape], list[MaybeShape]]:
    return shapes, [_halved(shapes[0])] * 2


def _first_type(dtypes: list[str | None], attrs: Attrs
                ) -> tuple[list[str | None], list[str | None]]:
    return dtypes, [dtypes[0]]


def _with_places(dtypes: list[str | None], attrs: Attrs
                 ) -> tuple[list[str | None], list[str | None]]:
    return dtypes, [dtypes[0], "uint8"]


def _quarters(data: Any) -> list[Any]:
    return [data[:, :, y::2, x::2] for y in (0, 1) for x in (0, 1)]


def _pool_gradient(F: Any, dy: Any, out: Any, data: Any) -> list[Any]:
    return [None if dy[0] is None else F._pool_two_spread(dy[0], out[1])]


@operator("_pool_two", infer=_pool_shape, infer_dtype=_with_places, num_outputs=2, visible=1,
          gradient=_pool_gradient, output_names=("output", "place"))
def pool_two(xp: Any, data: Any) -> tuple[Any, Any]:
    """The maxima of windows of 2 by 2 side by side, and which of its four each is.

    Shapes:
        data (N, C, H, W, ...) with even H and W -> (N, C, H / 2, W / 2, ...), and hidden the
        places, uint8: 0 and 1 in the window's first row, 2 and 3 in the second; of equal ones the
        first, of nan the last.

    >>> import numpy as np
    >>> out, place = pool_two.body(np, np.array([[[[1.0, 3, 0, 0], [4, 2, 0, 5]]]]))
    >>> out.tolist(), place.tolist()
    ([[[[4.0, 5.0]]]], [[[[2, 3]]]])
    """
    best, *others = _quarters(data)
    best, place = best.copy(), xp.zeros(best.shape, xp.uint8)
    for number, other in enumerate(others, 1):
        larger = (other > best) | (other != other)
        best[larger] = other[larger]
        place[larger] = number
    return best, place


@operator("_pool_two_spread", infer=lambda shapes, attrs: (shapes, [_doubled(shapes[0])]),
          infer_dtype=_first_type,
          gradient=lambda F, u, out, dy, place: [F._pool_two_pick(u, place), None])
def pool_two_spread(xp: Any, dy: Any, place: Any) -> Any:
    """The gradient of `_pool_two`: each number goes to its place in the window, 0 to the others.

    Shapes: dy (N, C, H, W, ...), place likewise -> (N, C, 2 H, 2 W, ...).
    """
    made = xp.empty(_doubled(dy.shape), dy.dtype)
    for number, part in enumerate(_quarters(made)):
        part[...] = xp.where(place == number, dy, 0)
    return made


@operator("_pool_two_pick", infer=lambda shapes, attrs: (shapes, [_halved(shapes[0])]),
          infer_dtype=_first_type,
          gradient=lambda F, u, out, data, place: [F._pool_two_spread(u, place), None])
def pool_two_pick(xp: Any, data: Any, place: Any) -> Any:
    """Of each window of 2 by 2 what stands at its place: the transpose of `_pool_two_spread`.

    Shapes: data (N, C, 2 H, 2 W, ...), place (N, C, H, W, ...) -> (N, C, H, W, ...).
    """
    return sum(xp.where(place == number, part, 0) for number, part in enumerate(_quarters(data)))


# -- joined to convolutions ------------------------------------------------------------------------


def _conv_shape(shapes: list[MaybeShape], attrs: Attrs
                ) -> tuple[list[MaybeShape], list[MaybeShape]]:
    assert convolution.infer is not None
    inputs, [out] = convolution.infer(shapes, attrs)
    return inputs, [_halved(out)] * 2


@operator("_conv_pool", infer=_conv_shape, infer_dtype=_with_places, num_outputs=2,
          inputs=lambda attrs: ("data", "weight", *(() if attrs["no_bias"] else ("bias",))))
def conv_pool(
    xp: Any, data: Any, weight: Any, bias: Any = None, *, kernel: Shape, stride: Shape = (),
    dilate: Shape = (), pad: Shape = (), num_filter: int, num_group: int = 1,
    workspace: int = 1024, no_bias: bool = False, cudnn_tune: str | None = None,
    cudnn_off: bool = False, layout: str | None = None,
) -> tuple[Any, Any]:
    """`_pool_two` of Convolution. Shapes: as these."""
    out = convolution.body(
        xp, data, weight, bias, kernel=kernel, stride=stride, dilate=dilate, pad=pad,
        num_filter=num_filter, num_group=num_group, layout=layout)
    return pool_two.body(xp, out)  # type: ignore[no-any-return]


@operator("_conv_pool_grad_data", infer=lambda shapes, attrs: (shapes, [shapes[3]]),
          infer_dtype=_first_type)
def conv_pool_grad_data(
    xp: Any, dy: Any, place: Any, weight: Any, data: Any, *, kernel: Shape, stride: Shape = (),
    dilate: Shape = (), pad: Shape = (), num_filter: int, num_group: int = 1,
    workspace: int = 1024, no_bias: bool = False, cudnn_tune: str | None = None,
    cudnn_off: bool = False, layout: str | None = None,
) -> Any:
    """`_conv_grad_data` of what `_pool_two_spread` makes of dy. Shapes: as these."""
    return conv_grad_data.body(
        xp, pool_two_spread.body(xp, dy, place), weight, data, kernel=kernel, stride=stride,
        dilate=dilate, pad=pad, num_filter=num_filter, num_group=num_group, layout=layout)


@operator("_conv_pool_grad_weight", infer=lambda shapes, attrs: (shapes, [shapes[3]]),
          infer_dtype=_first_type)
def conv_pool_grad_weight(
    xp: Any, dy: Any, place: Any, data: Any, weight: Any, *, kernel: Shape, stride: Shape = (),
    dilate: Shape = (), pad: Shape = (), num_filter: int, num_group: int = 1,
    workspace: int = 1024, no_bias: bool = False, cudnn_tune: str | None = None,
    cudnn_off: bool = False, layout: str | None = None,
) -> Any:
    """`_conv_grad_weight` of what `_pool_two_spread` makes of dy. Shapes: as these."""
    return conv_grad_weight.body(
        xp, pool_two_spread.body(xp, dy, place), data, weight, kernel=kernel, stride=stride,
        dilate=dilate, pad=pad, num_filter=num_filter, num_group=num_group, layout=layout)
