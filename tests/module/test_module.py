"""Module: training like MXNet's own, several contexts, checkpoints, states, errors."""
from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest

import minigluon as mx
from minigluon import nd, sym

ORACLE = Path(__file__).resolve().parents[1] / "oracle"
BATCH = 10


def network():
    net = sym.FullyConnected(sym.var("data"), num_hidden=8, name="fc1")
    net = sym.BatchNorm(net, name="bn", fix_gamma=False)
    net = sym.Activation(net, act_type="tanh", name="act")
    net = sym.FullyConnected(net, num_hidden=3, name="fc2", attr={"lr_mult": "2"})
    return sym.SoftmaxOutput(net, name="softmax")


def given(net):
    """The data and parameters that the recorded run was given."""
    rng = np.random.RandomState(0)
    data = rng.uniform(-1, 1, (40, 5)).astype("float32")
    labels = rng.randint(0, 3, 40).astype("float32")
    shapes, _, _ = net.infer_shape(data=(BATCH, 5))
    args = {name: nd.array(rng.uniform(-.5, .5, shape))
            for name, shape in zip(net.list_arguments(), shapes, strict=True)
            if name not in ("data", "softmax_label")}
    aux = {"bn_moving_mean": nd.zeros(8), "bn_moving_var": nd.ones(8)}
    return mx.io.NDArrayIter(data, labels, BATCH), args, aux


def bound(net=None, **settings):
    module = mx.mod.Module(network() if net is None else net, **settings)
    module.bind([("data", (BATCH, 5))], [("softmax_label", (BATCH,))])
    module.init_params()
    return module


def batch(size=BATCH, label=True):
    return mx.io.DataBatch([nd.ones((size, 5))], [nd.zeros((size,))] if label else None)


