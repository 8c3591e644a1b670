"""Fused graphs: what is joined, what must not be, and that the values stay."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minigluon.context import cpu
from minigluon.device import device_of
from minigluon.dispatch import call
from minigluon.graph import Entry, F, Node, gradient, topological
from minigluon.graph.fuse import fuse
from minigluon.graph.rewrite import join_attention, join_picks

_DEVICE = device_of(cpu())


def _var(name: str) -> Entry:
    return Entry(Node(None, name), 0)


def _run(entries: list[Entry], given: dict[Entry, np.ndarray]) -> dict[Entry, np.ndarray]:
    """Every entry's value, node by node."""
    values = dict(given)
    for node in topological(entries):
        if node.op is not None:
            results = call(node.op, [values[entry] for entry in node.inputs], node.attrs, _DEVICE)
            values.update((Entry(node, i), result) for i, result in enumerate(results))
    return values


def _checked(entries: list[Entry], given: dict[Entry, np.ndarray]) -> list[Entry]:
    """The fused graph, whose values equal the plain graph's."""
    plain = _run(entries, given)
    descs = {entry: (value.dtype.name, value.shape) for entry, value in plain.items()}
    joined = fuse(entries, descs, training=True)
    values = _run(joined, given)
    for old, new in zip(entries, joined, strict=True):
        assert values[new].shape == plain[old].shape
        np.testing.assert_allclose(values[new], plain[old], rtol=1e-5, atol=1e-6)
    return joined


def _names(entries: list[Entry]) -> list[str]:
    return [node.op.name for node in topological(entries) if node.op is not None]


