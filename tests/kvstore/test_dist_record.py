"""Records: fields by position and by name, what is refused, what is compared and shown."""
from __future__ import annotations

import pickle

import pytest

from minigluon.kvstore.dist.record import Record, field


class Point(Record):
    x: int
    y: int = 0


class Named(Point):
    names: list[str] = field(default_factory=list)
    note: str = ""
    silent = frozenset({"note"})


class Counter(Record, frozen=False):
    count: int = 0


def test_fields_of_the_base_come_first_and_each_record_has_its_own_list():
    one, two = Named(1), Named(1, y=0)
    assert Named.fields == ("x", "y", "names", "note") and one == two
    one.names.append("a")
    assert (one.names, two.names) == (["a"], []) and one != two
    assert Named(1, 2, ["b"], "c").names == ["b"]


@pytest.mark.parametrize(("args", "named", "words"), [
    ((), {}, "missing: x"),
    ((1, 2, 3), {}, "got 3 by position"),
    ((1,), {"x": 2}, "got 1 by position, x by name; given twice: x"),
    ((1,), {"z": 2}, "unknown: z"),
    ((), {"z": 2}, "unknown: z; missing: x"),
    ((1, 2), {"y": 2}, "given twice: y"),
])
def test_a_call_that_does_not_fit_says_what_was_expected(args, named, words):
    with pytest.raises(TypeError, match=r"Point: expected the fields x, y;") as caught:
        Point(*args, **named)
    assert words in str(caught.value)


def test_records_do_not_change_unless_they_say_so():
    with pytest.raises(AttributeError, match=r"Point: a field is not changed \('x'\)"):
        Point(1).x = 2
    counter = Counter()
    counter.count += 1
    assert counter.count == 1 and counter != Counter(1) and counter in {counter}


def test_equal_records_have_one_hash_and_other_classes_are_not_equal():
    assert hash(Point(1, 2)) == hash(Point(y=2, x=1))
    assert Point(1, 2) != Point(2, 1) and Point(1) != (1, 0) and Point(0) != Counter(0)


def test_silent_fields_are_neither_compared_nor_shown():
    assert Named(1, note="a") == Named(1, note="b")
    assert repr(Named(1, note="a")) == "Named(x=1, y=0, names=[])"


def test_records_are_pickled():
    assert pickle.loads(pickle.dumps(Point(1, 2))) == Point(1, 2)
