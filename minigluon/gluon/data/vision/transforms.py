"""What is done to images on their way to a network. All of these also work on whole batches."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....nn import Block, HybridBlock

__all__ = ["Cast", "Compose", "Normalize", "ToTensor"]


class Compose(Block):
    """Transforms one after another.

    >>> import minigluon as mx
    >>> to_input = Compose([ToTensor(), Normalize(0.5, 0.5)])
    >>> to_input(mx.nd.zeros((28, 28, 1), dtype="uint8")).shape
    (1, 28, 28)
    """

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        super().__init__()
        self._transforms = list(transforms)
        self.batched = all(vars(type(fn)).get("batched", False)
                           or getattr(fn, "__dict__", {}).get("batched", False)
                           for fn in self._transforms)
        for fn in self._transforms:
            if isinstance(fn, Block):
                self.register_child(fn)

    def forward(self, x: Any) -> Any:
        for fn in self._transforms:
            x = fn(x)
        return x


class Cast(HybridBlock):
    """Another element type.

    Args:
        dtype: element type, float32 by default.
    """

    batched = True

    def __init__(self, dtype: Any = "float32") -> None:
        super().__init__()
        self._dtype = dtype

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.cast(x, dtype=self._dtype)


class ToTensor(HybridBlock):
    """Pixels 0 to 255, channels last, to floats 0 to 1, channels first.

    Shapes: (H, W, C) -> (C, H, W); (N, H, W, C) -> (N, C, H, W)

    >>> import minigluon as mx
    >>> ToTensor()(mx.nd.ones((4, 5, 3), dtype="uint8") * 255).shape
    (3, 4, 5)
    """

    batched = True

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.to_tensor(x)


class Normalize(HybridBlock):
    """``(x - mean) / std`` for each channel.

    Args:
        mean, std: a number, or one for each channel.

    Shapes: (C, H, W) or (N, C, H, W), unchanged; C is 1 or 3.
    """

    batched = True

    def __init__(self, mean: float | Sequence[float] = 0.0,
                 std: float | Sequence[float] = 1.0) -> None:
        super().__init__()
        self._mean = _values(mean)
        self._std = _values(std)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.normalize(x, mean=self._mean, std=self._std)


def _values(given: float | Sequence[float]) -> tuple[float, ...]:
    return tuple(map(float, given)) if isinstance(given, Sequence) else (float(given),)
