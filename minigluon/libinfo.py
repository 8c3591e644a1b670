"""Where the compiled core is."""
from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from .base import NotForThisError

__all__ = ["find_include_path", "find_lib_path"]


def find_lib_path(prefix: str = "_core") -> list[str]:
    """The compiled modules of this package; an empty list where it runs as plain Python."""
    return sorted(str(path) for path in Path(__file__).parent.glob(f"{prefix}*.so"))


def find_include_path() -> NoReturn:
    """The folder of C headers, of which there is none."""
    raise NotForThisError("find_include_path: minigluon has no C interface; write an operator in "
                          "Python (mx.operator.CustomOp), or build against minigluon's src/")
