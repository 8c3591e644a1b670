"""Recurrent cells and layers: MXNet 1.9.1's figures and graphs, and what they promise."""
from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minigluon as mx
from minigluon import autograd, nd
from minigluon.base import MXNetError, ParameterMismatch
from minigluon.gluon import HybridBlock, SymbolBlock, nn, rnn
from minigluon.gluon.contrib import rnn as contrib
from minigluon.test_utils import assert_almost_equal

FOLDER = Path(__file__).resolve().parents[1] / "oracle"
ORACLE = json.loads((FOLDER / "rnn.json").read_text(encoding="utf-8"))
LAYERS = {"rnn": rnn.RNN, "lstm": rnn.LSTM, "gru": rnn.GRU}


def _program(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"oracle_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


program, lstm_net = _program("rnn"), _program("lstm_net")


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _numbers(item)
    else:
        yield value


# -- against MXNet ------------------------------------------------------------------------------


@pytest.mark.parametrize("hybridize", [False, True])
def test_figures_are_those_of_mxnet(hybridize: bool) -> None:
    """Outputs, states, gradients of parameters and input: 48 unrolled cells, 54 layers."""
    expected = ORACLE["figures"]
    some = [name for name in expected if not hybridize or "NTC valid" in name or "2 both" in name]
    found = program.figures(mx, hybridize, some.__contains__)
    assert list(found) == some
    for name in some:
        figures = expected[name]
        assert list(found[name].get("params", [])) == list(figures.get("params", [])), name
        one, other = list(_numbers(found[name])), list(_numbers(figures))
        if "params" not in figures:
            one = one[:len(other)]
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5, err_msg=name)


def test_graphs_are_those_of_mxnet() -> None:
    """Every node's operator, name and inputs; and reprs."""
    assert json.loads(json.dumps(program.graphs(mx))) == ORACLE["graphs"]


def test_an_lstm_of_ones() -> None:
    layer = rnn.LSTM(2, num_layers=6, bidirectional=True)
    layer.initialize(mx.init.One())
    found = layer(nd.ones((2, 2, 2)))
    expected = np.array([[[0.72045636] * 2 + [0.95215213] * 2] * 2,
                         [[0.95215213] * 2 + [0.72045636] * 2] * 2])
    np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-6)


# -- layers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("layout", ["TNC", "NTC"])
def test_a_layer_equals_its_cells(kind: str, count: int, both: bool, layout: str) -> None:
    layer = LAYERS[kind](6, count, layout=layout, bidirectional=both, input_size=5)
    layer.initialize(mx.init.Uniform(0.5))
    stack = layer._unfuse()
    assert dict(stack.collect_params().items()) == dict(layer.collect_params().items())
    one = nd.random.normal(shape=(4, 3, 5) if layout == "TNC" else (3, 4, 5))
    other = one.copy()
    results = []
    for block, x in ((layer, one), (stack, other)):
        x.attach_grad()
        with autograd.record():
            if block is layer:
                out, states = layer(x, layer.begin_state(batch_size=3))
            else:
                out, states = stack.unroll(4, x, layout=layout, merge_outputs=True)
                # of a bidirectional stack: l0 h, l0 c, r0 h, r0 c, ...
                per_cell = 2 if kind == "lstm" else 1
                states = [nd.stack(*states[i::per_cell], axis=0) for i in range(per_cell)]
            loss = (out * out).sum() + sum((s.sum() for s in states), nd.zeros((1,)))
        loss.backward()
        results.append([out, *states, x.grad.copy(),
                        *[p.grad().copy() for p in layer.collect_params().values()]])
    for a, b in zip(*results, strict=True):
        assert_almost_equal(a, b, rtol=1e-4, atol=1e-5)


