"""CIFAR, folders of images, RecordIO files of images; WikiText; samples for mx.test_utils."""
import bz2
import gzip
import io
import os
import pickle
import tarfile
import zipfile

import numpy as np
import pytest

import minigluon as mx
from minigluon import nd, recordio, test_utils
from minigluon.gluon import contrib
from minigluon.gluon.data import DataLoader, RecordFileDataset
from minigluon.gluon.data.dataset import _DownloadedDataset
from minigluon.gluon.data.vision import (
    CIFAR10,
    CIFAR100,
    ImageFolderDataset,
    ImageRecordDataset,
)

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    monkeypatch.setenv("MINIGLUON_OFFLINE", "1")
    monkeypatch.setenv("MXNET_HOME", str(tmp_path / "home"))


# -- cifar -----------------------------------------------------------------------------------------


def rows(count, labels):
    pixels = RNG.integers(0, 256, (count, 3, 32, 32)).astype(np.uint8)
    numbers = RNG.integers(0, 10, (count, labels)).astype(np.uint8)
    return pixels, numbers, np.hstack([numbers, pixels.reshape(count, -1)]).tobytes()


def test_cifar10(tmp_path):
    everything = [rows(4, 1) for _ in range(5)]
    for number, (_, _, data) in enumerate(everything, 1):
        (tmp_path / f"data_batch_{number}.bin").write_bytes(data)
    train = CIFAR10(tmp_path)
    assert len(train) == 20
    for i in (0, 3, 4, 19):
        pixels, numbers, _ = everything[i // 4]
        picture, label = train[i]
        assert picture.shape == (32, 32, 3) and picture.dtype == np.uint8
        assert np.array_equal(picture.asnumpy(), pixels[i % 4].transpose(1, 2, 0))
        assert label.dtype == np.int32 and label == numbers[i % 4, 0]
    train[0][0][:] = 0
    assert train[0][0].asnumpy().any(), "samples are copies"
    x, y = next(iter(DataLoader(train, 6)))
    assert x.shape == (6, 32, 32, 3) and y.dtype == np.int32
    changed = CIFAR10(tmp_path, transform=lambda data, label: (data.astype("float32") / 255, label))
    assert changed[0][0].dtype == np.float32


def test_cifar100_from_the_archive(tmp_path):
    pixels, numbers, data = rows(3, 2)
    with tarfile.open(tmp_path / "cifar-100-binary.tar.gz", "w:gz") as packed:
        for name in ("train.bin", "test.bin", "../evil.bin"):
            member = tarfile.TarInfo(f"cifar-100-binary/{name}")
            member.size = len(data)
            packed.addfile(member, io.BytesIO(data))
    coarse = CIFAR100(tmp_path, train=False)
    fine = CIFAR100(tmp_path, fine_label=True, train=False)
    assert [coarse[i][1] for i in range(3)] == numbers[:, 0].tolist()
    assert [fine[i][1] for i in range(3)] == numbers[:, 1].tolist()
    assert np.array_equal(fine[2][0].asnumpy(), pixels[2].transpose(1, 2, 0))
    assert sorted(os.listdir(tmp_path)) == ["cifar-100-binary.tar.gz", "test.bin"]


def test_cifar_that_is_not_there(tmp_path):
    with pytest.raises(mx.MXNetError, match=r"test_batch\.bin not in .*cifar10 and not to be down"):
        CIFAR10(train=False)
    (tmp_path / "test_batch.bin").write_bytes(b"short")
    with pytest.raises(mx.MXNetError, match="a multiple of 3073 bytes, got 5"):
        CIFAR10(tmp_path, train=False)


def test_own_dataset_of_files(tmp_path):
    class Numbers(_DownloadedDataset):
        def _get_data(self):
            self._data, self._label = nd.arange(6).reshape((3, 2)), [5, 6, 7]

    data = Numbers(str(tmp_path), None)
    assert len(data) == 3 and data[1][0].asnumpy().tolist() == [2, 3] and data[1][1] == 6
    assert Numbers(str(tmp_path), lambda x, y: y)[2] == 7
    (batch,) = DataLoader(data, 3)
    assert batch[0].shape == (3, 2) and batch[1].asnumpy().tolist() == [5, 6, 7]


# -- images in files -------------------------------------------------------------------------------


def png(seed, height=4, width=5):
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3)).astype(np.uint8)
    packed = recordio.pack_img((0, seed, seed, 0), pixels[..., ::-1], 3, ".png")
    return pixels, packed


