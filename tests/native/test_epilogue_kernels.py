"""A convolution with what follows it, as one call: the pass that makes it, kernel against body."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from against_body import check, normal, step_for

import minigluon as mx
from minigluon import nd
from minigluon.device.cpu import native
from minigluon.graph import Entry, F, Node, lower, topological
from minigluon.graph.epilogue import join_epilogues
from minigluon.nn import Activation, BatchNorm, Conv2D, HybridBlock, HybridSequential
from minigluon.ops import registry

pytestmark = pytest.mark.skipif(not native.onednn, reason="oneDNN's kernels are not built")


def _inputs(attrs: dict[str, Any], batch: int, channels: int, filters: int, size: int
            ) -> list[np.ndarray[Any, Any]]:
    last = attrs["layout"] is not None
    x = normal(batch, size, size, channels) if last else normal(batch, channels, size, size)
    arrays = [x, normal(filters, channels, 3, 3)]
    if not attrs["no_bias"]:
        arrays.append(normal(filters))
    if attrs["norm"]:
        arrays += [normal(filters, seed=2), normal(filters, seed=3), normal(filters, seed=4),
                   np.abs(normal(filters, seed=5)) + 0.1]
    if attrs["add"]:
        bare = {**attrs, "no_bias": True, "norm": False, "add": False}
        shape = registry["_conv_fused"].body(np, *arrays[:2], **bare).shape
        arrays.append(normal(*shape, seed=6))
    return arrays


@pytest.mark.parametrize(("norm", "add", "act_type", "no_bias"), list(itertools.product(
    (False, True), (False, True), ("", "relu"), (False, True))))
@pytest.mark.parametrize("layout", [None, "NHWC/OIHW"])
@pytest.mark.parametrize("sizes", [(2, 16, 32, 9), (1, 130, 140, 4)])
def test_kernel(norm: bool, add: bool, act_type: str, no_bias: bool, layout: str | None,
                sizes: tuple[int, int, int, int]) -> None:
    attrs = {"kernel": (3, 3), "pad": (1, 1), "num_filter": sizes[2], "layout": layout,
             "no_bias": no_bias, "norm": norm, "add": add, "act_type": act_type, "eps": 1e-3,
             "fix_gamma": False}
    record = registry["_conv_fused"]
    check("_conv_fused", _inputs(record.parse(attrs), *sizes), attrs)


def test_kernel_of_blocks() -> None:
    attrs = {"kernel": (3, 3, 1), "num_filter": 5, "act_type": "relu"}
    check("_conv_fused", [normal(1, 3, 6, 6, 16), normal(5, 3, 3, 3, 1), normal(5)], attrs)


@pytest.mark.parametrize("blocked", [False, True])
def test_nan_stays_nan_behind_relu(blocked: bool) -> None:
    attrs: dict[str, Any] = {"kernel": (3, 3), "num_filter": 16, "act_type": "relu",
                             "no_bias": True, "layout": "NHWC/OIHW"}
    x, w = normal(1, 6, 6, 16), normal(16, 16, 3, 3)
    x[0, 0, 0, 0] = np.nan
    if blocked:
        attrs.update(kernel=(3, 3, 1), layout=None)
        x, w = np.moveaxis(x, 3, 1)[..., None].repeat(16, 4).copy(), w[..., None]
    step, [want] = step_for("_conv_fused", [x, w], attrs)
    [got] = step([x, w])
    assert np.isnan(want).any()
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    assert not np.signbit(got[got == 0]).any()


@pytest.mark.parametrize("layout", [None, "NHWC/OIHW"])
@pytest.mark.parametrize("channels", [16, 130])
def test_minus_zero_becomes_zero_by_relu(layout: str | None, channels: int) -> None:
    attrs = {"kernel": (3, 3), "pad": (1, 1), "num_filter": channels, "layout": layout,
             "no_bias": True, "norm": True, "act_type": "relu", "fix_gamma": False, "eps": 0}
    one = np.ones(channels, "float32")
    x = np.zeros((1, channels, 4, 4) if layout is None else (1, 4, 4, channels), "float32")
    arrays = [x, normal(channels, channels, 3, 3), -one, -0.0 * one, 0 * one, one]
    step, _ = step_for("_conv_fused", arrays, attrs)
    bare, _ = step_for("_conv_fused", arrays, {**attrs, "act_type": ""})
    assert np.signbit(bare(arrays)[0]).all()
    [got] = step(arrays)
    assert not got.any() and not np.signbit(got).any()


class Block(HybridBlock):
    """A residual block; its sum is read once, its first relu twice."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.body = HybridSequential()
            self.body.add(Conv2D(8, 3, padding=1), BatchNorm(), Activation("relu"),
                          Conv2D(8, 3, padding=1, use_bias=False), BatchNorm(scale=False))

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        y = F.relu(x)
        return F.relu(y + self.body(y))