@pytest.mark.parametrize("contexts", [1, 2])
def test_training_equals_mxnet(contexts):
    expected = json.loads((ORACLE / "module.json").read_text())[str(contexts)]
    net = network()
    data, args, aux = given(net)
    module = mx.mod.Module(net, context=[mx.cpu(i) for i in range(contexts)])
    seen = []
    module.fit(data, eval_data=data, num_epoch=3, eval_metric=["acc", "ce"], arg_params=args,
               aux_params=aux, optimizer="sgd",
               optimizer_params={"learning_rate": 0.5, "momentum": 0.9, "wd": 0.01},
               batch_end_callback=lambda param: seen.append(param.eval_metric.get()[1]))
    np.testing.assert_allclose(seen, expected["metrics"], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose([value for _, value in module.score(data, ["acc", "ce"])],
                               expected["score"], rtol=1e-4)
    args, aux = module.get_params()
    for name, array in {**args, **aux}.items():
        np.testing.assert_allclose(array.asnumpy().ravel(), expected["params"][name], rtol=1e-3,
                                   atol=1e-5, err_msg=name)
    np.testing.assert_allclose(module.predict(data).asnumpy(), expected["predict"], rtol=1e-3,
                               atol=1e-5)


def test_a_checkpoint_of_mxnet_predicts_the_same():
    expected = json.loads((ORACLE / "module.json").read_text())["1"]
    data, _, _ = given(network())
    module = mx.mod.Module.load(str(ORACLE / "module"), 3)
    module.bind(data.provide_data, data.provide_label, for_training=False)
    np.testing.assert_allclose(module.predict(data).asnumpy(), expected["predict"], rtol=1e-4)
    assert module.symbol.attr_dict()["fc2_weight"]["lr_mult"] == "2"


@pytest.mark.parametrize("contexts", [1, 2])
def test_checkpoint_with_states_goes_on_where_it_was(tmp_path, contexts):
    places = [mx.cpu(i) for i in range(contexts)]
    prefix = str(tmp_path / "net")
    settings = {"optimizer": "sgd", "optimizer_params": {"learning_rate": 0.3, "momentum": 0.9}}
    data, _, _ = given(network())

    first = mx.mod.Module(network(), context=places)
    first.fit(data, num_epoch=2, initializer=mx.init.Xavier(), **settings)
    first.save_checkpoint(prefix, 2, save_optimizer_states=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "net-0002.params", "net-0002.states", "net-symbol.json"]
    data.reset()
    first.fit(data, num_epoch=1, **settings)
    losses = []
    for with_states in (True, False):
        second = mx.mod.Module.load(prefix, 2, with_states, context=places)
        data.reset()
        second.fit(data, num_epoch=1, **settings)
        losses.append(second.score(data, "ce")[0][1])
    assert losses[0] == pytest.approx(first.score(data, "ce")[0][1], rel=1e-5)
    assert losses[1] != pytest.approx(losses[0], rel=1e-5)


def test_params_files_round_trip(tmp_path):
    module, path = bound(), str(tmp_path / "p.params")
    module.save_params(path)
    assert set(nd.load(path)) == {"arg:fc1_weight", "arg:fc1_bias", "arg:bn_gamma", "arg:bn_beta",
                                  "arg:fc2_weight", "arg:fc2_bias", "aux:bn_moving_mean",
                                  "aux:bn_moving_var"}
    other = bound()
    other.load_params(path)
    other.forward(batch(), is_train=False)
    module.forward(batch(), is_train=False)
    np.testing.assert_array_equal(other.get_outputs()[0].asnumpy(),
                                  module.get_outputs()[0].asnumpy())
    nd.save(path, {"fc1_weight": nd.ones((1,))})
    with pytest.raises(ValueError, match="expected names like 'arg:fc_weight'"):
        other.load_params(path)


def test_what_it_says_of_itself():
    module = bound()
    assert module.data_names == ["data"] and module.label_names == ["softmax_label"]
    assert module.output_names == ["softmax_output"]
    assert module.output_shapes == [("softmax_output", (BATCH, 3))]
    assert module.data_shapes == [("data", (BATCH, 5))]
    assert module.label_shapes == [("softmax_label", (BATCH,))]
    assert (module.binded, module.params_initialized, module.optimizer_initialized) == (
        True, True, False)


def test_batches_of_other_sizes_and_without_labels():
    for contexts in ([mx.cpu()], [mx.cpu(0), mx.cpu(1)]):
        module = bound(context=contexts)
        module.forward(batch(4), is_train=True)
        assert module.get_outputs()[0].shape == (4, 3)
        assert module.data_shapes[0].shape == (4, 5)
        module.backward()
        module.forward(batch(12, label=False), is_train=False)
        assert module.get_outputs()[0].shape == (12, 3)
        weight = module.get_params()[0]["fc1_weight"]
        module.reshape([("data", (6, 5))], [("softmax_label", (6,))])
        module.forward(batch(6))
        np.testing.assert_array_equal(module.get_params()[0]["fc1_weight"].asnumpy(),
                                      weight.asnumpy())


def test_gradients_of_the_inputs_and_of_the_outputs():
    net = sym.FullyConnected(sym.var("data"), num_hidden=1, no_bias=True, name="fc")
    for contexts in ([mx.cpu()], [mx.cpu(0), mx.cpu(1)]):
        module = mx.mod.Module(net, label_names=None, context=contexts)
        module.bind([("data", (4, 2))], inputs_need_grad=True)
        module.init_params(mx.init.One())
        module.forward(mx.io.DataBatch([nd.ones((4, 2))]), is_train=True)
        module.backward([nd.array([[1], [2], [3], [4]])])
        [grad] = module.get_input_grads()
        assert grad.asnumpy().tolist() == [[1, 1], [2, 2], [3, 3], [4, 4]]
        parts = module.get_input_grads(merge_multi_context=False)
        assert len(parts[0]) == len(contexts)
        module.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 1.0})
        module.update()
        assert module.get_params()[0]["fc_weight"].asnumpy().tolist() == [[-1.5, -1.5]]


def test_grad_req_add_and_fixed_parameters():
    net = network()
    module = mx.mod.Module(net, fixed_param_names=["fc1_weight"])
    module.bind([("data", (BATCH, 5))], [("softmax_label", (BATCH,))], grad_req="add")
    module.init_params(mx.init.Normal(1))
    group = module._exec_group
    assert group.grad_arrays[0] == [None]  # fixed
    once = []
    for _ in range(2):
        module.forward_backward(batch())
        once.append(group.grad_arrays[-1][0].asnumpy())
    np.testing.assert_allclose(once[1], 2 * once[0], rtol=1e-5)
    before = module.get_params()[0]["fc1_weight"].asnumpy()
    module.init_optimizer()
    module.update()
    args, _ = module.get_params()
    np.testing.assert_array_equal(args["fc1_weight"].asnumpy(), before)
    assert abs(args["fc2_bias"].asnumpy()).max() > 0


