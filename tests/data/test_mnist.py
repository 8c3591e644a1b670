"""MNIST: bundled digits, files in a folder, downloads that work, that fail, that bring rubbish."""
import gzip
import hashlib
import http.server
import shutil
import socket
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import minigluon as mx
from minigluon.gluon.data import repository
from minigluon.gluon.data.vision import MNIST, FashionMNIST, datasets

BUNDLED = Path(datasets.__file__).parent / "mnist-10k"


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path):
    """No network, no files, nothing said yet."""
    monkeypatch.setenv("MINIGLUON_OFFLINE", "1")
    monkeypatch.setenv("MXNET_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(repository, "_told", set())


def put_files(folder):
    folder.mkdir(parents=True)
    for path in BUNDLED.glob("*.gz"):
        shutil.copy(path, folder)


def test_bundled_digits(caplog, monkeypatch):
    train, test = MNIST(), MNIST(train=False)
    assert (len(train), len(test)) == (8000, 2000)
    (record,) = caplog.records  # one line for both
    assert "bundled subset of 8,000 training and 2,000 test digits" in record.getMessage()
    assert "MINIGLUON_OFFLINE" in record.getMessage()
    assert np.bincount(train._label).min() > 600
    monkeypatch.setattr(repository, "_told", set())
    monkeypatch.setenv("DMLC_WORKER_ID", "1")
    MNIST(train=False)
    assert len(caplog.records) == 1  # worker 0 of a job says it for all
    means = [train._data.asnumpy()[train._label == digit].mean() for digit in (0, 1)]
    assert means[0] > 2 * means[1]  # a zero takes more ink than a one


def test_sample_types_are_mxnets():
    image, label = MNIST(train=False)[3]
    assert isinstance(image, mx.nd.NDArray)
    assert (image.shape, image.dtype, image.context) == ((28, 28, 1), np.uint8, mx.cpu())
    assert type(label) is np.int32
    images, labels = MNIST(train=False)[5:9]
    assert images.shape == (4, 28, 28, 1) and labels.dtype == np.int32 and len(labels) == 4


def test_samples_are_copies():
    digits = MNIST(train=False)
    digits[0][0][:] = 7
    assert digits[0][0].asnumpy().max() > 7


def test_transform():
    plain = MNIST(train=False)
    digits = MNIST(train=False,
                   transform=lambda x, y: (x.astype("float32") / 255, y + np.int32(10)))
    image, label = digits[0]
    assert image.dtype == np.float32 and label == plain[0][1] + 10
    batch, labels = next(iter(mx.gluon.data.DataLoader(digits, 3)))
    assert np.array_equal(batch.asnumpy()[0], image.asnumpy()) and labels.dtype == np.int32


def test_batches_equal_samples():
    digits = MNIST(train=False)
    images, labels = next(iter(mx.gluon.data.DataLoader(digits, 5)))
    assert images.dtype == np.uint8 and labels.dtype == np.int32
    for i in range(5):
        assert np.array_equal(images.asnumpy()[i], digits[i][0].asnumpy())
        assert labels.asnumpy()[i] == digits[i][1]


def test_files_of_a_folder_come_first(tmp_path, caplog):
    put_files(tmp_path / "digits")
    labels = tmp_path / "digits" / "t10k-labels-idx1-ubyte"
    labels.write_bytes(b"\0\0\x08\x01" + (3).to_bytes(4, "big") + bytes([7, 8, 9]))
    labels.with_suffix(".gz").unlink()
    images = tmp_path / "digits" / "t10k-images-idx3-ubyte.gz"
    shape = b"".join(size.to_bytes(4, "big") for size in (3, 2, 2))
    images.write_bytes(gzip.compress(b"\0\0\x08\x03" + shape + bytes(range(12))))
    digits = MNIST(tmp_path / "digits", train=False)
    assert digits._label.tolist() == [7, 8, 9] and digits[2][0].shape == (2, 2, 1)
    assert digits[2][0].asnumpy().ravel().tolist() == [8, 9, 10, 11]
    assert not caplog.records


def test_home_folder(tmp_path):
    put_files(tmp_path / "home" / "datasets" / "fashion-mnist")
    assert len(FashionMNIST(train=False)) == 2000


@pytest.mark.parametrize(("content", "words"), [
    (b"no idx at all", "not an IDX file"),
    (b"\0\0\x08\x01" + (3).to_bytes(4, "big") + b"\1", "1 bytes follow"),
    (b"\0\0\x08\x01" + (1).to_bytes(4, "big") + b"\1", r"expected \(n, height, width\)"),
])
def test_broken_files(tmp_path, content, words):
    put_files(tmp_path / "digits")
    (tmp_path / "digits" / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(content))
    with pytest.raises(mx.MXNetError, match=words):
        MNIST(tmp_path / "digits", train=False)


def test_fashion_has_no_substitute(tmp_path):
    with pytest.raises(mx.MXNetError, match=r"FashionMNIST.*OFFLINE.*put the files there"):
        FashionMNIST(tmp_path)


# -- downloads -------------------------------------------------------------------------------------


@pytest.fixture
def server(monkeypatch, tmp_path):
    """A repository on this machine; returns the list of paths it was asked for."""
    put_files(tmp_path / "www" / "gluon" / "dataset" / "mnist")
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(tmp_path / "www"))

        def log_message(self, *args):
            asked.append(self.path)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever)
        thread.start()
        monkeypatch.setenv("MINIGLUON_OFFLINE", "0")
        monkeypatch.setenv("MXNET_GLUON_REPO", f"http://127.0.0.1:{httpd.server_port}/")
        yield asked
        httpd.shutdown()
        thread.join()


def accept(monkeypatch):
    """Let the bundled files pass for the published ones."""
    hashes = tuple({name: hashlib.sha1((BUNDLED / name).read_bytes()).hexdigest() for name in part}
                   for part in MNIST._hashes)
    monkeypatch.setattr(MNIST, "_hashes", hashes)


def test_download_once_and_keep(server, monkeypatch, tmp_path, caplog):
    accept(monkeypatch)
    assert len(MNIST(tmp_path / "new", train=False)) == 2000
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"]
    assert len(server) == 2 and server[0] == "/gluon/dataset/mnist/t10k-images-idx3-ubyte.gz"
    MNIST(tmp_path / "new", train=False)
    assert len(server) == 2 and not caplog.records


def test_wrong_file_is_refused(server, tmp_path, caplog):
    assert len(MNIST(tmp_path / "new", train=False)) == 2000  # the bundled ones
    assert "SHA-1" in caplog.text
    assert not (tmp_path / "new").exists()


def test_server_that_lacks_the_file(server, monkeypatch, tmp_path, caplog):
    accept(monkeypatch)
    shutil.rmtree(tmp_path / "www" / "gluon")
    assert len(MNIST(tmp_path / "new", train=False)) == 2000
    assert "HTTP Error 404" in caplog.text


def test_silent_network_costs_seconds_once(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("MINIGLUON_OFFLINE", "0")
    monkeypatch.setattr(repository, "_CONNECT", 0.3)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        monkeypatch.setenv("MXNET_GLUON_REPO", f"http://127.0.0.1:{silent.getsockname()[1]}/")
        begin = time.monotonic()
        MNIST(tmp_path / "new")
        first = time.monotonic() - begin
        begin = time.monotonic()
        MNIST(tmp_path / "new", train=False)
        assert first < 3 and time.monotonic() - begin < 0.3
    assert len(caplog.records) == 1
