"""What the catalogue cannot say about the less common operators."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minigluon as mx
from minigluon import autograd, nd, sym
from minigluon.name import NameManager


def _gradient(function: Any, *arrays: Any) -> list[np.ndarray]:
    for array in arrays:
        array.attach_grad()
    with autograd.record():
        total = function(*arrays).sum()
    total.backward()
    return [array.grad.asnumpy() for array in arrays]


def test_boolean_mask() -> None:
    x = nd.array([[1, 2], [3, 4], [5, 6]])
    mask = nd.array([1, 0, 1])
    assert nd.contrib.boolean_mask(x, mask).asnumpy().tolist() == [[1, 2], [5, 6]]
    assert nd.contrib.boolean_mask(x, nd.zeros(3)).shape == (0, 2)
    [grad] = _gradient(lambda x: nd.contrib.boolean_mask(x, mask) * 2, x)
    assert grad.tolist() == [[2, 2], [0, 0], [2, 2]]
    with pytest.raises(mx.base.NotForThisError, match="axis=1"):
        nd.contrib.boolean_mask(x, mask, axis=1)
    with pytest.raises(mx.base.ShapeError, match="lengths of data and index"):
        nd.contrib.boolean_mask(x, nd.ones(2))


def test_boolean_mask_in_a_graph() -> None:
    symbol = sym.contrib.boolean_mask(sym.var("x"), sym.var("m")) * 3
    executor = symbol.bind(mx.cpu(), {"x": nd.array([1, 2, 3]), "m": nd.array([0, 1, 1])},
                           args_grad={"x": nd.zeros(3)}, grad_req={"x": "write", "m": "null"})
    [out] = executor.forward(is_train=True)
    assert out.asnumpy().tolist() == [6, 9]
    executor.backward(nd.ones(2))
    assert executor.grad_dict["x"].asnumpy().tolist() == [0, 3, 3]


@pytest.mark.parametrize(("call", "slope"), [
    (nd.contrib.round_ste, 1), (nd.contrib.sign_ste, 1),
    (lambda x: nd.contrib.gradientmultiplier(x, scalar=-2), -2)])
def test_gradients_of_ones_own_choice(call: Any, slope: float) -> None:
    [grad] = _gradient(call, nd.array([0.2, -1.7]))
    assert grad.tolist() == [slope, slope]


def test_multicast_to_narrow_and_wide() -> None:
    arrays = [nd.ones((2,), dtype=dtype) for dtype in ("float16", "float32", "float64")]
    wide = nd.amp_multicast(*arrays, num_outputs=3)
    narrow = nd.amp_multicast(*arrays, num_outputs=3, cast_narrow=True)
    assert [x.dtype for x in wide] == [np.float64] * 3
    assert [x.dtype for x in narrow] == [np.float16] * 3
    grads = _gradient(lambda *xs: sum(nd.amp_multicast(*xs, num_outputs=3)), *arrays)
    assert [grad.dtype.name for grad in grads] == ["float16", "float32", "float64"]
    with pytest.raises(mx.MXNetError, match="floating point arrays, got int32"):
        nd.amp_multicast(nd.ones(2, dtype="int32"), num_outputs=1)


def test_onehot_encode_writes_into_out() -> None:
    out = nd.zeros((2, 3))
    assert nd.onehot_encode(nd.array([2, 0]), out) is out
    assert out.asnumpy().tolist() == [[0, 0, 1], [1, 0, 0]]


def test_resize_like_is_resize_to_the_size() -> None:
    x = nd.random.normal(shape=(1, 2, 3, 4))
    like = nd.contrib.BilinearResize2D(x, nd.zeros((1, 1, 5, 7)), mode="like")
    sized = nd.contrib.BilinearResize2D(x, height=5, width=7)
    assert like.asnumpy().tolist() == sized.asnumpy().tolist()


def test_modulated_convolution_with_a_mask_of_ones_is_convolution() -> None:
    x, w = nd.random.normal(shape=(2, 3, 5, 5)), nd.random.normal(shape=(4, 3, 3, 3))
    attrs = {"kernel": (3, 3), "pad": (1, 1), "num_filter": 4, "no_bias": True}
    plain = nd.Convolution(x, w, **attrs).asnumpy()
    still, ones = nd.zeros((2, 18, 5, 5)), nd.ones((2, 9, 5, 5))
    for found in (nd.contrib.DeformableConvolution(x, still, w, **attrs),
                  nd.contrib.ModulatedDeformableConvolution(x, still, ones, w, **attrs)):
        np.testing.assert_allclose(found.asnumpy(), plain, rtol=1e-4, atol=1e-5)


def test_proposals_repeat_where_there_are_too_few() -> None:
    rois = nd.contrib.Proposal(nd.ones((1, 2, 1, 1)), nd.zeros((1, 4, 1, 1)),
                               nd.array([[16, 16, 1]]), scales=(1,), ratios=(1,),
                               rpn_post_nms_top_n=3).asnumpy()
    assert rois.tolist() == [[0, 0, 0, 15, 15]] * 3


# -- draws -----------------------------------------------------------------------------------------

MEANS = [
    ("uniform", ([0, 10], [2, 14]), [1, 12], [1 / 3, 16 / 12]),
    ("normal", ([0, 5], [1, 3]), [0, 5], [1, 9]),
    ("gamma", ([2, 9], [1, 0.5]), [2, 4.5], [2, 2.25]),
    ("exponential", ([1, 4],), [1, 4], [1, 16]),
    ("poisson", ([1, 20],), [1, 20], [1, 20]),
    ("negative_binomial", ([3, 1], [0.5, 0.25]), [3, 3], [6, 12]),
    ("generalized_negative_binomial", ([2, 5], [0, 0.4]), [2, 5], [2, 15]),
]


@pytest.mark.parametrize(("name", "parameters", "mean", "variance"), MEANS)
def test_draws_with_arrays(name: str, parameters: Any, mean: Any, variance: Any) -> None:
    mx.random.seed(11)
    count = 40_000
    drawn = getattr(nd.random, name)(*[nd.array(p) for p in parameters], shape=count).asnumpy()
    assert drawn.shape == (2, count)
    error = 5 * np.sqrt(np.array(variance) / count)
    assert (np.abs(drawn.mean(axis=1) - mean) < error).all()
    np.testing.assert_allclose(drawn.var(axis=1), variance, rtol=0.1)


@pytest.mark.parametrize(("name", "parameters", "mean", "variance"), MEANS)
def test_draws_with_numbers(name: str, parameters: Any, mean: Any, variance: Any) -> None:
    mx.random.seed(12)
    numbers = [p[1] for p in parameters]
    drawn = getattr(nd.random, name)(*numbers, shape=(200, 200)).asnumpy()
    assert abs(drawn.mean() - mean[1]) < 5 * np.sqrt(variance[1] / drawn.size)
    assert drawn.var() == pytest.approx(variance[1], rel=0.1)


def test_drawing_functions_take_what_mxnet_takes() -> None:
    assert nd.random.uniform().shape == (1,)
    assert nd.random.normal(0, 1, [2, 3], "float64", mx.cpu(1)).dtype == np.float64
    assert nd.random.randn(2, 3, loc=5, scale=0.1).shape == (2, 3)
    out = nd.zeros((4,))
    assert nd.random.uniform(1, 2, shape=(4,), out=out) is out
    assert (out.asnumpy() >= 1).all()
    assert mx.random.randn(2).shape == (2,)
    with pytest.raises(mx.MXNetError, match="all numbers or all arrays, got NDArray, int"):
        nd.random.uniform(nd.zeros(2), 1)
    with pytest.raises(TypeError, match="unknown argument 'shap'; did you mean 'shape'"):
        nd.random.uniform(shap=3)
    with pytest.raises(TypeError, match="'low' given twice"):
        nd.random.uniform(1, low=1)


def test_drawing_functions_of_symbols() -> None:
    with NameManager():
        drawn = sym.random.normal(sym.var("m"), sym.var("s"), shape=3)
    assert drawn.list_arguments() == ["m", "s"]
    assert drawn.list_outputs() == ["_sample_normal0_output"]
    [out] = drawn.eval(m=nd.array([0, 100]), s=nd.array([1, 1]))
    assert out.shape == (2, 3)
    assert (out.asnumpy()[1] > 90).all()
    [out] = sym.random.exponential(2, shape=(5,)).eval()
    assert out.shape == (5,)


# -- AdamW -----------------------------------------------------------------------------------------


def test_adamw_for_several_weights() -> None:
    def arrays() -> list[Any]:
        return [nd.array([value]) for value in (1.0, 2.0)]

    weights, grads, means, variances = arrays(), arrays(), arrays(), arrays()
    nd.contrib.multi_adamw_update(weights, grads, means, variances, 0.5, lrs=[0.1, 0.2],
                                  wds=[0, 0.1], etas=[1, 0.5], out=weights)
    for place, (lr, wd, eta) in enumerate(((0.1, 0, 1), (0.2, 0.1, 0.5))):
        one, g, mean, var = (array[place] for array in (arrays(), arrays(), arrays(), arrays()))
        nd.contrib.adamw_update(one, g, mean, var, nd.array([0.5]), lr=lr, eta=eta, wd=wd, out=one)
        assert weights[place].asnumpy().tolist() == one.asnumpy().tolist()
        assert means[place].asnumpy().tolist() == mean.asnumpy().tolist()
    before = weights[0].asnumpy()
    nd.contrib.adamw_update(weights[0], grads[0], means[0], variances[0], float("nan"), lr=1,
                            eta=1, out=weights[0])
    assert weights[0].asnumpy().tolist() == before.tolist()


def test_adamw_in_half_precision() -> None:
    half, single = nd.ones((1,), dtype="float16"), nd.ones((1,))
    states = [nd.zeros((1,)), nd.zeros((1,))]
    copies = [state.copy() for state in states]
    weight32 = nd.ones((1,))
    settings = {"lr": 0.125, "eta": 1.0}
    nd.contrib.mp_adamw_update(half, nd.ones((1,), dtype="float16"), *states, weight32, 1.0,
                               out=half, **settings)
    nd.contrib.adamw_update(single, nd.ones((1,)), *copies, 1.0, out=single, **settings)
    np.testing.assert_allclose(weight32.asnumpy(), single.asnumpy(), rtol=1e-6)
    np.testing.assert_allclose(half.asnumpy(), single.asnumpy(), rtol=1e-3)
    nd.contrib.multi_mp_adamw_update([half], [half], [states[0]], [states[1]], [weight32], 0,
                                     lrs=[1], wds=[0], etas=[1], out=[half])
    np.testing.assert_allclose(half.asnumpy(), single.asnumpy(), rtol=1e-3)
