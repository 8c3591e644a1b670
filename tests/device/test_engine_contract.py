"""The engine's contract, native and in Python: order, priorities, errors, waiting, forks, the end.

Nothing here sleeps: gates and queues say when something has happened.
"""
import os
import queue
import random
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
from forked import in_child

import minigluon as mx
from minigluon.device import engine as door
from minigluon.device import plainengine
from minigluon.device.cpu import native

ENGINES = [pytest.param(plainengine, id="python")]
if native.enabled:
    ENGINES.append(pytest.param(native.core.engine, id="native"))
LONG = 60.0


@pytest.fixture(params=ENGINES)
def engine(request):
    made = request.param
    made.setup(door._forked, door._too_long, door._patience)
    before = made.threads()
    made.set_threads(2)
    yield made
    made.set_threads(before)
    made.limit(64, 64 << 20)
    made.setup(door._forked, door._too_long, door._patience)


def push(engine, fn, reads=(), writes=(), priority=0):
    engine.push(fn, list(reads), list(writes), priority, "test work")


class Gate(threading.Event):
    """Work that ends when the test says so; `begun` tells that it is running."""

    def __init__(self):
        super().__init__()
        self.begun = threading.Event()

    def __call__(self):
        self.begun.set()
        assert self.wait(LONG)


def test_work_runs_on_another_thread_after_the_writes_it_reads(engine):
    var, gate, order = engine.Var(), Gate(), []
    push(engine, lambda: (gate(), order.append("write")), writes=[var])
    push(engine, lambda: order.append(("read", threading.get_ident())), reads=[var])
    assert var.busy and order == []
    gate.set()
    engine.wait_all()
    assert order[0] == "write" and order[1][0] == "read"
    assert order[1][1] != threading.get_ident() and not var.busy and not var.used


def test_what_was_done_when_while_traced(engine):
    var, other = engine.Var(), engine.Var()
    engine.spans()
    engine.trace(True)
    begin = time.perf_counter_ns()
    ticket = engine.begin([var], "elsewhere")
    engine.push(lambda: None, [], [other], 0, "here")
    other.wait()
    ticket.done()
    engine.wait_all()
    engine.trace(False)
    push(engine, lambda: None, writes=[other])
    engine.wait_all()
    (here, a, b, works), (elsewhere, c, d, not_here) = engine.spans()
    assert (here, works, elsewhere, not_here) == ("here", True, "elsewhere", False)
    assert begin <= c <= a <= b <= d <= time.perf_counter_ns()
    assert engine.spans() == []


def test_reads_run_together_and_a_write_waits_for_both(engine):
    var, first, second, order = engine.Var(), threading.Event(), threading.Event(), []
    push(engine, lambda: (first.set(), second.wait(LONG), order.append("read")), reads=[var])
    push(engine, lambda: (second.set(), first.wait(LONG), order.append("read")), reads=[var])
    push(engine, lambda: order.append("write"), writes=[var])
    engine.wait_all()
    assert order == ["read", "read", "write"]


def test_waiting_for_a_read_does_not_wait_for_readers_but_a_writer_does(engine):
    var, gate = engine.Var(), Gate()
    push(engine, gate, reads=[var])
    assert gate.begun.wait(LONG)
    var.wait()  # would never return otherwise
    assert not var.busy and var.used
    threading.Thread(target=gate.set).start()
    var.wait_to_write()
    assert gate.is_set() and not var.used


def test_ready_work_runs_by_priority_then_in_the_order_of_its_coming(engine):
    engine.set_threads(1)
    gate, order = Gate(), []
    push(engine, gate)
    assert gate.begun.wait(LONG)
    for number, priority in enumerate([0, 5, -5, 5, 0]):
        push(engine, lambda number=number: order.append(number), priority=priority)
    gate.set()
    engine.wait_all()
    assert order == [1, 3, 0, 4, 2]


def test_an_error_goes_through_dependents_and_surfaces_once(engine):
    a, b, c, ran = engine.Var(), engine.Var(), engine.Var(), []

    def fails():
        raise mx.base.PeerLost("server 3 died")

    push(engine, fails, writes=[a])
    push(engine, lambda: ran.append("b"), reads=[a], writes=[b])
    push(engine, lambda: ran.append("c"), writes=[b, c])
    with pytest.raises(mx.base.PeerLost, match="server 3"):
        c.wait()
    a.wait(), b.wait(), c.wait()
    engine.wait_all()
    assert ran == []
    push(engine, lambda: ran.append("again"), reads=[a], writes=[b])
    engine.wait_all()
    assert ran == ["again"]


