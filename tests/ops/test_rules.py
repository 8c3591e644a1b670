"""Shape and dtype rules on shapes that are only partly known, forwards and backwards."""
from __future__ import annotations

from typing import Any

import pytest

from minigluon.base import ArgumentValueError, DTypeError, ShapeError
from minigluon.ops import find_operator, rules

Shapes = list[Any]


def infer(name: str, shapes: Shapes, outs: Shapes | None = None, **attrs: Any) -> Any:
    op = find_operator(name)
    assert op.infer is not None
    return op.infer(shapes, op.parse(attrs), outs)


@pytest.mark.parametrize(("name", "shapes", "outs", "attrs", "expected"), [
    ("relu", [None], [(2, 3)], {}, ([(2, 3)], [(2, 3)])),
    ("relu", [(0, 3)], [(2, 0)], {}, ([(2, 3)], [(2, 3)])),
    ("elemwise_add", [(2, 0), None], [(0, 3)], {}, ([(2, 3), (2, 3)], [(2, 3)])),
    ("add_n", [None, None, (4,)], None, {}, ([(4,)] * 3, [(4,)])),
    ("broadcast_add", [(0, 3), (4, 1)], None, {}, ([(0, 3), (4, 1)], [(4, 3)])),
    ("broadcast_add", [(0, 3), (1, 1)], None, {}, ([(0, 3), (1, 1)], [(0, 3)])),
    ("broadcast_add", [None, (1, 1)], None, {}, ([None, (1, 1)], [None])),
    ("sum", [(2, 0, 4)], None, {"axis": 2}, ([(2, 0, 4)], [(2, 0)])),
    ("sum", [None], None, {}, ([None], [(1,)])),
    ("Reshape", [(2, 0, 4)], [(8, 3)], {"shape": (8, -1)}, ([(2, 3, 4)], [(8, 3)])),
    ("Reshape", [None], None, {"shape": (2, 3)}, ([None], [(2, 3)])),
    ("Reshape", [(0, 4)], None, {"shape": (-1, 2, 2)}, ([(0, 4)], [(0, 2, 2)])),
    ("Flatten", [(0, 3, 4)], [(5, 12)], {}, ([(5, 3, 4)], [(5, 12)])),
    ("Flatten", [None], None, {}, ([None], [(0, 0)])),
    ("transpose", [(0, 3)], [(0, 2)], {}, ([(2, 3)], [(3, 2)])),
    ("transpose", [None], [(3, 2)], {}, ([(2, 3)], [(3, 2)])),
    ("SwapAxis", [None], [(3, 2)], {"dim2": 1}, ([(2, 3)], [(3, 2)])),
    ("expand_dims", [None], [(2, 1, 3)], {"axis": 1}, ([(2, 3)], [(2, 1, 3)])),
    ("squeeze", [(0, 1)], None, {"axis": 1}, ([(0, 1)], [(0,)])),
    ("squeeze", [(0, 1)], None, {}, ([(0, 1)], [None])),
    ("Concat", [(2, 3), (2, 0)], [(0, 7)], {}, ([(2, 3), (2, 4)], [(2, 7)])),
    ("Concat", [(0, 3), (2, 4), None], None, {}, ([(2, 3), (2, 4), (2, 0)], [(2, 0)])),
    ("stack", [None, (2, 0)], [(0, 0, 3)], {}, ([(2, 3), (2, 3)], [(2, 2, 3)])),
    ("SliceChannel", [None], [(2, 3), None], {"num_outputs": 2},
     ([(2, 6)], [(2, 3), (2, 3)])),
    ("SliceChannel", [(2, 0)], None, {"num_outputs": 2}, ([(2, 0)], [(2, 0)] * 2)),
    ("dot", [(0, 3, 4), (4, 5)], None, {}, ([(0, 3, 4), (4, 5)], [(0, 3, 5)])),
    ("batch_dot", [(2, 3, 0), (2, 0, 4)], None, {}, ([(2, 3, 0), (2, 0, 4)], [None])),
    ("where", [(0, 3), None, (2, 0)], None, {}, ([(0, 3), (2, 3), (2, 3)], [(2, 3)])),
    ("pick", [(0, 4), (2,)], None, {}, ([(0, 4), (2,)], [(0,)])),
    ("SequenceMask", [(5, 2), None], None, {"use_sequence_length": True},
     ([(5, 2), (2,)], [(5, 2)])),
])
def test_partly_known(name: str, shapes: Shapes, outs: Shapes | None, attrs: dict[str, Any],
                      expected: Any) -> None:
    found, results = infer(name, shapes, outs, **attrs)
    assert ([*found], [*results]) == expected


@pytest.mark.parametrize(("name", "shapes", "outs", "attrs", "text"), [
    ("relu", [(2, 3)], [(2, 4)], {}, "relu: expected equal shapes, got (2, 3) and (2, 4)"),
    ("Flatten", [(2, 3)], [(2, 4)], {}, "Flatten: expected equal"),
    ("Reshape", [(2, 0, 4)], [(9, 1)], {"shape": (9, -1)}, "Reshape: cannot turn (2, 0, 4)"),
    ("Concat", [(2, 3), (2, 4)], [(2, 8)], {}, "Concat: expected equal"),
    ("broadcast_add", [(0, 3), (4, 2)], None, {}, "broadcast_add: expected shapes that"),
])
def test_contradictions(name: str, shapes: Shapes, outs: Shapes | None, attrs: dict[str, Any],
                        text: str) -> None:
    with pytest.raises(ShapeError) as caught:
        infer(name, shapes, outs, **attrs)
    assert text in str(caught.value)


def test_axes() -> None:
    assert rules.axes_of((-1, 0), 3) == (0, 2)
    assert rules.axes_of((), 2, exclude=True) == (0, 1)
    with pytest.raises(ArgumentValueError, match="from -2 to 1 for 2 axes, got 2"):
        rules.axes_of(2, 2)


def test_dtypes() -> None:
    assert rules.same_dtype([None, "float16"], {}) == (["float16"] * 2, ["float16"])
    with pytest.raises(DTypeError, match="one dtype, got float16, int32"):
        rules.same_dtype(["float16", "int32"], {})
    assert rules.fixed_dtype("int64")(["float16"], {}) == (["float16"], ["int64"])
    assert rules.follow_dtype(1)(["int32", None], {}) == (["int32", None], [None])
    assert rules.attr_dtype()([], {"dtype": None}) == ([], ["float32"])
