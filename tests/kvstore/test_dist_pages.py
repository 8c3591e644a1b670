"""Pages of peers' segments: read where they lie, and not kept mapped where that costs nothing."""
import os
import re
import socket
from pathlib import Path

import numpy as np
import pytest
from dist_jobs import Job

from minigluon.kvstore.compression import Codec, Packed
from minigluon.kvstore.dist import pages
from minigluon.kvstore.dist.channel import Channel
from minigluon.kvstore.dist.messages import Item
from minigluon.kvstore.dist.pages import HUGE, PAGE
from minigluon.kvstore.dist.segments import (
    FIRST,
    Arena,
    map_segment,
    passing,
    segment_of,
)
from minigluon.kvstore.dist.shard import Shard

SIZE = 3 << 20  # bytes of an array here: more than a huge page, and not a whole number of them


def mapped_bytes(pid, reach, arena=None):
    """Resident bytes of a process' shared segments that are mapped with this reach; of an arena."""
    found, ours = 0, False
    starts = None if arena is None else {f"{start:x}" for start in arena._starts}
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        head = re.match(r"[0-9a-f]+-[0-9a-f]+ (\S+) \S+ \S+ \S+\s*(.*)", line)
        if head:
            ours = "memfd:minigluon" in head[2] and head[1].startswith(reach) and (
                starts is None or line.partition("-")[0] in starts)
        elif ours and line.startswith("Rss:"):
            found += int(line.split()[1]) << 10
    return found


def large_arena():
    """Memory of a process that shares much: its first segment is used up."""
    arena = Arena()
    arena.array((FIRST,), np.uint8)[:] = 1
    arena.array((PAGE,), np.uint8)[:] = 1
    return arena


HAS_HUGE = large_arena().huge[1]
huge = pytest.mark.skipif(not HAS_HUGE, reason="no huge pages for shared memory here")


