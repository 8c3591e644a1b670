"""Expressions of ``mx.np`` whose values MXNet 1.9.1 recorded.

``python tests/oracle/np_cases.py`` in an environment with MXNet writes `np_cases.json`;
`np_face/test_np_oracle.py` evaluates the same here and compares. In an expression, mx, np (which
is ``mx.np``), npx, onp (NumPy) and autograd are there, x is an array of two rows and three columns,
i the same of integers, b of truth values, s a matrix that equals its transpose, and

- ``slopes(f, *arrays)``: what f gives, and the gradients,
- ``block(f)``: what the block ``f(F, x)`` gives eager and hybridized, and both gradients;
  ``hybridized(f)``: what it gives hybridized.
"""
from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as onp

__all__ = ["CASES", "FIGURES", "evaluate", "flat"]

FIGURES = Path(__file__).resolve().with_suffix(".json")
X = onp.array([[-1.25, 0.5, 2.0], [1.75, -0.375, 0.75]], "float32")
S = onp.array([[4.0, 1.0, -0.5], [1.0, 3.0, 0.25], [-0.5, 0.25, 2.0]], "float32")

CASES = """
np.sum(x, axis=onp.int64(1))
x.max(axis=onp.int32(0))
np.max(x, 1, True)
np.all(b, 1, True)
np.hypot(x.astype("float16"), 2)
np.arctan2(2, x.astype("float16"))
np.copysign(2, x.astype("float16"))
np.cumsum(b)
b + b
b * b
b + 1
np.maximum(b, 2)
np.float_power(x, 2)
np.isnan(x, where=True)
float(np.around(2.5))
i & 1
i | 4
i ^ i
~i
~b
b & b
i.astype("uint8") & -1
np.lcm(i, 6)
inplace(i, lambda a: a.__iand__(6))
inplace(i, lambda a: a.__ixor__(6))
slopes(lambda a: written(a, np.exp), x)
np.tile(A=x, reps=2)
np.broadcast_to(array=x, shape=(2, 2, 3))
np.flip(m=x, axis=1)
np.empty_like(prototype=i).dtype.name
x.reshape_view(3, 2)
np.pad(x, ((1, 1), (2, 1)), "maximum")
np.pad(x, ((1, 1), (2, 1)), "minimum")
np.percentile(x, 40, interpolation="lower")
np.percentile(x, np.array([10, 60]), axis=1, interpolation="midpoint", keepdims=True)
np.percentile(i, 40)
np.quantile(x, 0.3, axis=0, interpolation="higher")
x.clip(min=0)
x.clip(max=0)
onp.linalg.norm(x, axis=1)
bool(onp.may_share_memory(x, x))
assigned(x, (0, 0), np.array([9]))
repr(np.zeros((100, 100)))
np.linalg.norm(x[0], ord="inf")
slopes(lambda a: np.linalg.norm(a, ord=2), x)
slopes(lambda a: np.linalg.norm(a, ord=-2, axis=(0, 1), keepdims=True), x)
slopes(lambda a: np.linalg.norm(a, "nuc"), x)
np.linalg.pinv(x)
np.linalg.pinv(x.T)
np.linalg.pinv(np.stack([s, s]), 0.4)
np.linalg.pinv(np.stack([s, s]), np.array([0.4, 0.6]))
np.linalg.eigvalsh(s)
np.linalg.eigh(s)[0]
np.abs(np.linalg.eigh(s)[1])
np.linalg.eigvalsh(np.array([[1, 9], [2, 3]]), "U")
np.linalg.eigvalsh(np.array([[1, 9], [2, 3]]), UPLO="L")
block(lambda F, x: F.np.linalg.det(F.np.dot(x, x.T)))
block(lambda F, x: F.np.linalg.slogdet(F.np.dot(x, x.T))[1])
block(lambda F, x: F.np.linalg.pinv(x))[::2]
block(lambda F, x: F.np.linalg.eigvalsh(F.np.dot(x, x.T)))[::2]
block(lambda F, x: F.np.linalg.eigh(F.np.dot(x, x.T))[0])[::2]
np.random.weibull(a=2.0, size=3).shape
np.random.beta(a=1.0, b=2.0, size=3).dtype.name
np.random.chisquare(df=2.0, size=2).shape
np.random.pareto(a=np.ones(2), size=(3, 2)).shape
np.random.multivariate_normal(np.zeros((3, 2)), np.eye(2), size=(4,)).shape
np.random.multivariate_normal(np.zeros(2), np.stack([np.eye(2)] * 3)).shape
slopes(lambda a: np.random.weibull(a) * 0, np.ones(3))
slopes(lambda a: np.random.power(a) * 0, np.ones(3))
block(lambda F, x: F.np.inner(x, x))
block(lambda F, x: F.np.hsplit(x, 3)[1])
block(lambda F, x: F.np.diff(x))
block(lambda F, x: F.np.diff(x, 1, axis=0))
block(lambda F, x: F.np.diff(x, 2))
block(lambda F, x: F.np.ediff1d(x, to_end=1.0, to_begin=2.0))
block(lambda F, x: F.np.var(x, axis=-1, ddof=1))[::2]
block(lambda F, x: F.np.logspace(0, 1, 3) * x)
block(lambda F, x: F.np.hanning(3) * x + F.np.hamming(3) + F.np.blackman(3))
block(lambda F, x: F.np.hanning(1) * x)
block(lambda F, x: F.np.indices((2, 3), dtype="float32")[1] * x)
block(lambda F, x: F.np.where(x > 0.6, x, 2 * x))
block(lambda F, x: F.np.indices((2, 3))[1] + x)
block(lambda F, x: x * F.np.arange(3, dtype="int32"))
block(lambda F, x: F.np.argmax(x, axis=1) - x.sum(axis=1))
block(lambda F, x: (x > 0.6).astype("int32") * x)
hybridized(lambda F, x: x > 0.6)
hybridized(lambda F, x: 0.6 >= x)
hybridized(lambda F, x: x != x)
hybridized(lambda F, x: F.np.isnan(x))
hybridized(lambda F, x: F.np.isfinite(x))
hybridized(lambda F, x: F.np.logical_not(x > 0))
hybridized(lambda F, x: F.np.any(x > 1, axis=0))
hybridized(lambda F, x: F.np.all(x > -2))
hybridized(lambda F, x: (x > 0.6).astype("int32"))
hybridized(lambda F, x: F.np.bitwise_and(x.astype("int32"), 1))
hybridized(lambda F, x: F.np.lcm((4 * x).astype("int32"), 6))
hybridized(lambda F, x: F.np.bitwise_not(x.astype("int32")))
printed(lambda nn: nn.Dense(256, activation="relu"))
printed(lambda nn: nn.Conv2D(3, 3))
printed(lambda nn: nn.Dense(2).weight)
printed(lambda nn: nn.LayerNorm())
nested()
mx.sym.np.tanh(mx.sym.var("data").as_np_ndarray()).infer_shape(data=(2, 3))[1]
mx.sym.np.sum(mx.sym.var("data").as_np_ndarray()).eval(data=x)
mx.gluon.rnn.LSTM(3).begin_state(2)
slopes(lambda a: filled(np.zeros((2, 3)), a), x)
slopes(lambda a: filled(np.zeros((2, 3)), 2 * a), x)
mx.gluon.utils.split_and_load(onp.ones((2, 2)), [mx.cpu(0), mx.cpu(0)])
npx.image.random_brightness(np.ones((2, 2, 3)), 1.0, 1.0)
"""
CASES = [line for line in CASES.splitlines() if line]


