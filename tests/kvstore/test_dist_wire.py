"""Messages to frames and back, and frames that are no message."""
import random
import tracemalloc

import numpy as np
import pytest

from minigluon.kvstore.dist import messages as say
from minigluon.kvstore.dist import wire
from minigluon.kvstore.dist.messages import Item, KeySpec, Member, Node, Placement, Role
from minigluon.kvstore.dist.wire import VERSION, WireError, decode, encode

WORKER = Node(Role.WORKER, 3)


def item(array, key=0, part=0, start=0):
    return Item(key, part, start, start + array.size, array.dtype.name, array.shape, array)


SAMPLES = [
    say.Ack(5),
    say.Refused(0, "no"),
    say.Register(0, Role.SERVER, 1, "::1", 5000, 77, "ab", 2, (4, 2)),
    say.Roster(1, 0, (Member(Role.WORKER, 0, "h", 0, 1, "u"),
                      Member(Role.SERVER, 0, "h", 2, 3, "v"))),
    say.Declare(9, 1, "dist_async", True,
                (KeySpec("w", (2, 3), "float16"), KeySpec(4, (), "int64"))),
    say.Placed(9, (Placement("w", 7, (4,), "float32", (0, 2, 4), (1, 0)),)),
    say.SetOptimizer(2, 0, "sgd", {"lr": 0.1, "lr_mult": {"pairs": [[0, 2.0]]}, "clip": None}),
    say.SetOptimizer(2, 0, "Mine", {}, "gASV"),
    say.Abort(0, "lost", "worker 1 died — ümlaut", "trace\n", Role.WORKER, 1, 75),
    say.StallReport(0, (say.Stall("w", 5, (1, 2), 3.5),)),
    say.StatsReply(3, {"pushes": 4}),
    say.Heartbeat(0, 12, "w"),
]


@pytest.mark.parametrize("message", SAMPLES, ids=lambda m: type(m).__name__)
def test_control_messages_come_back_equal(message):
    envelope = decode(encode(message, WORKER, 2))
    assert envelope.message == message
    assert (envelope.sender, envelope.incarnation) == (WORKER, 2)


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "int8", "int64", "bool", "uint8"])
def test_arrays_of_all_types_and_sizes_come_back_equal(dtype):
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 2, shape).astype(dtype)
              for shape in [(), (0,), (3,), (2, 0, 4), (5, 7), (300, 401), (1100, 1301)]]
    message = say.Push(8, tuple(item(a, key=i) for i, a in enumerate(arrays)))
    back = decode(encode(message, WORKER)).message
    assert back == message
    for got, sent in zip(back.items, arrays, strict=True):
        assert got.data.dtype == sent.dtype and got.data.shape == sent.shape
        assert np.array_equal(got.data, sent)
        assert not got.data.flags.writeable


def test_big_arrays_are_not_copied_either_way_and_travel_in_pieces():
    array = np.arange(3_000_000, dtype=np.float32)
    frames = encode(say.Push(1, (item(array),)), WORKER)
    assert [len(frame) for frame in frames[1:]] == [4 << 20, 4 << 20, 12_000_000 - (8 << 20)]
    array[0] = 7  # the frames refer to the array
    assert np.frombuffer(frames[1], np.float32)[0] == 7
    small = np.arange(100_000, dtype=np.float32)
    frames = [bytes(f) for f in encode(say.Push(1, (item(small),)), WORKER)]
    back = decode(frames).message.items[0].data
    assert np.shares_memory(back, np.frombuffer(frames[1], np.float32))


def test_small_arrays_are_copied_at_once_and_share_one_frame():
    arrays = [np.full((10,), i, np.float32) for i in range(1000)]
    frames = encode(say.Push(1, tuple(item(a, key=i) for i, a in enumerate(arrays))), WORKER)
    assert len(frames) == 2
    for array in arrays:
        array[:] = -1
    back = decode(frames).message.items
    assert [one.data[3] for one in back] == list(range(1000))


def test_requests_without_numbers():
    message = say.Pull(4, (Item(3, 1, 10, 16, "float32", (2, 3)),))
    frames = encode(message, WORKER)
    assert len(frames) == 1
    assert decode(frames).message == message
    assert decode(frames).message.items[0].data is None


@pytest.mark.parametrize("frames, words", [
    ([], "empty"),
    ([b"xx"], "header of 2 bytes"),
    ([b"GET / HTTP/1.1\r\nHost: a-long-enough-host-name\r\n\r\n"], "magic"),
])
def test_what_is_no_message_is_refused_with_the_reason(frames, words):
    with pytest.raises(WireError, match=words):
        decode(frames)


def test_another_protocol_version_is_named():
    frames = encode(say.Ping(), WORKER)
    head = bytearray(frames[0])
    head[4] = 9
    with pytest.raises(WireError, match=f"version 9.*speaks {VERSION}"):
        decode([head])


def test_an_announced_size_takes_no_memory():
    frames = encode(say.Push(1, (item(np.zeros(100_000, np.float32)),)), WORKER)
    head = bytearray(frames[0])
    shape_at = len(head) - 8
    head[shape_at:shape_at + 8] = (1 << 40).to_bytes(8, "little")
    tracemalloc.start()
    with pytest.raises(WireError):
        decode([head, frames[1]])
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_a_pickled_class_has_to_be_flagged():
    frames = encode(say.SetOptimizer(2, 0, "Mine", {}, "gASV"), WORKER)
    head = bytearray(frames[0])
    head[24:28] = bytes(4)  # flags
    with pytest.raises(WireError, match="not flagged"):
        decode([head])


def test_ten_thousand_mutated_messages_are_decoded_or_refused_but_never_break_the_decoder():
    rng = random.Random(4)
    array = np.arange(20_000, dtype=np.float32)
    push = say.Push(8, (item(np.ones((3, 4), np.float16), key=1), item(array, key=2)))
    originals = [[bytes(f) for f in encode(m, WORKER)] for m in (*SAMPLES, push)]
    refused = 0
    for _ in range(10_000):
        frames = [bytearray(frame) for frame in rng.choice(originals)]
        for _ in range(rng.choice((1, 1, 2, 8))):
            kind = rng.randrange(5)
            frame = rng.choice(frames)
            if kind == 0 and frame:
                frame[rng.randrange(min(len(frame), 200))] = rng.randrange(256)
            elif kind == 1 and frame:
                at = rng.randrange(min(len(frame), 200))
                absurd = (1 << 40).to_bytes(8, "little")
                frame[at:at + 8] = rng.choice([b"\xff" * 8, bytes(8), absurd])
            elif kind == 2:
                del frame[rng.randrange(len(frame) + 1):]
            elif kind == 3:
                frames.append(bytearray(rng.randbytes(rng.randrange(100))))
            elif len(frames) > 1:
                frames.pop(rng.randrange(len(frames)))
        try:
            message = decode(frames).message
        except WireError as error:
            refused += 1
            assert str(error).startswith("wire: ")
            continue
        for one in getattr(message, "items", ()):
            if one.data is not None:
                assert one.data.shape == one.shape and one.data.dtype.name == one.dtype
    assert refused > 5_000


def test_element_types_that_cannot_travel_are_named():
    with pytest.raises(wire.KVStoreError, match="complex64 cannot travel"):
        wire.check_dtype(np.complex64, "init of key 'w'")
