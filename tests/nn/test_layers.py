"""Layers: signatures and texts as in MXNet 1.9.1, and the numbers they compute."""
import inspect

import numpy as np
import pytest

import minigluon as mx
from minigluon import autograd, nd, nn

# inspect.signature of MXNet 1.9.1's classes, without self; PReLU's default is an object
SIGNATURES = {
    "Activation": "(activation, **kwargs)",
    "AvgPool1D": "(pool_size=2, strides=None, padding=0, layout='NCW', ceil_mode=False, "
                 "count_include_pad=True, **kwargs)",
    "AvgPool2D": "(pool_size=(2, 2), strides=None, padding=0, ceil_mode=False, layout='NCHW', "
                 "count_include_pad=True, **kwargs)",
    "AvgPool3D": "(pool_size=(2, 2, 2), strides=None, padding=0, ceil_mode=False, "
                 "layout='NCDHW', count_include_pad=True, **kwargs)",
    "BatchNorm": "(axis=1, momentum=0.9, epsilon=1e-05, center=True, scale=True, "
                 "use_global_stats=False, beta_initializer='zeros', gamma_initializer='ones', "
                 "running_mean_initializer='zeros', running_variance_initializer='ones', "
                 "in_channels=0, **kwargs)",
    "BatchNormReLU": "(axis=1, momentum=0.9, epsilon=1e-05, center=True, scale=True, "
                     "use_global_stats=False, beta_initializer='zeros', "
                     "gamma_initializer='ones', running_mean_initializer='zeros', "
                     "running_variance_initializer='ones', in_channels=0, **kwargs)",
    "Block": "(prefix=None, params=None)",
    "Conv1D": "(channels, kernel_size, strides=1, padding=0, dilation=1, groups=1, layout='NCW', "
              "activation=None, use_bias=True, weight_initializer=None, "
              "bias_initializer='zeros', in_channels=0, **kwargs)",
    "Conv2D": "(channels, kernel_size, strides=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, "
              "layout='NCHW', activation=None, use_bias=True, weight_initializer=None, "
              "bias_initializer='zeros', in_channels=0, **kwargs)",
    "Conv3D": "(channels, kernel_size, strides=(1, 1, 1), padding=(0, 0, 0), dilation=(1, 1, 1), "
              "groups=1, layout='NCDHW', activation=None, use_bias=True, "
              "weight_initializer=None, bias_initializer='zeros', in_channels=0, **kwargs)",
    "Conv1DTranspose": "(channels, kernel_size, strides=1, padding=0, output_padding=0, "
                       "dilation=1, groups=1, layout='NCW', activation=None, use_bias=True, "
                       "weight_initializer=None, bias_initializer='zeros', in_channels=0, "
                       "**kwargs)",
    "Conv2DTranspose": "(channels, kernel_size, strides=(1, 1), padding=(0, 0), "
                       "output_padding=(0, 0), dilation=(1, 1), "
                       "groups=1, layout='NCHW', activation=None, use_bias=True, "
                       "weight_initializer=None, bias_initializer='zeros', in_channels=0, "
                       "**kwargs)",
    "Conv3DTranspose": "(channels, kernel_size, strides=(1, 1, 1), padding=(0, 0, 0), "
                       "output_padding=(0, 0, 0), dilation=(1, 1, 1), "
                       "groups=1, layout='NCDHW', activation=None, use_bias=True, "
                       "weight_initializer=None, bias_initializer='zeros', in_channels=0, "
                       "**kwargs)",
    "Dense": "(units, activation=None, use_bias=True, flatten=True, dtype='float32', "
             "weight_initializer=None, bias_initializer='zeros', in_units=0, **kwargs)",
    "Dropout": "(rate, axes=(), **kwargs)",
    "ELU": "(alpha=1.0, **kwargs)",
    "Embedding": "(input_dim, output_dim, dtype='float32', weight_initializer=None, "
                 "sparse_grad=False, **kwargs)",
    "Flatten": "(**kwargs)",
    "GELU": "(**kwargs)",
    "GlobalAvgPool1D": "(layout='NCW', **kwargs)",
    "GlobalAvgPool2D": "(layout='NCHW', **kwargs)",
    "GlobalAvgPool3D": "(layout='NCDHW', **kwargs)",
    "GlobalMaxPool1D": "(layout='NCW', **kwargs)",
    "GlobalMaxPool2D": "(layout='NCHW', **kwargs)",
    "GlobalMaxPool3D": "(layout='NCDHW', **kwargs)",
    "GroupNorm": "(num_groups=1, epsilon=1e-05, center=True, scale=True, "
                 "beta_initializer='zeros', gamma_initializer='ones', prefix=None, params=None)",
    "HybridBlock": "(prefix=None, params=None)",
    "HybridLambda": "(function, prefix=None)",
    "HybridSequential": "(prefix=None, params=None)",
    "InstanceNorm": "(axis=1, epsilon=1e-05, center=True, scale=False, "
                    "beta_initializer='zeros', gamma_initializer='ones', in_channels=0, **kwargs)",
    "Lambda": "(function, prefix=None)",
    "LayerNorm": "(axis=-1, epsilon=1e-05, center=True, scale=True, beta_initializer='zeros', "
                 "gamma_initializer='ones', in_channels=0, prefix=None, params=None)",
    "LeakyReLU": "(alpha, **kwargs)",
    "MaxPool1D": "(pool_size=2, strides=None, padding=0, layout='NCW', ceil_mode=False, **kwargs)",
    "MaxPool2D": "(pool_size=(2, 2), strides=None, padding=0, layout='NCHW', ceil_mode=False, "
                 "**kwargs)",
    "MaxPool3D": "(pool_size=(2, 2, 2), strides=None, padding=0, ceil_mode=False, "
                 "layout='NCDHW', **kwargs)",
    "ReflectionPad2D": "(padding=0, **kwargs)",
    "SELU": "(**kwargs)",
    "Sequential": "(prefix=None, params=None)",
    "Swish": "(beta=1.0, **kwargs)",
    "SymbolBlock": "(outputs, inputs, params=None)",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signature(name):
    signature = inspect.signature(getattr(nn, name))
    parameters = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    assert str(inspect.Signature(parameters)) == SIGNATURES[name]


def test_every_public_layer_is_compared():
    others = {"Constant", "HookHandle", "PReLU", "Parameter", "ParameterDict", "tensor_types"}
    assert set(nn.__all__) - others == set(SIGNATURES)


def named(F, x):
    return x


@pytest.mark.parametrize(("layer", "text"), [
    (nn.Dense(4), "Dense(None -> 4, linear)"),
    (nn.Dense(4, activation="relu", in_units=3), "Dense(3 -> 4, Activation(relu))"),
    (nn.Dropout(0.5, axes=(1, 2)), "Dropout(p = 0.5, axes=(1, 2))"),
    (nn.BatchNorm(), "BatchNorm(axis=1, eps=1e-05, momentum=0.9, fix_gamma=False, "
                     "use_global_stats=False, in_channels=None)"),
    (nn.BatchNorm(scale=False, in_channels=3), "BatchNorm(axis=1, eps=1e-05, momentum=0.9, "
                                               "fix_gamma=True, use_global_stats=False, "
                                               "in_channels=3)"),
    (nn.LayerNorm(), "LayerNorm(eps=1e-05, axis=-1, center=True, scale=True, in_channels=0)"),
    (nn.Embedding(3, 4), "Embedding(3 -> 4, float32)"),
    (nn.Flatten(), "Flatten"), (nn.Lambda("relu"), "Lambda(relu)"),
    (nn.Lambda(lambda x: x), "Lambda(<lambda>)"), (nn.HybridLambda(named), "HybridLambda(named)"),
    (nn.Activation("tanh"), "Activation(tanh)"), (nn.LeakyReLU(0.1), "LeakyReLU(0.1)"),
    (nn.PReLU(), "PReLU(\n\n)"),
    (nn.Conv1D(3, 3), "Conv1D(None -> 3, kernel_size=(3,), stride=(1,))"),
    (nn.Conv2D(3, 3, activation="relu", in_channels=2),
     "Conv2D(2 -> 3, kernel_size=(3, 3), stride=(1, 1), Activation(relu))"),
    (nn.Conv2D(4, (3, 2), 2, 1, 2, 2, "NCHW", None, False, in_channels=4),
     "Conv2D(2 -> 4, kernel_size=(3, 2), stride=(2, 2), padding=(1, 1), dilation=(2, 2), "
     "groups=2, bias=False)"),
    (nn.Conv3D(3, 3, strides=2, padding=(1, 2, 3), in_channels=2),
     "Conv3D(2 -> 3, kernel_size=(3, 3, 3), stride=(2, 2, 2), padding=(1, 2, 3))"),
    (nn.MaxPool2D(3, 2, 1, ceil_mode=True),
     "MaxPool2D(size=(3, 3), stride=(2, 2), padding=(1, 1), ceil_mode=True, global_pool=False, "
     "pool_type=max, layout=NCHW)"),
    (nn.GlobalAvgPool2D("NHWC"),
     "GlobalAvgPool2D(size=(1, 1), stride=(1, 1), padding=(0, 0), ceil_mode=True, "
     "global_pool=True, pool_type=avg, layout=NHWC)"),
    (nn.AvgPool1D(), "AvgPool1D(size=(2,), stride=(2,), padding=(0,), ceil_mode=False, "
                     "global_pool=False, pool_type=avg, layout=NCW)"),
])
def test_text(layer, text):
    assert repr(layer) == text


def run(layer, x, **initialize):
    layer.initialize(**initialize)
    return layer(x)


def test_dense_shapes():
    x = nd.ones((2, 3, 10))
    assert run(nn.Dense(128), x).shape == (2, 128)
    assert run(nn.Dense(128, flatten=False), x).shape == (2, 3, 128)
    layer = nn.Dense(2, use_bias=False, in_units=3)
    layer.initialize(mx.initializer.Constant(2))
    assert layer.bias is None and layer(nd.ones((1, 3))).asnumpy().tolist() == [[6, 6]]
    assert run(nn.Dense(2, dtype="float64"), nd.ones((1, 3), dtype="float64")).dtype is np.float64


def test_flatten_shapes():
    for shape, flat in {(3, 4, 5, 6): (3, 120), (3, 6): (3, 6), (3,): (3, 1)}.items():
        assert nn.Flatten()(nd.ones(shape)).shape == flat


@pytest.mark.parametrize(("layer", "size"), [
    (nn.MaxPool2D(3), 3), (nn.MaxPool2D(3, ceil_mode=True), 4), (nn.AvgPool2D(), 5),
    (nn.AvgPool2D(3, strides=2, padding=1), 5), (nn.GlobalMaxPool2D(), 1)])
def test_pool_sizes(layer, size):
    assert layer(nd.ones((1, 2, 10, 10))).shape == (1, 2, size, size)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_one_two_three_axes(axes):
    x = nd.array(np.arange(6.0**axes).reshape(1, 1, *[6] * axes))
    inner = tuple(range(2, 2 + axes))
    for kind, mean in (("Max", np.max), ("Avg", np.mean)):
        pool, whole = (getattr(nn, f"{word}{kind}Pool{axes}D")() for word in ("", "Global"))
        blocks = x.asnumpy().reshape(1, 1, *[3, 2] * axes)
        expected = mean(blocks, axis=tuple(range(3, 3 + 2 * axes, 2)))
        np.testing.assert_allclose(pool(x).asnumpy(), expected, rtol=1e-6)
        np.testing.assert_allclose(whole(x).asnumpy(), mean(x.asnumpy(), axis=inner, keepdims=True),
                                   rtol=1e-6)
    conv = getattr(nn, f"Conv{axes}D")(2, 3, padding=1, strides=2)
    conv.initialize(mx.initializer.One())
    out = conv(x)
    assert out.shape == (1, 2, *[3] * axes) and conv.weight.shape == (2, 1, *[3] * axes)
    corner = x.asnumpy()[(0, 0, *[slice(0, 2)] * axes)].sum()
    assert out.asnumpy()[(0, 1, *[0] * axes)] == corner


def test_channels_last():
    x = nd.array(np.random.default_rng(0).normal(size=(2, 3, 6, 6)))
    first = nn.Conv2D(4, 3, groups=1, in_channels=3)
    last = nn.Conv2D(4, 3, layout="NHWC", in_channels=3)
    for layer in (first, last):
        layer.initialize(mx.initializer.Xavier())
    assert last.weight.shape == (4, 3, 3, 3)
    last.weight.set_data(first.weight.data().transpose((0, 2, 3, 1)))
    np.testing.assert_allclose(last(x.transpose((0, 2, 3, 1))).transpose((0, 3, 1, 2)).asnumpy(),
                               first(x).asnumpy(), rtol=1e-4, atol=1e-5)


def test_sizes_and_layouts_that_cannot_be():
    for make in (lambda: nn.Conv2D(3, (3, 3, 3)), lambda: nn.Conv2D(3, 3, strides=(1, 2, 3)),
                 lambda: nn.MaxPool2D((2, 2, 2))):
        with pytest.raises(AssertionError, match=r"2D: .*expected a number or 2 of them"):
            make()
    for make in (lambda: nn.Conv2D(3, 3, layout="NCW"), lambda: nn.AvgPool3D(layout="NCHW")):
        with pytest.raises(AssertionError, match="layout must be one of"):
            make()


@pytest.mark.parametrize("shape", [(8, 3), (8, 3, 2), (8, 3, 2, 2), (8, 3, 2, 2, 2)])
def test_batchnorm_statistics(shape):
    x = np.random.default_rng(1).normal(2, 3, shape).astype("float32")
    layer = nn.BatchNorm()
    layer.initialize()
    axes = tuple(axis for axis in range(len(shape)) if axis != 1)
    mean, var = x.mean(axes), x.var(axes)
    with autograd.record():
        y = layer(nd.array(x))
    view = (1, 3, *[1] * (len(shape) - 2))
    np.testing.assert_allclose(
        y.asnumpy(), (x - mean.reshape(view)) / np.sqrt(var.reshape(view) + 1e-5), atol=1e-4)
    for _ in range(2):
        np.testing.assert_allclose(layer.running_mean.data().asnumpy(), 0.1 * mean, rtol=1e-4)
        np.testing.assert_allclose(layer.running_var.data().asnumpy(), 0.9 + 0.1 * var, rtol=1e-4)
        layer(nd.array(x))  # inference leaves them alone


def test_batchnorm_settings():
    layer = nn.BatchNorm(center=False, scale=False)
    assert {p.grad_req for p in layer.collect_params().values()} == {"null"}
    layer.cast("float16")
    assert layer.gamma.dtype == "float32"
    layer.cast("float64")
    assert layer.gamma.dtype == "float64"
    fixed = nn.BatchNorm(use_global_stats=True)
    fixed.initialize()
    with autograd.record():
        y = fixed(nd.array([[1.0], [3.0]]))
    np.testing.assert_allclose(y.asnumpy(), [[1], [3]], rtol=1e-4)
    assert fixed.running_mean.data().asnumpy().tolist() == [0]


def test_embedding_gradient_adds_up():
    layer = nn.Embedding(5, 2)
    layer.initialize()
    index = nd.array([1] * 20481 + [3])
    with autograd.record():
        y = layer(index)
    y.backward()
    assert layer.weight.grad().asnumpy()[:, 0].tolist() == [0, 20481, 0, 1, 0]
    sparse = nn.Embedding(5, 2, sparse_grad=True)
    sparse.initialize()
    for _ in range(2):  # eager, then hybridized
        with autograd.record():
            y = sparse(index)
        y.backward()
        grad = sparse.weight.grad()
        assert grad.stype == "row_sparse" and grad.indices.asnumpy().tolist() == [1, 3]
        assert grad.data.asnumpy()[:, 0].tolist() == [20481, 1]
        sparse.hybridize()


def test_dropout_along_axes():
    x = nd.ones((4, 5, 6))
    with autograd.train_mode():
        y = nn.Dropout(0.5, axes=(1,))(x).asnumpy()
    assert (y == y[:, :1]).all() and set(np.unique(y)) == {0, 2}
    assert (nn.Dropout(0.5)(x).asnumpy() == 1).all()
    with autograd.record():
        assert (nn.Dropout(0)(x).asnumpy() == 1).all()


def test_slopes():
    x = nd.array([[-1.0, 2.0], [-3.0, 4.0]])

    def values(layer):
        return run(layer, x).asnumpy()

    np.testing.assert_allclose(values(nn.LeakyReLU(0.1)), [[-0.1, 2], [-0.3, 4]], rtol=1e-6)
    np.testing.assert_allclose(values(nn.PReLU()), [[-0.25, 2], [-0.75, 4]], rtol=1e-6)
    own = nn.PReLU(in_channels=2, alpha_initializer=mx.initializer.Constant(nd.array([2.0, 3.0])))
    np.testing.assert_allclose(values(own), [[-2, 2], [-6, 4]])
    negative = np.expm1([-1.0, -3.0])
    np.testing.assert_allclose(values(nn.ELU(0.5))[:, 0], 0.5 * negative, rtol=1e-5)
    np.testing.assert_allclose(values(nn.SELU()), 1.0507009873554805 * np.array(
        [[1.6732632423543772 * negative[0], 2], [1.6732632423543772 * negative[1], 4]]), rtol=1e-5)
    np.testing.assert_allclose(values(nn.Swish()), x.asnumpy() / (1 + np.exp(-x.asnumpy())),
                               rtol=1e-5)
    np.testing.assert_allclose(values(nn.GELU())[0], [-0.158655, 1.954500], rtol=1e-4)
    with pytest.raises(ValueError, match="must not be negative"):
        nn.LeakyReLU(-1)


def test_lambdas():
    x = nd.array([-1.0, 2.0])
    for layer in (nn.Lambda("relu"), nn.HybridLambda("relu"), nn.Lambda(lambda x: x.relu()),
                  nn.HybridLambda(lambda F, x: F.relu(x))):
        assert layer(x).asnumpy().tolist() == [0, 2]
    with pytest.raises(AssertionError, match="relo is not found in ndarray; did you mean 'relu'"):
        nn.Lambda("relo")
    with pytest.raises(AssertionError, match="relo is not found in symbol"):
        nn.HybridLambda("relo")
    for kind in (nn.Lambda, nn.HybridLambda):
        with pytest.raises(ValueError, match="Unrecognized function"):
            kind(3)
