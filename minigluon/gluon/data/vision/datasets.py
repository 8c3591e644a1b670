"""Images to learn from: MNIST, FashionMNIST, CIFAR, folders and RecordIO files of images."""
from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ....base import MXNetError
from ....context import cpu
from ....image import imdecode, imread
from ....io import read_idx
from ....ndarray import NDArray
from ....recordio import unpack
from ..dataset import Dataset, RecordFileDataset, _DownloadedDataset
from ..repository import data_folder, fetch, say_once, unpacked

__all__ = ["CIFAR10", "CIFAR100", "MNIST", "FashionMNIST", "ImageFolderDataset",
           "ImageRecordDataset"]

_BUNDLED = Path(__file__).parent / "mnist-10k"

Files = dict[str, str]  # file name -> SHA-1 of the original
Transform = Callable[..., Any] | None
Root = str | os.PathLike[str] | None


class MNIST(_DownloadedDataset):
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

    Attributes:
        files: paths of the images and the labels.
    """

    _namespace = "mnist"
    _bundled: Path | None = _BUNDLED
    _hashes: tuple[Files, Files] = (
        {"train-images-idx3-ubyte.gz": "6c95f4b05d2bf285e1bfb0e7960c31bd3b3f8a7d",
         "train-labels-idx1-ubyte.gz": "2a80914081dc54586dbdf242f9805a6b8d2a15fc"},
        {"t10k-images-idx3-ubyte.gz": "c3a25af1f52dad7f726cce8cacb138654b760d48",
         "t10k-labels-idx1-ubyte.gz": "763e7fa3757d93b0cdec073cef058b2004252c17"},
    )

    def __init__(self, root: Root = None, train: bool = True, transform: Transform = None) -> None:
        self._train = train
        super().__init__(root or data_folder(self._namespace), transform)

    def _get_data(self) -> None:
        images, labels = self.files = self._find(Path(self._root),
                                                 self._hashes[0 if self._train else 1])
        pixels, numbers = read_idx(images), read_idx(labels)
        if pixels.ndim != 3 or numbers.shape != pixels.shape[:1]:
            raise MXNetError(
                f"{type(self).__name__}: {images} holds shape {pixels.shape} and {labels} "
                f"{numbers.shape}; expected (n, height, width) and (n,)"
            )
        self._data = NDArray(pixels[..., np.newaxis], cpu(0))
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
                fetch(f"gluon/dataset/{self._namespace}/{name}", folder / name, hashes[name])
        except OSError as error:
            if self._bundled is None:
                raise MXNetError(
                    f"{type(self).__name__}: {', '.join(missing)} not in {folder} and not to be "
                    f"downloaded ({error}); put the files there"
                ) from error
            if os.environ.get("DMLC_WORKER_ID", "0") == "0":  # one worker of a job says it for all
                say_once(
                    self._namespace,  # a pair of datasets, train and test, is usual
                    f"{type(self).__name__}: no files in {folder} and no download ({error}); "
                    "using the bundled subset of 8,000 training and 2,000 test digits"
                )
            return [self._bundled / name for name in hashes]
        return paths


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


class CIFAR10(_DownloadedDataset):
    """Small pictures of ten classes: samples (image, label), (32, 32, 3) uint8 and int32.

    The files of the binary version (data_batch_1.bin ...) are taken from `root`, or from the
    published archive there; else the archive is downloaded.

    Args:
        root: folder of the files; None is datasets/cifar10 under ``MXNET_HOME``.
        train: the 50,000 training pictures, else the 10,000 test pictures.
        transform: ``fn(image, label) -> sample``.
    """

    _namespace = "cifar10"
    _archive = ("cifar-10-binary.tar.gz", "fab780a1e191a7eda0f345501ccd62d20f7ed891")
    _names = ([f"data_batch_{number}.bin" for number in range(1, 6)], ["test_batch.bin"])
    _labels_first = 1  # bytes before the pixels

    def __init__(self, root: Root = None, train: bool = True, transform: Transform = None) -> None:
        self._train = train
        super().__init__(root or data_folder(self._namespace), transform)

    def _number_of_label(self) -> int:
        return 0

    def _get_data(self) -> None:
        size = self._labels_first + 3 * 32 * 32
        pieces = []
        for path in self._find(Path(self._root), self._names[0 if self._train else 1]):
            raw = np.fromfile(path, np.uint8)
            if raw.size == 0 or raw.size % size:
                raise MXNetError(f"{type(self).__name__}: {path}: expected a multiple of {size} "
                                 f"bytes, got {raw.size}")
            pieces.append(raw.reshape(-1, size))
        rows = np.concatenate(pieces)
        planes = rows[:, self._labels_first:].reshape(-1, 3, 32, 32)
        self._data = NDArray(np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), cpu(0))
        self._label = rows[:, self._number_of_label()].astype(np.int32)

    def _find(self, folder: Path, names: list[str]) -> list[Path]:
        return unpacked(type(self).__name__, self._namespace, folder, names, *self._archive)


class CIFAR100(CIFAR10):
    """As CIFAR10, with 100 classes in 20 groups.

    Args:
        fine_label: the label is the class, else the group.
        root, train, transform: as for CIFAR10.
    """

    _namespace = "cifar100"
    _archive = ("cifar-100-binary.tar.gz", "a0bb982c76b83111308126cc779a992fa506b90b")
    _names = (["train.bin"], ["test.bin"])
    _labels_first = 2

    def __init__(self, root: Root = None, fine_label: bool = False, train: bool = True,
                 transform: Transform = None) -> None:
        self._fine_label = fine_label
        super().__init__(root, train, transform)

    def _number_of_label(self) -> int:
        return 1 if self._fine_label else 0


class ImageFolderDataset(Dataset):
    """Image files in a folder for each class: samples (image, number of the class).

    Args:
        root: folder of the folders. flag: 1 for colours, 0 for gray.
        transform: ``fn(image, label) -> sample``.

    Attributes:
        synsets: names of the classes, sorted. items: (path, number of the class) of each image.
    """

    _exts = (".jpg", ".jpeg", ".png")

    def __init__(self, root: str | os.PathLike[str], flag: int = 1,
                 transform: Transform = None) -> None:
        self._root = os.path.expanduser(root)
        self._flag, self._transform = flag, transform
        self.synsets: list[str] = []
        self.items: list[tuple[str, int]] = []
        for name in sorted(os.listdir(self._root)):
            path = os.path.join(self._root, name)
            if os.path.isdir(path):
                self._add(path, len(self.synsets))
                self.synsets.append(name)
            else:
                warnings.warn(f"Ignoring {path}, which is not a directory.", stacklevel=2)

    def _add(self, folder: str, label: int) -> None:
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            if path.lower().endswith(self._exts):
                self.items.append((path, label))
            else:
                kind = os.path.splitext(name)[1]
                warnings.warn(f"Ignoring {path} of type {kind}. Only support "
                              f"{', '.join(self._exts)}", stacklevel=3)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, idx: Any) -> Any:
        path, label = self.items[idx]
        image = imread(path, self._flag)
        return (image, label) if self._transform is None else self._transform(image, label)


class ImageRecordDataset(RecordFileDataset):
    """Images in a RecordIO file: samples (image, label), a number or a float32 array.

    Args:
        filename: path of the file. flag: 1 for colours, 0 for gray.
        transform: ``fn(image, label) -> sample``.
    """

    def __init__(self, filename: str | os.PathLike[str], flag: int = 1,
                 transform: Transform = None) -> None:
        super().__init__(filename)
        self._flag, self._transform = flag, transform

    def __getitem__(self, idx: Any) -> Any:
        header, content = unpack(super().__getitem__(idx))
        image = imdecode(content, self._flag)
        if self._transform is None:
            return image, header.label
        return self._transform(image, header.label)