def test_a_projected_lstm_equals_its_cell() -> None:
    layer, cell = rnn.LSTM(6, 1, projection_size=4, input_size=5), contrib.LSTMPCell(6, 4)
    layer.initialize(mx.init.Uniform(0.5))
    cell.initialize()
    x = nd.random.normal(shape=(3, 2, 5))
    cell.unroll(3, x, layout="TNC")
    for name, parameter in cell._reg_params.items():
        parameter.set_data(getattr(layer, f"l0_{name}").data())
    results = []
    for block in (layer, cell):
        with autograd.record():
            out = (layer(x) if block is layer else
                   cell.unroll(3, x, layout="TNC", merge_outputs=True)[0])
        out.backward(nd.arange(24).reshape((3, 2, 4)))
        grads = {name.removeprefix("l0_"): parameter.grad()
                 for name, parameter in block._reg_params.items()}
        results.append([out, *[grads[name] for name in sorted(grads)]])
    for a, b in zip(*results, strict=True):
        assert_almost_equal(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", LAYERS)
def test_shapes_states_and_what_a_call_returns(kind: str) -> None:
    layer = LAYERS[kind](6, 2, bidirectional=True, layout="NTC")
    layer.initialize()
    x = nd.ones((3, 4, 5))
    layer.infer_shape(x, layer.begin_state(batch_size=3))
    assert layer.l0_i2h_weight.shape[1] == layer.r0_i2h_weight.shape[1] == 5
    states = layer.begin_state(batch_size=3)
    assert [state.shape for state in states] == [(4, 3, 6)] * (2 if kind == "lstm" else 1)
    for hybrid in (False, True):
        if hybrid:
            layer.hybridize()
        assert layer(x).shape == (3, 4, 12)
        out, last = layer(x, states)
        assert out.shape == (3, 4, 12)
        assert [state.shape for state in last] == [state.shape for state in states]
        assert layer(x).shape == (3, 4, 12)  # with and without states, in any order
    if kind != "lstm":
        assert layer(x, states[0])[1][0].shape == states[0].shape
    assert [info["dtype"] for info in layer.state_info()] == ["float32"] * len(states)


def test_names_and_reprs() -> None:
    layer = rnn.LSTM(3, 2, bidirectional=True, prefix="net_", dropout=0.5)
    names = [f"net_{side}{i}_{word}" for i in range(2) for side in "lr"
             for word in ("i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias")]
    assert list(layer.collect_params()) == names
    assert repr(layer) == "LSTM(None -> 3, TNC, num_layers=2, dropout=0.5, bidirectional)"
    projected = rnn.LSTM(3, projection_size=2, input_size=4, prefix="net_")
    assert projected.l0_h2r_weight.shape == (2, 3)
    assert projected.l0_h2h_weight.shape == (12, 2)
    with pytest.raises(AssertionError, match="projection"):
        projected._unfuse()
    with pytest.raises(AssertionError, match="Invalid layout"):
        rnn.GRU(3, layout="CTN")
    with pytest.raises(AssertionError, match="activation"):
        rnn.RNN(3, activation="sigmoid")


def test_lengths_are_those_of_a_shorter_sequence() -> None:
    layer = rnn.GRU(6, 2, bidirectional=True, use_sequence_length=True, input_size=5)
    layer.initialize(mx.init.Uniform(0.5))
    plain = rnn.GRU(6, 2, bidirectional=True, input_size=5, params=layer.collect_params(),
                    prefix=layer.prefix)
    x, lengths = nd.random.normal(shape=(4, 3, 5)), [2, 4, 1]
    for hybrid in (False, True):
        if hybrid:
            layer.hybridize()
        out, (last,) = layer(x, layer.begin_state(batch_size=3), nd.array(lengths))
        for n, length in enumerate(lengths):
            short, (state,) = plain(x[:length, n:n + 1], plain.begin_state(batch_size=1))
            assert_almost_equal(out[:length, n:n + 1], short, rtol=1e-5, atol=1e-6)
            assert not out[length:, n].asnumpy().any()
            assert_almost_equal(last[:, n:n + 1], state, rtol=1e-5, atol=1e-6)


def test_float64_and_casts() -> None:
    layer = rnn.LSTM(4, dtype="float64", input_size=3)
    layer.initialize()
    assert layer(nd.ones((2, 2, 3), dtype="float64")).dtype == np.float64
    assert layer.begin_state(batch_size=1)[0].dtype == np.float64
    layer.cast("float32")
    assert layer(nd.ones((2, 2, 3))).dtype == np.float32
    net = nn.HybridSequential()
    net.add(rnn.GRU(4), nn.BatchNorm(axis=2), rnn.LSTM(3, bidirectional=True))
    net.cast("float32")
    net.initialize()
    eager = net(nd.ones((2, 2, 3)))
    net.hybridize()
    assert_almost_equal(net(nd.ones((2, 2, 3))), eager)


def test_dropout_between_layers_only_while_training() -> None:
    mx.random.seed(2)
    layer = rnn.LSTM(50, 2, dropout=0.5, input_size=3)
    layer.initialize(mx.init.Uniform(0.5))
    x = nd.random.normal(shape=(3, 2, 3))
    plain = layer(x).asnumpy()
    np.testing.assert_array_equal(layer(x).asnumpy(), plain)
    runs = []
    for hybrid in (False, True):
        if hybrid:
            layer.hybridize()
        x.attach_grad()
        mx.random.seed(4)
        with autograd.record():
            out = layer(x)
            loss = (out * out).sum()
        loss.backward()
        assert abs(out.asnumpy() - plain).max() > 1e-3
        runs.append([out, x.grad.copy(), layer.l1_i2h_weight.grad().copy()])
    for a, b in zip(*runs, strict=True):
        assert_almost_equal(a, b, rtol=1e-5, atol=1e-6)
    # the mask of the gradient is that of the forward: differences with the seed repeated
    step = nd.random.normal(shape=x.shape)

    def value(shift: float) -> float:
        mx.random.seed(4)
        with autograd.train_mode():
            found = layer(x + shift * step)
        return float((found * found).sum().asscalar())

    numeric = (value(1e-2) - value(-1e-2)) / 2e-2
    assert float((x.grad * step).sum().asscalar()) == pytest.approx(numeric, rel=1e-2)


def test_no_second_order_but_a_clear_error() -> None:
    layer = rnn.GRU(3, input_size=2)
    layer.initialize()
    x = nd.ones((2, 1, 2))
    x.attach_grad()
    with autograd.record():
        grad = autograd.grad(layer(x), [x], create_graph=True)[0].sum()
    with pytest.raises(MXNetError, match="_rnn_grad is not differentiable"):
        grad.backward()


def test_a_wrong_call_is_explained() -> None:
    layer = rnn.LSTM(2, prefix="net_")
    layer.initialize()
    with pytest.raises(ValueError, match="state: expected shape"):
        layer(nd.ones((2, 3, 4)), [nd.ones((1, 2, 2)), nd.ones((1, 2, 2))])
    with pytest.raises(MXNetError, match="missing input 'state_cell'"):
        layer(nd.ones((2, 3, 4)), [nd.ones((1, 3, 2))])
    with pytest.raises(ValueError, match="data \\(time, batch, size\\)"):
        layer(nd.ones((2, 3)))


# -- files --------------------------------------------------------------------------------------


def test_files_know_the_structure_only(tmp_path: Path) -> None:
    def make() -> nn.Sequential:
        net = nn.Sequential()
        net.add(rnn.LSTM(8), rnn.LSTM(8), nn.Dense(2))
        return net

    one, other = make(), make()
    x = nd.random.normal(shape=(4, 3, 5))
    one.initialize(mx.init.Uniform(0.5))
    expected = one(x)
    one.save_parameters(str(tmp_path / "net.params"))
    assert "0._unfused.0.i2h_weight" in nd.load(str(tmp_path / "net.params"))
    other.load_parameters(str(tmp_path / "net.params"))
    assert_almost_equal(other(x), expected, rtol=1e-6)


def test_a_net_that_mxnet_exported(tmp_path: Path) -> None:
    """MXNet 1.9.1 wrote tests/oracle/lstm-net and printed these figures; it read what we write."""
    for net in (lstm_net.read(mx, str(FOLDER / "lstm-net")), lstm_net.make(mx)):
        assert lstm_net.figures(mx, net) == pytest.approx([16.5195, 24.69], abs=1e-4)
    net.hybridize()
    net(lstm_net.data(mx))
    net.export(str(tmp_path / "net"))
    again = lstm_net.read(mx, str(tmp_path / "net"))
    assert lstm_net.figures(mx, again) == pytest.approx([16.5195, 24.69], abs=1e-4)
    dims = [node["attrs"]["dim"] for node in json.loads((tmp_path / "net-symbol.json").read_text())
            ["nodes"] if node["op"] == "_rnn_param_concat"]
    assert dims == ["0", "0"]  # which is not what MXNet assumes where it is left out


class _Unrolled(HybridBlock):
    def __init__(self, cell: Any, layout: str = "NTC", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.cell = cell()
            self.out = nn.Dense(2, flatten=False)
        self._layout = layout

    def hybrid_forward(self, F: Any, x: Any, valid_length: Any = None) -> Any:
        out, states = self.cell.unroll(4, x, layout=self._layout, merge_outputs=True,
                                       valid_length=valid_length)
        return self.out(out), states


CELLS = {
    "rnn": lambda: rnn.RNNCell(5), "lstm": lambda: rnn.LSTMCell(5), "gru": lambda: rnn.GRUCell(5),
    "bidirectional": lambda: rnn.BidirectionalCell(rnn.LSTMCell(5), rnn.GRUCell(5)),
    "residual": lambda: rnn.ResidualCell(rnn.LSTMCell(3)),
    "zoneout": lambda: rnn.ZoneoutCell(rnn.GRUCell(5), 0.5, 0.5),
    "variational": lambda: contrib.VariationalDropoutCell(rnn.RNNCell(5), 0.3, 0.3, 0.3),
    "lstmp": lambda: contrib.LSTMPCell(5, 4)}


@pytest.mark.parametrize("layout", ["NTC", "TNC"])
@pytest.mark.parametrize("name", CELLS)
def test_unrolled_in_a_hybrid_block(name: str, layout: str, tmp_path: Path) -> None:
    """Hybridized = eager, also for another batch size; exported and imported again."""
    net = _Unrolled(CELLS[name], layout)
    net.initialize(mx.init.Uniform(0.5))
    x = nd.random.normal(shape=(4, 4, 3))
    batches = [x, x[:, :2] if layout == "TNC" else x[:2]]
    for valid in (None, [nd.array([2, 4, 1, 3]), nd.array([4, 2])]):
        calls = [(one,) if valid is None else (one, valid[i]) for i, one in enumerate(batches)]
        net.hybridize(False)
        expected = [net(*call) for call in calls]
        net.hybridize()
        for call, (out, states) in zip(calls, expected, strict=True):
            found, ends = net(*call)
            assert_almost_equal(found, out, rtol=1e-5, atol=1e-6)
            for a, b in zip(ends, states, strict=True):
                assert_almost_equal(a, b, rtol=1e-5, atol=1e-6)
        net.export(str(tmp_path / "net"))
        inputs = ["data"] if valid is None else ["data0", "data1"]
        again = SymbolBlock.imports(str(tmp_path / "net-symbol.json"), inputs,
                                    str(tmp_path / "net-0000.params"))
        for call, (out, _) in zip(calls, expected, strict=True):
            assert_almost_equal(again(*call)[0], out, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layer", [
    lambda: rnn.LSTM(5, 2, bidirectional=True, layout="NTC"), lambda: rnn.GRU(5, layout="NTC")])
def test_a_layer_in_a_hybrid_block(layer: Any, tmp_path: Path) -> None:
    net = nn.HybridSequential()
    net.add(layer(), nn.Dense(2, flatten=False))
    net.initialize(mx.init.Uniform(0.5))
    x = nd.random.normal(shape=(3, 4, 3))
    expected = net(x)
    net.hybridize()
    for batch in (3, 1):
        assert_almost_equal(net(x[:batch]), expected[:batch], rtol=1e-5, atol=1e-6)
    net.export(str(tmp_path / "net"))
    again = SymbolBlock.imports(str(tmp_path / "net-symbol.json"), "data",
                                str(tmp_path / "net-0000.params"))
    assert_almost_equal(again(x), expected, rtol=1e-5, atol=1e-6)
    symbol = mx.sym.load(str(tmp_path / "net-symbol.json"))
    _, outs, _ = symbol.infer_shape(data=(7, 2, 3))
    assert outs == [(7, 2, 2)]
    executor = symbol.simple_bind(mx.cpu(), data=(3, 4, 3))
    executor.copy_params_from({p.name: p.data() for p in net.collect_params().values()})
    assert_almost_equal(executor.forward(data=x)[0], expected, rtol=1e-5, atol=1e-6)
    smaller = executor.reshape(partial_shaping=True, data=(2, 4, 3))
    assert_almost_equal(smaller.forward(data=x[:2])[0], expected[:2], rtol=1e-5, atol=1e-6)


# -- cells --------------------------------------------------------------------------------------


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("merge", [None, True, False])
@pytest.mark.parametrize("valid", [None, [1, 3]])
@pytest.mark.parametrize("name", [*CELLS, "dropout"])
def test_forms_of_inputs_and_outputs(name: str, whole: bool, merge: bool | None, valid: Any
                                     ) -> None:
    cell = rnn.DropoutCell(0.5) if name == "dropout" else CELLS[name]()
    cell.initialize()
    inputs = nd.ones((2, 3, 3)) if whole else [nd.ones((2, 3))] * 3
    outputs, _ = cell.unroll(3, inputs, merge_outputs=merge,
                             valid_length=None if valid is None else nd.array(valid))
    one_array = merge if merge is not None else whole if name == "dropout" else valid is not None
    shapes = [outputs.shape] if one_array else [step.shape for step in outputs]
    assert [shape[:-1] for shape in shapes] == ([(2, 3)] if one_array else [(2,)] * 3)


@pytest.mark.parametrize("name", [name for name in CELLS if name != "variational"])
def test_valid_length_is_a_shorter_sequence(name: str) -> None:
    cell = CELLS[name]()
    cell.initialize(mx.init.Uniform(0.5))
    x, lengths = nd.random.normal(shape=(3, 4, 3)), [1, 4, 3]
    out, states = cell.unroll(4, x, merge_outputs=True, valid_length=nd.array(lengths))
    for n, length in enumerate(lengths):
        short, ends = cell.unroll(length, x[n:n + 1, :length], merge_outputs=True)
        assert_almost_equal(out[n:n + 1, :length], short, rtol=1e-5, atol=1e-6)
        assert not out[n, length:].asnumpy().any()
        for a, b in zip(states, ends, strict=True):
            assert_almost_equal(a[n:n + 1], b, rtol=1e-5, atol=1e-6)


def test_a_cell_alone_hybridized_steps_the_same() -> None:
    cell = rnn.LSTMCell(4)
    cell.initialize(mx.init.Uniform(0.5))
    x, states = nd.random.normal(shape=(2, 3)), cell.begin_state(batch_size=2)
    expected, ends = cell(x, states)
    cell.hybridize()
    for _ in range(2):
        found, last = cell(x, states)
        assert_almost_equal(found, expected)
        assert_almost_equal(last[1], ends[1])
    assert cell.unroll(3, nd.ones((1, 3, 3)))[0][0].shape == (1, 4)


def test_begin_state_takes_any_function() -> None:
    cell = rnn.LSTMCell(3, prefix="c_")
    assert [s.shape for s in cell.begin_state(batch_size=2, func=nd.random.uniform)] == [(2, 3)] * 2
    assert cell.begin_state(2, func=nd.ones, dtype="float64")[0].dtype == np.float64
    names = [s.name for s in cell.begin_state(2, func=mx.sym.zeros)]
    assert names == ["c_begin_state_4", "c_begin_state_5"]
    variable = cell.begin_state(2, func=mx.sym.var)[0]
    assert variable.attr_dict() == {
        "c_begin_state_6": {"__layout__": "NC", "__shape__": "(2, 3)"}}
    seen = cell.begin_state(2, func=lambda name, shape, **more: (name, shape, more))
    assert seen[0] == ("c_begin_state_8", (2, 3), {"__layout__": "NC"})
    assert rnn.GRU(3).begin_state(2, func=nd.ones)[0].asnumpy().all()


def test_float64_cells_get_float64_states() -> None:
    cell = rnn.GRUCell(3)
    cell.cast("float64")
    cell.initialize()
    x = nd.ones((2, 3, 4), dtype="float64")
    assert cell.unroll(3, x)[0][0].dtype == np.float64
    net = _Unrolled(lambda: rnn.GRUCell(3))
    net.initialize()
    net.cast("float64")
    net.hybridize()
    assert net(nd.ones((2, 4, 4), dtype="float64"))[0].dtype == np.float64


def test_lstm_bias_fills_the_forget_gate() -> None:
    cell = rnn.LSTMCell(2, i2h_bias_initializer=mx.init.LSTMBias(2.0), input_size=1)
    cell.initialize()
    assert cell.i2h_bias.data().asnumpy().tolist() == [0, 0, 2, 2, 0, 0, 0, 0]


def test_stacks_are_containers() -> None:
    for kind in (rnn.SequentialRNNCell, rnn.HybridSequentialRNNCell):
        stack = kind()
        cells = [rnn.LSTMCell(3), rnn.DropoutCell(0.3), rnn.GRUCell(2)]
        for cell in cells:
            stack.add(cell)
        assert len(stack) == 3 and stack[2] is cells[2] and list(stack) == cells
        assert [info["shape"] for info in stack.state_info(4)] == [(4, 3), (4, 3), (4, 2)]
        stack.initialize()
        states = stack.begin_state(batch_size=4)
        out, states = stack(nd.ones((4, 5)), states)
        assert out.shape == (4, 2) and [s.shape for s in states] == [(4, 3), (4, 3), (4, 2)]
    stack.hybridize()
    assert_almost_equal(stack(nd.ones((4, 5)), stack.begin_state(batch_size=4))[0], out)
    assert repr(stack).splitlines()[1] == "(0): LSTMCell(5 -> 12)"


def test_bidirectional_joins_features_and_has_lengths() -> None:
    cell = rnn.BidirectionalCell(rnn.LSTMCell(100), rnn.LSTMCell(100))
    cell.initialize()
    for length in (1, 3):
        x = nd.random.normal(shape=(2, length, 4))
        full = cell.unroll(length, x, merge_outputs=True,
                           valid_length=nd.array([length, length]))
        plain = cell.unroll(length, x, merge_outputs=True)
        assert full[0].shape == (2, length, 200)
        assert_almost_equal(full[0], plain[0])
        for a, b in zip(full[1], plain[1], strict=True):
            assert_almost_equal(a, b)
    with pytest.raises(NotImplementedError, match="use unroll"):
        cell(nd.ones((2, 4)), cell.begin_state(batch_size=2))


def test_zoneout_keeps_previous_values() -> None:
    mx.random.seed(2)
    cell = rnn.ZoneoutCell(rnn.RNNCell(50), zoneout_outputs=0.5, zoneout_states=0.4)
    cell.initialize(mx.init.Uniform(1))
    x = nd.random.normal(shape=(1, 3, 4))
    with autograd.train_mode():
        first, second, _ = (step.asnumpy()[0] for step in cell.unroll(3, x)[0])
    assert 0.3 < (first == 0).mean() < 0.7
    assert 0.3 < (second == first).mean() < 0.7
    assert_almost_equal(cell.unroll(3, x)[0][1], cell.unroll(3, x)[0][1])  # not while predicting


def test_variational_dropout_has_one_mask_a_sequence() -> None:
    mx.random.seed(2)
    cell = contrib.VariationalDropoutCell(rnn.RNNCell(50), drop_outputs=0.5)
    cell.initialize(mx.init.Uniform(1))
    x = nd.random.normal(shape=(1, 3, 4))
    with autograd.train_mode():
        steps = [step.asnumpy()[0] == 0 for step in cell.unroll(3, x)[0]]
        again = cell.unroll(3, x)[0][0].asnumpy()[0] == 0
    assert 0.2 < steps[0].mean() < 0.8
    assert all((step == steps[0]).all() for step in steps)
    assert (again != steps[0]).any()


def test_a_cell_inside_a_modifier_is_not_called_itself() -> None:
    cell = rnn.LSTMCell(3)
    outer = rnn.ResidualCell(cell)
    assert outer.params is cell.params
    with pytest.raises(AssertionError, match="modifier"):
        cell.begin_state(batch_size=2)
    with pytest.raises(AssertionError, match="modifier"):
        rnn.ZoneoutCell(cell)
    outer.initialize()
    x = nd.random.normal(shape=(2, 3))
    zeros = [nd.zeros((2, 3))] * 2
    assert_almost_equal(outer(x, outer.begin_state(batch_size=2))[0] - x, cell(x, zeros)[0])


def test_what_cannot_be_is_said() -> None:
    cell, both = rnn.LSTMCell(4), rnn.BidirectionalCell(rnn.RNNCell(2), rnn.RNNCell(2))
    cell.initialize()
    x = nd.ones((2, 3, 4))
    for call, words in (
            (lambda: cell.unroll(4, x), "expected 4 steps on axis 1"),
            (lambda: cell.unroll(3, [x[:, 0]] * 2), "got a list of 2"),
            (lambda: cell.unroll(3, x, layout="NC"), "expected 'NTC' or 'TNC'"),
            (lambda: rnn.ZoneoutCell(both), "doesn't support zoneout"),
            (lambda: contrib.VariationalDropoutCell(both, drop_states=0.5), "variational"),
            (lambda: rnn.DropoutCell("much"), "must be a number"),
            (lambda: cell.unroll(2, mx.sym.Group([mx.sym.var("a"), mx.sym.var("b")])),
             "grouped symbol")):
        with pytest.raises(ParameterMismatch, match=words):
            call()
    with pytest.raises(TypeError, match="states"):
        cell(x[:, 0])


def test_variational_dropout_gives_one_array_unless_told() -> None:
    x = nd.ones((2, 3, 4))
    for settings, merge, kind in [({}, None, nd.NDArray), ({"drop_inputs": 0.5}, None, nd.NDArray),
                                  ({}, False, list), ({"drop_states": 0.5}, None, list)]:
        cell = contrib.VariationalDropoutCell(rnn.RNNCell(5), **settings)
        cell.initialize()
        assert isinstance(cell.unroll(3, x, merge_outputs=merge)[0], kind)
