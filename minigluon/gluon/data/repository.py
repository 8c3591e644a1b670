"""Where datasets lie, and fetching their files once from Gluon's repository."""
from __future__ import annotations

import hashlib
import logging
import os
import threading
from pathlib import Path
from typing import Any

from ...base import data_dir, env_bool

__all__ = ["data_folder", "fetch", "say_once"]

_REPOSITORY = "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/"
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
    repository = os.environ.get("MXNET_GLUON_REPO") or _REPOSITORY
    if repository in _told:
        raise OSError("the network did not answer before")
    with _connect(repository.rstrip("/") + "/" + name, repository) as response:
        data = response.read()
    if sha1 and hashlib.sha1(data, usedforsecurity=False).hexdigest() != sha1:
        raise OSError(f"{repository}{name} is not the expected file (SHA-1)")
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.{os.getpid()}.part")
    partial.write_bytes(data)
    partial.replace(target)  # in one step: other processes see the whole file or none


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
