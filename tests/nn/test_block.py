"""Block: names, children, hooks, files, what it warns of."""
import re
import threading
import warnings

import numpy as np
import pytest

import minigluon as mx
from minigluon import nd, nn
from minigluon.name import NameManager
from minigluon.nn.block import _BlockScope


@pytest.fixture(autouse=True)
def fresh_names():
    with NameManager():
        yield


class Pair(nn.Block):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.a = nn.Dense(3, in_units=2)
            self.b = nn.Dense(2, in_units=3)

    def forward(self, x):
        return self.b(self.a(x))


# -- names ----------------------------------------------------------------------------------------


def test_names_count_by_scope():
    net = Pair()
    assert (net.prefix, net.name, net.a.prefix, net.b.prefix) == (
        "pair0_", "pair0", "pair0_dense0_", "pair0_dense1_")
    assert list(net.collect_params()) == ["pair0_dense0_weight", "pair0_dense0_bias",
                                          "pair0_dense1_weight", "pair0_dense1_bias"]
    assert (nn.Dense(1).prefix, nn.Dense(1).prefix) == ("dense0_", "dense1_")
    assert Pair(prefix="net_").a.prefix == "net_dense0_"
    with net.name_scope():
        assert nn.Dense(1).prefix == "pair0_dense2_"
        assert nn.Dense(1, prefix="mine_").prefix == "pair0_mine_"


def test_an_empty_prefix_leaves_children_in_the_outer_scope():
    outer = nn.HybridSequential(prefix="net_")
    with outer.name_scope():
        inner = nn.HybridSequential(prefix="")
        with inner.name_scope():
            layer = nn.Dense(1)
    assert (inner.prefix, layer.prefix) == ("net_", "net_dense0_")


def test_activations_and_other_hints():
    assert nn.Activation("relu").prefix == "relu0_"
    assert nn.Conv2D(1, 1).prefix == "conv0_" and nn.MaxPool2D().prefix == "pool0_"
    assert nn.Dense(1, activation="tanh").act.prefix == "dense0_tanh_"


def test_counters_belong_to_a_thread():
    nn.Dense(1)
    seen = []
    worker = threading.Thread(target=lambda: seen.append(_BlockScope.create(None, None, "hint")[0]))
    worker.start()
    worker.join()
    assert seen == ["hint0_"]
    assert _BlockScope.create(None, None, "hint")[0] == "hint0_"
    assert nn.Dense(1).prefix == "dense1_"


def test_shared_parameters_keep_the_first_nets_names():
    first = Pair(prefix="one_")
    first.initialize()
    second = Pair(prefix="two_", params=first.collect_params())
    assert second.prefix == "two_" and second.a.weight is first.a.weight
    assert list(second.collect_params()) == list(first.collect_params())
    x = nd.ones((1, 2))
    np.testing.assert_array_equal(first(x).asnumpy(), second(x).asnumpy())
    layer = nn.Dense(3, in_units=2, params=first.a.params)
    assert layer.weight is first.a.weight


# -- children and parameters ----------------------------------------------------------------------


def test_select_matches_from_the_start():
    net = Pair(prefix="net_")
    assert list(net.collect_params(".*weight")) == ["net_dense0_weight", "net_dense1_weight"]
    assert list(net.collect_params("weight")) == []
    assert list(net.collect_params("net_dense0_bias|net_dense1_bias")) == [
        "net_dense0_bias", "net_dense1_bias"]


def test_assignment_registers_replaces_and_refuses():
    net = Pair()
    net.a = nn.Dense(7, in_units=2)
    assert net._children["a"].weight.shape == (7, 2) and len(net._children) == 2
    for value in (3, None, nn.Flatten()):
        with pytest.raises(TypeError, match="Changing attribute type for a"):
            net.a = value
    net.plain = 3
    net.plain = "three"
    net.p = nn.Parameter("p", shape=(1,))
    with pytest.raises(TypeError, match="for p"):
        net.p = (2,)
    with pytest.raises(AssertionError, match="Overriding Parameter attribute p"):
        net.p = nn.Parameter("q", shape=(1,))


@pytest.mark.parametrize("hide", [
    lambda block: [block], lambda block: (1, [block]), lambda block: {"key": ({"deep": block},)}])
