"""What is done to images on their way to a network.

Images are (height, width, channels), colours as RGB, until ToTensor puts the channels first.
Transforms with ``batched`` also work on whole batches, which the DataLoader makes use of.
"""
from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....base import ArgumentValueError, DTypeError
from ....image import (
    center_crop,
    imrotate,
    random_crop,
    random_rotate,
    random_size_crop,
)
from ....nn import Block, HybridBlock, HybridSequential, Sequential

__all__ = [
    "Cast", "CenterCrop", "Compose", "CropResize", "HybridCompose", "HybridRandomApply",
    "Normalize", "RandomApply", "RandomBrightness", "RandomColorJitter", "RandomContrast",
    "RandomCrop", "RandomFlipLeftRight", "RandomFlipTopBottom", "RandomGray", "RandomHue",
    "RandomLighting", "RandomResizedCrop", "RandomRotation", "RandomSaturation", "Resize",
    "Rotate", "ToTensor",
]


# -- transforms of transforms ----------------------------------------------------------------------


class Compose(Sequential):
    """Transforms (blocks or functions) one after another.

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

    def forward(self, x: Any, *args: Any) -> Any:
        for fn in self._transforms:
            x = fn(x)
        return (x, *args) if args else x


class HybridCompose(HybridSequential):
    """Hybrid transforms one after another, run as one."""

    def __init__(self, transforms: Sequence[HybridBlock]) -> None:
        super().__init__()
        for fn in transforms:
            if not isinstance(fn, HybridBlock):
                raise ArgumentValueError(
                    f"HybridCompose: expected HybridBlocks, got {type(fn).__name__}; use Compose"
                )
            self.add(fn)
        self.hybridize()


class RandomApply(Sequential):
    """A transform, applied with probability `p`, else the image as it is.

    Args:
        transforms: a transform, or a list of them, one after another. p: the probability.
    """

    def __init__(self, transforms: Any, p: float = 0.5) -> None:
        super().__init__()
        self.transforms = (Compose(transforms) if isinstance(transforms, (list, tuple))
                           else transforms)
        self.p = _chance("RandomApply", p)

    def forward(self, x: Any, *args: Any) -> Any:
        if random.random() < self.p:
            x = self.transforms(x)
        return (x, *args) if args else x


class HybridRandomApply(HybridSequential):
    """As RandomApply, for a hybrid transform; can be hybridized.

    Args:
        transforms: a HybridBlock that keeps shape and element type. p: the probability.
    """

    def __init__(self, transforms: HybridBlock, p: float = 0.5) -> None:
        super().__init__()
        if not isinstance(transforms, HybridBlock):
            raise ArgumentValueError(f"HybridRandomApply: expected a HybridBlock, got "
                                     f"{type(transforms).__name__}; use RandomApply")
        self.transforms = transforms
        self.p = _chance("HybridRandomApply", p)

    def hybrid_forward(self, F: Any, x: Any, *args: Any) -> Any:
        return F.where(_drawn_for(F, x, self.p), self.transforms(x), x)


def _drawn_for(F: Any, x: Any, p: float) -> Any:
    """1 for every pixel with probability `p`, else 0 for every one."""
    draw = F.reshape(F.random.uniform(0, 1, shape=(1,)), shape=(1, 1, 1))
    return F.broadcast_mul(F.ones_like(F.cast(x, dtype="float32")), draw) < p


def _chance(who: str, p: float) -> float:
    if not 0 <= p <= 1:
        raise ArgumentValueError(f"{who}: p: expected a probability from 0 to 1, got {p}")
    return p


# -- values ----------------------------------------------------------------------------------------


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
    if isinstance(given, (Sequence, np.ndarray)):
        return tuple(map(float, given))
    return (float(given),)


# -- sizes -----------------------------------------------------------------------------------------


def _pair(size: Any) -> tuple[int, int]:
    """(width, height) from that or from one number."""
    if isinstance(size, (int, np.integer)):
        return int(size), int(size)
    if not isinstance(size, (tuple, list)) or len(size) != 2:
        raise ArgumentValueError(f"size: expected a number or (width, height), got {size!r}")
    return tuple(size)


class Resize(HybridBlock):
    """Another size.

    Args:
        size: (width, height), or one number for both.
        keep_ratio: with one number: it is the shorter side; the other one follows.
        interpolation: 0 nearest, 1 bilinear, 2 bicubic, 3 area, 4 Lanczos.

    Shapes: (H, W, C) -> (height, width, C); (N, H, W, C) -> (N, height, width, C)

    >>> import minigluon as mx
    >>> Resize((10, 5))(mx.nd.zeros((22, 24, 3), dtype="uint8")).shape
    (5, 10, 3)
    """

    batched = True

    def __init__(self, size: Any, keep_ratio: bool = False, interpolation: int = 1) -> None:
        super().__init__()
        self._size, self._keep, self._interpolation = size, keep_ratio, interpolation

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.resize(x, size=self._size, keep_ratio=self._keep,
                              interp=self._interpolation)


class CropResize(HybridBlock):
    """A rectangle, resized if `size` is given.

    Args:
        x, y: its left upper corner. width, height: its sizes.
        size: (width, height) of the result, or one number for both.
        interpolation: as for Resize.

    Shapes: (H, W, C) -> (height, width, C), or `size`; also with a batch axis in front.
    """

    batched = True

    def __init__(self, x: int, y: int, width: int, height: int, size: Any = None,
                 interpolation: int | None = None) -> None:
        super().__init__()
        self._x, self._y, self._width, self._height = x, y, width, height
        self._size, self._interpolation = size, interpolation

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        cut = F.image.crop(x, x=self._x, y=self._y, width=self._width, height=self._height)
        if not self._size:
            return cut
        interp = 1 if self._interpolation is None else self._interpolation
        return F.image.resize(cut, size=self._size, interp=interp)


class CenterCrop(Block):
    """The middle; of a smaller image as much as there is, enlarged.

    Args:
        size: (width, height), or one number for both. interpolation: as for Resize.

    Shapes: (H, W, C) -> (height, width, C)
    """

    def __init__(self, size: Any, interpolation: int = 1) -> None:
        super().__init__()
        self._args = (_pair(size), interpolation)

    def forward(self, x: Any) -> Any:
        return center_crop(x, *self._args)[0]


class RandomCrop(Block):
    """A rectangle at a random place; of a smaller image as much as there is, enlarged.

    Args:
        size: (width, height), or one number for both.
        pad: a border of zeros of that width first. interpolation: as for Resize.

    Shapes: (H, W, C) -> (height, width, C)
    """

    def __init__(self, size: Any, pad: int | None = None, interpolation: int = 1) -> None:
        super().__init__()
        self._args = (_pair(size), interpolation)
        self._border = pad or 0

    def forward(self, x: Any) -> Any:
        if self._border:
            height, width, channels = x.shape
            framed = np.zeros((height + 2 * self._border, width + 2 * self._border, channels),
                              x.dtype)
            framed[self._border: -self._border, self._border: -self._border] = x.asnumpy()
            x = type(x)(framed, x.context)
        return random_crop(x, *self._args)[0]


class RandomResizedCrop(Block):
    """A rectangle of random size, shape and place, resized.

    Args:
        size: (width, height), or one number for both.
        scale: (smallest, largest) share of the area. ratio: (smallest, largest) width / height.
        interpolation: as for Resize.

    Shapes: (H, W, C) -> (height, width, C)
    """

    def __init__(self, size: Any, scale: Sequence[float] = (0.08, 1.0),
                 ratio: Sequence[float] = (3.0 / 4.0, 4.0 / 3.0), interpolation: int = 1) -> None:
        super().__init__()
        self._args = (_pair(size), scale, ratio, interpolation)

    def forward(self, x: Any) -> Any:
        return random_size_crop(x, *self._args)[0]


# -- turning ---------------------------------------------------------------------------------------


class RandomFlipLeftRight(HybridBlock):
    """Mirrored half of the time.

    Shapes: (H, W, C), unchanged.
    """

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.random_flip_left_right(x)


class RandomFlipTopBottom(HybridBlock):
    """Upside down half of the time.

    Shapes: (H, W, C), unchanged.
    """

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.random_flip_top_bottom(x)


def _floats(x: Any) -> Any:
    if x.dtype != np.float32:
        raise DTypeError(f"this transformation only supports float32, got "
                         f"{np.dtype(x.dtype).name}; call it after ToTensor")
    return x


class Rotate(Block):
    """Turned about the middle against the clock, the size kept; what comes in is 0.

    Args:
        rotation_degrees: the angle. zoom_in: enlarge until nothing else is seen.
        zoom_out: make smaller until all of the image is seen.

    Shapes: (C, H, W) or (N, C, H, W) float32, unchanged.
    """

    batched = True

    def __init__(self, rotation_degrees: float, zoom_in: bool = False,
                 zoom_out: bool = False) -> None:
        super().__init__()
        self._args = (rotation_degrees, zoom_in, zoom_out)

    def forward(self, x: Any) -> Any:
        return imrotate(_floats(x), *self._args)


class RandomRotation(Block):
    """Turned by a random angle.

    Args:
        angle_limits: (smallest, largest) angle. zoom_in, zoom_out: as for Rotate.
        rotate_with_proba: the probability with which it is turned at all.

    Shapes: (C, H, W) or (N, C, H, W) float32, unchanged.
    """

    def __init__(self, angle_limits: Sequence[float], zoom_in: bool = False,
                 zoom_out: bool = False, rotate_with_proba: float = 1.0) -> None:
        super().__init__()
        if len(angle_limits) != 2 or angle_limits[0] >= angle_limits[1]:
            raise ArgumentValueError("RandomRotation: angle_limits: expected (smallest, largest) "
                                     f"angle, got {angle_limits}")
        _chance("RandomRotation", rotate_with_proba)
        self._args = (tuple(angle_limits), zoom_in, zoom_out)
        self._rotate_with_proba = rotate_with_proba

    def forward(self, x: Any) -> Any:
        if random.random() >= self._rotate_with_proba:
            return x
        return random_rotate(_floats(x), *self._args)


# -- colours ---------------------------------------------------------------------------------------


def _around_one(amount: float) -> dict[str, float]:
    return {"min_factor": max(0.0, 1 - amount), "max_factor": 1 + amount}


class RandomBrightness(HybridBlock):
    """Times a random factor between max(0, 1 - brightness) and 1 + brightness.

    Shapes: (H, W, C), unchanged.
    """

    def __init__(self, brightness: float) -> None:
        super().__init__()
        self._factors = _around_one(brightness)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.random_brightness(x, **self._factors)


class RandomContrast(HybridBlock):
    """The distance to the mean gray times a factor between max(0, 1 - contrast) and 1 + contrast.

    Shapes: (H, W, C), unchanged.
    """

    def __init__(self, contrast: float) -> None:
        super().__init__()
        self._factors = _around_one(contrast)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.random_contrast(x, **self._factors)


class RandomSaturation(HybridBlock):
    """The distance of each pixel to its gray times a factor around 1, by up to `saturation`.

    Shapes: (H, W, C), unchanged.
    """

    def __init__(self, saturation: float) -> None:
        super().__init__()
        self._factors = _around_one(saturation)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.random_saturation(x, **self._factors)


class RandomHue(HybridBlock):
    """Hues turned by up to `hue` times around the colour circle, either way.

    Shapes: (H, W, C), unchanged.
    """

    def __init__(self, hue: float) -> None:
        super().__init__()
        self._factors = _around_one(hue)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.random_hue(x, **self._factors)


class RandomColorJitter(HybridBlock):
    """Brightness, contrast, saturation and hue changed at random, in random order.

    Args:
        brightness, contrast, saturation, hue: how much, as for the transforms of one of them.

    Shapes: (H, W, C), unchanged.
    """

    def __init__(self, brightness: float = 0, contrast: float = 0, saturation: float = 0,
                 hue: float = 0) -> None:
        super().__init__()
        self._amounts = {"brightness": brightness, "contrast": contrast,
                         "saturation": saturation, "hue": hue}

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.random_color_jitter(x, **self._amounts)


class RandomLighting(HybridBlock):
    """Principal components of natural colours added by random amounts (AlexNet).

    Args:
        alpha: standard deviation of the amounts.

    Shapes: (H, W, C), unchanged.
    """

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.random_lighting(x, alpha_std=self._alpha)


class RandomGray(HybridBlock):
    """Gray in all channels, with probability `p`.

    Shapes: (H, W, 3), unchanged; floats.
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = _chance("RandomGray", p)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        gray = F.image.random_saturation(x, min_factor=0, max_factor=0)
        return F.where(_drawn_for(F, x, self.p), gray, x)
