"""Small rounds that repeat: done by native code at both ends, seen by nobody but the clock."""
import queue
import select
import socket
import struct
import threading
import time

import numpy as np
import pytest
from dist_jobs import Job
from test_dist_links import Cluster

from minigluon import nd
from minigluon.device.cpu.native import core
from minigluon.device.engine import begin
from minigluon.kvstore.dist.channel import Channel
from minigluon.kvstore.dist.forms import NUMBER_AT, form_of
from minigluon.kvstore.dist.messages import Item, Node, PushPull, Role, Values
from minigluon.kvstore.dist.segments import Arena
from minigluon.kvstore.dist.transport import ZmqTransport
from minigluon.kvstore.dist.wire import decode, encode

native = pytest.mark.skipif(not hasattr(core, "kv_lanes"), reason="without the native core")


def frames(kind, rank, seq, values):
    item = Item(3, 0, 0, values.size, values.dtype.name, values.shape, values)
    role = Role.WORKER if kind is PushPull else Role.SERVER
    return encode(kind(seq, (item,)), Node(role, rank))


def ends():
    one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Channel(one, None, False), Channel(two, None, True)


class Line:
    """A native lane of a worker: a call sends `sent`, an answer fills `target`."""

    def __init__(self, sent):
        self.far, self.near = ends()
        self.epoll = select.epoll()
        self.file = self.near.sock.fileno()
        self.epoll.register(self.file, select.EPOLLIN)
        self.lanes = core.kv_lanes(self.epoll.fileno(), NUMBER_AT)
        self.lanes.add(self.file)
        self.sent, self.target = sent, nd.zeros(sent.shape)
        self.asked = form_of(frames(PushPull, 0, 0, sent))
        self.reply = form_of(frames(Values, 0, 0, sent))

    def call(self, seq):
        ticket = begin([self.target._variable()], "an answer")
        self.lanes.call(self.file, seq, *self.asked, [self.sent], *self.reply,
                        [self.target._data], ticket)
        return ticket

    def close(self):
        self.lanes.remove(self.file)
        self.epoll.close()
        for end in (self.far, self.near):
            end.close()


def heard(channel):
    return [decode(found).message for found, _ in channel.receive()]


def test_a_form_is_a_message_but_for_its_number_and_its_numbers():
    values = np.arange(5, dtype=np.float32)
    head, room = form_of(frames(PushPull, 1, 77, values))
    assert struct.unpack_from("<Q", head, NUMBER_AT) == (77,) and room == 64
    other, _ = form_of(frames(PushPull, 1, 78, values + 1))
    assert head[:NUMBER_AT] == other[:NUMBER_AT] and head[NUMBER_AT + 8:] == other[NUMBER_AT + 8:]
    assert form_of(frames(PushPull, 1, 1, np.zeros(100_000))) is None
    assert form_of([b"head"]) is None and form_of([b"head", b""]) is None


class Table:
    """A server's native rounds of one value, and the workers' ends."""

    def __init__(self, workers=3, size=6):
        self.pairs = [ends() for _ in range(workers)]
        self.value = np.zeros(size, np.float32)
        self.epoll = select.epoll()
        self.rounds = core.KvRounds(self.epoll.fileno(), NUMBER_AT, self.value)
        for rank, (_, near) in enumerate(self.pairs):
            self.epoll.register(near.sock.fileno(), select.EPOLLIN)
            asked = form_of(frames(PushPull, rank, 1, self.value))
            reply = form_of(frames(Values, 0, 1, self.value))
            self.rounds.add(near.sock.fileno(), *asked, *reply, 1)

    def push(self, rank, seq, number):
        values = np.full(self.value.shape, number, np.float32)
        self.pairs[rank][0].send(frames(PushPull, rank, seq, values))

    def close(self):
        self.epoll.close()
        for pair in self.pairs:
            for end in pair:
                end.close()


@pytest.fixture
def table():
    made = Table()
    yield made
    made.close()


