"""Texts as numbers: counting words (`utils`) and numbering them (`vocab`)."""
from __future__ import annotations

from typing import NoReturn

from . import utils, vocab

__all__ = ["utils", "vocab"]


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"module '{__name__}' has no attribute '{name}': utils and vocab are "
                         "built, pretrained word vectors (embedding) are not")
