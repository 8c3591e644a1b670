"""Files are replaced as a whole; their errors are OSErrors too; drafts of the killed go away."""
from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import minigluon as mx
from minigluon import gluon, nd
from minigluon.files import replacing
from minigluon.gluon import nn

WRITER = """
import sys
from minigluon.files import replacing
with replacing(sys.argv[1], "writer") as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    sys.stdin.read()
"""

FULL = """
import resource, signal, sys
import minigluon as mx
from minigluon.gluon import nn
net = nn.Dense(256, in_units=256)
net.initialize("ones")
path = sys.argv[1]
net.save_parameters(path)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
net.initialize("zeros", force_reinit=True)
try:
    net.save_parameters(path)
except OSError as error:
    print(type(error).__name__, error.errno, error.filename == path)
"""


def test_what_a_killed_writer_leaves_goes_with_the_next_write(tmp_path: Path) -> None:
    target = tmp_path / "a.params"
    target.write_bytes(b"old")
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(target)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE)
    assert writer.stdout is not None and writer.stdin is not None
    assert writer.stdout.readline() == b"writing\n"
    with replacing(str(tmp_path / "a.params"), "test") as file:  # the other one still writes
        file.write(b"mine")
    assert len(os.listdir(tmp_path)) == 2
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    writer.stdin.close()
    writer.stdout.close()
    assert target.read_bytes() == b"mine"
    nd.save(str(target), nd.ones((2,)))
    assert os.listdir(tmp_path) == ["a.params"]
    assert nd.load(str(target))[0].shape == (2,)


def test_a_full_disk_is_an_os_error_and_the_old_file_stays(tmp_path: Path) -> None:
    path = str(tmp_path / "net.params")
    done = subprocess.run([sys.executable, "-c", FULL, path], capture_output=True, text=True)
    assert done.stdout == "FileError 27 True\n", done.stderr
    net = nn.Dense(256, in_units=256)
    net.load_parameters(path)
    assert net.weight.data().sum().asscalar() == 256 * 256
    assert os.listdir(tmp_path) == ["net.params"]


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    nd.save(pipe, nd.ones((2,)))
    content = os.read(end, 4096)
    os.close(end)
    assert stat.S_ISFIFO(os.stat(pipe).st_mode)
    assert nd.load_frombuffer(content)[0].asnumpy().tolist() == [1, 1]


@pytest.mark.parametrize("read", [
    nd.load, mx.sym.load, lambda path: nn.Dense(1, in_units=1).load_parameters(path),
    lambda path: nn.SymbolBlock.imports(path, "data"), lambda path: _trainer().load_states(path),
])
def test_a_missing_file(read, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no\.such") as caught:
        read(str(tmp_path / "no.such"))
    assert isinstance(caught.value, mx.MXNetError)
    assert caught.value.filename == str(tmp_path / "no.such") and caught.value.errno == 2


@pytest.mark.parametrize("write", [
    lambda path: nd.save(path, nd.ones((1,))), lambda path: mx.sym.var("x").save(path),
    lambda path: _trainer().save_states(path),
])
def test_a_missing_folder(write, tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"cannot write: .*x\.y") as caught:
        write(str(tmp_path / "none" / "x.y"))
    assert isinstance(caught.value, mx.MXNetError)


@pytest.mark.parametrize("content", [b"", b"root:x:0:0:root", b"\x80\x04K\x01.", b"\x80\x04}."[:2]])
def test_what_is_no_file_of_states(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.states").write_bytes(content)
    with pytest.raises(mx.MXNetError, match=r"x\.states: optimizer states: expected") as caught:
        _trainer().load_states(str(tmp_path / "x.states"))
    assert isinstance(caught.value, ValueError)


def _trainer() -> gluon.Trainer:
    net = nn.Dense(1, in_units=1)
    net.initialize()
    return gluon.Trainer(net.collect_params(), "sgd", {"momentum": 0.9})
