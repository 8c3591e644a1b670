"""BucketingModule, SequentialModule, PythonLossModule, FeedForward."""
from __future__ import annotations

import logging

import numpy as np
import pytest

import minigluon as mx
from minigluon import nd, sym


def data_of(count=60, seed=0):
    rng = np.random.RandomState(seed)
    data = rng.randn(count, 4).astype("float32")
    return data, data.argmax(axis=1).astype("float32")


# -- BucketingModule ------------------------------------------------------------------------------


def by_length(length):
    """The sum over the words of a sentence, classified: any length has the same parameters."""
    words = sym.Embedding(sym.var("data"), input_dim=5, output_dim=6, name="embed")
    net = sym.FullyConnected(sym.sum(words, axis=1), num_hidden=2, name="fc")
    return sym.SoftmaxOutput(net, name="softmax"), ["data"], ["softmax_label"]


def batch(length, value=1, size=2):
    return mx.io.DataBatch(
        [nd.ones((size, length)) * value], [nd.zeros((size,))], bucket_key=length,
        provide_data=[("data", (size, length))], provide_label=[("softmax_label", (size,))])


def bucketing(symbols=by_length, **settings):
    module = mx.mod.BucketingModule(symbols, default_bucket_key=8, **settings)
    module.bind([("data", (2, 8))], [("softmax_label", (2,))])
    module.init_params(mx.init.One())
    return module


@pytest.mark.parametrize("contexts", [[mx.cpu()], [mx.cpu(0), mx.cpu(1)]])
def test_buckets_share_parameters_and_optimizer(contexts):
    module = bucketing(context=contexts)
    module.init_optimizer(optimizer_params={"learning_rate": 1.0, "momentum": 0.5})
    plain = mx.mod.Module(by_length(8)[0], context=contexts)
    plain.bind([("data", (2, 8))], [("softmax_label", (2,))])
    plain.init_params(mx.init.One())
    plain.init_optimizer(optimizer_params={"learning_rate": 1.0, "momentum": 0.5})
    for length in (8, 3, 5, 3, 8):
        module.forward_backward(batch(length))
        module.update()
        plain.forward_backward(batch(length))
        plain.update()
    assert set(module._buckets) == {8, 3, 5}
    for name, array in module.get_params()[0].items():
        np.testing.assert_allclose(array.asnumpy(), plain.get_params()[0][name].asnumpy(),
                                   rtol=1e-5, atol=1e-6)
    assert module.symbol is module._buckets[8].symbol
    assert module.data_shapes[0].shape == (2, 8) and module.output_shapes[0][1] == (2, 2)


def test_parameters_set_later_reach_all_buckets():
    module = bucketing()
    module.forward(batch(3), is_train=False)
    args, aux = module.get_params()
    module.set_params({name: array * 0 for name, array in args.items()}, aux)
    module.forward(batch(3), is_train=False)
    assert module.get_outputs()[0].asnumpy().tolist() == [[0.5, 0.5]] * 2
    metric = mx.metric.create("acc")
    module.update_metric(metric, [nd.zeros((2,))])
    assert metric.get()[1] == 1.0


def test_buckets_in_files(tmp_path):
    prefix = str(tmp_path / "net")
    module = bucketing()
    module.forward(batch(3))
    module.save_checkpoint(prefix, 4)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "net-0004.params", "net-3-symbol.json", "net-8-symbol.json", "net.buckets"]
    (keys,) = nd.load(f"{prefix}.buckets")
    assert keys.dtype is np.int32 and keys.asnumpy().tolist() == [8, 3]
    loaded = mx.mod.BucketingModule.load(prefix, 4, by_length, 8)
    args, aux = module.get_params()
    direct = mx.mod.BucketingModule.load_dict(sym_gen=by_length, default_bucket_key=8,
                                              arg_params=args, aux_params=aux)
    for other in (loaded, direct):
        other.bind([("data", (2, 8))], [("softmax_label", (2,))], for_training=False)
        other.forward(batch(5), is_train=False)
        module.forward(batch(5), is_train=False)
        np.testing.assert_array_equal(other.get_outputs()[0].asnumpy(),
                                      module.get_outputs()[0].asnumpy())
    with pytest.raises(NotImplementedError, match="sym_gen and default_bucket_key are required"):
        mx.mod.BucketingModule.load(prefix, 4)


@pytest.mark.parametrize("key", [(3, 4), (3, (4, 5)), "3"])
def test_keys_of_buckets_that_are_no_array_are_not_written(tmp_path, key):
    module = bucketing(lambda key: by_length(key if key == 8 else int(key[0])))
    pair = batch(3)
    pair.bucket_key = key
    module.forward(pair)
    module.save_checkpoint(str(tmp_path / "net"), 1)
    assert {path.name for path in tmp_path.iterdir()} == {
        f"net-{key}-symbol.json", "net-0001.params", "net-8-symbol.json"}


def test_a_new_bucket_must_say_its_shapes():
    module = bucketing()
    with pytest.raises(ValueError, match="must say its shapes"):
        module.forward(mx.io.DataBatch([nd.ones((2, 3))], [nd.zeros((2,))], bucket_key=3))
    module.forward(mx.io.DataBatch([nd.ones((2, 8))], [nd.zeros((2,))]))  # the default one


# -- SequentialModule and PythonLossModule --------------------------------------------------------