def pushed(arena, count=1, told=True):
    """Arrays of a worker, and the same as a server sees them.

    Args:
        told: the worker says so where it has huge pages.
    """
    mine = [arena.array((SIZE // 4,), "float32") for _ in range(count)]
    maps, theirs = {}, []
    for i, array in enumerate(mine):
        array[:] = np.arange(array.size) % 97 + i
        segment, offset = arena.find(array.data.cast("B"))
        if segment not in maps:
            maps[segment] = map_segment(
                os.dup(arena.files[segment]), arena.sizes[segment], told and arena.huge[segment])
        theirs.append(np.frombuffer(maps[segment][offset : offset + SIZE], "float32"))
    return mine, theirs


def test_who_shares_little_has_no_huge_pages():
    arena = Arena()
    arena.array((SIZE,), np.uint8)[:] = 1
    assert arena.huge == [False] and mapped_bytes(os.getpid(), "rw-s", arena) == SIZE
    assert large_arena().huge == [False, HAS_HUGE]
    server = Arena()
    server.large = False
    kept = [server.array((FIRST,), np.uint8) for _ in range(3)]
    assert server.huge == [False, False] and len(kept) == 3


def test_no_more_memory_is_taken_than_is_handed_out_and_a_step():
    arena = large_arena()
    kept = [arena.array((5 << 20,), np.uint8) for _ in range(7)]   # three of them in a segment
    for each in kept:
        each[:] = 3
    assert sum(os.fstat(file).st_blocks * 512 for file in arena.files) <= (
        FIRST + (7 * 5 << 20) + (4 << 20) + HUGE)
    assert len(arena.files) == 4 and all((each == 3).all() for each in kept)


@huge
def test_pages_that_were_read_are_not_mapped_any_more_and_keep_their_numbers():
    mine, theirs = pushed(large_arena(), 4)
    before = mapped_bytes(os.getpid(), "r--s")
    for turn in range(3):
        with passing(theirs):
            total = sum(theirs)
            assert mapped_bytes(os.getpid(), "r--s") >= before + 4 * SIZE
        assert mapped_bytes(os.getpid(), "r--s") <= before
        assert (total == sum(mine)).all()
        mine[turn][:] += 5                          # seen the next time
    assert theirs[0][0] == 5 and theirs[3][96] == 99


def test_a_peer_maps_huge_pages_by_few_entries():
    """Both ends lie where they can be mapped so, and their owner hands out all of them."""
    arena = large_arena()
    _, theirs = pushed(arena, 2)
    assert all(one.base.obj.address % HUGE == 0 for one in theirs)
    assert all(start % HUGE == 0 for start in arena._starts)


def test_pages_that_are_not_huge_stay_mapped():
    for arena, told in ((Arena(), True), (large_arena(), False)):
        mine, theirs = pushed(arena, told=told)
        before = mapped_bytes(os.getpid(), "r--s")
        with passing(theirs):
            assert (theirs[0] == mine[0]).all()
        assert mapped_bytes(os.getpid(), "r--s") >= before + SIZE


def test_where_the_system_has_no_huge_pages_nobody_says_so(monkeypatch):
    monkeypatch.setattr(pages, "_COLLAPSE", 9999)    # advice it does not know, as before Linux 6.1
    arena = large_arena()
    mine, theirs = pushed(arena)
    assert arena.huge == [False, False]
    with passing(theirs):
        assert (theirs[0] == mine[0]).all()


@huge
def test_a_segment_is_handed_over_with_what_it_is_made_of():
    arena = large_arena()
    left, right = socket.socketpair()
    one, other = Channel(left, arena, True), Channel(right, Arena(), False)
    held = arena.array((SIZE,), np.uint8)
    held[:] = 7
    one.send([b"head", held.data])
    found = []
    while not found:
        found = other.receive()
    theirs = np.frombuffer(found[0][0][1], np.uint8)
    assert [each.obj.huge for each in other._maps.values()] == [False, True]
    before = mapped_bytes(os.getpid(), "r--s")
    with passing([theirs]):
        assert (theirs == 7).all()
    assert mapped_bytes(os.getpid(), "r--s") <= before
    del theirs, found
    one.close()
    other.close()


def test_pages_go_even_if_reading_them_fails_and_small_or_own_ones_stay():
    mine, theirs = pushed(large_arena())
    with pytest.raises(ZeroDivisionError), passing([*theirs, *mine, np.ones(SIZE)]):
        raise ZeroDivisionError
    assert segment_of(mine[0]) is None and segment_of(theirs[0]) is not None
    assert (theirs[0] == mine[0]).all()
    small = theirs[0][: PAGE]
    with passing([small]):
        assert small[1] == 1
    assert mapped_bytes(os.getpid(), "r--s") > 0 and mapped_bytes(os.getpid(), "rw-s") >= SIZE


@huge
@pytest.mark.parametrize("packed", [False, True])
def test_a_shard_keeps_no_page_of_what_it_has_summed(packed):
    own = Arena()
    _, theirs = pushed(large_arena(), 3)
    size = SIZE // 4 * (16 if packed else 1)
    before = mapped_bytes(os.getpid(), "r--s")
    first = np.zeros(size, np.float32)
    shard = Shard("k", Item(0, 0, 0, size, "float32", (size,), first), 0, 3, True, own.array)
    codec = Codec(2, 0.5)
    pieces = [Packed(codec, one.view(np.uint8)) for one in theirs] if packed else theirs
    plain = [codec.expand(one.view(np.uint8), size) for one in theirs] if packed else theirs
    total = shard.sum(pieces)
    assert mapped_bytes(os.getpid(), "r--s") <= before
    assert (total == sum(plain)).all()


ROUNDS = """
kv = mx.kv.create("dist_sync")
shapes = {{"big": (1300, 1024), "wide": (3, 700000), "one": (400, 1024), "bit": (3,)}}
keys, n = list(shapes), kv.num_workers
if {optimizer}:
    kv.set_optimizer(mx.optimizer.SGD(learning_rate=-1.0))   # weight += sum
kv.init(keys, [nd.zeros(shape) for shape in shapes.values()])
values = [nd.zeros(shape) for shape in shapes.values()]
outs = [nd.ones(shape) for shape in shapes.values()]
sums = [0.0] * len(keys)
for turn in range(1, {turns} + 1):
    for i, value in enumerate(values):
        value[:] = (kv.rank + 1) * turn + i
        new = n * (n + 1) // 2 * turn + n * i
        sums[i] = sums[i] + new if {optimizer} else new
    if "{die}" and turn == {turns} // 2 and kv.rank == 1:
        kv.push(keys, values)
        os.kill(os.getpid(), 9)
    if turn % 3:
        kv.pushpull(keys, values, out=outs)
    else:
        kv.push(keys, values)
        kv.pull(keys, out=outs)
    for i, out in enumerate(outs):
        assert (out.asnumpy() == sums[i]).all(), (turn, keys[i], out.asnumpy().ravel()[:5], sums[i])
kv.barrier()
print("rounds done", flush=True)
"""
LAST = """
import signal
signal.pause()
"""


@pytest.mark.parametrize("optimizer", [False, True])
def test_many_rounds_have_the_right_sums_and_leave_no_pages_at_the_server(optimizer):
    script = ROUNDS.format(optimizer=optimizer, turns=24, die="") + LAST
    with Job(script, workers=3, servers=2, env={"PS_VAN": "shm"}) as job:
        for rank in range(3):
            job.wait_for(f"worker {rank}", "rounds done", 40)
        for rank in range(2):
            left = mapped_bytes(job.processes[f"server {rank}"].pid, "r--s")
            pushed = 3 * 4 * (1300 * 1024 + 3 * 700000 + 400 * 1024) // 2
            most = 3 * FIRST + HUGE               # the workers' first segments
            assert left <= most < pushed or not HAS_HUGE, (rank, left, pushed)


def test_a_worker_that_dies_between_rounds_does_no_harm_to_what_is_read():
    script = ROUNDS.format(optimizer=False, turns=24, die="yes")
    with Job(script, workers=3, servers=2, env={"PS_VAN": "shm"}) as job:
        codes = job.codes(40)
        assert codes["worker 1"] == -9
        for rank in (0, 2):
            assert codes[f"worker {rank}"] in (1, 75), job.everything()
            assert "PeerLost" in job.text(f"worker {rank}") and "worker 1" in job.text(
                f"worker {rank}"), job.everything()
        assert codes["server 0"] == codes["server 1"] == 75, job.everything()
        assert "Traceback" not in job.text("server 0") + job.text("server 1")
