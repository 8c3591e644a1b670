"""Symbolic recurrent cells: MXNet's figures, packed weights, sentences, checkpoints."""
from __future__ import annotations

import importlib.util
import json
import logging
from pathlib import Path

import numpy as np
import pytest

import minigluon as mx
from minigluon import nd, rnn, sym

ORACLE = Path(__file__).resolve().parents[1] / "oracle"


def load_program():
    spec = importlib.util.spec_from_file_location("rnn_cells", ORACLE / "rnn_cells.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PROGRAM = load_program()
EXPECTED = json.loads((ORACLE / "rnn_cells.json").read_text())


@pytest.mark.parametrize("name", PROGRAM.CELLS)
def test_equals_mxnet(name):
    found = PROGRAM.run(mx, name)
    assert found.keys() == EXPECTED[name].keys()
    for key, values in EXPECTED[name].items():
        np.testing.assert_allclose(found[key], values, rtol=1e-4, atol=2e-6, err_msg=key)


@pytest.mark.parametrize("name", [name for name in PROGRAM.CELLS if name != "stack"])
def test_both_layouts_and_both_forms_of_input_agree(name):
    def outputs(layout, steps, merge):
        cell = PROGRAM.CELLS[name](rnn)
        x = sym.Variable("x")
        given = x
        if steps:
            given = [sym.SliceChannel(x, axis=layout.find("T"), num_outputs=3,
                                      squeeze_axis=True)[i] for i in range(3)]
        out, _ = cell.unroll(3, given, layout=layout, merge_outputs=merge)
        if not merge:
            out = sym.Concat(*[sym.expand_dims(each, axis=1) for each in out], dim=1)
        elif layout == "TNC":
            out = sym.swapaxes(out, dim1=0, dim2=1)
        rng = np.random.RandomState(1)
        data = rng.rand(2, 3, 5)
        shapes = dict(zip(out.list_arguments(),
                          out.infer_shape(x=(2, 3, 5) if layout == "NTC" else (3, 2, 5))[0],
                          strict=True))
        args = {key: nd.array(rng.rand(*shapes[key]) - 0.5) for key in sorted(shapes)
                if key != "x"}
        args["x"] = nd.array(data if layout == "NTC" else data.transpose(1, 0, 2))
        return out.eval(**args)[0].asnumpy()

    expected = outputs("NTC", False, True)
    for layout, steps, merge in (("TNC", False, True), ("NTC", True, False), ("TNC", True, True)):
        np.testing.assert_allclose(outputs(layout, steps, merge), expected, rtol=1e-5, atol=1e-6)


def test_names_are_those_of_mxnet():
    outputs, states = rnn.LSTMCell(3).unroll(2, sym.Variable("x"))
    net = sym.Group([*outputs, *states])
    assert net.list_outputs() == ["lstm_t0_out_output", "lstm_t1_out_output", "lstm_t1_out_output",
                                  "lstm_t1_state_output"]
    assert net.list_arguments() == ["x", "lstm_i2h_weight", "lstm_i2h_bias", "lstm_h2h_weight",
                                    "lstm_h2h_bias"]
    assert "lstm_begin_state_0_output" in net.get_internals().list_outputs()
    outputs, _ = rnn.BidirectionalCell(rnn.GRUCell(3, "l_"), rnn.GRUCell(3, "r_"),
                                       output_prefix="rnn_bi_").unroll(2, sym.Variable("x"))
    assert [out.list_outputs() for out in outputs] == [["rnn_bi_t0_output"], ["rnn_bi_t1_output"]]
    both = rnn.BidirectionalCell(rnn.GRUCell(3, "l_"), rnn.GRUCell(3, "r_"))
    merged, _ = both.unroll(2, sym.Variable("x"), merge_outputs=True)
    assert merged.list_outputs() == ["bi_out_output"]


def test_states_as_inputs_and_shared_weights():
    cell = rnn.RNNCell(3)
    first = cell.begin_state(func=sym.Variable)
    out, _ = cell(sym.Variable("x"), first)
    assert out.list_arguments() == ["x", "rnn_i2h_weight", "rnn_i2h_bias", "rnn_begin_state_0",
                                    "rnn_h2h_weight", "rnn_h2h_bias"]
    other = rnn.RNNCell(3, params=cell.params)
    assert other._iW is cell._iW
    stack = rnn.SequentialRNNCell(params=rnn.RNNParams("all_"))
    with pytest.raises(AssertionError, match="not both"):
        stack.add(other)


def test_weights_unpack_and_pack():
    lstm = rnn.LSTMCell(3)
    args = {"lstm_i2h_weight": nd.arange(24).reshape((12, 2)), "lstm_i2h_bias": nd.arange(12),
            "lstm_h2h_weight": nd.ones((12, 3)), "lstm_h2h_bias": nd.zeros((12,)),
            "other": nd.ones((1,))}
    unpacked = lstm.unpack_weights(args)
    assert unpacked["lstm_i2h_f_weight"].asnumpy().tolist() == [[6, 7], [8, 9], [10, 11]]
    assert unpacked["lstm_h2h_o_bias"].shape == (3,) and "lstm_i2h_weight" not in unpacked
    packed = lstm.pack_weights(unpacked)
    assert packed.keys() == args.keys()
    for name, array in args.items():
        np.testing.assert_array_equal(packed[name].asnumpy(), array.asnumpy())


@pytest.mark.parametrize("mode", ["lstm", "gru", "rnn_tanh", "rnn_relu"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_unfused_equals_fused(mode, bidirectional):
    fused = rnn.FusedRNNCell(4, 2, mode, bidirectional, prefix="f_", get_next_state=True)
    stack = fused.unfuse()
    one, states = fused.unroll(3, sym.Variable("x"), merge_outputs=True)
    two, other_states = stack.unroll(3, sym.Variable("x"), merge_outputs=True)
    assert len(states) == (2 if mode == "lstm" else 1)
    shapes = dict(zip(one.list_arguments(), one.infer_shape(x=(2, 3, 5))[0], strict=True))
    vector = nd.random.uniform(-0.5, 0.5, shape=shapes["f_parameters"])
    x = nd.random.uniform(shape=(2, 3, 5))
    unpacked = fused.unpack_weights({"f_parameters": vector})
    np.testing.assert_array_equal(
        fused.pack_weights(unpacked)["f_parameters"].asnumpy(), vector.asnumpy())
    fused_out = sym.Group([one, states[0]]).eval(x=x, f_parameters=vector)
    stack_out = two.eval(x=x, **stack.pack_weights(unpacked))[0]
    np.testing.assert_allclose(fused_out[0].asnumpy(), stack_out.asnumpy(), rtol=1e-5, atol=1e-6)
    last = sym.Concat(*other_states, dim=0) if mode != "lstm" else None
    if last is not None:
        found = last.eval(x=x, **stack.pack_weights(unpacked))[0].asnumpy()
        np.testing.assert_allclose(fused_out[1].asnumpy().reshape(found.shape), found, rtol=1e-5,
                                   atol=1e-6)


def test_zoneout_keeps_the_step_before():
    cell = rnn.ZoneoutCell(rnn.RNNCell(50), zoneout_outputs=0.5, zoneout_states=0.5)
    outputs, states = cell.unroll(3, sym.Variable("x"), merge_outputs=True)
    net = sym.Group([outputs, *states])
    executor = net.simple_bind(mx.cpu(), x=(1, 3, 2))
    for array in executor.arg_arrays:
        array[:] = 0.3
    out, state = executor.forward(is_train=True, x=nd.array([[[1, 1], [2, 2], [3, 3]]]))
    steps = out.asnumpy()[0]
    kept = steps[1] == steps[0]
    assert 10 < kept.sum() < 45
    assert (steps[0][steps[0] != 0] > 0.5).all()
    assert 0 < (state.asnumpy() == 0).sum() < 25  # some never left the beginning


def test_misuse():
    with pytest.raises(ValueError, match="mode: expected one of"):
        rnn.FusedRNNCell(3, mode="lsmt")
    with pytest.raises(NotImplementedError, match="use unroll"):
        rnn.FusedRNNCell(3)(sym.Variable("x"), [])
    with pytest.raises(NotImplementedError, match="whole sequence"):
        rnn.BidirectionalCell(rnn.RNNCell(2), rnn.RNNCell(2))(sym.Variable("x"), [])
    with pytest.raises(AssertionError, match="cannot be stepped"):
        rnn.ZoneoutCell(rnn.FusedRNNCell(3))
    base = rnn.RNNCell(3)
    rnn.ResidualCell(base)
    with pytest.raises(AssertionError, match="call the modifier cell instead"):
        base.begin_state()
    with pytest.raises(ValueError, match="expected 3 inputs, got 2"):
        rnn.RNNCell(3).unroll(3, [sym.Variable("a"), sym.Variable("b")])
    with pytest.raises(ValueError, match="expected a T for time"):
        rnn.RNNCell(3).unroll(3, sym.Variable("x"), layout="NC")
    with pytest.raises(ValueError, match="expected a number"):
        rnn.DropoutCell("much")


def test_words_become_numbers():
    words = [["a", "b"], ["c", "a", "d"]]
    assert rnn.encode_sentences(words, start_label=1, invalid_label=0) == (
        [[1, 2], [3, 1, 4]], {"\n": 0, "a": 1, "b": 2, "c": 3, "d": 4})
    coded, vocab = rnn.encode_sentences([["a", "z"]], vocab={"a": 5, "?": 0}, unknown_token="?")
    assert coded == [[5, 0]] and vocab == {"a": 5, "?": 0}
    with pytest.raises(ValueError, match="unknown word 'z'"):
        rnn.encode_sentences([["z"]], vocab={"a": 5})
    assert rnn.encode_sentences([["a", "b"]], invalid_label=1)[0] == [[0, 2]]


def test_sentences_come_in_buckets(caplog):
    sentences = [[1, 2, 3], [4, 5], [6, 7, 8, 9, 1], [2, 3], [1] * 9]
    with caplog.at_level(logging.WARNING):
        batches = rnn.BucketSentenceIter(sentences, 2, buckets=[2, 5], invalid_label=0)
    assert "discarded 1 sentences" in caplog.text
    assert batches.default_bucket_key == 5
    assert batches.provide_data[0].shape == (2, 5)
    for _ in range(2):
        found = {batch.bucket_key: batch for batch in batches}
        assert set(found) == {2, 5}
        data, label = found[5].data[0].asnumpy(), found[5].label[0].asnumpy()
        assert sorted(data.tolist()) == [[1, 2, 3, 0, 0], [6, 7, 8, 9, 1]]
        np.testing.assert_array_equal(label[:, :-1], data[:, 1:])
        assert (label[:, -1] == 0).all()
        assert found[2].provide_label[0] == ("softmax_label", (2, 2))
        batches.reset()
    turned = rnn.BucketSentenceIter(sentences * 2, 2, invalid_label=0, layout="TN")
    assert turned.buckets == [2, 3, 5, 9]
    assert next(turned).data[0].shape[1] == 2
    with pytest.raises(ValueError, match="no length has enough sentences"):
        rnn.BucketSentenceIter(sentences, 100)


def test_a_checkpoint_moves_weights_from_fused_to_unfused(tmp_path):
    prefix = str(tmp_path / "net")
    fused = rnn.FusedRNNCell(4, 1, "lstm", prefix="f_")
    net, _ = fused.unroll(3, sym.Variable("data"), merge_outputs=True)
    vector = nd.random.uniform(shape=net.infer_shape(data=(2, 3, 5))[0][1])
    rnn.do_rnn_checkpoint(fused, prefix, 2)(1, net, {"f_parameters": vector}, {})
    assert "arg:f_l0_i2h_f_weight" in nd.load(f"{prefix}-0002.params")
    stack = fused.unfuse()
    _, args, aux = rnn.load_rnn_checkpoint(stack, prefix, 2)
    assert set(args) == {"f_l0_i2h_weight", "f_l0_i2h_bias", "f_l0_h2h_weight", "f_l0_h2h_bias"}
    assert aux == {}
    loaded, args, _ = rnn.load_rnn_checkpoint(fused, prefix, 2)
    np.testing.assert_array_equal(args["f_parameters"].asnumpy(), vector.asnumpy())
    assert loaded.tojson() == net.tojson()
    with pytest.warns(DeprecationWarning, match="cell.unroll"):
        rnn.rnn_unroll(fused, 2, sym.Variable("x"))


@pytest.mark.parametrize("fused", [False, True])
def test_a_language_model_learns_in_buckets(fused):
    """The next word of a sentence that counts up or down is known from the second word on."""
    sentences = [list(range(1, 1 + n)) for n in (4, 6) for _ in range(8)]
    sentences += [list(range(n, 0, -1)) for n in (4, 6) for _ in range(8)]
    mx.random.seed(1)
    batches = rnn.BucketSentenceIter(sentences, 8, invalid_label=0)
    cell = rnn.FusedRNNCell(16, mode="lstm", prefix="l_") if fused else rnn.LSTMCell(16, "l_")

    def network(length):
        embedded = sym.Embedding(sym.Variable("data"), input_dim=8, output_dim=8, name="embed")
        cell.reset()
        outputs, _ = cell.unroll(length, embedded, merge_outputs=True)
        scores = sym.FullyConnected(sym.Reshape(outputs, shape=(-1, 16)), num_hidden=8, name="fc")
        label = sym.Reshape(sym.Variable("softmax_label"), shape=(-1,))
        return sym.SoftmaxOutput(scores, label, name="softmax"), ("data",), ("softmax_label",)

    module = mx.mod.BucketingModule(network, batches.default_bucket_key)
    perplexity = mx.metric.Perplexity(ignore_label=0)
    module.fit(batches, num_epoch=12, eval_metric=perplexity, optimizer="adam",
               optimizer_params={"learning_rate": 0.05}, initializer=mx.init.Xavier())
    assert module.score(batches, perplexity)[0][1] < 2
    assert set(module._buckets) == {4, 6}
