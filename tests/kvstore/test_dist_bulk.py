"""Numbers over TCP: connections of their own, straight into the arrays, and when they break."""
import socket
import struct
import threading

import numpy as np
import pytest
from dist_jobs import free_port
from test_dist_links import Cluster, Proxy

from minigluon import nd
from minigluon.kvstore.dist.channel import STRANGERS, Channel, ChannelError
from minigluon.kvstore.dist.messages import Ack, Node, Role, Values
from minigluon.kvstore.dist.near import dial_bulk
from minigluon.kvstore.dist.transport import ZmqTransport
from minigluon.kvstore.dist.wire import answer_to, encode


def channels(**options):
    one, two = socket.socketpair()
    return Channel(one, None, False), Channel(two, None, False, **options)


def everything(sender, receiver, count):
    found = []
    while len(found) < count:
        sender.flush()
        found += receiver.receive()
    return [frames for frames, _ in found]


def test_a_long_frame_goes_where_it_is_told_to_go():
    parts = [np.zeros(size, np.uint8) for size in (70_001, 1, 300_000, 12)]
    asked = []

    def place(frames, length):
        asked.append((list(map(bytes, frames)), length))
        return (b"instead", [part.data for part in parts]) if frames == [b"head"] else None

    sender, receiver = channels(place=place)
    numbers = np.random.default_rng(0).integers(0, 256, 370_014).astype(np.uint8)
    sender.send([b"head", numbers.data])
    sender.send([b"other", numbers.data, b"tail"])
    first, second = everything(sender, receiver, 2)
    assert first == [b"head", b"instead"] and asked[0] == ([b"head"], 370_014)
    assert (np.concatenate(parts) == numbers).all()
    assert second[0] == b"other" and second[2] == b"tail"
    assert (np.frombuffer(second[1], np.uint8) == numbers).all()
    for end in (sender, receiver):
        end.close()


def test_memory_that_is_still_to_be_sent_may_be_replaced():
    sender, receiver = channels()
    numbers = np.arange(1_000_000, dtype=np.int32)
    kept = np.full(10, 7, np.uint8)
    assert sender.send([b"head", numbers.view(np.uint8).data, kept.data])
    copy = numbers.copy()
    sender.replace(numbers, copy)
    numbers[:] = -1
    ((head, sent, other),) = everything(sender, receiver, 1)
    assert head == b"head" and bytes(other) == kept.tobytes()
    assert (np.frombuffer(sent, np.int32) == np.arange(1_000_000)).all()
    for end in (sender, receiver):
        end.close()


@pytest.mark.parametrize("sent", [
    struct.pack("<4sIIIQQ", b"MGCH", 1, 0, 0, 0, 513),
    struct.pack("<4sI", b"MGCH", 2),
])
def test_a_stranger_may_not_send_much(sent):
    raw, other = socket.socketpair()
    channel = Channel(other, None, False)
    channel.limits = STRANGERS
    raw.sendall(sent)
    with pytest.raises(ChannelError):
        channel.receive()
    raw.close()
    channel.close()


@pytest.mark.skipif(not hasattr(socket, "TCP_KEEPIDLE"), reason="the system's own interval")
@pytest.mark.parametrize(("heartbeat", "asking"), [(10.0, 2), (0.5, 1)])
def test_an_end_that_only_waits_asks_whether_the_other_is_there(heartbeat, asking):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with dial_bulk(*listener.getsockname(), heartbeat) as sock:
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
                assert sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) == asking


def test_a_header_tells_which_request_it_answers():
    server = Node(Role.SERVER, 0)
    assert answer_to(encode(Values(77), server)[0]) == 77
    assert answer_to(encode(Ack(77), server)[0]) == 0
    assert answer_to(b"") == 0 and answer_to(b"x" * 100) == 0


SHAPES = {"a": (300, 100), "b": (40, 50), "big": (1100, 1000), "c": (200_000,)}


def rounds(store, count=60):
    """Whole numbers: the sums are exact, so one lost or doubled push shows."""
    keys = list(SHAPES)
    store.init(keys, [nd.zeros(s) for s in SHAPES.values()])
    values = [nd.zeros(s) for s in SHAPES.values()]
    outs = [nd.zeros(s) for s in SHAPES.values()]
    for step in range(1, count + 1):
        for i, value in enumerate(values):
            value[:] = step * (store.rank + 1) + i
        store.pushpull(keys, values, out=outs)
        for i, out in enumerate(outs):
            assert (out.asnumpy() == 3 * step + 2 * i).all(), (step, keys[i])
    return store._client._bulk


@pytest.fixture
def proxies():
    made = []
    yield made
    for proxy in made:
        proxy.over = True
        proxy.thread.join()


def made_with(bulk):
    """A job over TCP whose servers say that they take numbers elsewhere."""
    class Other(Cluster):
        def run(self, loop):
            if getattr(loop, "bulk", 0):
                loop.bulk = bulk(loop.bulk)
            super().run(loop)

    return Other(lambda: ZmqTransport(b"t", 5.0, "tcp"))


def test_numbers_take_connections_of_their_own_and_the_first_ones_when_these_break(proxies):
    def through(port):
        proxies.append(Proxy(port))
        return proxies[-1].port

    made = made_with(through)
    try:
        before = made.train(lambda store: rounds(store, 5))
        assert all(None not in each.values() and len(each) == 2 for each in before), before
        stop = threading.Event()

        def trouble():
            for proxy in proxies:
                stop.wait(0.1)
                proxy.cut_at = 0.0

        breaker = threading.Thread(target=trouble)
        breaker.start()
        after = made.train(lambda store: rounds(store, 150))
        breaker.join()
        assert [list(each.values()) for each in after] == [[None, None]] * 2, after
        assert set(made.end().values()) == {0}
    finally:
        made.kill()


def test_a_job_starts_where_the_port_for_numbers_cannot_be_reached():
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it takes connections, and says nothing
        ports = [free_port(), silent.getsockname()[1]]
        made = made_with(lambda port: ports.pop(0))
        try:
            found = made.train(lambda store: rounds(store, 5))
            assert [list(each.values()) for each in found] == [[None, None]] * 2, found
            assert set(made.end().values()) == {0}
        finally:
            made.kill()
