"""RecordIO: bytes there and back, files equal to MXNet's, damaged files, processes, images."""
import gc
import os
import pickle
import struct

import numpy as np
import pytest

import minigluon as mx
from minigluon.recordio import (
    IRHeader,
    MXIndexedRecordIO,
    MXRecordIO,
    Records,
    pack,
    pack_img,
    unpack,
    unpack_img,
)

MAGIC = struct.pack("<I", 0xCED7230A)
# contents, and what MXNet 1.9.1 writes for them: the magic number at a multiple of four parts them
CONTENTS = [b"", MAGIC, b"ab" + MAGIC, b"abcd" + MAGIC + b"x", MAGIC * 3 + b"yy", b"qqqqq"]
FILE = (b"\n#\xd7\xce\x00\x00\x00\x00"
        b"\n#\xd7\xce\x00\x00\x00 \n#\xd7\xce\x00\x00\x00`"
        b"\n#\xd7\xce\x06\x00\x00\x00ab\n#\xd7\xce\x00\x00"
        b"\n#\xd7\xce\x04\x00\x00 abcd\n#\xd7\xce\x01\x00\x00`x\x00\x00\x00"
        b"\n#\xd7\xce\x00\x00\x00 \n#\xd7\xce\x00\x00\x00@\n#\xd7\xce\x00\x00\x00@"
        b"\n#\xd7\xce\x02\x00\x00`yy\x00\x00"
        b"\n#\xd7\xce\x05\x00\x00\x00qqqqq\x00\x00\x00")


def write(path, contents):
    record = MXRecordIO(path, "w")
    for content in contents:
        record.write(content)
    record.close()


def test_bytes_are_mxnets(tmp_path):
    write(tmp_path / "x.rec", CONTENTS)
    assert (tmp_path / "x.rec").read_bytes() == FILE


def test_there_and_back(tmp_path):
    write(tmp_path / "x.rec", CONTENTS)
    record = MXRecordIO(tmp_path / "x.rec", "r")
    for _ in range(2):
        assert [record.read() for _ in CONTENTS] == CONTENTS
        assert record.read() is None and record.read() is None
        record.reset()


def test_indexed(tmp_path):
    idx, rec = tmp_path / "x.idx", tmp_path / "x.rec"
    record = MXIndexedRecordIO(idx, rec, "w")
    for number in range(3):
        record.write_idx(number, b"abc" * number)
    assert record.tell() == 36 and record.keys == [0, 1, 2]
    record.close()
    assert idx.read_text() == "0\t0\n1\t8\n2\t20\n"
    record = MXIndexedRecordIO(idx, rec, "r")
    assert record.keys == [0, 1, 2] and record.idx == {0: 0, 1: 8, 2: 20}
    assert record.read_idx(2) == b"abcabc" and record.read() is None
    assert record.read_idx(1) == b"abc", "also after the end was reached"
    with pytest.raises(KeyError):
        record.read_idx(7)


def test_keys_of_another_type(tmp_path):
    record = MXIndexedRecordIO(tmp_path / "x.idx", tmp_path / "x.rec", "w", key_type=str)
    record.write_idx("a", b"1")
    record.write_idx("b", b"2")
    record.close()
    record = MXIndexedRecordIO(tmp_path / "x.idx", tmp_path / "x.rec", "r", key_type=str)
    assert record.keys == ["a", "b"] and record.read_idx("b") == b"2"


def test_deleting_closes_the_file(tmp_path):
    record = MXRecordIO(tmp_path / "x.rec", "w")
    file = record._file
    assert record.is_open and not file.closed
    del record
    gc.collect()
    assert file.closed


@pytest.mark.parametrize("flag", ["r", "w"])
def test_wrong_direction_and_closed(tmp_path, flag):
    write(tmp_path / "x.rec", [b"a"])
    record = MXRecordIO(tmp_path / "x.rec", flag)
    with pytest.raises(AssertionError, match=f"opened with flag '{flag}'"):
        record.write(b"b") if flag == "r" else record.read()
    record.close()
    record.close()
    with pytest.raises(mx.MXNetError, match="closed"):
        record.write(b"b") if flag == "w" else record.read()


def test_refusals(tmp_path):
    with pytest.raises(ValueError, match="'r' or 'w'"):
        MXRecordIO(tmp_path / "x.rec", "a")
    with pytest.raises(mx.MXNetError, match=r"cannot open .*none\.rec"):
        MXRecordIO(tmp_path / "none.rec", "r")
    write(tmp_path / "x.rec", [b"a"])
    with pytest.raises(mx.MXNetError, match=r"cannot open .*none\.idx"):
        MXIndexedRecordIO(tmp_path / "none.idx", tmp_path / "x.rec", "r")
    (tmp_path / "bad.idx").write_text("0 0\n")
    with pytest.raises(mx.MXNetError, match="line 1: expected key, tab, place"):
        MXIndexedRecordIO(tmp_path / "bad.idx", tmp_path / "x.rec", "r")
    with pytest.raises(TypeError, match="expected bytes, got str"):
        MXRecordIO(tmp_path / "y.rec", "w").write("text")


