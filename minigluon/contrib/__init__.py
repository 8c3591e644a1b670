"""What MXNet keeps in ``mx.contrib``: words as numbers and vectors (`text`), a DataLoader as a
DataIter (`io`), variance-reduced gradients (`svrg_optimization`), metrics for TensorBoard
(`tensorboard`), the first `autograd`.

The operators once here are in ``mx.nd.contrib`` and ``mx.sym.contrib``, the layers in
``mx.gluon.contrib``. Mixed precision, quantisation and ONNX are not built.
"""
from __future__ import annotations

from typing import NoReturn

from .. import ndarray, symbol
from . import autograd, io, svrg_optimization, tensorboard, text

__all__ = ["autograd", "io", "svrg_optimization", "tensorboard", "text"]

nd, sym = ndarray, symbol


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(
        f"module '{__name__}' has no attribute '{name}': of mx.contrib amp, onnx and quantization "
        "are not built; operators are in mx.nd.contrib, layers in mx.gluon.contrib"
    )
