"""Methods of arrays and symbols are the functions of the same name (behaviours.md 14)."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minigluon as mx
from minigluon import nd, sym

_PLAIN = (
    "flatten norm round rint fix floor ceil trunc zeros_like ones_like abs sign sin cos tan "
    "arcsin arctan degrees radians sinh cosh tanh arcsinh arctanh exp expm1 square reciprocal "
    "argmax_channel shape_array size_array log log10 log2 log1p sqrt rsqrt cbrt rcbrt relu "
    "sigmoid softmax log_softmax softmin sum nansum prod nanprod mean max min argsort sort "
    "cumsum").split()
_WITH: list[tuple[str, dict[str, Any]]] = [
    ("expand_dims", {"axis": 1}), ("flip", {"axis": 0}), ("sort", {"axis": 0}),
    ("topk", {"k": 2, "ret_typ": "value"}), ("argsort", {"is_ascend": False}),
    ("argmax", {"axis": 1}), ("argmin", {"axis": 0}), ("one_hot", {"depth": 3}),
    ("tile", {"reps": (2, 1)}), ("repeat", {"repeats": 2, "axis": 1}),
    ("transpose", {"axes": (1, 0)}), ("swapaxes", {"dim1": 0, "dim2": 1}),
    ("slice", {"begin": (0, 1), "end": (2, 3)}), ("slice_axis", {"axis": 1, "begin": 1, "end": 3}),
    ("clip", {"a_min": 0.2, "a_max": 0.6}), ("sum", {"axis": 0}), ("mean", {"axis": (0, 1)}),
    ("max", {"axis": 1, "keepdims": True}), ("norm", {"ord": 1, "axis": 1}), ("diag", {"k": 1}),
    ("reshape", {"shape": (0, 2, -1)}), ("split", {"num_outputs": 2, "axis": 1}),
    ("split_v2", {"indices_or_sections": 2, "axis": 1}), ("cumsum", {"axis": 0}),
]
_X = np.random.default_rng(0).uniform(0.1, 0.9, (3, 4)).astype("float32")


def _values(found: Any) -> list[np.ndarray]:
    return [array.asnumpy() for array in (found if isinstance(found, list) else [found])]


def _check(name: str, attrs: dict[str, Any], data: np.ndarray, *others: np.ndarray) -> None:
    arrays = [nd.array(each) for each in (data, *others)]
    expected = _values(getattr(nd, name)(*arrays, **attrs))
    found = _values(getattr(arrays[0], name)(*arrays[1:], **attrs))
    variables = [sym.var(f"x{place}") for place in range(len(arrays))]
    symbol = getattr(variables[0], name)(*variables[1:], **attrs)
    graph = _values(symbol.eval(**{f"x{place}": each for place, each in enumerate(arrays)}))
    assert len(expected) == len(found) == len(graph)
    for one, method, node in zip(expected, found, graph, strict=True):
        np.testing.assert_array_equal(one, method)
        np.testing.assert_allclose(one, node, rtol=1e-6)


@pytest.mark.parametrize("name", _PLAIN)
def test_without_arguments(name: str) -> None:
    _check(name, {}, _X)


@pytest.mark.parametrize(("name", "attrs"), _WITH, ids=[name for name, _ in _WITH])
def test_with_arguments(name: str, attrs: dict[str, Any]) -> None:
    _check(name, attrs, _X)


@pytest.mark.parametrize(("name", "data"), [("arccosh", _X + 1), ("arccos", _X - 0.5)])
def test_where_the_function_lives(name: str, data: np.ndarray) -> None:
    _check(name, {}, data)


@pytest.mark.parametrize(("name", "attrs", "data", "others"), [
    ("slice_like", {"axes": (1,)}, _X, [_X[:2, :2]]),
    ("reshape_like", {}, _X, [_X.reshape(2, 6)]),
    ("broadcast_like", {}, _X[:1], [_X]),
    ("take", {"axis": 1}, _X, [np.array([0, 2])]),
    ("pick", {"axis": 1}, _X, [np.array([0, 2, 1])]),
    ("broadcast_to", {"shape": (3, 4)}, _X[:1], []),
    ("broadcast_axes", {"axis": 0, "size": 3}, _X[:1], []),
    ("squeeze", {}, _X[:1], []),
    ("pad", {"mode": "constant", "pad_width": (0, 0, 0, 0, 1, 1, 2, 0)}, _X.reshape(1, 1, 3, 4),
     []),
    ("space_to_depth", {"block_size": 2}, _X.reshape(1, 1, 6, 2), []),
    ("depth_to_space", {"block_size": 2}, _X.reshape(1, 4, 3, 1), []),
])
def test_of_several_arrays(name: str, attrs: dict[str, Any], data: np.ndarray,
                           others: list[np.ndarray]) -> None:
    _check(name, attrs, data, *others)


def test_an_array_is_one_of_nd() -> None:
    x = nd.array([1, 2])
    assert x.as_nd_ndarray() is x
    shared = nd.from_dlpack(x.to_dlpack_for_write())
    x[0] = 5
    assert shared.asnumpy().tolist() == [5, 2]
    assert nd.from_dlpack(x.to_dlpack_for_read()).asnumpy().tolist() == [5, 2]


def test_helpers_of_users_losses() -> None:
    x, y = nd.ones((2, 3)), nd.zeros((3, 2))
    assert mx.gluon.loss._reshape_like(nd, x, y).shape == (3, 2)
    weighted = mx.gluon.loss._apply_weighting(nd, x, 2.0, nd.array([[1], [0]]))
    assert weighted.asnumpy().tolist() == [[2, 2, 2], [0, 0, 0]]
