"""The store of one process: values summed over its devices, kept on one of them."""
from __future__ import annotations

from typing import Any

import numpy as np

from .. import ndarray as nd
from .. import optimizer as opt
from ..base import ArgumentError, ArgumentValueError, KVStoreError, ShapeError
from ..context import cpu
from ..ndarray import NDArray
from .api import Key, KeyKind, Keys, KVStoreBase, Updater, Values
from .compression import Packed, Residuals, codec_of, merge
from .reduce import reduce
from .rows import dense_and_sparse, rows_asked

__all__ = ["KVStore"]


class KVStore(KVStoreBase):
    """'local': sums on the CPU; 'device': sums where the first value given for a key lives.

    A push without optimizer or updater replaces the stored value by the sum.

    Args:
        name: the type, as shown by `type`.

    >>> import minigluon as mx
    >>> kv = KVStore("device")
    >>> kv.init(3, mx.nd.zeros((2,)))
    >>> kv.push(3, [mx.nd.ones((2,), ctx=mx.cpu(i)) for i in range(4)])
    >>> out = mx.nd.empty((2,))
    >>> kv.pull(3, out=out)
    >>> out.asnumpy().tolist()
    [4.0, 4.0]
    """

    def __init__(self, name: str = "local") -> None:
        self._name = name
        self._on_device = name.lower() in ("device", "local_allreduce_device", "nccl")
        self._kind = KeyKind()
        self._values: dict[Key, NDArray] = {}
        self._updater: Updater | None = None
        self._residuals: Residuals | None = None

    @property
    def type(self) -> str:
        return self._name

    @staticmethod
    def is_capable(capability: str) -> bool:
        """True for 'optimizer'. Keys cost little each, so there is no 'batch'."""
        return capability.lower() == KVStoreBase.OPTIMIZER

    def _stored(self, key: Key) -> NDArray:
        try:
            return self._values[key]
        except KeyError:
            raise KVStoreError(
                f"KVStore: key {key!r} has not been initialized; call init({key!r}, value) first"
            ) from None

    # -- values ---------------------------------------------------------------------------------

    def init(self, key: Keys, value: Values) -> None:
        grouped = self._kind.grouped("init", key, value)
        for one in grouped:
            if one in self._values:
                raise KVStoreError(f"KVStore: key {one!r} is initialized already; use push")
        for one, arrays in grouped.items():
            first = arrays[0]
            self._values[one] = first.copyto(first.context if self._on_device else cpu())

    def broadcast(self, key: Keys, value: Values, out: Values, priority: Any = 0) -> None:
        self.init(key, value)
        self.pull(key, out, priority)

    def push(self, key: Keys, value: Values, priority: Any = 0) -> None:
        for one, arrays in self._kind.grouped("push", key, value).items():
            stored = self._stored(one)
            self._merge(one, stored, self._sum(one, arrays, stored))

    def _sum(self, key: Key, arrays: list[NDArray], stored: NDArray) -> NDArray:
        if arrays[0].shape != stored.shape:
            raise ShapeError(
                f"KVStore: key {key!r} has shape {stored.shape}, got {arrays[0].shape}"
            )
        sparse = any(array.stype != "default" for array in arrays)
        if self._residuals is None or stored.dtype != np.float32 or sparse:
            return reduce(arrays, stored.context)
        codec = self._residuals.codec
        codes = [
            Packed(codec, self._residuals.quantize((key, i), array.asnumpy()))
            for i, array in enumerate(arrays)
        ]
        return NDArray(merge(codes, np.empty(stored.shape, np.float32)), cpu()).as_in_context(
            stored.context
        )

    def _merge(self, key: Key, stored: NDArray, merged: NDArray) -> None:
        if self._updater is None:
            stored._write(merged._sync())
        else:
            self._updater(key, merged, stored)

    def pull(
        self, key: Keys, out: Values = None, priority: Any = 0, ignore_sparse: bool = True
    ) -> None:
        for one, arrays in self._kind.grouped("pull", key, out).items():
            stored = self._stored(one)
            for array in dense_and_sparse(arrays, ignore_sparse):
                stored.copyto(array)

    def row_sparse_pull(
        self, key: Keys, out: Values = None, priority: Any = 0, row_ids: Any = None
    ) -> None:
        asked = rows_asked(key, out, row_ids)
        self._kind.check(list(asked))
        for one, arrays in asked.items():
            stored = self._stored(one)
            if stored.stype != "row_sparse":
                raise KVStoreError(f"row_sparse_pull of key {one!r}: it holds a dense value; "
                                   "init it with a row_sparse array, or use pull")
            for array, rows in arrays:
                ids = nd.array(rows, stored.context, "int64")
                nd.sparse.retain(stored, ids).copyto(array)

    def pushpull(self, key: Keys, value: Values, out: Values = None, priority: Any = 0) -> None:
        self.push(key, value, priority)
        self.pull(key, value if out is None else out, priority)

    # -- updates --------------------------------------------------------------------------------

    def set_updater(self, updater: Updater) -> None:
        if not callable(updater):
            raise ArgumentError(
                f"set_updater: expected a function of (key, gradient, value), got {updater!r}"
            )
        self._updater = updater

    def set_optimizer(self, optimizer: opt.Optimizer) -> None:
        if not isinstance(optimizer, opt.Optimizer):
            raise KVStoreError(f"set_optimizer: expected an Optimizer, got {optimizer!r}")
        self._updater = opt.get_updater(optimizer)

    def _states(self) -> opt.Updater:
        if not isinstance(self._updater, opt.Updater):
            raise ArgumentValueError(
                "KVStore: there are no optimizer states; call set_optimizer first")
        return self._updater

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        opt.save_states(fname, [self._states()], dump_optimizer)

    def load_optimizer_states(self, fname: str) -> None:
        opt.load_states(fname, [self._states()])

    def set_gradient_compression(self, compression_params: dict[str, Any]) -> None:
        if not self._on_device:
            raise KVStoreError(
                f"gradient compression: KVStore '{self.type}' sums on the CPU and has none; "
                "it is for 'device' and the dist types"
            )
        codec = codec_of(compression_params)
        self._residuals = Residuals.by(codec, self._residuals)
