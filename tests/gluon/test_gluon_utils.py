"""Splitting batches, clipping gradients, fetching files."""
from __future__ import annotations

import hashlib
import http.server
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minigluon as mx
from minigluon import autograd, gluon, nd
from minigluon.gluon import utils

CTX = [mx.cpu(0), mx.cpu(1)]


@pytest.mark.parametrize("size", [38, 31, 71, 8, 9])
@pytest.mark.parametrize("axis", [0, 1])
def test_uneven_parts_differ_by_one_and_keep_the_order(size: int, axis: int) -> None:
    values = np.arange(size * 2).reshape((size, 2) if axis == 0 else (2, size))
    parts = utils.split_data(nd.array(values), 8, batch_axis=axis, even_split=False)
    expected = np.array_split(values, 8, axis=axis)
    assert max(p.shape[axis] for p in parts) - min(p.shape[axis] for p in parts) <= 1
    for part, piece in zip(parts, expected, strict=True):
        assert part.asnumpy().tolist() == piece.tolist()


def test_even_splits_are_checked() -> None:
    with pytest.raises(ValueError, match="cannot be split evenly into 4"):
        utils.split_data(nd.zeros((6, 2)), 4)
    parts = utils.split_data(nd.zeros((3, 2)), 4, even_split=False)
    assert [part.shape for part in parts] == [(1, 2), (1, 2), (1, 2), (0, 2)]


def test_split_and_load() -> None:
    parts = utils.split_and_load(np.arange(8).reshape(4, 2), [*CTX, mx.cpu(1), mx.cpu(0)])
    assert [part.context.device_id for part in parts] == [0, 1, 1, 0]
    assert parts[2].asnumpy().tolist() == [[4, 5]]
    assert utils.split_and_load(nd.ones((3, 1)), [mx.cpu(2)])[0].context == mx.cpu(2)


# -- clipping -------------------------------------------------------------------------------------


@pytest.mark.parametrize("check_isfinite", [True, False])
def test_clip_global_norm(check_isfinite: bool) -> None:
    arrays = [nd.ones((3, 3)), nd.ones((4, 4), ctx=mx.cpu(1))]
    norm = utils.clip_global_norm(arrays, 1.0, check_isfinite)
    if check_isfinite:
        assert norm == 5.0 and norm.dtype == np.float32
    else:
        assert norm.shape == (1,) and float(norm.asscalar()) == 5.0
    for array in arrays:
        np.testing.assert_allclose(array.asnumpy(), 0.2, rtol=1e-5)
    assert float(utils.clip_global_norm(arrays, 2.0)) == pytest.approx(1.0, rel=1e-5)
    np.testing.assert_allclose(arrays[0].asnumpy(), 0.2, rtol=1e-5)


def test_a_norm_that_is_not_finite_warns_once_if_looked_at() -> None:
    arrays = [nd.ones((2,)), nd.array([1.0, np.nan])]
    with pytest.warns(UserWarning, match="nan or inf") as caught:
        utils.clip_global_norm(arrays, 1.0)
    assert len(caught) == 1
    utils.clip_global_norm([nd.array([1.0, np.inf])], 1.0, check_isfinite=False)


@pytest.mark.parametrize("whole", [False, True])
def test_parameters_on_several_contexts_count_once(whole: bool) -> None:
    batch = np.random.default_rng(0).normal(size=(8, 3)).astype("float32") * 10
    norms, values = [], []
    for contexts in (CTX, CTX[:1]):
        net = gluon.nn.Dense(2, in_units=3)
        net.initialize("ones", ctx=contexts)
        params = net.collect_params()
        trainer = gluon.Trainer(params, "sgd", {"learning_rate": 1.0}, update_on_kvstore=False)
        with autograd.record():
            losses = [(net(x) ** 2).sum() for x in utils.split_and_load(batch, contexts)]
        autograd.backward(losses)
        trainer.allreduce_grads()
        norms.append(utils.clip_global_norm(params if whole else list(params.values()), 1.0))
        trainer.update(1)
        values.append(net.weight.data(contexts[0]).asnumpy())
    assert norms[0] == pytest.approx(norms[1], rel=1e-6)
    np.testing.assert_allclose(values[0], values[1], rtol=1e-6)


# -- files ----------------------------------------------------------------------------------------

CONTENT = b"forty-two" * 1000
SHA1 = hashlib.sha1(CONTENT).hexdigest()


class _Handler(http.server.BaseHTTPRequestHandler):
    fails = 0

    def do_GET(self) -> None:
        if _Handler.fails > 0:
            _Handler.fails -= 1
            self.send_error(503)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT)

    def log_message(self, *args: Any) -> None:
        """Keep the tests' output quiet."""


@pytest.fixture
def url() -> Iterator[str]:
    _Handler.fails = 0
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/data.bin"
        server.shutdown()
        thread.join()


def test_download_into_a_folder_and_keep(url: str, tmp_path: Path) -> None:
    path = utils.download(url, str(tmp_path), sha1_hash=SHA1)
    assert path == str(tmp_path / "data.bin") and utils.check_sha1(path, SHA1)
    (tmp_path / "data.bin").write_bytes(b"mine")
    assert utils.download(url, path) == path and Path(path).read_bytes() == b"mine"
    utils.download(url, path, sha1_hash=SHA1)
    assert Path(path).read_bytes() == CONTENT
    utils.download(url, str(tmp_path / "new" / "name"))
    assert (tmp_path / "new" / "name").read_bytes() == CONTENT


def test_download_retries_and_gives_up(url: str, tmp_path: Path, capsys: Any) -> None:
    _Handler.fails = 2
    utils.download(url, str(tmp_path / "a"), retries=2)
    assert "1 attempts left" in capsys.readouterr().out
    _Handler.fails = 2
    with pytest.raises(Exception, match="503"):
        utils.download(url, str(tmp_path / "b"), retries=1)
    with pytest.raises(mx.MXNetError, match="another SHA-1"):
        utils.download(url, str(tmp_path / "c"), retries=0, sha1_hash="0" * 40)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_many_downloads_at_once_leave_one_file(url: str, tmp_path: Path) -> None:
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(lambda _: utils.download(url, str(tmp_path), sha1_hash=SHA1), range(10)))
    assert [entry.name for entry in tmp_path.iterdir()] == ["data.bin"]


def test_download_without_verification_warns(url: str, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="Unverified HTTPS request"):
        utils.download(url, str(tmp_path), verify_ssl=False)


def test_a_file_that_cannot_be_replaced(tmp_path: Path) -> None:
    source, target = tmp_path / "draft", tmp_path / "folder"
    source.write_bytes(b"x")
    target.mkdir()
    with pytest.raises(OSError, match="Moving downloaded temp file"):
        utils.replace_file(str(source), str(target))
    assert not source.exists()
