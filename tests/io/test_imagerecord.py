"""ImageRecordIter: order, parts, random changes that seeds repeat, labels, bad files."""

import numpy as np
import pytest

import minigluon as mx
from minigluon import recordio
from minigluon.io import ImageRecordIter

pytest.importorskip("PIL")


@pytest.fixture
def path(tmp_path):
    """Ten images; pixel (y, x) of image n is (n, y, x)."""
    record = recordio.MXIndexedRecordIO(tmp_path / "x.idx", tmp_path / "x.rec", "w")
    for number in range(10):
        y, x = np.mgrid[:12, :14]
        pixels = np.stack([x, y, np.full_like(x, number)], -1).astype(np.uint8)  # blue first
        record.write_idx(number, recordio.pack_img((0, number, number, 0), pixels, 3, ".png"))
    record.close()
    return str(tmp_path / "x.rec")


def make(path, **settings):
    return ImageRecordIter(**{"path_imgrec": path, "data_shape": (3, 8, 8), "batch_size": 4,
                              "preprocess_threads": 3, **settings})


def joined(lists):
    return [item for each in lists for item in each]


def numbers(iterator):
    told = []
    for batch in iterator:
        data = batch.data[0].asnumpy()
        found = batch.label[0].asnumpy().astype(int).tolist()
        assert data[:, 0, 0, 0].astype(int).tolist() == found == batch.index.tolist()
        told.append(found)
    return told


def test_rounds_and_description(path):
    iterator = make(path)
    assert iterator.provide_data == [("data", (4, 3, 8, 8))]
    assert iterator.provide_label == [("softmax_label", (4,))]
    assert isinstance(iterator, mx.io.MXDataIter)
    assert numbers(iterator) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1]]
    iterator.reset()
    assert numbers(iterator) == [[2, 3, 4, 5], [6, 7, 8, 9]]
    assert numbers(make(path, round_batch=False))[-1] == [8, 9, 6, 7]
    first = make(path).next()
    assert first.data[0].asnumpy()[0, 1, :, 0].tolist() == list(range(2, 10)), "the middle"


def test_shuffling_covers_every_epoch(path):
    def epochs(**settings):
        iterator, told = make(path, shuffle=True, **settings), []
        for _ in range(3):
            told.append(joined(numbers(iterator))[:10])
            iterator.reset()
        return told

    for order in epochs():
        assert sorted(order) == list(range(10))
    assert len(set(map(tuple, epochs()))) == 3
    assert epochs(seed=4) == epochs(seed=4) != epochs(seed=5)


def test_parts(path):
    parts = [joined(numbers(make(path, num_parts=3, part_index=i, shuffle=True)))
             for i in range(3)]
    assert [len(part) for part in parts] == [4, 4, 4]
    assert set(joined(parts)) == set(range(10))


def test_random_crop_and_mirror(path):
    def corners(**settings):
        told = []
        for _ in range(1):
            for batch in make(path, **settings):
                data = batch.data[0].asnumpy()
                assert ((data[:, 1, 1] - data[:, 1, 0]) == 1).all()
                told += [(int(image[1, 0, 0]), int(image[2, 0, 0]), int(image[2, 0, 1]))
                         for image in data]
        return told

    places = corners(rand_crop=True)
    assert len({place[:2] for place in places}) > 6
    assert max(y for y, _, _ in places) <= 4 and max(x for _, x, _ in places) <= 6
    assert places == corners(rand_crop=True) != corners(rand_crop=True, seed_aug=3)
    mirrored = {second < first for _, first, second in corners(rand_mirror=True)}
    assert mirrored == {True, False}
    assert {second < first for _, first, second in corners(mirror=True)} == {True}
    threads = [corners(rand_crop=True, preprocess_threads=count) for count in (1, 4)]
    assert threads[0] == threads[1]


def test_other_changes(path):
    padded = make(path, pad=4, fill_value=77, data_shape=(3, 20, 22)).next().data[0].asnumpy()
    assert (padded[:, :, 0] == 77).all() and padded[1, 0, 4, 4] == 1
    shares = make(path, random_resized_crop=True, min_random_area=0.2, max_random_area=0.4,
                  min_aspect_ratio=0.8, max_aspect_ratio=1.2).next().data[0].asnumpy()
    assert all(image[1].max() - image[1].min() < 11 for image in shares)
    for method in (0, 2, 3, 4, 9, 10):
        assert make(path, resize=9, inter_method=method).next().data[0].shape == (4, 3, 8, 8)
    assert make(path, dtype="uint8").next().data[0].dtype == np.uint8
    whole = mx.io.ImageRecordUInt8Iter(path_imgrec=path, data_shape=(3, 12, 14), batch_size=1)
    assert whole.next().data[0].asnumpy()[0, 2, 0].tolist() == list(range(14))


def test_labels(path, tmp_path):
    record = recordio.MXRecordIO(tmp_path / "two.rec", "w")
    for number in range(2):
        record.write(recordio.pack_img((0, [number, 7], number, 0), np.zeros((8, 8, 3), np.uint8),
                                       3, ".png"))
    record.close()
    two = str(tmp_path / "two.rec")
    batch = make(two, label_width=2, batch_size=2).next()
    assert batch.label[0].asnumpy().tolist() == [[0, 7], [1, 7]]
    with pytest.raises(ValueError, match=r"label_width is 1, .* 2 numbers"):
        make(two, batch_size=2).next()
    (tmp_path / "x.lst").write_text("".join(f"{i}\t{10 * i}\tx\n" for i in range(10)))
    listed = make(path, path_imglist=str(tmp_path / "x.lst")).next()
    assert listed.label[0].asnumpy().tolist() == [0, 10, 20, 30]
    (tmp_path / "x.lst").write_text("5\t1\tx\n")
    with pytest.raises(mx.MXNetError, match="no label for"):
        make(path, path_imglist=str(tmp_path / "x.lst")).next()


def test_refusals(path, tmp_path):
    with pytest.raises(ValueError, match="path_imgrec"):
        make("")
    with pytest.raises(mx.MXNetError, match=r"none\.rec"):
        make("none.rec")
    for shape in ((8, 8), (2, 8, 8)):
        with pytest.raises(ValueError, match="data_shape"):
            make(path, data_shape=shape)
    with pytest.raises(ValueError, match="as many samples, got 10"):
        make(path, batch_size=11)
    with pytest.raises(NotImplementedError, match="max_rotate_angle"):
        make(path, max_rotate_angle=10)
    with pytest.warns(UserWarning, match="did you mean 'shuffle'"):
        make(path, shufle=True)
    make(path, verbose=False, prefetch_buffer=8, brightness=0)
    record = recordio.MXRecordIO(tmp_path / "bad.rec", "w")
    record.write(recordio.pack((0, 0, 0, 0), b"no image at all"))
    record.close()
    with pytest.raises(mx.MXNetError, match=r"bad\.rec, record 0: .* no image"):
        make(str(tmp_path / "bad.rec"), batch_size=1).next()
