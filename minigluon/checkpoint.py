"""A symbol and its parameters in two files: ``PREFIX-symbol.json`` and ``PREFIX-0001.params``."""
from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

from . import ndarray as nd
from . import symbol as sym
from .base import ArgumentValueError
from .ndarray import NDArray
from .symbol import Symbol

__all__ = ["BatchEndParam", "join_params", "load_checkpoint", "load_params", "params_path",
           "save_checkpoint", "split_params"]

Params = dict[str, NDArray]


class BatchEndParam(NamedTuple):
    """What a callback at the end of a batch is told."""

    epoch: int
    nbatch: int
    eval_metric: Any
    locals: dict[str, Any] | None


def params_path(prefix: str, epoch: int) -> str:
    """The file of the parameters after `epoch` epochs.

    >>> params_path("net", 7)
    'net-0007.params'
    """
    return f"{prefix}-{epoch:04d}.params"


def join_params(arg_params: Mapping[str, NDArray] | None, aux_params: Mapping[str, NDArray] | None
                ) -> Params:
    """Both kinds in one dict, as files keep them: ``arg:NAME`` and ``aux:NAME``."""
    joined = {f"arg:{name}": array for name, array in (arg_params or {}).items()}
    joined.update({f"aux:{name}": array for name, array in (aux_params or {}).items()})
    return joined


def split_params(joined: Mapping[str, NDArray], where: str) -> tuple[Params, Params]:
    """The two dicts that `join_params` made one of; `where` names the file in errors."""
    kinds: dict[str, Params] = {"arg": {}, "aux": {}}
    for key, array in joined.items():
        kind, _, name = key.partition(":")
        if kind not in kinds or not name:
            raise ArgumentValueError(f"{where}: expected names like 'arg:fc_weight' or "
                                     f"'aux:bn_moving_mean', got {key!r}")
        kinds[kind][name] = array
    return kinds["arg"], kinds["aux"]


def save_checkpoint(prefix: str, epoch: int, symbol: Symbol | None,
                    arg_params: Mapping[str, NDArray], aux_params: Mapping[str, NDArray],
                    remove_amp_cast: bool = True) -> None:
    """Write ``PREFIX-symbol.json`` (if there is a symbol) and ``PREFIX-EPOCH.params``.

    Args:
        prefix: path before the endings. epoch: number in the name of the parameter file.
        symbol: the network, or None.
        arg_params, aux_params: arrays by name.
        remove_amp_cast: leave out the casts that mixed precision put in.
    """
    if symbol is not None:
        symbol.save(f"{prefix}-symbol.json", remove_amp_cast)
    path = params_path(prefix, epoch)
    nd.save(path, join_params(arg_params, aux_params))
    logging.info('Saved checkpoint to "%s"', path)


def load_params(prefix: str, epoch: int) -> tuple[Params, Params]:
    """(arg_params, aux_params) of a checkpoint, MXNet's or minigluon's."""
    path = params_path(prefix, epoch)
    loaded = nd.load(path)
    if not isinstance(loaded, dict):
        raise ArgumentValueError(f"{path}: expected arrays with names, got a list of arrays")
    return split_params(loaded, path)


def load_checkpoint(prefix: str, epoch: int) -> tuple[Symbol, Params, Params]:
    """(symbol, arg_params, aux_params) of a checkpoint, MXNet's or minigluon's.

    >>> import tempfile, minigluon as mx
    >>> net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, no_bias=True, name="fc")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mx.model.save_checkpoint(folder + "/net", 3, net, {"fc_weight": mx.nd.ones((2, 4))}, {})
    ...     loaded, args, aux = mx.model.load_checkpoint(folder + "/net", 3)
    >>> loaded.list_arguments(), args["fc_weight"].shape, aux
    (['data', 'fc_weight'], (2, 4), {})
    """
    arg_params, aux_params = load_params(prefix, epoch)
    return sym.load(f"{prefix}-symbol.json"), arg_params, aux_params
