"""Transposed convolutions, instance and group normalization, reflection, contrib layers."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minigluon as mx
from minigluon import autograd, nd, nn
from minigluon.gluon.contrib import cnn
from minigluon.gluon.contrib import nn as contrib_nn

# what MXNet 1.9.1 prints
TEXTS = [
    (lambda: nn.Conv1DTranspose(4, 3), "Conv1DTranspose(4 -> 0, kernel_size=(3,), stride=(1,))"),
    (lambda: nn.Conv2DTranspose(4, 3, strides=2, padding=1, output_padding=1, groups=2,
                                in_channels=6, activation="relu"),
     "Conv2DTranspose(2 -> 6, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), groups=2, "
     "Activation(relu))"),
    (lambda: nn.Conv3DTranspose(4, 3, use_bias=False),
     "Conv3DTranspose(4 -> 0, kernel_size=(3, 3, 3), stride=(1, 1, 1), bias=False)"),
    (lambda: nn.InstanceNorm(),
     "InstanceNorm(eps=1e-05, axis=1, center=True, scale=False, in_channels=0)"),
    (lambda: nn.GroupNorm(2), "GroupNorm(eps=1e-05, num_groups=2, center=True, scale=True)"),
    (lambda: nn.ReflectionPad2D(3), "ReflectionPad2D(\n\n)"),
    (lambda: contrib_nn.Identity(), "Identity(\n\n)"),
    (lambda: contrib_nn.PixelShuffle1D(2), "PixelShuffle1D(2)"),
    (lambda: contrib_nn.PixelShuffle2D((2, 3)), "PixelShuffle2D((2, 3))"),
    (lambda: contrib_nn.PixelShuffle3D(2), "PixelShuffle3D((2, 2, 2))"),
    (lambda: contrib_nn.SyncBatchNorm(in_channels=4, num_devices=2, prefix="bn_"),
     "SyncBatchNorm(eps=1e-05, momentum=0.9, fix_gamma=False, use_global_stats=False, ndev=2, "
     "key='bn_', in_channels=4)"),
]


@pytest.mark.parametrize(("make", "text"), TEXTS)
def test_text(make: Any, text: str) -> None:
    assert repr(make()) == text


def test_text_of_branches() -> None:
    net = contrib_nn.HybridConcurrent(axis=1)
    net.add(nn.Dense(2), contrib_nn.Identity())
    assert repr(net) == ("HybridConcurrent(\n  (0): Dense(None -> 2, linear)\n"
                         "  (1): Identity(\n  \n  )\n)")


# (layer, shape of the input): outputs and input gradients agree before and after hybridize
LAYERS = [
    (lambda: nn.Conv1DTranspose(4, 3, strides=2, padding=1, output_padding=1), (2, 3, 6)),
    (lambda: nn.Conv2DTranspose(4, 3, strides=4, output_padding=3), (2, 3, 4, 4)),
    (lambda: nn.Conv2DTranspose(4, (3, 4), groups=2, use_bias=False), (2, 4, 4, 4)),
    (lambda: nn.Conv2DTranspose(4, 2, layout="NHWC", activation="relu"), (2, 4, 4, 3)),
    (lambda: nn.Conv3DTranspose(4, 2, strides=(1, 2, 1)), (2, 3, 3, 3, 2)),
    (lambda: nn.InstanceNorm(), (2, 3, 4, 5)),
    (lambda: nn.InstanceNorm(axis=2, scale=True), (2, 3, 4, 5)),
    (lambda: nn.GroupNorm(1), (2, 10, 3)),
    (lambda: nn.GroupNorm(2), (2, 10, 3)),
    (lambda: nn.GroupNorm(5), (2, 10, 3)),
    (lambda: nn.BatchNormReLU(), (2, 3, 4)),
    (lambda: nn.ReflectionPad2D(3), (2, 3, 5, 4)),
    (lambda: nn.ReflectionPad2D((0, 0, 0, 0, 1, 2, 0, 1)), (2, 3, 5, 4)),
    (lambda: contrib_nn.SyncBatchNorm(num_devices=1), (2, 3, 4)),
    (lambda: contrib_nn.Identity(), (2, 3)),
    (lambda: contrib_nn.PixelShuffle1D(2), (2, 6, 3)),
    (lambda: contrib_nn.PixelShuffle2D((2, 3)), (2, 6, 3, 2)),
    (lambda: contrib_nn.PixelShuffle3D((2, 1, 3)), (2, 6, 3, 2, 1)),
    (lambda: cnn.DeformableConvolution(4, 3, padding=1, activation="relu",
                                       offset_bias_initializer=mx.init.Uniform(0.4)),
     (2, 3, 5, 4)),
    (lambda: cnn.DeformableConvolution(4, (3, 2), groups=2, use_bias=False, strides=2,
                                       num_deformable_group=2, offset_use_bias=False,
                                       offset_weight_initializer=mx.init.Uniform(0.1)),
     (2, 4, 5, 4)),
    (lambda: cnn.ModulatedDeformableConvolution(4, 2, dilation=2, offset_bias_initializer=(
        mx.init.Uniform(0.4))), (2, 3, 5, 4)),
]


def _outcome(layer: Any, x: Any) -> tuple[np.ndarray, np.ndarray]:
    x.attach_grad()
    with autograd.record():
        y = layer(x)
        loss = (y * nd.array(np.cos(np.arange(y.size)).reshape(y.shape))).sum()
    loss.backward()
    return y.asnumpy(), x.grad.asnumpy()


@pytest.mark.parametrize(("make", "shape"), LAYERS)
def test_hybridized_equals_eager(make: Any, shape: tuple[int, ...]) -> None:
    layer = make()
    layer.initialize()
    x = nd.random.normal(shape=shape)
    eager = _outcome(layer, x)
    layer.hybridize()
    for first, second in zip(eager, _outcome(layer, x), strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-6)


def test_transposed_convolution_undoes_the_shape() -> None:
    layer = nn.Conv2DTranspose(5, 4, strides=2, padding=1, in_channels=3)
    layer.initialize()
    assert layer.weight.shape == (3, 5, 4, 4)
    assert layer(nd.ones((2, 3, 6, 7))).shape == (2, 5, 12, 14)
    with pytest.raises(AssertionError, match="multiple of groups"):
        nn.Conv2DTranspose(5, 4, groups=2)


def test_parameters_of_norms() -> None:
    for layer, shape, grads in ((nn.InstanceNorm(in_channels=3), (3,), ("null", "write")),
                                (nn.GroupNorm(2), (2,), ("write", "write")),
                                (nn.GroupNorm(2, center=False), (2,), ("write", "null"))):
        gamma, beta = layer.gamma, layer.beta
        assert (gamma.shape, beta.shape) == (shape, shape)
        assert (gamma.grad_req, beta.grad_req) == grads


def test_group_norm_against_its_definition() -> None:
    layer, x = nn.GroupNorm(2), np.random.default_rng(0).normal(size=(2, 4, 3)).astype("float32")
    layer.initialize()
    groups = x.reshape(2, 2, -1)
    expected = (groups - groups.mean(2, keepdims=True)) / np.sqrt(
        groups.var(2, keepdims=True) + 1e-5)
    np.testing.assert_allclose(layer(nd.array(x)).asnumpy(), expected.reshape(x.shape), rtol=1e-4,
                               atol=1e-5)


@pytest.mark.parametrize("kind", [contrib_nn.Concurrent, contrib_nn.HybridConcurrent])
def test_branches(kind: Any) -> None:
    net = kind(axis=1)
    net.add(nn.Dense(2, in_units=3), contrib_nn.Identity())
    net.initialize()
    x = nd.ones((4, 3))
    expected = np.concatenate([net[0](x).asnumpy(), x.asnumpy()], axis=1)
    np.testing.assert_allclose(net(x).asnumpy(), expected)
    if kind is contrib_nn.HybridConcurrent:
        net.hybridize()
        np.testing.assert_allclose(net(x).asnumpy(), expected, rtol=1e-6)


def test_pixel_shuffle_places() -> None:
    x = np.arange(2 * 6 * 2 * 3).reshape(2, 6, 2, 3).astype("float32")
    expected = x.reshape(2, 1, 3, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(2, 1, 6, 6)
    assert contrib_nn.PixelShuffle2D((3, 2))(nd.array(x)).asnumpy().tolist() == expected.tolist()
    with pytest.raises(ValueError, match="factor: expected a number or 2"):
        contrib_nn.PixelShuffle2D((1, 2, 3))


def test_sync_batch_norm_is_batch_norm() -> None:
    x = nd.random.normal(shape=(4, 3, 5))
    outcomes = []
    for make in (nn.BatchNorm, lambda: contrib_nn.SyncBatchNorm(num_devices=1)):
        layer = make()
        layer.initialize()
        outcomes.append((*_outcome(layer, x), layer.running_mean.data().asnumpy(),
                         layer.running_var.data().asnumpy()))
    for first, second in zip(*outcomes, strict=True):  # only one of them has a native kernel
        np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-6)


def test_sparse_embedding_fetches_rows() -> None:
    layer = contrib_nn.SparseEmbedding(5, 2, weight_initializer="ones")
    layer.initialize()
    with pytest.raises(RuntimeError, match="Trainer"):
        layer(nd.array([1]))
    trainer = mx.gluon.Trainer(layer.collect_params(), "sgd", {"learning_rate": 1.0})
    with mx.autograd.record():
        y = layer(nd.array([[1, 3], [1, 1]]))
    assert y.shape == (2, 2, 2)
    y.backward()
    trainer.step(1)
    assert layer.weight.row_sparse_data(nd.arange(5)).asnumpy()[:, 0].tolist() == [1, -2, 1, 0, 1]
    assert "5 -> 2" in repr(layer)


def test_deformable_layers_start_as_convolutions() -> None:
    x = nd.random.normal(shape=(2, 3, 5, 5))
    for kind in (cnn.DeformableConvolution, cnn.ModulatedDeformableConvolution):
        layer = kind(4, kernel_size=3, padding=1, in_channels=3)
        layer.initialize()
        plain = nd.Convolution(x, layer.deformable_conv_weight.data(), kernel=(3, 3), pad=(1, 1),
                               num_filter=4, no_bias=True)
        np.testing.assert_allclose(layer(x).asnumpy(), plain.asnumpy(), rtol=1e-4, atol=1e-5)
    layer = cnn.DeformableConvolution(4, kernel_size=(3, 3), padding=1, prefix="d_")
    assert repr(layer) == ("DeformableConvolution(None -> 4, kernel_size=(3, 3), stride=(1, 1), "
                           "padding=(1, 1))")
    assert list(layer.collect_params()) == [
        "d_offset_weight", "d_offset_bias", "d_deformable_conv_weight", "d_deformable_conv_bias"]
    assert cnn.ModulatedDeformableConvolution(4).prefix.startswith("modulated_deformable_conv")