def test_wait_all_reports_the_first_error_and_forgets_the_others(engine):
    variables = [engine.Var() for _ in range(3)]

    def fails(text):
        raise ValueError(text)

    for number, var in enumerate(variables):
        push(engine, lambda number=number: fails(f"number {number}"), writes=[var])
    with pytest.raises(ValueError, match="number"):
        engine.wait_all()
    engine.wait_all()
    for var in variables:
        var.wait()


def test_an_error_keeps_its_traceback(engine):
    var = engine.Var()

    def where_it_happens():
        return {}["nothing"]

    push(engine, where_it_happens, writes=[var])
    with pytest.raises(KeyError) as caught:
        var.wait()
    assert "where_it_happens" in [entry.name for entry in caught.traceback]


def test_without_workers_everything_runs_in_push(engine):
    engine.set_threads(0)
    var, seen = engine.Var(), []
    push(engine, lambda: seen.append(threading.get_ident()), writes=[var])
    assert seen == [threading.get_ident()]

    def fails():
        raise ValueError("at once")

    with pytest.raises(ValueError, match="at once"):
        push(engine, fails)
    push(engine, fails, writes=[var])
    with pytest.raises(ValueError, match="at once"):
        var.wait()
    engine.wait_all()


def test_work_may_push_and_wait_for_what_it_pushed(engine):
    for workers in (0, 1, 2):
        engine.set_threads(workers)
        engine.limit(1, 1)
        outer, inner, order = engine.Var(), engine.Var(), []

        def work(outer=outer, inner=inner, order=order):
            push(engine, lambda: order.append("inner"), writes=[inner])
            push(engine, lambda: order.append("third"), reads=[inner])
            inner.wait()
            outer.wait_to_write()  # held by this work itself
            engine.wait_all()
            order.append("outer")
            push(engine, lambda: order.append("after"), writes=[outer])

        push(engine, work, writes=[outer])
        engine.wait_all()
        assert order.index("inner") < order.index("outer") < order.index("after")
        assert len(order) == 4


def test_push_waits_where_much_is_queued(engine):
    engine.set_threads(1)
    engine.limit(3, 1 << 30)
    gate, pushed, ended = Gate(), queue.Queue(), []
    push(engine, gate)
    assert gate.begun.wait(LONG)

    def many():
        for number in range(6):
            push(engine, lambda number=number: ended.append(number))
            pushed.put(number)

    thread = threading.Thread(target=many)
    thread.start()
    assert [pushed.get(timeout=LONG) for _ in range(2)] == [0, 1]
    assert pushed.empty() and ended == []  # the third waits in push: three have not ended
    gate.set()
    thread.join(LONG)
    engine.wait_all()
    assert ended == list(range(6))


def test_a_ticket_blocks_readers_and_queued_work_until_it_ends(engine):
    var, order = engine.Var(), []
    ticket = engine.begin([var], "pull of key 1")
    assert ticket.what == "pull of key 1" and var.busy
    push(engine, lambda: order.append("read"), reads=[var])
    thread = threading.Thread(target=lambda: (order.append("end"), ticket.done()))
    thread.start()
    var.wait()
    engine.wait_all()
    assert order == ["end", "read"]
    engine.begin([var], "pull").fail(mx.MXNetError("never came"))
    with pytest.raises(mx.MXNetError, match="never came"):
        var.wait()


def test_begin_waits_for_earlier_reads(engine):
    var, gate, order = engine.Var(), Gate(), []
    push(engine, lambda: (gate(), order.append("read")), reads=[var])
    threading.Thread(target=gate.set).start()
    ticket = engine.begin([var], "pull")
    order.append("begun")
    ticket.done()
    assert order == ["read", "begun"]


def test_begin_on_what_the_work_itself_holds_is_an_error(engine):
    var = engine.Var()
    push(engine, lambda: engine.begin([var], "pull"), writes=[var])
    with pytest.raises(ValueError, match="holds the array itself"):
        var.wait()


def test_a_wait_has_an_end(engine, monkeypatch):
    monkeypatch.setattr(door, "_patience", lambda: 0.0)
    engine.setup(door._forked, door._too_long, lambda: 0.0)
    var = engine.Var()
    ticket = engine.begin([var], "pull of key 9")
    with pytest.raises(mx.base.KVStoreTimeout, match="key 9"):
        var.wait()
    with pytest.raises(mx.base.KVStoreTimeout, match="key 9"):
        engine.wait_all()
    with pytest.raises(mx.base.KVStoreTimeout, match="second"):
        engine.begin([var], "second")
    ticket.done()
    var.wait()


