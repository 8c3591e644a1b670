"""Image transforms: single images, batches, and the same through the DataLoader at once."""
import numpy as np
import pytest

import minigluon as mx
from minigluon import nd
from minigluon.gluon.data import ArrayDataset, DataLoader
from minigluon.gluon.data.vision import transforms

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(4, 5, 3), (2, 4, 5, 1), (2, 4, 5, 3)])
@pytest.mark.parametrize("hybridize", [False, True])
def test_to_tensor(shape, hybridize):
    pixels = RNG.integers(0, 256, shape).astype(np.uint8)
    to_tensor = transforms.ToTensor()
    if hybridize:
        to_tensor.hybridize()
    result = to_tensor(nd.array(pixels, dtype="uint8"))
    assert result.dtype == np.float32
    assert np.array_equal(result.asnumpy(), np.moveaxis(pixels, -1, -3).astype("float32") / 255)


def test_to_tensor_refuses_five_dimensions():
    with pytest.raises(mx.MXNetError, match="height, width, channels"):
        transforms.ToTensor()(nd.zeros((1, 2, 3, 4, 5)))


@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 3, 4, 5)])
def test_normalize(shape):
    x = RNG.random(shape).astype(np.float32)
    mean, std = (0.1, 0.2, 0.3), (1.0, 2.0, 4.0)
    expected = (x - np.float32(mean).reshape(3, 1, 1)) / np.float32(std).reshape(3, 1, 1)
    assert np.allclose(transforms.Normalize(mean, std)(nd.array(x)).asnumpy(), expected)
    assert np.allclose(transforms.Normalize(0.5, 2)(nd.array(x)).asnumpy(), (x - 0.5) / 2)


@pytest.mark.parametrize("shape", [(2, 3, 4, 5, 6), (2, 4, 5, 5)])
def test_normalize_refuses(shape):
    with pytest.raises(mx.MXNetError):
        transforms.Normalize((0, 0, 0), (1, 1, 1))(nd.zeros(shape))


def test_cast():
    assert transforms.Cast()(nd.ones((2,), dtype="uint8")).dtype == np.float32
    assert transforms.Cast("float16")(nd.ones((2,))).dtype == np.float16


def test_compose_and_batches_at_once():
    pixels = RNG.integers(0, 256, (10, 6, 6, 3)).astype(np.uint8)
    data = ArrayDataset(nd.array(pixels, dtype="uint8"), np.arange(10))
    steps = [transforms.ToTensor(), transforms.Normalize((0.1, 0.2, 0.3), (1, 2, 3)),
             transforms.Cast("float64")]
    at_once = data.transform_first(transforms.Compose(steps))
    one_by_one = data.transform_first(transforms.Compose([*steps, lambda x: x]))
    assert at_once._get_batch([0]) is not None and one_by_one._get_batch([0]) is None
    for (x, y), (u, v) in zip(DataLoader(at_once, 4), DataLoader(one_by_one, 4), strict=True):
        assert np.array_equal(x.asnumpy(), u.asnumpy()) and x.dtype == u.dtype == np.float64
        assert np.array_equal(y.asnumpy(), v.asnumpy()) and y.dtype == v.dtype


def test_subclass_with_its_own_forward_is_called_by_sample():
    class Darker(transforms.ToTensor):
        def forward(self, x):
            assert x.ndim == 3
            return super().forward(x) / 2

    data = ArrayDataset(nd.ones((4, 2, 2, 1), dtype="uint8") * 255).transform(Darker())
    (batch,) = DataLoader(data, 4)
    assert batch.shape == (4, 1, 2, 2) and (batch.asnumpy() == 0.5).all()
