"""Convolution and its gradients: kernels against the plain bodies, many geometries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from against_body import check, normal, step_for, threads

from minigluon.device.cpu import native
from minigluon.ops import registry

onednn = pytest.mark.skipif(not native.onednn, reason="oneDNN's kernels are not built")
core = pytest.mark.skipif(not native.enabled, reason="the native core is not built")


def _arrays(batch: int, channels: int, size: tuple[int, ...], filters: int,
            kernel: tuple[int, ...], groups: int = 1, layout: str | None = None) -> list[Any]:
    x = normal(batch, channels, *size)
    w = normal(filters, channels // groups, *kernel)
    if layout and layout[1] != "C":
        x = np.ascontiguousarray(np.moveaxis(x, 1, -1))
        if "/" not in layout:
            w = np.ascontiguousarray(np.moveaxis(w, 1, -1))
    return [x, w, normal(filters)]


def _check_all(arrays: list[Any], attrs: dict[str, Any], grad_data: bool = True) -> None:
    x, w, bias = arrays
    record = registry["Convolution"]
    dy = normal(*record.body(np, x, w, bias, **record.parse(attrs)).shape, seed=1)
    check("Convolution", [x, w, bias], attrs)
    check("Convolution", [x, w], {**attrs, "no_bias": True})
    check("_conv_grad_weight", [dy, x, w], attrs)
    if grad_data:
        check("_conv_grad_data", [dy, w, x], attrs)


@onednn
@pytest.mark.parametrize("layout", [None, "NHWC", "NHWC/OIHW"])
@pytest.mark.parametrize(("channels", "size", "filters", "kernel", "rest"), [
    (3, (9, 8), 5, (3, 3), {}),
    (8, (9, 8), 16, (3, 2), {"stride": (2, 1), "pad": (1, 0)}),
    (8, (9, 8), 4, (3, 3), {"pad": (2, 2), "dilate": (2, 2)}),
    (8, (9, 8), 16, (3, 3), {"pad": (1, 1), "num_group": 4}),
    (8, (9, 8), 8, (3, 3), {"pad": (1, 1), "num_group": 8}),
    (5, (7, 7), 6, (1, 1), {}),
    (5, (7, 7), 6, (1, 1), {"stride": (2, 2)}),
    (1, (28, 28), 20, (5, 5), {}),
    (4, (1, 1), 3, (1, 1), {}),
])
def test_two_dimensions(channels: int, size: Any, filters: int, kernel: Any,
                        rest: dict[str, Any], layout: str | None) -> None:
    attrs = {"kernel": kernel, "num_filter": filters, "layout": layout, **rest}
    _check_all(_arrays(3, channels, size, filters, kernel, rest.get("num_group", 1), layout), attrs)


@onednn
@pytest.mark.parametrize(("layout", "size", "kernel", "rest"), [
    (None, (11,), (3,), {"stride": (2,), "pad": (1,)}),
    ("NWC", (11,), (3,), {"stride": (2,), "pad": (1,)}),
    (None, (5, 6, 7), (3, 2, 3), {"stride": (2, 1, 1), "pad": (1, 0, 1)}),
    ("NDHWC", (5, 6, 7), (3, 2, 3), {"stride": (2, 1, 1), "pad": (1, 0, 1)}),
])
def test_one_and_three_dimensions(layout: str | None, size: Any, kernel: Any,
                                  rest: dict[str, Any]) -> None:
    attrs = {"kernel": kernel, "num_filter": 4, "layout": layout, **rest}
    _check_all(_arrays(2, 3, size, 4, kernel, layout=layout), attrs)


@core
@pytest.mark.parametrize(("channels", "filters", "size", "kernel", "stride", "pad"), [
    (1, 20, (28, 28), (5, 5), 1, (0, 0)),
    (20, 50, (12, 12), (5, 5), 1, (0, 0)),
    (3, 7, (9, 8), (3, 3), 1, (1, 1)),
    (3, 6, (9, 8), (5, 3), 1, (2, 1)),
    (4, 13, (9, 9), (3, 3), 2, (1, 1)),
    (3, 5, (5, 5), (1, 1), 1, (0, 0)),
    (2, 11, (6, 7), (7, 6), 1, (3, 2)),
    (5, 4, (6, 7), (2, 4), 1, (1, 3)),
    (2, 1, (4, 3), (3, 3), 1, (2, 2)),
    (1, 8, (3, 19), (3, 8), 1, (0, 0)),
])
def test_blocks_of_samples(channels: int, filters: int, size: tuple[int, int],
                           kernel: tuple[int, int], stride: int, pad: tuple[int, int]) -> None:
    attrs = {"kernel": (*kernel, 1), "stride": (stride, stride, 1), "pad": (*pad, 0),
             "num_filter": filters}
    arrays = _arrays(2, channels, (*size, 16), filters, (*kernel, 1))
    _check_all(arrays, attrs, grad_data=stride == 1)


@core
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(("blocks", "channels", "filters", "size", "pad"), [
    (3, 20, 50, (12, 12), (0, 0)),   # more tiles than are summed up at once
    (1, 9, 21, (9, 14), (2, 1)),     # tiles that stick out
    (2, 34, 17, (5, 12), (2, 2)),
    (1, 10, 70, (8, 8), (4, 0)),
    (5, 16, 16, (8, 8), (0, 0)),     # one tile an image
])
def test_values_at_points(blocks: int, channels: int, filters: int, size: tuple[int, int],
                          pad: tuple[int, int], count: int,
                          monkeypatch: pytest.MonkeyPatch) -> None:
    attrs = {"kernel": (5, 5, 1), "pad": (*pad, 0), "num_filter": filters}
    arrays = _arrays(blocks, channels, (*size, 16), filters, (5, 5, 1))
    with threads(count):
        _check_all(arrays, attrs)
    steps = []
    for switch in "10":
        monkeypatch.setenv("MINIGLUON_WINOGRAD", switch)
        step, [want] = step_for("Convolution", arrays, attrs)
        [got] = step(arrays)
        steps.append(np.abs(got - want).max() / np.abs(want).max())
    assert steps[1] < 1e-6 < steps[0] < 1e-5, "the switch leads to direct sums"


@core
def test_nan_at_points_stays_in_its_sample_and_is_not_lost() -> None:
    x, w, _ = _arrays(1, 10, (12, 12, 16), 12, (5, 5, 1))
    x[0, 3, 6, 6, 5] = np.nan
    attrs = {"kernel": (5, 5, 1), "num_filter": 12, "no_bias": True}
    step, [want] = step_for("Convolution", [x, w], attrs)
    [got] = step([x, w])
    assert np.isnan(got[np.isnan(want)]).all()
    assert np.isfinite(np.delete(got, 5, axis=-1)).all()


@core
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(("batch", "size", "channels", "filters", "kernel", "rest"), [
    (1, (4, 4), 20, 512, (3, 3), {"pad": (1, 1)}),
    (1, (8, 8), 16, 450, (3, 3), {"pad": (1, 1), "stride": (2, 1)}),
    (1, (10, 12), 8, 430, (5, 5), {"pad": (0, 1)}),
    (2, (7, 5), 5, 1500, (2, 3), {}),
    (3, (9, 4), 3, 700, (3, 3), {"pad": (2, 0), "dilate": (2, 1)}),
    (9, (4, 4), 3, 900, (3, 3), {"stride": (1, 3)}),
])
def test_more_weights_than_data(batch: int, size: tuple[int, int], channels: int, filters: int,
                                kernel: tuple[int, int], rest: dict[str, Any], count: int) -> None:
    attrs = {"kernel": kernel, "num_filter": filters, "layout": "NHWC/OIHW", **rest}
    arrays = _arrays(batch, channels, size, filters, kernel, layout="NHWC/OIHW")
    assert arrays[1].size > 16 * arrays[0].size
    with threads(count):
        check("Convolution", arrays, attrs)
        check("Convolution", arrays[:2], {**attrs, "no_bias": True})


@core
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(("size", "channels", "filters", "kernel", "rest"), [
    ((32, 32), 8, 64, (3, 3), {"pad": (1, 1)}),
    ((32, 32), 3, 13, (3, 3), {"pad": (1, 1)}),
    ((16, 16), 64, 31, (3, 3), {"pad": (1, 1), "stride": (2, 2)}),
    ((8, 8), 300, 70, (3, 3), {"pad": (1, 1)}),
    ((4, 4), 100, 29, (3, 3), {"pad": (1, 1)}),
    ((14, 14), 20, 50, (1, 1), {"stride": (2, 2)}),
    ((28, 28), 1, 20, (5, 5), {}),
    ((7, 7), 260, 12, (1, 1), {}),
    ((11, 9), 6, 5, (4, 2), {"pad": (0, 3), "dilate": (2, 3)}),
    ((23, 10), 3, 7, (7, 7), {"pad": (3, 3), "stride": (3, 3)}),
    ((9, 5), 2, 3, (9, 5), {}),
])
def test_one_image(size: tuple[int, int], channels: int, filters: int, kernel: tuple[int, int],
                   rest: dict[str, Any], count: int) -> None:
    attrs = {"kernel": kernel, "num_filter": filters, **rest}
    arrays = _arrays(1, channels, size, filters, kernel)
    with threads(count):
        check("Convolution", arrays, attrs)
        check("Convolution", arrays[:2], {**attrs, "no_bias": True})


@core
def test_one_image_keeps_nan_and_infinity_where_they_belong() -> None:
    x, w, _ = _arrays(1, 2, (6, 7), 3, (3, 3))
    x[0, 0, 0, 0], x[0, 1, 5, 6] = np.nan, np.inf
    attrs = {"kernel": (3, 3), "num_filter": 3, "no_bias": True, "pad": (1, 1)}
    step, [want] = step_for("Convolution", [x, w], attrs)
    with np.errstate(invalid="ignore"):
        [got] = step([x, w])
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))


@core
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(("batch", "size", "channels", "filters", "pad"), [
    (3, (8, 8), 32, 32, (1, 1)),
    (2, (9, 7), 48, 80, (0, 2)),
    (2, (10, 10), 64, 128, (1, 1)),
    (4, (13, 12), 96, 32, (2, 0)),
    (12, (4, 4), 48, 144, (1, 1)),  # more filters than tiles
    (30, (3, 4), 32, 176, (1, 1)),
    (48, (4, 3), 144, 64, (0, 1)),
])
def test_fewer_products(batch: int, size: tuple[int, int], channels: int, filters: int,
                        pad: tuple[int, int], count: int) -> None:
    """conv_winograd.cpp, no less exact than the plain body."""
    attrs = {"kernel": (3, 3), "num_filter": filters, "layout": "NHWC/OIHW", "pad": pad}
    x, w, bias = _arrays(batch, channels, size, filters, (3, 3), layout="NHWC/OIHW")
    dy = normal(*registry["Convolution"].body(np, x, w, bias, **registry["Convolution"].parse(
        attrs)).shape, seed=1)
    with threads(count):
        for op, arrays in (("Convolution", [x, w, bias]), ("_conv_grad_data", [dy, w, x]),
                           ("_conv_grad_weight", [dy, x, w])):
            _check_exact(op, arrays, attrs)


@core
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(("batch", "size", "channels", "filters", "pad"), [
    (1, (32, 32), 64, 64, (1, 1)),
    (1, (16, 16), 128, 32, (1, 1)),
    (3, (15, 15), 32, 80, (1, 1)),  # an odd number of halves of vectors
    (1, (27, 29), 48, 32, (2, 0)),
    (2, (70, 90), 32, 48, (0, 2)),  # several strips
    # few tiles, one image: conv_winograd_few.cpp
    (1, (4, 4), 512, 32, (1, 1)),
    (1, (8, 8), 64, 48, (1, 1)),
    (1, (7, 5), 32, 64, (1, 0)),
    (1, (1, 1), 32, 32, (1, 1)),
    (1, (9, 16), 48, 32, (2, 2)),  # tiles fill no group
])
def test_fewer_products_channels_first(batch: int, size: tuple[int, int], channels: int,
                                       filters: int, pad: tuple[int, int], count: int) -> None:
    """conv_winograd_rows.cpp and _few.cpp, alone and with what follows them."""
    attrs = {"kernel": (3, 3), "num_filter": filters, "pad": pad}
    x, w, bias = _arrays(batch, channels, size, filters, (3, 3))
    with threads(count):
        _check_exact("Convolution", [x, w], {**attrs, "no_bias": True})
        _check_exact("Convolution", [x, w, bias], attrs)
        add = normal(*registry["Convolution"].body(np, x, w, bias, **registry["Convolution"].parse(
            attrs)).shape, seed=2)
        norm = [normal(filters, seed=seed) for seed in (3, 4, 5)]
        _check_exact("_conv_fused", [x, w, *norm, np.abs(normal(filters)) + 1, add],
                     {**attrs, "no_bias": True, "norm": True, "add": True, "act_type": "relu",
                      "eps": 1e-3})


def _check_exact(op: str, arrays: list[Any], attrs: dict[str, Any]) -> None:
    """The kernel is near the exact result and, however often it runs, gives the same."""
    step, [plain] = step_for(op, arrays, attrs)
    exact = registry[op].body(np, *(array.astype("float64") for array in arrays),
                              **registry[op].parse(attrs))
    [got] = step(arrays)
    scale = np.abs(exact).max()
    assert np.abs(got - exact).max() < 1.5e-6 * scale
    np.testing.assert_allclose(got / scale, plain / scale, rtol=0, atol=3e-6)
    np.testing.assert_array_equal(step(arrays)[0], got)


@core
def test_fewer_products_keep_nan_and_infinity_near_where_they_belong() -> None:
    """Within the results of a tile, 2 x 2, one that is not finite may be nan."""
    x, w, _ = _arrays(4, 32, (8, 8), 32, (3, 3), layout="NHWC/OIHW")
    x[1, 2, 3, 4], x[2, 7, 7, 0] = np.nan, np.inf
    attrs = {"kernel": (3, 3), "num_filter": 32, "no_bias": True, "pad": (1, 1),
             "layout": "NHWC/OIHW"}
    step, [want] = step_for("Convolution", [x, w], attrs)
    with np.errstate(invalid="ignore"):
        [got] = step([x, w])
    lost = ~np.isfinite(want)
    assert not np.isfinite(got[lost]).any()
    tiles = lost.reshape(4, 4, 2, 4, 2, 32).any(axis=(2, 4), keepdims=True)
    near = np.broadcast_to(tiles, (4, 4, 2, 4, 2, 32)).reshape(want.shape)
    np.testing.assert_allclose(got[~near], want[~near], rtol=0, atol=1e-4)


@onednn
def test_two_threads_give_the_same() -> None:
    attrs = {"kernel": (3, 3), "pad": (1, 1), "num_filter": 32}
    arrays = _arrays(8, 16, (24, 24), 32, (3, 3))
    with threads(2):
        _check_all(arrays, attrs)
    blocked = {"kernel": (3, 3, 1), "pad": (1, 1, 0), "num_filter": 20}
    with threads(2):
        _check_all(_arrays(3, 10, (20, 20, 16), 20, (3, 3, 1)), blocked)


@core
def test_nan_and_infinity_stay_where_they_belong() -> None:
    x, w, _ = _arrays(1, 2, (6, 6, 16), 3, (3, 3, 1))
    x[0, 0, 0, 0, 3], x[0, 1, 5, 5, 4] = np.nan, np.inf
    attrs = {"kernel": (3, 3, 1), "num_filter": 3, "no_bias": True}
    step, [want] = step_for("Convolution", [x, w], attrs)
    with np.errstate(invalid="ignore"):
        [got] = step([x, w])
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))


@core
def test_what_kernels_leave_to_the_body() -> None:
    x, w, _ = _arrays(2, 3, (6, 6), 4, (3, 3))
    attrs = {"kernel": (3, 3), "num_filter": 4, "no_bias": True}
    step, _ = step_for("Convolution", [x.astype("float64"), w.astype("float64")], attrs)
    assert step is None
    step, _ = step_for("Convolution", [x[:0], w], attrs)
    assert step is None