@native
def test_complete_rounds_are_summed_and_answered(table):
    for step in (2, 3):
        for rank in (2, 0, 1):
            table.push(rank, step, 10 ** rank * step)
        assert table.rounds.turn(0.05) is False    # nothing else came
        for rank, (far, _) in enumerate(table.pairs):
            (answer,) = heard(far)
            assert isinstance(answer, Values) and answer.seq == step, rank
            assert (answer.items[0].data == 111 * step).all()
    count, seconds, latest, waited = table.rounds.progress()
    assert (count, latest) == (2, [3, 3, 3]) and seconds > 0
    assert waited[0] == waited[2] == 0 < waited[1]   # the last one is who was waited for
    assert table.rounds.progress()[0] == 0 and (table.value == 333).all()


@native
@pytest.mark.parametrize("seq", [1, 2])
def test_what_is_of_no_round_stays_where_it_is(table, seq):
    table.push(1, 2, 5)
    if seq == 2:   # another message than the one of the round
        table.pairs[0][0].send(frames(PushPull, 0, 2, np.zeros(7, np.float32)))
    else:          # a number that was seen before
        table.push(0, 1, 5)
    assert table.rounds.turn(5) is True
    ((file, data),) = table.rounds.held()            # and what was taken comes back as it was
    assert file == table.pairs[1][1].sock.fileno() and table.rounds.held() == []
    ((found, _),) = table.pairs[1][1].feed(data)
    assert decode(found).message.items[0].data.tolist() == [5] * 6
    assert [m.seq for m in heard(table.pairs[0][1])] == [seq]
    assert table.rounds.progress() == (0, 0.0, [1, 1, 1], [0.0, 0.0, 0.0])


@native
def test_two_rounds_ahead_and_an_end_are_for_python(table):
    table.push(1, 2, 1)
    table.push(1, 3, 2)
    assert table.rounds.turn(5) is True
    assert len(table.rounds.held()) == 1
    assert [m.seq for m in heard(table.pairs[1][1])] == [3]
    table.pairs[2][0].close()
    assert table.rounds.turn(5) is True


@native
def test_an_answer_that_finds_no_room_is_handed_over(table):
    far, near = table.pairs[0]
    near.sock.setblocking(False)
    filled = 0
    while True:
        try:
            filled += near.sock.send(b"x" * 4096)
        except BlockingIOError:
            break
    for rank in range(3):
        table.push(rank, 2, 1)
    assert table.rounds.turn(5) is True
    ((file, rest),) = table.rounds.unsent()
    assert file == near.sock.fileno() and table.rounds.unsent() == []
    got = b""
    while len(got) < filled:
        got += far.sock.recv(1 << 20)
    ((found, _),) = far.feed(got[filled:] + rest)
    assert (decode(found).message.items[0].data == 3).all()


@native
def test_values_and_messages_that_do_not_fit_are_refused(table):
    with pytest.raises(TypeError):
        core.KvRounds(table.epoll.fileno(), NUMBER_AT, np.zeros(3, np.float16))
    rounds = core.KvRounds(table.epoll.fileno(), NUMBER_AT, np.zeros(600, np.float32))
    with pytest.raises(ValueError):
        rounds.add(1, *form_of(frames(PushPull, 0, 1, table.value)) * 2, 1)


@native
def test_whoever_waits_reads_the_answer_itself():
    line = Line(np.arange(6, dtype=np.float32))
    far, lanes, target = line.far, line.lanes, line.target

    def answers():
        while not (found := heard(far)):
            select.select([far.sock], [], [])
        far.send(frames(Values, 0, found[0].seq, found[0].items[0].data * 2))

    thread = threading.Thread(target=answers)
    line.call(5)
    thread.start()
    assert target.asnumpy().tolist() == [0, 2, 4, 6, 8, 10]   # nobody else reads that socket
    thread.join()
    assert lanes.finished() == [5] and lanes.finished() == []
    # while somebody holds the right to read, others do not
    ticket = line.call(6)
    assert lanes.hold() and not lanes.take(line.file)
    far.send(frames(Values, 0, 6, np.ones(7, np.float32)))
    assert lanes.take(line.file)                                # another answer: Python's
    (found,) = heard(line.near)
    lanes.let_go()
    lanes.forget(6)
    ticket.done()
    assert found.seq == 6 and lanes.finished() == []
    line.close()


