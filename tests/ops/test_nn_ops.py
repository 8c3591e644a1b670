"""Behaviours of the neural network operators that one sample cannot show."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minigluon as mx
from minigluon import autograd, nd
from minigluon.ops import registry


def _infer(name: str, shapes: list[Any], **attrs: Any) -> tuple[list[Any], list[Any]]:
    op = registry[name]
    assert op.infer is not None
    return op.infer(shapes, op.parse(attrs))


def _gradient(function: Any, *arrays: Any, head: Any = None) -> tuple[Any, list[np.ndarray]]:
    """Output and gradients of the first visible output for all float arrays."""
    inputs = [nd.array(array, dtype=np.asarray(array).dtype) for array in arrays]
    for x in inputs:
        x.attach_grad()
    with autograd.record():
        out = function(*inputs)
    out.backward(None if head is None else nd.array(head))
    return out.asnumpy(), [x.grad.asnumpy() for x in inputs]


# -- unknown shapes are inferred from the data ---------------------------------------------------


@pytest.mark.parametrize(("name", "data", "attrs", "rest"), [
    ("FullyConnected", (4, 3, 2), {"num_hidden": 5}, [(5, 6), (5,)]),
    ("FullyConnected", (4, 3, 2), {"num_hidden": 5, "flatten": False}, [(5, 2), (5,)]),
    ("Convolution", (2, 6, 9, 9), {"kernel": (3, 2), "num_filter": 4, "num_group": 2},
     [(4, 3, 3, 2), (4,)]),
    ("Convolution", (2, 9, 9, 6), {"kernel": (3, 2), "num_filter": 4, "layout": "NHWC"},
     [(4, 3, 2, 6), (4,)]),
    ("BatchNorm", (2, 6, 9), {}, [(6,)] * 4),
    ("BatchNorm", (2, 6, 9), {"axis": -1}, [(9,)] * 4),
    ("LayerNorm", (2, 6, 9), {}, [(9,), (9,)]),
    ("InstanceNorm", (2, 6, 9), {}, [(6,), (6,)]),
    ("Embedding", (2, 3), {"input_dim": 7, "output_dim": 4}, [(7, 4)]),
    ("LeakyReLU", (2, 6, 9), {"act_type": "prelu"}, [(6,)]),
    ("SoftmaxOutput", (4, 3), {}, [(4,)]),
    ("SoftmaxOutput", (4, 3, 5, 6), {"multi_output": True}, [(4, 30)]),
    ("LinearRegressionOutput", (4, 3), {}, [(4, 3)]),
    ("LinearRegressionOutput", (4, 1), {}, [(4,)]),
])
def test_shapes_are_inferred_from_the_data(name: str, data: Any, attrs: Any, rest: Any) -> None:
    inputs, _ = _infer(name, [data, *[None] * len(rest)], **attrs)
    assert inputs[1:] == rest


def test_batch_size_and_channels_may_be_unknown() -> None:
    inputs, (out,) = _infer("Convolution", [(0, 0, 8, 0), (4, 3, 3, 3), None], kernel=(3, 3),
                            num_filter=4)
    assert inputs[0] == (0, 3, 8, 0)
    assert out == (0, 4, 6, 0)
    inputs, (out,) = _infer("FullyConnected", [(0, 0), (5, 7), None], num_hidden=5)
    assert (inputs[0], out) == ((0, 7), (0, 5))
    inputs, (out,) = _infer("FullyConnected", [None, None, None], num_hidden=5)
    assert (inputs, out) == ([None, None, None], None)  # as in MXNet


# -- pooling conventions ------------------------------------------------------------------------


def test_pooling_conventions_round_down_up_or_keep() -> None:
    x = nd.ones((1, 1, 10, 10))
    shapes = {convention: nd.Pooling(x, kernel=(3, 3), stride=(3, 3),
                                     pooling_convention=convention).shape[2:]
              for convention in ("valid", "full", "same")}
    assert shapes == {"valid": (3, 3), "full": (4, 4), "same": (4, 4)}


def test_average_counts_the_padding_unless_told_not_to() -> None:
    x = nd.ones((1, 1, 4))
    window = {"kernel": (2,), "stride": (2,), "pad": (1,), "pool_type": "avg"}
    assert nd.Pooling(x, **window).asnumpy().tolist() == [[[0.5, 1.0, 0.5]]]
    assert nd.Pooling(x, count_include_pad=False, **window).asnumpy().tolist() == [[[1, 1, 1]]]


def test_first_of_equal_maxima_gets_the_gradient() -> None:
    _, (grad,) = _gradient(lambda x: nd.Pooling(x, kernel=(2,), stride=(2,)),
                           np.array([[[1.0, 1.0, 0.0, 2.0]]], "float32"))
    assert grad.tolist() == [[[1, 0, 0, 1]]]


def test_overlapping_windows_add_their_gradients() -> None:
    _, (grad,) = _gradient(lambda x: nd.Pooling(x, kernel=(2,)),
                           np.array([[[0.0, 3.0, 1.0]]], "float32"))
    assert grad.tolist() == [[[0, 2, 0]]]


# -- convolution --------------------------------------------------------------------------------


def test_convolution_of_many_samples_equals_one_by_one() -> None:
    """The body works through a large batch in parts."""
    random = np.random.default_rng(0)
    x = random.normal(size=(40, 8, 20, 20)).astype("float32")
    w = random.normal(size=(4, 8, 5, 5)).astype("float32")
    attrs = {"kernel": (5, 5), "num_filter": 4, "no_bias": True}
    together, (dx, dw) = _gradient(lambda a, b: nd.Convolution(a, b, **attrs), x, w)
    parts = [_gradient(lambda a, b: nd.Convolution(a, b, **attrs), x[i:i + 1], w)
             for i in range(40)]
    np.testing.assert_allclose(together, np.concatenate([out for out, _ in parts]), 1e-4, 1e-3)
    np.testing.assert_allclose(dx, np.concatenate([grads[0] for _, grads in parts]), 1e-4, 1e-3)
    np.testing.assert_allclose(dw, sum(grads[1] for _, grads in parts), 1e-3, 1e-2)


# -- activations --------------------------------------------------------------------------------


def test_relu_at_zero_and_nan() -> None:
    out, (grad,) = _gradient(lambda x: nd.Activation(x, act_type="relu"),
                             np.array([-1.0, 0.0, 2.0, np.nan], "float32"))
    np.testing.assert_array_equal(out, [0, 0, 2, np.nan])
    np.testing.assert_array_equal(grad, [0, 0, 1, np.nan])


# -- softmax ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
def test_huge_inputs_give_no_nan(name: str) -> None:
    x = nd.array([[1e30, -1e30, 3.4e38, -3.4e38], [1e30, 1e30, 1e30, 1e30]])
    out = getattr(nd, name)(x).asnumpy()
    assert not np.isnan(out).any()
    assert getattr(nd, name)(nd.array([[3.4e38], [-3.4e38]])).asnumpy().tolist() in (
        [[1], [1]], [[0], [0]])


def test_softmax_can_widen_half_precision() -> None:
    x = nd.array([[1, 2, 3]], dtype="float16")
    x.attach_grad()
    with autograd.record():
        out = nd.softmax(x, dtype="float32")
    out.backward()
    assert (out.dtype, x.grad.dtype) == (np.float32, np.float16)


_P = np.array([[0.0, 0.0], [np.log(3.0), 0.0], [0.0, 0.0]], "float32")
_Y = np.array([0, 1, 1], "float32")
_GAP = np.array([[-0.5, 0.5], [0.75, -0.75], [0.5, -0.5]])


@pytest.mark.parametrize(("attrs", "factor"), [
    ({}, 1), ({"grad_scale": 2.0}, 2), ({"normalization": "batch"}, 1 / 3),
    ({"normalization": "valid"}, 1 / 3),
    ({"normalization": "valid", "use_ignore": True, "ignore_label": 0.0}, [[0], [0.5], [0.5]]),
    ({"use_ignore": True, "ignore_label": 1.0}, [[1], [0], [0]]),
])
def test_softmax_output_brings_its_own_gradient(attrs: Any, factor: Any) -> None:
    """(p - onehot) grad_scale, whatever arrives from above."""
    for head in (None, np.full((3, 2), 7.0)):
        out, (grad, label) = _gradient(lambda x, y: nd.SoftmaxOutput(x, y, **attrs), _P, _Y,
                                       head=head)
        np.testing.assert_allclose(out.sum(1), 1, rtol=1e-6)
        np.testing.assert_allclose(grad, _GAP * np.asarray(factor), rtol=1e-6, atol=1e-7)
        assert not label.any()


def test_softmax_output_of_places_divides_by_their_number() -> None:
    x, y = np.zeros((2, 2, 4), "float32"), np.zeros((2, 4), "float32")
    for attrs, share in (({}, 1 / 4), ({"normalization": "valid"}, 1 / 8),
                         ({"normalization": "batch"}, 1 / 8)):
        _, (grad, _) = _gradient(
            lambda a, b, attrs=attrs: nd.SoftmaxOutput(a, b, multi_output=True, **attrs), x, y)
        np.testing.assert_allclose(grad[:, 0], -0.5 * share)
        np.testing.assert_allclose(grad[:, 1], 0.5 * share)


def test_softmax_output_takes_probabilities_and_smooths_labels() -> None:
    target = np.full((3, 2), 0.5, "float32")
    _, (grad, _) = _gradient(nd.SoftmaxOutput, _P, target)
    np.testing.assert_allclose(grad, [[0, 0], [0.25, -0.25], [0, 0]], atol=1e-7)
    _, (grad, _) = _gradient(lambda x, y: nd.SoftmaxOutput(x, y, smooth_alpha=0.2), _P, _Y)
    np.testing.assert_allclose(grad[0], [0.5 - 0.8, 0.5 - 0.2], atol=1e-6)


@pytest.mark.parametrize(("name", "expected"), [
    ("LinearRegressionOutput", [[0.5, -0.5], [0.0, 1.0]]),
    ("MAERegressionOutput", [[0.5, -0.5], [-0.5, 0.5]]),
])
def test_regression_outputs_ignore_the_head_gradient(name: str, expected: Any) -> None:
    x = np.array([[1.0, 0.0], [2.0, 3.0]], "float32")
    y = np.array([[0.0, 1.0], [2.0, 1.0]], "float32")
    _, (grad, _) = _gradient(getattr(nd, name), x, y, head=np.full((2, 2), 9.0))
    assert grad.tolist() == expected


# -- BatchNorm ----------------------------------------------------------------------------------


def _batch_norm(x: np.ndarray, train: bool, times: int = 1, **attrs: Any) -> tuple[Any, Any, Any]:
    channels = x.shape[1]
    mean, var = nd.zeros((channels,)), nd.ones((channels,))
    for _ in range(times):
        with autograd.record(train_mode=train):
            out = nd.BatchNorm(nd.array(x), nd.ones((channels,)), nd.zeros((channels,)), mean,
                               var, **attrs)
    return out, mean.asnumpy(), var.asnumpy()


def test_running_statistics_follow_the_biased_batch_statistics() -> None:
    x = np.random.default_rng(0).normal(2, 3, (8, 3, 4)).astype("float32")
    _, mean, var = _batch_norm(x, True)
    np.testing.assert_allclose(mean, 0.1 * x.mean((0, 2)), rtol=1e-5)
    np.testing.assert_allclose(var, 0.9 + 0.1 * x.var((0, 2)), rtol=1e-5)
    _, mean, var = _batch_norm(x, True, momentum=0.5)
    np.testing.assert_allclose(mean, 0.5 * x.mean((0, 2)), rtol=1e-5)


def test_running_statistics_stay_outside_training() -> None:
    x = np.random.default_rng(0).normal(2, 3, (8, 3)).astype("float32")
    for train, attrs in ((False, {}), (True, {"use_global_stats": True})):
        out, mean, var = _batch_norm(x, train, eps=0.0, **attrs)
        assert (mean.tolist(), var.tolist()) == ([0, 0, 0], [1, 1, 1])
        np.testing.assert_allclose(out.asnumpy(), x, rtol=1e-6)


def test_running_variance_of_constant_data_decays() -> None:
    out, mean, var = _batch_norm(np.zeros((2, 3, 4, 4), "float32"), True, times=100)
    np.testing.assert_allclose(var, 0.9**100, rtol=1e-4)
    assert mean.tolist() == [0, 0, 0]
    assert np.isfinite(out.asnumpy()).all()


def test_mean_and_inverse_deviation_are_shown_on_request() -> None:
    x = np.random.default_rng(0).normal(size=(6, 2)).astype("float32")
    (out, mean, inverse), _, _ = _batch_norm(x, True, output_mean_var=True)
    assert out.shape == (6, 2)
    np.testing.assert_allclose(mean.asnumpy(), x.mean(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(inverse.asnumpy(), 1 / np.sqrt(x.var(0) + 1e-3), rtol=1e-5)


def test_fixed_gamma_counts_as_one_and_gets_no_gradient() -> None:
    x = np.random.default_rng(0).normal(size=(6, 2)).astype("float32")

    def norm(data: Any, gamma: Any, beta: Any) -> Any:
        return nd.BatchNorm(data, gamma, beta, nd.zeros((2,)), nd.ones((2,)))

    gamma, beta = np.array([3.0, 5.0], "float32"), np.zeros(2, "float32")
    out, (_, dgamma, dbeta) = _gradient(norm, x, gamma, beta)
    np.testing.assert_allclose(out.std(0), 1, rtol=1e-2)
    assert dgamma.tolist() == [0, 0]
    assert dbeta.tolist() == [6, 6]


def test_half_precision_data_keeps_single_precision_statistics() -> None:
    x = nd.array(np.full((4, 2), 300.0), dtype="float16")
    own = [nd.ones((2,)), nd.zeros((2,)), nd.zeros((2,)), nd.ones((2,))]
    with autograd.record():
        out = nd.BatchNorm(x, *own)
    assert out.dtype == np.float16
    assert own[2].dtype == np.float32
    np.testing.assert_allclose(own[2].asnumpy(), 30, rtol=1e-5)


# -- Dropout ------------------------------------------------------------------------------------


def test_dropout_scales_what_it_keeps_and_backward_uses_the_same_mask() -> None:
    out, (grad,) = _gradient(lambda x: nd.Dropout(x, p=0.75), np.ones((100, 100), "float32"))
    assert set(np.unique(out)) == {0.0, 4.0}
    np.testing.assert_array_equal(out, grad)
    assert abs(out.mean() - 1) < 0.1


def test_dropout_rests_outside_training_unless_always() -> None:
    x = nd.ones((50, 50))
    assert (nd.Dropout(x, p=0.5).asnumpy() == 1).all()
    assert (nd.Dropout(x, p=0.5, mode="always").asnumpy() == 0).any()
    with autograd.train_mode():
        assert (nd.Dropout(x, p=0.5).asnumpy() == 0).any()
    with autograd.record(train_mode=False):
        assert (nd.Dropout(x, p=0.5).asnumpy() == 1).all()


def test_dropout_in_prediction_passes_the_gradient_on() -> None:
    x = nd.ones((3,))
    x.attach_grad()
    with autograd.record(train_mode=False):
        y = nd.Dropout(x, p=0.5)
    y.backward()
    assert x.grad.asnumpy().tolist() == [1, 1, 1]


def test_dropout_mask_is_shared_along_axes() -> None:
    with autograd.train_mode():
        out = nd.Dropout(nd.ones((20, 30, 4)), p=0.5, axes=(1,)).asnumpy()
    assert (out == out[:, :1]).all()
    assert len(np.unique(out[:, 0])) == 2


def test_dropout_of_everything_or_nothing() -> None:
    with autograd.train_mode():
        assert np.isnan(nd.Dropout(nd.ones((3,)), p=1.0).asnumpy()).all()
        assert nd.Dropout(nd.ones((3,)), p=0.0).asnumpy().tolist() == [1, 1, 1]


def test_dropout_repeats_with_the_seed() -> None:
    with autograd.train_mode():
        draws = []
        for seed in (5, 5, 6):
            mx.random.seed(seed)
            draws.append(nd.Dropout(nd.ones((100,))).asnumpy())
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0] != draws[2]).any()


# -- Embedding ----------------------------------------------------------------------------------


def test_embedding_adds_up_equal_rows_exactly() -> None:
    rows = np.zeros(20481, "int32")
    rows[-1] = 2
    weight = nd.ones((4, 3))
    weight.attach_grad()
    with autograd.record():
        out = nd.Embedding(nd.array(rows, dtype="int32"), weight, input_dim=4, output_dim=3)
    out.backward()
    assert weight.grad.asnumpy()[:, 0].tolist() == [20480, 0, 1, 0]


def test_embedding_takes_any_index_type_and_no_rows() -> None:
    weight = nd.array([[1, 2], [3, 4]], dtype="float64")
    for dtype in ("int32", "int64", "float32", "uint8"):
        out = nd.Embedding(nd.array([1, 0], dtype=dtype), weight, input_dim=2, output_dim=2)
        assert out.dtype == np.float64
        assert out.asnumpy().tolist() == [[3, 4], [1, 2]]


# -- optimizer updates --------------------------------------------------------------------------


def test_updates_change_weight_and_state_in_place_and_leave_the_gradient() -> None:
    weight, grad, mom = nd.ones((3,)), nd.ones((3,)), nd.zeros((3,))
    returned = nd.sgd_mom_update(weight, grad, mom, lr=0.5, momentum=0.9, out=weight)
    assert returned is weight
    assert weight.asnumpy().tolist() == [0.5] * 3
    assert mom.asnumpy().tolist() == [-0.5] * 3
    assert grad.asnumpy().tolist() == [1] * 3


def test_master_weights_keep_what_half_precision_loses() -> None:
    weight, grad = nd.ones((1,), dtype="float16"), nd.ones((1,), dtype="float16")
    master = nd.ones((1,))
    for _ in range(10):
        nd.mp_sgd_update(weight, grad, master, lr=1e-4, out=weight)
    np.testing.assert_allclose(master.asnumpy(), 0.999, rtol=1e-6)
    assert weight.dtype == np.float16
    np.testing.assert_allclose(weight.asnumpy(), np.float16(0.999))


def test_clip_gradient_of_zero_stops_and_negative_is_off() -> None:
    weight, grad = nd.ones((1,)), nd.ones((1,))
    assert nd.sgd_update(weight, grad, lr=0.5, clip_gradient=0.0).asnumpy().tolist() == [1]
    assert nd.sgd_update(weight, grad, lr=0.5, clip_gradient=-1.0).asnumpy().tolist() == [0.5]