def test_modules_in_a_row_train_like_one():
    data, labels = data_of()
    batches = mx.io.NDArrayIter(data, labels, 20)
    one = sym.Activation(sym.FullyConnected(sym.var("data"), num_hidden=8, name="fc1"),
                         act_type="tanh")
    settings = {"num_epoch": 4, "initializer": mx.init.One(),
                "optimizer_params": {"learning_rate": 0.5}}
    two = sym.FullyConnected(sym.var("data"), num_hidden=4, name="fc2")
    row = mx.mod.SequentialModule()
    row.add(mx.mod.Module(one, label_names=[])).add(
        mx.mod.Module(sym.SoftmaxOutput(two, name="softmax")), take_labels=True, auto_wiring=True)
    row.fit(batches, **settings)
    whole = mx.mod.Module(sym.SoftmaxOutput(
        sym.FullyConnected(one, num_hidden=4, name="fc2"), name="softmax"))
    batches.reset()
    whole.fit(batches, **settings)
    assert row.score(batches, "ce")[0][1] == pytest.approx(whole.score(batches, "ce")[0][1],
                                                           rel=1e-5)
    assert row.predict(batches).shape == (60, 4)
    assert row.data_names == ["data"] and row.output_names == ["softmax_output"]
    assert row.label_shapes and row.data_shapes[0].shape == (20, 4)
    with pytest.raises(TypeError, match="unknown meta 'take_label'"):
        row.add(whole, take_label=True)
    again = mx.mod.SequentialModule()
    for _ in range(2):
        again.add(mx.mod.Module(sym.FullyConnected(sym.var("data"), num_hidden=4, name="fc"),
                                label_names=[]), auto_wiring=True)
    again.bind([("data", (2, 4))])
    with pytest.raises(ValueError, match="modules 0 and 1 both have a parameter 'fc_weight'"):
        again.init_params()


def test_a_loss_written_in_python():
    data, labels = data_of()
    batches = mx.io.NDArrayIter(data, labels, 20)

    def gradient(scores, labels):
        return nd.softmax(scores) - nd.one_hot(labels, 4)

    net = sym.FullyConnected(sym.var("data"), num_hidden=4, name="fc")
    row = mx.mod.SequentialModule()
    row.add(mx.mod.Module(net, label_names=[]))
    row.add(mx.mod.PythonLossModule(grad_func=gradient), take_labels=True, auto_wiring=True)
    row.fit(batches, num_epoch=6, optimizer_params={"learning_rate": 1.0})
    assert row.score(batches, "acc")[0][1] > 0.85
    assert row.output_names == ["pyloss_output"]
    loss = mx.mod.PythonLossModule()
    loss.bind([("data", (2, 4))], [("softmax_label", (2,))])
    loss.init_params()
    loss.forward(mx.io.DataBatch([nd.ones((2, 4))], [nd.zeros((2,))]), is_train=True)
    with pytest.raises(NotImplementedError, match="needs a grad_func"):
        loss.backward()
    assert loss.get_params() == ({}, {})


# -- FeedForward ----------------------------------------------------------------------------------


def test_feed_forward(tmp_path, caplog):
    data, labels = data_of()
    net = sym.FullyConnected(sym.var("data"), num_hidden=4, name="fc")
    net = sym.SoftmaxOutput(net, name="softmax")
    prefix = str(tmp_path / "ff")
    with caplog.at_level(logging.INFO):
        model = mx.model.FeedForward.create(
            net, data, labels, num_epoch=20, numpy_batch_size=20, learning_rate=1.0,
            eval_data=(data, labels), epoch_end_callback=mx.callback.do_checkpoint(prefix, 20))
    assert "Epoch[19] Validation-accuracy" in caplog.text
    out = model.predict(data)
    assert isinstance(out, np.ndarray) and out.shape == (60, 4)
    assert (out.argmax(axis=1) == labels).mean() > 0.85
    iterator = mx.io.NDArrayIter(data, labels, 16)
    assert model.score(iterator) > 0.85
    out, again, found = model.predict(iterator, return_data=True)
    np.testing.assert_array_equal(again, data)
    np.testing.assert_array_equal(found, labels)
    model.save(prefix)
    loaded = mx.model.FeedForward.load(prefix, 20)
    np.testing.assert_allclose(loaded.predict(data), out, rtol=1e-5)
    with pytest.raises(ValueError, match="no parameters yet"):
        mx.model.FeedForward(net).predict(data)
    with pytest.raises(ValueError, match="y must be given"):
        mx.model.FeedForward(net, num_epoch=1).fit(data)


def test_feedforward_predicts_from_data_without_labels():
    net = sym.SoftmaxOutput(sym.FullyConnected(sym.var("data"), num_hidden=2, name="fc"),
                            name="softmax")
    args = {"fc_weight": nd.array([[1, 0], [0, 1]]), "fc_bias": nd.zeros(2)}
    model = mx.model.FeedForward(net, arg_params=args)
    found = model.predict(mx.io.NDArrayIter(np.eye(2), batch_size=2))
    np.testing.assert_allclose(found, np.exp(np.eye(2)) / (1 + np.e), rtol=1e-5)
    assert found.tolist() == model.predict(mx.io.NDArrayIter(np.eye(2), np.arange(2), 2)).tolist()
