"""Collections of samples: Dataset and what can be made of one."""
from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base import ArgumentError, ArgumentValueError
from ...ndarray import NDArray, shown
from ...recordio import Records
from .sampler import FilterSampler, Sampler, SequentialSampler

__all__ = ["ArrayDataset", "Dataset", "RecordFileDataset", "SimpleDataset"]


class Dataset:
    """Samples by number: subclasses define ``__getitem__`` and ``__len__``.

    A dataset that can gather many samples at once may also define ``_get_batch(indices)``: it
    returns what ``[self[i] for i in indices]`` would give after batching, as an array (or a tuple
    of arrays, one a field) whose first axis is the batch, or None when it cannot. The DataLoader
    then skips the work sample by sample. A subclass that changes ``__getitem__`` alone loses it.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__getitem__" in vars(cls) and "_get_batch" not in vars(cls):
            cls._get_batch = Dataset._get_batch  # type: ignore[method-assign]

    def __getitem__(self, idx: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define __getitem__")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} must define __len__")

    def _get_batch(self, indices: Sequence[int]) -> Any:
        return None

    def transform(self, fn: Callable[..., Any], lazy: bool = True) -> Dataset:
        """Every sample passed through `fn`; a sample that is a tuple becomes its arguments.

        Args:
            fn: ``fn(*fields) -> sample``. A function that also works on whole batches says so by
                an attribute ``batched = True`` (the transforms of ``vision.transforms`` do).
            lazy: False computes all samples now and keeps them.

        >>> list(SimpleDataset([1, 2]).transform(lambda x: x * 10))
        [10, 20]
        """
        transformed = _LazyTransformDataset(self, fn)
        if lazy:
            return transformed
        return SimpleDataset([transformed[i] for i in range(len(transformed))])

    def transform_first(self, fn: Callable[..., Any], lazy: bool = True) -> Dataset:
        """As `transform`, for the first field of each sample alone (the image, not the label)."""
        return self.transform(_TransformFirst(fn), lazy)

    def filter(self, fn: Callable[[Any], Any]) -> Dataset:
        """The samples for which `fn` is true; looks at all samples at once, after transforms."""
        return _SampledDataset(self, FilterSampler(fn, self))

    def shard(self, num_shards: int, index: int) -> Dataset:
        """Piece `index` of `num_shards` consecutive pieces, the first ones one longer if need be.

        >>> [len(SimpleDataset(range(9)).shard(4, i)) for i in range(4)]
        [3, 2, 2, 2]
        """
        assert 0 <= index < num_shards, (
            f"shard: index: expected 0 to {num_shards - 1} for {num_shards} shards, got {index}"
        )
        size, longer = divmod(len(self), num_shards)
        start = size * index + min(index, longer)
        return _SampledDataset(self, SequentialSampler(size + (index < longer), start))

    def take(self, count: int | None) -> Dataset:
        """The first `count` samples; all of them for None or a larger number."""
        if count is None or count > len(self):
            count = len(self)
        if count < 0:
            raise ArgumentValueError(f"take: count: expected 0 or more, got {count}")
        return _SampledDataset(self, SequentialSampler(count))

    def sample(self, sampler: Sampler) -> Dataset:
        """The samples that a Sampler chooses, in its order (drawn once, now)."""
        if not isinstance(sampler, Sampler):
            raise ArgumentError(
                f"sample: expected a gluon.data.Sampler, got {type(sampler).__name__}"
            )
        return _SampledDataset(self, sampler)


class SimpleDataset(Dataset):
    """Samples of anything that has a length and an index: a list, an array.

    >>> SimpleDataset(["a", "b"])[1]
    'b'
    """

    def __init__(self, data: Any) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, idx: Any) -> Any:
        return self._data[idx]

    def _get_batch(self, indices: Sequence[int]) -> Any:
        return _gather(self._data, indices)


class ArrayDataset(Dataset):
    """Samples made of the rows of one or more arrays, lists or datasets of equal length.

    >>> ArrayDataset(np.array([[1, 2], [3, 4]]), [5, 6])[1]
    (array([3, 4]), 6)
    """

    def __init__(self, *args: Any) -> None:
        assert args, "ArrayDataset: expected at least one array"
        self._length = len(args[0])
        self._data: list[Any] = []
        for place, data in enumerate(args):
            assert len(data) == self._length, (
                f"ArrayDataset: expected arrays of equal length, got {self._length} for the first "
                f"and {len(data)} for number {place}"
            )
            if isinstance(data, NDArray) and data.ndim == 1:
                data = data.asnumpy()  # so that a label is a number, not an array of one
            self._data.append(data)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, idx: Any) -> Any:
        if len(self._data) == 1:
            return self._data[0][idx]
        return tuple(data[idx] for data in self._data)

    def _get_batch(self, indices: Sequence[int]) -> Any:
        fields = []
        for data in self._data:
            field = _gather(data, indices)
            if field is None:
                return None
            fields.append(field)
        return fields[0] if len(fields) == 1 else tuple(fields)


class RecordFileDataset(Dataset):
    """The records (bytes) of a RecordIO file.

    The list of places is expected beside it, with the ending '.idx'; without one the file is
    looked through once.

    Args:
        filename: path of the file, '.rec'.
    """

    def __init__(self, filename: str | os.PathLike[str]) -> None:
        self.filename = os.fspath(filename)
        self.idx_file = os.path.splitext(self.filename)[0] + ".idx"
        listed = os.path.exists(self.idx_file)
        self._record = Records(self.filename, self.idx_file if listed else None)

    def __len__(self) -> int:
        return len(self._record)

    def __getitem__(self, idx: Any) -> Any:
        return self._record[idx]


class _DownloadedDataset(Dataset):
    """Base of datasets that are files in a folder: `_get_data` reads them into two arrays.

    Args:
        root: the folder, made if need be. transform: ``fn(data, label) -> sample``.
    """

    def __init__(self, root: str | os.PathLike[str],
                 transform: Callable[..., Any] | None = None) -> None:
        self._transform = transform
        self._root = os.path.expanduser(root)
        self._data: Any = None
        self._label: Any = None
        self._get_data()

    def _get_data(self) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define _get_data")

    def __len__(self) -> int:
        return len(self._label)

    def __getitem__(self, idx: Any) -> Any:
        data = self._data
        # a copy: a transform that works in place must not change the dataset
        item = shown(NDArray(data._sync()[idx].copy(), data.context)) if isinstance(
            data, NDArray) else data[idx]
        label = self._label[idx]
        return (item, label) if self._transform is None else self._transform(item, label)

    def _get_batch(self, indices: Sequence[int]) -> Any:
        if self._transform is not None:
            return None
        fields = (_gather(self._data, indices), _gather(self._label, indices))
        return None if any(field is None for field in fields) else fields


class _SampledDataset(Dataset):
    def __init__(self, dataset: Dataset, sampler: Sampler) -> None:
        self._dataset = dataset
        self._indices = list(sampler)

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, idx: Any) -> Any:
        return self._dataset[self._indices[idx]]

    def _get_batch(self, indices: Sequence[int]) -> Any:
        chosen = self._indices
        return self._dataset._get_batch([chosen[i] for i in indices])


class _LazyTransformDataset(Dataset):
    def __init__(self, dataset: Dataset, fn: Callable[..., Any]) -> None:
        self._dataset = dataset
        self._fn = fn

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, idx: Any) -> Any:
        item = self._dataset[idx]
        return self._fn(*item) if isinstance(item, tuple) else self._fn(item)

    def _get_batch(self, indices: Sequence[int]) -> Any:
        if not _takes_batches(self._fn):
            return None
        batch = self._dataset._get_batch(indices)
        if batch is None:
            return None
        return self._fn(*batch) if isinstance(batch, tuple) else self._fn(batch)


class _TransformFirst:
    def __init__(self, fn: Callable[..., Any]) -> None:
        self._fn = fn
        self.batched = _takes_batches(fn)

    def __call__(self, first: Any, *rest: Any) -> Any:
        return (self._fn(first), *rest) if rest else self._fn(first)


def _takes_batches(fn: Callable[..., Any]) -> bool:
    """Whether `fn` says of itself that it also works on whole batches.

    What a base class says does not count: the subclass may do something else.
    """
    own = getattr(fn, "__dict__", {}).get("batched")
    return bool(vars(type(fn)).get("batched", False) if own is None else own)


def _gather(data: Any, indices: Sequence[int]) -> Any:
    """Rows `indices` of an array, with their element type; None for what is no plain array."""
    if isinstance(data, Dataset):
        return data._get_batch(indices)
    if isinstance(data, NDArray):
        if data.context.device_type == "gpu":
            return None
        return shown(NDArray(data._sync().take(indices, axis=0), data.context))
    if type(data) in (np.ndarray, np.memmap) and data.dtype.kind in "biufc":
        return data.take(indices, axis=0)
    return None
