"""How alike two images are under shifts of one against the other: ``Correlation``.

The layer of FlowNet (P. Fischer et al., "FlowNet: Learning Optical Flow with Convolutional
Networks", 2015, section 3).
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ...base import ArgumentValueError, ShapeError
from ..operator import Attrs, operator
from ..rules import Shapes, merge_shapes

__all__: list[str] = []

Array = Any
Box = tuple[slice, ...]


class _Plan(NamedTuple):
    """Where the windows lie in the padded images."""

    kernel: int
    reach: int
    stride: int
    step: int
    pad: int
    rows: int
    columns: int

    @property
    def side(self) -> int:
        """Shifts along one axis."""
        return 2 * (self.reach // self.step) + 1

    def pairs(self) -> Iterator[tuple[int, Box, Box]]:
        """(output channel, window places in data1, in data2), for each place in the kernel."""
        radius = self.reach // self.step
        for channel in range(self.side ** 2):
            down, right = (place - radius for place in divmod(channel, self.side))
            for y in range(self.kernel):
                for x in range(self.kernel):
                    yield channel, self._box(y, x), self._box(y + down * self.step,
                                                              x + right * self.step)

    def _box(self, y: int, x: int) -> Box:
        top, left = self.reach + y, self.reach + x
        return (slice(None), slice(None),
                slice(top, top + self.stride * (self.rows - 1) + 1, self.stride),
                slice(left, left + self.stride * (self.columns - 1) + 1, self.stride))


def _plan(height: int, width: int, *, kernel_size: int, max_displacement: int, stride1: int,
          stride2: int, pad_size: int, is_multiply: bool = True) -> _Plan:
    if kernel_size < 1 or kernel_size % 2 == 0:
        raise ArgumentValueError(f"Correlation: kernel_size: expected an odd number, "
                                 f"got {kernel_size}")
    if min(stride1, stride2) < 1 or min(max_displacement, pad_size) < 0:
        raise ArgumentValueError("Correlation: expected strides of 1 or more, max_displacement "
                                 f"and pad_size of 0 or more, got {stride1}, {stride2}, "
                                 f"{max_displacement}, {pad_size}")
    border = max_displacement + kernel_size // 2
    rows, columns = (-(-(size + 2 * pad_size - 2 * border) // stride1)
                     for size in (height, width))
    if min(rows, columns) < 1:
        raise ShapeError(f"images of {height} x {width} leave no room for max_displacement "
                         f"{max_displacement} and kernel_size {kernel_size}; use pad_size="
                         f"{border} or smaller ones")
    return _Plan(kernel_size, max_displacement, stride1, stride2, pad_size, rows, columns)


def _shape(shapes: Shapes, attrs: Attrs) -> tuple[Shapes, Shapes]:
    merged = merge_shapes(shapes[0], shapes[1], "shapes of data1 and data2")
    if merged is None:
        return [None, None], [None]
    if len(merged) != 4:
        raise ShapeError(f"expected images of shape (N, C, H, W), got {merged}")
    if 0 in merged[2:]:
        return [merged, merged], [(merged[0], 0, 0, 0)]
    plan = _plan(*merged[2:], **attrs)
    return [merged, merged], [(merged[0], plan.side ** 2, plan.rows, plan.columns)]


def _padded(xp: Any, data: Array, plan: _Plan) -> Array:
    around = (plan.pad, plan.pad)
    return xp.pad(data, ((0, 0), (0, 0), around, around))


@operator("Correlation", infer=_shape,
          gradient=lambda F, dy, out, data1, data2, **attrs: F._correlation_grad(
              dy, data1, data2, **attrs))
def correlation(xp: Any, data1: Array, data2: Array, *, kernel_size: int = 1,
                max_displacement: int = 1, stride1: int = 1, stride2: int = 1, pad_size: int = 0,
                is_multiply: bool = True) -> Array:
    """Windows of one image against shifted windows of another: their mean product.

    Args:
        data1, data2: images of one shape. kernel_size: side of a window, odd.
        max_displacement: the farthest shift. stride1: step from window to window.
        stride2: step from shift to shift. pad_size: zeros around the images.
        is_multiply: products; False takes absolute differences.

    Shapes:
        data1, data2 (N, C, H, W) -> (N, D * D, T, U); D = 2 (max_displacement // stride2) + 1,
        T = ceil((H + 2 pad_size - 2 (max_displacement + kernel_size // 2)) / stride1).

    >>> import minigluon as mx
    >>> one = mx.nd.ones((1, 2, 4, 4))
    >>> mx.nd.Correlation(one, one, max_displacement=1, pad_size=1)[0, 4, 0].asnumpy().tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    merge_shapes(data1.shape, data2.shape, "shapes of data1 and data2")
    plan = _plan(*data1.shape[2:], kernel_size=kernel_size, max_displacement=max_displacement,
                 stride1=stride1, stride2=stride2, pad_size=pad_size)
    first, second = _padded(xp, data1, plan), _padded(xp, data2, plan)
    out = xp.zeros((len(data1), plan.side ** 2, plan.rows, plan.columns), data1.dtype)
    for channel, here, there in plan.pairs():
        a, b = first[here], second[there]
        out[:, channel] += (a * b if is_multiply else xp.abs(a - b)).sum(axis=1)
    out /= plan.kernel ** 2 * data1.shape[1]
    return out


@operator("_correlation_grad", infer=lambda shapes, attrs: (shapes, [shapes[1], shapes[2]]),
          num_outputs=2)
def _correlation_grad(xp: Any, grad: Array, data1: Array, data2: Array, *, kernel_size: int = 1,
                      max_displacement: int = 1, stride1: int = 1, stride2: int = 1,
                      pad_size: int = 0, is_multiply: bool = True) -> tuple[Array, Array]:
    """The gradients of Correlation for both images."""
    plan = _plan(*data1.shape[2:], kernel_size=kernel_size, max_displacement=max_displacement,
                 stride1=stride1, stride2=stride2, pad_size=pad_size)
    first, second = _padded(xp, data1, plan), _padded(xp, data2, plan)
    into1, into2 = xp.zeros_like(first), xp.zeros_like(second)
    scaled = grad / (plan.kernel ** 2 * data1.shape[1])
    for channel, here, there in plan.pairs():
        weight = scaled[:, channel:channel + 1]
        if is_multiply:
            into1[here] += weight * second[there]
            into2[there] += weight * first[here]
        else:
            signed = weight * xp.sign(first[here] - second[there])
            into1[here] += signed
            into2[there] -= signed
    inside = (slice(None), slice(None), *(slice(plan.pad, plan.pad + size)
                                          for size in data1.shape[2:]))
    return xp.ascontiguousarray(into1[inside]), xp.ascontiguousarray(into2[inside])
