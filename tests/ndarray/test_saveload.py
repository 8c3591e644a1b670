"""The .params format: both ways, older versions, damage, and files that appear only when whole.

The hexadecimal texts were written by MXNet 1.9.1 (nd.save) and are read by it again.
"""
import os
import struct

import numpy as np
import pytest

import minigluon as mx
from minigluon import nd

HEAD = "12010000000000000000000000000000"
ONE = HEAD + "0100000000000000"
NAMELESS = "0000000000000000"
VECTOR = "c9fa93f900000000010000000200000000000000"  # version 2, dense, shape (2,)
BY_MXNET = {
    "float32": "0100000000000000000000000000803f00000040",
    "float64": "010000000000000001000000000000000000f03f0000000000000040",
    "float16": "010000000000000002000000003c0040",
    "uint8": "0100000000000000030000000102",
    "int32": "0100000000000000040000000100000002000000",
    "int8": "0100000000000000050000000102",
    "int64": "01000000000000000600000001000000000000000200000000000000",
    "bool": "0100000000000000070000000101",
}
NAMED = bytes.fromhex(
    HEAD + "0200000000000000"
    "c9fa93f900000000" "02000000" "0100000000000000" "0300000000000000"
    "010000000000000000000000" "0000803f0000004000004040"
    + VECTOR + "010000000000000005000000" "0102"
    "0200000000000000" "0300000000000000" "612062" "0100000000000000" "78")
VALUES = np.arange(4, dtype="float32").reshape(2, 2)


def listed(array_bytes):
    return bytes.fromhex(ONE) + array_bytes + bytes(8)


@pytest.mark.parametrize("dtype", BY_MXNET)
def test_every_element_type_byte_by_byte(dtype, tmp_path):
    content = bytes.fromhex(ONE + VECTOR + BY_MXNET[dtype] + NAMELESS)
    (read,) = nd.load_frombuffer(content)
    assert read.dtype is np.dtype(dtype).type and read.context == mx.cpu(0)
    assert read.asnumpy().tolist() == ([True, True] if dtype == "bool" else [1, 2])
    path = str(tmp_path / "a.params")
    nd.save(path, read)
    with open(path, "rb") as file:
        assert file.read() == content


def test_names_may_hold_anything(tmp_path):
    read = nd.load_frombuffer(NAMED)
    assert {name: x.shape for name, x in read.items()} == {"a b": (1, 3), "x": (2,)}
    path = str(tmp_path / "a.params")
    nd.save(path, read)
    with open(path, "rb") as file:
        assert file.read() == NAMED
    nd.save(path, {"größe/0": nd.ones((1,))})
    assert list(nd.load(path)) == ["größe/0"]


@pytest.mark.parametrize(("data", "kind"), [
    ([nd.ones((2,)), nd.zeros((1, 3))], list), ((nd.ones((1,)),), list), (nd.ones((1,)), list),
    ({"a": nd.ones((2,))}, dict), ([], list), ({}, list)])
def test_what_goes_in_comes_out(data, kind, tmp_path):
    path = str(tmp_path / "a.params")
    nd.save(path, data)
    read = nd.load(path)
    values = [data] if isinstance(data, nd.NDArray) else list(
        data.values() if isinstance(data, dict) else data)
    assert type(read) is kind and len(read) == len(values)
    for one, other in zip(read.values() if kind is dict else read, values, strict=True):
        np.testing.assert_array_equal(one.asnumpy(), other.asnumpy())


def test_the_place_is_written_but_arrays_come_back_to_the_host(tmp_path):
    path = str(tmp_path / "a.params")
    nd.save(path, nd.ones((1,), ctx=mx.cpu(3)))
    with open(path, "rb") as file:
        assert struct.unpack("<ii", file.read()[44:52]) == (1, 3)
    assert nd.load(path)[0].context == mx.cpu(0)


@pytest.mark.parametrize("head", [
    struct.pack("<III", 2, 2, 2),  # before 1.0
    struct.pack("<IIqq", 0xF993FAC8, 2, 2, 2),
    struct.pack("<IiIqq", 0xF993FAC9, 0, 2, 2, 2),
])
@pytest.mark.parametrize("place", [(1, 0), (2, 0)])  # cpu(0); gpu(0), which is not here
def test_all_versions_of_the_format(head, place):
    content = listed(head + struct.pack("<iii", *place, 0) + VALUES.tobytes())
    np.testing.assert_array_equal(nd.load_frombuffer(content)[0].asnumpy(), VALUES)


def test_six_arrays_of_the_old_days():
    one = struct.pack("<II", 1, 128) + struct.pack("<iii", 1, 0, 0)
    one += np.arange(128, dtype="float32").tobytes()
    arrays = nd.load_frombuffer(struct.pack("<QQQ", 0x112, 0, 6) + 6 * one + bytes(8))
    assert [x.asnumpy().tolist() for x in arrays] == [list(range(128))] * 6