def test_multipliers_from_the_symbol():
    data = sym.var("data")
    bias = sym.var("fc1_bias", lr_mult=1.0)
    net = sym.FullyConnected(data, bias=bias, num_hidden=10, name="fc1", lr_mult=0)
    net = sym.FullyConnected(net, num_hidden=10, name="fc2", wd_mult=0.5)
    module = mx.mod.Module(sym.SoftmaxOutput(net, name="softmax"))
    module.bind([("data", (2, 5))], [("softmax_label", (2,))])
    module.init_params(mx.init.Uniform(1.0))
    before = {name: array.asnumpy() for name, array in module.get_params()[0].items()}
    module.init_optimizer(optimizer_params={"learning_rate": 1.0})
    assert module._optimizer.lr_mult == {"fc1_bias": 1.0, "fc1_weight": 0.0}
    assert module._optimizer.wd_mult == {"fc2_bias": 0.5, "fc2_weight": 0.5, "fc1_bias": 0.0}
    module.forward_backward(mx.io.DataBatch([nd.ones((2, 5))], [nd.array([0, 1])]))
    module.update()
    changed = {name: bool((array.asnumpy() != before[name]).any())
               for name, array in module.get_params()[0].items()}
    assert changed == {"fc1_weight": False, "fc1_bias": True, "fc2_weight": True, "fc2_bias": True}


def test_initializers_of_variables():
    gamma = sym.var("gamma", init=mx.init.One(), shape=(1, 1))
    net = sym.LeakyReLU(sym.BatchNorm(sym.var("data"), name="bn"), act_type="prelu", name="p")
    net = sym.broadcast_mul(net, gamma)
    module = mx.mod.Module(net, label_names=None)
    module.bind([("data", (2, 3))])
    module.init_params(mx.init.Zero())
    args, aux = module.get_params()
    assert {name: set(array.asnumpy().ravel().tolist()) for name, array in {**args, **aux}.items()
            } == {"p_gamma": {0.25}, "gamma": {1.0}, "bn_gamma": {1}, "bn_beta": {0},
                  "bn_moving_mean": {0}, "bn_moving_var": {1}}


@pytest.mark.parametrize(("init", "value"), [
    (mx.init.Zero(), 0), (mx.init.One(), 1), (mx.init.Constant(3), 3)])
def test_initializers_of_row_sparse_variables(init, value):
    weight = sym.var("weight", stype="row_sparse", init=init, shape=(4, 2))
    module = mx.mod.Module(sym.elemwise_add(sym.var("data"), weight), label_names=None)
    module.bind([("data", (4, 2))])
    module.init_params()
    filled = module.get_params()[0]["weight"]
    assert filled.stype == "row_sparse"
    assert (filled.asnumpy() == value).all()


def test_csr_variables_take_no_number():
    weight = sym.var("weight", stype="csr", init=mx.init.One(), shape=(4, 2))
    module = mx.mod.Module(sym.elemwise_add(sym.var("data"), weight), label_names=None)
    module.bind([("data", (4, 2))])
    with pytest.raises(ValueError, match="CSRNDArray"):
        module.init_params()


def test_predict_in_all_its_forms():
    data, _, _ = given(network())
    module = bound()
    odd = mx.io.NDArrayIter(nd.ones((25, 5)), nd.zeros((25,)), BATCH)
    assert module.predict(odd).shape == (25, 3)  # without the padding
    assert [len(out) for (out,), _, _ in module.iter_predict(odd)] == [10, 10, 5]
    assert module.predict(odd, num_batch=1).shape == (10, 3)
    [merged] = module.predict(odd, always_output_list=True)
    assert merged.shape == (25, 3)
    assert [[out.shape for out in each] for each in module.predict(odd, merge_batches=False)] == [
        [(10, 3)], [(10, 3)], [(5, 3)]]
    assert module.predict(nd.ones((BATCH, 5))).shape == (BATCH, 3)
    assert module.predict(np.ones((7, 5))).shape == (7, 3)
    assert module.score(data, mx.metric.create("acc"), num_batch=2)[0][0] == "accuracy"


