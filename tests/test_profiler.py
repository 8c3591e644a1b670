"""mx.profiler: what is seen, what the file holds, and that nothing remains when it stops."""
import json
import threading

import pytest

import minigluon as mx
from minigluon import autograd, gluon, nd, profiler
from minigluon.dispatch import observing
from minigluon.profiler.record import recorder


@pytest.fixture
def trace(tmp_path):
    """A function that stops the profiler and gives the events of the file it writes."""
    path = tmp_path / "trace.json"
    before = dict(vars(recorder.config))
    profiler.set_config(filename=str(path), profile_all=False, profile_symbolic=False)
    profiler.dumps(reset=True)  # what others left

    def read():
        profiler.set_state("stop")
        profiler.dump()
        return json.loads(path.read_text())["traceEvents"]

    yield read
    profiler.set_state("stop")
    profiler.dumps(reset=True)
    vars(recorder.config).clear()
    vars(recorder.config).update(before)


def names(events, category):
    return [event["name"] for event in events if event.get("cat") == category]


def train():
    net = gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(gluon.nn.Dense(4, activation="relu"), gluon.nn.Dense(2))
    net.initialize()
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", kvstore=mx.kv.create("device"))
    with autograd.record():
        loss = net(nd.ones((3, 5))).sum()
    loss.backward()
    trainer.step(3)


def test_operators_graphs_and_stores_are_seen(trace):
    profiler.set_state("run")
    a = nd.ones((2, 3))
    ((a + a) * a - 1).sum()
    nd.relu(a)
    train()
    events = trace()
    operators = names(events, "operator")
    for name in ("_ones", "broadcast_add", "broadcast_mul", "_minus_scalar", "sum", "relu",
                 "sgd_update"):
        assert name in operators, operators
    assert "FullyConnected" not in operators
    assert names(events, "graph") == ["net", "net_backward"]
    assert {"KVStore.init", "KVStore.push", "KVStore.pull"} <= set(names(events, "kvstore"))
    [add] = [event for event in events if event["name"] == "broadcast_add"]
    assert add["args"] == {"shapes": "(2, 3) (2, 3)"}


@pytest.mark.parametrize("setting", ["profile_all", "profile_symbolic"])
def test_operators_inside_of_graphs(trace, setting):
    profiler.set_config(**{setting: True})
    profiler.set_state("run")
    train()
    events = trace()
    assert names(events, "operator").count("FullyConnected") == 2
    assert "_fc_grad_weight" in names(events, "operator")


def test_results_are_the_same(trace):
    def loss(on):
        mx.random.seed(3)
        profiler.set_config(profile_all=True)
        profiler.set_state("run" if on else "stop")
        net = gluon.nn.HybridSequential()
        net.add(gluon.nn.Conv2D(4, 3, activation="relu"), gluon.nn.BatchNorm(),
                gluon.nn.Dropout(0.5), gluon.nn.Dense(2))
        net.initialize()
        net.hybridize()
        x = nd.random.normal(shape=(2, 3, 6, 6))
        with autograd.record():
            y = (net(x) ** 2).sum()
        y.backward()
        return float(y.asscalar()), float((net[0].weight.grad() ** 2).sum().asscalar())

    assert loss(True) == pytest.approx(loss(False), rel=1e-4)


def test_the_file_is_a_chrome_trace(trace):
    profiler.set_state("run")
    nd.ones((2,)) + 1
    events = trace()
    assert events[0]["ph"] == "M"
    begins = []
    for event in events[1:]:
        assert event["ph"] == "X" and event["dur"] >= 0
        assert {"name", "cat", "ts", "pid", "tid"} <= event.keys()
        begins.append(event["ts"])
    assert begins == sorted(begins) and len(begins) == 2


def test_nothing_is_taken_or_left_when_it_does_not_run(trace):
    add, push = nd.NDArray.__add__, mx.kv.KVStore.push
    for _ in range(2):
        profiler.set_state("run")
        assert nd.NDArray.__add__ is not add or observing.observer is not None
        profiler.pause()
        assert nd.NDArray.__add__ is add and mx.kv.KVStore.push is push
        assert observing.observer is None
        nd.ones((2,)) + 1
        profiler.resume()
        nd.zeros((2,))
    assert names(trace(), "operator") == ["_zeros", "_zeros"]


def test_errors_pass(trace):
    profiler.set_state("run")
    with pytest.raises(mx.MXNetError, match="dot"):
        nd.dot(nd.ones((2, 3)), nd.ones((2, 3)))
    with pytest.raises(mx.MXNetError, match="not been initialized"):
        mx.kv.create().push("w", nd.ones((2,)))
    assert "KVStore.push" in names(trace(), "kvstore")


