"""MNIST and FashionMNIST, from files, from the network, or (MNIST) from the digits bundled here."""
from __future__ import annotations

import gzip
import hashlib
import logging
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ....base import MXNetError, env_bool
from ....context import cpu
from ....ndarray import NDArray
from ..dataset import Dataset

__all__ = ["MNIST", "FashionMNIST"]

_BUNDLED = Path(__file__).parent / "mnist-10k"
_REPOSITORY = "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/"
_CONNECT = 4.0  # seconds a constructor may wait for a network that does not answer
_log = logging.getLogger("minigluon")
_told: set[str] = set()  # what was already said or tried in vain in this process

Files = dict[str, str]  # file name -> SHA-1 of the original


class MNIST(Dataset):
    """Handwritten digits: samples (image, label), an NDArray (28, 28, 1) uint8 and an int32 number.

    The four files are taken from `root` if they are there (gzipped as published, or unpacked);
    else they are downloaded to it and checked. Where there is no network, the digits bundled with
    minigluon are used (8,000 to train, 2,000 to test), and one line on stderr says so.

    Environment: ``MXNET_HOME`` holds datasets (default ~/.mxnet), ``MXNET_GLUON_REPO`` is another
    server to download from, ``MINIGLUON_OFFLINE=1`` does without the attempt.

    Args:
        root: folder of the files; None is datasets/mnist under ``MXNET_HOME``.
        train: the training digits, else the test digits.
        transform: ``fn(image, label) -> sample``.
    """

    _namespace = "mnist"
    _bundled: Path | None = _BUNDLED
    _hashes: tuple[Files, Files] = (
        {"train-images-idx3-ubyte.gz": "6c95f4b05d2bf285e1bfb0e7960c31bd3b3f8a7d",
         "train-labels-idx1-ubyte.gz": "2a80914081dc54586dbdf242f9805a6b8d2a15fc"},
        {"t10k-images-idx3-ubyte.gz": "c3a25af1f52dad7f726cce8cacb138654b760d48",
         "t10k-labels-idx1-ubyte.gz": "763e7fa3757d93b0cdec073cef058b2004252c17"},
    )

    def __init__(self, root: str | os.PathLike[str] | None = None, train: bool = True,
                 transform: Callable[..., Any] | None = None) -> None:
        self._transform = transform
        home = os.environ.get("MXNET_HOME") or os.path.join("~", ".mxnet")
        folder = Path(root or os.path.join(home, "datasets", self._namespace)).expanduser()
        images, labels = self._find(folder, self._hashes[0 if train else 1])
        pixels, numbers = read_idx(images), read_idx(labels)
        if pixels.ndim != 3 or numbers.shape != pixels.shape[:1]:
            raise MXNetError(
                f"{type(self).__name__}: {images} holds shape {pixels.shape} and {labels} "
                f"{numbers.shape}; expected (n, height, width) and (n,)"
            )
        self._pixels = pixels[..., np.newaxis]
        self._data = NDArray(self._pixels, cpu(0))
        self._label = numbers.astype(np.int32)

    def _find(self, folder: Path, hashes: Files) -> list[Path]:
        """Where the images and the labels are, after a download if need be."""
        missing = []
        paths = []
        for name in hashes:
            found = [path for path in (folder / name, folder / name[:-3]) if path.is_file()]
            paths.append(found[0] if found else folder / name)
            if not found:
                missing.append(name)
        if not missing:
            return paths
        try:
            for name in missing:
                _download(f"gluon/dataset/{self._namespace}/{name}", folder / name, hashes[name])
        except OSError as error:
            if self._bundled is None:
                raise MXNetError(
                    f"{type(self).__name__}: {', '.join(missing)} not in {folder} and not to be "
                    f"downloaded ({error}); put the files there"
                ) from error
            self._say_once(
                f"{type(self).__name__}: no files in {folder} and no download ({error}); using "
                "the bundled subset of 8,000 training and 2,000 test digits"
            )
            return [self._bundled / name for name in hashes]
        return paths

    def _say_once(self, line: str) -> None:
        if self._namespace not in _told:  # a pair of datasets, train and test, is usual
            _told.add(self._namespace)
            _log.warning(line)

    def __len__(self) -> int:
        return len(self._label)

    def __getitem__(self, idx: Any) -> Any:
        # a copy: a transform that works in place must not change the dataset
        image, label = NDArray(self._pixels[idx].copy(), cpu(0)), self._label[idx]
        return (image, label) if self._transform is None else self._transform(image, label)

    def _get_batch(self, indices: Sequence[int]) -> Any:
        if self._transform is not None:
            return None
        return NDArray(self._pixels.take(indices, axis=0), cpu(0)), self._label.take(indices)


class FashionMNIST(MNIST):
    """Pictures of clothes in MNIST's format, 60,000 and 10,000; there is no bundled subset."""

    _namespace = "fashion-mnist"
    _bundled = None
    _hashes = (
        {"train-images-idx3-ubyte.gz": "0cf37b0d40ed5169c6b3aba31069a9770ac9043d",
         "train-labels-idx1-ubyte.gz": "236021d52f1e40852b06a4c3008d8de8aef1e40b"},
        {"t10k-images-idx3-ubyte.gz": "626ed6a7c06dd17c0eec72fa3be1740f146a2863",
         "t10k-labels-idx1-ubyte.gz": "17f9ab60e7257a1620f4ad76bbbaf857c3920701"},
    )


def read_idx(path: Path) -> np.ndarray[Any, Any]:
    """The uint8 array in an IDX file, gzipped or not."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rb") as file:
        data = file.read()
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise MXNetError(f"{path}: not an IDX file of bytes (it begins with {data[:4]!r})")
    start = 4 + 4 * data[3]
    shape = tuple(np.frombuffer(data, ">u4", data[3], 4).tolist())
    if len(data) - start != int(np.prod(shape)):
        raise MXNetError(f"{path}: its header says {shape}, but {len(data) - start} bytes follow")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape).copy()


def _download(name: str, target: Path, sha1: str) -> None:
    """Fetch one file of the repository; OSError when it cannot be had or is not the right one."""
    if env_bool("MINIGLUON_OFFLINE", False):
        raise OSError("MINIGLUON_OFFLINE is set")
    repository = os.environ.get("MXNET_GLUON_REPO") or _REPOSITORY
    if repository in _told:
        raise OSError("the network did not answer before")
    with _connect(repository.rstrip("/") + "/" + name, repository) as response:
        data = response.read()
    if hashlib.sha1(data, usedforsecurity=False).hexdigest() != sha1:
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
