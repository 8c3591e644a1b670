"""Libraries of operators in C++, which MXNet loads at run time and minigluon does not."""
from __future__ import annotations

from typing import NoReturn

from .base import NotForThisError

__all__ = ["load"]


def load(path: str, verbose: bool = True) -> NoReturn:
    """Load a library made for MXNet: not built."""
    raise NotForThisError(f"library.load('{path}'): libraries with MXNet's C interface cannot be "
                          "loaded; write the operator in Python (mx.operator.CustomOp)")
