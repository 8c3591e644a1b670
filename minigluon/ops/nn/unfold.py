"""Windows as columns and back: ``im2col``, ``col2im``."""
from __future__ import annotations

from typing import Any

from ...base import ShapeError
from ..attrs import Shape
from ..operator import Attrs, operator
from ..rules import Shapes, follow_dtype, known, like_shape, size_of
from .correlation import Geometry, geometry_of
from .window import window_slices

__all__: list[str] = []

Array = Any


def _geometry(op: str, attrs: Attrs) -> Geometry:
    return geometry_of(op, {**attrs, "num_group": 1, "layout": None})


def _places(size: tuple[int, ...], geometry: Geometry) -> tuple[int, ...]:
    """How many windows there are along each axis."""
    if len(size) != len(geometry.kernel):
        raise ShapeError(f"expected {len(geometry.kernel)} spatial axes for kernel "
                         f"{geometry.kernel}, got sizes {size}")
    places = geometry.out_size(size)
    if known(size) and min(places) < 1:
        raise ShapeError(f"kernel {geometry.kernel} with pad {geometry.pad} is larger than "
                         f"the spatial sizes {size}; use more pad or a smaller kernel")
    return places


def _columns_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    shape, geometry = shapes[0], _geometry("im2col", attrs)
    if shape is None:
        return shapes, [None]
    if len(shape) < 3:
        raise ShapeError(f"expected data of shape (N, C, *spatial), got {shape}")
    places = _places(shape[2:], geometry)
    return shapes, [(shape[0], shape[1] * size_of(geometry.kernel), size_of(places))]


def _image_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    shape, geometry, size = shapes[0], _geometry("col2im", attrs), tuple(attrs["output_size"])
    places = _places(size, geometry)
    if shape is None:
        return shapes, [(0, 0, *size)]
    area = size_of(geometry.kernel)
    if len(shape) != 3 or shape[1] % area or shape[2] not in (0, size_of(places)):
        raise ShapeError(f"expected data of shape (N, C * {area}, {size_of(places)}) for "
                         f"output_size {size} and kernel {geometry.kernel}, got {shape}")
    return shapes, [(shape[0], shape[1] // area, *size)]


def _unfold(xp: Any, data: Array, geometry: Geometry) -> Array:
    padded = xp.pad(data, ((0, 0), (0, 0), *((p, p) for p in geometry.pad)))
    places = geometry.out_size(data.shape[2:])
    out = xp.empty((*data.shape[:2], *geometry.kernel, *places), data.dtype)
    lead = (slice(None), slice(None))
    for position, where in window_slices(geometry.kernel, geometry.stride, geometry.dilate,
                                         places):
        out[(*lead, *position)] = padded[(*lead, *where)]
    return out.reshape(len(data), data.shape[1] * size_of(geometry.kernel), size_of(places))


def _fold(xp: Any, columns: Array, size: tuple[int, ...], geometry: Geometry) -> Array:
    places, lead = geometry.out_size(size), (slice(None), slice(None))
    channels = columns.shape[1] // size_of(geometry.kernel)
    parts = columns.reshape(len(columns), channels, *geometry.kernel, *places)
    padded = tuple(n + 2 * p for n, p in zip(size, geometry.pad, strict=True))
    out = xp.zeros((len(columns), channels, *padded), columns.dtype)
    for position, where in window_slices(geometry.kernel, geometry.stride, geometry.dilate,
                                         places):
        out[(*lead, *where)] += parts[(*lead, *position)]
    inside = (slice(p, p + n) for n, p in zip(size, geometry.pad, strict=True))
    return xp.ascontiguousarray(out[(*lead, *inside)])


@operator("im2col", infer=_columns_shape,
          gradient=lambda F, dy, out, data, **attrs: [F._im2col_grad(dy, data, **attrs)])
def im2col(xp: Any, data: Array, *, kernel: Shape, stride: Shape = (), dilate: Shape = (),
           pad: Shape = ()) -> Array:
    """Every window of an image as a column, as convolution multiplies them.

    Args:
        data: images. kernel, stride, dilate, pad: as for Convolution, one number for each of 1, 2
            or 3 spatial axes.

    Shapes: data (N, C, *S) -> (N, C * product of kernel, number of windows).

    >>> import minigluon as mx
    >>> mx.nd.im2col(mx.nd.arange(4).reshape((1, 1, 4)), kernel=(2,)).asnumpy()[0].tolist()
    [[0.0, 1.0, 2.0], [1.0, 2.0, 3.0]]
    """
    attrs = {"kernel": kernel, "stride": stride, "dilate": dilate, "pad": pad}
    _columns_shape([data.shape], attrs)
    return _unfold(xp, data, _geometry("im2col", attrs))


@operator("_im2col_grad", infer=like_shape(1), infer_dtype=follow_dtype(0),
          gradient=lambda F, dy, out, grad, data, **attrs: [F.im2col(dy, **attrs), None])
def _im2col_grad(xp: Any, grad: Array, data: Array, *, kernel: Shape, stride: Shape = (),
                 dilate: Shape = (), pad: Shape = ()) -> Array:
    """Columns added up where their windows lie in `data`."""
    return _fold(xp, grad, data.shape[2:], _geometry("im2col", {
        "kernel": kernel, "stride": stride, "dilate": dilate, "pad": pad}))


def _col2im_gradient(F: Any, dy: Any, out: Any, data: Any, *, output_size: Any, **attrs: Any
                     ) -> list[Any]:
    return [F.im2col(dy, **attrs)]


@operator("col2im", infer=_image_shape, gradient=_col2im_gradient)
def col2im(xp: Any, data: Array, *, output_size: Shape, kernel: Shape, stride: Shape = (),
           dilate: Shape = (), pad: Shape = ()) -> Array:
    """Columns put back into an image: values that fall on one place are added up.

    Args:
        data: columns as `im2col` makes them. output_size: spatial sizes of the image.
        kernel, stride, dilate, pad: those that `im2col` had.

    Shapes: data (N, C * product of kernel, number of windows) -> (N, C, *output_size).

    >>> import minigluon as mx
    >>> columns = mx.nd.ones((1, 2, 3))
    >>> mx.nd.col2im(columns, output_size=(4,), kernel=(2,)).asnumpy()[0].tolist()
    [[1.0, 2.0, 2.0, 1.0]]
    """
    return _fold(xp, data, tuple(output_size), _geometry("col2im", {
        "kernel": kernel, "stride": stride, "dilate": dilate, "pad": pad}))