def test_calls_that_a_store_inherits_are_seen_and_given_back(trace):
    class Base:
        def push(self, key):
            return key

    class Store(Base):
        pass

    profiler.watch(Store, ("push", "pull"))
    try:
        profiler.set_state("run")
        assert Store().push("w") == "w"
        profiler.set_state("stop")
        assert "push" not in vars(Store) and Store().push(2) == 2
        assert names(trace(), "kvstore") == ["Store.push"]
    finally:
        recorder.watched.pop()


def test_own_events(trace):
    profiler.set_state("run")
    domain = profiler.Domain("input")
    task, frame = domain.new_task("decode"), domain.new_frame("picture")
    counter = domain.new_counter("images", 5)
    task.start()
    with frame, profiler.Event("read"):
        counter += 3
        counter -= 1
        counter.increment()
        counter.decrement(2)
    other = threading.Thread(target=task.stop)
    other.start()
    other.join()
    domain.new_marker("here").mark("global")
    with pytest.raises(ValueError, match="scope must be one of"):
        domain.new_marker("here").mark("nowhere")
    table = profiler.dumps()
    events = trace()
    by_name = {}
    for event in events[1:]:
        by_name.setdefault(event["name"], []).append(event)
    begin, end = by_name["decode"]
    assert (begin["ph"], end["ph"], begin["id"]) == ("b", "e", end["id"])
    assert begin["tid"] != end["tid"] and begin["ts"] <= end["ts"]
    assert [event["args"]["images"] for event in by_name["images"]] == [5, 8, 7, 8, 6]
    assert by_name["here"][0]["s"] == "g" and by_name["read"][0]["cat"] == "event"
    assert by_name["picture"][0]["cat"] == "input,frame"
    for row in ("decode  ", "picture  ", "read  ", "images  "):
        assert row in table
    assert [str(each) for each in (domain, task, frame, counter)] == [
        "input", "decode", "picture", "images"]


def test_sums(trace):
    profiler.set_state("run")
    for _ in range(3):
        nd.ones((300, 300))
    nd.dot(nd.ones((2, 2)), nd.ones((2, 2)))
    profiler.set_state("stop")
    rows = json.loads(profiler.dumps(format="json"))["Time"]["operator"]
    assert rows["_ones"]["Count"] == 5 and rows["dot"]["Count"] == 1
    assert rows["_ones"]["Min"] <= rows["_ones"]["Avg"] <= rows["_ones"]["Max"]
    assert rows["_ones"]["Total"] == pytest.approx(5 * rows["_ones"]["Avg"])
    table = profiler.dumps(sort_by="count", ascending=True, reset=True)
    assert table.index("dot  ") < table.index("_ones  ")
    assert "dot" not in profiler.dumps()
    for wrong in ({"format": "xml"}, {"sort_by": "name"}):
        with pytest.raises(AssertionError, match="Invalid value"):
            profiler.dumps(**wrong)


def test_a_file_each_time_it_stops(trace, tmp_path):
    path = tmp_path / "again.json"
    profiler.set_config(continuous_dump=True, filename=str(path))
    profiler.set_state("run")
    nd.ones((2,))
    profiler.set_state("stop")
    assert len(json.loads(path.read_text())["traceEvents"]) == 2


def test_wrong_settings():
    with pytest.raises(mx.MXNetError, match="Cannot find argument 'speed'"):
        profiler.set_config(speed=1)
    with pytest.raises(ValueError, match="'run' or 'stop'"):
        profiler.set_state("go")
    for call in (profiler.set_config, profiler.set_state, profiler.dump, profiler.pause):
        with pytest.raises(ValueError, match="create a distributed KVStore first"):
            call(profile_process="server")


def test_old_names(trace, tmp_path):
    path = str(tmp_path / "old.json")
    with pytest.warns(UserWarning, match="deprecated"):
        profiler.profiler_set_config("all", path)
    with pytest.warns(UserWarning, match="deprecated"):
        profiler.profiler_set_state("run")
    nd.ones((2,))
    with pytest.warns(UserWarning, match="deprecated"):
        profiler.dump_profile()
    with open(path) as file:
        assert names(json.load(file)["traceEvents"], "operator") == ["_ones"]


def test_sums_outlive_the_file(trace):
    profiler.set_state("run")
    nd.dot(nd.ones((4, 4)), nd.ones((4, 4)))
    trace()
    profiler.set_state("run")
    nd.dot(nd.ones((4, 4)), nd.ones((4, 4)))
    assert names(trace(), "operator").count("dot") == 1  # each file has its own run
    sums = json.loads(profiler.dumps(format="json"))["Time"]["operator"]["dot"]
    assert sums["Count"] == 2 and 0 < sums["Min"] <= sums["Avg"] <= sums["Max"] < sums["Total"]
    profiler.dumps(reset=True)
    assert "dot" not in profiler.dumps()
