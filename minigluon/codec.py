"""Image files (JPEG, PNG, ...) to pixels and back, by Pillow or else OpenCV, whichever is there.

Neither is a dependency: ``pip install minigluon[image]`` brings Pillow. Loaded at first use.
"""
from __future__ import annotations

import importlib
import io
from typing import Any

import numpy as np

from .base import ArgumentError, ArgumentValueError, MXNetError, NotForThisError

__all__ = ["decode", "encode"]

Pixels = np.ndarray[Any, Any]

_UNCHANGED, _GRAY, _COLOR = -1, 0, 1
_FORMATS = {".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG", ".bmp": "BMP", ".webp": "WEBP"}


def decode(data: Any, flag: int = _COLOR, name: str = "the image") -> Pixels:
    """Pixels (height, width, channels) uint8 of an image file's bytes; colours as RGB.

    As they are stored: what EXIF says of the camera's orientation is not applied (nor in MXNet).

    Args:
        data: the content of the file.
        flag: 1 for three channels, 0 for one (gray), -1 for what the file has.
        name: what messages call it.
    """
    if flag not in (_UNCHANGED, _GRAY, _COLOR):
        raise ArgumentValueError(f"{name}: flag: expected -1, 0 or 1, got {flag!r}")
    data = bytes(data)
    if not data:
        raise ArgumentValueError(f"{name}: expected the content of an image file, got no bytes")
    library, module = _library(f"decoding {name}")
    pixels = _by_pillow(module, data, flag) if library == "PIL" else _by_opencv(module, data, flag)
    if pixels is None:
        raise MXNetError(
            f"{name}: {len(data)} bytes that begin with {data[:8]!r} are no image that "
            f"{library} can decode"
        )
    return np.ascontiguousarray(pixels if pixels.ndim == 3 else pixels[..., np.newaxis])


def encode(pixels: Any, img_fmt: str = ".jpg", quality: int = 95) -> bytes:
    """The bytes of an image file.

    Args:
        pixels: (height, width), (height, width, 1) or (height, width, 3) uint8, colours as RGB.
        img_fmt: what the file would end with: '.jpg', '.png', '.bmp', '.webp'.
        quality: of JPEG 1 to 100; of PNG how hard to compress, 0 to 9.
    """
    pixels = np.asarray(pixels)
    if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3) or pixels.shape[2:] not in (
            (), (1,), (3,), (4,)):
        raise ArgumentError(
            "encoding an image: expected uint8 pixels (height, width, 1 or 3 channels), got "
            f"{pixels.dtype} {pixels.shape}"
        )
    kind = _FORMATS.get(img_fmt.lower())
    if kind is None:
        raise ArgumentValueError(
            f"img_fmt: expected one of {', '.join(_FORMATS)}, got {img_fmt!r}"
        )
    pixels = pixels[..., 0] if pixels.shape[2:] == (1,) else pixels
    library, module = _library("encoding an image")
    if library == "PIL":
        settings = {"JPEG": {"quality": quality}, "WEBP": {"quality": quality},
                    "PNG": {"compress_level": min(quality, 9)}}.get(kind, {})
        stream = io.BytesIO()
        module.fromarray(pixels).save(stream, kind, **settings)
        return stream.getvalue()
    words = {"JPEG": module.IMWRITE_JPEG_QUALITY, "PNG": module.IMWRITE_PNG_COMPRESSION,
             "WEBP": module.IMWRITE_WEBP_QUALITY}
    chosen = [words[kind], min(quality, 9) if kind == "PNG" else quality] if kind in words else []
    swapped = pixels if pixels.ndim == 2 else pixels[..., [2, 1, 0, *range(3, pixels.shape[2])]]
    return bytes(module.imencode(img_fmt, np.ascontiguousarray(swapped), chosen)[1])


_found: list[tuple[str, Any]] = []


def _library(doing: str) -> tuple[str, Any]:
    """('PIL' or 'OpenCV', its module)."""
    if not _found:
        try:
            _found.append(("PIL", importlib.import_module("PIL.Image")))
        except ImportError:
            try:
                _found.append(("OpenCV", importlib.import_module("cv2")))
            except ImportError:
                raise NotForThisError(
                    f"{doing} needs Pillow or OpenCV and neither is installed; "
                    "pip install 'minigluon[image]'"
                ) from None
    return _found[0]


def _by_pillow(image_module: Any, data: bytes, flag: int) -> Pixels | None:
    try:
        with image_module.open(io.BytesIO(data)) as image:
            if flag == _GRAY:
                image.draft("L", image.size)  # as OpenCV: the luminance a JPEG holds
            image.load()
            kind = image.format
    except (OSError, ValueError, SyntaxError):  # Pillow's words for a file that is none
        return None
    if image.mode.startswith("I"):  # 16 bits: the upper eight
        image = image_module.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if flag == _UNCHANGED:
        if image.mode not in ("L", "RGB", "RGBA"):
            image = image.convert("RGBA" if "transparency" in image.info else "RGB")
        return np.asarray(image)
    if flag == _GRAY and kind == "PNG" and image.mode in ("P", "RGB", "RGBA"):
        weighed = np.asarray(image.convert("RGB"), np.int32) @ np.int32([9798, 19235, 3735])
        return (weighed >> 15).astype(np.uint8)  # as libpng, which OpenCV has do it
    if flag == _GRAY:
        return np.asarray(image.convert("L"))
    if image.mode == "LA":
        image = image.getchannel(0)
    if image.mode == "RGBA":  # the colours as they are, without blending
        return np.asarray(image)[..., :3]
    return np.asarray(image.convert("RGB"))


def _by_opencv(cv2: Any, data: bytes, flag: int) -> Pixels | None:
    flag = flag if flag == _UNCHANGED else flag | cv2.IMREAD_IGNORE_ORIENTATION
    pixels: Pixels | None = cv2.imdecode(np.frombuffer(data, np.uint8), flag)
    if pixels is None or pixels.ndim == 2:
        return pixels
    return pixels[..., [2, 1, 0, *range(3, pixels.shape[2])]]