def test_two_threads_push_to_the_same_variables(engine):
    variables = [engine.Var() for _ in range(3)]
    counts = [0, 0, 0]

    def add(place):
        counts[place] += 1  # safe only because nothing else writes it meanwhile

    def pusher(start):
        for number in range(200):
            place = (start + number) % 3
            push(engine, lambda place=place: add(place), writes=[variables[place]])

    threads = [threading.Thread(target=pusher, args=(start,)) for start in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    engine.wait_all()
    assert sum(counts) == 600


@pytest.mark.parametrize("seed", range(6))
def test_random_graphs_give_what_doing_it_in_order_gives(engine, seed):
    draw = random.Random(seed)
    engine.set_threads(draw.randint(0, 4))
    engine.limit(draw.randint(1, 40), 1 << 30)
    count = draw.randint(2, 8)
    variables = [engine.Var() for _ in range(count)]
    expected, memory = [1] * count, [1] * count

    def apply(values, reads, writes, number):
        mix = number * 2654435761
        for place in reads:
            mix = (mix ^ values[place]) * 40503 % 2**61
        for place in writes:
            values[place] = (values[place] * 31 + mix) % 2**61

    for number in range(200):
        reads = draw.sample(range(count), draw.randint(0, 2))
        writes = draw.sample(range(count), draw.randint(1, 2))
        apply(expected, reads, writes, number)
        push(engine, lambda r=reads, w=writes, n=number: apply(memory, r, w, n),
             [variables[i] for i in reads], [variables[i] for i in writes], draw.randint(-2, 2))
        if draw.random() < 0.05:
            place = draw.randrange(count)
            variables[place].wait()
            assert memory[place] == expected[place]
    engine.wait_all()
    assert memory == expected and engine.open() == 0


def forked(engine):
    """In a child: tell an engine that has no hook of its own."""
    hook = getattr(engine, "after_fork", None)
    if hook is not None and engine is not door._engine:
        hook()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_tells_of_its_own_work_only(engine):
    def child():
        forked(engine)
        return str(engine.spans())

    engine.spans()
    engine.trace(True)
    push(engine, lambda: None, writes=[engine.Var()])
    engine.wait_all()
    assert in_child(child) == "[]"
    engine.trace(False)
    assert len(engine.spans()) == 1


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_none_of_the_work_and_workers_of_its_own(engine):
    pending, read_only, later = engine.Var(), engine.Var(), engine.Var()
    gate, ran = Gate(), []
    push(engine, gate, reads=[read_only], writes=[pending])
    push(engine, lambda: ran.append("parent"), reads=[pending], writes=[later])
    assert gate.begun.wait(LONG)

    def child():
        forked(engine)
        said = []
        for var in (pending, later):
            try:
                var.wait()
            except mx.MXNetError as error:
                said.append(str(error))
        read_only.wait_to_write()
        fresh = engine.Var()
        push(engine, lambda: ran.append("child"), reads=[read_only], writes=[fresh])
        fresh.wait()
        engine.wait_all()
        return f"{len([text for text in said if 'forked' in text])} {ran}"

    assert in_child(child) == "2 ['child']"
    gate.set()
    engine.wait_all()
    assert ran == ["parent"] and not pending.busy


SCRIPT = r"""
import sys
import minigluon as mx
from minigluon.device import engine
x = mx.nd.zeros((3,))
ticket = engine.begin([mx.nd.zeros((1,))._variable()], "never ends")
never = mx.nd.zeros((1,))
for i in range(30):
    engine.push(lambda i=i: sys.stdout.write(f"{i} "), writes=[x._variable()])
engine.push(lambda: 1 / 0, writes=[never._variable()])
sys.stdout.write("end of script\n")  # in one piece
"""


@pytest.mark.parametrize("native_core", ["0", "1"])
@pytest.mark.parametrize("kind", ["NaiveEngine", "ThreadedEnginePerDevice"])
def test_the_end_of_the_interpreter_runs_what_is_ready(native_core, kind):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT)], capture_output=True, text=True,
        timeout=LONG, env={**os.environ, "MINIGLUON_NATIVE": native_core,
                           "MXNET_ENGINE_TYPE": kind})
    assert done.returncode == 0 and done.stderr == ""
    words = done.stdout.replace("end of script\n", "").split()
    assert words == [str(i) for i in range(30)]


