"""Arrays that are moved so that rounds need not copy them: same values, and nobody else sees it."""
import gc
import os
import threading

import numpy as np
import pytest
from dist_jobs import Job

from minigluon import nd
from minigluon.kvstore.dist import moving
from minigluon.kvstore.dist.messages import Item
from minigluon.kvstore.dist.moving import Landing, Moved, Shown, movable
from minigluon.kvstore.dist.pages import PAGE, address_of
from minigluon.kvstore.dist.segments import Arena, map_segment, segment_of
from minigluon.kvstore.dist.shard import Shard

SCRIPT = """
kv = mx.kv.create("dist_sync")
shapes = {"big": (1300, 1024), "wide": (2, 700000), "one": (300, 100), "two": (7, 5001),
          "bit": (3,)}
keys = list(shapes)
kv.init(keys, [nd.zeros(shape) for shape in shapes.values()])
values = [nd.zeros(shape) for shape in shapes.values()]
outs = [nd.ones(shape) for shape in shapes.values()]
view = outs[2][3:5]          # its memory must stay where it is
expected = kv.num_workers * (kv.num_workers + 1) // 2
kept = []
for turn in range(1, 7):
    for i, value in enumerate(values):
        value[:] = (kv.rank + 1) * turn + i   # waits until the last round has read it
    if turn % 2:
        kv.pushpull(keys, values, out=outs)
    else:
        kv.push(keys, values)
        for value in values:
            value[:] = -1                     # what was pushed is what it was at the call
        kv.pull(keys, out=outs)
    for i, out in enumerate(outs):
        found = out.asnumpy()
        wanted = expected * turn + kv.num_workers * i
        assert (found == wanted).all(), (turn, keys[i], found.ravel()[:5], wanted)
        kept.append((out.copy(), wanted))
    assert (view.asnumpy() == outs[2].asnumpy()[3:5]).all()
    outs[0] += 1                              # this worker's own copy of the page
    assert (outs[0].asnumpy() == expected * turn + 1).all()
    outs[1][:] = 5
plan = kv._repeats._plans[tuple(keys)]
if os.environ["PS_VAN"] == "shm":
    assert sum(moved._memory is not None for moved in plan._values) >= 3
    assert any(shown.landing is not None and shown.landing._leases for shown in plan._outs)

kv.barrier()
for array, wanted in kept:
    assert (array.asnumpy() == wanted).all()
import select
ended, end = os.pipe()
pid = os.fork()
if not pid:                                   # a child keeps the values of the fork
    os.close(end)
    for value in values:
        value[:] = -7                         # and what it writes is its own
    ready, limit = outs[3].asnumpy()[0, 0], time.monotonic() + 30
    over = False
    while not over:                           # once more when all rounds are done
        over = bool(select.select([ended], [], [], 0.01)[0])
        assert (outs[3].asnumpy() == ready).all() or os._exit(3)
        assert time.monotonic() < limit or os._exit(4)
    os._exit(0)
for turn in range(20):
    values[3][:] = turn
    kv.pushpull(keys, values, out=outs)
    assert (outs[3].asnumpy() == kv.num_workers * turn).all()
    assert (outs[0].asnumpy() == -kv.num_workers).all()
os.close(end)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
# in place: read by the servers and written by the answer
for turn in range(3):
    for value in values:
        value[:] = kv.rank + 1
    kv.pushpull(keys, values)
    for value in values:
        assert (value.asnumpy() == expected).all()
del outs, view, kept
for turn in range(3):
    outs = [nd.ones(shape) for shape in shapes.values()]
    kv.pull(keys, out=outs)
    for out in outs:
        assert (out.asnumpy() == expected).all()
"""


@pytest.mark.parametrize("van", ["shm", "ipc", "tcp"])
def test_rounds_of_moved_arrays(van: str) -> None:
    with Job(SCRIPT, workers=2, servers=2, env={"PS_VAN": van}) as job:
        job.succeed(60)


