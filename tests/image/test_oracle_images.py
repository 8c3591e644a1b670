"""Image functions, iterators and RecordIO files come to what they come to in MXNet 1.9.1."""
import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

import minigluon as mx

pytest.importorskip("PIL")

ORACLE = Path(__file__).parent.parent / "oracle"
spec = importlib.util.spec_from_file_location("oracle_images", ORACLE / "images.py")
images = importlib.util.module_from_spec(spec)
spec.loader.exec_module(images)

EXPECTED = {name: value for line in (ORACLE / "images.json").read_text().splitlines()
            for name, value in json.loads(line).items()}
# uint8: MXNet cuts hues off where minigluon rounds; gray of PNG comes from another library
ONE_OFF = ("hue uint8", "png 0", "ImageRecordIter gray", "resize")


@pytest.fixture(scope="module")
def figures():
    return images.figures(mx)


def test_same_names(figures):
    assert set(figures) == set(EXPECTED) and len(EXPECTED) > 100


@pytest.mark.parametrize("name", EXPECTED)
def test_equals_mxnet(figures, name):
    found, expected = figures[name], EXPECTED[name]
    if not isinstance(expected, dict):
        assert found == expected
        return
    assert (found["shape"], found["dtype"]) == (expected["shape"], expected["dtype"])
    off = np.abs(np.subtract(found["values"], expected["values"]))
    assert off.max() <= (1 if name.startswith(ONE_OFF) else 1e-3)
    if not name.startswith("hue uint8"):
        assert (off > 1e-3).mean() < 0.05
