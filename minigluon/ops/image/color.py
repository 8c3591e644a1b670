"""Changing the colours of images, by a given amount or at random."""
from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base import ArgumentValueError
from ..operator import Attrs, MaybeShape, operator
from ..rules import same_shape
from .geometry import image_shape

__all__: list[str] = []

Array = Any
Shapes = list[MaybeShape]

_LUMINANCE = (0.299, 0.587, 0.114)  # of red, green, blue
# Principal components of the colours of ImageNet, times their standard deviations (AlexNet).
_COMPONENTS = ((55.46 * -0.5675, 4.794 * 0.7192, 1.148 * 0.4009),
               (55.46 * -0.5808, 4.794 * -0.0045, 1.148 * -0.8140),
               (55.46 * -0.5836, 4.794 * -0.6948, 1.148 * 0.4203))


def _image(shapes: Shapes, attrs: Attrs, outs: Shapes | None = None) -> tuple[Shapes, Shapes]:
    image_shape(shapes[0], (3,))
    return same_shape(shapes, attrs, outs)


def _work(xp: Any, data: Array) -> Array:
    image_shape(data.shape, (3,))
    return data.astype(xp.float64 if data.dtype == np.float64 else xp.float32, copy=False)


def _back(xp: Any, result: Array, data: Array) -> Array:
    """In the element type of `data`; uint8 stays within its bounds instead of wrapping."""
    if data.dtype == np.uint8:
        result = xp.clip(result, 0, 255)
    return result.astype(data.dtype, copy=result is data)


def _gray(xp: Any, work: Array) -> Array:
    if work.shape[-1] == 1:
        return work
    weights = xp.asarray(_LUMINANCE, dtype=work.dtype)
    return (work * weights).sum(axis=-1, keepdims=True)


def _factor(xp: Any, rng: Any, low: float, high: float, work: Array) -> Array:
    drawn = xp.asarray(rng.random((1,))) * (high - low) + low
    return drawn.astype(work.dtype)


def _limits(low: float, high: float) -> None:
    if not 0 <= low <= high:
        raise ArgumentValueError(
            f"expected factors 0 <= min_factor <= max_factor, got {low} and {high}"
        )


def _brighter(xp: Any, work: Array, factor: Array) -> Array:
    return work * factor


def _contrasted(xp: Any, work: Array, factor: Array) -> Array:
    middle = _gray(xp, work).mean(axis=(0, 1), keepdims=True, dtype=np.float64).astype(work.dtype)
    return work * factor + (1 - factor) * middle


def _saturated(xp: Any, work: Array, factor: Array) -> Array:
    return work if work.shape[-1] == 1 else work * factor + (1 - factor) * _gray(xp, work)


def _hued(xp: Any, work: Array, turns: Array) -> Array:
    """Colours moved around the colour circle; lightness and saturation stay."""
    if work.shape[-1] == 1:
        return work
    low, high = work.min(axis=-1), work.max(axis=-1)
    span = high - low
    safe = xp.where(span > 0, span, 1)
    red, green, blue = work[..., 0], work[..., 1], work[..., 2]
    hue = xp.where(high == red, (green - blue) / safe,
                   xp.where(high == green, (blue - red) / safe + 2, (red - green) / safe + 4))
    hue = hue / 6 + turns
    result = xp.empty_like(work)
    for channel, offset in enumerate((1 / 3, 0.0, -1 / 3)):
        place = (hue + offset) % 1 * 6
        rising = xp.clip(xp.minimum(place, 4 - place), 0, 1)  # 0 up to 1, level, and down again
        result[..., channel] = low + span * rising
    return result


def _random_op(name: str, doc: str, change: Any) -> None:
    def body(xp: Any, data: Array, *, min_factor: float, max_factor: float, rng: Any) -> Array:
        _limits(min_factor, max_factor)
        work = _work(xp, data)
        result = change(xp, work, _factor(xp, rng, min_factor, max_factor, work))
        if change is _hued and data.dtype.kind in "iu":
            result = xp.rint(result)
        return _back(xp, result, data)

    body.__doc__ = f"""{doc}

    Args:
        min_factor, max_factor: between which the factor is drawn.

    Shapes: data (H, W, C), unchanged; C 1 or 3.
    """
    operator(name, infer=_image)(body)


_random_op("_image_random_brightness", "An image times a factor.", _brighter)
_random_op("_image_random_contrast", "The distance to the image's mean gray times a factor.",
           _contrasted)
_random_op("_image_random_saturation", "The distance of each pixel to its gray times a factor.",
           _saturated)
_random_op("_image_random_hue", "Hues moved by a factor; 1 is once around the colour circle.",
           _hued)


@operator("_image_random_color_jitter", infer=_image)
def random_color_jitter(xp: Any, data: Array, *, brightness: float = 0.0, contrast: float = 0.0,
                        saturation: float = 0.0, hue: float = 0.0, rng: Any) -> Array:
    """Brightness, contrast, saturation and hue changed by random factors, in random order.

    Args:
        brightness, contrast, saturation, hue: x draws a factor between max(0, 1 - x) and 1 + x.

    Shapes: data (H, W, C), unchanged; C 1 or 3.
    """
    given = ((brightness, _brighter), (contrast, _contrasted), (saturation, _saturated),
             (hue, _hued))
    if min(amount for amount, _ in given) < 0:
        raise ArgumentValueError(f"expected amounts of 0 or more, got brightness={brightness}, "
                                 f"contrast={contrast}, saturation={saturation}, hue={hue}")
    orders = list(itertools.permutations(range(4)))
    order = orders[int(float(rng.random((1,))[0]) * len(orders)) % len(orders)]
    result = _work(xp, data)
    for place in order:
        amount, change = given[place]
        if amount > 0:
            low = max(0.0, 1 - amount)
            result = change(xp, result, _factor(xp, rng, low, 1 + amount, result))
            if data.dtype == np.uint8:  # as if each were an operator of its own
                result = xp.clip(result, 0, 255)
    return _back(xp, result, data)


def _lit(xp: Any, data: Array, alpha: Array) -> Array:
    work = _work(xp, data)
    if work.shape[-1] == 1:
        return data.copy()
    light = (xp.asarray(_COMPONENTS, dtype=np.float64) * alpha).sum(axis=1)
    return _back(xp, work + light.astype(work.dtype), data)


@operator("_image_adjust_lighting", infer=_image)
def adjust_lighting(xp: Any, data: Array, *, alpha: tuple) -> Array:
    """Principal components of natural colours added (as AlexNet was trained).

    Args:
        alpha: how much of each of the three.

    Shapes: data (H, W, 3), unchanged; (H, W, 1) is not changed at all.
    """
    return _lit(xp, data, xp.asarray(_three(alpha), dtype=np.float64))


def _three(alpha: Sequence[float]) -> tuple[float, ...]:
    if len(alpha) != 3:
        raise ArgumentValueError(f"alpha: expected 3 numbers, got {tuple(alpha)}")
    return tuple(map(float, alpha))


@operator("_image_random_lighting", infer=_image)
def random_lighting(xp: Any, data: Array, *, alpha_std: float = 0.05, rng: Any) -> Array:
    """As adjust_lighting, by normally distributed amounts.

    Args:
        alpha_std: their standard deviation.

    Shapes: data (H, W, C), unchanged; C 1 or 3.
    """
    if not alpha_std >= 0:
        raise ArgumentValueError(f"alpha_std: expected 0 or more, got {alpha_std}")
    return _lit(xp, data, xp.asarray(rng.standard_normal((3,))) * alpha_std)