ORDER = """
kv = mx.kv.create("dist_sync")
names, shape = ["a", "b"], (900, 1000)
kv.init(names, [nd.zeros(shape)] * 2)
for name in names:
    kv.init(name * 2, nd.zeros(shape))
arrays = {name * 2: nd.zeros(shape) for name in names}
outs = {name: nd.zeros(shape) for name in arrays}
began = time.monotonic()
for turn in range(30):
    for name in sorted(arrays, reverse=kv.rank == 1):
        arrays[name][:] = turn + kv.rank
        kv.push(name, arrays[name])
        arrays[name][:] = -5      # does not wait for the other worker, which pushes the other key
    for name, out in outs.items():
        kv.pull(name, out=out)
        assert (out.asnumpy() == 2 * turn + 1).all(), (turn, out)
    compute(0.25 if kv.rank and turn < 3 else 0)
assert time.monotonic() - began < 14, "a stop at each turn"
late = [kv._repeats._plans[name,].late for name in arrays]
print("late", late)
assert max(late) >= 16 or kv.rank
"""


@pytest.mark.parametrize("van", ["shm", "tcp"])
def test_workers_may_push_in_any_order_and_write_in_between(van):
    with Job(ORDER, workers=2, servers=1, env={"PS_VAN": van}) as job:
        job.succeed(60)


VIEWS = """
kv = mx.kv.create("dist_sync")
keys, shape = ["a", "b"], (900, 1000)
kv.init(keys, [nd.zeros(shape)] * 2)
values, outs = ([nd.zeros(shape) for _ in keys] for _ in range(2))
for turn in range(4):
    for value in values:
        value[:] = turn
    kv.pushpull(keys, values, out=outs)
for other in (lambda x: x.reshape(shape), lambda x: x.as_np_ndarray()):
    for value in values:
        value[:] = 7
    kv.pushpull(keys, values, out=[other(value) for value in values])
    assert (values[0].asnumpy() == 7).all() and (values[1].asnumpy() == 7).all()
assert kv._repeats._plans[tuple(keys)]._values[0]._memory is not None
"""


@pytest.mark.parametrize("van", ["shm", "tcp"])
def test_answers_may_go_to_other_arrays_over_the_memory_of_what_is_pushed(van):
    with Job(VIEWS, workers=1, servers=1, env={"PS_VAN": van}) as job:
        job.succeed(30)


MOVED = """
kv = mx.kv.create("dist_sync")
kv.init("a", nd.zeros(shape))
value, out = nd.zeros(shape), nd.zeros(shape)
for turn in range(1, 4):
    value[:] = turn
    kv.push("a", value)
    kv.pull("a", out=out)
    assert (out.asnumpy() == turn * kv.num_workers).all()
"""
TWICE = f"""
shape = (900, 1000)
{MOVED}
value[:] = 1
kv.barrier()
if kv.rank == 0:
    kv.push("a", value)
    kv.push("a", value)          # the same numbers, in the same pages
    value[:] = 2                 # the other pushes only after that, so the pages are others
    kv.barrier()
    kv.barrier()                 # the first has been added up, the second has not
    for _ in range(4):           # these need memory
        kv.push("a", value)
        value[:] = 2
    kv.barrier()
else:
    kv.barrier()
    kv.push("a", value)
    kv.pull("a", out=out)
    assert (out.asnumpy() == 2).all(), out
    for _ in range(2):
        kv.barrier()
    kv.push("a", value)
    kv.pull("a", out=out)
    assert (out.asnumpy() == 2).all(), out
    for _ in range(4):
        kv.push("a", value)
kv.pull("a", out=out)
assert (out.asnumpy() == 3).all(), out
"""


@pytest.mark.parametrize("van", ["shm", "tcp"])
def test_what_is_pushed_twice_stays_until_both_are_added_up(van):
    with Job(TWICE, workers=2, servers=1, env={"PS_VAN": van}) as job:
        job.succeed(40)


SLOW = f"""
import signal
from minigluon.kvstore.dist.messages import Role
shape = (24576, 1024)
{MOVED}
[server] = [m.pid for m in kv._client.members.values() if m.role is Role.SERVER]
value[:] = 7
os.kill(server, signal.SIGSTOP)  # most cannot leave
kv.push("a", value)
value[:] = 8
os.kill(server, signal.SIGCONT)
kv.pull("a", out=out)
assert (out.asnumpy() == 7).all(), out
"""


