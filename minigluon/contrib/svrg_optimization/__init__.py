"""Stochastic variance-reduced gradients for Module (R. Johnson, T. Zhang, NIPS 2013)."""
from __future__ import annotations

from . import svrg_module

__all__ = ["svrg_module"]