def _space(mx: Any) -> dict[str, Any]:
    np, autograd = mx.np, mx.autograd

    def inplace(a: Any, change: Any) -> Any:
        return a if change(a) is a else None

    def written(a: Any, function: Any) -> Any:
        out = np.zeros(a.shape)
        function(a, out=out)
        return out * 2

    def filled(a: Any, value: Any) -> Any:
        a[:] = value
        return a * 3

    def assigned(a: Any, key: Any, value: Any) -> Any:
        a[key] = value
        return a

    def slopes(function: Any, *arrays: Any) -> list[Any]:
        for each in arrays:
            each.attach_grad()
        with autograd.record():
            found = function(*arrays)
            weighted = (found * np.cos(np.arange(found.size)).reshape(found.shape)).sum()
        weighted.backward()
        return [found, *[each.grad for each in arrays]]

    def made(function: Any) -> Any:
        class Block(mx.gluon.HybridBlock):
            def hybrid_forward(self, F: Any, x: Any) -> Any:
                return function(F, x)

        return Block()

    def block(function: Any) -> list[Any]:
        net = made(function)
        eager = slopes(net, np.array(X))
        net.hybridize()
        return [*eager, *slopes(net, np.array(X))]

    def hybridized(function: Any) -> Any:
        net = made(function)
        net.hybridize()
        return net(np.array(X))

    def printed(make: Any) -> str:
        with mx.name.NameManager():
            return repr(make(mx.gluon.nn))

    def nested() -> list[str]:
        @mx.util.use_np
        class Asked:
            @property
            def one(self) -> bool:
                return bool(mx.util.is_np_array())

            @staticmethod
            def two() -> bool:
                return bool(mx.util.is_np_shape())

        mx.npx.reset_np()
        return [str(Asked().one), str(Asked.two()), str(mx.util.is_np_array())]

    x = np.array(X)
    return {
        "mx": mx, "np": np, "npx": mx.npx, "onp": onp, "autograd": autograd, "x": x,
        "i": np.array(X * 4, dtype="int32"), "b": x > 0.6, "s": np.array(S), "slopes": slopes,
        "block": block, "inplace": inplace, "written": written, "filled": filled,
        "assigned": assigned, "hybridized": hybridized, "printed": printed, "nested": nested}


def flat(value: Any) -> list[Any]:
    """A value as [class, shape, type, numbers] of each array in it; other things as their text."""
    if isinstance(value, (list, tuple)):
        return [part for each in value for part in flat(each)]
    if not hasattr(value, "asnumpy"):
        return [str(value)]
    host = value.asnumpy()
    return [[type(value).__name__, list(host.shape), host.dtype.name,
             [float(f"{number:.7g}") for number in host.astype("float64").ravel()]]]


def evaluate(mx: Any, case: str) -> list[Any]:
    """What the expression gives, as `flat` tells it."""
    mx.npx.set_np()
    try:
        return flat(eval(case, _space(mx)))
    finally:
        mx.npx.reset_np()


def _record() -> None:
    import mxnet as mx

    rows = []
    for case in CASES:
        try:
            rows.append(f"{json.dumps(case)}: {json.dumps(evaluate(mx, case))}")
        except Exception as error:
            print(case, "|", repr(error)[:200], file=sys.stderr)
    text = ",\n".join(rows)
    FIGURES.write_text(f"{{\n{text}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    _record()
