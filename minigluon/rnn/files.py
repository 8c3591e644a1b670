"""Checkpoints of networks with recurrent cells: in files each gate has arrays of its own."""
from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..checkpoint import load_checkpoint, save_checkpoint
from ..ndarray import NDArray
from ..symbol import Symbol
from .cell import BaseRNNCell

__all__ = ["do_rnn_checkpoint", "load_rnn_checkpoint", "rnn_unroll", "save_rnn_checkpoint"]

Cells = BaseRNNCell | Sequence[BaseRNNCell]


def _each(cells: Cells) -> list[BaseRNNCell]:
    return [cells] if isinstance(cells, BaseRNNCell) else list(cells)


def rnn_unroll(cell: BaseRNNCell, length: int, inputs: Any = None, begin_state: Any = None,
               input_prefix: str = "", layout: str = "NTC") -> tuple[Any, list[Symbol]]:
    """The same as ``cell.unroll``, which is to be preferred."""
    warnings.warn("rnn_unroll is deprecated. Please call cell.unroll directly.",
                  DeprecationWarning, stacklevel=2)
    return cell.unroll(length, inputs, begin_state, layout)


def save_rnn_checkpoint(cells: Cells, prefix: str, epoch: int, symbol: Symbol,
                        arg_params: Mapping[str, NDArray], aux_params: Mapping[str, NDArray]
                        ) -> None:
    """``save_checkpoint`` with the weights of `cells` unpacked, so that other cells can load them.
    """
    args = dict(arg_params)
    for cell in _each(cells):
        args = cell.unpack_weights(args)
    save_checkpoint(prefix, epoch, symbol, args, aux_params)


def load_rnn_checkpoint(cells: Cells, prefix: str, epoch: int
                        ) -> tuple[Symbol, dict[str, NDArray], dict[str, NDArray]]:
    """(symbol, arg_params, aux_params), the weights packed for `cells`."""
    symbol, args, aux = load_checkpoint(prefix, epoch)
    for cell in _each(cells):
        args = cell.pack_weights(args)
    return symbol, args, aux


def do_rnn_checkpoint(cells: Cells, prefix: str, period: int = 1) -> Callable[..., None]:
    """An epoch_end_callback that writes such a checkpoint every `period` epochs."""
    period = max(1, int(period))

    def callback(iter_no: int, sym: Symbol, arg: Mapping[str, NDArray],
                 aux: Mapping[str, NDArray]) -> None:
        if (iter_no + 1) % period == 0:
            save_rnn_checkpoint(cells, prefix, iter_no + 1, sym, arg, aux)

    return callback
