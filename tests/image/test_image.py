"""mx.image's functions: cutting, resizing, turning, reading; what they refuse."""
import random

import numpy as np
import pytest

import minigluon as mx
from minigluon import nd
from minigluon.image.image import _get_interp_method


def image(*shape, dtype="uint8"):
    values = np.random.default_rng(0).integers(0, 256, shape)
    return nd.array(values, dtype=dtype)


def test_names():
    assert mx.img is mx.image and mx.image.image._get_interp_method is _get_interp_method


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64"])
@pytest.mark.parametrize("interp", range(5))
def test_resize_keeps_what_is_flat(dtype, interp):
    flat = nd.full((5, 6, 3), 77, dtype=dtype)
    for width, height in ((3, 2), (12, 10), (6, 5), (4, 11)):
        resized = mx.image.imresize(flat, width, height, interp)
        assert resized.shape == (height, width, 3) and resized.dtype == flat.dtype
        assert abs(resized.asnumpy().astype(float) - 77).max() < 0.1


def test_same_size_changes_nothing():
    x = image(5, 6, 3)
    for interp in range(5):
        assert np.array_equal(mx.image.imresize(x, 6, 5, interp).asnumpy(), x.asnumpy())


def test_resize_refuses():
    with pytest.raises(ValueError, match="interp"):
        mx.image.imresize(image(4, 4, 3), 2, 2, 5)
    with pytest.raises(ValueError, match="height, width, channels"):
        mx.image.imresize(image(2, 4, 4, 3), 2, 2)
    with pytest.raises(mx.MXNetError, match="size"):
        mx.image.imresize(image(4, 4, 3), 0, 2)
    with pytest.raises(TypeError, match="uint8 or floats"):
        mx.image.imresize(image(4, 4, 3, dtype="int32"), 2, 2)


@pytest.mark.parametrize(("interp", "sizes", "expected"), [
    (9, (10, 10, 20, 20), 2), (9, (10, 10, 5, 5), 3), (9, (10, 10, 20, 5), 1), (9, (), 2),
    (1, (), 1), (4, (), 4)])
def test_interp_method(interp, sizes, expected):
    assert _get_interp_method(interp, sizes) == expected


def test_interp_method_at_random():
    assert {_get_interp_method(10) for _ in range(200)} == set(range(5))
    with pytest.raises(ValueError, match="got 11"):
        _get_interp_method(11)


def test_scale_down_and_resize_short():
    assert mx.image.scale_down((640, 480), (720, 120)) == (640, 106)
    assert mx.image.scale_down((640, 480), (100, 120)) == (100, 120)
    assert mx.image.resize_short(image(10, 14, 3), 5).shape == (5, 7, 3)
    assert mx.image.resize_short(image(14, 10, 3), 5).shape == (7, 5, 3)


def test_center_crop():
    x = image(10, 14, 3)
    cut, place = mx.image.center_crop(x, (6, 4))
    assert place == (4, 3, 6, 4) and np.array_equal(cut.asnumpy(), x.asnumpy()[3:7, 4:10])
    cut, place = mx.image.center_crop(x, (20, 4))
    assert place == (0, 4, 14, 2) and cut.shape == (4, 20, 3)
    with pytest.raises(TypeError, match="width, height"):
        mx.image.center_crop(x, 4)
    with pytest.raises(ValueError, match="center_crop: expected an image"):
        mx.image.center_crop(image(2, 10, 14, 3), (3, 3))


def test_random_crop_is_everywhere():
    x = image(5, 6, 3)
    random.seed(1)
    places = set()
    for _ in range(200):
        cut, (left, top, width, height) = mx.image.random_crop(x, (4, 3))
        assert np.array_equal(cut.asnumpy(),
                              x.asnumpy()[top: top + height, left: left + width])
        places.add((left, top))
    assert places == {(left, top) for left in range(3) for top in range(3)}
    assert mx.image.random_crop(x, (20, 40))[0].shape == (40, 20, 3)


def test_random_size_crop():
    x = image(30, 40, 3)
    random.seed(1)
    shares = []
    for _ in range(100):
        cut, (left, top, width, height) = mx.image.random_size_crop(x, (5, 6), (0.2, 0.5), (0.5, 2))
        assert cut.shape == (6, 5, 3)
        assert 0 <= left <= 40 - width and 0 <= top <= 30 - height
        assert 0.4 < width / height < 2.2
        shares.append(width * height / 1200)
    assert 0.18 < min(shares) < 0.25 and 0.45 < max(shares) < 0.53
    place = mx.image.random_size_crop(x, (5, 6), (0.9, 0.9), (9, 9))[1]
    assert place == mx.image.center_crop(x, (5, 6))[1], "nothing fits: the middle"
    with pytest.raises(TypeError, match="foo"):
        mx.image.random_size_crop(x, (5, 6), 0.2, (1, 1), foo=1)


