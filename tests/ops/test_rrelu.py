"""LeakyReLU with act_type rrelu: slopes drawn in training, their mean otherwise."""
import numpy as np
import pytest

import minigluon as mx
from minigluon import autograd, nd
from minigluon.base import ArgumentValueError


@pytest.fixture
def x():
    x = nd.array(np.random.RandomState(0).randn(100, 80))
    x.attach_grad()
    return x


def test_training_draws_a_slope_for_each_element(x):
    mx.random.seed(3)
    with autograd.record():
        y, slopes = nd.LeakyReLU(x, act_type="rrelu", lower_bound=0.1, upper_bound=0.3)
    y.backward()
    data, drawn = x.asnumpy(), slopes.asnumpy()
    np.testing.assert_allclose(y.asnumpy(), np.where(data > 0, data, data * drawn), rtol=1e-6)
    np.testing.assert_allclose(x.grad.asnumpy(), np.where(data > 0, 1, drawn), rtol=1e-6)
    assert 0.1 <= drawn.min() < 0.101 and 0.299 < drawn.max() <= 0.3
    assert abs(drawn.mean() - 0.2) < 0.003  # 8000 draws: four standard errors
    mx.random.seed(3)
    with autograd.train_mode():
        same = nd.LeakyReLU(x, act_type="rrelu", lower_bound=0.1, upper_bound=0.3)
    np.testing.assert_array_equal(same[0].asnumpy(), y.asnumpy())


def test_prediction_takes_the_mean(x):
    with autograd.record(train_mode=False):
        y, _ = nd.LeakyReLU(x, act_type="rrelu")
    y.backward(train_mode=False)
    data = x.asnumpy()
    np.testing.assert_allclose(y.asnumpy(), np.where(data > 0, data, data * 0.2295), rtol=1e-5)
    np.testing.assert_allclose(x.grad.asnumpy(), np.where(data > 0, 1, 0.2295), rtol=1e-5)


def test_symbol_has_two_outputs_as_in_mxnet(x):
    net = mx.sym.LeakyReLU(mx.sym.var("d"), act_type="rrelu", name="r")
    assert net.list_outputs() == ["r_output", "r_mask"] and net.list_arguments() == ["d"]
    assert net.infer_shape(d=(2, 3))[1] == [(2, 3), (2, 3)]
    assert mx.sym.load_json(net.tojson()).list_outputs() == net.list_outputs()
    executor = net[0].bind(mx.cpu(), [x], [nd.zeros(x.shape)])
    first = executor.forward(is_train=True)[0].asnumpy()
    again = executor.forward(is_train=True)[0].asnumpy()
    executor.backward(nd.ones(x.shape))
    data = x.asnumpy()
    assert ((first != again) == (data <= 0)).mean() > 0.99
    np.testing.assert_allclose(executor.grad_arrays[0].asnumpy() * data, again, rtol=1e-4)
    executor.forward(is_train=False)
    np.testing.assert_allclose(executor.outputs[0].asnumpy(),
                               np.where(data > 0, data, data * 0.2295), rtol=1e-5)


def test_hybridized(x):
    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.LeakyReLU(x, act_type="rrelu")[0] * 2

    net = Net()
    net.hybridize()
    with autograd.record():
        y = net(x)
    y.backward()
    np.testing.assert_allclose((x.grad * x).asnumpy(), y.asnumpy(), rtol=1e-4)
    data = x.asnumpy()
    np.testing.assert_allclose(net(x).asnumpy(), 2 * np.where(data > 0, data, data * 0.2295),
                               rtol=1e-5)


def test_bounds_are_checked(x):
    with pytest.raises(ArgumentValueError, match="lower_bound up to upper_bound"):
        nd.LeakyReLU(x, act_type="rrelu", lower_bound=0.5, upper_bound=0.1)