def test_folder(tmp_path):
    pytest.importorskip("PIL")
    for seed, name in enumerate(("b/2.png", "a/1.PNG", "a/0.png")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(recordio.unpack(png(seed)[1])[1])
    data = ImageFolderDataset(tmp_path)
    assert data.synsets == ["a", "b"] and len(data) == 3
    assert [(os.path.basename(path), label) for path, label in data.items] == [
        ("0.png", 0), ("1.PNG", 0), ("2.png", 1)]
    assert np.array_equal(data[0][0].asnumpy(), png(2)[0]) and data[2][1] == 1
    assert ImageFolderDataset(tmp_path, flag=0)[0][0].shape == (4, 5, 1)
    assert ImageFolderDataset(tmp_path, transform=lambda x, y: (x.shape, y))[2] == ((4, 5, 3), 1)
    (tmp_path / "a" / "notes.txt").write_text("")
    with pytest.warns(UserWarning, match=r"notes\.txt of type \.txt"):
        ImageFolderDataset(tmp_path)
    (tmp_path / "a" / "notes.txt").unlink()
    (tmp_path / "stray.png").write_text("")
    with pytest.warns(UserWarning, match=r"stray\.png, which is not a directory"):
        ImageFolderDataset(tmp_path)
    with pytest.raises(FileNotFoundError):
        ImageFolderDataset(tmp_path / "none")


@pytest.fixture
def record(tmp_path):
    pytest.importorskip("PIL")
    writer = recordio.MXIndexedRecordIO(tmp_path / "x.idx", tmp_path / "x.rec", "w")
    for seed in range(6):
        writer.write_idx(seed, png(seed)[1])
    writer.close()
    return tmp_path / "x.rec"


@pytest.mark.parametrize("listed", [True, False])
def test_record_files(record, listed):
    if not listed:
        record.with_suffix(".idx").unlink()
    data = RecordFileDataset(record)
    assert len(data) == 6 and data[4] == png(4)[1]
    images = ImageRecordDataset(record)
    assert np.array_equal(images[4][0].asnumpy(), png(4)[0]) and images[4][1] == 4.0
    assert ImageRecordDataset(record, flag=0)[0][0].shape == (4, 5, 1)
    assert ImageRecordDataset(record, transform=lambda x, y: y + 1)[2] == 3


@pytest.mark.parametrize("settings", [{"num_workers": 2}, {"num_workers": 2, "thread_pool": True}])
def test_record_files_by_workers(record, settings):
    loader = DataLoader(ImageRecordDataset(record), 2, **settings)
    for _ in range(2):
        labels = []
        for x, y in loader:
            for picture, label in zip(x.asnumpy(), y.asnumpy(), strict=True):
                assert np.array_equal(picture, png(int(label))[0])
                labels.append(int(label))
        assert labels == list(range(6))


# -- contrib ---------------------------------------------------------------------------------------


def test_interval_sampler():
    sampler = contrib.data.IntervalSampler
    assert list(sampler(7, 3)) == [0, 3, 6, 1, 4, 2, 5] and len(sampler(7, 3)) == 7
    assert list(sampler(7, 3, rollover=False)) == [0, 3, 6] and len(sampler(7, 3, False)) == 3
    for length, interval in ((3, 5), (3, 0)):
        with pytest.raises(AssertionError, match="1 up to the length 3"):
            sampler(length, interval)


def test_wikitext(tmp_path):
    text = contrib.data.text.WikiText2
    with pytest.raises(mx.MXNetError, match=r"wiki\.valid\.tokens not in .*wikitext-2"):
        text(segment="validation")
    with pytest.raises(ValueError, match="segment"):
        text(segment="dev")
    with zipfile.ZipFile(tmp_path / "wikitext-2-v1.zip", "w") as packed:
        packed.writestr("wikitext-2/wiki.test.tokens", "the cat saw the dog\n\n the end\n")
    data = text(str(tmp_path), "test", seq_len=4)
    words = ["the", "cat", "saw", "the", "dog", "<eos>", "the", "end", "<eos>"]
    numbers = [data.vocabulary[word] for word in words]
    assert len(data) == 2 and data.vocabulary["the"] == 0 and data.frequencies["the"] == 3
    for i, (x, y) in enumerate(data[i] for i in range(2)):
        assert x.asnumpy().tolist() == numbers[4 * i: 4 * i + 4]
        assert y.asnumpy().tolist() == numbers[4 * i + 1: 4 * i + 5]
    own = {word: 10 * number for number, word in enumerate(sorted(set(words)))}
    assert text(str(tmp_path), "test", own, 4)[0][0].asnumpy().tolist() == [
        own[word] for word in words[:4]]


# -- mx.test_utils ---------------------------------------------------------------------------------


def test_mnist_for_scripts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    train, test = test_utils.get_mnist_iterator(100, (784,), num_parts=2, part_index=1)
    assert train.provide_data == [("data", (100, 784))]
    assert len(list(train)) == 40 and len(list(test)) == 20
    test_utils.get_mnist_ubyte()
    assert sorted(os.listdir("data")) == [
        "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", "train-images-idx3-ubyte",
        "train-labels-idx1-ubyte"]
    again = mx.io.MNISTIter("data/t10k-images-idx3-ubyte", "data/t10k-labels-idx1-ubyte", 100,
                            shuffle=False, flat=True)
    assert np.array_equal(again.next().data[0].asnumpy(),
                          test_utils.get_mnist_iterator(100, (784,))[1].next().data[0].asnumpy())


def test_cifar_for_scripts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("minigluon.testdata.download", lambda *_: 1 / 0)
    with pytest.raises(mx.MXNetError, match="put the files there"):
        test_utils.get_cifar10()
    for word in ("train", "test"):
        (tmp_path / "data" / "cifar").mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / "cifar" / f"{word}.rec").write_bytes(b"")
    test_utils.get_cifar10()