def test_seeds_repeat():
    x = image(30, 40, 3)
    draws = []
    for _ in range(2):
        random.seed(5)
        draws.append([mx.image.random_size_crop(x, (5, 6), 0.1, (0.5, 2))[1] for _ in range(5)])
    assert draws[0] == draws[1]


def test_color_normalize():
    x = image(4, 5, 3, dtype="float32")
    before = x.asnumpy()
    result = mx.image.color_normalize(x, nd.array([1, 2, 3]), nd.array([2, 2, 4]))
    assert np.allclose(result.asnumpy(), (before - [1, 2, 3]) / [2, 2, 4])
    assert np.array_equal(x.asnumpy(), before)
    assert mx.image.color_normalize(x, None) is x


def test_rotate():
    x = nd.array(np.random.default_rng(0).random((2, 5, 5)))
    turned = mx.image.imrotate(x, 90).asnumpy()
    assert np.allclose(turned, np.rot90(x.asnumpy(), axes=(1, 2)), atol=1e-5)
    batch = nd.stack(x, x)
    both = mx.image.imrotate(batch, nd.array([90, 30])).asnumpy()
    assert np.allclose(both[0], turned, atol=1e-5)
    assert np.allclose(both[1], mx.image.imrotate(x, 30).asnumpy(), atol=1e-5)
    corner = mx.image.imrotate(nd.ones((1, 9, 9)), 45).asnumpy()[0]
    assert corner[0, 0] == 0 and corner[4, 4] == 1
    assert mx.image.imrotate(nd.ones((1, 9, 9)), 45, zoom_in=True).asnumpy().min() > 0.99
    assert mx.image.random_rotate(batch, (-10, 10)).shape == batch.shape


def test_rotate_refuses():
    x = nd.ones((1, 4, 4))
    with pytest.raises(ValueError, match="both True"):
        mx.image.imrotate(x, 1, True, True)
    with pytest.raises(TypeError, match="float32"):
        mx.image.imrotate(x.astype("uint8"), 1)
    with pytest.raises(ValueError, match="C, H, W"):
        mx.image.imrotate(x[0], 1)
    with pytest.raises(TypeError, match="a number for a single image"):
        mx.image.imrotate(x, nd.array([1, 2]))
    with pytest.raises(ValueError, match="one angle for each of 2"):
        mx.image.imrotate(nd.ones((2, 1, 4, 4)), nd.array([1, 2, 3]))


def test_read_and_decode(tmp_path):
    pytest.importorskip("PIL")
    pixels = image(4, 5, 3).asnumpy()
    content = mx.recordio.unpack(
        mx.recordio.pack_img((0, 0, 0, 0), pixels[..., ::-1], 3, ".png"))[1]
    (tmp_path / "x.png").write_bytes(content)
    for read in (mx.image.imread(tmp_path / "x.png"), mx.image.imdecode(content),
                 mx.image.imdecode(bytearray(content)),
                 mx.image.imdecode(np.frombuffer(content, np.uint8)),
                 mx.image.imdecode(nd.array(np.frombuffer(content, np.uint8), dtype="uint8"))):
        assert read.dtype == np.uint8 and np.array_equal(read.asnumpy(), pixels)
    assert np.array_equal(mx.image.imdecode(content, to_rgb=0).asnumpy(), pixels[..., ::-1])
    assert mx.image.imdecode(content, flag=0).shape == (4, 5, 1)
    out = nd.zeros((4, 5, 3), dtype="uint8")
    mx.image.imdecode(content, out=out)
    assert np.array_equal(out.asnumpy(), pixels)
    with pytest.raises(mx.MXNetError, match=r"cannot open .*none\.png"):
        mx.image.imread(tmp_path / "none.png")
    with pytest.raises(mx.MXNetError, match="no image"):
        mx.image.imdecode(b"rubbish")
    with pytest.raises(mx.MXNetError, match="no bytes"):
        mx.image.imdecode(b"")
    with pytest.raises(ValueError, match="expected bytes"):
        mx.image.imdecode("text")
