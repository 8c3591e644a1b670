"""What this installation can do: ``mx.runtime.Features()``, ``feature_list()``.

>>> import minigluon as mx
>>> mx.runtime.Features().is_enabled("DIST_KVSTORE")
True
"""
from __future__ import annotations

import importlib.util
import os
import platform
import sys
from typing import Any

import numpy as np

from .device import num_gpus
from .device.cpu import native

__all__ = ["Feature", "Features", "describe", "feature_list"]


# What MXNet may have been built with and minigluon is not.
_OF_MXNET = ("CUDA_RTC", "TENSORRT", "CPU_SSE4A", "SSE", "JEMALLOC", "BLAS_OPEN", "BLAS_ATLAS",
             "BLAS_MKL", "BLAS_APPLE", "CAFFE", "CXX14", "DEBUG", "TVM_OP")


class Feature:
    """One capability and whether it is there: ``name``, ``enabled``."""

    def __init__(self, name: str, enabled: bool) -> None:
        self.name = name
        self.enabled = enabled

    def __repr__(self) -> str:
        return f"{'✔' if self.enabled else '✖'} {self.name}"


def _has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _cpu_has(isa: str) -> bool:
    levels = ("x86-64", "x86-64-v3", "x86-64-v4")
    found = native.core.isa() if native.enabled else ""
    return found in levels and levels.index(found) >= levels.index(isa)


def feature_list() -> list[Feature]:
    """Every capability that MXNet names, and those of our own."""
    gpus = num_gpus() > 0
    threads = native.enabled
    return [Feature(name, bool(enabled)) for name, enabled in (
        ("CUDA", gpus), ("CUDNN", gpus and _has("nvidia.cudnn")), ("NCCL", gpus),
        ("CPU_SSE", _cpu_has("x86-64")), ("CPU_SSE2", _cpu_has("x86-64")),
        ("CPU_AVX2", _cpu_has("x86-64-v3")),
        ("CPU_AVX512", _cpu_has("x86-64-v4")), ("OPENMP", threads), ("ONEDNN", native.onednn),
        ("MKLDNN", native.onednn), ("DIST_KVSTORE", _has("zmq")), ("F16C", True),
        ("INT64_TENSOR_SIZE", True), ("SIGNAL_HANDLER", False), ("PROFILER", True),
        ("OPENCV", _has("cv2")), ("NATIVE", native.enabled), ("LAPACK", True),
        *((f"CPU_{isa}", _cpu_has("x86-64-v3")) for isa in ("SSE3", "SSE4_1", "SSE4_2", "AVX")),
        *((name, False) for name in _OF_MXNET),
    )]


class Features(dict[str, Feature]):
    """The capabilities by name.

    >>> "NATIVE" in Features()
    True
    """

    def __init__(self) -> None:
        super().__init__((feature.name, feature) for feature in feature_list())

    def __repr__(self) -> str:
        return f"[{', '.join(map(repr, self.values()))}]"

    def is_enabled(self, feature_name: str) -> bool:
        """Whether a capability is there; RuntimeError for a name that does not exist."""
        found = self.get(feature_name.upper())
        if found is None:
            raise RuntimeError(f"feature '{feature_name}' is unknown; known: {', '.join(self)}")
        return found.enabled


def describe() -> dict[str, Any]:
    """Versions, instruction set, threads and parts, as ``python -m minigluon.info`` prints them."""
    core = native.core
    return {
        "imported from": os.path.dirname(os.path.abspath(__file__)),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "numpy": np.__version__,
        "native core": "yes" if native.enabled else f"no: {native.reason}",
        "oneDNN": "yes" if native.onednn else f"no: {native.reason}",
        "instruction set": core.isa() if native.enabled else "NumPy's",
        "threads": core.threads() if native.enabled else "NumPy's",
        "kernels": len(core.kernels()) if native.enabled else 0,
        "idle memory kept, at most": f"{core.pool_stats()['limit'] >> 20} MB"
        if native.enabled else "none",
        "GPUs": num_gpus(),
        "CuPy": _version("cupy"),
        "ZeroMQ for Python": _version("zmq"),
        "executable": sys.executable,
    }


def _version(module: str) -> str:
    """The version of an optional guest, without importing it."""
    from importlib import metadata  # slow to import, and seldom needed

    names = metadata.packages_distributions().get(module)
    return metadata.version(names[0]) if names else "not installed"
