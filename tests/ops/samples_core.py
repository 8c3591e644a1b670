"""Samples of the core operator families (elementwise, broadcast, reduce, shape, index, ...)."""
from __future__ import annotations

from sample import Sample

SAMPLES: dict[str, list[Sample]] = {}