def test_what_goes_over_a_slow_network_is_what_was_pushed():
    """A worker that has shared memory, and a server that cannot see it."""
    with Job(SLOW, workers=1, servers=1, env_of={"server 0": {"PS_VAN": "tcp"}}) as job:
        job.succeed(40)


def test_pages_of_an_array_are_exchanged_and_a_peer_keeps_the_old_ones():
    arena = Arena()
    mine = arena.array((5000,), "float32")
    mine[:] = 1
    segment, offset = arena.find(mine.data.cast("B"))
    whole = map_segment(os.dup(arena.files[segment]), arena.sizes[segment])
    theirs = np.frombuffer(whole[offset:offset + mine.nbytes], "float32")
    view, address = mine[7:9], address_of(mine)
    old = arena.exchange(mine)
    mine[:] = 2
    assert (theirs == 1).all() and view.tolist() == [2, 2] and address_of(mine) == address
    assert (old[:20_000].view("float32") == 1).all()
    assert arena.find(mine.data.cast("B")) != (segment, offset)
    assert arena.find(mine[7:].data.cast("B"))[1] == arena.find(mine.data.cast("B"))[1] + 28
    assert arena.find(old.data) == (segment, offset)
    assert arena.exchange(mine[1:]) is None and arena.exchange(np.ones(5000)) is None
    kept = arena.exchange(mine)
    mine[:] = 3
    assert (kept[:20_000].view("float32") == 2).all() and (theirs == 1).all()
    del old, kept, view, mine
    gc.collect()
    arena.trim()
    assert (theirs == 0).all()                 # given back
    again = [arena.array((5000,), "float32") for _ in range(3)]
    for i, one in enumerate(again):
        one[:] = i
    assert [one[0] for one in again] == [0, 1, 2]


def test_memory_of_which_some_pages_were_exchanged_is_not_sent_as_a_whole():
    arena = Arena()
    block = arena.array((4 * PAGE,), np.uint8)
    raw = block.data

    def lies(start, stop):
        segment, offset = arena.find(raw[start * PAGE : stop * PAGE])
        return os.pread(arena.files[segment], 1, offset)[0]

    kept = [arena.exchange(block), arena.exchange(block[PAGE : 3 * PAGE])]
    block[:] = np.repeat([5, 6, 7, 8], PAGE)
    assert [lies(0, 1), lies(1, 3), lies(2, 3), lies(3, 4)] == [5, 6, 7, 8]
    assert all(arena.find(raw[a * PAGE : b * PAGE]) is None
               for a, b in ((0, 2), (0, 4), (2, 4), (1, 4)))
    assert arena.exchange(block[2 * PAGE :]) is None and all(one is not None for one in kept)


def test_a_block_in_pieces_is_not_used_again():
    arena = Arena()
    block = arena.array((3 * PAGE,), np.uint8)
    first = address_of(block)
    assert arena.exchange(block[PAGE:]) is not None
    assert arena.find(block[:PAGE].data) is not None
    del block
    gc.collect()
    assert address_of(arena.array((3 * PAGE,), np.uint8)) != first


def test_only_an_array_that_nobody_else_sees_is_moved():
    x = nd.ones((300, 100))
    assert movable(x)
    view = x[3:5]
    assert not movable(x) and not movable(view)
    del view
    assert movable(x)
    raw = x._data
    assert not movable(x)
    del raw
    assert movable(x) and not movable(nd.zeros((0, 3)))


def test_moved_arrays_keep_their_values_and_are_recognised():
    arrays = [nd.ones((8,)) * i for i in range(4)]
    moved = Moved([3, 1], [8, 8], "float32", np.empty)
    assert moved.here(arrays) and moved.here(arrays)
    assert moved.flat(0, 16).tolist() == [3.0] * 8 + [1.0] * 8
    arrays[1][:] = 9
    assert moved.flat(8, 8).tolist() == [9.0] * 8
    others = [nd.zeros((8,)) for _ in range(4)]
    assert not moved.here(others)              # a copy for arrays that come once is no gain
    assert moved.here(others)                  # these seem to stay
    assert moved.flat(0, 16).tolist() == [0.0] * 16
    for _ in range(9):
        assert not moved.here([nd.zeros((8,)) for _ in range(4)])