def test_cut_short_anywhere():
    for length in range(len(NAMED)):
        with pytest.raises(mx.MXNetError, match="cut short"):
            nd.load_frombuffer(NAMED[:length])


@pytest.mark.parametrize(("content", "said"), [
    (b"x" * 100, "not a file of arrays"),
    (struct.pack("<QQQ", 0x112, 0, 2**60), "cut short"),
    (listed(struct.pack("<IiI", 0xF993FAC9, 0, 2**31)), "rank"),
    (listed(struct.pack("<IiIqiii", 0xF993FAC9, 0, 1, 2**62, 1, 0, 0)), "cut short"),
    (listed(struct.pack("<IiIqiii", 0xF993FAC9, 0, 1, 2, 1, 0, 99)), "element type 99"),
    (listed(struct.pack("<IiI", 0xF993FAC9, 0, 0)), r"shape \(\)"),
    (listed(struct.pack("<IiIqiii", 0xF993FAC9, 0, 1, -2, 1, 0, 0)), r"shape \(-2,\)"),
    (listed(struct.pack("<IiIqiii", 0xF993FACA, 0, 1, -2, 1, 0, 0)), r"shape \(-2,\)"),
    (NAMED[:-28] + struct.pack("<Q", 1) + NAMED[-20:], "2 arrays but 1 names"),
    (NAMED[:-1] + b"\xff", "not UTF-8"),
])
def test_damage_is_named(content, said):
    with pytest.raises(mx.MXNetError, match=said):
        nd.load_frombuffer(content)


def test_damage_of_sparse_arrays_is_named():
    content = listed(struct.pack("<Ii", 0xF993FAC9, 1) + bytes(60))
    with pytest.raises(mx.MXNetError, match="damaged"):
        nd.load_frombuffer(content)
    content = listed(struct.pack("<Ii", 0xF993FAC9, 7) + bytes(60))
    with pytest.raises(mx.MXNetError, match="storage type 7"):
        nd.load_frombuffer(content)


@pytest.mark.parametrize(("data", "kind"), [
    (3, ValueError), ([3], TypeError), ({3: nd.ones((1,))}, TypeError), ("text", ValueError)])
def test_what_cannot_be_saved(data, kind, tmp_path):
    path = tmp_path / "a.params"
    with pytest.raises(kind):
        nd.save(str(path), data)
    assert not path.exists()


def test_wrong_arguments(tmp_path):
    with pytest.raises(TypeError, match="file name"):
        nd.load(3)
    with pytest.raises(TypeError, match="expected bytes"):
        nd.load_frombuffer("text")
    with pytest.raises(mx.MXNetError, match="nowhere"):
        nd.load(str(tmp_path / "nowhere"))
    with pytest.raises(mx.MXNetError, match="cannot write"):
        nd.save(str(tmp_path / "no" / "folder"), nd.ones((1,)))
    with pytest.raises(NotImplementedError, match="s3"):
        nd.save("s3://bucket/key", nd.ones((1,)))


def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path):
    path = str(tmp_path / "a.params")
    nd.save(path, {"old": nd.ones((1,))})
    with pytest.raises(TypeError, match="uint16"):
        nd.save(path, [nd.ones((1,)), nd.ones((1,)).astype("uint16")])
    assert list(nd.load(path)) == ["old"] and os.listdir(tmp_path) == ["a.params"]


def test_permissions_follow_the_umask_and_links_stay(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    before = os.umask(0o027)
    try:
        nd.save(str(target), nd.ones((1,)))
    finally:
        os.umask(before)
    assert target.stat().st_mode & 0o777 == 0o640
    link.symlink_to(target)
    nd.save(str(link), nd.ones((3,)))
    assert link.is_symlink() and nd.load(str(target))[0].shape == (3,)


@pytest.mark.parametrize("shapes", [[(2, 0, 1), (0,)], [()], [(2, 0, 1), (0,), (), (3,)]])
def test_arrays_without_elements_and_scalars_under_np_shape(shapes, tmp_path):
    path = str(tmp_path / "x.nd")
    with mx.np_shape():
        nd.save(path, [nd.zeros(shape) for shape in shapes])
        assert [array.shape for array in nd.load(path)] == shapes
        one = nd.zeros(shapes[0])
    with pytest.raises(mx.MXNetError, match="loaded under them"):
        nd.load(path)
    with pytest.raises(mx.MXNetError, match="only under np_shape"):
        nd.save(path, one)
    with pytest.raises(ValueError, match="np_shape"):
        nd.zeros(())
