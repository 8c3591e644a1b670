"""Cells beyond those of ``gluon.rnn``: LSTMPCell, VariationalDropoutCell."""
from __future__ import annotations

from .rnn_cell import LSTMPCell, VariationalDropoutCell

__all__ = ["LSTMPCell", "VariationalDropoutCell"]
