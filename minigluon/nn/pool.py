"""Pooling layers over one, two or three spatial axes; reflection at the borders."""
from __future__ import annotations

from typing import Any

from ..base import ParameterMismatch
from .conv import Sizes, spatial, spatial_layout
from .hybrid import HybridBlock

__all__ = [
    "AvgPool1D", "AvgPool2D", "AvgPool3D", "GlobalAvgPool1D", "GlobalAvgPool2D",
    "GlobalAvgPool3D", "GlobalMaxPool1D", "GlobalMaxPool2D", "GlobalMaxPool3D", "MaxPool1D",
    "MaxPool2D", "MaxPool3D", "ReflectionPad2D",
]


class _Pooling(HybridBlock):
    """A pooling layer; its classes differ in kind and number of spatial axes."""

    _axes: int
    _kind: str

    def __init__(self, pool_size: Sizes, strides: Sizes | None, padding: Sizes, ceil_mode: bool,
                 layout: str, global_pool: bool = False, count_include_pad: bool | None = None,
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        name = type(self).__name__
        kernel = spatial(pool_size, self._axes, f"{name}: pool_size")
        self._kwargs: dict[str, Any] = {
            "kernel": kernel,
            "stride": kernel if strides is None else spatial(strides, self._axes,
                                                             f"{name}: strides"),
            "pad": spatial(padding, self._axes, f"{name}: padding"),
            "global_pool": global_pool, "pool_type": self._kind,
            "layout": spatial_layout(layout, self._axes, name),
            "pooling_convention": "full" if ceil_mode else "valid",
        }
        if count_include_pad is not None:
            self._kwargs["count_include_pad"] = count_include_pad

    def _alias(self) -> str:
        return "pool"

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """One Pooling."""
        return F.Pooling(x, name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        s = self._kwargs
        return (f"{type(self).__name__}(size={s['kernel']}, stride={s['stride']}, "
                f"padding={s['pad']}, ceil_mode={s['pooling_convention'] == 'full'}, "
                f"global_pool={s['global_pool']}, pool_type={s['pool_type']}, "
                f"layout={s['layout']})")


class MaxPool1D(_Pooling):
    """Maxima of windows over one spatial axis; arguments as those of MaxPool2D."""

    _axes, _kind = 1, "max"

    def __init__(self, pool_size: Sizes = 2, strides: Sizes | None = None, padding: Sizes = 0,
                 layout: str = "NCW", ceil_mode: bool = False, **kwargs: Any) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, layout, **kwargs)


class MaxPool2D(_Pooling):
    """Maxima of windows over two spatial axes.

    Args:
        pool_size, padding: a number, or one for each spatial axis.
        strides: likewise; the pool size when None.
        layout: 'NCHW' or 'NHWC'.
        ceil_mode: round the output size up instead of down.

    >>> import minigluon as mx
    >>> mx.gluon.nn.MaxPool2D(3)(mx.nd.ones((1, 2, 10, 10))).shape
    (1, 2, 3, 3)
    """

    _axes, _kind = 2, "max"

    def __init__(self, pool_size: Sizes = (2, 2), strides: Sizes | None = None,
                 padding: Sizes = 0, layout: str = "NCHW", ceil_mode: bool = False,
                 **kwargs: Any) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, layout, **kwargs)


class MaxPool3D(_Pooling):
    """Maxima of windows over three spatial axes; arguments as those of MaxPool2D."""

    _axes, _kind = 3, "max"

    def __init__(self, pool_size: Sizes = (2, 2, 2), strides: Sizes | None = None,
                 padding: Sizes = 0, ceil_mode: bool = False, layout: str = "NCDHW",
                 **kwargs: Any) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, layout, **kwargs)


class AvgPool1D(_Pooling):
    """Means of windows over one spatial axis; arguments as those of AvgPool2D."""

    _axes, _kind = 1, "avg"

    def __init__(self, pool_size: Sizes = 2, strides: Sizes | None = None, padding: Sizes = 0,
                 layout: str = "NCW", ceil_mode: bool = False, count_include_pad: bool = True,
                 **kwargs: Any) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, layout,
                         count_include_pad=count_include_pad, **kwargs)


