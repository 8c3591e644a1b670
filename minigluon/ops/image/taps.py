"""Resizing along one axis: which input places make an output place, with which weights.

The rules, and the arithmetic of uint8 images in `resample`, are OpenCV's, so that images come out
of a network's preparation as they did in MXNet, which uses it.
"""
from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

__all__ = ["AREA", "CUBIC", "LANCZOS", "LINEAR", "NEAREST", "resample"]

Array = Any
Host = np.ndarray[Any, Any]
Taps = tuple[Host, Host]  # (places, weights), each (output size, taps)

NEAREST, LINEAR, CUBIC, AREA, LANCZOS = range(5)

_BITS = 11  # weights of uint8 images are integers, 2048 for 1
_ONE = 1 << _BITS


def resample(xp: Any, images: Array, height: int, width: int, interp: int) -> Array:
    """Images of shape (..., H, W, C) as (..., height, width, C) of the same dtype."""
    tall, wide = images.shape[-3], images.shape[-2]
    if interp == NEAREST:
        return _pick(xp, _pick(xp, images, _nearest(tall, height), -3), _nearest(wide, width), -2)
    halves = (tall, wide) == (2 * height, 2 * width)
    shrinks = height <= tall and width <= wide
    if halves and interp == LINEAR:
        interp = AREA
    if interp == AREA and shrinks:
        if tall % height == 0 and wide % width == 0:
            return _blocks(xp, images, height, width)
        rule = _area
    else:
        rule = {LINEAR: _linear, AREA: _area_grown, CUBIC: _cubic, LANCZOS: _lanczos}[interp]
    rows, columns = rule(tall, height), rule(wide, width)
    used, places = np.unique(rows[0], return_inverse=True)
    if len(used) < tall:  # rows that are not needed need not be computed
        images, rows = _pick(xp, images, used, -3), (places.reshape(rows[0].shape), rows[1])
    if images.dtype != np.uint8 or (interp == AREA and shrinks):
        return _in_floats(xp, images, rows, columns)
    return _in_integers(xp, images, rows, columns)


def _pick(xp: Any, images: Array, places: Host, axis: int) -> Array:
    return xp.take(images, xp.asarray(places), axis=axis)


