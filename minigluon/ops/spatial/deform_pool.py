"""Deformable position-sensitive pooling: bins of regions that another layer moves."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...base import ArgumentValueError, ShapeError
from ..operator import Attrs, operator
from ..rules import Shapes, follow_dtype, merge_shapes
from .region import half_up, regions_of
from .resample import image_of

__all__: list[str] = []

Array = Any


def _pool_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    data = image_of(shapes[0])
    group, out = attrs["group_size"], attrs["output_dim"]
    if min(group, out, attrs["pooled_size"], attrs["sample_per_part"]) < 1:
        raise ArgumentValueError("group_size, output_dim, pooled_size and sample_per_part: "
                                 "expected 1 or more each")
    data = merge_shapes(data, (0, out * group * group, 0, 0),
                        "data (given, and output_dim group_size^2 channels)")
    rois = merge_shapes(shapes[1], (0, 5), "shapes of rois (given and (R, 5))")
    assert rois is not None
    made: Shapes = [data, rois]
    if not attrs["no_trans"]:
        part = _part(attrs)
        trans = merge_shapes(shapes[2] if len(shapes) > 2 else None, (rois[0], 0, part, part),
                             "shapes of trans (given and (R, 2 classes, part_size, part_size))")
        if trans is not None and trans[1] and (trans[1] % 2 or out % (trans[1] // 2)):
            raise ShapeError(f"expected trans with 2 channels for each class, classes dividing "
                             f"output_dim={out}, got {trans}")
        made.append(trans)
    return made, [(rois[0], out, attrs["pooled_size"], attrs["pooled_size"])]


def _part(attrs: Attrs) -> int:
    return int(attrs["part_size"] or attrs["pooled_size"])


class _Region:
    """The samples of one region: image, places, weights; arrays are (output_dim, P, P, S, S)."""

    def __init__(self, xp: Any, row: list[float], moves: Array | None, data: Array,
                 attrs: Attrs) -> None:
        self.image = int(row[0])
        count, samples, out = attrs["pooled_size"], attrs["sample_per_part"], attrs["output_dim"]
        x1, y1, x2, y2 = (half_up(value) for value in row[1:])
        scale = attrs["spatial_scale"]
        left, top = x1 * scale - 0.5, y1 * scale - 0.5
        self.width = max((x2 + 1) * scale - 0.5 - left, 0.1)
        self.height = max((y2 + 1) * scale - 0.5 - top, 0.1)
        places = xp.arange(count)
        self.part = places * _part(attrs) // count
        groups = xp.minimum(places * attrs["group_size"] // count, attrs["group_size"] - 1)
        outs = xp.arange(out)
        classes = 1 if moves is None else moves.shape[0] // 2
        self.kind = outs // (out // classes)
        self.channel = ((outs[:, None, None] * attrs["group_size"] + groups[:, None])
                        * attrs["group_size"] + groups)
        inner = xp.arange(samples) / samples
        y = top + (places[:, None, None, None] + inner[:, None]) * (self.height / count)
        x = left + (places[:, None, None] + inner) * (self.width / count)
        self.y = xp.broadcast_to(y, (out, count, count, samples, samples))
        self.x = xp.broadcast_to(x, self.y.shape)
        if moves is not None:
            chosen = moves[:, self.part[:, None], self.part[None, :]] * attrs["trans_std"]
            self.y = self.y + chosen[2 * self.kind + 1][..., None, None] * self.height
            self.x = self.x + chosen[2 * self.kind][..., None, None] * self.width
        rows, columns = data.shape[2:]
        self.valid = ((self.y >= -0.5) & (self.y <= rows - 0.5)
                      & (self.x >= -0.5) & (self.x <= columns - 0.5))
        self.y, self.x = xp.clip(self.y, 0, rows - 1), xp.clip(self.x, 0, columns - 1)
        self.share = self.valid / xp.maximum(self.valid.sum(axis=(3, 4), keepdims=True), 1)

    def corners(self, xp: Any) -> Iterator[tuple[Any, Array, Array, int, int]]:
        """Index into the image, shares along y and x, and their slopes, for four pixels each."""
        # floor and ceil: at a whole number, as where a point was cut to the image, no slope
        top, left = xp.floor(self.y).astype("int64"), xp.floor(self.x).astype("int64")
        bottom, right_end = xp.ceil(self.y).astype("int64"), xp.ceil(self.x).astype("int64")
        for down in (0, 1):
            for right in (0, 1):
                rows, columns = bottom if down else top, right_end if right else left
                share_y = self.y - top if down else 1 - (self.y - top)
                share_x = self.x - left if right else 1 - (self.x - left)
                yield ((self.channel[..., None, None], rows, columns), share_y, share_x,
                       2 * down - 1, 2 * right - 1)


def _regions(xp: Any, data: Array, rois: Array, trans: Array | None, attrs: Attrs
             ) -> Iterator[_Region]:
    shapes = [array.shape for array in (data, rois, trans) if array is not None]
    _pool_shape(shapes, attrs)
    for place, row in enumerate(regions_of(rois)):
        if not 0 <= row[0] < len(data):
            raise ArgumentValueError(f"rois: expected images from 0 to {len(data) - 1}, got "
                                     f"{row[0]:g}")
        yield _Region(xp, row, None if trans is None else trans[place], data, attrs)


def _pool_back(F: Any, dy: Any, out: Any, data: Any, rois: Any, trans: Any = None,
               **attrs: Any) -> list[Any]:
    if attrs["no_trans"]:
        return [F._deformable_psroi_grad(dy, data, rois, **attrs), None]
    to_data, to_trans = F._deformable_psroi_grad(dy, data, rois, trans, **attrs)
    return [to_data, None, to_trans]


def _inputs(attrs: Attrs) -> tuple[str, ...]:
    return ("data", "rois") if attrs["no_trans"] else ("data", "rois", "trans")


@operator("_contrib_DeformablePSROIPooling", infer=_pool_shape, infer_dtype=follow_dtype(),
          gradient=_pool_back, inputs=_inputs)
def deformable_psroi_pooling(
    xp: Any, data: Array, rois: Array, trans: Array | None = None, *, spatial_scale: float,
    output_dim: int, group_size: int, pooled_size: int, part_size: int = 0,
    sample_per_part: int = 1, trans_std: float = 0.0, no_trans: bool = False,
) -> Array:
    """Means of interpolated points in the bins of each region; another layer moves the bins.

    Args:
        data: feature maps with output_dim group_size^2 channels. rois: regions (image, x1, y1,
            x2, y2). trans: how far each part of each region is moved, in (x, y) for each class.
        spatial_scale: feature pixels in one of the regions'. output_dim: channels of the result.
        group_size: groups of channels along each side. pooled_size: bins along each side.
        part_size: parts along each side; 0 means pooled_size. sample_per_part: points along each
            side of a bin. trans_std: what `trans` is multiplied with. no_trans: there is none.

    Shapes: data (N, C, H, W), rois (R, 5), trans (R, 2 classes, part_size, part_size) ->
        (R, output_dim, pooled_size, pooled_size).

    >>> import minigluon as mx
    >>> x = mx.nd.ones((1, 4, 3, 3))
    >>> mx.nd.contrib.DeformablePSROIPooling(
    ...     x, mx.nd.array([[0, 0, 0, 2, 2]]), spatial_scale=1, output_dim=1, group_size=2,
    ...     pooled_size=2, no_trans=True).asnumpy()[0, 0].tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    attrs = {"spatial_scale": spatial_scale, "output_dim": output_dim, "group_size": group_size,
             "pooled_size": pooled_size, "part_size": part_size,
             "sample_per_part": sample_per_part, "trans_std": trans_std, "no_trans": no_trans}
    out = xp.zeros((len(rois), output_dim, pooled_size, pooled_size), data.dtype)
    moves = None if no_trans else trans
    for result, region in zip(out, _regions(xp, data, rois, moves, attrs), strict=True):
        maps = data[region.image]
        for where, share_y, share_x, _, _ in region.corners(xp):
            result += (maps[where] * share_y * share_x * region.share).sum(axis=(3, 4))
    return out


