"""NDArrayIter: batches of arrays that are in memory."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import random
from ..base import ArgumentError, ArgumentValueError, NotForThisError
from ..context import Context, current_context
from ..dataiter import DataDesc, DataIter
from ..ndarray import NDArray, array

__all__ = ["NDArrayIter"]

_HANDLES = ("pad", "discard", "roll_over")


class NDArrayIter(DataIter):
    """Batches of one or more arrays, with labels.

    Args:
        data: an array (NDArray, NumPy), a list of arrays, or a dict of arrays by name.
        label: the same for labels; None or [] for none.
        batch_size: samples in a batch.
        shuffle: take the samples in a new random order each epoch.
        last_batch_handle: what becomes of samples that do not fill a batch: 'pad' fills up with
            the first ones, 'discard' drops them, 'roll_over' lets the next epoch begin with them.
        data_name, label_name: names for arrays given without one.
        layout: of the arrays, for ``provide_data``.

    Attributes:
        idx: the order in which the samples are taken.

    >>> import minigluon as mx
    >>> batches = mx.io.NDArrayIter(np.arange(5), batch_size=2)
    >>> [batch.data[0].asnumpy().tolist() for batch in batches]
    [[0.0, 1.0], [2.0, 3.0], [4.0, 0.0]]
    """

    def __init__(self, data: Any, label: Any = None, batch_size: int = 1, shuffle: bool = False,
                 last_batch_handle: str = "pad", data_name: str = "data",
                 label_name: str = "softmax_label", layout: str = "NCHW") -> None:
        super().__init__(batch_size)
        if last_batch_handle not in _HANDLES:
            raise ArgumentValueError(
                f"NDArrayIter: last_batch_handle: expected one of {_HANDLES}, "
                f"got {last_batch_handle!r}"
            )
        self.data = _named(data, data_name, "data")
        self.label = _named(label, label_name, "label")
        if not self.data:
            raise ArgumentValueError("NDArrayIter: data: expected at least one array, got none")
        self.num_data = len(self.data[0][1])
        for name, values in self.data + self.label:
            if len(values) < self.num_data:  # of longer ones, the rest is not used, as in MXNet
                raise ArgumentValueError(
                    f"NDArrayIter: expected arrays of {self.num_data} samples, got {len(values)} "
                    f"in '{name}'"
                )
        for name, values in self.data + self.label:
            if values.stype == "csr" and (shuffle or last_batch_handle != "discard"):
                raise NotForThisError(f"NDArrayIter: '{name}' is csr, which needs "
                                      "last_batch_handle='discard' and shuffle=False")
        if not self.num_data:
            raise ArgumentValueError("NDArrayIter: data: expected samples, got an array of none")
        self.shuffle = shuffle
        self.last_batch_handle = last_batch_handle
        self.layout = layout
        self.hard_reset()

    @property
    def provide_data(self) -> list[DataDesc]:
        """Names and shapes of the data of a batch."""
        return self._descriptions(self.data)

    @property
    def provide_label(self) -> list[DataDesc]:
        """Names and shapes of the labels of a batch."""
        return self._descriptions(self.label)

    def _descriptions(self, arrays: list[tuple[str, NDArray]]) -> list[DataDesc]:
        return [DataDesc(name, (self.batch_size, *values.shape[1:]), values.dtype, self.layout)
                for name, values in arrays]

    def hard_reset(self) -> None:
        """Go back to the beginning, without samples that rolled over."""
        self._rest = np.arange(0)
        self._begin()

    def reset(self) -> None:
        """Begin the next epoch."""
        taken = self.cursor + self.batch_size
        finished = len(self._order) - taken < self.batch_size  # else it was broken off
        rolls = self.last_batch_handle == "roll_over" and finished
        self._rest = self._order[taken:] if rolls else np.arange(0)
        self._begin()

    def _begin(self) -> None:
        self.idx = np.arange(self.num_data)
        if self.shuffle:
            self.idx = random.host_generator().permutation(self.num_data)
        self._order = np.concatenate([self._rest, self.idx])
        self.cursor = -self.batch_size

    def iter_next(self) -> bool:
        start = self.cursor + self.batch_size
        last = len(self._order) - (0 if self.last_batch_handle == "pad" else self.batch_size - 1)
        if start >= last:
            return False
        self.cursor = start
        return True

    def _take(self, arrays: list[tuple[str, NDArray]]) -> list[NDArray]:
        if self.cursor < 0:
            raise ArgumentValueError("NDArrayIter: no batch yet; call iter_next() first")
        places = np.arange(self.cursor, self.cursor + self.batch_size)
        chosen = self._order.take(places, mode="wrap")
        return [_rows(values, chosen) for _, values in arrays]

    def getdata(self) -> list[NDArray]:
        return self._take(self.data)

    def getlabel(self) -> list[NDArray] | None:
        return self._take(self.label)

    def getpad(self) -> int:
        """How many samples of this batch only fill it up, or came over from the last epoch."""
        if self.cursor == 0 and len(self._rest):
            return len(self._rest)
        return max(0, self.cursor + self.batch_size - len(self._order))


def _rows(values: NDArray, chosen: np.ndarray[Any, Any]) -> NDArray:
    if values.stype == "csr":
        return values[int(chosen[0]): int(chosen[-1]) + 1]  # never shuffled, never wrapped
    if values.context.device_type == "gpu":
        return values.take(array(chosen, values.context, "int64"))  # type: ignore[attr-defined, no-any-return]
    return NDArray(values._sync().take(chosen, axis=0), values.context)


def _named(given: Any, default: str, what: str) -> list[tuple[str, NDArray]]:
    """(name, NDArray) of each array given, by name; numbers from NumPy become float32."""
    if given is None:
        given = []
    if isinstance(given, (NDArray, np.ndarray)):
        given = {default: given}
    elif isinstance(given, (list, tuple)):
        names = [default] if len(given) == 1 else [f"_{i}_{default}" for i in range(len(given))]
        given = dict(zip(names, given, strict=True))
    if not isinstance(given, Mapping):
        raise ArgumentError(
            f"NDArrayIter: {what}: expected an NDArray, a NumPy array, a list of them or a dict "
            f"with them as values, got {type(given).__name__}"
        )
    return [(name, values if isinstance(values, NDArray) else array(values, _host()))
            for name, values in sorted(given.items())]


def _host() -> Context:
    here = current_context()
    return here if here.device_type == "cpu" else Context("cpu", 0)
