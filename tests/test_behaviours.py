"""The table of behaviours names tests that exist, and leaves no line of the contract out."""
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "ops")]

from samples import SAMPLES  # noqa: E402

import behaviours  # noqa: E402
from minigluon.ops import registry  # noqa: E402


def test_the_tests_that_are_named_exist():
    names = {name for name, operator in registry.items() if operator.name in SAMPLES}
    assert behaviours.missing(names) == []


def test_every_line_of_the_contract_is_named_once():
    places = [(line.section, line.place) for line in behaviours.LINES]
    assert places == [(section, place) for section, count in behaviours.SECTIONS.items()
                      for place in range(1, count + 1)]


def test_every_line_has_a_test_or_a_reason():
    assert [line for line in behaviours.LINES if not line.tests and not line.open] == []


def test_a_test_that_does_not_exist_is_noticed():
    lines = behaviours.read("1.1 a: parameter: nosuch_test; catalog: NoSuch; nofile: x")
    assert len(behaviours.missing({"Pooling"}, lines)) == 3


def test_the_count():
    text = behaviours.summary()
    assert f"all{sum(behaviours.SECTIONS.values()):>7}" in text
    print(text)
