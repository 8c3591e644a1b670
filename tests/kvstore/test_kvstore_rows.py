"""Stores of one process with row_sparse values."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minigluon as mx
from minigluon import nd

BOTH = pytest.mark.parametrize("kind", ["local", "device"])


def _rows(numbers: list[int], values: Any = 1.0, shape: tuple[int, int] = (4, 2),
          ctx: Any = None) -> Any:
    data = np.ones((len(numbers), shape[1]), "float32") * values
    return nd.sparse.row_sparse_array((data, numbers), shape=shape, ctx=ctx)


def _store(kind: str, value: Any) -> Any:
    kv = mx.kv.create(kind)
    kv.init("w", value)
    return kv


def _column(array: Any) -> list[float]:
    return array.asnumpy()[:, 0].tolist()


@BOTH
def test_rows_come_as_they_are_asked_for(kind: str) -> None:
    kv = _store(kind, _rows([0, 1, 2, 3], np.arange(1, 5)[:, None]))
    for ids in ([3, 1, 3], [[3, 1], [1, 3]]):
        for dtype in ("float32", "int64", "int32", "float16"):
            out = nd.zeros((4, 2), stype="row_sparse")
            kv.row_sparse_pull("w", out=out, row_ids=nd.array(ids, dtype=dtype))
            assert out.indices.asnumpy().tolist() == [1, 3] and _column(out) == [0, 2, 0, 4]
    outs = [nd.zeros((4, 2), mx.cpu(i), stype="row_sparse") for i in range(2)]
    kv.row_sparse_pull("w", out=outs, row_ids=[nd.array([2, 2]), nd.array([0, 3])])
    assert [_column(out) for out in outs] == [[0, 0, 3, 0], [1, 0, 0, 4]]
    kv.row_sparse_pull("w", out=outs, row_ids=nd.array([1]))
    assert [_column(out) for out in outs] == [[0, 2, 0, 0]] * 2
    kv.row_sparse_pull("w", out=outs[0], row_ids=nd.zeros((0,)))
    assert _column(outs[0]) == [0] * 4 and outs[0].indices.shape == (0,)


@BOTH
def test_several_keys(kind: str) -> None:
    kv = mx.kv.create(kind)
    kv.init([3, 5], [_rows([0, 1, 2, 3]), _rows([0, 1, 2, 3], 2)])
    outs = [[nd.zeros((4, 2), stype="row_sparse") for _ in range(2)] for _ in range(2)]
    ids = [[nd.array([0]), nd.array([1])], [nd.array([2, 2]), nd.array([3])]]
    kv.row_sparse_pull([3, 5], out=outs, row_ids=ids)
    assert [_column(out) for out in outs[0] + outs[1]] == [
        [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 2, 0], [0, 0, 0, 2]]


@BOTH
@pytest.mark.parametrize("dense", [False, True])
def test_pushes_are_summed_over_devices(kind: str, dense: bool) -> None:
    first = nd.ones((4, 2)) if dense else _rows([0, 1, 2, 3])
    kv = _store(kind, first)
    kv.push("w", [_rows([i, 3], i + 1, ctx=mx.cpu(i)) for i in range(3)])
    out = nd.zeros((4, 2))
    kv.pull("w", out=out)
    assert _column(out) == [1, 2, 3, 6]
    rows = nd.zeros((4, 2), stype="row_sparse")
    kv.pull("w", out=rows)
    assert _column(rows) == [0] * 4
    kv.pull("w", out=rows, ignore_sparse=False)
    assert _column(rows) == [1, 2, 3, 6]
    kv.push("w", nd.ones((4, 2)))
    kv.pull("w", out=out)
    assert _column(out) == [1] * 4


@BOTH
def test_the_optimizer_updates_the_rows_pushed(kind: str) -> None:
    kv = _store(kind, _rows([0, 1, 2, 3]))
    kv.set_optimizer(mx.optimizer.SGD(learning_rate=1.0, momentum=0.5))
    for _ in range(2):
        kv.push("w", [_rows([1], ctx=mx.cpu(0)), _rows([2], 2, ctx=mx.cpu(1))])
    out = nd.zeros((4, 2), stype="row_sparse")
    kv.row_sparse_pull("w", out=out, row_ids=nd.array([0, 1, 2, 3]))
    assert _column(out) == [1, 1 - 1 - 1.5, 1 - 2 - 3, 1]


@BOTH
def test_what_is_refused(kind: str) -> None:
    kv = _store(kind, _rows([0]))
    out = nd.zeros((4, 2), stype="row_sparse")
    kv.init("d", nd.ones((4, 2)))
    ids = nd.array([0])
    for error, said, call in (
        (mx.MXNetError, "not been initialized",
         lambda: kv.row_sparse_pull("q", out=out, row_ids=ids)),
        (mx.MXNetError, "not been initialized", lambda: kv.pull("q", out, ignore_sparse=False)),
        (mx.MXNetError, "expected row_sparse arrays",
         lambda: kv.row_sparse_pull("w", out=nd.ones((4, 2)), row_ids=ids)),
        (mx.MXNetError, "dense value", lambda: kv.row_sparse_pull("d", out=out, row_ids=ids)),
        (mx.MXNetError, "row numbers", lambda: kv.row_sparse_pull("w", out=out)),
        (mx.MXNetError, "2 arrays but 3 row_ids",
         lambda: kv.row_sparse_pull("w", out=[out, out], row_ids=[ids] * 3)),
        (mx.MXNetError, "need a list",
         lambda: kv.row_sparse_pull(["w", "d"], out=[out, out], row_ids=ids)),
        (IndexError, r"\[0, 4\)", lambda: kv.row_sparse_pull("w", out, 0, nd.array([7]))),
        (TypeError, "list", lambda: kv.row_sparse_pull("w", out=out, row_ids=[[1]])),
        (mx.MXNetError, "type int", lambda: kv.row_sparse_pull(3, out=out, row_ids=ids)),
    ):
        with pytest.raises(error, match=said):
            call()
