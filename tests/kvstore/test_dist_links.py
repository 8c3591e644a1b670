"""A whole job in one process: over a memory network that doubles, over TCP that breaks."""
import random
import selectors
import socket
import struct
import threading
import time

import numpy as np
import pytest
from dist_jobs import free_port

from minigluon import nd
from minigluon.base import KVStoreError, PeerLost
from minigluon.kvstore.dist.actions import Limits
from minigluon.kvstore.dist.client import Client
from minigluon.kvstore.dist.environment import Job
from minigluon.kvstore.dist.memory import MemoryNetwork
from minigluon.kvstore.dist.messages import SCHEDULER, Farewell, Goodbye, Role, Values
from minigluon.kvstore.dist.node import SchedulerLoop, ServerLoop
from minigluon.kvstore.dist.transport import ZmqTransport
from minigluon.kvstore.dist.wire import decode
from minigluon.kvstore.dist.worker import DistKVStore

LIMITS = Limits(start=20, operation=20, heartbeat=5, interval=0.3)


def job(role, port, workers=2, servers=2, wanted=-1):
    return Job(role, "127.0.0.1", port, workers, servers, wanted, b"t", "", "", LIMITS, 1_000_000,
               0, 0)


class Cluster:
    """Scheduler, servers and workers as threads of this process.

    Args:
        transport: makes one for each role.
        proxy: wraps the port of a listener, so that connections go through it.
    """

    def __init__(self, transport, workers=2, servers=2, proxy=lambda port: port):
        self.port = free_port()
        self.codes = {}
        self.threads = []
        self.loops = []
        scheduler = transport()
        scheduler.listen("127.0.0.1", self.port)
        seen = proxy(self.port)
        self.run(SchedulerLoop(scheduler, job(Role.SCHEDULER, self.port, workers, servers),
                               "127.0.0.1", time.monotonic))
        for rank in range(servers):
            loop = ServerLoop(transport(), job(Role.SERVER, self.port, workers, servers, rank),
                              time.monotonic)
            loop.port = proxy(loop.port)
            if loop.bulk:
                loop.bulk = proxy(loop.bulk)
            self.run(loop)
        self.clients = [Client(job(Role.WORKER, seen, workers, servers, rank), transport())
                        for rank in range(workers)]
        starting = [threading.Thread(target=client.start) for client in self.clients]
        for thread in starting:
            thread.start()
        for thread in starting:
            thread.join()

    def run(self, loop):
        def body():
            self.codes[str(loop.me)] = loop.run()
            loop.transport.close(linger=1)

        self.loops.append(loop)
        self.threads.append(threading.Thread(target=body))
        self.threads[-1].start()

    def train(self, script, kind="dist_sync"):
        """Run `script(store)` as every worker at once; the results by rank."""
        results = [None] * len(self.clients)

        def body(rank):
            try:
                results[rank] = script(DistKVStore(kind, self.clients[rank]))
            except Exception as error:
                results[rank] = error

        threads = [threading.Thread(target=body, args=(r,)) for r in range(len(self.clients))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        return results

    def end(self):
        for client in self.clients:
            client.leave()
        for thread in self.threads:
            thread.join(20)
        return self.codes

    def kill(self):
        for client in self.clients:
            client.stop()
        for loop in self.loops:
            loop.code = loop.code or 1
        for thread in self.threads:
            thread.join(5)


def steps(store, count=40):
    """Integer gradients: the sums are exact, so one lost or doubled push shows."""
    shapes = {"a": (3,), "b": (40, 50), "big": (1100, 1000)}
    store.init(list(shapes), [nd.zeros(s) for s in shapes.values()])
    outs = {key: nd.zeros(shape) for key, shape in shapes.items()}
    total = 0
    for step in range(1, count + 1):
        keys = ["a", "b", "big"] if step % 10 == 0 else ["a", "b"]
        store.push(keys, [nd.ones(shapes[k]) * step * (store.rank + 1) for k in keys])
        store.pull(keys, [outs[k] for k in keys])
        total = step * sum(r + 1 for r in range(store.num_workers))
        for key in keys:
            got = outs[key].asnumpy()
            assert (got == total).all(), (step, key, got.ravel()[:4], total)
        if step % 7 == 0:
            store.barrier()
    return store.stats()["repeated"]


@pytest.fixture
def cluster(request):
    made = []

    def make(*args, **kwargs):
        made.append(Cluster(*args, **kwargs))
        return made[-1]

    yield make
    for one in made:
        one.kill()


def test_a_job_over_the_memory_network(cluster):
    made = cluster(MemoryNetwork().transport)
    assert made.train(steps) == [0, 0]
    assert made.end() == {"scheduler": 0, "server 0": 0, "server 1": 0}


def test_every_message_may_come_twice(cluster):
    made = cluster(MemoryNetwork(tamper=lambda frames: [frames, frames]).transport, 3)
    results = made.train(steps)
    assert all(isinstance(r, int) and r > 100 for r in results), results
    assert set(made.end().values()) == {0}


def test_a_corrupted_message_of_a_member_ends_the_job_with_the_reason(cluster):
    rng = random.Random(3)
    network = MemoryNetwork()
    made = cluster(network.transport)

    def corrupt(frames):
        if len(frames) > 1 and rng.random() < 0.05:
            head = bytearray(frames[0])
            head[12] ^= 255  # the incarnation may be anything, the length of the text may not
            head[-20] ^= 255
            return [[head, *frames[1:]]]
        return [frames]

    network.tamper = corrupt
    results = made.train(lambda store: steps(store, 400))
    assert all(isinstance(r, KVStoreError) for r in results), results
    assert any("no message" in str(r) for r in results), results
    for thread in made.threads:
        thread.join(10)
    assert set(made.codes.values()) == {75}


def test_a_goodbye_whose_answer_is_lost_with_the_scheduler_is_none_to_wait_for(cluster):
    lost = []

    def tamper(frames):
        said = decode(frames)
        if (isinstance(said.message, Farewell) and said.sender == SCHEDULER) or isinstance(
                said.message, Values):
            lost.append(type(said.message))
            return []
        return [frames]

    made = cluster(MemoryNetwork(tamper).transport, 1, 1)
    store, out = DistKVStore("dist_sync", made.clients[0]), nd.zeros((2,))
    store.init("w", nd.ones((2,)))
    store.pull("w", out=out)  # a request older than the goodbye, which nobody answers
    began = time.monotonic()
    assert made.end() == {"scheduler": 0, "server 0": 0}
    assert time.monotonic() - began < LIMITS.operation / 2
    assert lost == [Values, Farewell] and made.clients[0].failure is None
    with pytest.raises(KVStoreError, match="left the job"):
        out.asnumpy()


def test_a_scheduler_that_dies_of_a_goodbye_is_none_to_wait_for(cluster):
    goodbyes = []

    def tamper(frames):
        if isinstance(decode(frames).message, Goodbye):
            goodbyes.append(frames)
            if len(goodbyes) == 2:  # the server's was the first
                scheduler.transport.close()
                return []
        return [frames]

    made = cluster(MemoryNetwork(tamper).transport, 1, 1)
    [client], scheduler = made.clients, made.loops[0]
    DistKVStore("dist_sync", client).init("w", nd.ones((2,)))
    began = time.monotonic()
    client.leave()
    assert time.monotonic() - began < LIMITS.heartbeat / 2
    assert len(goodbyes) == 2 and client.failure is None and client.closed


class Proxy:
    """TCP connections in between; `cut` breaks all of them, with a reset."""

    def __init__(self, port):
        self.target = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.pairs = {}
        self.lock = threading.Lock()
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.cut_at = None
        self.over = False
        self.accepted = 0
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.over:
            for key, _ in self.selector.select(0.02):
                if key.fileobj is self.listener:
                    self.accept()
                elif key.fileobj in self.pairs:
                    self.copy(key.fileobj)
            if self.cut_at is not None and time.monotonic() > self.cut_at:
                self.cut_at = None
                for end in list(self.pairs):
                    self.drop(end)
        for end in list(self.pairs):
            self.drop(end)
        self.listener.close()
        self.selector.close()

    def accept(self):
        one, _ = self.listener.accept()
        self.accepted += 1
        try:
            two = socket.create_connection(("127.0.0.1", self.target))
        except OSError:
            one.close()
            return
        for end, other in ((one, two), (two, one)):
            self.pairs[end] = other
            self.selector.register(end, selectors.EVENT_READ)

    def copy(self, end):
        try:
            data = end.recv(1 << 20)
            if data:
                self.pairs[end].sendall(data)
                return
        except OSError:
            data = b""
        self.drop(end)

    def drop(self, end):
        other = self.pairs.pop(end, None)
        if other is None:
            return
        self.pairs.pop(other, None)
        for side in (end, other):
            self.selector.unregister(side)
            side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            side.close()


def test_broken_connections_are_made_anew_and_nothing_is_lost_or_doubled(cluster):
    proxies = []

    def through(port):
        proxies.append(Proxy(port))
        return proxies[-1].port

    try:
        made = cluster(lambda: ZmqTransport(b"t", 5.0), proxy=through)
        stop = threading.Event()

        def trouble():
            rng = random.Random(1)
            while not stop.wait(0.4):
                rng.choice(proxies).cut_at = 0.0

        breaker = threading.Thread(target=trouble)
        breaker.start()
        results = made.train(lambda store: steps(store, 300))
        stop.set()
        breaker.join()
        assert all(isinstance(r, int) for r in results), results
        assert set(made.end().values()) == {0}
        assert sum(proxy.accepted for proxy in proxies) > 6 + 5  # it really was broken
        assert sum(results) > 0  # and answers got lost, so requests came twice
    finally:
        for proxy in proxies:
            proxy.over = True
            proxy.thread.join()


def test_a_client_that_is_closed_says_so_and_its_arrays_do_not_wait(cluster):
    made = cluster(MemoryNetwork().transport)
    store = DistKVStore("dist_sync", made.clients[0])
    other = DistKVStore("dist_sync", made.clients[1])
    threads = [threading.Thread(target=s.init, args=("w", nd.zeros((2,)))) for s in (store, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    out = nd.zeros((2,))
    store.push("w", nd.ones((2,)))
    store.pull("w", out=out)  # waits for worker 1, which never pushes
    made.clients[0].stop()
    with pytest.raises(KVStoreError, match="left the job"):
        out.asnumpy()
    with pytest.raises(KVStoreError, match="left the job"):
        store.push("w", nd.ones((2,)))
    with pytest.raises(PeerLost, match="worker 0"):
        other.barrier()  # worker 1 may not have heard yet: a call that waits for worker 0


def test_the_value_at_the_call_counts_and_memory_is_reused(cluster):
    made = cluster(MemoryNetwork().transport, 1, 2)
    store = DistKVStore("dist_sync", made.clients[0])
    store.init("w", nd.zeros((500, 1000)))
    a, out = nd.ones((500, 1000)), nd.zeros((500, 1000))
    for step in range(5):
        a[:] = step
        store.push("w", a)
        a[:] = -1
        store.pull("w", out=out)
        assert (out.asnumpy() == step).all()
    made.clients[0].drain()
    spare = made.clients[0].requests._spare
    assert sum(len(buffers) for buffers in spare.values()) == 1
    assert np.all([size == 2_000_000 for size in spare])
    assert set(made.end().values()) == {0}
