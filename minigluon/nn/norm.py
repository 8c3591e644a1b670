"""Normalization: over the batch, an axis, each image's channels, or groups of channels."""
from __future__ import annotations

from typing import Any

from ..base import dtype_name
from .hybrid import HybridBlock
from .parameterdict import ParameterDict

__all__ = ["BatchNorm", "BatchNormReLU", "GroupNorm", "InstanceNorm", "LayerNorm"]


class BatchNorm(HybridBlock):
    """Normalizes each channel by mean and variance of the batch, then scales and shifts it.

    Training uses the batch's own statistics and moves the running ones towards them; inference
    uses the running ones.

    Args:
        axis: the channels' axis.
        momentum: running = running * momentum + batch * (1 - momentum).
        epsilon: added to the variance.
        center, scale: whether to learn a shift (beta) and a factor (gamma).
        use_global_stats: use the running statistics in training, too.
        beta_initializer, gamma_initializer, running_mean_initializer,
        running_variance_initializer: what the parameters start from.
        in_channels: number of channels; found at the first forward when 0.

    >>> import minigluon as mx
    >>> layer = mx.gluon.nn.BatchNorm()
    >>> layer.initialize()
    >>> with mx.autograd.record():
    ...     y = layer(mx.nd.array([[0.0], [2.0]]))
    >>> y.asnumpy().round(2).tolist(), layer.running_mean.data().asnumpy().round(2).tolist()
    ([[-1.0], [1.0]], [0.10000000149011612])
    """

    def __init__(self, axis: int = 1, momentum: float = 0.9, epsilon: float = 1e-5,
                 center: bool = True, scale: bool = True, use_global_stats: bool = False,
                 beta_initializer: Any = "zeros", gamma_initializer: Any = "ones",
                 running_mean_initializer: Any = "zeros",
                 running_variance_initializer: Any = "ones", in_channels: int = 0,
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._kwargs = {"axis": axis, "eps": epsilon, "momentum": momentum,
                        "fix_gamma": not scale, "use_global_stats": use_global_stats}
        self._axis = axis
        self._in_channels = in_channels
        self.gamma = self._parameter("gamma", gamma_initializer, scale)
        self.beta = self._parameter("beta", beta_initializer, center)
        self.running_mean = self._parameter("running_mean", running_mean_initializer, False)
        self.running_var = self._parameter("running_var", running_variance_initializer, False)

    def _parameter(self, name: str, init: Any, trained: bool) -> Any:
        return self.params.get(name, grad_req="write" if trained else "null",
                               shape=(self._in_channels,), init=init, allow_deferred_init=True,
                               differentiable=trained)

    def cast(self, dtype: Any) -> None:
        """Change the element type; float16 layers keep float32 statistics."""
        super().cast("float32" if dtype_name(dtype) == "float16" else dtype)

    def hybrid_forward(self, F: Any, x: Any, gamma: Any, beta: Any, running_mean: Any,
                       running_var: Any) -> Any:
        """One BatchNorm."""
        return F.BatchNorm(x, gamma, beta, running_mean, running_var, name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self._kwargs.items())
        channels = (self.gamma.shape or (0,))[0]
        return f"{type(self).__name__}({settings}, in_channels={channels or None})"


class BatchNormReLU(BatchNorm):
    """BatchNorm followed by relu; arguments as those of BatchNorm."""

    def hybrid_forward(self, F: Any, x: Any, gamma: Any, beta: Any, running_mean: Any,
                       running_var: Any) -> Any:
        """One BatchNorm, one relu."""
        return F.relu(super().hybrid_forward(F, x, gamma, beta, running_mean, running_var))


class _ScaleAndShift(HybridBlock):
    """What LayerNorm, InstanceNorm and GroupNorm share: a factor and a shift, learned or not."""

    _kwargs: dict[str, Any]

    def _make_both(self, size: int, center: bool, scale: bool, beta_initializer: Any,
                   gamma_initializer: Any) -> None:
        for name, init, trained in (("gamma", gamma_initializer, scale),
                                    ("beta", beta_initializer, center)):
            setattr(self, name, self.params.get(
                name, grad_req="write" if trained else "null", shape=(size,), init=init,
                allow_deferred_init=True))

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self._kwargs.items())
        return f"{type(self).__name__}({settings}, in_channels={(self.gamma.shape or (0,))[0]})"


