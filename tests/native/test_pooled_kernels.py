"""Pooling by two with places, alone and joined to convolutions: kernels and the pass that joins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from against_body import check, normal, step_for, threads

import minigluon as mx
from minigluon import autograd, nd
from minigluon.device.cpu import native
from minigluon.graph import layout
from minigluon.nn import Conv2D, Dense, Flatten, HybridBlock, HybridSequential, MaxPool2D
from minigluon.ops import registry

pytestmark = pytest.mark.skipif(not native.onednn, reason="oneDNN's kernels are not built")
Array = np.ndarray[Any, Any]


def _places(*shape: int) -> Array:
    return np.random.default_rng(3).integers(0, 4, shape).astype("uint8")


def test_alone() -> None:
    x = normal(2, 3, 6, 4, 16)
    x[0, 0, 0, :, 3] = 1.0  # equal ones: the first
    x[1, 2, 2, 1, 5] = x[1, 2, 3, 0, 5] = np.nan
    step, wanted = step_for("_pool_two", [x], {})
    for got, want in zip(step([x]), wanted, strict=True):
        np.testing.assert_array_equal(got, want)
    dy, place = normal(2, 3, 3, 2, 16), _places(2, 3, 3, 2, 16)
    dy[0, 1, 2, 1, 3:6] = np.inf, -np.inf, np.nan  # the others of the window get 0 all the same
    step, [want] = step_for("_pool_two_spread", [dy, place], {})
    np.testing.assert_array_equal(step([dy, place])[0], want)
    assert np.count_nonzero(want) <= dy.size and np.isnan(want).sum() == 1
    back = registry["_pool_two_pick"].body(np, want, place)
    np.testing.assert_array_equal(back, dy)
    assert back.dtype == dy.dtype


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(("blocks", "channels", "filters", "size", "kernel", "pad"), [
    (2, 1, 20, (12, 10), (5, 5), (0, 0)),     # plain sums
    (1, 3, 13, (6, 8), (3, 3), (0, 0)),
    (1, 2, 7, (7, 6), (2, 5), (0, 0)),
    (3, 20, 50, (12, 12), (5, 5), (0, 0)),    # values at points
    (1, 12, 17, (10, 14), (5, 5), (0, 0)),    # tiles that stick out
    (2, 18, 11, (8, 8), (5, 5), (1, 2)),
])
def test_joined_to_a_convolution(blocks: int, channels: int, filters: int, size: tuple[int, int],
                                 kernel: tuple[int, int], pad: tuple[int, int],
                                 count: int) -> None:
    attrs = {"kernel": (*kernel, 1), "pad": (*pad, 0), "num_filter": filters}
    x, w = normal(blocks, channels, *size, 16), normal(filters, channels, *kernel, 1)
    bias = normal(filters)
    bare = {**attrs, "no_bias": True}
    points = channels >= 8
    with threads(count):
        for inputs, given in (([x, w], bare), ([x, w, bias], attrs)):
            step, [want, place] = step_for("_conv_pool", inputs, given)
            got, where = step(inputs)
            scale = np.abs(want).max()
            np.testing.assert_allclose(got / scale, want / scale, rtol=0, atol=1e-5)
            # where two are nearly equal, rounding chooses
            full = registry["Convolution"].body(np, *inputs, **registry["Convolution"].parse(given))
            chosen = registry["_pool_two_pick"].body(np, full, where)
            np.testing.assert_allclose(chosen / scale, want / scale, rtol=0, atol=2e-5)
            assert (where == place).mean() > 0.99
        dy = normal(*want.shape, seed=1)
        where = _places(*want.shape)
        if kernel == (5, 5):
            check("_conv_pool_grad_weight", [dy, where, x, w], attrs)
        if points:
            check("_conv_pool_grad_data", [dy, where, w, x], attrs)
        else:
            assert step_for("_conv_pool_grad_data", [dy, where, w, x], attrs)[0] is None


def _net() -> HybridBlock:
    net = HybridSequential()
    net.add(Conv2D(12, 5, activation="tanh"), MaxPool2D(2, 2), Conv2D(9, 5, activation="relu"),
            MaxPool2D(2, 2), Flatten(), Dense(5))
    return net


def _gradients(net: HybridBlock, x: Array) -> list[Array]:
    data = nd.array(x)
    data.attach_grad()
    with autograd.record():
        out = net(data)
    out.backward(nd.array(np.cos(np.arange(out.size)).reshape(out.shape)))
    return [array.asnumpy() for array in
            (out, data.grad, *(p.grad() for p in net.collect_params().values()))]


def test_a_network_keeps_its_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "_choose", lambda *_: layout._BLOCKED)
    made: list[str] = []
    step = native.step

    def noting(name: str, *rest: Any) -> Any:
        found = step(name, *rest)
        made.extend([name] if found is not None else [])
        return found

    x = normal(16, 16, 24, 24)
    net = _net()
    net.initialize(mx.init.Xavier())
    wanted = _gradients(net, x)
    monkeypatch.setattr(native, "step", noting)
    net.hybridize()
    for got, want in zip(_gradients(net, x), wanted, strict=True):
        scale = np.abs(want).max()
        np.testing.assert_allclose(got / scale, want / scale, rtol=0, atol=3e-5)
    assert set(made) >= {"_conv_pool", "_conv_pool_grad_data", "_conv_pool_grad_weight"}
    assert not {"_pool_grad", "Pooling", "_pool_two", "_pool_two_spread"} & set(made)


def test_second_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "_choose", lambda *_: layout._BLOCKED)
    x = normal(16, 2, 8, 8)
    found = []
    for hybrid in (False, True):
        mx.random.seed(1)
        net = HybridSequential()
        net.add(Conv2D(3, 3, activation="tanh", in_channels=2), MaxPool2D(2, 2))
        net.initialize(mx.init.Xavier())
        net.hybridize(hybrid)
        data = nd.array(x)
        data.attach_grad()
        with autograd.record():
            [slope] = autograd.grad(net(data), [data], create_graph=True)
            total = (slope * slope).sum()
        total.backward()
        found.append(data.grad.asnumpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4, atol=1e-5)
