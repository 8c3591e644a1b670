"""Recurrent cells over images against the figures of MXNet 1.9.1."""
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import minigluon as mx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "oracle"))

from conv_cells import CASES, SYMBOLS, run_block, run_symbol

FIGURES = json.loads(
    (Path(__file__).resolve().parents[1] / "oracle" / "conv_cells.json").read_text("utf-8"))


@pytest.mark.parametrize("name", [*CASES, *SYMBOLS])
def test_equals_mxnet(name):
    found = (run_symbol if name in SYMBOLS else run_block)(mx, name)
    assert found.keys() == FIGURES[name].keys()
    for key, expected in FIGURES[name].items():
        if expected and isinstance(expected[0], float):
            scale = max(1.0, max(map(abs, expected)))
            np.testing.assert_allclose(found[key], expected, rtol=1e-4, atol=2e-5 * scale)
        else:
            assert found[key] == expected, key


def test_hybridized_cell_gives_the_same():
    cell = mx.gluon.contrib.rnn.Conv2DLSTMCell((2, 5, 4), 3, 3, 3, 1)
    cell.initialize()
    x = mx.nd.random.uniform(shape=(2, 2, 5, 4))
    plain = cell(x, cell.begin_state(2))[0].asnumpy()
    cell.hybridize()
    np.testing.assert_allclose(cell(x, cell.begin_state(2))[0].asnumpy(), plain, rtol=1e-5,
                               atol=1e-6)


def test_bad_settings_are_explained():
    cells = mx.gluon.contrib.rnn
    with pytest.raises(ValueError, match="odd number"):
        cells.Conv2DGRUCell((2, 5, 4), 3, 3, 2)
    with pytest.raises(AssertionError, match="2 sizes"):
        cells.Conv2DGRUCell((2, 5), 3, 3, 3)
    with pytest.raises(AssertionError, match="i2h_pad: expected a number or 2"):
        cells.Conv2DGRUCell((2, 5, 4), 3, 3, 3, i2h_pad=(1,))
    with pytest.raises(NotImplementedError, match="only 'NCHW'"):
        cells.Conv2DGRUCell((5, 4, 2), 3, 3, 3, conv_layout="NHWC")
    with pytest.raises(NotImplementedError, match="only 'NCHW'"):
        mx.rnn.ConvGRUCell((1, 5, 4, 2), 3, conv_layout="NHWC")