def _array(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype("f")


def test_a_chain_becomes_one_node() -> None:
    a, b, c = _var("a"), _var("b"), _var("c")
    out = F.elemwise_sub(F.relu(F.broadcast_add(F.elemwise_mul(a, b), c)), a)
    joined = _checked([out], {a: _array(4, 5), b: _array(4, 5), c: _array(5)})
    assert _names(joined) == ["_fused"]


def test_what_others_need_is_returned_too() -> None:
    a = _var("a")
    middle = F.exp(a)
    out = F._mul_scalar(middle, scalar=0.5)
    joined = _checked([out, middle, F.sum(middle, axis=1)], {a: _array(4, 5)})
    assert sorted(_names(joined)) == ["_fused", "sum"]


def test_no_cycle_arises() -> None:
    """exp and mul must not meet around the sum that lies between them."""
    a = _var("a")
    top = F.exp(a)
    total = F.sum(top, axis=1, keepdims=True)
    out = F._plus_scalar(F.broadcast_div(top, total), scalar=1.0)
    joined = _checked([out], {a: _array(4, 5)})
    assert _names(joined) == ["exp", "sum", "_fused"]


def test_two_groups_do_not_wait_for_each_other() -> None:
    a = _var("a")
    left, right = F.exp(a), F.sqrt(F.abs(a))
    left_sum, right_sum = (F.sum(x, axis=1, keepdims=True) for x in (left, right))
    out = [F.broadcast_mul(left, right_sum), F.broadcast_mul(right, left_sum)]
    _checked(out, {a: _array(4, 5)})


def test_shapes_that_only_stretch_are_absorbed() -> None:
    a = _var("a")
    mean = F.mean(a, axis=1)
    out = F.elemwise_sub(a, F._unreduce(mean, a, axis=1, keepdims=False, mean=False))
    joined = _checked([F.square(out)], {a: _array(4, 5, 3)})
    assert _names(joined) == ["mean", "_fused"]
    [grad] = gradient([F.mean(F.square(a))], [None], [a])
    assert grad is not None
    joined = _checked([grad], {a: _array(4, 5)})
    assert "_unreduce" not in _names(joined)


def test_integers_and_single_calls_are_left_alone() -> None:
    a = _var("a")
    whole = [F._plus_scalar(F.square(a), scalar=1)]
    assert _names(_checked(whole, {a: np.arange(6)})) == ["square", "_plus_scalar"]
    assert _names(_checked([F.exp(a)], {a: _array(3)})) == ["exp"]


@pytest.mark.parametrize("build", [
    lambda x: F.LeakyReLU(x, act_type="gelu"), lambda x: F.LeakyReLU(x, act_type="elu"),
    lambda x: F.Activation(x, act_type="softrelu"), lambda x: F.clip(x, a_min=-0.5, a_max=0.5),
    lambda x: F._power_scalar(F._plus_scalar(F.abs(x), scalar=1.0), scalar=3),
    lambda x: F.hard_sigmoid(x),
    lambda x: F.where(F._greater_scalar(x, scalar=0), x, F.square(x)),
    lambda x: F.add_n(x, F.exp(x), F.tanh(x)),
    lambda x: F.Cast(F.rsqrt(F.abs(x)), dtype="float32"),
])
def test_activations_and_their_gradients(build: Any) -> None:
    a, head = _var("a"), _var("head")
    out = F._mul_scalar(build(a), scalar=2.0)
    [grad] = gradient([out], [head], [a])
    assert grad is not None
    joined = _checked([out, grad], {a: _array(3, 7), head: _array(3, 7) + 1})
    assert set(_names(joined)) == {"_fused"}


def test_large_groups_are_cut() -> None:
    a = _var("a")
    out = a
    for _ in range(100):
        out = F._plus_scalar(F.tanh(out), scalar=0.1)
    assert 5 <= len(_names(_checked([out], {a: _array(3)}))) < 20


@pytest.mark.parametrize("seed", range(20))
def test_random_graphs(seed: int) -> None:
    """Any graph of element-wise calls, sums and stretches keeps its values."""
    random = np.random.default_rng(seed)
    pool = [_var("a"), _var("b")]
    given = {pool[0]: _array(3, 4), pool[1]: _array(3, 4) + 1}
    for _ in range(25):
        x, y = (pool[i] for i in random.integers(0, len(pool), 2))
        pool.append([
            lambda x, y: F.tanh(x), lambda x, y: F.elemwise_add(x, y),
            lambda x, y: F.elemwise_mul(F.tanh(x), y),
            lambda x, y: F.broadcast_sub(x, F.mean(y, axis=1, keepdims=True)),
            lambda x, y: F.broadcast_maximum(x, F.max(y, axis=0)),
            lambda x, y: F.sigmoid(x),
        ][random.integers(0, 6)](x, y))
    _checked([pool[i] for i in random.integers(2, len(pool), 4)], given)


@pytest.mark.parametrize(("axis", "pick_axis"), [(-1, -1), (-1, 1), (1, -1), (0, 0), (0, 1)])
def test_gradient_of_a_picked_log_softmax(axis: int, pick_axis: int) -> None:
    x, label, head = _var("x"), _var("label"), _var("head")
    out = F.pick(F.log_softmax(x, axis=axis), label, axis=pick_axis)
    [grad] = gradient([out], [head], [x])
    assert grad is not None
    given = {x: _array(4, 4), label: np.array([0, 3, 2, 2], "f"), head: _array(4)}
    plain = _run([grad], given)
    descs = {entry: (value.dtype.name, value.shape) for entry, value in plain.items()}
    [joined] = join_picks([grad], descs, training=True)
    np.testing.assert_allclose(_run([joined], given)[joined], plain[grad], rtol=1e-5, atol=1e-6)
    assert ("_pick_grad" in _names([joined])) == ((axis - pick_axis) % 2 == 1)


def _attention(data: Entry) -> Entry:
    scores = F._contrib_interleaved_matmul_selfatt_qk(data, heads=2)
    return F._contrib_interleaved_matmul_selfatt_valatt(data, F.softmax(scores), heads=2)


def test_attention_becomes_one_node_in_every_layer_and_back() -> None:
    x, w, dy = _var("x"), _var("w"), _var("dy")
    first = _attention(x)
    out = _attention(F.FullyConnected(first, w, num_hidden=12, no_bias=True, flatten=False))
    given = {x: _array(5, 3, 12), w: _array(12, 4), dy: _array(5, 3, 4)}
    entries = [out, *gradient([out], [dy], [x, w])]
    plain = _run(entries, given)
    joined = join_attention(entries, {}, training=True)
    values = _run(joined, given)
    for old, new in zip(entries, joined, strict=True):
        np.testing.assert_allclose(values[new], plain[old], rtol=1e-4, atol=1e-5)
    names = _names(joined)
    assert names.count("_selfatt") == names.count("_selfatt_grad") == 2
    assert "softmax" not in names and "_softmax_grad" not in names


def test_scaled_or_masked_attention_stays_in_parts() -> None:
    x = _var("x")
    scores = F._contrib_interleaved_matmul_selfatt_qk(x, heads=2)
    for weights in (F.softmax(scores, temperature=2.0), F.softmax(scores, axis=1),
                    F.softmax(F._mul_scalar(scores, scalar=2.0))):
        out = F._contrib_interleaved_matmul_selfatt_valatt(x, weights, heads=2)
        assert join_attention([out], {}, training=True) == [out]


def test_division_by_the_root_of_the_width_joins_a_chain() -> None:
    x = _var("x")
    joined = _checked([F.relu(F._contrib_div_sqrt_dim(x))], {x: _array(6, 5)})
    assert _names(joined) == ["_fused"]
