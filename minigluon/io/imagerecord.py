"""ImageRecordIter: batches of images out of a RecordIO file, decoded by several threads."""
from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import codec
from .. import ndarray as nd
from ..base import ArgumentValueError, MXNetError, NotForThisError, ShapeError
from ..context import cpu
from ..dataiter import part_of
from ..image import read_list
from ..ndarray import NDArray
from ..recordio import Records, unpack
from .fileiter import MXDataIter, unused_settings

__all__ = ["ImageRecordIter", "ImageRecordIter_v1", "ImageRecordUInt8Iter",
           "ImageRecordUInt8Iter_v1", "existing"]

Host = np.ndarray[Any, Any]

# Changes that MXNet's iterator can make and this one cannot, with the values that mean "none".
_ABSENT = {
    "aug_seq": "aug_default", "brightness": 0, "contrast": 0, "max_crop_size": -1,
    "max_img_size": 1e10, "max_random_contrast": 0, "max_random_illumination": 0,
    "max_random_scale": 1, "max_rotate_angle": 0, "max_shear_ratio": 0, "mean_img": "",
    "min_crop_size": -1, "min_img_size": 0, "min_random_scale": 1, "pca_noise": 0, "random_h": 0,
    "random_l": 0, "random_s": 0, "rotate": -1, "saturation": 0,
}


