"""Samples of the core operator families (elementwise, broadcast, reduce, shape, index, ...)."""
from __future__ import annotations

from sample import Sample
from samples_array import ARRAY
from samples_math import MATH

SAMPLES: dict[str, list[Sample]] = {**MATH, **ARRAY}
