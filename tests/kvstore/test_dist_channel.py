"""Processes of one host: shared segments, the channel over a Unix socket, nothing left behind."""
import fcntl
import gc
import os
import socket
import struct

import numpy as np
import pytest
from dist_jobs import Job

from minigluon.kvstore.dist.channel import Channel, ChannelError
from minigluon.kvstore.dist.segments import Arena, MapError, map_segment


@pytest.fixture
def pair():
    ends = []

    def make(keeps=False):
        one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ends.extend([Channel(one, Arena(), keeps), Channel(two, Arena(), not keeps)])
        return ends

    yield make
    for end in ends:
        end.close()
        end.arena.close()


def pump(sender, receiver):
    """Everything under way arrives."""
    found, quiet = [], 0
    while quiet < 3:
        left = sender.flush()
        got = receiver.receive()
        found += got
        quiet = 0 if left or got else quiet + 1
    return found


def test_frames_arrive_in_order_small_ones_inline_big_ones_shared(pair):
    one, two = pair()
    shared = one.arena.array((300_000,), "float32")
    shared[:] = np.arange(300_000)
    plain = np.arange(1_000_000, dtype=np.int32)
    one.send([b"head", shared.data.cast("B"), b"", plain.data.cast("B"), b"tail"])
    one.send([b"next"])
    (first, number), (second, nothing) = pump(one, two)
    assert (number, nothing) == (1, 0) and second == [b"next"]
    assert (bytes(first[0]), bytes(first[2]), bytes(first[4])) == (b"head", b"", b"tail")
    assert (np.frombuffer(first[3], np.int32) == plain).all()
    view = np.frombuffer(first[1], np.float32)
    assert (view == shared).all()
    shared[7] = -5                       # it is the same memory
    assert view[7] == -5
    with pytest.raises(ValueError):      # and the receiver may only read it
        view[0] = 1


def test_shared_frames_are_kept_until_they_are_released(pair):
    one, two = pair(keeps=True)
    array = one.arena.array((100_000,), "uint8")
    where = one.arena.find(array.data)
    for _ in range(2):
        one.send([array.data])
    del array
    gc.collect()
    assert len(one.lent) == 2
    for _, number in pump(one, two):
        two.release(number)
    pump(two, one)
    assert not one.lent
    gc.collect()
    again = one.arena.array((100_000,), "uint8")
    assert one.arena.find(again.data) == where


def test_memory_is_used_again_only_when_no_view_of_it_is_left():
    arena = Arena()
    first = arena.array((10, 10), "float64")
    view = first[3:5].T
    del first
    assert arena.find(arena.array((10, 10), "float64").data.cast("B")) != (0, 0)
    start = arena.find(memoryview(np.ascontiguousarray(view)).cast("B"))
    assert start is None                 # a copy lies elsewhere
    del view
    gc.collect()
    places = {arena.find(a.data.cast("B")) for a in [arena.array((100,), "float64")
                                                    for _ in range(2)]}
    assert (0, 0) in places
    big = arena.array((5_000_000,), "float64")
    assert arena.find(big.data.cast("B"))[0] == 1 and big.nbytes == 40_000_000


@pytest.mark.parametrize(("sent", "words"), [
    (b"GET / HTTP/1.1\r\n\r\n", "no message"),
    (struct.pack("<4sI", b"MGCH", 1 << 20), "no message"),
    (struct.pack("<4sIIIQQ", b"MGCH", 1, 0, 0, 0, 1 << 40), "announces a frame"),
    (struct.pack("<4sIIIQQ", b"MGCH", 1, 1, 0, 0, 10), "which is not there"),
    (struct.pack("<4sIIIQQ", b"MGCH", 1, 2, 0, 0, 10), "without its descriptor"),
    (struct.pack("<4sIIIQQ", b"MGCH", 1, 9, 0, 0, 10), "unknown kind 9"),
])
def test_nonsense_ends_the_connection(sent, words):
    raw, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    channel = Channel(other, None, False)
    raw.sendall(sent)
    with pytest.raises(ChannelError, match=words):
        channel.receive()
    raw.close()
    channel.close()