def test_states_live_from_batch_to_batch():
    total = sym.var("total")
    net = sym.Group([sym.var("data") + total])
    module = mx.mod.Module(net, label_names=None, state_names=["total"],
                           context=[mx.cpu(0), mx.cpu(1)])
    module.bind([("data", (4, 1)), ], for_training=False)
    module.init_params()
    module.set_states(value=2)
    module.forward(mx.io.DataBatch([nd.ones((4, 1))]))
    assert module.get_outputs()[0].asnumpy().ravel().tolist() == [3, 3, 3, 3]
    module.set_states(states=module.get_outputs(merge_multi_context=False))
    assert [state.shape for state in module.get_states(False)[0]] == [(2, 1), (2, 1)]
    module.forward(mx.io.DataBatch([nd.ones((4, 1))]))
    assert module.get_states()[0].asnumpy().ravel().tolist() == [3, 3, 3, 3]
    assert module.get_outputs()[0].asnumpy().ravel().tolist() == [4, 4, 4, 4]
    with pytest.raises(ValueError, match="either states or a value"):
        module.set_states()


def test_sharing_and_borrowing():
    net = network()
    module = bound(net)
    module.init_optimizer(optimizer_params={"learning_rate": 0.5, "momentum": 0.9})
    other = mx.mod.Module(net)
    other.bind([("data", (3, 5))], [("softmax_label", (3,))], shared_module=module)
    assert other.params_initialized and other._updater is module._updater
    other.forward_backward(batch(3))
    other.update()
    module.forward(batch(), is_train=False)
    other.forward(batch(), is_train=False)
    np.testing.assert_array_equal(module.get_outputs()[0].asnumpy(),
                                  other.get_outputs()[0].asnumpy())


def test_groups_on_each_context():
    data = sym.var("data")
    with mx.AttrScope(ctx_group="one"):
        net = sym.FullyConnected(data, num_hidden=4, name="fc1")
    with mx.AttrScope(ctx_group="two"):
        net = sym.SoftmaxOutput(sym.FullyConnected(net, num_hidden=3, name="fc2"), name="softmax")
    batches = mx.io.NDArrayIter(np.random.RandomState(0).rand(20, 5), np.arange(20) % 3, 10)
    args = {"fc1_weight": nd.ones((4, 5)) * 0.1, "fc2_weight": nd.ones((3, 4)) * 0.2,
            "fc1_bias": nd.zeros((4,)), "fc2_bias": nd.zeros((3,))}
    found = []
    for groups in (None, {"one": [mx.cpu(1), mx.cpu(2)], "two": mx.cpu(3)}):
        module = mx.mod.Module(net, context=[mx.cpu(0), mx.cpu(4)], group2ctxs=groups)
        batches.reset()
        module.fit(batches, num_epoch=2, arg_params=args)
        found.append(module.get_params()[0])
    places = [{name: array.context for name, array in each.arg_dict.items()}
              for each in module._exec_group.execs]
    assert places[1]["fc1_weight"] == mx.cpu(2) and places[1]["fc2_bias"] == mx.cpu(3)
    assert places[0]["fc1_weight"] == mx.cpu(1) and places[0]["data"] == mx.cpu(0)
    for name in args:
        np.testing.assert_allclose(found[0][name].asnumpy(), found[1][name].asnumpy(), rtol=1e-6)


def test_one_batch_for_each_context():
    module = bound(context=[mx.cpu(0), mx.cpu(1)])
    parts = [batch(5), mx.io.DataBatch([nd.zeros((5, 5))], [nd.ones((5,))])]
    module.forward(parts, is_train=False)
    whole = mx.io.DataBatch([nd.concat(nd.ones((5, 5)), nd.zeros((5, 5)), dim=0)], None)
    joined = module.get_outputs()[0].asnumpy()
    module.forward(whole, is_train=False)
    np.testing.assert_allclose(module.get_outputs()[0].asnumpy(), joined, rtol=1e-6)
    metric = mx.metric.create("acc")
    module.update_metric(metric, [[nd.zeros((5,))], [nd.zeros((5,))]], pre_sliced=True)
    assert metric.num_inst == 10