@native
def test_an_answer_is_told_of_only_when_its_numbers_are_in_place():
    line = Line(np.ones(4000, np.float32))
    target = line.target
    waits = queue.SimpleQueue()

    def reads():
        while waits.get():
            target.wait_to_read()

    thread = threading.Thread(target=reads)
    thread.start()
    early = 0
    for seq in range(1, 2001):
        line.call(seq)
        waits.put(True)
        line.far.send(frames(Values, 0, seq, line.sent * seq))
        while not line.lanes.finished():   # after that nobody keeps the arrays
            continue
        early += target._data[-1] != seq
        heard(line.far)
    waits.put(False)
    thread.join()
    line.close()
    assert not early


SCRIPT = """
kv = mx.kv.create("dist_sync")
names, shapes = ["a", "b", "c"], [(40,), (3, 5), (7,)]
kv.init(names + ["d"], [nd.zeros(s) for s in shapes + [(600,)]])
outs = [nd.zeros(s) for s in shapes]
d = nd.zeros((600,))
total = 0.0
def words():
    return [o.asnumpy().tobytes().hex()[:16] for o in outs]
for step in range(1, 201):
    rng = np.random.RandomState(step * 10 + kv.rank)
    grads = [nd.array(rng.randn(*s)) for s in shapes]
    kv.pushpull(names, grads, out=outs)
    if step % 3 == 0:                       # nobody waits in between
        kv.pushpull("d", nd.ones((600,)) * step, out=d)
    if step % 50 == 10:                     # a key of the list by itself
        kv.pushpull("b", grads[1] * 2, out=outs[1])
    if step % 41 == 0:
        kv.push(names, grads)
        kv.pull(names, out=outs)
    if step % 4 == 0:
        total = total * 0.5 + sum(float((o.asnumpy().astype(float) ** 2).sum()) for o in outs)
    if step % 60 == 0:
        kv.barrier()
for _ in range(100):
    kv.pushpull(names, grads, out=outs)
    mx.nd.waitall()
kv.barrier()
print("total", total.hex(), words(), float(d[0].asscalar()))
kv.barrier()
stats = kv.stats()  # not rounds: a list of keys is one, or one for each while a key is busy
print("stats", stats["pushes"], stats["bytes_in"], stats["repeated"])
"""


def run(env):
    with Job(SCRIPT, workers=3, servers=2, env=env) as job:
        job.succeed(60)
        return [sorted(line for line in job.text(f"worker {rank}").splitlines()
                       if line.startswith(("total", "stats"))) for rank in range(3)]


def test_a_job_computes_the_same_with_and_without_native_rounds():
    plain, fast = run({"MINIGLUON_NATIVE": "0"}), run({})
    assert plain == fast and len(plain[0]) == 2
    assert plain[0] == plain[1] == plain[2]


@native
def test_a_cluster_does_its_rounds_natively_and_a_worker_that_ends_is_noticed():
    made = Cluster(lambda: ZmqTransport(b"t", 5.0), 2, 1)
    try:
        def script(store):
            store.init("w", nd.zeros((20,)))
            out = nd.zeros((20,))
            for step in range(300):
                store.pushpull("w", nd.ones((20,)) * (step + store.rank), out=out)
                assert (out.asnumpy() == 2 * step + 1).all()
            return store.stats()

        first, second = made.train(script)
        assert first == second and (first["pushes"], first["rounds"]) == (600, 300)
        assert first["bytes_in"] == first["bytes_out"] == 600 * 80
        machine, rounds = made.loops[1].machine, made.loops[1].rounds
        assert rounds._done > 100
        assert {c.latest for c in machine.clients.values()} == {302, 303}  # one init
        made.clients[1].stop()
        with pytest.raises(Exception, match="worker 1"):
            made.clients[0].barrier()
    finally:
        made.kill()


@native
def test_a_worker_killed_during_native_rounds_ends_the_job():
    script = """
kv = mx.kv.create("dist_sync")
kv.init("w", nd.zeros((20,)))
out = nd.zeros((20,))
for step in range(10 ** 6):
    kv.pushpull("w", nd.ones((20,)), out=out)
    mx.nd.waitall()
    if step == 500:
        print("running", flush=True)
"""
    with Job(script, workers=3, servers=1) as job:
        job.wait_for("worker 1", "running")
        job.kill("worker 1")
        codes = job.codes()
        for label in ("worker 0", "worker 2"):
            assert "PeerLost" in job.text(label) and "worker 1" in job.text(label)
            assert codes[label] == 75


