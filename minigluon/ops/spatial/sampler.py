"""Images read at given points: grids, BilinearSampler, SpatialTransformer."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from ...base import ArgumentValueError, ShapeError
from ..attrs import Shape
from ..operator import Attrs, operator
from ..rules import Shapes, merge_shapes, same_shape
from .resample import image_of

__all__ = ["sample_points", "sample_points_grad"]

Array = Any
Transform = Literal["affine", "warp"]


# -- reading at points -----------------------------------------------------------------------------

def _corners(xp: Any, y: Array, x: Array, height: int, width: int, whole: bool
             ) -> Iterator[tuple[Array, Array, Array, Array, int, int]]:
    """For each of the four pixels around the points: where it lies in a flat image, whether it is
    inside, its shares along y and x, and the signs of their slopes."""
    top, left = xp.floor(y), xp.floor(x)
    within = (y >= 0) & (y < height) & (x >= 0) & (x < width)
    for down in (0, 1):
        for right in (0, 1):
            rows, columns = top + down, left + right
            if whole:
                inside = within
                rows, columns = xp.minimum(rows, height - 1), xp.minimum(columns, width - 1)
            else:
                inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
            flat = xp.where(inside, rows * width + columns, 0).astype("int64")
            share_y = (y - top) if down else 1 - (y - top)
            share_x = (x - left) if right else 1 - (x - left)
            yield (flat, inside.astype(y.dtype), share_y, share_x, 2 * down - 1, 2 * right - 1)


def _pixels(xp: Any, data: Array, flat: Array) -> Array:
    """data (N, C, H, W) at flat places (N, P) -> (N, C, P)."""
    images = data.reshape(*data.shape[:2], -1)
    return xp.take_along_axis(images, flat[:, None, :], axis=2)


def sample_points(xp: Any, data: Array, y: Array, x: Array, whole: bool = False) -> Array:
    """data (N, C, H, W) at points (N, P), interpolated; zero outside -> (N, C, P).

    Args:
        whole: a point within the image has the nearest pixels for its missing neighbours, and one
            outside is zero altogether; else missing neighbours count as zero.
    """
    out = None
    corners = _corners(xp, y, x, data.shape[2], data.shape[3], whole)
    for flat, inside, share_y, share_x, _, _ in corners:
        part = _pixels(xp, data, flat) * (inside * share_y * share_x)[:, None, :]
        out = part if out is None else out + part
    return out


def sample_points_grad(xp: Any, dy: Array, data: Array, y: Array, x: Array,
                       whole: bool = False) -> tuple[Array, Array, Array]:
    """Gradients of `sample_points` for data, y and x; dy (N, C, P)."""
    grad = xp.zeros((*data.shape[:2], data.shape[2] * data.shape[3]), data.dtype)
    grad_y, grad_x = xp.zeros_like(y), xp.zeros_like(x)
    images = xp.arange(data.shape[0])[:, None, None], xp.arange(data.shape[1])[None, :, None]
    corners = _corners(xp, y, x, data.shape[2], data.shape[3], whole)
    for flat, inside, share_y, share_x, slope_y, slope_x in corners:
        pull = (_pixels(xp, data, flat) * dy).sum(axis=1) * inside
        grad_y += slope_y * share_x * pull
        grad_x += slope_x * share_y * pull
        xp.add.at(grad, (*images, flat[:, None, :]), dy * (inside * share_y * share_x)[:, None, :])
    return grad.reshape(data.shape), grad_y, grad_x


# -- grids -----------------------------------------------------------------------------------------

def _base_grid(xp: Any, height: int, width: int, dtype: Any) -> Array:
    """Homogeneous coordinates (x, y, 1) of all pixels, from -1 to 1: (3, H W)."""
    x = xp.linspace(-1, 1, width) if width > 1 else xp.full((1,), -1.0)
    y = xp.linspace(-1, 1, height) if height > 1 else xp.full((1,), -1.0)
    columns, rows = xp.meshgrid(x, y)
    return xp.stack([columns.ravel(), rows.ravel(), xp.ones(height * width)]).astype(dtype)


def _target(attrs: Attrs) -> tuple[int, int]:
    sizes = attrs["target_shape"]
    if len(sizes) != 2 or min(sizes) < 1:
        raise ArgumentValueError(f"target_shape: expected height and width >= 1, got {sizes}")
    return sizes[0], sizes[1]


def _grid_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data = shapes[0]
    if attrs["transform_type"] == "affine":
        size = _target(attrs)
        data = merge_shapes(data, (0, 6), "shapes of data (given and (N, 6) for affine)")
        assert data is not None
        return [data], [(data[0], 2, *size)]
    data = image_of(data)
    if data is not None:
        data = merge_shapes(data, (0, 2, 0, 0), "shapes of data (given and (N, 2, H, W) for warp)")
    return [data], [data]


def _grid_back(F: Any, dy: Any, out: Any, data: Any, *, transform_type: str,
               target_shape: Shape) -> list[Any]:
    if transform_type == "affine":
        return [F._affine_grid_grad(dy, target_shape=target_shape)]
    return [F._warp_scale(dy)]


def _affine_grid(xp: Any, theta: Array, size: tuple[int, int]) -> Array:
    base = _base_grid(xp, *size, theta.dtype)
    return xp.matmul(theta.reshape(-1, 2, 3), base).reshape(-1, 2, *size)


@operator("GridGenerator", infer=_grid_shape, gradient=_grid_back)
def grid_generator(xp: Any, data: Array, *, transform_type: Transform,
                   target_shape: Shape = (0, 0)) -> Array:
    """Points for BilinearSampler: x and y for each pixel of its output, from -1 to 1.

    Args:
        data: for 'affine' matrices (2, 3) as rows of 6; for 'warp' a shift (x, y) in pixels of
            each pixel.
        transform_type: 'affine' or 'warp'. target_shape: (height, width) for 'affine'.

    Shapes: data (N, 6) -> (N, 2, *target_shape), or (N, 2, H, W) -> (N, 2, H, W).

    >>> import minigluon as mx
    >>> same = mx.nd.array([[1, 0, 0, 0, 1, 0]])
    >>> grid = mx.nd.GridGenerator(same, transform_type="affine", target_shape=(1, 2))
    >>> grid.asnumpy().tolist()
    [[[[-1.0, 1.0]], [[-1.0, -1.0]]]]
    """
    _grid_shape([data.shape], {"transform_type": transform_type, "target_shape": target_shape})
    if transform_type == "affine":
        return _affine_grid(xp, data, (target_shape[0], target_shape[1]))
    height, width = data.shape[2:]
    rows, columns = xp.meshgrid(xp.arange(height), xp.arange(width), indexing="ij")
    moved = data + xp.stack([columns, rows]).astype(data.dtype)
    return warp_scale.body(xp, moved) - 1


def _affine_grad_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    shape = image_of(shapes[0])
    return shapes, [None if shape is None else (shape[0], 6)]


@operator("_affine_grid_grad", infer=_affine_grad_shape,
          gradient=lambda F, u, out, dy, target_shape: [
              F.GridGenerator(u, transform_type="affine", target_shape=target_shape)])
def affine_grid_grad(xp: Any, dy: Array, *, target_shape: Shape) -> Array:
    """The gradient of an affine grid for its matrices."""
    base = _base_grid(xp, target_shape[0], target_shape[1], dy.dtype)
    return xp.matmul(dy.reshape(dy.shape[0], 2, -1), base.T).reshape(-1, 6)


@operator("_warp_scale", infer=same_shape,
          gradient=lambda F, dy, out, data: [F._warp_scale(dy)])
def warp_scale(xp: Any, data: Array) -> Array:
    """Pixels turned into units of which two span the image: channel 0 by width, 1 by height."""
    height, width = data.shape[2:]
    factors = [2 / max(width - 1, 1), 2 / max(height - 1, 1)]
    return data * xp.asarray(factors, dtype=data.dtype).reshape(1, 2, 1, 1)


# -- the sampler -----------------------------------------------------------------------------------

def _points(data: Array, grid: Array) -> tuple[Array, Array]:
    """The grid in pixels: y and x of shape (N, P)."""
    height, width = data.shape[2:]
    flat = grid.reshape(grid.shape[0], 2, -1)
    return (flat[:, 1] + 1) * ((height - 1) / 2), (flat[:, 0] + 1) * ((width - 1) / 2)


def _sampler_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data, grid = image_of(shapes[0]), image_of(shapes[1], "grid")
    if data is None or grid is None:
        return shapes, [None]
    grid = merge_shapes(grid, (data[0], 2, 0, 0), "shapes of grid (given and (N, 2, H, W))")
    assert grid is not None
    return [data, grid], [(grid[0], data[1], *grid[2:])]


@operator("BilinearSampler", infer=_sampler_shape,
          gradient=lambda F, dy, out, data, grid, **_: list(
              F._bilinear_sampler_grad(dy, data, grid)))
def bilinear_sampler(xp: Any, data: Array, grid: Array, *, cudnn_off: bool | None = None) -> Array:
    """Images read at the points of a grid, interpolated between pixels; zero outside.

    Args:
        data: images. grid: x and y of each point, -1 and 1 being the middles of the outermost
            pixels. cudnn_off: accepted and ignored.

    Shapes: data (N, C, H, W), grid (N, 2, P, Q) -> (N, C, P, Q).

    >>> import minigluon as mx
    >>> x = mx.nd.array([1, 3]).reshape((1, 1, 1, 2))
    >>> mx.nd.BilinearSampler(x, mx.nd.zeros((1, 2, 1, 1))).item()
    2.0
    """
    _sampler_shape([data.shape, grid.shape], {})
    out = sample_points(xp, data, *_points(data, grid))
    return out.astype(data.dtype, copy=False).reshape(*data.shape[:2], *grid.shape[2:])


def _sampler_grad_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    return shapes, list(shapes[1:])


@operator("_bilinear_sampler_grad", infer=_sampler_grad_shape, num_outputs=2,
          infer_dtype=lambda dtypes, attrs: (dtypes, dtypes[1:]))
def bilinear_sampler_grad(xp: Any, dy: Array, data: Array, grid: Array) -> tuple[Array, Array]:
    """Gradients of BilinearSampler for data and grid."""
    flat = dy.reshape(*dy.shape[:2], -1)
    grad, grad_y, grad_x = sample_points_grad(xp, flat, data, *_points(data, grid))
    height, width = data.shape[2:]
    both = xp.stack([grad_x * ((width - 1) / 2), grad_y * ((height - 1) / 2)], axis=1)
    return (grad.astype(data.dtype, copy=False),
            both.reshape(grid.shape).astype(grid.dtype, copy=False))


def _transformer_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data, loc = image_of(shapes[0]), shapes[1]
    if data is None:
        return shapes, [None]
    loc = merge_shapes(loc, (data[0], 6), "shapes of loc (given and (N, 6))")
    if any(attrs["target_shape"]):
        return [data, loc], [(*data[:2], *_target(attrs))]
    raise ShapeError(f"expected a target_shape (height, width), got {attrs['target_shape']}")


def _transformer_back(F: Any, dy: Any, out: Any, data: Any, loc: Any, *, target_shape: Shape,
                      **_: Any) -> list[Any]:
    grid = F.GridGenerator(loc, transform_type="affine", target_shape=target_shape)
    grad, grad_grid = F._bilinear_sampler_grad(dy, data, grid)
    return [grad, F._affine_grid_grad(grad_grid, target_shape=target_shape)]


@operator("SpatialTransformer", infer=_transformer_shape, gradient=_transformer_back)
def spatial_transformer(
    xp: Any, data: Array, loc: Array, *, target_shape: Shape = (0, 0),
    transform_type: Literal["affine"], sampler_type: Literal["bilinear"],
    cudnn_off: bool | None = None,
) -> Array:
    """Images moved by affine maps that a network has found: GridGenerator, then BilinearSampler.

    Args:
        data: images. loc: matrices (2, 3) as rows of 6, from output to input places.
        target_shape: (height, width) of the output. transform_type: 'affine'.
        sampler_type: 'bilinear'. cudnn_off: accepted and ignored.

    Shapes: data (N, C, H, W), loc (N, 6) -> (N, C, *target_shape).

    >>> import minigluon as mx
    >>> x = mx.nd.array([1, 3]).reshape((1, 1, 1, 2))
    >>> mirror = mx.nd.array([[-1, 0, 0, 0, 1, 0]])
    >>> mx.nd.SpatialTransformer(x, mirror, target_shape=(1, 2), transform_type="affine",
    ...                          sampler_type="bilinear").asnumpy().tolist()
    [[[[3.0, 1.0]]]]
    """
    _transformer_shape([data.shape, loc.shape], {"target_shape": target_shape})
    grid = _affine_grid(xp, loc, (target_shape[0], target_shape[1]))
    out = sample_points(xp, data, *_points(data, grid))
    return out.astype(data.dtype, copy=False).reshape(*data.shape[:2], *grid.shape[2:])
