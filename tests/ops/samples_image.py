"""Samples of the image operators."""
from __future__ import annotations

import numpy as np
from sample import Sample

from minigluon.base import ArgumentValueError, DTypeError, ShapeError

_PIXELS = np.arange(24, dtype=np.uint8).reshape(2, 4, 3) * 10

SAMPLES = {
    "_image_to_tensor": [
        Sample([_PIXELS], grad=False, tolerance=1e-7,
               reference=lambda x: x.transpose(2, 0, 1).astype("float32") / 255,
               bad=[([((1, 2, 3, 4, 5), 0, 1)], {}, ShapeError, "height, width, channels")]),
        Sample([np.stack([_PIXELS, _PIXELS + 1])], grad=False, tolerance=1e-7,
               reference=lambda x: x.transpose(0, 3, 1, 2).astype("float32") / 255),
    ],
    "_image_normalize": [
        Sample([((3, 2, 4), 0, 1)], {"mean": (0.1, 0.2, 0.3), "std": (1, 2, 4)}, second_order=True,
               reference=lambda x: (x - np.array([[[0.1]], [[0.2]], [[0.3]]]))
               / np.array([[[1]], [[2]], [[4]]]),
               bad=[([((2, 4, 2, 2), 0, 1)], {}, ShapeError, "1 or 3 channels"),
                    ([((1, 2, 3, 4, 5), 0, 1)], {}, ShapeError, "channels, height, width"),
                    ([np.zeros((1, 2, 2), np.uint8)], {}, DTypeError, "ToTensor"),
                    ([((3, 2, 2), 0, 1)], {"mean": (1, 2)}, ArgumentValueError, "1 or 3 values")]),
        Sample([((2, 1, 3, 3), 0, 1)], {"mean": (0.5,), "std": (0.5,)},
               reference=lambda x: (x - 0.5) / 0.5),
    ],
}
