"""Files that are replaced as a whole or not at all, and the errors of files.

A file is written beside its place under another name (a draft), flushed to the disk, and renamed:
whoever is killed while it writes leaves the old file as it was, and a draft, which the next writer
of that file removes.
"""
from __future__ import annotations

import contextlib
import glob
import os
import stat
from collections.abc import Iterator
from typing import BinaryIO

from .base import FileError, FileMissingError

__all__ = ["file_error", "read_file", "replacing"]


def file_error(what: str, fname: str, error: OSError) -> FileError:
    """The error to raise for `error`: MXNetError and OSError in one.

    >>> raise file_error("nd.load: cannot read", "nowhere", FileNotFoundError(2, "No such file"))
    Traceback (most recent call last):
    minigluon.base.FileMissingError: nd.load: cannot read: No such file: 'nowhere'
    """
    kind = FileMissingError if isinstance(error, FileNotFoundError) else FileError
    found = kind(f"{what}: {error.strerror or error}: {fname!r}")
    found.errno, found.filename = error.errno, fname
    return found


def read_file(fname: str, what: str) -> bytes:
    """The content of a file; a FileError that names `what` and the file if it cannot be read."""
    try:
        with open(fname, "rb") as file:
            return file.read()
    except OSError as error:
        raise file_error(f"{what}: cannot read", fname, error) from error


@contextlib.contextmanager
def replacing(fname: str, what: str) -> Iterator[BinaryIO]:
    """``with replacing(path, "nd.save") as file:`` write a file; on any error the old one stays.

    What is no plain file (a pipe, ``/dev/stdout``) is written to directly, never replaced.

    Raises:
        FileError: the file cannot be written; it names `what`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(folder + "/a", "doc") as file:
    ...         _ = file.write(b"12")
    ...     os.listdir(folder)
    ['a']
    """
    path = os.path.realpath(fname)
    try:
        if _special(path):
            with open(path, "wb") as file:
                yield file
            return
        draft = f"{_drafts(path)}{os.getpid()}-{os.urandom(6).hex()}.tmp"
        try:
            with _create(draft) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(draft)
            raise
        _remove_left(path)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise file_error(f"{what}: cannot write", fname, error) from error


def _special(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(21, "Is a directory")
    return not stat.S_ISREG(mode)


def _create(path: str) -> BinaryIO:
    """A new file with the permissions the user's umask gives (mkstemp would make it private)."""
    return os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666), "wb")


def _drafts(path: str) -> str:
    """What the names of this machine's drafts of `path` begin with; a process number follows."""
    return f"{path}.{os.uname().nodename}-"


def _remove_left(path: str) -> None:
    """Remove drafts whose writers were killed. Those of other machines are not ours to judge."""
    start = _drafts(path)
    for draft in glob.glob(f"{glob.escape(start)}*.tmp"):
        pid = draft[len(start):].partition("-")[0]
        if pid.isdecimal() and not os.path.exists(f"/proc/{pid}"):
            with contextlib.suppress(OSError):
                os.unlink(draft)