class LayerNorm(_ScaleAndShift):
    """Normalizes along one axis by the mean and variance there, then scales and shifts.

    Args:
        axis: the axis. epsilon: added to the variance.
        center, scale: whether to learn a shift (beta) and a factor (gamma).
        beta_initializer, gamma_initializer: what they start from.
        in_channels: size of the axis; found at the first forward when 0.
    """

    def __init__(self, axis: int = -1, epsilon: float = 1e-5, center: bool = True,
                 scale: bool = True, beta_initializer: Any = "zeros",
                 gamma_initializer: Any = "ones", in_channels: int = 0,
                 prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self._kwargs = {"eps": epsilon, "axis": axis, "center": center, "scale": scale}
        self._axis = axis
        self._epsilon = epsilon
        self._make_both(in_channels, center, scale, beta_initializer, gamma_initializer)

    def hybrid_forward(self, F: Any, data: Any, gamma: Any, beta: Any) -> Any:
        """One LayerNorm."""
        return F.LayerNorm(data, gamma=gamma, beta=beta, axis=self._axis, eps=self._epsilon)


class InstanceNorm(_ScaleAndShift):
    """Normalizes each channel of each sample by its own mean and variance.

    Args:
        axis: the channels' axis. epsilon: added to the variance.
        center, scale: whether to learn a shift (beta) and a factor (gamma).
        beta_initializer, gamma_initializer: what they start from.
        in_channels: number of channels; found at the first forward when 0.

    >>> import minigluon as mx
    >>> layer = mx.gluon.nn.InstanceNorm()
    >>> layer.initialize()
    >>> layer(mx.nd.array([[[1.0, 3.0]]])).asnumpy().round(2).tolist()
    [[[-1.0, 1.0]]]
    """

    def __init__(self, axis: int = 1, epsilon: float = 1e-5, center: bool = True,
                 scale: bool = False, beta_initializer: Any = "zeros",
                 gamma_initializer: Any = "ones", in_channels: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._kwargs = {"eps": epsilon, "axis": axis, "center": center, "scale": scale}
        self._axis = axis
        self._epsilon = epsilon
        self._make_both(in_channels, center, scale, beta_initializer, gamma_initializer)

    def hybrid_forward(self, F: Any, x: Any, gamma: Any, beta: Any) -> Any:
        """One InstanceNorm, with the channels brought to axis 1."""
        if self._axis == 1:
            return F.InstanceNorm(x, gamma, beta, name="fwd", eps=self._epsilon)
        x = x.swapaxes(1, self._axis)
        return F.InstanceNorm(x, gamma, beta, name="fwd",
                              eps=self._epsilon).swapaxes(1, self._axis)


class GroupNorm(_ScaleAndShift):
    """Normalizes groups of channels of each sample, then scales and shifts each group.

    Args:
        num_groups: the channels (axis 1) are split into so many groups.
        epsilon: added to the variance.
        center, scale: whether to learn a shift (beta) and a factor (gamma), one a group.
        beta_initializer, gamma_initializer: what they start from.

    >>> import minigluon as mx
    >>> layer = mx.gluon.nn.GroupNorm(num_groups=2)
    >>> layer.initialize()
    >>> layer(mx.nd.array([[1.0, 3.0, 2.0, 2.0]])).asnumpy().round(2).tolist()
    [[-1.0, 1.0, 0.0, 0.0]]
    """

    def __init__(self, num_groups: int = 1, epsilon: float = 1e-5, center: bool = True,
                 scale: bool = True, beta_initializer: Any = "zeros",
                 gamma_initializer: Any = "ones", prefix: str | None = None,
                 params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self._kwargs = {"eps": epsilon, "num_groups": num_groups, "center": center,
                        "scale": scale}
        self._num_groups = num_groups
        self._epsilon = epsilon
        self._make_both(num_groups, center, scale, beta_initializer, gamma_initializer)

    def hybrid_forward(self, F: Any, data: Any, gamma: Any, beta: Any) -> Any:
        """One GroupNorm."""
        return F.GroupNorm(data, gamma=gamma, beta=beta, num_groups=self._num_groups,
                           eps=self._epsilon)

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self._kwargs.items())
        return f"{type(self).__name__}({settings})"