class AvgPool2D(_Pooling):
    """Means of windows over two spatial axes.

    Args:
        pool_size, strides, padding, ceil_mode, layout: as those of MaxPool2D.
        count_include_pad: zeros of the padding count in the means.
    """

    _axes, _kind = 2, "avg"

    def __init__(self, pool_size: Sizes = (2, 2), strides: Sizes | None = None,
                 padding: Sizes = 0, ceil_mode: bool = False, layout: str = "NCHW",
                 count_include_pad: bool = True, **kwargs: Any) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, layout,
                         count_include_pad=count_include_pad, **kwargs)


class AvgPool3D(_Pooling):
    """Means of windows over three spatial axes; arguments as those of AvgPool2D."""

    _axes, _kind = 3, "avg"

    def __init__(self, pool_size: Sizes = (2, 2, 2), strides: Sizes | None = None,
                 padding: Sizes = 0, ceil_mode: bool = False, layout: str = "NCDHW",
                 count_include_pad: bool = True, **kwargs: Any) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, layout,
                         count_include_pad=count_include_pad, **kwargs)


class _GlobalPooling(_Pooling):
    """One window over all of the spatial axes."""

    def __init__(self, layout: str, **kwargs: Any) -> None:
        super().__init__(1, None, 0, True, layout, global_pool=True, **kwargs)


class GlobalMaxPool1D(_GlobalPooling):
    """The maximum over the spatial axis. Shapes: (N, C, W) -> (N, C, 1)."""

    _axes, _kind = 1, "max"

    def __init__(self, layout: str = "NCW", **kwargs: Any) -> None:
        super().__init__(layout, **kwargs)


class GlobalMaxPool2D(_GlobalPooling):
    """The maximum over both spatial axes. Shapes: (N, C, H, W) -> (N, C, 1, 1)."""

    _axes, _kind = 2, "max"

    def __init__(self, layout: str = "NCHW", **kwargs: Any) -> None:
        super().__init__(layout, **kwargs)


class GlobalMaxPool3D(_GlobalPooling):
    """The maximum over all three spatial axes. Shapes: (N, C, D, H, W) -> (N, C, 1, 1, 1)."""

    _axes, _kind = 3, "max"

    def __init__(self, layout: str = "NCDHW", **kwargs: Any) -> None:
        super().__init__(layout, **kwargs)


class GlobalAvgPool1D(_GlobalPooling):
    """The mean over the spatial axis. Shapes: (N, C, W) -> (N, C, 1)."""

    _axes, _kind = 1, "avg"

    def __init__(self, layout: str = "NCW", **kwargs: Any) -> None:
        super().__init__(layout, **kwargs)


class GlobalAvgPool2D(_GlobalPooling):
    """The mean over both spatial axes. Shapes: (N, C, H, W) -> (N, C, 1, 1)."""

    _axes, _kind = 2, "avg"

    def __init__(self, layout: str = "NCHW", **kwargs: Any) -> None:
        super().__init__(layout, **kwargs)


class GlobalAvgPool3D(_GlobalPooling):
    """The mean over all three spatial axes. Shapes: (N, C, D, H, W) -> (N, C, 1, 1, 1)."""

    _axes, _kind = 3, "avg"

    def __init__(self, layout: str = "NCDHW", **kwargs: Any) -> None:
        super().__init__(layout, **kwargs)


class ReflectionPad2D(HybridBlock):
    """Widens images by mirroring them at their borders.

    Args:
        padding: so many pixels on each side, or the eight numbers of ``pad`` (before and after
            for each axis, those of batch and channels 0).

    Shapes: (N, C, H, W) -> (N, C, H + 2 padding, W + 2 padding).

    >>> import minigluon as mx
    >>> layer = mx.gluon.nn.ReflectionPad2D(1)
    >>> layer(mx.nd.array([[[[1, 2], [3, 4]]]])).asnumpy()[0, 0, 0].tolist()
    [4.0, 3.0, 4.0, 3.0]
    """

    def __init__(self, padding: int | tuple[int, ...] = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if isinstance(padding, int):
            padding = (0, 0, 0, 0, padding, padding, padding, padding)
        if len(padding) != 8:
            raise ParameterMismatch(f"ReflectionPad2D: padding: expected a number or 8 of them, "
                                    f"got {padding}")
        self._padding = tuple(padding)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """One pad."""
        return F.pad(x, mode="reflect", pad_width=self._padding)
