"""Inception V3: "Rethinking the Inception Architecture for Computer Vision" (2015)."""
from __future__ import annotations

from typing import Any

from ....context import Context
from ....nn import AvgPool2D, Block, Dense, Dropout, HybridSequential, MaxPool2D
from ...contrib.nn import HybridConcurrent
from .build import Network, conv_bn, ready, stack

__all__ = ["Inception3", "inception_v3"]

# A convolution is (channels, kernel, stride, padding), "avg" and "max" are poolings, a list is
# a branch, a tuple of lists are branches side by side.
_ACROSS, _DOWN = ((1, 7), 1, (0, 3)), ((7, 1), 1, (3, 0))
_SPLIT = ([(384, (1, 3), 1, (0, 1))], [(384, (3, 1), 1, (1, 0))])


def _a(pooled: int) -> tuple[Any, ...]:
    return ([(64, 1)], [(48, 1), (64, 5, 1, 2)], [(64, 1), (96, 3, 1, 1), (96, 3, 1, 1)],
            ["avg", (pooled, 1)])


def _c(inner: int) -> tuple[Any, ...]:
    across, down = (inner, *_ACROSS), (inner, *_DOWN)
    return ([(192, 1)], [(inner, 1), across, (192, *_DOWN)],
            [(inner, 1), down, across, down, (192, *_ACROSS)], ["avg", (192, 1)])


_E = ([(320, 1)], [[(384, 1)], _SPLIT], [[(448, 1), (384, 3, 1, 1)], _SPLIT], ["avg", (192, 1)])
_START: list[Any] = [(32, 3, 2), (32, 3), (64, 3, 1, 1), "max", (80, 1), (192, 3), "max"]
_STAGES: dict[str, tuple[Any, ...]] = {
    "A1_": _a(32), "A2_": _a(64), "A3_": _a(64),
    "B_": ([(384, 3, 2)], [(64, 1), (96, 3, 1, 1), (96, 3, 2)], ["max"]),
    "C1_": _c(128), "C2_": _c(160), "C3_": _c(160), "C4_": _c(192),
    "D_": ([(192, 1), (320, 3, 2)], [(192, 1), (192, *_ACROSS), (192, *_DOWN), (192, 3, 2)],
           ["max"]),
    "E1_": _E, "E2_": _E,
}


def _make(what: Any) -> Block:
    """The block that a description stands for."""
    if what == "avg":
        return AvgPool2D(3, 1, 1)
    if what == "max":
        return MaxPool2D(3, 2)
    if isinstance(what, list):
        return stack(*map(_make, what))
    if isinstance(what[0], list):
        return _side_by_side(what, "")
    return stack(*conv_bn(*what, epsilon=0.001))


def _side_by_side(branches: tuple[Any, ...], prefix: str) -> HybridConcurrent:
    block = HybridConcurrent(axis=1, prefix=prefix)
    with block.name_scope():
        block.add(*map(_make, branches))
    return block


class Inception3(Network):
    """Modules of convolutions of several sizes side by side.

    Shapes: (N, 3, 299, 299) -> (N, classes).
    """

    def __init__(self, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = HybridSequential(prefix="")
            self.features.add(*map(_make, _START))
            for prefix, branches in _STAGES.items():
                self.features.add(_side_by_side(branches, prefix))
            self.features.add(AvgPool2D(8), Dropout(0.5))
            self.output = Dense(classes)


def inception_v3(pretrained: bool = False, ctx: Context | None = None, root: str | None = None,
                 **kwargs: Any) -> Inception3:
    """The network Inception V3.

    Args:
        pretrained: load trained weights. ctx: where to. root: the folder in which they lie.
        kwargs: settings of its class, e.g. classes.
    """
    net: Inception3 = ready(Inception3(**kwargs), "inceptionv3", pretrained, ctx, root)
    return net


MODELS = {"inceptionv3": inception_v3}