def broken_off(value, file):
    file.write(b"a part")
    raise OSError("the disk is full")


def test_digits_in_one_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as broken, pytest.raises(OSError, match="full"):
        broken.setattr("minigluon.testdata.pickle.dump", broken_off)
        test_utils.get_mnist_pkl()
    test_utils.get_mnist_pkl()
    with gzip.open("data/mnist.pkl.gz") as file:
        train, valid, test = pickle.load(file)
    digits = test_utils.get_mnist()
    assert len(train[0]) == len(train[1]) == (len(train[0]) + len(valid[0])) * 5 // 6
    assert np.array_equal(np.concatenate([train[0], valid[0]]).ravel(),
                          digits["train_data"].ravel())
    assert np.array_equal(test[1], digits["test_label"]) and test[0].shape[1:] == (784,)


def test_files_that_are_fetched(tmp_path, monkeypatch):
    asked = []

    def fetch(url, fname):
        asked.append(url)
        with open(fname, "wb") as file:
            file.write(bz2.compress(b"here") if url == "good" else b"broken")

    monkeypatch.setattr("minigluon.testdata.download", fetch)
    with pytest.raises(OSError):
        test_utils.get_bz2_data(str(tmp_path), "inside", "bad", "inside.bz2")
    assert not (tmp_path / "inside").exists()  # a part is not taken for the whole
    for _ in range(2):
        test_utils.get_bz2_data(str(tmp_path), "inside", "good", "inside.bz2")
    assert (tmp_path / "inside").read_text() == "here" and asked == ["bad", "good"]
    info = {"net": {"symbol": "s", "params": "p"}}
    path, epoch = test_utils.download_model("net", str(tmp_path), info)
    assert asked[2:] == ["s", "p"] and epoch == 0
    assert all(os.path.exists(path + ending) for ending in ("-symbol.json", "-0000.params"))
    with pytest.raises(ValueError, match="no addresses for 'other'"):
        test_utils.download_model("other", str(tmp_path), info)


def test_zip_data_and_dummy(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as packed:
        packed.writestr("inside.txt", "here")
    test_utils.get_zip_data(str(tmp_path), "unused", "x.zip")
    assert (tmp_path / "inside.txt").read_text() == "here"
    dummy = test_utils.DummyIter(mx.io.NDArrayIter(np.arange(4), None, 2))
    assert [dummy.next().data[0].asnumpy().tolist() for _ in range(5)] == [[0, 1]] * 5
    assert dummy.batch_size == 2 and dummy.provide_data == [("data", (2,))]
