"""Recurrent cells as symbols, for networks trained by Module (``gluon.rnn`` has them as blocks)."""
from .cell import BaseRNNCell, GRUCell, LSTMCell, RNNCell, RNNParams
from .compose import BidirectionalCell, DropoutCell, SequentialRNNCell
from .conv import BaseConvRNNCell, ConvGRUCell, ConvLSTMCell, ConvRNNCell
from .files import do_rnn_checkpoint, load_rnn_checkpoint, rnn_unroll, save_rnn_checkpoint
from .fused import FusedRNNCell
from .modifier import ModifierCell, ResidualCell, ZoneoutCell
from .sentences import BucketSentenceIter, encode_sentences

__all__ = [
    "BaseConvRNNCell", "BaseRNNCell", "BidirectionalCell", "BucketSentenceIter", "ConvGRUCell",
    "ConvLSTMCell", "ConvRNNCell", "DropoutCell", "FusedRNNCell",
    "GRUCell", "LSTMCell", "ModifierCell", "RNNCell", "RNNParams", "ResidualCell",
    "SequentialRNNCell", "ZoneoutCell", "do_rnn_checkpoint", "encode_sentences",
    "load_rnn_checkpoint", "rnn_unroll", "save_rnn_checkpoint",
]
