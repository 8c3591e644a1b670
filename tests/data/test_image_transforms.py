"""Image transforms: sizes, turning, colours, choices at random; batches; what they refuse."""
import random

import numpy as np
import pytest

import minigluon as mx
from minigluon import autograd, nd
from minigluon.gluon import HybridBlock
from minigluon.gluon.data import ArrayDataset, DataLoader
from minigluon.gluon.data.vision import transforms

RNG = np.random.default_rng(0)


def image(*shape, dtype="uint8"):
    return nd.array(RNG.integers(0, 256, shape), dtype=dtype)


PIXELS = image(10, 14, 3)
BATCH = nd.stack(PIXELS, image(10, 14, 3))

KEEP_SHAPE = [
    transforms.RandomFlipLeftRight(), transforms.RandomFlipTopBottom(),
    transforms.RandomBrightness(0.3), transforms.RandomContrast(0.3),
    transforms.RandomSaturation(0.3), transforms.RandomHue(0.3),
    transforms.RandomColorJitter(0.1, 0.1, 0.1, 0.1), transforms.RandomLighting(0.1),
    transforms.RandomApply([transforms.RandomBrightness(0.3)], 0.5),
    transforms.HybridRandomApply(transforms.RandomFlipLeftRight(), 0.5),
    transforms.RandomGray(0.5),
]


@pytest.mark.parametrize("step", KEEP_SHAPE, ids=lambda step: type(step).__name__)
def test_random_ones_keep_shape_and_type(step):
    for hybridize in (False, True):
        if isinstance(step, HybridBlock):
            step.hybridize(hybridize)
        for x in (PIXELS, PIXELS.astype("float32")):
            result = step(x)
            assert result.shape == x.shape and result.dtype == x.dtype


@pytest.mark.parametrize("step", [step for step in KEEP_SHAPE if isinstance(step, HybridBlock)],
                         ids=lambda step: type(step).__name__)
def test_random_ones_refuse_batches(step):
    with pytest.raises(mx.MXNetError, match="height, width, channels"):
        step(BATCH)


# -- sizes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
@pytest.mark.parametrize("interp", [0, 1, 2, 3, 4])
def test_resize_equals_imresize(dtype, interp):
    x = PIXELS.astype(dtype)
    for size, width, height in ((6, 6, 6), ((7, 20), 7, 20)):
        expected = mx.image.imresize(x, width, height, interp).asnumpy()
        resized = transforms.Resize(size, interpolation=interp)(x)
        assert resized.dtype == x.dtype and np.array_equal(resized.asnumpy(), expected)
    batch = BATCH.astype(dtype)
    both = transforms.Resize((7, 20), interpolation=interp)(batch).asnumpy()
    assert np.array_equal(both[0], expected)


def test_resize_keeping_the_ratio():
    assert transforms.Resize(150, True)(image(300, 200, 3)).shape == (225, 150, 3)
    assert transforms.Resize(150, True)(image(200, 300, 3)).shape == (150, 225, 3)
    assert transforms.Resize((10, 20), True)(PIXELS).shape == (20, 10, 3)


@pytest.mark.parametrize("size", [-1, 0, (1, 2, 3), (4, -2)])
def test_resize_refuses(size):
    step = transforms.Resize(size)  # when it is called, as in MXNet
    with pytest.raises(mx.MXNetError, match="size"):
        step(PIXELS)


def test_crop_resize():
    x = PIXELS.asnumpy()
    assert np.array_equal(transforms.CropResize(1, 2, 3, 4)(PIXELS).asnumpy(), x[2:6, 1:4])
    assert np.array_equal(transforms.CropResize(1, 2, 3, 4)(BATCH).asnumpy(),
                          BATCH.asnumpy()[:, 2:6, 1:4])
    for size in (5, (5, 6)):
        step = transforms.CropResize(1, 2, 3, 4, size)
        expected = mx.image.fixed_crop(PIXELS, 1, 2, 3, 4, (5, 5) if size == 5 else size, 1)
        assert np.array_equal(step(PIXELS).asnumpy(), expected.asnumpy())
    for place in ((0, 0, 20, 4), (0, 0, 4, 11), (0, 0, 0, 4), (-1, 0, 2, 2), (13, 0, 2, 2)):
        with pytest.raises(mx.MXNetError):
            transforms.CropResize(*place)(PIXELS)


