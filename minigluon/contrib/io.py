"""A Gluon DataLoader where a DataIter is expected."""
from __future__ import annotations

from typing import Any

from .. import ndarray as nd
from ..base import ArgumentValueError
from ..io import DataDesc, DataIter
from ..ndarray import NDArray

__all__ = ["DataLoaderIter"]


class DataLoaderIter(DataIter):
    """Batches of a DataLoader for Module; a last one that is short is filled up with zeros.

    Args:
        loader: gives (data, label). data_name, label_name: what to call them.
        dtype: element type of both.

    >>> import minigluon as mx
    >>> pairs = mx.gluon.data.ArrayDataset(mx.nd.ones((5, 3)), mx.nd.zeros((5,)))
    >>> batches = DataLoaderIter(mx.gluon.data.DataLoader(pairs, 2))
    >>> [(batch.data[0].shape, batch.pad) for batch in batches]
    [((2, 3), 0), ((2, 3), 0), ((2, 3), 1)]
    """

    def __init__(self, loader: Any, data_name: str = "data", label_name: str = "softmax_label",
                 dtype: str = "float32") -> None:
        self._loader = loader
        first = next(iter(loader), None)
        if not isinstance(first, (list, tuple)) or len(first) != 2:
            raise ArgumentValueError("DataLoaderIter: expected a loader of (data, label) pairs")
        super().__init__(first[0].shape[0])
        self.dtype = dtype
        self.provide_data = [DataDesc(data_name, first[0].shape, dtype)]
        self.provide_label = [DataDesc(label_name, first[1].shape, dtype)]
        self._current: list[NDArray] | None = None
        self.reset()

    def reset(self) -> None:
        """Go back to the first batch."""
        self._batches = iter(self._loader)

    def iter_next(self) -> bool:
        """Take the next batch; whether there is one."""
        self._current = next(self._batches, None)
        return self._current is not None

    def _whole(self, place: int) -> list[NDArray]:
        assert self._current is not None
        array = self._current[place].astype(self.dtype)
        pad = self.getpad()
        if pad:
            array = nd.concat(array, nd.zeros((pad, *array.shape[1:]), array.context, self.dtype),  # type: ignore[attr-defined]
                              dim=0)
        return [array]

    def getdata(self) -> list[NDArray]:
        """The data of this batch."""
        return self._whole(0)

    def getlabel(self) -> list[NDArray]:
        """The labels of this batch."""
        return self._whole(1)

    def getpad(self) -> int:
        """How many samples at the end are filling."""
        assert self._current is not None
        return self.batch_size - self._current[0].shape[0]

    def getindex(self) -> None:
        """The samples' numbers, which a DataLoader does not tell."""
