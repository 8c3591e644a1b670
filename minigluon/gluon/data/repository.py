"""Where datasets lie; fetching their files once from Gluon's repository, also out of archives."""
from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ...base import MXNetError, data_dir, env_bool
from ..utils import _get_repo_url

__all__ = ["data_folder", "fetch", "say_once", "unpacked"]

_CONNECT = 4.0  # seconds a constructor may wait for a network that does not answer
_log = logging.getLogger("minigluon")
_told: set[str] = set()  # what was already said or tried in vain in this process


def data_folder(name: str) -> str:
    """Where a dataset lies: datasets/name under ``MXNET_HOME``, by default ~/.mxnet."""
    return os.path.join(data_dir(), "datasets", name)


def say_once(key: str, line: str) -> None:
    """A warning in the log, the first time in this process that `key` gives one."""
    if key not in _told:
        _told.add(key)
        _log.warning(line)


def fetch(name: str, target: Path, sha1: str | None = None) -> None:
    """Fetch one file of the repository; OSError when it cannot be had or is not the right one."""
    if env_bool("MINIGLUON_OFFLINE", False):
        raise OSError("MINIGLUON_OFFLINE is set")
    repository = _get_repo_url()
    if repository in _told:
        raise OSError("the network did not answer before")
    with _connect(repository + name, repository) as response:
        data = response.read()
    if sha1 and hashlib.sha1(data, usedforsecurity=False).hexdigest() != sha1:
        raise OSError(f"{repository}{name} is not the expected file (SHA-1)")
    target.parent.mkdir(parents=True, exist_ok=True)
    _replace(target, data)


def unpacked(who: str, namespace: str, folder: Path, names: Sequence[str], archive: str,
             sha1: str) -> list[Path]:
    """Paths of files in `folder`; missing ones come out of an archive, which is fetched if need be.

    Args:
        who: the dataset, for messages. namespace: its name in the repository.
        names: the files. archive: a .zip or .tar.gz that holds them. sha1: of the archive.
    """
    paths = [folder / name for name in names]
    if all(path.is_file() for path in paths):
        return paths
    if not (folder / archive).is_file():
        try:
            fetch(f"gluon/dataset/{namespace}/{archive}", folder / archive, sha1)
        except OSError as error:
            raise MXNetError(
                f"{who}: {', '.join(names)} not in {folder} and not to be downloaded ({error}); "
                f"put the files or {archive} there"
            ) from error
    for name, read in _members(folder / archive):
        if name in names:  # by name alone: nothing is written outside of the folder
            _replace(folder / name, read())
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise MXNetError(f"{who}: {folder / archive} lacks {missing}")
    return paths


def _members(archive: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """(name without folders, how to read it) of each file in an archive."""
    import tarfile  # here, as these are seldom needed and slow to import
    import zipfile

    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as packed:
            for path in packed.namelist():
                yield os.path.basename(path), lambda path=path: packed.read(path)
        return
    with tarfile.open(archive) as rolled:
        for member in rolled:
            source = rolled.extractfile(member)
            if source is not None:
                yield os.path.basename(member.name), source.read


def _replace(target: Path, data: bytes) -> None:
    """Write in one step: other processes see the whole file or none."""
    partial = target.with_name(f"{target.name}.{os.getpid()}.part")
    partial.write_bytes(data)
    partial.replace(target)


def _connect(url: str, repository: str) -> Any:
    """An open response. In a thread, as looking up a name cannot be given a time limit."""
    import urllib.error  # here, as it costs 30 ms that `import minigluon` should not take
    import urllib.request

    answer: list[Any] = []

    def ask() -> None:
        try:
            answer.append(urllib.request.urlopen(url, timeout=_CONNECT))
        except urllib.error.HTTPError as error:
            error.close()
            answer.append(OSError(f"{url}: {error}"))
        except (OSError, ValueError) as error:
            answer.append(error)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(_CONNECT + 1)
    if not answer or isinstance(answer[0], Exception):
        _told.add(repository)
        reason = getattr(answer[0], "reason", answer[0]) if answer else "no answer"
        raise OSError(f"{repository}: {reason}")
    return answer[0]