def test_a_segment_is_handed_over_without_waiting_for_a_peer_that_does_not_read():
    one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    arena = Arena()
    sender, receiver = Channel(one, arena, True), Channel(two, None, False)
    plain = bytes(1 << 20)
    assert sender.send([plain]) and not sender.idle      # the socket is full
    shared = arena.array((100_000,), "uint8")
    shared[:] = 7
    done = threading.Event()
    thread = threading.Thread(target=lambda: (sender.send([shared.data]), done.set()))
    thread.start()
    assert done.wait(10)
    thread.join()
    found = []
    while len(found) < 2:
        sender.flush()
        found += receiver.receive()
    assert bytes(found[0][0][0]) == plain and found[1][1] == 1
    assert bytes(found[1][0][0]) == shared.tobytes()
    for end in (sender, receiver):
        end.close()
    arena.close()


def meet(one, two):
    """Have `two` dial `one`; the numbers of the connection at both ends."""
    dialled, found = two.connect("127.0.0.1", one.listen("127.0.0.1", 0)), {}
    while len(found) < 2:
        for transport in (one, two):
            for event in transport.poll(0.01):
                found[transport] = event.peer
    return found[one], dialled


@native
def test_what_is_left_to_send_goes_out_although_somebody_waits_in_between():
    server, worker = ZmqTransport(b"t", 5.0), ZmqTransport(b"t", 5.0)
    try:
        peer, dialled = meet(server, worker)
        target, sent = nd.zeros((6,)), np.arange(6, dtype=np.float32)
        asked = form_of(frames(PushPull, 0, 0, sent))
        reply = form_of(frames(Values, 0, 0, sent))
        ticket = begin([target._variable()], "an answer")
        call = worker.caller(dialled)
        assert call(5, *asked, [sent], *reply, [target._data], ticket)
        worker.send(dialled, [b"long", bytes(1 << 20)])
        worker.poll(0.0)
        assert worker.blocked == set() and not worker.near[dialled].channel.idle
        (asking,) = server.poll(1.0)
        assert decode(asking.frames).message.seq == 5
        server.send(peer, frames(Values, 0, 5, sent * 2))
        assert target.asnumpy().tolist() == [0, 2, 4, 6, 8, 10]
        found, until = [], time.monotonic() + 10
        while not found and time.monotonic() < until:
            worker.poll(0.01)
            found = server.poll(0.01)
        assert [len(frame) for frame in found[0].frames] == [4, 1 << 20]
    finally:
        worker.close()
        server.close()


@native
def test_no_answer_overtakes_what_is_left_to_send():
    server, worker = ZmqTransport(b"t", 5.0), ZmqTransport(b"t", 5.0)
    try:
        peer, dialled = meet(server, worker)
        value = np.ones(6, np.float32)
        rounds = core.KvRounds(server.epoll.fileno(), NUMBER_AT, value)
        rounds.add(server.end(peer).sock.fileno(), *form_of(frames(PushPull, 0, 1, value)),
                   *form_of(frames(Values, 0, 1, value)), 1)
        server.repeat(rounds)
        server.send(peer, [b"long", bytes(1 << 20)])
        worker.send(dialled, frames(PushPull, 0, 2, value))
        (asked,) = server.poll(1.0)   # Python answers
        assert decode(asked.frames).message.seq == 2 and rounds.progress()[0] == 0
        server.send(peer, frames(Values, 0, 2, value))
        found, until = [], time.monotonic() + 10
        while len(found) < 2 and time.monotonic() < until:
            server.poll(0.01)
            found += worker.poll(0.01)
        assert [len(frame) for frame in found[0].frames] == [4, 1 << 20]
        assert decode(found[1].frames).message.seq == 2 and server.near[peer].channel.idle
        worker.send(dialled, frames(PushPull, 0, 3, value))
        assert server.poll(0.05) == [] and rounds.progress()[0] == 1
    finally:
        worker.close()
        server.close()
