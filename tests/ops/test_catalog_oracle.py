"""Every sample of an operator that MXNet has, against its recorded outputs and gradients."""
from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import minigluon as mx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "oracle"))

import catalog

_FIGURES = catalog.read()
_CASES = catalog.cases()
_RECORDED = {label: case for label, case in _CASES.items() if case.key in _FIGURES}


def test_nearly_every_sample_is_recorded() -> None:
    """Who adds samples of an operator of MXNet runs tests/oracle/catalog.py now and then."""
    have = {case.name for case in _RECORDED.values()}
    eligible = [label for label, case in _CASES.items() if case.name in have]
    assert len(_RECORDED) > 0.95 * len(eligible)


def test_every_difference_is_of_some_sample() -> None:
    """A reason that no sample needs any more is taken out."""
    for name, holds, why in catalog.DIFFERENT:
        assert any(case.name == name and holds(case) for case in _RECORDED.values()), (name, why)


@pytest.mark.parametrize("label", [label for label, case in _RECORDED.items()
                                   if not _FIGURES[case.key].refused
                                   and not catalog.different(case)])
def test_equals_mxnet(label: str) -> None:
    case = _RECORDED[label]
    errors: dict[str, Any] = catalog.compared(mx, case, _FIGURES[case.key])
    assert max(errors.values(), default=0.0) <= catalog.TOLERANCE, errors