def test_what_does_not_come_leaves_what_was_there():
    arrays = [nd.ones((5000,)) * 3, nd.ones((5000,)) * 4]
    shown = Shown([0, 1], [5000, 5000], "float32", list.append)
    assert shown.here(arrays) and shown.here(arrays)
    landing = shown.landing
    landing.awaits(0, 16_000)
    landing.awaits(16_000, 24_000)
    arrays[0]._data[:4000] = 5                 # the first has come
    landing.arrived(0, 16_000)
    landing.lost(16_000, 24_000)
    assert arrays[0].asnumpy().tolist() == [5.0] * 4000 + [3.0] * 1000
    assert arrays[1].asnumpy().tolist() == [4.0] * 5000 and not landing._before


def seen_by_a_worker(size):
    """Memory of a server, and the same as a worker sees it."""
    arena = Arena()
    mine = arena.array((size,), "float32")
    segment, offset = arena.find(mine.data.cast("B"))
    theirs = map_segment(os.dup(arena.files[segment]), arena.sizes[segment])
    return mine, np.frombuffer(theirs[offset:offset + mine.nbytes], "float32")


def test_pages_are_exchanged_and_written_privately():
    size = 40_000
    mine, theirs = seen_by_a_worker(size)
    mine[:] = 7
    assert segment_of(theirs) is not None and segment_of(mine) is None
    done, returned = [], []
    landing = Landing(returned.append)
    memory = landing.make(size, "float32")
    memory[:] = 1
    assert address_of(memory) % PAGE == 0
    assert landing.take(0, theirs, lambda: lambda: done.append("first"))
    assert (memory == 7).all() and not done
    memory[5] = 3
    assert mine[5] == 7 and memory[5] == 3 and memory[6] == 7
    second, seen = seen_by_a_worker(size)
    second[:] = 8
    assert landing.take(0, seen, lambda: lambda: done.append("second"))
    assert (memory == 8).all() and done == ["first"]
    landing.part()                              # from now on the pages are this process' own
    second[:] = 9
    assert (memory == 8).all()
    assert not landing.take(4, seen, lambda: done.append)               # not where a page begins
    assert not landing.take(0, seen[:100], lambda: done.append)         # too little
    assert not landing.take(0, np.ones(size, "float32"), lambda: done.append)  # no segment
    assert not landing.take(0, seen[:size - 9000 + 1], lambda: done.append)    # half a page
    del memory
    gc.collect()
    assert len(returned) == 1 and done == ["first"]
    assert not landing.take(0, seen, lambda: done.append)               # nobody looks any more


def test_no_pages_appear_during_a_fork():
    mine, theirs = seen_by_a_worker(40_000)
    mine[:] = 7
    landing, done = Landing([].append), []
    memory = landing.make(40_000, "float32")
    moving._before_fork()
    thread = threading.Thread(target=landing.take, args=(0, theirs, lambda: done.clear))
    try:
        thread.start()
        thread.join(0.1)
        assert thread.is_alive() and (memory == 0).all()
    finally:
        moving._forking.release()
    thread.join(10)
    assert (memory == 7).all()


@pytest.mark.parametrize("allocate", [np.empty, Arena().array])
def test_a_lent_value_is_not_written(allocate):
    ones = np.ones(9000, np.float32)
    shard = Shard("k", Item(0, 0, 0, 9000, "float32", (9000,), ones), 0, 1, True, allocate)
    lent = shard.lend().data
    raw = lent.reshape(-1).view(np.uint8).data   # all that a frame refers to
    del lent
    shard.writable()[:] = 2
    assert np.frombuffer(raw, "float32").tolist() == [1.0] * 9000
    assert shard.lend().data.tolist() == [2.0] * 9000
    del raw
    shard.replace(np.full(9000, 3, np.float32))
    kept, lent = shard.value, shard.lend()
    shard.replace(np.full(9000, 4, np.float32))
    assert shard._spare is not kept and (lent.data == 3).all()
