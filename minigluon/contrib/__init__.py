"""What MXNet keeps in ``mx.contrib`` and minigluon has: `text`, vocabularies of words.

The operators once here are in ``mx.nd.contrib`` and ``mx.sym.contrib``, the layers in
``mx.gluon.contrib``. Mixed precision, quantisation and ONNX are not built.
"""
from __future__ import annotations

from typing import NoReturn

from . import text

__all__ = ["text"]


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(
        f"module '{__name__}' has no attribute '{name}': of mx.contrib only text is built (not "
        "amp, onnx, quantization); operators are in mx.nd.contrib, layers in mx.gluon.contrib"
    )
