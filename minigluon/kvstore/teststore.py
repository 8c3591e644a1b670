"""A store with the least that a Trainer needs: how one of one's own looks, and for tests."""
from __future__ import annotations

from typing import Any

from ..base import KVStoreError
from .api import KVStoreBase, check_arrays, group
from .reduce import reduce

__all__ = ["TestStore"]


@KVStoreBase.register
class TestStore(KVStoreBase):
    """'teststore': one process, values on their way only; nothing is kept between calls.

    >>> import minigluon as mx
    >>> kv, out = mx.kv.create("teststore"), mx.nd.zeros((2,))
    >>> kv.pushpull("w", [mx.nd.ones((2,)), mx.nd.ones((2,))], out=out)
    >>> out.asnumpy().tolist(), kv.is_capable("optimizer")
    ([2.0, 2.0], False)
    """

    @staticmethod
    def is_capable(capability: str) -> bool:
        """It can neither run an optimizer nor anything else one may ask for."""
        return False

    def broadcast(self, key: Any, value: Any, out: Any, priority: Any = 0) -> None:
        """Fill `out` with the first value of each key."""
        self._fill("broadcast", key, value, out, first=True)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: Any = 0) -> None:
        """Fill `out`, by default `value` itself, with the sum of a key's values."""
        self._fill("pushpull", key, value, value if out is None else out, first=False)

    def _fill(self, what: str, key: Any, value: Any, out: Any, first: bool) -> None:
        values = check_arrays(what, group(key, value))
        outs = check_arrays(what, group(key, out))
        if values.keys() != outs.keys():
            raise KVStoreError(f"{what}: values for {list(values)}, outputs for {list(outs)}")
        for one, arrays in values.items():
            source = arrays[0] if first else reduce(arrays, arrays[0].context)
            for target in outs[one]:
                source.copyto(target)
