"""Images with boxes from a RecordIO file."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base import ArgumentValueError, NotForThisError, ShapeError
from ..recordio import Records, unpack
from .imagerecord import ImageRecordIter, existing

__all__ = ["ImageDetRecordIter"]

Host = np.ndarray[Any, Any]


class ImageDetRecordIter(ImageRecordIter):
    """Batches of images with boxes; each image is resized to `data_shape`, whatever its ratio.

    A record's label is (A, B, ..., objects): A numbers come before the objects, of B numbers each:
    class, left, top, right, bottom as shares of the image, and what follows. A batch's label has a
    row (channels, height, width, n, the n numbers of the label, filling) for each image.

    Args:
        path_imgrec, path_imgidx, path_imglist, data_shape, batch_size, shuffle, seed, round_batch,
            preprocess_threads, num_parts, part_index, mean_r, ..., std_r, ..., scale: as for
            ImageRecordIter.
        label_width: numbers in every label; -1: any.
        label_pad_width: how many places a row has for them; 0: as the longest label needs.
        label_pad_value: what fills a row.
        rand_mirror_prob: chance of an image to be mirrored, with its boxes.
        resize_mode: 'force'. inter_method: as for ImageRecordIter.
        data_name, label_name: of the arrays.
    """

    def __init__(self, path_imgrec: Any = "", data_shape: Sequence[int] = (), batch_size: int = 0,
                 path_imgidx: Any = "", label_width: int = -1, label_pad_width: int = 0,
                 label_pad_value: float = -1.0, rand_mirror_prob: float = 0.0,
                 resize_mode: str = "force", data_name: str = "data",
                 label_name: str = "softmax_label", **kwargs: Any) -> None:
        for name in [name for name in kwargs if name.endswith("_prob")]:
            if kwargs.pop(name):
                raise NotForThisError(f"ImageDetRecordIter: {name} is not built; use "
                                      "mx.image.ImageDetIter with mx.image.CreateDetAugmenter")
        if resize_mode != "force":
            raise NotForThisError(f"ImageDetRecordIter: resize_mode '{resize_mode}' is not built; "
                                  "use 'force'")
        self._filling, self._mirrored = label_pad_value, rand_mirror_prob
        self._fixed = label_width
        widest = _widest(path_imgrec, path_imgidx, label_width)
        if label_pad_width and label_pad_width < widest:
            raise ArgumentValueError(f"ImageDetRecordIter: label_pad_width: {label_pad_width} "
                                     f"smaller than estimated width: {widest}")
        super().__init__(path_imgrec, data_shape, batch_size, path_imgidx,
                         label_width=4 + max(widest, label_pad_width), data_name=data_name,
                         label_name=label_name, **kwargs)

    def _cut(self, pixels: Host, rng: np.random.Generator) -> Host:
        return self._sized(pixels, *self._shape[1:], rng)

    def _sample(self, number: int, epoch: int) -> tuple[Host, Any]:
        planes, row = super()._sample(number, epoch)
        mixed = np.random.default_rng([self._seeds[1], epoch, number, 1])
        if self._mirrored and mixed.random() < self._mirrored:
            planes = np.ascontiguousarray(planes[:, :, ::-1])
            count, before, size = (int(row[at]) for at in (3, 4, 5))
            boxes = row[4 + before:4 + count].reshape(-1, size)
            boxes[:, [1, 3]] = 1 - boxes[:, [3, 1]]
        return planes, row

    def _label(self, header: Any, name: str) -> Host:
        label = np.atleast_1d(header.label if self._labels is None
                              else self._labels[header.id][0])
        if len(label) < 7 or label[0] < 2 or label[1] < 5 or (len(label) - label[0]) % label[1]:
            raise ShapeError(f"ImageDetRecordIter: {name}: expected a label of A numbers, the "
                             "first two A (2 or more) and B (5 or more), and objects of B numbers, "
                             f"got {label.tolist()}")
        row = np.full(self._width, self._filling, np.float32)
        row[:4] = (*self._shape, len(label))
        row[4:4 + len(label)] = label
        return row


def _widest(path: Any, index: Any, fixed: int) -> int:
    """How many numbers the longest label has."""
    if fixed > 0 or not path:
        return max(fixed, 0)
    records = Records(path, existing(index))
    return max((np.size(unpack(records[number])[0].label) for number in range(len(records))),
               default=0)
