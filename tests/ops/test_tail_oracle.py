"""Less common operators against the outputs and gradients that MXNet 1.9.1 recorded."""
from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minigluon as mx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "oracle"))

from tail_cases import CASES, FIGURES, run

_FIGURES = json.loads(FIGURES.read_text(encoding="utf-8"))


def test_every_case_has_figures() -> None:
    labels = [case.label for case in CASES]
    assert len(set(labels)) == len(labels)
    assert set(labels) == set(_FIGURES)


@pytest.mark.parametrize("case", CASES, ids=[f"{place}-{case.path}"
                                             for place, case in enumerate(CASES)])
def test_equals_mxnet(case: Any) -> None:
    found, figures = run(mx, case), _FIGURES[case.label]
    assert len(found) == len(figures)
    for array, (shape, dtype, values) in zip(found, figures, strict=True):
        assert (list(array.shape), array.dtype.name) == (shape, dtype)
        expected = np.asarray(values).reshape(shape)
        scale = max(float(np.abs(expected).max(initial=0)), 1.0)
        np.testing.assert_allclose(array, expected, rtol=1e-5, atol=2e-6 * scale)
