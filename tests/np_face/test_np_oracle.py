"""What MXNet 1.9.1 gave for expressions of ``mx.np`` (oracle/np_cases.py), here."""
import json
import sys
from pathlib import Path

import numpy as onp
import pytest

import minigluon as mx

sys.path.insert(0, str(Path(__file__).parents[1] / "oracle"))
from np_cases import CASES, FIGURES, evaluate

KNOWN = json.loads(FIGURES.read_text(encoding="utf-8"))


def test_each_case_is_recorded():
    assert list(KNOWN) == CASES


@pytest.mark.parametrize("case", CASES)
def test_as_mxnet(case):
    found, expected = evaluate(mx, case), KNOWN[case]
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        if isinstance(theirs, str):
            assert ours == theirs
            continue
        assert ours[:3] == theirs[:3]
        close = 2e-3 if theirs[2] == "float16" else 2e-5
        onp.testing.assert_allclose(ours[3], theirs[3], close, close)