def test_gradient_of_crop_scatters_back():
    x = nd.ones((4, 5, 3))
    x.attach_grad()
    with autograd.record():
        y = nd.image.crop(x, 1, 2, 3, 2) * 2
    y.backward()
    expected = np.zeros((4, 5, 3))
    expected[2:4, 1:4] = 2
    assert np.array_equal(x.grad.asnumpy(), expected)


def test_flips():
    x = PIXELS.asnumpy()
    assert np.array_equal(nd.image.flip_left_right(PIXELS).asnumpy(), x[:, ::-1])
    assert np.array_equal(nd.image.flip_top_bottom(PIXELS).asnumpy(), x[::-1])
    mx.random.seed(0)
    flipped = [not np.array_equal(transforms.RandomFlipLeftRight()(PIXELS).asnumpy(), x)
               for _ in range(100)]
    assert 30 < sum(flipped) < 70


def test_crops():
    x = PIXELS.asnumpy()
    assert np.array_equal(transforms.CenterCrop((6, 4))(PIXELS).asnumpy(), x[3:7, 4:10])
    assert transforms.CenterCrop(20)(PIXELS).shape == (20, 20, 3)
    assert transforms.RandomCrop(5)(PIXELS).shape == (5, 5, 3)
    padded = transforms.RandomCrop((14, 10), pad=2)(PIXELS)
    assert padded.shape == (10, 14, 3) and padded.dtype == np.uint8
    assert transforms.RandomResizedCrop((5, 7))(PIXELS).shape == (7, 5, 3)
    for step in (transforms.CenterCrop(3), transforms.RandomCrop(3),
                 transforms.RandomResizedCrop(3)):
        with pytest.raises(ValueError, match="expected an image"):
            step(BATCH)
    with pytest.raises(ValueError, match="width, height"):
        transforms.CenterCrop((1, 2, 3))


# -- turning ---------------------------------------------------------------------------------------


def test_rotate():
    x = nd.array(RNG.random((3, 6, 6)))
    turned = transforms.Rotate(90)(x)
    assert np.allclose(turned.asnumpy(), np.rot90(x.asnumpy(), axes=(1, 2)), atol=1e-5)
    assert transforms.Rotate(30)(nd.stack(x, x)).shape == (2, 3, 6, 6)
    assert transforms.Rotate(45)(nd.ones((1, 9, 9))).asnumpy()[0, 0, 0] == 0
    with pytest.raises(TypeError, match="float32"):
        transforms.Rotate(10)(x.astype("uint8"))


def test_random_rotation():
    x = nd.array(RNG.random((1, 6, 6)))
    assert transforms.RandomRotation([-10, 10], rotate_with_proba=0)(x) is x
    random.seed(0)
    step = transforms.RandomRotation([-40, 40])
    assert step(x).shape == x.shape
    assert not np.array_equal(step(x).asnumpy(), step(x).asnumpy())
    with pytest.raises(TypeError, match="float32"):
        step(x.astype("uint8"))
    for chance in (-0.1, 1.1):
        with pytest.raises(ValueError, match="probability from 0 to 1"):
            transforms.RandomRotation([-10, 10], rotate_with_proba=chance)
    with pytest.raises(ValueError, match="angle_limits"):
        transforms.RandomRotation([10, -10])
    with pytest.raises(ValueError, match="both True"):
        transforms.RandomRotation([-10, 10], True, True)(x)


# -- colours ---------------------------------------------------------------------------------------


