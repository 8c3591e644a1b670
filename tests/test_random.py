"""mx.random.seed: repeatable streams per device."""
import subprocess
import sys

import numpy as np
import pytest

import minigluon as mx
from minigluon import nd


def draws(ctx=None):
    return nd.random.uniform(shape=(5,), ctx=ctx).asnumpy()


@pytest.mark.parametrize("seed", [0, -5, 2**40 + 1, np.int64(3)])
def test_seed_repeats_all_draws(seed):
    mx.random.seed(seed)
    first = draws(), nd.random.normal(shape=(5,)).asnumpy(), draws(mx.cpu(1))
    draws()
    mx.random.seed(seed)
    again = draws(), nd.random.normal(shape=(5,)).asnumpy(), draws(mx.cpu(1))
    for a, b in zip(first, again, strict=True):
        assert np.array_equal(a, b)


def test_devices_differ_and_also_one_used_first_after_the_seed():
    mx.random.seed(3)
    a, b = draws(mx.cpu(0)), draws(mx.cpu(77))
    assert not np.array_equal(a, b)
    mx.random.seed(3)
    assert np.array_equal(b, draws(mx.cpu(77)))


def test_seeding_one_context_is_independent_of_order():
    mx.random.seed(5, ctx=mx.cpu(0))
    mx.random.seed(5, ctx=mx.cpu(1))
    assert np.array_equal(draws(mx.cpu(0)), draws(mx.cpu(1)))


def test_bad_seed():
    with pytest.raises(ValueError, match="integer"):
        mx.random.seed("x")


def test_unseeded_processes_differ():
    code = "import minigluon as mx; print(mx.nd.random.normal(shape=(3,)).asnumpy())"
    outputs = {subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                              check=True).stdout for _ in range(2)}
    assert len(outputs) == 2


def test_drawing_into_an_array_takes_its_shape():
    x = nd.zeros((2, 3))
    assert nd.random.uniform(5, 6, out=x) is x and (x.asnumpy() >= 5).all()
    assert nd.random_normal(20, 1, out=x) is x and (x.asnumpy() > 10).all()
    assert mx.random.randint(3, 4, out=nd.zeros((2, 2), dtype="int32")).asnumpy().tolist() == [
        [3, 3], [3, 3]]
    with pytest.raises(mx.MXNetError, match="out="):
        nd.random.uniform(5, 6, shape=(3, 3), out=x)
