"""What MXNet 1.9.1 makes of sparse arrays: classes, element types, values and index arrays.

``python tests/oracle/sparse.py`` in an environment with MXNet writes `sparse.json`;
`ndarray/test_sparse.py` evaluates the same expressions here and compares.
"""
from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["FIGURES", "evaluated", "expressions", "trained"]

FIGURES = Path(__file__).resolve().with_suffix(".json")

# of an array x: once csr (c), once row_sparse (r); d is the dense one
OF_X = (
    "x[0]", "x[0:2]", "x[1:]", "x[:]", "x[-1]", "x[0,1]", "x.reshape((9,))", "x.T",
    'x.astype("float64")', "x.copy()", "x.copyto(mx.cpu())", "x.as_in_context(mx.cpu(1))", "x+x",
    "x+1", "x*2", "x/2", "x-x", "x*x", "x/x", "2*x", "1-x", "-x", "x**2", "abs(x)", "x==x", "x>0",
    "x.sum()", "x.sum(axis=0)", "x.sum(axis=1)", "x.sum(axis=1,keepdims=True)", "x.mean()",
    "x.mean(axis=0)", "x.sqrt()", "x.sign()", "x.relu()", "x.square()", "x.exp()", "x.log()",
    "x.norm()", "x.clip(0,1)", "x.clip(-1,2)", "x.slice(begin=(1,),end=(3,))",
    "x.slice(begin=(0,1),end=(2,3))", "x.zeros_like()", "x.ones_like()",
    "sp.retain(x,nd.array([1,2]))", "nd.dot(x,d)", "nd.dot(x,d,transpose_a=True)", "nd.dot(d,x)",
    "nd.dot(x,x)", "nd.dot(d,x,transpose_b=True)", 'nd.dot(x,d,forward_stype="csr")',
    'nd.dot(x,d,transpose_a=True,forward_stype="default")',
    'nd.dot(x,d,transpose_a=True,forward_stype="row_sparse")', "nd.dot(x, nd.ones((3,)))",
    "sp.add_n(x,x)", "nd.add_n(x,d)", "x+d", "d+x", "x*d", "d*x", "d-x", "x-d", "x/d",
    "sp.add(x,d)", "sp.multiply(x,d)", "sp.multiply(x, nd.ones((1,3)))",
    "sp.add(x,nd.ones((1,3)))", "sp.divide(x,nd.ones((1,3))*2)", "nd.where(x,d,d)",
    "sp.where(c,d,d)", "nd.elemwise_add(x,x)", "nd.elemwise_mul(x,x)", "nd.elemwise_mul(x,d)",
    "nd.elemwise_div(x,x)", "nd.broadcast_mul(x,nd.ones((1,3)))",
    "nd._internal._square_sum(x,axis=1)", "nd._internal._square_sum(x,axis=1,keepdims=True)",
    "nd._internal._square_sum(x,axis=0)", 'nd.cast_storage(x,"default")',
    'nd.cast_storage(x,"csr")', 'nd.cast_storage(x,"row_sparse")', 'x.tostype("default")',
    'x.tostype("csr")', 'x.tostype("row_sparse")', 'x.tostype("foo")', "nd.concat(x,x,dim=0)",
    "sp.concat(x,x,dim=0)", "x.expand_dims(0)", "nd.array(x)", "sp.array(x)", "sp.array(a)",
    'sp.zeros("csr",(2,2))', 'sp.zeros("row_sparse",(2,2))', 'sp.zeros("default",(2,2))',
    'sp.empty("csr",(2,2))', 'nd.zeros((2,2),stype="csr")', 'nd.empty((2,2),stype="csr")',
    "nd.maximum(x,0)", "nd.maximum(x,x)", "nd.stack(x,x)",
    "nd.FullyConnected(x,d,num_hidden=3,no_bias=True)", "nd.softmax(x)", "nd.BlockGrad(x)",
    "nd.make_loss(x)", "nd.identity(x)", "x.detach()", "x%2", "x.max()", "x.dot(d)",
    "nd.broadcast_to(nd.ones((1,3)),(3,3))", "nd.sigmoid(x)",
    "nd._internal._plus_scalar(x,scalar=1)", "nd._internal._mul_scalar(x,scalar=2)",
    "nd._internal._div_scalar(x,scalar=2)", "nd._internal._power_scalar(x,scalar=2)",
    "x+0", "x-0", "nd.take(x,nd.array([2,0,0,7]))", 'nd.take(x,nd.array([2,-1,4]),mode="wrap")',
    "sp.multiply(d,x)", "nd.dot(d,x,transpose_a=True)",
    "nd.dot(d,x,transpose_a=True,transpose_b=True)",
)
MADE = (
    "sp.csr_matrix(([1,2,3],[0,2,1],[0,1,2,3]),shape=(3,3))",
    "sp.csr_matrix(([1,2,3],[0,2,1],[0,1,2,3]))",
    "sp.csr_matrix(([1,2,3],([0,0,2],[1,2,0])),shape=(3,3))",
    "sp.csr_matrix(([1,2,3],([0,0,2],[1,2,0])))", "sp.csr_matrix(a)", "sp.csr_matrix(d)",
    "sp.csr_matrix((2,3))", "sp.csr_matrix(c)", "sp.csr_matrix([[1,0],[0,2]])",
    'sp.csr_matrix(a.astype("float64"))', 'sp.csr_matrix(a.astype("int32"))',
    'sp.csr_matrix(a.astype("int32"),dtype="float64")',
    "sp.csr_matrix((np.array([1,2]),np.array([0,1]),np.array([0,1,2])),shape=(2,3))",
    'sp.csr_matrix((np.array([1.,2]),np.array([0,1]),np.array([0,1,2])),shape=(2,3),dtype="int32")',
    "sp.csr_matrix(5)", 'sp.csr_matrix("x")', "sp.csr_matrix(([1,2],[0,1]),shape=(2,2))",
    "sp.row_sparse_array(([[1,2],[3,4]],[1,4]),shape=(6,2))",
    "sp.row_sparse_array(([[1,2],[3,4]],[1,4]))",
    "sp.row_sparse_array(([[1,2],[3,4]],[4,1]),shape=(6,2))", "sp.row_sparse_array(a)",
    "sp.row_sparse_array(d)", "sp.row_sparse_array(r)", "sp.row_sparse_array((4,2))",
    "sp.row_sparse_array((4,2,3))", "sp.row_sparse_array(5)", "sp.row_sparse_array(c)",
    "sp.csr_matrix(r)",
    'sp.row_sparse_array((np.ones((2,2),"float64"),np.array([0,1])),shape=(3,2))',
    "sp.row_sparse_array(([[1,2],[3,4]],[1,9]),shape=(6,2))", "sp.array(5)", "sp.array([1,2])",
    'sp.zeros("foo",(2,2))', "nd.array(c)", 'nd.array(c, dtype="int32")',
    'mx.nd.sparse.array(c,dtype="float64")', "sp.retain(r,nd.array([0,2]))",
    "sp.retain(c,nd.array([0]))", 'sp.retain(r,nd.array([1],dtype="int64"))',
)
GRADIENTS = ("x.exp()", "x / 2", "x ** 2", "x + x", "x * x", "nd.dot(x, d)", "x.sum()",
             "nd.square(x)")


