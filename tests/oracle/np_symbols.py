"""Blocks of ``F.np`` as MXNet 1.9.1 exports them, and what they give.

``python tests/oracle/np_symbols.py`` in an environment with MXNet writes `np_symbols.json`: for
each expression of F and x the symbol file and the first output for `X`;
`np_face/test_np_files.py` reads them.
"""
from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as onp

__all__ = ["CASES", "FIGURES", "X"]

FIGURES = Path(__file__).resolve().with_suffix(".json")
X = onp.array([[-1.25, 0.5, 2.0], [1.75, -0.375, 0.75]], "float32")
CASES = """
F.np.sum(x, axis=1, keepdims=True) + F.np.mean(x) * F.np.max(x, axis=0) - F.np.prod(x)
F.np.std(x, axis=0) + F.np.var(x, axis=0, ddof=1)
F.np.argmax(x, axis=1)
F.np.average(x, axis=1)
F.np.inner(x, x) + F.np.outer(x[0], x[1])[:2, :2] + F.np.vdot(x, x)
F.np.tensordot(x, x.T, 1)
F.np.einsum("ij,kj->ik", x, x) + F.np.matmul(x, x.T)
F.np.hsplit(x, 3)[1] * F.np.split(x, [1, 2], axis=1)[2]
F.np.diff(x, axis=1)
F.np.ediff1d(x, to_end=1.0, to_begin=2.0)
F.np.concatenate([F.np.stack([x, x], axis=1).reshape(2, 6), F.np.hstack([x, x])], axis=0)
F.np.dstack([x, x]) + F.np.vstack([x[0], x[1]]).reshape(2, 3, 1)
F.np.append(x, x)
F.np.roll(x, 1, axis=1) + F.np.flip(x, 0) + F.np.rot90(x, 2)
F.np.tril(x) + F.np.diag(x[0])[:2] + F.np.trace(x)
F.np.diagonal(x) + F.np.diagflat(x)[0, :2]
F.np.moveaxis(F.np.squeeze(F.np.expand_dims(x, 0)), 0, 1)
F.np.broadcast_to(x, (2, 2, 3))
F.np.pad(x, ((1, 1), (0, 1)))
F.np.where(x > 0.6, x, 2 * x) + F.np.where(x < 0, 1.0, x) + F.np.where(x == 2, x, 1.0)
F.np.nan_to_num(x / F.np.maximum(x, 0))
F.np.arctan2(x, 2.0) + F.np.arctan2(2.0, x) + F.np.ldexp(x, 2.0) + F.np.hypot(x, x)
(x ** 2 + 2 ** x) % 3 + (1 - x) / 2 + 2 / x - 5 % (x * x)
F.np.isnan(x)
F.np.isfinite(x)
F.np.logical_not(x > 1)
F.np.any(x > 1, axis=0)
F.np.linalg.norm(x) + F.np.linalg.norm(x, axis=1)
F.np.linalg.inv(F.np.dot(x, x.T) + F.np.eye(2)) + F.np.linalg.cholesky(F.np.dot(x, x.T))
F.np.linalg.solve(F.np.dot(x, x.T), x)
F.np.linalg.eigvalsh(F.np.dot(x, x.T)) + F.np.linalg.eigh(F.np.dot(x, x.T))[0]
F.np.linalg.pinv(x)
F.np.linalg.det(F.np.dot(x, x.T)) + F.np.linalg.slogdet(F.np.dot(x, x.T))[1]
F.np.linalg.det(F.np.stack([F.np.dot(x, x.T), 2 * F.np.dot(x, x.T)]))
F.np.zeros((2, 3)) + F.np.ones((3,)) * x + F.np.full((2, 1), 2.5) + F.np.full_like(x, 2)
F.np.arange(3) * x + F.np.linspace(0, 1, 3) + F.np.logspace(0, 1, 3) + F.np.eye(2, 3, 1)
F.np.identity(3) + F.np.hanning(3) + F.np.hamming(3) + F.np.blackman(3) + x[0]
F.np.bitwise_and(x.astype("int32"), 1) + F.np.lcm(x.astype("int32"), 2)
F.np.bitwise_xor(x.astype("int32"), F.np.bitwise_not(x.astype("int32")))
F.np.atleast_3d(x) + F.np.atleast_2d(x[0]).reshape(1, 3, 1)
F.np.around(x, 1) + F.np.sqrt(F.np.square(x)) + F.np.copy(x) + F.np.cumsum(x, axis=1)
F.np.take(x, F.np.arange(2), axis=1) + F.np.sort(x)[:, :2]
F.npx.relu(x) + F.npx.softmax(x) + F.npx.sigmoid(x) + F.npx.leaky_relu(x, act_type="gelu")
F.npx.reshape(x, (-2, 1, -1)) + F.npx.one_hot(F.np.argmax(x, axis=1), 3).reshape(2, 1, 3)
F.npx.batch_dot(F.np.expand_dims(x, 0), F.np.expand_dims(x, 0), transpose_b=True)
x[:, 1:] * x[0, 2] + x[::-1, :2]
x.sum(axis=1) + x.max(axis=1) + x.mean() + x.clip(0, 1).sum() + x.swapaxes(0, 1)[0, 1]
"""
CASES = [line for line in CASES.splitlines() if line]


def _record() -> None:
    import mxnet as mx

    mx.npx.set_np()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            compute = eval(f"lambda F, x: {case}")

            class Block(mx.gluon.HybridBlock):
                def hybrid_forward(self, F: Any, x: Any, compute: Any = compute) -> Any:
                    return compute(F, x)

            net = Block()
            net.hybridize()
            found = net(mx.np.array(X)).asnumpy()
            net.export(f"{folder}/net")
            graph = json.loads(Path(f"{folder}/net-symbol.json").read_text(encoding="utf-8"))
            rows.append(f"{json.dumps(case)}: " + json.dumps(
                [graph, found.dtype.name, found.astype("float64").tolist()],
                separators=(",", ":")))
    text = ",\n".join(rows)
    FIGURES.write_text(f"{{\n{text}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    _record()
