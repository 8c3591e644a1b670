"""The contract of every key-value store, and how keys and values of a call are read."""
from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ..base import (
    ArgumentError,
    ArgumentValueError,
    KVStoreError,
    MXNetError,
    NotForThisError,
    Registry,
)
from ..ndarray import NDArray

if TYPE_CHECKING:
    from ..optimizer import Optimizer

__all__ = ["KVStoreBase", "Key", "KeyKind", "capable", "check_arrays", "group", "priorities"]

Key = int | str
Keys = Key | Sequence[Key]
Values = Any  # an NDArray, a list of them (one key), or a list with one such entry a key
Updater = Callable[[Key, "NDArray", "NDArray"], None]
_Store = TypeVar("_Store", bound="KVStoreBase")


class KVStoreBase:
    """Numbers shared between devices and machines, each under an int or str key.

    A store of one's own derives from it, implements `broadcast` and `pushpull` (enough for a
    Trainer with ``update_on_kvstore=False``), and enters itself with ``@KVStoreBase.register``;
    ``kvstore.create("<its class name in lower case>")`` then makes one. What a store does not
    implement raises `NotForThisError`, which is a NotImplementedError.

    >>> @KVStoreBase.register
    ... class DocStore(KVStoreBase):
    ...     @staticmethod
    ...     def is_capable(capability: str) -> bool:
    ...         return False
    >>> kv = KVStoreBase.registry.create("docstore")
    >>> kv.type, kv.is_capable("optimizer")
    ('docstore', False)
    >>> del KVStoreBase.registry.entries["docstore"]
    """

    OPTIMIZER = "optimizer"
    BATCH = "batch"
    registry: Registry  # set below: it needs this class

    @staticmethod
    def register(cls: builtins.type[_Store]) -> builtins.type[_Store]:
        """Decorator: make the class known to ``create`` under its lower-case name."""
        return KVStoreBase.registry.register(cls)

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Whether the store can do something; answers on the class as on an instance.

        Args:
            capability: 'optimizer': it can run an optimizer on the stored values.
                'batch': one push, pull or pushpull of a list of keys is one exchange, so a
                Trainer hands over all keys of a step at once, with a list of priorities.
        """
        raise NotForThisError(f"KVStore: is_capable({capability!r}) is not implemented here")

    @property
    def type(self) -> str:
        """The name the store was made by."""
        return type(self).__name__.lower()

    @property
    def rank(self) -> int:
        """Number of this worker, 0 .. num_workers - 1."""
        return 0

    @property
    def num_workers(self) -> int:
        """How many workers share the values."""
        return 1

    def _lacks(self, what: str) -> NotForThisError:
        return NotForThisError(f"KVStore '{self.type}' has no {what}")

    # -- values ---------------------------------------------------------------------------------

    def init(self, key: Keys, value: Values) -> None:
        """Create `key` with its first value; with many workers the one of rank 0 counts."""
        raise self._lacks("init")

    def broadcast(self, key: Keys, value: Values, out: Values, priority: Any = 0) -> None:
        """`init` with rank 0's value, then fill `out` on every worker and device with it."""
        raise self._lacks("broadcast")

    def push(self, key: Keys, value: Values, priority: Any = 0) -> None:
        """Give gradients (or values): summed over devices and workers, then merged.

        The arrays may be changed at once after the call: their value at the call counts.

        Args:
            key: one key, or a list.
            value: an NDArray or one per device; with a list of keys, a list with such an entry
                for each key.
            priority: a hint, higher first; an int, or with a list of keys a list of ints.
        """
        raise self._lacks("push")

    def pull(
        self, key: Keys, out: Values = None, priority: Any = 0, ignore_sparse: bool = True
    ) -> None:
        """Write the stored value into every array of `out` (same nesting as in `push`).

        Returns at once where the store can; reading such an array waits for it.
        """
        raise self._lacks("pull")

    def pushpull(self, key: Keys, value: Values, out: Values = None, priority: Any = 0) -> None:
        """`push` and `pull` as one exchange; without `out` the sum goes into `value` itself."""
        raise self._lacks("pushpull")

    def row_sparse_pull(
        self, key: Keys, out: Values = None, priority: Any = 0, row_ids: Any = None
    ) -> None:
        """Fill row_sparse arrays with the rows asked for; all others of their rows are zero.

        Args:
            key: one key, or a list; its value is row_sparse.
            out: a row_sparse array or one per device; with a list of keys, a list with such an
                entry for each key.
            priority: a hint, as in `push`.
            row_ids: an NDArray of row numbers, in any order, shape and number type, for all of
                `out`, or one for each array; repeated numbers count once.
        """
        raise self._lacks("row_sparse_pull")

    # -- updates --------------------------------------------------------------------------------

    def set_optimizer(self, optimizer: Optimizer) -> None:
        """Let a push update the stored value by `optimizer` instead of replacing it."""
        raise self._lacks("set_optimizer: it cannot run an optimizer")

    def update_optimizer_settings(self, settings: dict[str, Any]) -> None:
        """Change settings of the optimizer handed over before; it keeps its states and counts.

        A Trainer calls it in each step before the push in which a setting differs from what it
        sent last, on rank 0 and on every other rank alike (a store may let rank 0 speak for
        all). Only a store whose optimizer lives elsewhere (on servers) has to act: in one
        process the Trainer and the store share the optimizer object.

        Args:
            settings: what differs, as JSON values: a subset of ``Optimizer.live_settings()``;
                the other side gives it to ``Optimizer.apply_settings(settings)``. The change
                holds for this worker's next push and all later ones.
        """
        if not capable(self, self.OPTIMIZER):
            raise self._lacks("optimizer whose settings could change")

    def set_updater(self, updater: Updater) -> None:
        """Run ``updater(key, merged gradient, stored value)`` at each push."""
        raise self._lacks("set_updater")

    def _set_updater(self, updater: Updater) -> None:
        self.set_updater(updater)

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Write the optimizer's states to file `fname`."""
        raise self._lacks("save_optimizer_states")

    def load_optimizer_states(self, fname: str) -> None:
        """Read the optimizer's states from file `fname`."""
        raise self._lacks("load_optimizer_states")

    def set_gradient_compression(self, compression_params: dict[str, Any]) -> None:
        """Send gradients in fewer bits."""
        raise self._lacks("gradient compression (not built yet)")

    # -- the group ------------------------------------------------------------------------------

    def barrier(self) -> None:
        """Wait until every worker is here; with one worker it is."""
        if self.num_workers > 1:
            raise self._lacks("barrier")

    def _barrier(self) -> None:
        self.barrier()

    def send_command_to_servers(self, head: int, body: str) -> None:
        """Send a command to all servers."""
        raise self._lacks("servers to send a command to")

    def _send_command_to_servers(self, head: int, body: str) -> None:
        self.send_command_to_servers(head, body)

    def num_dead_node(self, node_id: int, timeout: float = 60.0) -> int:
        """How many processes of a group are lost: none where there is one process."""
        return 0

    def leave(self) -> None:
        """This worker has run out of data: others go on without it; with one worker, nothing."""
        if self.num_workers > 1:
            raise self._lacks("way to count a worker out")

    def close(self) -> None:
        """Leave the group and free what the store holds; a store in one process holds nothing."""