def test_blocks_in_containers_are_warned_of(hide):
    net = Pair()
    net.hidden = hide(nn.Dense(1))
    with pytest.warns(UserWarning, match=r'"Pair.hidden" is an unregistered container'):
        net.collect_params()


def test_registered_and_plain_containers_are_fine():
    net = Pair()
    net.known = [net.a, net.b]
    net.numbers = {"one": [1, 2]}
    net.stack = nn.Sequential()
    net.stack.add(nn.Dense(1))
    assert len(net.collect_params()) == 6


def test_apply_visits_children_first():
    net, seen = Pair(), []
    assert net.apply(seen.append) is net
    assert seen == [net.a, net.b, net]


def test_forward_of_a_plain_block_is_missing():
    with pytest.raises(NotImplementedError, match="must override forward"):
        nn.Block()(nd.ones((1,)))


# -- containers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [nn.Sequential, nn.HybridSequential])
def test_containers(kind):
    net = kind()
    layers = [nn.Dense(2), nn.Flatten(), nn.Dense(3)]
    net.add(*layers)
    assert len(net) == 3 and list(net) == layers
    assert net[0] is layers[0] and net[-1] is layers[2]
    part = net[1:]
    assert type(part) is kind and list(part) == layers[1:] and part.prefix == net.prefix
    with pytest.raises(IndexError):
        net[3]
    x = nd.ones((1,))
    assert kind()(x) is x


def test_text_of_containers():
    net = nn.HybridSequential()
    inner = nn.Sequential()
    inner.add(nn.Dense(1))
    net.add(nn.Dense(3, in_units=2), nn.HybridLambda("relu"))
    assert repr(net) == (
        "HybridSequential(\n  (0): Dense(2 -> 3, linear)\n  (1): HybridLambda(relu)\n)")
    inner.add(net)
    assert repr(inner).splitlines()[2:4] == ["  (1): HybridSequential(",
                                             "    (0): Dense(2 -> 3, linear)"]
    assert repr(Pair()) == "Pair(\n  (a): Dense(2 -> 3, linear)\n  (b): Dense(3 -> 2, linear)\n)"
    assert repr(nn.Sequential()) == "Sequential(\n\n)"


