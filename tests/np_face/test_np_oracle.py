"""What MXNet 1.9.1 gave for expressions of ``mx.np`` (oracle/np_cases.py), here."""
import json
import sys
from pathlib import Path

import numpy as onp
import pytest

import minigluon as mx
from minigluon import autograd, np

sys.path.insert(0, str(Path(__file__).parents[1] / "oracle"))
from np_cases import CASES, FIGURES, evaluate

KNOWN = json.loads(FIGURES.read_text(encoding="utf-8"))


def test_each_case_is_recorded():
    assert list(KNOWN) == CASES


@pytest.mark.parametrize("case", CASES)
def test_as_mxnet(case):
    found, expected = evaluate(mx, case), KNOWN[case]
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        if isinstance(theirs, str):
            assert ours == theirs
            continue
        assert ours[:3] == theirs[:3]
        close = 2e-3 if theirs[2] == "float16" else 2e-5
        onp.testing.assert_allclose(ours[3], theirs[3], close, close)


# Where MXNet's gradients are zero, or fail, ours are held against differences along a direction.
SLOPES = {
    "pinv": (np.linalg.pinv, (2, 3)),
    "pinv, tall": (np.linalg.pinv, (2, 4, 3)),
    "eigvalsh": (lambda a: np.linalg.eigvalsh(np.matmul(a, a.swapaxes(-1, -2))), (2, 3, 4)),
    "eigh": (lambda a: np.square(np.linalg.eigh(np.dot(a, a.T), UPLO="U")[1]), (3, 4)),
    "norm over axes": (lambda a: np.linalg.norm(a, "nuc", axis=(2, 0)), (2, 3, 4)),
    "smallest": (lambda a: np.linalg.norm(a, -2, axis=(0, 2), keepdims=True), (2, 3, 4)),
}


@pytest.mark.parametrize("function, shape", SLOPES.values(), ids=SLOPES)
def test_slopes_of_matrices(function, shape):
    draw = onp.random.RandomState(3)
    start, along = draw.normal(size=shape), draw.normal(size=shape)
    x = np.array(start, dtype="float64")
    x.attach_grad()
    with autograd.record():
        found = function(x)
    weights = draw.normal(size=found.shape)
    found.backward(np.array(weights, dtype="float64"))
    ahead, behind = (function(np.array(start + step * along)).asnumpy() for step in (1e-6, -1e-6))
    difference = (weights * (ahead - behind)).sum() / 2e-6
    assert (x.grad.asnumpy() * along).sum() == pytest.approx(difference, rel=1e-5)


def test_the_nuclear_norm_of_equal_values_has_a_gradient():
    x = np.array(onp.eye(3) * 2)
    x.attach_grad()
    with autograd.record():
        norm = np.linalg.norm(x, "nuc")
    norm.backward()
    assert norm.item() == pytest.approx(6) and np.abs(x.grad - np.eye(3)).max() < 1e-6


def test_draws_of_several_variables_have_their_moments():
    mx.random.seed(4)
    mean = onp.array([[1.0, -2.0], [0.0, 3.0]])
    cov = onp.array([[[2.0, 0.6], [0.6, 1.0]], [[1.0, 1.0], [1.0, 1.0]]])  # the second is singular
    drawn = np.random.multivariate_normal(np.array(mean), np.array(cov), size=20000).asnumpy()
    assert drawn.shape == (20000, 2, 2)
    onp.testing.assert_allclose(drawn.mean(0), mean, atol=0.05)
    for place in (0, 1):
        onp.testing.assert_allclose(onp.cov(drawn[:, place].T), cov[place], atol=0.08)
    with pytest.raises(ValueError, match="expected mean"):
        np.random.multivariate_normal(np.zeros(2), np.eye(3))


@pytest.mark.parametrize("name, median", [
    ("weibull", onp.log(2) ** 0.5), ("pareto", 2 ** 0.5 - 1), ("power", 0.5 ** 0.5)])
def test_draws_of_one_parameter(name, median):
    mx.random.seed(7)
    draw = getattr(np.random, name)
    assert onp.median(draw(2.0, 40000).asnumpy()) == pytest.approx(median, abs=0.02)
    parameter = np.array([2.0, 3.0])
    parameter.attach_grad()
    with autograd.record():
        drawn = draw(parameter)
    drawn.backward()
    a, y = parameter.asnumpy(), drawn.asnumpy()
    slope = {"weibull": -y * onp.log(y) / a, "pareto": -(1 + y) * onp.log1p(y) / a,
             "power": -y * onp.log(y) / a}[name]
    onp.testing.assert_allclose(parameter.grad.asnumpy(), slope, rtol=1e-4)
    assert draw(2.0, 3, dtype="float64").dtype == draw(parameter, dtype="float64").dtype == "f8"
    with pytest.raises(ValueError, match="above 0"):
        draw(-1.0)


def test_an_array_is_written_to_while_recording_once():
    x, out = np.array([1.0, 2.0]), np.zeros(2)
    x.attach_grad()
    for _ in range(2):  # what a backward has used up may be written to again
        with autograd.record():
            np.exp(x, out=out)
            with pytest.raises(mx.MXNetError, match="Inplace"):
                np.exp(x, out=out)
            with pytest.raises(mx.MXNetError, match="Inplace"):
                out[:] = x
        out.backward()
        onp.testing.assert_allclose(x.grad.asnumpy(), onp.exp([1.0, 2.0]), rtol=1e-6)
    with autograd.record(), pytest.raises(mx.MXNetError, match="Inplace"):
        np.zeros(2)[0] = x[0]
    with autograd.record(), pytest.raises(ValueError, match="shape"):
        np.exp(x, out=np.zeros(3))


def test_broadcast_assignment_has_slopes():
    x, out = np.array([1.0, 2.0, 3.0]), np.zeros((2, 3))
    x.attach_grad()
    with autograd.record():
        out[...] = x
        total = (out * out).sum()
    total.backward()
    assert out.tolist() == [[1, 2, 3]] * 2 and x.grad.tolist() == [4, 8, 12]
    assert out.grad is None  # it is no variable, but for a while a copy of one
