"""Loops and branches: eager, as nodes of a graph, hybridized; gradients; files."""
from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minigluon as mx
from minigluon import autograd, nd, nn, sym

ORACLE = Path(__file__).resolve().parents[1] / "oracle"
sys.path.insert(0, str(ORACLE))

from control_symbol import control, results  # noqa: E402  (its folder is added just above)

# what MXNet 1.9.1 computes for oracle/control_symbol.py
FIGURES = [[[0.6, 4.2], [2.3005, 8.97574], [3.499, 12.9999]], [[0], [1], [4]], [3], [1.99998, 2]]


def _close(found: Any, expected: Any) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


# -- files -----------------------------------------------------------------------------------------


def test_against_mxnet() -> None:
    symbol = control(sym)
    _close(results(mx, symbol), FIGURES)
    _close(results(mx, sym.load_json(symbol.tojson())), FIGURES)


def test_mxnets_file_runs() -> None:
    text = (ORACLE / "control-symbol.json").read_text(encoding="utf-8")
    symbol = sym.load_json(text)
    _close(results(mx, symbol), FIGURES)
    assert sym.load_json(symbol.tojson()).tojson() == symbol.tojson()


# -- the same function three ways ------------------------------------------------------------------


def _sum_loop(F: Any, x: Any, w: Any) -> Any:
    def body(row: Any, states: Any) -> Any:
        total, last = states
        new = F.tanh(row * w + total)
        return [new * 2, row + last], [new, F.elemwise_add(last, row)]

    first = F.zeros_like(F.sum(x, axis=0))
    (doubled, plain), states = F.contrib.foreach(body, x, [first, first])
    return doubled, plain, *states


def _nested(F: Any, x: Any, w: Any) -> Any:
    def outer(row: Any, state: Any) -> Any:
        inner, last = F.contrib.foreach(lambda d, s: (d * s, s + d * 0.5), F.stack(row, row * w),
                                        state)
        return inner, last

    outs, last = F.contrib.foreach(outer, x, F.ones_like(F.sum(x, axis=0)))
    return outs, last


def _repeat(F: Any, x: Any, w: Any) -> Any:
    outs, [last, _] = F.contrib.while_loop(
        lambda value, rest: F.sum(rest) < 4, lambda value, rest: (value * rest, [
            value * w + 0.1, rest + 1]), [F.sum(x, axis=0), F.ones_like(F.sum(x, axis=0)) * 0.5],
        max_iterations=5)
    return outs, last


def _branch(F: Any, x: Any, w: Any) -> Any:
    total = F.sum(x)
    both = [F.contrib.cond(test, lambda: F.broadcast_mul(F.tanh(x), F.sum(w)),
                           lambda: F.broadcast_add(x * x, F.sum(w)))
            for test in (total > 100, total < 100)]
    return tuple(both)


class _Net(nn.HybridBlock):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function
        self.w = self.params.get("w", shape=(2,), init=mx.init.Constant(0.7))

    def hybrid_forward(self, F: Any, x: Any, w: Any) -> Any:
        return self.function(F, x, w)


def _outcome(net: Any, x: Any) -> list[np.ndarray]:
    x.attach_grad()
    with autograd.record():
        outs = net(x)
        total = nd.add_n(*[(out * nd.array(np.cos(np.arange(out.size)).reshape(out.shape))).sum()
                           for out in outs])
    total.backward()
    return [*(out.asnumpy() for out in outs), x.grad.asnumpy(), net.w.grad().asnumpy()]


@pytest.mark.parametrize("function", [_sum_loop, _nested, _repeat, _branch])
def test_hybridized_equals_eager(function: Any, tmp_path: Path) -> None:
    net = _Net(function)
    net.initialize()
    x = nd.array([[0.3, -0.2], [0.5, 0.1], [-0.4, 0.2]])
    eager = _outcome(net, x)
    net.hybridize()
    _close(_outcome(net, x), eager)
    _close([out.asnumpy() for out in net(x)], eager[:-2])
    net.export(str(tmp_path / "net"))
    again = nn.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"],
                                   str(tmp_path / "net-0000.params"))
    _close([out.asnumpy() for out in again(x)], eager[:-2])


