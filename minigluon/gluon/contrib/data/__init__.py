"""A sampler and text datasets that Gluon keeps apart."""
from __future__ import annotations

from . import sampler, text
from .sampler import IntervalSampler

__all__ = ["IntervalSampler", "sampler", "text"]