def test_an_offset_outside_the_segment_is_refused(pair):
    one, two = pair()
    array = one.arena.array((100_000,), "uint8")
    one.send([array.data])
    pump(one, two)
    one.sock.sendall(struct.pack("<4sIIIQQ", b"MGCH", 1, 1, 0, one.arena.sizes[0] - 5, 10))
    with pytest.raises(ChannelError, match="which is not there"):
        two.receive()


def test_a_file_that_could_shrink_is_no_segment():
    file = os.memfd_create("x", os.MFD_ALLOW_SEALING)
    os.ftruncate(file, 4096)
    with pytest.raises(MapError, match="seals"):
        map_segment(os.dup(file), 4096)
    arena = Arena()
    arena.array((1,), "uint8")
    with pytest.raises(MapError, match="for 4096"):
        map_segment(os.dup(arena.files[0]), 4096)
    with pytest.raises(OSError):
        os.ftruncate(arena.files[0], 1)


def test_a_file_longer_than_memory_can_be_is_no_segment():
    raw, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    channel = Channel(other, None, False)
    size, file = (1 << 63) - 1, os.memfd_create("x", os.MFD_ALLOW_SEALING)
    os.ftruncate(file, size)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    socket.send_fds(raw, [struct.pack("<4sIIIQQ", b"MGCH", 1, 2, 0, 1, size)], [file])
    with pytest.raises(ChannelError, match="no segment"):
        channel.receive()
    raw.close()
    channel.close()
    os.close(file)


def test_the_end_of_the_other_process_is_seen_at_once(pair):
    one, two = pair()
    one.send([b"last words"])
    one.close()
    with pytest.raises(ChannelError, match="connection lost"):
        assert two.receive() == [([b"last words"], 0)]
        two.receive()


VALUES = """
import hashlib
kv = mx.kv.create("dist_sync")
shapes = {"small": (3,), "wide": (1300, 1100), "mid": (200, 300)}
kv.init(list(shapes), [nd.zeros(shape) for shape in shapes.values()])
kv.set_optimizer(mx.optimizer.create("sgd", learning_rate=0.1, momentum=0.9))
rng = np.random.default_rng(kv.rank)
outs = [nd.zeros(shape) for shape in shapes.values()]
for step in range(5):
    grads = [nd.array(rng.standard_normal(s).astype("float32")) for s in shapes.values()]
    kv.pushpull(list(shapes), grads, out=outs)
    for grad in grads:
        grad[:] = np.nan                     # the value at the call counts
mx.nd.waitall()
digest = hashlib.sha256(b"".join(o.asnumpy().tobytes() for o in outs)).hexdigest()
near = sum(one.local for one in kv._client.transport.near.values())
print("digest", digest, "near", near, flush=True)
"""


def test_every_van_gives_the_same_bits():
    digests = set()
    for van, near in (("tcp", 0), ("ipc", 2), ("shm", 2), ("", 2)):
        with Job(VALUES, workers=2, servers=2, env={"PS_VAN": van}) as job:
            job.succeed(60)
            for rank in range(2):
                words = job.text(f"worker {rank}").split()
                assert words[3] == str(near), (van, words)
                digests.add(words[1])
    assert len(digests) == 1


def test_a_forced_van_has_to_be_known():
    with Job("", workers=1, servers=1, env={"PS_VAN": "carrier"}) as job:
        job.codes(30)
        assert "PS_VAN=carrier: expected tcp, ipc or shm" in job.text("server 0")


STAY = VALUES + """
time.sleep(60)
"""


def test_nothing_is_left_after_kill_9():
    before = set(os.listdir("/dev/shm"))
    with Job(STAY, workers=2, servers=1) as job:
        job.wait_for("worker 0", "digest")
        job.wait_for("worker 1", "digest")
        assert set(os.listdir("/dev/shm")) <= before
        for label in ("worker 0", "worker 1", "server 0", "scheduler"):
            job.kill(label)
        job.codes(10)
    assert set(os.listdir("/dev/shm")) <= before