def test_stores(monkeypatch):
    create = mx.model._create_kvstore
    arrays = {"a": nd.ones((3,))}
    assert create("device", 1, arrays) == (None, False)
    assert create(None, 2, arrays) == (None, False)
    store, on_store = create("local", 2, arrays)
    assert store.type == "local" and on_store
    monkeypatch.setenv("MXNET_UPDATE_ON_KVSTORE", "0")
    assert create(store, 1, arrays) == (store, False)
    with pytest.raises(TypeError, match="kvstore must be KVStore, str or None"):
        create(3, 2, arrays)
    net = network()
    data, args, aux = given(net)
    results = []
    for setting in ("0", "1"):
        monkeypatch.setenv("MXNET_UPDATE_ON_KVSTORE", setting)
        data.reset()
        module = mx.mod.Module(net, context=[mx.cpu(0), mx.cpu(1)])
        module.fit(data, num_epoch=1, kvstore="device", arg_params=args, aux_params=aux,
                   optimizer_params={"momentum": 0.9, "learning_rate": 0.5})
        results.append(module.get_params()[0])
    for name in args:
        np.testing.assert_allclose(results[0][name].asnumpy(), results[1][name].asnumpy(),
                                   rtol=1e-5, atol=1e-7)


def test_wrong_names_and_shapes():
    net = network()
    with pytest.raises(ValueError, match=r"data_names=.'x'.*not found.*one of: data, soft"):
        mx.mod.Module(net, data_names=["x"])
    with pytest.warns(UserWarning, match=r"label_names=.'x'"):
        mx.mod.Module(net, label_names=["x"])
    module = mx.mod.Module(net)
    with pytest.raises(AssertionError, match="call bind before initializing the parameters"):
        module.init_params()
    with pytest.raises(AssertionError, match="call bind"):
        module.forward(batch())
    with pytest.raises(ValueError, match="Data provided by data_shapes don't match names"):
        module.bind([("datax", (2, 5))], [("softmax_label", (2,))])
    with pytest.raises(ValueError, match="Too many slices"):
        mx.mod.Module(net, context=[mx.cpu(0), mx.cpu(1)]).bind(
            [("data", (1, 5))], [("softmax_label", (1,))])
    with pytest.raises(ValueError, match="same batch size"):
        module.bind([("data", (2, 5))], [("softmax_label", (3,))])


def test_wrong_parameters(caplog):
    module = mx.mod.Module(network())
    module.bind([("data", (BATCH, 5))], [("softmax_label", (BATCH,))])
    with pytest.raises(AssertionError, match="init_params"):
        module.get_params()
    weight = {"fc1_weight": nd.ones((8, 5))}
    with pytest.raises(RuntimeError, match="is not presented"):
        module.init_params(arg_params=weight)
    with pytest.raises(ValueError, match='Find name "zz" that is not in the arguments'):
        module.set_params({**weight, "zz": nd.ones((1,))}, {}, allow_missing=True)
    module.set_params({**weight, "zz": nd.ones((1,))}, {}, allow_missing=True, allow_extra=True)
    full, states = module.get_params()
    module.set_params({**full, "zz": nd.ones((1,))}, states)  # MXNet lets them go here
    assert (module.get_params()[0]["fc1_weight"].asnumpy() == 1).all()
    with pytest.raises(AssertionError, match="init_optimizer"):
        module.update()
    with pytest.raises(AssertionError, match="inputs_need_grad"):
        module.get_input_grads()
    with caplog.at_level(logging.WARNING):
        module.bind([("data", (1, 5))], [("softmax_label", (1,))])
        module.init_optimizer(optimizer=mx.optimizer.SGD(rescale_grad=3))
        module.init_optimizer()
    assert [record.getMessage().split(",")[0] for record in caplog.records][::2] == [
        "Already bound", "optimizer already initialized"]
    assert "rescale_grad is not normalized" in caplog.text
    with pytest.raises(ValueError, match="expected 1 arrays"):
        module.forward(mx.io.DataBatch([nd.ones((BATCH, 5))] * 2, None))
    with pytest.raises(AssertionError, match="num_epoch"):
        module.fit(given(network())[0])


def test_rebinding_keeps_the_parameters():
    module = bound()
    module.init_optimizer()
    module.forward_backward(batch())
    module.update()
    before = module.get_params()[0]["fc2_bias"].asnumpy()
    module.bind([("data", (4, 5))], None, for_training=False, force_rebind=True)
    np.testing.assert_array_equal(module.get_params()[0]["fc2_bias"].asnumpy(), before)
    module.forward(batch(4, label=False))
    with pytest.raises(ValueError, match="for_training=True"):
        module.backward()


def test_split_input_slice():
    split = mx.executor_manager._split_input_slice
    assert split(10, [1, 1, 1]) == [slice(0, 3), slice(3, 6), slice(6, 10)]
    assert split(10, [1, 2]) == [slice(0, 3), slice(3, 10)]
    with pytest.raises(ValueError, match="Too many slices"):
        split(1, [1, 1])


