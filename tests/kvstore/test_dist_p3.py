"""P3: slices, the most urgent first, never out of order for one key."""
import threading

import numpy as np
import pytest
from dist_jobs import Job

from minigluon.kvstore.dist.messages import (
    Ack,
    Barrier,
    BarrierDone,
    Item,
    KeySpec,
    Node,
    Push,
    Role,
)
from minigluon.kvstore.dist.placement import Placer
from minigluon.kvstore.dist.requests import Requests

SERVER = Node(Role.SERVER, 0)


def pushed(requests, key, priority, size=1000):
    data = np.zeros(size, np.uint8)
    message = Push(0, (Item(key, 0, 0, size, "uint8", (size,), data),))
    return requests.queue(SERVER, message, f"key {key}", None, None, [], priority)


def sent(requests):
    found = []
    while (pending := requests.next_out()) is not None:
        found.append(pending)
    return found


def test_urgent_slices_overtake_what_has_not_left():
    requests = Requests(lambda message: [b"frame"], window=1500)
    low = [pushed(requests, key, -key) for key in (5, 6, 7)]
    first = sent(requests)
    assert first == low[:2]                 # the window takes two
    urgent = pushed(requests, 0, 0)
    assert sent(requests) == []
    requests.answered(Ack(first[0].seq))
    assert sent(requests) == [urgent] and urgent.seq > first[1].seq
    requests.answered(Ack(first[1].seq))
    assert sent(requests) == [low[2]]
    assert [p.seq for p in (low[0], low[1], urgent, low[2])] == sorted(
        p.seq for p in (low[0], low[1], urgent, low[2]))


def test_a_push_that_has_come_makes_room_before_its_round_is_done():
    requests = Requests(lambda message: [b"frame"], window=1500)
    first, second, third, fourth = (pushed(requests, key, -key) for key in (5, 6, 7, 8))
    assert sent(requests) == [first, second]
    for _ in range(2):              # a word that comes twice counts once
        requests.taken(first.seq)
    requests.taken(99)              # nobody's
    assert sent(requests) == [third] and requests.under_way() == [first, second, third, fourth]
    requests.answered(Ack(first.seq))
    assert sent(requests) == []     # it had made room already
    requests.answered(Ack(second.seq))
    assert sent(requests) == [fourth] and requests.oldest() is third


BIG = """
from minigluon.kvstore.dist import requests
requests._ROOM = int(os.environ["ROOM"])
kv = mx.kv.create("dist_sync")
keys = list(range(int(os.environ["KEYS"])))
kv.init(keys, [nd.zeros((1024, 1024)) for _ in keys])
for key in keys if kv.rank else keys[::-1]:
    kv.push(key, nd.full((1024, 1024), key + kv.rank), priority=key if kv.rank else -key)
outs = [nd.empty((1024, 1024)) for _ in keys]
kv.pull(keys, out=outs)
for key, out in zip(keys, outs):
    assert (out == 2 * key + 1).min().asscalar() == 1
"""


@pytest.mark.parametrize("van", ["shm", "tcp"])
def test_workers_that_push_big_keys_in_opposite_orders_do_not_wait_for_one_another(van):
    env = {"DMLC_PS_VAN_TYPE": "p3", "PS_VAN": van, "KEYS": "4", "ROOM": str(1 << 30)}
    with Job(BIG, workers=2, servers=2, env=env) as job:
        job.succeed(60)


def test_nor_where_more_is_unanswered_than_a_worker_may_have_under_way():
    with Job(BIG, workers=2, servers=1, env={"KEYS": "2", "ROOM": "4000000"}) as job:
        job.succeed(60)


HELD_BACK = """
kv = mx.kv.create("dist_sync")
kv.init(["big", "small"], [nd.zeros((1024, 2048)), nd.zeros(5)])
big, small = nd.ones((1024, 2048)), nd.full(5, kv.rank + 1)
kv.push(["big", "small"], [big, small], priority=[0, -1])
big[:], small[:] = -1, -1
outs = [nd.empty(each.shape) for each in (big, small)]
kv.pull(["big", "small"], out=outs, priority=[0, -1])
assert outs[1].asnumpy().tolist() == [3] * 5, outs[1]
assert (outs[0] == 2).min().asscalar() == 1
"""


def test_a_push_that_is_held_back_takes_small_values_as_they_are_at_the_call():
    with Job(HELD_BACK, workers=2, servers=1, env={"DMLC_PS_VAN_TYPE": "p3"}) as job:
        job.succeed(40)


def test_a_request_that_does_not_queue_leaves_in_the_order_of_numbers_while_others_do():
    encoded, left, direct = {}, [], []

    def encode(message):
        if isinstance(message, Barrier):
            thread.start()
            thread.join(0.3)  # the network thread, just then, if it can
        encoded[type(message)] = message.seq
        return [b"frame"]

    requests = Requests(encode, window=1500)
    thread = threading.Thread(target=lambda: left.extend(sent(requests)))
    push = pushed(requests, 1, 0)
    barrier = requests.make(
        SERVER, Barrier(0, 1), "", None, None, [], lambda frames: direct.append(frames) or True)
    thread.join()
    left += sent(requests)
    assert (barrier.seq, push.seq) == (encoded[Barrier], encoded[Push])
    assert left == [barrier, push] and barrier.seq < push.seq and not direct
    assert len(requests.under_way()) == 2
    requests.answered(BarrierDone(encoded[Barrier]))
    assert barrier.ended and not push.ended


def test_requests_about_one_key_keep_their_order():
    requests = Requests(lambda message: [b"frame"], window=1)
    blocker = pushed(requests, 9, 0)
    assert sent(requests) == [blocker]
    push, pull = pushed(requests, 1, -5), pushed(requests, 1, 100)
    other = pushed(requests, 2, -1)
    order = []
    for last in (blocker, other, push):
        requests.answered(Ack(last.seq))
        order += sent(requests)
    assert order == [other, push, pull]


def test_every_key_is_cut_into_slices_that_go_round_the_servers():
    placer = Placer(2, bound=10**6, slice=40)
    place = placer.place(KeySpec("w", (10, 10), "float32"), whole=False)
    assert (place.bounds, place.servers) == ((0, 40, 80, 100), (0, 1, 0))
    place = placer.place(KeySpec("v", (10, 10), "float32"), whole=False)
    assert place.servers == (1, 0, 1)
    assert len(placer.place(KeySpec("s", (40,), "float32"), whole=False).servers) == 1
    assert len(placer.place(KeySpec("o", (99,), "float32"), whole=True).servers) == 1