@pytest.mark.parametrize("batch", [1, 3])
def test_prediction_joined_equals_eager(batch: int, monkeypatch: Any) -> None:
    seen: list[Node] = []

    def watched(*args: Any) -> list[Entry]:
        found = join_epilogues(*args)
        seen.extend(node for node in topological(found) if node.op)
        return found

    mx.random.seed(7)
    net = HybridSequential()
    net.add(Conv2D(8, 3), Block(), Block())
    net.initialize(mx.init.Xavier())
    x = nd.array(normal(batch, 8, 12, 12))
    with mx.autograd.train_mode():
        net(x)  # statistics that are not 0 and 1
    want = net(x).asnumpy()
    monkeypatch.setattr(lower, "PASSES", (watched, *lower.PASSES[1:]))
    net.hybridize()
    np.testing.assert_allclose(net(x).asnumpy(), want, rtol=1e-4, atol=1e-5)
    fused = [node for node in seen if node.op and node.op.name == "_conv_fused"]
    assert len(fused) == 5
    assert sum(node.attrs["norm"] for node in fused) == 4
    assert sum(node.attrs["add"] for node in fused) == 2
    assert all(node.attrs["act_type"] for node in fused)


def _conv() -> tuple[Entry, dict[Entry, Any]]:
    x, w = (Entry(Node(None, name), 0) for name in "xw")
    y = F.Convolution(x, w, kernel=(3, 3), num_filter=4, no_bias=True)
    return y, {x: ("float32", (2, 3, 8, 8)), w: ("float32", (4, 3, 3, 3)),
               y: ("float32", (2, 4, 6, 6))}


def _names(entries: list[Entry]) -> list[str]:
    return [node.op.name for node in topological(entries) if node.op]


def test_what_others_read_is_not_joined() -> None:
    y, known = _conv()
    z = F.relu(y)
    known[z] = known[y]
    assert _names(join_epilogues([z], known, False)) == ["_conv_fused"]
    assert _names(join_epilogues([z, y], known, False)) == ["Convolution", "relu"]
    double = {entry: ("float64", shape) for entry, (_, shape) in known.items()}
    assert _names(join_epilogues([z], double, False)) == ["Convolution", "relu"]


def test_batch_statistics_are_not_joined() -> None:
    y, known = _conv()
    extra = [Entry(Node(None, name), 0) for name in ("gamma", "beta", "mean", "var")]
    z = F.BatchNorm(y, *extra)
    known.update({z: known[y], **{entry: ("float32", (4,)) for entry in extra}})
    assert _names(join_epilogues([z], known, True)) == ["Convolution", "BatchNorm"]
    assert _names(join_epilogues([z], known, False)) == ["_conv_fused"]
    other = F.BatchNorm(y, *extra, axis=2)
    known[other] = known[y]
    assert _names(join_epilogues([other], known, False)) == ["Convolution", "BatchNorm"]