def test_colours():
    x = PIXELS.asnumpy().astype(float)
    gray = (x @ [0.299, 0.587, 0.114])[..., None]
    bright = nd.image.random_brightness(PIXELS.astype("float32"), 0.5, 0.5).asnumpy()
    assert np.allclose(bright, x / 2)
    pale = nd.image.random_saturation(PIXELS.astype("float32"), 0, 0).asnumpy()
    assert np.allclose(pale, np.repeat(gray, 3, 2), atol=1e-3)
    assert np.allclose(transforms.RandomGray(1)(PIXELS.astype("float32")).asnumpy(), pale)
    flat = nd.image.random_contrast(PIXELS.astype("float32"), 0, 0).asnumpy()
    assert np.allclose(flat, gray.mean(), atol=1e-3)
    whole = nd.image.random_hue(PIXELS, 1, 1).asnumpy()
    assert np.array_equal(whole, PIXELS.asnumpy()), "once around the circle"
    third = nd.image.random_hue(PIXELS, 1 / 3, 1 / 3).asnumpy()
    assert abs(third.astype(int) - np.roll(PIXELS.asnumpy().astype(int), 1, axis=2)).max() <= 1
    brightest = nd.image.random_brightness(PIXELS, 3, 3).asnumpy()
    assert brightest.max() == 255, "no wrapping around"


def test_seed_repeats():
    step = transforms.RandomColorJitter(0.5, 0.5, 0.5, 0.5)
    draws = []
    for _ in range(2):
        mx.random.seed(3)
        draws.append([step(PIXELS).asnumpy() for _ in range(3)])
    assert np.array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0][0], draws[0][1])


# -- transforms of transforms ----------------------------------------------------------------------


def test_random_apply():
    class Twice(mx.gluon.Block):
        def forward(self, x):
            return x * 2

    random.seed(0)
    for step in (transforms.RandomApply([Twice()], 0.3), transforms.RandomApply(Twice(), 0.3)):
        changed = [step(nd.ones((1,))).asscalar() == 2 for _ in range(200)]
        assert 30 < sum(changed) < 90
    hybrid = transforms.HybridRandomApply(transforms.Normalize(1.0, 1.0), 0.3)
    hybrid.hybridize()
    changed = [hybrid(nd.ones((1, 2, 2))).asnumpy().max() == 0 for _ in range(200)]
    assert 30 < sum(changed) < 90
    with pytest.raises(ValueError, match="probability"):
        transforms.RandomApply([], 2)
    with pytest.raises(ValueError, match="HybridBlock"):
        transforms.HybridRandomApply(len)


def test_chain():
    steps = [transforms.Resize(12), transforms.RandomResizedCrop(8),
             transforms.RandomFlipLeftRight(), transforms.RandomColorJitter(0.1, 0.1, 0.1, 0.1),
             transforms.RandomLighting(0.1), transforms.ToTensor(),
             transforms.RandomRotation([-10, 10]), transforms.Normalize(0.5, 0.25)]
    chain = transforms.Compose(steps)
    assert not chain.batched and chain(PIXELS).shape == (3, 8, 8)
    data = ArrayDataset(nd.stack(*[PIXELS] * 6), np.arange(6)).transform_first(chain)
    for workers in (0, 1):
        for x, y in DataLoader(data, 3, num_workers=workers):
            assert x.shape == (3, 3, 8, 8) and y.shape == (3,)
    hybrid = transforms.HybridCompose([transforms.Resize(5), transforms.ToTensor()])
    assert hybrid(PIXELS).shape == (3, 5, 5) and hybrid(BATCH).shape == (2, 3, 5, 5)
    with pytest.raises(ValueError, match="use Compose"):
        transforms.HybridCompose([len])


def test_batches_are_resized_at_once():
    data = ArrayDataset(BATCH).transform(transforms.Compose([transforms.Resize((4, 3)),
                                                             transforms.ToTensor()]))
    assert data._get_batch([0, 1]).shape == (2, 3, 3, 4)
    (batch,) = DataLoader(data, 2)
    assert np.array_equal(batch.asnumpy()[1], data[1].asnumpy())


def test_workers_draw_differently():
    data = ArrayDataset(nd.stack(*[PIXELS] * 8)).transform(transforms.RandomCrop(4))
    batches = [batch.asnumpy() for batch in DataLoader(data, 2, num_workers=2)]
    places = {sample.tobytes() for batch in batches for sample in batch}
    assert len(places) > 4
