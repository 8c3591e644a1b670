"""ImageIter: batches of images from a RecordIO file or from files in a folder."""
from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..base import ArgumentValueError, MXNetError, ParameterMismatch
from ..dataiter import DataBatch, DataDesc, DataIter, part_of
from ..ndarray import NDArray
from ..recordio import Records, unpack
from .augment import Augmenter, CreateAugmenter
from .image import imdecode

__all__ = ["ImageIter", "read_list"]

_LABELS = ("float32", "float64", "int32", "int64")
_HANDLES = ("pad", "discard", "roll_over")


def read_list(path: str | os.PathLike[str]) -> dict[int, tuple[np.ndarray[Any, Any], str]]:
    """A list as im2rec makes it: number -> (label, file name); fields parted by tabs."""
    listed = {}
    try:
        with open(path, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                words = line.strip().split("\t")
                if words == [""]:
                    continue
                try:
                    label = np.array(words[1:-1], np.float32)
                    listed[int(words[0])] = (label, words[-1])
                except ValueError:
                    raise MXNetError(f"{path}, line {number}: expected number, label, file name "
                                     f"parted by tabs, got {line.strip()[:60]!r}") from None
    except OSError as error:
        raise MXNetError(f"cannot read {path}: {error.strerror}") from error
    return listed


class ImageIter(DataIter):
    """Batches of images, decoded and changed by augmenters one after another.

    Args:
        batch_size: images in a batch. data_shape: (3, height, width) of the result.
        label_width: numbers in a label.
        path_imgrec: a RecordIO file; path_imgidx: its list of places, if there is one.
        path_imglist: or a list of files (number, label, name, by tabs); or
        imglist: a list of [label, name]; path_root: folder of those files.
        shuffle: in a new random order each epoch. num_parts, part_index: one of equal parts.
        aug_list: augmenters; None makes them by ``CreateAugmenter(data_shape, **kwargs)``.
        data_name, label_name: for provide_data, provide_label.
        dtype: element type of the labels.
        last_batch_handle: 'pad', 'discard' or 'roll_over', as for ``io.NDArrayIter``.

    Attributes:
        auglist: the augmenters. seq: numbers of the images in order. num_image: how many.
    """

    def __init__(self, batch_size: int, data_shape: Sequence[int], label_width: int = 1,
                 path_imgrec: Any = None, path_imglist: Any = None, path_root: Any = None,
                 path_imgidx: Any = None, shuffle: bool = False, part_index: int = 0,
                 num_parts: int = 1, aug_list: list[Augmenter] | None = None,
                 imglist: list[Any] | None = None, data_name: str = "data",
                 label_name: str = "softmax_label", dtype: str = "float32",
                 last_batch_handle: str = "pad", **kwargs: Any) -> None:
        super().__init__(batch_size)
        if dtype not in _LABELS:
            raise ParameterMismatch(f"ImageIter: dtype: expected one of {_LABELS}, got {dtype!r}")
        if last_batch_handle not in _HANDLES:
            raise ArgumentValueError(f"ImageIter: last_batch_handle: expected one of {_HANDLES}, "
                                     f"got {last_batch_handle!r}")
        if not (path_imgrec or path_imglist or isinstance(imglist, list)):
            raise ParameterMismatch("ImageIter: expected path_imgrec, path_imglist or imglist")
        self.check_data_shape(data_shape)
        self.data_shape, self.label_width = tuple(data_shape), label_width
        self.shuffle, self.path_root = shuffle, path_root
        self.last_batch_handle, self._dtype = last_batch_handle, dtype
        self.imgrec = Records(path_imgrec, path_imgidx) if path_imgrec else None
        self.imglist = _listed(path_imglist, imglist)
        if self.imgrec is not None and self.imglist is None:
            self.seq = list(self.imgrec.keys)
        else:
            assert self.imglist is not None
            self.seq = list(self.imglist)
        self.seq = [self.seq[i] for i in part_of(len(self.seq), num_parts, part_index)]
        self.num_image = len(self.seq)
        self.auglist: list[Any] = (CreateAugmenter(data_shape, **kwargs) if aug_list is None
                                   else aug_list)
        label = (batch_size, label_width) if label_width > 1 else (batch_size,)
        self.provide_data = [DataDesc(data_name, (batch_size, *self.data_shape))]
        self.provide_label = [DataDesc(label_name, label)]
        self.hard_reset()

    # -- order -------------------------------------------------------------------------------------

    def hard_reset(self) -> None:
        """Begin an epoch, without images that rolled over."""
        self._rest: list[Any] = []
        self._begin()

    def reset(self) -> None:
        """Begin the next epoch."""
        rolls = self.last_batch_handle == "roll_over"
        self._rest = self._order[self.cur:] if rolls else []
        self._begin()

    def _begin(self) -> None:
        if self.shuffle:
            random.shuffle(self.seq)
        self._order = self._rest + self.seq
        self.cur = 0

    def next_sample(self) -> tuple[Any, bytes]:
        """(label, content of the image file) of the next image."""
        if self.cur >= len(self._order):
            raise StopIteration
        key = self._order[self.cur]
        self.cur += 1
        return self._sample(key)

    def _sample(self, key: Any) -> tuple[Any, bytes]:
        if self.imgrec is not None:
            header, content = unpack(self.imgrec[self._place(key)])
            return (header.label if self.imglist is None else self.imglist[key][0]), content
        assert self.imglist is not None
        label, name = self.imglist[key]
        return label, self.read_image(name)

    def _place(self, key: Any) -> int:
        if not hasattr(self, "_places"):
            assert self.imgrec is not None
            self._places = {key: place for place, key in enumerate(self.imgrec.keys)}
        return self._places[key]

    # -- a batch -----------------------------------------------------------------------------------

    def next(self) -> DataBatch:
        """The next batch."""
        left = len(self._order) - self.cur
        if left <= 0 or (left < self.batch_size and self.last_batch_handle != "pad"):
            raise StopIteration
        samples = [self._made(*self.next_sample()) for _ in range(min(left, self.batch_size))]
        pad = self.batch_size - len(samples)
        for number in range(pad):  # from the beginning, as often as needed
            samples.append(self._made(*self._sample(self._order[number % len(self._order)])))
        return self._joined(samples, pad)

    def _made(self, label: Any, content: bytes) -> tuple[Any, NDArray]:
        image = self.imdecode(content)
        self.check_valid_image([image])
        return label, self.postprocess_data(self.augmentation_transform(image))

    def _joined(self, samples: list[tuple[Any, NDArray]], pad: int) -> DataBatch:
        for _, image in samples:
            if image.shape != self.data_shape:
                raise MXNetError(f"{type(self).__name__}: data_shape is {self.data_shape}, but the "
                                 f"augmenters gave {image.shape}")
        data = nd.stack(*[image for _, image in samples])  # type: ignore[attr-defined]
        data = data.astype("float32", copy=False)  # whatever the augmenters made
        labels = np.array([np.resize(label, self.label_width) for label, _ in samples])
        labels = labels if self.label_width > 1 else labels[:, 0]
        return DataBatch([data], [nd.array(labels, dtype=self._dtype)], pad)

    # -- steps that a subclass may replace ---------------------------------------------------------

    def check_data_shape(self, data_shape: Sequence[int]) -> None:
        """Complain about a data_shape that is not (3, height, width)."""
        if len(data_shape) != 3:
            raise ArgumentValueError("data_shape: expected (channels, height, width), got "
                                     f"{tuple(data_shape)}")
        if data_shape[0] != 3:
            raise ArgumentValueError(f"data_shape: expected 3 channels, got {tuple(data_shape)}")

    def check_valid_image(self, data: list[NDArray]) -> None:
        """Complain about an image without pixels."""
        if 0 in data[0].shape:
            raise MXNetError(f"an image without pixels: shape {data[0].shape}")

    def imdecode(self, s: bytes) -> NDArray:
        """The image of a file's content."""
        key = self._order[min(self.cur, len(self._order)) - 1]
        try:
            return imdecode(s)
        except MXNetError as error:
            raise type(error)(f"image {key}: {error}") from error

    def read_image(self, fname: str) -> bytes:
        """The content of the file `fname` under `path_root`."""
        with open(os.path.join(self.path_root or "", fname), "rb") as file:
            return file.read()

    def augmentation_transform(self, data: NDArray) -> NDArray:
        """The augmenters, one after another."""
        for step in self.auglist:
            data = step(data)
        return data

    def postprocess_data(self, datum: NDArray) -> NDArray:
        """Channels first."""
        return nd.transpose(datum, axes=(2, 0, 1))  # type: ignore[attr-defined, no-any-return]


def _listed(path: Any, given: list[Any] | None) -> dict[Any, tuple[Any, str]] | None:
    if path:
        return dict(read_list(path))
    if not isinstance(given, list):
        return None
    return {number: (np.atleast_1d(np.asarray(label, np.float32)), name)
            for number, (*label, name) in enumerate(_flat(item) for item in given)}


def _flat(item: Sequence[Any]) -> list[Any]:
    """[label, name] with the label's numbers beside the name."""
    *labels, name = item
    numbers: list[Any] = []
    for label in labels:
        numbers.extend(np.atleast_1d(np.asarray(label, np.float32)).tolist())
    return [*numbers, name]
