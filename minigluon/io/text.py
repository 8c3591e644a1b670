"""Iterators over text files of numbers: CSVIter, LibSVMIter."""
from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..base import ArgumentValueError, MXNetError, NotForThisError, ShapeError
from ..dataiter import part_of
from .fileiter import MXDataIter, unused_settings

__all__ = ["CSVIter", "LibSVMIter"]

Host = np.ndarray[Any, Any]


def _files(path: str | os.PathLike[str]) -> list[str]:
    """The file, or the files in the folder, called `path`."""
    path = os.fspath(path)
    if os.path.isdir(path):
        return [file for name in sorted(os.listdir(path))
                if os.path.isfile(file := os.path.join(path, name))]
    if not os.path.isfile(path):
        raise MXNetError(f"no such file: {path}")
    return [path]


def _given(path: Any) -> bool:
    return path not in (None, "", "NULL")


# -- csv -------------------------------------------------------------------------------------------


class CSVIter(MXDataIter):
    """Batches of the rows of files of numbers with commas in between.

    Args:
        data_csv: path of a file, or of a folder of files.
        data_shape: shape of a sample; a row has as many numbers.
        label_csv: the same for labels, None for none (zeros). label_shape: shape of a label.
        batch_size: samples in a batch.
        round_batch: see MXDataIter.
        dtype: element type, float32 by default; integers lose what stands after the point.
        num_parts, part_index: read one of equal parts.

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "x.csv")
    >>> with open(path, "w") as file:
    ...     _ = file.write("1,2\\n3,4\\n5,6\\n")
    >>> batches = CSVIter(data_csv=path, data_shape=(2,), batch_size=2)
    >>> [batch.data[0].asnumpy().tolist() for batch in batches]
    [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [1.0, 2.0]]]
    """

    def __init__(self, data_csv: Any, data_shape: Sequence[int], batch_size: int,
                 label_csv: Any = None, label_shape: Sequence[int] = (1,),
                 round_batch: bool = True, dtype: Any = None, num_parts: int = 1,
                 part_index: int = 0, data_name: str = "data", label_name: str = "softmax_label",
                 **kwargs: Any) -> None:
        unused_settings("CSVIter", kwargs, list(CSVIter.__init__.__annotations__))
        kind = np.dtype(dtype or "float32")
        shape, label_shape = _shape(data_shape), _shape(label_shape)
        data = _rows(data_csv, shape, kind)
        if _given(label_csv):
            labels = _rows(label_csv, label_shape, kind)
        else:
            labels = np.zeros((len(data), *label_shape), kind)
        if len(labels) != len(data):
            raise ShapeError(f"CSVIter: {data_csv} has {len(data)} rows, {label_csv} "
                             f"{len(labels)}")
        if labels.shape[1:] == (1,):
            labels = labels[:, 0]
        part = part_of(len(data), num_parts, part_index)
        self._data, self._labels = data[part], labels[part]
        super().__init__(len(part), batch_size, ((shape, kind.type), (labels.shape[1:], kind.type)),
                         round_batch, data_name, label_name)

    def _load(self, indices: Host) -> tuple[Host, Host]:
        return self._data[indices], self._labels[indices]


def _shape(given: Any) -> tuple[int, ...]:
    return (int(given),) if isinstance(given, (int, np.integer)) else tuple(given)