WAITING = """
import threading
import time
import minigluon as mx
from minigluon.device import engine
x = mx.nd.zeros((3,))
ticket = engine.begin([x._variable()], "never ends")

class Last:
    def __del__(self, rest=time.sleep):
        rest(0.3)  # stands for an interpreter that takes long to end: those who wait look up

last = Last()
for _ in range(2):
    threading.Thread(target=x.asnumpy, daemon=True).start()
print("end of script")
"""


@pytest.mark.parametrize("native_core", ["0", "1"])
def test_threads_may_wait_when_the_interpreter_ends(native_core):
    done = subprocess.run([sys.executable, "-c", WAITING], capture_output=True, text=True,
                          timeout=LONG, env={**os.environ, "MINIGLUON_NATIVE": native_core})
    assert (done.returncode, done.stdout, done.stderr) == (0, "end of script\n", "")


COMPUTING = """
import functools
import threading
import time
import minigluon as mx
from minigluon.device import engine
from minigluon.gluon import nn
engine.set_workers(0)
x, net = mx.nd.ones((1800, 1800)), nn.Dense(1800, in_units=1800)
net.initialize()
net.hybridize()
net(x)

class Last:
    def __del__(self, rest=time.sleep):
        rest(0.6)  # stands for an interpreter that takes long to end: who computes comes back

last = Last()
threading.Thread(target=WORK, args=(x,), daemon=True).start()
print("end of script")
"""


@pytest.mark.parametrize("work", ["functools.partial(mx.nd.dot, x)", "net"])
def test_threads_may_compute_when_the_interpreter_ends(work):
    done = subprocess.run([sys.executable, "-c", COMPUTING.replace("WORK", work)], timeout=LONG,
                          capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end of script\n", "")


def test_the_engine_is_chosen_by_the_environment():
    code = "from minigluon.device import engine; print(engine.workers())"

    def workers(**extra):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                              env={**os.environ, **extra}, timeout=LONG)
        return done.stdout.strip() or done.stderr.strip().splitlines()[-1]

    assert workers(MXNET_ENGINE_TYPE="NaiveEngine") == "0"
    assert workers(MXNET_ENGINE_TYPE="ThreadedEngine", MXNET_CPU_WORKER_NTHREADS="3") == "3"
    assert "'Lazy'" in workers(MXNET_ENGINE_TYPE="Lazy")


# -- arrays ----------------------------------------------------------------------------------------


@pytest.fixture
def threaded():
    before = door.workers()
    door.set_workers(1)
    yield
    door.set_workers(before)


def test_writing_an_array_waits_for_queued_readers(threaded):
    x, gate, seen = mx.nd.ones((3,)), Gate(), []
    grad = mx.nd.ones((3,))
    writers = [
        lambda: x.__setitem__(slice(None), 2),
        lambda: x.__iadd__(1),
        lambda: x.reshape((3, 1)).__setitem__(slice(None), 3),
        lambda: mx.nd.sgd_update(x, grad, out=x, lr=0.5),
        lambda: mx.nd.ones((3,)).copyto(x),
        lambda: np.from_dlpack(x),
        lambda: x.wait_to_write(),
    ]
    for write in writers:
        gate, seen = Gate(), []
        value = x.asnumpy()

        def read(gate=gate, seen=seen):
            gate()
            seen.append(x._data.copy())

        door.push(read, reads=[x._variable()])
        assert gate.begun.wait(LONG)
        threading.Thread(target=gate.set).start()
        write()
        assert gate.is_set()
        x.wait_to_write()
        assert np.array_equal(seen[0], value)


def test_a_gradient_is_written_after_queued_readers(threaded):
    x, seen, gate = mx.nd.array([1, 2, 3]), [], Gate()
    x.attach_grad()
    x.grad[:] = 5
    door.push(lambda: (gate(), seen.append(x.grad._data.copy())), reads=[x.grad._variable()])
    assert gate.begun.wait(LONG)
    threading.Thread(target=gate.set).start()
    with mx.autograd.record():
        y = (x * x).sum()
    y.backward()
    mx.nd.waitall()
    assert seen[0].tolist() == [5, 5, 5] and x.grad.asnumpy().tolist() == [2, 4, 6]
