"""Image files to pixels and back; what is said where no library can do it."""
import importlib
import io

import numpy as np
import pytest

from minigluon import MXNetError, codec


def pixels(*shape):
    return np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)


@pytest.fixture(params=["PIL", "OpenCV"])
def library(request, monkeypatch):
    """Each library that is there."""
    module = {"PIL": "PIL.Image", "OpenCV": "cv2"}[request.param]
    pytest.importorskip(module)
    monkeypatch.setattr(codec, "_found", [(request.param, importlib.import_module(module))])
    return request.param


@pytest.mark.parametrize("kind", [".png", ".bmp"])
@pytest.mark.parametrize("shape", [(5, 7, 3), (5, 7, 1), (5, 7)])
def test_there_and_back(library, kind, shape):
    image = pixels(*shape)
    decoded = codec.decode(codec.encode(image, kind, 5), -1)
    expected = image if image.ndim == 3 else image[..., None]
    assert decoded.dtype == np.uint8 and np.array_equal(decoded, expected)


def test_channels_as_asked(library):
    colour, gray = (codec.encode(pixels(4, 4, c), ".png") for c in (3, 1))
    assert codec.decode(colour, 0).shape == codec.decode(gray, 0).shape == (4, 4, 1)
    assert np.array_equal(codec.decode(gray, 1), np.repeat(pixels(4, 4, 1), 3, 2))
    weights = pixels(4, 4, 3) @ [0.299, 0.587, 0.114]
    assert abs(codec.decode(colour, 0)[..., 0] - weights).max() <= 1


def test_quality(library):
    image = pixels(20, 20, 3)
    assert len(codec.encode(image, ".jpg", 20)) < len(codec.encode(image, ".jpg", 95))


def test_refusals(library):
    with pytest.raises(MXNetError, match="8 bytes that begin with b'rubbish!'"):
        codec.decode(b"rubbish!")
    with pytest.raises(ValueError, match="no bytes"):
        codec.decode(b"")
    with pytest.raises(ValueError, match="flag"):
        codec.decode(b"x", 2)
    with pytest.raises(ValueError, match="img_fmt"):
        codec.encode(pixels(2, 2, 3), ".xyz")
    with pytest.raises(TypeError, match="float64"):
        codec.encode(np.zeros((2, 2, 3)))


@pytest.mark.parametrize("mode", ["RGBA", "P", "LA", "1", "I;16"])
def test_kinds_of_png(mode):
    image_module = pytest.importorskip("PIL.Image")
    gray = np.arange(24).reshape(4, 6) * 10
    if mode == "I;16":
        picture = image_module.fromarray((gray * 256).astype(np.uint16))
    else:
        picture = image_module.fromarray(gray.astype(np.uint8)).convert("RGB")
        picture = picture.quantize(32) if mode == "P" else picture.convert(mode)
    stream = io.BytesIO()
    picture.save(stream, "PNG")
    decoded = codec.decode(stream.getvalue(), 1)
    assert decoded.shape == (4, 6, 3)
    if mode != "1":
        assert np.array_equal(decoded[..., 1], gray)
    assert codec.decode(stream.getvalue(), 0).shape == (4, 6, 1)


def test_without_a_library(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(codec, "_found", [])
    monkeypatch.setattr(codec.importlib, "import_module", missing)
    with pytest.raises(NotImplementedError, match=r"pip install 'minigluon\[image\]'"):
        codec.decode(b"anything")