def test_a_row_sparse_weight_lives_in_the_store():
    random = np.random.RandomState(0)
    inputs = (random.rand(64, 20) * (random.rand(64, 20) < 0.3)).astype("float32")
    labels = inputs @ random.rand(20, 1).astype("float32")
    found = {}
    for stype in ("default", "row_sparse"):
        x, w = mx.sym.var("data", stype="csr"), mx.sym.var("w_weight", stype=stype, shape=(20, 1))
        net = mx.sym.LinearRegressionOutput(mx.sym.sparse.dot(x, w), mx.sym.var("label"))
        batches = mx.io.NDArrayIter(mx.nd.array(inputs).tostype("csr"), labels, 16,
                                    last_batch_handle="discard", label_name="label")
        module = mx.mod.Module(net, data_names=["data"], label_names=["label"])
        module.bind(batches.provide_data, batches.provide_label)
        module.init_params(mx.init.Mixed([".*"], [mx.init.One()]))
        module.init_optimizer(kvstore=mx.kv.create("local"),
                              optimizer_params={"learning_rate": 0.5})
        for batch in batches:
            if stype == "row_sparse":
                module.prepare(batch, lambda batch: {"w_weight": batch.data[0].indices})
            module.forward_backward(batch)
            module.update()
        found[stype] = module.get_params()[0]["w_weight"].asnumpy()
    np.testing.assert_allclose(found["row_sparse"], found["default"], rtol=1e-5)
    assert (found["default"] != 1).any()


def test_a_batch_that_would_change_parameters_is_refused_and_changes_nothing():
    """MXNet 1.9.1: MXNetError, "Shape of unspecified arg: fc_weight changed"."""
    net = sym.FullyConnected(sym.var("data"), num_hidden=2, name="fc")
    module = mx.mod.Module(net, label_names=None)
    module.bind([("data", (2, 3))])
    module.init_params(mx.init.One())
    for size in (1, 2, 3):
        with pytest.raises(mx.MXNetError):
            module.forward(mx.io.DataBatch([nd.ones((size, 4))]))
        with pytest.raises(mx.MXNetError):
            module.reshape([("data", (size, 2))])
        assert module.data_shapes == [("data", (2, 3))]
    for size in (2, 5):
        module.forward(mx.io.DataBatch([nd.ones((size, 3))]))
        assert module.get_outputs()[0].asnumpy().tolist() == [[3, 3]] * size


@pytest.mark.parametrize("wrong", [
    [("data", (1, 3)), ("more", (1, 3))], [("data", (4, 3)), ("more", (2, 3))]])
def test_a_batch_that_cannot_be_cut_is_refused_and_changes_nothing(wrong):
    module = mx.mod.Module(sym.var("data") + sym.var("more"), ["data", "more"], None,
                           context=[mx.cpu(0), mx.cpu(1)])
    module.bind([("data", (2, 3)), ("more", (2, 3))])
    module.init_params()
    for _ in range(2):
        with pytest.raises(ValueError, match=r"Too many slices|same batch size"):
            module.reshape(wrong)
    module.forward(mx.io.DataBatch([nd.ones((2, 3)), nd.ones((2, 3))]))
    assert module.get_outputs()[0].asnumpy().tolist() == [[2, 2, 2]] * 2


def test_arrays_of_a_batch_have_the_order_of_the_shapes_given_to_bind():
    """Not that of ``data_names``: an iterator over a dict sorts its names (as MXNet's does)."""
    net = sym.LinearRegressionOutput(sym.var("user") - sym.var("item"), sym.var("score"))
    data = mx.io.NDArrayIter({"user": np.full(4, 5.0), "item": np.arange(4.0)},
                             {"score": np.zeros(4)}, batch_size=2)
    module = mx.mod.Module(net, data_names=["user", "item"], label_names=["score"])
    module.bind(data.provide_data, data.provide_label, inputs_need_grad=True)
    module.init_params()
    assert [each.name for each in module.data_shapes] == ["item", "user"]
    found = []
    for batch in data:
        module.forward_backward(batch)
        found += module.get_outputs()[0].asnumpy().tolist()
        item, user = module.get_input_grads()
        assert (user == -item).asnumpy().all()
    assert found == [5, 4, 3, 2]
