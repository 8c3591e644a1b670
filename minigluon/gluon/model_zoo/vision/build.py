"""What the families share: stacks of layers, networks of two parts, functions by settings."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....context import Context, cpu
from ....nn import Activation, BatchNorm, Block, Conv2D, HybridBlock, HybridSequential
from ..model_store import get_model_file

__all__ = ["Network", "conv_bn", "named", "ready", "stack"]


class Network(HybridBlock):
    """`features`, then `output`."""

    features: HybridBlock
    output: HybridBlock

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """First the features, then the classes."""
        return self.output(self.features(x))


def stack(*layers: Block) -> HybridSequential:
    """Layers one after another that do not add to each other's names."""
    net = HybridSequential(prefix="")
    net.add(*layers)
    return net


def conv_bn(channels: int, kernel: Any, stride: int = 1, pad: Any = 0, *, groups: int = 1,
            epsilon: float = 1e-5, act: Callable[[], Block] | None = lambda: Activation("relu")
            ) -> list[Block]:
    """A convolution without bias, its normalization and its activation."""
    layers = [Conv2D(channels, kernel, stride, pad, groups=groups, use_bias=False),
              BatchNorm(epsilon=epsilon)]
    return layers + ([act()] if act is not None else [])


def ready(net: HybridBlock, name: str, pretrained: bool,
          ctx: Context | Sequence[Context] | None, root: str | None) -> Any:
    """The network, with the trained weights of `name` if asked for."""
    if pretrained:
        net.load_parameters(get_model_file(name, root), ctx=ctx or cpu())
    return net


def named(word: str, make: Callable[..., Any], *settings: Any, **more: Any) -> Callable[..., Any]:
    """``word(pretrained=False, ctx=None, root=None, **kwargs)``: `make` with these settings."""

    def network(pretrained: bool = False, ctx: Any = None, root: str | None = None,
                **kwargs: Any) -> Any:
        return make(*settings, pretrained=pretrained, ctx=ctx, root=root, **more, **kwargs)

    network.__name__ = network.__qualname__ = word
    network.__module__ = make.__module__
    network.__doc__ = f"""The network {word}.

    Args:
        pretrained: load trained weights. ctx: where to. root: the folder in which they lie.
        kwargs: settings of the network's class, e.g. classes.
    """
    return network