KVStoreBase.registry = Registry("KVStore type", KVStoreBase)


def capable(store: Any, capability: str) -> bool:
    """Whether `store` says so; one that does not know the question cannot do it.

    >>> capable(KVStoreBase(), "batch")
    False
    """
    try:
        return bool(store.is_capable(capability))
    except (MXNetError, NotImplementedError):
        return False


class KeyKind:
    """A store uses int or str keys for its whole life, whichever comes first.

    >>> kind = KeyKind()
    >>> kind.check([3, 4])
    >>> kind.check(["w"])
    Traceback (most recent call last):
    minigluon.base.KVStoreError: KVStore: key 'w' is of type str, but this store uses int keys; \
keep to one kind
    """

    def __init__(self) -> None:
        self._kind: builtins.type[Any] | None = None

    def check(self, keys: Sequence[Key]) -> None:
        """Raise KVStoreError unless all `keys` are of the store's kind."""
        for key in keys:
            kind = str if isinstance(key, str) else int
            if self._kind is None:
                self._kind = kind
            elif kind is not self._kind:
                raise KVStoreError(
                    f"KVStore: key {key!r} is of type {kind.__name__}, but this store uses "
                    f"{self._kind.__name__} keys; keep to one kind"
                )

    def grouped(self, what: str, key: Keys, value: Any) -> dict[Key, list[NDArray]]:
        """Each key with its arrays, all of them checked; `what` names the call."""
        found = check_arrays(what, group(key, value))
        self.check(list(found))
        return found


