"""The cells under the name of MXNet's module: ``gluon.rnn.rnn_cell.LSTMCell``."""
from __future__ import annotations

from .cell import GRUCell, HybridRecurrentCell, LSTMCell, RecurrentCell, RNNCell
from .compose import BidirectionalCell, DropoutCell, HybridSequentialRNNCell, SequentialRNNCell
from .modifier import ModifierCell, ResidualCell, ZoneoutCell

__all__ = [
    "BidirectionalCell", "DropoutCell", "GRUCell", "HybridRecurrentCell",
    "HybridSequentialRNNCell", "LSTMCell", "ModifierCell", "RNNCell", "RecurrentCell",
    "ResidualCell", "SequentialRNNCell", "ZoneoutCell",
]