def _grad_shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    return shapes, [shapes[1]] if attrs["no_trans"] else [shapes[1], shapes[3]]


@operator("_deformable_psroi_grad", infer=_grad_shape,
          infer_dtype=lambda dtypes, attrs: (
              dtypes, [dtypes[1]] if attrs["no_trans"] else [dtypes[1], dtypes[3]]),
          num_outputs=lambda attrs: 1 if attrs["no_trans"] else 2,
          inputs=lambda attrs: ("dy", *_inputs(attrs)))
def deformable_psroi_grad(
    xp: Any, dy: Array, data: Array, rois: Array, trans: Array | None = None, *,
    spatial_scale: float, output_dim: int, group_size: int, pooled_size: int, part_size: int = 0,
    sample_per_part: int = 1, trans_std: float = 0.0, no_trans: bool = False,
) -> Any:
    """Gradients of DeformablePSROIPooling for data and trans."""
    attrs = {"spatial_scale": spatial_scale, "output_dim": output_dim, "group_size": group_size,
             "pooled_size": pooled_size, "part_size": part_size,
             "sample_per_part": sample_per_part, "trans_std": trans_std, "no_trans": no_trans}
    grad = xp.zeros_like(data)
    moves = None if no_trans else trans
    to_trans = None if moves is None else xp.zeros_like(moves)
    for place, region in enumerate(_regions(xp, data, rois, moves, attrs)):
        above = dy[place][..., None, None] * region.share
        pull_y = pull_x = 0
        for where, share_y, share_x, slope_y, slope_x in region.corners(xp):
            xp.add.at(grad[region.image], where, above * share_y * share_x)
            reads = data[region.image][where] * above
            pull_y = pull_y + slope_y * (reads * share_x).sum(axis=(3, 4))
            pull_x = pull_x + slope_x * (reads * share_y).sum(axis=(3, 4))
        if to_trans is not None:
            rows, columns = region.part[None, :, None], region.part[None, None, :]
            for offset, pull, size in ((0, pull_x, region.width), (1, pull_y, region.height)):
                kinds = (2 * region.kind + offset)[:, None, None]
                xp.add.at(to_trans[place], (kinds, rows, columns), pull * (trans_std * size))
    return grad if to_trans is None else (grad, to_trans)
