"""Images: reading, resizing, cutting, turning; augmenters; iterators over images in files."""
from __future__ import annotations

from . import augment, detection, image
from .augment import (
    Augmenter,
    BrightnessJitterAug,
    CastAug,
    CenterCropAug,
    ColorJitterAug,
    ColorNormalizeAug,
    ContrastJitterAug,
    CreateAugmenter,
    ForceResizeAug,
    HorizontalFlipAug,
    HueJitterAug,
    LightingAug,
    RandomCropAug,
    RandomGrayAug,
    RandomOrderAug,
    RandomSizedCropAug,
    ResizeAug,
    SaturationJitterAug,
    SequentialAug,
)
from .detection import (
    CreateDetAugmenter,
    CreateMultiRandCropAugmenter,
    DetAugmenter,
    DetBorrowAug,
    DetHorizontalFlipAug,
    DetRandomCropAug,
    DetRandomPadAug,
    DetRandomSelectAug,
    ImageDetIter,
)
from .image import (
    center_crop,
    color_normalize,
    copyMakeBorder,
    fixed_crop,
    imdecode,
    imread,
    imresize,
    random_crop,
    random_size_crop,
    resize_short,
    scale_down,
)
from .imageiter import ImageIter, read_list
from .rotate import imrotate, random_rotate

__all__ = [
    "Augmenter", "BrightnessJitterAug", "CastAug", "CenterCropAug", "ColorJitterAug",
    "ColorNormalizeAug", "ContrastJitterAug", "CreateAugmenter", "CreateDetAugmenter",
    "CreateMultiRandCropAugmenter", "DetAugmenter", "DetBorrowAug", "DetHorizontalFlipAug",
    "DetRandomCropAug", "DetRandomPadAug", "DetRandomSelectAug", "ForceResizeAug",
    "HorizontalFlipAug", "HueJitterAug", "ImageDetIter", "ImageIter", "LightingAug",
    "RandomCropAug", "RandomGrayAug", "RandomOrderAug", "RandomSizedCropAug", "ResizeAug",
    "SaturationJitterAug", "SequentialAug", "augment", "center_crop", "color_normalize",
    "copyMakeBorder", "detection", "fixed_crop", "image", "imdecode", "imread", "imresize",
    "imrotate", "random_crop", "random_rotate", "random_size_crop", "read_list", "resize_short",
    "scale_down",
]
