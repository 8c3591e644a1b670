"""Monitor: which arrays it sees, when, and what it makes of them."""
from __future__ import annotations

import logging

import numpy as np

import minigluon as mx
from minigluon import nd, sym


def network():
    net = sym.FullyConnected(sym.var("data"), num_hidden=2, name="fc")
    return sym.SoftmaxOutput(sym.BatchNorm(net, name="bn"), name="softmax")


def executor():
    made = network().simple_bind(mx.cpu(), data=(2, 3))
    made.arg_dict["data"][:] = nd.array([[1, 0, 0], [0, 1, 0]])
    made.arg_dict["fc_weight"][:] = 1
    return made


def names(found):
    return [name for _, name, _ in found]


def test_outputs_and_parameters_of_each_batch():
    monitor, watched = mx.mon.Monitor(1), executor()
    monitor.install(watched)
    for step in (1, 2):
        monitor.tic()
        watched.forward(is_train=True)
        watched.backward()
        found = monitor.toc()
        assert {number for number, _, _ in found} == {step}
        assert names(found)[0] == "fc_output"
        assert set(names(found)) >= {"fc_output", "bn_output", "softmax_output", "data",
                                     "fc_weight", "bn_gamma", "softmax_label", "bn_moving_var"}
    texts = {name: text for _, name, text in found}
    assert texts["fc_weight"] == "1.0\t"
    assert float(texts["softmax_output"]) == np.float32(0.5)
    watched.forward()
    assert monitor.toc() == []  # no tic


def test_interval_pattern_order_and_own_statistics():
    monitor = mx.mon.Monitor(2, stat_func=lambda array: array.max(), pattern="(fc|bn).*",
                             sort=True, monitor_all=True)
    watched = executor()
    monitor.install(watched)
    found = []
    for _ in range(3):
        monitor.tic()
        watched.forward(is_train=True)
        found.append(monitor.toc())
    assert found[1] == [] and {number for number, _, _ in found[2]} == {3}
    assert names(found[0]) == sorted(names(found[0]))
    assert {"fc_data", "fc_weight", "fc_output", "bn_gamma"} <= set(names(found[0]))
    assert not any(name.startswith("softmax") for name in names(found[0]))


def test_while_a_module_trains(caplog):
    batches = mx.io.NDArrayIter(np.ones((8, 3)), np.zeros(8), 4)
    monitor = mx.mon.Monitor(1, pattern="softmax_output", stat_func=lambda x: [x.min(), x.max()])
    module = mx.mod.Module(network(), context=[mx.cpu(0), mx.cpu(1)])
    with caplog.at_level(logging.INFO):
        module.fit(batches, num_epoch=1, monitor=monitor)
    lines = [record.getMessage().split() for record in caplog.records
             if record.getMessage().startswith("Batch:")]
    assert [(line[1], line[2]) for line in lines] == [(n, "softmax_output") for n in "1122"]
    assert all(len(line) == 5 for line in lines)
    switched = mx.mod.BucketingModule(lambda key: (network(), ["data"], ["softmax_label"]), 3)
    switched.bind([("data", (2, 3))], [("softmax_label", (2,))])
    switched.install_monitor(monitor)
    switched.init_params()
    monitor.tic()
    switched.forward(mx.io.DataBatch([nd.ones((2, 3))], [nd.zeros((2,))]))
    assert "softmax_output" in names(monitor.toc())


def test_lines_are_mxnets(caplog):
    executor = sym.FullyConnected(sym.var("x"), num_hidden=1, no_bias=True, name="fc").simple_bind(
        mx.cpu(), x=(1, 1))
    executor.arg_dict["fc_weight"][:] = 0.3
    monitor = mx.mon.Monitor(1, stat_func=lambda x: [x.min(), x.max()])
    monitor.install(executor)
    monitor.tic()
    executor.forward(x=nd.ones((1, 1)))
    with caplog.at_level(logging.INFO):
        monitor.toc_print()
    assert caplog.records[0].getMessage() == (
        f"Batch: {1:7d} {'fc_output':30s} 0.3\t0.3\t")


def test_gradients_are_seen_by_the_names_of_mxnet():
    x = mx.sym.var("x")
    fc = mx.sym.FullyConnected(x, num_hidden=2, name="fc")
    net = mx.sym.broadcast_mul(mx.sym.Activation(fc, act_type="relu", name="act"),
                               mx.sym.BlockGrad(x, name="stop"), name="mul")
    executor = net.simple_bind(mx.cpu(), x=(3, 2))
    plain = net.simple_bind(mx.cpu(), x=(3, 2))
    for one, other in zip(executor.arg_arrays, plain.arg_arrays, strict=True):
        one[:] = other[:] = mx.nd.random.uniform(0.5, 1, shape=one.shape)
    seen = {}
    executor.set_monitor_callback(seen.__setitem__)
    heads = mx.nd.array([[1, 2], [3, 4], [5, 6]])
    for each in (executor, plain):
        each.forward(is_train=True)
        each.backward(heads)
    assert {"fc_output", "act_output", "mul_output"} < set(seen)
    assert {name for name in seen if "backward" in name} == {
        "mul_backward_output0", "mul_backward_output1",
        "act_backward_output", "fc_backward_output0", "fc_backward_output1",
        "fc_backward_output2"}
    for name, array in (("fc_backward_output1", "fc_weight"), ("fc_backward_output2", "fc_bias")):
        assert seen[name].asnumpy().tolist() == executor.grad_dict[array].asnumpy().tolist()
    for one, other in zip(executor.grad_arrays, plain.grad_arrays, strict=True):
        np.testing.assert_allclose(one.asnumpy(), other.asnumpy(), rtol=1e-5)


def test_monitor_installed_between_forward_and_backward_sees_the_next():
    executor = mx.sym.square(mx.sym.var("x"), name="squared").simple_bind(mx.cpu(), x=(2,))
    executor.forward(is_train=True)
    seen = []
    executor.set_monitor_callback(lambda name, array: seen.append(name))
    executor.backward()
    assert not seen
    executor.forward(is_train=True)
    executor.backward()
    assert seen == ["squared_output", "squared_backward_output"]
