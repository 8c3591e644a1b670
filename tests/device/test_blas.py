"""Threads of NumPy's BLAS: one inside a body of small steps, as before afterwards."""
import os
import subprocess
import sys

import pytest

from minigluon.device.cpu import blas

CODE = """
import minigluon as mx
from minigluon.device.cpu import blas
get, put = blas._controls()
put(2)
seen = []
with blas.one_thread():
    seen.append(get())
    try:
        with blas.one_thread():
            raise ValueError
    except ValueError:
        seen.append(get())
seen.append(get())
layer = mx.gluon.rnn.LSTM(4, input_size=3)
layer.initialize()
layer(mx.nd.ones((2, 1, 3)))
print(seen, get())
"""


@pytest.mark.skipif(blas._controls() is None, reason="NumPy's BLAS is not an OpenBLAS wheel")
def test_one_thread_inside_and_as_before_afterwards():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True,
                          env=dict(os.environ, OPENBLAS_NUM_THREADS="2"), check=False)
    assert done.stdout.strip() == "[1, 1, 2] 2", done.stderr