def _is_key(key: Any) -> bool:
    return isinstance(key, str) or (hasattr(key, "__index__") and not isinstance(key, bool))


def _plain(key: Any) -> Key:
    return key if isinstance(key, str) else int(key)


def group(key: Keys, value: Values) -> dict[Key, list[NDArray]]:
    """The arrays of each key in the order given: what ``push(key, value)`` means.

    Accepted: one key with an array or a list of arrays; a list of keys with a list of equally
    many entries, each an array or a list of arrays (a key may come twice).

    >>> group("a", 1), group(3, [1, 2]), group([3, 4, 3], [1, [2, 3], 4])
    ({'a': [1]}, {3: [1, 2]}, {3: [1, 4], 4: [2, 3]})
    """
    if _is_key(key):
        return {_plain(key): list(value) if isinstance(value, (list, tuple)) else [value]}
    if not isinstance(key, (list, tuple)) or not all(map(_is_key, key)):
        raise ArgumentError(f"KVStore: expected an int or str key or a list of keys, got {key!r}")
    if not isinstance(value, (list, tuple)) or len(value) != len(key):
        got = f"{len(value)}" if isinstance(value, (list, tuple)) else type(value).__name__
        raise ArgumentValueError(
            f"KVStore: {len(key)} keys {list(key[:3])}... need a list of {len(key)} values, "
            f"got {got}"
        )
    grouped: dict[Key, list[NDArray]] = {}
    for one, arrays in zip(key, value, strict=True):
        place = grouped.setdefault(_plain(one), [])
        place.extend(arrays if isinstance(arrays, (list, tuple)) else [arrays])
    return grouped


def check_arrays(what: str, grouped: dict[Key, list[NDArray]]) -> dict[Key, list[NDArray]]:
    """`grouped` itself, if every key has arrays and nothing else; `what` names the call.

    >>> check_arrays("push", group("a", 1))
    Traceback (most recent call last):
    minigluon.base.ArgumentError: push of key 'a': expected an NDArray or a list of them, got 1; \
wrap NumPy arrays and numbers with nd.array()
    """
    for key, arrays in grouped.items():
        if not arrays:
            raise ArgumentValueError(f"{what} of key {key!r}: expected an NDArray or a list of "
                                     "them, got an empty list")
        for array in arrays:
            if not isinstance(array, NDArray):
                raise ArgumentError(
                    f"{what} of key {key!r}: expected an NDArray or a list of them, got "
                    f"{array!r}; wrap NumPy arrays and numbers with nd.array()"
                )
    return grouped


def priorities(key: Keys, priority: Any) -> dict[Key, int]:
    """The priority of each key, from one number or a list beside a list of keys.

    >>> priorities(["a", "b"], [0, -1]), priorities(5, 2)
    ({'a': 0, 'b': -1}, {5: 2})
    """
    keys: list[Any] = [key] if _is_key(key) else list(key)  # type: ignore[arg-type]
    if not isinstance(priority, (list, tuple)):
        return {_plain(one): int(priority) for one in keys}
    if len(priority) != len(keys):
        raise KVStoreError(f"KVStore: {len(keys)} keys but {len(priority)} priorities")
    return {_plain(one): int(rank) for one, rank in zip(keys, priority, strict=True)}
