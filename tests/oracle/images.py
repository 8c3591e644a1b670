"""What image functions, iterators and RecordIO files come to, as JSON.

    python tests/oracle/images.py minigluon
    python tests/oracle/images.py mxnet     (in an environment with MXNet 1.9.1)

The same program for both, only the import differs. `images.json` holds MXNet 1.9.1's figures.
"""
import hashlib
import importlib
import json
import os
import struct
import sys
import tempfile
import zlib

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
SIZES = [((7, 9, 3), 4, 5), ((7, 9, 1), 20, 13), ((8, 12, 1), 6, 4), ((9, 12, 3), 4, 3),
         ((11, 7, 1), 15, 4), ((2, 3, 3), 7, 5), ((20, 30, 1), 10, 5)]


def pixels(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def png(image):
    """The content of a PNG file (no library needed)."""
    height, width, _ = image.shape
    rows = b"".join(b"\0" + row.tobytes() for row in image)

    def piece(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(
            ">I", zlib.crc32(kind + data))

    return (b"\x89PNG\r\n\x1a\n" + piece(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0,
                                                             0, 0))
            + piece(b"IDAT", zlib.compress(rows)) + piece(b"IEND", b""))


def resized(mx):
    for number, (shape, width, height) in enumerate(SIZES):
        for dtype in ("uint8", "float32"):
            image = mx.nd.array(pixels(*shape, seed=number), dtype=dtype)
            for interp in range(5):
                yield (f"resize {number} {dtype} {interp}",
                       mx.image.imresize(image, width, height, interp))
    image = mx.nd.array(pixels(10, 14, 3), dtype="uint8")
    yield "resize_short", mx.image.resize_short(image, 7, 9)
    yield "center_crop", mx.image.center_crop(image, (20, 6))[0]
    yield "fixed_crop", mx.image.fixed_crop(image, 2, 1, 5, 4, (8, 8), 1)
    yield "keep_ratio", mx.nd.image.resize(image, 5, True, 2)
    for kind in range(5):
        yield f"border {kind}", mx.image.copyMakeBorder(image, 2, 1, 3, 0, kind, values=(1, 2, 3))


def coloured(mx):
    image = pixels(5, 6, 3, seed=3)
    image[0, :3] = [[7, 7, 7], [0, 0, 0], [255, 0, 0]]
    for dtype in ("uint8", "float32"):
        array = mx.nd.array(image, dtype=dtype)
        for word in ("brightness", "contrast", "hue"):
            for factor in (0.3, 1.7):
                change = getattr(mx.nd.image, f"random_{word}")
                yield f"{word} {dtype} {factor}", change(array, factor, factor)
        yield f"lighting {dtype}", mx.nd.image.adjust_lighting(array, (0.3, -0.2, 0.5))
    array = mx.nd.array(image, dtype="float32")
    yield "gray", mx.image.RandomGrayAug(1)(array)
    yield "normal", mx.image.color_normalize(array, mx.nd.array([1, 2, 3]), mx.nd.array([4, 5, 6]))


def turned(mx):
    image = mx.nd.array(np.random.default_rng(1).random((2, 6, 9)))
    for degrees in (30, 90, -120):
        for zoom_in, zoom_out in ((False, False), (True, False), (False, True)):
            yield (f"rotate {degrees} {zoom_in:d}{zoom_out:d}",
                   mx.image.imrotate(image, degrees, zoom_in, zoom_out))


def decoded(mx):
    with open(os.path.join(HERE, "picture.jpg"), "rb") as file:
        content = file.read()
    for flag in (0, 1):
        yield f"jpeg {flag}", mx.image.imdecode(content, flag)
        yield f"png {flag}", mx.image.imdecode(png(pixels(5, 7, 3)), flag)


def records(mx, folder):
    """Files of awkward content; the hash of each."""
    path = os.path.join(folder, "odd")
    magic = struct.pack("<I", 0xCED7230A)
    record = mx.recordio.MXIndexedRecordIO(path + ".idx", path + ".rec", "w")
    rng = np.random.default_rng(7)
    for number in range(60):
        content = rng.integers(0, 256, int(rng.integers(0, 40))).astype(np.uint8).tobytes()
        for _ in range(int(rng.integers(0, 4))):
            place = int(rng.integers(0, len(content) + 1))
            content = content[:place] + magic + content[place:]
        label = float(number) if number % 2 else rng.random(number % 7)
        record.write_idx(3 * number, mx.recordio.pack((0, label, number, 2), content))
    record.close()
    for ending in (".rec", ".idx"):
        with open(path + ending, "rb") as file:
            yield f"record {ending}", hashlib.sha1(file.read()).hexdigest()


def batches(iterator, epochs=3):
    """Labels and padding, batch after batch, epoch after epoch."""
    told = []
    for _ in range(epochs):
        told.append([[batch.label[0].asnumpy().reshape(-1).tolist(), batch.pad]
                     for batch in iterator])
        iterator.reset()
    return told


def iterators(mx, folder):
    path = os.path.join(folder, "images")
    record = mx.recordio.MXIndexedRecordIO(path + ".idx", path + ".rec", "w")
    for number, (height, width) in enumerate([(10, 12), (8, 8), (9, 20), (20, 9), (6, 7), (8, 9)]):
        content = png(pixels(height, width, 3, seed=number))
        record.write_idx(number, mx.recordio.pack((0, float(number), number, 0), content))
    record.close()
    settings = {"path_imgrec": path + ".rec", "data_shape": (3, 6, 7), "batch_size": 4}
    quiet = {**settings, "preprocess_threads": 2, "verbose": False}
    kinds = {
        "plain": {}, "resize": {"resize": 8}, "mirror": {"mirror": True, "inter_method": 2},
        "small": {"data_shape": (3, 11, 13)}, "gray": {"data_shape": (1, 6, 7)},
        "mean": {"mean_r": 10, "mean_g": 20, "mean_b": 30, "std_r": 2, "std_b": 5, "scale": 0.5},
    }
    for word, extra in kinds.items():
        yield f"ImageRecordIter {word}", mx.io.ImageRecordIter(**{**quiet, **extra}).next().data[0]
    # without round_batch MXNet's last batch ends in memory that was never written
    yield "ImageRecordIter batches", batches(mx.io.ImageRecordIter(**quiet))
    yield "ImageIter", mx.image.ImageIter(**settings).next().data[0]
    for handle in ("pad", "discard"):
        yield f"ImageIter {handle}", batches(mx.image.ImageIter(last_batch_handle=handle,
                                                                **settings))
    for word, columns in (("x", 4), ("y", 1)):
        rows = np.arange(5 * columns).reshape(5, columns)
        np.savetxt(os.path.join(folder, word + ".csv"), rows, "%d", ",")
    for size in (2, 3):
        for rounds in (True, False):
            yield f"CSVIter {size} {rounds:d}", batches(mx.io.CSVIter(
                data_csv=os.path.join(folder, "x.csv"), label_csv=os.path.join(folder, "y.csv"),
                data_shape=(2, 2), batch_size=size, round_batch=rounds))


def boxes(mx):
    label = np.array([[0, 0.1, 0.2, 0.5, 0.6], [1, 0.3, 0.3, 0.9, 0.8]])
    image = mx.nd.array(pixels(4, 6, 3), dtype="uint8")
    flipped = mx.image.DetHorizontalFlipAug(1)(image, label)
    yield "box image", flipped[0]
    yield "box label", flipped[1]


def dumps(mx):
    everything = {"resize": 3, "rand_crop": True, "rand_mirror": True, "mean": np.ones(3),
                  "std": np.ones(3), "brightness": 0.1, "contrast": 0.1, "saturation": 0.1,
                  "hue": 0.1, "pca_noise": 0.1, "rand_gray": 0.1}
    yield "CreateAugmenter", [step.dumps() for step in
                              mx.image.CreateAugmenter((3, 5, 5), **everything)]
    yield "CreateDetAugmenter", [step.dumps() for step in mx.image.CreateDetAugmenter(
        (3, 5, 5), rand_pad=0.5, **everything)]


def plain(value):
    if isinstance(value, (str, list)):
        return value
    array = np.asarray(value.asnumpy() if hasattr(value, "asnumpy") else value)
    digits = array.astype(np.float64).round(5).reshape(-1).tolist()
    return {"shape": list(array.shape), "dtype": str(array.dtype),
            "values": [int(x) if x == int(x) else x for x in digits]}


def figures(mx):
    """name -> what it came to."""
    with tempfile.TemporaryDirectory() as folder:
        parts = [resized(mx), coloured(mx), turned(mx), decoded(mx), boxes(mx), dumps(mx),
                 records(mx, folder), iterators(mx, folder)]
        return {name: plain(value) for part in parts for name, value in part}


if __name__ == "__main__":
    for _name, _value in figures(importlib.import_module(sys.argv[1])).items():
        print(json.dumps({_name: _value}, separators=(",", ":")))