class ImageRecordIter(MXDataIter):
    """Batches of the images in a RecordIO file, as `recordio.pack_img` or im2rec make it.

    In this order: the shorter side to `resize`, `pad`, a crop to `data_shape` (smaller images are
    enlarged first), mirror, ``(pixel - mean) * scale / std``.

    Args:
        path_imgrec: the file. path_imgidx: its list of places; without one it is looked through.
        path_imglist: a list whose labels are used instead of those in the file.
        data_shape: (channels, height, width); 3 channels (red, green, blue) or 1 (gray).
        batch_size: images in a batch. label_width: numbers in a label.
        shuffle: take the images in a new random order each epoch. seed, seed_aug: of the order,
            and of what is done to the images.
        round_batch: see MXDataIter. preprocess_threads: how many threads decode.
        num_parts, part_index: read one of equal parts.
        resize: the shorter side, -1 for none. pad, fill_value: a border of that width and value.
        rand_crop: cut at a random place, else in the middle.
        random_resized_crop: cut a share of `min_random_area` to `max_random_area` of the image
            with a ratio between the aspect ratios, and resize that.
        rand_mirror: mirror half of the images. mirror: mirror all.
        mean_r, ..., std_r, ..., scale: as said. dtype: element type of the data, float32.
        inter_method: 0 to 4, 9, 10 as for ``mx.image.resize_short``.
    """

    def __init__(
        self, path_imgrec: Any = "", data_shape: Sequence[int] = (), batch_size: int = 0,
        path_imgidx: Any = "", path_imglist: Any = "", label_width: int = 1,
        shuffle: bool = False, seed: int = 0, seed_aug: int | None = None,
        round_batch: bool = True, preprocess_threads: int = 4, num_parts: int = 1,
        part_index: int = 0, dtype: Any = None, resize: int = -1, pad: int = 0,
        fill_value: int = 255, rand_crop: bool = False, random_resized_crop: bool = False,
        min_random_area: float = 1.0, max_random_area: float = 1.0,
        min_aspect_ratio: float | None = None, max_aspect_ratio: float = 0.0,
        rand_mirror: bool = False, mirror: bool = False, mean_r: float = 0.0,
        mean_g: float = 0.0, mean_b: float = 0.0, mean_a: float = 0.0, std_r: float = 1.0,
        std_g: float = 1.0, std_b: float = 1.0, std_a: float = 1.0, scale: float = 1.0,
        inter_method: int = 1, data_name: str = "data", label_name: str = "softmax_label",
        **kwargs: Any,
    ) -> None:
        for name, none in _ABSENT.items():
            if name in kwargs and kwargs.pop(name) not in (none, None):
                raise NotForThisError(f"ImageRecordIter: {name} is not built; use "
                                      "mx.image.ImageIter or gluon's transforms")
        unused_settings("ImageRecordIter", kwargs, list(ImageRecordIter.__init__.__annotations__))
        if not path_imgrec:
            raise ArgumentValueError("ImageRecordIter: path_imgrec: expected the path of a file")
        self._shape = tuple(map(int, data_shape))
        if len(self._shape) != 3 or self._shape[0] not in (1, 3):
            raise ShapeError("ImageRecordIter: data_shape: expected (3 or 1, height, width), got "
                             f"{tuple(data_shape)}")
        self._resize, self._border = resize, (pad, fill_value)
        self._rand_crop, self._interp = rand_crop, inter_method
        self._area = (min_random_area, max_random_area) if random_resized_crop else None
        low = 1 - max_aspect_ratio if min_aspect_ratio is None else min_aspect_ratio
        high = 1 + max_aspect_ratio if min_aspect_ratio is None else max_aspect_ratio
        self._ratio = (low, high)
        self._rand_mirror, self._mirror = rand_mirror, mirror
        channels = self._shape[0]
        self._mean = np.float32([mean_r, mean_g, mean_b])[:channels].reshape(-1, 1, 1)
        self._factor = scale / np.float32([std_r, std_g, std_b])[:channels].reshape(-1, 1, 1)
        self._records = Records(path_imgrec, existing(path_imgidx))
        self._labels = read_list(path_imglist) if path_imglist else None
        self._width = label_width
        self._part = part_of(len(self._records), num_parts, part_index)
        self._shuffle, self._seeds = shuffle, (abs(int(seed)), abs(int(seed_aug or seed)))
        self._epoch = 0
        self._kind = np.dtype(dtype or "float32")
        self._pool: Any = None
        self._threads = max(1, int(preprocess_threads))
        self._ahead: tuple[Host, list[Any]] | None = None
        label = () if label_width == 1 else (label_width,)
        super().__init__(len(self._part), batch_size,
                         ((self._shape, self._kind.type), (label, np.float32)), round_batch,
                         data_name, label_name)

    def __del__(self) -> None:
        if getattr(self, "_pool", None) is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    # -- order -------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._shuffle:
            self._first = 0  # a new order: every image belongs to the epoch
        super()._begin()
        self._ahead = None
        self._order = self._part
        if self._shuffle:
            mixed = np.random.SeedSequence([self._seeds[0], self._epoch])
            self._order = np.random.Generator(np.random.Philox(mixed)).permutation(self._part)
        self._epoch += 1

    def getindex(self) -> Host:
        return self._order[self._indices].astype(np.uint64)

    # -- a batch -----------------------------------------------------------------------------------

    def _load(self, indices: Host) -> tuple[Host, Host]:
        if self._ahead is None or not np.array_equal(self._ahead[0], indices):
            self._ahead = self._submit(indices)
        samples = [future.result() for future in self._ahead[1]]
        coming = self._coming()
        self._ahead = None if coming is None else self._submit(coming)
        data, labels = zip(*samples, strict=True)
        return np.stack(data), np.asarray(labels, np.float32)

    def _submit(self, indices: Host) -> tuple[Host, list[Any]]:
        if self._pool is None:
            # here, as it is slow to import
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(self._threads, "minigluon-images")
        return indices, [self._pool.submit(self._sample, int(self._order[i]), self._epoch)
                         for i in indices]

    def _sample(self, number: int, epoch: int) -> tuple[Host, Any]:
        header, content = unpack(self._records[number])
        name = f"{self._records.uri}, record {self._records.keys[number]}"
        pixels = codec.decode(content, 1 if self._shape[0] == 3 else 0, name)
        rng = np.random.default_rng([self._seeds[1], epoch, number])
        pixels = self._cut(pixels, rng)
        if self._mirror != (self._rand_mirror and rng.random() < 0.5):
            pixels = pixels[:, ::-1]
        planes = np.ascontiguousarray(pixels.transpose(2, 0, 1)).astype(np.float32)
        planes -= self._mean
        planes *= self._factor
        return planes.astype(self._kind, copy=False), self._label(header, name)

    def _label(self, header: Any, name: str) -> Any:
        label = header.label
        if self._labels is not None:
            if header.id not in self._labels:
                raise MXNetError(f"ImageRecordIter: path_imglist has no label for {name} "
                                 f"(number {header.id})")
            label = self._labels[header.id][0]
        label = np.atleast_1d(label)
        if len(label) != self._width:
            raise ArgumentValueError(
                f"ImageRecordIter: label_width is {self._width}, but {name} has a label of "
                f"{len(label)} numbers"
            )
        return label[0] if self._width == 1 else label

    # -- an image ----------------------------------------------------------------------------------

    def _sized(self, pixels: Host, height: int, width: int, rng: np.random.Generator) -> Host:
        interp = self._interp
        if interp == 9:
            larger = (height > pixels.shape[0]) + (width > pixels.shape[1])
            smaller = (height < pixels.shape[0]) + (width < pixels.shape[1])
            interp = 2 if larger == 2 else 3 if smaller == 2 else 1
        elif interp == 10:
            interp = int(rng.integers(0, 5))
        resized = nd.image.resize(  # type: ignore[attr-defined]
            NDArray(pixels, cpu(0)), size=(width, height), interp=interp)
        return resized.asnumpy()  # type: ignore[no-any-return]

    def _cut(self, pixels: Host, rng: np.random.Generator) -> Host:
        height, width = self._shape[1:]
        if self._resize > 0:
            tall, wide = pixels.shape[:2]
            short = self._resize
            size = (short * tall // wide, short) if tall > wide else (short, short * wide // tall)
            pixels = self._sized(pixels, *size, rng)
        pad, fill = self._border
        if pad:
            pixels = np.pad(pixels, ((pad, pad), (pad, pad), (0, 0)), constant_values=fill)
        if self._area is not None:
            found = self._random_share(pixels, rng)
            if found is not None:
                return self._sized(found, height, width, rng)
        tall, wide = pixels.shape[:2]
        if tall < height:
            wide = int(wide * np.float32(height / tall))  # rounded as MXNet does
            pixels, tall = self._sized(pixels, height, wide, rng), height
        if wide < width:
            pixels = self._sized(pixels, int(tall * np.float32(width / wide)), width, rng)
        y, x = pixels.shape[0] - height, pixels.shape[1] - width
        y, x = (int(rng.integers(0, y + 1)), int(rng.integers(0, x + 1))) if self._rand_crop else (
            y // 2, x // 2)
        return pixels[y: y + height, x: x + width]

    def _random_share(self, pixels: Host, rng: np.random.Generator) -> Host | None:
        """A rectangle of random area and ratio; None if none of ten fits."""
        tall, wide = pixels.shape[:2]
        assert self._area is not None
        for _ in range(10):
            share = rng.uniform(*self._area) * tall * wide
            ratio = rng.uniform(*self._ratio)
            w, h = round(math.sqrt(share * ratio)), round(math.sqrt(share / ratio))
            if 0 < w <= wide and 0 < h <= tall:
                y, x = int(rng.integers(0, tall - h + 1)), int(rng.integers(0, wide - w + 1))
                return np.ascontiguousarray(pixels[y: y + h, x: x + w])
        return None


def existing(path: Any) -> Any:
    """The path, or None where there is no such file."""
    return path if path and os.path.exists(path) else None


def ImageRecordUInt8Iter(**kwargs: Any) -> ImageRecordIter:
    """As ImageRecordIter, with the pixels as they are (uint8)."""
    return ImageRecordIter(dtype="uint8", **kwargs)


def ImageRecordIter_v1(**kwargs: Any) -> ImageRecordIter:
    """ImageRecordIter under its old name."""
    return ImageRecordIter(**kwargs)


def ImageRecordUInt8Iter_v1(**kwargs: Any) -> ImageRecordIter:
    """ImageRecordUInt8Iter under its old name."""
    return ImageRecordUInt8Iter(**kwargs)