def _blocks(xp: Any, images: Array, height: int, width: int) -> Array:
    """Means of equal blocks."""
    *batch, tall, wide, channels = images.shape
    cut = images.reshape(*batch, height, tall // height, width, wide // width, channels)
    if images.dtype != np.uint8:
        return cut.mean(axis=(-4, -2)).astype(images.dtype, copy=False)
    sums = cut.sum(axis=(-4, -2), dtype=np.int32)
    count = (tall // height) * (wide // width)
    if count == 4 and tall == 2 * height:
        return ((sums + 2) >> 2).astype(np.uint8)
    return _to_bytes(xp, sums.astype(np.float32) * np.float32(1 / count))


def _lines(xp: Any, images: Array, columns: Taps) -> tuple[Array, list[Array], list[Array]]:
    """Images as (..., H, W * C), so that every step runs along memory; places, weights for that."""
    places, weights = columns
    channels = images.shape[-1]
    flat = images.reshape(*images.shape[:-2], -1)
    each = np.arange(channels)
    return (flat, [xp.asarray((places[:, tap, None] * channels + each).reshape(-1))
                   for tap in range(places.shape[1])],
            [xp.asarray(np.repeat(weights[:, tap], channels)) for tap in range(places.shape[1])])


def _weighed(xp: Any, source: Array, places: list[Array], weights: list[Array],
             axis: int) -> Array:
    """The sum over taps of what lies at `places`, times `weights`."""
    total = xp.take(source, places[0], axis=axis)
    total *= weights[0]
    for place, weight in zip(places[1:], weights[1:], strict=True):
        part = xp.take(source, place, axis=axis)
        part *= weight
        total += part
    return total


def _in_floats(xp: Any, images: Array, rows: Taps, columns: Taps) -> Array:
    kind = np.float64 if images.dtype == np.float64 else np.float32
    flat, across, weights = _lines(xp, images.astype(kind, copy=False), columns)
    lines = _weighed(xp, flat, across, [weight.astype(kind) for weight in weights], -1)
    down = [xp.asarray(rows[0][:, tap]) for tap in range(rows[0].shape[1])]
    heights = [xp.asarray(rows[1][:, tap].astype(kind).reshape(-1, 1)) for tap in range(len(down))]
    result = _weighed(xp, lines, down, heights, -2)
    result = result.reshape(*result.shape[:-1], -1, images.shape[-1])
    return _to_bytes(xp, result) if images.dtype == np.uint8 else result.astype(images.dtype,
                                                                               copy=False)


def _in_integers(xp: Any, images: Array, rows: Taps, columns: Taps) -> Array:
    flat, across, weights = _lines(xp, images.astype(np.int32), columns)
    lines = _weighed(xp, flat, across, [_fixed(xp, weight) for weight in weights], -1)
    taps = range(rows[0].shape[1])
    down = [xp.asarray(rows[0][:, tap]) for tap in taps]
    heights = [_fixed(xp, xp.asarray(rows[1][:, tap])).reshape(-1, 1) for tap in taps]
    if len(taps) == 2:  # 16 bits at a time, as vector instructions do it
        lines >>= 4
        total = 2
        for tap in taps:
            part = xp.take(lines, down[tap], axis=-2)
            part *= heights[tap]
            part >>= 16
            total = part + total
        result = (total >> 2).astype(np.uint8)
    elif len(taps) == 4:  # as vector instructions do it
        scale = np.float32(1 / _ONE**2)
        result = _to_bytes(xp, _weighed(xp, lines.astype(np.float32), down, [
            height.astype(np.float32) * scale for height in heights], -2))
    else:
        total = _weighed(xp, lines, down, heights, -2)
        total = (total + (1 << 2 * _BITS - 1)) >> 2 * _BITS
        result = xp.clip(total, 0, 255).astype(np.uint8)
    return result.reshape(*result.shape[:-1], -1, images.shape[-1])


def _fixed(xp: Any, weights: Array) -> Array:
    return xp.rint(weights * np.float32(_ONE)).astype(np.int32)


def _to_bytes(xp: Any, values: Array) -> Array:
    return xp.clip(xp.rint(values), 0, 255).astype(np.uint8)


# -- places and weights ----------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def _nearest(size: int, target: int) -> Host:
    step = 1 / (target / size)
    return np.minimum(np.floor(np.arange(target) * step).astype(np.int64), size - 1)


def _centres(size: int, target: int) -> Taps:
    """Where the middle of each output place lies: whole part and rest."""
    middle = ((np.arange(target) + 0.5) * (1 / (target / size)) - 0.5).astype(np.float32)
    whole = np.floor(middle)
    return whole.astype(np.int64), middle - whole


def _clamped(places: Host, weights: Host, size: int) -> Taps:
    return np.clip(places, 0, size - 1), weights.astype(np.float32)


@functools.lru_cache(maxsize=64)
def _linear(size: int, target: int) -> Taps:
    whole, rest = _centres(size, target)
    return _two(whole, rest, size)


def _two(whole: Host, rest: Host, size: int) -> Taps:
    return _clamped(np.stack([whole, whole + 1], 1), np.stack([1 - rest, rest], 1), size)


@functools.lru_cache(maxsize=64)
def _area_grown(size: int, target: int) -> Taps:
    """Larger by area: nearest, but for places that two input places share."""
    scale = target / size
    number = np.arange(target)
    whole = np.floor(number * (1 / scale)).astype(np.int64)
    rest = ((number + 1) - (whole + 1) * scale).astype(np.float32)
    rest = np.where(rest <= 0, np.float32(0), rest - np.floor(rest))
    return _two(whole, rest, size)


@functools.lru_cache(maxsize=64)
def _cubic(size: int, target: int) -> Taps:
    whole, x = _centres(size, target)
    a = np.float32(-0.75)
    far, near, other = x + 1, x, 1 - x
    weights = [((a * far - 5 * a) * far + 8 * a) * far - 4 * a,
               ((a + 2) * near - (a + 3)) * near * near + 1,
               ((a + 2) * other - (a + 3)) * other * other + 1]
    weights.append(1 - weights[0] - weights[1] - weights[2])
    return _clamped(whole[:, None] + np.arange(-1, 3), np.stack(weights, 1), size)


@functools.lru_cache(maxsize=64)
def _lanczos(size: int, target: int) -> Taps:
    whole, x = _centres(size, target)
    angles = (x[:, None].astype(np.float64) + np.arange(3, -5, -1)) * math.pi
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = np.sin(angles) * np.sin(angles / 4) / angles**2
    on_place = x < np.finfo(np.float32).eps
    weights[on_place] = np.arange(8) == 3
    weights /= weights.sum(1, keepdims=True)
    return _clamped(whole[:, None] + np.arange(-3, 5), weights, size)


@functools.lru_cache(maxsize=64)
def _area(size: int, target: int) -> Taps:
    """Smaller by area: each output place is the mean of what lies under it."""
    step = 1 / (target / size)
    start = np.arange(target) * step
    end = np.minimum(start + step, size)
    first = np.floor(start + 1e-3).astype(np.int64)  # slivers below a thousandth do not count
    count = int((np.ceil(end - 1e-3).astype(np.int64) - first).max())
    places = first[:, None] + np.arange(count)
    covered = np.minimum(places + 1, end[:, None]) - np.maximum(places, start[:, None])
    weights = np.where(covered > 1e-3, covered, 0) / np.minimum(step, size - start)[:, None]
    return _clamped(places, weights, size)
