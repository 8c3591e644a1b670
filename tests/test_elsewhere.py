"""MXNet's own files, imported below minigluon's name."""
from __future__ import annotations

import importlib
import importlib.util

import pytest

import minigluon as mx


@pytest.mark.parametrize(("path", "name", "same"), [
    ("gluon.nn.basic_layers", "Dense", mx.gluon.nn.Dense),
    ("gluon.nn.conv_layers", "Conv2D", mx.gluon.nn.Conv2D),
    ("ndarray.random", "uniform", mx.nd.random.uniform),
    ("ndarray.contrib", "foreach", mx.nd.contrib.foreach),
    ("ndarray._internal", "_plus_scalar", mx.nd._internal._plus_scalar),
    ("symbol.linalg", "gemm2", mx.sym.linalg.gemm2),
    ("symbol.numpy", "ones", mx.sym.np.ones),
    ("io.io", "NDArrayIter", mx.io.NDArrayIter),
    ("kvstore.kvstore", "KVStore", mx.kv.KVStore),
    ("numpy.multiarray", "ndarray", mx.np.ndarray),
    ("numpy_extension.image", "resize", mx.npx.image.resize),
    ("numpy_extension.random", "bernoulli", mx.npx.random.bernoulli),
    ("rnn.rnn_cell", "LSTMCell", mx.rnn.LSTMCell),
])
def test_names_of_mxnets_files(path, name, same):
    assert getattr(importlib.import_module(f"minigluon.{path}"), name) is same


@pytest.mark.parametrize("name", ["img", "init", "kv", "mod", "mon", "nd", "np", "npx", "rnd",
                                  "sym", "viz"])
def test_short_names_of_rooms(name):
    assert importlib.import_module(f"minigluon.{name}") is getattr(mx, name)


def test_a_namespace_stays_what_it_is_and_what_is_missing_is_missing():
    space = mx.nd.random
    importlib.import_module("minigluon.ndarray.random")
    assert mx.nd.random is space
    for path in ("minigluon.nope", "minigluon.ndarray.nope", "minigluon.gluon.nn.nope"):
        assert importlib.util.find_spec(path) is None
    with pytest.raises(ModuleNotFoundError, match=r"minigluon\.ndarray\.nope"):
        importlib.import_module("minigluon.ndarray.nope")