def expressions() -> Iterator[str]:
    """Everything that is evaluated."""
    for word in "cr":
        yield from (f"{word}: {text}" for text in OF_X)
    yield from (f"made: {text}" for text in MADE)
    for stype in ("default", "row_sparse", "csr"):
        yield from (f"gradient {stype}: {text}" for text in GRADIENTS)
    for left in ("default", "csr"):
        for right in ("default", "row_sparse"):
            for wanted in ("default", "row_sparse"):
                for flip in (False, True):
                    yield f"dot {left} {right} {wanted} {flip}: "


def described(result: Any) -> Any:
    """Class, element type, shape, values, and the index arrays of a sparse result."""
    parts = {"row_sparse": ["indices"], "csr": ["indices", "indptr"]}.get(result.stype, [])
    return [type(result).__name__, np.dtype(result.dtype).name, list(result.shape),
            result.asnumpy().tolist(), [getattr(result, part).asnumpy().tolist() for part in parts]]


def evaluated(mx: Any, expression: str) -> Any:
    """`described` of what an expression gives, or None where it is an error."""
    nd, sp = mx.nd, mx.nd.sparse
    a = np.array([[0, 1, 0], [2, 0, 3], [0, 0, 0]], "float32")
    d = nd.array(a)
    c, r = d.tostype("csr"), d.tostype("row_sparse")
    how, text = expression.split(": ", 1)
    known = {"nd": nd, "sp": sp, "mx": mx, "np": np, "a": a, "d": d, "c": c, "r": r}
    if how.startswith("gradient"):
        x = known["x"] = d.tostype(how.split()[1])
        x.attach_grad()
        with mx.autograd.record():
            y = eval(text, known)
        y.backward()
        return described(x.grad)
    if how.startswith("dot"):
        _, left, right, wanted, flip = how.split()
        weight = (d.T + 1).tostype(right)
        weight.attach_grad(stype=wanted)
        with mx.autograd.record():
            y = nd.dot(d.tostype(left), weight, transpose_a=flip == "True")
        y.backward()
        return described(weight.grad)
    known["x"] = {"c": c, "r": r}.get(how)
    try:
        result = eval(text, known)
        return described(result) if isinstance(result, nd.NDArray) else None
    except Exception:  # what it refuses is not compared
        return None


OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("sgd", {"wd": 0.01}),
    "sgd clipped": ("sgd", {"wd": 0.01, "clip_gradient": 0.3, "rescale_grad": 0.5}),
    "sgd whole": ("sgd", {"wd": 0.01, "lazy_update": False}),
    "momentum": ("sgd", {"momentum": 0.9, "wd": 0.01}),
    "momentum whole": ("sgd", {"momentum": 0.9, "wd": 0.01, "lazy_update": False}),
    "adam": ("adam", {"wd": 0.01}),
    "adam whole": ("adam", {"wd": 0.01, "lazy_update": False}),
    "adagrad": ("adagrad", {"clip_gradient": 0.4}),
    "groupadagrad": ("groupadagrad", {}),
    "ftrl": ("ftrl", {"wd": 0.01}),
    "nag": ("nag", {"momentum": 0.9, "wd": 0.01}),
    "rmsprop": ("rmsprop", {}),
}
"""Optimizers by a name of the case: (name, settings)."""


def trained(mx: Any, case: str, stype: str) -> Any:
    """A weight of 5 rows after 20 updates by row_sparse gradients of two rows each, as a list."""
    name, settings = OPTIMIZERS[case]
    optimizer = mx.optimizer.create(name, learning_rate=0.1, **settings)
    random = np.random.RandomState(3)
    weight = mx.nd.array(random.normal(size=(5, 2))).tostype(stype)
    updater = mx.optimizer.get_updater(optimizer)
    for _ in range(20):
        rows = np.sort(random.permutation(5)[:2])
        values = random.normal(size=(2, 2)).astype("float32")
        grad = mx.nd.sparse.row_sparse_array((values, rows), shape=(5, 2))
        updater(0, grad, weight)
    return weight.asnumpy().tolist()


def _main() -> None:
    import mxnet as mx

    figures: dict[str, Any] = {text: evaluated(mx, text) for text in expressions()}
    figures = {text: found for text, found in figures.items() if found is not None}
    for case in OPTIMIZERS:
        for stype in ("default", "row_sparse"):
            try:
                figures[f"trained {case} {stype}"] = trained(mx, case, stype)
            except mx.MXNetError as error:
                print(case, stype, str(error).splitlines()[-1], file=sys.stderr)
    lines = [f"{json.dumps(text)}: {json.dumps(found)}" for text, found in figures.items()]
    FIGURES.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    _main()