def _rows(path: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Host:
    pieces = []
    for file in _files(path):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # a file without a row
                rows = _numbers(file, dtype)
        except ValueError as error:
            raise MXNetError(f"CSVIter: {file}: {error}") from error
        if rows.size and rows.shape[1] != int(np.prod(shape)):
            raise ShapeError(f"CSVIter: {file}: rows of {rows.shape[1]} numbers do not fit "
                             f"shape {shape}")
        pieces.append(rows.reshape(-1, *shape))
    return np.concatenate(pieces)


def _numbers(file: str, dtype: np.dtype[Any]) -> Host:
    try:
        return np.loadtxt(file, dtype=dtype, delimiter=",", ndmin=2)
    except ValueError:
        if dtype.kind not in "iu":
            raise
    # "1.0" for an integer, as np.savetxt writes it: cut off after the point, as MXNet does
    return np.trunc(np.loadtxt(file, delimiter=",", ndmin=2)).astype(dtype)


# -- libsvm ----------------------------------------------------------------------------------------


class LibSVMIter(MXDataIter):
    """Batches of sparse rows (csr) of files in LibSVM's format, columns counted from 0.

    Args:
        data_libsvm: path of a file, or of a folder of files: a label and column:value in a line.
        data_shape: (number of columns,).
        label_libsvm: a file of sparse labels, None to take the labels of `data_libsvm`.
        label_shape: (number of columns,) of those.
        batch_size: samples in a batch.
        num_parts, part_index: read one of equal parts.
    """

    def __init__(self, data_libsvm: Any, data_shape: Sequence[int], batch_size: int,
                 label_libsvm: Any = None, label_shape: Sequence[int] = (1,),
                 round_batch: bool = True, dtype: Any = None, num_parts: int = 1,
                 part_index: int = 0, data_name: str = "data", label_name: str = "softmax_label",
                 **kwargs: Any) -> None:
        unused_settings("LibSVMIter", kwargs, list(LibSVMIter.__init__.__annotations__))
        if not round_batch:
            raise NotForThisError("LibSVMIter: round_batch=False is not supported (nor in MXNet)")
        self._kind = np.dtype(dtype or "float32")
        columns, label_columns = _shape(data_shape), _shape(label_shape)
        if len(columns) != 1 or len(label_columns) != 1:
            raise ShapeError("LibSVMIter: data_shape and label_shape: expected one number of "
                             f"columns, got {columns} and {label_columns}")
        self._columns = columns[0]
        numbers, self._rows = _sparse_rows(data_libsvm, columns[0], self._kind)
        part = part_of(len(numbers), num_parts, part_index)
        self._part = part
        self._labels: Any = np.asarray(numbers, self._kind)[part]
        self._label_rows: Any = None
        if _given(label_libsvm):
            _, self._label_rows = _sparse_rows(label_libsvm, label_columns[0], self._kind)
            if len(self._label_rows) != len(self._rows):
                raise ShapeError(f"LibSVMIter: {data_libsvm} has {len(self._rows)} rows, "
                                 f"{label_libsvm} {len(self._label_rows)}")
        self._label_columns = label_columns[0]
        label = label_columns if self._label_rows else ()
        super().__init__(len(part), batch_size,
                         ((columns, self._kind.type), (label, self._kind.type)), True, data_name,
                         label_name)

    def _load(self, indices: Host) -> tuple[Any, Any]:
        chosen = self._part[indices]
        data = self._csr(self._rows, chosen, self._columns)
        if self._label_rows is None:
            return data, self._labels[indices]
        return data, self._csr(self._label_rows, chosen, self._label_columns)

    def _csr(self, rows: list[tuple[Host, Host]], chosen: Host, columns: int) -> Any:
        picked = [rows[i] for i in chosen]
        ends = np.cumsum([0, *(len(places) for places, _ in picked)])
        return nd.sparse.csr_matrix((np.concatenate([values for _, values in picked]),
                                     np.concatenate([places for places, _ in picked]), ends),
                                    shape=(len(picked), columns), dtype=self._kind)


def _sparse_rows(path: Any, columns: int, dtype: Any) -> tuple[list[float], list[Any]]:
    numbers, rows = [], []
    for file in _files(path):
        with open(file, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                words = line.split("#")[0].split()
                if not words:
                    continue
                try:
                    pairs = [word.split(":") for word in words[1:]]
                    places = np.array([int(place) for place, _ in pairs], np.int64)
                    values = np.array([float(value) for _, value in pairs], dtype)
                    numbers.append(float(words[0]))
                except ValueError:
                    raise MXNetError(f"LibSVMIter: {file}, line {number}: expected a label and "
                                     f"column:value, got {line.strip()[:60]!r}") from None
                if len(places) and not 0 <= places.min() <= places.max() < columns:
                    raise ArgumentValueError(
                        f"LibSVMIter: {file}, line {number}: columns from 0 to {columns - 1} "
                        f"expected (data_shape), got {places.min()} to {places.max()}")
                rows.append((places, values))
    return numbers, rows
