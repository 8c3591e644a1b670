"""Concurrent, HybridConcurrent, Identity, SparseEmbedding, SyncBatchNorm, PixelShuffle."""
from __future__ import annotations

from typing import Any

from .... import ndarray as nd
from ....base import ArgumentValueError
from ....nn import BatchNorm, Block, HybridBlock, HybridSequential, ParameterDict, Sequential

__all__ = ["Concurrent", "HybridConcurrent", "Identity", "PixelShuffle1D", "PixelShuffle2D",
           "PixelShuffle3D", "SparseEmbedding", "SyncBatchNorm"]


class Concurrent(Sequential):
    """Blocks that all get the input; their outputs are put together along an axis.

    Args:
        axis: along which.

    >>> import minigluon as mx
    >>> net = mx.gluon.contrib.nn.Concurrent(axis=1)
    >>> net.add(mx.gluon.contrib.nn.Identity(), mx.gluon.contrib.nn.Identity())
    >>> net(mx.nd.ones((2, 3))).shape
    (2, 6)
    """

    def __init__(self, axis: int = -1, prefix: str | None = None,
                 params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self.axis = axis

    def forward(self, x: Any) -> Any:
        """The input through each child; the results side by side."""
        return nd.concat(  # type: ignore[attr-defined]
            *[block(x) for block in self._children.values()], dim=self.axis)


class HybridConcurrent(HybridSequential):
    """Hybrid blocks that all get the input; their outputs are put together along an axis.

    Args:
        axis: along which.
    """

    def __init__(self, axis: int = -1, prefix: str | None = None,
                 params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self.axis = axis

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The input through each child; the results side by side."""
        return F.concat(*[block(x) for block in self._children.values()], dim=self.axis)


class Identity(HybridBlock):
    """Hands its input on: one branch of a HybridConcurrent, as in residual networks."""

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The input."""
        return x


class SparseEmbedding(Block):
    """An embedding whose table lives in the Trainer's KVStore; each forward fetches its rows.

    Args:
        input_dim: number of vectors. output_dim: their size. dtype: of the vectors.
        weight_initializer: what they start from.

    Shapes: (...) -> (..., output_dim).
    """

    def __init__(self, input_dim: int, output_dim: int, dtype: Any = "float32",
                 weight_initializer: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._kwargs = {"input_dim": input_dim, "output_dim": output_dim, "dtype": dtype,
                        "sparse_grad": True}
        self.weight = self.params.get("weight", shape=(input_dim, output_dim),
                                      init=weight_initializer, dtype=dtype,
                                      grad_stype="row_sparse", stype="row_sparse")

    def forward(self, x: Any) -> Any:
        """The vectors that `x` numbers."""
        return nd.Embedding(x, self.weight.row_sparse_data(x), **self._kwargs)  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        sizes = self._kwargs
        return (f"{type(self).__name__}({sizes['input_dim']} -> {sizes['output_dim']}, "
                f"{sizes['dtype']})")


class SyncBatchNorm(BatchNorm):
    """BatchNorm for networks that run on several devices.

    The statistics are those of each device's own samples; in one process on one device that is
    exactly BatchNorm.

    Args:
        in_channels: number of channels; found at the first forward when 0.
        num_devices: on how many devices the network runs; None means one.
        momentum, epsilon, center, scale, use_global_stats, beta_initializer, gamma_initializer,
            running_mean_initializer, running_variance_initializer: as in BatchNorm.
    """

    def __init__(self, in_channels: int = 0, num_devices: int | None = None,
                 momentum: float = 0.9, epsilon: float = 1e-5, center: bool = True,
                 scale: bool = True, use_global_stats: bool = False,
                 beta_initializer: Any = "zeros", gamma_initializer: Any = "ones",
                 running_mean_initializer: Any = "zeros",
                 running_variance_initializer: Any = "ones", **kwargs: Any) -> None:
        super().__init__(1, momentum, epsilon, center, scale, use_global_stats, beta_initializer,
                         gamma_initializer, running_mean_initializer,
                         running_variance_initializer, in_channels, **kwargs)
        settings: dict[str, Any] = {
            "eps": epsilon, "momentum": momentum, "fix_gamma": not scale,
            "use_global_stats": use_global_stats,
            "ndev": 1 if num_devices is None else num_devices, "key": self.prefix}
        self._kwargs = settings

    def hybrid_forward(self, F: Any, x: Any, gamma: Any, beta: Any, running_mean: Any,
                       running_var: Any) -> Any:
        """One SyncBatchNorm."""
        return F.contrib.SyncBatchNorm(x, gamma, beta, running_mean, running_var, name="fwd",
                                       **self._kwargs)


class _PixelShuffle(HybridBlock):
    """Channels turned into pixels; its classes differ in the number of spatial axes."""

    _axes: int

    def __init__(self, factor: int | tuple[int, ...]) -> None:
        super().__init__()
        factors = (factor,) * self._axes if isinstance(factor, int) else tuple(factor)
        if len(factors) != self._axes:
            raise ArgumentValueError(f"{type(self).__name__}: factor: expected a number or "
                                     f"{self._axes} of them, got {factor}")
        self._factors = factors

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """(N, f C, S) with factors f -> (N, C, f S): each pixel becomes a little block."""
        area = 1
        for factor in self._factors:
            area *= factor
        rest = (0,) * self._axes
        x = F.reshape(x, (0, -4, -1, area, *rest))
        place = 2
        for factor in self._factors[:-1]:  # the factors one by one, each an axis of its own
            area //= factor
            x = F.reshape(x, (*(0,) * place, -4, factor, area, *rest))
            place += 1
        order = [0, 1]
        for axis in range(self._axes):
            order += [2 + self._axes + axis, 2 + axis]
        return F.reshape(F.transpose(x, axes=tuple(order)), (0, 0, *(-3,) * self._axes))

    def __repr__(self) -> str:
        shown = self._factors[0] if self._axes == 1 else self._factors
        return f"{type(self).__name__}({shown})"


class PixelShuffle1D(_PixelShuffle):
    """Channels turned into pixels along one axis.

    Args:
        factor: how many times as long the axis becomes.

    Shapes: (N, factor C, W) -> (N, C, factor W).

    >>> import minigluon as mx
    >>> mx.gluon.contrib.nn.PixelShuffle1D(2)(mx.nd.zeros((1, 8, 3))).shape
    (1, 4, 6)
    """

    _axes = 1


class PixelShuffle2D(_PixelShuffle):
    """Channels turned into pixels along two axes: sub-pixel convolution's last step.

    Args:
        factor: how many times as large the images become: a number, or one for each axis.

    Shapes: (N, f1 f2 C, H, W) -> (N, C, f1 H, f2 W).
    """

    _axes = 2


class PixelShuffle3D(_PixelShuffle):
    """Channels turned into pixels along three axes.

    Args:
        factor: how many times as large the volumes become: a number, or one for each axis.

    Shapes: (N, f1 f2 f3 C, D, H, W) -> (N, C, f1 D, f2 H, f3 W).
    """

    _axes = 3
