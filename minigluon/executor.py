"""MXNet's place for the Executor; ``symbol`` makes it."""
from __future__ import annotations

from .symbol import Executor

__all__ = ["Executor"]
