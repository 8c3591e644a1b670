"""Samples of the image operators."""
from __future__ import annotations

import numpy as np
from sample import Sample

from minigluon.base import ArgumentValueError, DTypeError, ShapeError


def _random() -> list[Sample]:
    """Of operators with a random factor: images of either kind; a factor that changes nothing."""
    factors = {"min_factor": 0.5, "max_factor": 1.5}
    still = {"min_factor": 1.0, "max_factor": 1.0}
    return [
        Sample([((4, 5, 3), 0, 255)], factors, grad=False, random=True,
               bad=[([((2, 4, 5, 3), 0, 1)], factors, ShapeError, "height, width, channels"),
                    ([((4, 5, 2), 0, 1)], factors, ShapeError, "1 or 3 channels"),
                    ([((4, 5, 3), 0, 1)], {"min_factor": 2, "max_factor": 1},
                     ArgumentValueError, "min_factor <= max_factor")]),
        Sample([_PIXELS], still, grad=False, reference=lambda x: x),
        Sample([((4, 5, 1), 0, 255)], still, grad=False, reference=lambda x: x),
    ]


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
    "_image_resize": [
        Sample([((2, 2, 1), 0, 1)], {"size": (4, 1)}, grad=False,
               reference=lambda x: np.einsum(
                   "vw,wc->vc", [[1, 0], [0.75, 0.25], [0.25, 0.75], [0, 1]], x.mean(0))[None],
               bad=[([((2, 2), 0, 1)], {"size": 2}, ShapeError, "height, width, channels"),
                    ([((2, 2, 3), 0, 1)], {"size": (1, 2, 3)}, ArgumentValueError, "size"),
                    ([((2, 2, 3), 0, 1)], {"size": -1}, ArgumentValueError, "size"),
                    ([((2, 2, 3), 0, 1)], {"size": 2, "interp": 7}, ArgumentValueError, "interp"),
                    ([np.zeros((2, 2, 3), np.int32)], {"size": 2}, DTypeError, "uint8")]),
        Sample([_PIXELS], {"size": 3, "keep_ratio": True, "interp": 2}, grad=False),
        Sample([np.stack([_PIXELS] * 2)], {"size": (2, 1), "interp": 3}, grad=False,
               reference=lambda x: ((x.reshape(2, 1, 2, 2, 2, 3).sum((2, 4), dtype=int) + 2) // 4)),
        Sample([((3, 5, 2), 0, 1)], {"size": (8, 2), "interp": 4}, grad=False),
        Sample([_PIXELS], {"size": (8, 4), "interp": 0}, grad=False,
               reference=lambda x: x.repeat(2, 0).repeat(2, 1)),
    ],
    "_image_crop": [
        Sample([((4, 5, 3), 0, 1)], {"x": 1, "y": 2, "width": 3, "height": 2}, second_order=True,
               reference=lambda x: x[2:4, 1:4],
               bad=[([((4, 5), 0, 1)], {"x": 0, "y": 0, "width": 1, "height": 1}, ShapeError,
                     "height, width, channels"),
                    ([((4, 5, 4), 0, 1)], {"x": 0, "y": 0, "width": 1, "height": 1}, ShapeError,
                     "1 or 3 channels"),
                    ([((4, 5, 3), 0, 1)], {"x": 0, "y": 0, "width": 0, "height": 1},
                     ArgumentValueError, "positive width"),
                    ([((4, 5, 3), 0, 1)], {"x": -1, "y": 0, "width": 1, "height": 1},
                     ArgumentValueError, "0 or more"),
                    ([((4, 5, 3), 0, 1)], {"x": 3, "y": 0, "width": 3, "height": 1},
                     ArgumentValueError, "does not lie within")]),
        Sample([np.stack([_PIXELS] * 2)], {"x": 0, "y": 0, "width": 4, "height": 1}, grad=False,
               reference=lambda x: x[:, :1]),
    ],
    "_image_crop_grad": [
        Sample([((2, 2, 1), 0, 1), ((3, 4, 1), 0, 1)], {"x": 2, "y": 1}, second_order=True,
               reference=lambda dy, x: np.pad(dy, ((1, 0), (2, 0), (0, 0)))),
    ],
    "_image_crop_like": [
        Sample([((3, 4, 1), 0, 1), ((2, 2, 1), 0, 1)], {"x": 2, "y": 1}, second_order=True,
               reference=lambda x, y: x[1:, 2:]),
    ],
    "_image_flip_left_right": [
        Sample([((3, 4, 3), 0, 1)], second_order=True, reference=lambda x: x[:, ::-1],
               bad=[([((3, 4), 0, 1)], {}, ShapeError, "height, width, channels"),
                    ([((3, 4, 2), 0, 1)], {}, ShapeError, "1 or 3 channels")]),
        Sample([np.stack([_PIXELS] * 2)], grad=False, reference=lambda x: x[:, :, ::-1]),
    ],
    "_image_flip_top_bottom": [
        Sample([((3, 4, 1), 0, 1)], second_order=True, reference=lambda x: x[::-1],
               bad=[([((3, 4, 2), 0, 1)], {}, ShapeError, "1 or 3 channels")]),
        Sample([np.stack([_PIXELS] * 2)], grad=False, reference=lambda x: x[:, ::-1]),
    ],
    "_image_random_flip_left_right": [
        Sample([_PIXELS], grad=False, random=True,
               bad=[([((2, 3, 4, 3), 0, 1)], {}, ShapeError, "height, width, channels")]),
        Sample([np.ones((2, 3, 1), np.uint8)], grad=False, reference=lambda x: x),
    ],
    "_image_random_flip_top_bottom": [
        Sample([_PIXELS], grad=False, random=True,
               bad=[([((3, 4, 2), 0, 1)], {}, ShapeError, "1 or 3 channels")]),
        Sample([np.ones((2, 3, 1), np.uint8)], grad=False, reference=lambda x: x),
    ],
    "_image_random_brightness": _random(),
    "_image_random_contrast": _random(),
    "_image_random_saturation": _random(),
    "_image_random_hue": _random(),
    "_image_random_color_jitter": [
        Sample([((4, 5, 3), 0, 255)], {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4,
                                       "hue": 0.1}, grad=False, random=True,
               bad=[([((4, 5, 3), 0, 1)], {"hue": -1}, ArgumentValueError, "hue=-1"),
                    ([((4, 5), 0, 1)], {}, ShapeError, "height, width, channels")]),
        Sample([_PIXELS], {"hue": 0.5, "brightness": 1}, grad=False, random=True),
        Sample([_PIXELS], grad=False, reference=lambda x: x),
    ],
    "_image_adjust_lighting": [
        Sample([((2, 3, 3), 0, 255)], {"alpha": (1, 0, 0)}, grad=False, tolerance=1e-6,
               reference=lambda x: x - np.float32([31.47355, 32.211168, 32.366456]),
               bad=[([((2, 3, 3), 0, 1)], {"alpha": (1, 2)}, ArgumentValueError, "3 numbers"),
                    ([((2, 3), 0, 1)], {"alpha": (1, 2, 3)}, ShapeError, "height, width")]),
        Sample([np.full((1, 1, 3), 20, np.uint8)], {"alpha": (1, 0, 0)}, grad=False,
               reference=lambda x: x * 0),
        Sample([((2, 3, 1), 0, 255)], {"alpha": (1, 0, 0)}, grad=False, reference=lambda x: x),
    ],
    "_image_random_lighting": [
        Sample([_PIXELS], {"alpha_std": 0.1}, grad=False, random=True,
               bad=[([((2, 3, 3), 0, 1)], {"alpha_std": -1}, ArgumentValueError, "alpha_std")]),
        Sample([_PIXELS], {"alpha_std": 0.0}, grad=False, reference=lambda x: x),
    ],
    "_cvcopyMakeBorder": [
        Sample([((3, 4, 3), 0, 1)], {"top": 1, "bot": 2, "left": 0, "right": 1, "type": border},
               grad=False, reference=lambda x, mode=mode: np.pad(
                   x, ((1, 2), (0, 1), (0, 0)), mode=mode))
        for border, mode in enumerate(("constant", "edge", "symmetric", "wrap", "reflect"))
    ] + [
        Sample([_PIXELS], {"top": 1, "bot": 0, "left": 0, "right": 0, "values": (7, 8)},
               grad=False, reference=lambda x: np.concatenate(
                   [np.broadcast_to(np.uint8([7, 8, 0]), (1, 4, 3)), x]),
               bad=[([((2, 3), 0, 1)], {"top": 1, "bot": 0, "left": 0, "right": 0}, ShapeError,
                     "height, width, channels"),
                    ([((2, 3, 1), 0, 1)], {"top": -1, "bot": 0, "left": 0, "right": 0},
                     ArgumentValueError, "margins"),
                    ([((2, 3, 1), 0, 1)], {"top": 0, "bot": 0, "left": 0, "right": 0, "type": 5},
                     ArgumentValueError, "type")]),
    ],
}
