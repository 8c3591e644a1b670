"""Which KVStore a Trainer's wishes mean, who runs the optimizer, and what a new store is given."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import kvstore as kvs
from .. import optimizer as opt
from ..base import ArgumentValueError, env_bool
from ..kvstore.api import capable

__all__ = ["keep_states", "make_store", "put_values", "updates_there"]


def make_store(wish: Any, update: bool | None, params: Sequence[Any], contexts: int) -> Any:
    """The store that is wished for; None where there is none, or none is needed.

    Args:
        wish: name, KVStoreBase or None.
        update: the wish for the optimizer to run in it.
        params: the Parameters. contexts: how many each of them is on.
    """
    if wish is None or wish == "":
        if update:
            raise ArgumentValueError("Trainer: update_on_kvstore=True needs a kvstore")
        return None
    if isinstance(wish, kvs.KVStoreBase):
        return wish
    if not isinstance(wish, str):
        raise ArgumentValueError(f"Trainer: kvstore must be a name or KVStore, got {wish!r}")
    kvs.check_name(wish)
    alone = contexts == 1 and "dist" not in wish
    sparse = any(param._stype != "default" for param in params)
    registered = wish.lower() in kvs.KVStoreBase.registry.entries
    if alone and not sparse and not update and not registered:
        return None
    return kvs.create(wish)


def updates_there(store: Any, wish: bool | None, params: Sequence[Any]) -> bool:
    """Whether the optimizer runs in the store; ValueError for a wish that cannot be met."""
    can = capable(store, kvs.KVStoreBase.OPTIMIZER)
    if wish and not can:
        raise ArgumentValueError(
            f"Trainer: update_on_kvstore=True, but KVStore '{store.type}' cannot run an "
            "optimizer; use update_on_kvstore=False"
        )
    must = _must_update_there(store, params)
    if must and wish is False:
        raise ArgumentValueError(
            f"Trainer: update_on_kvstore=False cannot be honoured on KVStore '{store.type}' "
            f"with {must}; leave it out or set it to True"
        )
    if wish is not None:
        return bool(wish)
    if must:
        return True
    if any(param._grad_stype != "default" for param in params):
        return False
    return can and env_bool("MXNET_UPDATE_ON_KVSTORE", True)


def _must_update_there(store: Any, params: Sequence[Any]) -> str:
    """Why only the store can run the optimizer; empty if the Trainer can as well."""
    if any(param._stype != "default" for param in params):
        return "row_sparse weights"
    if "dist" in store.type and any(param._grad_stype != "default" for param in params):
        return "row_sparse gradients"
    return "asynchronous training" if "async" in store.type else ""


def keep_states(store: Any, updater: opt.Updater) -> None:
    """Go on with states that an earlier store had (parameters were loaded in between)."""
    there = getattr(store, "_updater", None)
    if isinstance(there, opt.Updater) and updater.states:
        there.states = updater.states


def put_values(store: Any, params: Sequence[tuple[int, Any]]) -> None:
    """Put the values of (key, Parameter) into the store, and what it has then into them."""
    for key, param in params:
        if param._stype != "default":  # its rows are fetched when they are needed
            store.init(key, param._arrays()[0])
    copies = [(key, param.list_data()) for key, param in params if param._stype == "default"]
    if copies and capable(store, kvs.KVStoreBase.BATCH):
        keys, arrays = [key for key, _ in copies], [each for _, each in copies]
        store.broadcast(keys, [each[0] for each in arrays], arrays)
    else:
        for key, each in copies:
            store.broadcast(key, each[0], each)
