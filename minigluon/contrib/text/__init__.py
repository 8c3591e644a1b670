"""Texts as numbers: counting words (`utils`), numbering them (`vocab`), vectors (`embedding`)."""
from __future__ import annotations

from . import embedding, utils, vocab

__all__ = ["embedding", "utils", "vocab"]
