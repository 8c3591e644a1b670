"""Images with boxes: augmenters that move the boxes along, and the iterator over such images.

A label is an array (n, 5 or more), a row an object: class, then left, top, right and bottom as
shares of width and height.
"""
from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..base import ArgumentError, ArgumentValueError, MXNetError
from ..dataiter import DataBatch, DataDesc
from ..ndarray import NDArray
from .augment import Augmenter, CastAug, ForceResizeAug, ResizeAug, color_steps
from .image import copyMakeBorder, fixed_crop
from .imageiter import ImageIter

__all__ = [
    "CreateDetAugmenter", "CreateMultiRandCropAugmenter", "DetAugmenter", "DetBorrowAug",
    "DetHorizontalFlipAug", "DetRandomCropAug", "DetRandomPadAug", "DetRandomSelectAug",
    "ImageDetIter",
]

Host = np.ndarray[Any, Any]
Pair = tuple[NDArray, Host]


class DetAugmenter:
    """A change to an image and its boxes: subclasses define ``__call__(src, label)``."""

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = kwargs

    def dumps(self) -> Any:
        """Name and settings, as JSON."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, src: NDArray, label: Host) -> Pair:
        raise NotImplementedError(f"{type(self).__name__} must define __call__")


class DetBorrowAug(DetAugmenter):
    """An ordinary augmenter, which leaves the boxes where they are."""

    def __init__(self, augmenter: Augmenter) -> None:
        if not isinstance(augmenter, Augmenter):
            raise ArgumentError(f"DetBorrowAug: expected an Augmenter, got "
                                f"{type(augmenter).__name__}")
        super().__init__()
        self.augmenter = augmenter

    def dumps(self) -> Any:
        return [type(self).__name__.lower(), self.augmenter.dumps()]

    def __call__(self, src: NDArray, label: Host) -> Pair:
        return self.augmenter(src), label


class DetRandomSelectAug(DetAugmenter):
    """One augmenter out of a list, or with probability `skip_prob` none."""

    def __init__(self, aug_list: Any, skip_prob: float = 0) -> None:
        super().__init__()
        self.aug_list = list(aug_list) if isinstance(aug_list, (list, tuple)) else [aug_list]
        self.skip_prob = skip_prob if self.aug_list else 1

    def dumps(self) -> Any:
        return [type(self).__name__.lower(), [step.dumps() for step in self.aug_list]]

    def __call__(self, src: NDArray, label: Host) -> Pair:
        if random.random() < self.skip_prob:
            return src, label
        chosen: Pair = random.choice(self.aug_list)(src, label)
        return chosen


class DetHorizontalFlipAug(DetAugmenter):
    """Mirrored, boxes and all, with probability `p`."""

    def __init__(self, p: float) -> None:
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: NDArray, label: Host) -> Pair:
        if random.random() >= self.p:
            return src, label
        label = label.copy()
        label[:, 1], label[:, 3] = 1 - label[:, 3], 1 - label[:, 1]
        return nd.flip(src, axis=1), label  # type: ignore[attr-defined]


class DetRandomCropAug(DetAugmenter):
    """A random rectangle that shows enough of an object.

    Args:
        min_object_covered: how much of some object must lie in it.
        aspect_ratio_range: (smallest, largest) width / height. area_range: of its share.
        min_eject_coverage: an object of which less is left is left out.
        max_attempts: how often to try; then the image stays as it is.
    """

    def __init__(self, min_object_covered: float = 0.1, aspect_ratio_range: Any = (0.75, 1.33),
                 area_range: Any = (0.05, 1.0), min_eject_coverage: float = 0.3,
                 max_attempts: int = 50) -> None:
        super().__init__(min_object_covered=min_object_covered,
                         aspect_ratio_range=_range(aspect_ratio_range),
                         area_range=_range(area_range), min_eject_coverage=min_eject_coverage,
                         max_attempts=max_attempts)
        self.min_object_covered, self.min_eject_coverage = min_object_covered, min_eject_coverage
        self.aspect_ratio_range, self.area_range = _range(aspect_ratio_range), _range(area_range)
        self.max_attempts = max_attempts

    def __call__(self, src: NDArray, label: Host) -> Pair:
        height, width, _ = src.shape
        low, high = self.area_range
        for _ in range(self.max_attempts):
            w, h = _sizes(width, height, (low, min(high, 1.0)), self.aspect_ratio_range)
            if not (0 < w <= width and 0 < h <= height):
                continue
            x, y = random.randint(0, width - w), random.randint(0, height - h)
            found = self._seen(label, x / width, y / height, w / width, h / height)
            if found is not None:
                return fixed_crop(src, x, y, w, h), found
        return src, label

    def _seen(self, label: Host, x: float, y: float, w: float, h: float) -> Host | None:
        """The objects within a rectangle, in its terms; None if it shows too little."""
        corners = np.array([x, y, x, y])
        boxes = np.clip((label[:, 1:5] - corners) / [w, h, w, h], 0, 1)
        shares = _areas(boxes) * w * h / np.maximum(_areas(label[:, 1:5]), 1e-12)
        if shares.max(initial=0) <= self.min_object_covered:
            return None
        kept = (shares >= self.min_eject_coverage) & (_areas(boxes) > 0)
        if not kept.any():
            return None
        result: Host = label[kept].copy()
        result[:, 1:5] = boxes[kept]
        return result


class DetRandomPadAug(DetAugmenter):
    """Put at a random place on a larger canvas, which makes the objects smaller.

    Args:
        aspect_ratio_range: (smallest, largest) width / height of the canvas.
        area_range: of its area, in terms of the image's.
        max_attempts: how often to try; then the image stays as it is.
        pad_val: its colour.
    """

    def __init__(self, aspect_ratio_range: Any = (0.75, 1.33), area_range: Any = (1.0, 3.0),
                 max_attempts: int = 50, pad_val: Any = (128, 128, 128)) -> None:
        pad_val = tuple(pad_val) if isinstance(pad_val, (list, tuple)) else (pad_val,)
        super().__init__(aspect_ratio_range=_range(aspect_ratio_range),
                         area_range=_range(area_range), max_attempts=max_attempts,
                         pad_val=pad_val)
        self.aspect_ratio_range, self.area_range = _range(aspect_ratio_range), _range(area_range)
        self.max_attempts, self.pad_val = max_attempts, pad_val

    def __call__(self, src: NDArray, label: Host) -> Pair:
        height, width, _ = src.shape
        for _ in range(self.max_attempts):
            w, h = _sizes(width, height, self.area_range, self.aspect_ratio_range)
            if w <= width or h <= height:
                continue
            x, y = random.randint(0, w - width), random.randint(0, h - height)
            framed = copyMakeBorder(src, y, h - height - y, x, w - width - x, 0,
                                    values=self.pad_val)
            label = label.copy()
            label[:, 1:5] = (label[:, 1:5] * [width, height, width, height] + [x, y, x, y]) / [
                w, h, w, h]
            return framed, label
        return src, label


def _range(given: Any) -> tuple[float, float]:
    """(smallest, largest); one number is both a bound and 1."""
    if isinstance(given, (int, float)):
        return (min(given, 1.0), max(given, 1.0))
    low, high = given
    if not 0 < low <= high:
        raise ArgumentValueError(f"expected a range 0 < smallest <= largest, got {given}")
    return low, high


def _sizes(width: int, height: int, areas: tuple[float, float],
           ratios: tuple[float, float]) -> tuple[int, int]:
    area = random.uniform(*areas) * width * height
    ratio = random.uniform(*ratios)
    return round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))


def _areas(boxes: Host) -> Host:
    sizes: Host = np.maximum(boxes[:, 2:4] - boxes[:, 0:2], 0)
    return sizes[:, 0] * sizes[:, 1]


def CreateMultiRandCropAugmenter(
    min_object_covered: Any = 0.1, aspect_ratio_range: Any = (0.75, 1.33),
    area_range: Any = (0.05, 1.0), min_eject_coverage: Any = 0.3, max_attempts: Any = 50,
    skip_prob: float = 0,
) -> DetRandomSelectAug:
    """One of several random crops: where an argument is a list, one crop for each of its values."""
    given = [min_object_covered, aspect_ratio_range, area_range, min_eject_coverage, max_attempts]
    lists = [value if isinstance(value, list) else [value] for value in given]
    count = max(map(len, lists))
    if any(len(values) not in (1, count) for values in lists):
        raise ArgumentValueError("CreateMultiRandCropAugmenter: expected lists of one length, got "
                                 f"{[len(values) for values in lists]}")
    lists = [values * count if len(values) == 1 else values for values in lists]
    return DetRandomSelectAug([DetRandomCropAug(*values) for values in zip(*lists, strict=True)],
                              skip_prob)


def CreateDetAugmenter(
    data_shape: Sequence[int], resize: int = 0, rand_crop: float = 0, rand_pad: float = 0,
    rand_gray: float = 0, rand_mirror: bool = False, mean: Any = None, std: Any = None,
    brightness: float = 0, contrast: float = 0, saturation: float = 0, pca_noise: float = 0,
    hue: float = 0, inter_method: int = 2, min_object_covered: Any = 0.1,
    aspect_ratio_range: Any = (0.75, 1.33), area_range: Any = (0.05, 3.0),
    min_eject_coverage: Any = 0.3, max_attempts: Any = 50, pad_val: Any = (127, 127, 127),
) -> list[DetAugmenter]:
    """The usual augmenters of images with boxes, in the usual order.

    Args:
        rand_crop, rand_pad: with which probability to crop, and to put on a larger canvas.
        min_object_covered, aspect_ratio_range, area_range, min_eject_coverage, max_attempts: of
            the crop; the upper end of `area_range` is the canvas's.
        pad_val: colour of the canvas. The others are those of ``mx.image.CreateAugmenter``.
    """
    steps: list[DetAugmenter] = []
    if resize > 0:
        steps.append(DetBorrowAug(ResizeAug(resize, inter_method)))
    if rand_crop > 0:
        steps.append(CreateMultiRandCropAugmenter(
            min_object_covered, aspect_ratio_range, area_range, min_eject_coverage, max_attempts,
            1 - rand_crop))
    if rand_mirror:
        steps.append(DetHorizontalFlipAug(0.5))
    if rand_pad > 0:
        canvas = DetRandomPadAug(aspect_ratio_range, (1.0, area_range[1]), max_attempts, pad_val)
        steps.append(DetRandomSelectAug([canvas], 1 - rand_pad))
    size = (data_shape[2], data_shape[1])
    steps += [DetBorrowAug(ForceResizeAug(size, inter_method)), DetBorrowAug(CastAug())]
    return steps + [DetBorrowAug(step) for step in color_steps(
        mean, std, brightness, contrast, saturation, hue, pca_noise, rand_gray)]


class ImageDetIter(ImageIter):
    """Batches of images with boxes; rows of -1 fill a label up.

    A label in the file is: width of the header, width of an object, the rest of the header, then
    the objects.

    Args:
        aug_list: augmenters; None makes them by ``CreateDetAugmenter(data_shape, **kwargs)``.
        The others are those of ``mx.image.ImageIter``.

    Attributes:
        label_shape: (most objects of an image, width of an object).
    """

    def __init__(self, batch_size: int, data_shape: Sequence[int], path_imgrec: Any = None,
                 path_imglist: Any = None, path_root: Any = None, path_imgidx: Any = None,
                 shuffle: bool = False, part_index: int = 0, num_parts: int = 1,
                 aug_list: list[Any] | None = None, imglist: list[Any] | None = None,
                 data_name: str = "data", label_name: str = "label",
                 last_batch_handle: str = "pad", **kwargs: Any) -> None:
        steps = CreateDetAugmenter(data_shape, **kwargs) if aug_list is None else aug_list
        super().__init__(batch_size, data_shape, path_imgrec=path_imgrec,
                         path_imglist=path_imglist, path_root=path_root, path_imgidx=path_imgidx,
                         shuffle=shuffle, part_index=part_index, num_parts=num_parts,
                         aug_list=steps, imglist=imglist, data_name=data_name,
                         label_name=label_name, last_batch_handle=last_batch_handle)
        self._label_name = label_name
        labels = [self._objects(self._label_of(key)) for key in self.seq]
        self._describe((max(map(len, labels)), max(label.shape[1] for label in labels)))

    def _describe(self, label_shape: tuple[int, int]) -> None:
        self.label_shape = label_shape
        self.provide_label = [DataDesc(self._label_name, (self.batch_size, *label_shape))]

    def _label_of(self, key: Any) -> Any:
        return self._sample(key)[0] if self.imglist is None else self.imglist[key][0]

    def _objects(self, label: Any) -> Host:
        """The objects of a label as it stands in the file."""
        raw = np.asarray(label.asnumpy() if isinstance(label, NDArray) else label).reshape(-1)
        if raw.size < 7:
            raise MXNetError(f"ImageDetIter: a label of {raw.size} numbers is too short: expected "
                             "header width, object width, the header's rest, objects")
        header, width = int(raw[0]), int(raw[1])
        if width < 5 or header < 2 or (raw.size - header) % width:
            raise MXNetError(f"ImageDetIter: a label of {raw.size} numbers does not fit its header "
                             f"width {header} and object width {width}")
        objects: Host = raw[header:].reshape(-1, width)
        valid = (objects[:, 3] > objects[:, 1]) & (objects[:, 4] > objects[:, 2])
        if not valid.any():
            raise MXNetError("ImageDetIter: a sample without a valid box (left < right, top < "
                             "bottom)")
        return objects[valid]

    def _made(self, label: Any, content: bytes) -> tuple[Any, NDArray]:
        image = self.imdecode(content)
        self.check_valid_image([image])
        objects = self._objects(label)
        for step in self.auglist:
            image, objects = step(image, objects)
        return objects, self.postprocess_data(image)

    def _joined(self, samples: list[tuple[Any, NDArray]], pad: int) -> DataBatch:
        labels = np.full((len(samples), *self.label_shape), -1.0, np.float32)
        for place, (objects, _) in enumerate(samples):
            count, width = min(len(objects), self.label_shape[0]), objects.shape[1]
            labels[place, :count, :width] = objects[:count]
        data = nd.stack(*[image for _, image in samples])  # type: ignore[attr-defined]
        return DataBatch([data], [nd.array(labels)], pad)

    def reshape(self, data_shape: Sequence[int] | None = None,
                label_shape: Sequence[int] | None = None) -> None:
        """Give batches of another size from now on; labels can only become larger."""
        if data_shape is not None:
            self.check_data_shape(data_shape)
            self.data_shape = tuple(data_shape)
            self.provide_data = [DataDesc(self.provide_data[0][0],
                                          (self.batch_size, *self.data_shape))]
            for step in self.auglist:
                inner = getattr(step, "augmenter", None)
                if isinstance(inner, ForceResizeAug):
                    inner.size = (data_shape[2], data_shape[1])
        if label_shape is not None:
            self.check_label_shape(label_shape)
            self._describe((label_shape[0], label_shape[1]))

    def check_label_shape(self, label_shape: Sequence[int]) -> None:
        """Complain about a label_shape into which the labels do not fit."""
        if len(label_shape) != 2 or any(new < old for new, old in zip(
                label_shape, self.label_shape, strict=True)):
            raise ArgumentValueError(f"label_shape: expected at least {self.label_shape}, got "
                                     f"{tuple(label_shape)}")

    def sync_label_shape(self, it: ImageDetIter, verbose: bool = False) -> ImageDetIter:
        """Give this and another iterator the larger of their label shapes; returns the other."""
        if not isinstance(it, ImageDetIter):
            raise ArgumentError(f"sync_label_shape: expected an ImageDetIter, got "
                                f"{type(it).__name__}")
        larger = tuple(max(pair) for pair in zip(self.label_shape, it.label_shape, strict=True))
        self.reshape(None, larger)
        it.reshape(None, larger)
        return it
