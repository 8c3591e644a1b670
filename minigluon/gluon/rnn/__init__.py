"""Recurrent networks: cells, which do one step, and layers, which do whole sequences in one call.

==============  ==================================================================================
cell            RecurrentCell, HybridRecurrentCell; RNNCell, LSTMCell, GRUCell
compose         SequentialRNNCell, HybridSequentialRNNCell, BidirectionalCell, DropoutCell
modifier        cells around a cell: ModifierCell, ZoneoutCell, ResidualCell
rnn_layer       RNN, LSTM, GRU
sequence        sequences as lists of steps or as one array, and masks over their padding
==============  ==================================================================================
"""
from __future__ import annotations

from . import rnn_cell, rnn_layer
from .cell import GRUCell, HybridRecurrentCell, LSTMCell, RecurrentCell, RNNCell
from .compose import BidirectionalCell, DropoutCell, HybridSequentialRNNCell, SequentialRNNCell
from .modifier import ModifierCell, ResidualCell, ZoneoutCell
from .rnn_layer import GRU, LSTM, RNN

__all__ = [
    "GRU", "LSTM", "RNN", "BidirectionalCell", "DropoutCell", "GRUCell", "HybridRecurrentCell",
    "HybridSequentialRNNCell", "LSTMCell", "ModifierCell", "RNNCell", "RecurrentCell",
    "ResidualCell", "SequentialRNNCell", "ZoneoutCell", "rnn_cell", "rnn_layer",
]