def test_a_layer_in_a_loop_learns_its_shape() -> None:
    class Recurrent(nn.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.step = nn.Dense(4, activation="tanh")
                self.drop = nn.Dropout(0.5)

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            def body(row: Any, state: Any) -> Any:
                new = self.step(F.concat(row, state, dim=1))
                return self.drop(new), new

            first = F.zeros((5, 4))
            return F.contrib.foreach(body, x, first)

    net = Recurrent()
    net.initialize()
    net.hybridize()
    x = nd.random.normal(shape=(3, 5, 2))
    outs, last = net(x)
    assert (outs.shape, last.shape) == ((3, 5, 4), (5, 4))
    assert net.step.weight.shape == (4, 6)
    net.hybridize(False)
    _close([outs.asnumpy()], [net(x)[0].asnumpy()])
    net.hybridize()
    with autograd.record():
        outs, last = net(x)
    kept = outs.asnumpy() != 0
    assert 0.2 < kept.mean() < 0.8  # each step draws for itself, and backward sees what was drawn
    assert (kept[0] != kept[1]).any()
    outs.backward()
    assert np.isfinite(net.step.weight.grad().asnumpy()).all()


# -- graphs by themselves --------------------------------------------------------------------------


def test_names_and_shapes() -> None:
    outs, last = sym.contrib.foreach(lambda d, s: (d * sym.var("w") + s, s + d), sym.var("d"),
                                     sym.var("s"), name="loop")
    both = sym.Group([outs, last])
    assert both.list_arguments() == ["d", "s", "w"]
    assert both.list_outputs() == ["loop_output0", "loop_output1"]
    assert both.infer_shape(d=(3, 2), s=(2,))[:2] == ([(3, 2), (2,), (2,)], [(3, 2), (2,)])
    with pytest.raises(mx.base.ShapeError, match="as many steps each"):
        sym.contrib.foreach(lambda d, s: (d[0] + d[1], s), [sym.var("a"), sym.var("b")],
                            sym.var("s"))[0].infer_shape(a=(3, 2), b=(4, 2), s=(2,))


def test_a_loop_without_a_step_and_one_that_is_stopped() -> None:
    outs, last = sym.contrib.while_loop(lambda i: i < 0, lambda i: (i * 2, i + 1), sym.var("i"),
                                        max_iterations=3)
    executor = sym.Group([outs, last]).bind(mx.cpu(), {"i": nd.ones(1)},
                                            args_grad={"i": nd.zeros(1)})
    found = [out.asnumpy().tolist() for out in executor.forward(is_train=True)]
    assert found == [[[0], [0], [0]], [1]]
    executor.backward([nd.ones((3, 1)), nd.ones(1)])
    assert executor.grad_dict["i"].asscalar() == 1
    outs, last = sym.contrib.while_loop(lambda i: i < 9, lambda i: (i, i + 1), sym.var("i"),
                                        max_iterations=3)
    assert last.eval(i=nd.zeros(1))[0].asscalar() == 3


def test_what_a_body_does_not_read() -> None:
    outs, _ = sym.contrib.foreach(lambda d, s: (s + 1, s), sym.var("d"), sym.var("s"))
    assert outs.eval(d=nd.zeros((2, 1)), s=nd.ones(1))[0].asnumpy().tolist() == [[2], [2]]
    outs, [first, _] = sym.contrib.while_loop(
        lambda i, j: i < 2, lambda i, j: (i, [i + 1, i]), [sym.var("i"), sym.var("j")],
        max_iterations=2)
    loaded = sym.load_json(sym.Group([outs, first]).tojson())
    found = [out.asnumpy().ravel().tolist() for out in loaded.eval(i=nd.zeros(1), j=nd.ones(1))]
    assert found == [[0, 1], [2]]


def test_numbers_are_arrays_of_one_element() -> None:
    expected, _ = nd.contrib.foreach(lambda d, s: (d + s, s), nd.array([1, 2]), nd.ones(1))
    found, _ = sym.contrib.foreach(lambda d, s: (d + s, s), sym.var("d"), sym.var("s"))
    assert expected.asnumpy().tolist() == [[2], [3]]
    assert found.eval(d=nd.array([1, 2]), s=nd.ones(1))[0].asnumpy().tolist() == [[2], [3]]


# -- errors ----------------------------------------------------------------------------------------


def _one(F: Any) -> Any:
    return nd.ones(1) if F is nd else sym.var("x")


@pytest.mark.parametrize("F", [nd, sym])
def test_bad_calls(F: Any) -> None:
    x = _one(F)
    with pytest.raises(AssertionError, match=r"foreach input must be \(nested\) list of"):
        F.contrib.foreach(lambda d, s: (d, s), 3, [])
    with pytest.raises(AssertionError, match="foreach states must be"):
        F.contrib.foreach(lambda d, s: (d, s), x, 3)
    with pytest.raises(ValueError, match="expected 0 states from the body"):
        F.contrib.foreach(lambda d, s: (d, [*s, d]), x, [])
    with pytest.raises(ValueError, match="max_iterations should be specified"):
        F.contrib.while_loop(lambda i: i < 2, lambda i: (i, i), x)
    with pytest.raises(ValueError, match="at least one element"):
        F.contrib.while_loop(lambda i: i < 2, lambda i: (i, i), [], max_iterations=2)
    with pytest.raises(ValueError, match="length of loop_vars should be consistent"):
        F.contrib.while_loop(lambda i: i < 2, lambda i: (i, [i, i]), [x], max_iterations=2)


def test_bad_conditions() -> None:
    with pytest.raises(ValueError, match="not a scalar"):
        nd.contrib.cond(nd.ones(2), lambda: nd.ones(1), lambda: nd.ones(1))
    with pytest.raises(ValueError, match="Number of outputs differs"):
        sym.contrib.cond(sym.var("p"), lambda: [sym.var("x")] * 2, lambda: sym.var("x"))
    y = sym.contrib.cond(sym.var("p"), lambda: sym.var("x"), lambda: sym.var("y"))
    with pytest.raises(mx.MXNetError, match="a condition of one element"):
        y.eval(p=nd.ones(2), x=nd.ones(1), y=nd.ones(1))


def test_training_batch_norm_in_a_loop_is_refused() -> None:
    net = nn.HybridSequential()
    norm = nn.BatchNorm(in_channels=2)

    class Loop(nn.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.norm = norm

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return F.contrib.foreach(lambda d, s: (self.norm(d), s), x, [])[0]

    net.add(Loop())
    net.initialize()
    net.hybridize()
    assert net(nd.ones((3, 4, 2))).shape == (3, 4, 2)
    with autograd.record(), pytest.raises(mx.base.NotForThisError, match="auxiliary states"):
        net(nd.ones((3, 4, 2)))


def test_a_while_loop_may_have_no_outputs() -> None:
    for nothing in (None, []):
        outs, last = mx.nd.contrib.while_loop(
            lambda i: i < 3, lambda i, nothing=nothing: (nothing, i + 1), mx.nd.zeros(1),
            max_iterations=5)
        assert outs == [] and last.asscalar() == 3
        outs, last = mx.sym.contrib.while_loop(
            lambda i: i < 3, lambda i, nothing=nothing: (nothing, i + 1), mx.sym.var("i"),
            max_iterations=5)
        assert outs == [] and last.eval(i=mx.nd.zeros(1))[0].asscalar() == 3
