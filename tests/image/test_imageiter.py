"""ImageIter and ImageDetIter: order, ends of epochs, parts, labels, bad input."""
import random

import numpy as np
import pytest

import minigluon as mx
from minigluon import image, recordio

pytest.importorskip("PIL")
SHAPES = [(10, 12), (8, 8), (9, 20), (20, 9), (6, 7), (30, 30), (8, 9)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Seven images: in files listed in x.lst, and in x.rec; all of one colour, their number."""
    monkeypatch.chdir(tmp_path)
    record = recordio.MXIndexedRecordIO("x.idx", "x.rec", "w")
    lines = []
    for number, (height, width) in enumerate(SHAPES):
        pixels = np.full((height, width, 3), number, np.uint8)
        packed = recordio.pack_img((0, number, number, 0), pixels, 3, ".png")
        record.write_idx(number, packed)
        (tmp_path / f"{number}.png").write_bytes(recordio.unpack(packed)[1])
        lines.append(f"{number}\t{number}.0\t{number}.png\n")
    record.close()
    (tmp_path / "x.lst").write_text("".join(lines))
    return tmp_path


SOURCES = [{"path_imgrec": "x.rec"}, {"path_imgrec": "x.rec", "path_imgidx": "x.idx"},
           {"path_imglist": "x.lst", "path_root": "."},
           {"imglist": [[float(i), f"{i}.png"] for i in range(7)]}]
SIZES = {"batch_size": 3, "data_shape": (3, 6, 7)}


def labels(iterator):
    told = []
    for batch in iterator:
        found = batch.label[0].asnumpy().astype(int).tolist()
        assert batch.data[0].shape == (3, 3, 6, 7) and batch.data[0].dtype == np.float32
        assert batch.data[0].asnumpy()[:, 0, 0, 0].astype(int).tolist() == found
        told.append((found, batch.pad))
    return told


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("handle", "epochs"), [
    ("pad", [[([0, 1, 2], 0), ([3, 4, 5], 0), ([6, 0, 1], 2)]] * 2),
    ("discard", [[([0, 1, 2], 0), ([3, 4, 5], 0)]] * 2),
    ("roll_over", [[([0, 1, 2], 0), ([3, 4, 5], 0)], [([6, 0, 1], 0), ([2, 3, 4], 0)],
                   [([5, 6, 0], 0), ([1, 2, 3], 0), ([4, 5, 6], 0)]]),
])
def test_end_of_epoch(folder, source, handle, epochs):
    iterator = image.ImageIter(last_batch_handle=handle, **source, **SIZES)
    for expected in epochs:
        assert labels(iterator) == expected
        iterator.reset()
    iterator.hard_reset()
    assert labels(iterator) == epochs[0]


@pytest.mark.parametrize("source", SOURCES)
def test_parts_and_shuffling(folder, source):
    random.seed(1)
    seen = []
    for part in range(3):
        iterator = image.ImageIter(num_parts=3, part_index=part, shuffle=True, **source, **SIZES)
        assert iterator.num_image == 3
        seen += labels(iterator)[0][0]
    assert len(seen) == 9 and set(seen) == set(range(7))
    iterator = image.ImageIter(shuffle=True, last_batch_handle="pad", **source, **SIZES)
    epochs = []
    for _ in range(3):
        order = [number for found, _ in labels(iterator) for number in found][:7]
        assert sorted(order) == list(range(7))
        epochs.append(order)
        iterator.reset()
    assert len(set(map(tuple, epochs))) > 1


def test_describes_itself(folder):
    iterator = image.ImageIter(data_name="a", label_name="b", label_width=2,
                               imglist=[[[1.0, 2], "0.png"], [[3, 4.0], "1.png"]], **SIZES)
    assert iterator.provide_data == [("a", (3, 3, 6, 7))]
    assert iterator.provide_label == [("b", (3, 2))]
    assert iterator.next().label[0].asnumpy().tolist() == [[1, 2], [3, 4], [1, 2]]
    label, content = image.ImageIter(**SOURCES[0], **SIZES).next_sample()
    assert label == 0 and content[:4] == b"\x89PNG"
    assert image.ImageIter(dtype="int32", **SOURCES[0], **SIZES).next().label[0].dtype == np.int32
    iterator = image.ImageIter(aug_list=[image.CenterCropAug((7, 6))], **SOURCES[0], **SIZES)
    assert iterator.next().data[0].dtype == np.float32  # though nothing casts the images


def test_labels_of_a_list_for_a_record_file(folder):
    (folder / "y.lst").write_text("".join(f"{i}\t{10 * i}\tx\n" for i in range(7)))
    iterator = image.ImageIter(path_imgrec="x.rec", path_imgidx="x.idx", path_imglist="y.lst",
                               **SIZES)
    assert iterator.next().label[0].asnumpy().tolist() == [0, 10, 20]


def test_refusals(folder):
    def make(**settings):
        return image.ImageIter(**{**SOURCES[0], **SIZES, **settings})

    with pytest.raises(AssertionError, match="path_imgrec, path_imglist or imglist"):
        image.ImageIter(**SIZES)
    with pytest.raises(ValueError, match="3 channels"):
        make(data_shape=(1, 6, 7))
    with pytest.raises(ValueError, match="channels, height, width"):
        make(data_shape=(6, 7))
    with pytest.raises(ValueError, match="last_batch_handle"):
        make(last_batch_handle="keep")
    with pytest.raises(AssertionError, match="dtype"):
        make(dtype="text")
    with pytest.raises(ValueError, match="part_index"):
        make(num_parts=2, part_index=2)
    with pytest.raises(TypeError, match="foo"):
        make(foo=1)
    with pytest.raises(mx.MXNetError, match=r"none\.rec"):
        make(path_imgrec="none.rec")
    with pytest.raises(FileNotFoundError):
        image.ImageIter(path_imglist="x.lst", path_root="none", **SIZES).next()
    (folder / "0.png").write_bytes(b"rubbish")
    with pytest.raises(mx.MXNetError, match=r"image 0: .*no image"):
        image.ImageIter(path_imglist="x.lst", **SIZES).next()
    (folder / "x.lst").write_text("0 1.0 0.png\n")
    with pytest.raises(mx.MXNetError, match="line 1: expected number, label, file name"):
        image.ImageIter(path_imglist="x.lst", **SIZES)
    wrong = image.ImageIter(aug_list=[image.CastAug()], **SOURCES[0], **SIZES)
    with pytest.raises(mx.MXNetError, match="the augmenters gave"):
        wrong.next()


# -- with boxes ------------------------------------------------------------------------------------

TWO = [2, 5, 0, 0.1, 0.2, 0.5, 0.6, 1, 0.3, 0.3, 0.9, 0.8]
ONE = [2, 5, 1, 0.1, 0.1, 0.9, 0.9]
BOXES = {"imglist": [[TWO, "5.png"], [ONE, "2.png"]], "batch_size": 2, "data_shape": (3, 8, 9)}


def test_boxes(folder):
    iterator = image.ImageDetIter(**BOXES)
    assert iterator.label_shape == (2, 5)
    assert iterator.provide_data == [("data", (2, 3, 8, 9))]
    assert iterator.provide_label == [("label", (2, 2, 5))]
    batch = iterator.next()
    assert np.allclose(batch.label[0].asnumpy(), [
        [TWO[2:7], TWO[7:]], [ONE[2:], [-1] * 5]])
    assert batch.data[0].asnumpy()[:, 0, 0, 0].tolist() == [5, 2]
    iterator.reshape((3, 4, 4), (5, 5))
    iterator.reset()
    batch = iterator.next()
    assert batch.data[0].shape == (2, 3, 4, 4) and batch.label[0].shape == (2, 5, 5)
    with pytest.raises(ValueError, match=r"at least \(5, 5\)"):
        iterator.reshape(label_shape=(1, 5))
    other = image.ImageDetIter(**BOXES)
    assert iterator.sync_label_shape(other) is other and other.label_shape == (5, 5)


@pytest.mark.parametrize(("label", "text"), [
    ([1, 2, 3], "too short"), ([2, 5, 0, 0.5, 0.5, 0.4, 0.4], "without a valid box"),
    ([2, 4, 0, 0.1, 0.1, 0.4, 0.4], "does not fit"), ([2, 5, *range(7)], "does not fit")])
def test_bad_boxes(folder, label, text):
    with pytest.raises(RuntimeError, match=text):
        image.ImageDetIter(**{**BOXES, "imglist": [[label, "0.png"]]})


def test_boxes_move_with_the_image():
    """A white box on black stays under its label, whatever is done to both."""
    pixels = np.zeros((60, 80, 3), np.float32)
    pixels[12:36, 8:40] = 255
    label = np.array([[3, 0.1, 0.2, 0.5, 0.6]])
    steps = [image.DetHorizontalFlipAug(0.5), image.DetRandomCropAug(0.9, (0.5, 2), (0.5, 1)),
             image.DetRandomPadAug((0.5, 2), (1, 3), 50, (0, 0, 0))]
    random.seed(3)
    for _ in range(30):
        x, boxes = mx.nd.array(pixels), label
        for step in steps:
            x, boxes = step(x, boxes)
        height, width, _ = x.shape
        assert boxes.shape == (1, 5) and boxes[0, 0] == 3
        left, top, right, bottom = boxes[0, 1:] * [width, height, width, height]
        rows, columns, _ = np.nonzero(x.asnumpy() > 128)
        found = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
        assert np.allclose(found, [left, top, right, bottom], atol=1.01)


def test_crop_leaves_out_what_it_hides():
    label = np.array([[0, 0.0, 0.0, 0.2, 0.2], [1, 0.7, 0.7, 1.0, 1.0]])
    crop = image.DetRandomCropAug(0.9, (1, 1), (0.2, 0.3), 0.5, 5000)
    random.seed(0)
    kinds = set()
    for _ in range(20):
        _, boxes = crop(mx.nd.zeros((50, 50, 3)), label)
        assert len(boxes) == 1 and (boxes[:, 1:] >= 0).all() and (boxes[:, 1:] <= 1).all()
        kinds.add(boxes[0, 0])
    assert kinds == {0, 1}


def test_det_augmenters(folder):
    everything = image.ImageDetIter(
        rand_crop=0.5, rand_pad=0.5, rand_gray=0.1, rand_mirror=True, mean=True, std=True,
        brightness=0.1, contrast=0.1, saturation=0.1, pca_noise=0.1, hue=0.1, shuffle=True,
        resize=20, **BOXES)
    for _ in range(5):
        batch = everything.next()
        assert batch.data[0].shape == (2, 3, 8, 9)
        everything.reset()
    several = image.CreateMultiRandCropAugmenter([0.1, 0.5], area_range=[(0.1, 1), (0.5, 1)])
    assert [step.min_object_covered for step in several.aug_list] == [0.1, 0.5]
    with pytest.raises(ValueError, match="of one length"):
        image.CreateMultiRandCropAugmenter([0.1, 0.5], max_attempts=[1, 2, 3])
    with pytest.raises(TypeError, match="an Augmenter"):
        image.DetBorrowAug(len)
    with pytest.raises(ValueError, match="0 < smallest"):
        image.DetRandomCropAug(area_range=(2, 1))
    assert image.DetRandomSelectAug([], 0)(1, 2) == (1, 2)
