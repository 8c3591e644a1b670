"""io.ImageDetRecordIter; the rows are those that MXNet 1.9.1 gives for the same file."""
import numpy as np
import pytest

import minigluon as mx

FIRST = [2, 5, 0, 0.1, 0.2, 0.5, 0.6]
SECOND = [2, 5, 1, 0.1, 0.2, 0.5, 0.6, 1, 0.3, 0.3, 0.9, 0.9]


def write(path, labels):
    records = mx.recordio.MXIndexedRecordIO(str(path / "d.idx"), str(path / "d.rec"), "w")
    for number, label in enumerate(labels):
        pixels = np.full((20 + number, 30, 3), 20 * number, "uint8")
        pixels[:, :15] += 1
        header = mx.recordio.IRHeader(0, label, number, 0)
        records.write_idx(number, mx.recordio.pack_img(header, pixels, img_fmt=".png"))
    records.close()
    return str(path / "d.rec")


def batches(path, **settings):
    settings = {"data_shape": (3, 8, 8), "batch_size": 2, **settings}
    return mx.io.ImageDetRecordIter(path_imgrec=path, **settings)


def test_rows_hold_the_label_and_filling(tmp_path):
    path = write(tmp_path, [FIRST, SECOND, FIRST])
    data = batches(path)
    assert [(one.name, one.shape) for one in (*data.provide_data, *data.provide_label)] == [
        ("data", (2, 3, 8, 8)), ("softmax_label", (2, 16))]
    first, last = list(data)
    rows = first.label[0].asnumpy()
    np.testing.assert_allclose(rows[0], [3, 8, 8, 7, *FIRST, *[-1] * 5], rtol=1e-6)
    np.testing.assert_allclose(rows[1], [3, 8, 8, 12, *SECOND], rtol=1e-6)
    assert (first.pad, last.pad) == (0, 1)
    np.testing.assert_allclose(first.data[0].asnumpy().mean((1, 2, 3)), [0.5, 20.5], atol=0.1)
    wide = next(batches(path, label_pad_width=20, label_pad_value=-2, mean_r=10, std_r=2))
    np.testing.assert_allclose(wide.label[0].asnumpy()[0], [3, 8, 8, 7, *FIRST, *[-2] * 13],
                               rtol=1e-6)
    assert abs(wide.data[0].asnumpy()[1, 0].mean() - 5.25) < 0.1


def test_mirrored_images_have_mirrored_boxes(tmp_path):
    found = next(batches(write(tmp_path, [SECOND, SECOND]), rand_mirror_prob=1.0))
    row = found.label[0].asnumpy()[0]
    np.testing.assert_allclose(row[6:], [1, 0.5, 0.2, 0.9, 0.6, 1, 0.1, 0.3, 0.7, 0.9], rtol=1e-5)
    image = found.data[0].asnumpy()[0, 0]
    assert image[0, 0] < image[0, -1]  # the brighter half was on the left


def test_what_does_not_fit_is_explained(tmp_path):
    path = write(tmp_path, [FIRST, SECOND])
    with pytest.raises(ValueError, match="3 smaller than estimated width: 12"):
        batches(path, label_pad_width=3)
    with pytest.raises(NotImplementedError, match="rand_crop_prob"):
        batches(path, rand_crop_prob=0.5)
    with pytest.raises(NotImplementedError, match="resize_mode"):
        batches(path, resize_mode="fit")
    with pytest.raises(ValueError, match="objects of B numbers"):
        next(batches(write(tmp_path, [[2, 5, 1, 2], FIRST])))
