"""Augmenters: changes to images, one after another, most of them random."""
from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..base import ArgumentError, ParameterMismatch
from ..ndarray import NDArray, array
from .image import (
    center_crop,
    color_normalize,
    imresize,
    random_crop,
    random_size_crop,
    resize_short,
)

__all__ = [
    "Augmenter", "BrightnessJitterAug", "CastAug", "CenterCropAug", "ColorJitterAug",
    "ColorNormalizeAug", "ContrastJitterAug", "CreateAugmenter", "ForceResizeAug",
    "HorizontalFlipAug", "HueJitterAug", "LightingAug", "RandomCropAug", "RandomGrayAug",
    "RandomOrderAug", "RandomSizedCropAug", "ResizeAug", "SaturationJitterAug", "SequentialAug",
]

# Principal components of the colours of ImageNet (AlexNet), its mean and its standard deviation.
_EIGVAL = np.array([55.46, 4.794, 1.148])
_EIGVEC = np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140],
                    [-0.5836, -0.6948, 0.4203]])
_MEAN = np.array([123.68, 116.28, 103.53])
_STD = np.array([58.395, 57.12, 57.375])
_GRAY = (0.299, 0.587, 0.114)


class Augmenter:
    """A change to an image: subclasses define ``__call__(src) -> image``.

    ``dumps()`` tells the settings, which are those given to this constructor.
    """

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = kwargs
        for name, value in kwargs.items():
            if isinstance(value, NDArray):
                value = value.asnumpy()
            if isinstance(value, np.ndarray):
                kwargs[name] = value.tolist()

    def dumps(self) -> Any:
        """Name and settings, as JSON."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, src: NDArray) -> NDArray:
        raise NotImplementedError(f"{type(self).__name__} must define __call__")


class SequentialAug(Augmenter):
    """Augmenters one after another."""

    def __init__(self, ts: Sequence[Augmenter]) -> None:
        super().__init__()
        self.ts = list(ts)

    def dumps(self) -> Any:
        """Name, and what the parts say."""
        return [type(self).__name__.lower(), [step.dumps() for step in self.ts]]

    def __call__(self, src: NDArray) -> NDArray:
        for step in self.ts:
            src = step(src)
        return src


class RandomOrderAug(SequentialAug):
    """Augmenters in random order."""

    def __call__(self, src: NDArray) -> NDArray:
        for step in random.sample(self.ts, len(self.ts)):
            src = step(src)
        return src


# -- sizes -----------------------------------------------------------------------------------------


class ResizeAug(Augmenter):
    """The shorter side becomes `size`."""

    def __init__(self, size: int, interp: int = 2) -> None:
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: NDArray) -> NDArray:
        return resize_short(src, self.size, self.interp)


class ForceResizeAug(Augmenter):
    """Resized to (width, height), whatever that does to the ratio."""

    def __init__(self, size: Sequence[int], interp: int = 2) -> None:
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: NDArray) -> NDArray:
        return imresize(src, self.size[0], self.size[1], self.interp)


class RandomCropAug(Augmenter):
    """A rectangle (width, height) at a random place."""

    def __init__(self, size: Sequence[int], interp: int = 2) -> None:
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: NDArray) -> NDArray:
        return random_crop(src, self.size, self.interp)[0]


class CenterCropAug(Augmenter):
    """The middle, (width, height)."""

    def __init__(self, size: Sequence[int], interp: int = 2) -> None:
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: NDArray) -> NDArray:
        return center_crop(src, self.size, self.interp)[0]


class RandomSizedCropAug(Augmenter):
    """A rectangle of random area and ratio, resized; arguments as for `random_size_crop`."""

    def __init__(self, size: Sequence[int], area: Any, ratio: Sequence[float], interp: int = 2,
                 **kwargs: Any) -> None:
        area = kwargs.pop("min_area", area)
        if kwargs:
            raise ArgumentError(f"RandomSizedCropAug: unknown arguments {sorted(kwargs)}")
        super().__init__(size=size, area=area, ratio=ratio, interp=interp)
        self.size, self.area, self.ratio, self.interp = size, area, ratio, interp

    def __call__(self, src: NDArray) -> NDArray:
        return random_size_crop(src, self.size, self.area, self.ratio, self.interp)[0]


class HorizontalFlipAug(Augmenter):
    """Mirrored with probability `p`."""

    def __init__(self, p: float) -> None:
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: NDArray) -> NDArray:
        if random.random() < self.p:
            return nd.flip(src, axis=1)  # type: ignore[attr-defined, no-any-return]
        return src


# -- colours ---------------------------------------------------------------------------------------


class CastAug(Augmenter):
    """Another element type."""

    def __init__(self, typ: str = "float32") -> None:
        super().__init__(type=typ)
        self.typ = typ

    def __call__(self, src: NDArray) -> NDArray:
        return src.astype(self.typ)


def _gray(src: NDArray) -> NDArray:
    weights = array(_GRAY, ctx=src.context, dtype=src.dtype)
    return nd.sum(src * weights, axis=2, keepdims=True)  # type: ignore[attr-defined, no-any-return]


class BrightnessJitterAug(Augmenter):
    """Times a factor between 1 - brightness and 1 + brightness."""

    def __init__(self, brightness: float) -> None:
        super().__init__(brightness=brightness)
        self.brightness = brightness

    def __call__(self, src: NDArray) -> NDArray:
        return src * (1 + random.uniform(-self.brightness, self.brightness))


class ContrastJitterAug(Augmenter):
    """The distance to the mean gray times a factor between 1 - contrast and 1 + contrast."""

    def __init__(self, contrast: float) -> None:
        super().__init__(contrast=contrast)
        self.contrast = contrast

    def __call__(self, src: NDArray) -> NDArray:
        factor = 1 + random.uniform(-self.contrast, self.contrast)
        return src * factor + _gray(src).mean() * (1 - factor)  # type: ignore[attr-defined, no-any-return]


class SaturationJitterAug(Augmenter):
    """The distance of each pixel to its gray times a factor between 1 -/+ saturation."""

    def __init__(self, saturation: float) -> None:
        super().__init__(saturation=saturation)
        self.saturation = saturation

    def __call__(self, src: NDArray) -> NDArray:
        factor = 1 + random.uniform(-self.saturation, self.saturation)
        return src * factor + _gray(src) * (1 - factor)


class HueJitterAug(Augmenter):
    """Hues turned by up to `hue` half circles (in the colour space YIQ)."""

    _TO_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
    _FROM_YIQ = np.array([[1.0, 0.956, 0.621], [1.0, -0.272, -0.647], [1.0, -1.107, 1.705]])

    def __init__(self, hue: float) -> None:
        super().__init__(hue=hue)
        self.hue = hue

    def __call__(self, src: NDArray) -> NDArray:
        angle = random.uniform(-self.hue, self.hue) * np.pi
        cosine, sine = np.cos(angle), np.sin(angle)
        turn = np.array([[1, 0, 0], [0, cosine, -sine], [0, sine, cosine]])
        mix = (self._FROM_YIQ @ turn @ self._TO_YIQ).T
        return nd.dot(src, array(mix, ctx=src.context, dtype=src.dtype))  # type: ignore[attr-defined, no-any-return]


class ColorJitterAug(RandomOrderAug):
    """Brightness, contrast and saturation changed, in random order; 0 leaves one out."""

    def __init__(self, brightness: float, contrast: float, saturation: float) -> None:
        kinds = ((BrightnessJitterAug, brightness), (ContrastJitterAug, contrast),
                 (SaturationJitterAug, saturation))
        super().__init__([kind(amount) for kind, amount in kinds if amount > 0])


class LightingAug(Augmenter):
    """Principal components of natural colours added, by normally distributed amounts."""

    def __init__(self, alphastd: float, eigval: Any, eigvec: Any) -> None:
        super().__init__(alphastd=alphastd, eigval=eigval, eigvec=eigvec)
        self.alphastd, self.eigval, self.eigvec = alphastd, eigval, eigvec

    def __call__(self, src: NDArray) -> NDArray:
        alpha = np.array([random.gauss(0, self.alphastd) for _ in range(3)])
        light = np.dot(np.asarray(self.eigvec) * alpha, np.asarray(self.eigval))
        return src + array(light, ctx=src.context, dtype=src.dtype)


class ColorNormalizeAug(Augmenter):
    """``(src - mean) / std``; None leaves one out."""

    def __init__(self, mean: Any, std: Any) -> None:
        super().__init__(mean=mean, std=std)
        self.mean = mean if mean is None or isinstance(mean, NDArray) else array(mean)
        self.std = std if std is None or isinstance(std, NDArray) else array(std)

    def __call__(self, src: NDArray) -> NDArray:
        return color_normalize(src, self.mean, self.std)


class RandomGrayAug(Augmenter):
    """Gray in all channels, with probability `p`."""

    def __init__(self, p: float) -> None:
        super().__init__(p=p)
        self.p = p
        self.mat = array([[0.21] * 3, [0.72] * 3, [0.07] * 3])

    def __call__(self, src: NDArray) -> NDArray:
        if random.random() < self.p:
            return nd.dot(src, self.mat.astype(src.dtype))  # type: ignore[attr-defined, no-any-return]
        return src


def CreateAugmenter(data_shape: Sequence[int], resize: int = 0, rand_crop: bool = False,
                    rand_resize: bool = False, rand_mirror: bool = False, mean: Any = None,
                    std: Any = None, brightness: float = 0, contrast: float = 0,
                    saturation: float = 0, hue: float = 0, pca_noise: float = 0,
                    rand_gray: float = 0, inter_method: int = 2) -> list[Augmenter]:
    """The usual augmenters, in the usual order.

    Args:
        data_shape: (channels, height, width) of the result.
        resize: first the shorter side becomes this, if larger than 0.
        rand_crop: cut at a random place instead of the middle; `rand_resize` also with random
            area (0.08 to 1) and ratio (3/4 to 4/3).
        rand_mirror: mirrored half of the time.
        mean, std: to normalize the colours; True means those of ImageNet.
        brightness, contrast, saturation, hue: how much each may change.
        pca_noise: standard deviation of the lighting noise. rand_gray: probability of gray.
        inter_method: how to resize, as for `resize_short`.

    >>> [type(step).__name__ for step in CreateAugmenter((3, 8, 8), resize=10, rand_mirror=True)]
    ['ResizeAug', 'CenterCropAug', 'HorizontalFlipAug', 'CastAug']
    """
    steps: list[Augmenter] = []
    if resize > 0:
        steps.append(ResizeAug(resize, inter_method))
    size = (data_shape[2], data_shape[1])
    if rand_resize:
        if not rand_crop:
            raise ParameterMismatch("CreateAugmenter: rand_resize needs rand_crop=True")
        steps.append(RandomSizedCropAug(size, 0.08, (3 / 4, 4 / 3), inter_method))
    elif rand_crop:
        steps.append(RandomCropAug(size, inter_method))
    else:
        steps.append(CenterCropAug(size, inter_method))
    if rand_mirror:
        steps.append(HorizontalFlipAug(0.5))
    steps.append(CastAug())
    return steps + color_steps(mean, std, brightness, contrast, saturation, hue, pca_noise,
                               rand_gray)


def color_steps(mean: Any, std: Any, brightness: float, contrast: float, saturation: float,
                hue: float, pca_noise: float, rand_gray: float) -> list[Augmenter]:
    """The part of `CreateAugmenter` that changes colours."""
    steps: list[Augmenter] = []
    if brightness or contrast or saturation:
        steps.append(ColorJitterAug(brightness, contrast, saturation))
    if hue:
        steps.append(HueJitterAug(hue))
    if pca_noise > 0:
        steps.append(LightingAug(pca_noise, _EIGVAL, _EIGVEC))
    if rand_gray > 0:
        steps.append(RandomGrayAug(rand_gray))
    mean, std = _three(mean, _MEAN, "mean"), _three(std, _STD, "std")
    if mean is not None or std is not None:
        steps.append(ColorNormalizeAug(mean, std))
    return steps


def _three(given: Any, usual: Any, word: str) -> Any:
    if given is None or given is False:
        return None
    if given is True:
        return usual
    values = given.asnumpy() if isinstance(given, NDArray) else np.asarray(given)
    if values.shape not in ((1,), (3,)):
        raise ParameterMismatch(f"CreateAugmenter: {word}: expected True or 1 or 3 numbers, "
                                f"got shape {values.shape}")
    return values
