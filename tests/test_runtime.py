"""mx.runtime and ``python -m minigluon.info`` tell what is active."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import minigluon as mx
from minigluon.device.cpu import native


def test_features() -> None:
    features = mx.runtime.Features()
    assert features.is_enabled("native") == native.enabled
    assert features["ONEDNN"].enabled == native.onednn
    assert "NATIVE" in repr(features)
    assert {feature.name for feature in mx.runtime.feature_list()} == set(features)
    with pytest.raises(RuntimeError, match="unknown"):
        features.is_enabled("TELEPATHY")


@pytest.mark.parametrize("switch", ["0", "1"])
def test_info(switch: str) -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-m", "minigluon.info"],
                          env={**os.environ, "MINIGLUON_NATIVE": switch},
                          capture_output=True, text=True, check=True)
    assert os.path.dirname(os.path.abspath(mx.__file__)) in done.stdout
    assert "oneDNN" in done.stdout and "features" in done.stdout
    if switch == "0":
        assert "no: switched off" in done.stdout


def test_every_name_of_mxnet_is_known():
    features = mx.runtime.Features()
    for name in ("CUDA_RTC", "TENSORRT", "CPU_SSE", "CPU_SSE4A", "CPU_AVX", "BLAS_OPEN", "LAPACK",
                 "MKLDNN", "DEBUG", "TVM_OP", "opencv"):
        assert features.is_enabled(name) in (True, False)
    assert not features.is_enabled("TENSORRT") and features.is_enabled("LAPACK")
    assert len({feature.name for feature in mx.runtime.feature_list()}) == len(features)