def test_hybridizing_a_sequential_of_hybrids_advises_once():
    net = nn.Sequential()
    net.add(nn.Dense(1), nn.Dense(1))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        net.hybridize()
    assert len(caught) == 1 and "HybridSequential" in str(caught[0].message)
    net.add(nn.Lambda("relu"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net.hybridize()


def test_a_hybrid_container_takes_hybrid_blocks_only():
    for other in (nn.Lambda("relu"), 3):
        with pytest.raises(ValueError, match="must also be HybridBlock"):
            nn.HybridSequential().add(other)


# -- hooks and summary ----------------------------------------------------------------------------


@pytest.mark.parametrize("hybridized", [False, True])
def test_hooks_run_once_a_call_and_detach(hybridized):
    layer, seen = nn.Dense(2), []
    layer.initialize()
    if hybridized:
        layer.hybridize()
    before = layer.register_forward_pre_hook(lambda block, ins: seen.append(("pre", block, ins)))
    after = layer.register_forward_hook(lambda block, ins, out: seen.append(("post", out)))
    x = nd.ones((1, 3))
    y = layer(x)  # also the deferred initialization
    assert seen == [("pre", layer, (x,)), ("post", y)]
    after.detach()
    after.detach()
    layer(x)
    assert [kind for kind, *_ in seen] == ["pre", "post", "pre"]
    with before:
        layer(x)
    layer(x)
    assert len(seen) == 4


def test_hooks_stay_without_their_handles_and_one_hook_counts_once():
    layer, seen = nn.Dense(2, in_units=2), []
    layer.initialize()
    for number in range(6):  # the handles are not kept
        layer.register_forward_hook(lambda block, ins, out, number=number: seen.append(number))
    layer(nd.ones((1, 2)))
    assert seen == list(range(6))

    def again(block, ins, out):
        seen.append("again")

    first, _ = layer.register_forward_hook(again), layer.register_forward_hook(again)
    layer(nd.ones((1, 2)))
    assert seen.count("again") == 1
    first.detach()
    layer(nd.ones((1, 2)))
    assert seen.count("again") == 1  # as in MXNet


def test_a_hook_handle_is_attached_once():
    hooks, handle = {}, mx.gluon.utils.HookHandle()
    handle.detach()
    handle.attach(hooks, print)
    assert hooks == {handle.id: print}
    with pytest.raises(AssertionError, match="attached already"):
        handle.attach(hooks, repr)
    with handle:
        pass
    assert not hooks
    hooks[handle.id] = repr  # another, that was given the place in memory of the first
    handle.detach()
    assert hooks == {handle.id: repr}


def test_hooks_of_inner_blocks_do_not_see_symbols():
    net, seen = nn.HybridSequential(), []
    net.add(nn.Dense(2))
    net[0].register_forward_hook(lambda block, ins, out: seen.append(out))
    net.initialize()
    net.hybridize()
    net(nd.ones((1, 3)))
    assert seen == []
    net.hybridize(False)
    net(nd.ones((1, 3)))
    assert len(seen) == 1


def test_summary(capsys):
    net = nn.HybridSequential()
    net.add(nn.Conv2D(3, 3, activation="relu"), nn.BatchNorm(), nn.Flatten(), nn.Dense(3))
    net.initialize()
    with pytest.raises(mx.MXNetError):
        net.summary(nd.ones((2, 3)))
    assert not any(block._forward_hooks for block in net)
    net.summary(nd.ones((2, 3, 5, 5)))
    text = capsys.readouterr().out.splitlines()
    assert [line.split() for line in text[3:9]] == [
        ["Input", "(2,", "3,", "5,", "5)", "0"],
        ["Activation-1", "(2,", "3,", "3,", "3)", "0"],
        ["Conv2D-2", "(2,", "3,", "3,", "3)", "84"],
        ["BatchNorm-3", "(2,", "3,", "3,", "3)", "12"],
        ["Flatten-4", "(2,", "27)", "0"],
        ["Dense-5", "(2,", "3)", "84"]]
    assert text[-6:-1] == ["   Total params: 180", "   Trainable params: 174",
                           "   Non-trainable params: 6",
                           "Shared params in forward computation graph: 0",
                           "Unique parameters in model: 180"]
    assert not any(block._forward_hooks for block in net)
    net.hybridize()
    with pytest.raises(AssertionError, match="must not be hybridized"):
        net.summary(nd.ones((2, 3, 5, 5)))
    assert not any(block._forward_hooks for block in net)


def test_summary_of_several_inputs_and_outputs(capsys):
    layer = mx.gluon.rnn.LSTM(4, 2)
    layer.initialize()
    layer.summary(nd.ones((3, 2, 5)), layer.begin_state(batch_size=2))
    rows = capsys.readouterr().out.splitlines()[3:5]
    # as MXNet 1.9.1 prints it
    assert [row.split() for row in rows] == [
        "Input (3, 2, 5), [(2, 2, 4), (2, 2, 4)] 0".split(),
        "LSTM-1 (3, 2, 4), [(2, 2, 4), (2, 2, 4)] 336".split()]


def test_summary_counts_shared_parameters(capsys):
    layer = nn.Dense(3, in_units=3)
    net = nn.HybridSequential()
    net.add(layer, nn.Dense(3, in_units=3, params=layer.params))
    net.initialize()
    net.summary(nd.ones((1, 3)))
    text = capsys.readouterr().out
    assert "Total params: 24" in text and "graph: 12" in text and "in model: 12" in text


# -- files ----------------------------------------------------------------------------------------


def stack(*units, prefix=None):
    net = nn.HybridSequential(prefix=prefix)
    with net.name_scope():
        net.add(*(nn.Dense(n) for n in units))
    return net


def test_files_know_the_structure_not_the_names(tmp_path):
    path = str(tmp_path / "net.params")
    one, two = stack(3, 2, prefix="one_"), stack(3, 2, prefix="two_")
    one.initialize(mx.initializer.Normal(1))
    x = nd.ones((1, 4))
    y = one(x).asnumpy()
    one.save_parameters(path)
    assert list(nd.load(path)) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    two.load_parameters(path, ctx=[mx.cpu(1), mx.cpu(0)])  # neither initialized nor shaped
    assert two.collect_params().list_ctx() == [mx.cpu(1), mx.cpu(0)]
    np.testing.assert_array_equal(two(x).asnumpy(), y)
    assert two[0].weight.shape == (3, 4)


def test_missing_and_extra_names(tmp_path):
    path = str(tmp_path / "net.params")
    small, large = stack(3), stack(3, 2)
    for net in (small, large):
        net.initialize()
        net(nd.ones((1, 4)))
    small.save_parameters(path)
    with pytest.raises(AssertionError, match=r"'1.weight' is missing.*2 of 4"):
        large.load_parameters(path)
    large.load_parameters(path, allow_missing=True)
    np.testing.assert_array_equal(large[0].weight.data().asnumpy(),
                                  small[0].weight.data().asnumpy())
    large.save_parameters(path)
    for kind in (AssertionError, ValueError):
        with pytest.raises(kind, match=r"'1.weight'.*not present.*2 of 4"):
            small.load_parameters(path)
    small.load_parameters(path, ignore_extra=True)


def test_loading_a_part_from_the_file_of_the_whole(tmp_path):
    path = str(tmp_path / "net.params")
    whole = nn.HybridSequential()
    whole.features = stack(3)
    whole.initialize()
    whole.features(nd.ones((1, 2)))
    whole.save_parameters(path)
    with pytest.raises(AssertionError, match=re.escape("holds this block as 'features'")):
        whole.features.load_parameters(path)
    with pytest.warns(UserWarning, match="Nothing was loaded.* 2 in the file skipped .* 2 of the"):
        whole.features.load_parameters(path, allow_missing=True, ignore_extra=True)


def test_shared_parameters_are_stored_twice_or_once(tmp_path):
    path = str(tmp_path / "net.params")

    def make():
        net = nn.HybridSequential(prefix="s_")
        net.add(nn.Dense(2, in_units=2, use_bias=False))
        net.add(nn.Dense(2, in_units=2, use_bias=False, params=net[0].params))
        return net

    net, other = make(), make()
    net.initialize(mx.initializer.Normal(1))
    for deduplicate, count in ((False, 2), (True, 1)):
        net.save_parameters(path, deduplicate=deduplicate)
        assert len(nd.load(path)) == count
        other.load_parameters(path)
        np.testing.assert_array_equal(other[0].weight.data().asnumpy(),
                                      net[1].weight.data().asnumpy())


def test_a_single_layer_and_its_plain_names(tmp_path):
    path = str(tmp_path / "layer.params")
    one, two = nn.Dense(2, in_units=2), nn.Dense(2, in_units=2)
    one.initialize(mx.initializer.Normal(1))
    one.save_parameters(path)
    two.load_parameters(path)
    np.testing.assert_array_equal(one.weight.data().asnumpy(), two.weight.data().asnumpy())


def test_deprecated_files_work(tmp_path):
    path = str(tmp_path / "old.params")
    one, two = stack(3, prefix="one_"), stack(3, prefix="two_")
    one.initialize()
    one(nd.ones((1, 2)))
    with pytest.warns(UserWarning, match="save_params is deprecated"):
        one.save_params(path)
    assert list(nd.load(path)) == ["dense0_weight", "dense0_bias"]
    with pytest.warns(UserWarning, match="load_params is deprecated"):
        two.load_params(path)
    np.testing.assert_array_equal(two[0].weight.data().asnumpy(), one[0].weight.data().asnumpy())


def test_files_that_are_no_parameter_files(tmp_path):
    path = str(tmp_path / "list.params")
    nd.save(path, [nd.ones((1,))])
    with pytest.raises(mx.MXNetError, match="no names"):
        stack(1).load_parameters(path)
    with pytest.raises(mx.MXNetError, match="nowhere"):
        stack(1).load_parameters(str(tmp_path / "nowhere"))


@pytest.mark.parametrize(("source", "dtype"), [("current", "float16"), ("saved", "float32")])
def test_dtype_of_loaded_parameters(tmp_path, source, dtype):
    path = str(tmp_path / "net.params")
    one = nn.Dense(2, in_units=2)
    one.initialize()
    one.save_parameters(path)
    half = nn.Dense(2, in_units=2, dtype="float16")
    with pytest.raises(AssertionError, match="dtype incompatible"):
        half.load_parameters(path)
    half.load_parameters(path, cast_dtype=True, dtype_source=source)
    assert half.weight.data().dtype is np.dtype(dtype).type
