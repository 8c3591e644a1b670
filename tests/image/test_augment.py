"""Augmenters: what each does to an image, and what it says of itself."""
import json
import random

import numpy as np
import pytest

import minigluon as mx
from minigluon import image, nd

PIXELS = nd.array(np.random.default_rng(0).integers(0, 256, (10, 14, 3)), dtype="uint8")
FLOATS = PIXELS.astype("float32")


@pytest.mark.parametrize(("step", "shape"), [
    (image.ResizeAug(5), (5, 7, 3)), (image.ForceResizeAug((3, 4)), (4, 3, 3)),
    (image.RandomCropAug((6, 5)), (5, 6, 3)), (image.CenterCropAug((6, 5)), (5, 6, 3)),
    (image.RandomSizedCropAug((6, 5), (0.1, 0.5), (0.5, 2)), (5, 6, 3)),
    (image.HorizontalFlipAug(0.5), (10, 14, 3))])
def test_sizes(step, shape):
    assert step(PIXELS).shape == shape and step(PIXELS).dtype == np.uint8


def test_flip():
    assert np.array_equal(image.HorizontalFlipAug(1)(PIXELS).asnumpy(), PIXELS.asnumpy()[:, ::-1])
    assert image.HorizontalFlipAug(0)(PIXELS) is PIXELS


@pytest.mark.parametrize("step", [
    image.BrightnessJitterAug(0), image.ContrastJitterAug(0), image.SaturationJitterAug(0),
    image.HueJitterAug(0), image.RandomGrayAug(0), image.ColorJitterAug(0, 0, 0),
    image.LightingAug(0, np.ones(3), np.ones((3, 3)))])
def test_no_change(step):
    assert abs(step(FLOATS).asnumpy() - FLOATS.asnumpy()).max() < 1  # YIQ's digits are few


def test_colours_change_within_bounds():
    random.seed(0)
    x = FLOATS.asnumpy()
    gray = (x @ [0.299, 0.587, 0.114])[..., None]
    for _ in range(20):
        factor = image.BrightnessJitterAug(0.3)(FLOATS).asnumpy() / np.maximum(x, 1e-9)
        assert 0.7 <= factor[x > 0].min() <= factor.max() <= 1.3
        contrast = image.ContrastJitterAug(0.3)(FLOATS).asnumpy() - gray.mean()
        assert abs(contrast).max() <= 1.3 * abs(x - gray.mean()).max() + 0.01
        saturation = image.SaturationJitterAug(0.3)(FLOATS).asnumpy() - gray
        assert abs(saturation).max() <= 1.3 * abs(x - gray).max() + 0.01
    assert abs(image.HueJitterAug(0.5)(FLOATS).asnumpy() - x).max() > 5
    light = image.LightingAug(1, np.ones(3), np.eye(3))(FLOATS).asnumpy() - x
    assert np.allclose(light, light[0, 0], atol=1e-4) and abs(light).max() > 0


def test_sequences():
    steps = [image.CastAug("float64"), image.HorizontalFlipAug(1)]
    for kind in (image.SequentialAug, image.RandomOrderAug):
        result = kind(steps)(PIXELS)
        assert result.dtype == np.float64
        assert np.array_equal(result.asnumpy(), PIXELS.asnumpy()[:, ::-1])
    assert image.SequentialAug(steps).dumps() == [
        "sequentialaug", ['["castaug", {"type": "float64"}]', '["horizontalflipaug", {"p": 1}]']]


def test_settings_as_json():
    step = image.Augmenter(a=nd.ones((2,)), b=np.ones(2), c=1)
    assert json.loads(step.dumps()) == ["augmenter", {"a": [1, 1], "b": [1, 1], "c": 1}]
    with pytest.raises(NotImplementedError, match="__call__"):
        step(PIXELS)


def test_create_augmenter():
    def names(**settings):
        return [type(step).__name__ for step in image.CreateAugmenter((3, 5, 5), **settings)]

    assert names() == ["CenterCropAug", "CastAug"]
    assert names(rand_crop=True, rand_resize=True) == ["RandomSizedCropAug", "CastAug"]
    assert names(mean=True) == ["CenterCropAug", "CastAug", "ColorNormalizeAug"]
    assert names(std=np.ones(3), hue=0.1)[2:] == ["HueJitterAug", "ColorNormalizeAug"]
    with pytest.raises(AssertionError, match="rand_crop"):
        names(rand_resize=True)
    with pytest.raises(AssertionError, match="1 or 3 numbers"):
        names(mean=np.ones(2))
    with pytest.raises(TypeError, match="foo"):
        names(foo=1)


def test_everything_together():
    steps = image.CreateAugmenter(
        (3, 5, 6), resize=8, rand_crop=True, rand_resize=True, rand_mirror=True, mean=True,
        std=True, brightness=0.1, contrast=0.1, saturation=0.1, hue=0.1, pca_noise=0.1,
        rand_gray=0.5, inter_method=10)
    for _ in range(10):
        result = image.SequentialAug(steps)(PIXELS)
        assert result.shape == (5, 6, 3) and result.dtype == np.float32
        assert abs(result.asnumpy()).max() < 4
    assert mx.image.RandomGrayAug(1)(FLOATS).asnumpy().std(axis=2).max() < 1e-3