@pytest.mark.parametrize(("content", "text"), [
    (b"no record at all", "expected a record"), (FILE[:6], "cut off"), (FILE[:-3], "cut off"),
    (b"\n#\xd7\xce\x01\x00\x00`x\x00\x00\x00", "wrong order"),
])
def test_damaged_files(tmp_path, content, text):
    (tmp_path / "x.rec").write_bytes(content)
    record = MXRecordIO(tmp_path / "x.rec", "r")
    with pytest.raises(mx.MXNetError, match=text):
        while record.read() is not None:
            pass


def test_pickle_opens_anew(tmp_path):
    write(tmp_path / "x.rec", CONTENTS)
    record = MXRecordIO(tmp_path / "x.rec", "r")
    record.read()
    assert pickle.loads(pickle.dumps(record)).read() == CONTENTS[0]
    with pytest.raises(TypeError, match="being written"):
        pickle.loads(pickle.dumps(MXRecordIO(tmp_path / "y.rec", "w")))


def test_forked_reader_has_a_place_of_its_own(tmp_path):
    write(tmp_path / "x.rec", CONTENTS)
    record = MXRecordIO(tmp_path / "x.rec", "r")
    record.read()
    pid = os.fork()
    if pid == 0:
        os._exit(0 if [record.read() for _ in CONTENTS[1:]] == CONTENTS[1:] else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert record.read() == CONTENTS[1]


def test_records_by_number(tmp_path):
    write(tmp_path / "x.rec", CONTENTS)
    records = Records(tmp_path / "x.rec")
    assert len(records) == len(CONTENTS) and records.keys == list(range(len(CONTENTS)))
    assert [records[i] for i in (4, 0, 5, 1)] == [CONTENTS[i] for i in (4, 0, 5, 1)]
    lines = "".join(f"{10 * i}\t{place}\n" for i, place in enumerate(records.places))
    (tmp_path / "x.idx").write_text(lines)
    listed = Records(tmp_path / "x.rec", tmp_path / "x.idx")
    assert listed.places == records.places and listed.keys[2] == 20 and listed[2] == CONTENTS[2]
    (tmp_path / "x.idx").write_text("0\t100000\n")
    with pytest.raises(mx.MXNetError, match="ends before the place 100000"):
        Records(tmp_path / "x.rec", tmp_path / "x.idx")[0]
    (tmp_path / "bad.rec").write_bytes(b"12345678")
    with pytest.raises(mx.MXNetError, match="expected a record"):
        Records(tmp_path / "bad.rec")


# -- labels ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", [4, 4.5, np.float32(2), [1, 2, 3], np.arange(9.0), [0.5]])
@pytest.mark.parametrize("content", [b"", b"hello", bytes(1000)])
def test_pack_and_unpack(label, content):
    header, back = unpack(pack((7, label, 2**40, 3), content))
    assert back == content and (header.id, header.id2) == (2**40, 3)
    if np.ndim(label):
        assert header.flag == len(label) and header.label.dtype == np.float32
        assert np.array_equal(header.label, label)
    else:
        assert header.flag == 0 and header.label == label


def test_pack_is_mxnets():
    assert pack(IRHeader(0, [1, 2], 7, 8), b"x") == (
        b"\x02\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0\0\0\x80?\0\0\0@x")
    assert IRHeader._fields == ("flag", "label", "id", "id2")


def test_unpack_refuses():
    with pytest.raises(ValueError, match="at least 24 bytes"):
        unpack(b"abc")
    with pytest.raises(ValueError, match="says 3 numbers"):
        unpack(pack((0, [1, 2, 3], 0, 0), b"")[:30])


# -- images ----------------------------------------------------------------------------------------


def test_images(tmp_path):
    pytest.importorskip("PIL")
    image = np.random.default_rng(0).integers(0, 256, (5, 6, 3)).astype(np.uint8)
    packed = pack_img((0, 1, 2, 3), image, quality=3, img_fmt=".png")
    header, back = unpack_img(packed)
    assert header.label == 1 and np.array_equal(back, image)
    assert unpack_img(packed, 0)[1].shape == (5, 6)
    # in the order blue, green, red, as OpenCV has it; mx.image has red, green, blue
    decoded = mx.image.imdecode(unpack(packed)[1]).asnumpy()
    assert np.array_equal(decoded, image[..., ::-1])
    smooth = np.linspace(0, 255, 16 * 16 * 3).reshape(16, 16, 3).astype(np.uint8)
    _, jpeg = unpack_img(pack_img((0, 1, 2, 3), smooth))
    assert abs(jpeg.astype(int) - smooth).max() < 16
    gray = pack_img((0, 1, 2, 3), image[..., 0], 9, ".png")
    assert np.array_equal(unpack_img(gray)[1], image[..., 0])
    with pytest.raises(mx.MXNetError, match="no image"):
        unpack_img(pack((0, 1, 2, 3), b"zz"))
    with pytest.raises(ValueError, match="img_fmt"):
        pack_img((0, 1, 2, 3), image, img_fmt=".txt")
    with pytest.raises(TypeError, match="uint8"):
        pack_img((0, 1, 2, 3), image.astype(float))
