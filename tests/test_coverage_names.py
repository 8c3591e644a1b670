"""What real Gluon code uses and minigluon lacks must not grow."""
from __future__ import annotations

import json

from coverage_names import KNOWN, misses, names, report


def test_the_list_of_misses_does_not_grow() -> None:
    known = json.loads(KNOWN.read_text(encoding="utf-8"))
    assert sorted(set(misses()) - set(known)) == []


def test_the_list_is_the_whole_one() -> None:
    assert len(names()) > 1200
    assert sum(name.uses for name in names()) > 80_000


def test_a_missing_name_is_noticed() -> None:
    assert misses("json")["gluon.nn: Dense"] == "missing"


def test_report_counts() -> None:
    *_, last = report()
    assert last.startswith("all: ")
